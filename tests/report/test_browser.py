"""The report in a browser: it works offline, with mouse and keyboard."""

import base64
import io
import re
import socket
import zlib
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

import unweave as uw

SCORES = [0.5, -2.25, 10.0, None, -10.5, 9.0]
"""Scores whose order differs when they are sorted as text."""


@pytest.fixture(scope="module")
def written(fleet, data, tmp_path_factory):
    """Write the report of a fleet, with a score that is sometimes negative or missing."""
    runs = [config.hash for config in fleet.configs]
    scores = uw.evaluate(fleet, data, metrics=["mig"], progress=False)
    scores["my_score"] = [np.nan if value is None else value for value in SCORES]
    scores["mig.part"] = 0.25
    out = tmp_path_factory.mktemp("browser") / "a report #1.html"
    uw.show.report(fleet, out, data, scores=scores, title="Sprites", progress=False)
    return out, dict(zip(runs, SCORES, strict=True))


@pytest.fixture
def opened(page, written):
    """Open the report from disk and record every request."""
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(written[0].as_uri())
    page.requests = requests
    return page


def pdf_text(pdf):
    """The words of a PDF file that Chromium wrote, piece by piece."""
    objects = {
        int(n): body for n, body in re.findall(rb"(\d+) 0 obj\n(.*?)endobj", pdf, re.DOTALL)
    }

    def stream(number):
        body = objects[number]
        packed = re.search(rb"stream\r?\n(.*?)\r?\nendstream", body, re.DOTALL)[1]
        return zlib.decompress(packed).decode("latin-1")

    def letters(font):
        made = stream(int(re.search(rb"/ToUnicode (\d+)", objects[font])[1]))
        known = {}
        for low, high, first in re.findall(r"<(....)> <(....)> <(....)>\n", made):
            for k in range(int(high, 16) - int(low, 16) + 1):
                known[int(low, 16) + k] = chr(int(first, 16) + k)
        for glyph, letter in re.findall(r"^<(....)> <(....)>$", made, re.MULTILINE):
            known[int(glyph, 16)] = chr(int(letter, 16))
        return known

    pieces = []
    for body in objects.values():
        if not re.search(rb"/Type /Page\b", body):
            continue
        fonts = {
            name.decode(): letters(int(number))
            for name, number in re.findall(rb"/(F\d+) (\d+) 0 R", body)
            if b"/ToUnicode" in objects[int(number)]
        }
        font = {}
        content = stream(int(re.search(rb"/Contents (\d+)", body)[1]))
        for name, shown in re.findall(
            r"/(F\d+) [\d.]+ Tf|<([0-9A-Fa-f]+)> *(?:Tj|-?\d|\])", content
        ):
            if name:
                font = fonts.get(name, {})
                pieces.append("\n")
            glyphs = re.findall("....", shown)
            pieces += [font.get(int(glyph, 16), "") for glyph in glyphs]
    return re.sub(r"\s+", " ", "".join(pieces))


def column(page, key):
    place = page.locator(f"#board thead th[data-key='{key}']").evaluate("cell => cell.cellIndex")
    cells = page.locator("#board tbody tr:not([hidden])")
    return cells.evaluate_all(f"rows => rows.map(row => row.cells[{place}].textContent)")


def heading(page, key):
    return page.locator(f"#board thead th[data-key='{key}']")


def test_it_makes_no_requests(opened, written):
    opened.locator("#agreement").scroll_into_view_if_needed()
    opened.locator("#score").select_option("my_score")
    opened.wait_for_timeout(200)
    fetched = [url for url in opened.requests if not url.startswith("data:")]
    assert fetched == [written[0].as_uri()]
    assert opened.title() == "Sprites: report"


def test_a_script_from_outside_is_not_run_and_nothing_is_fetched(chromium, written):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        page = chromium.new_page()
        page.goto(written[0].as_uri())
        page.evaluate(
            """address => {
                const script = document.createElement("script");
                script.textContent = "window.broken = true";
                const image = document.createElement("img");
                image.src = `${address}/picture.png`;
                document.body.append(script, image);
                document.querySelector("h1").setAttribute("onclick", "window.broken = true");
                document.querySelector("h1").click();
            }""",
            address,
        )
        result = page.evaluate(
            """address => Promise.race([
                fetch(address).then(() => "sent", () => "refused"),
                new Promise((done) => setTimeout(() => done("waiting"), 2000)),
            ])""",
            address,
        )
        assert result == "refused"
        assert page.evaluate("window.broken") is None
        with pytest.raises(TimeoutError):
            server.accept()
        page.close()


def test_numbers_sort_numerically_with_missing_values_last(opened):
    button = heading(opened, "my_score").locator("button")
    button.click()
    assert heading(opened, "my_score").get_attribute("aria-sort") == "descending"
    assert column(opened, "my_score") == ["10.00", "9.00", "0.50", "−2.25", "−10.50", "–"]
    button.press("Enter")
    assert heading(opened, "my_score").get_attribute("aria-sort") == "ascending"
    assert column(opened, "my_score") == ["−10.50", "−2.25", "0.50", "9.00", "10.00", "–"]
    heading(opened, "seed").locator("button").click()
    assert heading(opened, "my_score").get_attribute("aria-sort") == "none"
    assert column(opened, "seed") == ["2", "2", "1", "1", "0", "0"]


def test_names_sort_alphabetically(opened):
    names = opened.locator("#board thead th").first
    names.locator("button").click()
    assert names.get_attribute("aria-sort") == "ascending"
    shown = opened.locator("#board tbody .name").all_text_contents()
    plain = [name.replace("★ ", "") for name in shown]
    assert plain == sorted(plain)


def test_the_filter_hides_other_models(opened):
    opened.locator("#filter").fill("β=4 seed 2")
    assert opened.locator("#board tbody tr:visible").count() == 1
    assert opened.locator("#count").text_content() == "1 of 6 models"
    opened.locator("#filter").fill("nobody")
    assert opened.locator("#board tbody tr:visible").count() == 0
    opened.locator("#filter").fill("")
    assert opened.locator("#board tbody tr:visible").count() == 6


def test_hidden_columns_can_be_shown(opened):
    assert not heading(opened, "mig.part").is_visible()
    opened.locator("#more").check()
    assert heading(opened, "mig.part").is_visible()


def test_the_chosen_model_is_marked_and_the_diverged_one_named(opened):
    first = opened.locator("#board tbody tr").first
    assert "chosen" in first.get_attribute("class")
    assert first.get_by_role("img", name="chosen").is_visible()
    last = opened.locator("#board tbody tr").last
    assert "diverged" in last.text_content()
    assert opened.locator("#facts .trouble").text_content().count("diverged") == 1


def test_hovering_shows_the_name_and_clicking_the_traversals(opened):
    strips = opened.evaluate("JSON.parse(document.getElementById('data').textContent).strips")
    names = opened.evaluate("JSON.parse(document.getElementById('data').textContent).names")
    assert opened.locator("#scatter .dot").count() == 5
    dot = opened.locator("#scatter .dot[data-i='3']")
    dot.scroll_into_view_if_needed()
    dot.hover(force=True)
    assert names[3] in opened.locator("#tip").text_content()
    assert opened.locator("#tip").is_visible()
    assert opened.locator("#panel h3").text_content() == names[0]
    dot.click(force=True)
    assert opened.locator("#panel h3").text_content() == names[3]
    source = opened.locator("#panel img").get_attribute("src")
    assert source == f"data:image/webp;base64,{strips['3']['picture']}"
    assert (
        opened.locator("#panel img").evaluate("image => image.complete && image.naturalWidth") > 0
    )
    assert opened.locator("#board tr.selected").get_attribute("data-i") == "3"


def test_the_keyboard_reaches_every_model(opened):
    names = opened.evaluate("JSON.parse(document.getElementById('data').textContent).names")
    chart = opened.locator("#scatter svg")
    chart.focus()
    seen = set()
    for _ in range(5):
        opened.keyboard.press("ArrowRight")
        seen.add(opened.locator("#tip").text_content().split("\n")[0])
    assert seen == set(names[:5])
    opened.keyboard.press("Enter")
    assert opened.locator("#panel h3").text_content() in seen


def test_a_name_in_the_table_opens_its_model(opened):
    opened.locator("#board tbody .name").nth(2).click()
    names = opened.evaluate("JSON.parse(document.getElementById('data').textContent).names")
    assert opened.locator("#panel h3").text_content() == names[2]
    opened.locator("#board tbody .name").nth(5).click()
    assert "diverged" in opened.locator("#panel").text_content()


def test_axes_and_scores_can_be_chosen(opened):
    before = opened.locator("#scatter .dot").first.get_attribute("transform")
    opened.locator("#x").select_option("my_score")
    assert opened.locator("#scatter .dot").count() == 4
    assert opened.locator("#scatter .dot").first.get_attribute("transform") != before
    opened.locator("#score").select_option("my_score")
    assert opened.locator("#strip-chart .dot").count() == 4
    assert "my score of 4 models" in opened.locator("#strip-chart svg").get_attribute("aria-label")
    assert "β-VAE β=4: median 9.00 of 1" in opened.locator("#strip-summary").text_content()


def test_the_heat_map_tooltip_shows_the_pair(opened, fleet, data):
    canvas = opened.locator(".heat .frame canvas")
    assert canvas.evaluate("c => [c.width, c.height]") == [5, 5]
    canvas.focus()
    opened.keyboard.press("ArrowRight")
    value, one, other = opened.locator("#tip").text_content().split("\n")
    names = opened.evaluate("JSON.parse(document.getElementById('data').textContent).names")
    runs = opened.evaluate("JSON.parse(document.getElementById('data').textContent).runs")
    places = [
        [c.hash for c in fleet.configs].index(runs[names.index(name)]) for name in (one, other)
    ]
    latents = uw.select.latents.latents_of(fleet, data)
    assert value == f"UDR {uw.select.udr_scores(latents).pairs[tuple(places)]:.2f}"
    opened.locator("select.kind").select_option("MCC")
    canvas = opened.locator(".heat .frame canvas")
    canvas.focus()
    opened.keyboard.press("ArrowRight")
    expected = uw.select.mcc_pairs(latents)[tuple(places)]
    assert opened.locator("#tip").text_content().split("\n")[0] == f"MCC {expected:.2f}"


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_needs_no_sideways_scrolling(opened, width):
    opened.set_viewport_size({"width": width, "height": 844})
    opened.wait_for_timeout(100)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.locator("#scatter svg").bounding_box()["width"] <= width
    film, labels = opened.locator(".hero .film"), opened.locator(".hero .labels")
    assert labels.bounding_box()["height"] == pytest.approx(film.bounding_box()["height"], abs=1)


def test_dark_and_light_differ(opened):
    paper = "getComputedStyle(document.body).backgroundColor"
    opened.emulate_media(color_scheme="light")
    light = opened.evaluate(paper)
    opened.emulate_media(color_scheme="dark")
    assert light == "rgb(255, 255, 255)"
    assert opened.evaluate(paper) == "rgb(20, 23, 26)"
    opened.emulate_media(media="print", color_scheme="dark")
    assert opened.evaluate(paper) == "rgb(255, 255, 255)"


def test_it_prints_with_the_whole_leader_board(opened):
    text = pdf_text(opened.pdf(format="A4"))
    for name in opened.evaluate("JSON.parse(document.getElementById('data').textContent).names"):
        assert name in text
    for expected in ("Leaderboard", "my score", "−10.50", "Distributions", "Trade-off", "UDR"):
        assert expected in text
    opened.emulate_media(media="print")
    board = opened.locator(".scroll")
    assert board.evaluate("box => box.scrollHeight <= box.clientHeight + 1")
    assert board.evaluate("box => getComputedStyle(box).overflowY") == "visible"
    assert (
        opened.locator("#board thead th").first.evaluate("cell => getComputedStyle(cell).position")
        == "static"
    )
    assert opened.locator("#board tbody tr:visible").count() == 6
    assert not opened.locator("nav").is_visible()


def test_images_have_alt_texts_and_controls_have_labels(opened):
    assert opened.locator("img:not([alt]), img[alt='']").count() == 0
    for control in opened.locator("select, input").all():
        assert control.evaluate("node => node.labels.length") == 1
    levels = opened.locator("h1, h2, h3").evaluate_all("all => all.map(h => Number(h.tagName[1]))")
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_names_are_escaped(page, study, tmp_path):
    dialogs = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    out = uw.show.report(study, tmp_path / "report.html", progress=False)
    page.goto(out.as_uri())
    assert page.locator("h1").text_content() == "<script>alert(1)</script>"
    assert "sprites & <b>co</b>" in page.locator("header .summary").first.text_content()
    assert page.locator("header b").count() == 0
    page.locator("#part").select_option("1")
    assert page.locator("#scatter .dot").count() == 4
    page.locator("#scatter .dot").first.click(force=True)
    assert "(sprites)" in page.locator("#panel h3").text_content()
    page.locator("#part").select_option("0")
    page.locator("#scatter .dot").first.click(force=True)
    assert "(sprites & <b>co</b>)" in page.locator("#panel h3").text_content()
    assert not dialogs


def test_a_picture_in_the_page_is_the_traversal_of_the_model(opened, fleet, data):
    """The first row is close to the images that the model decodes."""
    source = opened.locator(".hero .film img").get_attribute("src")
    picture = Image.open(io.BytesIO(base64.b64decode(source.split(",")[1])))
    shown = np.asarray(picture.convert("L"), float)
    name = opened.locator(".hero .model-name").text_content()
    beta, seed = re.match(r"β-VAE β=(\d), seed (\d)", name).groups()
    model = fleet[3 * (beta == "4") + int(seed)]
    latents = uw.select.latents.latents_of([model], data)
    order = [n for n in np.argsort(-latents.kl[0]) if latents.informative[0, n]]
    start, _ = model.encode(data.images([0]))
    ends = np.percentile(latents.means[0], (2, 98), axis=0)
    codes = np.repeat(start, 7, axis=0)
    codes[:, order[0]] = np.linspace(*ends[:, order[0]], 7)
    first_row = 255 * model.decode(codes)[..., 0].transpose(1, 0, 2).reshape(32, 7 * 32)
    assert np.abs(shown[:32] - first_row).mean() < 8
