"""Studies at a URL: incomplete uploads are ignored, and finished runs are not repeated."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.fleet import checkpoint
from unweave.fleet.checkpoint import checkpoints
from unweave.fleet.diagnostics import curve_columns
from unweave.fleet.engine import Engine
from unweave.fleet.train import train_runs
from unweave.io.plain_data import MAX_BYTES
from unweave.models.files import SUMS
from unweave.models.model import load
from unweave.study import Study, run
from unweave.study import load as load_study
from unweave.study.remote import RemoteStore, is_url, open_store
from unweave.study.running import prepare


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "images.npy"
    np.save(path, np.random.default_rng(0).integers(0, 256, (16, 16, 16), np.uint8))
    return Study(
        data=[str(path)],
        methods={"beta_vae": {"beta": [1, 4]}},
        steps=3,
        metrics=["active_units"],
        settings={"batch": 4, "architecture": "small_mlp"},
    )


def two_processes(tmp_path, study):
    """The same study as two machines see it."""
    url = f"file://{tmp_path / 'away'}"
    stores = [RemoteStore(url, tmp_path / name) for name in ("one", "two")]
    for store in stores:
        prepare(store, study)
    return stores


def test_uploads_can_be_downloaded_by_another_process(study, tmp_path):
    one, two = two_processes(tmp_path, study)
    configs = study.runs()
    runs = [config.hash for config in configs]
    fleet = train_runs(configs, study.sources[0].open(), out=one.runs, progress=False)
    assert not two.has(runs[0])
    one.upload(runs[:1])
    assert (two.has(runs[0]), two.has(runs[1])) == (True, False)
    two.download(runs)
    assert not (two.runs / runs[1]).exists()
    brought = load(two.runs / runs[0]).parameters["encoder"][0]
    assert torch.equal(brought, fleet.parameters["encoder"][0])


def test_a_run_without_checksums_is_incomplete(study, tmp_path):
    one, two = two_processes(tmp_path, study)
    configs = study.runs()
    train_runs(configs, study.sources[0].open(), out=one.runs, progress=False)
    one.upload([configs[0].hash])
    (tmp_path / "away" / "runs" / configs[0].hash / SUMS).unlink()
    two.download([configs[0].hash])
    assert not two.has(configs[0].hash)
    assert not (two.runs / configs[0].hash).exists()


def test_checkpoints_are_replaced_and_removed_after_upload(study, tmp_path):
    one, two = two_processes(tmp_path, study)
    configs = study.runs()
    runs = [config.hash for config in configs]
    data = study.sources[0].open()
    engine = Engine(configs, data, "cpu")
    path = one.runs / ".fleet-mine.safetensors"
    rows = torch.empty(0, len(curve_columns(engine)), 2)
    for _ in range(2):
        engine.advance(1)
        checkpoint.save(engine, rows, path)
        one.upload_checkpoints()
        one.upload_checkpoints()
    fleets = tmp_path / "away" / "fleets"
    kept = sorted(file.suffix for file in fleets.iterdir())
    assert kept == [".json", ".safetensors"]
    assert two.interrupted() == [runs]
    two.download_checkpoint(runs)
    assert list(checkpoints(two.runs).values()) == [runs]
    other = Engine(configs, data, "cpu")
    checkpoint.restore(other, two.runs / path.name)
    assert int(other.step) == 2
    train_runs(configs, data, out=two.runs, progress=False)
    two.upload(runs[:1])
    assert two.interrupted() == [runs]
    two.upload(runs[1:])
    assert two.interrupted() == []
    assert not list(fleets.iterdir())


def test_results_at_a_url_are_visible_to_another_machine(study, tmp_path, monkeypatch):
    url = f"file://{tmp_path / 'away'}"
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "here"))
    first = run(study, url, progress=False, scorers=0)
    assert first.counts["scored"] == 2
    assert first.table["active_units"].notna().all()
    trained = {path: path.stat().st_mtime_ns for path in tmp_path.glob("away/runs/*/config.json")}
    assert len(trained) == 2
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "there"))
    again = run(study, url, progress=False, scorers=0)
    assert again.table.equals(first.table)
    assert {path: path.stat().st_mtime_ns for path in trained} == trained
    (tmp_path / "away" / "ledger.sqlite").unlink()
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "elsewhere"))
    rebuilt = run(study, url, progress=False, scorers=0)
    assert rebuilt.table.equals(first.table)
    assert {path: path.stat().st_mtime_ns for path in trained} == trained
    assert json.loads((tmp_path / "away" / "study.json").read_text())["study"]["steps"] == 3


def test_invalid_urls_are_a_one_line_error():
    assert is_url("s3://bucket/study")
    assert not is_url("some/study")
    with pytest.raises(UnweaveError, check=about("moon://study")):
        open_store("moon://study")


@pytest.mark.parametrize(
    "content",
    [
        {"runs": ["0" * 16], "file": "../../victim"},
        {"runs": ["0" * 16], "file": "../../victim.safetensors"},
        {"runs": ["0" * 16], "file": "/etc/passwd"},
        {"runs": ["0" * 16], "file": 5},
        {"runs": ["../../victim"], "file": "mine-1.safetensors"},
        {"runs": "0" * 16, "file": "mine-1.safetensors"},
        {"runs": [], "file": "mine-1.safetensors"},
        {"runs": [["0" * 16]], "file": "mine-1.safetensors"},
        {"file": "mine-1.safetensors"},
        ["runs"],
        None,
    ],
)
def test_checkpoints_with_unsafe_names_are_ignored(study, tmp_path, content):
    one, _ = two_processes(tmp_path, study)
    victims = [tmp_path / "victim", tmp_path / "victim.safetensors"]
    for victim in victims:
        victim.write_text("mine")
    fleets = tmp_path / "away" / "fleets"
    fleets.mkdir(parents=True)
    (fleets / "mine.json").write_text(json.dumps(content))
    (fleets / "deep.json").write_text("[" * 100_000)
    assert one.interrupted() == []
    one.download_checkpoint(["0" * 16])
    one.upload([])
    assert all(victim.exists() for victim in victims)


def test_a_changed_run_is_not_downloaded(study, tmp_path):
    one, two = two_processes(tmp_path, study)
    config = study.runs()[0]
    train_runs([config], study.sources[0].open(), out=one.runs, progress=False)
    one.upload([config.hash])
    file = tmp_path / "away" / "runs" / config.hash / "weights.safetensors"
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with pytest.raises(UnweaveError, check=about(config.hash)):
        two.download([config.hash])
    assert not (two.runs / config.hash).exists()


def test_files_that_are_too_large_are_not_downloaded(study, tmp_path):
    _, two = two_processes(tmp_path, study)
    (two.folder / "study.json").unlink()
    (tmp_path / "away").mkdir(exist_ok=True)
    with (tmp_path / "away" / "study.json").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(UnweaveError, check=about(value=MAX_BYTES + 1)):
        two.download_files("study.json")
    assert not (two.folder / "study.json").exists()


def test_a_damaged_ledger_at_a_url_says_what_to_delete(study, tmp_path, monkeypatch):
    url = f"file://{tmp_path / 'away'}"
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "here"))
    run(study, url, progress=False, scorers=0)
    (tmp_path / "away" / "ledger.sqlite").write_bytes(b"junk")
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "there"))
    with pytest.raises(UnweaveError, check=about(f"{url}/ledger.sqlite")):
        load_study(url)


def test_runs_at_a_url_continue_on_another_machine(study, tmp_path, monkeypatch):
    def asked(steps):
        return replace(study, steps=steps, metrics=[], keep_optimiser=True)

    url = f"file://{tmp_path / 'away'}"
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "here"))
    whole = run(asked(study.steps + 2), tmp_path / "whole", progress=False, scorers=0)
    run(asked(study.steps), url, progress=False, scorers=0)
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "there"))
    advance, taken = Engine.advance, []
    monkeypatch.setattr(Engine, "advance", lambda self, n: (taken.append(n), advance(self, n)))
    run(asked(study.steps + 2), url, progress=False, scorers=0)
    assert sum(taken) == 2
    for name in whole.table["run"]:
        longer, same = (
            load(tmp_path / "away" / "runs" / name),
            load(tmp_path / "whole/runs" / name),
        )
        assert torch.equal(longer.parameters["decoder"], same.parameters["decoder"])
