"""Labels for the triples of a comparison: merged items joined, days filled in, groups that are understood kept."""

from collections.abc import Iterable

import polars as pl

from anachron.io.tables import read_parquet
from anachron.wikidata.reading.snapshot import Snapshot
from anachron.wikidata.selection.lookups import missing_from
from anachron.wikidata.selection.tally import compact
from anachron.wikidata.updates.compare import Comparison, created_of, triples_of
from anachron.wikidata.updates.diff import changed_groups, join_merged, merge_candidates
from anachron.wikidata.updates.groups import MERGED, SAME, GroupCounts, by_scenario, understood
from anachron.wikidata.updates.labels import SPANNED, label_triples
from anachron.wikidata.updates.triples import GROUP, ITEM, day_of, first_days, span_of


def merged_among(new: Snapshot, gone: Iterable[str]) -> set[str]:
    """Those of the items that the new snapshot does not have; none of a topic, which has only what it names."""
    return set() if "topic" in new.manifest else missing_from(new, gone)


def label_bucket(
    triples: pl.DataFrame, comparison: Comparison, created: pl.DataFrame, merged: set[str]
) -> pl.DataFrame:
    """Triples of a bucket with ``group, label, rule``, without those that only a merge of items had changed.

    created: ids of all new entities. merged: of `merged_among`.
    """
    pairs = merge_candidates(triples).filter(pl.col("gone").is_in(sorted(merged)))
    joined = join_merged(triples, pairs)
    if not comparison.label_unchanged:
        joined = changed_groups(joined)
    dated = joined.with_columns(
        pl.struct(GROUP).rle_id().alias("group"),
        (ITEM & pl.col("value").is_in(created["id"].implode())).alias("object_is_new"),
    )
    value_date = pl.struct(date=pl.when(pl.col("value_type") == "time").then("value"))
    days = {"value_day": value_date} | {name: pl.col(name) for name in ("start", "end", "point", "old_end")}
    inner = dated.select(
        "property", "group", "functional", "flag", "subject_is_new", "subject_only_in_old", "object_is_new",
        *(first_days(boundary).alias(name) for name, boundary in days.items()),
    )  # fmt: skip
    spans = None
    if comparison.coarse_undecided:
        spans = dated.select(span_of(pl.col(name)).alias(name) for name in SPANNED)
    labelled = label_triples(inner, day_of(comparison.old.snapshot), day_of(comparison.new.snapshot), spans)
    return dated.with_columns(labelled["label"], labelled["rule"])


def kept_triples(comparison: Comparison) -> tuple[pl.DataFrame, GroupCounts]:
    """Triples of all groups that are understood and in which something changed, and what became of the others."""
    gone = {item for triples in triples_of(comparison) for item in merge_candidates(triples)["gone"]}
    created, merged = created_of(comparison), merged_among(comparison.new.snapshot, gone)
    counts, kept, groups = GroupCounts(), [], 0
    for bucket, triples in enumerate(triples_of(comparison)):
        labelled = label_bucket(triples, comparison, created, merged)
        counts.add(_validity(comparison, bucket, labelled, created, merged))
        sieve = understood(labelled)
        left = sieve.done()
        counts.add(_with_merged(sieve.counts, triples, labelled))
        kept.append(compact(left.with_columns(pl.col("group") + groups)))
        groups += labelled.height
    return pl.concat(kept), counts


def _validity(
    comparison: Comparison, bucket: int, labelled: pl.DataFrame, created: pl.DataFrame, merged: set[str]
) -> GroupCounts:
    """``by_validity`` of a bucket."""
    groups = read_parquet(comparison.file("elsewhen", bucket))
    if not groups.height:
        return GroupCounts()
    otherwise = read_parquet(comparison.file("otherwise", bucket))
    here = by_scenario(labelled.join(groups, on=GROUP, how="semi", maintain_order="left"), groups.height)
    there = by_scenario(label_bucket(otherwise, comparison, created, merged), groups.height)
    return GroupCounts(by_validity={name: [here.get(name, 0), there.get(name, 0)] for name in {**here, **there}})


def _with_merged(counts: GroupCounts, triples: pl.DataFrame, labelled: pl.DataFrame) -> GroupCounts:
    """The counts of labelled triples with those that merged items had only seemed to change."""
    gone = triples.join(labelled.select(GROUP).unique(), on=GROUP, how="anti")
    counts.drop(MERGED, gone.select(GROUP).unique().height, gone.height)
    counts.left_out[SAME] = triples.height - gone.height - labelled.height
    counts.groups += counts.dropped[MERGED][0]
    counts.triples = triples.height
    counts.check()
    return counts
