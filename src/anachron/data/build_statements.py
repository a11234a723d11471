"""``build statements``: a data set written to a file, with its manifest and its card."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from anachron.core.contexts import sampling_named
from anachron.core.periods import Boundaries
from anachron.data.card import card, card_of, counts, history
from anachron.data.columns import to_published
from anachron.data.facts import asked_facts, read_questions
from anachron.data.statements import build_statements
from anachron.errors import ConfigError, DataError
from anachron.io import Json, check_ending, file_fingerprint, write_bytes, write_manifest, write_table
from anachron.text.dates import wording_of
from anachron.text.openings import language_of

COMMAND = "build statements"


@dataclass(frozen=True)
class BuiltDataset:
    """What `build_dataset` wrote.

    table: one row a statement, columns of `anachron.data.columns.STATEMENT_SCHEMA`. card: the file that tells how it
    came about. until: the last year asked about.
    """

    table: pl.DataFrame
    card: Path
    until: int


def last_year(ended_before: int) -> int:
    """The year before that one; there is no year 0."""
    return ended_before - 1 or -1


def until_of(questions: Path) -> int | None:
    """The last year that the facts of these questions could end in, as the manifests on the way to them record.

    None where they do not lead to a ``build facts``: dates then go as far as the sampler's own.
    """
    selected = [made["parameters"] for made in history(questions) if made["command"] == "build facts"]
    return last_year(selected[-1]["ended_before"]) if selected else None


def build_dataset(
    questions: Path | str,
    out: Path | str,
    *,
    boundaries: Boundaries = "released",
    seed: int = 0,
    until: int | None = None,
    sampling: str = "timestress",
    style: str | None = None,
    sample: int | None = None,
) -> BuiltDataset:
    """Statements about the facts of a file, written in the published columns with a manifest and a card.

    questions: facts with questions, as `anachron.verbalise` writes them. out: .parquet, .csv or .jsonl.
    boundaries: how coarse boundaries are read, ``released`` or ``paper``. seed: of the random months and days.
    until: last year asked about; by default the last that the facts could end in, by their manifests, or the sampler's.
    sampling: a name of `anachron.core.contexts.SAMPLINGS`.
    style: how dates are worded, see `anachron.text.dates`; by default as the questions' manifest says, else american.
    sample: so many facts only, those with the smallest ids (hashes, so a fixed random sample), in their own order.

    Raises `ConfigError` for options that cannot be, and `DataError` naming the file, and the row where one is at fault.
    """
    questions, out = Path(questions), Path(out)
    check_ending(out)
    sampling_named(sampling)
    if sample is not None and sample < 1:
        raise ConfigError(f"sample {sample}: give 1 or more facts")
    if out.resolve() == questions.resolve():
        raise ConfigError(f"{out} holds the questions; choose another --out")
    table = read_questions(questions)
    before = history(questions)
    sampler = sampling_named(sampling, until_of(questions) if until is None else until)
    style = _style(style, before[-1]["parameters"].get("style") if before else None, table["question"], questions)
    try:
        asked = list(asked_facts(table))
        if sample is not None:
            few = set(sorted(item.fact.id for item in asked)[:sample])
            asked = [item for item in asked if item.fact.id in few]
        made = build_statements(asked, boundaries=boundaries, seed=seed, sampling=sampler, style=style)
    except DataError as error:
        raise DataError(f"{questions}: {error}") from None
    made_here: Json = {
        "command": COMMAND,
        "parameters": {"boundaries": boundaries, "seed": seed, "style": style, "sample": sample, **asdict(sampler)},
        "counts": counts(made),
    }
    write_table(out, to_published(made, boundaries))
    write_manifest(out, inputs={str(questions): file_fingerprint(questions)}, **made_here)
    write_bytes(card_of(out), card(out.name, made, boundaries, [*before, made_here]).encode())
    return BuiltDataset(made, card_of(out), sampler.until)


def _style(given: str | None, recorded: str | None, worded: Iterable[str], questions: Path) -> str:
    """Raises `ConfigError` for dates in another language than the questions."""
    style = given or recorded or "american"
    language = wording_of(style).language
    asked = language_of(worded) if recorded is None else wording_of(recorded).language
    if asked not in (None, language):
        raise ConfigError(
            f"--style {style}: the questions of {questions} are {asked}, and dates in {language} do not go with them; "
            "choose a style of their language"
        )
    return style
