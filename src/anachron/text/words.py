"""The words of the bundled languages: one JSON file each in ``languages``, found by its place alone.

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
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

ENGLISH = "en"
_TENSES = re.compile(r"\{([^{}|]+)\|([^{}|]+)\}")


@cache
def language_files() -> Mapping[str, Mapping[str, Any]]:
    """Code -> what its file says; English first, the others by code."""
    folder = files("anachron.text.languages")
    found = {file.name.removesuffix(".json"): file for file in folder.iterdir() if file.name.endswith(".json")}
    order = sorted(found, key=lambda code: (code != ENGLISH, code))
    return {code: json.loads(found[code].read_text("utf-8")) for code in order}


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
