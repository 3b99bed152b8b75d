"""Untrusted files open or are one-sentence errors; they run and write nothing."""

import copy
import datetime
import hashlib
import json
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import unweave as uw
from tests.raising import about
from unweave.cli.image_source import recorded_source
from unweave.cli.pictures import Show
from unweave.data.catalog import DATASETS
from unweave.data.dataset import Dataset
from unweave.data.origin import check_origin, rebuild
from unweave.errors import DataError, UnweaveError
from unweave.evaluation.score_cache import read_cache
from unweave.explorer.model_index import entries_of
from unweave.explorer.opened_models import OpenedModels
from unweave.io.checksums import write_sums
from unweave.methods import EVERY
from unweave.models.config import Config
from unweave.models.files import FILES
from unweave.papers.inductive_biases.manipulation.manipulation import (
    Manipulation,
    manipulation_network,
)
from unweave.report import report
from unweave.report.labels import data_names, model_names
from unweave.report.reproduction import train_code
from unweave.report.saved_runs import whole_config
from unweave.report.subject import opened
from unweave.study import Study, read

fuzz = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)

STARTS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "subprocess.Popen")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_watching: list[Path] = []
_seen: list[str] = []


def _watch(event, arguments):
    """Record forbidden actions of untrusted files; audit hooks cannot be removed."""
    if not _watching:
        return
    if event.startswith(STARTS) or event in ("socket.connect", "socket.getaddrinfo"):
        _seen.append(f"{event} {arguments}")
    elif event == "open" and isinstance(arguments[0], str | os.PathLike):
        path = Path(os.fsdecode(arguments[0]))
        inside = path.is_relative_to(_watching[0]) or "__pycache__" in path.parts
        if arguments[2] & WRITES and not inside and path != Path(os.devnull):
            _seen.append(f"open {path}")
    elif event == "compile" and "attacked" in str(arguments[0]):
        _seen.append(f"compile {arguments[0]}")


sys.addaudithook(_watch)


@contextmanager
def opening(folder):
    """Open an untrusted file, which must work or raise a one-sentence error."""
    _seen.clear()
    _watching.append(Path(folder))
    try:
        yield
    except UnweaveError as error:
        sentence = str(error)
    else:
        sentence = ""
    finally:
        _watching.clear()
    assert "\n" not in sentence
    assert len(sentence) < 2_000
    assert not _seen


NASTY = [
    None,
    True,
    -1,
    0,
    3,
    10**12,
    10**400,
    2.5,
    float("inf"),
    float("nan"),
    "",
    "abc",
    "../../x",
    "/etc",
    "\0",
    "\ud800",
    "<script>alert(1)</script>",
    "open('attacked', 'w')",
    "{0.__class__.attacked}",
    "__class__",
    "tofile",
    "x" * 300,
    [],
    {},
    [[]],
    [["a"]],
    {"a": {"b": []}},
    {"name": "vae"},
]
plain = st.recursive(
    st.sampled_from(NASTY) | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "load", "a", "__init__", "self"]), inner)
    ),
    max_leaves=5,
)


def places_in(value, place=()):
    """Every location within plain data."""
    yield place
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places_in(value[key], (*place, key))


@st.composite
def changed(draw, valid, anything=plain):
    """A valid value with one or two parts replaced by anything."""
    value = copy.deepcopy(draw(st.sampled_from(valid)))
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from(list(places_in(value))))
        new = copy.deepcopy(draw(anything))  # since samples are shared, and changed below
        if not place:
            return new
        part = value
        for key in place[:-1]:
            part = part[key]
        if isinstance(part, dict) and draw(st.integers(0, 4)) == 0:
            part[str(draw(st.sampled_from(NASTY)))] = new
        part[place[-1]] = new
    return value


SPRITES = ["load", "dsprites", {}]
PENDULUM = ["load", "pendulum", {}]
STEPS = [
    ["slice", {"length": [0, 1, 2], "mass": 1}],
    ["leave_out", {"damping": 3}],
    ["only", {"length": 1}],
    ["correlate", "length", "damping", 0.5],
]


def config(name, **settings):
    made = Config(method=EVERY[name](**settings), data=(SPRITES,), latents=6)
    return json.loads(json.dumps(made.to_dict()))


SECOND = {**config("infogan"), "method": {"name": "ms_vae"}, "first": config("vae")}
CONFIGS = [
    *(config(name) for name in ("vae", "beta_tc_vae", "vae_ensemble", "isa_vae", "infogan")),
    config("isa_tc_vae", layout="2x3"),
    SECOND,
]


@fuzz
@given(changed(CONFIGS))
def test_any_config(tmp_path_factory, said):
    folder = tmp_path_factory.getbasetemp()
    with opening(folder):
        made = Config.from_dict(said)
        again = Config.from_dict(json.loads(json.dumps(made.to_dict())))
        assert again.hash == made.hash
        assert made.fleet
        assert len(made.latent_names) == made.code_size
    with opening(folder):
        whole = whole_config(said)
        assert model_names({"a": whole})
        assert data_names([whole["data"]])


METHODS_OF_DATASETS = [name for name in dir(Dataset) if callable(getattr(Dataset, name))]
step = (
    changed(STEPS)
    | st.sampled_from(STEPS)
    | st.tuples(st.sampled_from(METHODS_OF_DATASETS), plain).map(list)
    | st.tuples(st.sampled_from(["tofile", "to", "__call__", "__class__"]), plain, plain).map(list)
)
OWN = ["own", "mine", "0123456789abcdef"]
first = changed([PENDULUM, OWN, [*OWN, {"bits": 12, "non_square": "pad"}]]) | st.just(PENDULUM)


@settings(fuzz, max_examples=80)
@given(st.tuples(first, st.lists(step, max_size=3)).map(lambda parts: [parts[0], *parts[1]]))
def test_any_origin_of_a_data_set(tmp_path_factory, origin):
    with opening(tmp_path_factory.getbasetemp()):
        assert isinstance(rebuild(origin), Dataset)


@fuzz
@given(st.sampled_from(sorted(DATASETS)), changed([{"path": "file 0123456789abcdef"}]), step)
def test_any_option_of_a_published_data_set(tmp_path_factory, name, options, change):
    with opening(tmp_path_factory.getbasetemp()):
        check_origin([["load", name, options], change])


STUDIES = [
    {
        "name": "sprites",
        "data": [
            "dsprites",
            {
                "name": "upright",
                "load": "dsprites",
                "slice": {"shape": 0},
                "correlate": ["posX", "posY", 0.5],
            },
            {"load": "celeba", "size": 64, "crop": 100},
        ],
        "methods": {
            "beta_vae": {"beta": [1, 4], "steps": 3, "settings": {"latents": [3, 5]}},
            "isa_vae": {"layout": "5x2", "learned": [True, False]},
            "ms_vae": {"first": {"vae": {}}, "condition": ["image", "code"]},
        },
        "seeds": [0, 1],
        "steps": 20,
        "metrics": ["classic", "irs"],
        "sampled": ["gaussian_total_correlation"],
        "settings": {"batch": 8, "optimiser": {"lr": 1e-3, "variant": "torch"}},
    }
]
yaml_only = st.sampled_from(
    [datetime.date(2024, 1, 1), {"a", "b"}, b"bytes", (1, 2), {1: 2}, {None: 1}, {(1, 2): 3}]
)


@fuzz
@given(changed(STUDIES, plain | yaml_only))
def test_any_study(tmp_path_factory, said):
    with opening(tmp_path_factory.getbasetemp()):
        made = Study.from_dict(said)
        assert Study.from_dict(json.loads(json.dumps(made.to_dict()))).name == made.name


@fuzz
@given(changed(STUDIES))
def test_any_study_file(tmp_path_factory, said):
    folder = tmp_path_factory.mktemp("study")
    (folder / "a.yaml").write_text(json.dumps(said))
    with opening(folder):
        assert (folder / read(folder / "a.yaml").name).parent == folder


SOURCE = {"source": "images", "options": {"size": 64, "factors": {"file": "factors.csv"}}}


@fuzz
@given(changed([SOURCE]))
def test_any_source_file(tmp_path_factory, said):
    folder = tmp_path_factory.mktemp("fit")
    (folder / "source.json").write_text(json.dumps(said))
    with opening(folder):
        found = recorded_source(folder)
        assert found is None or found[0].is_dir()


def with_check(entry):
    if not isinstance(entry, dict):
        return entry
    text = json.dumps(entry, sort_keys=True)
    return {**entry, "check": hashlib.sha256(text.encode()).hexdigest()[:8]}


ENTRY = {
    "metric": "mig",
    "codes": "mean",
    "seed": 0,
    "data": [SPRITES],
    "protocol": 1,
    "scores": {"mig": 0.2, "mig.posX": None},
}


@fuzz
@given(st.lists(changed([ENTRY]).map(with_check), max_size=3) | plain)
def test_any_scores(tmp_path_factory, entries):
    folder = tmp_path_factory.mktemp("run")
    (folder / "scores.json").write_text(json.dumps(entries))
    with opening(folder):
        for key, outcome in read_cache(folder).items():
            assert type(key.seed) is type(key.protocol) is int
            assert all(isinstance(score, float) for score in outcome.scores.values())
            assert isinstance(outcome.error, str)


def parameters_of_m(shape, factors):
    shapes = manipulation_network(factors, shape).shapes
    return {name: torch.zeros(size) for name, size in shapes.items()}


FACTS = {
    "columns": ["step", "difference"],
    "epsilon": 0.1,
    "shape": [32, 32, 1],
    "sizes": [3, 4],
    "settings": {"data": [SPRITES], "epsilon": 0.1},
}


@settings(fuzz, max_examples=60)
@given(changed([FACTS]))
def test_any_metadata_of_a_manipulation(tmp_path_factory, facts):
    file = tmp_path_factory.mktemp("m") / "m.safetensors"
    tensors = {**parameters_of_m((32, 32, 1), 2), "curve": torch.zeros(2, 2)}
    save_file(tensors, file, {"unweave": json.dumps(facts)})
    with opening(file.parent):
        assert repr(Manipulation.load(file))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two small models of sprites."""
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
    method = uw.methods.BetaVAE(beta=[1, 4])
    folder = tmp_path_factory.mktemp("runs")
    uw.train(method, data, steps=2, batch=8, latents=3, progress=False).save(folder)
    return folder


@pytest.fixture
def rewritten(resettled):
    """Make a copy of runs with changed configs and matching checksums."""

    def copied(runs, folder, change):
        shutil.copytree(runs, folder)
        for run in sorted(folder.iterdir()):
            resettled(run, change(json.loads((run / "config.json").read_text())))
        return folder

    return copied


def attacks(marker):
    """Origins of data sets that would write a file if their steps were called by name."""
    code = f"open({str(marker)!r}, 'w').write('attacked')"
    reach = [
        ["__getattribute__", "images"],
        ["__getattribute__", "__globals__"],
        ["__getitem__", "__builtins__"],
    ]
    return {
        "exec": [SPRITES, *reach, ["__getitem__", "exec"], ["__call__", code]],
        "tofile": [SPRITES, ["__getitem__", [0]], ["tofile", str(marker)]],
        "late": [SPRITES, ["slice", {"shape": 0}], *reach, ["__getitem__", "exec"], ["get", code]],
        "preset": [["load", "dsprites_noise", {"base": "dsprites"}], ["tofile", str(marker)]],
        "path": [["load", "celeba", {"path": str(marker.parent)}]],
    }


@pytest.mark.parametrize("attack", ["exec", "tofile", "late", "preset", "path"])
def test_an_untrusted_config_does_nothing_in_any_command(runs, rewritten, tmp_path, attack):
    marker = tmp_path / "written"
    origin = attacks(marker)[attack]
    evil = rewritten(runs, tmp_path / "evil", lambda said: {**said, "data": origin})
    (one, _) = sorted(evil.iterdir())
    with pytest.raises(DataError):
        uw.evaluate(evil, progress=False)
    with pytest.raises(DataError):
        Show(model=one, out=tmp_path / "a.png").run()
    page = report(evil, tmp_path / "report.html", progress=False, rows=10).read_text()
    assert "not available" in page
    shelf = OpenedModels(entries_of(evil))
    assert shelf.open(0).data is None
    assert not marker.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil", "report.html"]


def test_code_snippets_contain_no_untrusted_text(runs, rewritten, tmp_path):
    inject = {"size": 64, "x=1)\nimport os\nos.system('id'": 1}
    for origin in (
        [["load", "celeba", inject]],
        [SPRITES, ["slice(); import os; os.system", {"shape": 0}]],
        [["load", "dsprites'); import os; os.system('id", {}]],
    ):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        evil = rewritten(runs, folder, lambda said, origin=origin: {**said, "data": origin})
        code = "\n".join(text for _, text in train_code(opened(evil)))
        assert "os.system" not in code
        assert "uw.train(" in code


def test_untrusted_names_are_escaped_on_pages(runs, rewritten, tmp_path):
    script = "</script><script>alert(1)</script>"
    origin = [["own", script, script], [script, script]]
    strange = {"name": script, script: script, "members": "many", "run": 3, "list": [[1], {}]}

    def change(said):
        method = {**strange, "beta": said["method"]["beta"]}
        return {**said, "method": method, "data": origin}

    evil = rewritten(runs, tmp_path / script.replace("/", ""), change)
    for run in evil.iterdir():
        entry = {
            **ENTRY,
            "data": [["own", script, script], [script, script]],
            "scores": {"mig": 0.5, script: 0.25},
        }
        (run / "scores.json").write_text(json.dumps([with_check(entry)]))
    page = report(evil, tmp_path / "report.html", progress=False).read_text()
    assert "<script>alert" not in page
    assert page.count("</script>") == 2
    island = page.split('id="data">')[1].split("</script>")[0]
    assert script in json.loads(island)["methods"]


def test_a_curve_cannot_replace_columns(runs, tmp_path):
    evil = shutil.copytree(runs, tmp_path / "evil")
    for run in sorted(evil.iterdir()):
        curve = pd.read_parquet(run / "curve.parquet")
        curve.assign(method=1.0, data=2.0, state=3.0, seed=4.0).to_parquet(run / "curve.parquet")
        write_sums(run, FILES)
    table = opened(evil).table
    assert set(table["method"]) == {"beta_vae"}
    assert set(table["state"]) == {"trained"}
    assert sorted(table["run"]) == sorted(run.name for run in evil.iterdir())


def test_an_untrusted_study_shows_no_other_images(runs, rewritten, tmp_path):
    """A study names the location of images, which must not be opened because of it."""
    private = tmp_path / "private.npy"
    np.save(private, np.zeros((8, 64, 64, 1), np.uint8))
    origin = [["own", "mine", "0123456789abcdef"]]
    evil = tmp_path / "evil"
    rewritten(runs, evil / "runs", lambda said: {**said, "data": origin})
    study = Study(name="evil", data="dsprites", methods={"vae": {}}).to_dict()
    sources = {json.dumps(origin): {"name": "mine", "load": str(private)}}
    (evil / "study.json").write_text(json.dumps({"study": study, "sources": sources}))
    shown = OpenedModels(entries_of(evil)).open(0)
    assert shown.data is None
    assert "--data" in shown.no_data


def test_an_untrusted_manipulation_does_nothing(tmp_path):
    marker = tmp_path / "written"
    for origin in (*attacks(marker).values(), None, 3, [], [3], [["load"]], [["own", "a", "b"]]):
        facts = {**FACTS, "shape": [64, 64, 1], "sizes": [3, 6, 40, 32, 32]}
        facts["settings"] = {"data": origin}
        tensors = {**parameters_of_m((64, 64, 1), 5), "curve": torch.zeros(2, 2)}
        save_file(tensors, tmp_path / "m.safetensors", {"unweave": json.dumps(facts)})
        with pytest.raises(UnweaveError):
            uw.data.load("dsprites-modified", path=tmp_path / "m.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]


def test_an_untrusted_source_file_cannot_block_a_command(tmp_path):
    fit, images = tmp_path / "fit", tmp_path / "images"
    fit.mkdir()
    images.mkdir()
    os.mkfifo(tmp_path / "pipe.npy")
    for said, found in {
        "../images": True,
        str(images): True,
        "../pipe.npy": False,
        "/dev/zero": False,
        "/": False,
        "..": False,
        "x" * 5_000: False,
        "caf\udce9": False,
    }.items():
        (fit / "source.json").write_text(json.dumps({"source": said, "options": {"size": 64}}))
        assert (recorded_source(fit) is not None) == found
    for options in (
        {"fewest": 0},
        {"name": "mine"},
        {"size": "64"},
        {"size": {"file": "a"}},
        {"factors": "a.csv"},
        {"path": {"file": "../images"}},
        {"__class__": 3},
        [],
    ):
        (fit / "source.json").write_text(json.dumps({"source": "../images", "options": options}))
        with pytest.raises(DataError, check=about(fit / "source.json")):
            recorded_source(fit)
    (fit / "source.json").write_text(json.dumps({"source": "../\ud800", "options": {}}))
    with pytest.raises(DataError, check=about(fit / "source.json")):
        recorded_source(fit)
