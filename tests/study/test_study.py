"""Study files and their error messages."""

import json

import numpy as np
import pytest
import yaml

import unweave as uw
from tests.raising import about
from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.io.schema import SchemaError
from unweave.study import Study, StudyFileError, read
from unweave.study.results import table_of
from unweave.study.sources import Source

SAID = {
    "name": "sprites",
    "data": ["dsprites", {"name": "upright", "load": "dsprites", "slice": {"orientation": 0}}],
    "methods": {"beta_vae": {"beta": [1, 4, 16]}, "dip-vae-i": {"lambda_od": 5}},
    "seeds": 3,
    "steps": 20,
    "metrics": ["classic", "gaussian-total-correlation"],
    "sampled": ["gaussian_total_correlation"],
    "settings": {"batch": 8, "optimiser": {"lr": 1e-3}},
}
PYTHON = """
import unweave as uw
study = uw.study.Study(
    name="sprites",
    data=["dsprites", {"name": "upright", "load": "dsprites", "slice": {"orientation": 0}}],
    methods={"beta_vae": {"beta": [1, 4, 16]}, "dip-vae-i": {"lambda_od": 5}},
    seeds=range(3),
    steps=20,
    settings={"batch": 8, "optimiser": uw.Adam(lr=1e-3)},
)
"""


def names(study):
    return [config.hash for config in study.runs()]


def test_a_study_is_every_combination():
    study = Study.from_dict(SAID)
    configs = study.runs()
    assert len(configs) == 2 * (3 + 1) * 3 == len({config.hash for config in configs})
    assert [c.seed for c in configs[:4]] == [0, 1, 2, 0]
    assert [c.method.name for c in configs[:12]] == ["beta_vae"] * 9 + ["dip_vae_i"] * 3
    assert {c.optimiser.lr for c in configs} == {1e-3}
    assert {(c.batch, c.steps) for c in configs} == {(8, 20)}


def test_a_setting_with_several_values_adds_runs():
    said = {**SAID, "settings": {**SAID["settings"], "latents": [3, 5]}}
    study = Study.from_dict(said)
    configs = study.runs()
    assert len(configs) == 2 * 2 * (3 + 1) * 3 == len({config.hash for config in configs})
    assert [c.latents for c in configs[:24]] == [3] * 12 + [5] * 12
    assert {c.batch for c in configs} == {8}
    alone = Study.from_dict({**said, "settings": {**SAID["settings"], "latents": 5}})
    assert set(names(alone)) < set(names(study))
    assert names(Study.from_dict(json.loads(json.dumps(study.to_dict())))) == names(study)


def test_an_optimiser_may_be_several():
    rates = [{"lr": 1e-3}, uw.Adam(lr=1e-4)]
    study = Study.from_dict({**SAID, "settings": {"batch": 8, "optimiser": rates}})
    configs = study.runs()
    assert [c.optimiser for c in configs[:24]] == [uw.Adam(lr=1e-3)] * 12 + [uw.Adam(lr=1e-4)] * 12
    assert set(names(Study.from_dict(SAID))) < set(names(study))
    assert names(Study.from_dict(json.loads(json.dumps(study.to_dict())))) == names(study)
    rows = [(c.hash, "trained", c.to_dict(), {}) for c in configs]
    assert table_of(rows, {})["optimiser.lr"].tolist() == [c.optimiser.lr for c in configs]
    assert "optimiser.beta1" not in table_of(rows, {})
    assert "optimiser.lr" not in table_of(rows[:3], {})


def test_yaml_json_and_python_files_give_the_same_study(tmp_path):
    files = {"a.yaml": yaml.safe_dump(SAID), "b.json": json.dumps(SAID), "c.py": PYTHON}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        assert names(read(tmp_path / name)) == names(Study.from_dict(SAID))


def test_a_study_survives_a_round_trip_through_json():
    study = Study.from_dict(SAID)
    again = Study.from_dict(json.loads(json.dumps(study.to_dict())))
    assert names(again) == names(study)
    assert again.metrics == study.metrics
    assert [source.name for source in again.sources] == ["dsprites", "upright"]


def test_the_default_name_is_that_of_the_file(tmp_path):
    (tmp_path / "squares.yaml").write_text("data: dsprites\nmethods: {vae: }\n")
    study = read(tmp_path / "squares.yaml")
    assert (study.name, len(study.runs())) == ("squares", 1)


def test_grids_of_one_method_are_combined():
    study = Study(
        data="dsprites", methods={"beta_tc_vae": [{"beta": [1, 2]}, {"alpha": [2, 3]}]}, seeds=2
    )
    assert [(c.method.beta, c.method.alpha) for c in study.runs()[::2]] == [
        (1, 1),
        (2, 1),
        (6, 2),
        (6, 3),
    ]


def test_the_origin_of_a_source_matches_training():
    said = {"load": "dsprites", "slice": {"shape": 0, "scale": [1, 2]}, "leave_out": {"posX": 3}}
    source = Source.of(said)
    data = uw.data.load("dsprites").slice(shape=0, scale=[1, 2]).leave_out(posX=3)
    assert source.origin == data.origin
    assert len(source.open()) == len(data)
    assert Source.of(source.to_dict()) == source
    correlated = Source.of({"load": "dsprites", "correlate": ["posX", "posY", 0.5]})
    assert correlated.origin == uw.data.load("dsprites").correlate("posX", "posY", 0.5).origin


def test_planning_on_published_data_needs_no_data():
    source = Source.of("Cars3D")
    assert source.origin == (["load", "cars3d", {}],)
    assert source.shape == (64, 64, 3)
    assert Source.of({"load": "infinite-dsprites", "size": 32}).shape == (32, 32, 1)
    assert Source.of({"load": "chairs3d", "channels": 3}).shape == (64, 64, 3)


def test_custom_images_are_identified_by_their_pixels(tmp_path):
    np.save(tmp_path / "mine.npy", np.zeros((8, 32, 32, 1), np.uint8))
    source = Source.of(str(tmp_path / "mine.npy"))
    assert (source.name, source.shape) == ("mine", (32, 32, 1))
    first = source.origin
    np.save(tmp_path / "mine.npy", np.ones((8, 32, 32, 1), np.uint8))
    assert Source.of(source.to_dict()).origin != first
    (tmp_path / "mine.npy").unlink()
    with pytest.raises(DataError, match=r"mine\.npy"):
        _ = Source.of(source.to_dict()).origin


@pytest.mark.parametrize(
    ("change", "location"),
    [
        ({"data": [3]}, "data.0"),
        ({"methods": {"beta_vae": {"bets": 3}}}, "methods.beta_vae.bets"),
        ({"methods": {"beta_vae": 4}}, "methods.beta_vae"),
        ({"settings": {"btach": 3}}, "settings.btach"),
        ({"sedes": 3}, "sedes"),
        ({"seeds": "ten"}, "seeds"),
        ({"steps": "many"}, "steps"),
        ({"settings": {"optimiser": {"lrr": 1}}}, "settings.optimiser.lrr"),
        ({"settings": {"optimiser": 3}}, "settings.optimiser"),
        ({"settings": {"latents": []}}, "settings.latents"),
        ({"settings": {"steps": 3}}, "settings.steps"),
        ({"settings": 3}, "settings"),
        ({"data": [{"load": "dsprites", "slice": [1, 2]}]}, "step 1.slice"),
        ({"data": [{"load": "dsprites", "slize": {}}]}, "dsprites.slize"),
        ({"name": 7}, "name"),
        ({"methods": [1]}, "methods"),
        ({"metrics": 5}, "metrics"),
        ({"metrics": [["mig"]]}, "metrics.0"),
        ({"sampled": {"mig": 1}}, "sampled"),
        ({"settings": {"optimiser": {"lr": "abc"}}}, "settings.optimiser.lr"),
        ({"settings": {"optimiser": {7: 1}}}, "settings.optimiser.7"),
        ({"settings": {7: 1}}, "settings.7"),
        ({"data": 5}, "data"),
        ({"data": [{"load": 7}]}, "data.0"),
        ({"data": [{"load": "dsprites", "correlate": ["posX"]}]}, "step 1.correlate"),
        ({"data": [{"load": "dsprites", "slice": {7: 0}}]}, "step 1.slice.7"),
        ({"data": [{"load": "dsprites", "slice": {"shape": "ab"}}]}, "step 1.slice.shape"),
        ({"data": [{"load": "dsprites", "slice": {"shape": 0.5}}]}, "step 1.slice.shape"),
        ({"data": [{"load": "dsprites", "path": 7}]}, "dsprites.path"),
        ({"data": [{"load": "dsprites_noise", "base": "rooms3d"}]}, "dsprites_noise.base"),
        ({"data": [{"load": "celeba", "size": "64"}]}, "celeba.size"),
        ({"seeds": [True]}, "seeds.0"),
        ({"steps": float("inf")}, "steps"),
        ({"methods": {"beta_vae": {"beta": [[1]]}}}, "methods.beta_vae.beta.0"),
        ({"methods": {"beta_vae": {"beta": "four"}}}, "methods.beta_vae.beta"),
        ({"methods": {"beta_tc_vae": {"estimator": {"a": 1}}}}, "methods.beta_tc_vae.estimator"),
    ],
)
def test_errors_name_their_location(change, location):
    with pytest.raises(SchemaError) as caught:
        Study.from_dict({**SAID, **change})
    assert caught.value.location == location
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "subject", "value"),
    [
        ({"data": []}, "data", None),
        ({"data": ["dsprites", "dsprites"]}, "data", "dsprites"),
        ({"methods": {}}, "methods", None),
        ({"methods": {"beta_vea": {}}}, "method", "beta_vea"),
        ({"methods": {1: 2}}, "method", 1),
        ({"metrics": ["mgi"]}, "metric", "mgi"),
        ({"sampled": ["nothing"]}, "metric", "nothing"),
        ({"seeds": 0}, "seeds", 0),
        ({"seeds": -3}, "seeds", -3),
        ({"seeds": [0, 0]}, "runs", None),
        ({"seeds": 10**9}, "runs", 8 * 10**9),
        ({"seeds": 10**40}, "runs", 8 * 10**40),
        ({"settings": {"architecture": "con"}}, "architecture", "con"),
        ({"settings": {"architecture": [["conv"]]}}, "architecture", ["conv"]),
        ({"name": "a\0b"}, "name", "a\0b"),
        ({"name": ""}, "name", ""),
        ({"data": [{"load": "dsprites", "name": 7}]}, "name", 7),
        ({"data": [{"load": "dsprites", "name": "\x1b[2J"}]}, "name", "\x1b[2J"),
        ({"data": [{"load": "dsprites", "slice": {"self": 0}}]}, "factor", "self"),
    ],
)
def test_invalid_studies_are_one_line_errors(change, subject, value):
    with pytest.raises(UnweaveError, check=about(subject, value)) as caught:
        Study.from_dict({**SAID, **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"methods": {"beta_vae": {"beta": -1}}}, "beta"),
        ({"methods": {"beta_vae": {"steps": "many"}}}, "steps"),
        ({"settings": {"batch": "64"}}, "batch"),
        ({"settings": {"batch": 10**30}}, "batch"),
        ({"seeds": [-3]}, "seed"),
        ({"steps": -1}, "steps"),
    ],
)
def test_invalid_numbers_are_rejected_by_name(change, name):
    with pytest.raises(UnweaveError, match=rf"\b{name}\b"):
        Study.from_dict({**SAID, **change})


def test_grids_are_counted_before_they_are_created():
    wide = {name: list(range(1, 1_001)) for name in ("beta", "alpha", "gamma")}
    with pytest.raises(StudyFileError, check=about("runs", 10**9)):
        Study.from_dict({**SAID, "methods": {"beta_tc_vae": wide}})
    stages = {"vae": {}}
    for _ in range(5):
        stages = {"ms_vae": {"first": stages, "settings": {"latents": list(range(2, 22))}}}
    with pytest.raises(StudyFileError, check=about("runs")):
        Study.from_dict({**SAID, "methods": stages})


@pytest.mark.parametrize(
    "text",
    [
        "&all [*all]",
        "a: &a [x, x]\nb: &b [*a, *a]\n"
        + "".join(
            f"c{k}: &c{k} [{', '.join([f'*c{k - 1}' if k else '*b'] * 9)}]\n" for k in range(9)
        ),
        "[" * 3_000 + "]" * 3_000,
        "seeds: 0x" + "f" * 50_000,
        "seeds: !!bool maybe",
        "name: " + "x" * 200_000,
        "name: 2024-01-01",
        "name: ../../x",
        "name: /tmp/x",
        "name: s3://bucket/x",
        "name: .hidden",
        "name: 'a\\b'",
        "steps: 1e400",
        "steps: .nan",
        "methods: !!set {vae}",
        "methods: !!python/object/apply:os.system ['id']",
        "data: " + "x" * 5_000,
        "data: ~nobody-at-all/images",
        "data: !!binary aGVsbG8=",
        "? [1, 2]\n: 3",
    ],
)
def test_hostile_files_are_one_line_errors(tmp_path, text):
    valid = (
        ""
        if text[0] in "&[?"
        else "".join(
            f"{name}: {value}\n"
            for name, value in {
                "data": "dsprites",
                "methods": "{vae: }",
                "metrics": "[mig]",
            }.items()
            if not text.startswith(name)
        )
    )
    (tmp_path / "a.yaml").write_text(valid + text + "\n")
    with pytest.raises(UnweaveError) as caught:
        _ = [source.origin for source in read(tmp_path / "a.yaml").sources]
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_files_that_are_not_studies(tmp_path):
    with pytest.raises(StudyFileError, check=about(str(tmp_path / "none.yaml"))):
        read(tmp_path / "none.yaml")
    bad = tmp_path / "bad.yaml"
    for text, subject in {"a: [": str(bad), "- 1": ""}.items():
        bad.write_text(text)
        with pytest.raises(StudyFileError, check=about(subject)):
            read(bad)
    bad.write_text("data: dsprites")
    with pytest.raises(StudyFileError, match="methods"):
        read(bad)
    (tmp_path / "bad.py").write_text("study = 3")
    with pytest.raises(StudyFileError, check=about("study", 3)):
        read(tmp_path / "bad.py")
    with pytest.raises(UnknownNameError):
        Study(data="dsprites", methods={"vae": {}}, settings={"seed": 3})


def test_numbers_may_be_written_with_exponents_and_parts_be_empty(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "data: dsprites\nmethods: {beta_vae: {beta: [1e-3, 4]}}\nsteps: 3e4\nsettings:\nmetrics:\n"
    )
    configs = read(tmp_path / "a.yaml").runs()
    assert [(c.method.beta, c.steps) for c in configs] == [(0.001, 30_000), (4, 30_000)]


def test_paths_are_relative_to_the_study_file(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(256, size=(8, 32, 32, 1), dtype=np.uint8)
    np.save(tmp_path / "mine.npy", images)
    (tmp_path / "mine.csv").write_text("x\n" + "\n".join(map(str, range(8))))
    (tmp_path / "a.yaml").write_text(
        "data: [{load: mine.npy, factors: mine.csv}]\nmethods: {vae: }\n"
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (source,) = read(tmp_path / "a.yaml").sources
    assert (source.load, source.options["factors"]) == (
        str(tmp_path / "mine.npy"),
        str(tmp_path / "mine.csv"),
    )
    assert len(source.open()) == 8


def test_ranges_in_python_are_lists_in_files():
    said = {"load": "dsprites", "slice": {"posX": range(0, 32, 8), "shape": 0}}
    study = Study(name="ranges", data=[said], methods={"vae": {}}, steps=1)
    again = Study.from_dict(json.loads(json.dumps(study.to_dict())))
    assert again.to_dict() == study.to_dict()
    assert study.to_dict()["data"][0]["slice"]["posX"] == [0, 8, 16, 24]
