"""The words of languages: one JSON file each, in ``languages`` or in a folder of one's own, found by its place alone.

Keys of a file, of which a language needs the first five; the others are read by the module that is named:

* ``language``: its English name. ``styles``: name -> how dates open a statement (`anachron.text.dates`).
* ``openings``: words that open questions; ``articles``: others that begin statements (`anachron.text.openings`).
* ``spans``: a decade, century and millennium in words (`anachron.text.literals`); ``units``: of quantities.
* ``asking``, ``answers``: questions to a chat model, and words of its replies (`anachron.probe.ask.wordings`).
* ``relations``: questions and statements of each (`anachron.text.languages`).
* ``roles``: nouns by which a relation without templates is asked (`anachron.text.roles`).
* ``agreement``: names and nouns that take an article (`anachron.text.agreement`); in English ``the``
  (`anachron.text.articles`). ``changes``: questions about what changed (`anachron.probe.horizon.questions`).
"""

import json
import os
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from anachron.core.errors import ConfigError, DataError
from anachron.io.files import read_json

ENGLISH = "en"
FOLDER = "ANACHRON_LANGUAGES"  # the environment variable that names a folder of languages of one's own
NEEDED: dict[str, type] = {"language": str, "styles": dict, "openings": list, "spans": dict, "relations": list}
OPTIONAL: dict[str, type] = {
    "articles": list, "asking": dict, "answers": dict, "agreement": dict, "the": dict, "units": dict, "changes": dict,
    "roles": dict,
}  # fmt: skip
OF_STYLE = {"locale": "", "year": "{date}", "month": "{date}", "day": "{date}", "before_common_era": "{year}",
            "common_era": "{year}"}  # fmt: skip  # and the slot that each holds once
_TENSES = re.compile(r"\{([^{}|]+)\|([^{}|]+)\}")


@cache
def language_files() -> Mapping[str, Mapping[str, Any]]:
    """Code -> what its file says; English first, the others by code: the bundled ones, and those of `FOLDER`.

    Raises `ConfigError` for a file there that is no language, or that has the name of another.
    """
    folder = files("anachron.text.languages")
    found = {file.name.removesuffix(".json"): file for file in folder.iterdir() if file.name.endswith(".json")}
    bundled: dict[str, Mapping[str, Any]] = {code: json.loads(file.read_text("utf-8")) for code, file in found.items()}
    known = bundled | _own_files(bundled)
    return {code: known[code] for code in sorted(known, key=lambda code: (code != ENGLISH, code))}


def _own_files(bundled: dict[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    folder = os.environ.get(FOLDER)
    if not folder:
        return {}
    if not Path(folder).is_dir():
        raise ConfigError(f"{FOLDER}={folder}: no such folder; name the one in which the languages are")
    found: dict[str, Mapping[str, Any]] = {}
    for file in sorted(Path(folder).glob("*.json")):
        try:
            words = read_json(file)
        except DataError as error:
            raise ConfigError(str(error)) from None
        fault = language_fault(words)
        others = (bundled | found).values()
        if fault is None and file.stem in bundled:
            fault = f"{file.stem} is bundled; call the file otherwise"
        elif fault is None and words["language"] in {one["language"] for one in others}:
            fault = f"language {words['language']!r} is the name of another one; give it its own"
        elif fault is None and (twice := {*words["styles"]} & {style for one in others for style in one["styles"]}):
            fault = f"style {min(twice)!r} is that of another language; give it its own name"
        if fault is not None:
            raise ConfigError(f"{file}: {fault}")
        found[file.stem] = words
    return found


def language_fault(words: Any) -> str | None:
    """What keeps the content of a file from being a language; None where nothing does.

    The templates of its relations are looked at by whoever fills them (`anachron.text.languages`).
    """
    if not isinstance(words, dict):
        return f"it holds no object with {', '.join(NEEDED)}"
    for key, kind in (NEEDED | OPTIONAL).items():
        if (key in NEEDED and not words.get(key)) or not isinstance(words.get(key, kind()), kind):
            return f"{key}: it needs a {kind.__name__} that is not empty, and this is {words.get(key)!r}"
    if unknown := set(words) - set(NEEDED | OPTIONAL):
        return f"unknown key {min(unknown)!r}; known are {', '.join(NEEDED | OPTIONAL)}"
    for style, how in words["styles"].items():
        if not isinstance(how, dict) or set(how) - {"first_of_month"} != set(OF_STYLE):
            return f"style {style!r} needs {', '.join(OF_STYLE)}, and may have first_of_month"
        for key, slot in OF_STYLE.items():
            if not isinstance(how[key], str) or (slot and how[key].count(slot) != 1):
                return (
                    f"style {style!r}, {key}: {how[key]!r} must be a text{f' that holds {slot} once' if slot else ''}"
                )
    if not all(isinstance(word, str) and word == word.lower() and " " not in word for word in words["openings"]):
        return "openings: give single words in small letters"
    if set(words["spans"]) != {"decade", "century", "millennium"}:
        return "spans: give decade, century and millennium"
    for relation in words["relations"]:
        if not isinstance(relation, dict) or not {"id", "label", "questions", "cloze"} <= set(relation):
            return f"relations: each needs id, label, questions and cloze, and this is {str(relation)[:60]}"
    return None


@cache
def by_language(key: str) -> Mapping[str, Any]:
    """English name of a language -> what its file has under a key, of the languages that have it."""
    return {words["language"]: words[key] for words in language_files().values() if key in words}


def words_of(language: str, key: str) -> Any:
    """What the file of a language has under a key, by its English name."""
    return by_language(key)[language]


@cache
def phrases(kind: str) -> tuple[str, ...]:
    """All that the ``answers`` of the languages have of a kind, each once, in the order of the languages.

    Of an answer in small letters without marks: words by which somebody is ``declining`` to give one; that say that
    something holds ``still``, or ``as_of`` which date; that are ``denying`` what stands behind them or,
    ``denying_behind``, before them (1998 is not correct); that something holds ``no_longer``; ``assuring`` ones, which
    deny nothing though some of their words do; ``but``; words for a ``related`` person, of whom it speaks then;
    ``beside``, before a year, that another one is meant; ``since`` which date something holds; and ``whether``, which
    begins what is not said.
    """
    return tuple(dict.fromkeys(phrase for answers in by_language("answers").values() for phrase in answers[kind]))


def in_tenses(template: str) -> tuple[str, str]:
    """A template in the present and in the past: ``qui {est|était} ...`` as ``qui est ...`` and ``qui était ...``."""
    return _TENSES.sub(r"\1", template), _TENSES.sub(r"\2", template)
