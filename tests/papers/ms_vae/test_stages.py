"""Recipes that train without a study: kept once made, and judged rightly."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unweave.cli.reproduce as command
from unweave.errors import UnknownNameError
from unweave.papers import RecipeError, find
from unweave.papers.ms_vae import flow, pendulum
from unweave.papers.recipe import SCALES, Recipe
from unweave.papers.running import compare, kept_table, make

PENDULUM, FLOW = find("ms-vae/figures-15-16"), find("ms-vae/figures-18-20")
SHORT = {"epochs": [1, 1, 1], "seed": 0, "device": "cpu"}
TINY = {
    "data": "small digits",
    "images": 1000,
    "width": 4,
    "batch": 500,
    "epochs": 2,
    "seed": 0,
}


def counting(value=1.0):
    """A recipe whose table says how often it was made."""
    calls = []

    def count(times):
        calls.append(times)
        return pd.DataFrame({"made": [len(calls)], "value": [value * times]})

    recipe = Recipe(
        name="ms-vae/counted",
        title="Counted",
        where="nowhere",
        claim="It is made once.",
        published=lambda: pd.DataFrame({"what": ["value"], "published": [3.0]}),
        settings={"smoke": {"times": 3}, "hour": {"times": 4}, "paper": {"times": 5}},
        make=count,
        obtain=lambda table: pd.DataFrame(
            {"what": ["value"], "published": [3.0], "obtained": table["value"]}
        ),
    )
    return recipe, calls


def test_a_table_is_made_once_for_each_scale_and_settings(tmp_path):
    recipe, calls = counting()
    assert kept_table(recipe, "smoke", tmp_path) is None
    for _ in range(2):
        table = make(recipe, "smoke", tmp_path)
        assert table["value"].tolist() == [3.0]
    assert calls == [3]
    assert make(recipe, "hour", tmp_path)["value"].tolist() == [4.0]
    assert make(recipe, "smoke", tmp_path)["made"].tolist() == [1]
    other = replace(recipe, settings={"smoke": {"times": 7}})
    assert make(other, "smoke", tmp_path)["value"].tolist() == [7.0]
    assert calls == [3, 4, 7]
    found = compare(recipe, make(recipe, "hour", tmp_path), tmp_path)
    assert found.frame["obtained"].tolist() == [4.0]
    names = {"counted-smoke.parquet", "counted-hour.parquet", "counted.csv"}
    assert {file.name for file in tmp_path.iterdir()} == names


def test_a_broken_file_and_an_unknown_scale_are_refused(tmp_path):
    recipe, _ = counting()
    (tmp_path / "counted-smoke.parquet").write_bytes(b"no table")
    with pytest.raises(RecipeError, match=r"counted-smoke\.parquet cannot be read; remove it"):
        make(recipe, "smoke", tmp_path)
    with pytest.raises(UnknownNameError, match="no scale is called 'huge'"):
        make(recipe, "huge", tmp_path)
    with pytest.raises(RecipeError, match="trains nothing of its own"):
        make(find("ms-vae/tables-2-3"), "smoke", tmp_path)


@pytest.mark.parametrize("recipe", [PENDULUM, FLOW], ids=lambda recipe: recipe.slug)
def test_every_scale_has_settings_that_can_be_kept(recipe):
    assert set(recipe.settings) == set(SCALES)
    for scale in SCALES:
        values = recipe.settings_at(scale).values()
        assert all(isinstance(value, str | int | list) for value in values)


def test_the_pendulum_from_beginning_to_end(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(PENDULUM.settings, "hour", SHORT)
    monkeypatch.setattr(command, "_has_gpu", lambda: False)  # which it does not ask for
    name = PENDULUM.name
    command.Reproduce(name=name, scale="hour", out=tmp_path, plan=True).run()
    assert "epochs: [1, 1, 1]" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    command.Reproduce(name=name, scale="hour", out=tmp_path).run()
    said = capsys.readouterr().out
    for part in ("z at mass 0.1", "-44.47", "published", "obtained", "Scale hour"):
        assert part in said
    assert "trained already" not in said
    frame = pd.read_csv(tmp_path / "figures-15-16.csv").set_index("quantity")
    assert frame.loc["loss", "published"] == -44.47
    assert frame["obtained"].notna().all()
    assert "<svg" in (tmp_path / "figures-15-16.svg").read_text()[:2000]

    import unweave.papers.ms_vae.experiments.pendulum as stages

    monkeypatch.setattr(stages, "train", lambda *_: pytest.fail("it was trained twice"))
    command.Reproduce(name=name, scale="hour", out=tmp_path).run()
    again = capsys.readouterr().out
    assert "This is trained already." in again
    assert again.partition("obtained")[2] == said.partition("obtained")[2]


def test_the_flow_from_beginning_to_end(capsys, monkeypatch, tmp_path):
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


def test_a_scale_that_is_the_papers_is_not_called_less(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(PENDULUM.settings, "paper", SHORT)
    monkeypatch.setitem(PENDULUM.settings, "hour", SHORT)
    command.Reproduce(name=PENDULUM.name, scale="hour", out=tmp_path).run()
    assert "Scale hour" not in capsys.readouterr().out


def test_a_gpu_is_asked_for_and_no_cluster(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_has_gpu", lambda: False)
    with pytest.raises(RecipeError, match="meant for a GPU, and there is none here"):
        command.Reproduce(name=FLOW.name, scale="hour", out=tmp_path).run()
    with pytest.raises(RecipeError, match="trains here only; leave out --on"):
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
    """What the verdict counts."""
    return re.findall(r"holds for (\d+ of \d+ [a-z ]+)", " ".join(recipe.verdict(frame)))


def test_a_flow_the_other_way_round():
    frame = flow.obtain(flow_table("mnist", -1700.0, -10.0, samples=5.0))
    assert counted(FLOW, frame) == ["0 of 1 mixtures", "0 of 2 sets of images", "0 of 1 trainings"]


def test_digits_stand_in_for_mnist():
    frame = flow.obtain(flow_table("small digits", -1700.0, 10.0, samples=-5.0))
    assert FLOW.verdict(frame)[0] == "small digits stands in for mnist."
    assert counted(FLOW, frame) == ["2 of 2 sets of images", "1 of 1 trainings"]


def pendulum_table(**changed):
    found = {
        "loss": -44.4,
        "nll": -46.1,
        "kl": 1.7,
        "floor": -46.74,
        "pearson": 0.976,
        "spearman": 0.991,
        "rmse_before": 0.154,
        "rmse_after": 0.022,
        "length": 0.99,
        "damping": 0.98,
        "z": 0.97,
    } | changed
    rows = {"z at mass 0.1": -1.4, "z at mass 1.5": 0.5, "z at mass 2.0": 1.4}
    rows |= {pendulum.SCORES[name]: value for name, value in found.items()}
    return pd.DataFrame(rows.items(), columns=["quantity", "value"]).assign(kind="score")


def test_a_pendulum_as_published():
    frame = pendulum.obtain(pendulum_table())
    rows = frame.set_index("quantity")
    assert rows["published"].dropna().to_dict() == {
        "z at mass 0.1": -1.5,
        "z at mass 1.5": 0.52,
        "z at mass 2.0": 1.44,
        "loss": -44.47,
        "negative log-likelihood": -46.4,
        "KL divergence": 1.72,
    }
    assert rows.loc["z at mass 2.0", "obtained"] == 1.4
    assert counted(PENDULUM, frame) == [
        "1 of 1 correlations",
        "1 of 1 correlations",
        "1 of 1 errors",
        "1 of 1 numbers",
        "2 of 2 traversals",
    ]


def test_a_pendulum_whose_z_says_nothing():
    changed = {"pearson": 0.3, "rmse_after": 0.15, "nll": -40.0, "damping": 0.2}
    frame = pendulum.obtain(pendulum_table(**changed))
    assert counted(PENDULUM, frame) == [
        "0 of 1 correlations",
        "1 of 1 correlations",
        "0 of 1 errors",
        "0 of 1 numbers",
        "1 of 2 traversals",
    ]
