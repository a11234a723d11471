"""What was asked: the data set in numbers, and its years (TimeStress, figure 14; TimeStress v1, table 2)."""

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import EXPLAINS, YEAR_CONTEXTS, Analysis, Chart, InPaper
from anachron.analysis.findings import Rows
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.plots.words import year_name
from anachron.analysis.study import Study
from anachron.core.dates import GRANULARITIES

STATUSES = ("correct", "incorrect", "transitional", "discarded")
SPAN = 10  # years
FILLINGS = {"correct": style.BLUE, "transitional": "white", "incorrect": style.ORANGE}


def contexts_of(study: Study) -> pl.DataFrame:
    """Every context of every fact once: ``fact_id, granularity, time, status, alpha``.

    Those of a fact are of the first run that was asked it.
    """
    columns = ["fact_id", "granularity", "time", "status", "alpha"]
    tables = [study.runs[0].select(columns)]
    asked = study.runs[0].select("fact_id").unique()
    for run in study.runs[1:]:
        new = run.join(asked, on="fact_id", how="anti", maintain_order="left").select(columns)
        if new.height:
            tables.append(new)
            asked = pl.concat([asked, new.select("fact_id").unique()])
    return pl.concat(tables)


def dataset_statistics(contexts: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """The data set in numbers: ``what, value`` (counts, and means per fact and granularity).

    An entity is known by its id, where a table has it, else by its label.
    """
    facts = contexts["fact_id"].n_unique()
    rows: list[tuple[str, float]] = [("facts", facts), ("statements", contexts.height)]
    known = about.filter(pl.col("fact_id").is_in(contexts["fact_id"].unique().implode()))
    sides = ("relation", "subject", "object")
    known = known.select(pl.coalesce(f"{side}_id", f"{side}_label").alias(side) for side in sides)
    for side in sides:
        if known[side].is_not_null().any():
            rows.append((f"{side}s", known[side].drop_nulls().n_unique()))
    if known["subject"].is_not_null().any() and known["object"].is_not_null().any():
        rows.append(("entities", pl.concat([known["subject"], known["object"]]).drop_nulls().n_unique()))
    for granularity in GRANULARITIES:
        for status in STATUSES:
            count = contexts.filter((pl.col("granularity") == granularity) & (pl.col("status") == status)).height
            rows.append((f"{status} {granularity} contexts a fact", count / facts))
        rows.append((f"{granularity} matches a fact", _matches(contexts, granularity) / facts))
    return pl.DataFrame(rows, schema={"what": pl.String, "value": pl.Float64}, orient="row")


def _matches(contexts: pl.DataFrame, granularity: str) -> int:
    """Pairs of a correct and an incorrect context of one fact."""
    counts = contexts.filter(pl.col("granularity") == granularity).group_by("fact_id").agg(
        (pl.col("status") == "correct").sum().cast(pl.Int64).alias("correct"),
        (pl.col("status") == "incorrect").sum().cast(pl.Int64).alias("incorrect"),
    )  # fmt: skip
    return int((counts["correct"] * counts["incorrect"]).sum())


def years(contexts: pl.DataFrame, width: int = SPAN) -> pl.DataFrame:
    """How many year contexts lie in each span of ``width`` years: ``first_year, correct, incorrect, transitional``.

    Spans start at whole multiples; -10 is 10 to 1 BCE. Source: TimeStress, figure 14.
    """
    dated = contexts.filter((pl.col("granularity") == "year") & (pl.col("status") != "none"))
    span = dated.select(((pl.col("time").cast(pl.Int64) // width) * width).alias("first_year"), pl.col("status"))
    kinds = [(pl.col("status") == status).sum().cast(pl.Int64).alias(status) for status in STATUSES[:3]]
    return span.group_by("first_year").agg(*kinds).sort("first_year")


def draw_years(table: pl.DataFrame) -> "style.Figure":
    """How many year contexts of each status lie in each span of years. Source: TimeStress, figure 14."""
    rows = style.check("years", table, "first_year", *style.STATUSES).sort("first_year")
    starts = rows["first_year"].to_numpy()
    width = int(np.diff(starts).min()) if len(starts) > 1 else SPAN
    edges = np.arange(starts[0], starts[-1] + 2 * width, width)  # spans without contexts are not in the table
    with style.sheet(style.PAGE, 2.2) as (figure, axes):
        panel = axes[0, 0]
        below = np.zeros(len(edges) - 1)
        for status in ("correct", "transitional", "incorrect"):
            above = below.copy()
            above[(starts - starts[0]) // width] += rows[status].to_numpy()
            panel.stairs(
                above, edges, baseline=below, fill=True, facecolor=FILLINGS[status], hatch=style.HATCHES[status],
                edgecolor="black", lw=0.4, label=status,
            )  # fmt: skip
            below = above
        marks.name_years(panel)
        panel.set_ylim(bottom=0)
        panel.set_ylabel(f"year contexts in {width} years")
        marks.legend(figure)
    return figure


def year_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    kinds = (("correct", "@0"), ("transitional", "@5"), ("incorrect", "@muted"))
    spans = [f"{year_name(first)} to {year_name(first + 9)}" for first in table["first_year"]]
    traces = [
        {"type": "bar", "name": name, "x": table["first_year"].to_list(), "y": table[name].to_list(), "offset": 0,
         "marker": {"color": colour, "line": {"width": 0}}, "text": spans, "textposition": "none",
         "hovertemplate": "%{text}: %{y:,} contexts"}
        for name, colour in kinds
    ]  # fmt: skip
    ticks = round_years(table["first_year"].min(), table["first_year"].max())  # type: ignore[arg-type]
    axis = charts.axis("year", tickvals=ticks, ticktext=[year_name(year) for year in ticks])
    return [charts.view("all", traces, barmode="stack", bargap=0, xaxis=axis, yaxis=charts.axis("year contexts"))]


def round_years(low: int, high: int, most: int = 9) -> list[int]:
    """Multiples of 1, 2 or 5 times a power of ten between two years, at most about ``most``."""
    step = next(digit * 10**n for n in range(13) for digit in (1, 2, 5) if (high - low) / (digit * 10**n) <= most)
    return list(range(-(-low // step) * step, high + 1, step))


def _years_asked_finding(rows: Rows) -> str | None:
    """What the table counts; spans are of ten years."""
    first, last = rows[0]["first_year"], rows[-1]["first_year"] + SPAN - 1
    held, wrong, between = (sum(row[name] for row in rows) for name in ("correct", "incorrect", "transitional"))
    undecided = f", {between:,} on its edges" if between else ""
    return (
        f"Asks about years between {year_name(first)} and {year_name(last)}: {held:,} times within a fact's period, "
        f"{wrong:,} outside it{undecided}"
    )


YEARS_ASKED = Analysis(
    name="years",
    group=EXPLAINS,
    title="Years asked about",
    source="TimeStress, figure 14",
    compute=lambda study: years(study.once(contexts_of)),
    needs=(YEAR_CONTEXTS,),
    figure=draw_years,
    chart=Chart(year_views, "How the dates asked about are distributed over the years."),
    finding=_years_asked_finding,
    columns={
        "first_year": "first year of a span of ten; -10 is 10 to 1 BCE",
        **dict.fromkeys(["correct", "incorrect", "transitional"], "number of year contexts"),
    },
    paper=InPaper(
        words={"first_year": "ten years from"},
        numbers={"correct": "correct", "incorrect": "incorrect", "transitional": "transitional"},
    ),
)

DATASET = Analysis(
    name="dataset",
    group=EXPLAINS,
    title="The data set in numbers",
    source="TimeStress, section 3.2; TimeStress v1, table 2",
    compute=lambda study: dataset_statistics(study.once(contexts_of), study.about),
    columns={"what": "what is counted", "value": "the count, or the mean per fact"},
    paper=InPaper(words={"what": "what", "value": "value"}),
)
