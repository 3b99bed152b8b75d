"""Generate docs/results from benchmarks/results.

    .venv/bin/python -m tools.results OUT      # add the results of a run, then generate the pages
    .venv/bin/python -m tools.results          # generate the pages from the saved results
    .venv/bin/python -m tools.results --check  # only list the pages that are out of date

OUT contains the `study.parquet` and `run.json` of `benchmarks/large_study.py`. The pages of the
large study, and their navigation entries, are generated if its results have been added.
"""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.results import key_results, published, study_page
from tools.results.study_results import RESULTS, ResultsError, StudyResults, add_run

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "results"
NAVIGATION = ROOT / "zensical.toml"
LISTED = re.compile(r"(    # made by tools\.results\n).*?(    # end\n)", re.DOTALL)
STUDY = "common_assumptions_hour"


def pages(results: Path = RESULTS) -> dict[str, str]:
    """Return the text of each page that can be generated, by file name."""
    study, made = StudyResults(results / STUDY), {}
    if study.folder.exists():
        made["index.md"] = study_page.page(study)
        made["key-results.md"] = key_results.page(study)
    made["published.md"] = published.page(results)
    return {name: f"{text}\n" for name, text in made.items()}


def navigation(text: str, names: Mapping[str, str]) -> str:
    """Return the settings of the site with these pages in its navigation."""
    lines = "".join(f'    "results/{name}",\n' for name in names)
    if not LISTED.search(text):
        raise ResultsError(
            "zensical.toml has no section for the pages of results; see LISTED",
            subject=NAVIGATION.name,
        )
    return LISTED.sub(rf"\g<1>{lines}\g<2>", text)


def write(results: Path = RESULTS) -> None:
    """Write all pages and pictures, and add the pages to the navigation."""
    made = pages(results)
    FOLDER.mkdir(exist_ok=True)
    for name, text in made.items():
        (FOLDER / name).write_text(text)
    if "key-results.md" in made:
        key_results.pictures(StudyResults(results / STUDY), FOLDER / "images")
    NAVIGATION.write_text(navigation(NAVIGATION.read_text(), made))


def stale() -> list[str]:
    """Return the names of pages that are out of date."""
    made = pages()
    wrong = [
        name
        for name, text in made.items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text() != text
    ]
    settings = NAVIGATION.read_text()
    return wrong + ([NAVIGATION.name] if navigation(settings, made) != settings else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    try:
        if args.check:
            wrong = stale()
            print("\n".join(f"{name}: out of date" for name in wrong) or "all up to date")
            sys.exit(bool(wrong))
        if args.out is not None:
            print(f"Added {add_run(args.out).folder.relative_to(ROOT)}")
        write()
        print(f"Wrote to docs/results: {', '.join(pages())}")
    except ResultsError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
