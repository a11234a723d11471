"""What two snapshots say of one entity, and what every step made of it (``wikidata explain OLD NEW ENTITY``).

The verdicts are those of the code that ``build updates`` runs: nothing is decided here.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.io.files import Json
from anachron.io.stores import Place
from anachron.io.tables import scan_parquet, write_table
from anachron.text.cloze import bundled_cloze
from anachron.wikidata.reading.snapshot import Snapshot, open_snapshot, readable
from anachron.wikidata.selection.explain import check_item, in_words
from anachron.wikidata.selection.lookups import Lookups, barred_among, entity_rows, find_lookups, missing_from
from anachron.wikidata.selection.rules import VALUE_UNKNOWN
from anachron.wikidata.selection.select import check_tables
from anachron.wikidata.selection.tally import judge_rows, scan_statements
from anachron.wikidata.updates.build import UpdateSettings, check_pair, comparison_of
from anachron.wikidata.updates.compare import Comparison, put_behind
from anachron.wikidata.updates.diff import align, merge_candidates
from anachron.wikidata.updates.groups import Sieve, scenarios, understood, wordable
from anachron.wikidata.updates.judge import label_bucket, merged_among
from anachron.wikidata.updates.labels import rule_words
from anachron.wikidata.updates.redirects import follow, merged_by
from anachron.wikidata.updates.triples import COLUMNS, ITEM, KEPT, Side, day_of, group_stage, with_functional
from anachron.wikidata.updates.words import put_in_words

IN_DATA_SET = "in the data set: "


@dataclass(frozen=True)
class ExplainedChange:
    """One triple, or one statement that was dropped in the same way in both snapshots, and what became of it.

    side: old, new or both. start, end, point: in words, of the new snapshot where it has the triple. dropped: the step
    and reason that dropped the statement before the snapshots were compared; then there is no label. change: what a
    statement that both have differs in. rule: number of the label's rule, ``words`` what it says. outcome: the
    scenario of the group in the data set, or why the group or the triple is not in it. merged_from: the object of the
    old snapshot, where it was merged into this one.
    """

    property_id: str
    property_label: str | None
    value: str
    value_id: str | None
    side: str
    rank: str | None
    start: str | None
    end: str | None
    point: str | None
    dropped: str | None = None
    change: str | None = None
    label: str | None = None
    rule: int | None = None
    words: str | None = None
    outcome: str | None = None
    merged_from: str | None = None

    @property
    def is_changed(self) -> bool:
        """Whether the snapshots differ in it, or the data set holds it."""
        kept = (self.outcome or "").startswith(IN_DATA_SET)
        return self.side != "both" or kept or self.change is not None or self.merged_from is not None


@dataclass(frozen=True)
class Changes:
    """entity: ``id, label, description, title, created``, of the new snapshot, else the old. is_new: a new entity."""

    entity: dict[str, Any]
    is_new: bool
    changes: list[ExplainedChange]

    def summary(self) -> Json:
        """How many statements are on which side, differ, and came to which outcome, the most frequent first."""
        sides = Counter(change.side for change in self.changes)
        outcomes = Counter(f"dropped at {c.dropped}" if c.dropped else c.outcome for c in self.changes)
        return {
            "statements": len(self.changes),
            "changed": sum(change.is_changed for change in self.changes),
            "sides": {side: sides[side] for side in ("old", "new", "both")},
            "outcomes": dict(sorted(outcomes.items(), key=lambda pair: (-pair[1], str(pair[0])))),
        }


def explain_changes(
    old: Snapshot | Path | str, new: Snapshot | Path | str, id: str, settings: UpdateSettings | None = None, *,
    relations_with_templates: Iterable[str] | None = None, property: str | None = None,
    redirects: dict[str, str] | None = None,
) -> Changes:  # fmt: skip
    """Explain what two snapshots say about an entity, statement by statement, optionally for one property only.

    settings, redirects: of `anachron.wikidata.updates.build.build_updates`. relations_with_templates: by default those
    of this project's own cloze templates.

    Raises `ConfigError` for an invalid id and for snapshots that cannot be compared; `DataError` for an entity
    that neither has.
    """
    old, new, settings = open_snapshot(old), open_snapshot(new), settings or UpdateSettings()
    templates = bundled_cloze() if relations_with_templates is None else relations_with_templates
    check_item(id)
    check_pair(old, new)
    for snapshot in (old, new):
        check_tables(snapshot)
    redirects = merged_by(redirects or {}, missing_from(new, redirects or {}))
    about = [entity_rows(side, [id], ["id", "label", "description", "title", "created"]) for side in (new, old)]
    entity = next((rows.row(0, named=True) for rows in about if rows.height), None)
    if entity is None:
        raise DataError(f"{id} is neither in {new.folder} nor in {old.folder}")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        subjects = [id, *(item for item, into in redirects.items() if into == id)]
        lookups = [find_lookups(snapshot, settings.class_depth) for snapshot in (old, new)]
        old_side = _side(old, subjects, settings, lookups[0], work / "old.parquet")
        new_side = _side(new, [id], settings, lookups[1], work / "new.parquet")
        comparison = comparison_of(old_side, new_side, settings, work, redirects)
        judged = {"old": _judged(old_side, subjects, comparison), "new": _judged(new_side, [id], comparison)}
        alive = {name: _alive(rows) for name, rows in judged.items()}
        of_entity = pl.col("subject") == id
        alive["old"] = pl.concat([alive["old"].filter(of_entity), put_behind(alive["old"].filter(~of_entity))])
        before, followed = follow(alive["old"], redirects)
        triples = align(before, alive["new"], followed.filter("double"))
        is_new = not alive["old"].height and bool(alive["new"].height) and _is_after(entity["created"], old)
        triples = with_functional(triples, comparison.relations).with_columns(
            pl.lit(is_new).alias("subject_is_new"), pl.lit(not alive["new"].height).alias("subject_only_in_old")
        )
        objects = _new_objects(comparison, alive["new"], settings)
        candidates = merge_candidates(triples)
        merged = merged_among(new, candidates["gone"])
        labelled = label_bucket(triples, comparison, pl.DataFrame({"id": objects}, schema={"id": pl.String}), merged)
    outcomes = _outcomes(labelled, old, new, settings.style, templates)
    unchanged = [] if settings.label_unchanged else [_unchanged(triples, labelled)]
    rows = pl.concat([outcomes, _dropped(judged), *unchanged], how="diagonal_relaxed")
    if property is not None:
        rows = rows.filter(pl.col("property") == property)
    gone = _merged_objects(candidates, triples, merged) | _renamed_objects(alive["old"], before)
    words = rule_words(day_of(old), day_of(new))
    worded = put_in_words(rows.sort("property", "position"), old, new, settings.style)
    return Changes(entity, is_new, [_change(row, comparison, words, gone) for row in worded.iter_rows(named=True)])


def _dropped(judged: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Statements that the cleaning dropped, with their side; one that both snapshots lost alike comes once."""
    taken_out = (*(name for name in KEPT if name != "position"), "dropped")
    sides = {name: rows.filter(pl.col("dropped").is_not_null()) for name, rows in judged.items()}
    keys = {name: [repr(row) for row in rows.select(taken_out).iter_rows()] for name, rows in sides.items()}
    both = set(keys["old"]) & set(keys["new"])
    only_old = sides["old"].filter(pl.Series([key not in both for key in keys["old"]], dtype=pl.Boolean))
    flags = pl.Series("flag", ["both" if key in both else "new" for key in keys["new"]], dtype=pl.String)
    return pl.concat([only_old.with_columns(pl.lit("old").alias("flag")), sides["new"].with_columns(flags)])


Objects = dict[tuple[str | None, str | None], str]  # (id of a statement of the old snapshot, its object) -> old object


def _merged_objects(candidates: pl.DataFrame, triples: pl.DataFrame, merged: set[str]) -> Objects:
    """The old objects of statements that point to another item since theirs was merged."""
    ids = triples["old_statement_id"].to_list()
    rows = candidates.filter(pl.col("gone").is_in(sorted(merged)))
    return {(ids[row["old_row"]], row["into"]): row["gone"] for row in rows.iter_rows(named=True)}


def _renamed_objects(alive: pl.DataFrame, followed: pl.DataFrame) -> Objects:
    """The old objects of statements that the listed redirects changed."""
    was = alive.filter(ITEM).select("position", gone="value")
    rows = followed.join(was, on="position").filter(pl.col("value") != pl.col("gone"))
    return {(id, into): gone for id, into, gone in rows.select("statement_id", "value", "gone").iter_rows()}


def _is_after(created: str | None, old: Snapshot) -> bool:
    return created is not None and Date.parse(created).first_day > day_of(old)


def _side(snapshot: Snapshot, subjects: list[str], settings: UpdateSettings, lookups: Lookups, barred: Place) -> Side:
    """A side that knows the pages among the subjects and their objects only."""
    ids = set(subjects)
    for subject in subjects:
        part = snapshot.part("statements", snapshot.bucket_of(subject))
        with readable(part):
            ids |= set(
                scan_parquet(part).filter((pl.col("subject") == subject) & ITEM).select("value").collect()["value"]
            )
    about = entity_rows(snapshot, ids, ["id", "classes"])
    write_table(barred, barred_among(about, snapshot, settings.barred_words))
    return Side(snapshot, lookups, barred)


def _judged(side: Side, subjects: list[str], comparison: Comparison) -> pl.DataFrame:
    """All statements of the subjects with ``dropped``."""
    snapshot, steps = side.snapshot, comparison.steps
    parts = []
    for bucket in sorted({snapshot.bucket_of(subject) for subject in subjects}):
        statements = scan_statements(snapshot, bucket, COLUMNS).filter(pl.col("subject").is_in(subjects))
        with readable(snapshot.part("statements", bucket)):
            judged = judge_rows(snapshot, bucket, statements, side.barred, side.lookups, steps).collect()
        alive = judged.filter(pl.col("dropped").is_null())
        day = day_of(snapshot) if comparison.valid_at_date else None
        second = group_stage(alive.select(KEPT), comparison.relations, steps, day)
        parts += [
            judged.filter(pl.col("dropped").is_not_null()).select(*KEPT, "dropped"),
            second.select(*KEPT, "dropped"),
        ]
    return pl.concat(parts)


def _alive(judged: pl.DataFrame) -> pl.DataFrame:
    """The clean triples in the order of the dump."""
    return judged.filter(pl.col("dropped").is_null()).select(KEPT).sort("position")


def _new_objects(comparison: Comparison, triples: pl.DataFrame, settings: UpdateSettings) -> list[str]:
    """Those objects of the new triples that are new entities: created since, and no subjects of the old snapshot."""
    ids = set(triples.filter(ITEM)["value"])
    created = entity_rows(comparison.new.snapshot, ids, ["id", "created"])
    after = [id for id, date in created.iter_rows() if _is_after(date, comparison.old.snapshot)]
    subjects = []
    for number, side in enumerate((comparison.old, comparison.new)):
        barred = comparison.work / f"objects-{number}.parquet"
        known = _side(side.snapshot, after, settings, side.lookups, barred)
        subjects.append(set(_alive(_judged(known, after, comparison))["subject"]) if after else set())
    return sorted(subjects[1] - subjects[0])


def _outcomes(
    labelled: pl.DataFrame, old: Snapshot, new: Snapshot, style: str, relations: Iterable[str]
) -> pl.DataFrame:
    """The labelled triples with ``outcome``."""
    reasons: dict[int, str] = {}

    def taken_out(reason: str, taken: pl.DataFrame) -> None:
        for place in taken["place"]:
            reasons[place] = reason

    placed = labelled.with_row_index("place")
    left = understood(placed, taken_out).done()
    sieve = Sieve(put_in_words(left, old, new, style), taken_out)
    wordable(sieve, list(relations))
    kept = sieve.done()
    named = kept.join(scenarios(kept), on="group", how="left", maintain_order="left")
    kinds = dict(named.select("place", "scenario").iter_rows())
    outcome = [f"{IN_DATA_SET}{kinds[n]}" if n in kinds else reasons[n] for n in placed["place"]]
    return placed.with_columns(pl.Series("outcome", outcome, dtype=pl.String)).drop("place")


def _unchanged(triples: pl.DataFrame, labelled: pl.DataFrame) -> pl.DataFrame:
    """Triples of the groups that were not labelled: nothing in them changed, or only items were merged."""
    groups = labelled.select("subject", "property").unique()
    rest = triples.join(groups, on=["subject", "property"], how="anti")
    same = (pl.col("flag") == "both").all().over("subject", "property")
    words = (
        pl.when(same)
        .then(pl.lit("in both snapshots: the group is not looked at"))
        .otherwise(pl.lit("only items that were merged differ"))
    )
    return rest.with_columns(words.alias("outcome"))


def _change(
    row: dict[str, Any], comparison: Comparison, words: dict[tuple[int, str], str], gone: Objects
) -> ExplainedChange:
    dropped = None
    if row.get("dropped") is not None:
        step, reason = comparison.steps.reason(row["dropped"])
        dropped = f"{step.name}: {reason.text}"
    dates = {n: row[n] if row[n] is not None else row.get(f"old_{n}") for n in ("start", "end", "point")}
    label, rule = row.get("label"), row.get("rule")
    said = None if label is None or rule is None else words[rule, label]
    nothing = "unknown" if dropped is not None and dropped.endswith(VALUE_UNKNOWN) else "no value"
    return ExplainedChange(
        property_id=row["property"], property_label=row["relation_label"],
        value=row["object_label"] or row["value"] or nothing, value_id=row["object_id"], side=row["flag"],
        rank=row["rank"] or row.get("old_rank"), **{name: in_words(boundary) for name, boundary in dates.items()},
        dropped=dropped, change=row.get("change"), label=label, rule=rule, words=said, outcome=row.get("outcome"),
        merged_from=gone.get((row.get("old_statement_id"), row["value"])),
    )  # fmt: skip
