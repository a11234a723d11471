"""What is said of an entity as numbers: its document, a bag of features, in 64 bits each (WikiFactDiff, A.4).

`anachron.wikidata.updates.nearest` compares the documents.
"""

from collections.abc import Iterable

import polars as pl

from anachron.core.errors import DataError

# A feature is 64 bits: number of a property (20), kind of entity (3), number of the entity (41).
_KINDS = {"Q": 0, "P": 1, "L": 2, "M": 3, "E": 4}
_PARTS = {"F": 5, "S": 6}  # forms and senses of lexemes, L12-F3: 27 bits for the lexeme, 14 for the part
_NUMBER_BITS, _PART_BITS = 41, 14
_PAIR_SHIFT = 44
_PROPERTY = _KINDS["P"] << _NUMBER_BITS


def entity_numbers(ids: pl.Series) -> pl.Series:
    """A number for each id, UInt64: different for different ids, and in their numeric order (Q2 before Q10).

    Items come first, then properties, lexemes, media, schemas, forms and senses. A number rather than a hash: it is the
    same in every process and release, two entities can never fall together, and it is read with vectorised operations.
    Raises `DataError` for what is no id of Wikidata.
    """
    ids = ids.cast(pl.String)
    plain = ids.str.slice(1).cast(pl.UInt64, strict=False)
    kinds = ids.str.slice(0, 1).replace_strict(_KINDS, default=None, return_dtype=pl.UInt64)
    numbers = (kinds * (1 << _NUMBER_BITS) + plain).zip_with(
        plain < 1 << _NUMBER_BITS, pl.Series([None], dtype=pl.UInt64)
    )
    odd = numbers.is_null()
    if not odd.any():
        return numbers
    parts = ids.filter(odd).str.extract_groups(r"^L([0-9]{1,8})-([FS])([0-9]{1,4})$").struct.unnest()
    lexeme, kind, part = parts.get_columns()
    odd_numbers = (
        kind.replace_strict(_PARTS, default=None, return_dtype=pl.UInt64) * (1 << _NUMBER_BITS)
        + lexeme.cast(pl.UInt64) * (1 << _PART_BITS)
        + part.cast(pl.UInt64)
    )
    if odd_numbers.null_count():
        wrong = ids.filter(odd).filter(odd_numbers.is_null())[0]
        raise DataError(
            f"{wrong!r} is not the id of an entity: a letter and a number, as Q42; select statements by value_type"
        )
    return numbers.scatter(odd.arg_true(), odd_numbers)


def features_of(statements: pl.LazyFrame, subjects: Iterable[str] | None = None) -> pl.DataFrame:
    """The documents of entities: ``subject, feature (UInt64), count (UInt32)``, by number of the subject and feature.

    statements: ``subject, property, value``, those whose value is an entity. subjects: entities that have a document
    even without a statement (it is their own id); those of the statements always have.

    A document is, after the published code: the id of the entity once, each object once a statement, each relation
    once however many statements have it, each pair of relation and object once a statement. An entity's own id and the
    same entity as an object are one feature, so that an entity resembles those that name it.
    """
    rows = statements.select("subject", "property", "value").drop_nulls().collect()
    all_subjects = pl.concat(
        [rows["subject"].cast(pl.String), pl.Series("subject", list(subjects or ()), dtype=pl.String)]
    ).unique()
    key = pl.DataFrame({"subject": all_subjects, "key": entity_numbers(all_subjects)})
    relations = rows["property"].unique().cast(pl.String)
    wrong = relations.filter(~relations.str.contains("^P[0-9]{1,6}$"))
    if wrong.len():
        raise DataError(f"{wrong[0]!r} is not a property: a P and a number of up to six digits, as P31")
    coded = rows.select(
        entity_numbers(rows["subject"]).alias("key"),
        entity_numbers(rows["property"]).alias("relation"),
        entity_numbers(rows["value"]).alias("object"),
    )
    pair = ((pl.col("relation") - _PROPERTY) * (1 << _PAIR_SHIFT) + pl.col("object")).alias("feature")
    return (
        pl.concat(
            [
                key.select("key", pl.col("key").alias("feature")),
                coded.select("key", pl.col("object").alias("feature")),
                coded.select("key", pl.col("relation").alias("feature")).unique(),
                coded.select("key", pair),
            ]
        )
        .group_by("key", "feature")
        .agg(pl.len().cast(pl.UInt32).alias("count"))
        .sort("key", "feature")
        .join(key, on="key", how="left", maintain_order="left")
        .select("subject", "feature", "count")
    )
