"""Tensors and metadata in one file."""

import pytest
import torch
from safetensors.torch import save_file

from unweave.io.tensors import digest_of, open_tensors, write_tensors

TENSORS = {
    "step": torch.tensor(7),
    "alive": torch.tensor([True, False]),
    "empty": torch.zeros(2, 0),
    "weights": torch.arange(6.0).reshape(2, 3).T,
    "exact": torch.arange(3, dtype=torch.float64),
}


def test_reading_returns_what_was_written(tmp_path):
    facts = {"runs": ["a", "b"], "ε": 0.1, "none": None}
    write_tensors(tmp_path / "x", TENSORS, facts)
    with open_tensors(tmp_path / "x") as file:
        assert file.facts == facts
        assert file.checked
        assert file.layout == {n: (v.dtype, tuple(v.shape)) for n, v in TENSORS.items()}
        tensors = file.tensors()
    assert all(torch.equal(tensors[name], value) for name, value in TENSORS.items())
    assert digest_of(tensors) == digest_of(TENSORS)


def test_the_file_does_not_depend_on_the_order_of_entries(tmp_path):
    write_tensors(tmp_path / "x", TENSORS, {"a": 1, "b": 2})
    write_tensors(tmp_path / "y", dict(reversed(TENSORS.items())), {"b": 2, "a": 1})
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_metadata_of_earlier_versions_are_read(tmp_path):
    save_file({"x": torch.zeros(1)}, tmp_path / "x", metadata={"shape": "[3, 4]", "step": "-1"})
    with open_tensors(tmp_path / "x") as file:
        assert (file.facts, file.checked) == ({"shape": [3, 4], "step": -1}, False)


def test_changed_facts_are_found(tmp_path):
    write_tensors(tmp_path / "x", TENSORS, {"step": 31})
    content = (tmp_path / "x").read_bytes()
    (tmp_path / "x").write_bytes(content.replace(b": 31", b": 37"))
    with pytest.raises(ValueError, match="checksum"), open_tensors(tmp_path / "x"):
        pass


def test_names_types_shapes_and_numbers_are_in_the_digest():
    one = torch.arange(6.0)
    digests = {
        digest_of(tensors)
        for tensors in (
            {"a": one},
            {"b": one},
            {"a": one.reshape(2, 3)},
            {"a": one.view(torch.int32)},
            {"a": one.nextafter(one + 1)},
            {"a": one[:3], "b": one[3:]},
            {"a": one[:4], "b": one[4:]},
        )
    }
    assert len(digests) == 7
