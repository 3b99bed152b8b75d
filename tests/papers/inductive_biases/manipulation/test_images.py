"""Changed data sets: their bytes, their order and labels, their names and origins."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import unweave as uw
from tests.raising import about
from unweave.data.export import export
from unweave.data.grid import Factor, Grid
from unweave.data.origin import rebuild
from unweave.errors import DataError, UnknownNameError
from unweave.models.config import Config
from unweave.papers.inductive_biases.manipulation import Manipulation, with_noise
from unweave.papers.inductive_biases.manipulation.images import PARTS, Mixture
from unweave.papers.inductive_biases.manipulation.manipulation import reflect, standardised
from unweave.study.sources import Source
from unweave.study.study import Study

SPRITES = (3, 6, 40, 32, 32)


@pytest.fixture(scope="module")
def sprites():
    return uw.data.load("dsprites")


@pytest.fixture(scope="module")
def file(make_up, tmp_path_factory):
    m = make_up((64, 64, 1), SPRITES, 0.1)
    m = replace(m, settings={"data": [["load", "dsprites", {}]]})
    return m.save(tmp_path_factory.mktemp("m") / "m.safetensors")


@pytest.fixture(scope="module")
def modified(file):
    return uw.data.load("dsprites-modified", path=file)


def some(data, count=40):
    return np.random.default_rng(0).choice(len(data), count, replace=False)


def test_bytes_are_those_of_the_formula(sprites, modified, file):
    """Against m in floats: at most a byte off, and nearly always none."""
    rows, m = some(sprites), Manipulation.load(file)
    classes = sprites.factors(rows)
    w = np.stack([values[classes[:, k]] for k, values in enumerate(standardised(sprites.grid))], 1)
    exact = 255 * reflect(torch.tensor(sprites.images(rows) / 255 + m(w))).numpy()
    off = np.abs(modified.images(rows) - exact)
    assert off.max() <= 1.001
    assert off.mean() < 0.35
    assert np.std(modified.images(rows).astype(float) - sprites.images(rows)) > 3


def test_the_nearest_row_of_the_table_counts():
    grid = Grid((Factor("a", range(3)), Factor("b", range(2))))
    steps = (np.array([[0, 0.4, 1.6], [0, 0.3, 0]]) * (1 << PARTS)).astype(np.int64)
    rule = Mixture(grid, steps, np.array([0, 10, 20], np.int8)[:, None, None, None])
    found = rule(np.arange(6), (1, 1, 1)).ravel()
    assert found.tolist() == [0, 0, 0, 10, 20, 20]


def test_no_pixel_moves_by_more_than_epsilon(sprites, modified):
    rows = some(sprites, 200)
    change = modified.images(rows).astype(int) - sprites.images(rows)
    assert 20 < np.abs(change).max() <= 0.1 * 255


def test_rounding_to_bytes_does_not_go_beyond_epsilon(panes, make_up):
    m = make_up(panes.shape, panes.grid.sizes, 0.175)
    last = list(m.parameters)[-1]
    m = replace(m, parameters={**m.parameters, last: torch.full_like(m.parameters[last], 20.0)})
    rows = np.arange(len(panes))
    change = m.modified(panes).images(rows).astype(int) - panes.images(rows)
    assert np.abs(change).max() == 44  # 0.175 · 255 = 44.6


def test_order_and_labels_are_unchanged(sprites, modified):
    rows = some(sprites)
    assert len(modified) == len(sprites)
    assert modified.grid.names == sprites.grid.names
    assert np.array_equal(modified.factors(rows), sprites.factors(rows))
    bright = modified.images(rows)[sprites.images(rows) == 255]
    assert bright.min() >= 255 - 25


@pytest.mark.parametrize("kind", ["modified", "noise"])
def test_all_access_methods_give_the_same_images(kind, modified, sprites):
    data = modified if kind == "modified" else uw.data.load("dsprites-noise", seed=4)
    rows = some(data)
    images = data.images(rows)
    assert images.dtype == np.uint8
    assert np.array_equal(images[::-1], data.images(rows[::-1].copy()))
    assert np.array_equal(images[3], data[int(rows[3])])
    there = data.to("cpu").images(torch.tensor(rows).view(5, 8))
    assert np.array_equal(images, there.numpy().reshape(images.shape))
    inputs = data.to("cpu").inputs(torch.tensor(rows), seed=9, step=5)
    assert np.array_equal(images, inputs.numpy())
    small = data.slice(shape=2, scale=[1, 5], orientation=range(0, 40, 7), posX=[3, 30])
    classes = small.factors(np.arange(len(small)))
    whole = np.stack(
        [
            np.full(len(small), 2),
            np.array([1, 5])[classes[:, 1]],
            7 * classes[:, 2],
            np.array([3, 30])[classes[:, 3]],
            classes[:, 4],
        ],
        1,
    )
    assert np.array_equal(small.images(np.arange(len(small))), data.images(data.index(whole)))
    twice = small.slice(posY=range(5)).to("cpu")
    assert np.array_equal(twice[7].numpy(), small[small.index([[0, 0, 0, 1, 2]])[0]])


def test_images_with_the_same_mixture_change_alike(modified, sprites, file):
    """Two classes of one factor and no others: changes differ; of a factor without a say: not."""
    m = Manipulation.load(file)
    weights = dict(m.parameters)
    weights["0.weight"] = weights["0.weight"].clone()
    weights["0.weight"][3] = 0
    blind = replace(m, parameters=weights).modified(sprites)

    def change(data, x):
        at = sprites.index([[0, 0, 0, x, 0]])
        return data.images(at).astype(int) - sprites.images(at)

    quiet = np.s_[:, 50:, 40:]  # where no sprite of these is
    assert np.array_equal(change(blind, 0)[quiet], change(blind, 9)[quiet])
    assert not np.array_equal(change(modified, 0)[quiet], change(modified, 31)[quiet])


def test_noise_is_uniform_independent_and_of_the_same_size():
    data = uw.data.load(np.full((60, 32, 32, 3), 128, np.uint8))
    noise = with_noise(data, 0.1, seed=1).images(np.arange(60)).astype(int) - 128
    counts = np.bincount(noise.ravel() + 25, minlength=51)
    assert len(counts) == 51
    expected = noise.size / 51
    assert (np.square(counts - expected) / expected).sum() < 90  # χ² of 50 degrees: p ≈ 0.0004
    for pair in (
        (noise[:, 1:], noise[:, :-1]),
        (noise[:, :, 1:], noise[:, :, :-1]),
        (noise[..., 0], noise[..., 1]),
        (noise[1:], noise[:-1]),
    ):
        correlation = np.corrcoef(pair[0].ravel(), pair[1].ravel())[0, 1]
        assert abs(correlation) < 5 / np.sqrt(pair[0].size)
    other = with_noise(data, 0.1, seed=2).images(np.arange(60)).astype(int) - 128
    assert abs(np.corrcoef(noise.ravel(), other.ravel())[0, 1]) < 0.02


def test_noise_is_reflected_and_not_clipped(sprites):
    rows = some(sprites, 100)
    images = uw.data.load("dsprites-noise").images(rows)
    dark = images[sprites.images(rows) == 0]
    assert (dark == 0).mean() == pytest.approx(1 / 51, abs=0.003)
    assert (dark == 25).mean() == pytest.approx(2 / 51, abs=0.003)
    assert dark.max() == 25


def test_names_have_the_sizes_of_the_paper():
    rooms = uw.data.load("rooms3d")
    noisy = uw.data.load("rooms3d-noise")
    rows = some(rooms, 20)
    change = np.abs(noisy.images(rows).astype(int) - rooms.images(rows))
    assert change.max() == 44  # 0.175 · 255 = 44.6
    other = uw.data.load("rooms3d-noise", epsilon=0.02)
    assert np.abs(other.images(rows).astype(int) - rooms.images(rows)).max() == 5


def test_the_origin_names_the_content_of_the_file(modified, file, make_up, tmp_path):
    (step,) = modified.origin
    assert step[:2] == ["load", "dsprites_modified"]
    assert step[2]["path"] == f"file {Manipulation.load(file).digest}"
    other = replace(
        make_up((64, 64, 1), SPRITES, 0.1, seed=1), settings=Manipulation.load(file).settings
    )
    second = uw.data.load("dsprites-modified", path=other.save(tmp_path / "m.safetensors"))
    assert second.origin != modified.origin
    runs = [Config(method=uw.methods.VAE(), data=d.origin).hash for d in (modified, second)]
    assert runs[0] != runs[1]
    assert np.array_equal(rebuild(modified.origin).images([5, 500]), modified.images([5, 500]))
    assert not np.array_equal(second.images([5, 500]), modified.images([5, 500]))


def test_studies_train_on_it(file, modified):
    said = {"load": "dsprites-modified", "path": str(file), "name": "changed"}
    source = Source.of(said)
    assert source.origin == modified.origin
    assert source.shape == modified.shape
    assert np.array_equal(source.open().images([77]), modified.images([77]))
    noise = {"load": "dsprites-noise", "epsilon": 0.1}
    study = Study(methods={"vae": {}}, data=[said, noise], steps=1)
    assert len({config.hash for config in study.runs()}) == 2
    assert Study.from_dict(study.to_dict()).runs() == study.runs()


def test_fleets_train_on_it(panes, make_up):
    m = make_up(panes.shape, panes.grid.sizes, 0.1)
    changed = m.modified(panes)
    settings = {"steps": 2, "batch": 8, "architecture": "small_mlp", "progress": False}
    one, two = (uw.train(uw.methods.VAE(), data, **settings) for data in (panes, changed))
    assert not torch.equal(one.parameters["encoder"], two.parameters["encoder"])
    assert one.configs[0].hash != two.configs[0].hash
    assert two.configs[0].data[0][0] == "own"
    other = make_up(panes.shape, panes.grid.sizes, 0.1, seed=1).modified(panes)
    assert len({panes.origin[0][2], changed.origin[0][2], other.origin[0][2]}) == 3
    noisy = [with_noise(panes, *size).origin[0][2] for size in ((0.1, 0), (0.1, 1), (0.2, 0))]
    assert len(set(noisy)) == 3


@pytest.mark.parametrize("ending", [".npz", ".h5"])
def test_exports_keep_every_grey_level(ending, tmp_path):
    data = uw.data.load("dsprites-noise").slice(scale=5, orientation=0, posX=3, posY=[1, 9])
    written = export(data, tmp_path / f"noisy{ending}")
    assert np.array_equal(uw.data.load(written)[:], data[:])


def test_invalid_arguments_are_rejected(file, tmp_path, sprites, panes, make_up):
    with pytest.raises(DataError, check=about("path", None)):
        uw.data.load("dsprites-modified")
    with pytest.raises(DataError, check=about(file, "dsprites")):
        uw.data.load("rooms3d-modified", path=file)
    with pytest.raises(DataError, check=about("path", tmp_path / "none.safetensors")):
        uw.data.load("dsprites-modified", path=tmp_path / "none.safetensors")
    with pytest.raises(DataError, check=about("SHA-256", "0123456789abcdef")):
        uw.data.load("dsprites-modified", path="file 0123456789abcdef")
    with pytest.raises(UnknownNameError, match="epsilon"):
        uw.data.load("dsprites-modified", path=file, epsilon=0.1)
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(DataError, check=about(broken)):
        uw.data.load("dsprites-modified", path=broken)
    with pytest.raises(DataError, check=about("data", "panes")):
        make_up(panes.shape, (2, 2, 2), 0.1).modified(panes)
    with pytest.raises(DataError, check=about("data", "noisy_dsprites")):
        with_noise(uw.data.load("noisy-dsprites"), 0.1)
    with pytest.raises(DataError, check=about("epsilon", 0.5)):
        with_noise(sprites, 0.5)


def test_a_saved_file_is_loaded_completely(file, tmp_path):
    m = Manipulation.load(file)
    again = Manipulation.load(m.save(tmp_path / "again.safetensors"))
    assert again.digest == m.digest
    assert (tmp_path / "again.safetensors").read_bytes() == file.read_bytes()
    assert again.epsilon == 0.1
    assert all(torch.equal(again.parameters[name], m.parameters[name]) for name in m.parameters)
    assert again.curve.equals(m.curve)


def test_a_flipped_bit_in_a_file_is_detected(file, tmp_path):
    path = tmp_path / "flipped.safetensors"
    whole, rng = file.read_bytes(), np.random.default_rng(0)
    places = [*rng.integers(len(whole), size=50), 0, 9, whole.index(b"epsilon") + 12, -1]
    for place in places:
        content = bytearray(whole)
        content[place] ^= 1 << rng.integers(8)
        path.write_bytes(content)
        with pytest.raises(DataError):
            Manipulation.load(path)


def test_a_file_of_an_earlier_version_opens_and_is_the_same_data(file, tmp_path):
    path = tmp_path / "older.safetensors"
    with safe_open(file, "pt") as opened:
        facts = json.loads(opened.metadata()["unweave"])
    del facts["check"]
    save_file(load_file(file), path, metadata={"unweave": json.dumps(facts, sort_keys=True)})
    older = Manipulation.load(path)
    assert older.digest == hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    assert older.save(tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [64, 64]},
        {"shape": [64, 64, 1.0]},
        {"shape": [2**70, 64, 1]},
        {"shape": "abc"},
        {"sizes": [0]},
        {"sizes": 5},
        {"epsilon": "nan"},
        {"epsilon": None},
        {"settings": 5},
        {"columns": ["a"]},
        {"columns": 5},
    ],
)
def test_invalid_metadata_is_rejected(file, tmp_path, change):
    path = tmp_path / "other.safetensors"
    with safe_open(file, "pt") as opened:
        facts = json.loads(opened.metadata()["unweave"]) | change
    del facts["check"]
    save_file(load_file(file), path, metadata={"unweave": json.dumps(facts)})
    with pytest.raises(DataError):
        Manipulation.load(path)


def test_weights_that_are_not_finite_are_rejected(file, tmp_path):
    tensors = load_file(file)
    tensors["0.bias"][0] = torch.nan
    with safe_open(file, "pt") as opened:
        facts = json.loads(opened.metadata()["unweave"])
    del facts["check"]
    path = tmp_path / "other.safetensors"
    save_file(tensors, path, metadata={"unweave": json.dumps(facts)})
    with pytest.raises(DataError, check=about(path)):
        Manipulation.load(path)
