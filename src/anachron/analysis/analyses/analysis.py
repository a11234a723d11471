"""What an analysis is: one object that says what it shows, computes its table, draws it, and words its columns.

To add one, write a module in this folder that ends in an `Analysis`, and list that in `anachron.analysis.catalogue`.
The tables, the figures, the report page and docs/tables.md take all they need from the object.

Also needs, computations and column descriptions that several analyses share.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from anachron.analysis.findings import Rows, Run
from anachron.analysis.metrics import POOLED, RUN_KEYS
from anachron.analysis.plots import charts
from anachron.analysis.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The parts of the page, in order
GROUPS = RIGHT, WRONG, EXPLAINS = "Is it right?", "Where is it wrong?", "What explains it?"


@dataclass(frozen=True)
class Need:
    """Something that an analysis needs of a study.

    words: what it is, for a list of needs. missing: why a study does not have it, or ``None`` when it does.
    """

    words: str
    missing: Callable[[Study], str | None]


@dataclass(frozen=True)
class Chart:
    """How the page draws a table, and how that is read, in a sentence.

    draw: from the table and the looks of the runs to views (see there), shown one at a time. empty: why a table that
    has rows may have nothing to draw.
    """

    draw: Callable[[pl.DataFrame, charts.Looks], charts.Views]
    note: str
    empty: str = "its table has no number other than 0 to draw"


@dataclass(frozen=True, kw_only=True)
class InPaper:
    """Which columns a table has in the style of papers (`anachron.report.paper_tables`), few enough for a page.

    words: the columns that tell rows apart, with their headings. numbers: those that are told of each row; the bounds
    of a number go with it. A heading that ends in a unit, such as ``(%)``, says how its numbers are printed.
    """

    words: Mapping[str, str]
    numbers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """One table of a study, and all that is shown of it.

    name: of its files. title: what it shows, in a line. source: where the papers have it.
    compute: the tidy table. columns: of each of its columns, in order, what it holds.
    needs: see `missing`. empty: why the table can come out without a row although all needs are met.
    figure: from the table to a figure for print, made with `anachron.analysis.plots`; raises `DataError` where there
    is nothing to draw. chart: the same for the page. Without them the table stands for itself.
    group: the part of the page that it stands in, of `GROUPS`.
    finding: from the rows of one run to the line that heads it there (`anachron.analysis.findings`), or ``None`` where
    they bear out nothing. beside: in its place, from all rows, of one run beside others; it names the runs.
    large: one row a fact or more, so written as data only, not for print.
    shown_apart: the page has a part of its own for what the table says.
    paper: its columns in the style of papers; without it all of them.
    """

    name: str
    title: str
    source: str
    compute: Callable[[Study], pl.DataFrame]
    columns: Mapping[str, str]
    needs: tuple[Need, ...] = ()
    group: str = EXPLAINS
    empty: str = "no score belongs in it"
    figure: "Callable[[pl.DataFrame], Figure] | None" = None
    chart: Chart | None = None
    finding: Callable[[Rows], str | None] | None = None
    beside: Callable[[Rows, Run], str | None] | None = None
    large: bool = False
    shown_apart: bool = False
    paper: InPaper | None = None

    def missing(self, study: Study) -> str | None:
        """Why a study does not allow this table; ``None`` when it does."""
        return next((reason for need in self.needs if (reason := need.missing(study)) is not None), None)

    def found(self, table: pl.DataFrame, run: Sequence[str]) -> str | None:
        """What the table says of one run (model, format, prefix), or of it beside others, in a line; ``None`` where
        there is no such line."""
        if self.beside is not None:
            return self.beside(table.rows(named=True), dict(zip(RUN_KEYS, run, strict=True)))
        if self.finding is None:
            return None
        own = [pl.col(key) == name for key, name in zip(RUN_KEYS, run, strict=True) if key in table.columns]
        kept = table.filter(*own)
        return self.finding(kept.rows(named=True)) if kept.height else None

    def views(self, table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
        """What the page draws of the table: views with ``label, data, layout``; none where there is nothing to draw."""
        if self.chart is None or not table.height:
            return []
        if "model" in table.columns and set(table["model"]) - {POOLED} == {table["model"][0]}:
            table = table.filter(pl.col("model") != POOLED)  # one model, which is the same pooled
        return [view for view in self.chart.draw(table, looks) if charts.shows(view)]


def _all_granularities(study: Study) -> str | None:
    return None if study.global_facts.height else "no fact has matches at year, month and day"


def _years(study: Study) -> str | None:
    count = study.facts.filter(pl.col("granularity") == "year").height
    return None if count else "no fact has matches at year granularity"


def _year_contexts(study: Study) -> str | None:
    dated = (pl.col("granularity") == "year") & (pl.col("status") != "none")
    if not any(run.select(dated.any()).item() for run in study.runs):
        return "no date is a year"
    broken = study.undatable.get("year")
    return None if broken is None else f"the time {broken!r} of a year context is not a year (write YYYY)"


def in_words(table: pl.DataFrame, study: Study) -> pl.DataFrame:
    """A table of facts with what they are called and asked (`WORDS`) behind their id."""
    at = table.columns.index("fact_id") + 1
    joined = table.join(study.about.select("fact_id", *WORDS), on="fact_id", how="left", maintain_order="left")
    return joined.select(*table.columns[:at], *WORDS, *table.columns[at:])


ALL_GRANULARITIES = Need("facts with matches at year, month and day", _all_granularities)
YEARS = Need("facts with matches at year granularity", _years)
YEAR_CONTEXTS = Need("dates that are years", _year_contexts)
# What columns hold, as docs/tables.md says it
RUN = {
    "model": "label of the run: its name, plus dtype or revision if runs differ in them",
    "format": "`raw` or `chat`",
    "prefix": "`none`, a named prefix, or the name of a file",
}
POOLED_RUN = RUN | {"model": RUN["model"] + "; `pooled`: all models together"}
OF_FORMAT = {"format": RUN["format"], "prefix": RUN["prefix"]}
FACT = {"fact_id": "16 hexadecimal digits, the same in every data set"}
GRANULARITY = {"granularity": "`year`, `month` or `day`"}
LEVEL = {"granularity": "`year`, `month`, `day`, or `global`: all three"}
INTERVAL = {"low": "lower end of the 95 % interval", "high": "its upper end"}
WORDS = {
    "subject_label": "as in the data set",
    "relation_label": "as in the data set",
    "object_label": "as in the data set",
    "question": "question without a date; empty if the run does not store it",
}
LABELS = {
    **WORDS,
    "start": "first date of the true period",
    "end": "last date of the true period",
}
MEANS = {
    "win_rate": "mean W over facts",
    "win_rate_low": "lower end of its 95 % interval",
    "win_rate_high": "its upper end",
    "robustness": "mean R over facts",
    "robustness_low": "lower end of its 95 % interval",
    "robustness_high": "its upper end",
}
# What tells rows apart in a paper's tables, with headings (`anachron.analysis.analyses.analysis.InPaper`)
FORMAT_WORDS = {"format": "format", "prefix": "prefix"}
RUN_WORDS = {"model": "model", **FORMAT_WORDS}
LEVEL_WORD = {"granularity": "dates"}
