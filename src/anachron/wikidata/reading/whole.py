"""Whether the ranges that were read are a whole dump: none missing, not cut off, one entity per line, few bad."""

import json
from collections.abc import Iterator
from typing import Any

from anachron.core.errors import DataError
from anachron.io.files import remove_file
from anachron.io.stores import Place
from anachron.wikidata.reading.bzip2 import check_chains
from anachron.wikidata.reading.dump import Dump
from anachron.wikidata.reading.ranges import PART, NoDump, range_folder, wrong_file

FIRST = 5  # bad lines whose positions are told


def check_layout(dump: Dump, work: Place, done: dict[int, dict[str, Any]]) -> None:
    """Raise `NoDump` where entities are not one a line, which would else look like a dump that is cut off."""
    odd = done.get(0, {}).get("odd")
    lines, bad = (sum(range_[key] for range_ in done.values()) for key in ("lines", "bad"))
    # One line that ends too early may be all that a cut left.
    if odd is not None and 2 * bad > lines and (odd != PART or lines > 1):
        raise mostly_bad(dump, work, list(done.values()))


def mostly_bad(dump: Dump, work: Place, ranges: list[dict[str, Any]]) -> NoDump:
    """What to say of ranges most of whose lines are bad."""
    lines, bad = (sum(range_[key] for range_ in ranges) for key in ("lines", "bad"))
    reason = next(_bad_rows(work, ranges))["reason"]
    odd = next((range_["odd"] for range_ in ranges if range_["odd"]), None)
    return wrong_file(dump, {"lines": lines, "bad": bad}, reason, odd)


def check_bad(dump: Dump, work: Place, ranges: list[dict[str, Any]], most_bad: float) -> None:
    """Raise `DataError` where more than ``most_bad`` percent of the lines, or of their bytes, hold no entity.

    Bytes count too, for damage can make one line of many. The ranges of those lines are read again by the next call,
    as the file may then be a sound one; of a file that cannot be entered in the middle, all behind the first of them.
    """
    lines, bad, text, lost = (
        sum(range_[key] for range_ in ranges) for key in ("lines", "bad", "text_bytes", "bad_bytes")
    )
    if not bad or max(100 * bad / lines, 100 * lost / text) <= most_bad:
        return
    shown = [row for row, _ in zip(_bad_rows(work, ranges), range(FIRST), strict=False)]
    what = [": ".join(filter(None, (row.get("id"), row["reason"]))) for row in shown]
    places = "; ".join(f"byte {row['position']:,} ({reason})" for row, reason in zip(shown, what, strict=True))
    damaged = [range_["range"] for range_ in ranges if range_["bad"]]
    for range_ in ranges:
        if range_["range"] in damaged or (not dump.seekable and range_["range"] >= damaged[0]):
            remove_file(range_folder(work, range_["range"]) / "done.json")
    raise DataError(
        f"{dump}: {bad:,} of {lines:,} lines ({_percent(bad, lines)}; {_percent(lost, text)} of the bytes) hold "
        f"no entity that can be read, above the {most_bad:g} % of --most-bad; the first in the text: {places}; compare "
        "the file with its published checksum, fetch it again and repeat the command, or let them go with a higher "
        "--most-bad"
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3g} %"


def _bad_rows(work: Place, ranges: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of lines that are bad in the order of the dump, ``position`` counted from the begin of its text."""
    base = 0
    for range_ in ranges:
        if range_["bad"]:
            for line in (range_folder(work, range_["range"]) / "bad.jsonl").read_bytes().splitlines():
                row = json.loads(line)
                if "lost" not in row:
                    yield row | {"position": row["position"] + base}
        base += range_["text_bytes"]


def first_missing(done: dict[int, Any]) -> int | None:
    """The first range that is not done, up to the first that has the end of the file."""
    last = min((number for number, range_ in done.items() if range_["last"]), default=max(done, default=-1))
    return next((number for number in range(last + 1) if number not in done), None)


def in_order(
    dump: Dump, done: dict[int, dict[str, Any]], limit: int | None, elsewhere: Place | None = None
) -> list[dict[str, Any]]:
    """The ranges of the dump, in order. Raises `DataError` for a dump that is cut off or has a gap.

    elsewhere: the work folder, if other machines wrote what they finished to a folder of that name.
    """
    ranges = list(done.values())
    if limit is not None and sum(range_["lines"] for range_ in ranges) >= limit:
        return ranges
    missing = first_missing(done)
    if missing is not None or not any(range_["last"] for range_ in ranges):
        what = "its end" if missing is None else f"range {missing}"
        if elsewhere is not None:
            raise DataError(
                f"{dump}: {what} is not in {elsewhere}, though every worker is done: the machines of the cluster "
                "do not share that folder; give --out s3://BUCKET/FOLDER, or a folder that all of them share"
            )
        raise DataError(f"{dump}: {what} was not read; repeat the command")
    last = min(number for number, range_ in done.items() if range_["last"])
    ranges = [range_ for number, range_ in done.items() if number <= last]
    if dump.compression == "bz2" and dump.layout == "lines":
        check_chains(dump.path, dump.size, [range_["chain"] for range_ in ranges])
    if dump.layout != "document":
        _check_brackets(dump, ranges)
    return ranges


def _check_brackets(dump: Dump, ranges: list[dict[str, Any]]) -> None:
    text = sum(range_["text_bytes"] for range_ in ranges)
    opens, closes, lines = (sum(range_[key] for range_ in ranges) for key in ("opens", "closes", "lines"))
    first = next((range_["first_line"] for range_ in ranges if range_["first_line"]), "")
    last = next((range_["last_line"] for range_ in reversed(ranges) if range_["last_line"]), "")
    if dump.layout == "lines" and ((first == "[" and last != "]") or any(range_["cut"] for range_ in ranges)):
        what = "the array has no closing ']'" if first == "[" else "the last line is no whole entity"
        raise DataError(
            f"{dump} is cut off after {text:,} bytes of JSON and {lines:,} entities: {what}; fetch the rest of "
            "it, then repeat the command"
        )
    if opens != closes:
        raise DataError(
            f"{dump} has {opens} lines '[' and {closes} lines ']': a part of the array is missing; fetch it again"
        )
