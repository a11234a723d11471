"""What all actions of api.php share: parameters and their limits, errors, warnings, and how much an answer holds."""

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from wikidata.wikibase_world import Json, World

VALUES, ROWS, TEXTS = 50, 500, 50  # values of a parameter; rows of a list; rows of a list with their texts


@dataclass
class Answer:
    """What is said so far, in the version of the format that was asked for (1 or 2)."""

    version: int
    body: Json = field(default_factory=dict)
    warnings: dict[str, list[str]] = field(default_factory=dict)

    def warn(self, module: str, text: str) -> None:
        said = self.warnings.setdefault(module, [])
        if text not in said:
            said.append(text)

    def mark(self, value: bool = True) -> Any:
        """Something true: version 1 writes an empty text."""
        return True if self.version == 2 else ""

    def whole(self) -> Json:
        name = "warnings" if self.version == 2 else "*"
        warnings = {module: {name: "\n".join(said)} for module, said in self.warnings.items()}
        return ({"warnings": warnings} if warnings else {}) | self.body


class Refusal(Exception):
    def __init__(self, code: str, info: str, **more: Any) -> None:
        self.code, self.info, self.more = code, info, more


def error(version: int, code: str, info: str, **more: Any) -> Json:
    link = "docref" if version == 2 else "*"
    return {
        "error": {"code": code, "info": info, **more, link: "See https://www.wikidata.org/w/api.php for API usage."}
    }


def several(params: dict[str, str], name: str, default: str = "") -> list[str]:
    """The values of a parameter: parted by ``|``, or by U+001F where it begins with that. Raises `Refusal`."""
    text = params.get(name, default)
    values = text[1:].split("\x1f") if text.startswith("\x1f") else text.split("|")
    values = list(dict.fromkeys(values)) if text else []
    if len(values) > VALUES:
        raise Refusal(
            "toomanyvalues", f'Too many values supplied for parameter "{name}". The limit is {VALUES}.',
            parameter=name, limit=VALUES, lowlimit=VALUES, highlimit=500,
        )  # fmt: skip
    return values


def moment(params: dict[str, str], name: str) -> str | None:
    """A time in the form of the revisions. Raises `Refusal`."""
    text = params.get(name)
    if text is None:
        return None
    for form in ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y%m%d%H%M%S"):
        try:
            return f"{datetime.strptime(text, form):%Y-%m-%dT%H:%M:%SZ}"
        except ValueError:
            continue
    if text == "now" or text.isdecimal():
        return f"{datetime.now(UTC) if text == 'now' else datetime.fromtimestamp(int(text), UTC):%Y-%m-%dT%H:%M:%SZ}"
    raise Refusal("badtimestamp", f'Invalid value "{text}" for timestamp parameter "{name}".')


def limit(params: dict[str, str], name: str, most: int, answer: Answer, module: str) -> int:
    text = params.get(name, "10")
    if text == "max":
        return most
    if not text.isdecimal() or int(text) < 1:
        raise Refusal("badinteger", f'Invalid value "{text}" for integer parameter "{name}".')
    if int(text) > most:
        answer.warn(module, f'The value passed for "{name}" must be between 1 and {most}. {text} was given.')
    return min(int(text), most)


class Room:
    """Bytes that still fit into an answer."""

    def __init__(self, world: World, answer: Answer) -> None:
        self.left, self.largest, self.answer = world.largest, world.largest, answer

    def takes(self, value: Any) -> bool:
        size = len(json.dumps(value, ensure_ascii=False).encode())
        if size > self.left:
            text = "This result was truncated because it would otherwise be larger than the limit of"
            self.answer.warn("result", f"{text} {self.largest:,} bytes.")
            return False
        self.left -= size
        return True


def with_urls(links: dict[str, Json]) -> dict[str, Json]:
    return {site: link | {"url": article_url(site, link["title"])} for site, link in dict(links).items()}


def article_url(site: str, title: str) -> str:
    place = re.fullmatch(r"(.+?)(wiki|wikiquote|wikisource|wikinews|wikibooks|wikivoyage|wiktionary|wikiversity)", site)
    language, family = ("www", "wikidata") if place is None else (place[1].replace("_", "-"), place[2])
    host = f"{language}.{'wikipedia' if family == 'wiki' else family}.org"
    host = f"{site.removesuffix('wiki')}.wikimedia.org" if site in ("commonswiki", "specieswiki", "metawiki") else host
    return f"https://{host}/wiki/{quote(title.replace(' ', '_'))}"
