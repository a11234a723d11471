"""From changes to a table of what a model prefers, through a probe run.

A name's score is its log-probability a token (names differ in length), averaged over the wordings of its change, as
`anachron.probe.check.present` asks what holds today.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from anachron.core.errors import DataError
from anachron.data.dataset import Dataset
from anachron.data.statements import undated_statements
from anachron.io.schemas import ColumnSchema, Schema
from anachron.probe.ask.matching import REFUSED
from anachron.probe.horizon.changes import FORESEEN, HIGH, STILL, Change
from anachron.probe.horizon.fit import ChangePreferences
from anachron.probe.horizon.questions import ChangeToAsk

NOBODY, DECOY = "somebody else", "decoy"  # whom an answer names
NOT_KNOWN = (REFUSED, NOBODY, DECOY)
PREFERENCE_SCHEMA: dict[str, type[pl.DataType]] = {
    "subject": pl.String, "relation": pl.String, "kind": pl.String, "old": pl.String, "new": pl.String,
    "date": pl.String, "month": pl.Int64, "popularity": pl.Float64, "predictable": pl.String, "control": pl.String,
    "margin": pl.Float64, "margin_decoy": pl.Float64, "margin_known": pl.Float64, "known": pl.Boolean,
    "wins": pl.Float64, "decoy_wins": pl.Float64, "likeliest_decoy_wins": pl.Float64, "named": pl.String,
    "source": pl.String,
}  # fmt: skip
PREFERENCES = Schema(
    "the table of preferences",
    {
        **{name: ColumnSchema(kind) for name, kind in PREFERENCE_SCHEMA.items()},
        "named": ColumnSchema(optional=True),  # runs from before models were asked lack it
        "likeliest_decoy_wins": ColumnSchema(pl.Float64, optional=True),  # and older runs had one decoy a change
        "source": ColumnSchema(optional=True),
        "control": ColumnSchema(absent=""),
        "predictable": ColumnSchema(absent=""),
    },
    remedy="it is not a table that anachron horizon wrote",
)


def statements(asked: Sequence[ChangeToAsk]) -> Dataset:
    """What is scored: every name behind every prompt, each pair once, as statements without dates."""
    pairs: dict[tuple[str, str], Change] = {}
    for one in asked:
        for prompt in one.prompts:
            for name in one.names:
                pairs.setdefault((prompt, name), one.change)
    if not pairs:
        raise DataError("none of the changes can be asked: their relations have no wordings; name one that is known")
    return Dataset(
        "changes",
        undated_statements((about.subject, about.relation, *pair) for pair, about in pairs.items()),
        "released",
    )


def scores_by_pair(scores: pl.DataFrame, data: Dataset) -> dict[tuple[str, str], float]:
    """Log-probability a token of each (prompt, name), from the scores of statements in their order."""
    per_token = (scores["logp"] / scores["n_tokens"]).to_list()
    pairs = zip(data.table["prompt"].to_list(), data.table["answer"].to_list(), strict=True)
    return dict(zip(pairs, per_token, strict=True))


def preferences(asked: Sequence[ChangeToAsk], scores: Mapping[tuple[str, str], float]) -> pl.DataFrame:
    """One row (`PREFERENCE_SCHEMA`) a change: what the model prefers.

    ``margin``: score of the new value less that of the old one, nats a token; ``margin_decoy``: the same for decoys,
    mean; ``margin_known``: score of the old value less that of the likeliest other one. ``known``: whether it is above
    0, for else the model knows nothing of the subject, and the change says nothing. ``wins``: 1 where the margin is
    above 0, 0.5 of a tie; ``decoy_wins``: the same for decoys, mean; ``likeliest_decoy_wins``: for the likeliest of
    them. Of a control that still holds the old value the new one is its first decoy. ``named`` is of answers
    (`anachron.probe.horizon.asking.answered`).
    """
    rows = []
    for one in asked:
        change = one.change

        def score(name: str, one: ChangeToAsk = one) -> float:
            return float(np.mean([scores[prompt, name] for prompt in one.prompts]))

        old = score(change.old)
        margin = score(change.new) - old if change.new else None
        decoys = [score(decoy) - old for decoy in one.decoys]
        known = None if not one.others else old - max(map(score, one.others))
        if change.control == STILL and margin is None:
            margin = decoys[0] if decoys else None
        rows.append(
            change_cells(change) | {
                "margin": margin, "margin_decoy": float(np.mean(decoys)) if decoys else None,
                "margin_known": known, "known": known is not None and known > 0,
                "wins": None if margin is None else _win(margin),
                "decoy_wins": float(np.mean([_win(decoy) for decoy in decoys])) if decoys else None,
                "likeliest_decoy_wins": _win(max(decoys)) if decoys else None, "named": None,
            }
        )  # fmt: skip
    return pl.DataFrame(rows, schema=PREFERENCE_SCHEMA)


def change_cells(change: Change) -> dict[str, Any]:
    """The columns of `PREFERENCE_SCHEMA` that say which change it is."""
    return {
        "subject": change.subject, "relation": change.relation, "kind": change.group, "old": change.old,
        "new": change.new, "date": str(change.date), "month": change.month, "popularity": change.popularity,
        "predictable": change.predictable, "control": change.control, "source": change.source or None,
    }  # fmt: skip


def read_preferences(table: pl.DataFrame) -> pl.DataFrame:
    """A table of `preferences` out of a CSV file, whose cells are texts. Raises `DataError` for any other table."""
    older = {"true": HIGH, "false": ""}  # how runs said it before there were grades
    return PREFERENCES.read(table).with_columns(pl.col("predictable").replace(older))


def _win(margin: float) -> float:
    return 0.5 * ((margin > 0) + (margin >= 0))


def usable(table: pl.DataFrame) -> pl.DataFrame:
    """The changes that say something: no controls, of subjects that the model knows at all."""
    return table.filter(pl.col("control") == "", pl.col("known"), pl.col("wins").is_not_null())


def dated(table: pl.DataFrame) -> pl.DataFrame:
    """The changes that a curve is fitted to: the usable ones, and of answers those that name somebody else or nobody.

    Those count as not known: a model that says rather nothing than something outdated would else seem to have learned
    until later than it did, for of the changes that it does not know fewer would count.
    """
    rows = table.with_columns(
        pl.when(pl.col("named").is_in(NOT_KNOWN)).then(0.0).otherwise(pl.col("wins")).alias("wins"),
        pl.col("known") | pl.col("named").is_in(NOT_KNOWN).fill_null(value=False),
    )
    return usable(rows)


def comparable(table: pl.DataFrame) -> pl.DataFrame:
    """The changes whose new value can be held against a decoy: those that say something and have one.

    Of answers also those that name a decoy: they say nothing of the change, but name at random, and had they named
    the new value it would have counted. There ``wins`` is 0. Of older runs, which had one decoy a change, that is also
    its likeliest.
    """
    decoy_named = (pl.col("control") == "") & pl.col("named").is_not_null() & (pl.col("decoy_wins") > 0)
    decided = (
        (pl.col("control") == "") & pl.col("known") & pl.col("wins").is_not_null() & pl.col("decoy_wins").is_not_null()
    )
    return table.filter(decided | decoy_named).with_columns(
        pl.col("wins").fill_null(0.0), pl.coalesce("likeliest_decoy_wins", pl.col("decoy_wins").ceil())
    )


def change_preferences(table: pl.DataFrame) -> ChangePreferences:
    """The answers of some rows of `preferences`, with popularity and predictability where the rows differ in them, and
    with their kinds and sources.

    Popularity enters as the logarithm, in five equal groups by rank, from -2 to 2; a row without one is in the
    middle. Of predictability each grade of `FORESEEN` that some rows have, and not all, is a column.
    """
    popular = table["popularity"]
    better = None
    if popular.drop_nulls().n_unique() > 1:
        rank = popular.rank("average").to_numpy() / popular.drop_nulls().len()
        better = np.clip(np.ceil(5 * np.nan_to_num(rank, nan=0.5)) - 3, -2, 2)[:, None]
    graded = [(table["predictable"] == grade).to_numpy().astype(float) for grade in FORESEEN]
    columns = [column for column in graded if 0 < column.sum() < len(column)]
    guessable = np.column_stack(columns) if columns else None
    groups = tuple(table[name].fill_null("").to_numpy().astype(str) for name in ("kind", "source"))
    return ChangePreferences(
        table["month"].to_numpy(), table["wins"].to_numpy(), table["subject"].to_numpy(), better, guessable, groups
    )
