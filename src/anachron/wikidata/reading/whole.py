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
    lines, bad = (sum(range_[key] for range_ in done.values()) for key in ("lines", "bad"))
    # One line that ends too early may be all that a cut left.
    if odd is not None and 2 * bad > lines and (odd != PART or lines > 1):
        raise mostly_bad(dump, work, list(done.values()))


def mostly_bad(dump: Dump, work: Path, ranges: list[dict[str, Any]]) -> NoDump:
    """What to say of ranges most of whose lines are bad."""
    lines, bad = (sum(range_[key] for range_ in ranges) for key in ("lines", "bad"))
    first = next(range_["range"] for range_ in ranges if range_["bad"])
    example = (range_folder(work, first) / "bad.jsonl").read_bytes().splitlines()[0]
    odd = next((range_["odd"] for range_ in ranges if range_["odd"]), None)
    return wrong_file(dump, {"lines": lines, "bad": bad}, example, odd)


def first_missing(done: dict[int, Any]) -> int | None:
    """The first range that is not done, up to the first that has the end of the file."""
    last = min((number for number, range_ in done.items() if range_["last"]), default=max(done, default=-1))
    return next((number for number in range(last + 1) if number not in done), None)


def in_order(dump: Dump, done: dict[int, dict[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    """The ranges of the dump, in order. Raises `DataError` for a dump that is cut off or has a gap."""
    ranges = list(done.values())
    if limit is not None and sum(range_["lines"] for range_ in ranges) >= limit:
        return ranges
    missing = first_missing(done)
    if missing is not None or not any(range_["last"] for range_ in ranges):
        raise DataError(f"{dump.path}: range {missing} was not read; repeat the command")
    last = min(number for number, range_ in done.items() if range_["last"])
    ranges = [range_ for number, range_ in done.items() if number <= last]
    if dump.compression == "bz2" and dump.layout == "lines":
        check_chains(dump.path, dump.size, [range_["chain"] for range_ in ranges])
    if dump.layout == "lines":
        _check_brackets(dump, ranges)
    return ranges


def _check_brackets(dump: Dump, ranges: list[dict[str, Any]]) -> None:
    text = sum(range_["text_bytes"] for range_ in ranges)
    opens, closes, lines = (sum(range_[key] for range_ in ranges) for key in ("opens", "closes", "lines"))
    first = next((range_["first_line"] for range_ in ranges if range_["first_line"]), "")
    last = next((range_["last_line"] for range_ in reversed(ranges) if range_["last_line"]), "")
    if (first == "[" and last != "]") or any(range_["cut"] for range_ in ranges):
        what = "the array has no closing ']'" if first == "[" else "the last line is no whole entity"
        raise DataError(
            f"{dump.path} is cut off after {text:,} bytes of JSON and {lines:,} entities: {what}; fetch the rest of "
            "it, then repeat the command"
        )
    if opens != closes:
        raise DataError(
            f"{dump.path} has {opens} lines '[' and {closes} lines ']': a part of the array is missing; fetch it again"
        )
