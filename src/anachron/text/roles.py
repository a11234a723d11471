"""A relation without templates, asked by its own words: ``who was the finance minister of [SUBJ]?``.

Which words can be asked so is data, the ``roles`` of a language's file. Its keys:

* ``classes``: each with a ``question`` that holds ``[ROLE]`` and ``[SUBJ]``, in both tenses, and the ``nouns`` that it
  serves. In a language with genders a class has those of one article. ``asks``: ``person``, ``who``, ``what`` or
  ``where``. ``endings``: of other nouns that are most likely of the class; their questions are marked as unsure.
* ``head``: whether the noun that decides is the ``first`` of a label (ministre des Finances) or the ``last`` (finance
  minister). A noun may be several words; the longest that fits decides, and ``compounds`` says whether a word may also
  merely end in one (Außenminister).
* ``behind``: words behind which no ``last`` noun is looked for (minister of finance), and which may end a label
  (president of); what else than a person is not asked then, for "capital of" is a relation of the capital.
* ``never``: words before a ``last`` noun that make a label no noun phrase (plays position).
* ``rewrites``: patterns and what replaces them once the role stands behind its article (le ambassadeur, l'ambassadeur).
* ``capitals``: how a label that begins with a capital is written: ``keep``; else small, in English where no other
  word has one (Prime Minister).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anachron.text.words import by_language, in_tenses

ROLE_SLOT = "[ROLE]"
PERSON = "person"
_UNFIT = re.compile(r"[^\w\s'’.&-]|\d")  # director / manager, winner (latest edition)
_LEAST = 3  # letters of a noun before an ending that tells its class, and of one that ends compounds


@dataclass(frozen=True, slots=True)
class RoleQuestions:
    """Question templates by the name of a relation. person: whether they ask for one. sure: whether its noun is listed,
    and not merely of an ending that such nouns have."""

    past: str
    present: str
    person: bool
    sure: bool


def role_questions(relation: str, language: str = "English") -> RoleQuestions | None:
    """Templates in both tenses for a relation that is askable by its own words; else None.

    language: its English name; one whose file has no ``roles`` asks nothing so.
    """
    rules = by_language("roles").get(language)
    words = relation.split()
    if rules is None or _UNFIT.search(relation):
        return None
    cut = len(words) > 1 and words[-1].casefold() in rules["behind"]
    words = words[:-1] if cut else words
    found = _class_of(words, rules) if words else None
    if found is None or (cut and found[0]["asks"] != PERSON):
        return None
    chosen, sure = found
    text = chosen["question"].replace(ROLE_SLOT, _spelled(words, rules))
    for pattern, replacement in rules.get("rewrites", ()):
        text = re.sub(pattern, replacement, text)
    present, past = in_tenses(text)
    return RoleQuestions(past, present, chosen["asks"] == PERSON, sure)


def role_of(relation: str, subject: str, language: str = "English") -> str:
    """A relation without its subject, where it ends in that: ``Prime Minister`` of ``Prime Minister of Italy``."""
    rules = by_language("roles").get(language, {"behind": ()})
    links = "|".join(map(re.escape, rules["behind"]))
    ended = re.fullmatch(
        rf"(.*\S) (?:(?:{links})(?: the| la| le| l[ao]s)? |d['’]|de l['’]){re.escape(subject)}", relation
    )
    return ended[1] if ended else relation


def _class_of(words: Sequence[str], rules: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool] | None:
    """The class of the noun at the head of a label, and whether that is listed; None for a label that is no noun."""
    first = rules["head"] == "first"
    small = [word.casefold() for word in words]
    heads = [" ".join(small)]
    if not first:  # of "minister of finance" the noun may also be all of it: "commander in chief"
        place = next((i for i, word in enumerate(small) if i and word in rules["behind"]), len(small))
        heads.append(" ".join(small[:place]))
    for head in heads:
        fitting = [
            (len(noun), number, noun)
            for number, one in enumerate(rules["classes"])
            for noun in map(str.casefold, one.get("nouns", ()))
            if _is_headed(head, noun, first=first, compounds=rules.get("compounds", False))
        ]
        if fitting:
            _, number, noun = max(fitting)
            before = "" if first else head[: len(head) - len(noun)]
            return None if _is_clause(before, rules) else (rules["classes"][number], True)
    noun = (heads[-1].split())[0 if first else -1]
    if _is_clause(heads[-1], rules) or (first and small[-1] in rules["behind"]):
        return None
    for one in rules["classes"]:
        if any(noun.endswith(ending) and len(noun) >= len(ending) + _LEAST for ending in one.get("endings", ())):
            return one, False
    return None


def _is_headed(label: str, noun: str, *, first: bool, compounds: bool) -> bool:
    if first:  # a prefix leaves it the same noun: vice-président
        prefix = re.match(r"\w+-", label)
        return any(f"{one} ".startswith(f"{noun} ") for one in (label, label[prefix.end() :] if prefix else label))
    if not label.endswith(noun):
        return False
    before = label[: len(label) - len(noun)]
    return not before or before[-1] in " -" or (compounds and len(noun) > _LEAST)


def _is_clause(words: str, rules: Mapping[str, Any]) -> bool:
    return not set(rules.get("never", ())).isdisjoint(words.split())


def _spelled(words: Sequence[str], rules: Mapping[str, Any]) -> str:
    keep = rules.get("capitals") == "keep" or not words[0][1:].islower()
    titles = rules["head"] == "last" and any(word[0].isupper() for word in words[1:])
    first = words[0] if keep or titles else words[0][0].lower() + words[0][1:]
    return " ".join([first, *words[1:]])
