"""Ranges joined to tables: neighbouring buckets in one go, from files that are each opened once."""

import json
import os
import tempfile
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.wikidata.reading import merge, tables
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.merge import runs_of
from anachron.wikidata.reading.tables import Collector, gathered, write_parts
from wikidata.dumps import write_dump
from wikidata.test_ingest import SETTINGS, content, some_entities

SCHEMA = pa.schema([("id", pa.string()), ("number", pa.int64())])
BUCKETS = 6


@given(buckets=st.integers(1, 5000), workers=st.integers(1, 300))
def test_runs_are_all_buckets_and_enough_for_the_workers(buckets, workers):
    runs = runs_of(buckets, workers)
    assert [number for run in runs for number in run] == list(range(buckets))
    lengths = [len(run) for run in runs]
    assert min(lengths) >= 1 and max(lengths) <= 64 and max(lengths) - min(lengths) <= 1
    assert max(lengths) <= -(-buckets // workers)  # nobody has more than with one bucket after another


def test_all_of_wikidata_is_joined_in_few_runs():
    for workers in (1, 2, 12, 16, 32, 64, 128):
        number = len(runs_of(2048, workers))  # as often is each range opened; bucket by bucket it was 3 * 2048
        assert workers <= number <= 3 * 2048 / 30


def made(seed, rows):
    """Rows of a table with the bucket of each."""
    random = np.random.default_rng(seed)
    return [(f"Q{random.integers(10**6)}", n, int(random.integers(BUCKETS))) for n in range(rows)]


@pytest.fixture
def ranges(tmp_path):
    """Files of ranges, and their rows; the third has none."""
    everything = [made(seed, rows) for seed, rows in enumerate((500, 3, 0, 5000, 40))]
    paths = [tmp_path / str(number) / "tables.rows" for number in range(len(everything))]
    for path, rows in zip(paths, everything, strict=True):
        collector = Collector(SCHEMA, BUCKETS)
        for id, number, bucket in rows:
            collector.add([(id, number)], bucket)
        write_parts(path, collector.by_bucket())
    return paths, everything


@pytest.mark.parametrize("in_memory", [1 << 20, 100])
@pytest.mark.parametrize("parts", [range(BUCKETS), range(1, 3), range(BUCKETS - 1, BUCKETS)])
def test_what_is_gathered_is_what_was_collected(tmp_path, monkeypatch, ranges, parts, in_memory):
    monkeypatch.setattr(tables, "IN_MEMORY", in_memory)
    monkeypatch.setattr(tables, "_FILES", 2)
    paths, everything = ranges
    with gathered(paths, parts, BUCKETS, tmp_path) as found:
        for part in reversed(parts):
            for number, rows in enumerate(everything):
                read = found.read(number, part, SCHEMA)
                assert [tuple(row.values()) for row in read.to_pylist()] == [row[:2] for row in rows if row[2] == part]
                assert read.schema == SCHEMA
    assert sorted(path.name for path in tmp_path.iterdir()) == list("01234")


def test_damaged_files_are_named(tmp_path, ranges):
    paths, _ = ranges
    whole = paths[3].read_bytes()
    for broken in (whole[:-1000], whole[:30], b"", b"x" + whole[1:], whole[1:]):
        paths[3].write_bytes(broken)
        with (
            pytest.raises(DataError, match=rf"cannot read {paths[3]}: .*; remove its folder and repeat the command"),
            gathered(paths, range(BUCKETS), BUCKETS, tmp_path) as found,
        ):
            for part in range(BUCKETS):
                found.read(3, part, SCHEMA)
    paths[3].unlink()
    with pytest.raises(DataError, match="No such file"), gathered(paths, range(2), BUCKETS, tmp_path):
        pass


def test_a_full_disk_is_told(tmp_path, monkeypatch, ranges):
    class Full(tempfile.SpooledTemporaryFile):
        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", Full)
    with (
        pytest.raises(BackendError, match=rf"temporary file in {tmp_path}: No space left .*repeat the command"),
        gathered(ranges[0], range(BUCKETS), BUCKETS, tmp_path),
    ):
        pass


def test_an_ingest_opens_each_range_once_for_a_run_of_buckets(tmp_path, monkeypatch):
    opened, real = [], tables.parts_of

    def counted(path):
        opened.append(path)
        return real(path)

    monkeypatch.setattr(tables, "parts_of", counted)
    monkeypatch.setattr(merge, "RUN", (8, 8))
    path = write_dump(tmp_path / "dump.json", some_entities())
    ingest(path, tmp_path / "s", replace(SETTINGS, buckets=32), range_bytes=12_000)
    ranges = len(set(opened))
    assert ranges > 5
    assert len(opened) == ranges * (32 // 8 + 1)  # and once for what is in no bucket


def test_a_range_is_one_file_of_tables(tmp_path, monkeypatch):
    path = write_dump(tmp_path / "dump.json", some_entities())
    monkeypatch.setattr("anachron.wikidata.reading.ingest._join", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ingest(path, tmp_path / "s", SETTINGS, range_bytes=12_000)
    folders = [folder for folder in (tmp_path / "s" / "work").iterdir() if folder.is_dir()]
    assert len(folders) > 5
    assert {path.name for folder in folders for path in folder.iterdir()} == {"tables.rows", "done.json"}


@pytest.mark.parametrize("run", [(1, 1), (2, 3), (4, 4)])
def test_stopped_within_a_run_goes_on_with_the_bucket_that_is_not_done(tmp_path, monkeypatch, run):
    path = write_dump(tmp_path / "dump.json", some_entities())
    ingest(path, tmp_path / "whole", SETTINGS, range_bytes=12_000)
    monkeypatch.setattr(merge, "RUN", run)
    real, done = merge._merge_bucket, []

    def stop(task, bucket, parts):
        if bucket == 2 and len(done) == 2:
            raise KeyboardInterrupt
        done.append(bucket)
        return real(task, bucket, parts)

    monkeypatch.setattr(merge, "_merge_bucket", stop)
    with pytest.raises(KeyboardInterrupt):
        ingest(path, tmp_path / "s", SETTINGS, range_bytes=12_000)
    assert sorted(file.name for file in (tmp_path / "s" / "work").glob("bucket-*")) == [
        "bucket-000.json",
        "bucket-001.json",
    ]
    done.append(-1)
    ingest(path, tmp_path / "s", SETTINGS, range_bytes=12_000)
    assert done == [0, 1, -1, 2, 3]
    assert content(tmp_path / "s") == content(tmp_path / "whole")


def test_what_a_killed_worker_left_is_gone_at_the_end(tmp_path, monkeypatch):
    """Also where its process still runs, as workers do for a moment when theirs was killed."""
    path = write_dump(tmp_path / "dump.json", some_entities())
    left = tmp_path / "s" / "statements" / f".part-001.parquet.{os.getpid()}.0123abcd.tmp"
    left.parent.mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(
            "anachron.wikidata.reading.ingest._refuse_strangers", lambda out, beside: left.write_bytes(b"half")
        )
        ingest(path, tmp_path / "s", SETTINGS)
    assert not left.exists() and (left.parent / "part-001.parquet").is_file()


def test_the_work_of_an_earlier_version_is_refused(tmp_path, monkeypatch):
    path = write_dump(tmp_path / "dump.json", some_entities())
    with monkeypatch.context() as patch:
        patch.setattr("anachron.wikidata.reading.ingest._join", lambda *a: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ingest(path, tmp_path / "s", SETTINGS)
    job = tmp_path / "s" / "work" / "job.json"
    record = json.loads(job.read_text())
    del record["identity"]["work_format"]
    job.write_text(json.dumps(record))
    with pytest.raises(ConfigError, match=r"work_format: nothing -> 3"):
        ingest(path, tmp_path / "s", SETTINGS)
