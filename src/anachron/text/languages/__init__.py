"""The languages that facts can be asked about in: dates, questions and statements of each.

A language with templates is a file of this folder (`anachron.text.words`). Any other one is a file of openings, and its
facts bring their own questions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from anachron.core.errors import ConfigError, DataError
from anachron.core.sameness import name_key
from anachron.io.files import read_json
from anachron.text.agreement import in_phrase
from anachron.text.cloze import STATEMENTS, Cloze, bundled_cloze, cloze_fault, fill_cloze
from anachron.text.dates import Wording, wording_of
from anachron.text.questions import PARAPHRASES, SUBJECT_SLOT, fill_question, present_template, relation_templates
from anachron.text.words import FOLDER, in_tenses, language_files

SHORT_NAMES = {"ceo": "chief executive officer", "coo": "chief operating officer"}
_KEYS = {"language", "locale", "year", "month", "day", "era", "first_of_month"}
_OPTIONAL = {"first_of_month"}


@dataclass(frozen=True, slots=True)
class Worded:
    """A relation in one language: questions in past and present, and statements (`anachron.text.cloze`) likewise."""

    label: str
    questions: tuple[str, ...]
    present: tuple[str, ...]
    cloze: tuple[str, ...]
    cloze_past: tuple[str, ...]


@dataclass(frozen=True)
class Language:
    """A language: ``code`` as it was asked for, its English ``name``, its dates, and relation id -> its wordings."""

    code: str
    name: str
    style: str | Wording
    relations: Mapping[str, Worded]

    @property
    def recorded(self) -> str:
        """What a run or manifest says of the language: its code, or its name where a file described it."""
        return self.code if self.code in language_files() else self.name

    def relation_id(self, given: str | None, label: str) -> str | None:
        """The id under which a relation has templates: its own, or that of the relation with this id or label.

        Labels are those of the language, and the English ones.
        """
        known = given or label
        if given is not None or label in self.relations:
            return known if known in self.relations else None
        wanted = SHORT_NAMES.get(name_key(label), name_key(label))
        english = {key: name_key(label) for key, (label, _) in relation_templates().items()}
        for key, worded in self.relations.items():  # one of a language of one's own may have no English questions
            if wanted in (name_key(worded.label), english.get(key)):
                return key
        return None

    def question(self, template: str, subject: str, kind: str | None = None) -> str:
        """A template's question about a subject. kind: what it is (`anachron.text.kinds`), for English articles.

        Raises `DataError` when the slot is missing or doubled.
        """
        if self.code == "en":
            return fill_question(template, subject, kind)
        if template.count(SUBJECT_SLOT) != 1:
            raise DataError(f"question template {template!r}: it must hold {SUBJECT_SLOT} exactly once")
        before, after = template.split(SUBJECT_SLOT)
        return "".join(in_phrase(before, subject, self.name)) + after

    def statement(self, template: str, subject: str, object: str) -> str:
        """A template's statement, without full stop. Raises `DataError` as `anachron.text.cloze.fill_cloze`."""
        return fill_cloze(template, subject, object, self.name)


def language_of(language: str | Path | Language = "en") -> Language:
    """A language by its code, one of `anachron.text.words.language_files`, or that of a file of openings.

    The file is JSON: ``language`` (its English name), ``locale`` (for the names of months and the order of day, month
    and year, which CLDR knows), ``year``, ``month``, ``day`` (what opens a statement, with ``{date}`` in it), ``era``
    (a year before the common era, ``{year}`` in it) and, if wanted, ``first_of_month`` (``1er``).

    Raises `ConfigError` for another code, and for a file that is none, naming the key, the value and the rule.
    """
    if isinstance(language, Language):
        return language
    code = str(language)
    if code in (known := language_files()):
        return Language(code, known[code]["language"], next(iter(known[code]["styles"])), _bundled(code))
    if Path(code).suffix != ".json":
        raise ConfigError(f"language {code!r}: choose one of {', '.join(known)}, or a file of openings (.json)")
    wording = read_wording(Path(code))
    return Language(code, wording.language, wording, {})


def chosen(language: str | Path | Language | None, style: str | None) -> tuple[Language, str | Wording]:
    """The language of questions and the style of dates, of which either may be left to the other.

    Raises `ConfigError` as `language_of`, for an unknown style, and for one of another language than the questions.
    """
    if style is None:
        language = language_of(language or "en")
        return language, language.style
    spoken = wording_of(style).language
    if language is None:
        language = code_of(spoken)
    language = language_of(language or "en")
    if spoken != language.name:
        raise ConfigError(f"style {style}: its dates are {spoken}, the questions {language.name}; leave it out")
    return language, style


def cloze_in(language: str) -> dict[str, Cloze] | None:
    """Relation id -> the statements of a language, by its English name; None where there are none."""
    if language == "English":
        return dict(bundled_cloze())
    code = code_of(language)
    return None if code is None else {key: Cloze(r.label, r.cloze, r.cloze_past) for key, r in _bundled(code).items()}


def code_of(name: str) -> str | None:
    """The code of a language with templates, by its English name."""
    return next((code for code, words in language_files().items() if words["language"] == name), None)


def recorded(language: Language, style: str | Wording) -> dict[str, str]:
    """What a manifest says of the language and the style."""
    return {"language": language.recorded, "style": style if isinstance(style, str) else language.name}


def read_wording(path: Path) -> Wording:
    """How a file of openings says dates, see `language_of`."""
    try:
        raw: Any = read_json(path)
    except DataError as error:
        raise ConfigError(f"language {error}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: expected an object with {', '.join(sorted(_KEYS))}, found {type(raw).__name__}")
    if "styles" in raw:
        raise ConfigError(
            f"{path} is a language with relations: put it into a folder, name that in {FOLDER}, and give --language "
            f"{path.stem}"
        )
    if unknown := set(raw) - _KEYS:
        raise ConfigError(f"{path}: unknown key {sorted(unknown)[0]!r}; known are {', '.join(sorted(_KEYS))}")
    for key in sorted(_KEYS - _OPTIONAL):
        if not isinstance(raw.get(key), str) or not raw[key].strip():
            raise ConfigError(f"{path}, {key}: {raw.get(key)!r} must be a text that is not empty")
    for key, slot in (("year", "{date}"), ("month", "{date}"), ("day", "{date}"), ("era", "{year}")):
        if raw[key].count(slot) != 1:
            raise ConfigError(f"{path}, {key}: {raw[key]!r} must hold {slot} exactly once")
    from babel.core import Locale, UnknownLocaleError

    try:
        Locale.parse(raw["locale"])
    except (UnknownLocaleError, ValueError):
        raise ConfigError(f"{path}, locale: CLDR knows no {raw['locale']!r}; write a code such as pt or ja") from None
    first = raw.get("first_of_month", "1")
    if not isinstance(first, str) or not first:
        raise ConfigError(f"{path}, first_of_month: {first!r} must be a text such as 1er; leave it out where it is 1")
    return Wording(raw["language"], raw["locale"], raw["year"], raw["month"], raw["day"], raw["era"], "{year}", first)


@cache
def _bundled(code: str) -> Mapping[str, Worded]:
    if code == "en":
        cloze = bundled_cloze()
        return {
            key: Worded(label, questions, (present_template(key),), cloze[key].templates, cloze[key].past)
            for key, (label, questions) in relation_templates().items()
        }
    relations = {}
    for entry in language_files()[code]["relations"]:
        present, past = zip(*map(in_tenses, entry["questions"]), strict=True)
        cloze_present, cloze_past = zip(*map(in_tenses, entry["cloze"]), strict=True)
        relations[entry["id"]] = worded = Worded(entry["label"], past, present, cloze_present, cloze_past)
        if fault := _template_fault(worded):
            raise ConfigError(f"language {code}, relation {entry['id']}: {fault}")
    return relations


def _template_fault(worded: Worded) -> str | None:
    """The rule that the templates of a relation break, as those of a file of one's own may."""
    if len(worded.questions) != PARAPHRASES or len(worded.cloze) != STATEMENTS:
        return f"it needs {PARAPHRASES} questions and {STATEMENTS} statements"
    for question in (*worded.questions, *worded.present):
        if question.count(SUBJECT_SLOT) != 1:
            return f"question {question!r} must hold {SUBJECT_SLOT} exactly once"
    return next(filter(None, map(cloze_fault, (*worded.cloze, *worded.cloze_past))), None)
