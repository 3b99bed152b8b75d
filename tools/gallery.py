"""Redraw the pictures of README and docs that show the models of the zoo, and the demo's report.

    python -m tools.gallery                       # figures and the explorer, from the zoo
    python -m tools.gallery --report demo/fit     # also the report of `make demo`

`FIGURES` has the command that draws each figure. Screenshots need Chromium.
"""

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from unweave.cli import main as unweave
from unweave.explorer.serving import running

IMAGES = Path("docs/images")
ROOM = 173_137
"""An image of rooms3d in which floor, wall and object have different colours."""
FIGURES = {
    "hero.gif": f"zoo:rooms3d --kind animation --index {ROOM} --inactive hide",
    "show-traversals.png": f"zoo:rooms3d --index {ROOM}",
    "traversals.png": "zoo:dsprites",
    "show-animation.gif": "zoo:dsprites --kind animation",
    "show-pairwise.png": f"zoo:rooms3d --kind pairwise --columns 7 --index {ROOM}",
    "show-reconstructions.png": "zoo:rooms3d --kind reconstructions",
    "show-samples.png": "zoo:rooms3d --kind samples --count 20 --seed 1",
    "show-position.png": "zoo:dsprites --kind position",
    "show-polarised.png": "zoo:dsprites --kind polarised",
    "show-kl.png": "zoo:dsprites --kind kl",
    "show-training.png": "zoo:dsprites --kind training",
}
"""Arguments of `unweave show` for each figure."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, help="folder of a fit whose report is shown")
    parser.add_argument("--pages", action="store_true", help="take only the screenshots of pages")
    args = parser.parse_args()
    for name, arguments in FIGURES.items() if not args.pages else ():
        unweave(["show", *arguments.split(), "-o", str(IMAGES / name), "--overwrite"])
    with _chromium() as browser:
        _explorer(browser)
        if args.report is not None:
            _report(browser, (args.report / "report.html").resolve().as_uri())


@contextmanager
def _chromium() -> Iterator[Any]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


def _explorer(browser: Any) -> None:
    """Take pictures of the explorer on a screen and on a phone, in light and dark mode."""
    with running("zoo:rooms3d") as address:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)
        page.wait_for_timeout(8000)  # for the activity of 3,000 images
        page.locator("#morph").fill("1")  # to image B, which has three colours
        page.locator("#latents li").nth(1).hover()
        page.locator("#latents input").nth(1).focus()
        page.wait_for_timeout(1500)
        page.screenshot(path=IMAGES / "explorer.png")
        phone = browser.new_context(
            viewport={"width": 390, "height": 844}, device_scale_factor=2, color_scheme="dark"
        ).new_page()
        phone.goto(address)
        phone.wait_for_timeout(3000)
        phone.locator("#morph").fill("1")
        phone.wait_for_timeout(1500)
        phone.screenshot(path=IMAGES / "explorer-phone.png")


def _report(browser: Any, address: str) -> None:
    """Take pictures of the top of a report, and of a part of it in dark mode and on a phone."""
    page = browser.new_page(viewport={"width": 1000, "height": 1250})
    page.goto(address)
    page.screenshot(path=IMAGES / "report.png")
    parts = []
    for width, scheme, heading in ((780, "dark", "Trade-off"), (290, "light", "Leaderboard")):
        context = browser.new_context(
            viewport={"width": width, "height": 1160}, color_scheme=scheme
        )
        page = context.new_page()
        page.goto(address)
        page.get_by_role("heading", name=heading, exact=True).evaluate(
            "node => node.scrollIntoView()"
        )
        part = IMAGES / f"part-{width}.png"
        page.screenshot(path=part)
        parts.append(part)
    left, right = (Image.open(part).convert("RGB") for part in parts)
    both = Image.new("RGB", (left.width + 20 + right.width, left.height), "grey")
    both.paste(left, (0, 0))
    both.paste(right, (left.width + 20, 0))
    both.save(IMAGES / "report-small.png", optimize=True)
    for part in parts:
        part.unlink()


if __name__ == "__main__":
    main()
