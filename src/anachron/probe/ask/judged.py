"""Open answers for a second reading by a judge, beside the rule of `anachron.probe.ask.matching`."""

import polars as pl

from anachron.probe.ask.matching import UNREADABLE
from anachron.probe.ask.tables import NAMED, RIGHT

READ_AS_NAME = "named"  # kind of an answer in which the rule reads a name; of others it is why it reads none
KEY = ("model", "kind")


def answers_to_judge(answers: pl.DataFrame, model: str) -> pl.DataFrame:
    """A row an open answer with a year: those that give a name, by the rule, and those that it cannot read.

    answers: `anachron.probe.ask.tables.answers_table`. Columns: ``model, kind`` (`READ_AS_NAME` or ``unreadable``),
    ``fact_id, years``, ``prompt`` (the question alone), ``new_names`` (of the right answer), ``text``, ``outcome`` and
    ``rule``, whether the rule takes it for right. Refusals and empty answers say nothing that could be judged.
    """
    opened = answers.filter(
        (pl.col("kind") == "open") & pl.col("years").is_not_null() & pl.col("outcome").is_in([*NAMED, UNREADABLE])
    )
    unreadable = pl.col("outcome") == UNREADABLE
    return opened.select(
        pl.lit(model).alias("model"),
        pl.when(unreadable).then(pl.lit(UNREADABLE)).otherwise(pl.lit(READ_AS_NAME)).alias("kind"),
        "fact_id", "years", pl.col("prompt").str.replace(r"\n[^\n]*$", ""), pl.col("right_names").alias("new_names"),
        "text", "outcome", (pl.col("outcome") == RIGHT).alias("rule"),
    ).sort("kind", maintain_order=True)  # fmt: skip
