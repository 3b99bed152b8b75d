"""Estimated costs of runs compared with measurements on an H200."""

import json
from pathlib import Path

import pytest
import torch

from unweave.methods import MSVAE, BetaTCVAE, BetaVAE, FactorVAE, VAEEnsemble
from unweave.models.config import Config
from unweave.study.planning import model_bytes, seconds_per_step

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
H200 = torch.device("cuda")
GREY, COLOUR = (64, 64, 1), (64, 64, 3)


def measured(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def microseconds(config: Config, shape: tuple[int, int, int]) -> float:
    return 1e6 * seconds_per_step(config, shape, H200)


def test_second_stages():
    config = Config(
        method=MSVAE(),
        first=Config(method=BetaTCVAE(), precision="bf16"),
        batch=32,
        latents=5,
        architecture="dcgan",
        precision="bf16",
    )
    fleets = {row["models"]: row for row in measured("stages_h200")["rows"]}
    found = microseconds(config, COLOUR)
    assert fleets[8]["us_per_model_step"] * 0.9 < found < fleets[4]["us_per_model_step"]
    # A fleet whose size is limited by this estimate fits.
    assert 1e6 * fleets[8]["megabytes"] / 8 == pytest.approx(model_bytes(config, COLOUR), rel=0.1)


def test_dense_layers_and_large_batches():
    config = Config(method=BetaVAE(), latents=20, architecture="mlp", batch=2048, precision="bf16")
    row = measured("isa_2048_h200")["rows"][0]
    assert row["case"] == "beta_vae"
    assert microseconds(config, GREY) == pytest.approx(row["us_per_model_step"], rel=0.1)
    assert row["gb_per_model"] < model_bytes(config, GREY) / 1e9 < 4 * row["gb_per_model"]


def test_usual_models():
    rows = {
        row["models"]: row
        for row in measured("fleet_h200")["fleet"]
        if (row["method"], row["precision"], row["data"]) == ("beta_vae", "bf16", "dsprites")
    }
    usual = Config(method=BetaVAE(), precision="bf16")
    expected = rows[128]["us_per_model_step"]
    assert microseconds(usual, GREY) == pytest.approx(expected, rel=0.01)
    assert microseconds(Config(method=FactorVAE(), precision="bf16"), GREY) > 2 * expected
    exact = Config(method=BetaVAE(), precision="float32")
    assert microseconds(exact, GREY) == pytest.approx(5 * expected, rel=0.01)


def test_ensembles():
    for row in measured("ensemble_h200")["fully_coupled"]:
        method = VAEEnsemble(members=row["members"])
        config = Config(method=method, architecture="conv4x4", precision="bf16")
        each = microseconds(config, GREY) / row["members"]
        assert each == pytest.approx(row["us_per_member_step"], rel=0.15)
