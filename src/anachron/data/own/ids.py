"""Wikidata's ids and addresses, as its query service writes them into the cells of a table."""

import re

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
