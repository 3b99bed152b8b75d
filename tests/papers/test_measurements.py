"""Measurements of models are cached."""

import pandas as pd
import pytest

from unweave.papers.measurements import computed_once


def test_results_are_cached_run_by_run(tmp_path):
    computed = []

    def compute(run):
        if run == "c":
            raise KeyboardInterrupt
        computed.append(run)
        return pd.DataFrame({"value": [len(computed), 0]})

    file = tmp_path / "some.parquet"
    with pytest.raises(KeyboardInterrupt):
        computed_once(file, ["a", "b", "c"], compute, "computing")
    found = computed_once(file, ["b", "d"], compute, "computing")
    assert computed == ["a", "b", "d"]
    assert found.values.tolist() == [[2, "b"], [0, "b"], [3, "d"], [0, "d"]]
    assert computed_once(file, [], compute, "computing").empty
