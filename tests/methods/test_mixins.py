"""Mixins in custom methods, which neither the engine nor models know by name."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.data.pairs import WeakPairs
from unweave.errors import UnweaveError
from unweave.methods import (
    CustomPrior,
    Diagnostics,
    Ensemble,
    KnownFactors,
    Losses,
    Pairs,
    PerModel,
    SecondStage,
)
from unweave.methods.base import MODEL
from unweave.methods.vae import VAE
from unweave.plots.traversals import draw_prior

QUICK = {"steps": 2, "batch": 4, "latents": 3, "progress": False}


@pytest.fixture(scope="module")
def data():
    few = range(0, 32, 8)
    return uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=few, posY=few)


@dataclass(frozen=True, kw_only=True)
class Twins(Pairs, VAE):
    """A VAE that also keeps the codes of a pair close."""

    name = "twins"
    weight: Annotated[float, PerModel] = 1.0

    def pair_rule(self):
        return WeakPairs(changed=1)

    def losses(self, nets, batch):
        whole = super().losses(nets, batch)
        other = nets.encode(batch.paired(self.name)).mu
        apart = (nets.encode(batch.images).mu - other).square().sum(-1).mean(-1)
        loss = whole.groups[MODEL] + self.weight * apart
        return Losses({MODEL: loss}, {**whole.terms, "apart": apart})


def test_a_method_on_pairs(data):
    fleet = uw.train(Twins(weight=[0, 10]), data, **QUICK)
    assert (fleet.curve["apart"] > 0).all()
    with pytest.raises(UnweaveError):
        uw.train(Twins(), uw.data.load(data[:]), **QUICK)


@dataclass(frozen=True, kw_only=True)
class Watched(Diagnostics, VAE):
    """A VAE that reports the largest mean of its codes."""

    name = "watched"
    sign: Annotated[float, PerModel] = 1.0

    def diagnostic_names(self, latents):
        return tuple(f"largest_{latent}" for latent in range(latents))

    def diagnostics(self, means, logvars, parameters):
        assert means.shape == logvars.shape
        assert not parameters
        return (self.sign * means[0].max(0)).tolist()


def test_diagnostics_are_columns_of_the_curve(data):
    fleet = uw.train(Watched(sign=[1, 0]), data, **QUICK)
    columns = [f"largest_{latent}" for latent in range(3)]
    assert list(fleet.curve.columns[-3:]) == columns
    expected = fleet[0].encode(data)[0].max(0)  # all of its images are followed, since few
    np.testing.assert_allclose(fleet[0].curve[columns].iloc[-1], expected, rtol=1e-4)
    assert (fleet[1].curve[columns].iloc[-1] == 0).all()


@dataclass(frozen=True, kw_only=True)
class Wide(CustomPrior, VAE):
    """A VAE that takes its prior for N(0, 100)."""

    name = "wide"

    def prior_samples(self, stream, count, latents, parameters):
        assert "encoder/0.weight" in parameters
        return 10 * stream.normal(count, latents)


def test_codes_are_sampled_from_a_custom_prior(data):
    wide, plain = (uw.train(method, data, **QUICK)[0] for method in (Wide(), VAE()))
    np.testing.assert_allclose(draw_prior(wide, 5, 0), 10 * draw_prior(plain, 5, 0), rtol=1e-6)
    for model in (wide, plain):
        with pytest.raises(UnweaveError, check=about("exponents")):
            _ = model.exponents


@dataclass(frozen=True, kw_only=True)
class Apart(Ensemble, VAE):
    """VAEs that have only their images in common."""

    name = "apart"

    @property
    def num_members(self):
        return 2

    def member_method(self):
        return VAE()

    def maps(self, latents, parameters):
        assert len(parameters["encoder/0.weight"]) == 2
        return np.broadcast_to(np.eye(latents, dtype=np.float32), (2, 2, latents, latents))

    def losses(self, nets, batch):
        own = super().losses(nets, batch.of_members())
        loss = own.groups[MODEL].unflatten(0, (-1, 2)).sum(-1)
        return Losses({MODEL: loss}, {})


def test_members_of_an_ensemble_are_models(data):
    fleet = uw.train(Apart(), data, seeds=2, **QUICK)
    assert fleet.maps.shape == (2, 2, 2, 3, 3)
    assert [config.method for config in fleet.members.configs] == [VAE()] * 4
    alone = uw.train(VAE(), data, seeds=2, **QUICK)
    for ensemble, single in zip(fleet, alone, strict=True):
        first, second = (member.parameters["decoder"] for member in ensemble.members)
        assert (first - single.parameters["decoder"]).abs().max() < 1e-5
        assert (second - first).abs().max() > 1e-2


@dataclass(frozen=True, kw_only=True)
class Told(KnownFactors, VAE):
    """Draws images from two factors."""

    name = "told"

    @property
    def factor_names(self):
        return ("posX", "posY")

    def losses(self, nets, batch):
        padded = torch.cat([batch.factors, torch.zeros_like(batch.factors[..., :1])], -1)
        loss = nets.reconstruction(padded, batch.images)
        means = {f"mean_{k}": batch.factors[..., k].mean(-1) for k in range(2)}
        return Losses({MODEL: loss}, means)


def test_known_factors_come_with_their_images(data):
    curve = uw.train(Told(), data, **{**QUICK, "batch": 512, "steps": 1}).curve
    assert curve[["mean_0", "mean_1"]].abs().to_numpy().max() < 0.2  # scaled to mean 0


@dataclass(frozen=True, kw_only=True)
class Copy(SecondStage, VAE):
    """A VAE that is kept close to the codes of its first stage."""

    name = "copy"

    def losses(self, nets, batch):
        whole = super().losses(nets, batch)
        taught = self.first_stage(nets).encode(batch.images).mu
        error = (nets.encode(batch.images).mu - taught).square().sum(-1).mean(-1)
        return Losses({MODEL: whole.groups[MODEL] + error}, {"error": error})


def test_a_second_stage_builds_on_trained_models(data):
    first = uw.train(VAE(), data, seeds=2, **QUICK)
    fleet = uw.train(Copy(), data, first=first, **QUICK)
    assert len(fleet) == 2
    assert torch.equal(fleet.first.parameters["encoder"], first.parameters["encoder"])
    with pytest.raises(UnweaveError, check=about("first", None)):
        uw.train(Copy(), data, **QUICK)
