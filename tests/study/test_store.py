"""The folder of a study: checksums, damage, and rebuilding the ledger."""

import json
import os
import shutil
import subprocess
import time

import pandas as pd
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.cli import main
from unweave.errors import UnweaveError
from unweave.io import writing as cache
from unweave.models.files import intact
from unweave.papers import find
from unweave.study import Study, load, plan, run
from unweave.study.checking import check, make_ledger, tidy
from unweave.study.ledger import Ledger, RunOutcome
from unweave.study.ledger_file import DamagedLedgerError
from unweave.study.store import Store
from unweave.study.workers import Worker


@pytest.fixture(scope="module")
def kept(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "done"
    run(small(), folder, progress=False, scorers=0)
    return folder


HALF = ".0123456789abcdef.x1y2z3"
"""Temporary name of a run folder while it is written."""


def states(folder):
    table = load(folder).store.ledger.table()
    return dict(zip(table["run"], table["state"], strict=True))


def some_run(folder):
    return sorted((folder / "runs").glob("[!.]*"))[1]


def flip(path, place=-5):
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_one_flipped_bit_damages_a_run(done):
    assert str(check(Store(done))) == "4 runs are intact"
    folder = some_run(done)
    for name in ("config.json", "weights.safetensors", "curve.parquet", "SHA256SUMS"):
        flip(folder / name)
        assert not intact(folder)
        flip(folder / name)
        assert intact(folder)
    (folder / "curve.parquet").unlink()
    assert not intact(folder)


def test_checksums_have_the_sha256sum_format(done):
    command = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(command, cwd=some_run(done), check=False).returncode == 0


def test_a_damaged_run_is_moved_away_and_trained_again(done, small):
    folder = some_run(done)
    before = uw.load(folder).parameters["encoder"]
    flip(folder / "weights.safetensors")
    found = check(Store(done))
    assert (found.intact, found.damaged, found.good) == (3, [folder.name], False)
    assert folder.exists()
    check(Store(done), repair=True)
    assert states(done)[folder.name] == "planned"
    assert (done / "damaged" / folder.name / "weights.safetensors").exists()
    run(small(), done, progress=False, scorers=0)
    assert torch.equal(uw.load(folder).parameters["encoder"], before)
    assert set(states(done).values()) == {"scored"}
    assert check(Store(done)).good


def test_the_ledger_is_rebuilt_from_the_folders(done):
    table, before = load(done).table, states(done)
    (done / "ledger.sqlite").write_bytes(b"nothing" * 1000)
    (done / "ledger.sqlite-journal").write_bytes(b"left by a killed process")
    with pytest.raises(DamagedLedgerError, check=about(done / "ledger.sqlite")):
        _ = load(done).table
    assert check(Store(done), repair=True).ledger is not None
    assert states(done) == before
    pd.testing.assert_frame_equal(load(done).table, table)
    assert not (done / "ledger.sqlite-journal").exists()
    assert (done / "damaged" / "ledger.sqlite").read_bytes() == b"nothing" * 1000
    assert check(Store(done)).good


def test_a_changed_score_is_recomputed(done, small):
    file = some_run(done) / "scores.json"
    before = json.loads(file.read_text())
    file.write_text(file.read_text().replace('"mig": 0.', '"mig": 1.'))
    found = check(Store(done))
    assert (found.unscored, found.good) == ([file.parent.name], False)
    check(Store(done), repair=True)
    assert states(done)[file.parent.name] == "trained"
    run(small(), done, progress=False, scorers=0)
    after = json.loads(file.read_text())
    assert sorted(map(str, after)) == sorted(map(str, before))


def test_a_deleted_run_is_missing_and_then_planned(done):
    folder = some_run(done)
    shutil.rmtree(folder)
    found = check(Store(done))
    assert found.missing == [folder.name]
    assert "1 missing" in str(found)
    check(Store(done), repair=True)
    assert states(done)[folder.name] == "planned"


def test_runs_no_longer_in_the_study_are_not_deleted(done, small):
    fewer = small(methods={"beta_vae": {"beta": 4}})
    run(fewer, done, progress=False, scorers=0)
    found = check(Store(done), repair=True)
    assert len(found.unknown) == 2
    assert len(load(done).table) == 2
    assert load(done).counts["scored"] == 2
    run(small(), done, progress=False, scorers=0)
    assert len(load(done).table) == 4


def test_unknown_folders_are_ignored(done, small):
    other = small(steps=5, seeds=1)
    run(other, done.parent / "other", progress=False, scorers=0)
    strange = some_run(done.parent / "other")
    shutil.copytree(strange, done / "runs" / strange.name)
    assert check(Store(done)).unknown == [strange.name]


def test_temporary_files_of_killed_processes_are_removed(done):
    (done / "runs" / HALF).mkdir()
    (done / "runs" / HALF / "weights.safetensors").write_bytes(b"half")
    (some_run(done) / ".scores.json.xyz").write_bytes(b"half")
    (done / "runs" / ".tmpqP64uT").write_bytes(b"half a checkpoint")
    (done / ".study.parquet.xyz").write_bytes(b"half")
    os.utime(done / ".study.parquet.xyz", (0, 0))
    mine = [done / ".git", done / ".env", done / "runs" / ".notes"]
    for path in mine:
        path.write_text("not ours")
    tidy(Store(done))
    assert sorted(done.rglob(".*")) == sorted(mine)
    assert check(Store(done)).good


def test_repair_is_refused_while_workers_are_active(done, capsys):
    Ledger(done / "ledger.sqlite").heartbeat(Worker.here())
    with pytest.raises(SystemExit) as left:
        main(["study", "check", str(done), "--repair"])
    assert left.value.code == 2
    assert "other processes are running" in capsys.readouterr().err


def test_exit_code_of_check(done, capsys):
    main(["study", "check", str(done)])
    flip(some_run(done) / "weights.safetensors")
    with pytest.raises(SystemExit) as left:
        main(["study", "check", str(done)])
    assert left.value.code == 1
    assert "1 damaged" in capsys.readouterr().out


def test_a_folder_without_a_study(tmp_path):
    with pytest.raises(UnweaveError, check=about(tmp_path)):
        load(tmp_path)


def test_status_shows_errors(done, capsys):
    ledger = Ledger(done / "ledger.sqlite")
    runs = list(states(done))
    ledger.mark(runs[:2], "failed", "the sky fell")
    ledger.heartbeat(Worker.here(), "3 models at step 5 of 9")
    main(["study", "status", str(done)])
    said = capsys.readouterr().out
    assert "4 runs: 2 scored, 2 failed" in said
    assert f"2 failed: the sky fell ({min(runs[:2])}, …)" in said
    assert "3 models at step 5 of 9" in said


class Took:
    """Measures the CPU time of a block."""

    def __enter__(self):
        self.start = time.process_time()
        return self

    def __exit__(self, *_):
        self.seconds = time.process_time() - self.start


def test_a_large_study_is_planned_and_read_in_seconds(tmp_path):
    study = Study(**find("common-assumptions/transfer").studies["paper"])
    store = Store(tmp_path)
    store.runs.mkdir()
    with Took() as planning:
        said = str(plan(study, tmp_path, device="cpu"))
        errors = store.plan(study)
    assert (len(store.ledger.states()), errors) == (12_600, {})
    assert "12,600" in said
    names = [config.hash for config in study.runs()]
    scores = {f"score{k}": k / 7 for k in range(40)}
    store.ledger.record(dict.fromkeys(names, RunOutcome("scored", None, scores)))
    with Took() as status:
        assert str(load(tmp_path)) == "12,600 runs: 12,600 scored"
    with Took() as reading:
        table = load(tmp_path).table
    assert table.shape[0] == 12_600
    assert table.groupby(["data", "method", "strength"]).size().eq(50).all()
    assert planning.seconds < 10
    assert status.seconds < 1
    assert reading.seconds < 4  # verified and validated, row by row


@pytest.mark.skipif(torch.cuda.is_available(), reason="of machines without a GPU")
def test_a_plan_for_a_missing_gpu_is_a_one_line_error(small):
    with pytest.raises(UnweaveError, match="GPU"):
        plan(small(), device="cuda")


def test_the_table_has_a_column_for_settings_that_vary(tmp_path):
    for latents, columns in (([3, 5], {"latents"}), (3, set())):
        settings = {"batch": 8, "latents": latents}
        study = Study(data="dsprites", methods={"vae": {}}, settings=settings)
        store = Store(tmp_path)
        store.plan(study)
        runs = {config.hash: config.latents for config in study.runs()}
        store.ledger.record(dict.fromkeys(runs, RunOutcome("scored", None, {"mig": 0.5})))
        table = load(tmp_path).table
        assert columns == {"latents", "batch"} & set(table)
        assert all(table["latents"] == table["run"].map(runs)) if columns else len(table) == 1


def test_hyperparameters_losses_and_strength_have_separate_columns(tmp_path):
    study = Study(
        data="dsprites", methods={"vae_ensemble": {"gamma": [1, 10], "alignment": False}}
    )
    store = Store(tmp_path)
    store.plan(study)
    found = RunOutcome("scored", None, {"alignment": 0.5, "kl": 3.0})
    store.ledger.record({config.hash: found for config in study.runs()})
    table = load(tmp_path).table
    assert table["strength"].tolist() == table["gamma"].tolist() == [1, 10]
    assert table["method.strength"].eq(1).all()
    assert table["alignment"].eq(False).all()
    assert table["loss.alignment"].eq(0.5).all()
    assert table["kl"].eq(3).all()


def test_rebuilding_a_ledger_takes_milliseconds_per_run(done, small):
    """12,600 runs within a minute: 4.7 ms each."""
    study = small(seeds=100, methods={"beta_vae": {"beta": [1, 4, 16]}})
    pattern = some_run(done)
    for config in study.runs():
        folder = done / "runs" / config.hash
        if not folder.exists():
            shutil.copytree(pattern, folder)
            (folder / "config.json").write_text(json.dumps(config.to_dict()))
    store = Store(done)
    store.plan(study)
    with Took() as making:
        make_ledger(store, {config.hash: config for config in study.runs()})
    assert len(load(done).table) == 300
    assert making.seconds < 60 * 300 / 12_600


def test_a_damaged_checkpoint_is_moved_away(done, small):
    junk = done / "runs" / ".fleet-0123456789abcdef.safetensors"
    junk.write_bytes(b"junk")
    results = run(small(seeds=3), done, progress=False, scorers=0)
    assert results.counts["scored"] == 6
    assert not junk.exists()
    assert (done / "damaged" / "fleet-0123456789abcdef.safetensors").read_bytes() == b"junk"


def test_a_run_that_finishes_during_a_check_is_not_missing(done, small, monkeypatch):
    import unweave.study.checking as module

    def slow(folder):
        if not list((done / "runs").glob("*"))[4:]:
            run(small(seeds=3), done, progress=False, scorers=0)
        return intact(folder)

    monkeypatch.setattr(module, "intact", slow)
    assert check(Store(done)).good
    assert len(list((done / "runs").iterdir())) == 6


def test_file_permissions_follow_the_umask(small, tmp_path, monkeypatch):
    before = os.umask(0o002)
    monkeypatch.setattr(cache, "_MASK", cache._mask())  # which is read at the import
    try:
        run(small(seeds=1), tmp_path / "s", progress=False, scorers=0)
    finally:
        os.umask(before)
    for path in [tmp_path / "s" / "ledger.sqlite", *(tmp_path / "s" / "runs").rglob("*")]:
        assert path.stat().st_mode & 0o020, path
