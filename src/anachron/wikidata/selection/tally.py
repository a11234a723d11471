"""How many statements and subjects every step dropped, counted so that nothing can get lost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from anachron.io.files import Json
from anachron.io.stores import Place
from anachron.io.tables import scan_parquet
from anachron.wikidata.reading.snapshot import Snapshot
from anachron.wikidata.selection.lookups import Lookups
from anachron.wikidata.selection.rules import Steps
from anachron.wikidata.selection.stages import row_stage


@dataclass
class Tally:
    """How many statements a reason dropped (``None``: alive), and how many subjects lost their last one to a step."""

    statements: Counter[int | None] = field(default_factory=Counter)
    subjects: Counter[str | None] = field(default_factory=Counter)

    def go_on(self, later: "Tally") -> None:
        """Put the counts of a later stage in the place of what was alive before it."""
        for counter in (self.statements, self.subjects):
            del counter[None]
        self.add(later)

    def add(self, other: "Tally") -> None:
        self.statements.update(other.statements)
        self.subjects.update(other.subjects)

    def as_json(self) -> Json:
        """Pairs of key and number, for JSON has no null as a key."""
        counters: list[Counter[Any]] = [self.statements, self.subjects]
        statements, subjects = ([list(pair) for pair in sorted(counter.items(), key=str)] for counter in counters)
        return {"statements": statements, "subjects": subjects}

    @classmethod
    def from_json(cls, value: Json) -> "Tally":
        return cls(Counter(dict(value["statements"])), Counter(dict(value["subjects"])))


def tally_of(judged: pl.DataFrame, rules: Steps) -> Tally:
    """The counts of one stage's verdicts."""
    return tally_by_subject(judged.group_by("subject", "dropped").agg(pl.len()), rules)


def tally_by_subject(by_subject: pl.DataFrame, rules: Steps) -> Tally:
    """From ``subject, dropped, len``. A subject goes with its last statement, so at the latest step that took one."""
    alive = 255  # above every code
    statements = by_subject.group_by("dropped").agg(pl.col("len").sum())
    last = by_subject.group_by("subject").agg(pl.col("dropped").fill_null(alive).max())
    subjects: Counter[str | None] = Counter()
    for code, count in last.group_by("dropped").agg(pl.len()).iter_rows():
        subjects[None if code == alive else rules.reason(code)[0].name] += count
    return Tally(Counter(dict(statements.iter_rows())), subjects)


def count_steps(tally: Tally, rules: Steps) -> list[Json]:
    """The counts step by step: what came in is what is kept and what was dropped, for statements and subjects."""
    statements, subjects = tally.statements.total(), tally.subjects.total()
    steps: list[Json] = []
    for step in rules.steps:
        dropped = {reason.text: tally.statements[reason.code] for reason in step.reasons}
        lost = tally.subjects[step.name]
        row = {"step": step.name, "statements_in": statements, "dropped": dropped}
        statements, subjects = statements - sum(dropped.values()), subjects - lost
        row |= {"statements_kept": statements, "subjects_in": subjects + lost, "subjects_dropped": lost}
        steps.append(row | {"subjects_kept": subjects})
    if (statements, subjects) != (tally.statements[None], tally.subjects[None]):
        raise AssertionError(f"{statements} statements left after all steps, {tally.statements[None]} are alive")
    return steps


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
