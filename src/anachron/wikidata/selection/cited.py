"""What a row of a data set can be cited by: its statement, the state of the item that was read, and the references."""

import polars as pl

from anachron.io.tables import scan_parquet
from anachron.wikidata.reading.snapshot import Snapshot, readable
from anachron.wikidata.selection.lookups import entity_rows

REVISION = {"revision": pl.Int64, "modified": pl.String}
STATEMENT = ["subject", "statement_id"]


def with_citations(snapshot: Snapshot, statements: pl.DataFrame) -> pl.DataFrame:
    """Statements (``subject, statement_id``) with ``subject_revision, subject_modified, references``, in their order.

    Null where the snapshot does not tell: those of earlier versions know no revisions, and references are only kept by
    ``ingest --references``.
    """
    revisions = revisions_of(snapshot, statements["subject"]).rename({name: f"subject_{name}" for name in REVISION})
    return statements.join(revisions, left_on="subject", right_on="id", how="left", maintain_order="left").join(
        references_of(snapshot, statements), on=STATEMENT, how="left", maintain_order="left"
    )


def missing_revisions(snapshot: Snapshot) -> str | None:
    """What to tell of a snapshot whose facts cannot be cited by the revision of an item. Else None."""
    if "revision" in _known(snapshot):
        return None
    return (
        f"{snapshot.folder} is of an earlier version, which kept no revisions of items: facts are cited without; for "
        "them, ingest the dump again into another folder"
    )


def _known(snapshot: Snapshot) -> list[str]:
    """The columns of its entities."""
    part = snapshot.part("entities", 0)
    with readable(part):
        return scan_parquet(part).collect_schema().names()


def revisions_of(snapshot: Snapshot, ids: pl.Series) -> pl.DataFrame:
    """``id, revision, modified`` of these entities, those that exist."""
    there = _known(snapshot)
    rows = entity_rows(snapshot, ids, ["id", *(name for name in REVISION if name in there)])
    unknown = (pl.lit(None, kind).alias(name) for name, kind in REVISION.items() if name not in there)
    return rows.with_columns(unknown).select("id", *REVISION)


def references_of(snapshot: Snapshot, statements: pl.DataFrame) -> pl.DataFrame:
    """``subject, statement_id, references`` of these statements, those that have references."""
    found = [pl.DataFrame(schema=dict.fromkeys((*STATEMENT, "references"), pl.String))]
    if snapshot.manifest["options"].get("references"):
        wanted = statements.select(STATEMENT).unique()
        for bucket in snapshot.by_bucket(wanted["subject"].unique()):
            part = snapshot.part("statements", bucket)
            with readable(part):
                rows = scan_parquet(part).select(*STATEMENT, "references").drop_nulls()
                found.append(rows.join(wanted.lazy(), on=STATEMENT, how="semi").collect(engine="streaming"))
    return pl.concat(found).unique(STATEMENT, keep="first", maintain_order=True)
