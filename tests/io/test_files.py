"""Files that appear whole or not at all, tables, fingerprints and manifests."""

import codecs
import errno
import gzip
import hashlib
import json
import os
import random
import socket
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest

from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.data.updates.cases import load_cases
from anachron.io.files import (
    atomic,
    file_fingerprint,
    read_bytes,
    read_json,
    read_jsonl,
    read_text,
    refuse_binary,
    refuse_special_files,
    rows_fingerprint,
    versions,
    write_bytes,
    write_json,
    write_manifest,
)
from anachron.io.tables import read_table, write_table

TABLE = pl.DataFrame(
    {"name": ['Zoë, "Z"', None, "two\nlines", "007"], "count": [1, -2, None, 3], "share": [0.1, 1 / 3, None, 1e-300]}
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_appears_only_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    with atomic(target) as temporary:
        temporary.write_bytes(b"half")
        assert temporary.parent == tmp_path and not target.exists()
        temporary.write_bytes(b"whole")
    assert target.read_bytes() == b"whole"
    assert names(tmp_path) == ["out.bin"]


def test_missing_folders_are_made(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a" / "b" / "out.bin", b"data")
    assert (tmp_path / "a" / "b" / "out.bin").read_bytes() == b"data"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_the_old_file_and_no_temporary(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "out.bin"
    write_bytes(target, b"old")
    with pytest.raises(error), atomic(target) as temporary:
        temporary.write_bytes(b"new")
        raise error
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["out.bin"]


def test_a_reader_of_the_old_file_keeps_it_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    write_bytes(target, b"old")
    with target.open("rb") as reader:
        write_bytes(target, b"new and longer")
        assert reader.read() == b"old"
    assert target.read_bytes() == b"new and longer"


def test_an_exception_leaves_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), atomic(tmp_path / "out.bin") as temporary:
        temporary.write_bytes(b"new")
        _ = 1 / 0
    assert names(tmp_path) == []


def test_two_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    with atomic(target) as first:
        first.write_bytes(b"first")
        with atomic(target) as second:
            assert second != first
            second.write_bytes(b"second")
        assert target.read_bytes() == b"second"
    assert target.read_bytes() == b"first"
    assert names(tmp_path) == ["out.bin"]


@pytest.mark.parametrize("below", ["out.bin", "deeper/out.bin"])
def test_a_target_below_a_file_is_a_one_line_backend_error(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("I am no folder")
    target = tmp_path / "file" / below
    with pytest.raises(BackendError) as caught:
        write_bytes(target, b"data")
    message = str(caught.value)
    assert str(target) in message and "choose another place" in message and "\n" not in message
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "I am no folder"


def test_a_target_that_is_a_folder_is_a_backend_error(tmp_path: Path) -> None:
    (tmp_path / "out.bin").mkdir()
    with pytest.raises(BackendError, match="cannot write"):
        write_bytes(tmp_path / "out.bin", b"data")
    assert names(tmp_path) == ["out.bin"]


def test_a_file_is_synced_as_windows_demands_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``_commit`` of Windows refuses a descriptor that is open for reading only, and so does this fsync."""
    fcntl, synced = pytest.importorskip("fcntl"), []
    real = os.fsync

    def commit(descriptor: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        real(descriptor)
        synced.append(descriptor)

    monkeypatch.setattr(os, "fsync", commit)
    write_bytes(tmp_path / "out.bin", b"data")
    assert (tmp_path / "out.bin").read_bytes() == b"data" and len(synced) == 1


def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path: Path) -> None:
    """Only of the same file, and only where no such process is left."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    gone, own, other = (
        tmp_path / f".{name}.{process}.0123abcd.tmp"
        for name, process in (("out.bin", ended.pid), ("out.bin", os.getpid()), ("out.bin.2", ended.pid))
    )
    for path in (gone, own, other):
        path.touch()
    write_bytes(tmp_path / "out.bin", b"data")
    assert names(tmp_path) == sorted([own.name, other.name, "out.bin"])


FULL_DISK = """
import resource, signal, sys
import polars as pl
from anachron.core.errors import BackendError
from anachron.io.tables import write_table
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write_table(sys.argv[1], pl.DataFrame({"n": range(10_000)}))
except BackendError as error:
    print(error)
"""


def test_a_full_disk_is_a_backend_error_and_spares_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "table.csv"
    target.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(target)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"cannot write {target}: ") and done.stdout.count("\n") == 1
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["table.csv"]


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_typed_tables_come_back_equal(tmp_path: Path, ending: str) -> None:
    write_table(tmp_path / f"table.{ending}", TABLE)
    assert read_table(tmp_path / f"table.{ending}").equals(TABLE)
    assert names(tmp_path) == [f"table.{ending}"]


def test_csv_comes_back_as_text_with_its_zeros(tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv", TABLE)
    back = read_table(tmp_path / "table.csv")
    assert back.dtypes == [pl.String] * 3
    assert back["name"].to_list() == TABLE["name"].to_list()
    assert back.with_columns(pl.col("count").cast(pl.Int64), pl.col("share").cast(pl.Float64)).equals(TABLE)


def test_a_json_list_and_ndjson_are_read(tmp_path: Path) -> None:
    rows = TABLE.to_dicts()
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "a.ndjson").write_text("\n".join(map(json.dumps, rows)))
    assert read_table(tmp_path / "a.json").equals(TABLE)
    assert read_table(str(tmp_path / "a.ndjson")).equals(TABLE)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "ndjson", "json"])
def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path, ending: str) -> None:
    plain, marked = tmp_path / f"plain.{ending}", tmp_path / f"marked.{ending}"
    row = '{"a": "Zoë", "b": "1"}'
    plain.write_text({"csv": "a,b\nZoë,1\n", "json": f"[{row}]"}.get(ending, f"{row}\n"), "utf-8")
    marked.write_bytes(codecs.BOM_UTF8 + plain.read_bytes())
    assert read_table(marked).equals(read_table(plain)) and read_table(marked).columns == ["a", "b"]
    if ending != "csv":
        reader = read_json if ending == "json" else read_jsonl
        assert reader(marked) == reader(plain)


def test_a_value_late_in_a_json_file_keeps_its_type(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": null}\n' * 2000 + '{"n": "-0044"}\n')
    assert read_table(tmp_path / "a.jsonl")["n"][-1] == "-0044"


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.PARQUET.zip"])
def test_unknown_endings_are_refused_both_ways(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(DataError, match=r"unknown ending .*\.parquet"):
        read_table(tmp_path / name)
    with pytest.raises(ConfigError, match=r"unknown ending .*\.parquet"):
        write_table(tmp_path / name, TABLE)
    assert (tmp_path / name).read_text() == "x"


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.csv: no such file"):
        read_table(tmp_path / "gone.csv")


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.parquet", b"not parquet"),
        ("a.parquet", b""),
        ("a.csv", b""),
        ("a.jsonl", b'{"n": 1}\n{"n": '),
        ("a.json", b"[{]"),
    ],
)
def test_a_corrupt_table_is_a_one_line_data_error(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_table(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value) and "\n" not in str(caught.value)


def test_parquet_with_a_flipped_bit_is_read_or_a_data_error(tmp_path: Path) -> None:
    """Polars panics over some, which is an error of no usual kind."""
    buffer, path, random_, panics = BytesIO(), tmp_path / "a.parquet", random.Random(1), 0
    TABLE.write_parquet(buffer)
    good = buffer.getvalue()
    for _ in range(400):
        data = bytearray(good)
        data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        path.write_bytes(data)
        try:
            read_table(path)
        except DataError as error:
            panics += isinstance(error.__cause__, pl.exceptions.PanicException)
            assert "\n" not in str(error)
    assert panics


def test_json_round_trip(tmp_path: Path) -> None:
    value = {"name": "Zoë", "list": [1, None, 0.1], "deep": {"a": True}}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    assert "Zoë" in (tmp_path / "a.json").read_text("utf-8")


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe"])
def test_broken_json_is_a_data_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.json"):
        read_json(tmp_path / "a.json")


def test_missing_json_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.json"):
        read_json(tmp_path / "gone.json")


def test_jsonl_rows_in_order_blank_lines_aside(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n\n  \n{"b": "Zoë"}', "utf-8")
    assert read_jsonl(tmp_path / "a.jsonl") == [{"a": 1}, {"b": "Zoë"}]


@pytest.mark.parametrize("bad, rule", [("{'a': 1}", "not valid JSON"), ("[1]", "expected an object, found list")])
def test_jsonl_names_the_bad_line(tmp_path: Path, bad: str, rule: str) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"a": 1}}\n\n{bad}\n{{"a": 2}}\n')
    with pytest.raises(DataError, match=rule) as caught:
        read_jsonl(tmp_path / "a.jsonl")
    assert "a.jsonl, line 3:" in str(caught.value) and "\n" not in str(caught.value)


def test_jsonl_that_cannot_be_read_is_a_data_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"a": "\xff"}\n')
    for name in ("a.jsonl", "gone.jsonl"):
        with pytest.raises(DataError, match="cannot read"):
            read_jsonl(tmp_path / name)


def test_file_fingerprint_is_the_sha256_of_the_bytes(tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000
    (tmp_path / "a").write_bytes(data)
    assert file_fingerprint(tmp_path / "a") == hashlib.sha256(data).hexdigest()


def test_rows_fingerprint_is_the_sha256_of_json_lines() -> None:
    expected = hashlib.sha256('["Zoë",1,null]\n{"a":0.1}\n'.encode()).hexdigest()
    assert rows_fingerprint(iter([("Zoë", 1, None), {"a": 0.1}])) == expected
    assert rows_fingerprint([]) == hashlib.sha256(b"").hexdigest()


def test_rows_fingerprint_sees_order_and_boundaries() -> None:
    prints = {rows_fingerprint(rows) for rows in ([[1], [2]], [[2], [1]], [[1, 2]], [[1], ["2"]])}
    assert len(prints) == 4


def test_manifest_says_where_the_output_is_from(tmp_path: Path) -> None:
    output = tmp_path / "scores.parquet"
    write_table(output, TABLE)
    write_manifest(
        output, command="anachron score", parameters={"seed": 3}, inputs={"pairs": "abc"}, counts={"rows": 4}
    )
    manifest = read_json(tmp_path / "scores.parquet.manifest.json")
    assert manifest["output"] == "scores.parquet"
    assert manifest["sha256"] == hashlib.sha256(output.read_bytes()).hexdigest()
    assert manifest["command"] == "anachron score"
    assert (manifest["parameters"], manifest["inputs"], manifest["counts"]) == (
        {"seed": 3},
        {"pairs": "abc"},
        {"rows": 4},
    )
    assert manifest["versions"] == versions()
    assert names(tmp_path) == ["scores.parquet", "scores.parquet.manifest.json"]


def test_versions_name_python_and_the_table_library() -> None:
    assert versions()["polars"] == pl.__version__
    assert versions()["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "anachron" in versions()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are of Unix")
def test_pipes_devices_and_sockets_are_refused_as_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that nobody writes to would wait for ever, and a device may never end."""
    pipe, ours = tmp_path / "facts.jsonl", tmp_path / "s"
    os.mkfifo(pipe)
    (tmp_path / "link.jsonl").symlink_to(pipe)
    special = {pipe: "pipe", tmp_path / "link.jsonl": "pipe", Path("/dev/zero"): "device", ours: "socket"}
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(ours.name)  # a whole path may be too long for a socket
        for path, kind in special.items():
            with pytest.raises(DataError, match=f"is a {kind}; inputs are files"):
                refuse_special_files(path)
    for path in (tmp_path, tmp_path / "missing", __file__, "s3://bucket/key", "a\0b"):
        refuse_special_files(path)
    for read in (read_bytes, read_json, read_jsonl, read_table, lambda path: read_text(path, "--prompt")):
        with pytest.raises(DataError, match="is a pipe"):
            read(pipe)


def test_a_large_file_that_is_no_text_is_refused_by_its_first_megabyte(tmp_path: Path) -> None:
    """It is larger than memory (and holds no block on the disk): a reader that wants all of it would be killed."""
    from anachron.edit.corpus import open_corpus
    from anachron.probe.prefixes import prefix_text
    from anachron.wikidata.topic.choose import read_items

    def corpus(path: Path) -> None:
        open_corpus(path)

    readers = {
        ".json": read_json, ".jsonl": read_jsonl, ".csv": read_table, ".txt": corpus, ".md": read_items,
        ".rst": prefix_text, ".text": lambda path: read_text(path, "--text"),
    }  # fmt: skip
    for ending, read in readers.items():
        path = tmp_path / f"large{ending}"
        with path.open("wb") as data:
            data.write(b"half a text")
            data.truncate(1 << 40)
        with pytest.raises(DataError, match=r"is binary, not text \(byte 11 is 0\)"):
            read(path if ending != ".rst" else str(path))
        os.truncate(path, 11)
        refuse_binary(path)
    with pytest.raises(DataError, match="is a device"):
        corpus(Path("/dev/zero"))
    refuse_binary(tmp_path / "missing")


def test_a_packed_text_is_a_corpus_and_packed_bytes_are_not(tmp_path: Path) -> None:
    from anachron.edit.corpus import open_corpus

    for name, content in (("text.txt.gz", "São Paulo\n".encode() * 9), ("bytes.txt.gz", b"half\0a text" * 9)):
        (tmp_path / name).write_bytes(gzip.compress(content))
    assert [text for _, text in open_corpus(tmp_path / "text.txt.gz").pieces()] == ["São Paulo\n" * 9]
    with pytest.raises(DataError, match="byte 4: a zero byte; this is binary"):
        open_corpus(tmp_path / "bytes.txt.gz")


@pytest.mark.parametrize("name", ["table.jsonl", "table.json"])
def test_half_a_character_in_a_table_is_refused_where_it_stands(tmp_path: Path, name: str) -> None:
    """Polars has the character 0 for it. Whole ones, and texts that only look like it, are read."""
    rows = [{"a": "\U0001f3d9 \\ud800"}, {"a": "\\\\ud800"}, {"a": "x"}]
    path = tmp_path / name

    def write(*rows: dict[str, str]) -> None:
        lines = [json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) if name.endswith("l") else "[" + ",\n".join(lines) + "]")

    write(*rows)
    assert read_table(path)["a"].to_list() == [row["a"] for row in rows]
    for half in ("a\ud800b", "\udc00", "\\\ud83d", "\ud83d\ud83d\ude00", "\U0001f3d9\udfff"):
        write(*rows, {"a": half})
        for read in (read_table, lambda path: list(load_cases(str(path)).cases)):
            with pytest.raises(DataError, match=r"line 4: \\ud[0-9a-f]{3} is half a character"):
                read(path)
