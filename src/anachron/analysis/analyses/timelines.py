"""Single facts by year: those that a model seems to know but places far from their period (TimeStress, figure 17)."""

import polars as pl

from anachron.analysis.analyses.analysis import FACT, LABELS, RUN, WRONG, YEAR_CONTEXTS, YEARS, Analysis, Need
from anachron.analysis.analyses.far_errors import FAR, THRESHOLDS, all_lost_matches
from anachron.analysis.metrics import FACT_KEYS
from anachron.analysis.plots import marks, style
from anachron.analysis.study import Study
from anachron.core.dates import Date

SHOWN = 6  # facts in the figure
FAR_ERROR = "far error: beats one from |\N{GREEK SMALL LETTER ALPHA}| \N{GREATER-THAN OR EQUAL TO} 1"
KINDS = {  # in the order that they are drawn: the errors last, on top of all
    "discarded": (style.Look(style.GREY, "|"), 3.0),
    "incorrect, beats no correct year": (style.Look(style.GREY, "."), 3.0),
    "transitional": (style.Look(style.PURPLE, "D", hollow=True), 3.2),
    "correct": (style.Look(style.BLUE, "o"), 3.2),
    "incorrect, beats a correct year": (style.Look(style.ORANGE, "s"), 3.2),
    FAR_ERROR: (style.Look(style.VERMILLION, "X"), 5.5),
}


def worst_errors(lost: pl.DataFrame, count: int) -> pl.DataFrame:
    """The most absurd errors on facts that a run seems to know, at most one a fact and run: FACT_KEYS, rank, win_rate.

    lost: from `lost_matches`. Of facts with 0.9 <= W < 1 at year granularity, those with the farthest lost match
    (abs(alpha) >= 1), the farthest first, ``rank`` from 1.
    """
    return (
        lost.filter((pl.col("win_rate") >= THRESHOLDS[0]) & (pl.col("win_rate") < 1) & (pl.col("alpha").abs() >= FAR))
        .with_columns(pl.col("alpha").abs().alias("distance"))
        .sort(["distance", *FACT_KEYS], descending=[True, *[False] * len(FACT_KEYS)])
        .unique(FACT_KEYS, keep="first", maintain_order=True)
        .head(count)
        .with_row_index("rank", offset=1)
        .select(*FACT_KEYS, "rank", "win_rate")
    )


def timelines(runs: tuple[pl.DataFrame, ...], about: pl.DataFrame, lost: pl.DataFrame, count: int = 12) -> pl.DataFrame:
    """Every year context of the facts with the most absurd far errors, at most ``count`` pairs of run and fact.

    Facts that a model seems to know (0.9 <= W < 1 at year granularity), the farthest error first. Columns FACT_KEYS,
    ``rank, subject_label, relation_label, object_label, start, end, win_rate, time, status, alpha, logp, prior``,
    ``lost`` (an incorrect year that beat a correct one) and ``far`` (lost at abs(alpha) >= 1).
    """
    worst = worst_errors(lost, count)
    errors = lost.select(*FACT_KEYS, "time", pl.lit(True).alias("lost"))
    chosen = []
    for run in runs:
        years = run.filter(pl.col("granularity") == "year").join(worst, on=FACT_KEYS, maintain_order="left")
        priors = years.filter(pl.col("status") == "none").select(*FACT_KEYS, pl.col("logp").alias("prior"))
        chosen.append(
            years.filter(pl.col("status") != "none")
            .join(priors, on=FACT_KEYS, how="left", maintain_order="left")
            .join(errors, on=[*FACT_KEYS, "time"], how="left", maintain_order="left")
        )
    table = pl.concat(chosen).with_columns(pl.col("lost").fill_null(False))
    return (
        table.with_columns((pl.col("lost") & (pl.col("alpha").abs() >= FAR)).alias("far"))
        .join(about.select("fact_id", *LABELS), on="fact_id", how="left", maintain_order="left")
        .select("rank", *FACT_KEYS, *LABELS, "win_rate", "time", "status", "alpha", "logp", "prior", "lost", "far")
        .sort("rank", pl.col("time").cast(pl.Int64), maintain_order=True)
    )


def timelines_of(study: Study) -> pl.DataFrame:
    """`timelines` of a study."""
    return timelines(study.runs, study.about, study.once(all_lost_matches))


def draw(table: pl.DataFrame) -> "style.Figure":
    """Log-probability of the answer year by year, of the six facts with the most absurd far errors.

    The period is shaded, the prior (the statement without a date) is a line, years that beat a correct one are marked,
    and most those at least one period away. Source: TimeStress, figure 17.
    """
    rows = style.check("timelines", table, "logp").with_columns(pl.col("time").cast(pl.Int64).alias("year"))
    facts = [part for _, part in rows.sort("rank", "year", maintain_order=True).group_by("rank", maintain_order=True)]
    facts = facts[:SHOWN]
    down, columns = style.grid(len(facts))
    titles = [_title(part.row(0, named=True)) for part in facts]
    height = down * (1.6 + 0.13 * max(title.count("\n") for title in titles)) + 0.6
    with style.sheet(style.PAGE, height, down, columns) as (figure, axes):
        for panel, part, title in zip(axes.flat, facts, titles, strict=False):
            panel.set_title(title)
            _timeline(panel, part)
        marks.blank(axes.flat[len(facts) :])
        figure.supylabel("log Pr(answer) (nats)")
        marks.legend(figure)
    return figure


def _timeline(panel: "style.Axes", part: pl.DataFrame) -> None:
    first, last = period(part)
    panel.axvspan(first - 0.5, last + 0.5, color=style.PALE, lw=0, zorder=0, label="period")
    prior = part["prior"][0]
    if prior is not None:
        panel.axhline(prior, color=style.BLACK, lw=0.8, ls="--", label="without a date")
    panel.plot(part["year"], part["logp"], color=style.GREY, lw=0.4, zorder=1, label="_line")
    kinds = part.with_columns(
        pl.when("far").then(pl.lit(FAR_ERROR))
        .when("lost").then(pl.lit("incorrect, beats a correct year"))
        .when(pl.col("status") == "incorrect").then(pl.lit("incorrect, beats no correct year"))
        .otherwise("status").alias("kind")
    )  # fmt: skip
    for kind, (look, size) in KINDS.items():
        of_kind = kinds.filter(pl.col("kind") == kind)
        if of_kind.height:
            marks.dots(panel, of_kind["year"], of_kind["logp"], look, label=kind, upright=True, size=size)
    marks.name_years(panel)


def period(part: pl.DataFrame) -> tuple[int, int]:
    """First and last year of the fact; of its correct years where its dates are unknown."""
    start, end = part["start"][0], part["end"][0]
    correct = part.filter(pl.col("status") == "correct")["year"]
    first = correct.min() if start is None else Date.parse(start).year
    last = correct.max() if end is None else Date.parse(end).year
    return int(first), int(last)  # type: ignore[arg-type]  # a fact with lost matches has correct years


def _title(row: dict[str, object]) -> str:
    labels = [str(row[name]) for name in ("subject_label", "relation_label", "object_label") if row[name] is not None]
    fact = style.folded(" | ".join(labels) or str(row["fact_id"]), 54)
    prefix = "" if row["prefix"] == "none" else f", prefix {row['prefix']}"
    return fact + "\n" + style.folded(f"{row['model']}, {style.format_name(str(row['format']))}{prefix}", 54)


def _any_far_error(study: Study) -> str | None:
    count = study.once(timelines_of).height
    return None if count else "no fact with 0.9 <= W < 1 lost a match at least one period away"


TIMELINES = Analysis(
    name="timelines",
    group=WRONG,
    title="Facts that seem known but have errors far from their period, year by year",
    source="TimeStress, figure 17",
    compute=lambda study: study.once(timelines_of),
    needs=(
        YEARS,
        YEAR_CONTEXTS,
        Need("a fact with 0.9 <= W < 1 and a match lost to a year at least one period away", _any_far_error),
    ),
    figure=draw,
    large=True,
    shown_apart=True,
    columns={
        "rank": "1 is the fact with the farthest error; at most 12 pairs of run and fact",
        **RUN,
        **FACT,
        **LABELS,
        "win_rate": "W of the fact by year",
        "time": "the year asked about",
        "status": "`correct`, `incorrect`, `transitional` or `discarded`",
        "alpha": "relative distance of the year from the middle of the period",
        "logp": "log-probability of the answer, nats",
        "prior": "log-probability after the question without a date; empty if it was not scored",
        "lost": "whether this is an incorrect year that beat a correct one",
        "far": "whether it is lost, with abs(alpha) >= 1",
    },
)
