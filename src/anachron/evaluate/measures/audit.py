"""An audit of free generation: does the model's whole answer to a bare prompt say the new object, and does it stop?

As in "The Mirage of Model Editing" (Yang and others, ACL 2025): nothing but the prompt is given, neither the answer's
tokens nor its length, the model ends its answer itself, and all of it is compared with the object's names. Names are
compared as in `anachron.evaluate.measures.generations`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

from anachron.core.errors import ConfigError
from anachron.data.updates.case_records import EditCase, numbered_prompts, prompts_of
from anachron.evaluate.measures.generations import ARTICLES, SPARE, names_of, plain_words
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

ANSWERS = ("answer_new", "answer_old", "answer_neither", "answer_unstopped")
AUDIT_METRICS = (*ANSWERS, *(f"generalization_{name}" for name in ANSWERS))
PUBLISHED_TOKENS = 50  # of an answer
SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
NAMES = {"prompt": TEXT, "new_names": pl.List(TEXT), "old_names": pl.List(TEXT)}


@dataclass(frozen=True, slots=True)
class AnswerAudit:
    """most_tokens: of an answer; by default 50, as published, and more where the update has a longer object."""

    most_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.most_tokens is not None and self.most_tokens < 1:
            raise ConfigError(f"an answer of {self.most_tokens} tokens says nothing; give at least 1 token")


def sentence_end(text: str, names: Iterable[str]) -> int | None:
    """Where the first sentence of a text ends; None where no end is seen yet.

    A mark behind a word, with white space behind it, is the end, but for one that stands within a name: "St." is not
    yet "St. Louis".
    """
    for match in SENTENCE_END.finditer(text):
        if not is_within(text[: match.end()], names):
            return match.end()
    return None


def is_within(text: str, names: Iterable[str]) -> bool:
    """Whether a text is the beginning of a name, with words to come."""
    words = _bare(text)
    return any(len(words) < len(name) and name[: len(words)] == words for name in map(_bare, names))


def says_exactly(answer: str, names: Iterable[str]) -> bool:
    """Whether an answer is one of the names and nothing else, articles, capital letters and punctuation apart."""
    return any(_bare(answer) == _bare(name) and (_bare(name) or _signs(answer) == _signs(name)) for name in names)


def _bare(text: str) -> tuple[str, ...]:
    """The words that are compared: without articles, unless there is nothing else."""
    words = plain_words(text)
    return tuple(word for word in words if word not in ARTICLES) or words


def _signs(text: str) -> str:
    """A text without words, as it is compared."""
    return "".join(text.split()) or text


def audit_rows(case: EditCase, answers: Sequence[tuple[str, bool]]) -> list[Json]:
    """A row a prompt that was answered: the answer, whether it stopped, and whether it is a new or an old object.

    answers: (text, whether it stopped), as `anachron.lm.generation.natural_answers` gives them, of all prompts or of
    none. One new object is enough of several. None where an update has no such object. The names are kept for a judge.
    """
    new, old = names_of(case, "new"), names_of(case, "obsolete")
    return [
        {
            "kind": kind, "prompt_number": number, "prompt": prompt, "new_names": list(new), "old_names": list(old),
            "text": text, "stopped": float(stopped),
            "new": float(says_exactly(text, new)) if new else None,
            "old": float(says_exactly(text, old)) if old else None,
        }
        for (kind, number, prompt), (text, stopped) in zip(numbered_prompts(case), answers, strict=False)
    ]  # fmt: skip


def audit_metrics(audit: pl.DataFrame) -> pl.DataFrame:
    """One row per mode, method and update with its `AUDIT_METRICS`, from a table of `AUDIT`.

    ``answer_new`` is 1 where the answer to the update prompt is a new object, word for word, else 0; ``answer_old``
    the same of an old one; ``answer_neither`` 1 where it is none of them; ``answer_unstopped`` 1 where the model did
    not end its answer. ``generalization_*`` are the means over the other prompts. Null where there is no such object.
    """
    said = pl.max_horizontal("new_after", "old_after")
    values = {
        "answer_new": pl.col("new_after"),
        "answer_old": pl.col("old_after"),
        "answer_neither": 1 - said,
        "answer_unstopped": 1 - pl.col("stopped_after"),
    }
    kinds = {"update": "", "generalization": "generalization_"}
    return audit.group_by(KEYS, maintain_order=True).agg(
        value.filter(pl.col("kind") == kind).mean().alias(f"{prefix}{name}")
        for kind, prefix in kinds.items()
        for name, value in values.items()
    )


def answers_to(writer: Writer, case: EditCase, audit: AnswerAudit) -> list[tuple[str, bool]]:
    """What the model answers each prompt of an update; nothing where the update names no object."""
    names = [*names_of(case, "new"), *names_of(case, "obsolete")]
    if not names:
        return []
    most = audit.most_tokens or max(PUBLISHED_TOKENS, writer.longest(case.text, names) + SPARE)
    of_lines = [name for name in names if "\n" in name]  # a break ends an answer unless a name has one
    return writer.answers(
        prompts_of(case), most, partial(sentence_end, names=names), partial(is_within, names=of_lines)
    )


# One row per prompt that a model was to answer: prompt, names of new and old objects, the answer, whether it ended by
# itself, and whether it is a new or an old object and nothing else (0, 1).
AUDIT = Measure(
    name="audit",
    entry={
        "kind": TEXT, "prompt_number": COUNT, **NAMES, "text": TEXT, "stopped": NUMBER, "new": NUMBER, "old": NUMBER,
    },
    how=lambda measures: measures.audit,
    writes=lambda case, audit: True,
    written=lambda writer, case, audit, rows: audit_rows(case, answers_to(writer, case, audit)),
    optional=True,
    table={
        **PROMPT, **NAMES, "text_before": TEXT, "text_after": TEXT, "stopped_before": NUMBER, "stopped_after": NUMBER,
        **PAIR,
    },
    keys=("kind", "prompt_number"),
    known={"kind": TARGET_KINDS},
    scores=("new_after", "old_after", "stopped_after"),
)  # fmt: skip
