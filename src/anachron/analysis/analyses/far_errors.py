"""Errors on easy contexts, far from the period (TimeStress, table in figure 4 and figure 7)."""

import polars as pl

from anachron.analysis.analyses.analysis import POOLED_RUN, RUN_WORDS, WRONG, YEARS, Analysis, Chart, InPaper
from anachron.analysis.findings import FEW, Rows, percent
from anachron.analysis.metrics import FACT_KEYS, RUN_KEYS, as_pooled, is_run, pooled_rows
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.plots.words import AT_LEAST, DISTANCE
from anachron.analysis.statistics import korn_graubard, wilson
from anachron.analysis.study import Study

THRESHOLDS = (0.90, 0.95, 0.97, 0.99)
DISTANCES = (1.0, 2.0, 3.0, 4.0)
FAR = DISTANCES[0]  # periods from the middle of the fact's own


def lost_matches(scores: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Year contexts that won against a correct one, with the number of matches each took from its fact.

    One row per incorrect year context and run with ``lost`` > 0: the fact keys, ``time, alpha, logp, lost, win_rate``
    and ``chances``, the shares of all the fact's incorrect year contexts that lie at `DISTANCES`.
    """
    years = scores.filter(pl.col("granularity") == "year")
    correct = years.filter(pl.col("status") == "correct").select(*FACT_KEYS, pl.col("logp").alias("rival"))
    known = facts.filter(pl.col("granularity") == "year").select(*FACT_KEYS, "win_rate")
    shares = [(pl.col("alpha").abs() >= d).mean().alias(f"{d}") for d in DISTANCES]
    chances = years.filter(pl.col("status") == "incorrect").group_by(FACT_KEYS, maintain_order=True).agg(shares)
    chances = chances.select(*FACT_KEYS, pl.concat_list([f"{d}" for d in DISTANCES]).alias("chances"))
    return (
        years.filter(pl.col("status") == "incorrect")
        .select(*FACT_KEYS, "time", "alpha", "logp")
        .join(correct, on=FACT_KEYS, maintain_order="left")
        .group_by([*FACT_KEYS, "time", "alpha", "logp"], maintain_order=True)
        .agg((pl.col("logp") >= pl.col("rival")).sum().cast(pl.Int64).alias("lost"))
        .filter(pl.col("lost") > 0)
        .join(known, on=FACT_KEYS, maintain_order="left")
        .join(chances, on=FACT_KEYS, maintain_order="left")
    )


def all_lost_matches(study: Study) -> pl.DataFrame:
    """`lost_matches` of every run."""
    return study.map(lambda run: lost_matches(run, study.facts))


def far_errors(
    lost: pl.DataFrame,
    facts: pl.DataFrame,
    pool: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Share of lost year matches whose incorrect context lies at least 1, 2, 3 or 4 periods away.

    lost: from `lost_matches`. facts: from `fact_metrics`, says which runs there are. pool: ``model, format, prefix`` of
    the runs that are pooled; by default all.

    Only facts that seem known: threshold <= W < 1 at year granularity. ``average`` says how the share is
    taken: ``facts`` is the mean over facts (over model and fact where pooled) of each one's own share, with its
    interval over subjects (the papers' default); ``matches`` is the share of all lost matches together, with
    Wilson's interval. ``facts`` counts the facts (pairs of model and fact where pooled). ``chance`` is what the share
    would be if each fact lost as many matches to any of its incorrect contexts alike. Returns ``model, format,
    prefix, threshold, alpha, average, facts, share, low, high, chance``; shares are null where no fact qualifies.
    """
    runs = facts.select(RUN_KEYS).unique(maintain_order=True)
    chosen = runs if pool is None else runs.join(pool, on=RUN_KEYS, how="semi", maintain_order="left")
    far = [pl.col("lost").filter(pl.col("alpha").abs() >= d).sum().alias(f"far {d}") for d in DISTANCES]
    lost_by_fact = lost.group_by(FACT_KEYS, maintain_order=True).agg(
        pl.col("lost").sum().alias("all"), pl.col("win_rate").first(),
        *(pl.col("chances").first().list.get(place).alias(f"chance {d}") for place, d in enumerate(DISTANCES)), *far,
    )  # fmt: skip
    subjects = facts.select("fact_id", "subject").unique()
    lost_by_fact = lost_by_fact.join(subjects, on="fact_id", how="left", maintain_order="left")
    pooled = as_pooled(lost_by_fact.join(chosen, on=RUN_KEYS, how="semi", maintain_order="left"))
    either = pl.concat([lost_by_fact, pooled])
    rows = []
    for key in [*runs.iter_rows(), *as_pooled(chosen).unique(maintain_order=True).iter_rows()]:
        shares = either.filter(is_run(key))
        for threshold in THRESHOLDS:
            near = shares.filter((pl.col("win_rate") >= threshold) & (pl.col("win_rate") < 1))
            totals = near.select(
                pl.col("all").sum(),
                *(pl.col(f"far {d}").sum() for d in DISTANCES),
                *((pl.col(f"far {d}") / pl.col("all")).mean().alias(f"share {d}") for d in DISTANCES),
                *(pl.col(f"chance {d}").mean() for d in DISTANCES),
                *((pl.col(f"chance {d}") * pl.col("all")).sum().alias(f"of all {d}") for d in DISTANCES),
            ).row(0, named=True)
            for distance in DISTANCES:
                base = {**dict(zip(RUN_KEYS, key, strict=True)), "threshold": threshold, "alpha": distance}
                ends = korn_graubard((near[f"far {distance}"] / near["all"]).to_numpy(), near["subject"].to_numpy())
                rows += _both_averages(base, near.height, totals, distance, ends)
    return pl.DataFrame(rows, infer_schema_length=None)


def _both_averages(
    base: dict[str, object], facts: int, totals: dict[str, float], distance: float, ends: tuple[float, float]
) -> list[dict[str, object]]:
    """totals: of all facts, matches lost and those of them at the distance, and the mean of each fact's share, whose
    interval is ``ends``."""
    if not facts:
        nothing = {"facts": 0, "share": None, "low": None, "high": None, "chance": None}
        return [{**base, "average": "facts", **nothing}, {**base, "average": "matches", **nothing}]
    share, far, lost = totals[f"share {distance}"], int(totals[f"far {distance}"]), int(totals["all"])
    chance, of_all = totals[f"chance {distance}"], totals[f"of all {distance}"] / lost
    low, high = wilson(far, lost, correction=False)
    return [
        {**base, "average": "facts", "facts": facts, "share": share, "low": ends[0], "high": ends[1], "chance": chance},
        {**base, "average": "matches", "facts": facts, "share": far / lost, "low": low, "high": high, "chance": of_all},
    ]


def draw(table: pl.DataFrame) -> "style.Figure":
    """Share of lost matches at least 1, 2, 3 and 4 periods away, by how well a fact seems known, over the models.

    A panel a format and prefix; the mean over facts (the papers' average) with intervals; the number of
    facts is that of pairs of model and fact. Source: TimeStress, figures 4 and 7.
    """
    chosen = style.check("far_errors", pooled_rows(table).filter(pl.col("average") == "facts"), "share")
    panels = style.sections(chosen)
    down, columns = style.grid(len(panels))
    thresholds = sorted(chosen["threshold"].unique())
    distances = sorted(chosen["alpha"].unique())
    offsets = dict(zip(thresholds, marks.spread(len(thresholds), 0.5), strict=True))
    size = (style.COLUMN if columns == 1 else style.PAGE, 2.6 * down)
    with style.sheet(*size, down, columns, sharex=True, sharey=True) as (_, axes):
        for panel, (title, part) in zip(axes.flat, panels, strict=False):
            panel.set_title(title)
            for threshold in thresholds:
                line = part.filter(pl.col("threshold") == threshold).sort("alpha")
                if line.height:
                    look = style.look(thresholds.index(threshold))
                    marks.dots(
                        panel, line["alpha"] + offsets[threshold], line["share"], look,
                        low=line["low"], high=line["high"], upright=True, joined=True,
                        label=f"{AT_LEAST} {100 * threshold:g} % ({line['facts'][0]:,})",
                    )  # fmt: skip
            panel.set_xticks(distances, [f"{AT_LEAST} {d:g}" for d in distances])
            panel.xaxis.set_tick_params(labelbottom=True)
            panel.set_xlabel(f"|{DISTANCE[-1]}| of the incorrect year")
            panel.legend(
                loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, borderpad=0,
                title="win rate W, below 100 % (number of facts)", title_fontsize=style.SMALL,
            )  # fmt: skip
        marks.blank(axes.flat[len(panels) :])
        for panel in axes[:, 0]:
            panel.set_ylabel("share of lost matches")
            marks.in_percent(panel, "y")
        axes[0, 0].set_ylim(bottom=0)
    return axes[0, 0].figure


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    """None where every share is 0: an interval above it is no error yet."""
    if not any(table["share"].drop_nulls()):
        return []
    names = {"facts": "mean over facts", "matches": "of all lost matches"}
    views = []
    known = table.drop_nulls("share").sort("average", "threshold", maintain_order=True)
    for (average, threshold), cell in charts.groups(known, "average", "threshold"):
        traces = [
            looks.trace(
                key, mode="lines+markers", x=charts.numbers(group["alpha"]), y=charts.numbers(group["share"]),
                error_y=charts.bars(group, "share"), customdata=charts.rows(group, "low", "high", "facts"),
                hovertemplate="alpha from %{x}: %{y:.1%} (%{customdata[0]:.1%} to %{customdata[1]:.1%}), "
                "%{customdata[2]:,} facts",
            )
            for key, group in charts.by_run(cell)
        ]  # fmt: skip
        views.append(
            charts.view(
                f"facts with W from {threshold:.0%}, {names[average]}",
                traces,
                xaxis=charts.axis("at least this many periods away (alpha)", dtick=1),
                yaxis=charts.axis("share of lost matches", **charts.PERCENT),
            )
        )
    return views


def _far_errors_finding(rows: Rows) -> str | None:
    kept = [row for row in rows if row["average"] == "facts" and row["share"] is not None and row["facts"] >= FEW]
    if not kept:
        return None
    row = min(kept, key=lambda row: (row["threshold"], row["alpha"]))
    ends = "" if row["low"] is None else f" ({percent(row['low'])} to {percent(row['high'])})"
    return (
        f"{percent(row['share'])}{ends} of the errors on facts that seem known are far from the period, where errors "
        f"at any date alike would be {percent(row['chance'])}"
    )


FAR_ERRORS = Analysis(
    name="far_errors",
    group=WRONG,
    title="Share of lost matches that are far from the period, for facts that seem known",
    source="TimeStress, figures 4 and 7",
    compute=lambda study: far_errors(study.once(all_lost_matches), study.facts, study.most_robust),
    needs=(YEARS,),
    figure=draw,
    chart=Chart(
        page_views,
        "For facts that seem known, the share of lost matches in which the winning date is at least this far away. "
        "Alpha is 1 at one length of the period from its middle.",
        "no fact that seems known has an error far from its period",
    ),
    finding=_far_errors_finding,
    columns={
        **POOLED_RUN,
        "threshold": "only facts whose W by year is at least this and less than 1",
        "alpha": "smallest distance that counts as far",
        "average": "`facts`: mean of each fact's share (the papers'); `matches`: share of all lost matches",
        "facts": "number of facts that qualify; if pooled, pairs of model and fact",
        "share": "share of lost matches whose incorrect context is at least that far; empty if no fact qualifies",
        "low": "lower end of the 95 % interval: over subjects, or of single matches for `matches`",
        "high": "its upper end",
        "chance": "what the share would be if the same matches were lost to any of each fact's incorrect dates alike",
    },
    paper=InPaper(
        words={**RUN_WORDS, "average": "mean over", "threshold": "W ≥", "alpha": "alpha ≥"},
        numbers={"facts": "facts", "share": "lost matches (%)", "chance": "by chance (%)"},
    ),
)
