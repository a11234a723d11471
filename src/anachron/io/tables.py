"""Tables in files: read, written and checked; as Markdown, and with cells that no spreadsheet runs as formulas."""

import codecs
import mmap
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.errors import ConfigError, DataError, first_line
from anachron.io.files import refuse_binary, refuse_special_files, write_bytes
from anachron.io.store_requests import of_polars
from anachron.io.stores import Place, StorePath, place, polars_options

# Half a character in JSON: a high surrogate without its low one, or a low one without its high one
_HALF = re.compile(
    rb"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
WRITERS: dict[str, Callable[[pl.DataFrame, BytesIO], Any]] = {
    ".parquet": lambda t, b: t.write_parquet(b, compression="zstd"),
    ".csv": lambda t, b: t.write_csv(b),
    ".jsonl": lambda t, b: t.write_ndjson(b),
}


def by_schema(table: pl.DataFrame, schema: Mapping[str, Any]) -> pl.DataFrame:
    """The columns of a schema in their types, null where the table lacks them."""
    return table.select(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in schema.items()
    )


def check_ending(path: Place | str) -> str:
    """The ending of a table to be written. Raises `ConfigError` for one that no writer knows."""
    ending = place(path).suffix
    if ending not in WRITERS:
        raise ConfigError(f"{path}: unknown ending {ending!r}; use {', '.join(WRITERS)}")
    return ending


def write_table(path: Place | str, table: pl.DataFrame) -> None:
    """Write a table in the format its ending names: .parquet, .csv or .jsonl."""
    write_bytes(path, table_bytes(table, check_ending(path)))


def table_bytes(table: pl.DataFrame, ending: str) -> bytes:
    buffer = BytesIO()
    WRITERS[ending](table, buffer)
    return buffer.getvalue()


def _without_mark(source: Path | BytesIO) -> Path | BytesIO:
    """A JSON file as Polars takes it: without the byte order mark that some programs begin a text with."""
    with source.open("rb") if isinstance(source, Path) else BytesIO(source.getvalue()) as data:
        marked = data.read(3) == codecs.BOM_UTF8
        return BytesIO(data.read()) if marked else source


READERS: dict[str, Callable[[Path | BytesIO], pl.DataFrame]] = {
    ".parquet": pl.read_parquet,
    ".csv": lambda p: pl.read_csv(p, infer_schema=False),
    ".jsonl": lambda p: pl.read_ndjson(_without_mark(p), infer_schema_length=None),
    ".ndjson": lambda p: pl.read_ndjson(_without_mark(p), infer_schema_length=None),
    ".json": lambda p: pl.read_json(_without_mark(p), infer_schema_length=None),
}


def scan_parquet(path: Place, **options: Any) -> pl.LazyFrame:
    """`polars.scan_parquet` of a file that may lie on a store: only what is asked of it is fetched."""
    return pl.scan_parquet(_address(path), **options, **polars_options(path))


def read_parquet(path: Place, columns: list[str] | None = None) -> pl.DataFrame:
    """`polars.read_parquet` of a file that may lie on a store."""
    with in_our_words():
        return pl.read_parquet(_address(path), columns=columns, **polars_options(path))


@contextmanager
def in_our_words() -> Iterator[None]:
    """Wherever Polars reads what `scan_parquet` gave: what it met on a store, without what the store answered."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        if (store_error := of_polars(error)) is None:
            raise
        raise store_error from None


def _address(path: Place) -> Path | str:
    return str(path) if isinstance(path, StorePath) else path


def read_table(path: Place | str) -> pl.DataFrame:
    """Read .parquet, .csv, .jsonl/.ndjson or .json (a list of objects). Text columns of CSV stay text.

    A byte order mark at the beginning of a text is no part of it.
    """
    path = place(path)
    if path.suffix not in READERS:
        raise DataError(f"{path}: unknown ending {path.suffix!r}; use {', '.join(READERS)}")
    if path.suffix == ".parquet":
        refuse_special_files(path)
    else:
        refuse_binary(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    return _parsed(BytesIO(path.read_bytes()) if isinstance(path, StorePath) else path, path)


def parse_table(content: bytes, path: Place) -> pl.DataFrame:
    """The table in the content of a file, in the format that the file's ending names."""
    return _parsed(BytesIO(content), path)


def _parsed(source: Path | BytesIO, path: Place) -> pl.DataFrame:
    if path.suffix not in (".parquet", ".csv"):
        refuse_halves(source, path)
    try:
        return READERS[path.suffix](source)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, MemoryError) as error:
        # Polars panics over some broken Parquet
        raise DataError(f"cannot read {path} as {path.suffix[1:]}: {first_line(error)}") from error


def refuse_halves(source: Path | BytesIO, path: Place) -> None:
    """Raise `DataError` for JSON with half a character (``\\ud800`` alone), which no model can be given, and for which
    Polars has the character 0. path: of the source, for the message."""
    if isinstance(source, BytesIO):
        content: bytes | mmap.mmap = source.getvalue()
    else:
        with source.open("rb") as data:
            content = mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ) if source.stat().st_size else b""
    if content.find(b"\\ud") < 0 and content.find(b"\\uD") < 0:  # as nearly always, and a hundred times faster
        return
    if found := _HALF.search(content):
        line = content[: found.start()].count(b"\n") + 1
        half = found[1].decode()
        raise DataError(f"{path}, line {line}: {half} is half a character (a lone surrogate); write it whole")


_BEGINS = r"^[=+\-@＝＋－＠\t\r]"
_NUMBER = r"^[+-]?[0-9][0-9.,:-]*$"  # also a date, such as -0044-03-15: these stay as they are


def harmless(table: pl.DataFrame) -> pl.DataFrame:
    """A table for people's CSV files: an apostrophe stands before each text that a spreadsheet would run.

    That is a text which begins with ``=``, ``+``, ``-``, ``@``, a tabulator or a carriage return and is no number and
    no date. Numbers, dates and all other texts are unchanged, and so is what was made harmless before.
    """
    texts = [name for name, dtype in table.schema.items() if dtype == pl.String]
    run = {name: pl.col(name).str.contains(_BEGINS) & ~pl.col(name).str.contains(_NUMBER) for name in texts}
    return table.with_columns(
        pl.when(test).then("'" + pl.col(name)).otherwise(name).alias(name) for name, test in run.items()
    )


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Every cell on one line, its text as it is: bars and tags are escaped. Ends with a new line."""
    lines = [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    text = " ".join(str(value).split()).replace("|", r"\|")
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)
