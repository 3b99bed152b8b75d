"""The example for Hydra on the page about sweeps runs as it is printed there."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd

PAGE = Path(__file__).parents[2] / "docs" / "sweeps.md"


def test_hydra_trains_what_the_config_says(tmp_path):
    files = re.findall(r'```\w+ title="(\S+)"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert [name for name, _ in files] == ["conf/config.yaml", "train.py"]
    for name, text in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    quick = ["train.seeds=1", "train.batch=4", "+train.architecture=small_mlp"]
    sweep = ["--multirun", "method.beta=[1,4,16]", "train.steps=2,3", "hydra.sweep.dir=out"]
    command = [sys.executable, "-W", "error", "train.py", *sweep, *quick]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for job in ("0", "1"):
        folder = tmp_path / "out" / job
        assert len(list(folder.glob("runs/*/weights.safetensors"))) == 3
        assert len(pd.read_csv(folder / "ranking.csv")) == 3
