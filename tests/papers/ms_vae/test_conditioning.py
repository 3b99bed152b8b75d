"""Information in two stages: shared between codes, and predictive of factors."""

import numpy as np
import pytest
from sklearn.metrics.cluster import expected_mutual_information

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.metrics.base import MetricError
from unweave.metrics.tools.discretise import bins
from unweave.nets.adam import Adam
from unweave.papers.ms_vae.conditioning import (
    predictions,
    shared_information,
    shared_per_code,
    staged,
)


@pytest.fixture(scope="module")
def codes():
    """Codes of three kinds: normal, uniform, and one with four values."""
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=8_000), rng.uniform(-3, 1, 8_000), rng.integers(0, 4, 8_000)]
    return np.stack(columns, 1)


def textbook(real, other):
    """I(a; b) / H(a), mean over codes, from edges, loops and a dictionary."""
    shares = []
    for a, b in zip(real.T, other.T, strict=True):
        cells = []
        for column in (a, b):
            place = (column - column.min()) / (column.max() - column.min()) * 20
            cells.append(np.minimum(np.floor(place), 19).astype(int).tolist())
        joint = {}
        for pair in zip(*cells, strict=True):
            joint[pair] = joint.get(pair, 0) + 1 / len(a)
        rows, columns = {}, {}
        for (i, j), share in joint.items():
            rows[i] = rows.get(i, 0) + share
            columns[j] = columns.get(j, 0) + share
        entropy = -sum(share * np.log(share) for share in rows.values())
        information = sum(s * np.log(s / rows[i] / columns[j]) for (i, j), s in joint.items())
        shares.append(information / entropy)
    return np.mean(shares)


def test_identical_codes_share_all_information(codes):
    assert shared_information(codes, codes) == pytest.approx(1, abs=1e-12)
    assert shared_information(codes, -2 * codes + 5) == pytest.approx(1, abs=1e-12)


def test_shuffled_codes_share_the_expected_bias(codes):
    """What classes of these sizes share on average over all orders is known exactly."""
    rng = np.random.default_rng(1)
    found = np.mean(
        [shared_per_code(codes, rng.permuted(codes, axis=0)) for _ in range(20)], axis=0
    )
    assert found.max() < 0.02
    for column, share in zip(bins(codes).T, found, strict=True):
        sizes = np.unique(column, return_counts=True)[1]
        shares = sizes / len(column)
        chance = expected_mutual_information(np.diag(sizes), len(column))
        expected = chance / -(shares * np.log(shares)).sum()
        # A sum of (classes - 1)² squares of normals, 20 times.
        assert share == pytest.approx(expected, rel=4 * np.sqrt(2 / 20) / (len(sizes) - 1))


def test_the_share_is_that_of_its_definition(codes):
    noisy = codes + np.random.default_rng(2).normal(size=codes.shape)
    share = shared_information(codes, noisy)
    assert share == pytest.approx(textbook(codes, noisy), abs=1e-9)
    assert 0.1 < share < 0.5
    # The entropy is that of the data's codes, so the two sides are not alike.
    assert abs(share - shared_information(noisy, codes)) > 0.02


def test_maps_that_keep_the_bins_keep_the_share(codes):
    """Monotone within each bin: a piecewise-linear bend between the edges."""
    noisy = codes + 0.2 * np.random.default_rng(3).normal(size=codes.shape)
    low, high = noisy.min(0), noisy.max(0)
    place = (noisy - low) / (high - low) * 20
    whole = np.minimum(np.floor(place), 19)
    bent = low + (whole + (place - whole) ** 3) / 20 * (high - low)
    np.testing.assert_array_equal(bins(bent), bins(noisy))
    assert (bent != noisy).mean() > 0.9
    assert shared_information(codes, bent) == shared_information(codes, noisy)
    assert shared_information(codes, np.exp(noisy)) != shared_information(codes, noisy)


def test_each_code_is_compared_with_its_own_place(codes):
    swapped = codes[:, [1, 0, 2]]
    shares = shared_per_code(codes, swapped)
    assert shares[2] == pytest.approx(1)
    assert shares[:2].max() < 0.03


def test_constant_codes_are_left_out(codes):
    with_constant = np.column_stack([codes, np.ones(len(codes))])
    assert np.isnan(shared_per_code(with_constant, with_constant)[3])
    assert shared_information(with_constant, with_constant) == pytest.approx(1)
    assert shared_per_code(codes, 0 * codes).tolist() == [0, 0, 0]
    with pytest.raises(MetricError, check=about("real", "constant")):
        shared_information(with_constant[:, 3:], with_constant[:, 3:])


def test_codes_of_another_shape_are_rejected(codes):
    with pytest.raises(MetricError, check=about("codes", (8_000, 2))):
        shared_information(codes, codes[:, :2])
    with pytest.raises(MetricError, check=about("codes_z", 7_999)):
        predictions(codes, codes[1:], codes[:, 2], steps=1)


@pytest.fixture(scope="module")
def halves():
    """Two factors in C, one in Z, one in both together only, and one that is constant."""
    rng = np.random.default_rng(5)
    factors = rng.integers(0, (3, 5, 4, 2, 1), (8_000, 5))
    sign = rng.integers(0, 2, 8_000)
    factors[:, 3] = sign ^ (factors[:, 0] == 1)
    noise = 0.1 * rng.normal(size=(8_000, 4))
    codes_c = np.stack([factors[:, 0], 100 * factors[:, 1], 0 * sign], 1)
    codes_z = np.stack([factors[:, 2], sign], 1)
    return codes_c + noise[:, :3] * [1, 100, 0], codes_z + noise[:, 2:], factors


def test_each_code_predicts_its_factors_and_both_predict_all(halves):
    codes_c, codes_z, factors = halves
    found = predictions(codes_c, codes_z, factors, steps=250, batch=64)
    assert found["factor"].tolist() == [0, 1, 2, 3]
    c, z, both = (found[name].to_numpy() for name in ("c", "z", "both"))
    chance = found["most_frequent"].to_numpy()
    assert np.abs(chance - [1 / 3, 1 / 5, 1 / 4, 1 / 2]).max() < 0.08
    assert c[:2].min() > 0.9
    assert z[2] > 0.95
    assert both.min() > 0.9
    assert (c[2:] < chance[2:] + 0.12).all()
    assert (z[:2] < chance[:2] + 0.12).all()
    # An exclusive or with an event of probability 1/3: Z alone knows it two times out of three.
    assert z[3] == pytest.approx(2 / 3, abs=0.1)


def test_a_network_learns_as_it_would_alone(halves):
    """Neither other factors nor the other code have a say in what is predicted from C."""
    codes_c, codes_z, factors = halves
    rows = slice(600)
    whole = predictions(codes_c[rows], codes_z[rows], factors[rows], steps=30, batch=32)
    other = predictions(codes_c[rows], codes_z[rows][::-1], factors[rows], steps=30, batch=32)
    assert whole["c"].tolist() == other["c"].tolist()
    assert whole["z"].tolist() != other["z"].tolist()
    fewer = predictions(codes_c[rows], codes_z[rows], factors[rows, :2], steps=30, batch=32)
    np.testing.assert_allclose(fewer["c"], whole["c"][:2], atol=0.01)


def test_scores_depend_on_seeds_but_not_on_scale(halves):
    codes_c, codes_z, factors = (part[:600] for part in halves)
    first = predictions(codes_c, codes_z, factors, seed=1, steps=30, batch=32)
    scaled = predictions(8 * codes_c, 0.5 * codes_z, factors, seed=1, steps=30, batch=32)
    np.testing.assert_allclose(first, scaled, atol=0.02)
    again = predictions(codes_c, codes_z, factors, seed=1, steps=30, batch=32)
    assert first.equals(again)
    assert not first.equals(predictions(codes_c, codes_z, factors, seed=2, steps=30, batch=32))


FAST = {"optimiser": Adam(lr=1e-3), "progress": False}


@pytest.fixture(scope="module")
def trained(sprites):
    """Two stages on sprites with stripes that the first cannot draw."""
    method = uw.methods.BetaTCVAE(beta=4)
    first = uw.train(method, sprites, steps=300, batch=16, latents=6, **FAST)
    second = {"latents": 4, "architecture": "small_dcgan"}
    (model,) = uw.train(
        uw.methods.MSVAE(), sprites, first=first, steps=300, batch=16, **second, **FAST
    )
    return staged(model, sprites)


def test_the_second_stage_reconstructs_better(trained):
    errors = trained.errors()
    assert errors["l2_x"] < 0.85 * errors["l2_y"]
    assert errors["l1_x"] < 0.9 * errors["l1_y"]
    images = trained.images / 255
    assert errors["l2_y"] == pytest.approx(float(((trained.y - images) ** 2).mean()), rel=1e-4)


def test_it_preserves_the_code_of_the_first_stage(trained):
    terms = trained.terms()
    assert 1 > terms["m2"] > terms["m1"] > terms["m3"] > 1.25 * terms["m4"]
    # Codes that have nothing in common share what finite bins make of chance.
    chance = shared_information(trained.c, np.random.default_rng(0).permutation(trained.c))
    assert terms["m4"] < 1.5 * chance
    assert trained.noise_term() < 1.5 * chance


def test_the_two_codes_complement_each_other(trained, sprites):
    found = trained.predictions(sprites.factors(trained.rows)).set_index("factor")
    assert (found["both"] >= found[["c", "z"]].max(axis=1) - 0.05).all()
    pattern = found.loc[sprites.grid.names.index("pattern")]
    assert pattern["z"] > pattern["c"] + 0.1


def test_images_vary_less_between_samples_than_those_of_the_first_stage(trained):
    found = trained.variation(4)
    assert 0 < found["std_x"] < found["std_y"]


def test_pictures_of_two_stages_show_both(trained, sprites):
    model = trained.model
    sheet = uw.show.stages(model, sprites, count=4)
    assert [len(row) for row in sheet.boxes] == [4, 4, 4]
    drawn = np.random.default_rng(0).permutation(len(sprites))[:4]
    codes = model.encode(sprites.images(drawn))[0]
    for row, images in ((1, model.first[0].decode(codes[:, :6])), (2, model.decode(codes))):
        shown = sheet.part(row, 2)[::2, ::2, 0]
        np.testing.assert_array_equal(shown, np.rint(images[2, ..., 0] * 255))


def test_swapped_codes_are_those_of_the_row_and_of_the_column(trained, sprites):
    model = trained.model
    sheet = uw.show.swaps(model, sprites, count=3)
    drawn = np.random.default_rng(0).permutation(len(sprites))[:3]
    codes = model.encode(sprites.images(drawn))[0]
    mixed = np.concatenate([codes[2, :6], codes[0, 6:]])[None]
    expected = np.rint(model.decode(mixed)[0, ..., 0] * 255)
    assert [len(row) for row in sheet.boxes] == [3] * 4
    np.testing.assert_array_equal(sheet.part(1, 2)[::2, ::2, 0], expected)


def test_traversals_show_c_in_both_stages_and_z_in_one(trained, sprites):
    sheet = uw.show.stage_traversals(trained.model, sprites, columns=5, count=2)
    assert [len(row) for row in sheet.boxes] == [2, *[5] * 6]
    assert trained.model.config.latent_names[5:8] == ["C 5", "Z 0", "Z 1"]
    whole = uw.show.traversals(trained.model, sprites)
    assert len(whole.boxes) == 11


def test_models_of_one_stage_are_rejected(first, sprites):
    for look in (staged, uw.show.stages, uw.show.swaps, uw.show.stage_traversals):
        with pytest.raises(UnweaveError, match="stage"):
            look(first[0], sprites)
