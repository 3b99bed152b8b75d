"""HTTP API of the explorer."""

import base64
import io
import json
import os
import re

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from tests.explorer.explorer_tools import PORT, TOKEN, Client
from unweave.explorer.app import make_app
from unweave.explorer.guard import MAX_DISCARDED_BYTES
from unweave.explorer.model_index import entries_of
from unweave.explorer.opened_models import OpenedModels
from unweave.explorer.requests import IMAGE_BYTES, JSON_BYTES, PIXELS


def rounded(images):
    return np.rint(images * 255).astype(np.uint8)


def decode(client, codes, place=0):
    return client.post(f"/models/{place}/decode", content=json.dumps({"codes": codes}))


def picture_file(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def pixels_of(answer, shape=(64, 64, 1)):
    return np.frombuffer(base64.b64decode(answer.json()["pixels"]), np.uint8).reshape(shape)


def test_model_list(client):
    first, second, raw, damaged = client.get("/models").json()["models"]
    assert (first["method"], first["settings"], first["seed"]) == ("beta-vae", {"beta": 1.0}, 0)
    assert first["label"] == uw.methods.BetaVAE.label
    assert second["settings"] == {"beta": 4.0}
    assert second["members"] == 1
    assert "never trained" in raw["warning"]
    assert "weights.safetensors" in damaged["trouble"]


def test_an_ensemble_is_its_first_member(sprites, planted):
    small = {"steps": 1, "batch": 4, "latents": 4, "architecture": "small_mlp"}
    (trained,) = uw.train(uw.methods.VAEEnsemble(members=3), sprites, progress=False, **small)
    model, _ = planted(trained, sprites)
    client = Client(make_app(OpenedModels(entries_of(model), sprites), PORT, TOKEN))
    about_model = client.get("/models/0").json()
    assert about_model["members"] == 3
    active = np.array(about_model["activity"]) > about_model["threshold"]
    assert active.tolist() == [True, True, False, True]
    answer = client.get("/models/0/images/5").json()
    image = sprites.images([5])
    np.testing.assert_allclose(answer["code"], model.encode(image)[0][0], atol=1e-6)
    assert np.abs(model.encode(image, member=1)[0][0] - answer["code"]).max() > 0.1


def test_invalid_names_and_settings_do_not_affect_other_models(fleet, tmp_path, resettled):
    fleet.save(tmp_path)
    (tmp_path / os.fsdecode(b"no \xff text")).mkdir()
    (tmp_path / os.fsdecode(b"no \xff text") / "config.json").write_text("{")
    endless = fleet[0].save(tmp_path / "endless")
    text = (endless / "config.json").read_text()
    resettled(endless, text.replace('"beta": 1.0', '"beta": Infinity'))
    client = Client(make_app(OpenedModels(entries_of(tmp_path)), PORT, TOKEN))
    *good, odd, damaged = client.get("/models").json()["models"]
    assert [one["settings"] for one in good] == [{"beta": 1}, {"beta": 4}]
    assert (odd["run"], damaged["run"]) == ("endless", "no \udcff text")
    assert "method.beta" in client.get("/models/2").json()["error"]
    assert client.get("/models/3").json()["error"]


def test_models_of_the_same_data_have_the_same_origin(fleet, raw):
    few = uw.data.load("dsprites").slice(scale=5, orientation=0, posX=[0], posY=[0, 3])
    other = uw.train(uw.methods.VAE(), few, steps=0, latents=5, progress=False)
    client = Client(make_app(OpenedModels(entries_of([fleet, raw, other])), PORT, TOKEN))
    said = [client.get(f"/models/{place}").json() for place in range(4)]
    assert {one["data"] for one in said} == {"dsprites"}
    assert said[0]["origin"] == said[1]["origin"] == said[2]["origin"] != said[3]["origin"]


def test_model_description(client, sprites):
    said = client.get("/models/1").json()
    assert said["shape"] == [64, 64, 1]
    assert said["latents"] == len(said["activity"]) == 5
    assert said["activity"][2] == 0
    assert said["activity_from"] == "data"
    assert said["images"] == len(sprites)
    measured = client.get("/models/1/activity").json()
    assert measured["activity_complete"]
    assert measured["activity"] == said["activity"]
    assert client.get("/models/9/activity").status_code == 404


def test_decoded_pixels_are_those_of_the_model(client, fleet):
    codes = np.random.default_rng(1).normal(size=(9, 5)).round(3)
    for place in (0, 1):
        answer = decode(client, codes.tolist(), place)
        pixels = np.frombuffer(answer.content, np.uint8).reshape(9, 64, 64, 1)
        np.testing.assert_array_equal(pixels, rounded(fleet[place].decode(codes)))
        assert pixels.std() > 5
    assert not np.array_equal(pixels[0], pixels[1])


def test_a_picture_is_a_png_of_the_same(client, fleet):
    code = [[0.5, -1, 0, 2, 1]]
    answer = client.post("/models/1/picture", content=json.dumps({"codes": code}))
    assert answer.headers["content-type"] == "image/png"
    with Image.open(io.BytesIO(answer.content)) as image:
        np.testing.assert_array_equal(np.asarray(image), rounded(fleet[1].decode(code))[0, ..., 0])


def test_images_of_the_data_come_with_their_codes(client, fleet, sprites):
    answer = client.get("/models/0/images/17")
    np.testing.assert_array_equal(pixels_of(answer), sprites[17])
    mean, _ = fleet[0].encode(sprites.images([17]))
    assert np.float32(answer.json()["code"]).tolist() == mean[0].tolist()
    assert answer.json()["factors"]["shape"] == "square"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_uploads_are_preprocessed_as_by_load(client, fleet, tmp_path, kind):
    photo = Image.effect_noise((300, 190), 80).convert("RGB")
    photo.paste((255, 0, 0), (20, 30, 120, 150))
    rotated = Image.Exif()
    rotated[0x0112] = 6  # taken with the camera held sideways
    body = picture_file(photo, kind, exif=rotated)
    for k in range(2):
        (tmp_path / f"{k}.{kind.lower()}").write_bytes(body)
    loaded = uw.data.load(tmp_path, size=64, channels=1)
    answer = client.post("/models/0/encode", content=body)
    np.testing.assert_array_equal(pixels_of(answer), loaded[0])
    mean, _ = fleet[0].encode(loaded.images([0]))
    assert np.float32(answer.json()["code"]).tolist() == mean[0].tolist()


def test_uploads_are_scaled_and_padded_like_the_training_images(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for number in range(64):  # 12 bits in files of 16
        levels = rng.integers(0, 4096, (20, 30)).astype(np.uint16)
        Image.fromarray(levels).save(tmp_path / "images" / f"{number:02}.png")
    data = uw.data.load(tmp_path / "images", size=32, non_square="pad")
    tiny = {"latents": 2, "architecture": "small_mlp", "batch": 4}
    fleet = uw.train("vae", data, steps=1, progress=False, **tiny)
    client = Client(make_app(OpenedModels(entries_of(fleet), data), PORT, TOKEN))
    body = (tmp_path / "images" / "07.png").read_bytes()
    pixels = pixels_of(client.post("/models/0/encode", content=body), (32, 32, 1))
    np.testing.assert_array_equal(pixels, data[7])
    assert pixels.max() > 200


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty"),
        (b"no image at all", "not a supported image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a supported image"),
        (picture_file(Image.effect_noise((90, 90), 50))[:900], "damaged"),
    ],
)
def test_files_that_are_not_images_are_rejected(client, body, reason):
    answer = client.post("/models/0/encode", content=body)
    assert answer.status_code == 422
    assert reason in answer.json()["error"]


def test_an_image_with_too_many_pixels_is_rejected_before_decoding(client):
    for side in (7100, 20_000):  # 50 and 400 million pixels, of a few kilobytes
        bomb = picture_file(Image.new("1", (side, side)))
        assert side * side > PIXELS
        answer = client.post("/models/0/encode", content=bomb)
        assert answer.status_code == 413
        assert "50 million pixels" in answer.json()["error"]


def test_a_large_body_is_rejected_by_its_length(client):
    heavy = {"Content-Length": str(IMAGE_BYTES + 1)}
    answer = client.post("/models/0/encode", content=b"x", headers=heavy)
    assert answer.status_code == 413
    assert "32 MB" in answer.json()["error"]


@pytest.mark.parametrize(("path", "limit"), [("encode", IMAGE_BYTES), ("decode", JSON_BYTES)])
def test_a_large_body_without_a_length_is_read_before_it_is_rejected(client, path, limit):
    sent = []

    async def parts():
        for _ in range(2 * limit // 2**19):
            yield bytes(2**19)
            sent.append(2**19)

    answer = client.post(f"/models/0/{path}", content=parts())
    assert answer.status_code == 413
    assert "too large" in answer.json()["error"]
    assert sum(sent) == 2 * limit
    assert "connection" not in answer.headers


def test_an_endless_body_is_cut_off(client):
    sent = []
    part = bytes(2**20)

    async def endless():
        while True:
            sent.append(len(part))
            yield part

    for path in ("models/0/decode", "nowhere"):
        sent.clear()
        answer = client.post(f"/{path}", content=endless())
        assert answer.status_code in (404, 413)
        assert answer.headers["connection"] == "close"
        assert sum(sent) <= MAX_DISCARDED_BYTES + JSON_BYTES + 2 * len(part)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("nonsense", '{"codes": '),
        ("[]", '{"codes": '),
        ("[" * 100_000, '{"codes": '),
        (b"\xff\xfe", '{"codes": '),
        (f'{{"codes": [[{"9" * 400_000}]]}}', '{"codes": '),
        ('{"codes": 3}', "1 to 33 codes"),
        ('{"codes": []}', "1 to 33 codes"),
        (json.dumps({"codes": [[0] * 5] * 34}), "1 to 33 codes"),
        ('{"codes": [[0, 0, 0, 0]]}', "5 latents, got 4"),
        ('{"codes": [7]}', "5 latents, got int"),
        ('{"codes": [[0, 0, 0, 0, NaN]]}', "from -10 to 10"),
        ('{"codes": [[0, 0, 0, 0, Infinity]]}', "from -10 to 10"),
        ('{"codes": [[0, 0, 0, 0, 10.01]]}', "from -10 to 10"),
        ('{"codes": [[0, 0, 0, 0, 1e999]]}', "from -10 to 10"),
        (f'{{"codes": [[0, 0, 0, 0, {"9" * 4000}]]}}', "from -10 to 10"),
        ('{"codes": [[0, 0, 0, 0, "1"]]}', "from -10 to 10"),
        ('{"codes": [[0, 0, 0, 0, true]]}', "from -10 to 10"),
        ('{"codes": [[0, 0, 0, 0, null]]}', "from -10 to 10"),
        ('{"codes": [[0, 0, 0, 0, [1]]]}', "from -10 to 10"),
    ],
)
def test_invalid_codes_are_rejected(client, body, reason):
    answer = client.post("/models/0/decode", content=body)
    assert answer.status_code == 422
    assert reason in answer.json()["error"]


def test_unknown_paths_are_404(client):
    for name in ("4", "-1", "x", "0/images/192", "9" * 5000, f"0/images/{'9' * 5000}"):
        assert client.get(f"/models/{name}").status_code == 404, name
    assert client.post("/models/9/decode", content="{}").status_code == 404
    assert client.get("/models/0/decode").status_code == 405


def test_a_damaged_model_does_not_affect_the_others(client):
    answer = client.get("/models/3")
    assert answer.status_code == 409
    assert "weights.safetensors" in answer.json()["error"]
    assert decode(client, [[0] * 5], 3).status_code == 409
    assert decode(client, [[0] * 5], 1).status_code == 200


def test_decoding_is_fast(client):
    """The best of 40, which is independent of other load on the machine: 1 to 2 ms."""
    spent = []
    for k in range(40):
        answer = decode(client, [[k / 20 - 1] * 5])
        spent.append(float(re.search(r"dur=([\d.]+)", answer.headers["server-timing"])[1]))
    assert min(spent) < 50


@pytest.fixture
def fit(fleet, tmp_path):
    """Save the models as a fit with a verdict, the second as the best; return the folder."""
    fleet.save(tmp_path / "fit" / "runs")
    fleet[1].save(tmp_path / "fit" / "best")
    verdict = {"level": "weak", "reasons": ["One.", "Two."], "advice": "More.", "measures": {}}
    (tmp_path / "fit" / "fit.json").write_text(json.dumps({"verdict": verdict}))
    return tmp_path / "fit"


def named(client, names, place=0):
    return client.post(f"/models/{place}/names", content=json.dumps({"names": names}))


@pytest.mark.parametrize("inside", ["", "best"])
def test_only_the_chosen_model_has_the_verdict_on_the_fit(fit, inside):
    client = Client(make_app(OpenedModels(entries_of(fit / inside)), PORT, TOKEN))
    verdict = {"level": "weak", "reasons": ["One.", "Two."], "advice": "More."}
    assert [one["verdict"] for one in client.get("/models").json()["models"]] == (
        [verdict] if inside else [verdict, None]
    )
    assert client.get("/models/0").json()["verdict"] == verdict


def test_names_are_recorded_next_to_the_model(fit, fleet):
    client = Client(make_app(OpenedModels(entries_of(fit)), PORT, TOKEN))
    before = {path: path.read_bytes() for path in fit.rglob("*") if path.is_file()}
    assert client.get("/models/0").json()["names"] == {}
    assert client.get("/models/0").json()["can_be_named"]
    assert named(client, {"3": "size"}).json() == {"names": {"3": "size"}}
    assert client.get("/models/0").json()["names"] == {"3": "size"}
    assert client.get("/models/1").json()["names"] == {}
    assert json.loads((fit / "names.json").read_text()) == {
        "latents": {fleet.configs[1].hash: {"3": "size"}}
    }
    assert named(client, {}).json() == {"names": {}}
    (fit / "names.json").unlink()
    assert {path: path.read_bytes() for path in fit.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"names": ["size"]}',
        '{"names": {"5": "size"}}',
        '{"names": {"0": "two\\nlines"}}',
        '{"names": {"0": "' + "x" * 41 + '"}}',
        '{"names": {"../../x": "size"}}',
        '{"names": {"0": {"latents": 1}}}',
        "[" * 10**5,
    ],
)
def test_invalid_names_are_rejected_and_nothing_is_written(fit, content):
    client = Client(make_app(OpenedModels(entries_of(fit)), PORT, TOKEN))
    answer = client.post("/models/0/names", content=content)
    assert answer.status_code == 422
    assert "names" in answer.json()["error"]
    assert not (fit / "names.json").exists()
    assert client.post("/models/0/names", content="x" * 2**18).status_code == 413


def test_names_need_the_token_and_a_model_in_a_folder(fit, fleet, sprites):
    app = make_app(OpenedModels(entries_of(fit)), PORT, TOKEN)
    assert named(Client(app, cookie={}), {"0": "size"}).status_code == 403
    assert not (fit / "names.json").exists()
    client = Client(make_app(OpenedModels(entries_of(fleet), sprites), PORT, TOKEN))
    assert not client.get("/models/0").json()["can_be_named"]
    answer = named(client, {"0": "size"})
    assert answer.status_code == 409
    assert "in memory" in answer.json()["error"]
    assert named(client, {"0": "size"}, place=9).status_code == 404


def test_damaged_names_are_a_warning_and_are_kept(fit):
    (fit / "names.json").write_text("{")
    client = Client(make_app(OpenedModels(entries_of(fit)), PORT, TOKEN))
    assert "names.json is damaged" in client.get("/models/0").json()["warning"]
    assert "names.json is damaged" in named(client, {"0": "size"}).json()["error"]
    assert (fit / "names.json").read_text() == "{"


def test_images_from_files_have_their_names(fleet, sprites, tmp_path):
    for k in range(3):
        Image.fromarray(np.asarray(sprites[k])[..., 0]).save(tmp_path / f"sprite {k}.png")
    data = uw.data.load(tmp_path, channels=1)
    client = Client(make_app(OpenedModels(entries_of(fleet), data), PORT, TOKEN))
    assert client.get("/models/0/images/2").json()["file"] == "sprite 2.png"
