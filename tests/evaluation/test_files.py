"""Reading codes and factors from files."""

import io
import os
import zipfile

import numpy as np
import pandas as pd
import pytest

from tests.raising import about
from unweave.errors import DataError
from unweave.evaluation.files import check_out, in_order, read_columns, write_table

VALUES = np.array([[0.5, 1.0], [2.0, -3.25], [1e-3, 4.0]])


def test_every_format_gives_the_same(tmp_path):
    frame = pd.DataFrame(VALUES, columns=["a", "b"])
    np.save(tmp_path / "x.npy", VALUES)
    np.savez(tmp_path / "x.npz", VALUES)
    np.savez(tmp_path / "both.npz", codes=VALUES, factors=VALUES[::-1])
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_csv(tmp_path / "bare.csv", index=False, header=False)
    frame.to_parquet(tmp_path / "x.parquet")
    for name in ("x.npy", "x.npz", "both.npz", "x.csv", "bare.csv", "x.parquet"):
        values, names, _ = read_columns(tmp_path / name, "codes")
        np.testing.assert_array_equal(values, VALUES)
        assert names == (("a", "b") if name in ("x.csv", "x.parquet") else None)
    np.testing.assert_array_equal(
        read_columns(tmp_path / "both.npz", "factors").values, VALUES[::-1]
    )


def test_one_column_is_a_table(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(4))
    assert read_columns(tmp_path / "x.npy", "factors").values.shape == (4, 1)


def test_text_is_accepted_as_factors_but_not_as_codes(tmp_path):
    (tmp_path / "x.csv").write_text("shape,size\nheart,1\nsquare,2\nheart,3\n")
    values, names, _ = read_columns(tmp_path / "x.csv", "factors")
    assert values.tolist() == [[0, 1], [1, 2], [0, 3]]
    assert names == ("shape", "size")
    with pytest.raises(DataError, check=about("shape")):
        read_columns(tmp_path / "x.csv", "codes")


def test_rows_are_matched_by_file_names(tmp_path):
    (tmp_path / "z.csv").write_text("file,z0,logvar0\na/1.png,0.1,-1\na/2.png,0.2,-2\n")
    (tmp_path / "v.csv").write_text("size,Path\n7,2.png\n5,a/1.png\n")
    codes = read_columns(tmp_path / "z.csv", "codes")
    assert (codes.values.tolist(), codes.names) == ([[0.1], [0.2]], ("z0",))
    factors = read_columns(tmp_path / "v.csv", "factors")
    assert (factors.values.tolist(), factors.names) == ([[7], [5]], ("size",))
    assert in_order(factors, codes).tolist() == [[5], [7]]
    assert in_order(factors, codes._replace(files=None)).tolist() == [[7], [5]]
    (tmp_path / "few.csv").write_text("size,file\n7,2.png\n")
    with pytest.raises(DataError, match=r"a/1\.png"):
        in_order(read_columns(tmp_path / "few.csv", "factors"), codes)
    (tmp_path / "none.csv").write_text("file\na/1.png\n")
    with pytest.raises(DataError, check=about("codes")):
        read_columns(tmp_path / "none.csv", "codes")


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.csv", b""), ("x.npy", b"no array"), ("x.npz", b"no array"), ("x.parquet", b"no table")],
)
def test_files_that_cannot_be_read(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=str(tmp_path / name)):
        read_columns(tmp_path / name, "codes")


def test_other_formats_and_missing_values_are_rejected(tmp_path):
    text, table = tmp_path / "x.txt", tmp_path / "x.csv"
    text.write_text("1,2")
    with pytest.raises(DataError, check=about("codes", text)):
        read_columns(text, "codes")
    table.write_text("a,b\n1,2\n3,\n")
    with pytest.raises(DataError, check=about("b", 1)):
        read_columns(table, "codes")


def test_unnamed_arrays_and_missing_files(tmp_path):
    np.savez(tmp_path / "x.npz", z=VALUES, v=VALUES)
    with pytest.raises(DataError, check=about("codes", ["z", "v"])):
        read_columns(tmp_path / "x.npz", "codes")
    with pytest.raises(DataError, match=r"y\.npy"):
        read_columns(tmp_path / "y.npy", "codes")


@pytest.mark.parametrize("ending", [".npy", ".npz", ".csv", ".parquet"])
def test_special_files_do_not_hang(tmp_path, ending):
    os.mkfifo(tmp_path / f"pipe{ending}")
    (tmp_path / f"zero{ending}").symlink_to("/dev/zero")
    (tmp_path / f"folder{ending}").mkdir()
    for name in ("pipe", "zero", "folder", "missing", "x" * 300):
        with pytest.raises(DataError):
            read_columns(tmp_path / f"{name}{ending}", "codes")


@pytest.mark.parametrize("what", ["codes", "factors"])
@pytest.mark.parametrize("name", ["no.npz", "text.npz", "huge.npz", "huge.npy", "object.npz"])
def test_hostile_arrays(tmp_path, name, what):
    claim = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**4)}
    np.lib.format.write_array_header_1_0(claim, shape)
    members = {"text.npz": {what: b"words"}, "huge.npz": {f"{what}.npy": claim.getvalue()}}
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        for member, content in members.get(name, {}).items():
            archive.writestr(member, content)
    if name == "huge.npy":
        (tmp_path / name).write_bytes(claim.getvalue())
    if name == "object.npz":
        np.savez(tmp_path / name, **{what: np.array([{}, None], dtype=object)})
    with pytest.raises(DataError, match=name):
        read_columns(tmp_path / name, what)


def test_odd_tables(tmp_path):
    wide = ",".join(f"z{k}" for k in range(20_000))
    ragged, long = "a,b\n1,2\n1,2,3\n", "x" * 10**6
    for number, text in enumerate((wide, "", "\n\n", ragged, "\0" * 100, long)):
        (tmp_path / f"{number}.csv").write_text(text)
        with pytest.raises(DataError, match=rf"{number}\.csv"):
            read_columns(tmp_path / f"{number}.csv", "codes")
    lists = pd.DataFrame({"a": [[1], [2]]})
    lists.to_parquet(tmp_path / "lists.parquet")
    with pytest.raises(DataError, match=r"lists\.parquet"):
        read_columns(tmp_path / "lists.parquet", "factors")


def test_check_out_and_write_table(tmp_path):
    frame = pd.DataFrame({"mig": [0.25, np.nan]})
    for name, read in (("t.csv", pd.read_csv), ("t.parquet", pd.read_parquet)):
        check_out(tmp_path / name, (".csv", ".parquet"), False)
        write_table(frame, tmp_path / name)
        pd.testing.assert_frame_equal(read(tmp_path / name), frame)
        with pytest.raises(DataError, match=name):
            check_out(tmp_path / name, (".csv", ".parquet"), False)
        check_out(tmp_path / name, (".csv", ".parquet"), True)
    with pytest.raises(DataError, match=r"t\.xlsx"):
        check_out(tmp_path / "t.xlsx", (".csv", ".parquet"), False)
    with pytest.raises(DataError, match=rf"{tmp_path}/no\b"):
        check_out(tmp_path / "no" / "t.csv", (".csv", ".parquet"), False)
