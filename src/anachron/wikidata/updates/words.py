"""Subjects, relations and objects of triples in words: labels of entities, literals as a person would write them."""

from collections.abc import Iterable

import polars as pl

from anachron.text.kinds import kind_of
from anachron.text.literals import literal_in_words, literal_type
from anachron.wikidata.reading.snapshot import Snapshot
from anachron.wikidata.selection.lookups import entity_rows
from anachron.wikidata.updates.triples import ITEM, VALUE

ABOUT = ["id", "label", "description"]


def entities_in_words(old: Snapshot, new: Snapshot, ids: Iterable[str]) -> pl.DataFrame:
    """``id, label, description, kind`` of entities that have a label: of the new snapshot, else of the old one.

    kind: of `anachron.text.kinds`, null where the entity's classes do not tell.
    """
    wanted = set(ids)
    in_new = entity_rows(new, wanted, [*ABOUT, "classes"]).drop_nulls("label")
    rest = entity_rows(old, wanted - set(in_new["id"]), [*ABOUT, "classes"]).drop_nulls("label")
    both = pl.concat([in_new, rest]).sort("id")
    kinds = [kind_of(classes or ()) for classes in both["classes"].to_list()]
    return both.drop("classes").with_columns(pl.Series("kind", kinds, pl.String))


def relations_in_words(old: Snapshot, new: Snapshot) -> pl.DataFrame:
    """``property, relation_label, relation_description``: of the new snapshot, else of the old one."""
    both = pl.concat([side.properties().select(ABOUT) for side in (new, old)]).drop_nulls("label")
    first = both.unique("id", keep="first", maintain_order=True)
    return first.select(property="id", relation_label="label", relation_description="description")


def put_in_words(triples: pl.DataFrame, old: Snapshot, new: Snapshot, style: str) -> pl.DataFrame:
    """Triples with the words of `with_words` and of `relations_in_words`, looked up in the snapshots."""
    in_words = with_words(triples, entities_in_words(old, new, mentioned(triples)), style)
    return in_words.join(relations_in_words(old, new), on="property", how="left", maintain_order="left")


def mentioned(triples: pl.DataFrame) -> set[str]:
    """Entities that wording the triples needs: subjects, objects, units of quantities."""
    units = triples.filter(pl.col("value_type") == "quantity")["value_extra"].drop_nulls()
    return {*triples["subject"], *triples.filter(ITEM)["value"], *units}


def with_words(triples: pl.DataFrame, entities: pl.DataFrame, style: str) -> pl.DataFrame:
    """Triples (``subject``, `VALUE`) with label and description of subject and object, null where there is none, and
    ``subject_kind``.

    entities: of `entities_in_words`. The description of a literal is its type: Quantity, Date, Month, Year, String.
    """
    labels = dict(entities.select("id", "label").iter_rows())
    distinct = triples.select(VALUE).unique()
    rows: list[tuple[str | None, str | None]] = []
    for kind, value, extra, precision, _ in distinct.iter_rows():
        if kind == "entity":
            rows.append((labels.get(value), None))
            continue
        unit = labels.get(extra) if kind == "quantity" else None
        readable = value is not None and (kind != "quantity" or extra is None or unit is not None)
        words = literal_in_words(kind, value, precision=precision, unit=unit, style=style) if readable else None
        rows.append((words, None if words is None else literal_type(kind, precision)))
    schema = {"object_label": pl.String, "object_type": pl.String}
    worded = distinct.hstack(pl.DataFrame(rows, schema=schema, orient="row"))
    subjects = entities.select(
        subject="id", subject_label="label", subject_description="description", subject_kind="kind"
    )
    objects = entities.select(value="id", object_description="description", value_type=pl.lit("entity"))
    in_words = (
        triples.join(worded, on=VALUE, how="left", nulls_equal=True, maintain_order="left")
        .join(subjects, on="subject", how="left", maintain_order="left")
        .join(objects, on=["value", "value_type"], how="left", maintain_order="left")
    )
    return in_words.with_columns(
        pl.when(ITEM).then("object_description").otherwise("object_type").alias("object_description"),
        pl.when(ITEM).then("value").alias("object_id"),
    ).drop("object_type")
