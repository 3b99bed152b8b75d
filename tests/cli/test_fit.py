"""`unweave fit` from a folder of images to a report, through the real command line."""

import json
import os
import re
import shutil
import signal
import time

import datasets
import httpx
import numpy as np
import pandas as pd
import pytest
import tifffile
import zarr
from PIL import Image

import unweave as uw
from unweave.cli import main
from unweave.cli.pictures import images_of_folder
from unweave.data.streaming import Streamed

QUICK = ["--size", "32", "--steps", "3", "--seeds", "2", "--batch", "4", "--latents", "3"]


def write_pictures(folder, count=80):
    """Write images of squares at random positions, in two sizes."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(count):
        side = 32 if number % 2 else 40
        image = np.zeros((side, side), np.uint8)
        x, y = rng.integers(0, side - 8, 2)
        image[y : y + 8, x : x + 8] = 255
        Image.fromarray(image).save(folder / f"square-{number:03}.png")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder of images with one broken file, and the results of `unweave fit`."""
    place = tmp_path_factory.mktemp("fit")
    write_pictures(place / "images")
    (place / "images" / "notes.png").write_text("not a picture")
    main(["fit", str(place / "images"), *QUICK, "-o", str(place / "out")])
    return place


def refused(args, capsys):
    """Return the one-line error message of a command."""
    with pytest.raises(SystemExit) as stopped:
        main(args)
    assert stopped.value.code == 2
    output = capsys.readouterr().err.strip()
    assert len(output.splitlines()) == 1
    return output


def test_fit_writes_all_results(fitted):
    out = fitted / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "best",
        "codes.csv",
        "fit.json",
        "latents.csv",
        "ranking.csv",
        "reconstructions.png",
        "report.html",
        "runs",
        "samples.png",
        "source.json",
        "what-the-latents-do.gif",
        "what-the-latents-do.png",
    ]
    ranking, best = pd.read_csv(out / "ranking.csv"), uw.load(out / "best")
    assert len(ranking) == 4
    assert best.config.hash == ranking["run"][0]
    with Image.open(out / "what-the-latents-do.gif") as animation:
        assert animation.n_frames > 10


def save_elsewhere(path):
    """Write noise in the format of another library, given by the name."""
    shape = {"saved": (64, 32, 32), "cells.ome.tif": (64, 2, 32, 32)}.get(
        path.name, (64, 32, 32, 5)
    )
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    if path.name == "saved":
        features = datasets.Features(image=datasets.Image(), label=datasets.Value("int64"))
        columns = {"image": [*images], "label": [number % 3 for number in range(64)]}
        datasets.disable_progress_bars()
        datasets.Dataset.from_dict(columns, features=features).save_to_disk(path)
    elif path.suffix == ".tif":
        tifffile.imwrite(path, images, metadata={"axes": "TCYX"})
    else:
        chunks = (8, *shape[1:])
        zarr.create_array(str(path), shape=shape, chunks=chunks, dtype="uint8")[:] = images


@pytest.mark.parametrize("name", ["saved", "cells.ome.tif", "bands.zarr"])
def test_data_of_other_libraries_is_fitted_encoded_and_found_again(tmp_path, name, monkeypatch):
    """The arrays are streamed from disk."""
    monkeypatch.setattr("unweave.data.streaming.SHARE", 0)
    source, out = tmp_path / name, tmp_path / "out"
    save_elsewhere(source)
    factors = ["--factors", "label"] if name == "saved" else []
    main(["fit", str(source), *QUICK, *factors, "-o", str(out)])
    main(["encode", str(out), str(source), "-o", str(tmp_path / "codes.csv")])
    codes = [pd.read_csv(path) for path in (out / "codes.csv", tmp_path / "codes.csv")]
    assert len(codes[0]) == 64
    np.testing.assert_allclose(*(one.iloc[:, -3:] for one in codes), atol=1e-5)
    data = images_of_folder(out)
    channels = {"saved": 1, "cells.ome.tif": 2, "bands.zarr": 5}[name]
    assert data.shape == uw.load(out / "best").shape == (32, 32, channels)
    assert isinstance(data.store, Streamed) == (name == "bands.zarr")
    assert (data.labels is not None) == (name == "saved")


def test_codes_are_those_of_the_chosen_model_with_their_files(fitted):
    codes = pd.read_csv(fitted / "out" / "codes.csv")
    assert codes["file"].tolist() == [f"square-{number:03}.png" for number in range(80)]
    data = uw.data.load(fitted / "images", size=32)
    mean, _ = uw.load(fitted / "out" / "best").encode(data)
    np.testing.assert_allclose(codes[["z0", "z1", "z2"]], mean, atol=1e-5)


def test_latents_describe_the_columns_of_the_codes(fitted):
    latents = pd.read_csv(fitted / "out" / "latents.csv")
    codes = pd.read_csv(fitted / "out" / "codes.csv")
    assert latents["column"].tolist() == codes.columns.tolist()[1:] == ["z0", "z1", "z2"]
    assert (latents["clear"] == (latents["amount"] > 0.3)).all()
    assert latents[["name", "factor", "association"]].isna().to_numpy().all()
    measures = json.loads((fitted / "out" / "fit.json").read_text())["verdict"]["measures"]
    assert latents["clear"].sum() == measures["clear_latents"]


def test_names_are_kept_and_used_when_a_fit_is_repeated(fitted, tmp_path, capsys):
    out = shutil.copytree(fitted / "out", tmp_path / "out")
    main(["name", str(out), "--names", "1=left, right"])
    main(["fit", str(fitted / "images"), *QUICK, "-o", str(out)])
    assert pd.read_csv(out / "codes.csv").columns[2] == "z1_left_right"
    latents = pd.read_csv(out / "latents.csv")
    assert latents["name"].fillna("").tolist() == ["", "left, right", ""]
    (out / "names.json").write_text("{")
    capsys.readouterr()
    output = refused(["fit", str(fitted / "images"), *QUICK, "-o", str(out)], capsys)
    assert "names.json is damaged" in output


def test_the_report_is_about_this_fit(fitted):
    page = (fitted / "out" / "report.html").read_text()
    assert '<section class="verdict failed"' in page
    assert "Why not PCA?" in page
    best = uw.load(fitted / "out" / "best").config
    assert f"γ={best.method.gamma:g}" in page
    assert f"seed {best.seed}" in page
    assert "80 images" in page
    command = (
        f"unweave fit {fitted / 'images'} --steps 3 --precision {best.precision} --size 32 "
        "--seeds 2 --latents 3 --batch 4"
    )
    assert command in page
    assert len(page) < 5e6


def test_repeating_a_fit_trains_nothing_and_lists_the_results(fitted, capsys):
    out = fitted / "out"
    files = sorted(out.glob("**/weights.safetensors"))
    assert len(files) == 5
    written = [file.stat().st_mtime_ns for file in files]
    main(["fit", str(fitted / "images"), *QUICK, "-o", str(out)])
    assert [file.stat().st_mtime_ns for file in files] == written
    output = capsys.readouterr().out.strip().splitlines()
    assert output[-1].endswith(f"Report: {out / 'report.html'}")
    assert any(line.endswith(f"unweave explore {out}") for line in output)
    assert any(line.startswith("Verdict: failed. ") for line in output)  # after 3 steps


def test_a_finished_fit_is_not_trained_further_unless_asked(fitted, tmp_path, capsys):
    args = [*QUICK[:2], *QUICK[4:]]  # all but --steps
    out = shutil.copytree(fitted / "out", tmp_path / "out")
    main(["fit", str(fitted / "images"), *args, "-o", str(out)])
    assert f"{out} is finished" in capsys.readouterr().err
    assert uw.load(out / "best").config.steps == 3
    main(["fit", str(fitted / "images"), *args, "--steps", "4", "-o", str(out)])
    assert "at step 3" in capsys.readouterr().err
    steps = sorted(uw.load(run).config.steps for run in out.glob("runs/*"))
    assert steps == [1, 1, 4, 4]
    assert uw.load(out / "best").config.steps == 4


@pytest.mark.parametrize("which", ["", "best", "runs/*"])
def test_models_of_a_fit_are_drawn_without_naming_the_images(fitted, which, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = min((fitted / "out").glob(which)) if which else fitted / "out"
    main(["show", str(model), "--kind", "reconstructions", "-o", "own.png"])
    data = uw.data.load(fitted / "images", size=32)
    best = uw.load(model if which else model / "best")
    uw.show.reconstructions(best, data).save("same.png")
    assert (tmp_path / "own.png").read_bytes() == (tmp_path / "same.png").read_bytes()


def test_the_explorer_of_a_fit_has_its_images(fitted, start):
    process = start("explore", fitted / "out", "--no-open")
    try:
        while process.poll() is None and "(Ctrl-C" not in process.stderr:
            time.sleep(0.02)
        address = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stderr)[0]
        with httpx.Client(timeout=60) as client:
            client.get(address)  # which exchanges the token for a cookie
            output = client.get(address.partition("?")[0] + "models/0").json()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    assert (output["images"], output["shape"]) == (80, [32, 32, 1])


def test_the_explorer_hides_images_that_the_models_were_not_trained_on(fitted, tmp_path):
    shutil.copytree(fitted, tmp_path / "fit")
    others = tmp_path / "private"
    others.mkdir()
    for number in range(70):
        Image.new("L", (32, 32), number).save(others / f"{number}.png")
    assert len(images_of_folder(tmp_path / "fit" / "out")) == 80
    note = tmp_path / "fit" / "out" / "source.json"
    note.write_text(json.dumps({"source": "../../private", "options": {"size": 32}}))
    assert images_of_folder(tmp_path / "fit" / "out") is None


def test_the_scale_of_16_bit_images_is_used_by_later_commands(tmp_path, capsys):
    (tmp_path / "images").mkdir()
    rng = np.random.default_rng(0)
    for number in range(70):
        levels = np.full((32, 40), number * 10, np.uint16)
        levels[:, rng.integers(0, 30) :] = 3_000 + number
        Image.fromarray(levels).save(tmp_path / "images" / f"{number:02}.tif")
    out = tmp_path / "out"
    scale = ["--bits", "14", "--non-square", "pad"]
    main(["fit", str(tmp_path / "images"), *QUICK, *scale, "-o", str(out)])
    printed = capsys.readouterr().out
    assert "from 14 bits" in printed
    assert "70 of 70 files" in printed
    recorded = json.loads((out / "source.json").read_text())["options"]
    assert recorded == {"size": 32, "bits": 14, "non_square": "pad"}
    data = images_of_folder(out)
    assert data.bits == 14
    assert data.origin == uw.load(out / "best").config.data
    codes = pd.read_csv(out / "codes.csv")
    main(["encode", str(out / "best"), str(tmp_path / "images"), "-o", f"{tmp_path}/codes.csv"])
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "codes.csv"), codes)
    assert "14-bit" in capsys.readouterr().out
    (out / "source.json").write_text(
        json.dumps({"source": "../images", "options": {"size": 32, "bits": 12}})
    )
    assert images_of_folder(out) is None


def test_moved_or_changed_images_must_be_passed_with_data(fitted, tmp_path, capsys):
    shutil.copytree(fitted, tmp_path / "moved")
    moved = tmp_path / "moved"
    args = ["show", str(moved / "out"), "--kind", "reconstructions", "-o", f"{tmp_path}/a.png"]
    (moved / "images" / "square-000.png").unlink()
    output = refused(args, capsys)
    assert "--data" in output
    assert "'images'" in output
    (moved / "images").rename(moved / "elsewhere")
    output = refused(args, capsys)
    assert "'images'" in output
    (moved / "out" / "source.json").write_text("{}")
    assert str(moved / "out" / "source.json") in refused(args, capsys)


def test_an_unknown_method_is_an_error_before_images_are_read(fitted, capsys):
    output = refused(["fit", str(fitted / "no-such-folder"), "--method", "betavae"], capsys)
    assert "'beta_vae'" in output


def test_a_damaged_copy_of_the_chosen_model_is_replaced(fitted, tmp_path, capsys):
    out = tmp_path / "out"
    shutil.copytree(fitted / "out", out)
    weights = out / "best" / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:1000])
    main(["fit", str(fitted / "images"), *QUICK, "-o", str(out)])
    assert "best was damaged" in capsys.readouterr().err
    assert weights.read_bytes() == whole
    assert not list(out.glob(".best*"))


def test_other_files_in_the_output_folder_are_never_replaced(fitted, tmp_path, capsys):
    mine = tmp_path / "codes.csv"
    mine.write_text("mine")
    output = refused(["fit", str(fitted / "images"), *QUICK, "-o", str(tmp_path)], capsys)
    for datum in (str(tmp_path), mine.name, "--out"):
        assert datum in output
    assert mine.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["codes.csv"]


def test_the_output_folder_must_not_be_inside_the_image_folder(fitted, monkeypatch, capsys):
    monkeypatch.chdir(fitted / "images")
    output = refused(["fit", ".", *QUICK], capsys)
    assert "images-fit" in output
    assert "--out" in output
    assert not (fitted / "images" / "images-fit").exists()


def test_best_is_replaced_if_another_model_ranks_first(fitted, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(fitted / "out", out)
    shutil.rmtree(out / "best")
    ranking = pd.read_csv(out / "ranking.csv")
    shutil.copytree(out / "runs" / ranking["run"].iloc[-1], out / "best")
    main(["fit", str(fitted / "images"), *QUICK, "-o", str(out)])
    assert uw.load(out / "best").config.hash == ranking["run"][0]
    assert not list(out.glob(".*"))


def test_codes_of_very_many_images_are_not_written_but_a_command_is_printed(
    fitted, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("unweave.cli.fit.MAX_CODES", 79)
    monkeypatch.chdir(tmp_path)
    main(["fit", str(fitted / "images"), *QUICK, "-o", "out"])
    assert not (tmp_path / "out" / "codes.csv").exists()
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "Codes of your" in line]
    main(line[line.index("unweave ") :].split()[1:])
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "codes.csv"), pd.read_csv(fitted / "out" / "codes.csv")
    )


def test_too_few_images_are_an_error(tmp_path, capsys):
    write_pictures(tmp_path / "few", count=3)
    output = refused(["fit", str(tmp_path / "few"), *QUICK], capsys)
    assert output == (
        "unweave: few must have at least 64 images, got 3; several thousand are recommended"
    )


def test_an_image_too_large_for_memory_is_skipped(tmp_path, caplog):
    write_pictures(tmp_path / "images", count=64)
    Image.new("1", (20_000, 20_000)).save(tmp_path / "images" / "zz-huge.png")
    main(["fit", str(tmp_path / "images"), *QUICK, "-o", str(tmp_path / "out")])
    assert re.search(r"zz-huge\.png: .*pixels", caplog.text)
    assert len(pd.read_csv(tmp_path / "out" / "codes.csv")) == 64


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--method", "vae"], r"method with a regularisation strength 'vae'.*beta_vae"),
        (["--method", "beta-vae", "--strengths", "-1"], "beta"),
        (["--strengths", "1"], "--method"),
        (["--minutes", "0"], "minutes"),
        (["--seeds", "0"], "seeds must be an integer"),
        (["--method", "beta-vae", "--strengths", "1", "1"], "duplicates"),
        (["--fleet-size", "-1"], "fleet_size.*-1"),
        (["--device", "cuda"], "device cuda"),
    ],
)
def test_invalid_options_are_one_sentence(fitted, tmp_path, capsys, args, sentence):
    few = [word for word in QUICK if word != "--steps"]
    few.remove("3")  # the value of --steps, which --minutes replaces
    output = refused(["fit", str(fitted / "images"), *few, "-o", str(tmp_path), *args], capsys)
    assert re.search(sentence, output)


def test_resuming_after_a_kill_gives_the_same_models(fitted, tmp_path, catches, start):
    out = tmp_path / "out"
    args = ["fit", str(fitted / "images"), *QUICK, "--steps", "60", "-o", str(out)]
    process = start(*args)
    while process.poll() is None and not catches(process, signal.SIGTERM):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130, process.stderr
    assert list((out / "runs").glob(".fleet-*.safetensors"))
    main(args)
    best = uw.load(out / "best")
    data = uw.data.load(fitted / "images", size=32)
    (alone,) = uw.train(
        best.config.method,
        data,
        seeds=[best.config.seed],
        steps=60,
        batch=4,
        latents=3,
        optimiser=best.config.optimiser,
        precision=best.config.precision,
        likelihood=best.config.likelihood,
        architecture=best.config.architecture,
        init="he",
        progress=False,
    )
    np.testing.assert_allclose(
        best.parameters["encoder"], alone.parameters["encoder"], rtol=1e-4, atol=1e-5
    )


def test_file_names_that_are_not_text_are_supported(tmp_path):
    images = tmp_path / os.fsdecode(b"im\xe9ges")
    write_pictures(images, 64)
    odd = {b"caf\xe9.png": r"caf\xe9.png", b"two\nlines.png": r"two\nlines.png"}
    for number, name in enumerate(odd):
        (images / f"square-{number:03}.png").rename(images / os.fsdecode(name))
    (images / os.fsdecode(b"bro\xe9ken.png")).write_text("not a picture")
    out = tmp_path / "out"
    main(["fit", str(images), *QUICK, "-o", str(out)])
    assert set(odd.values()) <= set(pd.read_csv(out / "codes.csv")["file"])
    assert r"im\xe9ges" in (out / "report.html").read_text()
    for ending, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
        codes = tmp_path / f"codes{ending}"
        main(["encode", str(out), str(images), "-o", str(codes)])
        assert set(odd.values()) <= set(read(codes)["file"])
    main(["show", str(out), "-o", str(tmp_path / "shown.png")])  # finds the images again
    assert (tmp_path / "shown.png").stat().st_size


def test_large_images_are_reduced_on_a_cpu_without_repeated_warnings(tmp_path, capsys, caplog):
    images, out = tmp_path / "images", tmp_path / "out"
    write_pictures(images)
    (images / "broken.png").write_text("not a picture")
    quick = [word for word in QUICK if word not in ("--size", "32")]
    main(["fit", str(images), *quick, "--device", "cpu", "-o", str(out)])
    assert sum("broken.png" in record.getMessage() for record in caplog.records) == 1
    assert "64 × 64 to 32 × 32" in capsys.readouterr().err
    assert uw.load(out / "best").decode(np.zeros((1, 3))).shape == (1, 32, 32, 1)
    recorded = json.loads((out / "source.json").read_text())
    assert recorded["options"] == {"size": 32}
    main(["encode", str(out), str(images), "-o", str(tmp_path / "codes.csv")])
    np.testing.assert_allclose(
        pd.read_csv(tmp_path / "codes.csv")["z0"], pd.read_csv(out / "codes.csv")["z0"], atol=1e-5
    )
