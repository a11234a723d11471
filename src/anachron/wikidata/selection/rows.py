"""The first stage over one bucket, slice by slice: what a row, its property and its two entities decide."""

from collections.abc import Sequence

import polars as pl

from anachron.io.stores import Place
from anachron.io.tables import scan_parquet
from anachron.wikidata.reading.snapshot import Snapshot
from anachron.wikidata.selection.lookups import Lookups
from anachron.wikidata.selection.rules import Steps
from anachron.wikidata.selection.stages import row_stage
from anachron.wikidata.selection.tally import Tally, tally_by_subject

SLICE = 1_000_000  # statements judged at once: about half a gigabyte


def scan_statements(snapshot: Snapshot, bucket: int, columns: Sequence[str]) -> pl.LazyFrame:
    """Columns of the statements of a bucket, with ``position``: the order of the dump, over all buckets."""
    table = scan_parquet(snapshot.part("statements", bucket), row_index_name="row").select("row", *columns)
    place = pl.col("row").cast(pl.Int64) + (bucket << 40)
    return table.with_columns(place.alias("position")).drop("row")


def alive_rows(
    snapshot: Snapshot, bucket: int, statements: pl.LazyFrame, barred: Place, lookups: Lookups, steps: Steps,
    leave_out: Sequence[str] = (),
) -> tuple[Tally, pl.DataFrame]:  # fmt: skip
    """Counts of the first stage, and the rows that it leaves, in any order, without the columns to leave out."""
    total = statements.select(pl.len()).collect().item()
    counts, rows = [], []
    for offset in range(0, max(total, 1), SLICE):
        judged = judge_rows(snapshot, bucket, statements.slice(offset, SLICE), barred, lookups, steps)
        alive = judged.filter(pl.col("dropped").is_null()).drop("dropped", *leave_out)
        by_subject = judged.group_by("subject", "dropped").agg(pl.len())
        count, kept = pl.collect_all([by_subject, alive], engine="streaming")
        counts.append(count)
        rows.append(compact(kept))
    return tally_by_subject(pl.concat(counts), steps), pl.concat(rows)


def judge_rows(
    snapshot: Snapshot, bucket: int, statements: pl.LazyFrame, barred: Place, lookups: Lookups, steps: Steps
) -> pl.LazyFrame:
    """`row_stage` with what the tables say of the subjects and objects of these statements."""
    subjects = statements.select(id="subject")
    objects = statements.filter(pl.col("value_type") == "entity").select(id="value")
    ids = pl.concat([subjects, objects]).unique()
    titles = scan_parquet(snapshot.part("entities", bucket)).select("id", "title")
    known, pages = pl.collect_all(
        [titles.join(subjects.unique(), on="id", how="semi"), scan_parquet(barred).join(ids, on="id", how="semi")],
        engine="streaming",
    )
    return row_stage(statements, known, pages, lookups, steps)


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows without the memory of those they were chosen from, which texts of a filtered frame hold on to."""
    return pl.DataFrame(frame.to_arrow(compat_level=pl.CompatLevel.oldest()), schema=frame.schema)
