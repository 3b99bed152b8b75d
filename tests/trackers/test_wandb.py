"""Offline runs of Weights & Biases, read from the files that `wandb sync` uploads."""

import json

import pytest
import wandb
from wandb.proto.wandb_internal_pb2 import Record

from tests.trackers.fleets import BETAS, FIRST, SECOND
from unweave.trackers import WandB

BLOCK, HEADER, RECORD = 32_768, 7, 7
FULL, LAST = 1, 4


def records(path):
    """The records of a run's file, which has the format of LevelDB's log."""
    content, at, parts = path.read_bytes(), HEADER, b""
    assert content[:4] == b":W&B"
    while at < len(content):
        if BLOCK - at % BLOCK < RECORD:
            at += BLOCK - at % BLOCK
            continue
        size, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        parts += content[at + RECORD : at + RECORD + size]
        at += RECORD + size
        if kind in (FULL, LAST):
            yield Record.FromString(parts)
            parts = b""


def content(folder):
    """The metrics, settings, project and exit code of the only run in a folder."""
    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    points, settings, run, code = {}, {}, None, None
    for record in records(path):
        kind = record.WhichOneof("record_type")
        if kind == "history":
            row = {
                item.key or "/".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item
            }
            for name, value in row.items():
                if "/" in name:
                    points.setdefault(name, []).append((row["step"], value))
        elif kind == "config":
            for update in record.config.update:
                settings[update.key or update.nested_key[0]] = json.loads(update.value_json)
        elif kind == "run":
            run = record.run
        elif kind == "exit":
            code = record.exit.exit_code
    return points, settings, run, code


@pytest.mark.parametrize("result", ["trained", None])
def test_an_offline_run_has_the_values_and_settings_of_all_models(track, tmp_path, result):
    options = {"mode": "offline", "dir": tmp_path, "settings": wandb.Settings(silent=True)}
    expected = track(WandB("sprites", name="one", **options), result)
    wandb.teardown()  # waits until the file is complete
    points, settings, run, code = content(tmp_path)
    assert points == {
        f"{name}/{series}": values
        for series, named in expected.items()
        for name, values in named.items()
    }
    assert settings[FIRST[2]] == {
        "run": BETAS[2].hash,
        "method": "beta_vae",
        "seed": BETAS[2].seed,
        "beta": 4.0,
    }
    assert {*FIRST, *SECOND} <= set(settings)
    assert (run.project, run.display_name) == ("sprites", "one")
    assert code == (1 if result is None else 0)
