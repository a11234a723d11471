"""Writes the bundled data set mini-changes from the tables of dated facts that free sources give, and prints what it
holds: changes a year and kind, what was left out and why.

python tools/make_changes.py FOLDER   # the folder with changes.csv and a folder for each source
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import polars as pl
from changes import merge, sources
from changes.offices import office_kind
from changes.rows import Row

from anachron.data.bundled.mini import FILE, KINDS_OF_MACHINES
from anachron.probe.horizon.read import mini_changes_of_facts

HERE = Path(__file__).parent / "changes"
OUT = Path(__file__).parent.parent / "src" / "anachron" / "data" / FILE
FIRST, LAST = "2010", "2026-12"
SOURCE_DAY = "2026-08-05"  # of openstates
MINI_RELATIONS = {  # of which there are enough changes to compare values
    "officeholder", "head of state", "head of government", "chief executive officer", "member of sports team",
    "head coach", "director / manager", "chairperson", "presenter", "currency",
}  # fmt: skip
COLUMNS = ("subject", "relation", "kind", "old", "new", "date", "predictable", "control", "source")


def bundled(folder: Path) -> tuple[list[Row], Counter[str]]:
    """All rows, by date, and how many were left out and why."""
    changes = sources.read_csv(folder / "changes.csv")
    facts = {name: sources.read_csv(folder / name / "facts.csv") for name in ("openstates", "f1db", "endoflife")}
    holders = sources.Holders(
        fact
        for name in ("everypolitician-holders", "v-dyknow", "openstates", "congress-legislators")
        for fact in sources.read_csv(folder / name / "facts.csv")
    )
    events = folder / "knowledge-cutoff" / "events.jsonl"
    offices = sorted(sources.offices(changes, holders), key=lambda row: not row.source.startswith("sislab"))
    offices = [row for row in offices if not sources.wrong(row)]
    given = [
        list(sources.known(HERE / "known.txt")),
        list(sources.companies_and_players(changes)),
        offices,
        list(sources.currencies(changes)),
        list(sources.racing(changes, facts["f1db"])),
        list(sources.football(changes)),
        list(sources.deaths(changes, sources.event_grades(events))),
        list(sources.endoflife(changes, facts["endoflife"])),
    ]
    names = aliases()
    called = [[merge.called(row, names) for row in rows] for rows in [*given, mini_rows()]]
    rows, out = merge.merged(called[:-1], called[-1])
    rows = merge.one_spelling([row for row in rows if FIRST <= row.date <= LAST], names)
    long = merge.without_short(rows, sources.SHORT)
    out["held for less than 45 days"] += len(rows) - len(long)
    wrong = read_wrong()
    right = [row for row in long if (row.subject, row.new, row.date) not in wrong]
    out["read and found wrong"] += len(long) - len(right)
    rows = right + list(
        sources.controls(folder / "knowledge-cutoff" / "controls.jsonl", facts["openstates"], SOURCE_DAY)
    )
    rows += invented(right)
    return sorted(rows, key=lambda row: (row.control, row.date, row.subject, row.new)), out


def mini_rows() -> list[Row]:
    """The changes that the bundled facts tell of, but for those where nobody, or somebody else, came in between."""
    return [
        Row(
            c.subject, c.relation, (office_kind(c.subject) or "public official") if c.relation == "officeholder"
            else c.relation, c.old, c.new, str(c.date), "mini",
        )
        for c in mini_changes_of_facts(sources.SHORT) if c.relation in MINI_RELATIONS
    ]  # fmt: skip


def aliases() -> dict[str, str]:
    """One spelling for another, of persons whom sources call differently."""
    lines = (HERE / "aliases.txt").read_text("utf-8").splitlines()
    return dict(tuple(line.split(" = ")) for line in lines if line and not line.startswith("#"))  # type: ignore[misc]


def read_wrong() -> set[tuple[str, str, str]]:
    """The changes that a reading found wrong and no rule leaves out: ``read.csv``."""
    rows = sources.read_csv(HERE / "read.csv")
    return {(row["subject"], row["new"], row["date"]) for row in rows}


def invented(rows: Sequence[Row]) -> Iterator[Row]:
    """Controls about subjects that do not exist, with values that changes of their kinds have."""
    for number, line in enumerate((HERE / "invented.txt").read_text("utf-8").splitlines()):
        subject, relation, kind = line.split(" | ")
        pool = [row for row in rows if row.kind == kind and row.relation == relation]
        one, other = (pool[(37 * number + step) % len(pool)] for step in (0, len(pool) // 2))
        year, month = 2010 + number % 16, 1 + 5 * number % 12
        yield Row(subject, relation, kind, one.old, other.new, f"{year}-{month:02d}", "this project (invented)",
                  control="invented")  # fmt: skip


def table(rows: Sequence[Row]) -> pl.DataFrame:
    return pl.DataFrame([asdict(row) for row in rows]).select(COLUMNS).with_columns(
        pl.col(name).replace({"": None}) for name in ("new", "predictable", "control")
    )  # fmt: skip


def report(found: pl.DataFrame, out: Counter[str]) -> Iterator[str]:
    real = found.filter(pl.col("control").is_null())
    years = real.with_columns(pl.col("date").str.slice(0, 4).alias("year"))
    machine = pl.col("kind").is_in(KINDS_OF_MACHINES)
    yield f"{real.height} changes of {real['subject'].n_unique()} subjects, {found.height - real.height} controls"
    for (year,), part in years.sort("year").group_by("year", maintain_order=True):
        yield f"{year}: {part.height} changes, {part.filter(~machine).height} without software and devices"
    for kind, count in Counter(real["kind"]).most_common():
        yield f"{kind}: {count}"
    for why, count in out.items():
        yield f"left out, {why}: {count}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    rows, out = bundled(parser.parse_args().folder)
    found = table(rows)
    alike = found.sort("source", "kind", "subject", "date")  # likes beside each other take less room
    alike.write_parquet(OUT, compression="brotli", compression_level=11, statistics=False)
    print("\n".join(report(found, out)))
    print(f"{OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
