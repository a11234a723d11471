"""Cloze templates per relation: a statement with a slot for its subject, which ends in a slot for its object.

``The capital of [SUBJ] is [OBJ]`` serves as a prompt that a model completes (``The capital of France is ____``) and as
a sentence to teach (WikiFactDiff, appendix A.5). Every relation of this package has five; the first is the plainest,
and words the update, the others test whether it generalizes. None agrees with its subject in gender, and few in number.
Each has a past wording, for dates that are over: ``The capital of [SUBJ] was [OBJ]``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from anachron.core.errors import DataError
from anachron.io.files import read_json
from anachron.text.agreement import in_phrase
from anachron.text.articles import in_sentence
from anachron.text.questions import SUBJECT_SLOT
from anachron.text.words import words_of

STATEMENTS = 5  # of each relation
OBJECT_SLOT = "[OBJ]"
BLANK = "____"
_ID = re.compile(r"P[1-9][0-9]*")
_SLOTS = re.compile(r"\[[^\[\]]*\]")


@dataclass(frozen=True, slots=True)
class Cloze:
    """The templates of a relation, the plainest first.

    past: their wordings in the past tense, in the same order; none where the file gives none. One that tells of the
    past anyway (``[SUBJ] was born in [OBJ]``) is its own.
    """

    label: str
    templates: tuple[str, ...]
    past: tuple[str, ...] = ()


@cache
def bundled_cloze() -> Mapping[str, Cloze]:
    """English relation id -> its five templates; in the order of `relation_templates`."""
    relations = words_of("English", "relations")
    return {r["id"]: Cloze(r["label"], tuple(r["cloze"]), tuple(r["cloze_past"])) for r in relations}


def read_cloze(path: Path | str) -> dict[str, Cloze]:
    """Relation id -> templates from a JSON file: a list of ``{"id", "label", "templates"}``, one template or more each.

    An entry may have their past wordings, ``past``, in the same order. Raises `DataError` with the place, the value and
    the rule, for a file that is none, for a template that `cloze_fault` refuses, and for past wordings that are not one
    a template.
    """
    raw = read_json(path)
    if not isinstance(raw, list):
        raise DataError(f"{path}: expected a list of relations, found {type(raw).__name__}")
    relations: dict[str, Cloze] = {}
    for number, entry in enumerate(raw, 1):
        where = f"{path}, entry {number}"
        if not isinstance(entry, dict):
            raise DataError(f'{where}: expected an object with "id", "label" and "templates", found {entry!r}')
        id, label, templates = (entry.get(key) for key in ("id", "label", "templates"))
        if not isinstance(id, str) or not _ID.fullmatch(id):
            raise DataError(f"{where}: id {id!r} is not the id of a property; write it as P36")
        if id in relations:
            raise DataError(f"{where}: {id} occurs twice; give all its templates in one entry")
        if not isinstance(label, str) or not label.strip():
            raise DataError(f"{where} ({id}): label {label!r} must be a text that is not empty")
        if not isinstance(templates, list) or not templates:
            raise DataError(f"{where} ({id}): templates {templates!r} must be a list of at least one template")
        _check_templates(templates, f"{where} ({id}), template")
        past = entry.get("past")
        past = [] if past is None else past
        if not isinstance(past, list) or (past and len(past) != len(templates)):
            raise DataError(
                f"{where} ({id}): past {past!r} must be a list with the past wording of each template, of which there "
                f"are {len(templates)}; give them all, or leave it out"
            )
        _check_templates(past, f"{where} ({id}), past wording")
        relations[id] = Cloze(label.strip(), tuple(templates), tuple(past))
    return relations


def _check_templates(templates: list[Any], where: str) -> None:
    for place, template in enumerate(templates, 1):
        fault = cloze_fault(template) if isinstance(template, str) else f"template {template!r} must be a text"
        if fault is not None:
            raise DataError(f"{where} {place}: {fault}")
        if template.casefold() in {other.casefold() for other in templates[: place - 1]}:
            raise DataError(f"{where} {place}: {template!r} occurs twice; leave one out")


def cloze_fault(template: str) -> str | None:
    """The rule that a template breaks, with the template, or None.

    Rules: it is one line with single spaces; it holds ``[SUBJ]`` and ``[OBJ]`` once each and no other slot or blank;
    it ends with a space and ``[OBJ]``, so that what comes before it is a prompt; and it has words of its own.
    """
    if template != " ".join(template.split()):
        return f"template {template!r} must be one line with single spaces, and none around it"
    for slot in (SUBJECT_SLOT, OBJECT_SLOT):
        if template.count(slot) != 1:
            return f"template {template!r} must hold {slot} exactly once"
    if not template.endswith(f" {OBJECT_SLOT}"):
        return f"template {template!r} must end with a space and {OBJECT_SLOT}, without a full stop"
    others = [slot for slot in _SLOTS.findall(template) if slot not in (SUBJECT_SLOT, OBJECT_SLOT)]
    if others or "__" in template:
        return f"template {template!r} must hold no slot but {SUBJECT_SLOT} and {OBJECT_SLOT}"
    if not re.search(r"\w", _SLOTS.sub("", template)):
        return f"template {template!r} must say how subject and object are related"
    return None


def cloze_prompt_text(template: str, subject: str, language: str = "English", kind: str | None = None) -> str:
    """The prompt about a subject, as published update data sets write it: ``The capital of France is ____``.

    Raises `DataError` for a template that `cloze_fault` refuses and for an empty subject.
    """
    return fill_cloze(template, subject, BLANK, language, kind)


def fill_cloze(template: str, subject: str, object: str, language: str = "English", kind: str | None = None) -> str:
    """The sentence about a subject and an object, without full stop: the prompt with the object in its blank.

    The subject is written as inside a sentence (``the United States``, ``du Royaume-Uni``), where the language is one
    of ours; kind is what it is, see `anachron.text.kinds`, for English. The object is its bare label, for that is what
    a model is to answer. Raises `DataError` as `cloze_prompt_text`.
    """
    fault = cloze_fault(template)
    if fault is not None:
        raise DataError(fault)
    if not subject.strip() or not object.strip():
        raise DataError(f"template {template!r}: subject {subject!r} and object {object!r} must not be empty")
    before, after = template.removesuffix(OBJECT_SLOT).split(SUBJECT_SLOT)
    if language != "English":
        return "".join(in_phrase(before, subject, language)) + after + object
    return before + _named(subject, before, kind) + after + object


def _named(subject: str, before: str, kind: str | None) -> str:
    """The subject with its article, unless the template has put one there."""
    with_article = in_sentence(subject, kind)
    if with_article == subject or before.casefold().endswith("the "):
        return subject
    return with_article if before else f"T{with_article[1:]}"
