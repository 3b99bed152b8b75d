"""MS-FLOW on real digits, 8 × 8: what it gains, its bound, means and samples."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from tests.raising import about
from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.papers.ms_vae import flow
from unweave.papers.ms_vae.flow import FlowConfig, from_logits, to_logits, train

SMALL = FlowConfig(width=48, batch=100, epochs=8)


@pytest.fixture(scope="module")
def digits():
    pixels = (load_digits().images.reshape(-1, 64) * (255 / 16)).astype(np.uint8)
    return to_logits(pixels[:1500], 0), to_logits(pixels[1500:], 1)


@pytest.fixture(scope="module")
def trained(digits):
    x, held_out = digits
    means = train(x, SMALL, held_out=held_out, progress=False)
    samples = train(
        x,
        replace(SMALL, condition="samples"),
        held_out=held_out,
        mixture=means.mixture,
        progress=False,
    )
    return means, samples


def test_logits_are_those_of_the_formula_and_come_back():
    pixels = np.arange(256, dtype=np.uint8).repeat(40).reshape(-1, 64)
    x = to_logits(pixels, seed=2)
    assert x.isfinite().all()
    shares = (torch.sigmoid(x.double()) - 1e-6) / (1 - 2e-6)
    noise = 256 * (shares - torch.as_tensor(pixels).double() / 255)
    dark = torch.as_tensor(pixels) < 254  # the brightest are cut off at 1
    assert noise[dark].min() > -1e-3
    assert noise[dark].max() < 1 + 1e-3
    assert noise[dark].mean() == pytest.approx(0.5, abs=0.02)
    assert x.max() <= np.log(1 - 1e-6) - np.log(1e-6) + 1e-3
    apart = from_logits(x).astype(int) - pixels
    assert set(np.unique(apart)) <= {0, 1}
    assert torch.equal(x, to_logits(pixels, seed=2))
    assert not torch.equal(x, to_logits(pixels, seed=3))


def test_the_flow_gains_much_on_images_that_it_has_not_seen(trained, digits):
    found = trained[0].evaluate(digits[1])
    assert found["conditional"] > found["mixture"] + 3
    assert found["bound"] == pytest.approx(found["conditional"] - found["kl"])
    assert 1.5 < found["kl"] < 3


def test_settled_densities_are_those_of_training(trained, digits):
    """With statistics that lag behind the weights they would be far below."""
    for model in trained:
        last = model.history["training"].iloc[-1]
        assert last - 3 < model.evaluate(digits[0])["conditional"] < last + 15
        held_out = model.evaluate(digits[1])["conditional"]
        assert held_out == pytest.approx(model.history["held_out"].iloc[-1])


def test_means_are_ahead_of_samples_at_every_step(trained):
    means, samples = (model.history for model in trained)
    assert means["step"].tolist() == samples["step"].tolist() == [15 * k for k in range(1, 9)]
    assert (means["training"] > samples["training"] + 1).all()
    assert (means["held_out"] > samples["held_out"]).mean() > 0.8


def test_the_bound_is_below_the_density_of_the_whole_model(trained, digits):
    """log p(x) = log Σ_c π_c p(x | y_c) can be counted out, as there are ten means."""
    means, _ = trained
    x = digits[1]
    nats = torch.stack(
        [means.flow.log_densities(x, mean.expand(len(x), -1)) for mean in means.mixture.means], 1
    )
    whole = (means.mixture.weights.log() + nats).logsumexp(1).double().mean().item()
    bound = means.evaluate(x)["bound"]
    assert bound <= whole
    expected = (means.mixture.responsibilities(x) * nats).sum(1).double().mean().item()
    assert means.evaluate(x)["conditional"] == pytest.approx(expected, abs=0.5)


def test_a_trained_flow_is_invertible_in_float32(trained, digits):
    means, _ = trained
    x = digits[1]
    y = means.conditions(x)
    with torch.no_grad():
        f = means.flow.transform(y)
        assert (f.inv(f(x)) - x).abs().max() < 1e-4


def test_new_images_are_images(trained, digits):
    means, _ = trained
    y, drawn = means.sample(digits[1], seed=5)
    assert (y[:, None] == means.mixture.means).all(-1).any(-1).all()
    data = digits[1]
    assert (drawn.mean(0) - data.mean(0)).abs().mean() < 0.5
    assert drawn.std(0).mean() == pytest.approx(data.std(0).mean().item(), rel=0.2)
    assert torch.equal(drawn, means.sample(digits[1], seed=5)[1])
    assert not torch.equal(drawn, means.sample(digits[1], seed=6)[1])


def test_the_seed_decides_everything(digits):
    x = digits[0][:200]
    few = FlowConfig(num_components=3, em_epochs=2, couplings=2, width=8, batch=50, epochs=2)
    before = torch.get_rng_state()
    one, same = train(x, few, progress=False), train(x, few, progress=False)
    assert torch.equal(torch.get_rng_state(), before)
    assert one.evaluate(x) == same.evaluate(x)
    assert one.evaluate(x) != train(x, replace(few, seed=1), progress=False).evaluate(x)
    assert one.history["held_out"].isna().all()


def test_invalid_settings_are_rejected(digits, monkeypatch):
    with pytest.raises(UnknownNameError, check=about("condition", "mean")):
        FlowConfig(condition="mean")
    with pytest.raises(DataError, check=about("width", 0)):
        FlowConfig(width=0)
    with pytest.raises(DataError, check=about("x", (5, 4))):
        train(torch.full((5, 4), torch.nan))
    few = replace(SMALL, rate=1e30, em_epochs=1)
    with pytest.raises(UnweaveError, check=about("rate", 1e30)):
        train(digits[0][:300], few, progress=False)
    monkeypatch.setattr(flow, "find_spec", lambda name: None)
    with pytest.raises(UnweaveError, match=r"pip install 'unweave\[flow\]'"):
        train(digits[0])
