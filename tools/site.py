"""Build the documentation site into site/ and check all its links.

    .venv/bin/python -m tools.site

The site has the same layout as the repository, and files outside docs/ that pages link to are
copied, so that relative links work. Broken links and resources from other hosts are errors.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)")
START = """<!doctype html>
<html lang="en">
<meta charset="utf-8"><meta http-equiv="refresh" content="0; url=docs/index.html">
<title>unweave</title>
<a href="docs/index.html">unweave</a>
</html>
"""
FOREIGN = re.compile(r"^(?:https?:)?//")


class Page(HTMLParser):
    """The links, loaded resources and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors = {"", "__top"}
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(given.get("href", ""))
        elif "src" in given:
            self.loads.append(given["src"])


def build(folder: Path) -> None:
    """Build the site into a folder; exit with an error if links between pages are broken."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    for file in linked_files():
        copy = folder / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    (folder / "index.html").write_text(START)


def linked_files() -> set[Path]:
    """Return the files outside docs/ that pages link to."""
    found = {
        (page.parent / target).resolve()
        for page in (ROOT / "docs").rglob("*.md")
        for target in OUTSIDE.findall(page.read_text())
    }
    return {path for path in found if path.is_file() and not path.is_relative_to(ROOT / "docs")}


def broken_links(folder: Path) -> Iterator[str]:
    """Yield every broken link and every resource loaded from another host."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html")) if path.stem != "404"}
    for path, page in pages.items():
        where = path.relative_to(folder)
        yield from (f"{where} loads {url}" for url in page.loads if FOREIGN.match(url))
        for link in {*page.links, *page.loads}:
            target, _, anchor = link.partition("#")
            if re.match(r"^(\w+:|//)", link):
                continue
            aim = (path.parent / unquote(target)).resolve() if target else path
            known = pages[aim].anchors if aim in pages else {""}
            if not aim.is_file() or (unquote(anchor) not in known):
                yield f"{where} links to {link}"


def output() -> Path:
    """Return the parent of `site_dir` in zensical.toml, the root of the built site."""
    settings = tomllib.loads((ROOT / "zensical.toml").read_text())
    return (ROOT / settings["project"]["site_dir"]).parent


def main() -> None:
    folder = output()
    build(folder)
    broken = list(broken_links(folder))
    if broken:
        raise SystemExit("\n".join(broken))
    print(f"{folder.relative_to(ROOT) / 'index.html'}: {len(list(folder.rglob('*.html')))} pages")


if __name__ == "__main__":
    main()
