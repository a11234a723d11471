"""The parts of a run: which texts each holds, as a table that is checked, and what the table of a part must hold."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from anachron.lm.scorer import ABOVE_ZERO

PART_TEXTS = 1024  # texts a part: what a killed run can lose
PLAN_SCHEMA = {"part": pl.Int32(), "batch": pl.Int32(), "text": pl.Int64()}


def plan_table(batches: Sequence[Sequence[int]], part_texts: int) -> pl.DataFrame:
    """Batches of texts, a row a text, in parts of about so many; no batch is split."""
    rows: list[tuple[int, int, int]] = []
    part = held = 0
    for number, batch in enumerate(batches):
        if held and held + len(batch) > part_texts:
            part, held = part + 1, 0
        held += len(batch)
        rows += [(part, number, text) for text in batch]
    return pl.DataFrame(rows, schema=PLAN_SCHEMA, orient="row")


def plan_fault(plan: pl.DataFrame, texts: int) -> str | None:
    """What keeps a plan from being one of so many texts, each once, in batches and parts that count up, if anything."""
    if dict(plan.schema) != PLAN_SCHEMA or any(plan.null_count().row(0)):
        return f"its columns are not {', '.join(PLAN_SCHEMA)} of whole numbers"
    if plan["text"].sort().to_list() != list(range(texts)):
        return f"it does not hold each of the {texts} texts once"
    for name in ("part", "batch"):
        if plan.height and (plan[name][0] != 0 or not plan[name].diff().drop_nulls().is_between(0, 1).all()):
            return f"its column {name} does not count up from 0"
    if plan.select("part", "batch").n_unique() != plan["batch"].n_unique():
        return "it has a batch in two parts"
    return None


def part_fault(part: pl.DataFrame, expected: pl.DataFrame) -> str | None:
    """What keeps the table of a part from holding the scores of its rows, if anything.

    expected: the same rows with any scores. All else must be as it is there, but for what the model is called, and
    scores are numbers of at most 0.
    """
    if part.schema != expected.schema:
        return f"its columns are {', '.join(part.columns)}, not {', '.join(expected.columns)}"
    if part.height != expected.height:
        return f"it has {part.height} rows, not {expected.height}"
    for name in part.columns:
        if name not in ("logp", "model") and not part[name].equals(expected[name], null_equal=True):
            return f"its column {name} is that of other statements or another run"
    return scores_fault(part["logp"].to_numpy())


def scores_fault(scores: np.ndarray) -> str | None:
    """What keeps numbers from being log-probabilities, if anything."""
    wrong = ~(np.isfinite(scores) & (scores <= ABOVE_ZERO))
    return f"it holds the score {scores[wrong][0]}, which is not a log-probability" if wrong.any() else None
