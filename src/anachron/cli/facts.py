"""What commands say of a file of facts: what was noticed, and which facts cannot be asked, and why."""

from collections import Counter
from typing import TYPE_CHECKING

from anachron.cli.output import say

if TYPE_CHECKING:
    import polars as pl

    from anachron.data.loaders import Dataset

SHOWN = 10


def tell_facts(data: "Dataset") -> None:
    """Say what was noticed in a file of facts; nothing of another data set."""
    tell_notes(data.notes)
    if data.left_out is not None and data.as_of is not None:
        tell_left_out(data.left_out, data.facts, data.as_of)
        if data.limit is not None:
            say("  with --limit, facts that cannot be asked are neither looked for nor listed")


def tell_notes(notes: tuple[str, ...]) -> None:
    """Say what was noticed; of each kind a file's reader tells the first few and how many there are."""
    for note in notes:
        say(f"note: {note}")


def tell_left_out(left_out: "pl.DataFrame", asked: int, as_of: str) -> None:
    """Say how many facts are asked, and list those that are not."""
    say(
        f"{asked:,} facts are asked about, as of {as_of}"
        + (f"; {left_out.height:,} cannot be:" if left_out.height else "")
    )
    kinds = Counter(reason.partition(":")[0] for reason in left_out["reason"])
    for row in left_out.head(SHOWN).iter_rows(named=True):
        fact = ", ".join((row["subject"], row["relation"], row["object"]))
        say(f"  row {row['rows']}, {fact} [{row['periods']}]: {row['reason']}")
    if left_out.height > SHOWN:
        say(f"  and more; in total {', '.join(f'{count:,} {kind}' for kind, count in kinds.most_common())}")
