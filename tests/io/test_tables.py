"""Untrusted Parquet tables."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unweave.io.tables import read_attributes, read_table


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"run": ["a", "b", "a", None], "step": [1, 2, 3, 4], "ok": [True] * 4}),
        pd.DataFrame({"loss": np.array([1, np.nan], np.float32), "n": np.int32([1, 2])}),
        pd.DataFrame({"run": [], "step": []}),
        pd.DataFrame({"run": pd.Series([], dtype=str), "step": pd.Series([], dtype=int)}),
        pd.DataFrame(),
    ],
)
def test_tables_are_read_as_pandas_reads_them(tmp_path, table):
    table.to_parquet(tmp_path / "x.parquet", index=False)
    expected = pd.read_parquet(tmp_path / "x.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "x.parquet"), expected)


def test_text_that_would_fill_the_memory_is_not_expanded(tmp_path):
    path = tmp_path / "x.parquet"
    many = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), ["x" * 100_000])
    pq.write_table(pa.table({"run": many}), path, store_schema=False)
    assert path.stat().st_size < 10_000
    with pytest.raises(ValueError, match="10,000,000,000 bytes"):
        read_table(path)


def test_random_flips_are_value_errors_or_tables(tmp_path):
    path = tmp_path / "x.parquet"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"run": ["a", "b"] * 50, "step": range(100), "loss": rng.random(100)})
    frame.to_parquet(path, index=False)
    whole = path.read_bytes()
    refused = 0
    for _ in range(200):
        content = bytearray(whole)
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(content)
        try:
            assert isinstance(read_table(path), pd.DataFrame)
        except ValueError:
            refused += 1
    assert refused > 20


def test_more_types_are_read_on_request_without_an_index(tmp_path):
    table = pd.DataFrame(
        {
            "shape": pd.Categorical(["heart", "disc"]),
            "day": pd.to_datetime(["2020-01-01"] * 2),
            "png": [b"\x89PNG", b""],
            "shown": [[1, 2, 3], []],
        },
        index=pd.Index([7, 8], name="row"),
    )
    table.to_parquet(tmp_path / "table.parquet")
    read = read_table(tmp_path / "table.parquet", extended_types=True)
    assert list(read) == ["shape", "day", "png", "shown"]
    assert [list(row) for row in read["shown"]] == [[1, 2, 3], []]
    assert list(read["png"]) == [b"\x89PNG", b""]
    assert list(read["shape"]) == ["heart", "disc"]
    with pytest.raises(ValueError, match=r"'shape'.*dictionary"):
        read_table(tmp_path / "table.parquet")


def test_attributes_are_read(tmp_path):
    table = pd.DataFrame({"a": [1]})
    table.to_parquet(tmp_path / "without.parquet", index=False)
    assert read_attributes(tmp_path / "without.parquet") == {}
    table.attrs["settings"] = {"steps": 3}
    table.to_parquet(tmp_path / "with.parquet", index=False)
    assert read_attributes(tmp_path / "with.parquet") == {"settings": {"steps": 3}}
