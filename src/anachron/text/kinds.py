"""What kind of thing a name stands for, in a few plain words: from a relation, or from an entity's classes in Wikidata.

`anachron.text.articles` asks for it, since a person takes no "the" and a river does.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

KINDS = (
    "band", "building", "company", "country", "currency", "event", "line", "model", "office", "organisation",
    "periodical", "person", "place", "ship", "software", "team", "title", "water", "work",
)  # fmt: skip


@cache
def _kinds(of: str) -> Mapping[str, str]:
    """Id of a relation or class -> kind, from ``kinds.json``. A title is an office that stands behind "the office of"
    or "served as"."""
    raw = json.loads(files("anachron.text").joinpath("kinds.json").read_text("utf-8"))
    return {id: kind for kind, ids in raw[of].items() for id in ids}


def kind_of(classes: Iterable[str]) -> str | None:
    """What an entity is, by Wikidata's ids of what it is an instance of (P31); None where they tell nothing, or two."""
    known = _kinds("classes")
    found = {known[id] for id in classes if id in known}
    return found.pop() if len(found) == 1 else None


def subject_kind(relation_id: str | None, known: str | None = None) -> str | None:
    """What a subject is: what all subjects of its relation are, else what is known of it by its classes."""
    return _kinds("relations").get(relation_id or "", known)
