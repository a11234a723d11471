"""Updates in the published columns of WikiFactDiff, with the columns that this package adds to them.

``case_id, subject {id, label, description}, relation {id, label, description}, update_prompt, generalization_prompts,
subject_is_ph_new, relation_is_temp_func, is_replace, subject_popularity, objects [{id, label, description, decision}],
neighborhood [{subject, dist, objects [{object, prompt}]}]``; every prompt ends in a blank, ``____``. Ours besides:
``scenario``, ``random_neighborhood``, ``popularity`` of a neighbour, ``start``, ``end``, ``point_in_time`` and
``aliases`` (other names, a list of texts) of an object, and ``start, end, precision`` of an update with
``past_generalization_prompts`` (the generalization prompts in the past tense, in the same order) and
``question_templates`` (questions in the past tense, ``[SUBJ]`` for the subject).
"""

from dataclasses import dataclass

from anachron.core.dates import GRANULARITIES
from anachron.core.facts import DECISIONS, SCENARIOS, scenario_of
from anachron.data.updates.case_records import EditCase, NeighbourFact, Part, granularity_of, whole_prompt
from anachron.text.cloze import BLANK
from anachron.text.questions import SUBJECT_SLOT

REQUIRED = ("subject", "relation", "update_prompt", "generalization_prompts", "objects", "neighborhood")


@dataclass(frozen=True, slots=True)
class _Object:
    label: str
    decision: str
    start: str | None
    end: str | None
    aliases: tuple[str, ...]


def update_scenario(record: Part) -> str:
    """As the record says; where it does not, as the decisions on its objects say (published files say neither)."""
    if record.get("scenario").value is not None:
        return record.get("scenario").one_of(SCENARIOS)
    if record.get("is_replace").flag():
        return "ReplaceObject"
    decisions = [_decision(item) for item in record.get("objects").items()]
    return scenario_of(decisions, bool(record.get("subject_is_ph_new").flag()))


def update_start(record: Part) -> str | None:
    """First date on which the new object is true, as the record says or, where it does not, its first new object."""
    if start := record.get("start").date():
        return start
    new = next((item for item in record.get("objects").items() if _decision(item) == "new"), None)
    return None if new is None else _object(new).start


def update_case(record: Part, case_id: str) -> EditCase:
    """One update. Its random facts are empty where the record has no ``random_neighborhood``."""
    objects = [_object(item) for item in record.get("objects").items()]
    new = next((o for o in objects if o.decision == "new"), None)
    old = next((o for o in objects if o.decision == "obsolete"), None)
    relation = record.get("relation")
    label = relation.get("label").label() or None
    start = update_start(record)
    given = record.get("precision")
    generalization = _prompts(record.get("generalization_prompts"))
    return EditCase(
        case_id=case_id, subject=record.get("subject").get("label").some_label(),
        prompt=whole_prompt(without_blank(record.get("update_prompt"))), new=new.label if new else None,
        old=old.label if old else None,
        generalization=generalization,
        past_generalization=_past(record.get("past_generalization_prompts"), len(generalization)),
        nearest=_neighbours(record.get("neighborhood")), random=_neighbours(record.get("random_neighborhood")),
        relation=relation.get("id").label() or label, scenario=update_scenario(record),
        objects=tuple((o.label, o.decision) for o in objects), popularity=record.get("subject_popularity").number(),
        start=start, end=record.get("end").date() or (new.end if new else None),
        precision=granularity_of(start) if given.value is None else given.one_of(GRANULARITIES),
        old_start=old.start if old else None, old_end=old.end if old else None,
        question_templates=_questions(record.get("question_templates")),
        aliases=tuple((o.label, name) for o in objects for name in dict.fromkeys(o.aliases) if name != o.label),
        relation_label=label,
    )  # fmt: skip


def without_blank(part: Part) -> Part:
    """A prompt without the blank at its end. Raises `DataError` for one without a blank, or with one elsewhere."""
    text = part.prompt()
    bare = text.removesuffix(BLANK)
    if bare == text or BLANK in bare:
        raise part.wrong(f"a prompt must end in its one blank, {BLANK!r}, which stands for the object")
    return Part(bare.rstrip(), part.where, part.path)


def _prompts(part: Part) -> tuple[str, ...]:
    return tuple(without_blank(item).prompt() for item in part.items())


def _past(part: Part, prompts: int) -> tuple[str, ...]:
    past = _prompts(part)
    if past and len(past) != prompts:
        raise part.wrong(
            f"it must hold one past wording for each of generalization_prompts, of which there are {prompts}, or none"
        )
    return past


def _questions(part: Part) -> tuple[str, ...]:
    questions = part.labels()
    for question in questions:
        if question.count(SUBJECT_SLOT) != 1 or not question.endswith("?"):
            raise part.wrong(f"the question {question!r} must hold {SUBJECT_SLOT} exactly once and end with '?'")
    return questions


def _decision(item: Part) -> str:
    return item.get("decision").one_of(DECISIONS)


def _object(item: Part) -> _Object:
    """A count or measure that is true at a point in time is taken to be true from then on."""
    start = item.get("start").date() or item.get("point_in_time").date()
    label, aliases = item.get("label").label() or "", item.get("aliases").labels()
    return _Object(label, _decision(item), start, item.get("end").date(), aliases)


def _neighbours(part: Part) -> tuple[NeighbourFact, ...]:
    """One fact a prompt: the objects that a neighbour asks for with one prompt are its true objects together."""
    facts = []
    for neighbour in part.items():
        asked: dict[str, list[str]] = {}
        for item in neighbour.get("objects").items():
            prompt = without_blank(item.get("prompt")).prompt()
            asked.setdefault(prompt, []).append(item.get("object").get("label").some_label())
        named = neighbour.get("subject")
        subject = None if named.value is None else named.get("label").label() or None
        dist, popularity = neighbour.get("dist").number(), neighbour.get("popularity").number()
        facts += [NeighbourFact(prompt, tuple(o), dist, popularity, subject) for prompt, o in asked.items()]
    return tuple(facts)
