"""The old and the new objects of updates on the terminal: before and after an edit, and which updates a model lacks."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from anachron.analysis.plots.words import counted
from anachron.report.numbers import percent
from anachron.report.table import Column, Table

STATES = ("lacks", "partly", "has")  # of an update, see `anachron.evaluate.old_and_new.compare_objects`
FEW = 5  # updates that are named in a line
PRINTED = 50  # updates; files hold all
NAMED = 3  # facts that lost most
OTHER_FACTS = {
    "neighbours": ("neighbour", "neighbours"),
    "same subject": ("other fact about the subjects", "other facts about the subjects"),
}
ABOUT = (
    "%: geometric mean of the probabilities of the object's tokens, which is what evaluate compares. "
    "Rank: of the object's first token among the whole vocabulary as the next token; 1 is the first choice."
)
WORDS = {"obsolete": "old", "new": "new"}


def before_and_after_table(objects: pl.DataFrame) -> Table:
    """Rows of `anachron.evaluate.old_and_new.before_and_after`, an update a section."""
    numbers = ("% before", "% after", "rank before", "rank after")
    columns = [Column("prompt", once=True), Column("object"), Column(""), *(Column(n, number=True) for n in numbers)]
    rows = [
        (
            row["prompt"], row["object"], WORDS[row["role"]], share(row["before"]), share(row["after"]),
            f"{row['rank_before']:,}", f"{row['rank_after']:,}",
        )
        for row in objects.iter_rows(named=True)
    ]  # fmt: skip
    title = "Before and after the edit, asked by the update prompt"
    return Table(title, columns, rows, [ABOUT], sections=objects["case_id"].to_list())


def preferred(updates: pl.DataFrame) -> dict[str, Any]:
    """Counts of `anachron.evaluate.old_and_new.preferences`, and every update whose new object is not preferred.

    compared: updates with a new and an old object, of which ``prefer_new`` so many. without_old: those without an old
    one, of which ``first_choice`` so many begin with the new one. without_new: those without a new one.
    """
    new, old = pl.col("p_new").is_not_null(), pl.col("p_old").is_not_null()
    both, only_new = updates.filter(new & old), updates.filter(new & ~old)
    columns = ("case_id", "subject", "prompt", "new", "old", "p_new", "p_old")
    return {
        "compared": both.height, "prefer_new": int(both["prefers"].sum()), "without_old": only_new.height,
        "first_choice": int(only_new["prefers"].sum()), "without_new": updates.filter(~new).height,
        "others": updates.filter(~pl.col("prefers")).select(columns).to_dicts(),
    }  # fmt: skip


def preferred_lines(counts: Mapping[str, Any]) -> list[str]:
    """What `preferred` counted, in words."""
    lines = []
    if counts["compared"]:
        lines.append(f"{counts['prefer_new']:,} of {counts['compared']:,} now prefer the new object")
    if counts["without_old"]:
        lines.append(
            f"{counts['first_choice']:,} of {counts['without_old']:,} without an old object now have the new one's "
            "first token as the model's first choice"
        )
    if counts["without_new"]:
        lines.append(f"{counts['without_new']:,} without a new object are not compared")
    if others := counts["others"]:
        named = [
            f"{row['subject']}: {row['new']}" + (f" behind {row['old']}" if row["old"] else "") for row in others[:FEW]
        ]
        more = f" and {len(others) - FEW:,} more" if len(others) > FEW else ""
        lines.append(f"not so: {'; '.join(named)}{more}")
    return lines


def untouched_lines(kinds: Mapping[str, Mapping[str, Any]] | None) -> list[str]:
    """What else an edit changed, in words: a line for each kind of `anachron.evaluate.untouched.untouched_counts` that
    has a fact, and one that names those that lost most."""
    lines, worst = [], []
    for kind, (one, many) in OTHER_FACTS.items():
        counts = (kinds or {}).get(kind)
        if counts is None or not counts["asked"]:
            continue
        sample = f" (a fixed sample of {counts['facts']:,})" if counts["asked"] < counts["facts"] else ""
        lines.append(
            f"of {counts['asked']:,} {one if counts['asked'] == 1 else many}{sample} {counts['as_likely']:,} kept "
            f"their true object as likely, {counts['fell_by_half']:,} fell by more than half; on average "
            f"{share(counts['mean_before'])} % before, {share(counts['mean_after'])} % after"
        )
        worst += counts["worst"]
    worst.sort(key=lambda fact: fact["after"] - fact["before"])
    named = [
        f"{fact['prompt']} {' / '.join(fact['objects'])}: {share(fact['before'])} to {share(fact['after'])} %"
        for fact in worst[:NAMED]
    ]
    return lines + ([f"fell most: {'; '.join(named)}"] if named else [])


def lacking_table(updates: pl.DataFrame) -> Table:
    """Rows of `anachron.evaluate.old_and_new.compare_objects` that are not ``has``, the first `PRINTED` of them."""
    numbers = ("% old", "% new", "rank old", "rank new", "old is likelier")
    columns = [*map(Column, ("prompt", "old", "new")), *(Column(n, number=True) for n in numbers), Column("state")]
    rows = [
        (
            *(row[name] for name in ("prompt", "old", "new")), share(row["p_old"]), share(row["p_new"]),
            f"{row['rank_old']:,}", f"{row['rank_new']:,}", f"{row['old_likelier']} of {row['prompts']}", row["state"],
        )
        for row in updates.filter(pl.col("state") != "has").head(PRINTED).iter_rows(named=True)
    ]  # fmt: skip
    return Table("Updates that the model lacks or has in part", columns, rows, [ABOUT])


def states(updates: pl.DataFrame) -> dict[str, int]:
    """How many updates are in each state."""
    return {state: int((updates["state"] == state).sum()) for state in STATES}


def lacking_line(updates: pl.DataFrame, asked: int) -> str:
    """The same in words. asked: of how many updates it was to be found."""
    counts = states(updates)
    line = (
        f"of {counted(updates.height, 'update')} the model lacks {counts['lacks']:,}, has {counts['has']:,}, and has "
        f"{counts['partly']:,} in part"
    )
    if asked > updates.height:
        line += (
            f"; {asked - updates.height:,} more were not compared because they do not name both an old and a new object"
        )
    return line


def share(p: float) -> str:
    """A probability in per cent, with two decimals; below those, that it is."""
    return percent(p, 2, floor=True)
