"""The file of a ledger: rejected files, and ledgers without checksums."""

import os
import sqlite3
import struct
from contextlib import closing

import pytest

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.study.ledger import Ledger, RunOutcome
from unweave.study.ledger_file import DamagedLedgerError
from unweave.study.workers import Worker

FIRST_EDITION = """
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, kind TEXT NOT NULL, config TEXT NOT NULL, state TEXT NOT NULL,
    worker TEXT, error TEXT, results TEXT, changed REAL NOT NULL,
    asked INTEGER NOT NULL DEFAULT 1, scored_for TEXT
);
CREATE INDEX IF NOT EXISTS by_state ON runs (asked, state, kind);
CREATE INDEX IF NOT EXISTS by_worker ON runs (worker) WHERE worker IS NOT NULL;
CREATE TABLE IF NOT EXISTS workers (
    worker TEXT PRIMARY KEY, host TEXT NOT NULL, process INTEGER NOT NULL, seen REAL NOT NULL,
    doing TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS speeds (
    kind TEXT NOT NULL, device TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (kind, device)
);
INSERT INTO runs (run, kind, config, state, results, changed)
    VALUES ('a', 'k', '{"seed": 0}', 'scored', '{"mig": 0.25}', 1.5),
           ('b', 'k', '{"seed": 1}', 'planned', NULL, 2.5);
"""


@pytest.fixture
def path(tmp_path):
    """A ledger with three runs, one of them scored."""
    path = tmp_path / "ledger.sqlite"
    names = ["a", "b", "c"]
    ledger = Ledger(path)
    ledger.plan({n: {"seed": k} for k, n in enumerate(names)}, dict.fromkeys(names, "kind"))
    ledger.record({"a": RunOutcome("scored", None, {"mig": 0.25})})
    ledger.record_speed("kind", "device", 0.5)
    ledger.heartbeat(Worker.here())
    return path


def change(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def forge(path, column, value):
    """Change a run and update its checksum."""
    with Ledger(path)._change() as connection:
        connection.execute(f"UPDATE runs SET {column} = ? WHERE run = 'a'", (value,))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET results = '{\"mig\": 0.75}' WHERE run = 'a'",
        "UPDATE runs SET state = 'trained' WHERE run = 'a'",
        "UPDATE runs SET asked = 0 WHERE run = 'a'",
        "UPDATE runs SET config = '{\"seed\": 5}' WHERE run = 'a'",
        "UPDATE runs SET checksum = NULL WHERE run = 'a'",
        "UPDATE runs SET state = 'lost' WHERE run = 'a'",
        "UPDATE runs SET changed = 'now' WHERE run = 'a'",
        "UPDATE runs SET error = CAST(x'ff' AS TEXT) WHERE run = 'a'",
        "DELETE FROM runs",
        "DELETE FROM runs WHERE run = 'b'",
        "DELETE FROM totals",
        "UPDATE workers SET seen = 'soon'",
        "UPDATE workers SET process = 1.5",
        "UPDATE workers SET doing = CAST(x'ff' AS TEXT)",
        "UPDATE speeds SET seconds = -1",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = 9",
        "PRAGMA application_id = 7",
        "CREATE TABLE more (one)",
        "CREATE VIEW look AS SELECT * FROM runs",
        "CREATE TRIGGER pull AFTER UPDATE ON runs BEGIN DELETE FROM speeds; END",
        "DROP TABLE speeds",
        "DROP INDEX by_state",
        "ALTER TABLE runs ADD COLUMN more",
        "PRAGMA journal_mode = WAL",
    ],
)
def test_changes_by_another_program_are_rejected(path, statement):
    change(path, statement)
    with pytest.raises(DamagedLedgerError, check=about(path)):
        Ledger(path)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


def other_file(path):
    path.write_bytes(os.urandom(5000))


def folder(path):
    path.unlink()
    path.mkdir()


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def linked(path):
    path.rename(path.with_name("elsewhere.sqlite"))
    path.symlink_to("elsewhere.sqlite")


def pipe_for_a_journal(path):
    os.mkfifo(f"{path}-journal")


def device_for_a_log(path):
    path.with_name(f"{path.name}-wal").symlink_to("/dev/zero")


def folder_for_an_index(path):
    path.with_name(f"{path.name}-shm").mkdir()


def missing(path):
    (path.parent / "study.json").write_text("{}")
    path.unlink()


NO_LEDGERS = (
    *(cut, empty, other_file, folder, pipe, linked, missing),
    *(pipe_for_a_journal, device_for_a_log, folder_for_an_index),
)


@pytest.mark.parametrize("damage", NO_LEDGERS)
def test_files_that_are_not_ledgers_are_rejected(path, damage):
    damage(path)
    with pytest.raises(DamagedLedgerError):
        Ledger(path, create=False)


def test_another_programs_database_is_not_touched(tmp_path):
    path = tmp_path / "bookmarks.sqlite"
    change(path, "CREATE TABLE places (url TEXT)", "INSERT INTO places VALUES ('x')")
    before = path.read_bytes()
    (tmp_path / "ledger.sqlite").symlink_to(path)
    with pytest.raises(DamagedLedgerError):
        Ledger(tmp_path / "ledger.sqlite")
    assert path.read_bytes() == before


def test_a_ledger_that_lists_no_runs_is_not_a_study(tmp_path):
    Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(DamagedLedgerError, check=about(tmp_path / "ledger.sqlite")):
        Ledger(tmp_path / "ledger.sqlite", create=False)


def test_a_journal_cannot_delete_another_file(path, tmp_path):
    """SQLite deletes the super-journal that a journal names."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"important")
    magic, name = bytes.fromhex("d9d505f920a163d7"), str(victim).encode()
    header = magic + struct.pack(">5I", 0, 0, path.stat().st_size // 4096, 512, 4096)
    end = name + struct.pack(">2I", len(name), sum(name)) + magic
    journal = header.ljust(512, b"\0") + struct.pack(">I", 2**30 // 4096 + 1) + end
    path.with_name("ledger.sqlite-journal").write_bytes(journal)
    with pytest.raises(DamagedLedgerError):
        Ledger(path)
    assert victim.exists()


def test_the_journal_of_a_deleted_ledger_is_removed(path):
    journal = path.with_name("ledger.sqlite-journal")
    path.unlink()
    journal.write_bytes(b"left")
    Ledger(path)
    assert not journal.exists()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("config", "no JSON"),
        ("config", "[" * 100_000),
        ("config", "[1]"),
        ("results", "{"),
        ("results", '{"mig": "high"}'),
        ("results", '{"mig": true}'),
        ("results", '{"mig": [1]}'),
    ],
)
def test_invalid_contents_are_rejected_on_reading(path, column, value):
    forge(path, column, value)
    with pytest.raises(DamagedLedgerError):
        Ledger(path).rows()
    with pytest.raises(DamagedLedgerError):
        Ledger(path).records()


def test_errors_with_undecodable_file_names_are_recorded(path):
    Ledger(path).mark(["b"], "failed", "cannot read caf\udce9.png")
    assert Ledger(path).reasons() == [("failed", "cannot read caf\\udce9.png", 1, "b")]


@pytest.fixture
def old(tmp_path):
    """A ledger as written by the first version."""
    path = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST_EDITION)
    return path


def test_a_ledger_of_the_first_version_is_read_unchanged(old):
    before = old.read_bytes()
    ledger = Ledger(old, create=False)
    assert ledger.states() == {"a": "scored", "b": "planned"}
    assert ledger.rows() == [("a", "scored", {"seed": 0}, {"mig": 0.25})]
    assert ledger.counts()["scored"] == 1
    assert old.read_bytes() == before


def test_a_ledger_of_the_first_version_gets_checksums_on_its_first_change(old):
    ledger = Ledger(old)
    ledger.record({"b": RunOutcome("trained", None, {"mig": 0.5})})
    assert Ledger(old).rows() == [
        ("a", "scored", {"seed": 0}, {"mig": 0.25}),
        ("b", "trained", {"seed": 1}, {"mig": 0.5}),
    ]
    assert ledger.plan({"c": {"seed": 2}}, {"c": "k"}) == 1
    assert Ledger(old).counts()["planned"] == 1
    change(old, "UPDATE runs SET results = '{\"mig\": 0.75}' WHERE run = 'a'")
    with pytest.raises(DamagedLedgerError, match="run a"):
        Ledger(old)


def test_a_failed_change_leaves_an_old_ledger_unchanged(old):
    before = Ledger(old).table()
    with pytest.raises(UnweaveError), Ledger(old)._change() as connection:
        connection.execute("UPDATE runs SET state = NULL")
    assert Ledger(old).table().equals(before)
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (0,)


def test_every_change_updates_the_checksums(path):
    ledger, worker = Ledger(path), Worker.here()
    ledger.claim(worker, ["b", "c"])
    ledger.record({"b": RunOutcome("trained", None, {"mig": float("nan")})})
    ledger.claim_trained(worker, 1)
    ledger.release(worker)
    ledger.reopen(["a"], "trained")
    ledger.reopen_scored("other")
    ledger.plan({"b": {}, "d": {"seed": 4}}, {"b": "kind", "d": "kind"})
    assert Ledger(path).states() == {
        "a": "trained",
        "b": "trained",
        "c": "planned",
        "d": "planned",
    }
    assert Ledger(path).table()["asked"].tolist() == [False, True, False, True]
