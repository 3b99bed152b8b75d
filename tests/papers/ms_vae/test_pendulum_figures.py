"""The recipe of the pendulum, and caching of recipes that train without a study."""

import re
from dataclasses import replace

import pandas as pd
import pytest

import unweave.cli.reproduce as command
from tests.raising import about
from unweave.errors import UnknownNameError
from unweave.papers import RecipeError, find
from unweave.papers.ms_vae import pendulum_figures as pendulum
from unweave.papers.recipe import SCALES, Recipe
from unweave.papers.running import compare, kept_table, make

PENDULUM, FLOW = find("ms-vae/figures-15-16"), find("ms-vae/figures-18-20")
SHORT = {"epochs": [1, 1, 1], "seed": 0, "device": "cpu"}


def counting(value=1.0):
    """A recipe whose table counts how often it was computed."""
    calls = []

    def count(times):
        calls.append(times)
        return pd.DataFrame({"made": [len(calls)], "value": [value * times]})

    recipe = Recipe(
        name="ms-vae/counted",
        title="Counted",
        where="nowhere",
        claim="It is made once.",
        settings={"smoke": {"times": 3}, "hour": {"times": 4}, "paper": {"times": 5}},
        code={
            "published": lambda: pd.DataFrame({"what": ["value"], "published": [3.0]}),
            "make": count,
            "obtain": lambda table: pd.DataFrame(
                {"what": ["value"], "published": [3.0], "obtained": table["value"]}
            ),
        },
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


def test_a_broken_file_and_an_unknown_scale_are_rejected(tmp_path):
    recipe, _ = counting()
    (tmp_path / "counted-smoke.parquet").write_bytes(b"no table")
    with pytest.raises(RecipeError, match=r"counted-smoke\.parquet"):
        make(recipe, "smoke", tmp_path)
    with pytest.raises(UnknownNameError, check=about("scale", "huge")):
        make(recipe, "huge", tmp_path)
    with pytest.raises(RecipeError, check=about("ms-vae/tables-2-3")):
        make(find("ms-vae/tables-2-3"), "smoke", tmp_path)


@pytest.mark.parametrize("recipe", [PENDULUM, FLOW], ids=lambda recipe: recipe.slug)
def test_every_scale_has_settings_that_can_be_saved(recipe):
    assert set(recipe.settings) == set(SCALES)
    for scale in SCALES:
        values = recipe.settings_at(scale).values()
        assert all(isinstance(value, str | int | list) for value in values)


def test_the_full_pendulum_recipe(capsys, monkeypatch, tmp_path):
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
    assert "Already trained." not in said
    frame = pd.read_csv(tmp_path / "figures-15-16.csv").set_index("quantity")
    assert frame.loc["loss", "published"] == -44.47
    assert frame["obtained"].notna().all()
    assert "<svg" in (tmp_path / "figures-15-16.svg").read_text()[:2000]

    import unweave.papers.ms_vae.pendulum as stages

    monkeypatch.setattr(stages, "train", lambda *_: pytest.fail("it was trained twice"))
    command.Reproduce(name=name, scale="hour", out=tmp_path).run()
    again = capsys.readouterr().out
    assert "Already trained." in again
    assert again.partition("obtained")[2] == said.partition("obtained")[2]


def test_the_scale_of_the_paper_has_no_warning(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(PENDULUM.settings, "paper", SHORT)
    monkeypatch.setitem(PENDULUM.settings, "hour", SHORT)
    command.Reproduce(name=PENDULUM.name, scale="hour", out=tmp_path).run()
    assert "Scale hour" not in capsys.readouterr().out


def counted(recipe, frame):
    """Counts in the verdict."""
    return re.findall(r"holds for (\d+ of \d+ [a-z ]+)", " ".join(recipe.verdict(frame)))


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


def test_a_pendulum_with_an_uninformative_z():
    changed = {"pearson": 0.3, "rmse_after": 0.15, "nll": -40.0, "damping": 0.2}
    frame = pendulum.obtain(pendulum_table(**changed))
    assert counted(PENDULUM, frame) == [
        "0 of 1 correlations",
        "1 of 1 correlations",
        "0 of 1 errors",
        "0 of 1 numbers",
        "1 of 2 traversals",
    ]
