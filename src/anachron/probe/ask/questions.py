"""The questions about a data set's facts: open ones with a year, choices of two years, periods, and today's answer."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from anachron.core.dates import Date
from anachron.core.draws import draw
from anachron.core.errors import DataError
from anachron.core.periods import Period
from anachron.core.sameness import name_key, same_name
from anachron.core.several_periods import closed_at, parse_periods, status_in
from anachron.data.own.rows import GivenFact, group_of
from anachron.probe.ask.sampling import LEAST_ROUNDS, Call, Matches, comparable, draw_matches
from anachron.probe.ask.wordings import Wordings, wordings_of
from anachron.probe.check.levels import AMONG
from anachron.text.dates import Wording, bare_date

Group = tuple[str, str]
OPEN_YEARS = 2  # correct years in which a fact is asked for by an open question
NO_YEAR = "it spans no whole year, and a model that only answers is asked about years"


@dataclass(frozen=True, slots=True)
class Rival:
    """An object of a subject and relation: the names it is called by alone, and when it held."""

    label: str
    names: tuple[str, ...]
    periods: tuple[Period, ...]


@dataclass(frozen=True, slots=True)
class FactToAsk:
    """A fact as it is put to a model that only answers.

    question: without a date. periods: in which it holds, closed at the last known day.
    open: (year, the question in it) of some correct years. matches: what choices are drawn from. decoy: of a decoy, its
    name, which is then the object; all else is the fact's but the name of its matches.
    """

    fact_id: str
    subject: str
    relation: str
    object: str
    question: str
    periods: tuple[Period, ...]
    group: Group
    open: tuple[tuple[str, str], ...]
    matches: Matches
    decoy: str | None = None


@dataclass(frozen=True, slots=True)
class Questions:
    """All that is asked. rivals: the objects of each subject and relation. left_out: fact -> why it is not asked.
    decoys: a sample of those of the facts (`decoys_to_ask`)."""

    facts: tuple[FactToAsk, ...]
    rivals: Mapping[Group, tuple[Rival, ...]]
    left_out: Mapping[str, str]
    wordings: Wordings
    style: str | Wording
    decoys: tuple[FactToAsk, ...] = ()

    def open_prompt(self, question: str) -> str:
        return self.wordings.open.format(question=question)

    def choice_prompt(self, fact: FactToAsk, call: Call) -> str:
        first, second = self.years(call)
        return self.wordings.choice.format(question=fact.question, answer=fact.object, first=first, second=second)

    def period_prompt(self, fact: FactToAsk) -> str:
        return self.wordings.period.format(question=fact.question, answer=fact.object)

    def years(self, call: Call) -> tuple[str, str]:
        """The years of a choice in words, in the order in which they are named."""
        first, second = (bare_date(Date.parse(year), self.style) for year in call.years)
        return first, second

    def names(self, group: Group) -> dict[str, str]:
        """Name -> label of the objects of a subject and relation."""
        return {name: one.label for one in self.rivals[group] for name in one.names}

    def right_names(self, fact: FactToAsk, year: str) -> list[str]:
        """What a right answer to an open question may be called: the fact's own object first, then who else held."""
        held = self.holders(fact.group, year)
        rivals = sorted(self.rivals[fact.group], key=lambda one: not same_name(one.label, fact.object))
        right = [one for one in rivals if one.label in held or same_name(one.label, fact.object)]
        names = [name for one in right for name in (one.label, *one.names)]
        return list(dict.fromkeys([fact.object, *names]))

    def holders(self, group: Group, year: str) -> set[str]:
        """The objects that hold in the whole of a year."""
        return {one.label for one in self.rivals[group] if status_in(one.periods, Date.parse(year)) == "correct"}


def questions_about(
    statements: pl.DataFrame,
    questions: Mapping[str, str | None],
    *,
    language: str,
    style: str | Wording,
    as_of: Date | None = None,
    given: Sequence[GivenFact] = (),
    decoys: Mapping[str, Sequence[str]] | None = None,
) -> Questions:
    """The questions about the facts of a table of statements, in the order of their ids, which are hashes.

    statements: columns of `anachron.data.columns.STATEMENT_SCHEMA`; the years of a fact are its year contexts.
    questions: each fact's question without a date. language: of the wordings, by its English name. style: of dates.
    as_of: the last day that is known of, up to which facts without an end hold. given: the facts of a file, for
    aliases, and for objects that are not asked about. decoys: fact -> names of its decoys, of which a sample is asked
    about (`decoys_to_ask`). A name that two objects of a subject and relation share tells
    nothing and is left out.

    Raises `DataError` where no fact can be asked.
    """
    years = statements.filter(pl.col("granularity") == "year")
    finer = statements.join(years, on="fact_id", how="anti")["fact_id"].unique(maintain_order=True)
    left_out: dict[str, str] = dict.fromkeys(finer, NO_YEAR)
    facts: list[FactToAsk] = []
    for (fact_id,), rows in sorted(years.group_by(["fact_id"], maintain_order=True), key=lambda item: str(item[0][0])):
        first, identity, question = rows.row(0, named=True), str(fact_id), questions.get(str(fact_id))
        dated = rows.select("time", "status", "alpha", "prompt").rows()
        correct = [(time, prompt) for time, status, _, prompt in dated if status == "correct"]
        incorrect = [(time, alpha) for time, status, alpha, _ in dated if status == "incorrect"]
        if question is None:
            left_out[identity] = "no question without a date"
        elif not correct or not incorrect:
            left_out[identity] = f"no {'incorrect' if correct else 'correct'} year"
        else:
            held = (Period(first["start"], first["end"]), *parse_periods(first.get("also_held")))
            drawn = sorted(range(len(correct)), key=lambda i: draw(0, identity, "open", correct[i][0]))
            facts.append(
                FactToAsk(
                    identity, first["subject_label"], first["relation_label"], first["object_label"], question,
                    tuple(closed_at(period, as_of) if as_of else period for period in held),
                    (name_key(first["subject_id"] or first["subject_label"]),
                     name_key(first["relation_id"] or first["relation_label"])),
                    tuple(correct[i] for i in sorted(drawn[:OPEN_YEARS])),
                    draw_matches(identity, [time for time, _ in correct], incorrect),
                )
            )  # fmt: skip
    if not facts:
        raise DataError(f"no fact can be asked: {next(iter(left_out.values()), 'there is none')}")
    chosen = decoys_to_ask(facts, decoys or {})
    return Questions(tuple(facts), _rivals(facts, given), left_out, wordings_of(language), style, chosen)


def decoys_to_ask(
    facts: Sequence[FactToAsk], names: Mapping[str, Sequence[str]], most: int = AMONG
) -> tuple[FactToAsk, ...]:
    """A sample of decoys: the first of every fact, then the second of every one, and so on.

    The first ones of so many facts, and more until every fact can be ranked among so many that have the sides that it
    has (`comparable`). facts: in the order of their ids, which are hashes, so that the first are a random sample.
    names: fact -> its decoys. Each has the matches of its fact under its own name.
    """
    sides_of = {fact.fact_id: fact.matches.sides(LEAST_ROUNDS) for fact in facts}
    needed = {tuple(sorted(sides)) for sides in sides_of.values() if sides}
    found: Counter[tuple[bool, ...]] = Counter()
    chosen: list[FactToAsk] = []
    deepest = max((len(names.get(fact.fact_id, ())) for fact in facts), default=0)
    for place, fact in ((place, fact) for place in range(deepest) for fact in facts):
        own = names.get(fact.fact_id, ())
        if place >= len(own):
            continue
        serves = [sides for sides in needed if comparable(sides_of[fact.fact_id], sides)]
        if any(found[sides] < most for sides in serves) or (place == 0 and len(chosen) < most):
            found.update(serves)
            matches = fact.matches.of(f"{fact.fact_id}\n{own[place]}")
            chosen.append(replace(fact, object=own[place], decoy=own[place], open=(), matches=matches))
    return tuple(chosen)


def _rivals(facts: Sequence[FactToAsk], given: Sequence[GivenFact]) -> dict[Group, tuple[Rival, ...]]:
    """The objects of each subject and relation: those of the file where there is one, else those that are asked."""
    objects: dict[Group, dict[str, tuple[set[str], list[Period]]]] = defaultdict(dict)
    labels: dict[tuple[Group, str], str] = {}

    def members_of(group: Group, object: str) -> tuple[set[str], list[Period]]:
        label = labels.setdefault((group, name_key(object)), object)
        return objects[group].setdefault(label, (set(), []))

    for item in given:
        names, periods = members_of(group_of(item), item.fact.object)
        names.update({item.fact.object, *item.aliases})
        periods += item.periods
    for fact in facts:
        names, periods = members_of(fact.group, fact.object)
        names.add(fact.object)
        if not given:
            periods += fact.periods
    rivals = {}
    for group, members in objects.items():
        shared = Counter(key for names, _ in members.values() for key in set(map(name_key, names)))
        rivals[group] = tuple(
            Rival(label, tuple(sorted(name for name in names if shared[name_key(name)] == 1)), tuple(periods))
            for label, (names, periods) in members.items()
        )
    return rivals
