"""Names of latents: written and read, and files and names that are not to be trusted."""

import json

import pytest

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.methods import VAE
from unweave.models.config import Config
from unweave.models.names import (
    MAX_LENGTH,
    check_names,
    checked_names,
    column_name,
    read_names,
    write_names,
)

CONFIG = Config(method=VAE(), latents=4)
OTHER = Config(method=VAE(), latents=4, seed=1)


def test_names_of_the_runs_and_the_best_model_of_a_fit_are_in_one_file(tmp_path):
    run, best = tmp_path / "runs" / CONFIG.hash, tmp_path / "best"
    assert read_names(best, CONFIG) == {}
    write_names(run, CONFIG, {2: "size"})
    write_names(best, OTHER, {0: "left – right", 1: "größe"})
    assert [path.name for path in tmp_path.iterdir()] == ["names.json"]
    assert read_names(best, CONFIG) == read_names(run, CONFIG) == {2: "size"}
    assert read_names(best, OTHER) == {0: "left – right", 1: "größe"}
    write_names(best, CONFIG, {})
    assert read_names(run, CONFIG) == {}
    assert read_names(best, OTHER)[1] == "größe"


def test_names_of_a_single_model_are_in_its_folder(tmp_path):
    write_names(tmp_path / "model", CONFIG, {0: "x"})
    assert (tmp_path / "model" / "names.json").exists()
    assert read_names(tmp_path / "model", CONFIG) == {0: "x"}


@pytest.mark.parametrize(
    "names",
    [
        [],
        {"4": "size"},
        {"-1": "size"},
        {"01": "size"},
        {"٣": "size"},
        {"9" * 5000: "size"},
        {"0": ""},
        {"0": " size"},
        {"0": "two\nlines"},
        {"0": "\x1b[31m"},
        {"0": "\u202ereversed"},
        {"0": "\ud800"},
        {"0": "x" * (MAX_LENGTH + 1)},
        {"0": 3},
        {"0": None},
    ],
)
def test_invalid_names_are_refused(names, tmp_path):
    with pytest.raises(UnweaveError):
        checked_names(names, 4)
    file = tmp_path / "names.json"
    file.write_text(json.dumps({"latents": {CONFIG.hash: names}}))
    with pytest.raises(UnweaveError, check=about(file)):
        read_names(tmp_path / "best", CONFIG)


@pytest.mark.parametrize(
    "text",
    ["", "[", "[]", "{}", '{"latents": []}', '{"latents": {"../x": {}}}', "[" * 10**5, "\xff"],
)
def test_damaged_files_are_neither_read_nor_replaced(text, tmp_path):
    file = tmp_path / "names.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UnweaveError, check=about(file)):
        check_names(tmp_path)
    with pytest.raises(UnweaveError, check=about(file)):
        write_names(tmp_path / "best", CONFIG, {0: "x"})
    assert file.read_bytes() == text.encode("latin-1")


def test_a_link_is_replaced_and_its_target_unchanged(tmp_path):
    target = tmp_path / "target.json"
    target.write_text('{"latents": {}}')
    (tmp_path / "fit").mkdir()
    (tmp_path / "fit" / "names.json").symlink_to(target)
    write_names(tmp_path / "fit" / "best", CONFIG, {0: "x"})
    assert target.read_text() == '{"latents": {}}'
    assert not (tmp_path / "fit" / "names.json").is_symlink()


@pytest.mark.parametrize(
    ("name", "heading"),
    [("size", "z1_size"), ("a, b", "z1_a_b"), ("größe", "z1_größe"), ("?!", "z1"), ('"', "z1")],
)
def test_headings_have_only_word_characters(name, heading):
    assert column_name("z", 1, {1: name}) == heading
