import io

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.raising import about
from unweave.data.grid import Grid, Labels
from unweave.data.tables import arrange, factor_table, read_csv
from unweave.errors import DataError

FILES = ("a/x.png", "a/y.png", "b/x.png", "z.png")
ALL = np.full(4, True)


def read(tmp_path, text, kept=ALL, files=FILES):
    path = tmp_path / "factors.csv"
    path.write_text(text, encoding="utf-8")
    return factor_table(path, kept, files)


def error(tmp_path, text, **options):
    """Return the subject and value of the error."""
    with pytest.raises(DataError) as caught:
        read(tmp_path, text, **options)
    assert "\n" not in str(caught.value)
    return caught.value.subject, caught.value.value


class TestCsv:
    def test_rows_in_order(self, tmp_path):
        axes, classes = read(tmp_path, "shape,size\ndisc,10\ncross,9\n\ndisc,2.5\nstar,10\n")
        assert [axis.name for axis in axes] == ["shape", "size"]
        assert axes[0].values == ("cross", "disc", "star")
        assert axes[1].values == (2.5, 9, 10)
        assert [axis.categorical for axis in axes] == [True, False]
        assert classes.tolist() == [[1, 2], [0, 1], [1, 0], [2, 2]]

    @pytest.mark.parametrize("key", ["file", "filename", "path", "image", "File"])
    def test_rows_by_path_or_unique_base_name(self, tmp_path, key):
        text = f"size,{key}\n4,z.png\n1,./a/x.png\n3,b/x.png\n2,y.png\n"
        axes, classes = read(tmp_path, text)
        assert classes[:, 0].tolist() == [0, 1, 2, 3]
        assert [axis.name for axis in axes] == ["size"]

    def test_a_path_takes_precedence_over_a_base_name(self, tmp_path):
        text = "file,size\nx.png,1\na/x.png,2\n"
        _, classes = read(tmp_path, text, np.full(2, True), ("a/x.png", "x.png"))
        assert classes[:, 0].tolist() == [1, 0]

    def test_numeric_file_names_stay_text(self, tmp_path):
        _, classes = read(tmp_path, "file,size\n1,5\n01,4\n", np.full(2, True), ("01", "1"))
        assert classes[:, 0].tolist() == [0, 1]

    def test_spaces_quotes_and_a_byte_order_mark(self, tmp_path):
        text = '\ufeff"my, shape", size \na,1\n b ,2\na,1\nb,2\n'
        axes, _ = read(tmp_path, text)
        assert [axis.name for axis in axes] == ["my, shape", "size"]
        assert axes[0].values == ("a", "b")

    @pytest.mark.parametrize(
        ("cells", "values", "categorical"),
        [
            ("10 9 9 10", (9, 10), False),
            ("1e1 9 9 10", (9.0, 10.0), False),
            ("10 9 x 10", ("10", "9", "x"), True),
            ("1_0 1_1 1_0 1_1", ("1_0", "1_1"), True),
            ("99999999999999999999 1 1 1", (1.0, 1e20), False),
            ("-1 0 +1 1", (-1, 0, 1), False),
        ],
    )
    def test_types_of_columns(self, tmp_path, cells, values, categorical):
        (axis,), _ = read(tmp_path, "\n".join(["v", *cells.split()]))
        assert axis.values == values
        assert [type(v) for v in axis.values] == [type(v) for v in values]
        assert axis.categorical == categorical

    def test_many_distinct_values_stay_exact(self, tmp_path):
        values = np.random.default_rng(0).normal(size=2000)
        text = "\n".join(["v", *map(repr, values.tolist())])
        (axis,), classes = read(tmp_path, text, np.full(2000, True), ())
        assert np.array_equal(np.array(axis.values)[classes[:, 0]], values)

    def test_rows_of_unreadable_files_are_dropped(self, tmp_path):
        kept = np.array([True, False, True, True])
        (axis,), classes = read(tmp_path, "v\n1\n2\n3\n4\n", kept)
        assert axis.values == (1, 3, 4)
        assert classes[:, 0].tolist() == [0, 1, 2]
        text = "file,v\na/x.png,1\nb/x.png,3\nz.png,4\n"
        assert np.array_equal(read(tmp_path, text, kept)[1], classes)
        assert np.array_equal(read(tmp_path, text + "y.png,2\n", kept)[1], classes)

    def test_wrong_numbers_of_rows(self, tmp_path):
        assert error(tmp_path, "v\n1\n2\n") == ("factors", 2)
        some = np.array([True, False, True, True])
        assert error(tmp_path, "v\n1\n2\n3\n", kept=some) == ("factors", 3)

    def test_wrong_names_of_files(self, tmp_path):
        rows = "file,v\na/x.png,1\na/y.png,2\nb/x.png,3\n"
        assert error(tmp_path, rows) == ("file", "z.png")
        assert error(tmp_path, rows + "q.png,4\n") == ("file", "q.png")
        assert error(tmp_path, rows + "x.png,4\n") == ("file", "x.png")  # of two folders
        assert error(tmp_path, rows + "z.png,4\ny.png,5\n") == ("file", "a/y.png")
        assert error(tmp_path, rows, files=()) == ("file", None)

    def test_broken_tables(self, tmp_path):
        path = tmp_path / "factors.csv"
        too_wide = ",".join(["v"] * 5_001)
        for unreadable in ("", "\n\n", "v,w\n1,2,3\n", 'v,w\n"1,2\n', too_wide):
            assert error(tmp_path, unreadable) == (path, None)
        for empty in ("v,w\n1,2\n3\n", "v,w\n1,2\n3,\n", "v,w\n1,2\n3, \n"):
            assert error(tmp_path, empty) == ("w", 2)
        assert error(tmp_path, ",v\n0,1\n") == (str(path), 1)
        assert error(tmp_path, "v,v\n1,2\n") == (str(path), "v")
        assert error(tmp_path, "v;w\n1;2\n") == (str(path), "v;w")
        assert error(tmp_path, "file\n" + "\n".join(FILES)) == ("factors", None)
        assert error(tmp_path, "file,path,v\n1,2,3\n") == ("factors", ["file", "path"])
        assert error(tmp_path, "v\n1\nnan\n2\n3\n") == ("v", 2)
        assert error(tmp_path, "v\ninf\n1\n2\n3\n") == ("v", 1)
        assert error(tmp_path, "v\n") == ("factors", 0)

    def test_files_that_cannot_be_read(self, tmp_path):
        with pytest.raises(DataError, check=about(tmp_path / "nowhere.csv")):
            factor_table(tmp_path / "nowhere.csv", ALL)
        (tmp_path / "latin.csv").write_bytes("größe\n".encode("latin-1"))
        with pytest.raises(DataError, check=about(tmp_path / "latin.csv")):
            factor_table(str(tmp_path / "latin.csv"), ALL)


class TestPython:
    def test_all_kinds_of_tables_agree(self):
        columns = {"v": [3, 1, 1, 2], "w": [0.5, 0.5, 1.5, 0.5]}
        array = np.array(list(columns.values())).T
        expected = [[2, 0], [0, 0], [0, 1], [1, 0]]
        for table in (columns, pd.DataFrame(columns), array, torch.tensor(array)):
            axes, classes = factor_table(table, ALL)
            assert classes.tolist() == expected
            assert axes[1].values == (0.5, 1.5)
        assert [axis.name for axis in axes] == ["factor_0", "factor_1"]
        assert factor_table(columns, ALL)[0][0].values == (1, 2, 3)

    def test_a_data_frame_with_names_of_files(self):
        frame = pd.DataFrame({"file": FILES[::-1], "v": list("dcba"), "on": [True, False] * 2})
        axes, classes = factor_table(frame, ALL, FILES)
        assert axes[0].values == ("a", "b", "c", "d")
        assert axes[1].values == (0, 1)
        assert [axis.categorical for axis in axes] == [True, False]
        assert classes.tolist() == [[0, 0], [1, 1], [2, 0], [3, 1]]

    @pytest.mark.parametrize("dtype", ["str", "object", "category", "string"])
    def test_text_in_a_data_frame(self, dtype):
        frame = pd.DataFrame({"v": pd.Series(["b", "a", "b", "c"], dtype=dtype)})
        (axis,), classes = factor_table(frame, ALL)
        assert axis.values == ("a", "b", "c")
        assert classes[:, 0].tolist() == [1, 0, 1, 2]

    @pytest.mark.parametrize("gap", [None, float("nan"), "NA"])
    @pytest.mark.parametrize("others", ["abc", [1, 2, 3]])
    def test_missing_values_are_errors(self, gap, others):
        frame = pd.DataFrame({"v": [*others, pd.NA if gap == "NA" else gap]})
        with pytest.raises(DataError, check=about("v", 4)):
            factor_table(frame, ALL)

    def test_numbers_as_text_are_categorical_and_mixtures_are_errors(self):
        (axis,), _ = factor_table({"v": ["10", "9", "9", "9"]}, ALL)
        assert axis.values == ("10", "9")
        assert axis.categorical
        with pytest.raises(DataError, check=about("v", 3)):
            factor_table({"v": ["a", "b", 1, "c"]}, ALL)
        with pytest.raises(DataError, check=about("v", 1)):
            factor_table({"v": np.array([" ", "b", "c", "c"])}, ALL)

    def test_wrong_shapes_and_types(self):
        with pytest.raises(DataError, check=about("factors", (4,))):
            factor_table(np.arange(4), ALL)
        with pytest.raises(DataError, check=about("v", (4, 2))):
            factor_table({"v": np.zeros((4, 2))}, ALL)
        with pytest.raises(DataError, check=about("factors", {"v": 4, "w": 1})):
            factor_table({"v": [1, 2, 3, 4], "w": [1]}, ALL)
        with pytest.raises(DataError, check=about("factors", 3)):
            factor_table(np.zeros((3, 2)), ALL)
        with pytest.raises(DataError, check=about("v", np.dtype("datetime64[s]"))):
            factor_table({"v": np.zeros(4, dtype="datetime64[s]")}, ALL)
        with pytest.raises(DataError, check=about("factors", None)):
            factor_table({}, ALL)

    def test_a_data_frame_with_duplicate_names(self):
        with pytest.raises(DataError, check=about(value="v")):
            factor_table(pd.DataFrame(np.zeros((4, 2)), columns=["v", "v"]), ALL)


class TestArrange:
    @given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms(use_true_random=False))
    def test_any_shuffled_grid_is_sorted(self, sizes, random):
        rows = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), -1)
        mixed = random.sample(range(len(rows)), len(rows))
        axes, classes = factor_table(rows[mixed], np.full(len(rows), True))
        grid, order = arrange(axes, classes)
        assert isinstance(grid, Grid)
        assert np.array_equal(classes[order], grid.factors(np.arange(len(rows))))

    @pytest.mark.parametrize("rows", [[0, 1, 2], [0, 1, 2, 2], [0, 1, 2, 3, 3]])
    def test_anything_else_becomes_labels(self, rows):
        table = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])[rows]
        known, order = arrange(*factor_table(table, np.full(len(rows), True)))
        assert isinstance(known, Labels)
        assert order.tolist() == list(range(len(rows)))
        assert np.array_equal(known.factors(np.arange(len(rows))), table)


def test_a_row_with_far_more_cells_than_the_header_is_rejected():
    text = "a,b\n" + ",".join(["1"] * 20_000) + "\n1,2\n"
    with pytest.raises(ValueError, match="20,000 columns"):
        read_csv(io.StringIO(text))
