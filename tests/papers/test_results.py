"""The pages of docs/results agree with the tables of results."""

import json
import re
import tomllib
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest

from tests.raising import about
from tools.results import __main__ as command
from tools.results import key_results, published, study_page
from tools.results.agreement import agreement
from tools.results.study_results import RESULTS, ResultsError, StudyResults, add_run, all_studies
from unweave.papers import RECIPES, find
from unweave.papers.vae_ensemble.scores import SINGLE
from unweave.study.study import read

ROOT = Path(__file__).parents[2]

FLEETS = [
    {"data": data, "channels": channels, "method": method, "models": 12, "us_per_model_step": us}
    for data, channels, us in (("dsprites", 1, 80.0), ("color_dsprites", 3, 100.0))
    for method in find("common-assumptions/transfer").studies["paper"]["methods"]
]
RUN = {
    "name": "common_assumptions_hour",
    "command": "--scale hour",
    "settings": {"batch": 64, "precision": "bf16"},
    "device": "NVIDIA H200",
    "cores": 16,
    "torch": "2.11.0",
    "complete": True,
    "states": {"scored": 143, "diverged": 1, "failed": 0},
    "calls": [
        {"seconds": 600.0, "scoring_core_seconds": 3000.0, "scored": 60},
        {"seconds": 480.0, "scoring_core_seconds": 4200.0, "scored": 84},
    ],
    "fleets": FLEETS,
}


@pytest.fixture(scope="module")
def results(made, tmp_path_factory):
    """Results of a run at the scale `hour`, with random scores."""
    out, folder = (tmp_path_factory.mktemp(name) for name in ("out", "results"))
    table = made(("dsprites", "color_dsprites"), seeds=2).drop(columns="level")
    table.assign(steps=50_000, state="scored").to_parquet(out / "study.parquet")
    (out / "run.json").write_text(json.dumps(RUN))
    add_run(out, folder)
    return folder


@pytest.fixture(scope="module")
def study(results):
    (found,) = all_studies(results)
    return found


@pytest.fixture(scope="module")
def scores():
    return published.page()


def cells_of(text, start):
    """The cells of the only row that starts with a text."""
    (row,) = [line for line in text.splitlines() if line.startswith(start)]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_scores_are_those_of_the_file(study):
    table = pd.read_csv(study.folder / "study.csv")
    rows = table[table["data"].eq("color_dsprites") & table["method"].eq("dip_vae_ii")]
    pair = rows[rows["strength"].eq(20)]["dci"].tolist()
    assert len(pair) == 2
    half, middle = abs(pair[0] - pair[1]) / 2, sum(pair) / 2
    text = study_page.page(study).partition("### color_dsprites")[2]
    heads = cells_of(text, "| Method | Strength |")
    row = cells_of(text, "| `dip_vae_ii` | 20 |")
    assert row[heads.index("`dci`")] == f"{middle:.3f} ± {half:.3f}"
    assert row[heads.index("Models")] == "2"


def test_the_study_page_describes_the_run(study):
    text = study_page.page(study)
    assert cells_of(text, "| Models |")[1] == "144 (143 scored, 1 diverged)"
    assert cells_of(text, "| Methods × strengths |")[1] == "6 × 6"
    assert cells_of(text, "| Time |")[1].startswith("18.0 minutes")
    assert cells_of(text, "| Device |")[1] == "NVIDIA H200, 16 cores, torch 2.11.0"
    assert "50,000 steps instead of 300,000 (17%)" in text
    # 36 cells and 72 models on each data set: 35 / 71.
    assert "2 seeds instead of 50" in text
    assert "explain 49% of the variance" in text
    assert "(in the paper: 2%)" in text
    assert "bf16" in text
    assert "5 of 7 data sets are missing: `noisy_dsprites`, `scream_dsprites`, `smallnorb`" in text
    assert "interrupted**" not in text


def test_an_interrupted_run_is_reported(study, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(RUN | {"complete": False}))
    (tmp_path / "study.csv").write_bytes((study.folder / "study.csv").read_bytes())
    assert "interrupted**" in study_page.page(StudyResults(tmp_path))


def test_manual_edits_are_preserved_when_the_same_run_is_added_again(study, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    study.table.to_parquet(out / "study.parquet")
    (out / "run.json").write_text(json.dumps(RUN))
    study = add_run(out, tmp_path / "results")
    (study.folder / "run.json").write_text(json.dumps(RUN | {"note": "Marked."}))
    assert add_run(out, tmp_path / "results").run["note"] == "Marked."
    (out / "run.json").write_text(json.dumps(RUN | {"calls": RUN["calls"][:1]}))
    assert "note" not in add_run(out, tmp_path / "results").run


def test_words_are_counted_by_rows_and_numbers_by_pairs(study):
    """Computed independently from the files of the recipes."""
    overlap = pd.read_csv(study.folder / "method-overlap.csv")
    agreeing = sum(a == b for a, b in zip(overlap["published"], overlap["obtained"], strict=True))
    assert str(agreement(overlap)) == f"{agreeing} of {len(overlap)} rows"
    explained = pd.read_csv(study.folder / "variance-explained.csv").dropna(subset="adjusted_r2")
    pairs = [
        (a.published - b.published, a.adjusted_r2 - b.adjusted_r2)
        for _, rows in explained.groupby("grouping")
        for a, b in combinations(rows.itertuples(), 2)
        if a.published != b.published
    ]
    alike = sum(p * q > 0 for p, q in pairs)
    assert len(pairs) > 100
    assert str(agreement(explained)) == f"{alike} of {len(pairs)} pairs"


def test_pictures_are_not_counted_as_claims():
    frame = pd.DataFrame({"published": ["shown", "holds"], "obtained": ["a.png", "holds"]})
    assert str(agreement(frame)) == "1 of 1 rows"
    assert agreement(frame[:1]).verdict == "nothing to compare"


def test_variance_explained_uses_adjusted_r2():
    frame = pd.DataFrame({"published": [0.1, 0.9], "obtained": [0.5, 0.6]})
    assert agreement(frame).verdict == "the order holds"
    assert agreement(frame.assign(adjusted_r2=[0.3, 0.2])).verdict == "the order does not hold"


@pytest.mark.parametrize("strong", [True, False])
def test_strong_pairs_of_metrics_come_before_others_on_each_data_set(strong):
    frame = find("common-assumptions/metric-agreement").published()
    level = frame["published"].map({"strong": 0.9, "mild": 0.5, "less": 0.1})
    both = pd.concat([frame.assign(data=name, obtained=level) for name in ("a", "b")])
    if not strong:
        both["obtained"] = -both["obtained"]
    found = agreement(both)
    # On each: 2 strong, 8 mild and 5 less are 2 · 13 + 8 · 5 pairs.
    assert found.total == 2 * 66
    assert found.agreeing == (132 if strong else 0)
    assert found.verdict == ("the order holds" if strong else "the order does not hold")


def test_every_recipe_of_the_paper_has_its_claim_and_picture(study):
    text = key_results.page(study)
    recipes = [recipe for recipe in RECIPES.values() if recipe.paper == "common-assumptions"]
    for recipe in recipes:
        assert f"**Published**: {recipe.claim}" in text
        assert recipe.plot is not None
    drawn = re.findall(r"\(images/([^)]+)\.svg\)", text)
    assert len(drawn) == len(recipes)
    # Three of them share a plot, which is drawn once.
    assert drawn.count("method-overlap") == 3
    assert len(set(drawn)) == len({recipe.plot for recipe in recipes}) == len(recipes) - 2


def test_pictures_are_drawn_of_every_model(study, tmp_path):
    """A point for each on dSprites: 6 methods × 6 strengths × 2 seeds."""
    (path,) = key_results.pictures(study, tmp_path, ["downstream-efficiency"])
    points = re.search(r'<g id="PathCollection_1">.*?</g>\s*</g>', path.read_text(), re.DOTALL)
    assert path.name == "downstream-efficiency.svg"
    assert points[0].count("<use ") == 72
    twice = ["seed-against-strength", "choice-rules"]
    assert key_results.pictures(study, tmp_path, twice) == [tmp_path / "method-overlap.svg"]


def test_obtained_numbers_of_a_result_are_those_of_its_file(study):
    saved = pd.read_csv(study.folder / "transfer.csv").set_index("kind")
    text = key_results.page(study)
    for kind, row in saved.iterrows():
        cells = cells_of(text, f"| {kind} |")
        assert cells[1] == f"{row['published']:.3f}"
        assert float(cells[2]) == round(row["obtained"], 3)


def test_published_scores_are_followed_by_models_of_that_setting(scores):
    """FactorVAE with γ = 40 and the longest training, computed from its file."""
    table = pd.read_csv(RESULTS / "vae_ensemble_30000_steps" / "study.csv")
    models = table[table["method"].eq("factor_vae") & table["gamma"].eq(40)]
    text = scores.partition("**factor_vae (γ=40)**")[2].partition("**dip_vae_i ")[0]
    rows = [line for line in text.splitlines() if "vae_ensemble_30000_steps" in line]
    columns = models["factor_vae"], models["dci"]
    expected = [f"{s.mean():.3f} ± {s.std(ddof=0):.3f}" for s in columns]
    assert rows[0].split(" | ")[1:3] == expected
    assert rows[0].split(" | ")[5:7] == ["30,000", "3"]
    assert text.splitlines()[0].split(" | ")[1:3] == ["0.764 ± 0.075", "0.253 ± 0.072"]


def test_the_vae_is_the_beta_vae_at_one_and_its_longest_training_comes_last(scores):
    text = scores.partition("**vae**")[2].partition("**beta_vae")[0]
    last = [line for line in text.splitlines() if line.startswith("| obtained")][-1]
    said = json.loads((RESULTS / "literature_h200.json").read_text())
    migs = pd.Series([row["mig"] for row in said["models"] if row["beta"] == 1])
    assert f"{migs.mean():.3f} ± {migs.std(ddof=0):.3f} | – | 113,000 | 6" in last


def test_controls_are_not_counted_as_published_ensembles(scores):
    """Four ensembles have three members and γ = 1; two of them have fixed targets."""
    (row,) = [
        line
        for line in scores.partition("**ensemble of 3, γ = 1**")[2].splitlines()[1:4]
        if "vae_ensemble_hour" in line
    ]
    assert row.split(" | ")[6] == "2"


def test_new_results_appear_on_the_page_of_published_scores(results):
    text = published.page(results).partition("**factor_vae (γ=40)**")[2]
    row = text.partition("**dip_vae_i ")[0].splitlines()[1]
    assert "common_assumptions_hour/study.csv" in row
    assert row.split(" | ")[5:8] == ["50,000", "2", "`conv`, 10 latents"]


def test_a_study_without_a_paper_uses_its_recorded_settings(made, tmp_path):
    noted = RUN | {"name": "published_settings", "settings": {"architecture": "conv4x4"}}
    table = made(("dsprites",), seeds=3).assign(steps=60_000)
    table.to_parquet(tmp_path / "study.parquet")
    (tmp_path / "run.json").write_text(json.dumps(noted))
    add_run(tmp_path, tmp_path / "results")
    text = published.page(tmp_path / "results").partition("**beta_tc_vae (β=4)**")[2]
    row = text.splitlines()[1]
    assert row.split(" | ")[5:8] == ["60,000", "3", "`conv4x4`, 10 latents"]
    assert list(command.pages(tmp_path / "results")) == ["published.md"]


def test_the_study_of_published_settings_is_that_of_the_recipe():
    study = read(ROOT / "benchmarks" / "published_settings.yaml")
    assert dict(study.methods) == SINGLE
    assert study.settings == find("vae-ensemble/table-1").studies["paper"]["settings"]


def test_the_pages_are_up_to_date():
    assert command.stale() == []


def test_pages_with_results_are_in_the_navigation(results):
    before = command.NAVIGATION.read_text()
    names = command.pages(results)
    assert list(names) == ["index.md", "key-results.md", "published.md"]
    nav = tomllib.loads(command.navigation(before, names))["project"]["nav"]
    (listed,) = [entry["Results"] for entry in nav if "Results" in entry]
    assert listed == [f"results/{name}" for name in names]
    with pytest.raises(ResultsError, check=about("zensical.toml")):
        command.navigation("nav = []", names)


def test_missing_files_are_reported(study, tmp_path):
    with pytest.raises(ResultsError, check=about("study.parquet", tmp_path)):
        add_run(tmp_path, tmp_path)
    with pytest.raises(ResultsError, check=about("study.csv", tmp_path)):
        _ = StudyResults(tmp_path).table
    (tmp_path / "study.csv").write_bytes((study.folder / "study.csv").read_bytes())
    with pytest.raises(ResultsError, check=about("run.json", tmp_path)):
        study_page.page(StudyResults(tmp_path))
    with pytest.raises(ResultsError, check=about("total-correlation.csv")):
        key_results.page(StudyResults(tmp_path))
    with pytest.raises(ResultsError, check=about(tmp_path / "none")):
        published.page(tmp_path / "none")


def test_claims_show_the_steps_of_their_study():
    lines = [line for line in published.claims(all_studies()).splitlines() if "_hour/" in line]
    steps = {line.split("]")[0].strip("| ["): line.split(" | ")[2] for line in lines}
    assert steps["isa-vae/figure-5a"] == "7,200"
    assert steps["isa-vae/figure-5c"] == "1,200"
    assert steps["vae-ensemble/figure-7"] == "8,000"
    assert steps["ms-vae/figure-4"] == "12,000, then 3,000"
    assert steps["ms-vae/figures-37-40"] == "12,000, then 3,000 to 15,000"
    assert steps["ms-vae/figures-18-20"] == "–"  # a flow, which has no study
    assert "isa-vae/figure-7" not in steps  # sorted exponents always have the published order
