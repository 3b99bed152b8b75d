"""Files saved by the first edition still open and give the same codes."""

import json
from pathlib import Path

import numpy as np

import unweave as uw

HASH = "19245f295f176fb6"
SAVED = Path(__file__).parent / "first_edition"


def test_an_unweaver_gives_the_same_codes():
    fitted = uw.Unweaver.load(SAVED / "unweaver")
    codes = fitted.transform(np.load(SAVED / "X.npy"))
    np.testing.assert_allclose(codes, np.load(SAVED / "codes.npy"), rtol=0, atol=1e-6)
    assert fitted.model_.config.method == uw.methods.BetaVAE(beta=4)
    assert len(fitted.ranking_) == 4


def test_its_model_keeps_the_hash_of_its_config():
    model = uw.load(SAVED / "unweaver")
    plain = json.loads((SAVED / "unweaver" / "config.json").read_text())
    assert model.config.to_dict() == plain
    assert model.config.hash == HASH
