"""Pages of methods and metrics: there is one for each, it runs, and says what the code says."""

import inspect
import json
import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import spearmanr

import unweave as uw
from tools import pages
from unweave.methods import EVERY
from unweave.metrics import METRICS

ROOT = Path(__file__).parents[2]
DOCS, RESULTS = ROOT / "docs", ROOT / "benchmarks" / "results"
OF_METHODS = [DOCS / "methods" / f"{name}.md" for name in EVERY]
OF_METRICS = [DOCS / "metrics" / f"{name}.md" for name in METRICS]
GENERATED = {path: (thing, parts) for path, thing, parts in pages.pages()}
ROOMS = ["data", "methods", "metrics", "quality", "select", "show", "study", "trackers"]


def short(path):
    return f"{path.parent.name}-{path.stem}"


def in_nav(entry):
    """All pages of a piece of the navigation."""
    if isinstance(entry, str):
        return [entry]
    return [
        page
        for part in (entry.values() if isinstance(entry, dict) else entry)
        for page in in_nav(part)
    ]


@pytest.mark.parametrize("page", [*OF_METHODS, *OF_METRICS], ids=short)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile(code, page, "exec"), {"__name__": page.stem})
    thing = METRICS[page.stem].name if page in OF_METRICS else EVERY[page.stem].__name__
    assert re.search(rf"uw\.\w+\.{thing}\(", code)


@pytest.mark.parametrize("path", GENERATED, ids=short)
def test_what_a_page_says_of_the_code_is_true(path):
    assert pages.updated_page(path.read_text(), *GENERATED[path]) == path.read_text()


def test_pages_name_the_fields_and_defaults_of_their_methods():
    """Of one method by hand, so that the others are not only as their generator has them."""
    page = (DOCS / "methods" / "annealed_vae.md").read_text()
    settings = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", page, re.MULTILINE)
    assert settings == [("c_max", "25.0"), ("gamma", "1000.0"), ("threshold", "100000.0")]
    assert "L = E_q[-log p(x|z)] + γ |KL(q(z|x) ‖ N(0, I)) - C(t)|" in page


def cells(page, start):
    """The cells of the rows that begin so."""
    rows = [line for line in page.read_text().splitlines() if line.startswith(f"| {start} |")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_scores_on_pages_are_those_of_the_files():
    """Of some methods and metrics by hand."""
    study = pd.read_csv(RESULTS / "common_assumptions_hour" / "study.csv")
    pair = study.query("data == 'dsprites' and method == 'dip_vae_ii' and strength == 20")["mig"]
    ((_, models, _, _, mig, *_),) = cells(DOCS / "methods" / "dip_vae_ii.md", "`lambda_od=20`")
    assert (models, mig) == ("2", f"{pair.mean():.3f} ± {abs(pair.diff().iloc[1]) / 2:.3f}")
    assert [row[0] for row in cells(DOCS / "methods" / "vae.md", "`beta=1`")] == ["`beta=1`"]
    stages = pd.read_csv(RESULTS / "ms_vae_hour" / "study.csv").set_index("run")
    seconds = stages[stages["method"] == "jacobian"]
    shown = cells(DOCS / "methods" / "jacobian.md", "`jacobian` over it")
    assert [row[1] for row in shown] == [f"{fid:.1f}" for fid in seconds["fid"]]
    firsts = [row[1] for row in cells(DOCS / "methods" / "jacobian.md", "β-TCVAE, `beta=1`")]
    assert firsts == [f"{stages.loc[seconds['first'].iloc[0], 'fid']:.1f}"]
    scores = json.loads((RESULTS / "every_metric.json").read_text())["metrics"]
    ((_, count, low, _, high, rank),) = cells(DOCS / "metrics" / "irs.md", "`beta=6`")
    assert (count, low, high) == ("10", f"{min(scores['irs']):.3f}", f"{max(scores['irs']):.3f}")
    assert float(rank) == pytest.approx(spearmanr(scores["irs"], scores["mig"])[0], abs=0.005)


@pytest.mark.parametrize("page", [*OF_METHODS, *OF_METRICS], ids=short)
def test_scores_of_every_method_and_metric_were_measured(page):
    found = re.search(
        r"<!-- scores: from the code -->\n\n(.*?)\n\n<!-- end", page.read_text(), re.S
    )
    assert "Not measured" not in found[1]
    assert "benchmarks/results/" in found[1] or page.stem == "from_factors"


def test_a_changed_default_is_noticed():
    path = DOCS / "methods" / "beta_vae.md"
    other = path.read_text().replace("`4.0`", "`5.0`")
    assert other != path.read_text()
    assert pages.updated_page(other, *GENERATED[path]) == path.read_text()


def test_a_page_that_lacks_a_part_is_refused():
    path = DOCS / "methods" / "beta_vae.md"
    without = path.read_text().replace("settings: from", "settings from")
    with pytest.raises(SystemExit, match="settings"):
        pages.updated_page(without, *GENERATED[path])


def test_there_is_no_page_of_something_that_is_not_there():
    assert set((DOCS / "methods").glob("*.md")) == {*OF_METHODS, DOCS / "methods" / "index.md"}
    assert set((DOCS / "metrics").glob("*.md")) == set(OF_METRICS)


def test_every_page_is_in_the_navigation_once():
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    there = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    assert sorted(in_nav(nav)) == there


@pytest.mark.parametrize("room", ROOMS)
def test_everything_public_is_in_the_reference_or_has_a_page(room):
    module = getattr(uw, room)
    listed = re.findall(r"^::: ([\w.]+)$", (DOCS / "api" / f"{room}.md").read_text(), re.MULTILINE)
    have_pages = {method.__name__ for method in EVERY.values()} | set(METRICS)
    for name in set(module.__all__) - have_pages:
        thing = getattr(module, name)
        if inspect.isfunction(thing) or (inspect.isclass(thing) and name != "Strength"):
            assert f"{thing.__module__}.{thing.__qualname__}" in listed


def test_the_library_itself_is_in_the_reference():
    listed = re.findall(r"^::: ([\w.]+)$", (DOCS / "api" / "index.md").read_text(), re.MULTILINE)
    things = [getattr(uw, name) for name in uw.__all__ if name != "__version__"]
    names = [f"{t.__module__}.{t.__qualname__}" for t in things if not inspect.ismodule(t)]
    assert names
    assert set(names) <= set(listed)
