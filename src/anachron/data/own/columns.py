"""Which columns of a file of facts are understood, and by which names."""

import ast
import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from anachron.core.errors import DataError
from anachron.core.sameness import plain

NEEDED = ("subject", "relation", "object", "start", "end")
TEXTS = ("question", "present_question", "fact_id", "subject_id", "relation_id", "object_id")
NUMBERS = ("popularity", "other_objects")
KNOWN = (*NEEDED, *TEXTS, *NUMBERS, "aliases")
SYNONYMS = {
    "subject_label": "subject", "relation_label": "relation", "object_label": "object", "start_date": "start",
    "end_date": "end",
}  # fmt: skip
# What else people call them: in English, German, French, Spanish and Portuguese, with or without capitals and accents.
# A word means one column in all of these languages, and counts only where the file has no column by the names above.
HEADERS = {
    "subject": (
        "country, entity", "Land, Staat, Subjekt", "pays, sujet, entité", "país, sujeto, entidad", "sujeito, entidade",
    ),
    "relation": (
        "office, role, position, property", "Amt, Funktion, Rolle, Posten, Beziehung, Eigenschaft",
        "fonction, poste, propriété", "cargo, puesto, función, relación, propiedad", "função, relação, propriedade",
    ),
    "object": (
        "person, name, holder, office holder, value", "Amtsinhaber, Inhaber, Objekt, Wert",
        "titulaire, personne, nom, objet, valeur", "titular, persona, nombre, objeto, valor", "pessoa, nome",
    ),
    "start": (
        "from, since, begin, beginning", "von, ab, seit, Beginn, Anfang, Startdatum", "début, depuis, date de début",
        "desde, inicio, comienzo, fecha de inicio", "data de início",
    ),
    "end": (
        "to, until, till", "bis, Ende, Enddatum", "fin, jusque, jusqu'à, date de fin", "hasta, fecha de fin",
        "fim, até, término, data de fim",
    ),
    "question": ("", "Frage", "", "pregunta", "pergunta"),
}  # fmt: skip
# The same of a table of updates, whose ``date`` is that from which the new object holds.
UPDATES_KNOWN = (
    "subject", "relation", "prompt", "old", "new", "date", "old_start", "old_end", "relation_id", "subject_id",
    "aliases", "question", "case_id", "neighbours",
)  # fmt: skip
UPDATE_HEADERS = {
    **{known: HEADERS[known] for known in ("subject", "relation", "question")},
    "prompt": ("sentence, statement", "Satz", "phrase", "frase", "frase"),
    "old": (
        "old object, old value, previous, ground truth", "alt, bisher, alter Wert", "ancien, ancienne, ancienne valeur",
        "antiguo, antigua, anterior, valor anterior", "antigo, antiga, anterior, valor anterior",
    ),
    "new": (
        "new object, new value, target new", "neu, neuer Wert", "nouveau, nouvelle, nouvelle valeur",
        "nuevo, nueva, valor nuevo", "novo, nova, valor novo",
    ),
    "date": (
        "since, from, start, start date, date of change", "Datum, seit, ab, von", "depuis, début, date de début",
        "fecha, desde, inicio, fecha de inicio", "data, desde, início, data de início",
    ),
    "old_end": ("old until", "alt bis", "", "", ""),
}  # fmt: skip


def _meanings(headers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Word, as `plain` writes it -> the column that it means."""
    return {plain(word): known for known, words in headers.items() for word in ", ".join(words).split(", ") if word}


_MEANT, _OF_UPDATES = _meanings(HEADERS), _meanings(UPDATE_HEADERS)
# Those that only German, French, Spanish and Portuguese have
WESTERN = frozenset(plain(word) for _, *words in HEADERS.values() for word in ", ".join(words).split(", ") if word)
# Columns of a file with the first or last date of a life, and what they are called of a fact that is asked.
LIVES = {
    "subject_birth": "subject_from",
    "subject_death": "subject_until",
    "object_birth": "object_from",
    "object_death": "object_until",
}
# As Wikidata's query service names them. ``SubjectLabel``, with a capital, is a column of published statements.
LABELS = {"subjectLabel": "subject", "relationLabel": "relation", "objectLabel": "object"}


def canonical(name: str) -> str:
    """The name of a column among `KNOWN`, or its own in small letters."""
    small = "_".join(name.strip().casefold().replace("-", " ").replace("_", " ").split())
    return LABELS.get(name.strip()) or SYNONYMS.get(small, small)


def by_words(
    columns: Sequence[str], wanted: Collection[str] = KNOWN, meant: Mapping[str, str] = _MEANT
) -> dict[str, list[str]]:
    """Known name -> the columns that mean it by words, those of `HEADERS` where not others are given."""
    found: dict[str, list[str]] = defaultdict(list)
    for column in columns:
        if (known := meant.get(plain(column))) in wanted and known is not None:
            found[known].append(column)
    return found


def update_columns(columns: Sequence[str]) -> dict[str, str]:
    """Known name of a table of updates (`UPDATES_KNOWN`) -> name in the file, of those that it has.

    Words of `UPDATE_HEADERS` count for what is missing. Raises `DataError` for two columns of one meaning.
    """
    meant: dict[str, list[str]] = defaultdict(list)
    for column in columns:
        if (known := canonical(column)) in UPDATES_KNOWN:
            meant[known].append(column)
    taken = {column for of in meant.values() for column in of}
    rest = [column for column in columns if column not in taken]
    meant |= by_words(rest, [known for known in UPDATES_KNOWN if known not in meant], _OF_UPDATES)
    for known, of in meant.items():
        if len(of) > 1:
            raise DataError(f"the columns {of[0]!r} and {of[1]!r} both mean {known}; keep one of them")
    return {known: of[0] for known, of in meant.items()}


def named_columns(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], chosen: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Known name -> name in the file. ``relation_id`` may stand for the relation.

    A column ``subject`` beside one of labels holds the ids, where any of it is an id or an address of Wikidata.
    chosen: some of it, as the user says; words of other languages count for what is missing.

    Raises `DataError` for two of one meaning, and for one that is missing.
    """
    said = {known: _chosen(known, column, columns) for known, column in (chosen or {}).items()}
    rest = [column for column in columns if column not in said.values()]
    meant: dict[str, list[str]] = defaultdict(list)
    for column in rest:
        if (known := canonical(column)) in KNOWN and known not in said:
            meant[known].append(column)
    lacking = [
        n for n in HEADERS if n not in meant and n not in said and not (n == "relation" and "relation_id" in meant)
    ]
    meant |= by_words(rest, lacking)
    names = dict(said)
    for known, of in list(meant.items()):
        labels = [column for column in of if column.strip() in LABELS or canonical(column) != column.strip().casefold()]
        if len(of) == 2 and len(labels) == 1:
            other = next(column for column in of if column not in labels)
            if any(names_by_id(row.get(other)) for row in rows):
                if f"{known}_id" not in meant:
                    names[f"{known}_id"] = other
                of = labels
            elif labels[0].strip() in LABELS:
                of = [other]
        if len(of) > 1:
            raise DataError(
                f"the columns {of[0]!r} and {of[1]!r} both mean {known}; keep one of them, or say which by --columns "
                f"{known}=NAME"
            )
        names[known] = of[0]
    missing = [name for name in NEEDED if name not in names and not (name == "relation" and "relation_id" in names)]
    if missing:
        raise DataError(
            f"the file lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; a file of facts needs "
            f"{', '.join(NEEDED)} (an empty end: it still holds), and the header of this one is "
            f"{', '.join(columns) or 'empty'}; say what its columns mean by --columns {missing[0]}=NAME,..."
        )
    return names


def _chosen(known: str, column: str, columns: Sequence[str]) -> str:
    """The column of the file that is meant, by its name or but for capitals and accents."""
    like = [name for name in columns if name == column] or [name for name in columns if plain(name) == plain(column)]
    if len(like) != 1:
        raise DataError(
            f"--columns {known}={column}: the file has {'no' if not like else 'more than one'} column {column!r}, but "
            f"{', '.join(map(repr, columns)) or 'none'}"
        )
    return like[0]


_ADDRESS = re.compile(
    r"<?https?://(?:www\.)?wikidata\.org/(?:entity/|prop/(?:direct/)?|wiki/(?:Property:)?)([QP]\d+)>?"
)
_ENTITY = re.compile(r"Q[1-9]\d*")


def id_in_address(text: str) -> str | None:
    """``Q232`` of ``http://www.wikidata.org/entity/Q232``; None of any other text."""
    found = _ADDRESS.fullmatch(text)
    return found[1] if found else None


def is_entity_id(text: str) -> bool:
    """Whether a text is the id of an item, such as ``Q232``, which says nothing to a model."""
    return _ENTITY.fullmatch(text) is not None


def names_by_id(value: object) -> bool:
    """Whether a cell holds such an address or id."""
    return isinstance(value, str) and (id_in_address(value.strip()) is not None or is_entity_id(value.strip()))


_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_BARE = re.compile(r'\s*"(?:[^"\\]|\\.)*"|[^,]+')
_BETWEEN = re.compile(r"[\s,;]*(?:\b(?:None|null|nan)\b[\s,;]*)*")
_BRACKETS = {"[": "]", "(": ")", "{": "}"}


def names_in_cell(text: str) -> tuple[tuple[str, ...], bool]:
    """The names in a text, and whether it is a list as another tool writes it, not names with ``|`` between.

    A list is in brackets, its names in quotation marks or with commas between, or has semicolons between; ``[sic]``,
    with neither, is a name.

    Raises `DataError` for a JSON list of something else than texts.
    """
    if (listed := _in_brackets(text.strip())) is not None:
        return listed, True
    if "|" in text:
        return tuple(text.split("|")), False
    parts = re.split(r";\s+" if "&" in text else ";", text)  # "AT&amp;T" is one name
    return tuple(parts), len(parts) > 1


def _in_brackets(text: str) -> tuple[str, ...] | None:
    if len(text) < 2 or _BRACKETS.get(text[0]) != text[-1]:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list) or (isinstance(found, dict) and found):
        names = [name for name in found if name is not None]
        if isinstance(found, dict) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{text[:60]!r} is a list of something else than texts; write names with '|' between them")
        return tuple(names)
    inside = text[1:-1]
    quoted = _QUOTED.findall(inside)
    if quoted and _BETWEEN.fullmatch(_QUOTED.sub(",", inside)):
        try:
            return tuple(ast.literal_eval(name.replace("\n", " ")) for name in quoted)
        except (SyntaxError, ValueError):  # a broken escape in it
            return None
    if "," not in inside or text[0] == "(":  # "(West) Berlin, (East) Berlin" is no list
        return None if inside.strip() else ()
    return tuple(part.strip().strip('"') for part in _BARE.findall(inside))
