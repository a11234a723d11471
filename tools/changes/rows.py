"""A change on its way into the bundled file, and what it takes to see that two of them are one."""

import re
import unicodedata
from dataclasses import dataclass
from datetime import date

GRADES = ("low", "medium", "high")


@dataclass(frozen=True)
class Row:
    """``date``: ISO, to the day or the month. predictable: one of `GRADES`, or empty. control: ``still`` of a value
    that holds on the date, ``invented`` of a subject that does not exist; empty of a change."""

    subject: str
    relation: str
    kind: str
    old: str
    new: str
    date: str
    source: str
    predictable: str = ""
    control: str = ""


def first_day(text: str) -> date:
    """Of a day or a month."""
    return date.fromisoformat(text if len(text) == 10 else f"{text}-01")


def days_apart(a: str, b: str) -> int:
    """Fewest days between two dates; none between a month and a day in it."""
    if a[:7] == b[:7] and min(len(a), len(b)) == 7:
        return 0
    return abs((first_day(a) - first_day(b)).days)


def plain(name: str) -> str:
    """A name without accents, case, dots and particles of titles, for comparison."""
    bare = unicodedata.normalize("NFKD", name.replace("ł", "l").replace("ø", "o").replace("đ", "d").replace("ı", "i"))
    bare = "".join(c for c in bare if not unicodedata.combining(c)).casefold()
    return " ".join(re.sub(r"[^\w ]", " ", bare.replace("-", " ")).split())


def same_name(a: str, b: str) -> bool:
    """Whether two labels may well name one: the same but for accents and initials, or with the same first and last
    words, or one short for the other (Carlos Sainz, Carlos Sainz Jr.)."""
    one, other = ([w for w in plain(name).split() if len(w) > 1 and w != "jr"] for name in (a, b))
    if not one or not other:  # a version, an initial: no name of a person
        return plain(a) == plain(b)
    if sorted(one) == sorted(other):
        return True
    if one[0] == other[0] and one[-1] == other[-1]:
        return True
    short, long = sorted((set(one), set(other)), key=len)
    if len(short) > 1 and short <= long:
        return True
    return one[-1] == other[-1] and one[0][:3] == other[0][:3]
