"""Curves of manipulations are measured at fewer images."""

import importlib

import pytest

HERE = "unweave.papers.inductive_biases.manipulation"


@pytest.fixture(scope="module", autouse=True)
def few_images():
    """Measure curves on 16 images, since every row of a curve takes longer than a step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module(f"{HERE}.directions"), "EVALUATED_AT", 16)
        yield
