"""Updates in a table of old and new objects, one a row: CSV and its relatives, a spreadsheet, JSON or Parquet.

Columns are ``subject, old, new`` and ``prompt`` or ``relation``, and where known those others of
`anachron.data.own.columns.UPDATES_KNOWN`, by these names or by words of five languages. A row becomes a record in the
columns of WikiFactDiff (`anachron.data.updates.case_wikifactdiff`), so whatever takes an update takes it. What a row
does not bring is bundled: the wordings of its relation, and facts that must be left alone (``neighbours``, which JSON
and Parquet have room for: `NEIGHBOUR`).
"""

import random
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anachron.core.errors import DataError
from anachron.core.facts import REPLACEMENT, Fact
from anachron.core.sameness import name_key, same_name
from anachron.data.own.columns import UPDATES_KNOWN, canonical, names_by_id, update_columns
from anachron.data.own.dates import Order, is_no_end, needs_order, read_end, read_start
from anachron.data.own.faults import Fault, refuse
from anachron.data.own.files import column_names, read_rows
from anachron.data.own.notices import Notices
from anachron.data.own.rows import cell_names, cell_text, formula_fault, is_missing, order_of_dates
from anachron.data.updates.bundled_facts import bundled_facts, facts_of_relation, statement_of
from anachron.data.updates.case_records import SLOT, Part
from anachron.io.files import Json
from anachron.io.stores import Place
from anachron.text.articles import in_sentence
from anachron.text.cloze import BLANK, bundled_cloze, cloze_prompt_text
from anachron.text.kinds import subject_kind
from anachron.text.languages import SHORT_NAMES, language_of
from anachron.text.openings import guessed_language, mention
from anachron.text.questions import SUBJECT_SLOT, question_fault, relation_templates
from anachron.text.roles import role_of, role_questions

NEEDED = "subject, old, new, and prompt or relation"
STALE_COLUMNS = (
    "subject", "relation", "question", "old", "new", "date", "old_start", "old_end", "relation_id", "aliases",
)  # fmt: skip
NEIGHBOUR = "subject, objects (a name, or a list of the true ones), and prompt or question if the relation has no words"
UNCHANGED = "nothing to change"  # a reason to be left out
BESIDE = 10  # nearest and random facts of an update, as in the published data (WikiFactDiff, section A.4)
_SIDES = ("subject", "old", "new")
_DATES = ("date", "old_start", "old_end")
_BLANK_AT_END = re.compile(r"\s*__+\s*$")  # however long


@dataclass(frozen=True)
class CaseTable:
    """records: one a row. unchanged: the numbers, from 1, of those whose new object is the old one. notes: what the
    reader of the file should know."""

    records: tuple[Json, ...]
    unchanged: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()


def known_columns(path: Place | str) -> Collection[str]:
    """What the header of a file, or its first object, names of `UPDATES_KNOWN`; nothing where two columns mean one."""
    try:
        return update_columns(column_names(path)).keys()
    except DataError:
        return ()


def read_case_table(path: Place | str) -> CaseTable:
    """The updates of a file of `anachron.data.own.files.ENDINGS`. Raises `DataError` naming the file, and all that is
    wrong by row, column, value, rule and fix."""
    read = read_rows(path)
    # of the options that read files of facts, commands that take updates have none
    notes = [note.replace("; --sheet reads another", "; put first the one that is meant") for note in read.notes]
    try:
        table = case_table(read.columns, read.rows)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return replace(table, notes=(*notes, *table.notes))


def case_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> CaseTable:
    """The updates of some rows of named values (texts, numbers, dates, lists; None for an empty cell)."""
    names = update_columns(columns)
    missing = [name for name in _SIDES if name not in names]
    missing += [] if {"prompt", "relation", "relation_id", "question"} & names.keys() else ["prompt or relation"]
    if missing:
        raise DataError(
            f"the table lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; one of updates needs "
            f"{NEEDED}, and the header of this one is {', '.join(columns)}; of facts, check writes what is stale as "
            "stale.csv, which is one"
        )
    if not rows:
        stale = tuple(columns) == STALE_COLUMNS
        raise DataError(f"no updates: {'nothing is stale' if stale else 'there are no rows; give one for each'}")
    notices = Notices()
    if meant := [f"{column!r} as {known}" for known, column in names.items() if canonical(column) != known]:
        notices.add("columns", f"columns are read by what they mean: {', '.join(meant)}")
    order = order_of_dates([row.get(names[one]) for row in rows for one in _DATES if one in names], notices)
    faults: list[Fault] = []
    read: dict[int, tuple[dict[str, Any], Json]] = {}  # number of a row -> its values, how it is worded and judged
    for number, row in enumerate(rows, 1):
        given = {known: row.get(names[known]) if known in names else None for known in UPDATES_KNOWN}
        wrong, values = _values(given, number, order, notices)
        try:
            if not wrong:
                read[number] = values, _worded(values) | {"neighborhood": _own_neighbours(values)}
        except DataError as error:
            wrong = [Fault(number, "", str(error))]
        faults += wrong
    refuse([*faults, *_conflicts(read)])
    unchanged = frozenset(number for number, (values, _) in read.items() if is_unchanged(values))
    if len(unchanged) == len(read):
        raise DataError(
            f"no updates: in each row ({len(read):,}) the new object is the old one or another name of it, {UNCHANGED}"
        )
    subjects = {name_key(values["subject"]) for values, _ in read.values()}
    return CaseTable(tuple(_records(read.values(), subjects)), unchanged, notices.told())


def _values(
    given: Mapping[str, Any], number: int, order: Order | None, notices: Notices
) -> tuple[list[Fault], dict[str, Any]]:
    """What is wrong with the cells of a row, and what they say: texts, dates in their usual form, names as a tuple."""
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    for column, value in given.items():
        try:
            if broken := formula_fault(value):
                raise DataError(broken)
            if column in _DATES:
                values[column] = _date(value, column, order)
            elif column == "aliases":
                values[column] = cell_names(value, number, notices)
            elif column == "neighbours":
                values[column] = _neighbour_cells(value)
            else:
                values[column] = cell_text(value, "object" if column in _SIDES else column)  # which must not be empty
            if column in _SIDES and names_by_id(values[column]):
                raise DataError(f"{value!r} is an id, not a name; give the label in words")
        except DataError as error:
            faults.append(Fault(number, column, str(error)))
    return faults, values


def _date(value: Any, column: str, order: Order | None) -> str | None:
    if is_missing(value):
        return None
    if order is None and needs_order(value):
        raise DataError(f"{value!r} may have the day or the month first; write the year first, such as 2009-01-20")
    date = read_end(value, order) if column == "old_end" else read_start(value, order)
    return None if column == "old_end" and is_no_end(date) else str(date)


def _neighbour_cells(value: Any) -> list[Json]:
    """The facts that a row brings. Raises `DataError` for one that lacks what `NEIGHBOUR` names."""
    facts = []
    for part in Part(value, f"each needs {NEIGHBOUR}", "neighbours").items():
        texts = {name: part.get(name).label() or None for name in ("prompt", "question")}
        objects = part.get("objects").labels()
        if not objects:
            raise part.get("objects").wrong("give at least one true object")
        facts.append({"subject": part.get("subject").some_label(), "objects": objects, **texts})
    return facts


def is_unchanged(values: Mapping[str, Any]) -> bool:
    """Whether the ``old`` object is the ``new`` one, or one of its ``aliases``."""
    return any(same_name(values["old"], name) for name in (values["new"], *values["aliases"]))


def _worded(row: Mapping[str, Any]) -> Json:
    """The prompts and questions of a row, and the id and label of its relation, in the columns of WikiFactDiff.

    The update prompt is the row's own, else the first statement of its relation, else the row's question, or one by the
    relation's own words. The relation's other statements are generalization prompts. A question beside a prompt is in
    the past tense, to be asked with dates. Raises `DataError` where nothing can be asked, or not as it is written.
    """
    subject, english, label = row["subject"], language_of("en"), row["relation"] or row["relation_id"] or ""
    # a check in Spanish asks for the "capital" in Spanish, not by our English statements
    foreign = row["question"] and guessed_language([row["question"]]) not in (None, english.name)
    relation = None if foreign else _relation_id(row["relation_id"], label)
    own = row["prompt"] and _own_prompt(row["prompt"], subject)
    pairs: list[tuple[str, str]] = []  # statements in the present and the past tense
    templates: tuple[str, ...] = ()
    if relation is not None:
        known, kind = bundled_cloze()[relation], subject_kind(relation)
        tenses = ([cloze_prompt_text(t, subject, kind=kind) for t in of] for of in (known.templates, known.past))
        pairs, templates = list(zip(*tenses, strict=True)), relation_templates().get(relation, ("", ()))[1]
        label = known.label if label == relation else label
    else:
        own = own or (row["question"] and f"{row['question']} {BLANK}")
        named = role_questions(role_of(row["relation"] or "", subject))
        if named is not None:
            present, past = (f"{english.question(one, subject)} {BLANK}" for one in (named.present, named.past))
            pairs, templates = [(present, past)], (named.past,)
    if not own and not pairs:
        raise DataError(
            f"{label!r} is no relation that can be worded; give a column prompt: 'The capital of France is'"
        )
    own = own or pairs[0][0]
    pairs = [pair for pair in pairs if name_key(pair[0]) != name_key(own)]
    if row["prompt"] and row["question"]:
        templates = (_template(row, subject_kind(relation)),)
    return {
        "relation": {"id": relation or row["relation_id"], "label": label or None}, "update_prompt": own,
        "generalization_prompts": [present for present, _ in pairs],
        "past_generalization_prompts": [past for _, past in pairs], "question_templates": list(templates),
    }  # fmt: skip


def _relation_id(given: str | None, label: str) -> str | None:
    """The id under which a relation has bundled statements: its own, or that of the relation of this label."""
    if given or label in bundled_cloze():
        return label if not given else given if given in bundled_cloze() else None
    wanted = SHORT_NAMES.get(name_key(label), name_key(label))
    return next((id for id, known in bundled_cloze().items() if name_key(known.label) == wanted), None)


def _own_neighbours(row: Mapping[str, Any]) -> list[Json]:
    """The facts that a row brings, each asked by its own prompt, else as an update of the row's relation would be."""
    found = []
    for fact in row["neighbours"]:
        asked_by = {**row, **fact, "question": None if fact["prompt"] else fact["question"]}
        try:
            prompt = _worded(asked_by)["update_prompt"]
        except DataError as error:
            raise DataError(f"its neighbour {fact['subject']!r}: {error}") from None
        asked = [{"object": {"label": label}, "prompt": prompt} for label in fact["objects"]]
        found.append({"subject": {"label": fact["subject"]}, "dist": None, "objects": asked})
    return found


def _own_prompt(prompt: str, subject: str) -> str:
    """A prompt as it is given, with the subject in its place and one blank at its end."""
    text = _BLANK_AT_END.sub("", prompt.replace(SLOT, subject, 1))
    if SLOT in text or "__" in text:
        raise DataError(f"{prompt!r} holds {SLOT} twice, or a blank that is not at its end; leave that out")
    if mention(text, subject) is None:
        raise DataError(f"{prompt!r} does not name its subject {subject!r}; write it there, or {SLOT} in its place")
    return f"{text} {BLANK}"


def _template(row: Mapping[str, Any], kind: str | None) -> str:
    """The question of a row with `SUBJECT_SLOT` for its subject."""
    question, subject = row["question"], row["subject"]
    for one in (row["new"], row["old"]):
        if fault := question_fault(question, subject, one):
            raise DataError(fault[1])
    if (found := mention(question, subject)) is None:
        raise DataError(f"question {question!r} does not name its subject {subject!r}; write it as in the column")
    before, after = question[: found[0]], question[found[1] :]
    if in_sentence(subject, kind) != subject and before.casefold().endswith("the "):  # it comes back with the subject
        before = before[:-4]
    return f"{before}{SUBJECT_SLOT}{after}"


def _conflicts(rows: Mapping[int, tuple[dict[str, Any], Json]]) -> Iterator[Fault]:
    """Rows of one prompt that make different objects true, or the same one in place of the same other."""
    first: dict[str, tuple[int, str]] = {}
    for number, (values, wording) in rows.items():
        prompt, new = wording["update_prompt"], values["new"]
        before, other = first.setdefault(name_key(prompt), (number, new))
        if not same_name(new, other):
            said = f"{new!r} is to follow {prompt.removesuffix(BLANK).rstrip()!r}, but in row {before} {other!r} is"
            yield Fault(number, "new", f"{said}; keep one of the two rows")
        elif number != before and same_name(values["old"], rows[before][0]["old"]):
            yield Fault(number, "", f"row {before} says the same; keep one of the two rows")


def _records(rows: Iterable[tuple[dict[str, Any], Json]], subjects: Collection[str]) -> Iterator[Json]:
    """Rows as records. subjects: the keys of all of theirs, whose facts judge no update: another one may change them.

    Random facts are brought only where no row has a nearest one to draw them from.
    """
    rows, nearest = list(rows), []
    for values, wording in rows:
        objects = {name_key(name) for name in (values["old"], values["new"], *values["aliases"])}
        pool = () if values["neighbours"] else facts_of_relation(wording["relation"]["id"], subjects)
        bundled = [fact for fact in pool if name_key(fact.object) not in objects][:BESIDE]
        nearest.append(wording["neighborhood"] or [_neighbour(fact) for fact in bundled])
    others: list[Fact] = []
    if not any(nearest):
        others = [
            one
            for relation in bundled_facts()
            for one in facts_of_relation(relation, subjects)
            if one.period.end is None
        ]
    for (values, wording), near in zip(rows, nearest, strict=True):
        drawn = random.Random(wording["update_prompt"]).sample(others, min(BESIDE, len(others)))
        new = {"label": values["new"], "decision": "new", "start": values["date"], "aliases": list(values["aliases"])}
        old = {"label": values["old"], "decision": "obsolete", "start": values["old_start"], "end": values["old_end"]}
        yield {
            "case_id": values["case_id"], "subject": {"id": values["subject_id"], "label": values["subject"]},
            "objects": [new, old], **wording, "neighborhood": near, "scenario": REPLACEMENT,
            "random_neighborhood": [_neighbour(fact) for fact in drawn] if others else None,
        }  # fmt: skip


def _neighbour(fact: Fact) -> Json:
    """The first statement of a fact's relation, to be completed, with its true object."""
    asked = {"object": {"label": fact.object}, "prompt": statement_of(fact)}
    return {"subject": {"label": fact.subject}, "dist": None, "objects": [asked]}
