"""Which English names take "the" inside a sentence.

What a name stands for decides where it is known: a person never takes the article, a car does, a football club does not
but the New York Yankees do. Else the noun at the head of the name decides (``Ministry`` in ``Ministry of Justice``).
Lists of names come last. All words are in ``languages/en.json``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from anachron.core.errors import ConfigError
from anachron.text.kinds import KINDS
from anachron.text.words import words_of

_LINKS = frozenset({"of", "in", "for", "on", "at", "to", "without", "from", "with"})
_IN_BRACKETS = re.compile(r"\s*\([^()]*\)\s*$")
_SHIP_PREFIX = re.compile(r"[A-Z]{2,5} [A-Z\d]")  # HMS Victory
_NUMBERED = re.compile(r"\d+(?:st|nd|rd|th)\b")  # 62nd Fighter Squadron, 14th Dalai Lama
_OF_A_YEAR = re.compile(r"\d{4} \w")  # 2012 Summer Olympics
_VESSELS = frozenset({"battleship", "carrier", "cruiser", "destroyer", "frigate", "submarine"})
_FOREIGN_ENDINGS = ("ais", "ois", "enses", "as", "os", "us", "is", "ss", "ães")
_ANY = "any kind"
_INVERTED = re.compile(r"(?:, | \()The\)?$")  # Coca-Cola Company (The)
_OF_A_COUNTRY = re.compile(r"\w{2,}(?:an|ese|ish|ch|ic|i|ss)$")  # Bulgarian Lev, but Ayn Rand
_ALWAYS = frozenset({"currency", "model", "office"})
_CALLED_AFTER_ANY = frozenset(
    {"band", "company", "periodical", "software", "team", "work"}
)  # Kingdom of Heaven, a film
_BARE_WATERS = re.compile(r"(?:Lac|Lago|Lake|Loch|Lough) |.* (?:Bay|Creek|Falls|Fjord|Harbour|Lagoon|Lake|Sound)$")


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of ``languages/en.json``, under ``the``.

    heads: kind -> nouns that take the article at the head of a name of that kind, and of a name of an unknown kind;
    heads_when_known: the same, but not of an unknown kind, for they are surnames too. heads_of: nouns that take it only
    before a link (``University of``). modified: noun -> words before it with which it takes it (``Supreme Court``).
    starts: kind -> beginnings of names that take it. clubs: words in names of clubs that do not; nicknames: last
    words of teams that do, not_teams: of teams that do not. currencies: units of money, in small letters,
    currencies_and_names: those that are surnames too; makers: first words of models (``Ferrari 458``), not_models:
    words of what else begins so (``Ferrari Museum``). ideas: last words of theorems and the like. with_the, without:
    kind -> whole names.
    """

    heads: Mapping[str, frozenset[str]]
    heads_when_known: Mapping[str, frozenset[str]]
    heads_of: frozenset[str]
    modified: Mapping[str, frozenset[str]]
    starts: Mapping[str, frozenset[str]]
    foreign_articles: frozenset[str]
    clubs: frozenset[str]
    nicknames: frozenset[str]
    not_teams: frozenset[str]
    currencies: frozenset[str]
    currencies_and_names: frozenset[str]
    makers: frozenset[str]
    not_models: frozenset[str]
    ideas: frozenset[str]
    with_the: Mapping[str, frozenset[str]]
    without: Mapping[str, frozenset[str]]


@cache
def _words() -> _Words:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            return frozenset(value)
        of_kind = {kind: read(words) for kind, words in value.items()}
        return of_kind | {_ANY: frozenset().union(*of_kind.values())}

    return _Words(**{name: read(value) for name, value in words_of("English", "the").items()})


def in_sentence(label: str, kind: str | None = None) -> str:
    """A name as it reads inside an English sentence: ``the United States``, ``Barack Obama``.

    kind: what it names, one of `anachron.text.kinds.KINDS`; None where that is not known. Raises `ConfigError` for
    another one.
    """
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"kind {kind!r} of {label!r}: choose one of {', '.join(KINDS)}")
    return f"the {label}" if takes_article(label, kind) else label


def takes_article(label: str, kind: str | None = None) -> bool:
    """Whether a name takes "the" inside a sentence; one that begins with an article, of any language, has its own."""
    words = _words()
    name = _IN_BRACKETS.sub("", label.strip())
    first = name.partition(" ")[0]
    if kind == "title" or not name or first in {"The", "the"} or first in words.foreign_articles:
        return False
    if _INVERTED.search(label):
        return True
    if kind == "person":
        return bool(_NUMBERED.match(name))
    if name in _of_kind(words.without, kind):
        return False
    if kind in _ALWAYS or name in _of_kind(words.with_the, kind):
        return True
    if kind == "ship":
        return not _SHIP_PREFIX.match(name)
    if kind == "water":
        return not _BARE_WATERS.match(name)
    core = name.partition(",")[0].split() or name.split()
    if kind == "team" or kind is None:
        decided = _of_team(core, kind)
        if decided is not None:
            return decided
    if kind is None and (_is_money(core) or _is_model(core)):
        return True
    return _by_beginning(name, kind) or _by_head(core, kind)


def _is_money(core: list[str]) -> bool:
    """Whether a name ends in a unit of money; one that is a surname too needs a country before it: ``German mark``."""
    words, unit = _words(), core[-1].lower()
    if unit in words.currencies_and_names:
        return any(map(_OF_A_COUNTRY.match, core[:-1]))
    return len(core) > 1 and unit in words.currencies


def _is_model(core: list[str]) -> bool:
    """Whether a name is a maker's and then a model's: ``Ferrari 458``."""
    words = _words()
    return len(core) > 1 and core[0] in words.makers and not words.not_models.intersection(core)


def _of_kind(lists: Mapping[str, frozenset[str]], kind: str | None) -> frozenset[str]:
    """The words of any kind; of the own kind alone for what is called after anything, as a company or a film."""
    return lists.get(kind or "", frozenset()) if kind in _CALLED_AFTER_ANY else lists[_ANY]


def _of_team(core: list[str], kind: str | None) -> bool | None:
    """Whether the name of a team takes the article; None where it may be something else."""
    words, last = _words(), core[-1]
    if words.clubs.intersection(core):
        return False
    if last in {"team", "Team"} or (len(core) > 1 and last in words.nicknames):
        return True
    if kind is None:
        return None
    if last in words.heads_when_known["team"]:
        return True
    return len(core) > 1 and last.endswith("s") and last not in words.not_teams and not last.endswith(_FOREIGN_ENDINGS)


def _by_beginning(name: str, kind: str | None) -> bool:
    starts = _words().starts
    if name.startswith(tuple(_of_kind(starts, kind))):
        return True
    if _NUMBERED.match(name):
        return kind in (None, "organisation", "event")
    return kind in (None, "event") and bool(_OF_A_YEAR.match(name))


def _by_head(core: list[str], kind: str | None) -> bool:
    """Whether the noun at the head of a name takes the article: its last word, or that before ``of`` and the like."""
    words = _words()
    if kind is None and _VESSELS.intersection(core):
        return True
    end = next((place for place, word in enumerate(core) if word in _LINKS and place > 0), len(core))
    head, before = core[end - 1], core[end - 2] if end > 1 else ""
    if before in {"and", "&"}:  # Eli Lilly and Company
        return False
    if (
        end < len(core)
        and head.rpartition("-")[2] in words.heads_of
        and kind not in _CALLED_AFTER_ANY - {"company", "periodical"}
    ):
        return True
    if before in words.modified.get(head, ()):
        return True
    if kind not in _CALLED_AFTER_ANY and head.endswith("museum"):  # Rijksmuseum
        return True
    if head in words.ideas:
        return not before.endswith(("'s", "s'", "’s"))  # Fermat's theorem
    return head in _of_kind(words.heads, kind) or head in words.heads_when_known.get(kind or "", ())
