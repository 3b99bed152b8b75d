"""The files of saved models: damaged, swapped, hostile and older ones, and the same bytes."""

import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

import unweave as uw
from unweave.cli import main
from unweave.errors import UnweaveError
from unweave.models import files as model_files
from unweave.report.subject import opened

FILES = ("config.json", "weights.safetensors", "curve.parquet")
SUMS = "SHA256SUMS"
SMALL = {"steps": 2, "batch": 8, "latents": 2, "architecture": "small_mlp", "progress": False}


@pytest.fixture(scope="module")
def saved(sprites, tmp_path_factory):
    """Two runs in a folder."""
    folder = tmp_path_factory.mktemp("saved")
    uw.train(uw.methods.VAE(), sprites, seeds=2, out=folder, **SMALL)
    return folder


@pytest.fixture
def runs(saved, tmp_path):
    """A copy of the two runs for every test."""
    folder = shutil.copytree(saved, tmp_path / "runs")
    return sorted(folder.iterdir())


def resum(folder):
    """Make the checksums of a folder right again, as whoever forges a model would."""
    lines = [
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}" for name in FILES
    ]
    (folder / SUMS).write_text("\n".join(lines) + "\n")


def flip(path, place, bit=0):
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def parts_of(path):
    """A place in every part of a safetensors file: lengths, header, metadata, each tensor."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    tensors = [value["data_offsets"] for name, value in header.items() if name != "__metadata__"]
    places = [0, 7, 9, 8 + content[8:].index(b"diverged_at"), 8 + length - 3, len(content) - 1]
    return places + [8 + length + start + (end - start) // 2 for start, end in tensors]


def refused(folder, *words):
    with pytest.raises(UnweaveError) as caught:
        uw.load(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    for word in words:
        assert word in message


def test_a_flipped_bit_in_any_part_of_the_weights_is_found(runs):
    path = runs[0] / "weights.safetensors"
    places = parts_of(path)
    assert len(places) > 10
    for place in places:
        for bit in (0, 6):
            flip(path, place, bit)
            refused(runs[0], "weights.safetensors")
            flip(path, place, bit)
    uw.load(runs[0])


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_cut_grown_or_swapped_are_found(runs, name):
    path = runs[0] / name
    whole = path.read_bytes()
    other = (runs[1] / name).read_bytes()
    for content in (b"", whole[:-1], whole[: len(whole) // 2], whole + b"\n", other):
        path.write_bytes(content)
        refused(runs[0], name)
    path.write_bytes(whole)
    uw.load(runs[0])


def test_checksums_that_are_missing_or_malformed_are_found(runs):
    path = runs[0] / SUMS
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for content in (
        b"",
        b"".join(lines[:2]),
        b"".join(lines[1:]),
        whole + lines[0],
        whole.replace(b"  ", b" "),
        b"\xff" * 100,
        b"0" * 64 + b"  ../../etc/passwd\n" + whole,
        b"x" * (2 << 20),
    ):
        path.write_bytes(content)
        refused(runs[0], SUMS)
    path.unlink()
    refused(runs[0], SUMS, "sha256sum config.json weights.safetensors curve.parquet")
    command = f"sha256sum {' '.join(FILES)} > {SUMS}"
    subprocess.run(command, shell=True, cwd=runs[0], check=True)
    uw.load(runs[0])


def same(one, other):
    names = one.parameters.keys()
    return (
        one.config == other.config
        and one.shape == other.shape
        and int(one.diverged_at[0]) == int(other.diverged_at[0])
        and names == other.parameters.keys()
        and all(torch.equal(one.parameters[name], other.parameters[name]) for name in names)
        and one.curve.equals(other.curve)
    )


@pytest.mark.parametrize("name", [*FILES, SUMS])
def test_random_bit_flips_are_detected_or_harmless(runs, name):
    model, path = uw.load(runs[0]), runs[0] / name
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(200):
        flip(path, rng.integers(len(whole)), rng.integers(8))
        try:
            assert same(uw.load(runs[0]), model)
        except UnweaveError:
            found += 1
        path.write_bytes(whole)
    assert found >= 195


def test_a_file_that_changes_later_is_found_though_its_size_and_time_are_the_same(
    runs, monkeypatch
):
    monkeypatch.setattr("unweave.io.checksums.SETTLED_SECONDS", -1.0)
    uw.load(runs[0])
    path = runs[0] / "weights.safetensors"
    times = path.stat()
    flip(path, -1)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    refused(runs[0], "weights.safetensors")


def test_unchanged_files_are_hashed_once(runs, monkeypatch):
    monkeypatch.setattr("unweave.io.checksums.SETTLED_SECONDS", -1.0)
    first = uw.load(runs[0])
    monkeypatch.setattr("hashlib.file_digest", None)
    assert same(uw.load(runs[0]), first)
    with pytest.raises(TypeError):  # so it would be, of a file that was not read before
        model_files.intact(runs[1])


def test_a_run_under_the_name_of_another_is_found(runs, tmp_path):
    shutil.rmtree(runs[1])
    runs[0].rename(runs[1])
    refused(runs[1], runs[0].name)
    uw.load(runs[1].rename(tmp_path / "mine"))


def test_training_does_not_take_a_damaged_run_for_a_finished_one(runs, sprites):
    flip(runs[0] / "weights.safetensors", -1)
    with pytest.raises(UnweaveError) as caught:
        uw.train(uw.methods.VAE(), sprites, seeds=2, out=runs[0].parent, **SMALL)
    assert "SHA256SUMS" in str(caught.value)


FACTS = {"shape": "[32, 32, 1]", "diverged_at": "-1"}
"""As earlier versions wrote them."""


def forge(folder, facts=FACTS, **changed):
    """Write the weights anew, with other metadata or other tensors, and right checksums."""
    path = folder / "weights.safetensors"
    weights = {name: value.clone() for name, value in load_file(path).items()} | changed
    save_file(weights, path, metadata=facts)
    resum(folder)


def test_weights_of_an_earlier_version_open(runs):
    model = uw.load(runs[0])
    forge(runs[0])
    assert same(uw.load(runs[0]), model)
    assert model_files.diverged_at(runs[0]) == -1
    forge(runs[0], {**FACTS, "diverged_at": "1"})
    assert model_files.diverged_at(runs[0]) == 1
    flip(runs[0] / "weights.safetensors", -1)
    with pytest.raises(ValueError, match="SHA256SUMS"):
        model_files.diverged_at(runs[0])


@pytest.mark.parametrize(
    "facts",
    [
        {"shape": "[32, 32, 1]"},
        {**FACTS, "shape": "[32, 32]"},
        {**FACTS, "shape": "[32, 32, 1, 1]"},
        {**FACTS, "shape": "[0, 32, 1]"},
        {**FACTS, "shape": "[-32, 32, 1]"},
        {**FACTS, "shape": "[true, 32, 1]"},
        {**FACTS, "shape": "[32.0, 32, 1]"},
        {**FACTS, "shape": "[1000000000, 1000000000, 1000000000]"},
        {**FACTS, "shape": "1" * 5000},
        {**FACTS, "shape": "[" * 100_000},
        {**FACTS, "shape": "null"},
        {**FACTS, "shape": "{}"},
        {**FACTS, "diverged_at": "-2"},
        {**FACTS, "diverged_at": "9223372036854775808"},
        {**FACTS, "diverged_at": "1e400"},
        {**FACTS, "diverged_at": "0.5"},
        {**FACTS, "diverged_at": "[]"},
        {**FACTS, "diverged_at": ""},
        {"unweave": "{}"},
        {"unweave": '{"facts": {"shape": [32, 32, 1], "diverged_at": -1}, "check": "00"}'},
        {"unweave": '{"facts": [], "check": []}'},
        None,
    ],
)
def test_impossible_metadata_are_one_sentence(runs, facts):
    forge(runs[0], facts)
    refused(runs[0])


def test_invalid_weights_raise_errors(runs):
    name = "encoder/1.weight"
    weights = load_file(runs[0] / "weights.safetensors")
    shape = weights[name].shape
    nan = weights[name].clone()
    nan[0, 0] = torch.nan
    for changed, word in (
        ({name: weights[name].double()}, "float32"),
        ({name: weights[name].to(torch.float16)}, "float32"),
        ({name: weights[name].to(torch.float8_e4m3fn)}, "float32"),
        ({name: weights[name][None].repeat(2, 1, 1)}, "got 2"),
        ({name: weights[name].flatten()}, "shape"),
        ({name: weights[name][None, None]}, "shape"),
        ({name: nan}, "not finite"),
        ({name: torch.full(shape, torch.inf)}, "not finite"),
        ({"another": torch.zeros(3)}, "parameters"),
    ):
        forge(runs[0], **changed)
        refused(runs[0], word)
        save_file(weights, runs[0] / "weights.safetensors", metadata=FACTS)
    forge(runs[0], {**FACTS, "diverged_at": "1"}, **{name: nan})
    assert uw.load(runs[0]).diverged_at.tolist() == [1]


def raw(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 2**40) + b"{}",
        raw(b"[" * 200_000),
        raw(b'{"a":' * 200_000),
        raw({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}),
        raw({"a": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 4]}}, bytes(4)),
        raw({n: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in "ab"}, bytes(4)),
        raw({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, bytes(4)),
        raw({"__metadata__": {"unweave": "[" * 100_000}}),
        raw({}),
    ],
)
def test_hostile_headers_are_one_sentence(runs, content):
    (runs[0] / "weights.safetensors").write_bytes(content)
    resum(runs[0])
    refused(runs[0])


@pytest.mark.parametrize("name", [*FILES, SUMS])
def test_non_files_and_huge_files_are_not_read(runs, name):
    path = runs[0] / name
    path.unlink()
    os.mkfifo(path)
    refused(runs[0])  # and does not wait for a writer
    path.unlink()
    path.mkdir()
    refused(runs[0])
    path.rmdir()
    with path.open("wb") as file:
        file.truncate(2 << 40)
    refused(runs[0])  # in an instant, though sparse files of terabytes take hours to hash


def test_hostile_curves_are_one_sentence(runs):
    path = runs[0] / "curve.parquet"

    many = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), ["x" * 100_000])
    for columns in (
        {"step": pa.array([1])},
        {"run": pa.array(["a"])},
        {"run": pa.array(["a"]), "step": pa.array([[1.0]])},
        {"run": pa.array(["a"]), "step": pa.array([{"a": 1}])},
        {"run": pa.array([b"bytes"]), "step": pa.array([1])},
        {"run": many, "step": pa.array(np.zeros(len(many)))},
    ):
        pq.write_table(pa.table(columns), path, store_schema=False)
        resum(runs[0])
        refused(runs[0], "curve.parquet")
    nothing = pa.nulls(2_000_000)
    pq.write_table(pa.table({f"c{k}": nothing for k in range(60)}), path, compression="zstd")
    assert path.stat().st_size < 1_000_000  # though it would be a gigabyte
    resum(runs[0])
    refused(runs[0], "curve.parquet")
    path.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    resum(runs[0])
    refused(runs[0], "curve.parquet")


@pytest.mark.parametrize("text", ["[]", "{}", "7", "null", "[" * 100_000, '{"method": 5}', "{"])
def test_impossible_settings_are_one_sentence(runs, text):
    folder = runs[0].rename(runs[0].parent / "mine")
    (folder / "config.json").write_text(text)
    resum(folder)
    with pytest.raises(UnweaveError):
        uw.load(folder)


def test_a_model_that_ends_with_weights_that_are_not_finite_has_diverged(sprites, tmp_path):
    """One step so long that the weights overflow, which no loss has told yet."""
    settings = {**SMALL, "steps": 1, "optimiser": uw.Adam(lr=3e38, eps=1e-30)}
    (model,) = uw.train(uw.methods.VAE(), sprites, **settings)
    overflown = not all(bool(value.isfinite().all()) for value in model.parameters.values())
    assert overflown
    assert model.diverged_at.tolist() == [1]
    assert uw.load(model.save(tmp_path / "model")).diverged_at.tolist() == [1]


@pytest.fixture(scope="module")
def factor_vae(sprites):
    """A model with a network that only training needs."""
    return uw.train(uw.methods.FactorVAE(width=50), sprites, **SMALL)[0]


def test_compact_files_hold_rounded_weights_and_no_discriminator(factor_vae, tmp_path):
    compact = uw.load(factor_vae.save(tmp_path / "compact", compact=True))
    assert factor_vae.parameters.keys() - compact.parameters.keys() == {"discriminator"}
    for name, value in compact.parameters.items():
        assert torch.equal(value, factor_vae.parameters[name].bfloat16().float())
    whole = factor_vae.save(tmp_path / "whole")
    of_both = [(tmp_path / name / FILES[1]).stat().st_size for name in ("compact", whole.name)]
    assert of_both[0] < of_both[1] / 2


def test_compact_models_encode_decode_and_are_saved_again(factor_vae, sprites, tmp_path):
    compact = uw.load(factor_vae.save(tmp_path / "compact", compact=True))
    mean, logvar = compact.encode(sprites[:9])
    expected, _ = factor_vae.encode(sprites[:9])
    np.testing.assert_allclose(mean, expected, atol=0.02 * np.abs(expected).max())
    assert compact.decode(mean).shape == (9, *sprites.shape)
    assert logvar.shape == mean.shape
    again = uw.load(compact.save(tmp_path / "again", compact=True))
    assert all(torch.equal(again.parameters[k], v) for k, v in compact.parameters.items())


def test_compact_models_are_no_base_of_a_second_stage(factor_vae, sprites, tmp_path):
    compact = uw.load(factor_vae.save(tmp_path / "compact", compact=True))
    with pytest.raises(UnweaveError) as caught:
        uw.train(
            uw.methods.MSVAE(), sprites, first=compact, **{**SMALL, "architecture": "small_dcgan"}
        )
    assert caught.value.subject == "first"


def test_other_networks_may_not_be_missing(factor_vae, tmp_path):
    folder = factor_vae.save(tmp_path / "model")
    weights = {k: v for k, v in load_file(folder / FILES[1]).items() if "decoder" not in k}
    metadata = {"shape": json.dumps([64, 64, 1]), "diverged_at": "-1"}
    save_file(weights, folder / FILES[1], metadata)
    resum(folder)
    refused(folder)


SAVE = """
import sys
import unweave as uw
uw.load(sys.argv[1]).save(sys.argv[2])
"""


def test_other_processes_write_the_same_bytes(runs, tmp_path):
    model = uw.load(runs[0])
    for name in "abcd":  # the order of a hash map may differ even within a process
        model.save(tmp_path / name)
    subprocess.run(
        [sys.executable, "-c", SAVE, str(runs[0]), str(tmp_path / "e")],
        env={**os.environ, "PYTHONHASHSEED": "5"},
        check=True,
    )
    for name in (*FILES, SUMS):
        contents = {(tmp_path / copy / name).read_bytes() for copy in "abcde"}
        assert contents == {(runs[0] / name).read_bytes()}


@pytest.fixture(scope="module")
def pictures(sprites, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    np.save(folder / "images.npy", sprites[:8])
    return folder / "images.npy"


@pytest.mark.parametrize(
    "words",
    [
        ["encode", "RUN", "IMAGES", "-o", "OUT/codes.csv"],
        ["export", "RUN", "-o", "OUT/onnx"],
        ["evaluate", "RUN"],
        ["show", "RUN", "-o", "OUT/x.png"],
    ],
    ids=lambda words: words[0],
)
def test_commands_report_damage_in_one_line(runs, pictures, words, tmp_path, capsys):
    flip(runs[0] / "weights.safetensors", -1)
    places = {"RUN": str(runs[0]), "IMAGES": str(pictures), "OUT": str(tmp_path)}
    given = [re.sub("RUN|IMAGES|OUT", lambda found: places[found[0]], word) for word in words]
    with pytest.raises(SystemExit) as caught:
        main(given)
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "weights.safetensors" in line
    assert "SHA256SUMS" in line


def test_a_report_lists_damaged_runs(runs):
    frame = pd.read_parquet(runs[0] / "curve.parquet").assign(loss=-1.0)
    frame.to_parquet(runs[0] / "curve.parquet", index=False)
    given = opened(runs[0].parent)
    assert given.table["run"].tolist() == [runs[1].name]
    ((run, state, error),) = given.trouble
    assert (run, state) == (runs[0].name, "damaged")
    assert "curve.parquet" in error
    flip(runs[1] / "config.json", 30)
    with pytest.raises(UnweaveError) as caught:
        opened(runs[0].parent)
    assert "2 runs" in str(caught.value)
