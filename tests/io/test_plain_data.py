"""Untrusted files are limited in bytes, depth and number of values."""

import os

import pytest

from unweave.io.plain_data import MAX_YAML_BYTES, parse_json, parse_yaml, read_json, read_text

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{k + 1}: &a{k + 1} [{', '.join([f'*a{k}'] * 10)}]\n" for k in range(9)
)
MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{k + 1}: &a{k + 1} {{<<: [{', '.join([f'*a{k}'] * 10)}]}}\n" for k in range(9)
)


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("[" * 100_000, "100 levels"),
        ('{"a": ' * 5_000 + "1" + "}" * 5_000, "100 levels"),
        ("[1, 2", "delimiter"),
        (r'{"a": "\ud800"}', r"U\+D800"),
        (r'{"\uDFFF": 1}', r"U\+DFFF"),
        (r'["\udce9"]', r"U\+DCE9"),
        (b'["\xed\xa0\x80"]', "decode"),
        ("[" + ",".join(["1"] * 1_000_001) + "]", "1,000,000 values"),
    ],
)
def test_json_beyond_its_bounds_is_a_value_error(text, trouble):
    with pytest.raises(ValueError, match=trouble):
        parse_json(text)


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        (BOMB, "100,000 values"),
        (MERGE_BOMB, "merges more than 100,000"),
        (r'{a: "\ud800"}', r"U\+D800"),
        ("&all [*all]", "100 levels"),
        ("{a: &all {b: *all}}", "100 levels"),
        ("[" * 3_000 + "]" * 3_000, "100 levels"),
        ("x" * (MAX_YAML_BYTES + 1), "characters"),
        ("a: [1", "expected"),
        ("2026-13-45", "month"),
        ("!!python/object/apply:os.getcwd []", "constructor"),
    ],
)
def test_yaml_beyond_its_bounds_is_a_value_error(text, trouble):
    with pytest.raises(ValueError, match=trouble):
        parse_yaml(text)


def test_data_within_the_bounds_are_read():
    assert parse_json("[" * 100 + "]" * 100) is not None
    assert parse_yaml("base: &base {lr: 1e-4}\nnext: {<<: *base, beta: 2}")["next"]["beta"] == 2


def test_merge_keys_are_read():
    text = "usual: &usual {steps: 3, seeds: 2}\nother: {<<: [*usual, {batch: 8}], seeds: 5}"
    assert parse_yaml(text)["other"] == {"steps": 3, "seeds": 5, "batch": 8}


def test_surrogate_pairs_are_read():
    assert parse_json(r'["\ud83d\ude00"]') == ["😀"]


def test_only_file_names_may_have_bytes_that_are_not_utf8():
    assert os.fsencode(parse_json(r'["caf\udce9"]', file_names=True)[0]) == b"caf\xe9"
    with pytest.raises(ValueError, match=r"U\+D800"):
        parse_json(r'["\ud800"]', file_names=True)


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(ValueError, match=r"pipe\.json"):
        read_json(tmp_path / "pipe.json")  # reading it would wait for ever


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(1 << 40)  # sparse: a terabyte that takes no space
    with pytest.raises(ValueError, match="1,099,511,627,776 bytes"):
        read_text(tmp_path / "large.json")
