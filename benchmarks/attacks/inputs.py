"""Invalid inputs for every command: damaged files, odd names, and options out of range.

Each must be refused with an error message and exit code 2; a few may also succeed (code 0).
"""

import io
import os
import shutil
import socket
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from PIL import Image

from .calling import Tally, call

__all__ = ["bad_inputs"]

PICKLED = b"\x80\x04]\x94N\x85\x94."
"""A pickled list, which must never be loaded."""
KNOWN = ".known"
"""File with the names of all files that `prepare` wrote."""
HUGE = str(10**30)
REFUSED, ANY = (2,), (0, 2)


class Attack(NamedTuple):
    """A command line, run in the prepared folder, and the acceptable exit codes."""

    name: str
    words: tuple[str, ...]
    expected: tuple[int, ...] = REFUSED


def prepare(here: Path) -> None:
    """Write every file that the attacks use, and train one small model."""
    rng = np.random.default_rng(0)
    images = np.zeros((70, 32, 32), np.uint8)
    for image, (x, y) in zip(images, rng.integers(0, 24, (70, 2)), strict=True):
        image[y : y + 8, x : x + 8] = 255
    np.save(here / "images.npy", images)
    np.save(here / "codes.npy", rng.normal(size=(200, 3)))
    np.save(here / "factors.npy", rng.integers(0, 3, (200, 2)))
    (here / "images").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(here / "images" / f"{number:02}.png")
    _array_files(here, rng)
    _hdf5_files(here)
    _codes(here, rng)
    _tables(here)
    _places(here)
    _pictures(here, images[0])
    from unweave.cli import main

    words = [
        "--steps",
        "2",
        "--batch",
        "4",
        "--latents",
        "3",
        "--no-pictures",
        "--size",
        "32",
        "--out",
    ]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        main(["train", str(here / "images"), "beta-vae", *words, str(here / "runs")])
    next((here / "runs").glob("[!.]*")).rename(here / "run")
    (here / "runs").rmdir()
    (here / KNOWN).touch()
    (here / KNOWN).write_text("\n".join(path.name for path in here.iterdir()))


ARRAYS = (
    *("empty.npy", "empty.npz", "no-members.npz", "text-member.npz", "object.npy", "object.npz"),
    *("complex.npy", "datetime.npy", "timedelta.npy", "structured.npy", "void.npy", "words.npy"),
    *("bytes.npy", "no-axis.npy", "five-axes.npy", "no-rows.npy", "terabytes.npy"),
    *("terabytes.npz", "overflow.npy", "negative.npy", "bomb.npz", "cut.npy", "cut.npz"),
    *("flipped.npz", "code.npy", "long-header.npy", "nested-header.npy", "pickle.npy"),
    *("not-numpy.npy", "encrypted.npz", "pipe.npy", "pipe.npz", "zero.npy", "folder.npy"),
    *("loop.npy", "socket.npy", "missing.npy", "holes.npy"),
)


def _array_files(here: Path, rng: np.random.Generator) -> None:
    good = rng.normal(size=(200, 3))
    for name in ("empty.npy", "empty.npz"):
        (here / name).touch()
    zipfile.ZipFile(here / "no-members.npz", "w").close()
    with zipfile.ZipFile(here / "text-member.npz", "w") as archive:
        archive.writestr("codes", "no numbers here")
    objects = _raw_header(repr({"descr": "|O", "fortran_order": False, "shape": (1,)})) + PICKLED
    (here / "object.npy").write_bytes(objects)
    with zipfile.ZipFile(here / "object.npz", "w") as archive:
        archive.writestr("codes.npy", objects)
    np.save(here / "complex.npy", good + 1j)
    np.save(here / "datetime.npy", np.arange(600).reshape(200, 3).astype("M8[s]"))
    np.save(here / "timedelta.npy", np.arange(600).reshape(200, 3).astype("m8[s]"))
    np.save(here / "structured.npy", np.zeros(200, [("a", "f4"), ("b", "i4")]))
    np.save(here / "void.npy", np.zeros(200, "V8"))
    np.save(here / "words.npy", np.array([["a", "b"]] * 200))
    np.save(here / "bytes.npy", np.array([[b"a", b"b"]] * 200))
    np.save(here / "no-axis.npy", np.float64(3.0))
    np.save(here / "five-axes.npy", np.zeros((2, 2, 2, 2, 2)))
    np.save(here / "no-rows.npy", np.zeros((0, 3)))
    (here / "terabytes.npy").write_bytes(_header((10**9, 10**4)) + b"\0" * 64)
    with zipfile.ZipFile(here / "terabytes.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("codes.npy", _header((10**9, 10**4)) + b"\0" * 64)
    (here / "holes.npy").write_bytes(_header((10**6, 1000)))
    os.truncate(here / "holes.npy", (here / "holes.npy").stat().st_size + 8 * 10**9)
    (here / "overflow.npy").write_bytes(_header((10**30, 10**30)))
    (here / "negative.npy").write_bytes(_header((-5, 3)) + b"\0" * 120)
    with (
        zipfile.ZipFile(here / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("codes.npy", "w", force_zip64=True) as file,
    ):
        # numpy trusts the false size and allocates all of it.
        file.write(_header((40_000_000, 100)))
        for _ in range(200):
            file.write(b"\0" * 2**20)
    for name in ("cut.npy", "cut.npz"):
        whole = io.BytesIO()
        (np.save if name.endswith("npy") else np.savez)(whole, good)
        (here / name).write_bytes(whole.getvalue()[:1500])
    np.savez_compressed(here / "flipped.npz", codes=good)
    flipped = bytearray((here / "flipped.npz").read_bytes())
    flipped[len(flipped) // 2] ^= 255
    (here / "flipped.npz").write_bytes(flipped)
    (here / "code.npy").write_bytes(_raw_header("__import__('os').system('false')"))
    (here / "long-header.npy").write_bytes(_raw_header("{" + " " * 60_000 + "}"))
    (here / "nested-header.npy").write_bytes(_raw_header("(" * 9_000))
    (here / "pickle.npy").write_bytes(b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00.")
    (here / "not-numpy.npy").write_text("1,2,3\n")
    with zipfile.ZipFile(here / "encrypted.npz", "w") as archive:
        archive.writestr("codes.npy", _header((1, 1)))
    locked = bytearray((here / "encrypted.npz").read_bytes())
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    locked[6] |= 1
    (here / "encrypted.npz").write_bytes(locked)


def _header(shape: tuple[int, ...]) -> bytes:
    return _raw_header(repr({"descr": "<f8", "fortran_order": False, "shape": shape}))


def _raw_header(text: str) -> bytes:
    body = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


HDF5 = (
    *("sparse.h5", "outside.h5", "virtual.h5", "linked.h5", "references.h5", "words.h5"),
    *("empty.h5", "no-arrays.h5", "group.h5", "circle.h5", "cut.h5", "flipped.h5", "text.h5"),
    *("pipe.h5", "zero.h5", "folder.h5", "complex.h5", "scalar.h5", "deep.h5", "many.h5"),
)


def _hdf5_files(here: Path) -> None:
    with h5py.File(here / "sparse.h5", "w") as file:
        file.create_dataset("images", (10**9, 64, 64), "u1", chunks=(1, 64, 64))
    secret = np.full((70, 32, 32), 7, np.uint8)
    secret.tofile(here / "secret.bin")
    with h5py.File(here / "outside.h5", "w") as file:
        place = [(str(here / "secret.bin"), 0, secret.size)]
        file.create_dataset("images", secret.shape, "u1", external=place)
    with h5py.File(here / "secret.h5", "w") as file:
        file["images"] = secret
    with h5py.File(here / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout(secret.shape, "u1")
        layout[:] = h5py.VirtualSource(str(here / "secret.h5"), "images", secret.shape)
        file.create_virtual_dataset("images", layout)
    with h5py.File(here / "linked.h5", "w") as file:
        file["images"] = h5py.ExternalLink(str(here / "secret.h5"), "images")
    with h5py.File(here / "references.h5", "w") as file:
        file["group/a"] = secret
        file["images"] = np.array([[[file["group/a"].ref]]], dtype=h5py.ref_dtype)
    with h5py.File(here / "words.h5", "w") as file:
        file["images"] = np.array([[["a"]]], dtype=h5py.string_dtype())
    with h5py.File(here / "deep.h5", "w") as file:
        file["/".join(["a"] * 3_000)] = secret
    with h5py.File(here / "many.h5", "w") as file:
        for number in range(30_000):
            file.create_group(str(number))
    (here / "empty.h5").touch()
    h5py.File(here / "no-arrays.h5", "w").close()
    with h5py.File(here / "group.h5", "w") as file:
        file["images/more"] = np.zeros(3)
    with h5py.File(here / "circle.h5", "w") as file:
        file["group/again"] = h5py.SoftLink("/group")
        file["images"] = h5py.SoftLink("/images")
    with h5py.File(here / "complex.h5", "w") as file:
        file["images"] = np.zeros((70, 32, 32), complex)
    with h5py.File(here / "scalar.h5", "w") as file:
        file["images"] = 3
    whole = (here / "secret.h5").read_bytes()
    (here / "cut.h5").write_bytes(whole[:3000])
    flipped = bytearray(whole)
    flipped[100:600:7] = b"\xff" * len(flipped[100:600:7])
    (here / "flipped.h5").write_bytes(flipped)
    (here / "text.h5").write_text("no HDF5")


CODES = {
    "large.npy": 1e38,
    "larger.npy": 1e300,
    "small.npy": 1e-40,
    "denormal.npy": 1e-320,
    "float32-large.npy": 1e38,
    "float32-small.npy": 1e-44,
}
ODD_CODES = (*CODES, "constant.npy", "not-a-number.npy", "infinite.npy", "one-row.npy", "wide.npy")


def _codes(here: Path, rng: np.random.Generator) -> None:
    good = rng.normal(size=(200, 3))
    for name, scale in CODES.items():
        kind = np.float32 if name.startswith("float32") else np.float64
        with np.errstate(all="ignore"):
            np.save(here / name, (np.clip(good, -3, 3) * scale).astype(kind))
    np.save(here / "constant.npy", np.full((200, 3), 0.1))
    for name, value in (("not-a-number.npy", np.nan), ("infinite.npy", np.inf)):
        broken = good.copy()
        broken[7, 1] = value
        np.save(here / name, broken)
    np.save(here / "one-row.npy", good[:1])
    np.save(here / "wide.npy", good[:2].repeat(500, 1))
    np.save(here / "few-rows.npy", good[:50])
    np.save(here / "huge-factors.npy", rng.integers(0, 3, (200, 2)) * 1e300)
    np.save(here / "negative-factors.npy", rng.integers(-(2**62), 2**62, (200, 2)))
    np.save(here / "unsigned-factors.npy", np.full((200, 2), 2**64 - 1, np.uint64))


TABLES = (
    *("empty.csv", "binary.csv", "long-line.csv", "twice.csv", "nul.csv", "ragged.csv"),
    *("latin-1.csv", "header.csv", "blank.csv", "quotes.csv", "nested.csv", "pipe.csv"),
    *("zero.csv", "folder.csv", "gaps.csv", "wide.csv", "semicolons.csv", "missing.csv"),
)
PARQUETS = ("empty.parquet", "text.parquet", "pipe.parquet", "folder.parquet", "cut.parquet")


def _tables(here: Path) -> None:
    (here / "empty.csv").touch()
    (here / "binary.csv").write_bytes(bytes(range(256)) * 40)
    (here / "long-line.csv").write_text("a,b\n" + "1" * 5_000_000 + ",2\n")
    (here / "twice.csv").write_text("a,a\n1,2\n3,x\n")
    (here / "nul.csv").write_bytes(b"a,b\n\0,1\n2,\0\n")
    (here / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n1\n")
    (here / "latin-1.csv").write_bytes(b"file,a\ncaf\xe9.png,1\n")
    (here / "header.csv").write_text("a,b\n")
    (here / "blank.csv").write_text("\n\n\n")
    (here / "quotes.csv").write_text('a,b\n"1,2\n3,4\n')
    (here / "nested.csv").write_text("[" * 100_000)
    (here / "gaps.csv").write_text("a,b\n1,\n,2\n")
    (here / "wide.csv").write_text(",".join(f"c{k}" for k in range(20_000)) + "\n")
    (here / "semicolons.csv").write_text("a;b\n1;2\n")
    (here / "empty.parquet").touch()
    (here / "text.parquet").write_text("PAR1 no table PAR1")
    import pandas as pd

    pd.DataFrame({"a": range(100)}).to_parquet(here / "cut.parquet")
    whole = (here / "cut.parquet").read_bytes()
    (here / "cut.parquet").write_bytes(whole[: len(whole) // 2] + whole[-8:])


def _places(here: Path) -> None:
    """Create special files and folders under the names of regular files."""
    for ending in ("npy", "npz", "csv", "h5", "parquet", "png", "html", "safetensors"):
        os.mkfifo(here / f"pipe.{ending}")
        (here / f"zero.{ending}").symlink_to("/dev/zero")
        (here / f"folder.{ending}").mkdir()
    (here / "loop.npy").symlink_to("loop.npy")
    (here / "loop").symlink_to("loop")
    listener = socket.socket(socket.AF_UNIX)
    where = os.open(here, os.O_RDONLY)
    listener.bind(f"/proc/self/fd/{where}/socket.npy")
    listener.close()
    os.close(where)
    os.mkfifo(here / "pipe")
    (here / "file").write_text("a file, not a folder")
    (here / "taken").mkdir()
    (here / "taken" / "note.txt").write_text("of somebody else")
    for name in ("there.csv", "there.png", "there.html", "there.npz", "there.safetensors"):
        (here / name).write_text("keep me")


FOLDERS = ("no-pictures", "only-folders", "one-picture", "pipes", "bombs", "broken")


def _pictures(here: Path, good: np.ndarray) -> None:
    for name in FOLDERS:
        (here / name).mkdir()
    (here / "only-folders" / "a" / "b").mkdir(parents=True)
    (here / "only-folders" / "a" / "back").symlink_to("..")
    Image.fromarray(good).save(here / "one-picture" / "a.png")
    os.mkfifo(here / "pipes" / "a.png")
    (here / "pipes" / "b.png").symlink_to("/dev/zero")
    (here / "pipes" / "c.png").symlink_to("c.png")
    (here / "pipes" / "d.png").mkdir()
    Image.new("1", (13_000, 13_600)).save(here / "bombs" / "a.png")  # 177 million pixels
    whole = (here / "one-picture" / "a.png").read_bytes()
    for name, side in (("b.png", 13_300), ("c.png", 60_000)):
        head = b"IHDR" + side.to_bytes(4, "big") * 2 + whole[24:29]
        check = zlib.crc32(head).to_bytes(4, "big")
        (here / "bombs" / name).write_bytes(whole[:12] + head + check + whole[33:])
    Image.fromarray(good).save(here / "bombs" / "d.gif")
    large = bytearray((here / "bombs" / "d.gif").read_bytes())
    large[6:10] = b"\xff" * 4
    (here / "bombs" / "d.gif").write_bytes(large)
    (here / "broken" / "cut.png").write_bytes(whole[:60])
    (here / "broken" / "empty.png").touch()
    (here / "broken" / "text.png").write_text("no picture")
    (here / "broken" / "script.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n")


LONG_NAME, LONG_PATH = "x" * 300, "/".join(["x" * 200] * 30)
NOT_HERE = (
    *("missing", "missing/deep/er", LONG_NAME, LONG_PATH, "nul\0name", "", "loop", "pipe"),
    *("~nobody-here", "~nobody-here/x"),
)
MODELS = (*NOT_HERE, "file", "taken", "/dev/zero", "images", "-x")
COUNTS = ("-1", "0", HUGE, "1e3", "abc", "", "1" * 5000)
SEEDS = ("-1", HUGE, str(2**63), "0.5", "nan", "", "1" * 5000)
NUMBERS = ("nan", "inf", "-inf", "-1", "abc", "")
SIZES = ("-1", "0", "7", HUGE, "64.0")
FIT = ["--size", "32", "--steps", "2", "--seeds", "1", "--batch", "4", "--latents", "3"]
TRAIN = ["--size", "32", "--steps", "2", "--batch", "4", "--latents", "3"]


SENSIBLE = {
    *((option, "0") for option in ("--lr", "--strengths")),
    *((option, HUGE) for option in ("--fleet-size", "--rows")),
    *((option, "1e300") for option in ("--lr", "--strengths", "--betas")),
}
"""Extreme values that are valid: no training, all available items, models that diverge."""


def attacks() -> list[Attack]:
    """All attacks, in an order in which they can share one folder."""
    return [
        *_of_sources(),
        *_of_score(),
        *_of_models(),
        *_of_options(),
        *_of_outputs(),
        *_of_experiments(),
    ]


def _of_sources() -> Iterator[Attack]:
    """Invalid images, for every command that loads images."""
    sources = (*ARRAYS, *HDF5, *FOLDERS, *NOT_HERE, "file", "/dev/zero", "-x", "codes.npy")
    for source in sources:
        yield _attack("data show", source, "-o", "sheet.png")
    for source in ("terabytes.npz", "pipe.h5", "bombs", "broken", LONG_NAME, "nul\0name"):
        yield _attack("fit", source, *FIT, "-o", "out-of-sources")
        yield _attack("train", source, "beta-vae", *TRAIN, "--out", "runs-of-sources")
        yield _attack("encode", "run", source, "-o", "codes-of-sources.csv")
        yield _attack("data export", source, "-o", "copy.npz")
        yield _attack("show", "run", "--data", source, "-o", "shown.png")
        yield _attack("report", "run", "--data", source, "-o", "page.html")
        yield _attack("evaluate", "run", "--data", source)
        yield _attack("explore", "run", "--data", source, "--no-open")
    for factors in (*TABLES, *NOT_HERE, "/dev/zero", "pipe.csv"):
        yield _attack("data show", "images", "--factors", factors, "-o", "sheet.png")
    for factors in ("pipe.csv", "latin-1.csv", LONG_NAME):
        yield _attack("fit", "images", *FIT, "--factors", factors, "-o", "out-of-sources")
        yield _attack("show", "run", "--data", "images", "--factors", factors, "-o", "shown.png")
    for path in (*NOT_HERE, "file", "taken", "pipe.npz", "zero.npz", "empty.npz", "bomb.npz"):
        yield _attack("data prepare", "dsprites", "--path", path)
    for picture in ("pipe.png", "zero.png", "missing.png", "folder.png", "bombs/c.png", "file"):
        yield _attack("data prepare", "scream-dsprites", "--picture", picture)


def _of_score() -> Iterator[Attack]:
    """Invalid files of codes and factors."""
    for name in (*ARRAYS, *TABLES, *PARQUETS, "no-ending", "sparse.h5", LONG_NAME + ".npy"):
        yield _attack("score", name, "factors.npy", "--metrics", "mig")
        yield _attack("score", "codes.npy", name, "--metrics", "mig")
    for name in ODD_CODES:
        words = ("--metrics", "mig", "sap", "irs", "mcc", "active-units")
        yield Attack(f"score {name}", ("score", name, "factors.npy", *words), ANY)
    for name in ("huge-factors.npy", "negative-factors.npy", "unsigned-factors.npy"):
        yield Attack(f"score {name}", ("score", "codes.npy", name, "--metrics", "mig"), ANY)
    for name in ("few-rows.npy", "not-a-number.npy", "infinite.npy", "complex.npy"):
        yield _attack("score", "codes.npy", name, "--metrics", "mig")
    for metric in ("", "nothing", "mig,sap", "mig\0", "fid", "x" * 10_000, "../mig"):
        yield _attack("score", "codes.npy", "factors.npy", "--metrics", metric)


def _of_models() -> Iterator[Attack]:
    """Folders without a valid model."""
    for folder in MODELS:
        yield _attack("encode", folder, "images", "-o", "codes-of-models.csv")
        yield _attack("evaluate", folder, "--metrics", "mig")
        yield _attack("show", folder, "-o", "shown.png")
        yield _attack("report", folder, "-o", "page.html")
        yield _attack("explore", folder, "--no-open")
        yield _attack("export", folder, "-o", "onnx")
        yield _attack("theory impossibility", folder, "-o", "twin")
        yield _attack("manipulate", "images", "--disentangled", folder, "--entangled", folder)
        yield _attack("train", "images", "ms-vae", *TRAIN, "--first", folder)


def _of_options() -> Iterator[Attack]:
    """Options with numbers out of range, and text instead of numbers."""
    out = ("-o", "out-of-options")
    fit = ("fit", "images", "--size", "32", "--seeds", "1", "--steps", "2", *out)
    numbers: list[tuple[tuple[str, ...], str, Sequence[str]]] = [
        *((fit, name, COUNTS) for name in ("--seeds", "--latents", "--batch", "--fleet-size")),
        (fit, "--steps", COUNTS),
        (("fit", "images", "--size", "32", "--seeds", "1", *out), "--minutes", (*NUMBERS, "0")),
        (fit, "--lr", (*NUMBERS, "0", "1e300")),
        (fit, "--strengths", (*NUMBERS, "1e300", "1 1")),
        (fit, "--method", ("", "nothing", "vae", "x" * 10_000)),
        (fit, "--channels", SIZES),
        (("fit", "images", *out), "--size", SIZES),
        (fit, "--device", ("tpu", "")),
        (fit, "--likelihood", ("poisson", "")),
    ]
    train = ("train", "images", "beta-vae", "--no-pictures", *TRAIN, "--out", "runs-of-options")
    numbers += [
        *((train, name, COUNTS) for name in ("--seeds", "--latents", "--batch", "--fleet-size")),
        (train, "--steps", ("-1", HUGE, "1e3", "")),
        (train, "--first-seed", SEEDS),
        (train, "--lr", (*NUMBERS, "0", "1e300")),
        (train, "--beta", NUMBERS),
        (train, "--precision", ("float16", "")),
        (train, "--architecture", ("", "nothing")),
        (
            ("evaluate", "run", "--data", "images.npy", "--metrics", "active-units"),
            "--seed",
            SEEDS,
        ),
        (("score", "codes.npy", "factors.npy", "--metrics", "mig"), "--seed", SEEDS),
        (("encode", "run", "images", *out[:1], "codes-of-options.csv"), "--seed", SEEDS),
        (("encode", "run", "images", *out[:1], "codes-of-options.csv"), "--member", ("-1", "9")),
        (("encode", "run", "images", *out[:1], "codes-of-options.csv"), "--member", (HUGE, "")),
        (("data show", "images", "-o", "sheet.png"), "--columns", COUNTS),
        (("data show", "images", "-o", "sheet.png"), "--seed", SEEDS),
        (("data show", "images", "-o", "sheet.png"), "--size", SIZES),
        (("data export", "images", "-o", "copy.npz"), "--seed", SEEDS),
        (
            ("report", "run", "--data", "images", "--size", "32", "-o", "page.html"),
            "--seed",
            SEEDS,
        ),
        (
            ("report", "run", "--data", "images", "--size", "32", "-o", "page.html"),
            "--rows",
            COUNTS,
        ),
        (("explore", "run", "--no-open"), "--port", ("-1", "65536", HUGE, "abc", "")),
    ]
    show = ("show", "run", "--data", "images", "--size", "32", "-o", "shown.png")
    numbers += [
        (show, "--index", ("-1", "70", HUGE, "")),
        (show, "--seed", SEEDS),
        (show, "--columns", COUNTS),
        (show, "--reach", (*NUMBERS, "0", "1e300")),
        (show, "--quantiles", ("nan nan", "1 0", "-1 2", "0.5 0.5", "inf inf")),
        (show, "--kind", ("", "nothing", "../x")),
        ((*show, "--kind", "samples"), "--count", COUNTS),
        ((*show, "--kind", "reconstructions"), "--count", COUNTS),
        ((*show, "--kind", "reconstructions"), "--seed", SEEDS),
        ((*show, "--kind", "pairwise"), "--latents", ("-1 0", "0 0", "0 3", f"0 {HUGE}")),
        ((*show, "--kind", "activity"), "--by", ("-1", "0", "1", HUGE, "", "nothing")),
        ((*show, "--kind", "position"), "--axes", ("a b", "a a")),
        (("theory vi-bias", "ica", *out), "--steps", COUNTS),
        (("theory vi-bias", "ica", *out), "--seed", SEEDS),
        (("theory vi-bias", "beta", *out), "--betas", (*NUMBERS, "1e300")),
        (("theory impossibility", *out), "--dimensions", ("-1", "0", "1", HUGE, "")),
        (("theory impossibility", *out), "--seed", SEEDS),
        (("theory impossibility", *out), "--alpha", (*NUMBERS, "0", "0.5", "1e300")),
        (("theory pca-alignment", *out), "--seeds", COUNTS),
        (("theory pca-alignment", *out), "--moments", COUNTS),
        (("manipulate", "dsprites", "-o", "m.safetensors"), "--steps", COUNTS),
        (("manipulate", "dsprites", "-o", "m.safetensors"), "--batch", COUNTS),
        (("manipulate", "dsprites", "-o", "m.safetensors"), "--seed", SEEDS),
        (("manipulate", "dsprites", "-o", "m.safetensors"), "--epsilon", (*NUMBERS, "0", "2")),
    ]
    for base, option, values in numbers:
        for value in values:
            found = _attack(*base, option, *(value.split() or [""]))
            yield found._replace(expected=ANY) if (option, value) in SENSIBLE else found


FILES_OUT = (
    *("missing/deep/out", "file/out", "folder", LONG_NAME, "x" * 245, LONG_PATH),
    *("nul\0name", "/proc/out", "loop/out"),
)


def _of_outputs() -> Iterator[Attack]:
    """Output paths that cannot be written, each refused before the work begins."""
    writers: dict[str, tuple[str, ...]] = {
        ".csv": ("encode", "run", "images"),
        ".png": ("show", "run", "--data", "images", "--size", "32"),
        ".html": ("report", "run", "--data", "images", "--size", "32"),
        ".npz": ("data export", "images"),
        ".safetensors": ("manipulate", "images"),
    }
    for ending, words in writers.items():
        for name in FILES_OUT[ending == ".npz" :]:  # an export creates missing folders
            yield _attack(*words, "-o", name + ending)
        if ending != ".safetensors":
            yield _attack(*words, "-o", "there" + ending)
        yield _attack(*words, "-o", "name.txt")
        yield _attack(*words, "-o", "")
    for name in FILES_OUT:
        yield _attack("score", "codes.npy", "factors.npy", "--metrics", "mig", "-o", f"{name}.csv")
        yield _attack("evaluate", "run", "--data", "images", "-o", f"{name}.csv")
        yield _attack("data show", "images", "-o", f"{name}.png")
        words = ("score", "codes.npy", "factors.npy", "--metrics", "mig", "--matrices")
        yield _attack(*words, f"{name}.png")
    for folder in (
        "file",
        "file/out",
        LONG_NAME,
        LONG_PATH,
        "nul\0name",
        "/proc/out",
        "loop",
        "pipe",
    ):
        yield _attack("fit", "images", *FIT, "-o", folder)
        yield _attack("train", "images", "beta-vae", *TRAIN, "--out", folder)
        yield _attack("export", "run", "-o", folder)
        yield _attack("theory d-separation", "-o", folder)
        yield _attack("theory vi-bias", "rotation", "-o", folder)
        yield _attack("theory impossibility", "-o", folder)
        yield _attack("theory pca-alignment", "-o", folder)
        yield _attack("reproduce", "ms-vae/separation", "-o", folder)
    yield _attack("fit", "images", *FIT, "-o", "taken")
    yield _attack("fit", "images", *FIT, "-o", "images/out")


def _of_experiments() -> Iterator[Attack]:
    """Unknown names of recipes, methods, data sets and commands."""
    for name in ("", "nothing", "../x", "x" * 10_000, "nul\0name"):
        yield _attack("reproduce", name)
        yield _attack("reproduce", name, "--all")
        yield _attack("theory vi-bias", name)
        yield _attack("train", "images", name)
        yield _attack("train", "images", name, "--steps", "2")
        yield _attack("completion", name)
        yield _attack("data prepare", name)
    for words in ("", "nothing", "fit", "train", "score", "encode", "data nothing", "--nothing"):
        yield _attack(words)


def _attack(command: str, *words: str) -> Attack:
    every = (*command.split(), *words)
    shown = " ".join(word if len(word) < 30 else f"{word[:20]}… ({len(word)})" for word in every)
    return Attack(repr(shown)[1:-1], every)


def bad_inputs(folder: Path) -> list[Tally]:
    """Run every attack in one folder, which is cleaned after each."""
    place = folder / "inputs"
    place.mkdir()
    made = call(lambda: prepare(place), place, seconds=120)
    if made.code != 0:
        raise RuntimeError(f"could not create the input files: {made.text}")
    tally = Tally("bad input")
    for attack in attacks():
        outcome = call(attack.words, place)
        tally.add(attack.name, outcome, outcome.code in attack.expected)
        _clean(place)
    return [tally]


def _clean(here: Path) -> None:
    """Remove the output of a command, so that the next one starts from the same folder."""
    known = set((here / KNOWN).read_text().splitlines())
    for path in here.iterdir():
        if path.name not in known:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
