"""Data sets of Hugging Face's library: images, labels, and folders that may be malicious."""

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from PIL import Image

import unweave as uw
from tests.raising import about
from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.study.sources import Source

NAMES = ["star", "disc", "bar"]


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def table(images, **columns):
    """Data set with a column of images and other columns, whose types are inferred."""
    features = datasets.Features(image=datasets.Image())
    found = datasets.Dataset.from_dict({"image": [*images]}, features=features)
    for name, values in columns.items():
        found = found.add_column(name, values)
    return found


def saved(folder, dataset):
    datasets.disable_progress_bars()
    dataset.save_to_disk(folder)
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("socket.socket.connect", refuse)


@pytest.mark.parametrize("shape", [(64, 64), (64, 64, 3)], ids=["grey", "colour"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_images_come_through_unchanged_and_in_order(tmp_path, shape, on_disk):
    images = noise(5, *shape)
    source = table(images)
    name = "saved" if on_disk else "images"
    data = uw.data.load(saved(tmp_path / "saved", source) if on_disk else source)
    assert np.array_equal(data[:].squeeze(), images)
    assert data.files == tuple(f"{name}[{row}]" for row in range(5))
    assert (data.name, data.skipped, data.notes) == (name, (), ())


def test_rows_that_were_selected_or_shuffled_are_read_in_their_order(tmp_path):
    images = noise(6, 64, 64)
    source = table(images).select([4, 1, 5])
    for one in (source, saved(tmp_path / "some", source), source.with_format("numpy")):
        assert np.array_equal(uw.data.load(one)[:].squeeze(), images[[4, 1, 5]])


def test_images_are_prepared_like_files(tmp_path):
    """Of 12 bits, not square, rotated, and in colour with transparency."""
    (tmp_path / "files").mkdir()
    deep = (noise(70, 90).astype(np.uint16) * 16)[:, :, None]
    pictures = [Image.fromarray(deep[..., 0]), Image.fromarray(noise(70, 90, 1)[..., 0])]
    exif = Image.Exif()
    exif[0x0112] = 6
    encoded = []
    for k, (picture, kind) in enumerate(zip(pictures, ("png", "jpeg"), strict=True)):
        content = io.BytesIO()
        picture.save(content, kind, **({"exif": exif} if kind == "jpeg" else {}))
        (tmp_path / "files" / f"{k}.{kind}").write_bytes(content.getvalue())
        encoded.append({"bytes": content.getvalue(), "path": None})
    expected, found = uw.data.load(tmp_path / "files"), uw.data.load(table(encoded))
    assert np.array_equal(found[:], expected[:])
    assert found.bits == expected.bits == 12
    assert len(found.notes) == len(expected.notes)


@pytest.mark.parametrize("on_disk", [False, True])
def test_columns_become_factors(tmp_path, on_disk):
    source = table(noise(6, 64, 64), label=[0, 2, 1, 0, 2, 1], size=[1.5, 1.5, 1.5, 3, 3, 3])
    source = source.cast_column("label", datasets.ClassLabel(names=NAMES))
    source = saved(tmp_path / "saved", source) if on_disk else source
    assert uw.data.load(source).labels is None
    data = uw.data.load(source, factors="label")
    (axis,) = data.known_factors().axes
    assert (axis.name, tuple(axis.values)) == ("label", ("bar", "disc", "star"))
    names = [axis.values[k] for k in data.factors(np.arange(6))[:, 0]]
    assert names == [NAMES[k] for k in (0, 2, 1, 0, 2, 1)]
    for both in (["size", "label"], "size,label", Path("size,label")):
        grid = uw.data.load(source, factors=both).grid
        assert (grid.names, grid.sizes) == (("size", "label"), (2, 3))


def test_other_tables_of_factors_are_accepted(tmp_path):
    source = table(noise(4, 64, 64))
    (tmp_path / "label.csv").write_text("brightness\n1\n1\n2\n2\n")
    assert uw.data.load(source, factors=tmp_path / "label.csv").labels.names == ("brightness",)
    assert uw.data.load(source, factors={"k": [0, 1, 2, 2]}).labels.names == ("k",)
    assert uw.data.load(source, factors=np.arange(4)[:, None] // 2).labels is not None


@pytest.mark.parametrize("value", [None, -1])
def test_missing_labels_are_located(value):
    source = table(noise(3, 64, 64), label=[0, 1, 1])
    source = source.remove_columns("label").add_column(
        "label", [0, value, 1], feature=datasets.ClassLabel(names=NAMES)
    )
    with pytest.raises(DataError, check=about("label", 1)):
        uw.data.load(source, factors="label")


def test_unknown_columns_are_errors_with_the_columns():
    with pytest.raises(UnknownNameError):
        uw.data.load(table(noise(3, 64, 64), kind=[0, 1, 1]), factors=["knd"])


def test_images_that_cannot_be_read_are_skipped_with_their_factors():
    good = io.BytesIO()
    Image.fromarray(noise(64, 64)).save(good, "png")
    cells = [
        {"bytes": content, "path": None} for content in (good.getvalue(), b"x", b"%!PS-Adobe")
    ]
    source = table([*cells, None, cells[0]], label=[0, 1, 2, 3, 4])
    data = uw.data.load(source, factors="label")
    assert data.files == ("images[0]", "images[4]")
    assert [line.partition(": ")[0] for line in data.skipped] == [
        f"images[{k}]" for k in (1, 2, 3)
    ]
    assert data.known_factors().axes[0].values == (0, 4)


def test_arrays_are_read_like_arrays(tmp_path):
    images = noise(5, 40, 48, 5)
    features = datasets.Features(pixels=datasets.Array3D((40, 48, 5), "uint8"))
    source = datasets.Dataset.from_dict({"pixels": images}, features=features)
    for one in (source, saved(tmp_path / "arrays", source)):
        assert np.array_equal(uw.data.load(one)[:], images)
    assert uw.data.load(source, size=32).shape == (32, 32, 5)


def test_the_only_split_of_a_dictionary_is_read(tmp_path):
    images = noise(4, 64, 64)
    one = datasets.DatasetDict(train=table(images))
    for source in (one, saved(tmp_path / "one", one)):
        assert np.array_equal(uw.data.load(source)[:].squeeze(), images)
    two = datasets.DatasetDict(train=table(images), test=table(images[:2]))
    for source in (two, saved(tmp_path / "two", two)):
        with pytest.raises(DataError, check=about("source", ["train", "test"])):
            uw.data.load(source)
    assert len(uw.data.load(tmp_path / "two" / "test")) == 2


def test_other_data_sets_are_errors():
    images = noise(3, 64, 64)
    with pytest.raises(DataError, check=about("source", "IterableDataset")):
        uw.data.load(table(images).to_iterable_dataset())
    with pytest.raises(DataError, check=about("source", {"k": "Value"})):
        uw.data.load(datasets.Dataset.from_dict({"k": [1, 2]}))
    features = datasets.Features(a=datasets.Image(), b=datasets.Image())
    columns = {"a": [*images], "b": [*images]}
    several = datasets.Dataset.from_dict(columns, features=features)
    with pytest.raises(DataError, check=about("source", ["a", "b"])):
        uw.data.load(several)
    assert len(uw.data.load(several.rename_column("b", "image"))) == 3


def test_a_module_of_the_same_name_is_not_the_library():
    class Own(torch.utils.data.Dataset):
        __module__ = "datasets"

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return noise(64, 64), index

    assert uw.data.load(Own()).known_factors().names == ("label",)


def test_a_study_names_columns_in_a_list(tmp_path):
    folder = saved(tmp_path / "saved", table(noise(6, 64, 64), label=[0, 1, 2] * 2))
    data = Source.of({"load": str(folder), "factors": ["label"]}).open()
    assert data.labels.names == ("label",)


def test_images_outside_a_saved_folder_are_not_opened(tmp_path):
    Image.fromarray(noise(64, 64)).save(tmp_path / "secret.png")
    for path in (str(tmp_path / "secret.png"), "https://example.org/a.png"):
        cells = [{"bytes": None, "path": path}] * 3
        kind = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
        source = datasets.Dataset.from_dict(
            {"image": cells}, features=datasets.Features(image=kind)
        )
        folder = saved(tmp_path / "saved", source)
        info = json.loads((folder / "dataset_info.json").read_text())
        info["features"]["image"] = {"_type": "Image"}
        (folder / "dataset_info.json").write_text(json.dumps(info))
        with pytest.raises(DataError):
            uw.data.load(folder)
    (tmp_path / "a").mkdir()
    own = table([str(tmp_path / "secret.png")] * 2)  # the user's own paths are opened
    assert len(uw.data.load(own)) == 2


def edited(folder, name, change):
    plain = json.loads((folder / name).read_text())
    change(plain)
    (folder / name).write_text(json.dumps(plain))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dataset_info.json", lambda it: it["features"].update(x={"_type": "Path"})),
        ("dataset_info.json", lambda it: it["features"].update(x=[{"_type": "Features"}])),
        ("dataset_info.json", lambda it: it.update(features={"image": {"_type": ["Image"]}})),
        ("state.json", lambda it: it.update(_data_files=[{"filename": "../other.arrow"}])),
        ("state.json", lambda it: it.update(_data_files=[{"filename": 3}])),
        ("state.json", lambda it: it.update(_data_files=[{"filename": "missing.arrow"}])),
        ("state.json", lambda it: it.update(_data_files=3)),
        ("state.json", lambda it: it.pop("_data_files")),
        ("state.json", lambda it: it.pop("_fingerprint")),
        ("state.json", lambda it: it.update(_format_type="nothing")),
    ],
)
def test_damaged_folders_are_one_line_errors(tmp_path, name, change):
    folder = saved(tmp_path / "saved", table(noise(3, 64, 64)))
    edited(folder, name, change)
    with pytest.raises(UnweaveError) as raised:
        uw.data.load(folder)
    assert "\n" not in str(raised.value)


def test_only_known_types_of_columns_are_created(tmp_path, monkeypatch):
    folder = saved(tmp_path / "saved", table(noise(3, 64, 64)))
    edited(folder, "dataset_info.json", lambda it: it["features"].update(x={"_type": "Own"}))

    @dataclass
    class Own:
        def __post_init__(self):
            raise AssertionError("the type was created")

    monkeypatch.setitem(datasets.features.features._FEATURE_TYPES, "Own", Own)
    with pytest.raises(DataError):
        uw.data.load(folder)


def test_truncated_data_is_an_error(tmp_path):
    folder = saved(tmp_path / "saved", table(noise(3, 64, 64)))
    (file,) = folder.glob("*.arrow")
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(DataError):
        uw.data.load(folder)


def test_a_missing_library_is_an_error_with_its_command(tmp_path, monkeypatch):
    folder = saved(tmp_path / "saved", table(noise(3, 64, 64)))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UnweaveError, match=r"pip install 'unweave\[huggingface\]'"):
        uw.data.load(folder)


def test_models_train_on_a_data_set_and_encode_it():
    source = table(noise(8, 32, 32), label=[0, 1] * 4)
    options = {"steps": 2, "batch": 4, "latents": 2, "architecture": "small_mlp"}
    fleet = uw.train("vae", source, size=32, factors="label", progress=False, **options)
    codes = uw.encode(fleet[0], source, progress=False)
    assert codes["file"].tolist() == [f"images[{row}]" for row in range(8)]
