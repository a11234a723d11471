"""The update data set in numbers, and its replacement subset."""

import zlib

import polars as pl

from anachron.core.scenarios import SCENARIOS

POPULATION, ONE_IN = "P1082", 14  # the replacement subset keeps one in so many of these, for the sake of the others
# Paper 003, table 2.
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


def replacements(updates: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The updates that replace one object by another, of those of the population one in `ONE_IN`, chosen by subject."""
    found = updates.filter("is_replace")
    chosen = [
        relation["id"] != POPULATION or zlib.crc32(f"{seed}\n{subject['id']}".encode()) % ONE_IN == 0
        for subject, relation in found.select("subject", "relation").iter_rows()
    ]
    return found.filter(pl.Series(chosen, dtype=pl.Boolean))


def statistics(updates: pl.DataFrame) -> dict[str, int]:
    """The numbers of paper 003, table 2. Objects are told apart by their id, literals by their words and type."""
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
