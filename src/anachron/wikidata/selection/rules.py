"""The rules by which statements of a snapshot become dated facts, as one list of steps.

`anachron.wikidata.selection.select` applies it to every statement and counts, `anachron.wikidata.selection.explain`
applies it to those of one entity and says what happened: both read the verdicts of this code, so they cannot disagree.

Sources: WikiFactDiff for the cleaning (ranks, datatypes, pages, meta properties, restricted triples), TimeStress
sections 3.2.1 and A.1 for the preset ``timestress``, TimeStress v1 section 4.2 for ``robustness-2025``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

import polars as pl

from anachron.core.errors import ConfigError

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)
Stage = Literal["rows", "periods", "entities", "popularity", "cut", "groups"]

DROPPED_DATATYPES = ("url", "external-id", "commonsMedia", "globe-coordinate")
VALUE_UNKNOWN = "its value is unknown"  # the reason that drops a somevalue
_PROPERTY = re.compile(r"P[1-9]\d*")


@dataclass(frozen=True, slots=True)
class Selection:
    """Every threshold of the selection. The defaults are those of TimeStress (TimeStress).

    relations: keep only these properties; all where empty. banned: never these (P47, shares border with, is ambiguous).
    several_periods: what happens to (s, r, o) that holds in more than one distinct period: ``drop`` (TimeStress),
        ``drop-closed``, which counts periods with a known start and end only, for others went before (TimeStress v1,
        section 4.2), or ``keep``, with its other periods written beside (note of TimeStress v1, section 3.2.2).
    ended_before: a fact must end before the first day of this year. ended_since: and in this year or later, unless it
        still holds. first_year: and start in this year or later.
    least_days: from the first day of its start to the last day of its end (1,140 is the published "longer than three
        years": days // 30 > 37).
    popularity: whether popularity decides at all; without it every fact is kept and has none.
    min_popularity: a fixed least popularity of a fact (geometric mean of its subject's and object's monthly views).
        Without it, and without ``top_per_relation``, the least popularity is lowered from ``highest_popularity`` in
        steps of ``popularity_step`` until more than ``more_than`` facts pass.
    top_per_relation: keep that many of each relation, the most popular.
    per_stratum: keep that many of each power of ten of popularity (below 10, from 10, from 100, ...), drawn by their
        ids, which are hashes: rare facts too, which a least popularity leaves out (TimeStress, limitations).
    still_held: facts without an end too, unless another value of their subject and relation is preferred to them, as
        Wikidata marks what holds now, or another statement ends them.
    class_depth: how many edges, P31 first and P279 after it, lead at most from a property to a class that counts as
        its own.
    barred_words: an entity with a class whose label contains one of these is a page of the wiki, not a thing.
    """

    relations: tuple[str, ...] = ()
    banned: tuple[str, ...] = ("P47",)
    several_periods: Literal["drop", "drop-closed", "keep"] = "drop"
    ended_before: int = 2021
    ended_since: int | None = None
    first_year: int | None = None
    least_days: int = 1140
    popularity: bool = True
    min_popularity: float | None = None
    highest_popularity: float = 150_000
    popularity_step: float = 10_000
    more_than: int = 2000
    top_per_relation: int | None = None
    per_stratum: int | None = None
    still_held: bool = False
    class_depth: int = 4
    barred_words: tuple[str, ...] = ("Wikimedia", "template")

    def __post_init__(self) -> None:
        for name in (*self.relations, *self.banned):
            if not _PROPERTY.fullmatch(name):
                raise ConfigError(f"relation {name!r} is not a property id; write ids such as P39")
        both = sorted(set(self.relations) & set(self.banned))
        if both:
            raise ConfigError(f"relation {both[0]} is both chosen and banned; choose one")
        if self.several_periods not in ("drop", "drop-closed", "keep"):
            raise ConfigError(f"several periods {self.several_periods!r}: choose 'drop', 'drop-closed' or 'keep'")
        if 0 in (self.ended_before, self.ended_since, self.first_year):
            raise ConfigError("year 0: there is no year 0; write 1 BCE as -1")
        if self.first_year is not None and self.first_year >= self.ended_before:
            raise ConfigError(
                f"facts that start in {self.first_year} or later cannot end before {self.ended_before}; widen the years"
            )
        if self.ended_since is not None and self.ended_since >= self.ended_before:
            raise ConfigError(
                f"facts that end in {self.ended_since} or later do not end before {self.ended_before}; widen the years"
            )
        if self.least_days < 0:
            raise ConfigError(f"least days {self.least_days}: give 0 or more; 0 keeps a single day too")
        cuts = (self.min_popularity, self.top_per_relation, self.per_stratum)
        if not self.popularity and any(cut is not None for cut in cuts):
            raise ConfigError("a threshold on popularity needs popularity; leave it out, or do not turn popularity off")
        if self.min_popularity is not None and not self.min_popularity >= 0:
            raise ConfigError(f"least popularity {self.min_popularity}: give monthly views, 0 or more")
        if not (self.popularity_step > 0 and self.highest_popularity >= 0 and self.more_than >= 0):
            raise ConfigError(
                f"lowering from {self.highest_popularity} by {self.popularity_step} until more than {self.more_than} "
                "pass: the step must be above 0, the others not below"
            )
        if self.top_per_relation is not None and self.top_per_relation < 1:
            raise ConfigError(f"top per relation {self.top_per_relation}: give 1 or more")
        if self.per_stratum is not None and self.per_stratum < 1:
            raise ConfigError(f"per stratum {self.per_stratum}: give 1 or more")
        if self.per_stratum is not None and self.top_per_relation is not None:
            raise ConfigError(
                f"per stratum {self.per_stratum} and top per relation {self.top_per_relation}: choose one of them"
            )
        if self.class_depth < 1:
            raise ConfigError(f"class depth {self.class_depth}: 1 reads the classes themselves; give 1 or more")

    @property
    def lowers_threshold(self) -> bool:
        """Whether the least popularity is to be searched for."""
        fixed = (self.min_popularity, self.top_per_relation, self.per_stratum)
        return self.popularity and all(one is None for one in fixed)


PRESETS: dict[str, Selection] = {
    "timestress": Selection(),
    # employer, member of, position held, member of sports team, head of state, head of government; more than two
    # years are more than 731 days, the most that two years can have
    "robustness-2025": Selection(
        relations=("P108", "P463", "P39", "P54", "P35", "P6"),
        several_periods="drop-closed",
        first_year=1950,
        least_days=732,
        top_per_relation=100,
    ),
    # every dated fact, as a check of what a model knows today wants them
    "dated": Selection(several_periods="keep", ended_before=10_000, least_days=0, popularity=False, still_held=True),
}


def preset(name: str) -> Selection:
    """The settings of a preset. Raises `ConfigError` for a name that is none."""
    if name not in PRESETS:
        raise ConfigError(f"preset {name!r}: choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


@dataclass(frozen=True)
class Reason:
    """Why a statement goes. ``code`` counts over all steps; ``holds`` is asked of the columns of its stage."""

    code: int
    text: str
    holds: pl.Expr


@dataclass(frozen=True)
class Step:
    """One step of the selection: statements for which a reason holds go, with the first reason that does."""

    name: str
    stage: Stage
    reasons: tuple[Reason, ...]


class Steps:
    """Steps in order, their reasons numbered through.

    A stage is a run of steps that read the same columns (see `anachron.wikidata.selection.stages`).
    """

    def __init__(self, written: "Iterable[_Written]") -> None:
        self.steps: tuple[Step, ...] = ()
        code = 0
        for name, stage, reasons in written:
            numbered = tuple(Reason(code + i, text, holds) for i, (text, holds) in enumerate(reasons))
            code += len(numbered)
            self.steps += (Step(name, stage, numbered),)

    def of_stage(self, stage: Stage) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.stage == stage)

    def judge(self, frame: Frame, stage: Stage) -> Frame:
        """The frame with ``dropped``: the code of the first reason of the stage that holds, null where none does."""
        verdict = pl.lit(None, pl.UInt8)
        for step in reversed(self.of_stage(stage)):
            for reason in reversed(step.reasons):
                holds = reason.holds.fill_null(False)
                verdict = pl.when(holds).then(pl.lit(reason.code, pl.UInt8)).otherwise(verdict)
        return frame.with_columns(verdict.alias("dropped"))

    def reason(self, code: int) -> tuple[Step, Reason]:
        """The step and reason of a code."""
        return next((step, reason) for step in self.steps for reason in step.reasons if reason.code == code)


class Rules(Steps):
    """The steps of one selection of dated facts.

    Its stages: single rows, then the periods of one (s, r, o), then labels of entities, then popularity, then the cut
    that compares all facts.
    """

    def __init__(self, settings: Selection, wiki: str) -> None:
        self.settings = settings
        self.wiki = wiki
        super().__init__(
            [*cleaning_steps(wiki), *_selecting_steps(settings), *_period_steps(settings), *_entity_steps(settings)]
        )


_Written = tuple[str, Stage, list[tuple[str, pl.Expr]]]


def cleaning_steps(wiki: str) -> list[_Written]:
    """WikiFactDiff, section A.1: which statements are triples at all. Their stage is ``rows``."""
    col = pl.col
    pages: list[tuple[str, pl.Expr]] = [
        ("the subject is a page of the wiki or a template", col("subject_barred")),
        ("the object is a page of the wiki or a template", col("object_barred")),
    ]
    if wiki != "all":
        pages.insert(0, (f"the subject has no title in {wiki}", col("title").is_null()))
    return [
        ("ranks", "rows", [("its rank is deprecated", col("rank") == "deprecated")]),
        ("datatypes", "rows", [(f"its value is of type {d}", col("datatype") == d) for d in DROPPED_DATATYPES]),
        ("pages", "rows", pages),
        ("meta properties", "rows", [("the property is about Wikidata itself", col("meta"))]),
        (
            "known values",
            "rows",
            [("it has no value", col("snak") == "novalue"), (VALUE_UNKNOWN, col("snak") == "somevalue")],
        ),
        ("restricted statements", "rows", [("a qualifier restricts it", col("restricted"))]),
    ]


def _selecting_steps(settings: Selection) -> list[_Written]:
    col = pl.col
    relations = [("the relation is banned", col("property").is_in(settings.banned))]
    if settings.relations:
        relations.append(("the relation is not among the chosen", ~col("property").is_in(settings.relations)))
    return [
        (
            "dated relations of entities",
            "rows",
            [
                ("the object is a literal", (col("value_type") != "entity").fill_null(True)),
                ("the object is no item", ~col("value").str.contains(r"^Q\d+$")),
                ("neither start nor end is stated", col("start").is_null() & col("end").is_null()),
            ],
        ),
        ("relations", "rows", relations),
    ]


def _period_steps(settings: Selection) -> list[_Written]:
    col = pl.col
    repeated = ("the same fact is stated before", col("repeated"))
    several: _Written
    if settings.several_periods == "keep":
        unplaced = ("another of its periods cannot be placed", col("other_unplaced"))
        several = ("distinct periods", "periods", [repeated, unplaced])
    else:
        several = ("one period", "periods", [("it holds in more than one period", col("periods") > 1), repeated])
    since: list[_Written] = []
    if (last := settings.ended_since) is not None:
        since.append((f"ended since {last}", "periods", [(f"it ended before {last}", col("end_year") < last)]))
    if (first := settings.first_year) is not None:
        early = (f"it starts before {first}", col("start_year") < first)
        since.append((f"started since {first}", "periods", [early]))
    is_open, no_date = col("end_kind") == "open", col("end_date").is_null()
    no_ends = [("there is no end: it still holds", is_open)]
    if settings.still_held:
        replaced = is_open & (col("rank") != "preferred") & (col("preferred") != pl.concat_list("value"))
        ended = is_open & (~is_open).any().over("subject", "property", "value", "start_key")
        no_ends = [
            ("no end is stated, but another value is preferred", replaced),
            ("no end is stated, but another statement has one", ended),
        ]
        no_date &= ~is_open
    closed: _Written = (
        "known starts" if settings.still_held else "closed periods",
        "periods",
        [
            ("the end is not stated", col("end_kind") == "absent"),
            ("the end is unknown", col("end_kind") == "unknown"),
            *no_ends,
            ("the start is not stated", col("start_kind") == "absent"),
            ("the start is unknown", col("start_kind") == "unknown"),
            ("there is no start", col("start_kind") == "open"),
        ],
    )
    first_steps = [closed, several] if settings.several_periods == "drop-closed" else [several, closed]
    return [
        *first_steps,
        (
            "dates",
            "periods",
            [
                ("it has several starts or ends", pl.max_horizontal("start_values", "end_values") > 1),
                ("start or end is no date", col("start_date").is_null() | no_date),
                ("start or end is coarser than a year", pl.min_horizontal("start_precision", "end_precision") < 9),
            ],
        ),
        (
            f"ended before {settings.ended_before}",
            "periods",
            [(f"it ends in {settings.ended_before} or later", col("end_year") >= settings.ended_before)],
        ),
        *since,
        (
            "length",
            "periods",
            [
                ("it ends before it starts", col("last_day") < col("first_day")),
                (
                    f"it lasts less than {settings.least_days:,} days",
                    col("last_day") - col("first_day") < settings.least_days,
                ),
            ],
        ),
    ]


def _entity_steps(settings: Selection) -> list[_Written]:
    col = pl.col
    steps: list[_Written] = [
        (
            "labels",
            "entities",
            [
                ("the subject has no label", col("subject_label").is_null()),
                ("the relation has no label", col("relation_label").is_null()),
                ("the object is not in the snapshot", col("object_missing")),
                ("the object has no label", col("object_label").is_null()),
            ],
        )
    ]
    if not settings.popularity:
        return steps
    steps.append(
        (
            "page views",
            "popularity",
            [
                ("the subject has no page views", col("subject_popularity").is_null()),
                ("the object has no page views", col("object_popularity").is_null()),
            ],
        )
    )
    cuts: list[tuple[str, pl.Expr]] = []
    if settings.min_popularity is not None or settings.lowers_threshold:
        cuts.append(("it is less popular than the threshold", col("popularity") < col("threshold")))
    if settings.top_per_relation is not None:
        behind = (col("popularity") < col("last_popularity")) | (
            (col("popularity") == col("last_popularity")) & (col("fact_id") > col("last_fact"))
        )
        cuts.append((f"it is not among the {settings.top_per_relation} most popular of its relation", behind))
    if settings.per_stratum is not None:
        reason = f"it is not among the {settings.per_stratum} drawn of as popular facts"
        cuts.append((reason, col("fact_id") > col("last_of_stratum")))
    return [*steps, ("popularity", "cut", cuts)]
