"""Page-view files of Wikimedia, read into views per title of one project.

A line is ``project title page_id access total daily`` with one space between columns, for example
``en.wikipedia Main_Page 15580374 mobile-web 500 A50B50``. Titles are written as they were asked for: underscores for
spaces, the first letter as it came, now and then percent-encoded; one with a quotation mark is quoted as in CSV, with
backslashes (``"\\"Heroes\\"_(album)"``). A title has a line for each page id and way of access; old lines leave out
``page_id`` or ``daily``. Files hold a month (``pageviews-202012-user.bz2``, 5 GB of text) or a day
(``pageviews-20201224-user.bz2``).
"""

import io
import queue
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date as Day
from urllib.parse import unquote

import polars as pl

from anachron.core.errors import ConfigError, DataError, how_to_install
from anachron.io.stores import Place, place
from anachron.wikidata.reading.streams import Compression, text_of

BATCH = 48 << 20  # bytes of the project's lines summed at once

_NAME = re.compile(r"pageviews-(\d{4})(\d{2})(\d{2})?-(\w+)(\.bz2|\.gz)?$")
_OWN_CAPITALS = {"tr": {"i": "İ"}, "az": {"i": "İ"}, "kaa": {"ı": "Í"}}
# Title case already, an accent, Georgian, numerals, letters in circles, and letters that Unicode has had since 2018
_NO_CAPITAL = re.compile("[ǅǈǋǲ\u0345\u10d0-\u10ff\u2170-\u217f\u24d0-\u24e9\ua7b9\U00016e60-\U00016e7f]")
_HEADER = b"project title a b c d more\n"


@dataclass(frozen=True, slots=True)
class PageviewFile:
    """A file by its name: ``month`` is ``YYYY-MM``; ``day`` is ``None`` for a file of a whole month."""

    path: Place
    month: str
    day: int | None


@dataclass
class Lines:
    """How many lines there were: all, of the project, and of these how many could not be read."""

    read: int = 0
    project: int = 0
    bad: int = 0


def parse_name(path: Place | str) -> PageviewFile:
    """What a file's name says. Raises `ConfigError` for another name, for views by others than people, for no file."""
    path = place(path)
    match = _NAME.search(path.name)
    if match is None:
        raise ConfigError(
            f"{path}: the name must end in pageviews-YYYYMM-user or pageviews-YYYYMMDD-user, and .bz2, .gz or nothing"
        )
    year, month, day, agent, _ = match.groups()
    if agent != "user":
        raise ConfigError(f"{path}: these are views by {agent}; popularity counts people, give the files named -user")
    try:
        Day(int(year), int(month), int(day or 1))
    except ValueError as error:
        raise ConfigError(f"{path}: its name holds no date ({error})") from error
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    return PageviewFile(path, f"{year}-{month}", None if day is None else int(day))


def read_views(
    path: Place, project: str, lines: Lines, progress: Callable[[int], None] = lambda done: None, threads: int = 1
) -> Iterator[pl.DataFrame]:
    """Yield tables ``title: str, views: i64`` of a project, each of one batch of its lines.

    Titles are as `normalise` makes them; the same title can come several times. ``lines`` is counted up on the way,
    ``progress`` is told how many bytes of the file are read. Memory is bounded by `BATCH`, whatever the size and order
    of the file. ``threads`` decompress a bz2 file. Raises `DataError` for a file that is damaged or cut off.
    """
    prefix = project.encode() + b" "
    waiting: list[bytes] = []
    size = 0
    for block in _ahead(_blocks(path, progress, threads)):
        lines.read += block.count(b"\n")
        mine = lines_of(block, prefix)
        if mine:
            waiting.append(mine)
            size += len(mine)
        if size >= BATCH:
            yield _sum(waiting, lines, project)
            waiting, size = [], 0
    if waiting:
        yield _sum(waiting, lines, project)


def _blocks(path: Place, progress: Callable[[int], None], threads: int = 1) -> Iterator[bytes]:
    """The text in blocks of whole lines; a last line without its end gets one."""
    rest: list[bytes] = []
    for chunk in _text(path, progress, threads):
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            yield b"".join((*rest, head, newline))
            rest = [tail]
        else:
            rest.append(chunk)
    if any(rest):
        yield b"".join((*rest, b"\n"))


def _text(path: Place, progress: Callable[[int], None], threads: int) -> Iterator[bytes]:
    """What the file holds, by its first bytes: names of uncompressed files may end in anything."""
    position = [0]
    try:
        with path.open("rb") as raw:
            magic = raw.read(3)
        compression: Compression = "bz2" if magic == b"BZh" else "gz" if magic.startswith(b"\x1f\x8b") else "none"
        for chunk in text_of(path, compression, threads, position):
            progress(position[0])
            yield chunk
    except ImportError as error:
        raise ConfigError(f"reading gz files needs {error.name}: {how_to_install('wikidata')}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}); fetch it again") from error


def _ahead(blocks: Iterator[bytes], most: int = 2) -> Iterator[bytes]:
    """The same blocks, decompressed by another thread while the last ones are worked on."""
    ready: queue.Queue[bytes | BaseException | None] = queue.Queue(most)
    stop = threading.Event()

    def put(item: bytes | BaseException | None) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for block in blocks:
                if not put(block):
                    return
            put(None)
        except BaseException as error:  # noqa: BLE001 - it is raised where the blocks are used
            put(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()


def lines_of(block: bytes, prefix: bytes) -> bytes:
    """The lines of a block that begin with ``prefix``.

    Files are sorted by project, so a block holds one run of such lines, or none: two searches and a count show that,
    and only where it is not so are lines looked at one by one.
    """
    start = 0 if block.startswith(prefix) else block.find(b"\n" + prefix) + 1
    if start == 0 and not block.startswith(prefix):
        return b""
    last = block.rfind(b"\n" + prefix) + 1
    end = block.index(b"\n", max(last, start)) + 1
    run = block[start:end]
    if run.count(b"\n") == run.count(b"\n" + prefix) + 1:
        return run
    return b"".join(line for line in run.splitlines(keepends=True) if line.startswith(prefix))


def _sum(parts: list[bytes], lines: Lines, project: str) -> pl.DataFrame:
    """Views by title of some lines of the project, with bad lines counted and left out."""
    text = b"".join(parts)
    rows = text.count(b"\n")
    table = pl.read_csv(
        io.BytesIO(_HEADER + text), separator=" ", quote_char=None, infer_schema=False, encoding="utf8-lossy",
        truncate_ragged_lines=True,
    )  # fmt: skip
    assert table.height == rows, f"{rows} lines became {table.height} rows"
    good = views_of(table)
    lines.project += rows
    lines.bad += rows - good.height
    sums = good.group_by("title").agg(pl.col("views").sum())
    return normalise(sums, project)


def views_of(table: pl.DataFrame) -> pl.DataFrame:
    """``title, views`` of the rows that can be read.

    Columns after the title: ``page_id access total daily``; with one fewer, the first or the last is missing, and the
    total is the one that is a number where the other shape has none. Empty columns at the end are none. A title that
    was not UTF-8 is bad, and so is a line with something in a seventh column.
    """
    number = r"^[0-9]{1,12}$"  # all of Wikimedia has some 10 ** 10 views a month; sums of these stay within 64 bits
    a_b_c = pl.col("a").is_not_null() & pl.col("b").is_not_null() & pl.col("c").is_not_null()
    six = pl.col("d").is_not_null() & pl.col("c").str.contains(number)
    without_daily = pl.col("d").is_null() & pl.col("c").str.contains(number)
    without_id = pl.col("d").is_null() & ~without_daily & pl.col("b").str.contains(number)
    total = pl.when(six | without_daily).then(pl.col("c")).when(without_id).then(pl.col("b"))
    readable = pl.col("title").is_not_null() & ~pl.col("title").str.contains("\ufffd", literal=True)
    return (
        table.filter(readable & a_b_c & pl.col("more").is_null())
        .select("title", total.cast(pl.Int64).alias("views"))
        .drop_nulls("views")
    )


def normalise(table: pl.DataFrame, project: str) -> pl.DataFrame:
    """Titles as Wikidata's sitelinks write them: spaces, nothing quoted or encoded, the first letter a capital.

    Wiktionaries tell ``be`` from ``Be``, and so does the Wikipedia in Lojban: there the first letter stays. A percent
    sign before two hexadecimal digits cannot be part of a title, so it is always an encoding. Other columns of
    ``table`` are kept.
    """
    title = pl.col("title")
    quoted = title.str.starts_with('"') & title.str.ends_with('"') & (title.str.len_bytes() >= 2)
    bare = title.str.slice(1, title.str.len_chars() - 2).str.replace_all(r'\\(["\\])', "${1}")
    table = table.with_columns(pl.when(quoted).then(bare).otherwise(title).alias("title"))
    encoded = table["title"].str.contains("%[0-9A-Fa-f]{2}")
    if encoded.any():
        titles = pl.Series("title", [_decoded(text) for text in table.filter(encoded)["title"]], pl.String)
        table = pl.concat([table.filter(~encoded), table.filter(encoded).with_columns(titles)], how="vertical")
    spaced = title.str.replace_all("_", " ", literal=True).str.replace_all(" {2,}", " ").str.strip_chars(" ")
    table = table.with_columns(spaced)
    language, _, family = project.partition(".")
    if family != "wiktionary" and project != "jbo.wikipedia":
        first = title.str.slice(0, 1)
        letters = table.select(first).to_series().unique()
        capitals = {letter: capital for letter in letters if (capital := ucfirst(letter, language)) != letter}
        table = table.with_columns(first.replace(capitals) + title.str.slice(1))
    return table.filter(title != "")


def ucfirst(letter: str, language: str) -> str:
    """The capital that MediaWiki, in Wikimedia's settings, makes of a title's first letter; most often its title case.

    Letters whose capital is two letters stay, and so do those that were none for it before. Source: Language::ucfirst
    and the classes of languages that have their own; UcfirstOverrides.php of Wikimedia's settings.
    """
    if (own := _OWN_CAPITALS.get(language, {}).get(letter)) is not None:
        return own
    if _NO_CAPITAL.fullmatch(letter):
        return letter
    capital = letter.upper() if letter in "ǆǉǌǳ" else letter.title()
    return capital if len(capital) == 1 else letter


def _decoded(title: str) -> str:
    """A title without percent-encoding, or as it is where that gives no UTF-8."""
    try:
        return unquote(title, errors="strict")
    except UnicodeDecodeError:
        return title


def months_of(files: Iterable[PageviewFile]) -> dict[str, list[PageviewFile]]:
    """Files by month, oldest first. Raises `ConfigError` for a month or day given twice, and for no files at all."""
    months: dict[str, list[PageviewFile]] = {}
    for file in files:
        months.setdefault(file.month, []).append(file)
    if not months:
        raise ConfigError("no page-view files: give pageviews-YYYYMM-user.bz2 files, one per month")
    for month, given in sorted(months.items()):
        days: dict[int | None, PageviewFile] = {}
        for file in given:
            if file.day in days or (None in days) or (file.day is None and days):
                other = days.get(file.day) or next(iter(days.values()))
                raise ConfigError(
                    f"{month}: both {other.path} and {file.path} hold its views; give one file of the month, or one "
                    "for each of its days"
                )
            days[file.day] = file
    return {month: sorted(months[month], key=lambda file: file.day or 0) for month in sorted(months)}
