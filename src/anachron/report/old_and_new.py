"""The old and the new objects of updates on the terminal: before and after an edit, and which updates a model lacks."""

from collections.abc import Sequence

import polars as pl
from rich.markup import escape
from rich.table import Table

STATES = ("lacks", "partly", "has")  # of an update, see `anachron.evaluate.old_and_new.compare_objects`
PRINTED = 50  # updates; files hold all
ABOUT = (
    "%: geometric mean of the probabilities of the object's tokens, which is what evaluate compares. "
    "Rank: of the object's first token among the whole vocabulary as the next token; 1 is the first choice."
)
WORDS = {"obsolete": "old", "new": "new"}


def before_and_after_table(objects: pl.DataFrame) -> Table:
    """Rows of `anachron.evaluate.old_and_new.before_and_after`, an update a section."""
    columns = ("% before", "% after", "rank before", "rank after")
    table = _table("Before and after the edit, asked by the update prompt", ("prompt", "object", ""), columns)
    last = None
    for row in objects.iter_rows(named=True):
        if last not in (None, row["case_id"]):
            table.add_section()
        table.add_row(
            "" if last == row["case_id"] else escape(row["prompt"]), escape(row["object"]), WORDS[row["role"]],
            share(row["before"]), share(row["after"]), f"{row['rank_before']:,}", f"{row['rank_after']:,}",
        )  # fmt: skip
        last = row["case_id"]
    return table


def lacking_table(updates: pl.DataFrame) -> Table:
    """Rows of `anachron.evaluate.old_and_new.compare_objects` that are not ``has``, the first `PRINTED` of them."""
    columns = ("% old", "% new", "rank old", "rank new", "old is likelier")
    table = _table("Updates that the model lacks or has in part", ("prompt", "old", "new"), columns)
    table.add_column("state")
    for row in updates.filter(pl.col("state") != "has").head(PRINTED).iter_rows(named=True):
        table.add_row(
            *(escape(row[name]) for name in ("prompt", "old", "new")), share(row["p_old"]), share(row["p_new"]),
            f"{row['rank_old']:,}", f"{row['rank_new']:,}", f"{row['old_likelier']} of {row['prompts']}", row["state"],
        )  # fmt: skip
    return table


def _table(title: str, words: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title, caption=ABOUT, caption_justify="left")
    for name in words:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def states(updates: pl.DataFrame) -> dict[str, int]:
    """How many updates are in each state."""
    return {state: int((updates["state"] == state).sum()) for state in STATES}


def lacking_line(updates: pl.DataFrame, asked: int) -> str:
    """The same in words. asked: of how many updates it was to be found."""
    counts = states(updates)
    words = "1 update" if updates.height == 1 else f"{updates.height:,} updates"
    line = (
        f"of {words} the model lacks {counts['lacks']:,}, has {counts['has']:,}, and has {counts['partly']:,} in part"
    )
    if asked > updates.height:
        line += (
            f"; {asked - updates.height:,} more were not compared because they do not name both an old and a new object"
        )
    return line


def share(p: float) -> str:
    """A probability in per cent, with two decimals; below those, that it is."""
    return "<0.01" if 0 < p < 0.00005 else f"{100 * p:.2f}"
