"""The estimator: scikit-learn's own checks, and numbers against models and textbook formulas."""

import json
import shutil
from unittest.mock import ANY

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.io.checksums import write_sums
from unweave.models.files import FILES
from unweave.models.images import ShapeError
from unweave.models.rows import InputError
from unweave.nets.likelihoods import LIKELIHOODS

QUICK = {"steps": 2, "seeds": 1, "strengths": 1.0, "batch": 8, "latents": 4}


CHECKS = [
    (estimator, check)
    for estimator, check in estimator_checks_generator(uw.Unweaver(**{**QUICK, "steps": 1}))
    # It takes NumPy's arrays; this check wants SCIPY_ARRAY_API set before SciPy is imported.
    if check.func.__name__ != "check_array_api_input"
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=[c.func.__name__ for _, c in CHECKS])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_no_more_than_one_check_is_left_out():
    assert len(CHECKS) >= 40


@pytest.fixture(scope="module")
def sprites():
    """192 sprites in grey, float `[n, 32, 32, 1]`, and which of three shapes each has."""
    data = uw.data.load("dsprites").slice(
        scale=5, orientation=0, posX=range(12, 20), posY=range(12, 20)
    )
    images = data[:].reshape(-1, 32, 2, 32, 2, 1).mean((2, 4)) / 255
    return images, data.factors(np.arange(len(data)))[:, 0]


@pytest.fixture(scope="module")
def fitted(sprites):
    images, _ = sprites
    return uw.Unweaver(strengths=[1, 4], seeds=2, steps=60, batch=32, random_state=3).fit(images)


@pytest.fixture(scope="module")
def table():
    return load_iris(return_X_y=True, as_frame=True)


def test_codes_are_the_models_and_images_what_it_decodes(fitted, sprites):
    images, _ = sprites
    codes = fitted.transform(images)
    mean, _ = fitted.model_.encode(images.astype(np.float32))
    assert np.array_equal(codes, mean)
    assert codes.std(0).max() > 0.01
    decoded = fitted.inverse_transform(codes)
    assert decoded.shape == images.shape
    assert np.array_equal(decoded, fitted.model_.decode(mean))
    # It has learned where the light is: grey all over, as it began, it were 0.2 away.
    assert ((decoded - images) ** 2).mean() < 0.05


def test_the_model_chosen_is_the_first_of_the_ranking_of_all(fitted):
    assert len(fitted.fit_.fleet) == 4
    assert fitted.model_.config.hash == fitted.ranking_["run"][0]
    strengths = sorted(config.method.beta for config in fitted.fit_.fleet.configs)
    assert strengths == [1, 1, 4, 4]
    assert fitted.n_features_in_ == 32 * 32
    assert fitted.model_.config.architecture == "conv"


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian", "narrow_gaussian"])
def test_the_score_is_the_elbo(likelihood, sprites, table):
    X = table[0].to_numpy() if likelihood == "narrow_gaussian" else sprites[0]
    unweaver = uw.Unweaver(**QUICK, likelihood=likelihood).fit(X)
    pixels = torch.tensor(unweaver.rows_.pixels(X))
    model = unweaver.model_
    mean, logvar = map(torch.tensor, model.encode(pixels))
    posterior = torch.distributions.Normal(mean, (logvar / 2).exp())
    prior = torch.distributions.Normal(0.0, 1.0)
    kl = torch.distributions.kl_divergence(posterior, prior).sum(1)
    torch.manual_seed(0)
    draws = []
    for _ in range(40):
        decoded = torch.tensor(model.decode(posterior.sample()))
        if likelihood == "bernoulli":
            fit = torch.distributions.Bernoulli(probs=decoded, validate_args=False)
            fits = fit.log_prob(pixels).flatten(1).sum(1)
        else:
            deviation = 0.1 if likelihood == "narrow_gaussian" else 0.5**0.5
            normal = torch.distributions.Normal(decoded, deviation)
            fits = (normal.log_prob(pixels) - normal.log_prob(decoded)).flatten(1).sum(1)
        draws.append((fits - kl).mean().item())
    score = unweaver.score(X)
    assert np.std(draws) < 0.05 * abs(score)
    assert score == pytest.approx(np.mean(draws), abs=5 * np.std(draws), rel=1e-6)


def test_the_score_is_that_of_rows_one_by_one_and_tells_better_from_worse(fitted, sprites):
    images, _ = sprites
    assert fitted.score(images) == fitted.score(images)
    # The noise of a row is that of its place, so the first rows score the same by themselves.
    parts = [fitted.score(images[:k]) * k for k in (50, 51)]
    mean, logvar = fitted.model_.encode(images[50:51])
    noise = uw.random.Stream(0, "score").normal(torch.tensor([50]), 10).numpy()
    z = mean + np.exp(logvar / 2) * noise
    expected = uw.metrics.elbo(
        mean, logvars=logvar, images=images[50:51], reconstructions=fitted.model_.decode(z)
    )
    assert parts[1] - parts[0] == pytest.approx(expected["elbo"], rel=1e-3)
    noisy = np.random.default_rng(0).permutation(images.ravel()).reshape(images.shape)
    assert fitted.score(noisy) < fitted.score(images) - 10


def test_the_noise_of_features_is_the_same_in_training_and_in_scores():
    x, p = torch.rand(2, 3, 1, 5, 1), torch.rand(2, 3, 1, 5, 1)
    from unweave.metrics.elbo import log_likelihood

    trained = LIKELIHOODS["narrow_gaussian"](p, x).flatten()
    scored = log_likelihood(x.flatten(0, 1), p.flatten(0, 1), "narrow_gaussian")
    np.testing.assert_allclose(scored, -trained.numpy(), rtol=1e-5)


def test_the_same_random_state_gives_the_same_codes_and_another_does_not(sprites):
    images, _ = sprites
    codes = [uw.Unweaver(**QUICK, random_state=state).fit_transform(images) for state in (7, 7, 8)]
    assert np.array_equal(codes[0], codes[1])
    assert not np.allclose(codes[0], codes[2], atol=1e-3)
    by_default = uw.Unweaver(**{**QUICK, "seeds": 3}).fit(images).fit_.fleet.configs
    assert [config.seed for config in by_default] == [0, 1, 2]


@pytest.mark.parametrize("layout", [(32, 32, 1), (32, 32), (1024,)])
@pytest.mark.parametrize("kind", ["bytes", "floats", "binary"])
def test_all_layouts_and_types_of_one_image_are_one(layout, kind, sprites):
    images = (sprites[0] > 0.5).reshape(-1, *layout)
    X = {"bytes": images * np.uint8(255), "floats": images * 1.0, "binary": images.astype(int)}
    shape = (32, 32) if layout == (1024,) else None
    unweaver = uw.Unweaver(**QUICK, shape=shape).fit(X[kind])
    codes = unweaver.transform(X[kind])
    decoded = unweaver.inverse_transform(codes)
    assert decoded.shape == X[kind].shape
    assert decoded.min() >= 0
    assert decoded.max() <= 1
    # The same seed on the same pixels makes the same model, whatever they were given as.
    usual = uw.Unweaver(**QUICK).fit(images.reshape(-1, 32, 32, 1) * np.uint8(255))
    np.testing.assert_allclose(codes, usual.transform(images.reshape(-1, 32, 32)), atol=1e-6)
    np.testing.assert_allclose(
        codes, unweaver.transform(images.reshape(-1, 1024) * 1.0), atol=1e-6
    )
    # Images that are white all over are white by themselves too.
    ones = np.ones_like(X["binary"][:1])
    white = unweaver.transform(ones if kind == "binary" else ones * 1.0)
    np.testing.assert_allclose(white, unweaver.transform(ones * 1.0), atol=1e-6)


def test_floats_are_not_rounded_to_bytes(sprites):
    images = 0.301 + 0.001 * sprites[0]  # a quarter of a byte's step
    rounded = np.round(images * 255) / 255
    assert len(np.unique(rounded)) == 1
    one, other = (uw.Unweaver(**QUICK).fit(X).model_.parameters for X in (images, rounded))
    assert not torch.equal(one["encoder"], other["encoder"])


@pytest.mark.parametrize(
    ("shape", "architecture"),
    [
        ((64, 64, 3), "conv"),
        ((20, 40, 5), "conv"),
        ((12, 64), "mlp"),
        ((8, 8), "small_mlp"),
        ((5,), "small_mlp"),
    ],
)
def test_the_architecture_follows_from_the_shape(shape, architecture):
    X = np.random.default_rng(0).random((6, *shape))
    fitted = uw.Unweaver(**{**QUICK, "steps": 1}).fit(X)
    assert fitted.model_.config.architecture == architecture
    assert fitted.inverse_transform(fitted.transform(X)).shape == X.shape


def test_active_latents_come_first_to_last_and_decode_nearly_as_all(fitted, sprites):
    images, _ = sprites
    mean, logvar = fitted.model_.encode(images)
    kl = 0.5 * (mean**2 + np.exp(logvar) - logvar - 1).mean(0)
    np.testing.assert_allclose(fitted.kl_, kl, rtol=1e-5)
    expected = [k for k in np.argsort(-kl) if kl[k] > 0.01]
    assert 0 < len(expected) < 10
    active = clone(fitted).set_params(active=True)
    active.__dict__.update({k: v for k, v in fitted.__dict__.items() if k not in active.__dict__})
    codes = active.transform(images)
    assert active.get_feature_names_out().tolist() == [f"z{k}" for k in expected]
    assert np.array_equal(codes, mean[:, expected])
    decoded, all_decoded = active.inverse_transform(codes), fitted.model_.decode(mean)
    assert np.abs(decoded - all_decoded).mean() < 0.01
    flat = np.tile(mean.mean(0), (192, 1))
    flat[:, expected] = mean[:, expected]
    np.testing.assert_allclose(decoded, fitted.model_.decode(flat), atol=1e-5)


def test_one_latent_is_left_where_none_is_active(sprites):
    unweaver = uw.Unweaver(**QUICK, active=True, learning_rate=1e-9).fit(sprites[0] * 1e-3)
    assert unweaver.kl_.max() < 0.01
    assert unweaver.transform(sprites[0]).shape == (192, 1)
    assert unweaver.active_.tolist() == [unweaver.kl_.argmax()]


def test_ensembles_encode_by_one_member_or_by_all(tmp_path):
    table = np.random.default_rng(0).normal(size=(60, 3))
    method = uw.methods.VAEEnsemble(members=3)
    settings = {"seeds": 1, "steps": 2, "latents": 2, "batch": 8}
    first = uw.Unweaver(method, **settings).fit(table)
    assert first.agreement_ is None
    X = first.rows_.pixels(table)
    other = uw.Unweaver(method, member=2, **settings).fit(table)
    np.testing.assert_allclose(other.transform(table), first.model_.encode(X, member=2)[0])
    codes = first.transform(table)
    np.testing.assert_allclose(
        other.inverse_transform(codes), other.rows_.restored(first.model_.decode(codes, 2))
    )
    assert other.score(table) != first.score(table)
    whole = uw.Unweaver(method, member="mean", **settings).fit(table)
    aligned = uw.select.aligned_codes(first.model_, X)
    np.testing.assert_allclose(whole.transform(table), aligned.mean(0), atol=1e-6)
    np.testing.assert_allclose(whole.agreement_, uw.select.member_agreement(aligned), atol=1e-5)
    np.testing.assert_allclose(
        whole.inverse_transform(codes), first.inverse_transform(codes), atol=1e-6
    )
    assert whole.score(table) == pytest.approx(first.score(table))
    again = uw.Unweaver.load(whole.save(tmp_path / "fitted"))
    assert again.member == "mean"
    np.testing.assert_array_equal(again.agreement_, whole.agreement_)
    np.testing.assert_array_equal(again.transform(table), whole.transform(table))
    with pytest.raises(UnweaveError, match="member"):
        uw.Unweaver(member="mean", strengths=1, **settings).fit(table)


def test_codes_as_a_data_frame(fitted, sprites):
    framed = clone(fitted).set_params(**QUICK).set_output(transform="pandas")
    codes = framed.fit_transform(sprites[0])
    assert codes.columns.tolist() == ["z0", "z1", "z2", "z3"]
    assert np.array_equal(codes.to_numpy(), framed.model_.encode(sprites[0])[0])
    rows = framed.inverse_transform(codes)
    np.testing.assert_allclose(rows, framed.model_.decode(codes.to_numpy()), atol=1e-6)


def test_a_pipeline_learns_the_shape_from_codes(fitted, sprites):
    images, shapes = sprites
    unweaver = uw.Unweaver(strengths=0.1, seeds=1, steps=120, batch=32)
    pipeline = make_pipeline(unweaver, StandardScaler(), LogisticRegression())
    scores = cross_val_score(pipeline, images, shapes, cv=2)
    assert scores.mean() > 0.5  # by chance it were 0.33


def test_a_grid_search_prefers_more_training(table):
    X, _ = table
    search = GridSearchCV(
        uw.Unweaver(strengths=1, seeds=1, latents=3), {"steps": [1, 150]}, cv=2
    ).fit(X)
    assert search.best_params_ == {"steps": 150}
    assert search.best_estimator_.get_feature_names_out().tolist() == ["z0", "z1", "z2"]


def test_features_of_any_scale_are_reconstructed(table):
    X, species = table
    X = X * [1, 1000, 1e-3, 1] + [0, 1e6, 0, -5]
    unweaver = uw.Unweaver(strengths=1, seeds=1, steps=300, latents=3).fit(X)
    assert unweaver.feature_names_in_.tolist() == X.columns.tolist()
    assert unweaver.model_.config.likelihood == "narrow_gaussian"
    back = unweaver.inverse_transform(unweaver.transform(X))
    explained = 1 - ((X - back) ** 2).sum() / ((X - X.mean()) ** 2).sum()
    assert explained.mean() > 0.6
    assert (unweaver.kl_ > 0.5).any()
    accuracy = LogisticRegression().fit(unweaver.transform(X), species)
    assert accuracy.score(unweaver.transform(X), species) > 0.8


def test_features_beyond_those_of_training_are_not_clipped(table):
    X = table[0].to_numpy()
    unweaver = uw.Unweaver(**QUICK).fit(X)
    far = X[:1] + 3 * (X.max(0) - X.min(0))
    expected = unweaver.model_.encode(((far - X.min(0)) / np.ptp(X, 0)).reshape(1, 1, 4, 1))[0]
    np.testing.assert_allclose(unweaver.transform(far), expected, rtol=1e-4)
    assert unweaver.score(far) < unweaver.score(X[:1]) - 1000


@pytest.mark.parametrize(
    ("method", "strengths", "expected"),
    [
        ("factor-vae", [5, 10], [5, 10]),
        ("vae", None, None),
        (uw.methods.BetaTCVAE(beta=[2, 3]), None, [2, 3]),
    ],
)
def test_methods_by_name_and_with_their_own_strengths(method, strengths, expected, table):
    settings = {**QUICK, "strengths": strengths}
    unweaver = uw.Unweaver(method, **settings).fit(table[0].to_numpy())
    configs = unweaver.fit_.fleet.configs
    if expected is None:
        assert [config.method for config in configs] == [uw.methods.VAE()]
    else:
        name = "gamma" if method == "factor-vae" else "beta"
        assert [getattr(config.method, name) for config in configs] == expected


def test_saving_and_loading_change_nothing(fitted, sprites, tmp_path):
    images, _ = sprites
    fitted.save(tmp_path / "here")
    again = uw.Unweaver.load(tmp_path / "here")
    assert again.get_params() == fitted.get_params()
    assert np.array_equal(again.transform(images), fitted.transform(images))
    assert again.score(images) == fitted.score(images)
    assert np.array_equal(again.active_, fitted.active_)
    pd.testing.assert_frame_equal(again.ranking_, fitted.ranking_)
    assert not list((tmp_path / "here").glob("*.pkl"))
    model = uw.load(tmp_path / "here")
    assert np.array_equal(model.encode(images)[0], fitted.transform(images))
    with pytest.raises(UnweaveError, check=about(tmp_path / "here")):
        fitted.save(tmp_path / "here")
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_features_and_odd_parameters_survive_saving(table, tmp_path):
    method = uw.methods.BetaVAE(beta=[1.0, 2.0])
    settings = {**QUICK, "strengths": None, "steps": np.int64(2), "random_state": np.int64(5)}
    unweaver = uw.Unweaver(method, **settings).fit(table[0])
    again = uw.Unweaver.load(unweaver.save(tmp_path / "it"))
    assert again.method == method
    assert again.random_state == 5
    codes = unweaver.transform(table[0])
    assert np.array_equal(again.transform(table[0]), codes)
    assert np.array_equal(again.inverse_transform(codes), unweaver.inverse_transform(codes))
    assert again.feature_names_in_.tolist() == table[0].columns.tolist()


def test_damaged_folders_are_errors(fitted, tmp_path):
    whole = fitted.save(tmp_path / "whole")
    with pytest.raises(UnweaveError, match=r"config\.json"):
        uw.Unweaver.load(tmp_path)
    bare = fitted.model_.save(tmp_path / "bare")
    with pytest.raises(UnweaveError, check=about("unweaver.json")):
        uw.Unweaver.load(bare)
    cut = shutil.copytree(whole, tmp_path / "cut")
    weights = cut / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(UnweaveError, match=r"weights\.safetensors"):
        uw.Unweaver.load(cut)
    note = whole / "unweaver.json"
    plain = json.loads(note.read_text())
    del plain["kl"]
    note.write_text(json.dumps(plain))
    with pytest.raises(UnweaveError, match="SHA256SUMS"):
        uw.Unweaver.load(whole)
    write_sums(whole, FILES)  # as earlier versions did, without the Unweaver's own files
    with pytest.raises(UnweaveError, match="'kl'"):
        uw.Unweaver.load(whole)


@pytest.mark.parametrize("name", [*FILES, "unweaver.json", "ranking.parquet", "SHA256SUMS"])
def test_flipped_bits_are_found_or_change_nothing(fitted, tmp_path, name):
    folder = fitted.save(tmp_path / "here")
    path, rng = folder / name, np.random.default_rng(0)
    whole = path.read_bytes()
    found = 0
    for _ in range(20):
        content = bytearray(whole)
        content[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        path.write_bytes(content)
        try:
            again = uw.Unweaver.load(folder)
            assert np.array_equal(again.kl_, fitted.kl_)
            assert again.ranking_.equals(fitted.ranking_)
        except UnweaveError:
            found += 1
    assert found >= 18


def test_a_folder_of_an_earlier_version_opens(fitted, tmp_path):
    folder = fitted.save(tmp_path / "here")
    assert len((folder / "SHA256SUMS").read_text().splitlines()) == 5
    write_sums(folder, FILES)
    assert np.array_equal(uw.Unweaver.load(folder).kl_, fitted.kl_)


@pytest.mark.parametrize(
    "change",
    [
        {"kl": [1.0]},
        {"kl": "many"},
        {"centre": [[1.0]]},
        {"rows": 5},
        {"parameters": []},
        {"parameters": {"method": {"name": "no"}}},
        {"n_features_in": "x"},
    ],
)
def test_invalid_metadata_are_errors(fitted, tmp_path, change):
    folder = fitted.save(tmp_path / "here")
    plain = json.loads((folder / "unweaver.json").read_text()) | change
    (folder / "unweaver.json").write_text(json.dumps(plain))
    write_sums(folder, FILES)
    with pytest.raises(UnweaveError, check=about(folder)):
        uw.Unweaver.load(folder)


IMAGES = np.zeros((4, 32, 32), np.uint8)


@pytest.mark.parametrize(
    ("settings", "X", "data"),
    [
        ({}, np.zeros((4, 2, 32, 32)), r"\[4, 2, 32, 32\]"),
        ({}, np.zeros((4, 2, 32, 32, 1)), r"\[4, 2, 32, 32, 1\]"),
        ({}, IMAGES + 1.5, "1.5"),
        ({}, IMAGES.astype(int) - 1, "-1"),
        ({"shape": (8, 8)}, np.zeros((4, 63)), "64 .*63"),
        ({"shape": (8,)}, np.zeros((4, 8)), "8"),
        ({"shape": (16, 16)}, IMAGES, "256 .*1,024"),
        ({"shape": (16, 64)}, IMAGES, "32 × 32 × 1.*16 × 64 × 1"),
        ({"device": "cuda"}, IMAGES, "GPU"),
    ],
)
def test_invalid_rows_are_errors(settings, X, data):
    with pytest.raises(UnweaveError, match=data):
        uw.Unweaver(**{**QUICK, **settings}).fit(X)


@pytest.mark.parametrize(
    ("settings", "X", "subject", "value"),
    [
        ({}, np.zeros((2, 500, 400, 3), np.uint8), "X", (500, 400, 3)),
        ({}, np.zeros((2, 50_000)), "X", (1, 50_000, 1)),
        ({"steps": 0}, IMAGES, "steps", 0),
        ({"seeds": 0}, IMAGES, "seeds", 0),
        ({"method": "vae"}, IMAGES, "strengths", "vae"),
        ({"method": "beta-vea"}, IMAGES, "method", ANY),
        ({"method": uw.methods.VAE()}, IMAGES, "strengths", uw.methods.VAE()),
    ],
)
def test_invalid_parameters_are_errors(settings, X, subject, value):
    with pytest.raises(UnweaveError, check=about(subject, value)):
        uw.Unweaver(**{**QUICK, **settings}).fit(X)


def test_images_unlike_those_of_training_are_an_error(fitted):
    with pytest.raises(ShapeError):
        fitted.transform(np.zeros((2, 16, 64, 1)))
    with pytest.raises(ValueError, match="X has 3072 features, but Unweaver is expecting 1024"):
        fitted.transform(np.zeros((2, 32, 32, 3)))
    with pytest.raises(InputError, check=about("X", 3)):
        fitted.inverse_transform(np.zeros((2, 3)))
    with pytest.raises(NotFittedError):
        uw.Unweaver().transform(IMAGES)
