"""Files of facts of any size: many rows, periods, aliases, long cells, many notices. Read in steps (lines of the reader
that run) by their rows, and with few lines to be told."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from anachron.core.errors import DataError
from anachron.data.own.files import read_given_facts

pytestmark = pytest.mark.trial
HEADER = ["subject", "relation", "object", "start", "end", "aliases", "note"]
SMALL, LARGE = 400, 1600
MORE = 5.5  # steps that four times as many rows may take; a reader that looks at all pairs takes sixteen times as many
Row = tuple[str, str, str, str, str, str, str]


def day(number: int) -> str:
    return f"{1000 + number // 336:04d}-{1 + number // 28 % 12:02d}-{1 + number % 28:02d}"


ROWS: dict[str, Callable[[int], Row]] = {
    "many subjects": lambda n: (f"S{n}", "capital", f"O{n}", "1990", "", "", ""),
    "many objects at once": lambda n: ("S", "member", f"O{n}", "1990", "", "", ""),
    "many objects in turn": lambda n: ("S", "head", f"O{n}", day(2 * n), day(2 * n), "", ""),
    "many periods": lambda n: ("S", "head", "O", day(2 * n), day(2 * n), "", ""),
    "many periods to join": lambda n: ("S", "head", "O", day(n), day(n + 1), "", ""),
    "many periods of two": lambda n: ("S", "head", f"O{n % 2}", day(2 * n), day(2 * n + 1), "", ""),
    "many spellings": lambda n: (f"{'S' if n % 2 else 's'}{n // 2}", "head", f"O{n}", "1990", "", "", ""),
    "one name in many spellings": lambda n: ("S" + "\u200b" * (n % 97) + "T", "head", f"O{n}", "1990", "", "", ""),
    "many aliases": lambda n: (f"S{n}", "capital", "O", "1990", "", "|".join(f"a{n}-{i}" for i in range(30)), ""),
    "many lists": lambda n: (f"S{n}", "capital", "O", "1990", "", str([f"a{n}-{i}" for i in range(30)]), ""),
    "many ends that are none": lambda n: (f"S{n}", "capital", "O", "1990", "9999-12-31", "", ""),
    "long cells": lambda n: (f"S{n}", "capital", "O", "1990", "", "", "long " * 100),
    "many faults": lambda n: (f"S{n}", "capital", "O", "soon", "", "", ""),
    "many repeated rows": lambda n: ("S", "capital", "O", "1990", "", "", ""),
    "many clashes": lambda n: ("S", "capital", "O", day(2 * n), day(2 * n), "", f"{n}"),
}


def steps_of(work: Callable[[], Any]) -> tuple[int, Any]:
    """How many lines of this package's code run, and what comes of it."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if "anachron" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        result = work()
    finally:
        sys.settrace(None)
    return count, result


def read(path: Path) -> tuple[int, int, int]:
    """Facts, lines to be told and the longest of them; of a refusal its one line."""
    try:
        given = read_given_facts(path)
    except DataError as error:
        assert "\n" not in str(error)
        return 0, 1, len(str(error))
    return len(given.facts), len(given.notes), max(map(len, given.notes), default=0)


def written(path: Path, rows: Iterator[Row], ending: str) -> Path:
    path = path.with_suffix(ending)
    if ending == ".csv":
        import csv

        with path.open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([HEADER, *rows])
    else:
        path.write_text("".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\n" for row in rows))
    return path


@pytest.mark.share(2)
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_reader_takes_steps_in_proportion_to_the_rows(tmp_path: Path, ending: str) -> None:
    lost = []
    for kind, row in ROWS.items():
        steps = {}
        for size in (SMALL, LARGE):
            path = written(tmp_path / f"{len(steps)}", map(row, range(size)), ending)
            steps[size], (_, told, longest) = steps_of(lambda path=path: read(path))
            if told > 30 or longest > 3000:
                lost.append(f"{kind}: {told} lines, of up to {longest} letters")
        if steps[LARGE] > MORE * steps[SMALL]:
            lost.append(f"{kind}: {steps}")
    tried = 2 * len(ROWS)
    print(f"trial: {tried} files of facts of a size ({ending}), {tried - len(lost)} read in steps by their rows")
    assert not lost, lost


def test_a_cell_of_any_length_is_read(tmp_path: Path) -> None:
    lengths = [131_071, 131_072, 131_073, 1 << 20, (1 << 20) + 1, 5 << 20]
    lost = []
    for length in lengths:
        path = written(tmp_path / "long", iter([("S", "capital", "O", "1990", "", "", "x" * length)]), ".csv")
        (item,) = read_given_facts(path).facts
        if len(item.values["note"]) != length:
            lost.append(length)
    print(f"trial: {len(lengths)} long cells, {len(lengths) - len(lost)} read whole")
    assert not lost, lost


def test_as_many_columns_and_aliases_as_one_likes(tmp_path: Path) -> None:
    columns = [f"column {n}" for n in range(5000)]
    path = tmp_path / "wide.csv"
    path.write_text(
        ",".join([*HEADER, *columns])
        + ",,"
        + "\n"
        + ",".join(["S", "capital", "O", "1990", "", "|".join(f"a{n}" for n in range(50_000)), "", *columns])
        + ",,\n"
    )
    steps, given = steps_of(lambda: read_given_facts(path))
    (item,) = given.facts
    survived = (len(item.values) == 5007) + (len(item.aliases) == 50_000) + (steps < 2_000_000)
    print(f"trial: 3 checks of a wide file, {survived} hold")
    assert survived == 3, steps
