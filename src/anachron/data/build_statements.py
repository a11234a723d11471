"""``build statements``: a data set written to a file, with its manifest and its card."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from anachron.core.contexts import Sampling, sampling_named
from anachron.core.errors import ConfigError, DataError
from anachron.core.periods import Boundaries
from anachron.data.card import card, card_of, counts, history
from anachron.data.columns import to_published
from anachron.data.facts import CITED_BY, facts_with_questions, read_questions
from anachron.data.own.columns import NEEDED
from anachron.data.own.files import has_own_names, read_given_facts
from anachron.data.own.reading import Reading
from anachron.data.own.statements import OwnFacts, own_facts
from anachron.data.statements import make_statements
from anachron.io.files import Json, file_fingerprint, remove_file, write_bytes, write_manifest
from anachron.io.stores import Place, place
from anachron.io.tables import check_ending, write_table
from anachron.text.dates import Wording, wording_of
from anachron.text.languages import Language, chosen, recorded
from anachron.text.openings import guessed_language
from anachron.text.words import language_files

COMMAND = "build statements"


@dataclass(frozen=True)
class BuiltDataset:
    """What `build_statements` wrote.

    table: one row a statement, columns of `anachron.data.columns.STATEMENT_SCHEMA`. card: the file that tells how it
    came about. until: the last year asked about. own: what became of a file of one's own facts.
    """

    table: pl.DataFrame
    card: Place
    until: int
    own: OwnFacts | None = None


def last_year(ended_before: int) -> int:
    """The year before that one; there is no year 0."""
    return ended_before - 1 or -1


def until_of(questions: Place) -> int | None:
    """The last year that the facts of these questions could end in, as the manifests on the way to them record.

    None where they do not lead to a ``build facts``: dates then go as far as the sampler's own.
    """
    selected = [made["parameters"] for made in history(questions) if made["command"] == "build facts"]
    return last_year(selected[-1]["ended_before"]) if selected else None


def build_statements(
    questions: Place | str,
    out: Place | str,
    *,
    boundaries: Boundaries = "released",
    seed: int = 0,
    until: int | None = None,
    sampling: str = "timestress",
    style: str | None = None,
    language: str | Path | None = None,
    sample: int | None = None,
    as_of: str | None = None,
    reading: Reading | None = None,
) -> BuiltDataset:
    """Write statements about the facts of a file in the published columns, with a manifest and a card.

    questions: facts with questions, as `anachron.verbalise` writes them, or a file of one's own facts (columns
        ``subject, relation, object, start, end``, see `anachron.data.own.rows`); ``<out>.left_out.csv`` then lists
        the facts that cannot be asked, and why. Of facts of a snapshot ``<out>.sources.csv`` has a row each to cite
        them by (`anachron.data.facts.CITED_BY`). out: .parquet, .csv or .jsonl. Both may lie on a store.
    boundaries: how coarse boundaries are read, ``released`` or ``paper``. seed: of the random months and days.
    until: last year asked about; by default the last that the facts could end in, by their manifests, or the later of
        the sampler's and that in which the last fact ended; of one's own facts the last that is over at ``as_of``.
    sampling: a name of `anachron.core.contexts.SAMPLINGS`.
    language: of the questions, see `anachron.text.languages.language_of`; by default as their manifest says, or that of
        the style, else English.
    style: how dates are worded, see `anachron.text.dates`; by default as the questions' manifest says, or as the
        language does.
    sample: use only this many facts, those with the smallest ids (hashes, so a fixed random sample), in their own
        order.
    as_of: of one's own facts, the date up to which they are known; by default today. reading: how such a file is read.

    Raises `ConfigError` for invalid options, and `DataError` naming the file, and the row if one is at fault.
    """
    questions, out = place(questions), place(out)
    check_ending(out)
    sampling_named(sampling)
    if sample is not None and sample < 1:
        raise ConfigError(f"sample {sample}: give 1 or more facts")
    if out.resolve() == questions.resolve():
        raise ConfigError(f"{out} holds the questions; choose another --out")
    before = history(questions)
    parameters = before[-1]["parameters"] if before else {}
    if has_own_names(questions, reading):
        given = read_given_facts(questions, reading)
        worded = [fact.question for fact in given.facts if fact.question is not None]
        lang, wording = _chosen(language, style, parameters, worded, questions)
        own = own_facts(
            questions, as_of=as_of, boundaries=boundaries, seed=seed, sampling=sampling_named(sampling), until=until,
            style=None if isinstance(wording, Wording) else wording, sample=sample, language=lang,
            given=given,
        )  # fmt: skip
        write_table(left_out_of(out), own.left_out)
        remove_file(sources_of(out))  # of questions that were here before
        made, sampler = own.table, sampling_named(sampling, own.until)
        known = {"as_of": str(own.as_of), "left_out": own.left_out.height, **given.reading.recorded()}
    else:
        (reading or Reading()).refuse(str(questions))
        if as_of is not None:
            raise ConfigError(f"as of {as_of}: for files with the columns {', '.join(NEEDED)}; leave it out")
        own, known, table = None, {}, read_questions(questions)
        lang, wording = _chosen(language, style, parameters, table["question"], questions)
        made, sampler, sources = _asked(questions, table, boundaries, seed, until, sampling, wording, sample)
        if sources.height:
            write_table(sources_of(out), sources)
        else:
            remove_file(sources_of(out))
    made_here: Json = {
        "command": COMMAND,
        "parameters": {
            "boundaries": boundaries, "seed": seed, **recorded(lang, wording), "sample": sample, **known,
            **asdict(sampler),
        },
        "counts": counts(made),
    }  # fmt: skip
    write_table(out, to_published(made, boundaries))
    write_manifest(out, inputs={str(questions): file_fingerprint(questions)}, **made_here)
    write_bytes(card_of(out), card(out.name, made, boundaries, [*before, made_here]).encode())
    return BuiltDataset(made, card_of(out), sampler.until, own)


def left_out_of(out: Place) -> Place:
    """Where the facts are listed that a data set does not ask about."""
    return out.with_name(f"{out.name}.left_out.csv")


def sources_of(out: Place) -> Place:
    """Where a row of each fact of a data set tells what it can be cited by."""
    return out.with_name(f"{out.name}.sources.csv")


def _asked(
    questions: Place, table: pl.DataFrame, boundaries: Boundaries, seed: int, until: int | None, sampling: str,
    style: str | Wording, sample: int | None,
) -> tuple[pl.DataFrame, Sampling, pl.DataFrame]:  # fmt: skip
    """Statements about the facts of a table that `anachron.verbalise` wrote, how their dates were chosen, and the
    sources of the facts."""
    until = until_of(questions) if until is None else until
    try:
        asked = list(facts_with_questions(table))
        sources = table.with_columns(pl.Series("fact_id", [item.fact.id for item in asked], pl.String))
        if sample is not None:
            few = set(sorted(item.fact.id for item in asked)[:sample])
            asked = [item for item in asked if item.fact.id in few]
        ends = [item.fact.period.end.year for item in asked if item.fact.period.end is not None]
        sampler = sampling_named(sampling, max(sampling_named(sampling).until, *ends) if until is None else until)
        made = make_statements(asked, boundaries=boundaries, seed=seed, sampling=sampler, style=style)
    except DataError as error:
        raise DataError(f"{questions}: {error}") from None
    if made["time"].null_count() == made.height:
        raise DataError(f"{questions}: no date up to {sampler.until} can be asked about; give a later --until")
    cited = sources.select(CITED_BY).drop_nulls("statement_id")
    return made, sampler, cited.filter(pl.col("fact_id").is_in(made["fact_id"].implode()))


def _chosen(
    language: str | Path | None, style: str | None, before: Json, worded: Iterable[str], questions: Place
) -> tuple[Language, str | Wording]:
    """Language and style of the statements. before: the parameters by which the questions were made. worded: these.

    Raises `ConfigError` for dates or a language that are not those of the questions.
    """
    made = before.get("style")
    spoken = before.get("language") if before.get("language") not in language_files() else None
    if language is None and style is None and spoken is None:
        style = made
    lang, wording = chosen(language, style)
    asked = spoken or (guessed_language(worded) if made is None else wording_of(made).language)
    if asked not in (None, lang.name):
        option = f"--language {lang.code}" if style is None and language is not None else f"--style {wording}"
        raise ConfigError(
            f"{option}: the questions of {questions} are {asked}, and dates in {lang.name} do not go with them; "
            "choose a style of their language"
        )
    return lang, wording
