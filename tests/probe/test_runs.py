"""Run folders made by hand: what is refused, found, labelled and read."""

from pathlib import Path

import polars as pl
import pytest

from anachron.core.errors import ConfigError, DataError
from anachron.io.run_folder import FORMAT, RunFolder
from anachron.io.tables import write_table
from anachron.probe.runs import distinct_names, find_runs, finished, part_name, read_runs, unique_labels

SETTINGS = {"label": "gpt2", "format": "raw", "prefix": "none", "dtype": "float32", "revision": None, "seed": 0}


def record(**settings):
    return {"format": FORMAT, "status": "done", "settings": SETTINGS | settings, "sessions": [], "files": {}}


def scores(model="gpt2", logp=-1.0, **extra):
    return pl.DataFrame(
        {"model": [model], "format": ["raw"], "prefix": ["none"], "fact_id": ["f"], "logp": [logp], **extra}
    )


def make_run(folder, table=None, noise=None, **settings):
    noise = {} if noise is None else {"noise": {"largest": noise}}
    RunFolder(folder, record(**settings) | noise).write_table(
        "scores.parquet", scores("as written") if table is None else table
    )
    return folder


def test_part_names_sort_in_order():
    assert part_name(7) == "scores/part-00007.parquet"
    names = [part_name(n) for n in (2, 10, 9999)]
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
    same = r"2 runs are all called 'gpt2', raw, prefix none.*anachron runs rename "
    with pytest.raises(ConfigError, match=f"{same}RUN NAME"):
        unique_labels([record(seed=1), record(seed=2)])
    with pytest.raises(ConfigError, match=f"{same}'my runs/b' NAME"):
        unique_labels([record(seed=1), record(seed=2)], [Path("a"), Path("my runs/b")])
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
    RunFolder(tmp_path, record() | {"status": "running"}).save()
    for read in (finished, lambda folder: read_runs([folder])):
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
