"""The explorer page in a real browser."""

import csv
import io
import json
import queue
import webbrowser
from contextlib import ExitStack

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from tests.explorer.explorer_tools import IDLE
from unweave.explorer import opened_models
from unweave.explorer.serving import _open_browser, running

PIXELS = """id => {
  const c = document.querySelector(id);
  return [...c.getContext("2d").getImageData(0, 0, c.width, c.height).data];
}"""
DROP = """([bytes, name, target]) => {
  const files = new DataTransfer();
  files.items.add(new File([new Uint8Array(bytes)], name, {type: "image/png"}));
  const options = {dataTransfer: files, bubbles: true, cancelable: true};
  document.querySelector(target).dispatchEvent(new DragEvent("dragover", options));
  document.querySelector(target).dispatchEvent(new DragEvent("drop", options));
}"""


def rounded(images):
    return np.rint(images * 255).astype(np.uint8)


def grey(page, canvas="#picture"):
    """Return the pixels of a canvas of a greyscale model, `[64, 64]`."""
    pixels = np.array(page.evaluate(PIXELS, canvas), dtype=np.uint8).reshape(64, 64, 4)
    assert (pixels[..., 3] == 255).all()
    assert (pixels[..., :1] == pixels[..., 1:3]).all()
    return pixels[..., 0]


def shown(page):
    """Return the code of the image that is currently shown."""
    return json.loads(page.get_attribute("#picture", "data-code"))


def wait_for(page, code):
    """Wait until the image of this code is shown."""
    page.wait_for_function(
        """code => {
          const drawn = JSON.parse(document.querySelector("#picture").dataset.code);
          return drawn.every((value, k) => value === code[k]);
        }""",
        arg=code,
    )


def changed(page, act):
    """Act, and wait until another code is shown."""
    before = page.get_attribute("#picture", "data-code")
    act()
    page.wait_for_function(
        "before => document.querySelector('#picture').dataset.code !== before", arg=before
    )
    return shown(page)


def decoded(model, code):
    return rounded(model.decode([code]))[0, ..., 0]


def codes_of(page):
    """Return the codes of A, B and the shown image, as saved by the page."""
    with page.expect_download() as download:
        page.click("#save-json")
    return json.loads(download.value.path().read_text())["codes"]


def row(page, latent):
    return page.locator(f"#latents li[data-latent='{latent}']")


@pytest.fixture
def explorer(page, address):
    """Open the page at its first model."""
    page.hosts = set()
    page.on("request", lambda request: page.hosts.add(request.url.split("/")[2]))
    page.goto(address)
    page.wait_for_selector("#picture[data-code]")
    page.wait_for_selector("#traversal[data-latent]")
    return page


@pytest.fixture(scope="module")
def start(sprites):
    return int(sprites.index([1, 0, 0, 4, 4]))


def test_it_opens_with_an_image_of_the_data_and_contacts_no_other_host(
    explorer, address, fleet, sprites, start
):
    mean, _ = fleet[0].encode(sprites.images([start]))
    assert np.float32(shown(explorer)).tolist() == mean[0].tolist()
    np.testing.assert_array_equal(grey(explorer), rounded(fleet[0].decode(mean))[0, ..., 0])
    np.testing.assert_array_equal(grey(explorer, "#slot-a canvas"), sprites[start][..., 0])
    assert explorer.hosts == {address.split("/")[2]}
    assert "β-VAE · beta 1 · seed 0" in explorer.inner_text("#choose-model")
    assert "ellipse" in explorer.inner_text("#slot-a")


def test_the_file_that_opens_the_browser_leads_to_the_page(page, address, monkeypatch):
    opened = queue.Queue()
    monkeypatch.setattr(webbrowser, "open", opened.put)
    with ExitStack() as stack:
        _open_browser(address, stack)
        page.goto(opened.get(timeout=60))
        page.wait_for_selector("#picture[data-code]")
    assert page.url == address.split("?")[0]


def test_the_token_is_removed_from_the_address(chromium, address):
    home, token = address.split("?token=")
    browser = chromium.new_context()
    page = browser.new_page()
    referers = []
    page.on("request", lambda request: referers.append(request.headers.get("referer", "")))
    page.goto(address)
    page.wait_for_selector("#picture[data-code]")
    assert page.url == home
    assert page.evaluate("document.cookie") == ""
    assert not [one for one in referers if token in one]
    page.reload()
    page.wait_for_selector("#picture[data-code]")
    tab = browser.new_page()
    tab.goto(home)
    tab.wait_for_selector("#picture[data-code]")
    page.go_back()
    assert token not in page.url
    browser.close()


def test_without_the_token_the_page_explains_how_to_get_it(chromium, address):
    browser = chromium.new_context()
    page = browser.new_page()
    assert page.goto(address.split("?")[0]).status == 403
    assert "terminal" in page.inner_text("body")
    page.goto(address)
    page.wait_for_selector("#picture[data-code]")
    browser.clear_cookies()  # as after restarting the explorer at the same port
    page.click("#next-model")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "token" in page.inner_text("#trouble p")
    browser.close()


def test_latents_are_sorted_by_activity_and_labelled(explorer, address):
    activity = explorer.evaluate("fetch('/models/0').then(a => a.json())")["activity"]
    order = [
        int(n)
        for n in explorer.eval_on_selector_all(
            "#latents li", "items => items.map(item => item.dataset.latent)"
        )
    ]
    assert order == sorted(range(5), key=lambda latent: -activity[latent])
    first = explorer.get_by_role("slider", name=f"Latent {order[0]}, KL {activity[order[0]]:.2f}")
    assert first.get_attribute("aria-valuetext") == f"{shown(explorer)[order[0]]:.2f}".replace(
        "-", "−"
    )
    assert explorer.get_by_role("slider", name=f"Latent {IDLE}, inactive").count() == 1


def test_bars_are_updated_with_all_images(page, runs, monkeypatch):
    monkeypatch.setattr(opened_models, "FIRST_IMAGES", 2)
    with running(runs) as address:
        page.goto(address)
        page.wait_for_selector("#picture[data-code]")
        activities = [
            page.evaluate(f"fetch('/models/0{path}').then(a => a.json())")["activity"]
            for path in ("", "/activity")
        ]
        first, whole = ([f"{v:.2f}" if v > 0.3 else "inactive" for v in one] for one in activities)
        assert first != whole
        order = sorted(range(5), key=lambda latent: -activities[1][latent])
        page.wait_for_function(
            """wanted => {
              const items = [...document.querySelectorAll("#latents li")];
              const amounts = items.map((item) => item.querySelector(".amount").textContent);
              const latents = items.map((item) => Number(item.dataset.latent));
              return JSON.stringify([latents, amounts]) === JSON.stringify(wanted);
            }""",
            arg=[order, [whole[latent] for latent in order]],
        )
        page.goto("about:blank")  # no more requests before the server stops


def test_arrow_keys_move_a_latent_and_the_picture_follows(explorer, fleet):
    before, pixels = shown(explorer), grey(explorer)
    slider = row(explorer, 3).get_by_role("slider")
    slider.focus()
    after = changed(explorer, lambda: slider.press("ArrowRight"))
    assert [k for k in range(5) if after[k] != before[k]] == [3]
    assert 0 < after[3] - before[3] <= 0.1
    for _ in range(8):
        slider.press("PageUp")
    wait_for(explorer, [*before[:3], float(slider.input_value()), before[4]])
    assert (grey(explorer) != pixels).any()
    np.testing.assert_array_equal(grey(explorer), decoded(fleet[0], shown(explorer)))


def test_intermediate_slider_positions_are_skipped(explorer):
    requests = []
    explorer.on("request", lambda request: requests.append(request.url))
    explorer.evaluate(
        """() => {
          const slider = document.querySelector("#latents input[type=range]");
          for (let k = 0; k < 200; k++) {
            slider.value = -2 + k / 50;
            slider.dispatchEvent(new Event("input"));
          }
        }"""
    )
    last = int(explorer.locator("#latents li").first.get_attribute("data-latent"))
    explorer.wait_for_function(
        "k => JSON.parse(document.querySelector('#picture').dataset.code)[k] === 2", arg=last
    )
    assert len([url for url in requests if url.endswith("/decode")]) <= 4


def test_a_dropped_image_is_encoded_and_shown(explorer, fleet, tmp_path):
    photo = Image.effect_noise((120, 80), 90).convert("RGB")
    file = io.BytesIO()
    photo.save(file, "PNG")
    for k in range(2):
        (tmp_path / f"{k}.png").write_bytes(file.getvalue())
    loaded = uw.data.load(tmp_path, size=64, channels=1)
    mean, _ = fleet[0].encode(loaded.images([0]))
    code = changed(
        explorer, lambda: explorer.evaluate(DROP, [list(file.getvalue()), "photo.png", "body"])
    )
    assert np.float32(code).tolist() == mean[0].tolist()
    np.testing.assert_array_equal(grey(explorer, "#slot-a canvas"), loaded[0][..., 0])
    np.testing.assert_array_equal(grey(explorer), rounded(fleet[0].decode(mean))[0, ..., 0])
    assert "photo.png" in explorer.inner_text("#slot-a")
    before = grey(explorer, "#slot-a canvas")
    explorer.evaluate(DROP, [list(file.getvalue()), "other.png", "#slot-b canvas"])
    explorer.wait_for_function(
        "() => document.querySelector('#slot-b').innerText.includes('other.png')"
    )
    np.testing.assert_array_equal(grey(explorer, "#slot-b canvas"), before)


def test_a_file_that_is_not_an_image_shows_an_error(chromium, address):
    # Not on `page`, which fails on console errors: the browser logs the expected status 422.
    page = chromium.new_page()
    page.goto(address)
    page.wait_for_selector("#picture[data-code]")
    before = shown(page)
    page.evaluate(DROP, [list(b"no image"), "notes.txt", "body"])
    page.wait_for_selector("#trouble:not([hidden])")
    error = page.inner_text("#trouble p")
    assert "(.png, .jpg" in error
    assert error.endswith(".tiff).")
    assert shown(page) == before
    page.click("#dismiss")
    assert not page.is_visible("#trouble")
    page.close()


def test_large_files_are_rejected_by_the_server(chromium, address):
    page = chromium.new_page()
    page.goto(address)
    page.wait_for_selector("#picture[data-code]")
    # Bypass the page's own limit, which would not send it.
    send = """async () => {
      const server = await import("/server.js");
      const file = new Blob([new Uint8Array(2 ** 26)]);
      return server.encodeFile(0, file).catch((error) => error.message);
    }"""
    assert "at most 32 MB" in page.evaluate(send)
    file = io.BytesIO()
    Image.new("1", (7100, 7100)).save(file, "PNG")
    page.evaluate(DROP, [list(file.getvalue()), "bomb.png", "body"])
    page.wait_for_selector("#trouble:not([hidden])")
    assert "50 million pixels" in page.inner_text("#trouble p")
    page.close()


def test_large_files_are_not_sent(explorer):
    requests = []
    explorer.on("request", lambda request: requests.append(request.url))
    large = DROP.replace("new Uint8Array(bytes)", "new Uint8Array(2 ** 25 + 1)")
    explorer.evaluate(large, [[], "large.png", "body"])
    explorer.wait_for_selector("#trouble:not([hidden])")
    assert "at most 32 MB" in explorer.inner_text("#trouble p")
    assert not requests


def test_a_swapped_latent_is_the_only_one_that_changes(explorer, fleet):
    codes = codes_of(explorer)
    assert codes["shown"] == codes["A"]
    after = changed(explorer, lambda: row(explorer, 4).locator(".from-b input").check())
    assert after == [*codes["A"][:4], codes["B"][4]]
    np.testing.assert_array_equal(grey(explorer), decoded(fleet[0], after))
    changed(explorer, lambda: row(explorer, 4).locator(".from-b input").uncheck())
    assert shown(explorer) == codes["A"]


def test_the_morph_begins_at_a_and_ends_at_b(explorer, fleet):
    codes = codes_of(explorer)
    morph = explorer.get_by_role("slider", name="Morph from A to B")
    assert morph.get_attribute("aria-valuetext") == "0 % of the way to B"
    morph.focus()
    morph.press("End")
    wait_for(explorer, codes["B"])
    assert morph.get_attribute("aria-valuetext") == "100 % of the way to B"
    np.testing.assert_array_equal(grey(explorer), decoded(fleet[0], codes["B"]))
    assert explorer.locator(".from-b input:checked").count() == 4  # all but the idle one
    morph.press("Home")
    wait_for(explorer, codes["A"])
    np.testing.assert_array_equal(grey(explorer), decoded(fleet[0], codes["A"]))
    morph.evaluate("it => { it.value = 0.25; it.dispatchEvent(new Event('input')); }")
    half = [0.75 * a + 0.25 * b for a, b in zip(codes["A"], codes["B"], strict=True)]
    wait_for(explorer, half)
    assert morph.get_attribute("aria-valuetext") == "25 % of the way to B"
    changed(explorer, lambda: explorer.click("#slot-a .next"))
    assert (morph.input_value(), morph.get_attribute("aria-valuetext")) == (
        "0",
        "0 % of the way to B",
    )


def test_the_morph_plays_until_it_is_stopped(explorer):
    codes = codes_of(explorer)
    play = explorer.get_by_role("button", name="Play the morph")
    changed(explorer, play.click)
    assert play.get_attribute("aria-pressed") == "true"
    explorer.wait_for_function("() => Number(document.querySelector('#morph').value) > 0.3")
    play.click()
    assert play.get_attribute("aria-pressed") == "false"
    there = explorer.input_value("#morph")
    explorer.wait_for_timeout(100)
    assert explorer.input_value("#morph") == there
    explorer.click("#reset")
    wait_for(explorer, codes["A"])


def test_inactive_latents_can_be_hidden(explorer):
    assert row(explorer, IDLE).is_visible()
    box = explorer.get_by_label("Hide 1 inactive")
    box.check()
    assert not row(explorer, IDLE).is_visible()
    assert explorer.locator("#latents li:visible").count() == 4
    box.uncheck()
    assert row(explorer, IDLE).is_visible()


def test_another_model_can_be_chosen_and_shows_the_same_image(explorer, fleet, sprites, start):
    explorer.click("#choose-model")
    assert explorer.locator("#models tr").count() == 4
    assert explorer.inner_text("#models tr:last-child").endswith("damaged")
    explorer.fill("#models-filter", "beta 4")
    assert explorer.locator("#models tr").count() == 1
    changed(explorer, lambda: explorer.get_by_role("button", name="β-VAE · beta 4").click())
    assert "beta 4" in explorer.inner_text("#choose-model")
    mean, _ = fleet[1].encode(sprites.images([start]))
    np.testing.assert_array_equal(grey(explorer), rounded(fleet[1].decode(mean))[0, ..., 0])
    assert not explorer.is_visible("#warning")
    changed(explorer, lambda: explorer.keyboard.press("]"))
    assert "never trained" in explorer.inner_text("#warning")
    changed(explorer, lambda: explorer.keyboard.press("]"))  # past the damaged one
    assert "beta 1" in explorer.inner_text("#choose-model")


def test_next_and_previous_image(explorer, fleet, sprites, start):
    changed(explorer, lambda: explorer.keyboard.press("n"))
    np.testing.assert_array_equal(grey(explorer, "#slot-a canvas"), sprites[start + 1][..., 0])
    changed(explorer, lambda: explorer.keyboard.press("p"))
    changed(explorer, lambda: explorer.click("#slot-a .previous"))
    np.testing.assert_array_equal(grey(explorer, "#slot-a canvas"), sprites[start - 1][..., 0])
    changed(explorer, lambda: explorer.click("#slot-b .next"))
    codes = codes_of(explorer)
    assert codes["shown"] == codes["B"]


def test_a_random_code_is_drawn_from_the_prior(explorer):
    drawn = [changed(explorer, lambda: explorer.keyboard.press("g")) for _ in range(40)]
    assert abs(np.mean(drawn)) < 0.3
    assert 0.75 < np.std(drawn) < 1.25
    changed(explorer, lambda: explorer.keyboard.press("0"))
    assert shown(explorer) == codes_of(explorer)["A"]


def test_the_saved_picture_is_what_the_model_decodes(explorer, fleet):
    code = changed(explorer, lambda: explorer.keyboard.press("g"))
    with explorer.expect_download() as download:
        explorer.keyboard.press("s")
    assert download.value.suggested_filename == "beta-vae-beta-1-seed-0.png"
    with Image.open(download.value.path()) as image:
        np.testing.assert_array_equal(np.asarray(image), decoded(fleet[0], code))


def test_the_saved_codes_are_those_of_the_model(explorer, fleet, sprites, start):
    moved = changed(explorer, lambda: row(explorer, 0).get_by_role("slider").press("ArrowLeft"))
    with explorer.expect_download() as download:
        explorer.get_by_role("button", name="Save the codes as CSV").click()
    table = list(csv.reader(download.value.path().read_text().splitlines()))
    assert table[0] == ["code", *(f"latent_{k}" for k in range(5))]
    rows = {name: [float(value) for value in values] for name, *values in table[1:]}
    assert rows["shown"] == moved
    mean, _ = fleet[0].encode(sprites.images([start]))
    assert np.float32(rows["A"]).tolist() == mean[0].tolist()
    assert list(rows) == ["shown", "A", "B"]


def test_the_traversal_shows_the_focused_latent(explorer, fleet):
    row(explorer, 1).get_by_role("slider").focus()
    explorer.wait_for_selector("#traversal[data-latent='1']")
    assert "z1" in explorer.inner_text("#traversal-title")
    codes = np.repeat([shown(explorer)], 9, axis=0)
    codes[:, 1] = np.linspace(-3, 3, 9)
    expected = rounded(fleet[0].decode(codes))[..., 0]
    for k in (0, 4, 8):
        canvas = f"#traversal button:nth-child({k + 1}) canvas"
        np.testing.assert_array_equal(grey(explorer, canvas), expected[k])
    button = explorer.get_by_role("button", name="Set latent 1 to −3.00")
    assert changed(explorer, button.click)[1] == -3


def test_help_lists_shortcuts_and_can_disable_them(explorer):
    explorer.keyboard.press("?")
    dialog = explorer.get_by_role("dialog", name="Help and shortcuts")
    assert dialog.is_visible()
    assert "play or stop the morph" in dialog.inner_text()
    dialog.get_by_label("Single-key shortcuts").uncheck()
    explorer.keyboard.press("Escape")
    assert not dialog.is_visible()
    before = shown(explorer)
    explorer.keyboard.press("g")
    explorer.keyboard.press("?")
    assert not dialog.is_visible()
    assert shown(explorer) == before


@pytest.mark.parametrize("width", [320, 390, 860, 1920])
def test_nothing_is_wider_than_the_window(explorer, width):
    explorer.set_viewport_size({"width": width, "height": 844})
    assert explorer.evaluate("document.documentElement.scrollWidth") <= width
    for selector in (
        "#picture",
        "#choose-model",
        "#help",
        "#latents li",
        "#save-json",
        "#traversal",
    ):
        box = explorer.locator(selector).first.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


def test_all_controls_have_accessible_names(explorer):
    for role in ("button", "slider", "checkbox", "searchbox"):
        for part in explorer.get_by_role(role).all():
            name = part.evaluate(
                "it => it.getAttribute('aria-label') || it.labels?.[0]?.innerText || it.innerText"
            )
            assert name.strip(), part.evaluate("it => it.outerHTML")
    assert explorer.locator("#status").get_attribute("aria-live") == "polite"
    for canvas in explorer.get_by_role("img").all():
        assert canvas.get_attribute("aria-label") or canvas.get_attribute("alt") == ""


@pytest.fixture(scope="module")
def broken_model(raw):
    """Return a model whose weights are all NaN."""
    gone = {name: buffer * np.nan for name, buffer in raw.parameters.items()}
    return uw.Model(raw.configs, raw.shape, gone, raw.curve, raw.diverged_at)


def test_a_broken_model_shows_an_error_and_is_skipped(chromium, fleet, broken_model):
    # Not on `page`, which fails on console errors: the browser logs the expected status 409.
    page = chromium.new_page()
    with running([fleet[0], broken_model, fleet[1]]) as address:
        page.goto(address)
        page.wait_for_selector("#picture[data-code]")
        page.click("#next-model")
        page.wait_for_selector("#trouble:not([hidden])")
        assert "not finite" in page.inner_text("#trouble p")
        assert "beta 1" in page.inner_text("#choose-model")
        page.click("#next-model")
        page.wait_for_function(
            "() => document.querySelector('#choose-model').innerText.includes('beta 4')"
        )
        assert not page.is_visible("#trouble")
    page.close()


def test_without_a_working_model_the_controls_are_disabled(chromium, broken_model):
    page = chromium.new_page()
    broken = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    with running(broken_model) as address:
        page.goto(address)
        page.wait_for_selector("#trouble:not([hidden])")
        for button in ("#randomise", "#reset", "#play", "#save-csv", "#slot-a .random"):
            page.locator(button).click(force=True)
        page.keyboard.press("g")
        page.wait_for_function("() => document.querySelector('#main').inert")
    assert not broken
    page.close()


def test_without_data_it_starts_from_the_prior_and_says_so(page, colours):
    _, models = colours
    with running(models) as address:
        page.goto(address)
        page.wait_for_selector("#picture[data-code]")
        assert shown(page) == [0, 0, 0]
        note = page.inner_text("#activity-note")
        assert "prior" in note
        assert "'noise'" in note
        assert "--data" in note
        assert page.get_by_role("button", name="Image A: next image").is_disabled()
        pixels = np.array(page.evaluate(PIXELS, "#picture"), dtype=np.uint8).reshape(32, 32, 4)
        np.testing.assert_array_equal(pixels[..., :3], rounded(models[0].decode([[0, 0, 0]]))[0])
        drawn = changed(page, lambda: page.get_by_role("button", name="A: random code").click())
        assert np.abs(drawn).min() > 0
        page.goto("about:blank")  # no more requests before the server stops


@pytest.fixture(scope="module")
def staged(fleet, sprites):
    """Train a second stage on top of the first model."""
    quick = {"steps": 2, "batch": 4, "latents": 3, "progress": False}
    method = uw.methods.MSVAE()
    return uw.train(method, sprites, first=fleet[0], architecture="small_dcgan", **quick)[0]


def test_stage_buttons_swap_all_latents_of_a_stage(page, staged):
    with running([staged]) as address:
        page.goto(address)
        page.wait_for_selector("#picture[data-code]")
        page.wait_for_selector("#traversal[data-latent]")
        names = {row.text_content() for row in page.locator("#latents .name").all()}
        assert names == {*(f"C{k}" for k in range(5)), *(f"Z{k}" for k in range(3))}
        a, b = codes_of(page)["A"], codes_of(page)["B"]
        assert a[5:] != b[5:]
        of_z = page.get_by_role("button", name="Z from B")
        mixed = changed(page, of_z.click)
        assert mixed == [*a[:5], *b[5:]]
        np.testing.assert_array_equal(grey(page), decoded(staged, mixed))
        of_c = page.get_by_role("button", name="C from B")
        assert changed(page, of_c.click) == b
        assert changed(page, of_z.click) == [*b[:5], *a[5:]]
        page.goto("about:blank")  # no more requests before the server stops


def test_models_of_one_stage_have_no_buttons_for_stages(explorer):
    assert explorer.locator("#stages").is_hidden()
    assert explorer.locator("#stages button").count() == 0


def test_the_original_is_next_to_its_reconstruction(explorer, sprites, start):
    np.testing.assert_array_equal(grey(explorer, "#original"), sprites[start][..., 0])
    assert explorer.inner_text("#picture-label") == "Reconstruction"
    explorer.locator("#latents input[type=range]").first.focus()
    changed(explorer, lambda: explorer.keyboard.press("ArrowRight"))
    assert explorer.inner_text("#picture-label") == "Changed"
    explorer.get_by_role("button", name="Image B: next image").click()
    explorer.wait_for_function(
        "() => document.querySelector('#source p').textContent.includes(' B')"
    )
    explorer.click("#randomise")
    assert explorer.locator("#source").is_visible()
    assert explorer.locator("#verdict").is_hidden()


@pytest.fixture
def fit(fleet, sprites, tmp_path):
    """Save the first model as that of a failed fit of image files; return the folders."""
    fleet[0].save(tmp_path / "fit" / "best")
    verdict = {"level": "failed", "reasons": ["It is <b>bad</b>."], "advice": "Train longer."}
    verdict["measures"] = {}
    (tmp_path / "fit" / "fit.json").write_text(json.dumps({"verdict": verdict}))
    (tmp_path / "images").mkdir()
    for k in range(4):
        Image.fromarray(np.asarray(sprites[9 * k])[..., 0]).save(tmp_path / "images" / f"{k}.png")
    return tmp_path / "fit", uw.data.load(tmp_path / "images", channels=1)


def test_a_failed_fit_has_a_badge_a_warning_and_reasons(page, fit):
    with running(*fit) as address:
        page.goto(address)
        page.wait_for_selector("#picture[data-code]")
        assert "do not use" in page.inner_text("#warning")
        assert page.inner_text("#source p") == "Original A: 0.png"
        page.get_by_role("button", name="Verdict: Failed fit").click()
        dialog = page.get_by_role("dialog", name="Failed fit")
        assert "It is <b>bad</b>." in dialog.inner_text()
        assert "Next: Train longer." in dialog.inner_text()
        page.goto("about:blank")


def test_latents_are_named_and_the_names_are_saved(page, fit):
    with running(*fit) as address:
        page.goto(address)
        page.wait_for_selector("#picture[data-code]")
        row(page, 3).locator(".name").click()
        assert page.get_by_role("dialog", name="Name of latent z3").is_visible()
        page.fill("#name-text", "  size & <b>more</b> ")
        page.keyboard.press("Enter")
        slider = page.get_by_role("slider", name="Latent 3 (size & <b>more</b>)")
        slider.wait_for()
        assert "size & <b>more</b>" in row(page, 3).locator(".name").inner_text()
        with page.expect_download() as download:
            page.click("#save-csv")
        header = download.value.path().read_text().splitlines()[0]
        assert header == "code,latent_0,latent_1,latent_2,latent_3_size_b_more_b,latent_4"
        page.reload()
        slider.wait_for()
        slider.focus()
        page.keyboard.press("e")
        page.get_by_role("button", name="Remove the name").click()
        page.wait_for_function("() => !document.querySelector('#latents.named')")
        assert json.loads((fit[0] / "names.json").read_text()) == {"latents": {}}
        page.goto("about:blank")


def test_models_in_memory_cannot_be_named(page, fleet, sprites):
    with running(fleet, sprites) as address:
        page.goto(address)
        page.wait_for_selector("#picture[data-code]")
        assert row(page, 0).locator(".name").is_disabled()
        page.goto("about:blank")
