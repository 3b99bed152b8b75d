"""A few small models whose latents matter, one of which says nothing, and their explorer."""

import numpy as np
import pytest

import unweave as uw
from tests.explorer.explorer_tools import IDLE, PORT, TOKEN, Client
from unweave.explorer.app import make_app
from unweave.explorer.model_index import entries_of
from unweave.explorer.opened_models import Shelf
from unweave.explorer.serving import running

PLANTED = (
    ("encoder", "6.weight", 20),
    ("decoder", "0.weight", 20),
    ("decoder", "6.weight", 20),
)


def plant(fleet):
    """Make codes and pictures vary as those of trained models do, all but one latent."""
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
    """192 sprites: three shapes at 8 × 8 places."""
    places = range(0, 32, 4)
    return uw.data.load("dsprites").slice(scale=5, orientation=0, posX=places, posY=places)


@pytest.fixture(scope="session")
def fleet(sprites):
    """A β-VAE of 1 and one of 4."""
    quick = {"steps": 2, "batch": 4, "latents": 5, "progress": False}
    return plant(uw.train(uw.methods.BetaVAE(beta=[1, 4]), sprites, **quick))


@pytest.fixture(scope="session")
def raw(sprites):
    """A model that took no step."""
    return uw.train(uw.methods.VAE(), sprites, steps=0, latents=5, progress=False)[0]


@pytest.fixture(scope="session")
def colours():
    """Two coloured models of 32 × 32 images of one's own: a VAE, and an autoencoder."""
    images = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
    data = uw.data.load(images, name="noise")
    quick = {"steps": 1, "batch": 4, "latents": 3, "progress": False}
    trained = [
        uw.train(method, data, **quick)[0] for method in (uw.methods.VAE(), uw.methods.AE())
    ]
    return data, trained


@pytest.fixture(scope="session")
def runs(fleet, raw, tmp_path_factory, resettled):
    """A folder of four runs: two good ones, one that was never trained, one that is cut short."""
    folder = tmp_path_factory.mktemp("runs")
    fleet.save(folder)
    raw.save(folder / raw.config.hash)
    short = raw.save(folder / "short")
    cut_short(short / "weights.safetensors")
    # Another run than the one that was saved.
    resettled(short, (short / "config.json").read_text().replace('"seed": 0', '"seed": 7'))
    return folder


def cut_short(file):
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])


@pytest.fixture(scope="session")
def client(runs):
    """The explorer of these runs, asked as its page asks."""
    return Client(make_app(Shelf(entries_of(runs)), PORT, TOKEN))


@pytest.fixture(scope="session")
def address(runs):
    """Where the explorer of these runs is really served."""
    with running(runs) as address:
        yield address
