"""Triples of two snapshots side by side: which are in the old one only, in the new one only, in both.

Source: WikiFactDiff, section A.1 (difference), with the duplicates rule of the published code.
"""

import json
from typing import Any

import polars as pl

from anachron.wikidata.updates.triples import GROUP, ITEM, KEPT, VALUE

DATES = ("start", "end", "point")
SEPARATOR = "\x1f"
OLD_COLUMNS = ("old_statement_id", "old_rank", "old_start", "old_end", "old_point", "old_qualifiers")
_AS_OLD = {name: pl.col(name.removeprefix("old_")) for name in OLD_COLUMNS}
# What a difference holds of each triple; the columns of KEPT are those of the new snapshot where it has the triple.
DIFF_COLUMNS = (*GROUP, "flag", "change", *(c for c in KEPT if c not in GROUP), *OLD_COLUMNS)


def align(old: pl.DataFrame, new: pl.DataFrame, doubles: pl.DataFrame | None = None) -> pl.DataFrame:
    """The triples of both (`anachron.wikidata.updates.triples.KEPT`), as `DIFF_COLUMNS`.

    ``flag``: old, new or both. Two are the same when subject, relation and value are: the text, and for a time its
    precision and calendar, for a quantity its unit, for a text its language. Of several statements of one value, those
    with one statement id belong together, then those with the most similar qualifiers.
    ``change`` of a triple in both: ``rank``, ``qualifiers`` or null; of one in the old or new snapshot only: ``value``
    where the statement, known by its id, has another value on the other side.

    doubles: ``position`` of old triples that say something a second time: so many of those that say it are left out
    where they have no partner.

    By subject and relation, in a group first what only the old snapshot has, then by their place in the dumps.
    """
    before, after = (
        frame.with_columns(value_key().alias("key")).with_row_index(name) for frame, name in ((old, "o"), (new, "n"))
    )
    pairs = _pairs(before, after)
    # a triple that both snapshots have is described as the new one does, with what the old one said beside it
    both = (
        pairs.join(before.select("o", **_AS_OLD), on="o")
        .join(after.select("n", *KEPT), on="n")
        .with_columns(pl.lit("both").alias("flag"), _change().alias("change"))
    )
    only_old = before.join(pairs, on="o", how="anti")
    if doubles is not None:
        only_old = _without_doubles(only_old, before, doubles)
    only_new = after.join(pairs, on="n", how="anti")
    # a statement id that is left over on both sides: the same statement was given another value
    ids = {
        name: frame.select("statement_id").drop_nulls().unique().with_columns(pl.lit("value").alias("change"))
        for name, frame in (("old", only_old), ("new", only_new))
    }
    removed = only_old.join(ids["new"], on="statement_id", how="left").select(
        *GROUP, *VALUE, "change", "position", flag=pl.lit("old"), **_AS_OLD
    )
    added = only_new.join(ids["old"], on="statement_id", how="left").select(*KEPT, "change", flag=pl.lit("new"))
    everything = pl.concat([removed, both, added], how="diagonal_relaxed")
    flags = pl.Enum(["old", "both", "new"])
    ordered = everything.sort(*GROUP, pl.col("flag") != "old", "position")
    return ordered.select(DIFF_COLUMNS).with_columns(pl.col("flag").cast(flags))


def _without_doubles(only_old: pl.DataFrame, before: pl.DataFrame, doubles: pl.DataFrame) -> pl.DataFrame:
    """Old triples without a partner, less one for each double of the same triple, the doubles first."""
    triple = [*GROUP, "key"]
    is_double = pl.col("position").is_in(doubles["position"].implode())
    spare = before.filter(is_double).group_by(triple).agg(pl.len().alias("spare"))
    ranked = only_old.join(spare, on=triple, how="left").sort(~is_double, "position")
    return ranked.filter(pl.int_range(pl.len()).over(triple) >= pl.col("spare").fill_null(0)).drop("spare")


def value_key() -> pl.Expr:
    """Text that two values share only when they are equal; how a time with a date was written does not count."""
    texts = {name: pl.col(name).cast(pl.String) for name in VALUE}
    dated = (pl.col("value_type") == "time") & pl.col("value").is_not_null()
    texts["value_extra"] = pl.when(~dated).then(texts["value_extra"])
    parts = [part.fill_null("") for part in texts.values()]
    return pl.concat_str(parts, separator=SEPARATOR)


def _change() -> pl.Expr:
    same = pl.all_horizontal(*(pl.col(name).eq_missing(pl.col(f"old_{name}")) for name in (*DATES, "qualifiers")))
    other_rank = pl.col("rank") != pl.col("old_rank")
    return pl.when(~same).then(pl.lit("qualifiers")).when(other_rank).then(pl.lit("rank"))  # else null


def _pairs(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """Rows ``o, n`` of the same triple, each in one pair."""
    columns = [*GROUP, "key"]
    candidates = before.select(*columns, "o").join(after.select(*columns, "n"), on=columns, how="inner")
    several = pl.col("o").is_duplicated() | pl.col("n").is_duplicated()
    clear, doubtful = candidates.filter(~several), candidates.filter(several)
    chosen = _match(doubtful, before, after)
    return pl.concat([clear.select("o", "n"), chosen])


def _match(doubtful: pl.DataFrame, before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """Pairs among several statements of one value: by statement id, then by qualifiers, then by order."""
    features = {
        name: {row[name]: row for row in frame.join(doubtful.select(name).unique(), on=name).iter_rows(named=True)}
        for name, frame in (("o", before), ("n", after))
    }
    texts = {name: {place: _qualifiers(row) for place, row in rows.items()} for name, rows in features.items()}
    ranked = []
    # greedy: the surest pair of all first, so that a statement loses its partner only to a surer one
    for o, n in doubtful.select("o", "n").iter_rows():
        id = features["o"][o]["statement_id"]
        same_id = id is not None and id == features["n"][n]["statement_id"]
        ranked.append((not same_id, -similarity(texts["o"][o], texts["n"][n]), o, n))
    taken_o, taken_n, pairs = set[int](), set[int](), []
    for *_, o, n in sorted(ranked):
        if o not in taken_o and n not in taken_n:
            taken_o.add(o)
            taken_n.add(n)
            pairs.append((o, n))
    return pl.DataFrame(pairs, schema={"o": pl.UInt32, "n": pl.UInt32}, orient="row")


def _qualifiers(row: dict[str, Any]) -> set[tuple[str, str]]:
    """All qualifiers of a statement as (property, value)."""
    qualifiers = {(name, json.dumps(row[name], sort_keys=True)) for name in DATES if row[name] is not None}
    for property, values in json.loads(row["qualifiers"] or "{}").items():
        qualifiers |= {(property, json.dumps(value)) for value in values}
    return qualifiers


def similarity(one: set[tuple[str, str]], other: set[tuple[str, str]]) -> float:
    """Share of the qualifiers of both that both have (Jaccard); 1 for two without any."""
    return len(one & other) / len(one | other) if one or other else 1.0


def changed_groups(triples: pl.DataFrame) -> pl.DataFrame:
    """The triples of groups in which one is in the old or the new snapshot only."""
    return triples.filter((pl.col("flag") != "both").any().over(GROUP))


def merge_candidates(triples: pl.DataFrame) -> pl.DataFrame:
    """Statements whose value went from one item to another: ``old_row, new_row, gone, into`` (rows of ``triples``).

    If the old item is not in the new snapshot it was merged into the other one, and nothing changed in the world.
    """
    rows = triples.with_row_index("place").filter((pl.col("change") == "value") & ITEM)
    old = rows.filter(pl.col("flag") == "old").select(*GROUP, id="old_statement_id", old_row="place", gone="value")
    new = rows.filter(pl.col("flag") == "new").select(*GROUP, id="statement_id", new_row="place", into="value")
    return old.join(new, on=[*GROUP, "id"], how="inner").select("old_row", "new_row", "gone", "into")


def join_merged(triples: pl.DataFrame, merged: pl.DataFrame) -> pl.DataFrame:
    """The triples with each pair of ``merged`` (`merge_candidates`) as one that both snapshots have."""
    if not merged.height:
        return triples
    rows = triples.with_row_index("place")
    before = rows.select(pl.col("place").alias("old_row"), *OLD_COLUMNS)
    texts = merged.select("old_row", place="new_row").join(before, on="old_row").drop("old_row")
    joined = rows.drop(OLD_COLUMNS).join(texts, on="place", how="inner")
    joined = joined.with_columns(pl.lit("both").cast(rows.schema["flag"]).alias("flag"), _change().alias("change"))
    touched = pl.concat([merged["old_row"], merged["new_row"]]).implode()
    rest = rows.filter(~pl.col("place").is_in(touched))
    return pl.concat([rest, joined.select(rest.columns)]).sort("place").drop("place")
