"""Ranges of dump files: each line once, in order, from any compression, cut anywhere; and nothing lost in silence."""

import bz2
import gzip
import io
import random
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.wikidata.reading.bzip2 import BLOCK, END, Bzip2File, check_chains
from anachron.wikidata.reading.dump import Dump, open_dump, read_range, read_stream
from wikidata.dumps import compress, dump_bytes, item

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "wikidata"


def read_all(dump: Dump, workers: int = 1, threads: int = 2) -> list[tuple[int, bytes]]:
    """All lines with their places in the text, put together from the ranges; checks that a bz2 file has no gap."""
    ranges = {}
    if dump.ranges is not None:
        for number in range(dump.ranges):
            found = read_range(dump, number, threads)
            ranges[number] = found, list(found.lines)
        if dump.compression == "bz2":
            check_chains(dump.path, dump.size, [found.chain for found, _ in ranges.values()])
    else:
        for first in range(workers):
            for found in read_stream(dump, first, workers):
                ranges[found.number] = found, list(found.lines)
    lines, base = [], 0
    for number in sorted(ranges):
        found, batches = ranges[number]
        for offset, batch in batches:
            for line in batch:
                lines.append((base + offset, line))
                offset += len(line) + 1
        base += found.text_bytes
    return lines


def plain_lines(text: bytes) -> list[tuple[int, bytes]]:
    found, offset = [], 0
    for line in io.BytesIO(text):
        found.append((offset, line.removesuffix(b"\n")))
        offset += len(line)
    return found


texts = st.builds(
    lambda words, repeats: b"{" + b"".join(words) * repeats,
    st.lists(st.sampled_from([b"\n", b"ab", b"{}", b"\n\n", b"x" * 50, bytes(range(128, 256)), b"[],"]), max_size=60),
    st.sampled_from([1, 3, 400]),
)


@given(
    text=texts,
    ending=st.sampled_from([".json", ".gz", ".bz2", ".zst"]),
    level=st.integers(1, 9),
    streams=st.integers(1, 4),
    parts=st.integers(1, 12),
    workers=st.integers(1, 3),
)
def test_ranges_give_each_line_once_in_order(tmp_path_factory, text, ending, level, streams, parts, workers):
    path = tmp_path_factory.mktemp("dump") / f"dump{ending}"
    path.write_bytes(compress(text, ending, level=level, streams=streams))
    size = path.stat().st_size if ending in (".json", ".bz2") else len(text)
    dump = open_dump(path, range_bytes=max(1, size // parts))
    assert read_all(dump, workers) == plain_lines(text)


@settings(max_examples=6)
@given(seed=st.integers(0, 99), level=st.integers(1, 3), parts=st.integers(1, 30), threads=st.integers(1, 3))
def test_bz2_of_many_blocks_equals_the_module(tmp_path_factory, seed, level, parts, threads):
    source = random.Random(seed)
    text = b"{\n" + b"\n".join(source.randbytes(source.choice([3, 300, 30_000])).replace(b"\n", b"") for _ in range(20))
    text *= source.choice([1, 3])
    pieces = [text[: len(text) // 3], b"", text[len(text) // 3 :]]
    data = b"".join(bz2.compress(piece, level) for piece in pieces)
    path = tmp_path_factory.mktemp("dump") / "dump.bz2"
    path.write_bytes(data)
    with Bzip2File(path) as file:
        units = list(file.units(0, len(data), threads))
    assert b"".join(unit.text or b"" for unit in units) == bz2.decompress(data) == text
    assert read_all(open_dump(path, range_bytes=max(1, len(data) // parts)), threads=threads) == plain_lines(text)


@pytest.mark.full
def test_every_range_size_of_a_small_bz2_file(tmp_path):
    text = b"".join(b'{"a":%d}\n' % n for n in range(30_000))
    data = bz2.compress(text[:100_000], 1) + bz2.compress(b"") + bz2.compress(text[100_000:], 1)
    path = tmp_path / "dump.bz2"
    path.write_bytes(data)
    for size in (1_777, 4_001, len(data) - 1, len(data), 10 * len(data)):
        assert read_all(open_dump(path, range_bytes=size), threads=1) == plain_lines(text)


@pytest.mark.parametrize("shift", range(8))
@pytest.mark.parametrize("magic", [BLOCK, END])
def test_marks_are_found_at_every_bit(tmp_path, shift, magic):
    total = (0b1010101 << 8 * 20 + 56) | (magic << 8 * 20 + 8 - shift)
    path = tmp_path / "bits"
    path.write_bytes(total.to_bytes(28, "big"))
    with Bzip2File(path) as file:
        marks = list(file.marks(0))
    assert [(mark.bit, mark.is_end) for mark in marks] == [(8 + shift, magic == END)]


@pytest.mark.full
def test_false_marks_are_joined_over(tmp_path, monkeypatch):
    """48 bits do not occur by chance in a test, so the search is told of places inside blocks as if they did."""
    source = random.Random(5)
    text = b"{\n" + b"\n".join(source.randbytes(400).replace(b"\n", b"") for _ in range(500))
    data = bz2.compress(text, 1)
    path = tmp_path / "dump.bz2"
    path.write_bytes(data)
    true_marks = Bzip2File.marks

    for seed in range(3):
        rolled = random.Random(seed)
        false = sorted(rolled.sample(range(100, 8 * len(data) - 100), [1, 3, 9, 20][seed]))

        def marks(self, start, end=None, false=false, rolled=rolled):
            found = list(true_marks(self, start, end))
            known = {mark.bit for mark in found}
            last = 8 * self.size if end is None else end
            extra = [b for b in false if start <= b < last and b not in known]
            return iter(sorted([*found, *(type(found[0])(b, b % 3 == 0) for b in extra)] if found else found))

        monkeypatch.setattr(Bzip2File, "marks", marks)
        for size in (len(data) // 3, len(data) // 9):
            assert read_all(open_dump(path, range_bytes=size)) == plain_lines(text)


def outcome(path: Path, range_bytes: int | None = None) -> str:
    try:
        dump = open_dump(path, range_bytes)
        return b"\n".join(line for _, line in read_all(dump)).decode("latin-1")
    except DataError as error:
        assert str(path) in str(error)
        return "refused"


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
def test_compressed_files_cut_off_anywhere_are_refused(tmp_path, ending):
    data = compress(dump_bytes(item(f"Q{n}", "x" * (n % 50)) for n in range(1, 60)), ending)
    path = tmp_path / f"dump{ending}"
    for cut in [*range(0, len(data), 7), *range(len(data) - 20, len(data))]:
        path.write_bytes(data[:cut])
        assert outcome(path, 500) == "refused", cut


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
def test_a_damaged_byte_is_refused_or_changes_nothing(tmp_path, ending):
    text = dump_bytes(item(f"Q{n}", f"label {n}") for n in range(1, 60))
    data = compress(text, ending)
    if ending == ".zst":
        data = zstandard.ZstdCompressor(write_checksum=True).compress(text)
    path = tmp_path / f"dump{ending}"
    path.write_bytes(data)
    whole = outcome(path)
    for place in range(0, len(data), 5):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        assert outcome(path, 600) in ("refused", whole), place


def test_a_missing_or_doubled_block_is_refused(tmp_path):
    source = random.Random(1)
    text = b"{" + b"\n".join(source.randbytes(99).replace(b"\n", b"") for _ in range(4_000))
    data = bz2.compress(text, 1)
    path = tmp_path / "dump.bz2"
    path.write_bytes(data)
    with Bzip2File(path) as file:
        units = list(file.units(0, len(data)))
        bits = file.bits(0, 8 * len(data))
    assert len(units) > 3
    one = units[1]
    head, rest = bits >> (8 * len(data) - one.bit), bits & ((1 << (8 * len(data) - one.after)) - 1)
    length = 8 * len(data) - (one.after - one.bit)
    without = (head << (length - one.bit)) | rest
    path.write_bytes((without << (-length % 8)).to_bytes(-(-length // 8), "big"))
    for size in (10**6, 30_000):
        with pytest.raises(DataError, match="a block is missing or was exchanged"):
            read_all(open_dump(path, range_bytes=size))


def test_rubbish_behind_the_end_is_refused(tmp_path):
    for ending in (".gz", ".bz2", ".zst"):
        path = tmp_path / f"dump{ending}"
        path.write_bytes(compress(b"{}\n", ending) + b"rubbish")
        assert outcome(path) == "refused"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"<html><body>404</body></html>", "begins with '<html>"),
        (b"\n\n   ", "begins with 'nothing'"),
        (b"\xfd7zXZ\x00 and more", "is a xz file"),
        (b"PK\x03\x04 and more", "is a zip file"),
        (gzip.compress(b"subject,property\n", mtime=0), "begins with 'subject,property"),
        (b'{"entities": {"Q1": {"id": "Q1"', "not one JSON document"),
    ],
)
def test_files_that_are_no_dumps_are_named(tmp_path, data, says):
    path = tmp_path / "file.json"
    path.write_bytes(data)
    with pytest.raises(DataError, match=says):
        read_all(open_dump(path))


@pytest.mark.parametrize("log", [27, 28, 31])
def test_zst_with_a_wide_window_is_read(tmp_path, log, monkeypatch):
    text = b'{"a":1}\n' * 1_000
    wide = zstandard.ZstdCompressionParameters.from_level(1, window_log=log, enable_ldm=False)
    data = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    path = tmp_path / "dump.zst"
    path.write_bytes(data.compress(text) + data.flush())
    assert zstandard.get_frame_parameters(path.read_bytes()).window_size == 1 << log
    assert read_all(open_dump(path)) == plain_lines(text)
    monkeypatch.setattr("anachron.wikidata.reading.streams.LONGEST_WINDOW", 1 << 20)
    with pytest.raises(BackendError, match="window needs more memory"):
        open_dump(path)


def test_missing_file_and_empty_ranges(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        open_dump(tmp_path / "none.json")
    with pytest.raises(DataError, match="no such file"):
        open_dump(tmp_path)
    (tmp_path / "a.json").write_bytes(b"[\n]\n")
    with pytest.raises(ConfigError, match="at least one byte"):
        open_dump(tmp_path / "a.json", 0)


def test_a_file_without_line_breaks_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("anachron.wikidata.reading.dump.LONGEST_LINE", 10_000)
    path = tmp_path / "a.json"
    path.write_bytes(b"{" + b"x" * 3_000_000)
    with pytest.raises(DataError, match="no line break in"):
        read_all(open_dump(path))


def test_finished_ranges_are_passed_over(tmp_path):
    text = b"".join(b'{"n":%d}\n' % n for n in range(2_000))
    path = tmp_path / "dump.gz"
    path.write_bytes(gzip.compress(text))
    dump = open_dump(path, 1_000)
    whole = {found.number: list(found.lines) for found in read_stream(dump, 0, 1)}
    done = frozenset([0, 3, 4, 11])
    for workers in (1, 2, 3):
        rest = {}
        for first in range(workers):
            rest |= {f.number: list(f.lines) for f in read_stream(dump, first, workers, done)}
        assert {n: lines for n, lines in rest.items() if lines} == {n: v for n, v in whole.items() if n not in done}


def test_compression_is_told_by_the_content(tmp_path):
    path = tmp_path / "named.json"
    path.write_bytes(bz2.compress(b"{}\n"))
    assert open_dump(path).compression == "bz2"


@pytest.mark.full
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real files are not here")
@pytest.mark.parametrize("name", ["opentapioca_short_stream.json", "qrank_twenty_entities.json", "qsdump_entities"])
def test_real_files_by_ranges(tmp_path, name):
    path = SHARED / f"{name}.bz2"
    text = bz2.decompress(path.read_bytes())
    assert read_all(open_dump(path, path.stat().st_size // 5)) == plain_lines(text)
    for ending in (".gz", ".zst"):
        other = tmp_path / f"dump{ending}"
        other.write_bytes(compress(text, ending))
        assert read_all(open_dump(other, 300_000), workers=2) == plain_lines(text)
