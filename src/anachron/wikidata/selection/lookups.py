"""Small tables that every bucket needs: which properties are meta or restrictive, which entities are pages of the wiki.

Also `entity_rows`: rows of chosen entities, read from the buckets that their ids hash to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from anachron.core.errors import DataError
from anachron.io.tables import in_our_words, scan_parquet
from anachron.wikidata.reading.snapshot import POPULARITY, TOPIC_DUMP, Snapshot, check_table, in_order, readable

META = "Q51118821"  # a Wikidata property about Wikidata itself
RESTRICTIVE, NON_RESTRICTIVE, SOCIAL_ID = "Q61719275", "Q61719274", "Q105388954"
ALWAYS_RESTRICTIVE = frozenset({"P447"})
NEVER_RESTRICTIVE = frozenset({"P580", "P582", "P585"})


@dataclass(frozen=True)
class Lookups:
    """What rows are judged by, besides themselves and their entities.

    properties: ``property, property_label, property_description, property_datatype, meta``.
    restrictive: properties that restrict a statement as its qualifiers.
    """

    properties: pl.DataFrame
    restrictive: tuple[str, ...]


def property_classes(properties: pl.DataFrame, edges: pl.LazyFrame, depth: int) -> dict[str, set[str]]:
    """Property -> every class that 1 to ``depth`` edges lead to: P31 first, P279 from there on.

    edges: ``child, parent``. Level by level, so only the edges above the properties' classes are ever held.
    """
    level = properties.select("id", pl.col("classes").alias("class")).explode("class").drop_nulls()
    classes = {id: set[str]() for id in properties["id"]}
    while level.height and depth:
        for id, name in level.iter_rows():
            classes[id].add(name)
        depth -= 1
        if depth:
            wanted = level.lazy().select("class").unique()
            above = edges.join(wanted, left_on="child", right_on="class", how="semi").unique().collect()
            level = level.join(above, left_on="class", right_on="child").select("id", pl.col("parent").alias("class"))
            level = level.unique()
    return classes


def is_restrictive(property: str, classes: set[str]) -> bool:
    """Whether a qualifier of this property restricts its statement. Source: WikiFactDiff (restricted triples)."""
    if property in ALWAYS_RESTRICTIVE or property in NEVER_RESTRICTIVE:
        return property in ALWAYS_RESTRICTIVE
    return (RESTRICTIVE in classes and NON_RESTRICTIVE not in classes) or SOCIAL_ID in classes


def find_lookups(snapshot: Snapshot, depth: int) -> Lookups:
    """Which properties are meta or restrictive, by the classes that at most ``depth`` edges lead to."""
    table = snapshot.properties()
    edges = snapshot.folder / "classes.parquet"
    with readable(edges):
        classes = property_classes(table, scan_parquet(edges), depth)
    properties = table.select(
        property="id", property_label="label", property_description="description", property_datatype="datatype"
    ).with_columns(pl.Series("meta", [META in classes[id] for id in table["id"]], pl.Boolean))
    restrictive = {id for id, above in classes.items() if is_restrictive(id, above)} | ALWAYS_RESTRICTIVE
    return Lookups(properties, tuple(sorted(restrictive)))


def missing_rules(snapshot: Snapshot, used: Iterable[str] | None = None) -> str | None:
    """What to tell of a snapshot that lacks property entities: rules that read them find nothing to drop. Else None.

    used: the relations that are asked about, by default those of all statements, of which one column is read.
    """
    known = set(snapshot.properties()["id"])
    used = _relations(snapshot) if used is None else set(used)
    absent = in_order(used - known)
    if not absent:
        return None
    return (
        f"{snapshot.folder} holds {len(known):,} property entities and lacks those of {len(absent):,} of the "
        f"{len(used):,} relations of its statements ({_first(absent, 3)}): of these "
        "the rules on meta properties, restrictive qualifiers and functional relations drop nothing; to try things on, "
        "ingest a whole dump with --entities, which keeps all properties"
    )


NAMED = 20  # ids that a command is written out for


def missing_objects(snapshot: Snapshot) -> str | None:
    """What to tell of a small snapshot that lacks most of the items which its dated statements name, as a single
    entity's does: which, and the command that makes another with them. Else None, as of a topic that was fetched."""
    made_of = snapshot.manifest.get("dump", {}).get("name")
    if snapshot.buckets > 1 or "topic" in snapshot.manifest or made_of == TOPIC_DUMP:
        return None
    part = snapshot.part("statements", 0)
    with readable(part):
        dated = scan_parquet(part).filter(pl.any_horizontal(pl.col("start", "end").is_not_null()))
        rows = dated.select("subject", "property", "value", "value_type").collect()
    items = (pl.col("value_type") == "entity") & pl.col("value").str.starts_with("Q")
    named, subjects = set(rows.filter(items)["value"]), in_order(rows["subject"])
    absent = in_order(missing_from(snapshot, named))
    if 2 * len(absent) <= len(named):
        return None
    relations = in_order(set(rows["property"]) - set(snapshot.properties()["id"]))
    also = f", nor {len(relations):,} of its relations ({_first(relations, 3)})" if relations else ""
    ids, file = ",".join(subjects), ""
    if len(subjects) > NAMED:
        ids, file = "FILE", f", where FILE has the ids of its {len(subjects):,} subjects, one a line"
    return (
        f"{len(absent):,} of the {len(named):,} items that dated statements of {snapshot.folder} name are not in it "
        f"({_first(absent, 5)}){also}: facts need their labels; make a snapshot with them by `anachron wikidata fetch "
        f"--items {ids} --out needed`{file}"
    )


def _first(ids: list[str], few: int) -> str:
    return ", ".join([*ids[:few], *(["..."] if ids[few:] else [])])


def _relations(snapshot: Snapshot) -> set[str]:
    found = set[str]()
    for bucket in range(snapshot.buckets):
        part = snapshot.part("statements", bucket)
        with readable(part):
            found.update(scan_parquet(part).select(pl.col("property").unique()).collect(engine="streaming")["property"])
    return found


def entity_rows(snapshot: Snapshot, ids: Iterable[str], columns: Sequence[str]) -> pl.DataFrame:
    """Rows of these entities, those that exist, sorted by id. Reads only the buckets that the ids hash to."""
    with in_our_words():
        rows = [scan_parquet(snapshot.part("entities", 0)).select(columns).head(0).collect()]
    for bucket, wanted in snapshot.by_bucket(set(ids)).items():
        part = snapshot.part("entities", bucket)
        chosen = pl.LazyFrame({"id": wanted}, schema={"id": pl.String})
        with readable(part):
            entities = scan_parquet(part).select(columns)
            rows.append(entities.join(chosen, on="id", how="semi").collect(engine="streaming"))
    return pl.concat(rows).sort("id")


def missing_from(snapshot: Snapshot, items: Iterable[str]) -> set[str]:
    """Those of the items that the snapshot does not have at all."""
    wanted = set(items)
    return wanted - set(entity_rows(snapshot, wanted, ["id"])["id"])


def barred_classes(labels: pl.DataFrame, words: Sequence[str]) -> set[str]:
    """Classes (``id, label``) whose label contains one of the words, as written."""
    contains = pl.any_horizontal(pl.lit(False), *(pl.col("label").str.contains(w, literal=True) for w in words))
    return set(labels.filter(contains.fill_null(False))["id"])


def barred_among(rows: pl.DataFrame, snapshot: Snapshot, words: Sequence[str]) -> pl.DataFrame:
    """Those of the given entities (``id, classes``) that are pages of the wiki or templates, as ``id``."""
    classes = rows["classes"].explode().drop_nulls().unique().to_list()
    barred = barred_classes(entity_rows(snapshot, classes, ["id", "label"]), words)
    return rows.filter(_has_class(barred)).select("id")


def all_barred(snapshot: Snapshot, words: Sequence[str]) -> pl.DataFrame:
    """Every entity of the snapshot that is a page of the wiki or a template, as ``id``, in order of the buckets."""
    parts = [snapshot.part("entities", bucket) for bucket in range(snapshot.buckets)]
    classes, barred_ids = set[str](), []
    for part in parts:
        with readable(part):
            in_part = scan_parquet(part).select(pl.col("classes").explode()).unique().collect(engine="streaming")
        classes.update(in_part["classes"].drop_nulls())
    barred = barred_classes(entity_rows(snapshot, classes, ["id", "label"]), words)
    for part in parts:
        with readable(part):
            pages = scan_parquet(part).filter(_has_class(barred)).select("id")
            barred_ids.append(pages.collect(engine="streaming"))
    return pl.concat(barred_ids)


def _has_class(barred: Iterable[str]) -> pl.Expr:
    return pl.col("classes").list.eval(pl.element().is_in(sorted(barred))).list.any().fill_null(False)


REPEAT = "repeat `anachron wikidata pageviews`"


def has_popularity(snapshot: Snapshot) -> bool:
    return (snapshot.folder / POPULARITY).is_file()


def scan_popularity(snapshot: Snapshot) -> pl.LazyFrame:
    """``id, popularity`` of all entities with views. Raises `DataError` for a snapshot without them or broken ones."""
    path = snapshot.folder / POPULARITY
    if not has_popularity(snapshot):
        raise DataError(
            f"{snapshot.folder} has no {POPULARITY}; make it with `anachron wikidata pageviews`, or select with "
            "--no-popularity"
        )
    check_table(path, ("id", "popularity"), REPEAT)
    return scan_parquet(path).select("id", "popularity")


def read_popularity(snapshot: Snapshot, ids: Iterable[str]) -> pl.DataFrame:
    """``id, popularity`` of these entities. Raises `DataError` as `scan_popularity`."""
    views = scan_popularity(snapshot)
    wanted = pl.LazyFrame({"id": sorted(set(ids))}, schema={"id": pl.String})
    with readable(snapshot.folder / POPULARITY, REPEAT):
        return views.join(wanted, on="id", how="semi").collect(engine="streaming")
