"""The tables that a run of edits writes and that metrics read: their columns, and what must hold in them.

Here are those of every run, and what all have in common; those of a further measure are in its file.

Probabilities are geometric means over the target's tokens, 0 to 1, never logarithms. ``before`` is the clean model, the
same for all methods, and ``after`` the edited one. A failed update has no score after, only a reason.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from polars.datatypes import DataType

from anachron.core.dates import GRANULARITIES
from anachron.core.errors import DataError
from anachron.core.facts import DECISIONS, REPLACEMENT, SCENARIOS
from anachron.core.labels import PLAIN, VARIANTS
from anachron.io.schemas import FINITE, NOT_BELOW_0, PROBABILITY, ColumnSchema, Schema, one_of, refuse_rows

UNEDITED = "unedited"  # the clean model, as a method beside the others
TARGET_KINDS = ("update", "generalization")
NEIGHBOUR_KINDS = ("nearest", "random")
STATUSES = ("done", "failed")
OTHER = "other"  # an object that is none of the group's, but plausible: a neighbour fact has it
ROLES = (*DECISIONS, OTHER)

TEXT, COUNT, NUMBER = pl.String(), pl.Int64(), pl.Float64()
Types = dict[str, DataType]

# A method's name, and what was asked of it: one of `VARIANTS`. No column, or null, is plain.
METHOD: Types = {"method": TEXT, "variant": TEXT}
STAGE: Types = {"mode": TEXT, **METHOD, "edits": COUNT}  # a model in a run: the number of edits, where it has some
UPDATE: Types = {"mode": TEXT, **METHOD, "case_id": TEXT}
KEYS = list(UPDATE)
PROMPT: Types = {**UPDATE, "kind": TEXT, "prompt_number": COUNT}
FACT: Types = {**UPDATE, "kind": TEXT, "number": COUNT}
DATE: Types = {"granularity": TEXT, "time": TEXT, "side": TEXT, "distance": NUMBER}
PAIR: Types = dict.fromkeys(["new_before", "old_before", "new_after", "old_after"], NUMBER)
P: Types = dict.fromkeys(["before", "after"], NUMBER)
ACCURACY: Types = dict.fromkeys(["accuracy_before", "accuracy_after"], NUMBER)  # null where tokens were not counted

# One row per prompt of an update: p of the new object and of the old one, which is null where none is known. accuracy:
# share of the new object's tokens that are the model's first choice; of a neighbour, of its true object (the best one).
TARGETS: Types = {**PROMPT, **PAIR, **ACCURACY}
# One row per neighbour fact of an update: p of its true object, and of the update's new object on the fact's prompt,
# null where that is true of the fact too or the update is no replacement. dist: 1 - similarity to the updated subject.
NEIGHBOURS: Types = {
    **FACT, **P, "new_before": NUMBER, "new_after": NUMBER, **ACCURACY, "dist": NUMBER, "popularity": NUMBER,
}  # fmt: skip
# One row per update. seconds: the edit alone, a batch's divided by its edits. fluency: bits. scenario: null is a
# replacement, which is what all updates were before tables said so. subject: null is one of the update's own.
UPDATES: Types = {
    **UPDATE, "status": TEXT, "reason": TEXT, "seconds": NUMBER, "fluency_before": NUMBER, "fluency": NUMBER,
    "relation": TEXT, "popularity": NUMBER, "scenario": TEXT, "subject": TEXT,
}  # fmt: skip
# Cells that no row may leave empty; any other may be null.
REQUIRED = {
    "mode", "method", "case_id", "kind", "prompt_number", "number", "needed", "status", "role", "object", *DATE,
}  # fmt: skip
PROBABILITIES = {*PAIR, *P, *ACCURACY, "stopped_before", "stopped_after"}
NOT_NEGATIVE = {"seconds", "fluency_before", "fluency"}
KNOWN: dict[str, Sequence[str]] = {
    "variant": VARIANTS, "status": STATUSES, "scenario": SCENARIOS, "role": ROLES, "granularity": GRANULARITIES,
}  # fmt: skip
# What rows are that were written before the column
BEFORE: dict[str, str | None] = {"variant": PLAIN, "scenario": REPLACEMENT, "subject": None}

Results = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]  # targets, neighbours, updates


def schema(
    name: str, types: Types, keys: Sequence[str], known: Mapping[str, Sequence[str]] | None = None,
    before: Mapping[str, str | None] | None = None,
) -> Schema:  # fmt: skip
    """The table of these columns, of which an update has one row for the same values of ``keys``.

    known: further columns of which only these values are allowed. before: column -> what rows are that were written
    before it was.
    """
    allowed, absent = {**KNOWN, **(known or {})}, {**BEFORE, **(before or {})}
    columns = {
        column: ColumnSchema(
            kind,
            filled=column in REQUIRED,
            optional=column in absent,
            rules=(
                *([FINITE] if kind == NUMBER else []),
                *([one_of(allowed[column])] if column in allowed else []),
                *([PROBABILITY] if column in PROBABILITIES else []),
                *([NOT_BELOW_0] if column in NOT_NEGATIVE else []),
            ),
            absent=absent.get(column),
        )
        for column, kind in types.items()
    }
    return Schema(name, columns, (*KEYS, *keys))


def check_results(targets: pl.DataFrame, neighbours: pl.DataFrame, updates: pl.DataFrame) -> Results:
    """The three tables with just their columns, in their types, whatever files they came from.

    Raises `DataError` naming the table and the row for: a column that is missing, a cell of another type, a key that is
    empty or there twice, an unknown kind or status, a number that is no probability, two update prompts of one update,
    scores of an update that failed or is not among ``updates``, and the name ``unedited``, which is the clean model's.
    """
    updates = check_updates(updates)
    targets = read(schema("targets", TARGETS, ["kind", "prompt_number"], {"kind": TARGET_KINDS}), targets)
    second = (pl.col("kind") == "update") & pl.struct(*KEYS, "kind").is_duplicated()
    refuse_rows(targets, "prompt_number", second, "is one of several update prompts; an update has one", "targets")
    neighbours = check_neighbours(neighbours)
    check_owners("targets", targets, updates, ["new_after", "old_after", "accuracy_after"])
    check_owners("neighbours", neighbours, updates, ["after", "new_after", "accuracy_after"])
    return targets, neighbours, updates


def check_updates(updates: pl.DataFrame) -> pl.DataFrame:
    """The table of updates, as `check_results` has it. ``subject`` is filled: updates of one depend on each other."""
    table = read(schema("updates", UPDATES, []), updates).with_columns(pl.coalesce("subject", "case_id"))
    if not table.height:
        raise DataError("the table of updates has 0 rows; metrics need one update at least, done or failed")
    clean = pl.col("method") == UNEDITED
    refuse_rows(table, "method", clean, "is the clean model's name; choose another", "updates")
    scored = (pl.col("status") == "failed") & pl.col("fluency").is_not_null()
    refuse_rows(table, "fluency", scored, FAILED, "updates")
    return table


def subjects_of(table: pl.DataFrame, updates: pl.DataFrame | None = None) -> np.ndarray:
    """By which subject each row of a table of updates is clustered in intervals and tests.

    Its own, or that of its ``case_id`` in ``updates``; without one, each update is a subject of its own.
    """
    if updates is not None and "subject" in updates.columns:
        named = updates.select("case_id", "subject").unique("case_id", maintain_order=True)
        table = table.drop("subject", strict=False).join(named, on="case_id", how="left", maintain_order="left")
    if "subject" not in table.columns:
        return table["case_id"].to_numpy()
    return table.select(pl.coalesce("subject", "case_id")).to_series().to_numpy()


def check_neighbours(neighbours: pl.DataFrame) -> pl.DataFrame:
    """The table of neighbour facts on its own."""
    return read(schema("neighbours", NEIGHBOURS, ["kind", "number"], {"kind": NEIGHBOUR_KINDS}), neighbours)


def read(schema: Schema, table: pl.DataFrame) -> pl.DataFrame:
    """A table in its types; raises `DataError` for what breaks its rules."""
    if "dated_requests" in table.columns and "variant" not in table.columns:
        raise DataError(
            f"the table of {schema.name} says dated_requests, as earlier versions did; name that column variant, with "
            "dated for true and plain for false"
        )
    return schema.read(table)


FAILED = "is the score of a failed update; leave it null, a failure is counted and not scored"


def check_owners(name: str, table: pl.DataFrame, updates: pl.DataFrame, scores: Sequence[str]) -> None:
    """Refuse rows of no update, and scores of a failed one."""
    known = table.join(updates.select(*KEYS, "status"), on=KEYS, how="left", maintain_order="left")
    ownerless = pl.col("status").is_null()
    refuse_rows(known, "case_id", ownerless, "is not in the table of updates; add its row there", name)
    for score in scores:
        scored = (pl.col("status") == "failed") & pl.col(score).is_not_null()
        refuse_rows(known, score, scored, FAILED, name)


def method_label() -> pl.Expr:
    """The label of each row's method, for people and to sort by, as `anachron.core.labels.label_of` has it."""
    variant = pl.col("variant")
    return pl.when(variant == PLAIN).then("method").otherwise(pl.col("method") + " " + variant).alias("method")
