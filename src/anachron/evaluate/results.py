"""The tables that a run of edits writes and that metrics read: their columns, and what must hold in them.

Three of every run, and more of one that has updates other than replacements, lets a model generate
(`anachron.evaluate.measures.generations`) or asks dated questions (`anachron.evaluate.measures.dated`).

Probabilities are geometric means over the target's tokens, 0 to 1, never logarithms. ``before`` is the clean model, the
same for all methods, and ``after`` the edited one. A failed update has no score after, only a reason.
"""

from collections.abc import Sequence

import polars as pl
from polars.datatypes import DataType

from anachron.analysis.metrics import refuse_rows
from anachron.core.dates import GRANULARITIES
from anachron.core.errors import DataError
from anachron.core.facts import DECISIONS, REPLACEMENT, SCENARIOS
from anachron.core.labels import PLAIN, VARIANTS
from anachron.evaluate.measures.atoke import ATOKE_KINDS
from anachron.evaluate.measures.dated import SIDES, WAYS

UNEDITED = "unedited"  # the clean model, as a method beside the others
TARGET_KINDS = ("update", "generalization")
NEIGHBOUR_KINDS = ("nearest", "random")
STATUSES = ("done", "failed")
OTHER = "other"  # an object that is none of the group's, but plausible: a neighbour fact has it
ROLES = (*DECISIONS, OTHER)

TEXT, COUNT, NUMBER = pl.String(), pl.Int64(), pl.Float64()
Schema = dict[str, DataType]

# A method's name, and what was asked of it: one of `VARIANTS`. No column, or null, is plain.
METHOD: Schema = {"method": TEXT, "variant": TEXT}
STAGE: Schema = {"mode": TEXT, **METHOD, "edits": COUNT}  # a model in a run: the number of edits, where it has some
UPDATE: Schema = {"mode": TEXT, **METHOD, "case_id": TEXT}
KEYS = list(UPDATE)
PROMPT: Schema = {**UPDATE, "kind": TEXT, "prompt_number": COUNT}
FACT: Schema = {**UPDATE, "kind": TEXT, "number": COUNT}
DATE: Schema = {"granularity": TEXT, "time": TEXT, "side": TEXT, "distance": NUMBER}
PAIR: Schema = dict.fromkeys(["new_before", "old_before", "new_after", "old_after"], NUMBER)
P: Schema = dict.fromkeys(["before", "after"], NUMBER)
ACCURACY: Schema = dict.fromkeys(["accuracy_before", "accuracy_after"], NUMBER)  # null where tokens were not counted

# One row per prompt of an update: p of the new object and of the old one, which is null where none is known. accuracy:
# share of the new object's tokens that are the model's first choice; of a neighbour, of its true object (the best one).
TARGETS: Schema = {**PROMPT, **PAIR, **ACCURACY}
# One row per neighbour fact of an update: p of its true object, and of the update's new object on the fact's prompt,
# null where that is true of the fact too or the update is no replacement. dist: 1 - similarity to the updated subject.
NEIGHBOURS: Schema = {
    **FACT, **P, "new_before": NUMBER, "new_after": NUMBER, **ACCURACY, "dist": NUMBER, "popularity": NUMBER,
}  # fmt: skip
# One row per update. seconds: the edit alone, a batch's divided by its edits. fluency: bits. scenario: null is a
# replacement, which is what all updates were before tables said so.
UPDATES: Schema = {
    **UPDATE, "status": TEXT, "reason": TEXT, "seconds": NUMBER, "fluency_before": NUMBER, "fluency": NUMBER,
    "relation": TEXT, "popularity": NUMBER, "scenario": TEXT,
}  # fmt: skip
# One row per object and prompt of an update that is no replacement: its p. role: one of `ROLES`.
OBJECTS: Schema = {**PROMPT, "role": TEXT, "object": TEXT, **P}
# One row per prompt that a model was to go on from: its text, and whether that begins with a new or old object (0, 1).
GENERATIONS: Schema = {**PROMPT, "text_before": TEXT, "text_after": TEXT, **PAIR}
# One row per question of a test that an update brings (`anachron.evaluate.measures.portability`): p of an accepted
# answer and of the old one, the text generated, whether it is right by its format's rule, whether it begins with an
# answer (0, 1). needed: any or all of a test's questions. known_before: whether the unedited model has the test's
# conditions right.
PORTABILITY: Schema = {
    **FACT, "prompt_number": COUNT, "needed": TEXT, **P,
    **{f"{value}_{side}": TEXT if value == "text" else NUMBER
       for value in ("old", "text", "right", "begins") for side in ("before", "after")}, "known_before": NUMBER,
}  # fmt: skip
# One row per prompt that a model was to answer (`anachron.evaluate.measures.audit`): prompt, names of new and old
# objects, the answer, whether it ended by itself, and whether it is a new or an old object and nothing else (0, 1).
NAMES: Schema = {"prompt": TEXT, "new_names": pl.List(TEXT), "old_names": pl.List(TEXT)}
AUDIT: Schema = {
    **PROMPT, **NAMES, "text_before": TEXT, "text_after": TEXT, "stopped_before": NUMBER, "stopped_after": NUMBER,
    **PAIR,
}  # fmt: skip
# One row per question of AToKe about an update: p of both answers; accuracy: share of the right one's tokens that are
# the model's first choice. kind: one of `ATOKE_KINDS`.
ATOKE: Schema = {**PROMPT, **PAIR, **ACCURACY}
# One row per date that an update is asked about and way of asking, one of `WAYS`; null is the update prompt, which all
# were before tables said so. side: past or present. distance: years from T to it, below 0 before.
DATED: Schema = {**UPDATE, "way": TEXT, **DATE, **PAIR}
# One row per neighbour fact and date that it is asked about: p of its true object behind that date.
DATED_NEIGHBOURS: Schema = {**FACT, **DATE, **P}
# Cells that no row may leave empty; any other may be null.
REQUIRED = {
    "mode", "method", "case_id", "kind", "prompt_number", "number", "needed", "status", "role", "object", *DATE,
}  # fmt: skip
PROBABILITIES = {*PAIR, *P, *ACCURACY, "stopped_before", "stopped_after"}

Results = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]  # targets, neighbours, updates


def check_results(targets: pl.DataFrame, neighbours: pl.DataFrame, updates: pl.DataFrame) -> Results:
    """The three tables with just their columns, in their types, whatever files they came from.

    Raises `DataError` naming the table and the row for: a column that is missing, a cell of another type, a key that is
    empty or there twice, an unknown kind or status, a number that is no probability, two update prompts of one update,
    scores of an update that failed or is not among ``updates``, and the name ``unedited``, which is the clean model's.
    """
    updates = check_updates(updates)
    targets = _check("targets", targets, TARGETS, TARGET_KINDS, ["prompt_number"])
    second = (pl.col("kind") == "update") & pl.struct(*KEYS, "kind").is_duplicated()
    _refuse("targets", targets, "prompt_number", second, "is one of several update prompts; an update has one")
    neighbours = check_neighbours(neighbours)
    _check_owners("targets", targets, updates, ["new_after", "old_after", "accuracy_after"])
    _check_owners("neighbours", neighbours, updates, ["after", "new_after", "accuracy_after"])
    return targets, neighbours, updates


def check_objects(objects: pl.DataFrame, updates: pl.DataFrame) -> pl.DataFrame:
    """The table of objects of updates that are no replacements, checked in the same way against that of updates."""
    table = _check("objects", objects, OBJECTS, TARGET_KINDS, ["object", "prompt_number", "role"])
    _among("objects", table, "role", ROLES)
    _check_owners("objects", table, updates, ["after"])
    return table


def check_generations(generations: pl.DataFrame, updates: pl.DataFrame) -> pl.DataFrame:
    """The table of what models generated, checked in the same way."""
    table = _check("generations", generations, GENERATIONS, TARGET_KINDS, ["prompt_number"])
    _check_owners("generations", table, updates, ["new_after", "old_after"])
    return table


def check_portability(portability: pl.DataFrame, updates: pl.DataFrame) -> pl.DataFrame:
    """The table of questions of tests that updates bring, checked in the same way."""
    table = _typed("portability", portability, PORTABILITY)
    twice = pl.struct(*KEYS, "kind", "number", "prompt_number").is_duplicated()
    _refuse("portability", table, "prompt_number", twice, "occurs twice for one test; keep one")
    _check_owners("portability", table, updates, ["after", "right_after"])
    return table


def check_audit(audit: pl.DataFrame, updates: pl.DataFrame) -> pl.DataFrame:
    """The table of what models answered, checked in the same way."""
    table = _check("audit", audit, AUDIT, TARGET_KINDS, ["prompt_number"])
    _check_owners("audit", table, updates, ["new_after", "old_after", "stopped_after"])
    return table


def _check_owners(name: str, table: pl.DataFrame, updates: pl.DataFrame, scores: Sequence[str]) -> None:
    """Refuse rows of no update, and scores of a failed one."""
    known = table.join(updates.select(*KEYS, "status"), on=KEYS, how="left", maintain_order="left")
    _refuse(name, known, "case_id", pl.col("status").is_null(), "is not in the table of updates; add its row there")
    for score in scores:
        _refuse(name, known, score, (pl.col("status") == "failed") & pl.col(score).is_not_null(), FAILED)


FAILED = "is the score of a failed update; leave it null, a failure is counted and not scored"


def check_updates(updates: pl.DataFrame) -> pl.DataFrame:
    """The table of updates, as `check_results` has it."""
    if "scenario" not in updates.columns:
        updates = updates.with_columns(scenario=pl.lit(None, pl.String))
    table = _typed("updates", updates, UPDATES).with_columns(pl.col("scenario").fill_null(REPLACEMENT))
    if not table.height:
        raise DataError("the table of updates has 0 rows; metrics need one update at least, done or failed")
    _among("updates", table, "status", STATUSES)
    _among("updates", table, "scenario", SCENARIOS)
    _refuse("updates", table, "method", pl.col("method") == UNEDITED, "is the clean model's name; choose another")
    _refuse("updates", table, "case_id", pl.struct(KEYS).is_duplicated(), "occurs twice; keep one row of an update")
    for name in ("seconds", "fluency_before", "fluency"):
        _refuse("updates", table, name, pl.col(name) < 0, "is below 0; it must be 0 or more, or null")
    scored = (pl.col("status") == "failed") & pl.col("fluency").is_not_null()
    _refuse("updates", table, "fluency", scored, FAILED)
    return table


def check_neighbours(neighbours: pl.DataFrame) -> pl.DataFrame:
    """The table of neighbour facts on its own."""
    return _check("neighbours", neighbours, NEIGHBOURS, NEIGHBOUR_KINDS, ["number"])


def check_atoke(atoke: pl.DataFrame, updates: pl.DataFrame) -> pl.DataFrame:
    """The table of AToKe's questions, checked in the same way."""
    table = _check("atoke", atoke, ATOKE, ATOKE_KINDS, ["prompt_number"])
    _check_owners("atoke", table, updates, ["new_after", "old_after", "accuracy_after"])
    return table


def check_dated(dated: pl.DataFrame) -> pl.DataFrame:
    """The table of dated questions on its own."""
    if "way" not in dated.columns:
        dated = dated.with_columns(way=pl.lit(None, pl.String))
    typed = _typed("dated", dated, DATED).with_columns(pl.col("way").fill_null(WAYS[0]))
    _among("dated", typed, "way", WAYS)
    _check_dates("dated", typed)
    twice = pl.struct(*KEYS, "way", "time").is_duplicated()
    _refuse("dated", typed, "time", twice, "occurs twice for one update and way; keep one")
    return typed


def check_dated_neighbours(neighbours: pl.DataFrame) -> pl.DataFrame:
    """The table of neighbour facts with dates on its own."""
    name = "dated_neighbours"
    typed = _typed(name, neighbours, DATED_NEIGHBOURS)
    _among(name, typed, "kind", NEIGHBOUR_KINDS)
    _check_dates(name, typed)
    twice = pl.struct(*KEYS, "kind", "number", "time").is_duplicated()
    _refuse(name, typed, "time", twice, "occurs twice for one neighbour; keep one")
    return typed


def _check_dates(name: str, table: pl.DataFrame) -> None:
    _among(name, table, "granularity", GRANULARITIES)
    _among(name, table, "side", SIDES)


def _check(name: str, table: pl.DataFrame, schema: Schema, kinds: Sequence[str], keys: Sequence[str]) -> pl.DataFrame:
    typed = _typed(name, table, schema)
    _among(name, typed, "kind", kinds)
    twice = pl.struct(*KEYS, "kind", *keys).is_duplicated()
    _refuse(name, typed, keys[0], twice, "occurs twice for one update; keep one row of each")
    return typed


def _typed(name: str, table: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    if "variant" not in table.columns:
        if "dated_requests" in table.columns:
            raise DataError(
                f"the table of {name} says dated_requests, as earlier versions did; name that column variant, with "
                "dated for true and plain for false"
            )
        table = table.with_columns(variant=pl.lit(None, pl.String))
    missing = [column for column in schema if column not in table.columns]
    if missing:
        raise DataError(f"the table of {name} lacks {', '.join(missing)}; it needs {', '.join(schema)}")
    typed = table.select(pl.col(column).cast(kind, strict=False) for column, kind in schema.items())
    for column, kind in schema.items():
        lost = typed[column].is_null() & table[column].is_not_null()
        if kind == pl.Float64():
            _refuse(name, table, column, lost | ~typed[column].is_finite().fill_null(True), "is not a finite number")
        _refuse(name, table, column, lost, f"is no {kind}; write it as one")
        if column in REQUIRED:
            _refuse(name, table, column, typed[column].is_null(), "is empty; every row needs one")
        if column in PROBABILITIES:
            outside = ~typed[column].is_between(0, 1).fill_null(True)
            _refuse(name, table, column, outside, "is not a probability; it must be 0 to 1, not a logarithm")
    typed = typed.with_columns(pl.col("variant").fill_null(PLAIN))
    _among(name, typed, "variant", VARIANTS)
    return typed


def _among(name: str, table: pl.DataFrame, column: str, known: Sequence[str]) -> None:
    _refuse(name, table, column, ~pl.col(column).is_in(known), f"is unknown; use {' or '.join(known)}")


def _refuse(name: str, table: pl.DataFrame, column: str, bad: pl.Expr | pl.Series, rule: str) -> None:
    refuse_rows(table, column, table.select(bad).to_series(), rule, f"{name}, ")


def method_label() -> pl.Expr:
    """The label of each row's method, for people and to sort by, as `anachron.core.labels.label_of` has it."""
    variant = pl.col("variant")
    return pl.when(variant == PLAIN).then("method").otherwise(pl.col("method") + " " + variant).alias("method")
