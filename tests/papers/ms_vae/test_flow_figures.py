"""The recipe of the flow."""

import re

import numpy as np
import pandas as pd
import pytest

import unweave.cli.reproduce as command
from tests.raising import about
from unweave.papers import RecipeError, find
from unweave.papers.ms_vae import flow_figures as flow

FLOW = find("ms-vae/figures-18-20")
TINY = {
    "data": "small digits",
    "images": 1000,
    "width": 4,
    "batch": 500,
    "epochs": 2,
    "seed": 0,
}


def test_the_full_flow_recipe(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(FLOW.settings, "smoke", TINY)
    command.Reproduce(name=FLOW.name, out=tmp_path).run()
    said = capsys.readouterr().out
    assert "small digits stands in for mnist." in said
    assert "-1585.086" in said
    frame = pd.read_csv(tmp_path / "figures-18-20.csv").set_index("model")
    assert frame["obtained"].notna().all()
    assert f"{frame.loc['mixture of 10 normals', 'obtained']:.1f}" in said
    table = pd.read_parquet(tmp_path / "figures-18-20-smoke.parquet")
    pictures = table[table["kind"] == "picture"].set_index("model")["picture"]
    assert [len(picture) for picture in pictures] == [8 * 28 * 28] * 3
    assert "<svg" in (tmp_path / "figures-18-20.svg").read_text()[:2000]


def test_small_digits_are_those_of_scikit_learn_enlarged():
    from sklearn.datasets import load_digits

    images = flow._small_digits().reshape(-1, 28, 28).astype(float)
    small = images[:, 1:-1, 1:-1].reshape(-1, 26, 26)
    assert images.shape == (1797, 28, 28)
    assert 250 <= small.max() <= 255
    means = np.corrcoef(images.mean((1, 2)), load_digits().images.mean((1, 2)))
    assert means[0, 1] > 0.99


def test_a_gpu_is_used_without_a_cluster(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_has_gpu", lambda: False)
    with pytest.raises(RecipeError, check=about("scale", "hour")):
        command.Reproduce(name=FLOW.name, scale="hour", out=tmp_path).run()
    with pytest.raises(RecipeError, check=about("on")):
        command.Reproduce(name=FLOW.name, out=tmp_path, on="ray").run()


def flow_table(data, mixture, gain, samples):
    scores = [
        (model, images, mixture + more - 2 * (images == "held out"))
        for images in ("training", "held out")
        for model, more in (
            (flow.MIXTURE, 0),
            (flow.FLOW, gain),
            (flow.BOUND, gain - 2.3),
            (flow.SAMPLES, gain + samples),
        )
    ]
    history = pd.DataFrame({"step": [60, 120], "training": [1.0, 2], "held_out": [0.0, 1]})
    both = [
        history.assign(condition="means"),
        history.add([0, samples, samples]).assign(condition="samples"),
    ]
    parts = [
        pd.DataFrame(scores, columns=["model", "images", "value"]).assign(kind="score"),
        pd.concat(both).assign(kind="history"),
    ]
    return pd.concat(parts, ignore_index=True).assign(data=data)


def test_a_flow_as_published():
    frame = flow.obtain(flow_table("mnist", -1588.0, 230.0, samples=-5.0))
    rows = frame.set_index("model")
    assert rows["published"].dropna().tolist() == [-1585.086, -1356.089]
    assert rows.loc[flow.FLOW, "obtained"] == -1358
    assert rows.loc[flow.FLOW, "held_out"] == -1360
    assert counted(FLOW, frame) == ["1 of 1 mixtures", "2 of 2 sets of images", "1 of 1 trainings"]


def counted(recipe, frame):
    """Counts in the verdict."""
    return re.findall(r"holds for (\d+ of \d+ [a-z ]+)", " ".join(recipe.verdict(frame)))


def test_a_flow_with_opposite_results():
    frame = flow.obtain(flow_table("mnist", -1700.0, -10.0, samples=5.0))
    assert counted(FLOW, frame) == ["0 of 1 mixtures", "0 of 2 sets of images", "0 of 1 trainings"]


def test_digits_replace_mnist():
    frame = flow.obtain(flow_table("small digits", -1700.0, 10.0, samples=-5.0))
    assert FLOW.verdict(frame)[0] == "small digits stands in for mnist."
    assert counted(FLOW, frame) == ["2 of 2 sets of images", "1 of 1 trainings"]
