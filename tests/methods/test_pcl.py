"""PCL against its formula, its initialisation, results on toy data, and no decoder."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.small_fleet import IMAGES, LATENTS, MODELS, NETWORKS, SmallFleet, mean
from tests.raising import about
from unweave.data.dataset import Dataset
from unweave.data.grid import Factor, Grid
from unweave.data.stores import Floats
from unweave.errors import UnweaveError
from unweave.explorer.model_index import entries_of
from unweave.methods import PCL, Batch
from unweave.methods.pcl import CONTRAST, others
from unweave.metrics.mcc import mcc
from unweave.models.onnx import export_onnx
from unweave.nets.layers import Contrast
from unweave.nets.network import Network
from unweave.papers.inductive_biases.theory.linear_pcl import sources
from unweave.random import Stream


def logit(h, earlier, now, before, offset, root, constant):
    total = constant[0]
    for i in range(len(h)):
        total -= abs(now[i] * h[i] + before[i] * earlier[i] + offset[i])
        total += root[0] ** 2 * h[i] ** 2
    return total


def textbook(fleet, m, method):
    del method
    own = {
        name: value[m].tolist()
        for name, value in NETWORKS[CONTRAST].named(fleet.parameters[CONTRAST])
    }
    logits = [own[f"0.{name}"] for name in ("now", "before", "offset", "root", "constant")]
    before = [mu for mu, _ in fleet.posteriors(m)]
    now = [mu for mu, _ in fleet.posteriors(m, fleet.partners)]
    words = Stream(int(fleet.seeds[m]), "negatives", int(fleet.step)).words(IMAGES, 1)
    order = np.argsort(words[:, 0].numpy()).tolist()
    following = dict(zip(order, [*order[1:], order[0]], strict=True))
    losses, right = [], []
    for b in range(IMAGES):
        true = logit(now[b], before[b], *logits)
        false = logit(now[b], before[following[b]], *logits)
        losses += [math.log1p(math.exp(-true)), math.log1p(math.exp(false))]
        right += [true > 0, false < 0]
    return {"model": mean(losses), "accuracy": mean(right)}


def test_gradients_of_the_classifier_are_those_of_finite_differences(fleet):
    places, width = NETWORKS[CONTRAST].places.values(), 1e-6
    buffer = fleet.parameters[CONTRAST].clone().requires_grad_()
    tracked = replace(fleet, parameters={**fleet.parameters, CONTRAST: buffer})
    loss = tracked.losses(*[PCL()] * MODELS).groups["model"]
    (gradient,) = torch.autograd.grad(loss.sum(), buffer)
    assert len(places) == 5
    for column in places:
        sides = []
        for step in (width, -width):
            moved = fleet.parameters[CONTRAST].clone()
            moved[:, column] += step
            elsewhere = replace(fleet, parameters={**fleet.parameters, CONTRAST: moved})
            sides.append(elsewhere.losses(*[PCL()] * MODELS).groups["model"])
        assert (gradient[:, column] != 0).all()
        torch.testing.assert_close(gradient[:, column], (sides[0] - sides[1]) / (2 * width))


def test_the_classifier_begins_as_published():
    network = Network((Contrast(LATENTS),))
    buffer = network.initial(torch.tensor([0, 7]), CONTRAST)
    h, earlier = torch.randn(2, 2, 4, LATENTS, generator=torch.Generator().manual_seed(0))
    found = network(buffer, torch.cat([h, earlier], -1))[..., 0]
    torch.testing.assert_close(found, h.square().sum(-1) - (h - earlier).abs().sum(-1))


def test_the_weight_of_squares_is_never_below_0():
    network = Network((Contrast(1),))
    parameters = dict(network.named(network.initial(torch.tensor([0]), CONTRAST)))
    for root in (-3.0, 0.0, 2.0):
        both = torch.tensor([[[5.0, 5.0]]])
        found = network({**parameters, "0.root": torch.tensor([[root]])}, both)
        assert found.item() == root**2 * 25


def test_false_pairs_have_another_image_and_everybody_is_taken_once():
    for step in range(20):
        chosen = others(torch.zeros(3, 6, 2), Stream(torch.arange(3), "negatives", step))
        assert torch.equal(chosen[..., 0], chosen[..., 1])
        assert (chosen[..., 0] != torch.arange(6)).all()
        assert torch.equal(chosen[..., 0].sort(1).values, torch.arange(6).expand(3, 6))


def test_codes_have_no_noise(fleet):
    images = fleet.images
    batch = fleet.batch()
    mu = PCL().encode(fleet.nets(), images).mu
    alone = PCL().encode(fleet.nets(), images[:, :1]).mu
    torch.testing.assert_close(mu[:, :1], alone)  # of no batch either
    first = PCL().losses(fleet.nets(), batch).groups["model"]
    logvars = fleet.parameters["encoder"].clone()
    weight = dict(NETWORKS["encoder"].named(logvars))["2.weight"]
    weight[..., LATENTS:] += 1  # of log-variances
    again = replace(fleet, parameters={**fleet.parameters, "encoder": logvars})
    assert torch.equal(PCL().losses(again.nets(), batch).groups["model"], first)


def test_missing_pairs_and_batches_of_one_raise_errors():
    fleet = SmallFleet.make()
    with pytest.raises(UnweaveError, check=about("pairs", "pcl")):
        replace(fleet, partners=None).losses(PCL())
    one = Batch(fleet.images[:, :1], fleet.seeds, fleet.step, 11, partners=fleet.partners[:, :1])
    with pytest.raises(UnweaveError, check=about("batch")):
        PCL().losses(fleet.nets(), one)
    with pytest.raises(UnweaveError, check=about("kind of transitions", "unifrom")):
        PCL(transitions="unifrom")


def series(mixed):
    """Rows of numbers in [0, 1] in the order of time."""
    rows = np.clip(mixed / mixed.std(0) / 6 + 0.5, 0, 1).astype(np.float32)
    store = Floats(rows.reshape(len(rows), 1, -1, 1))
    return Dataset("series", store, grid=Grid((Factor("time", range(len(rows))),)))


@pytest.mark.parametrize("bent", [False, True])
def test_independent_sources_are_found_in_a_mixture(bent):
    truth, generator = sources(20_000, 2, seed=0), np.random.default_rng(1)
    mixed = truth @ generator.normal(size=(2, 4))
    mixed = mixed + 0.5 * np.tanh(mixed @ generator.normal(size=(4, 4))) if bent else mixed
    data = series(mixed)
    (model,) = uw.train(
        PCL(transitions="neighbours"),
        data,
        steps=700,
        batch=128,
        latents=2,
        architecture="small_mlp",
        optimiser=uw.Adam(lr=5e-3),
        progress=False,
    )
    codes, _ = model.encode(data)
    assert mcc(codes, truth)["mcc"] >= 0.95
    assert np.abs(np.corrcoef(mixed.T, truth.T)[:4, 4:]).max(0).min() < 0.95


@pytest.fixture(scope="module")
def trained():
    data = uw.data.load("dsprites").slice(shape=[0, 1], scale=5, orientation=0, posX=range(8))
    return uw.train(PCL(), data, seeds=2, steps=3, batch=4, latents=3, progress=False), data


def test_decoding_raises_an_error(trained, tmp_path):
    fleet, data = trained
    (saved, _) = fleet.save(tmp_path)
    model = uw.load(saved)
    assert set(model.parameters) == {"encoder", CONTRAST}
    np.testing.assert_array_equal(model.encode(data)[0], fleet[0].encode(data)[0])
    for attempt in (
        lambda: model.decode(np.zeros((1, 3))),
        lambda: uw.show.traversals(model, data),
        lambda: uw.show.reconstructions(model, data),
        lambda: uw.select.pareto(fleet, data, rows=20),
        lambda: export_onnx(model, tmp_path / "onnx"),
    ):
        with pytest.raises(UnweaveError, check=about("decoder")):
            attempt()
    for attempt in (
        lambda: entries_of(fleet),
        lambda: entries_of(tmp_path),
        lambda: uw.show.samples(model),
    ):
        with pytest.raises(UnweaveError) as caught:
            attempt()
        assert "pcl" in str(caught.value)


def test_reports_and_scores_do_without_pictures(trained, tmp_path):
    fleet, data = trained
    scores = uw.evaluate(fleet, data, metrics=["mig", "elbo"], progress=False)
    assert scores["mig"].notna().all()
    assert scores["elbo"].isna().all()
    uw.show.report(fleet, tmp_path / "report.html", data, scores=scores, progress=False)
    text = (tmp_path / "report.html").read_text()
    assert "PCL" in text
    assert "accuracy" in text
