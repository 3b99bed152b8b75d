"""Activity of latents in ensemble members, over all images and over groups."""

import re

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.methods import AE, VAE, VAEEnsemble
from unweave.metrics import polarised_regime
from unweave.models.members import Aligned, aligned_posteriors
from unweave.select import MemberActivity, member_activity
from unweave.select.activity import _table

NAMES = ["dark", "light"]
SETTINGS = {"batch": 8, "latents": 3, "architecture": "small_mlp", "progress": False}
NUMBERS = ["noise", "signal", "log_delta"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sixty images, every second one dark, with a table of labels."""
    pixels = np.random.default_rng(0).integers(0, 128, (60, 8, 8, 1)).astype(np.uint8)
    pixels[1::2] += 128
    table = tmp_path_factory.mktemp("activity") / "factors.csv"
    pd.DataFrame({"light": [NAMES[k % 2] for k in range(60)]}).to_csv(table, index=False)
    return uw.data.load(pixels, factors=table)


@pytest.fixture(scope="module")
def model(data):
    method = VAEEnsemble(members=3)
    (trained,) = uw.train(method, data, steps=20, optimiser=uw.Adam(lr=3e-3), **SETTINGS)
    return trained


@pytest.fixture(scope="module")
def planted():
    """Two members and two groups of images; latent 0 of the first matches latent 1 of the second.

    Latent 0 is active for hearts only, latent 1 always, latent 2 has little noise and no signal.
    """
    rng = np.random.default_rng(0)
    hearts = np.arange(400) % 2 == 0
    means = rng.normal(size=(2, 400, 3)) * [1, 1, 0]
    means[:, ~hearts, 0] = 0
    noise = np.tile([0.04, 0.01, 0.048], (2, 400, 1))
    noise[:, ~hearts, 0] = 0.98
    swap = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1]])
    aligned = Aligned(means, np.log(noise), np.stack([np.eye(3), swap]).astype(np.float32))
    groups = {"all": np.full(400, True), "heart": hearts, "ellipse": ~hearts}
    tables = [_table(aligned, name, inside) for name, inside in groups.items()]
    return MemberActivity(pd.concat(tables, ignore_index=True), "shape")


def test_low_noise_is_not_enough_to_be_active(planted):
    every = planted.table.query("group == 'all' and member == 0").set_index("latent")
    assert every["noise"].round(3).tolist() == [0.51, 0.01, 0.048]
    hearts = planted.table.query("group == 'heart' and member == 1").set_index("latent")
    assert hearts["images"].tolist() == [200] * 3
    assert hearts["active_by_noise"].tolist() == [True, True, True]
    assert hearts["active"].tolist() == [True, True, False]
    assert hearts["own"].tolist() == [1, 0, 2]
    # log(.048) - log(.048 - log(.048) - 1), as the third latent has no mean
    assert hearts["log_delta"][2] == pytest.approx(-3.77, abs=0.005)


def test_kinds_are_counted_by_group_and_member(planted):
    counts = planted.counts.set_index(["group", "member"])
    assert counts.columns.tolist() == ["active", "constant", "passive"]
    assert counts.loc[("heart", 0)].tolist() == [2, 1, 0]
    assert counts.loc[("ellipse", 1)].tolist() == [1, 1, 1]
    assert (counts.sum(axis=1) == 3).all()
    assert len(counts) == 6


def test_printed_summary_lists_latents_that_depend_on_the_group(planted):
    found = planted.depends
    assert found[["member", "latent", "own"]].values.tolist() == [[0, 0, 0], [1, 0, 1]]
    assert found["active_for"].tolist() == [["heart"]] * 2
    assert found["passive_for"].tolist() == [["ellipse"]] * 2
    np.testing.assert_allclose(found[["noise_active", "noise_passive"]], [[0.04, 0.98]] * 2)
    said = str(planted).splitlines()
    data = re.findall(r"heart|ellipse|[\d.]+", said[3])
    assert data == ["1", "1", "heart", "0.04", "ellipse", "0.98"]
    assert said[0].startswith("member 0: ")
    alike = MemberActivity(planted.table[planted.table["latent"] > 0], "shape")
    assert alike.depends.empty
    assert "shape" in str(alike).splitlines()[-1]


def test_table_equals_posteriors_of_members(model, data):
    found = member_activity(model, data).table
    assert len(found) == 9
    aligned = aligned_posteriors(model, data)
    for member in range(3):
        means, logvars = model.encode(data, member=member)
        scores = polarised_regime(means, logvars=logvars)
        rows = found[found["member"] == member].set_index("latent")
        assert rows["own"].tolist() == aligned.latents[member].tolist()
        for latent, own in rows["own"].items():
            here = rows.loc[latent]
            expected = [
                np.exp(logvars[:, own]).mean(),
                scores[f"mean_variance_{own}"],
                scores[f"log_delta_{own}"],
            ]
            np.testing.assert_allclose(here[NUMBERS].astype(float), expected, rtol=1e-4)


def test_groups_by_factor_label_and_pixels_are_equal(model, data):
    dark = np.arange(60) % 2 == 0
    expected = {
        name: member_activity(model, uw.data.load(data[:][inside])).table
        for name, inside in zip(NAMES, (dark, ~dark), strict=True)
    }
    labels = np.where(dark, *NAMES)
    for by in ("light", labels):
        found = member_activity(model, data, by=by)
        assert found.table["group"].unique().tolist() == ["all", *NAMES]
        for name in NAMES:
            here = found.table[found.table["group"] == name]
            assert set(here["images"]) == {30}
            np.testing.assert_allclose(here[NUMBERS], expected[name][NUMBERS], rtol=1e-4)
    found = member_activity(model, data, by=2).table
    looks = {name: found[found["group"] == name]["noise"].to_numpy() for name in ("1", "2")}
    wanted = {name: table["noise"].to_numpy() for name, table in expected.items()}
    for one in looks.values():
        assert min(np.abs(one - other).max() for other in wanted.values()) < 1e-5
    assert np.abs(looks["1"] - looks["2"]).max() > 1e-5


def test_single_model_counts_as_one_member(data):
    (vae,) = uw.train(VAE(), data, steps=2, **SETTINGS)
    found = member_activity(vae, data)
    assert found.table["member"].tolist() == [0, 0, 0]
    assert found.table["own"].tolist() == [0, 1, 2]
    _, logvars = vae.encode(data)
    np.testing.assert_allclose(found.table["noise"], np.exp(logvars).mean(0), rtol=1e-5)
    assert found.depends.empty
    assert len(str(found).splitlines()) == 1


def test_invalid_arguments_are_rejected(model, data):
    with pytest.raises(UnweaveError, check=about("factor", "lights")):
        member_activity(model, data, by="lights")
    with pytest.raises(UnweaveError, check=about("by", "light")):
        member_activity(model, uw.data.load(data[:], name="plain"), by="light")
    with pytest.raises(UnweaveError, check=about("by", 1)):
        member_activity(model, data, by=1)
    with pytest.raises(UnweaveError, check=about("by", [3])):
        member_activity(model, data, by=[1, 2, 3])
    (plain,) = uw.train(AE(), data, steps=1, **SETTINGS)
    with pytest.raises(UnweaveError, check=about("model", None)):
        member_activity(plain, data)
