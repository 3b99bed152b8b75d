"""A small run of any method, built-in or not."""

from unweave.methods import Auxiliary, BetaVAE, KnownFactors, SecondStage
from unweave.models.config import Config

SMALLER = {
    "vae_ensemble": {"members": 2},
    "infogan": {"codes": 2},
    "factor_vae": {"width": 50},
}


def run_of(kind, data, seed=0, strength=None, of_method=(), **settings):
    """A run with a batch of four; the method's first strength, if any, is the one given."""
    values = {**SMALLER.get(kind.name, {}), **dict(of_method)}
    shared = {"batch": 4, "latents": 5}
    if strength is not None and kind.strengths():
        values[kind.strengths()[0]] = strength
    if "small_dcgan" in kind.architectures:
        shared["architecture"] = "small_dcgan"
    if issubclass(kind, KnownFactors):
        values["known_factors"], shared["latents"] = ",".join(data.grid.names[:2]), 2
    if issubclass(kind, Auxiliary):
        values["factor"], values["classes"] = data.grid.names[0], data.grid.sizes[0]
    if issubclass(kind, SecondStage):
        shared["first"] = Config(method=BetaVAE(), seed=seed, batch=4, latents=3)
    return Config(method=kind(**values), seed=seed, **{**shared, **settings})
