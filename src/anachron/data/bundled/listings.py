"""What comes with the package, counted: what ``anachron datasets`` lists without reading any table.

The counts are written down here, because counting takes seconds; a test holds them against the data.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listing:
    """A bundled data set. listed: facts in its file; facts: those of them that are asked about."""

    name: str
    about: str
    facts: int
    listed: int
    relations: int
    statements: int
    kind: str = "statements"


@dataclass(frozen=True, slots=True)
class UpdatesListing:
    """A bundled update data set."""

    name: str
    about: str
    updates: int
    relations: int
    subjects: int
    kind: str = "updates"


@dataclass(frozen=True, slots=True)
class ChangesListing:
    """A bundled data set of changes. changes: without its controls."""

    name: str
    about: str
    changes: int
    controls: int
    subjects: int
    kinds: int
    kind: str = "changes"


DATASETS = (
    Listing(
        "mini", "real facts from ancient rulers to football clubs, most of them in successions",
        facts=1_796, listed=2_241, relations=32, statements=423_003,
    ),
)  # fmt: skip
UPDATES = (
    UpdatesListing(
        "mini-updates", "real replacements between 2015 and 2024, from heads of state to home venues",
        updates=224, relations=14, subjects=211,
    ),
)  # fmt: skip
CHANGES = (
    ChangesListing(
        "mini-changes", "dated changes of the world between 2010 and 2026, each with its old value",
        changes=4_371, controls=76, subjects=1_624, kinds=33,
    ),
)  # fmt: skip
