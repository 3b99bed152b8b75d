"""The pendulum's chain: a latent that finds the mass, stages that follow the simulator."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from tests.raising import about
from unweave.data.pendulum import simulate
from unweave.errors import DataError
from unweave.papers.ms_vae.pendulum import (
    FLOOR,
    PUBLISHED,
    ResidualVAE,
    apply,
    codes,
    draw,
    evaluate,
    explained_variance,
    train,
    traversals,
    z_of_mass,
)

FACTORS = ("length", "damping", "mass")


@pytest.fixture(scope="module")
def chain():
    """All curves and layers as published, a fifth of the epochs."""
    plans = [replace(plan, epochs=plan.epochs // 5) for plan in PUBLISHED]
    return train(plans, progress=False)


def test_z_finds_the_unobserved_mass(chain):
    found = evaluate(chain)
    assert found["pearson"] >= 0.95
    assert found["spearman"] >= 0.97
    drawn = codes(chain)
    assert drawn["mass"].nunique() == 30
    assert abs(drawn["z"].corr(drawn["mass"])) == pytest.approx(found["pearson"], abs=1e-6)
    others = drawn[["length", "damping"]].corrwith(drawn["z"])
    assert others.abs().max() < 0.3


def test_the_last_stage_removes_most_of_the_error(chain):
    found = evaluate(chain)
    assert found["rmse_before"] > 3 * found["rmse_after"]
    assert found["floor"] < found["nll"] < found["floor"] + 1.5
    assert found["loss"] == pytest.approx(found["nll"] + found["kl"])
    assert found["floor"] == pytest.approx(-46.7356, abs=1e-4)


def test_traversals_follow_the_simulator(chain):
    curves = traversals(chain)
    met = explained_variance(curves)
    assert min(met.values()) > 0.95
    one = curves[(curves["factor"] == "length") & (curves["value"] == 1.3)]
    np.testing.assert_allclose(one["simulated"], simulate(1.3, 1.0, 1.5))
    # The z of another mass does not: what z says matters.
    damping = curves[curves["factor"] == "damping"]
    other = damping.assign(
        simulated=simulate(2.0, damping["value"].unique(), 0.3).astype(float).ravel()
    )
    assert explained_variance(other)["damping"] < 0.5


def test_the_latent_of_three_masses_is_about_the_published_one(chain):
    z = z_of_mass(chain, [0.1, 1.5, 2.0])
    z = z if z[-1] > z[0] else -z
    np.testing.assert_allclose(z, [-1.5, 0.52, 1.44], atol=0.5)


def test_earlier_stages_fit_their_own_curves(chain):
    undamped = apply(chain[:1], draw(200, ("length",), 7))
    missed = (undamped["undamped"] - undamped["observed"]).square().mean()
    assert missed < undamped["observed"].var(0).mean() / 2
    damped = apply(chain[:2], draw(200, ("length", "damping"), 7))
    assert set(damped) == {*FACTORS, "observed", "undamped", "damped"}
    assert (damped["damped"] - damped["observed"]).square().mean().sqrt() < 0.05


def test_stages_are_published_ones_and_not_changed_by_later_ones():
    assert [(plan.samples, plan.epochs) for plan in PUBLISHED] == [
        (500, 400),
        (2000, 400),
        (5000, 200),
    ]
    short = [replace(plan, samples=100, epochs=2) for plan in PUBLISHED]
    before = torch.get_rng_state()
    two, three = train(short[:2], progress=False), train(short, progress=False)
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(two, three, strict=False):
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(a, b)
    sizes = [[tuple(p.shape) for p in stage.parameters()][::2] for stage in three]
    assert sizes[0] == [(400, 1), (400, 400), (100, 400)]
    assert sizes[1] == [(400, 101), (400, 400), (100, 400)]
    assert sizes[2] == [(400, 100), (2, 400), (400, 101), (400, 400), (100, 400)]
    again = train(short, progress=False)
    other = train(short, seed=1, progress=False)
    assert evaluate(again) == evaluate(three) != evaluate(other)


def test_the_loss_is_the_negative_bound_of_torchs_own_distributions():
    stage = ResidualVAE(PUBLISHED[2], 100)
    generator = torch.Generator().manual_seed(0)
    known = {name: torch.randn(6, 100, generator=generator) for name in ("damped", "observed")}
    noise = torch.randn(6, 1, generator=generator)
    mean, variance = stage.encode(known)
    q = torch.distributions.Normal(mean, variance.sqrt())
    p = torch.distributions.Normal(0.0, 1.0)
    curves = stage.network(torch.cat([known["damped"], mean + variance.sqrt() * noise], 1))
    misfit = -torch.distributions.Normal(curves, 0.25).log_prob(known["observed"]).sum(1)
    nll, kl = stage.terms(known, noise)
    torch.testing.assert_close(nll, misfit)
    torch.testing.assert_close(kl, torch.distributions.kl_divergence(q, p).sum(1))
    torch.testing.assert_close(stage.loss(known, noise), (nll + kl).mean())
    exact = {"damped": known["damped"], "observed": curves.detach()}
    assert stage.terms(exact, noise)[0].min() >= FLOOR


def test_pendulums_are_drawn_from_the_grid():
    known = draw(3000, FACTORS, 5)
    assert sorted(set(known["mass"].flatten().tolist())) == pytest.approx([0.1, 0.5, 1, 1.5, 2])
    assert known["length"].unique().numel() == 21
    assert known["damping"].unique().numel() == 20
    row = [known[name][17].item() for name in FACTORS]
    np.testing.assert_allclose(known["observed"][17], simulate(*row), atol=1e-5)
    alone = draw(10, ("length",), 5)
    assert set(alone["damping"].flatten().tolist()) == {0}
    assert set(alone["mass"].flatten().tolist()) == {1}


def test_z_or_a_curve_is_needed(chain):
    known = draw(3, FACTORS)
    curves = known.pop("observed")
    with pytest.raises(DataError, check=about("observed")):
        apply(chain, known)
    read = apply(chain, {**known, "observed": curves})
    given = apply(chain, {**known, "z": read["z"]})
    assert torch.equal(read["angle"], given["angle"])


def test_explained_variance_is_a_share_of_variance():
    time = np.tile(np.arange(4.0), 2)
    true = np.array([0, 1, 2, 3, 0, -1, -2, -3.0])
    frame = pd.DataFrame({"factor": "z", "time": time, "simulated": true})
    assert explained_variance(frame.assign(angle=true)) == {"z": 1.0}
    assert explained_variance(frame.assign(angle=0.0))["z"] == pytest.approx(0)
    assert explained_variance(frame.assign(angle=true / 2))["z"] == pytest.approx(0.75)
