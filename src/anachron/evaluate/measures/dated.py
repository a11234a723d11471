"""Questions with a date about a replacement: is the new object true after the change, the old one still before it?

T is the date of change (`EditCase.start`), a day, a month or a year. A date that shares a day with T has no answer that
is surely true, so it is not asked: neither T nor the month or year around it. What is asked lies in one of two windows:

``past``
    from the later of the old object's start and ten years before T, up to the day before its end, or before T where its
    end is not known. A start or end that is no day leaves its own month or year undecided: the old object is surely
    true behind the one and before the other. Where the start is not known, nothing of the past is asked.
``present``
    from the day after T, up to the day before the new object's end, to ten years after T and to ``until`` at most, the
    last date that the data set knows of.

Of every calendar year that a window touches, up to three dates are asked: the year where the window holds all of it,
one of the months that it holds, and one of the days. So dates are spread evenly at each granularity, and those of finer
ones come close to T. Month and day are drawn by a hash of the seed, the update's id and the year, so other updates,
other windows and other machines change nothing. Every neighbour fact is asked on one date of each window, drawn the
same way, by its own prompt.

About each date an update is asked in up to three ways (`WAYS`), so that an edit is not judged by its own words alone:

``prompt``
    the edit's own prompt behind the date, as it is, in the present tense: only the date differs.
``paraphrase``
    one of the update's other prompts, drawn by the same hash for each date; about dates before T in the past tense,
    where the update has past wordings. (``In 2014, the capital of France was``.)
``question``
    a question in the past tense, as in TimeStress: of the update's own, else of this package's for its relation
    (`anachron.text.questions`). One is drawn for each update and serves all its dates, so only the date differs. The
    object stands behind it as behind a prompt, and as `anachron.probe` puts an answer in its raw format.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from anachron.core.dates import DAYS_A_YEAR, Date, Granularity, as_date, astronomical, days_in_month, historical
from anachron.core.draws import draw
from anachron.core.errors import ConfigError, DataError
from anachron.core.facts import REPLACEMENT
from anachron.data.updates.case_records import EditCase, NeighbourFact, numbered_neighbours
from anachron.data.updates.cases import CaseSet
from anachron.evaluate.measures.atoke import lasts_longer
from anachron.evaluate.measures.measure import Measure, Pair, Rows
from anachron.evaluate.results import (
    COUNT,
    DATE,
    FACT,
    NEIGHBOUR_KINDS,
    NUMBER,
    PAIR,
    TEXT,
    UPDATE,
    P,
)
from anachron.io.files import Json
from anachron.text.dates import dated_prompt
from anachron.text.kinds import subject_kind
from anachron.text.questions import draw_question, fill_question, relation_templates

YEARS = 10  # on either side of T
SIDES = ("past", "present")
WAYS = ("prompt", "paraphrase", "question")
NO_WAY = {
    "paraphrase": "no dates asked about in paraphrases: it has no other prompt",
    "question": "no dates asked about in questions: none is known",
}


@dataclass(frozen=True, slots=True)
class Dating:
    """until: the last date to be asked about, for new objects without an end; see `settled`. seed: of the draws.
    ways: how each date is asked about, of `WAYS`; see the module."""

    until: str | None = None
    seed: int = 0
    ways: tuple[str, ...] = WAYS

    def __post_init__(self) -> None:
        if self.until is not None:
            as_date(self.until)
        if unknown := [way for way in self.ways if way not in WAYS]:
            raise ConfigError(f"way {unknown[0]!r}: dates are asked about by {', '.join(WAYS)}")
        if not self.ways:
            raise ConfigError(f"no way to ask about dates is named; give at least one of {', '.join(WAYS)}")
        object.__setattr__(self, "ways", tuple(way for way in WAYS if way in self.ways))  # in one order, each once


@dataclass(frozen=True, slots=True)
class DatedQuestion:
    """One date to ask about. side: one of `SIDES`. distance: from T to it, midpoint to midpoint, in years."""

    granularity: Granularity
    time: str
    side: str
    distance: float

    def prompt(self, text: str, subject: str | None) -> str:
        return dated_prompt(text, as_date(self.time), subject or "")


def settled(dating: Dating, case_set: CaseSet) -> Dating:
    """With ``until`` filled in where it is not given: the latest date of change in the whole data set.

    A data set that knows of that change was made no earlier. Updates that a limit or a scenario leaves out count too,
    so that an update is asked about the same dates whichever others are judged with it. Of a set put together by hand
    it is the latest among its updates. Raises `DataError` where none of its updates can be asked with dates, by AToKe
    neither (`lasts_longer`).
    """
    cases = case_set.cases
    changes = [changed for case in cases if (changed := _changed(case)) is not None]
    changes = changes or [as_date(case.start) for case in cases if case.start and lasts_longer(case)]
    if not changes:
        raise DataError(
            f"none of {len(cases)} updates says when its new object took the place of an old one, so there are no "
            "dates to ask about; leave dated questions out, or give start and both objects"
        )
    if dating.until:
        return dating
    return replace(dating, until=case_set.latest_change or str(max(changes, key=lambda date: date.last_day)))


def has_change(case: EditCase) -> bool:
    """Whether dated questions can be asked about an update."""
    return bool(case.scenario == REPLACEMENT and case.start and case.new and case.old)


def _changed(case: EditCase) -> Date | None:
    """T of an update that dated questions can be asked about."""
    return as_date(case.start) if case.start and has_change(case) else None


def dated_questions(case: EditCase, dating: Dating) -> list[DatedQuestion]:
    """The dates that an update is asked about, in order; none without T or one of its objects. See the module."""
    changed = _changed(case)
    if changed is None:
        return []
    questions = []
    for side, window in zip(SIDES, (_past(case, changed), _present(case, changed, dating)), strict=True):
        for date in _dates(*window, f"{dating.seed}\n{case.case_id}"):
            distance = (date.midpoint - changed.midpoint) / DAYS_A_YEAR
            questions.append(DatedQuestion(date.granularity, str(date), side, distance))
    return questions


def ways_of(case: EditCase, dating: Dating) -> tuple[str, ...]:
    """The ways in which an update can be asked about dates: without other prompts, or a question, not in all."""
    known = {"prompt": True, "paraphrase": bool(case.generalization), "question": bool(_questions_of(case))}
    return tuple(way for way in dating.ways if known[way])


def worded(case: EditCase, question: DatedQuestion, dating: Dating) -> list[tuple[str, str]]:
    """Way and prompt, behind the date, of each way in which an update is asked about it."""
    return [
        (way, question.prompt(_wording(case, question, way, dating.seed), case.subject))
        for way in ways_of(case, dating)
    ]


def _wording(case: EditCase, question: DatedQuestion, way: str, seed: int) -> str:
    """What is asked behind the date."""
    if way == "prompt":
        return case.text
    if way == "question":
        questions = _questions_of(case)
        template = questions[draw_question(questions, case.case_id, seed)]
        return fill_question(template, case.subject, subject_kind(case.relation))
    past = question.side == "past" and case.past_generalization
    prompts = case.past_generalization if past else case.generalization
    return prompts[draw(seed, case.case_id, way, question.time) % len(prompts)]


def _questions_of(case: EditCase) -> tuple[str, ...]:
    """Templates of questions in the past tense: the update's own, else this package's for its relation, maybe none."""
    return case.question_templates or relation_templates().get(case.relation or "", ("", ()))[1]


def with_date(case: EditCase) -> EditCase:
    """The update with a date in its prompt, for a method that is to say one: ``On January 21, 2017, the head of ...``.

    It is the day after T, the first on which only the new object is surely true. Raises `DataError` for an update
    without T.
    """
    if not case.start:
        raise DataError(f"update {case.case_id} does not say when its new object became true; give start for a date")
    day = Date.from_day_number(as_date(case.start).last_day + 1)
    return replace(case, prompt=dated_prompt(case.prompt, day, case.subject))


def _past(case: EditCase, changed: Date) -> tuple[int, int]:
    """First and last day on which the old object is surely true; the last before the first where there is none."""
    last = changed.first_day - 1
    if case.old_end is not None:
        last = min(last, as_date(case.old_end).first_day - 1)
    if case.old_start is None:
        return last + 1, last
    start = as_date(case.old_start)
    first = start.first_day if start.granularity == "day" else start.last_day + 1
    return max(first, _years_later(changed, -YEARS).first_day), last


def _present(case: EditCase, changed: Date, dating: Dating) -> tuple[int, int]:
    """The same of the new object."""
    ends = [_years_later(changed, YEARS).last_day]
    if case.end is not None:
        ends.append(as_date(case.end).first_day - 1)
    if dating.until is not None:
        ends.append(as_date(dating.until).last_day)
    return changed.last_day + 1, min(ends)


def _years_later(date: Date, years: int) -> Date:
    """The same date some years on; 29 February may become the 28th."""
    year = historical(astronomical(date.year) + years)
    if date.month is None or date.day is None:
        return Date(year, date.month)
    return Date(year, date.month, min(date.day, days_in_month(year, date.month)))


def _dates(first: int, last: int, key: str) -> Iterator[Date]:
    """Per calendar year of a window of days: the year, a month and a day, each where the window holds one."""
    if last < first:
        return
    begin, end = (astronomical(Date.from_day_number(day).year) for day in (first, last))
    for year in map(historical, range(begin, end + 1)):
        whole = Date(year)
        if first <= whole.first_day and whole.last_day <= last:
            yield whole
        months = [Date(year, month) for month in range(1, 13)]
        inside = [month for month in months if first <= month.first_day and month.last_day <= last]
        if inside:
            yield inside[draw(key, year, "month") % len(inside)]
        start, stop = max(first, whole.first_day), min(last, whole.last_day)
        yield Date.from_day_number(start + draw(key, year, "day") % (stop - start + 1))


def asked_neighbours(
    case: EditCase, questions: Sequence[DatedQuestion], dating: Dating
) -> Iterator[tuple[str, int, NeighbourFact, DatedQuestion]]:
    """Kind, number, fact and date of each neighbour: one date of each side that the update is asked about."""
    sides = [[q for q in questions if q.side == side] for side in SIDES]
    for kind, number, fact in numbered_neighbours(case):
        for side, dates in zip(SIDES, sides, strict=True):
            if dates:
                place = draw(dating.seed, case.case_id, kind, number, side) % len(dates)
                yield kind, number, fact, dates[place]


def dated_pairs(case: EditCase, dating: Dating) -> list[Pair]:
    """All (prompt, object) pairs that the dated questions about an update take."""
    prompts = [prompt for q in dated_questions(case, dating) for _, prompt in worded(case, q, dating)]
    return [(prompt, o) for prompt in prompts for o in (case.new, case.old) if o]


def dated_neighbour_pairs(case: EditCase, dating: Dating) -> list[Pair]:
    """The same of its neighbours."""
    asked = asked_neighbours(case, dated_questions(case, dating), dating)
    return [(q.prompt(fact.prompt, fact.subject), o) for _, _, fact, q in asked for o in fact.objects]


def dated_rows(case: EditCase, dating: Dating, p: Mapping[Pair, float]) -> Rows:
    """What a model answers: a row a date and way with p of the new and the old object.

    p: of each of `dated_pairs`, 0 to 1.
    """
    return [
        {"way": way, **asdict(q), "new": p[prompt, case.new or ""], "old": p[prompt, case.old or ""]}
        for q in dated_questions(case, dating)
        for way, prompt in worded(case, q, dating)
    ]


def dated_neighbour_rows(case: EditCase, dating: Dating, p: Mapping[Pair, float]) -> Rows:
    """The same of neighbours, a row a fact and date; one with several true objects counts with the mean of their p."""
    rows: Rows = []
    for kind, number, fact, q in asked_neighbours(case, dated_questions(case, dating), dating):
        prompt = q.prompt(fact.prompt, fact.subject)
        mean = sum(p[prompt, o] for o in fact.objects) / len(fact.objects)
        rows.append({"kind": kind, "number": number, **asdict(q), "p": mean})
    return rows


def ends_unknown(cases: Sequence[EditCase], dating: Dating) -> int:
    """How many updates are asked about their past up to the change, as nothing says when their old object ended."""
    open_ended = [case for case in cases if case.old_end is None]
    return sum(any(question.side == "past" for question in dated_questions(case, dating)) for case in open_ended)


def past_wordings_unknown(cases: Sequence[EditCase], dating: Dating) -> int:
    """How many updates are asked about their past in paraphrases in the present tense, as no past wording is known."""
    present = [c for c in cases if "paraphrase" in ways_of(c, dating) and not c.past_generalization]
    return sum(any(question.side == "past" for question in dated_questions(case, dating)) for case in present)


def not_asked(cases: Sequence[EditCase], dating: Dating) -> dict[str, int]:
    """How many updates have no dated questions, or none on one side or in one way, by reason; only those that occur."""
    reasons: Counter[str] = Counter()
    for case in cases:
        if case.scenario != REPLACEMENT:
            reasons["no dated questions: not a replacement"] += 1
        elif not case.start:
            reasons["no dated questions: the date of change is not known"] += 1
        elif _changed(case) is None:
            reasons["no dated questions: new or old object is not known"] += 1
        else:
            sides = {question.side for question in dated_questions(case, dating)}
            if "past" not in sides:
                unknown = case.old_start is None
                reasons[f"nothing asked before the change: {'start not known' if unknown else 'no room'}"] += 1
            if "present" not in sides:
                reasons["nothing asked after the change: no room before the end, or the last date known"] += 1
            if sides:
                able = ways_of(case, dating)
                reasons.update(NO_WAY[way] for way in dating.ways if way not in able)
    return dict(reasons)


def _about(cases: Sequence[EditCase], dating: Dating | None) -> Json:
    if dating is None:
        return {"not_asked": {}, "old_ends_unknown": 0, "past_wordings_unknown": 0}
    return {
        "not_asked": not_asked(cases, dating),
        "old_ends_unknown": ends_unknown(cases, dating),
        "past_wordings_unknown": past_wordings_unknown(cases, dating),
    }


# One row per date that an update is asked about and way of asking, one of `WAYS`; null is the update prompt, which all
# were before tables said so. side: past or present. distance: years from T to it, below 0 before.
DATED = Measure(
    name="dated",
    entry={"way": TEXT, **DATE, "new": NUMBER, "old": NUMBER},
    how=lambda measures: measures.dated,
    pairs=dated_pairs,
    rows=lambda case, dating, scores: dated_rows(case, dating, scores.p),
    about=_about,
    unasked=True,
    table={**UPDATE, "way": TEXT, **DATE, **PAIR},
    keys=("way", "time"),
    known={"way": WAYS, "side": SIDES},
    before={"way": WAYS[0]},
)
# One row per neighbour fact and date that it is asked about: p of its true object behind that date.
DATED_NEIGHBOURS = Measure(
    name="dated_neighbours",
    entry={"kind": TEXT, "number": COUNT, **DATE, "p": NUMBER},
    how=lambda measures: measures.dated,
    pairs=dated_neighbour_pairs,
    rows=lambda case, dating, scores: dated_neighbour_rows(case, dating, scores.p),
    unasked=True,
    table={**FACT, **DATE, **P},
    keys=("kind", "number", "time"),
    known={"kind": NEIGHBOUR_KINDS, "side": SIDES},
)
