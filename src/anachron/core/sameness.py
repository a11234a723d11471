"""When two spellings are one name: the one rule by which names of subjects, relations and objects are compared."""

import unicodedata
from functools import lru_cache

# Characters of format (Cf) that are seen: marks of Arabic, Syriac and Kaithi numbers, and the tags by which the flag of
# England is another than that of Scotland
_SEEN = frozenset(
    map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0xE0020, 0xE0080)))
)


@lru_cache(maxsize=1 << 16)
def name_key(text: str) -> str:
    """What two spellings of one name share: compare, group, count and search names by this, and show them as written.

    Composed and decomposed letters are one (NFC), so are capital and small ones; invisible characters (a zero-width
    space, a direction mark, a soft hyphen) count for nothing, and any run of white space is one space. A letter is
    folded into one letter at most, which is Unicode's simple case folding: the full one would make *Weiß* and *Weiss*,
    or *İ* and *i* with a dot above, one name.
    """
    if text.isascii():
        return " ".join(text.lower().split())
    visible = "".join(sign for sign in text if not is_invisible(sign))
    folded = "".join(map(_folded, unicodedata.normalize("NFC", visible)))
    return " ".join(unicodedata.normalize("NFC", folded).split())


def plain(text: str) -> str:
    """Small letters and digits without marks, single spaces between words: ``Édouard  Balladur.`` becomes ``edouard
    balladur``."""
    visible = (c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c) != "Cf")
    letters = (c for c in visible if not unicodedata.combining(c))
    kept = "".join(c if c.isalnum() or unicodedata.category(c).startswith("M") else " " for c in letters)
    return " ".join(kept.casefold().split())


def same_name(one: str, other: str) -> bool:
    """Whether two spellings are one name, by `name_key`."""
    return one == other or name_key(one) == name_key(other)


def is_invisible(sign: str) -> bool:
    """Whether a character only says how others are set, and counts for nothing in a name."""
    return unicodedata.category(sign) == "Cf" and sign not in _SEEN


def code_points(text: str) -> str:
    """A text with what the eye misses written out: ``Pelé (U+0050 U+0065 U+006C U+0065 U+0301)``."""
    return f"{text} ({' '.join(f'U+{ord(sign):04X}' for sign in text)})"


def _folded(letter: str) -> str:
    for small in (letter.casefold(), letter.lower()):
        if len(small) == 1:
            return small
    return letter
