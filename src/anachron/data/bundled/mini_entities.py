"""What the bundled data set ``mini`` knows of its subjects and of the persons that answer.

``mini/entities.csv`` has one label a row: ``label, id, kind, continent, gender, birth, death``. ``id`` is Wikidata's,
where a source of `docs/mini.md` gives it or it is beyond doubt, else empty. ``kind`` is a person, place, office,
organisation, team, band or work; ``continent`` that of a subject (``International`` for bodies of all states).
``gender``, and ``birth`` and ``death`` as years, are those of persons; an empty ``birth`` is not known, an empty
``death`` not known or not yet. Popularity is in page views and cannot be known without a network, so there is none.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class MiniEntity:
    """One row of the file; what is not known is None."""

    label: str
    id: str | None
    kind: str
    continent: str | None
    gender: str | None
    birth: str | None
    death: str | None


@cache
def mini_entities() -> dict[str, MiniEntity]:
    """Label -> what is known of it, in the order of the file."""
    text = files("anachron.data").joinpath("mini/entities.csv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    return {
        row["label"]: MiniEntity(
            row["label"],
            row["id"] or None,
            row["kind"],
            row["continent"] or None,
            row["gender"] or None,
            row["birth"] or None,
            row["death"] or None,
        )
        for row in rows
    }
