"""Checking a study: disagreements between runs, ledger and table are found and repaired."""

import json
import random
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from tests.raising import about
from unweave.cli import main
from unweave.errors import UnweaveError
from unweave.study import load, run
from unweave.study.checking import check
from unweave.study.ledger import Ledger, RunOutcome
from unweave.study.running import prepare
from unweave.study.store import Store
from unweave.study.workers import Worker


@pytest.fixture(scope="module")
def kept(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "done"
    run(small(steps=2, metrics=["mig"]), folder, progress=False, scorers=0)
    return folder


@pytest.fixture(scope="module")
def untouched(kept):
    return load(kept).table


def ledger(folder):
    return Ledger(folder / "ledger.sqlite")


def some_run(folder):
    return sorted(path.name for path in (folder / "runs").glob("[!.]*"))[1]


def delete_rows(folder):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection, connection:
        connection.execute("DELETE FROM runs")


def empty_ledger(folder):
    (folder / "ledger.sqlite").unlink()
    ledger(folder)


def no_bytes(folder):
    (folder / "ledger.sqlite").write_bytes(b"")


def no_ledger(folder):
    (folder / "ledger.sqlite").unlink()


def garbage(folder):
    (folder / "ledger.sqlite").write_bytes(random.Random(0).randbytes(20_000))


def cut_ledger(folder):
    path = folder / "ledger.sqlite"
    path.write_bytes(path.read_bytes()[:5000])


def folder_for_ledger(folder):
    no_ledger(folder)
    (folder / "ledger.sqlite").mkdir()


def record(folder, run, outcome):
    ledger(folder).record({run: outcome})


def metrics_hash(folder):
    return Store(folder).metrics_hash


def other_results(folder):
    name = some_run(folder)
    numbers = ledger(folder).records()[name].results
    record(
        folder, name, RunOutcome("scored", None, {**numbers, "mig": 0.123}, metrics_hash(folder))
    )


def lost_results(folder):
    record(
        folder, some_run(folder), RunOutcome("scored", None, {"loss": 1.0}, metrics_hash(folder))
    )


def other_error(folder):
    record(folder, some_run(folder), RunOutcome("scored", "no mig", None, metrics_hash(folder)))


def stale_scores(folder):
    record(folder, some_run(folder), RunOutcome("scored", scored_for="something else"))


def open_again(folder):
    ledger(folder).mark([some_run(folder)], "planned")


def diverged(folder):
    ledger(folder).mark([some_run(folder)], "diverged")


def other_config(folder):
    with ledger(folder)._change() as connection:
        connection.execute(
            "UPDATE runs SET config = replace(config, '\"seed\": 0', '\"seed\": 1')"
        )


def missing_from_ledger(folder):
    known = ledger(folder).records()
    rest = {run: one for run, one in known.items() if run != some_run(folder)}
    ledger(folder).plan(
        {run: one.config for run, one in rest.items()},
        {run: one.kind for run, one in rest.items()},
    )


def obsolete_run(folder):
    known = ledger(folder).records()
    one = known[some_run(folder)]
    ledger(folder).plan(
        {**{run: one.config for run, one in known.items()}, "0" * 16: one.config},
        {**{run: one.kind for run, one in known.items()}, "0" * 16: one.kind},
    )


def other_table(folder):
    table = pd.read_parquet(folder / "study.parquet")
    table.loc[1, "mig"] += 0.25
    table.to_parquet(folder / "study.parquet", index=False)


def damaged_table(folder):
    (folder / "study.parquet").write_bytes(b"PAR1" + bytes(100))


def no_table(folder):
    (folder / "study.parquet").unlink()


def temporary_file(folder):
    (folder / "runs" / ".0123456789abcdef.x1y2z3").mkdir()


def token(folder):
    (folder / f".ray-{'ab' * 16}").touch()


def damaged_checkpoint(folder):
    (folder / "runs" / ".fleet-0123456789abcdef.safetensors").write_bytes(b"junk")


FIXED = {
    delete_rows: "ledger",
    empty_ledger: "unplanned",
    no_bytes: "ledger",
    no_ledger: "ledger",
    garbage: "ledger",
    cut_ledger: "ledger",
    folder_for_ledger: "ledger",
    other_results: "numbers",
    lost_results: "numbers",
    other_error: "numbers",
    stale_scores: "numbers",
    open_again: "states",
    diverged: "states",
    other_config: "numbers",
    missing_from_ledger: "unplanned",
    obsolete_run: "obsolete",
    other_table: "table",
    damaged_table: "table",
    no_table: "table",
    temporary_file: "leftovers",
    token: "leftovers",
    damaged_checkpoint: "checkpoints",
}


@pytest.mark.parametrize("damage", FIXED, ids=lambda damage: damage.__name__)
def test_problems_are_found_and_repaired(done, untouched, damage, capsys):
    assert check(Store(done)).good
    damage(done)
    found = check(Store(done))
    assert not found.good
    assert getattr(found, FIXED[damage])
    with pytest.raises(SystemExit) as left:
        main(["study", "check", str(done)])
    assert left.value.code == 1
    main(["study", "check", str(done), "--repair"])
    assert check(Store(done)).good, check(Store(done))
    pd.testing.assert_frame_equal(load(done).table, untouched)
    pd.testing.assert_frame_equal(pd.read_parquet(done / "study.parquet"), untouched)
    assert "Traceback" not in capsys.readouterr().err


def test_a_damaged_ledger_is_moved_away(done):
    garbage(done)
    content = (done / "ledger.sqlite").read_bytes()
    check(Store(done), repair=True)
    assert (done / "damaged" / "ledger.sqlite").read_bytes() == content


def test_a_run_under_another_name_is_found_and_trained_again(done, small, untouched):
    one, other = sorted((done / "runs").iterdir())[:2]
    shutil.rmtree(one)
    shutil.copytree(other, one)
    found = check(Store(done), repair=True)
    assert (found.misnamed, found.intact) == ([one.name], 3)
    assert (done / "damaged" / one.name).exists()
    run(small(steps=2, metrics=["mig"]), done, progress=False, scorers=0)
    assert check(Store(done)).good
    numbers = load(done).table.set_index("run")[["mig", "reconstruction"]]
    expected = untouched.set_index("run").loc[numbers.index, ["mig", "reconstruction"]]
    pd.testing.assert_frame_equal(numbers, expected, atol=1e-5)


def test_unknown_folders_are_listed_and_ignored(done):
    (done / "runs" / "notes.txt").write_text("mine")
    found = check(Store(done))
    assert (found.unknown, found.good) == (["notes.txt"], True)


def test_an_intact_study_is_not_rebuilt(done):
    before = (done / "ledger.sqlite").read_bytes()
    assert check(Store(done), repair=True).good
    assert (done / "ledger.sqlite").read_bytes() == before


def test_checking_does_not_create_a_missing_ledger(done):
    no_ledger(done)
    assert not check(Store(done)).good
    assert not (done / "ledger.sqlite").exists()


def test_runs_of_live_workers_are_not_compared(done):
    name = some_run(done)
    book, worker = ledger(done), Worker.here()
    book.mark([name], "planned")
    book.claim(worker, [name])
    assert check(Store(done)).good
    book.release(worker)
    assert check(Store(done)).states == [name]


def test_runs_on_data_that_vanished_stay_in_the_study(small, tmp_path):
    images = tmp_path / "mine.npy"
    np.save(images, np.random.default_rng(0).integers(256, size=(32, 16, 16, 1), dtype=np.uint8))
    study = small(data=[str(images)], metrics=["active_units"], seeds=1, steps=2)
    table = run(study, tmp_path / "out", progress=False, scorers=0).table
    images.unlink()
    assert check(Store(tmp_path / "out")).good
    garbage(tmp_path / "out")
    check(Store(tmp_path / "out"), repair=True)
    again = load(tmp_path / "out").table.set_index("run").loc[table["run"]].reset_index()
    pd.testing.assert_frame_equal(again, table)
    assert check(Store(tmp_path / "out")).good


def test_the_order_of_a_study_that_grew_survives_a_repair(done, small):
    more = small(steps=2, metrics=["mig"], methods={"beta_vae": {"beta": [0.5, 1, 4]}})
    table = run(more, done, progress=False, scorers=0).table
    assert table["beta"].tolist() == [1, 1, 4, 4, 0.5, 0.5]
    open_again(done)
    check(Store(done), repair=True)
    pd.testing.assert_frame_equal(load(done).table, table)


def test_flipped_bits_of_the_ledger_never_change_the_table_silently(done, untouched):
    """Flipped bits and overwritten bytes at random positions are errors or harmless."""
    path = done / "ledger.sqlite"
    good = path.read_bytes()
    chance, silent, noticed = random.Random(0), [], 0
    for attempt in range(150):
        content = bytearray(good)
        place = chance.randrange(len(content))
        if attempt % 3:
            content[place] ^= 1 << chance.randrange(8)
        else:
            size = chance.choice([1, 8, 100, 4096])
            content[place : place + size] = chance.randbytes(len(content[place : place + size]))
        path.write_bytes(content)
        try:
            table = load(done).table
            load(done).counts, load(done).failures, ledger(done).workers()
        except UnweaveError:
            noticed += 1
            continue
        if not table.equals(untouched):
            silent.append((attempt, place))
    assert silent == []
    assert noticed > 20


def test_a_changed_study_json_is_detected_and_rewritten(done, small, untouched, capsys):
    path = done / "study.json"
    path.write_text(path.read_text().replace('"name": "few"', '"name": "fex"'))
    with pytest.raises(UnweaveError, check=about(path)):
        _ = load(done).table
    run(small(steps=2, metrics=["mig"]), done, progress=False, scorers=0)
    assert str(path) in capsys.readouterr().err
    assert (done / "damaged" / "study.json").exists()
    pd.testing.assert_frame_equal(load(done).table, untouched)
    assert check(Store(done)).good


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"study": 1, "sources": {}}', "[" * 100_000, '{"study": {}, "sources": []}'],
)
def test_invalid_study_json_is_a_one_line_error(done, text):
    (done / "study.json").write_text(text)
    with pytest.raises(UnweaveError, check=about(done / "study.json")):
        load(done)


def test_study_json_of_the_first_version_has_no_checksum(done, untouched):
    path = done / "study.json"
    said = json.loads(path.read_text())
    del said["checksum"]
    path.write_text(json.dumps(said))
    pd.testing.assert_frame_equal(load(done).table, untouched)


def test_a_run_with_the_settings_of_another_is_not_trained(small, tmp_path):
    study = small(steps=2, metrics=["mig"], seeds=1)
    store = Store(tmp_path)
    prepare(store, study)
    one, other = study.runs()
    with store.ledger._change() as connection:
        config = json.dumps(other.to_dict())
        connection.execute("UPDATE runs SET config = ? WHERE run = ?", (config, one.hash))
    with pytest.raises(UnweaveError, check=about(one.hash, other.hash)):
        run(study, tmp_path, progress=False, scorers=0)
    check(store, repair=True)
    assert run(study, tmp_path, progress=False, scorers=0).counts["scored"] == 2
