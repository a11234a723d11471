"""Whether the ranges that were read are a whole dump: none missing, not cut off, one entity a line, mostly sound."""

from pathlib import Path
from typing import Any

from anachron.errors import DataError
from anachron.wikidata.reading.bzip2 import check_chains
from anachron.wikidata.reading.dump import Dump
from anachron.wikidata.reading.ranges import PART, NoDump, range_folder, wrong_file


def check_layout(dump: Dump, work: Path, done: dict[int, dict[str, Any]]) -> None:
    """Raise `NoDump` where entities are not one a line, which would else look like a dump that is cut off."""
    odd = done.get(0, {}).get("odd")
    lines, bad = (sum(found[key] for found in done.values()) for key in ("lines", "bad"))
    # One line that ends too early may be all that a cut left.
    if odd is not None and 2 * bad > lines and (odd != PART or lines > 1):
        raise mostly_bad(dump, work, list(done.values()))


def mostly_bad(dump: Dump, work: Path, ranges: list[dict[str, Any]]) -> NoDump:
    """What to say of ranges most of whose lines are bad."""
    lines, bad = (sum(found[key] for found in ranges) for key in ("lines", "bad"))
    first = next(found["range"] for found in ranges if found["bad"])
    example = (range_folder(work, first) / "bad.jsonl").read_bytes().splitlines()[0]
    odd = next((found["odd"] for found in ranges if found["odd"]), None)
    return wrong_file(dump, {"lines": lines, "bad": bad}, example, odd)


def first_missing(done: dict[int, Any]) -> int | None:
    """The first range that is not done, up to the first that has the end of the file."""
    last = min((number for number, found in done.items() if found["last"]), default=max(done, default=-1))
    return next((number for number in range(last + 1) if number not in done), None)


def in_order(dump: Dump, done: dict[int, dict[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    """The ranges of the dump, in order. Raises `DataError` for a dump that is cut off or has a gap."""
    ranges = list(done.values())
    if limit is not None and sum(found["lines"] for found in ranges) >= limit:
        return ranges
    missing = first_missing(done)
    if missing is not None or not any(found["last"] for found in ranges):
        raise DataError(f"{dump.path}: range {missing} was not read; repeat the command")
    last = min(number for number, found in done.items() if found["last"])
    ranges = [found for number, found in done.items() if number <= last]
    if dump.compression == "bz2" and dump.layout == "lines":
        check_chains(dump.path, dump.size, [found["chain"] for found in ranges])
    if dump.layout == "lines":
        _check_brackets(dump, ranges)
    return ranges


def _check_brackets(dump: Dump, ranges: list[dict[str, Any]]) -> None:
    text = sum(found["text_bytes"] for found in ranges)
    opens, closes, lines = (sum(found[key] for found in ranges) for key in ("opens", "closes", "lines"))
    first = next((found["first_line"] for found in ranges if found["first_line"]), "")
    last = next((found["last_line"] for found in reversed(ranges) if found["last_line"]), "")
    if (first == "[" and last != "]") or any(found["cut"] for found in ranges):
        what = "the array has no closing ']'" if first == "[" else "the last line is no whole entity"
        raise DataError(
            f"{dump.path} is cut off after {text:,} bytes of JSON and {lines:,} entities: {what}; fetch the rest of "
            "it, then repeat the command"
        )
    if opens != closes:
        raise DataError(
            f"{dump.path} has {opens} lines '[' and {closes} lines ']': a part of the array is missing; fetch it again"
        )
