from pathlib import Path

import numpy as np
import pytest
import torch

from unweave.quality.features import load_inception, published_file

DRAWN_BEFORE = 21_751_136 + 2_048 * 1_008 + 1_008
"""The initial weights of torchmetrics' own network, drawn from the same seed before the images."""


@pytest.fixture(scope="session")
def published():
    """Content and SHA-256 of the published weights file that unweave finds."""
    return published_file()


@pytest.fixture(scope="session")
def weights(published, tmp_path_factory):
    """Path of a published weights file."""
    path = tmp_path_factory.mktemp("weights") / "weights"
    path.write_bytes(published[0])
    return path


@pytest.fixture(scope="session")
def network(weights):
    return load_inception(weights)


@pytest.fixture(scope="session")
def documented():
    """The example of torchmetrics' documentation: two sets of images, subsets of KID's, features.

    Its doctests start from seed 42, build the network, draw 100 noisy images of each kind, and for
    KID 100 times 50 of each. The features are those that `benchmarks/quality.py` keeps.
    """
    generator = torch.Generator().manual_seed(42)
    torch.rand(DRAWN_BEFORE, generator=generator)
    sets = [
        torch.randint(*limits, (100, 3, 299, 299), dtype=torch.uint8, generator=generator)
        for limits in ((0, 200), (100, 255))
    ]
    subsets = [
        [torch.randperm(100, generator=generator)[:50].numpy() for _ in sets] for _ in range(100)
    ]
    with np.load(Path(__file__).parent / "golden" / "documented.npz") as stored:
        features = [stored[name].astype(np.float64) for name in ("real", "generated")]
    return [images.permute(0, 2, 3, 1) for images in sets], subsets, features
