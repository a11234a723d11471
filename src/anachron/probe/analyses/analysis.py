"""What an analysis is: one object that says what it shows, computes its table, draws it, and words its columns.

To add one, write a module in this folder that ends in an `Analysis`, and list that in `anachron.probe.catalogue`. The
tables, the figures, the report page and docs/tables.md take all they need from the object.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from anachron.metrics import POOLED
from anachron.plots import charts
from anachron.probe.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    figure: from the table to a figure for print, made with `anachron.plots`; raises `DataError` where there is nothing
    to draw. chart: the same for the page. Without them the table stands for itself.
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
    empty: str = "no score belongs in it"
    figure: "Callable[[pl.DataFrame], Figure] | None" = None
    chart: Chart | None = None
    large: bool = False
    shown_apart: bool = False
    paper: InPaper | None = None

    def missing(self, study: Study) -> str | None:
        """Why a study does not allow this table; ``None`` when it does."""
        return next((reason for need in self.needs if (reason := need.missing(study)) is not None), None)

    def views(self, table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
        """What the page draws of the table: views with ``label, data, layout``; none where there is nothing to draw."""
        if self.chart is None or not table.height:
            return []
        if "model" in table.columns and set(table["model"]) - {POOLED} == {table["model"][0]}:
            table = table.filter(pl.col("model") != POOLED)  # one model, which is the same pooled
        return [view for view in self.chart.draw(table, looks) if charts.shows(view)]
