"""The text of a file of unknown encoding: UTF-8, UTF-16 by its mark, or one that its bytes speak for."""

import codecs
import re

from anachron.core.errors import DataError
from anachron.core.sameness import plain
from anachron.data.own.columns import WESTERN

# The letters beyond ASCII that languages write in each of the encodings that spreadsheets save, likelier ones first.
# In a short file the library alone takes "Schüssel" for "Sch³ssel"; that some one language has all its letters decides.
_WEST = (
    "äöüß", "àâæçèéêëîïôœùûüÿ", "áéíñóúüªº", "áâãàçéêíóôõúüªº", "àèéìíòóù", "åäöéšž", "æøåé", "éëïóöü", "áéíðóúýþæö",
)  # fmt: skip
_CYRILLIC = ("".join(map(chr, range(0x430, 0x460))) + "ґ",)
ALPHABETS = {
    "cp1252": _WEST,
    "cp1250": ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "ăâîşţ", "čćđšž", "äöüß"),
    "cp1251": _CYRILLIC,
    "cp1253": ("άέήίαβγδεζηθικλμνξοπρςστυφχψωϊϋόύώ",),
    "cp1254": ("çğıiöşüâîû",),
    "cp1257": ("ąčęėįšųūž", "āčēģīķļņšūž", "äöõüšž"),
    "mac_roman": _WEST,
    "cp850": _WEST,
    "koi8_r": _CYRILLIC,
}
_SIGNS = frozenset("¿¡“”„‚‘’–—…·«»‹›°§€£©®™\u00a0")  # of every language; some may stand between two letters
_JOINING = frozenset("’–—·\u00a0")
_SURE = 0.9  # of the letters of a text are letters that the encoding's languages have
_MARGIN = 0.2
_HEADER = 1_000  # bytes in which the names of columns are looked for
_SAMPLE = 100_000  # bytes of lines that are not ASCII
_FIX = "save the file as UTF-8 (Excel: CSV UTF-8)"


def decoded(content: bytes, *, partial: bool = False) -> tuple[str, tuple[str, ...]]:
    """The text of a file, without its byte order mark, and what its reader should know. partial: its last character may
    be cut.

    Raises `DataError` for zero bytes, and naming the line where neither UTF-8 nor another encoding fits.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        whole = content[: len(content) // 2 * 2]
        # halves of characters, which JSON's escapes may make as well, are told of by whoever reads the text
        return codecs.getincrementaldecoder("utf-16")("surrogatepass").decode(whole, final=not partial), ()
    if b"\0" in content[:4096]:
        raise DataError("the file is binary, or UTF-16 without its mark; save it as UTF-8")
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(content, final=not partial), ()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        wrong = f"line {line}: the byte 0x{content[error.start]:02x} is not UTF-8"
    lossy = content.decode("utf-8", "replace")
    broken = lossy.count("\ufffd")
    if sum(not sign.isascii() for sign in lossy) - broken > broken:  # UTF-8 but for a few bytes
        raise DataError(f"{wrong}, though the rest of the file is; {_FIX}")
    western = not WESTERN.isdisjoint(plain(content[:_HEADER].decode("cp1252", "replace")).split())
    sample = b"\n".join(line for line in content.splitlines() if not line.isascii())[:_SAMPLE]
    readings = _readings(sample, western=western)
    if not readings:
        raise DataError(f"{wrong}, and no other encoding fits; {_FIX}")
    encoding = next(iter(readings))
    if encoding == "cp1252":  # no doubt comes from what no program saves any more
        readings = {one: text for one, text in readings.items() if one.startswith("cp125")}
    others = [one for one, text in readings.items() if text != readings[encoding]]
    # Windows-1252 is by far the most common; from that of Central Europe columns in a western language tell it
    if others and (encoding != "cp1252" or ("cp1250" in others and not western)):
        raise DataError(f"{wrong}, and it may be {_shown(encoding)}{_doubt(readings)}; {_FIX}")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        raise DataError(f"{wrong}, and not all of it is {_shown(encoding)}; {_FIX}") from None
    return text, (f"the file is not UTF-8 and is read as {_shown(encoding)}{_doubt(readings)}; {_FIX} to be sure",)


def _doubt(readings: dict[str, str]) -> str:
    """A word of the likeliest reading, and what it would be in the next one that has another."""
    text = next(iter(readings.values()))
    other, found = next((one for one in readings.items() if one[1] != text), ("", text))
    at = next(n for n, sign in enumerate(text) if found[n] != sign or (found == text and not sign.isascii()))
    word = next((word for word in re.finditer(r"[^\W_]+", text) if word.start() <= at < word.end()), None)
    begin, end = word.span() if word else (at, at + 1)
    doubt = f"; in {_shown(other)} it would be {found[begin:end]!r}" if other else ""
    return f" ({text[begin:end]!r}{doubt})"


def _shown(encoding: str) -> str:
    return encoding.replace("cp125", "Windows-125")


def _readings(sample: bytes, *, western: bool) -> dict[str, str]:
    """The encodings that fit a sample best, likeliest first, and what it says in each; none where nothing is sure.

    western: whether the names of columns are in a western language; then Windows-1252 is among them if it fits at all,
    also where names of several languages stand in the file (Miloš, António, Þór), all of whose letters none has.
    """
    from charset_normalizer import from_bytes  # only few files need it

    plausible = {
        encoding
        for match in from_bytes(sample, cp_isolation=list(ALPHABETS), threshold=0.4, preemptive_behaviour=False)
        for encoding in match.could_be_from_charset
    }
    fits: dict[str, float] = {}
    for encoding, alphabets in ALPHABETS.items():
        try:
            letters = _letters(sample.decode(encoding))
        except UnicodeDecodeError:
            continue
        known = _share(letters, "".join(alphabets))
        if encoding in plausible and known >= _SURE:
            fits[encoding] = max(_share(letters, alphabet) for alphabet in alphabets)
    most = max(fits.values(), default=0)
    least = most if most == 1 else most - _MARGIN  # names of several languages: no single one has all the letters
    kept = [encoding for encoding, fit in fits.items() if fit >= least or (western and encoding == "cp1252")]
    return {encoding: sample.decode(encoding) for encoding in kept}


def _share(letters: list[str], alphabet: str) -> float:
    return sum(letter in alphabet for letter in letters) / len(letters) if letters else 1.0


def _letters(text: str) -> list[str]:
    """The letters beyond ASCII in small; what cannot stand where it does (a capital behind a small letter, Greek or
    Cyrillic beside Latin, a quotation mark inside a word) as a sign that no alphabet has."""
    found = []
    for before, sign, after in zip(" " + text, text, text[1:] + " ", strict=False):
        inside = before.isalpha() and after.isalpha()
        if sign.isascii() or (sign in _SIGNS and not (inside and sign not in _JOINING)):
            continue
        mixed = sign > "\u036f" and any(one.isascii() and one.isalpha() for one in (before, after))
        wrong = mixed or sign in _SIGNS or (sign.isupper() and before.islower())
        found.append("\0" if wrong else "i" if sign == "İ" else sign.lower())
    return found
