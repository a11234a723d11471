"""Which columns of a file of facts are understood, and by which names."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from anachron.core.errors import DataError
from anachron.data.own.ids import names_by_id

NEEDED = ("subject", "relation", "object", "start", "end")
TEXTS = ("question", "present_question", "fact_id", "subject_id", "relation_id", "object_id")
NUMBERS = ("popularity", "other_objects")
KNOWN = (*NEEDED, *TEXTS, *NUMBERS, "aliases")
SYNONYMS = {
    "subject_label": "subject", "relation_label": "relation", "object_label": "object", "start_date": "start",
    "end_date": "end",
}  # fmt: skip
# As Wikidata's query service names them. ``SubjectLabel``, with a capital, is a column of published statements.
LABELS = {"subjectLabel": "subject", "relationLabel": "relation", "objectLabel": "object"}


def canonical(name: str) -> str:
    """The name of a column among `KNOWN`, or its own in small letters."""
    plain = "_".join(name.strip().casefold().replace("-", " ").replace("_", " ").split())
    return LABELS.get(name.strip()) or SYNONYMS.get(plain, plain)


def named_columns(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Known name -> name in the file. ``relation_id`` may stand for the relation.

    A column ``subject`` beside one of labels holds the ids, where any of it is an id or an address of Wikidata.

    Raises `DataError` for two of one meaning, and for one that is missing.
    """
    meant: dict[str, list[str]] = defaultdict(list)
    for column in columns:
        if (known := canonical(column)) in KNOWN:
            meant[known].append(column)
    names: dict[str, str] = {}
    for known, of in list(meant.items()):
        labels = [column for column in of if column.strip() in LABELS or canonical(column) != column.strip().casefold()]
        if len(of) == 2 and len(labels) == 1:
            plain = next(column for column in of if column not in labels)
            if any(names_by_id(row.get(plain)) for row in rows):
                if f"{known}_id" not in meant:
                    names[f"{known}_id"] = plain
                of = labels
            elif labels[0].strip() in LABELS:
                of = [plain]
        if len(of) > 1:
            raise DataError(f"the columns {of[0]!r} and {of[1]!r} both mean {known}; keep one of them")
        names[known] = of[0]
    missing = [name for name in NEEDED if name not in names and not (name == "relation" and "relation_id" in names)]
    if missing:
        raise DataError(
            f"the file lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; a file of facts needs "
            f"{', '.join(NEEDED)} (an empty end: it still holds), and this one has {', '.join(columns) or 'none'}"
        )
    return names
