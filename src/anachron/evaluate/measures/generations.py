"""What a model generates of its own accord: whether its greedy text begins with an object, by any of its names.

Probabilities of given objects flatter: the better of two may be far from what the model would generate. Names are
compared without capital letters, accents, punctuation and articles, as answers are in question answering (SQuAD), and
as whole words. Hyphens, apostrophes and full stops in words vanish (``U.S.``, ``O'Neal``), other punctuation parts
words.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

import polars as pl

from anachron.core.facts import DECISIONS
from anachron.data.updates.case_records import EditCase, prompt_kind, prompts_of
from anachron.evaluate.measures.measure import Measure, Writer
from anachron.evaluate.results import (
    COUNT,
    KEYS,
    NUMBER,
    PAIR,
    PROMPT,
    TARGET_KINDS,
    TEXT,
)
from anachron.io.files import Json
from anachron.text.openings import goes_on

SPARE = 4  # tokens generated beyond the longest name: for an article or a quotation mark in front, the end of a word
GENERATION_METRICS = (
    "generated_new", "generated_old", "generalization_generated_new", "generalization_generated_old",
)  # fmt: skip
ARTICLES = frozenset({"a", "an", "the"})
ACCENTS = 200  # combining classes from here on are of accents; below are marks that letters are written with (vowels)
PARTING = "—―"  # dashes between clauses; the others join words


def plain_words(text: str) -> tuple[str, ...]:
    """The words of a text as they are compared, articles among them. Normal form: the words of its words are itself."""
    letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    plain = []
    for place, letter in enumerate(letters):
        before, after = letters[place - 1 : place], letters[place + 1 : place + 2]
        kind = unicodedata.category(letter)
        if unicodedata.combining(letter) >= ACCENTS:
            continue
        if letter in ".," and before.isdecimal() and after.isdecimal():
            plain.append(letter.replace(",", ""))
        elif letter in ".'’ʼ" or (kind == "Pd" and letter not in PARTING) or kind == "Cf":
            continue
        else:
            plain.append(letter if letter.isalnum() or kind.startswith("M") else " ")
    return tuple("".join(plain).split())


def letters_of_name(text: str, names: Iterable[str]) -> int:
    """How many letters of a text the longest of the names takes that it begins with; 0 where it begins with none.

    A name is the first whole words of the text, articles on either side not counted. A name that is nothing but
    articles stands behind no words but these, and so does one without any letter ("÷", "!!!"), sign by sign.
    """
    words = plain_words(text)
    return max((_length(words, plain_words(name)) or _length_of_signs(text, name) for name in names), default=0)


def _length(text: tuple[str, ...], name: tuple[str, ...]) -> int:
    bare, rest = (tuple(word for word in words if word not in ARTICLES) for words in (name, text))
    if bare:
        return _length_at_start(rest, bare)
    first = next((place for place, word in enumerate(text) if word not in ARTICLES), len(text))
    return max(_length_at_start(text[place:], name) for place in range(first + 1))


def _length_at_start(text: tuple[str, ...], name: tuple[str, ...]) -> int:
    generated, wanted = " ".join(text), " ".join(name)
    behind = generated[len(wanted) : len(wanted) + 1]
    if not wanted or not generated.startswith(wanted):
        return 0
    return 0 if behind == "." or goes_on(wanted[-1], behind) else len(wanted)  # "3" is not "3.5"


def _length_of_signs(text: str, name: str) -> int:
    """The same for a name that has no words; 0 for one that has."""
    generated, wanted = (" ".join(unicodedata.normalize("NFKC", t).casefold().split()) for t in (text, name))
    if not wanted or plain_words(wanted):
        return 0
    for place in (match.start() for match in re.finditer(f"(?={re.escape(wanted)})", generated)):
        before, behind = generated[:place], generated[place + len(wanted) :]
        part = before.endswith(wanted[0]) or behind.startswith(wanted[-1]) or behind[:1].isalnum()  # of "++", "+44"
        if not part and ARTICLES.issuperset(plain_words(before)):
            return len(wanted)
    return 0


def names_of(case: EditCase, decision: str) -> tuple[str, ...]:
    """All names of the new, obsolete or static objects of an update: their labels and the aliases of these."""
    one = {"new": case.new, "obsolete": case.old}.get(decision)
    labels = dict.fromkeys([one or "", *(label for label, its_decision in case.objects if its_decision == decision)])
    aliases = [alias for label, alias in case.aliases if label in labels]
    return tuple(dict.fromkeys(name for name in (*labels, *aliases) if name))


def generation_rows(case: EditCase, texts: Sequence[str]) -> list[Json]:
    """What a model generated after the update prompt and the generalization prompts: a new object, or an old one?

    One new object is enough of several: a text begins with one. Where a new name begins with an old one, or the other
    way round, the longer one is what was generated. None where an update has no such object.
    """
    new, old = names_of(case, "new"), names_of(case, "obsolete")
    rows = []
    for number, text in enumerate(texts):
        lengths = letters_of_name(text, new), letters_of_name(text, old)
        rows.append({
            "kind": prompt_kind(number), "prompt_number": number, "text": text,
            "new": float(0 < lengths[0] >= lengths[1]) if new else None,
            "old": float(0 < lengths[1] >= lengths[0]) if old else None,
        })  # fmt: skip
    return rows


def generation_metrics(generations: pl.DataFrame) -> pl.DataFrame:
    """One row per mode, method and update with its `GENERATION_METRICS`, from a table of `GENERATIONS`.

    ``generated_new`` is 1 where the text after the update prompt begins with a new object, else 0, and
    ``generated_old`` the same of an old one; ``generalization_*`` are the means over the other prompts. Null
    where there is no such object.
    """
    kinds = {"update": "generated_{}", "generalization": "generalization_generated_{}"}
    return generations.group_by(KEYS, maintain_order=True).agg(
        pl.col(f"{which}_after").filter(pl.col("kind") == kind).mean().alias(name.format(which))
        for kind, name in kinds.items()
        for which in ("new", "old")
    )


def continuations(writer: Writer, case: EditCase) -> list[str]:
    """What the model generates after each prompt of an update: a few tokens more than its longest object has.

    None where the update has no object that could be generated.
    """
    names = [name for decision in DECISIONS for name in names_of(case, decision)]
    return writer.greedy(prompts_of(case), writer.longest(case.text, names) + SPARE) if names else []


# One row per prompt that a model was to go on from: its text, and whether that begins with a new or old object (0, 1).
GENERATIONS = Measure(
    name="generations",
    entry={"kind": TEXT, "prompt_number": COUNT, "text": TEXT, "new": NUMBER, "old": NUMBER},
    how=lambda measures: measures.generate or None,
    writes=lambda case, how: True,
    written=lambda writer, case, how, rows: generation_rows(case, continuations(writer, case)),
    optional=True,
    table={**PROMPT, "text_before": TEXT, "text_after": TEXT, **PAIR},
    keys=("kind", "prompt_number"),
    known={"kind": TARGET_KINDS},
    scores=("new_after", "old_after"),
)
