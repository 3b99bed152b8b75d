"""A few small models, one latent of which is inactive, and their explorer."""

import numpy as np
import pytest

import unweave as uw
from tests.explorer.explorer_tools import IDLE, PORT, TOKEN, Client
from unweave.explorer.app import make_app
from unweave.explorer.model_index import entries_of
from unweave.explorer.opened_models import OpenedModels
from unweave.explorer.serving import running

PLANTED = (
    ("encoder", "6.weight", 45),
    ("decoder", "0.weight", 20),
    ("decoder", "6.weight", 20),
)


def plant(fleet):
    """Make codes and images vary like those of trained models, except for one latent."""
    for name, network, factor in PLANTED:
        parts = dict(fleet._networks[name].named(fleet.parameters[name]))
        parts[network].mul_(factor)
    last = dict(fleet._networks["encoder"].named(fleet.parameters["encoder"]))
    d = fleet.configs[0].latents
    for part in ("6.weight", "6.bias"):
        last[part][..., [IDLE, d + IDLE]] = 0
    return fleet


@pytest.fixture(scope="session")
def sprites():
    """Return 192 sprites: three shapes at 8 × 8 positions."""
    places = range(0, 32, 4)
    return uw.data.load("dsprites").slice(scale=5, orientation=0, posX=places, posY=places)


@pytest.fixture(scope="session")
def fleet(sprites):
    """Train β-VAEs with β = 1 and β = 4."""
    quick = {"steps": 2, "batch": 4, "latents": 5, "progress": False}
    return plant(uw.train(uw.methods.BetaVAE(beta=[1, 4]), sprites, **quick))


@pytest.fixture(scope="session")
def raw(sprites):
    """Return an untrained model."""
    return uw.train(uw.methods.VAE(), sprites, steps=0, latents=5, progress=False)[0]


@pytest.fixture(scope="session")
def colours():
    """Train a VAE and an autoencoder on custom 32 × 32 colour images."""
    images = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
    data = uw.data.load(images, name="noise")
    quick = {"steps": 1, "batch": 4, "latents": 3, "progress": False}
    trained = [
        uw.train(method, data, **quick)[0] for method in (uw.methods.VAE(), uw.methods.AE())
    ]
    return data, trained


@pytest.fixture(scope="session")
def runs(fleet, raw, tmp_path_factory, resettled):
    """Save four runs: two good ones, an untrained one and a truncated one."""
    folder = tmp_path_factory.mktemp("runs")
    fleet.save(folder)
    raw.save(folder / raw.config.hash)
    short = raw.save(folder / "short")
    truncate(short / "weights.safetensors")
    # Give it another hash than the saved run.
    resettled(short, (short / "config.json").read_text().replace('"seed": 0', '"seed": 7'))
    return folder


def truncate(file):
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])


@pytest.fixture(scope="session")
def client(runs):
    """Return a client of the explorer of these runs, without a network."""
    return Client(make_app(OpenedModels(entries_of(runs)), PORT, TOKEN))


@pytest.fixture(scope="session")
def address(runs):
    """Serve the explorer of these runs and return its address."""
    with running(runs) as address:
        yield address
