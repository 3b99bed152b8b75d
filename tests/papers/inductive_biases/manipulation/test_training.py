"""Training of m: its objective, frozen models, and resuming."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

import unweave as uw
from tests.raising import about
from unweave.analysis.study_table import StudyTableError
from unweave.errors import DataError, InterruptedTrainingError, UnknownNameError, UnweaveError
from unweave.io.tensors import digest_of, open_tensors, write_tensors
from unweave.models.images import ShapeError
from unweave.papers.inductive_biases.manipulation import exemplars, manipulate, pairs, training
from unweave.papers.inductive_biases.manipulation.pairs import joined

QUICK = {"batch": 16, "draws": 2, "held_out": 36, "device": "cpu", "progress": False}
FAST = uw.Adam(lr=1e-3, eps=1e-7)


def alike(one, two):
    return all(torch.equal(one.parameters[name], two.parameters[name]) for name in one.parameters)


def copies(models):
    return [{name: b.clone() for name, b in model.parameters.items()} for model in models]


def test_difference_falls_on_held_out_images_and_models_are_unchanged(panes, pair):
    before = copies(pair)
    settings = {**QUICK, "draws": 4, "optimiser": uw.Adam(lr=2e-3, eps=1e-7)}
    helped = manipulate(panes, pair[0], pair[1], 0.3, 30, **settings)
    assert all(
        torch.equal(model.parameters[name], old[name])
        for model, old in zip(pair, before, strict=True)
        for name in old
    )
    curve = helped.curve
    assert curve["step"].tolist() == list(range(31))
    assert np.allclose(curve["difference"], curve["entangling"] - curve["disentangling"])
    at_last = curve["difference"].iloc[-5:].mean()
    assert at_last < curve["difference"].iloc[0] - 1
    # Decoders alone narrow the gap too; where m is on the other side, it is wider.
    against = manipulate(panes, pair[1], pair[0], 0.3, 30, **settings).curve["difference"]
    assert at_last < -against.iloc[-5:].mean() - 2
    assert helped.settings["optimiser"]["lr"] == 2e-3
    assert json.loads(json.dumps(helped.settings)) == helped.settings


def test_precision_must_be_float32_or_tf32(panes, pair):
    with pytest.raises(UnknownNameError, check=about("precision", "bf16")):
        manipulate(panes, pair[0], pair[1], 0.3, 1, **QUICK, precision="bf16")


def test_defaults_are_those_of_the_paper():
    assert (pairs.OPTIMISER.lr, pairs.OPTIMISER.eps) == (1e-4, 1e-7)
    assert (pairs.OPTIMISER.beta1, pairs.OPTIMISER.beta2) == (0.9, 0.999)
    assert manipulate.__kwdefaults__["draws"] == 5


INTERRUPTED = {**QUICK, "batch": 4, "seed": 3}


@pytest.fixture(scope="module")
def whole(panes, pair):
    """The result of a training that is not interrupted."""
    return manipulate(panes, pair[0], pair[1], 0.1, 6, **INTERRUPTED)


@pytest.fixture(scope="module")
def checkpoint(panes, pair, tmp_path_factory):
    """The checkpoint of a training that is interrupted at its second step."""
    folder = tmp_path_factory.mktemp("interrupted")
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 2)
        out = folder / "m.safetensors"
        with pytest.raises(InterruptedTrainingError, check=about("step", 3)):
            manipulate(panes, pair[0], pair[1], 0.1, 6, out=out, **INTERRUPTED)
    (path,) = folder.iterdir()
    assert path.name == ".m.safetensors.checkpoint"
    return path


def test_resumed_training_gives_the_same_result(
    panes, pair, whole, checkpoint, tmp_path, monkeypatch
):
    settings, out = INTERRUPTED, tmp_path / "m.safetensors"
    shutil.copy(checkpoint, tmp_path)
    with pytest.raises(
        UnweaveError, check=about("checkpoint", tmp_path / ".m.safetensors.checkpoint")
    ):
        manipulate(panes, pair[0], pair[1], 0.1, 7, out=out, **settings)
    resumed = manipulate(panes, pair[0], pair[1], 0.1, 6, out=out, **settings)
    assert alike(whole, resumed)
    assert resumed.curve.equals(whole.curve)
    assert resumed.digest == whole.digest
    assert [file.name for file in tmp_path.iterdir()] == ["m.safetensors"]

    monkeypatch.setattr(pairs.PairLearner, "advance", None)  # nothing is left to do
    assert manipulate(panes, pair[0], pair[1], 0.1, 6, out=out, **settings).digest == whole.digest
    with pytest.raises(UnweaveError, check=about("out", out)):
        manipulate(panes, pair[1], pair[0], 0.1, 6, out=out, **settings)


@pytest.mark.parametrize("damaged", [1, 2], ids=["the newest", "both"])
def test_a_damaged_checkpoint_is_reported_and_the_previous_one_used(
    panes, pair, whole, tmp_path, monkeypatch, capsys, damaged
):
    settings, out = INTERRUPTED, tmp_path / "m.safetensors"
    stop_at(monkeypatch, 1)
    with pytest.raises(InterruptedTrainingError):
        manipulate(panes, pair[0], pair[1], 0.1, 6, out=out, checkpoint_every=0, **settings)
    monkeypatch.undo()
    newest, before = sorted(tmp_path.iterdir(), key=lambda path: -path.stat().st_mtime_ns)
    assert newest.name == ".m.safetensors.checkpoint"
    for path in (newest, before)[:damaged]:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    capsys.readouterr()
    resumed = manipulate(panes, pair[0], pair[1], 0.1, 6, out=out, **settings)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == damaged
    assert str(newest) in lines[0]
    assert alike(whole, resumed)
    assert resumed.curve.equals(whole.curve)
    assert [file.name for file in tmp_path.iterdir()] == ["m.safetensors"]


def content_of(checkpoint):
    """The settings and tensors of a checkpoint."""
    with open_tensors(checkpoint) as file:
        return file.facts["settings"], file.tensors()


@pytest.mark.parametrize("step", [-(2**62), 7, 2**62])
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "of an earlier version"])
def test_checkpoints_with_invalid_steps_are_rejected(
    panes, pair, whole, checkpoint, tmp_path, capsys, step, sealed
):
    out, path = tmp_path / "m.safetensors", tmp_path / checkpoint.name
    known, tensors = content_of(checkpoint)
    tensors["step"] = torch.tensor(step)
    if sealed:
        write_tensors(path, tensors, {"settings": known, "sha256": digest_of(tensors)})
    else:
        save_file(tensors, path, metadata={"settings": json.dumps(known)})
    capsys.readouterr()
    resumed = manipulate(panes, pair[0], pair[1], 0.1, 6, out=out, **INTERRUPTED)
    assert "between 0 and 6" in capsys.readouterr().err
    assert alike(resumed, whole)


def test_a_checkpoint_of_an_earlier_version_is_resumed(
    panes, pair, whole, checkpoint, tmp_path, monkeypatch
):
    out, path = tmp_path / "m.safetensors", tmp_path / checkpoint.name
    known, tensors = content_of(checkpoint)
    save_file(tensors, path, metadata={"settings": json.dumps(known, sort_keys=True)})
    advance, moved = pairs.PairLearner.advance, []

    def count(game, most=1):
        moved.append(advance(game, most))
        return moved[-1]

    monkeypatch.setattr(pairs.PairLearner, "advance", count)
    resumed = manipulate(panes, pair[0], pair[1], 0.1, 6, out=out, **INTERRUPTED)
    assert sum(moved) == 3
    assert alike(resumed, whole)


def stop_at(monkeypatch, looks):
    """Interrupt as Ctrl-C would, after a number of checks."""
    from contextlib import contextmanager

    @contextmanager
    def soon():
        asked = iter(range(100))
        yield lambda: next(asked) // 2 >= looks

    monkeypatch.setattr(training, "interruptible", soon)


def test_seeds_and_sides_matter(panes, pair):
    settings = {**QUICK, "batch": 4}
    one = manipulate(panes, pair[0], pair[1], 0.1, 2, **settings)
    assert alike(one, manipulate(panes, pair[0], pair[1], 0.1, 2, **settings))
    assert not alike(one, manipulate(panes, pair[0], pair[1], 0.1, 2, seed=1, **settings))
    assert not alike(one, manipulate(panes, pair[1], pair[0], 0.1, 2, **settings))


def test_several_pairs_at_once(panes, pair):
    settings = {**QUICK, "batch": 4}
    two = manipulate(panes, [pair[0], pair[0]], [pair[1]], 0.1, 1, **settings)
    assert len(two.settings["disentangling"]) == 2
    # Each pair has its own noise, and the mean over a side is of the size of one.
    one = manipulate(panes, pair[0], pair[1], 0.1, 1, **settings)
    assert two.curve["disentangling"][0] == pytest.approx(one.curve["disentangling"][0], rel=0.2)


def test_held_out_images_are_never_sampled(panes, pair):
    fleet = joined(pair, panes)
    settings = {"epsilon": 0.1, "seed": 0, "held_out": 36, "batch": 64, "draws": 2}
    game = pairs.PairLearner(fleet, 1, panes, settings, FAST)
    drawn = {
        int(index)
        for step in range(40)
        for index in game.data.draw_indices(64, pairs.Stream(game.seed, "x", step))
    }
    assert len(set(game.held.tolist())) == 36
    assert drawn == set(range(len(panes))) - set(game.held.tolist())


def test_exemplars_have_the_highest_and_the_lowest_scores(panes):
    settings = {"steps": 0, "architecture": "small_mlp", "progress": False}
    fleet = uw.train(uw.methods.VAE(), panes, seeds=5, **settings)
    runs = [config.hash for config in fleet.configs]
    table = pd.DataFrame({"run": runs, "mig": [0.2, 0.5, np.nan, 0.1, 0.4]})
    high, low = exemplars(fleet, table, count=2)
    assert [model.config.seed for model in high] == [1, 4]
    assert [model.config.seed for model in low] == [3, 0]
    with pytest.raises(DataError, check=about("count", 3)):
        exemplars(fleet, table, count=3)
    with pytest.raises(StudyTableError, check=about("sap")):
        exemplars(fleet, table, score="sap")


def test_invalid_arguments_are_rejected(panes, pair):
    flat = uw.data.load(panes.images(np.arange(108)))
    with pytest.raises(DataError, check=about("data", flat.name)):
        manipulate(flat, pair[0], pair[1])
    with pytest.raises(ShapeError):
        manipulate("dsprites", pair[0], pair[1])
    with pytest.raises(DataError, check=about("held_out", 500)):
        manipulate(panes, pair[0], pair[1], held_out=500, progress=False)
    settings = {"steps": 0, "architecture": "small_mlp", "progress": False}
    other = uw.train(uw.methods.VAE(), panes, **settings)
    with pytest.raises(UnweaveError, check=about("models")):
        manipulate(panes, pair[0], other[0])
