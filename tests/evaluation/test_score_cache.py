"""The cache of scores in a run folder."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from unweave.evaluation.score_cache import (
    PROTOCOL,
    SCORES,
    Key,
    Outcome,
    add_to_cache,
    origin_text,
    read_cache,
)

KEY = Key("mig", "mean", 0, origin_text((["load", "dsprites", {}],)))


def test_cached_outcomes_are_read_back(tmp_path):
    outcomes = {
        KEY: Outcome({"mig": 0.1 + 0.2, "more": math.nan}),
        replace(KEY, metric="sap"): Outcome({}, "too few rows"),
    }
    add_to_cache(tmp_path, outcomes)
    back = read_cache(tmp_path)
    assert back[KEY].scores["mig"] == 0.1 + 0.2
    assert math.isnan(back[KEY].scores["more"])
    assert back[replace(KEY, metric="sap")] == Outcome({}, "too few rows")
    (first, _) = json.loads((tmp_path / SCORES).read_text())
    assert first["data"] == [["load", "dsprites", {}]]
    assert first["protocol"] == PROTOCOL


def test_every_part_of_the_key_counts(tmp_path):
    add_to_cache(tmp_path, {KEY: Outcome({"mig": 1.0})})
    others = {"metric": "sap", "codes": "sampled", "seed": 1, "data": "[]", "protocol": 0}
    for name, value in others.items():
        assert replace(KEY, **{name: value}) not in read_cache(tmp_path)


def test_scores_are_added_to_those_that_another_process_wrote(tmp_path):
    def write(seed):
        add_to_cache(tmp_path, {replace(KEY, seed=seed): Outcome({"mig": float(seed)})})

    write(0)
    assert read_cache(tmp_path).keys() == {KEY}
    write(1)
    assert len(read_cache(tmp_path)) == 2
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(2, 12)))
    entries = json.loads((tmp_path / SCORES).read_text())
    assert entries
    assert all(entry["scores"]["mig"] == entry["seed"] for entry in entries)
    assert [path.name for path in tmp_path.iterdir()] == [SCORES]


def test_an_unreadable_file_is_ignored_and_replaced(tmp_path):
    for text in ("{", "3", '[{"metric": 1}]', '["mig"]'):
        (tmp_path / SCORES).write_text(text)
        assert read_cache(tmp_path) == {}
    add_to_cache(tmp_path, {KEY: Outcome({"mig": 1.0})})
    assert read_cache(tmp_path) == {KEY: Outcome({"mig": 1.0})}
    assert read_cache(None) == {}
