"""Checkpoints of fleets: damaged, forged, outdated, incomplete and previous ones."""

import json
import struct
from contextlib import suppress

import numpy as np
import pytest
import safetensors
import torch
from safetensors.torch import load_file, save_file

from unweave.errors import UnweaveError
from unweave.fleet import checkpoint, loop
from unweave.fleet import train as training
from unweave.fleet.checkpoint import checkpoints, damaged_checkpoints, path_of, tidy
from unweave.fleet.diagnostics import curve_columns
from unweave.fleet.engine import Engine
from unweave.io.generations import DamagedCheckpointError
from unweave.methods import AnnealedVAE, BetaVAE
from unweave.models.config import Config
from unweave.nets.adam import Adam

STEPS = 8
NAME = ".fleet-earlier.safetensors"


class Killed(BaseException):
    """Simulated power failure."""


@pytest.fixture(scope="module")
def configs():
    return [
        Config(method=BetaVAE(beta=beta), steps=STEPS, batch=8, architecture="small_mlp")
        for beta in (1.0, 4.0)
    ]


@pytest.fixture(scope="module")
def whole(configs, sprites):
    """Result of training without interruption."""
    return training.train_runs(configs, sprites, progress=False)


@pytest.fixture
def engine(configs, sprites):
    engine = Engine(configs, sprites, "cpu")
    engine.advance(3)
    return engine


def save(engine, path):
    rows = torch.zeros(2, len(curve_columns(engine)), len(engine.configs))
    rows[:, 0] = torch.tensor([1.0, 3.0])[:, None]
    checkpoint.save(engine, rows, path)


def state(engine):
    return {
        name: value.clone() for name, value in checkpoint._tensors(engine, engine.parts[0]).items()
    }


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def flip(path, place, bit=0):
    place %= path.stat().st_size
    with path.open("rb+") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


def parts_of(path):
    """A place in every part of the file: its length, header, metadata and each tensor."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    places = {"length": 0, "header": 9, "metadata": 8 + content[8:].index(b"runs") + 12}
    for name, value in header.items():
        if name != "__metadata__" and value["data_offsets"][0] < value["data_offsets"][1]:
            places[name] = 8 + length + sum(value["data_offsets"]) // 2
    return places


def test_a_flipped_bit_in_any_part_is_found_and_leaves_the_engine_as_it_is(
    configs, engine, sprites, tmp_path
):
    path = tmp_path / NAME
    save(engine, path)
    fresh = Engine(configs, sprites, "cpu")
    before = state(fresh)
    places = parts_of(path)
    assert {"step", "alive", "count", "sums", "curve", "model/second"} <= places.keys()
    for place in places.values():
        for bit in (0, 6):
            flip(path, place, bit)
            with pytest.raises(DamagedCheckpointError, match="earlier"):
                checkpoint.restore(fresh, path)
            flip(path, place, bit)
    assert equal(state(fresh), before)
    checkpoint.restore(fresh, path)
    assert equal(state(fresh), state(engine))


def test_random_damage_is_detected_or_harmless(configs, engine, sprites, tmp_path):
    path = tmp_path / NAME
    save(engine, path)
    content, expected = path.read_bytes(), state(engine)
    fresh = Engine(configs, sprites, "cpu")
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(200):
        place, bit = int(rng.integers(len(content))), int(rng.integers(8))
        flip(path, place, bit)
        try:
            curve = checkpoint.restore(fresh, path)
            assert curve.shape[0] == 2
            assert equal(state(fresh), expected)
        except UnweaveError:
            found += 1
        flip(path, place, bit)
    assert found >= 195
    for length in (0, 7, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(DamagedCheckpointError):
            checkpoint.restore(fresh, path)


def train_until_killed(configs, sprites, folder, monkeypatch, calls):
    """Train with a checkpoint after every stride, and lose power at some stride."""
    advance, taken = Engine.advance, []

    def advance_until_killed(engine, steps):
        taken.append(steps)
        if len(taken) == calls:
            raise Killed
        advance(engine, steps)

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "advance", advance_until_killed)
        patched.setattr(loop, "WINDOW", 2)
        with pytest.raises(Killed):
            training.train_runs(configs, sprites, out=folder, progress=False, checkpoint_every=0)


def step_of(path):
    return int(load_file(path)["step"])


def resume(configs, sprites, folder):
    """Train to the end; return the result and the observed steps."""
    seen = []
    fleet = training.train_runs(
        configs, sprites, out=folder, progress=False, on_progress=seen.append
    )
    assert sorted(path.name for path in folder.iterdir()) == sorted(c.hash for c in configs)
    return fleet, int(seen[0].split("step ")[1].split(" of")[0]) if seen else STEPS


def alike(one, other):
    return all(
        torch.equal(one.parameters[name], other.parameters[name]) for name in one.parameters
    )


@pytest.mark.parametrize("part", ["step", "model/parameters", "model/first", "metadata", "length"])
def test_a_damaged_checkpoint_is_reported_and_the_one_before_serves(
    configs, sprites, whole, tmp_path, monkeypatch, capsys, part
):
    train_until_killed(configs, sprites, tmp_path, monkeypatch, 5)
    path = path_of(configs, tmp_path)
    (before,) = (other for other in tmp_path.iterdir() if other != path)
    assert 0 < step_of(before) < step_of(path) < STEPS
    start = step_of(before)
    flip(path, parts_of(path)[part], 3)
    capsys.readouterr()
    fleet, first = resume(configs, sprites, tmp_path)
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line
    assert "damaged" in line
    assert first == start + 1
    assert alike(fleet, whole)


def test_training_restarts_if_all_checkpoints_are_damaged(
    configs, sprites, whole, tmp_path, monkeypatch, capsys
):
    train_until_killed(configs, sprites, tmp_path, monkeypatch, 5)
    for path in tmp_path.iterdir():
        flip(path, -1)
    fleet, first = resume(configs, sprites, tmp_path)
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert first == 1
    assert alike(fleet, whole)


def test_killed_again_after_falling_back_a_checkpoint_is_left(
    configs, sprites, whole, tmp_path, monkeypatch
):
    train_until_killed(configs, sprites, tmp_path, monkeypatch, 5)
    path = path_of(configs, tmp_path)
    flip(path, -1)

    def half(tensors, filename, metadata=None):
        filename.write_bytes(b"half a checkpoint")
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("unweave.io.tensors.save_file", half)
        with pytest.raises(Killed):
            training.train_runs(configs, sprites, out=tmp_path, progress=False, checkpoint_every=0)
    (readable,) = checkpoints(tmp_path)
    start = step_of(readable)
    assert start > 0
    fleet, first = resume(configs, sprites, tmp_path)
    assert first == start + 1
    assert alike(fleet, whole)


@pytest.mark.parametrize("moment", ["writing", "replacing"])
def test_killed_while_saving_the_checkpoint_before_is_left(
    configs, sprites, engine, tmp_path, monkeypatch, moment
):
    path = tmp_path / NAME
    save(engine, path)
    expected = state(engine)
    engine.advance(1)

    def half(tensors, filename, metadata=None):
        filename.write_bytes(b"half a checkpoint")
        raise Killed

    with monkeypatch.context() as patched:
        if moment == "writing":
            patched.setattr("unweave.io.tensors.save_file", half)
        else:
            patched.setattr("os.fsync", lambda descriptor: (_ for _ in ()).throw(Killed))
        with suppress(Killed):
            save(engine, path)
    assert [file for file in tmp_path.iterdir() if file.name[:2] == ".."] == []
    ((readable, runs),) = checkpoints(tmp_path).items()
    assert runs == [config.hash for config in configs]
    fresh = Engine(configs, sprites, "cpu")
    checkpoint.restore(fresh, readable)
    assert equal(state(fresh), expected)


def test_at_most_two_checkpoints_are_kept(configs, engine, tmp_path):
    for _ in range(4):
        engine.advance(1)
        save(engine, tmp_path / NAME)
        assert len(list(tmp_path.iterdir())) <= 2
    assert sorted(step_of(path) for path in tmp_path.iterdir()) == [6, 7]
    assert list(checkpoints(tmp_path)) == [tmp_path / NAME]
    for config in configs:
        (tmp_path / config.hash).mkdir()
    flip(tmp_path / NAME, 9)
    assert damaged_checkpoints(tmp_path) == [tmp_path / NAME]
    assert len(checkpoints(tmp_path)) == 1
    (tmp_path / NAME).rename(tmp_path / f"{NAME}.damaged")
    tidy(tmp_path)
    assert not list(tmp_path.glob(".fleet*"))


def facts_of(path):
    with safetensors.safe_open(path, "pt") as file:
        return file.metadata()


def forge(path, sealed=True, runs=None, **changed):
    """Write a checkpoint with other content, and right checksums or none at all."""
    tensors = {name: value.clone() for name, value in load_file(path).items()} | changed
    names = json.loads(facts_of(path)["unweave"])["facts"]["runs"] if runs is None else runs
    if sealed:
        from unweave.io.tensors import digest_of, write_tensors

        write_tensors(path, tensors, {"runs": names, "sha256": digest_of(tensors)})
    else:
        save_file(tensors, path, metadata={"runs": json.dumps(names)})


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "of an earlier version"])
@pytest.mark.parametrize("step", [-1, -(2**62), STEPS + 1, 60, 2**62])
def test_impossible_steps_neither_train_for_ever_nor_end_training(
    configs, sprites, whole, engine, tmp_path, capsys, sealed, step
):
    save(engine, tmp_path / NAME)
    forge(tmp_path / NAME, sealed, step=torch.tensor(step))
    fleet, first = resume(configs, sprites, tmp_path)
    assert f"{step:,}" in capsys.readouterr().err
    assert first == 1
    assert alike(fleet, whole)


def test_a_checkpoint_of_an_earlier_version_serves(configs, sprites, whole, engine, tmp_path):
    save(engine, tmp_path / NAME)
    forge(tmp_path / NAME, sealed=False)
    assert facts_of(tmp_path / NAME).keys() == {"runs"}
    fleet, first = resume(configs, sprites, tmp_path)
    assert first == 4
    assert alike(fleet, whole)


def nan_in(value):
    changed = value.clone()
    changed.view(-1)[5] = torch.nan
    return changed


@pytest.mark.parametrize(
    ("sealed", "change"),
    [
        (False, lambda t: {"model/parameters": nan_in(t["model/parameters"])}),
        (False, lambda t: {"model/second": t["model/second"] - 1e-3}),
        (False, lambda t: {"curve": t["curve"] - 2}),
        (False, lambda t: {"curve": t["curve"] + 100}),
        (False, lambda t: {"count": t["count"] + 1e9}),
        (True, lambda t: {"alive": ~t["alive"]}),
        (True, lambda t: {"diverged_at": t["diverged_at"] + 100}),
        (True, lambda t: {"diverged_at": t["diverged_at"] - 100}),
        (True, lambda t: {"step": t["step"].float()}),
        (True, lambda t: {"step": t["step"][None]}),
        (True, lambda t: {"model/parameters": t["model/parameters"].double()}),
        (True, lambda t: {"model/parameters": t["model/parameters"][:, :-1].contiguous()}),
        (True, lambda t: {"model/parameters": t["model/parameters"].repeat(2, 1)}),
        (True, lambda t: {"curve": t["curve"].repeat(50, 1, 1)}),
        (True, lambda t: {"curve": t["curve"][..., :1].contiguous()}),
        (True, lambda t: {"another": torch.zeros(3)}),
    ],
)
def test_impossible_content_is_put_aside(
    configs, sprites, whole, engine, tmp_path, capsys, sealed, change
):
    save(engine, tmp_path / NAME)
    forge(tmp_path / NAME, sealed, **change(load_file(tmp_path / NAME)))
    fleet, first = resume(configs, sprites, tmp_path)
    assert NAME in capsys.readouterr().err
    assert first == 1
    assert alike(fleet, whole)


@pytest.mark.parametrize(
    "runs",
    [
        {},
        [],
        5,
        None,
        ["a"],
        [1, 2],
        ["../../x", "0" * 16],
        ["0" * 16] * 2,
        [["0" * 16]],
        "0" * 16,
    ],
)
def test_impossible_names_of_runs_are_put_aside(configs, sprites, engine, tmp_path, capsys, runs):
    save(engine, tmp_path / NAME)
    tensors = load_file(tmp_path / NAME)
    save_file(tensors, tmp_path / NAME, metadata={"runs": json.dumps(runs)})
    assert damaged_checkpoints(tmp_path) == [tmp_path / NAME]
    assert checkpoints(tmp_path) == {}
    _, first = resume(configs, sprites, tmp_path)
    assert NAME in capsys.readouterr().err
    assert first == 1


def test_a_checkpoint_that_names_more_runs_than_it_has_is_put_aside(
    configs, sprites, engine, tmp_path, capsys
):
    save(engine, tmp_path / NAME)
    names = [config.hash for config in configs]
    forge(tmp_path / NAME, runs=[*names, "0" * 16])
    _, first = resume(configs, sprites, tmp_path)
    assert NAME in capsys.readouterr().err
    assert first == 1


@pytest.mark.parametrize("content", [b"", b"junk", b"\0" * 100, struct.pack("<Q", 2**40) + b"{}"])
def test_junk_is_put_aside(configs, sprites, tmp_path, capsys, content):
    (tmp_path / NAME).write_bytes(content)
    assert checkpoints(tmp_path) == {}
    resume(configs, sprites, tmp_path)
    (line,) = capsys.readouterr().err.splitlines()
    assert NAME in line


def test_averaged_weights_are_resumed_and_saved_bit_for_bit(sprites, tmp_path, monkeypatch):
    configs = [
        Config(
            method=BetaVAE(beta=4.0), seed=seed, steps=STEPS, batch=8, architecture="small_mlp",
            optimiser=Adam(lr=1e-2, ema=ema),
        )
        for seed, ema in enumerate((0.0, 0.5, 0.9))
    ]  # fmt: skip
    whole = training.train_runs(configs, sprites, progress=False)
    engine = Engine(configs, sprites, "cpu")
    engine.advance(STEPS)
    for name, buffer in engine.groups["model"].buffers(engine.groups["model"].trained):
        assert torch.equal(whole.parameters[name], buffer)
    assert not torch.equal(engine.groups["model"].trained, engine.groups["model"].parameters)
    train_until_killed(configs, sprites, tmp_path, monkeypatch, 5)
    stored = load_file(path_of(configs, tmp_path))
    assert stored["model/average"].shape == stored["model/parameters"].shape
    fleet, first = resume(configs, sprites, tmp_path)
    assert first > 1
    assert alike(fleet, whole)


def test_runs_without_averages_are_restored_from_a_fleet_that_has_some(sprites, tmp_path):
    kinds = [(BetaVAE(beta=4.0), 0.0), (BetaVAE(beta=4.0), 0.9), (AnnealedVAE(), 0.0)]
    configs = [
        Config(
            method=method, steps=STEPS, batch=8, architecture="small_mlp",
            optimiser=Adam(lr=1e-2, ema=ema),
        )
        for method, ema in kinds
    ]  # fmt: skip
    fleet = Engine(configs, sprites, "cpu")
    fleet.advance(3)
    save(fleet, tmp_path / NAME)
    expected = dict(zip(fleet.configs, fleet.groups["model"].trained, strict=True))
    for chosen in ([0], [1], [2], [0, 2], [1, 2], [0, 1, 2]):
        some = Engine([configs[place] for place in chosen], sprites, "cpu")
        checkpoint.restore(some, tmp_path / NAME)
        for config, restored in zip(some.configs, some.groups["model"].trained, strict=True):
            assert torch.equal(restored, expected[config])
