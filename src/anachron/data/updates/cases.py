"""Update data sets, read into plain records, from files, the hub or the package.

They are of WikiFactDiff, CounterFact, zsRE, RippleEdits, MQuAKE, AToKe, WikiBigEdit and UltraEditBench, or tables of
old and new objects.

The format is recognised by the fields of the records, never by the name of the file. A record that breaks its format
is refused with its number; one that follows it but cannot be an update (its subject is not in its prompt, its target is
empty) is kept, and an evaluation says so.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path

import polars as pl

from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.core.facts import SCENARIOS
from anachron.core.sameness import name_key, same_name
from anachron.data.loaders import read_hub
from anachron.data.own.files import ENDINGS as TABLE_ENDINGS
from anachron.data.own.files import column_names
from anachron.data.updates.case_atoke import REQUIRED as ATOKE_REQUIRED
from anachron.data.updates.case_atoke import atoke_case, atoke_start, atoke_steps, is_atoke
from anachron.data.updates.case_lifelong import (
    ULTRAEDITBENCH_REQUIRED,
    WIKIBIGEDIT_REQUIRED,
    ultraeditbench_case,
    wikibigedit_case,
)
from anachron.data.updates.case_mquake import MQUAKE_REQUIRED, mquake_case
from anachron.data.updates.case_records import EditCase, NeighbourFact, Part
from anachron.data.updates.case_requests import counterfact_case, counterfact_start, flat_case, is_nq, zsre_case
from anachron.data.updates.case_ripple import RIPPLE_REQUIRED, ripple_case
from anachron.data.updates.case_table import NEEDED, UNCHANGED, CaseTable, known_columns, read_case_table
from anachron.data.updates.case_wikifactdiff import REQUIRED, update_case, update_scenario, update_start
from anachron.io.files import Json, iterate_jsonl, read_json, rows_fingerprint
from anachron.io.tables import read_table, refuse_halves

MINI_UPDATES = "mini-updates"
ENDINGS = (".json", ".jsonl", ".ndjson", ".parquet")
DRAWN = 10  # random facts of a case, where the file brings none
BEYOND_LIMIT = "beyond the limit"  # a reason to be left out
_SLICE = 1000  # rows of a table that are Python objects at a time


@dataclass(frozen=True)
class CaseSet:
    """The updates of a data set, in its order, and how many were left out and why.

    latest_change: the latest date of a change in the whole data set, of what was left out too; None where no update
    says its date, or nobody looked (a set that is put together by hand). notes: what was noticed in a table.
    """

    name: str
    format: str  # wikifactdiff, counterfact, zsre, rippleedits, mquake, atoke, wikibigedit or ultraeditbench
    cases: tuple[EditCase, ...]
    left_out: dict[str, int] = field(default_factory=dict)
    latest_change: str | None = None
    notes: tuple[str, ...] = ()

    def fingerprint(self) -> str:
        """SHA-256 of the updates themselves: the same for the same content in any file format."""
        return rows_fingerprint(_row(case) for case in self.cases)


@dataclass(frozen=True, slots=True)
class UpdateFormat:
    """A shape of records: the field that none of the others has, and all that every record must have.

    start: reads the date of change of a record, where it says one. beside: names of formats whose mark its records
    have too.
    """

    name: str
    about: str
    mark: str
    required: tuple[str, ...]
    case: Callable[[Part, str], EditCase]
    start: Callable[[Part], str | None] = lambda record: None
    beside: tuple[str, ...] = ()


_WIKIFACTDIFF = UpdateFormat("wikifactdiff", "WikiFactDiff", "update_prompt", REQUIRED, update_case, update_start)
_COUNTERFACT = UpdateFormat(
    "counterfact", "CounterFact", "requested_rewrite",
    ("requested_rewrite", "paraphrase_prompts", "neighborhood_prompts"), counterfact_case,
    counterfact_start,
)  # fmt: skip
_ZSRE = UpdateFormat(
    "zsre", "zsRE", "src", ("subject", "src", "rephrase", "alt", "answers", "loc", "loc_ans"), zsre_case,
    beside=("ultraeditbench",),
)  # fmt: skip
_FLAT = UpdateFormat("flat", "EasyEdit's flat format", "prompt", ("subject", "prompt", "target_new"), flat_case)
_RIPPLE = UpdateFormat("rippleedits", "RippleEdits", "edit", RIPPLE_REQUIRED, ripple_case)
_MQUAKE = UpdateFormat("mquake", "MQuAKE", "new_answer", MQUAKE_REQUIRED, mquake_case, beside=("counterfact",))
_ATOKE = UpdateFormat("atoke", "AToKe", "requested_rewrite", ATOKE_REQUIRED, atoke_case, atoke_start)
_WIKIBIGEDIT = UpdateFormat(
    "wikibigedit", "WikiBigEdit", "update", WIKIBIGEDIT_REQUIRED, wikibigedit_case, beside=("ultraeditbench",)
)
_ULTRAEDITBENCH = UpdateFormat(
    "ultraeditbench", "UltraEditBench", "ans", ULTRAEDITBENCH_REQUIRED, ultraeditbench_case, beside=("flat",)
)
_LATER = ("aliases", "tests", "rewrites", "timed_prompts", "past_generalization")  # fields that came after fingerprints
FORMATS = (_WIKIFACTDIFF, _COUNTERFACT, _ZSRE, _FLAT, _RIPPLE, _MQUAKE, _WIKIBIGEDIT, _ULTRAEDITBENCH)
_COMMON = (_FLAT, _WIKIBIGEDIT, _ULTRAEDITBENCH)  # whose marks are words that a user's own table may have as well


def load_cases(
    name: str, *, split: str | None = None, revision: str | None = None,
    scenario: str | Sequence[str] | None = "ReplaceObject", limit: int | None = None, seed: int = 0,
) -> CaseSet:  # fmt: skip
    """Load and check the updates of a data set.

    name: a file (.json with a list of records, .jsonl, .ndjson, .parquet) of WikiFactDiff, CounterFact, zsRE,
        RippleEdits, MQuAKE, AToKe, WikiBigEdit or UltraEditBench, or a table of old and new objects (also .csv, .tsv, a
        spreadsheet; see `anachron.data.updates.case_table`), of which rows that change nothing are left out; the
        bundled ``mini-updates``; or a hub name such as ``Orange/WikiFactDiff``, which needs ``anachron[hub]``.
    split, revision: of a hub data set.
    scenario: keep the updates of this one, or these (`anachron.core.facts.SCENARIOS`); None keeps all. Only
        WikiFactDiff knows others than replacements.
    limit: keep the first so many of these.
    seed: of the random facts, for WikiFactDiff files without ``random_neighborhood``, as the published ones are: up to
        `DRAWN` a case, uniformly from the distinct nearest facts of all updates of the scenario, whatever the limit,
        none about the case's own subject (WikiFactDiff, footnote 5).

    Raises `DataError` naming the record, value, rule and fix of the first thing that is wrong.
    """
    wanted = SCENARIOS if scenario is None else (scenario,) if isinstance(scenario, str) else tuple(scenario)
    if not wanted:
        raise ConfigError(f"no scenario is named; give at least one of {', '.join(SCENARIOS)}")
    if unknown := [one for one in wanted if one not in SCENARIOS]:
        raise ConfigError(f"unknown scenario {unknown[0]!r}; use one of {', '.join(SCENARIOS)}, or none for all")
    if limit is not None and limit < 1:
        raise ConfigError(f"limit {limit}: at least one update must be kept; give 1 or more, or leave it out")
    reading = _Reading(name, wanted)
    records, table = _opened(name, split, revision)
    for number, row in enumerate(records, 1):
        if number in table.unchanged:
            continue
        try:
            for step in atoke_steps(row, number):
                reading.add(number, step)
        except DataError as error:
            raise DataError(f"{name}, {error}") from None
    cases = with_successions(reading.finished())
    kept = cases[:limit]
    if reading.form is _WIKIFACTDIFF and not reading.drawn:
        kept = [replace(case, random=facts) for case, facts in zip(kept, draw_random(cases, limit, seed), strict=True)]
    left_out = {UNCHANGED: len(table.unchanged)} if table.unchanged else {}
    left_out |= {f"scenario {other}": count for other, count in reading.others.items()}
    if len(kept) < len(cases):
        left_out[BEYOND_LIMIT] = len(cases) - len(kept)
    return CaseSet(name, reading.format, tuple(kept), left_out, reading.latest_change, table.notes)


def select_records(
    name: str, case_ids: Iterable[str], *, split: str | None = None, revision: str | None = None
) -> list[Json]:
    """The records of a data set that hold updates of these ids, as they stand there, in their order.

    name, split, revision: as of `load_cases`, which has read and checked them. A record without an id has its place,
    counted from 0.
    """
    wanted, kept = set(case_ids), []
    for number, row in enumerate(_opened(name, split, revision)[0], 1):
        record = Part(row, f"record {number}").record()
        ids = [step.get("case_id") for step in atoke_steps(row, number)]
        if wanted & {str(number - 1 if id is None else id) for id in ids}:
            kept.append(record)
    return kept


def with_successions(cases: Sequence[EditCase]) -> list[EditCase]:
    """With ``old_end`` where it is not given and the replacements of the subject and relation say it together.

    It is the first date, after the old object's start and before the change, on which another object took its place:
    Boris Johnson, replaced by Rishi Sunak in October 2022, ended in September, if another update has Liz Truss then.
    """
    begun: dict[tuple[str, str], list[tuple[Date, str]]] = {}
    for case in cases:
        for label, start in ((case.new, case.start), (case.old, case.old_start)):
            if case.scenario == "ReplaceObject" and case.relation and label and start:
                begun.setdefault((name_key(case.subject), case.relation), []).append((Date.parse(start), label))
    return [_with_old_end(case, begun.get((name_key(case.subject), case.relation or ""), [])) for case in cases]


def _with_old_end(case: EditCase, begun: Sequence[tuple[Date, str]]) -> EditCase:
    if case.scenario != "ReplaceObject" or case.old_end or not (case.old and case.old_start and case.start):
        return case
    after, before = Date.parse(case.old_start).last_day, Date.parse(case.start).first_day
    between = [(date, label) for date, label in begun if after < date.first_day and date.last_day < before]
    others = [date for date, label in between if not same_name(label, case.old)]
    return replace(case, old_end=str(min(others, key=lambda date: date.first_day))) if others else case


class _Reading:
    """What has been read of a file so far: each record must agree with those before it."""

    def __init__(self, name: str, scenarios: Sequence[str]) -> None:
        self.name, self.scenarios = name, scenarios
        self.form: UpdateFormat | None = None
        self.drawn: bool | None = None  # whether the file brings random facts
        self.nq: bool | None = None
        self.cases: list[EditCase] = []
        self.others: Counter[str] = Counter()
        self.ids: dict[str, int] = {}
        self.given: bool | None = None  # whether the file numbers its records
        self.latest: Date | None = None  # date of change, whatever the scenario

    def add(self, number: int, row: object) -> None:
        record = Part(row, f"record {number}")
        form = _recognised(record)
        self.form = self.form or form
        if form is not self.form:
            raise DataError(
                f"record {number} is {form.about} ({form.mark}), the first record {self.form.about} "
                f"({self.form.mark}); a file holds one format, so split it"
            )
        id = self._id(number, record)
        record = Part(row, f"record {number} (case_id {id})")
        scenario = update_scenario(record) if form is _WIKIFACTDIFF else "ReplaceObject"
        if scenario not in self.scenarios:
            self.others[scenario] += 1
            self._date(form.start(record))
            return
        self._agree(record)
        self.cases.append(form.case(record, id))
        self._date(self.cases[-1].start)

    def _id(self, number: int, record: Part) -> str:
        """As given; else the place counted from 0, as the published code counts."""
        part = record.get("case_id")
        given = part.value is not None
        if self.given not in (None, given):
            raise part.wrong("give every record a case_id, or none")
        self.given = given
        if not isinstance(part.value, int | str | None) or isinstance(part.value, bool) or part.value == "":
            raise part.wrong("it must be a whole number or a text")
        id = str(part.value) if given else str(number - 1)
        if id in self.ids:
            raise part.wrong(f"record {self.ids[id]} has it too; give each its own")
        self.ids[id] = number
        return id

    def _date(self, change: str | None) -> None:
        date = None if change is None else Date.parse(change)
        if date is not None and (self.latest is None or date.last_day > self.latest.last_day):
            self.latest = date

    @property
    def latest_change(self) -> str | None:
        return None if self.latest is None else str(self.latest)

    def _agree(self, record: Part) -> None:
        if self.form is _WIKIFACTDIFF:
            drawn = record.get("random_neighborhood")
            brings = drawn.value is not None
            if self.drawn not in (None, brings):
                raise drawn.wrong("give every update its random facts (an empty list where it has none), or none")
            self.drawn = brings
        elif self.form is _FLAT:
            nq = is_nq(record)
            if None not in (nq, self.nq) and nq != self.nq:
                raise record.get("locality_prompt").wrong(
                    "other records are of CounterFact and these of zsRE, or the other way round; split the file"
                )
            self.nq = self.nq if nq is None else nq

    @property
    def format(self) -> str:
        """Flat records are of zsRE where their neighbours are questions of Natural Questions, else of CounterFact."""
        assert self.form is not None
        return self.form.name if self.form is not _FLAT else ("zsre" if self.nq else "counterfact")

    def finished(self) -> list[EditCase]:
        if self.form is None:
            raise DataError(f"{self.name} has no records (in a stale.json: nothing is stale); give at least one update")
        if not self.cases:
            others = ", ".join(f"{name} {count}" for name, count in sorted(self.others.items()))
            wanted = " or ".join(self.scenarios)
            raise DataError(f"{self.name} has no update of the scenario {wanted}, only {others}; choose another")
        return self.cases


def _recognised(record: Part) -> UpdateFormat:
    """The one format that a record has the mark of and all fields of."""
    row = record.record()
    if is_atoke(row):  # it shares the mark of CounterFact
        return _ATOKE
    forms = [form for form in FORMATS if row.get(form.mark) is not None]
    forms = [form for form in forms if not any(form.name in other.beside for other in forms)]
    if len(forms) > 1:
        raise DataError(
            f"{record.where} has fields of {' and of '.join(f'{form.about} ({form.mark})' for form in forms)}; keep one"
        )
    if not forms:
        known = "; ".join(f"{form.about}: {', '.join(form.required)}" for form in FORMATS)
        known += f"; a table of old and new objects: {NEEDED}"
        raise DataError(
            f"{record.where} has the fields {', '.join(map(str, row)) or 'of no format'}, which is not a known "
            f"kind of update; give those of one of {known}"
        )
    missing = [name for name in forms[0].required if name not in row]
    if missing:
        raise DataError(
            f"{record.where} has the field {forms[0].mark} of {forms[0].about} but lacks {', '.join(missing)}; give "
            "them all (null where nothing is known)"
        )
    return forms[0]


def draw_random(cases: list[EditCase], limit: int | None, seed: int) -> Iterator[tuple[NeighbourFact, ...]]:
    """For each of the first ``limit`` cases, up to `DRAWN` of the facts nearest to any case, none about its subject.

    Each distinct fact (subject, prompt and objects) is drawn with the same chance. What a case gets depends on the
    facts, its id and the seed alone.
    """
    distinct: dict[tuple[str | None, str, tuple[str, ...]], NeighbourFact] = {}
    for case in cases:
        for fact in case.nearest:
            distinct.setdefault((fact.subject, fact.prompt, fact.objects), fact)
    facts = list(distinct.values())
    subjects = [None if fact.subject is None else name_key(fact.subject) for fact in facts]
    of_subject = Counter(subjects)
    for case in cases[:limit]:
        own = name_key(case.subject)
        enough = min(len(facts), DRAWN + of_subject[own])  # that many hold DRAWN about others, if there are
        places = random.Random(f"{seed}\n{case.case_id}").sample(range(len(facts)), enough)
        others = [facts[place] for place in places if subjects[place] != own]
        yield tuple(replace(fact, dist=None) for fact in others[:DRAWN])


def _opened(name: str, split: str | None, revision: str | None) -> tuple[Iterable[object], CaseTable]:
    """The records of a data set; and where it is a table of old and new objects, that."""
    if split or revision or not _is_table(name):
        return _records(name, split, revision), CaseTable(())
    table = read_case_table(name)
    return table.records, table


def _is_table(name: str) -> bool:
    """Whether a file holds a table of old and new objects: it has the ending of one, or records without the mark of any
    format. EasyEdit's flat records, which have a prompt as well, say ``target_new``; none of those of `_COMMON` has a
    column that means the new object otherwise. One of both objects is enough, so that it is said that the other is
    missing."""
    suffix = Path(name).suffix.casefold()
    if suffix not in ENDINGS:
        return suffix in TABLE_ENDINGS
    marks = {form.mark for form in FORMATS if form not in _COMMON} | {"target_new"}
    return marks.isdisjoint(column_names(name)) and not {"old", "new"}.isdisjoint(known_columns(name))


def _records(name: str, split: str | None, revision: str | None) -> Iterable[object]:
    path, suffix = Path(name), Path(name).suffix.casefold()
    local = path.is_file() or suffix in TABLE_ENDINGS
    if (local or name == MINI_UPDATES) and (split or revision):
        raise ConfigError(f"{name} is not a hub data set, so it has no split and no revision; leave them out")
    if name == MINI_UPDATES:
        return _rows(import_module("anachron.data.bundled.mini_updates").mini_updates())  # a large table that few need
    if not local:
        return _rows(read_hub(name, split, revision, (MINI_UPDATES,)))
    if suffix not in ENDINGS:
        endings = ", ".join(dict.fromkeys((*ENDINGS, *TABLE_ENDINGS)))
        raise DataError(f"{name}: updates cannot be read from {path.suffix or 'this'}; use {endings}")
    if suffix == ".parquet":
        return _rows(read_table(path))
    if path.is_file():
        refuse_halves(path, path)
    if suffix != ".json":
        return iterate_jsonl(path)
    content = read_json(path)
    if not isinstance(content, list):
        raise DataError(f"{name} holds one {type(content).__name__}, not a list of records; write [record, record]")
    return content


def _rows(table: pl.DataFrame) -> Iterator[Json]:
    """Row by row: nested rows of a large set are many times larger as Python objects than as a table."""
    for part in table.iter_slices(_SLICE):
        yield from part.iter_rows(named=True)


def _row(case: EditCase) -> list[object]:
    row: list[object] = []
    for name in (item.name for item in fields(case)):
        value = getattr(case, name)
        if name in _LATER and not value:  # sets that have none keep the fingerprint of before there were any
            continue
        if name == "relation_label":  # what people call a relation changes nothing that is asked
            continue
        if name in ("nearest", "random"):
            value = [[fact.prompt, fact.objects, fact.dist, fact.popularity, fact.subject] for fact in value]
        if name in ("tests", "rewrites"):
            value = [astuple(one) for one in value]
        row.append(value)
    return row
