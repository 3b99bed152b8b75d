"""Torch datasets and loaders as data sets."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

import unweave as uw
from unweave.errors import DataError

IMAGES = np.random.default_rng(0).integers(0, 256, (300, 32, 32, 3), dtype=np.uint8)


class Items(TorchDataset):
    """A typical map-style dataset, which does not raise IndexError at its end."""

    def __init__(self, make, count=300):
        self.make, self.count = make, count

    def __len__(self):
        return self.count

    def __getitem__(self, place):
        assert place < 2 * self.count, "read far past the end"
        return self.make(place % len(IMAGES))


class Alike:
    """Not a torch dataset, but with the same interface."""

    __len__, __getitem__ = Items.__len__, Items.__getitem__
    __init__ = Items.__init__


def as_float(place):
    return torch.from_numpy(IMAGES[place]).permute(2, 0, 1) / 255


@pytest.mark.parametrize("kind", [Items, Alike])
@pytest.mark.parametrize(
    "make",
    [lambda i: IMAGES[i], as_float, lambda i: Image.fromarray(IMAGES[i]), lambda i: [IMAGES[i]]],
    ids=["bytes", "floats", "pillow", "single"],
)
def test_a_dataset_of_images_is_read_to_its_length(kind, make):
    data = uw.data.load(kind(make))
    assert np.array_equal(data[:], IMAGES)
    assert data.grid is None
    assert data.labels is None


@pytest.mark.parametrize(
    "wrap",
    [lambda d: d, lambda d: DataLoader(d, batch_size=7, shuffle=True), DataLoader],
    ids=["dataset", "shuffled loader", "loader"],
)
@pytest.mark.parametrize("label", [int, np.int64, torch.tensor])
def test_integer_labels_become_a_factor(wrap, label):
    data = uw.data.load(wrap(Items(lambda i: (as_float(i), label(i % 3 + 5)))))
    assert np.array_equal(data[:], IMAGES)
    assert data.labels.names == ("label",)
    assert np.array_equal(data.factors(np.arange(7))[:, 0], [0, 1, 2, 0, 1, 2, 0])
    assert data.labels.axes[0].values == (5, 6, 7)


def test_rows_of_labels_become_factors_and_given_factors_come_first():
    labels = torch.stack([torch.arange(300) % 2, torch.arange(300) % 3], 1)
    source = TensorDataset(torch.from_numpy(IMAGES), labels)
    assert np.array_equal(uw.data.load(source).factors(np.arange(300)), labels)
    given = uw.data.load(source, factors={"own": np.arange(300) % 5})
    assert given.labels.names == ("own",)


@pytest.mark.parametrize("label", [0.5, "cat", {"a": 1}, None, True])
def test_other_labels_are_ignored(label):
    data = uw.data.load(Items(lambda i: (IMAGES[i], label)))
    assert np.array_equal(data[:], IMAGES)
    assert data.labels is None


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield IMAGES[0]


@pytest.mark.parametrize(
    "source",
    [
        Endless(),
        DataLoader(Endless()),
        Items(lambda i: {"image": IMAGES[i]}),
        Items(str),
        Items(lambda i: ()),
        Items(lambda i: i),
        Items(lambda i: np.zeros((32 + i, 32))),
        Items(lambda i: np.zeros((32 + i // 256, 32))),
        Items(lambda i: IMAGES[i], count=0),
    ],
    ids=["endless", "loader", "dict", "text", "empty", "number", "sizes", "later", "none"],
)
def test_datasets_without_images_or_length_are_rejected(source):
    with pytest.raises(DataError):
        uw.data.load(source)


def test_a_model_trains_on_a_loader():
    loader = DataLoader(Items(lambda i: (as_float(i), i % 3)), batch_size=16)
    fleet = uw.train("vae", loader, steps=1, batch=2, latents=2, progress=False)
    assert fleet.shape == (32, 32, 3)
