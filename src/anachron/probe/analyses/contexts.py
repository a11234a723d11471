"""What was asked: the data set in numbers, its years, and single facts date by date.

Sources: paper 002, section 3.2 and figures 14 and 17; paper 001, table 2.
"""

from typing import Any

import polars as pl

from anachron.core.dates import GRANULARITIES
from anachron.metrics import FACT_KEYS, RUN_KEYS
from anachron.probe.analyses.far_errors import FAR, worst_errors

DATED = ("correct", "incorrect", "transitional", "discarded")


def all_contexts(runs: tuple[pl.DataFrame, ...]) -> pl.DataFrame:
    """Every context of every fact once: ``fact_id, granularity, time, status, alpha``."""
    columns = ["fact_id", "granularity", "time", "status", "alpha"]
    return pl.concat([run.select(columns) for run in runs[:1]]) if len(runs) == 1 else _union(runs, columns)


def _union(runs: tuple[pl.DataFrame, ...], columns: list[str]) -> pl.DataFrame:
    found, seen = [], pl.DataFrame(schema={"fact_id": pl.String})
    for run in runs:  # a fact's contexts are those of the first run that was asked it
        new = run.join(seen, on="fact_id", how="anti", maintain_order="left").select(columns)
        if new.height:
            found.append(new)
            seen = pl.concat([seen, new.select("fact_id").unique()])
    return pl.concat(found)


def dataset_statistics(contexts: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """The data set in numbers: ``what, value`` (counts, and means per fact and granularity)."""
    facts = contexts["fact_id"].n_unique()
    rows: list[tuple[str, float]] = [("facts", facts), ("statements", contexts.height)]
    known = about.filter(pl.col("fact_id").is_in(contexts["fact_id"].unique().implode()))
    known = known.with_columns(pl.coalesce("relation_id", "relation_label").alias("relation"))
    for name, column in (("relations", "relation"), ("subjects", "subject_label"), ("objects", "object_label")):
        if known[column].is_not_null().any():
            rows.append((name, known[column].drop_nulls().n_unique()))
    if known["subject_label"].is_not_null().any() and known["object_label"].is_not_null().any():
        rows.append(("entities", pl.concat([known["subject_label"], known["object_label"]]).drop_nulls().n_unique()))
    for granularity in GRANULARITIES:
        for status in DATED:
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


def years(contexts: pl.DataFrame, width: int = 10) -> pl.DataFrame:
    """How many year contexts lie in each span of ``width`` years: ``first_year, correct, incorrect, transitional``.

    Spans start at whole multiples; -10 is 10 to 1 BCE. Source: paper 002, figure 14.
    """
    dated = contexts.filter((pl.col("granularity") == "year") & (pl.col("status") != "none"))
    span = dated.select(((pl.col("time").cast(pl.Int64) // width) * width).alias("first_year"), pl.col("status"))
    kinds = [(pl.col("status") == status).sum().cast(pl.Int64).alias(status) for status in DATED[:3]]
    return span.group_by("first_year").agg(*kinds).sort("first_year")


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
        own = run.filter(pl.col("granularity") == "year").join(worst, on=FACT_KEYS, maintain_order="left")
        priors = own.filter(pl.col("status") == "none").select(*FACT_KEYS, pl.col("logp").alias("prior"))
        chosen.append(
            own.filter(pl.col("status") != "none")
            .join(priors, on=FACT_KEYS, how="left", maintain_order="left")
            .join(errors, on=[*FACT_KEYS, "time"], how="left", maintain_order="left")
        )
    labels = ["subject_label", "relation_label", "object_label", "start", "end"]
    table = pl.concat(chosen).with_columns(pl.col("lost").fill_null(False))
    return (
        table.with_columns((pl.col("lost") & (pl.col("alpha").abs() >= FAR)).alias("far"))
        .join(about.select("fact_id", *labels), on="fact_id", how="left", maintain_order="left")
        .select("rank", *FACT_KEYS, *labels, "win_rate", "time", "status", "alpha", "logp", "prior", "lost", "far")
        .sort("rank", pl.col("time").cast(pl.Int64), maintain_order=True)
    )


def margins(run: pl.DataFrame) -> pl.DataFrame:
    """By how many nats each fact of a run wins its closest match: its weakest correct minus its strongest incorrect.

    Negative where a match is lost. FACT_KEYS, granularity, ``margin``; the global margin is the smallest of the three.
    """
    own = run.group_by([*FACT_KEYS, "granularity"], maintain_order=True).agg(
        pl.col("logp").filter(pl.col("status") == "correct").min().alias("correct"),
        pl.col("logp").filter(pl.col("status") == "incorrect").max().alias("incorrect"),
    )
    each = own.drop_nulls().select(*FACT_KEYS, "granularity", (pl.col("correct") - pl.col("incorrect")).alias("margin"))
    both = each.group_by(FACT_KEYS, maintain_order=True).agg(pl.len().alias("n"), pl.col("margin").min())
    together = both.filter(pl.col("n") == len(GRANULARITIES)).select(
        *FACT_KEYS, pl.lit("global").alias("granularity"), "margin"
    )
    return pl.concat([each, together])


def robust_with_margin(table: pl.DataFrame, levels: tuple[float, ...] = (0.0, 0.1, 0.5, 1.0, 2.0)) -> pl.DataFrame:
    """Share of facts whose every match is won by more than a margin (nats), at each granularity and global.

    table: from `margins`. A margin of 0 gives R. Columns RUN_KEYS, ``granularity, facts, margin, robustness``.
    """
    rows: list[dict[str, Any]] = []
    for key, group in table.group_by([*RUN_KEYS, "granularity"], maintain_order=True):
        for level in levels:
            row = dict(zip([*RUN_KEYS, "granularity"], key, strict=True)) | {"facts": group.height, "margin": level}
            rows.append(row | {"robustness": (group["margin"] > level).mean()})
    return pl.DataFrame(rows, infer_schema_length=None)
