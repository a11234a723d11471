"""Run folders made by hand: what is refused, found, labelled and read."""

import json

import polars as pl
import pytest

from anachron.errors import ConfigError, DataError
from anachron.io import read_json, write_json, write_table
from anachron.probe.runs import (
    differences,
    distinct_names,
    find_runs,
    open_run,
    part_path,
    read_runs,
    read_scores,
    unique_labels,
    write_record,
)

SETTINGS = {"label": "gpt2", "format": "raw", "prefix": "none", "dtype": "float32", "revision": None, "seed": 0}


def record(**settings):
    return {"status": "done", "settings": SETTINGS | settings}


def scores(model="gpt2", logp=-1.0, **extra):
    return pl.DataFrame(
        {"model": [model], "format": ["raw"], "prefix": ["none"], "fact_id": ["f"], "logp": [logp], **extra}
    )


def make_run(folder, table=None, noise=None, **settings):
    noise = {} if noise is None else {"noise": {"largest": noise}}
    write_json(folder / "run.json", record(**settings) | noise)
    write_table(folder / "scores.parquet", scores("as written") if table is None else table)
    return folder


def test_differences_name_old_and_new_values():
    old = {"dtype": "float32", "seed": 0, "prefix": "none", "gone": 1}
    new = {"dtype": "bfloat16", "seed": 0, "prefix": "none", "added": True}
    assert differences(old, new) == ["dtype: 'float32' -> 'bfloat16'", "gone: 1 -> nothing", "added: nothing -> True"]
    assert differences(old, dict(reversed(old.items()))) == []
    assert differences({"gone": None}, {}) == ["gone: None -> nothing"]


def test_differences_inside_a_setting_are_named_by_its_path():
    old = {"config": {"rope": {"theta": 10000.0, "type": "default"}, "layers": ["full", "sliding"], "eps": 1e-6}}
    new = {"config": {"layers": ["full", "full"], "rope": {"theta": 500000.0, "type": "default"}, "eps": 1e-6}}
    assert differences(old, new) == [
        "config.rope.theta: 10000.0 -> 500000.0", "config.layers[1]: 'sliding' -> 'full'"
    ]  # fmt: skip
    assert differences(old, {"config": {**old["config"], "rope": None}}) == [
        "config.rope: {'theta': 10000.0, 'type': 'default'} -> None"
    ]
    assert differences({"layers": [1]}, {"layers": [1, 2]}) == ["layers: [1] -> [1, 2]"]
    assert differences(old, json.loads(json.dumps(old))) == []


def test_differences_shorten_long_values():
    (line,) = differences({"prefix_text": ""}, {"prefix_text": "word " * 100})
    assert line.startswith("prefix_text: '' -> 'word word")
    assert line.endswith("...")
    assert len(line) < 100


def test_new_run_in_a_missing_an_empty_or_a_locked_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked" / ".lock").touch()
    for name in ("missing", "empty", "locked"):
        made = open_run(tmp_path / name, SETTINGS)
        assert made["status"] == "running"
        assert made["settings"] == SETTINGS
        assert made["sessions"] == []
    assert not (tmp_path / "missing").exists()


def test_same_settings_give_the_stored_record_back(tmp_path):
    stored = record() | {"started": "2020-01-01T00:00:00+00:00", "sessions": [{"statements": 3}]}
    write_record(tmp_path, stored)
    assert open_run(tmp_path, dict(SETTINGS)) == stored


def test_other_settings_are_refused_with_the_difference(tmp_path):
    write_record(tmp_path, record())
    with pytest.raises(ConfigError) as caught:
        open_run(tmp_path, SETTINGS | {"dtype": "bfloat16", "seed": 4})
    message = str(caught.value)
    assert str(tmp_path) in message
    assert "(dtype: 'float32' -> 'bfloat16'; seed: 0 -> 4)" in message
    assert "label" not in message
    assert "choose another --out" in message
    assert read_json(tmp_path / "run.json") == record()


def test_foreign_files_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for place in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(ConfigError, match=r"is not empty and holds no run\.json"):
            open_run(place, SETTINGS)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("content", [[], {}, {"settings": 3}, "run"])
def test_a_record_that_is_none_is_refused(tmp_path, content):
    write_json(tmp_path / "run.json", content)
    with pytest.raises(DataError, match=r"run\.json is not the record of a run; choose another --out"):
        open_run(tmp_path, SETTINGS)


@pytest.mark.parametrize("left", [".plan.parquet.7.abcd.tmp", ".run.json.7.abcd.tmp"])
def test_a_run_killed_at_its_start_is_no_foreign_folder(tmp_path, left):
    (tmp_path / ".lock").touch()
    (tmp_path / left).touch()
    assert open_run(tmp_path, SETTINGS)["status"] == "running"


def test_broken_record_is_an_error(tmp_path):
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(DataError, match=r"cannot read .*run\.json as JSON"):
        open_run(tmp_path, SETTINGS)


def test_part_names_sort_in_order(tmp_path):
    assert part_path(tmp_path, 7) == tmp_path / "scores" / "part-00007.parquet"
    names = [part_path(tmp_path, n).name for n in (2, 10, 9999)]
    assert names == sorted(names)


def test_labels_stay_when_nothing_clashes():
    records = [record(), record(format="chat"), record(prefix="hierarchy"), record(label="other"), {}]
    assert unique_labels(records) == ["gpt2", "gpt2", "gpt2", "other", None]


def test_labels_say_what_differs():
    assert unique_labels([record(), record(dtype="bfloat16")]) == ["gpt2 float32", "gpt2 bfloat16"]
    assert unique_labels([record(revision="a"), record(revision="b"), record(label="other")]) == [
        "gpt2 a",
        "gpt2 b",
        "other",
    ]
    both = [record(revision="a"), record(dtype="bfloat16", revision="a"), record(revision="b")]
    assert unique_labels(both) == ["gpt2 float32 a", "gpt2 bfloat16 a", "gpt2 float32 b"]


def test_labels_that_cannot_be_told_apart_are_refused():
    with pytest.raises(ConfigError, match=r"2 runs are all called 'gpt2', raw, prefix none.*--label"):
        unique_labels([record(seed=1), record(seed=2)])
    with pytest.raises(ConfigError, match="'gpt2 float32'"):
        unique_labels([record(), record(dtype="bfloat16"), record(label="gpt2 float32")])


def test_labels_of_models_with_one_name_show_more_of_their_paths():
    records = [record(label="final", model="a/final"), record(label="final", model="b/final"), record()]
    assert unique_labels(records) == ["a/final", "b/final", "gpt2"]
    assert distinct_names(["x/a/final", "y/a/final"]) == ["x/a/final", "y/a/final"]
    assert distinct_names(["org/gpt2", "demo"]) == ["gpt2", "demo"]
    with pytest.raises(ConfigError, match="'mine'"):
        unique_labels([record(label="mine", model="a/final"), record(label="mine", model="b/final")])


def test_find_runs_at_and_below_a_folder(tmp_path):
    one, two = make_run(tmp_path / "b"), make_run(tmp_path / "a")
    (tmp_path / "metrics").mkdir()
    assert find_runs(tmp_path) == [two, one]
    assert find_runs(str(one)) == [one]
    for place in (tmp_path / "metrics", tmp_path / "nowhere"):
        with pytest.raises(DataError, match=r"no run here \(no run\.json\)"):
            find_runs(place)


def test_scores_of_an_unfinished_run(tmp_path):
    write_record(tmp_path, record() | {"status": "running"})
    for read in (read_scores, lambda folder: read_runs([folder])):
        with pytest.raises(DataError, match="not finished; repeat its probe command"):
            read(tmp_path)


def test_labels_tell_dtypes_apart_across_formats():
    assert unique_labels([record(), record(dtype="bfloat16", format="chat")]) == ["gpt2 float32", "gpt2 bfloat16"]


def test_read_runs_joins_runs_under_their_labels_with_their_noise(tmp_path):
    make_run(tmp_path / "one", scores("as written", -1.0), noise=1e-6)
    make_run(tmp_path / "two", scores("as written", -2.0), noise=3e-5, dtype="bfloat16")
    table = read_runs([tmp_path])
    assert table.select("model", "logp", "noise").rows() == [
        ("gpt2 float32", -1.0, 1e-6),
        ("gpt2 bfloat16", -2.0, 3e-5),
    ]
    assert read_runs([tmp_path / "two"]).select("model", "noise").rows() == [("gpt2", 3e-5)]


def test_read_runs_takes_bare_tables_as_they_are(tmp_path):
    make_run(tmp_path / "run", scores("as written", -1.0, popularity=[2.5]), noise=1e-6)
    write_table(tmp_path / "bare.parquet", pl.concat([scores("x", -3.0), scores("y", -4.0)]))
    table = read_runs([tmp_path / "bare.parquet", tmp_path / "run"])
    assert table.select("model", "logp", "popularity", "noise").rows() == [
        ("x", -3.0, None, None), ("y", -4.0, None, None), ("gpt2", -1.0, 2.5, 1e-6),
    ]  # fmt: skip
    assert read_runs([str(tmp_path / "bare.parquet")])["model"].to_list() == ["x", "y"]


def test_read_runs_of_a_run_without_a_noise(tmp_path):
    make_run(tmp_path / "one", noise=1e-6)
    make_run(tmp_path / "two", label="other")
    assert dict(read_runs([tmp_path]).select("model", "noise").rows()) == {"gpt2": 1e-6, "other": None}


def test_read_runs_of_a_table_that_is_none(tmp_path):
    (tmp_path / "scores.parquet").write_text("no parquet")
    with pytest.raises(DataError, match=r"cannot read .*scores\.parquet"):
        read_runs([tmp_path / "scores.parquet"])
    with pytest.raises(DataError, match="no run here"):
        read_runs([tmp_path / "missing.parquet"])
