"""What a test server of Wikidata's services holds: entities with their histories, and page views."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

Json = dict[str, Any]
NAMESPACES = {"Q": (0, ""), "P": (120, "Property:"), "L": (146, "Lexeme:")}
HIGHEST_ID = 2**31 - 1  # ids are 32-bit integers: a longer one is not an id of anything


@dataclass(frozen=True)
class Redirect:
    """The content of a page whose entity was merged into another."""

    to: str


@dataclass(frozen=True)
class Revision:
    """One edit of an entity's page.

    content: the entity as its JSON, a `Redirect`, or None where the page was deleted. hidden: its text was taken from
    public view afterwards, as administrators do. The number and the time are what the server states, whatever the
    entity's own ``lastrevid`` and ``modified`` say.
    """

    number: int
    timestamp: str  # 2024-01-01T00:00:00Z
    content: Json | Redirect | None
    hidden: bool = False


@dataclass(frozen=True)
class Page:
    """The page of an entity as the database has it: nothing of a page that is deleted can be seen."""

    id: str
    number: int  # of the page
    revisions: tuple[Revision, ...]  # from the oldest

    @property
    def namespace(self) -> int:
        return NAMESPACES[self.id[0]][0]

    @property
    def title(self) -> str:
        return NAMESPACES[self.id[0]][1] + self.id

    @property
    def deleted(self) -> bool:
        return self.revisions[-1].content is None

    @property
    def visible(self) -> tuple[Revision, ...]:
        """Revisions that are listed: a deletion is no revision, it stands in a log."""
        return () if self.deleted else tuple(one for one in self.revisions if one.content is not None)

    @property
    def latest(self) -> Revision:
        return self.visible[-1]


@dataclass(frozen=True)
class World:
    """entities: histories from the oldest revision on. views: by project and title, views of each month (``2021-01``).

    largest: bytes of JSON above which api.php leaves out what does not fit any more. base: the beginning of the
    addresses of entities in the query service.
    """

    entities: Mapping[str, list[Revision]]
    views: Mapping[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)
    largest: int = 12_582_912
    base: str = "http://www.wikidata.org/"

    @cached_property
    def pages(self) -> dict[str, Page]:
        return {
            id: Page(id, 1000 + place, tuple(revisions))
            for place, (id, revisions) in enumerate(self.entities.items())
            if revisions
        }

    @cached_property
    def by_title(self) -> dict[str, Page]:
        return {page.title: page for page in self.pages.values()}

    @cached_property
    def by_number(self) -> dict[int, Page]:
        return {page.number: page for page in self.pages.values()}

    def page(self, id: str) -> Page | None:
        """The page of an entity, where it is there today."""
        found = self.pages.get(id)
        return None if found is None or found.deleted else found


def of_dump(entities: list[Json]) -> dict[str, list[Revision]]:
    """Histories of one revision each, of entities as a dump holds them."""
    return {
        one["id"]: [Revision(one.get("lastrevid", place + 1), one.get("modified", "2020-01-01T00:00:00Z"), one)]
        for place, one in enumerate(entities)
    }


def entity_id(text: str) -> str | None:
    """An id in the usual form; None for what is no id of an item, property or lexeme."""
    id = text.strip().upper()
    return id if re.fullmatch(r"[QPL][1-9]\d*", id) and int(id[1:]) <= HIGHEST_ID else None


def with_page(page: Page, revision: Revision, content: Json) -> Json:
    """An entity as the services give it: with its page and the revision before all else."""
    head = {"pageid": page.number, "ns": page.namespace, "title": page.title, "lastrevid": revision.number,
            "modified": revision.timestamp}  # fmt: skip
    return head | {name: value for name, value in content.items() if name not in head}
