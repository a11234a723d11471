"""What each object of an update can be cited by: its statements in both snapshots, and the states that were read."""

import polars as pl

from anachron.wikidata.reading.snapshot import Snapshot
from anachron.wikidata.selection.cited import REVISION, references_of, revisions_of
from anachron.wikidata.updates.triples import GROUP

SOURCES = (
    "case_id", "subject_id", "relation_id", "object_id", "object_label", "decision", "old_statement_id", "old_revision",
    "old_modified", "new_statement_id", "new_revision", "new_modified", "references",
)  # fmt: skip


def sources_of(triples: pl.DataFrame, updates: pl.DataFrame, old: Snapshot, new: Snapshot) -> pl.DataFrame:
    """`SOURCES` of each object of the updates, in their order.

    triples: those that the updates were made of. A revision is the one of the subject that its snapshot holds, whether
    it states the object or not: of a statement of an item that was merged later, of that item. Null where a snapshot
    does not tell. references: of the statement in the new snapshot, or of the old one where only that has it, as JSON.
    """
    cases = updates.select(
        "case_id", subject=pl.col("subject").struct.field("id"), property=pl.col("relation").struct.field("id")
    )
    rows = triples.join(cases, on=GROUP, how="inner", maintain_order="left").sort("case_id", maintain_order=True)
    # The id of a statement begins with that of its item, in either case of the letter
    item = pl.col("old_statement_id").str.extract("^([Qq][0-9]+)[$]").str.to_uppercase()
    rows = rows.with_columns(pl.coalesce(item, "subject").alias("old_item"))
    stated = []
    for name, snapshot, subject, statement in (
        ("old", old, "old_item", "old_statement_id"), ("new", new, "subject", "statement_id"),
    ):  # fmt: skip
        there = revisions_of(snapshot, rows[subject]).rename({column: f"{name}_{column}" for column in REVISION})
        rows = rows.join(there, left_on=subject, right_on="id", how="left", maintain_order="left")
        ids = rows.select(subject=subject, statement_id=statement).drop_nulls()
        stated.append(references_of(snapshot, ids).drop("subject"))
    rows = rows.join(stated[0], left_on="old_statement_id", right_on="statement_id", how="left", maintain_order="left")
    rows = rows.join(stated[1], on="statement_id", how="left", maintain_order="left", suffix="_now")
    names = {"subject_id": "subject", "relation_id": "property", "decision": "label"}
    names["new_statement_id"] = "statement_id"
    columns = {name: pl.col(names.get(name, name)) for name in SOURCES}
    now = pl.when(pl.col("statement_id").is_not_null()).then("references_now").otherwise("references")
    return rows.select(**columns | {"references": now})
