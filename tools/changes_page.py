"""The page ``docs/mini-changes.md``: what the bundled changes hold, counted from the file, and how right they are."""

import csv
from importlib.resources import files
from pathlib import Path

import polars as pl
from mini_page import table

from anachron.analysis.statistics import wilson
from anachron.data.bundled.mini import KINDS_OF_MACHINES, mini_changes

READINGS = Path(__file__).parent / "changes" / "readings.csv"
READ = {1: 300, 2: 150, 3: 300, 4: 200}  # rows of each sample that was read
ONLY_COMPARED = 8  # rows of the third reading: late deaths, a late leader of the standings, a regional head
NOT_TOLD = 14  # rows of the fourth: deaths, releases and a race since 2025, days of some offices
HEAD = """# Bundled changes of the world

Made from the code by `make docs`; do not edit.

`mini-changes` holds {changes:,} changes between 2010 and 2026, of {subjects:,} subjects and {kinds} kinds: at a
given date, a new value replaced an old one. [`anachron horizon`](horizon.md) asks models about them.
`anachron datasets mini-changes --out FILE` writes them to a file, and in Python they are a table:

```python
import anachron

changes = anachron.read_changes()
print(changes.filter(changes["subject"] == "Prime Minister of Japan").select("old", "new", "date"))
```

`tools/make_changes.py` makes the file from tables with free licences (listed at the end), the facts of
[`mini`](mini.md), and changes that this project wrote from common knowledge, with a note where to check them.
Anything uncertain is left out: offices with several seats, holders for less than 45 days and the changes around them,
changes whose old value had ended more than 45 days before (somebody acted in between, or nobody), ministries whose
names the source modernised, releases that did not come right after the previous one or whose dates were planned ones,
racing drivers who had not raced for a year. There are at most three changes a month of software and devices.

The columns are `subject, relation, kind, old, new, date, predictable, control, source`. A date is a day or, in
{months} rows, a month.

`predictable` says how well the new value could be predicted. It is `high` in {high} rows: releases, teams at the
beginning of a racing season, currencies, rotating presidencies, heirs. Events reported by knowledge-cutoff have its
grade; winners are `low`; the other {ungraded:,} rows have no grade. The result of an election is known weeks before
the date, which is that of taking office.

{controls} more rows are controls, marked in `control`: {still} `still` (persons who were alive, and governors and chief
executives who were in office, on the given date) and {invented} `invented` (offices, companies and teams that do not
exist). Persons who died have the values `alive` and `dead`; there is no third value to show that a model knows the
person at all, so `anachron horizon` does not ask about them by default.
"""
RIGHT = """## Accuracy

Randomly drawn rows were checked one by one. The reader of the first two samples had also written the rules; the reader
of the third had neither written them nor gathered the rows, looked up doubtful rows elsewhere, and counted more as
wrong: a date more than a month off, an old value that was not the last one, a name that the person does not use, a
subject that means something else to whoever is asked. For {only} of its rows nothing better than the source was found.
The reader of the fourth had written some of the rows, looked nothing up, and could tell nothing of {untold}; a date
some days off counted as wrong.

{first}
Each sample was drawn after the corrections of the previous ones. `tools/changes/readings.csv` lists every error and its
correction, `tools/changes/read.csv` what was left out one by one.
"""


SOURCES = """## Sources

The column `source` names the source of each row. `data/mini/CHANGES.md` in the package says what came from each, from
which commit, and has the texts of licences. Labels of offices and spellings of names were unified; no text was copied.
"""


def changes_page() -> str:
    """The page as Markdown."""
    every = mini_changes()
    real = every.filter(pl.col("control").is_null())
    head = HEAD.format(
        changes=real.height, subjects=real["subject"].n_unique(), kinds=real["kind"].n_unique(),
        months=(real["date"].str.len_chars() == 7).sum(), high=(real["predictable"] == "high").sum(),
        ungraded=real["predictable"].null_count(), controls=every.height - real.height,
        still=(every["control"] == "still").sum(), invented=(every["control"] == "invented").sum(),
    )  # fmt: skip
    parts = [head, "## Years\n", _years(real), "## Kinds\n", _kinds(real), *_readings()]
    return "\n".join([*parts, SOURCES, *_licences()]) + "\n"


def _licences() -> list[str]:
    """Of each source its licence, from the credits of the package."""
    credits = files("anachron.data").joinpath("mini/CHANGES.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in credits.splitlines() if line[:3] == "| `"]
    elsewhere = [(source, licence) for source, _, repository, licence in rows if "github.com/" in repository]
    return [f"* {source}: {licence.replace(' (below)', '')}" for source, licence in elsewhere]


def counts_of_years(real: pl.DataFrame) -> list[tuple[str, int, int]]:
    """Of each year: changes, and those without software and devices."""
    machine = pl.col("kind").is_in(KINDS_OF_MACHINES)
    found = (
        real.group_by(pl.col("date").str.slice(0, 4).alias("year"))
        .agg(pl.len(), (~machine).sum().alias("without"))
        .sort("year")
    )
    return [tuple(row) for row in found.iter_rows()]


def _years(real: pl.DataFrame) -> str:
    return table(("year", "changes", "without software and devices"), counts_of_years(real))


def _kinds(real: pl.DataFrame) -> str:
    found = (
        real.group_by("kind")
        .agg(pl.len(), pl.col("subject").n_unique())
        .sort(["len", "kind"], descending=[True, False])
    )
    counted = [f"{kind} {changes} ({subjects})" for kind, changes, subjects in found.iter_rows()]
    return f"Changes of each kind, and in parentheses their subjects: {', '.join(counted)}.\n"


def _readings() -> list[str]:
    with READINGS.open(encoding="utf-8", newline="") as file:
        faults = list(csv.DictReader(file))
    rows = []
    for reading, size in READ.items():
        wrong = sum(fault["reading"] == str(reading) for fault in faults)
        low, high = (f"{100 * end:.1f}" for end in wilson(wrong, size, correction=False))
        rows.append((reading, size, wrong, f"{100 * wrong / size:.1f} % ({low} to {high})"))
    shares = table(("sample", "rows", "wrong", "share (95 % interval, Wilson)"), rows)
    return [RIGHT.format(only=ONLY_COMPARED, untold=NOT_TOLD, first=shares)]
