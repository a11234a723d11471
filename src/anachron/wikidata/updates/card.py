"""The card of an update data set: its numbers beside the published ones, and how it came about."""

import polars as pl

from anachron.core.facts import SCENARIOS
from anachron.data.card import licence, number, steps_table
from anachron.io.files import Json
from anachron.io.tables import markdown_table

# WikiFactDiff, table 2.
PUBLISHED: dict[str, dict[str, int]] = {
    "WikiFactDiff": {
        "triples": 349_441, "subjects": 100_986, "relations": 667, "objects": 109_122, "objects that are entities":
        75_417, "objects that are literals": 33_705, "updates": 223_140, "ReplaceObject": 32_996, "Archive": 2_756,
        "AddObject": 1_494, "AddRelation": 50_541, "AddEntity": 132_844, "Other": 2_509,
    },
    "WFD_repl": {
        "triples": 20_988, "subjects": 9_926, "relations": 153, "objects": 12_283, "objects that are entities": 5_496,
        "objects that are literals": 6_787, "updates": 10_494, "ReplaceObject": 10_494, "Archive": 0, "AddObject": 0,
        "AddRelation": 0, "AddEntity": 0, "Other": 0,
    },
}  # fmt: skip


def card(
    name: str, updates: pl.DataFrame, replaced: pl.DataFrame, parameters: Json, counts: Json, snapshots: list[Json]
) -> str:
    """The card as Markdown. snapshots: the manifests of both.

    counts: of the manifest: ``steps`` of both snapshots, ``triples, changes, groups, subjects, created, judged``.
    """
    sections = [
        f"# Updates: {name}\n",
        f"What became true, became false or stayed between {parameters['old_date']} and {parameters['new_date']}.\n",
        licence(snapshots),
        "## Numbers\n",
        _numbers(updates, replaced),
        "## Relations\n",
        _relations(updates),
        "## What the snapshots differ in\n",
        _differences(counts),
        "## Groups of one subject and relation\n",
        groups_table(counts["judged"]),
        "## Values that did not hold at a snapshot's date\n",
        _validity(counts["judged"]["by_validity"], bool(parameters.get("valid_at_date"))),
        "## Cleaning of the old snapshot\n",
        steps_table(counts["steps"]["old"]),
        "## Cleaning of the new snapshot\n",
        steps_table(counts["steps"]["new"]),
        "## Settings\n",
        "".join(f"- {key}: `{value}`\n" for key, value in parameters.items()),
    ]
    return "\n".join(sections)


def _numbers(updates: pl.DataFrame, replaced: pl.DataFrame) -> str:
    whole, subset = statistics(updates), statistics(replaced)
    rows = [
        (what, *(number(table[what]) for table in (whole, PUBLISHED["WikiFactDiff"], subset, PUBLISHED["WFD_repl"])))
        for what in whole
    ]
    header = ("what", "here", "published (WikiFactDiff)", "replacements here", "published replacements")
    return markdown_table(header, rows)


def _relations(updates: pl.DataFrame) -> str:
    relation = pl.col("relation").struct
    relations = (
        updates.group_by(relation.field("id").alias("id"), relation.field("label").alias("label"))
        .agg(pl.len().alias("updates"), pl.col("is_replace").sum().alias("replacements"))
        .sort("updates", "id", descending=[True, False])
    )
    rows = [(label, id, f"{n:,}", f"{replaced:,}") for id, label, n, replaced in relations.iter_rows()]
    return markdown_table(("relation", "id", "updates", "replacements"), rows)


def _differences(counts: Json) -> str:
    rows = [
        (f"{what}: {kind}", f"{n:,}") for what in ("subjects", "groups", "triples") for kind, n in counts[what].items()
    ]
    rows += [(f"statements known by their id, changed in: {kind}", f"{n:,}") for kind, n in counts["changes"].items()]
    rows.append(("new entities", f"{counts['created']:,}"))
    return markdown_table(("what", "number"), rows)


def _validity(by_validity: dict[str, list[int]], dropped: bool) -> str:
    """Of the groups that ``--valid-at-date`` may change, the scenarios with it and without, as Markdown."""
    if not by_validity:
        return "No value of a relation with one value at a time ended before its snapshot's date or started after it.\n"
    rows = [
        (scenario, *(f"{n:,}" for n in (pair[::-1] if dropped else pair)))
        for scenario, pair in sorted(by_validity.items())
    ]
    said = "Groups of relations with one value at a time that hold such values, before they are put in words. "
    said += f"These updates were made {'with' if dropped else 'without'} `--valid-at-date`.\n\n"
    return said + markdown_table(("scenario", "all values kept", "with --valid-at-date"), rows)


def groups_table(judged: Json) -> str:
    """What became of the groups, as Markdown."""
    rows: list[tuple[str, str, str]] = [("labelled", f"{judged['groups']:,}", f"{judged['triples']:,}")]
    rows += [(f"dropped: {why}", f"{groups:,}", f"{n:,}") for why, (groups, n) in judged["dropped"].items()]
    rows += [(f"left out of a group: {why}", "-", f"{n:,}") for why, n in judged["left_out"].items()]
    rows.append(("kept", f"{judged['kept_groups']:,}", f"{judged['kept_triples']:,}"))
    return markdown_table(("what", "groups", "triples"), rows)


def statistics(updates: pl.DataFrame) -> dict[str, int]:
    """The numbers of WikiFactDiff, table 2. Objects are told apart by their id, literals by their words and type."""
    objects = updates.select(pl.col("objects").explode()).unnest("objects")
    literal = pl.concat_str("label", "description", separator="\n")
    distinct = objects.select("id", key=pl.coalesce("id", literal)).unique()
    entities = distinct.drop_nulls("id").height
    by_scenario = dict(updates.group_by("scenario").len().iter_rows())
    return {
        "triples": objects.height,
        "subjects": updates["subject"].struct.field("id").n_unique(),
        "relations": updates["relation"].struct.field("id").n_unique(),
        "objects": distinct.height,
        "objects that are entities": entities,
        "objects that are literals": distinct.height - entities,
        "updates": updates.height,
        **{scenario: by_scenario.get(scenario, 0) for scenario in SCENARIOS},
    }
