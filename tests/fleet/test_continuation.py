"""Runs that are trained further, and deadlines."""

import math
import re
import time
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.data.origin import origin_of
from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet import checkpoint, loop
from unweave.fleet.engine import Engine
from unweave.fleet.train import train_runs
from unweave.io.checksums import SUMS, write_sums
from unweave.io.tensors import open_tensors, write_tensors
from unweave.methods import MSVAE, VAE, BetaTCVAE, BetaVAE, FactorVAE, VAEEnsemble
from unweave.models.config import Config
from unweave.models.files import FILES, OPTIMISER
from unweave.models.lineage import lineage, saved_runs
from unweave.models.networks import disk_bytes

SMALL = {"batch": 4, "architecture": "small_mlp", "latents": 3, "progress": False}
KEPT = {**SMALL, "keep_optimiser": True}


def alike(one, other):
    """Whether two fleets have the same weights, bit for bit."""
    return all(
        a.parameters.keys() == b.parameters.keys()
        and all(torch.equal(a.parameters[name], b.parameters[name]) for name in a.parameters)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize(
    ("method", "seeds"),
    [
        (BetaVAE(beta=[1, 4]), 2),
        (FactorVAE(width=50), 1),
        (VAEEnsemble(members=2), 2),
        (uw.methods.AnnealedVAE(threshold=5), 1),
        (uw.methods.AdaGVAE(), 1),
        ([BetaVAE(), FactorVAE(width=50), uw.methods.AE()], 2),
        (BetaTCVAE(), 1),  # with a moving average of weights
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_steps_in_two_parts_give_the_weights_of_all_steps_at_once(
    sprites, tmp_path, monkeypatch, method, seeds
):
    monkeypatch.setattr(loop, "WINDOW", 2)
    ema = 0.9 if isinstance(method, BetaTCVAE) else 0.0
    adam = uw.Adam(lr=1e-3, warm_up=5, clip_norm=10.0, ema=ema)
    settings = {"seeds": seeds, "optimiser": adam}
    whole = uw.train(method, sprites, steps=7, **settings, **SMALL)
    uw.train(method, sprites, steps=4, out=tmp_path, **settings, **KEPT)
    advance, taken = Engine.advance, []
    monkeypatch.setattr(Engine, "advance", lambda self, n: (taken.append(n), advance(self, n)))
    parts = uw.train(method, sprites, steps=7, out=tmp_path, **settings, **KEPT)
    assert sum(taken) == 3
    assert alike(parts, whole)
    assert parts.configs == whole.configs
    assert parts.curve["step"].tolist() == whole.curve["step"].tolist()
    terms = [name for name in whole.curve if not name.startswith("kl_") and name != "run"]
    np.testing.assert_array_equal(parts.curve[terms], whole.curve[terms])
    saved = uw.load(tmp_path / parts.configs[-1].hash)
    assert torch.equal(saved.parameters["encoder"][-1], parts.parameters["encoder"][-1])


def test_second_stages_are_trained_further(sprites, tmp_path):
    first = uw.train(VAE(), sprites, seeds=2, steps=2, out=tmp_path / "first", **SMALL)
    settings = {**SMALL, "architecture": "small_dcgan", "first": first}
    method = MSVAE(together=True)  # both stages have moments
    whole = uw.train(method, sprites, steps=3, **settings)
    kept = {**settings, "out": tmp_path, "keep_optimiser": True}
    uw.train(method, sprites, steps=1, **kept)
    parts = uw.train(method, sprites, steps=3, **kept)
    assert alike(parts, whole)
    assert len(list(tmp_path.glob(f"*/{OPTIMISER}"))) == 4


def test_of_several_saved_runs_the_longest_continues(sprites, tmp_path, monkeypatch):
    for steps in (1, 3, 9):
        uw.train("vae", sprites, steps=steps, out=tmp_path, **KEPT)
    taken, advance = [], Engine.advance
    monkeypatch.setattr(Engine, "advance", lambda self, n: (taken.append(n), advance(self, n)))
    whole = uw.train("vae", sprites, steps=5, **SMALL)
    taken.clear()
    assert alike(uw.train("vae", sprites, steps=5, out=tmp_path, **SMALL), whole)
    assert sum(taken) == 2
    ((_, found),) = saved_runs(tmp_path).items()
    assert sorted(found) == [1, 3, 5, 9]


def test_runs_saved_at_different_steps_and_new_runs_all_arrive(sprites, tmp_path):
    for seeds, steps in ([[0, 1], 4], [[2], 2]):
        uw.train("vae", sprites, seeds=seeds, steps=steps, out=tmp_path, **KEPT)
    whole = uw.train("vae", sprites, seeds=4, steps=6, **SMALL)
    assert alike(uw.train("vae", sprites, seeds=4, steps=6, out=tmp_path, **SMALL), whole)


def test_without_its_state_a_run_starts_again_and_says_so(sprites, tmp_path, capsys):
    settings = {**SMALL, "progress": True}
    whole = uw.train("vae", sprites, steps=3, **SMALL)
    uw.train("vae", sprites, steps=2, out=tmp_path, **SMALL)
    assert not list(tmp_path.glob(f"*/{OPTIMISER}"))
    fleet = uw.train("vae", sprites, steps=3, out=tmp_path, **settings)
    assert "keep_optimiser" in capsys.readouterr().err
    assert alike(fleet, whole)
    uw.train("vae", sprites, steps=2, out=tmp_path / "kept", **KEPT)
    uw.train("vae", sprites, steps=3, out=tmp_path / "kept", **settings)
    error = capsys.readouterr().err
    assert "keep_optimiser" not in error
    assert "at step 2 " in error


def test_a_diverged_model_stays_diverged(sprites, tmp_path):
    method = BetaVAE(beta=[1, 1e38])
    whole = uw.train(method, sprites, steps=9, **SMALL)
    uw.train(method, sprites, steps=6, out=tmp_path, **KEPT)
    parts = uw.train(method, sprites, steps=9, out=tmp_path, **KEPT)
    assert parts.diverged_at.tolist() == whole.diverged_at.tolist()
    assert whole.diverged_at[0] == -1 < whole.diverged_at[1]
    assert torch.equal(parts.parameters["encoder"][0], whole.parameters["encoder"][0])


def test_a_cosine_schedule_is_not_continued_and_refuses_a_deadline(sprites, tmp_path):
    settings = {"optimiser": uw.Adam(lr=1e-3, schedule="cosine"), **SMALL}
    uw.train("vae", sprites, steps=2, out=tmp_path, keep_optimiser=True, **settings)
    longer = uw.train("vae", sprites, steps=4, out=tmp_path, **settings)
    assert alike(longer, uw.train("vae", sprites, steps=4, **settings))
    with pytest.raises(UnweaveError, check=about("minutes", 1)):
        uw.train("vae", sprites, minutes=1, **settings)


class Killed(BaseException):
    """Simulated power failure."""


def test_training_further_is_resumed_after_a_kill(sprites, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "WINDOW", 2)
    whole = uw.train("vae", sprites, steps=12, **SMALL)
    settings = {**KEPT, "out": tmp_path, "checkpoint_every": 0.0}
    uw.train("vae", sprites, steps=3, **settings)
    advance, taken = Engine.advance, []

    def advance_until_killed(engine, steps):
        taken.append(int(engine.step))
        if len(taken) == 4:
            raise Killed
        advance(engine, steps)

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "advance", advance_until_killed)
        with pytest.raises(Killed):
            uw.train("vae", sprites, steps=12, **settings)
    assert taken[0] == 3
    begun = []
    monkeypatch.setattr(
        Engine, "advance", lambda self, n: (begun.append(int(self.step)), advance(self, n))
    )
    # Any number of steps beyond the checkpoint may be asked for.
    parts = uw.train("vae", sprites, steps=12, **settings)
    assert begun[0] > 3
    assert alike(parts, whole)
    assert checkpoint.newest_first(tmp_path) == []


def test_a_checkpoint_serves_runs_with_another_number_of_steps(sprites, tmp_path, monkeypatch):
    def stop(doing):
        return " 4 of" in doing

    monkeypatch.setattr(loop, "WINDOW", 2)
    (config,) = uw.train("vae", sprites, steps=9, **SMALL).configs
    with pytest.raises(InterruptedTrainingError):
        train_runs([config], sprites, out=tmp_path, progress=False, on_progress=stop)
    (path,) = checkpoint.checkpoints(tmp_path)
    advance, begun = Engine.advance, []
    monkeypatch.setattr(
        Engine, "advance", lambda self, n: (begun.append(int(self.step)), advance(self, n))
    )
    for steps, start in ((3, 0), (6, 4)):
        whole = uw.train("vae", sprites, steps=steps, **SMALL)
        begun.clear()
        assert alike(uw.train("vae", sprites, steps=steps, out=tmp_path, **SMALL), whole)
        assert begun[0] == start
        assert path.exists()  # for the run of nine steps
    uw.train("vae", sprites, steps=7, out=tmp_path, **KEPT)
    assert not path.exists()  # the saved state is further


def forged(path, **changed):
    """Write other moments with the right checksums."""
    with open_tensors(path / OPTIMISER) as file:
        tensors, facts = file.tensors(), file.facts
    write_tensors(path / OPTIMISER, {**tensors, **changed}, facts)
    write_sums(path, (*FILES, OPTIMISER))


def test_damaged_optimiser_states_are_one_sentence(sprites, tmp_path):
    (model,) = uw.train("vae", sprites, steps=1, out=tmp_path, **KEPT)
    folder = tmp_path / model.config.hash
    file = folder / OPTIMISER
    content, sums = file.read_bytes(), (folder / SUMS).read_bytes()
    with open_tensors(file) as opened:
        name, value = next(iter(opened.tensors().items()))
        second = next(name for name in opened.layout if name.endswith("/second"))
        others = opened.tensors()

    def fails():
        with pytest.raises(UnweaveError, check=about(file)) as caught:
            uw.train("vae", sprites, steps=2, out=tmp_path, **KEPT)
        assert len(str(caught.value).splitlines()) == 1
        assert uw.load(folder).config == model.config  # the model itself is intact
        file.write_bytes(content)
        (folder / SUMS).write_bytes(sums)

    for place in (3, 20, len(content) // 2, len(content) - 1):
        changed = bytearray(content)
        changed[place] ^= 4
        file.write_bytes(changed)
        fails()
    for broken in (b"", content[:100], b"\0" * 99):
        file.write_bytes(broken)
        fails()
    (folder / SUMS).write_text("".join((folder / SUMS).read_text().splitlines(True)[:-1]))
    fails()
    for changed in (
        {name: value.half()},
        {name: value[:1].clone()},
        {name: torch.full_like(value, math.nan)},
        {second: -1 - others[second]},
        {"another": value},
    ):
        forged(folder, **changed)
        fails()
    file.unlink()
    whole = uw.train("vae", sprites, steps=2, **SMALL)
    assert alike(uw.train("vae", sprites, steps=2, out=tmp_path, **SMALL), whole)


def test_a_lineage_is_that_of_its_config_whatever_the_steps(sprites, tmp_path):
    (model,) = uw.train("vae", sprites, steps=1, out=tmp_path, **KEPT)
    ((name, found),) = saved_runs(tmp_path).items()
    assert name == lineage(model.config)
    assert found == {1: tmp_path / model.config.hash}
    other = uw.train("vae", sprites, seeds=[1], steps=1, **SMALL).configs[0]
    assert lineage(other) != name


def test_the_estimate_of_disk_space_includes_the_states(sprites, tmp_path):
    for method in (VAE(), FactorVAE(width=50)):
        (model,) = uw.train(method, sprites, steps=1, out=tmp_path, **KEPT)
        size = sum(f.stat().st_size for f in (tmp_path / model.config.hash).iterdir())
        estimate = disk_bytes(model.config, sprites.shape, keep_optimiser=True)
        assert size < estimate < 1.5 * size
        assert disk_bytes(model.config, sprites.shape) < 0.5 * estimate


def test_keeping_states_requires_a_folder(sprites):
    with pytest.raises(UnweaveError, check=about("keep_optimiser")):
        uw.train("vae", sprites, steps=1, **KEPT)


@dataclass(frozen=True, kw_only=True)
class Slow(VAE):
    """A VAE whose steps take a given time."""

    name = "slow"
    seconds: float = 0.05

    def regularizer(self, elbo, batch):
        time.sleep(self.seconds)
        return super().regularizer(elbo, batch)


def test_a_deadline_stops_training_and_keeps_what_was_trained(sprites, tmp_path, capsys):
    settings = {**SMALL, "seeds": 2, "out": tmp_path, "progress": True}
    start = time.monotonic()
    fleet = uw.train(Slow(), sprites, minutes=1 / 60, **settings)
    assert time.monotonic() - start < 10  # the remaining steps would take an hour or more
    (steps,) = {config.steps for config in fleet.configs}
    assert 1 < steps <= 20
    assert f"{steps:,} steps" in capsys.readouterr().err
    assert alike(fleet, uw.train(Slow(seconds=0.05), sprites, seeds=2, steps=steps, **SMALL))
    assert fleet.curve.groupby("run")["step"].max().tolist() == [steps, steps]
    assert fleet.curve.groupby("run").tail(1).notna().all(axis=None)
    assert [path.name for path in sorted(tmp_path.iterdir())] == sorted(
        config.hash for config in fleet.configs
    )
    # The same call goes on from there.
    more = uw.train(Slow(), sprites, minutes=1 / 60, **settings)
    assert more.configs[0].steps > steps
    whole = uw.train(Slow(), sprites, seeds=2, steps=more.configs[0].steps, **SMALL)
    assert alike(more, whole)


def test_the_time_left_and_the_expected_steps_are_shown(sprites, capsys, monkeypatch):
    monkeypatch.setattr(loop, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(loop, "PAUSE_SECONDS", 0.1)
    settings = {**SMALL, "progress": True}
    (model,) = uw.train(Slow(seconds=0.1), sprites, minutes=1.5 / 60, **settings)
    lines = re.findall(r"step (\d+) of about (\d+) .* ([\d.]+) s left", capsys.readouterr().err)
    steps, expected, left = np.array(lines, float).T
    assert len(lines) > 3
    assert (np.diff(left) <= 0).all()
    assert left.max() < 2
    assert (steps <= expected).all()
    assert abs(expected[-1] - model.config.steps) <= 1


def test_fleets_share_the_time(sprites):
    start = time.monotonic()
    fleet = uw.train(Slow(), sprites, seeds=3, minutes=1.5 / 60, fleet_size=1, **SMALL)
    assert time.monotonic() - start < 10
    steps = [config.steps for config in fleet.configs]
    assert min(steps) > 1
    assert max(steps) <= 4 * min(steps)


def test_a_small_fleet_does_not_get_more_steps_than_a_large_one(sprites):
    """With equal times, the single model would get about four times as many steps."""
    data = tuple(origin_of(sprites))
    small = {key: value for key, value in SMALL.items() if key not in ("progress", "batch")}
    many = [Config(method=Slow(), data=data, seed=seed, batch=8, **small) for seed in range(4)]
    alone = Config(method=Slow(), data=data, batch=9, **small)
    fleet = train_runs([*many, alone], sprites, minutes=3 / 60, progress=False)
    *of_many, of_one = [config.steps for config in fleet.configs]
    assert len(set(of_many)) == 1
    assert 1 < of_one <= 1.3 * of_many[0]


def test_a_deadline_beyond_the_last_step_changes_nothing(sprites):
    fleet = uw.train("vae", sprites, steps=3, minutes=5, **SMALL)
    assert fleet.configs[0].steps == 3
    assert alike(fleet, uw.train("vae", sprites, steps=3, **SMALL))


@pytest.mark.parametrize("minutes", [0, -1, math.nan, math.inf, 1e300, "1", True])
def test_impossible_deadlines_are_errors(sprites, minutes):
    with pytest.raises(UnweaveError) as caught:
        uw.train("vae", sprites, minutes=minutes, **SMALL)
    assert caught.value.subject == "minutes"


def test_a_deadline_shorter_than_a_step_is_an_error(sprites, tmp_path):
    with pytest.raises(UnweaveError) as caught:
        uw.train(Slow(seconds=0.5), sprites, minutes=0.2 / 60, out=tmp_path, **SMALL)
    assert caught.value.subject == "minutes"
    assert list(tmp_path.iterdir()) == []
