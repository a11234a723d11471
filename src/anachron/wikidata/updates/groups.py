"""From labelled triples to updates: which groups are understood, what is left of them, and what kind of change each is.

Source: WikiFactDiff, section A.3 (end) and section 3 (scenarios); duplicates of labels as in the published code.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import polars as pl

from anachron.core.sameness import name_key

UNKNOWN = "a triple is not understood"
NO_CHANGE = "nothing became true or false"
MERGED = "only items that were merged differ"
SAME = "the same triple, for its item was merged into another"
CLASH = "one label is both of an obsolete and of another object"


@dataclass
class GroupCounts:
    """What became of the groups of one subject and relation, and of their triples.

    dropped: reason -> [groups, triples]. left_out: reason -> triples of groups that stay. by_validity: of groups of
    functional relations with values that did not hold at their snapshot's date, scenario -> [groups as they are, groups
    if ``valid_at_date`` were the other way round]; `DROPPED` are those that are no update. Before any is put in words.
    """

    groups: int = 0
    triples: int = 0
    dropped: dict[str, list[int]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    kept_groups: int = 0
    kept_triples: int = 0
    by_validity: dict[str, list[int]] = field(default_factory=dict)

    def check(self) -> None:
        """Raises `AssertionError` unless what came in is what was dropped, left out and kept."""
        groups = sum(groups for groups, _ in self.dropped.values()) + self.kept_groups
        triples = sum(triples for _, triples in self.dropped.values()) + sum(self.left_out.values()) + self.kept_triples
        if (groups, triples) != (self.groups, self.triples):
            raise AssertionError(f"groups {groups} of {self.groups}, triples {triples} of {self.triples}: {self}")

    def add(self, other: "GroupCounts") -> None:
        self.groups += other.groups
        self.triples += other.triples
        self._take(other)
        self.kept_groups += other.kept_groups
        self.kept_triples += other.kept_triples
        for scenario, (here, otherwise) in other.by_validity.items():
            before = self.by_validity.get(scenario, [0, 0])
            self.by_validity[scenario] = [before[0] + here, before[1] + otherwise]

    def go_on(self, later: "GroupCounts") -> None:
        """Put what became of the groups that were kept in the place of those."""
        if (later.groups, later.triples) != (self.kept_groups, self.kept_triples):
            raise AssertionError(f"{self.kept_groups} groups were kept, {later.groups} went on")
        self._take(later)
        self.kept_groups, self.kept_triples = later.kept_groups, later.kept_triples
        self.check()

    def _take(self, other: "GroupCounts") -> None:
        for reason, (groups, triples) in other.dropped.items():
            self.drop(reason, groups, triples)
        for reason, number in other.left_out.items():
            self.left_out[reason] = self.left_out.get(reason, 0) + number

    def drop(self, reason: str, groups: int, triples: int) -> None:
        before = self.dropped.get(reason, [0, 0])
        self.dropped[reason] = [before[0] + groups, before[1] + triples]


class Sieve:
    """A table of triples from which groups and single triples are taken, each with a reason that is counted.

    taken_out: called with what is taken, with the reason and the triples.
    """

    def __init__(self, triples: pl.DataFrame, taken_out: Callable[[str, pl.DataFrame], None] | None = None) -> None:
        self.triples = triples
        self.counts = GroupCounts(_groups(triples), triples.height)
        self._taken_out = taken_out or (lambda reason, taken: None)

    def drop_groups(self, reason: str, holds: pl.Expr) -> None:
        """Take out the groups of which a triple holds; ``holds`` may be null, which counts as not."""
        self._drop(reason, holds.fill_null(False).any().over("group"))

    def keep_groups(self, reason: str, holds: pl.Expr) -> None:
        """Take out the groups of which no triple holds."""
        self._drop(reason, ~holds.fill_null(False).any().over("group"))

    def _drop(self, reason: str, gone: pl.Expr) -> None:
        marked = self.triples.with_columns(gone.alias("_gone"))
        taken = marked.filter("_gone")
        self.counts.drop(reason, _groups(taken), taken.height)
        self._taken_out(reason, taken)
        self.triples = marked.filter(~pl.col("_gone")).drop("_gone")

    def leave_out(self, reason: str, holds: pl.Expr) -> None:
        """Take out single triples; a group that has none left goes with them, for `NO_CHANGE`."""
        marked = self.triples.with_columns(holds.fill_null(False).alias("_out"))
        empty = pl.col("_out").all().over("group")
        emptied = marked.filter(empty)
        if emptied.height:
            self.counts.drop(NO_CHANGE, _groups(emptied), emptied.height)
            self._taken_out(NO_CHANGE, emptied)
        rest = marked.filter(~empty)
        out = rest.filter("_out")
        self.counts.left_out[reason] = self.counts.left_out.get(reason, 0) + out.height
        self._taken_out(reason, out)
        self.triples = rest.filter(~pl.col("_out")).drop("_out")

    def done(self) -> pl.DataFrame:
        """What is left, after a check that the counts add up."""
        self.counts.kept_groups, self.counts.kept_triples = _groups(self.triples), self.triples.height
        self.counts.check()
        return self.triples


def _groups(triples: pl.DataFrame) -> int:
    return triples["group"].n_unique() if triples.height else 0


def understood(labelled: pl.DataFrame, taken_out: Callable[[str, pl.DataFrame], None] | None = None) -> Sieve:
    """Labelled triples (``group, label``) of the groups in which every triple is understood and something changed."""
    sieve = Sieve(labelled, taken_out)
    label = pl.col("label")
    sieve.drop_groups(UNKNOWN, label == "unknown")
    sieve.leave_out("it held at neither date", label == "ignore")
    sieve.keep_groups(NO_CHANGE, label.is_in(["new", "obsolete"]))
    return sieve


def wordable(sieve: Sieve, relations: Collection[str]) -> None:
    """Leave the groups that can be put in words: with labels (see `anachron.wikidata.updates.words`) and templates.

    relations: those that have templates.
    """
    sieve.drop_groups("the subject has no label", pl.col("subject_label").is_null())
    sieve.drop_groups("the relation has no label", pl.col("relation_label").is_null())
    sieve.drop_groups("an object has no label or cannot be worded", pl.col("object_label").is_null())
    sieve.drop_groups("the relation has no template", ~pl.col("property").is_in(list(relations)))
    without_duplicates(sieve)


def without_duplicates(sieve: Sieve) -> None:
    """Leave one object of each label in a group; needs ``object_label``.

    Of obsolete ones only, one stays; of new ones, with or without static ones, a new one; of static ones only, one.
    Where an obsolete one shares its label with a new or a static one, nobody could tell what changed: the group goes.
    """
    same = [pl.col("group"), pl.col("object_label").map_elements(name_key, return_dtype=pl.String)]
    obsolete = (pl.col("label") == "obsolete").any().over(same)
    others = (pl.col("label") != "obsolete").any().over(same)
    sieve.drop_groups(CLASH, obsolete & others)
    place = pl.int_range(pl.len()) + pl.when(pl.col("label") == "new").then(0).otherwise(pl.len())  # the new ones first
    sieve.leave_out("another object of the group has the same label", (place != place.min()).over(same))


DROPPED = "no update"


def by_scenario(labelled: pl.DataFrame, groups: int) -> dict[str, int]:
    """How many of so many groups of labelled triples become updates of each scenario, and how many become none."""
    kept = understood(labelled).done()
    found = dict(scenarios(kept).group_by("scenario").len().iter_rows())
    return {DROPPED: groups - sum(found.values())} | found


def scenarios(triples: pl.DataFrame) -> pl.DataFrame:
    """``group, scenario`` of each group (``group, label, subject_is_new``): `anachron.core.facts.scenario_of`."""
    label = pl.col("label")
    sizes = triples.group_by("group", maintain_order=True).agg(
        pl.col("subject_is_new").any().alias("fresh"),
        *((label == name).sum().cast(pl.Int64).alias(name) for name in ("new", "obsolete", "static")),
    )
    new, obsolete, static = (pl.col(name) for name in ("new", "obsolete", "static"))
    scenario = (
        pl.when("fresh").then(pl.lit("AddEntity"))
        .when((new == 1) & (obsolete == 1) & (static == 0)).then(pl.lit("ReplaceObject"))
        .when((new == 0) & (static == 0)).then(pl.lit("Archive"))
        .when((obsolete == 0) & (static == 0)).then(pl.lit("AddRelation"))
        .when((obsolete == 0) & (new > 0)).then(pl.lit("AddObject"))
        .otherwise(pl.lit("Other"))
    )  # fmt: skip
    return sizes.select("group", scenario.alias("scenario"))
