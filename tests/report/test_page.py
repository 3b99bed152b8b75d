"""The report file is written atomically, respects its size limit and escapes all input."""

import base64
import dataclasses
import io
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import unweave as uw
from tests.raising import about
from unweave.cli import main
from unweave.errors import UnweaveError
from unweave.models.names import write_names
from unweave.report import comparison as comparing
from unweave.report import page as making
from unweave.report.pictures import LEVELS, fitted, webp


def data_of(path):
    """Return the chart data of the page."""
    text = path.read_text()
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


@pytest.fixture(scope="module")
def written(runs, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "report.html"
    return uw.show.report(runs, out, data, progress=False)


def test_the_page_has_the_numbers_of_the_table(study, tmp_path):
    out = uw.show.report(study, tmp_path / "report.html", progress=False)
    page = data_of(out)
    table = uw.study.load(study).table.set_index("run").loc[page["runs"]]
    columns = {one["key"]: one["values"] for one in page["columns"]}
    for name in ("mig", "reconstruction", "kl", "strength", "seed", "active_units"):
        np.testing.assert_allclose(columns[name], table[name], rtol=1e-5)


def test_the_heat_map_has_every_pair_in_hundredths(written, fleet, data):
    page = data_of(written)
    (heat,) = page["heats"]
    places = [[c.hash for c in fleet.configs].index(page["runs"][i]) for i in heat["models"]]
    assert len(places) == 5
    latents = uw.select.latents.latents_of(fleet, data)
    for kind, pairs in (
        ("UDR", uw.select.udr_scores(latents).pairs),
        ("MCC", uw.select.mcc_pairs(latents)),
    ):
        shown = np.frombuffer(base64.b64decode(heat["kinds"][kind]), np.uint8).reshape(5, 5)
        np.testing.assert_allclose(shown / 100, pairs[np.ix_(places, places)], atol=0.0051)


def test_traversals_show_the_clear_latents(written, fleet, data):
    page = data_of(written)
    clear = {one["key"]: one["values"] for one in page["columns"]}["clear"]
    assert set(page["strips"]) == {"0", "1", "2", "3", "4"}
    assert page["diverged"] == [0, 0, 0, 0, 0, 1]
    for place, strip in page["strips"].items():
        assert len(strip["rows"]) == clear[int(place)] > 0
        picture = Image.open(io.BytesIO(base64.b64decode(strip["picture"])))
        assert picture.size == (7 * 32, 32 * len(strip["rows"]))


def test_existing_files_are_not_overwritten(written, runs, data):
    before = written.read_bytes()
    with pytest.raises(UnweaveError, check=about(written)):
        uw.show.report(runs, written, data, progress=False)
    assert written.read_bytes() == before
    with pytest.raises(UnweaveError, check=about(value=".pdf")):
        uw.show.report(runs, written.with_suffix(".pdf"), data, progress=False)


@pytest.mark.parametrize("limit", [90_000, 70_000])
def test_the_size_limit_is_respected(limit, fleet, data, tmp_path):
    out = uw.show.report(fleet, tmp_path / "r.html", data, limit=limit, progress=False)
    assert out.stat().st_size <= limit
    assert out.stat().st_size > limit / 2


def test_pictures_that_do_not_fit_are_left_out_with_a_note(fleet, data, tmp_path):
    out = tmp_path / "r.html"
    with pytest.raises(UnweaveError) as refused:
        uw.show.report(fleet, out, data, limit=30_000, progress=False)
    bare = int(re.search(r"([\d,]+) bytes", str(refused.value))[1].replace(",", ""))
    counts = []
    for room in (4_000, 7_000, 10_000, 13_000):
        limit = bare + room
        uw.show.report(fleet, out, data, limit=limit, progress=False, overwrite=True)
        assert out.stat().st_size <= limit
        counts.append(len(data_of(out)["strips"]))
        noted = f"traversals of only {counts[-1]} of 5 models" in out.read_text()
        assert noted == (counts[-1] < 5)
    assert counts == sorted(counts)
    assert any(0 < count < 5 for count in counts)


def test_a_limit_that_is_too_small_is_rejected(fleet, data, tmp_path):
    with pytest.raises(UnweaveError, check=about("limit", 20_000)):
        uw.show.report(fleet, tmp_path / "r.html", data, limit=20_000, progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_a_missing_gpu_is_an_error(fleet, data, tmp_path):
    with pytest.raises(UnweaveError, match="GPU"):
        uw.show.report(fleet, tmp_path / "report.html", data, device="cuda", progress=False)


def test_pictures_are_shrunk_until_they_fit():
    noise = np.random.default_rng(0).integers(0, 256, (6, 7, 64, 64, 3), dtype=np.uint8)
    sizes = [len(webp(noise, *level)) for level in LEVELS]
    assert sizes == sorted(sizes, reverse=True)
    text, level = fitted(noise, 60_000)
    assert len(text) <= 60_000
    assert len(base64.b64encode(webp(noise, *LEVELS[level - 1]))) > 60_000
    assert fitted(noise, 100) == ("", len(LEVELS) - 1)


def test_narrow_pictures_stay_at_least_a_pixel_wide():
    curves = np.zeros((2, 7, 100, 1, 1), np.uint8)
    for level in LEVELS:
        with Image.open(io.BytesIO(webp(curves, *level))) as picture:
            assert picture.width == 7


def test_autoencoders_show_the_spread(data, tmp_path):
    quick = {"steps": 2, "batch": 8, "latents": 3, "progress": False}
    trained = uw.train(uw.methods.AE(), data, seeds=2, **quick)
    larger = {name: 1.8 * buffer for name, buffer in trained.parameters.items()}
    fleet = dataclasses.replace(trained, parameters=larger)
    out = uw.show.report(fleet, tmp_path / "r.html", data, progress=False)
    page = data_of(out)
    run, strip = page["runs"][0], page["strips"]["0"]
    model = next(model for model in fleet if model.config.hash == run)
    spread = model.encode(data)[0].std(0)
    assert [(k, note) for k, note, *_ in strip["rows"]] == [
        (k, f"spread {spread[k]:.2f}") for k in np.argsort(-spread)[: len(strip["rows"])]
    ]
    assert strip["rows"]


def test_models_with_nan_weights_have_a_report_with_and_without_images(fleet, data, tmp_path):
    gone = {name: buffer * np.nan for name, buffer in fleet.parameters.items()}
    broken = dataclasses.replace(fleet, parameters=gone, diverged_at=np.full(6, -1))
    for images in (data, None):
        out = uw.show.report(broken, tmp_path / f"{images is None}.html", images, progress=False)
        assert all(not strip["picture"] for strip in data_of(out)["strips"].values())


def test_more_models_than_a_page_can_show(fleet, data, tmp_path, monkeypatch):
    monkeypatch.setattr(making, "MOST_SHOWN", 3)
    monkeypatch.setattr(comparing, "MOST_COMPARED", 4)
    out = uw.show.report(fleet, tmp_path / "r.html", data, progress=False)
    text = out.read_text()
    assert "6 models, 3 of" in text
    assert "4 of 6" in text
    assert len(data_of(out)["names"]) == 3
    assert len(data_of(out)["chosen"]) == 1


def test_one_model_has_a_page_without_agreement(fleet, data, tmp_path):
    text = uw.show.report(fleet[0], tmp_path / "r.html", data, progress=False).read_text()
    assert 'id="agreement"' not in text
    assert "It is the only model." in text
    assert "Traversals of β-VAE β=1, seed 0" in text


def test_an_ensemble_is_shown_by_the_latents_that_its_first_member_uses(data, planted, tmp_path):
    small = {"steps": 1, "batch": 8, "latents": 4, "architecture": "small_mlp", "progress": False}
    pair = uw.train(uw.methods.VAEEnsemble(members=3, gamma=[1, 5]), data, **small)
    both = data_of(uw.show.report(pair, tmp_path / "both.html", data, progress=False))
    columns = {one["key"]: one["values"] for one in both["columns"]}
    assert sorted(columns["strength"]) == [1, 5]
    assert "method.strength" not in columns
    model, _ = planted(pair[1], data)
    out = uw.show.report(model, tmp_path / "one.html", data, progress=False)
    text, page = out.read_text(), data_of(out)
    assert "ensemble of 3 members" in text
    assert "first member" in text
    # Latent 2 has a KL divergence of 0.36 nats, but no member uses it.
    assert [row[:2] for row in page["strips"]["0"]["rows"]] == [
        [latent, f"{0.5 * (spread**2 + np.exp(-4) + 3):.2f} nats"]
        for latent, spread in ((1, 1.5), (3, 1.0), (0, 0.5))
    ]


def test_without_images_the_page_says_what_is_missing(runs, tmp_path):
    text = uw.show.report(runs, tmp_path / "r.html", progress=False).read_text()
    assert "The images of sprites are not available" in text
    assert "No model was chosen" in text
    assert 'id="agreement"' not in text
    assert len(data_of(tmp_path / "r.html")["strips"]) == 5


def test_only_the_embedded_script_can_run(study, tmp_path):
    out = uw.show.report(study, tmp_path / "report.html", progress=False)
    text = out.read_text()
    assert "<script>alert" not in text
    assert "<b>co</b>" not in text
    assert text.count("<script") == 2
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    assert "http" not in policy
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style
    assert " style=" not in text


STRICT = """
import warnings
warnings.simplefilter("error")
from unweave.cli import main
main()
"""


def test_the_command_writes_a_page(runs, sprites, tmp_path, monkeypatch, capsys, start):
    images, factors = sprites
    command = ["report", str(runs), "--data", str(images), "--factors", str(factors)]
    done = start(*command, "--title", "My sprites", cwd=tmp_path, code=STRICT)
    assert done.wait() == 0, done.stderr
    assert re.fullmatch(r"Report: report.html \(\d\.\d MB\)\n", done.stdout)
    assert "<h1>My sprites</h1>" in (tmp_path / "report.html").read_text()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        main(command)
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert "report.html" in error
    assert "--overwrite" in error


def test_importing_the_report_does_not_import_torch():
    code = "import sys, unweave.show; unweave.show.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def fit_of(runs, folder, rating, data, **changes):
    """Write the report of runs with a verdict, as a fit leaves them; return the page."""
    copy = shutil.copytree(runs, folder / "fit" / "runs").parent
    verdict = {"level": rating, "reasons": ["The <b>reason</b>."], "advice": "Do more."}
    verdict |= {"measures": {"clear_latents": 2}, **changes}
    (copy / "fit.json").write_text(json.dumps({"verdict": verdict}))
    return uw.show.report(copy, folder / "report.html", data, progress=False).read_text()


@pytest.mark.parametrize("level", ["good", "weak", "failed"])
def test_the_verdict_on_a_fit_is_at_the_top(level, runs, data, tmp_path):
    page = fit_of(runs, tmp_path, level, data)
    assert f'<section class="verdict {level}"' in page
    assert page.index("The &lt;b&gt;reason&lt;/b&gt;.") < page.index('<p class="summary')
    assert (
        page.index("Do more.") < page.index("Each row varies one latent") < page.index("PCA?</h2")
    )
    assert page.index("PCA?</h2") < page.index("<h2>Leaderboard")


def test_a_failed_fit_is_not_shown_as_a_success(runs, data, tmp_path):
    page = fit_of(runs, tmp_path, "failed", data)
    assert "<title>fit: failed fit</title>" in page
    assert "do not use this model" in page
    for success in (
        "Chosen model",
        "chosen model:",
        "None: every model finished",
        "shared factor;",
    ):
        assert success not in page
    good = fit_of(runs, tmp_path / "good", "good", data)
    assert "Chosen model" in good
    assert "<title>fit: report</title>" in good


@pytest.mark.parametrize("changes", [{"level": "great"}, {"reasons": "good"}, {"measures": []}])
def test_an_invalid_verdict_is_not_shown(changes, runs, data, tmp_path):
    page = fit_of(runs, tmp_path, "good", data, **changes)
    assert 'class="verdict' not in page
    assert "Why not PCA?" not in page


def test_the_report_of_a_fit_without_images_has_the_verdict(runs, tmp_path):
    page = fit_of(runs, tmp_path, "weak", None)
    assert '<section class="verdict weak"' in page
    assert "Why not PCA?" not in page


def test_names_of_latents_are_in_the_report(runs, data, tmp_path):
    copy = shutil.copytree(runs, tmp_path / "fit" / "runs").parent
    for run in sorted((copy / "runs").iterdir()):
        names = {k: f"<i>name {k}</i>" for k in range(4)}
        write_names(run, uw.load(run).config, names)
    page = uw.show.report(copy, tmp_path / "report.html", data, progress=False)
    assert "&lt;i&gt;name 0&lt;/i&gt; (z0)" in page.read_text()
    strips = data_of(page)["strips"]
    assert all(name == f"<i>name {k}</i>" for s in strips.values() for k, *_, name in s["rows"])


def test_damaged_names_are_reported_and_left_out(runs, data, tmp_path):
    copy = shutil.copytree(runs, tmp_path / "fit" / "runs").parent
    (copy / "names.json").write_text('{"latents": 3}')
    page = uw.show.report(copy, tmp_path / "report.html", data, progress=False).read_text()
    assert page.count("names.json is damaged") == 1


def test_the_preparation_of_images_is_listed_and_escaped(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (64, 20, 30, 3), np.uint8)
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"<b>{number:02}.png")
    prepared = uw.data.load(tmp_path, size=32)
    tiny = {"latents": 2, "architecture": "small_mlp", "batch": 4, "progress": False}
    fleet = uw.train("vae", prepared, steps=1, **tiny)
    page = uw.show.report(fleet, tmp_path / "r.html", prepared, progress=False).read_text()
    listed = page.split('<ul class="notes">')[1].split("</ul>")[0]
    assert listed.count("<li>") == len(prepared.notes) >= 2
    assert "Cropped 64 of 64 files" in listed
    assert "&lt;b&gt;00.png" in listed
    assert "<b>00.png" not in page
