"""A gz or zst file that is decompressed once for all workers: the lines, errors and bytes of reading it alone."""

import gzip
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import BackendError, DataError
from anachron.wikidata.reading import handing
from anachron.wikidata.reading import ingest as module
from anachron.wikidata.reading.dump import open_dump, read_stream
from anachron.wikidata.reading.handing import HandOut, read_handed
from anachron.wikidata.reading.ingest import ingest
from wikidata.dumps import compress, dump_bytes, item, write_dump
from wikidata.test_dump import plain_lines, texts
from wikidata.test_ingest import SETTINGS, content, some_entities

pytestmark = pytest.mark.skipif(not handing.CAN_HAND_OUT, reason="files in memory are of Linux")


def found_in(range_):
    """What is known of a range, and its lines with their places, once they are read."""
    lines = []
    for offset, batch in range_.lines:
        for line in batch:
            lines.append((offset, bytes(line)))
            offset += len(line) + 1
    return (range_.text_bytes, range_.last, range_.unended, range_.file_position), lines


def handed_lines(dump, found, skip=frozenset(), ahead=1):
    """Fill in the ranges by number, where so many of them are given before the first is read."""
    waiting = []
    with HandOut(dump, skip) as ranges:
        for handed in ranges:
            waiting.append(handed)
            if len(waiting) == ahead:
                oldest = waiting.pop(0)
                found[oldest.number] = found_in(read_handed(dump, oldest))
                ranges.done()
        for handed in waiting:
            found[handed.number] = found_in(read_handed(dump, handed))
        ranges.check()


@given(
    text=texts,
    ending=st.sampled_from([".gz", ".zst"]),
    streams=st.integers(1, 4),
    parts=st.integers(1, 12),
    ahead=st.integers(1, 5),
    skip=st.frozensets(st.integers(0, 12), max_size=4),
)
def test_each_range_is_what_a_reader_of_the_file_finds(tmp_path_factory, text, ending, streams, parts, ahead, skip):
    path = tmp_path_factory.mktemp("dump") / f"dump{ending}"
    path.write_bytes(compress(text, ending, streams=streams))
    dump = open_dump(path, range_bytes=max(1, len(text) // parts))
    whole, rest = {}, {}
    handed_lines(dump, whole, ahead=ahead)
    assert whole == {range_.number: found_in(range_) for range_ in read_stream(dump, 0, 1)}
    lines = [line for number in sorted(whole) for _, line in whole[number][1]]
    assert lines == [line for _, line in plain_lines(text)]
    handed_lines(dump, rest, skip, ahead)
    assert rest == {number: found for number, found in whole.items() if number not in skip}


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_an_error_in_the_file_comes_after_the_ranges_before_it(tmp_path, ending):
    text = dump_bytes(item(f"Q{n}", os.urandom(9_000).hex()) for n in range(1, 170))
    data = compress(text, ending, level=1)
    path = tmp_path / f"dump{ending}"
    for damaged in (data[: len(data) // 2], data[:-1], data + b"rubbish"):
        path.write_bytes(damaged)
        dump = open_dump(path, 200_000)
        found, expected = {}, {}
        with pytest.raises(DataError) as refused:
            for range_ in read_stream(dump, 0, 1):
                expected[range_.number] = found_in(range_)
        with pytest.raises(DataError) as told:
            handed_lines(dump, found, ahead=2)
        assert str(told.value) == str(refused.value)
        assert found == expected and len(found) > 3


def test_memory_is_used_again_and_given_back(tmp_path):
    path = tmp_path / "dump.gz"
    path.write_bytes(gzip.compress(b"{}\n" * 4_000))
    dump = open_dump(path, 1_000)
    with HandOut(dump) as ranges:
        waiting, paths = [], set()
        for handed in ranges:
            paths.add(handed.path)
            assert handed.path.stat().st_size >= handed.length >= handed.text_bytes
            waiting.append(handed)
            if len(waiting) == 4:
                waiting.pop(0)
                ranges.done()
        assert len(paths) == 4 and handed.number == 11 and handed.last
    assert not any("anachron-range" in str(path.readlink()) for path in paths if path.is_symlink())


def test_a_file_without_line_breaks_does_not_fill_the_memory(tmp_path, monkeypatch):
    for name in ("dump", "handing"):
        monkeypatch.setattr(f"anachron.wikidata.reading.{name}.LONGEST_LINE", 10_000)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"{" + b"x" * 6_000_000))
    dump = open_dump(path, 1_000)
    with HandOut(dump) as ranges:
        handed = next(iter(ranges))
        assert handed.length < 3_000_000
        with pytest.raises(DataError, match="no line break in 10,000 bytes"):
            list(read_handed(dump, handed).lines)


@pytest.mark.full
@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_workers_do_not_read_the_file(tmp_path, monkeypatch, ending):
    """It is gone when the first range has been handed out, and no more than two ranges a worker are in memory."""
    path = write_dump(tmp_path / f"dump{ending}", some_entities(), streams=3)
    ingest(path, tmp_path / "one", SETTINGS, range_bytes=9_000)
    made, real, ranges = [], handing._memory, handing.texts

    def gone(*arguments):
        for range_ in ranges(*arguments):
            yield range_
            path.rename(tmp_path / "gone") if path.exists() else None

    def counted():
        made.append(real())
        return made[-1]

    monkeypatch.setattr(handing, "texts", gone)
    monkeypatch.setattr(handing, "_memory", counted)
    ingest(path, tmp_path / "two", SETTINGS, range_bytes=9_000, workers=2)
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert 1 < len(made) <= 4 and all(file.closed for file in made)


@pytest.mark.full
def test_the_same_bytes_where_nothing_can_be_handed_out(tmp_path, monkeypatch):
    path = write_dump(tmp_path / "dump.gz", some_entities(), streams=3)
    ingest(path, tmp_path / "one", SETTINGS, range_bytes=12_000, workers=2)
    monkeypatch.setattr(module, "CAN_HAND_OUT", False)
    monkeypatch.setattr(module, "HandOut", None)
    ingest(path, tmp_path / "two", SETTINGS, range_bytes=12_000, workers=2)
    assert content(tmp_path / "one") == content(tmp_path / "two")


@pytest.mark.full
def test_refusals_are_those_of_one_worker(tmp_path):
    text = dump_bytes(line if n % 9 else "garbage" for n, line in enumerate(some_entities(60)))
    cases = {
        "bad": compress(text, ".gz"),
        "cut": compress(text, ".gz")[:-9],
        "rest": compress(text[: len(text) // 2], ".gz"),
        "other": compress(b'{"event": 1}\n' * 5_000, ".gz"),
    }
    for name, data in cases.items():
        path = tmp_path / f"{name}.gz"
        path.write_bytes(data)
        told = []
        for workers in (1, 2):
            with pytest.raises(DataError) as refused:
                ingest(path, tmp_path / f"{name}{workers}", SETTINGS, range_bytes=4_000, workers=workers)
            told.append(str(refused.value))
        assert told[0] == told[1], name
        one, two = ({p.parent.name for p in tmp_path.glob(f"{name}{w}/work/*/done.json")} for w in (1, 2))
        assert one == two, name


@pytest.mark.slow
@pytest.mark.full
def test_the_file_is_read_and_decompressed_once(tmp_path):
    """As the benchmark counts it, and by each of the workers where nothing is handed out."""
    path = write_dump(tmp_path / "dump.gz", some_entities(30))
    script = Path(__file__).parents[2] / "benchmarks" / "handing.py"
    command = [sys.executable, str(script), str(path), "--workers", "3", "--repeat", "1"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    for case, times in (("once, 3 workers", 1), ("each, 3 workers", 3)):
        taken = found["cases"][case]
        assert taken["text_decompressed_over_all"] == taken["file_read_over_all"] == times
        assert taken["workers_cpu"] > 0


KILLED = """
import multiprocessing, sys, time
from anachron.wikidata.reading import handing
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.settings import IngestSettings
real = handing.texts
def slow(*a):
    for number, range_ in enumerate(real(*a)):
        yield range_
        time.sleep(0.1)
        print(*(child.pid for child in multiprocessing.active_children()), flush=True)
handing.texts = slow
if __name__ == "__main__":
    ingest(sys.argv[1], sys.argv[2], IngestSettings("2021-01-04", buckets=4), range_bytes=12_000, workers=2)
"""


@pytest.mark.slow
@pytest.mark.full
def test_killed_while_handing_out(tmp_path):
    path = write_dump(tmp_path / "dump.gz", some_entities(300), streams=5)
    ingest(path, tmp_path / "whole", SETTINGS, range_bytes=12_000)
    script, out = tmp_path / "killed.py", tmp_path / "killed"
    script.write_text(KILLED)
    with subprocess.Popen(
        [sys.executable, str(script), str(path), str(out)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            workers = line.split()  # the second starts only when the first has more to do than it can
            if len(list(out.glob("work/*/done.json"))) >= 3:
                break
        child.kill()
    done = {f: f.read_bytes() for f in out.glob("work/*/done.json")}
    assert len(done) >= 3 and workers and not (out / "manifest.json").exists()
    until = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < until
        time.sleep(0.05)
    ingest(path, out, SETTINGS, range_bytes=12_000, workers=3)
    assert content(tmp_path / "whole") == content(out)


@pytest.mark.full
def test_a_killed_worker_is_told_and_the_command_can_be_repeated(tmp_path, monkeypatch):
    path = write_dump(tmp_path / "dump.zst", some_entities(300))
    ingest(path, tmp_path / "whole", SETTINGS, range_bytes=12_000)
    real, out = handing.texts, tmp_path / "killed"

    def killing(*arguments):
        for number, range_ in enumerate(real(*arguments)):
            yield range_
            if number == 5:
                os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(handing, "texts", killing)
        with pytest.raises(BackendError, match="a worker process died"):
            ingest(path, out, SETTINGS, range_bytes=12_000, workers=2)
    assert not (out / "manifest.json").exists()
    ingest(path, out, SETTINGS, range_bytes=12_000, workers=2)
    assert content(tmp_path / "whole") == content(out)
