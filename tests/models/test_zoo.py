"""Models of the zoo open by name, are what their cards say, and are never written to."""

from pathlib import Path

import numpy as np
import pytest

import unweave as uw
from unweave.cli import main
from unweave.data.origin import rebuild
from unweave.errors import UnknownNameError
from unweave.models.finding import find_runs, one_model
from unweave.models.zoo import PREFIX, ZOO, card, zoo_folder, zoo_names

MOST_BYTES = 6_000_000


@pytest.fixture(scope="module", params=zoo_names())
def name(request):
    return request.param


def test_rooms_and_sprites_are_there():
    assert {"rooms3d", "dsprites"} <= set(zoo_names())


def test_the_card_describes_the_model(name):
    model, about = uw.load(PREFIX + name), card(name)
    config = model.config
    settings = (config.method.label, config.seed, config.steps, config.batch, config.latents)
    assert settings == tuple(about[k] for k in ("method", "seed", "steps", "batch", "latents"))
    assert about["command"]
    assert about["selection"]


def test_the_scores_on_the_card_are_those_of_the_model(name):
    model, about = uw.load(PREFIX + name), card(name)["scores"]
    data = rebuild(model.config.data)
    rows = np.random.default_rng(1).choice(len(data), 4000, replace=False)
    mean, _ = model.encode(data.images(rows))
    factors = data.factors(rows)
    # A sample of the images scores a little differently from the protocol's 10,000.
    assert uw.metrics.mig(mean, factors)["mig"] == pytest.approx(about["mig"], abs=0.05)
    assert uw.metrics.sap(mean, factors)["sap"] == pytest.approx(about["sap"], abs=0.05)


def test_the_zoo_is_small_enough_for_the_package():
    sizes = [file.stat().st_size for file in ZOO.rglob("*") if file.is_file()]
    assert sum(sizes) < MOST_BYTES


def test_an_unknown_name_lists_the_others():
    for call in (zoo_folder, uw.load, find_runs):
        with pytest.raises(UnknownNameError) as error:
            call("zoo:roms3d")
        assert error.value.value == "roms3d"
        assert error.value.valid == zoo_names()


def test_only_names_with_the_prefix_are_of_the_zoo(tmp_path):
    assert zoo_folder("rooms3d") is None
    assert zoo_folder(tmp_path) is None


@pytest.mark.parametrize(
    "name", ["zoo:", "zoo:.", "zoo:../zoo/rooms3d", "zoo:rooms3d/../dsprites"]
)
def test_names_cannot_leave_the_zoo(name):
    with pytest.raises(UnknownNameError):
        zoo_folder(name)


def test_scoring_writes_nothing_into_the_package():
    before = sorted(ZOO.rglob("*"))
    data = uw.data.load("dsprites").slice(scale=5, orientation=0)
    uw.evaluate("zoo:dsprites", data, metrics=["active_units"], progress=False)
    assert sorted(ZOO.rglob("*")) == before
    assert one_model("zoo:dsprites").config == uw.load("zoo:dsprites").config


def test_the_commands_take_names_of_the_zoo(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["zoo"])
    listed = capsys.readouterr().out
    assert all(PREFIX + name in listed for name in zoo_names())
    main(["zoo", "dsprites"])
    assert card("dsprites")["selection"] in capsys.readouterr().out
    main(["show", "zoo:dsprites", "-o", "a.png"])
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_the_page_has_the_scores_of_the_cards():
    page = (Path(__file__).parents[2] / "docs" / "zoo.md").read_text().splitlines()
    for name in zoo_names():
        scores = card(name)["scores"]
        numbers = " | ".join(f"{scores[metric]:.2f}" for metric in ("mig", "dci", "factor_vae"))
        assert any(f"`zoo:{name}`" in line and f"| {numbers} |" in line for line in page)
