"""Questions for a file of facts, written with a manifest, and samples of them for a person to judge (``verbalize``)."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import polars as pl

from anachron.core.errors import ConfigError, DataError
from anachron.data.own.faults import refuse
from anachron.data.own.files import has_own_names, read_given_facts
from anachron.data.own.questions import facts_to_ask, in_words, question_faults, with_questions, worth_a_look
from anachron.data.own.reading import Reading
from anachron.data.own.rows import GivenFact
from anachron.data.question_tables import (
    Judged,
    count_reasons,
    draw_sample,
    facts_table,
    facts_to_word,
    failures_table,
    questions_table,
    read_judged,
)
from anachron.io.answers import Answer
from anachron.io.files import Json, file_fingerprint, write_manifest
from anachron.io.jobs import Callbacks
from anachron.io.llm import ask_all, readable
from anachron.io.llm_settings import LlmSettings, NoAnswer, check_prices
from anachron.io.schemas import refuse_missing
from anachron.io.stores import Place, place, refuse_stores
from anachron.io.tables import harmless, read_table, write_table
from anachron.text.dates import Wording
from anachron.text.languages import chosen, recorded
from anachron.text.templates import (
    TEMPLATES,
    FactToWord,
    Failed,
    Outcome,
    Verbalised,
    by_templates,
    by_templates_or_role,
)
from anachron.text.verbalize import QUESTIONS_SCHEMA, by_answer, prompt_of, relation_examples

ENDINGS = (".parquet", ".jsonl")


def verbalise(
    facts: Place | str,
    out: Place | str,
    llm: LlmSettings | None = None,
    *,
    style: str | None = None,
    language: str | Path | None = None,
    seed: int = 0,
    limit: int | None = None,
    cache: Path | None = None,
    prices: tuple[float, float] | None = None,
    instructions: str | None = None,
    callbacks: Callbacks | None = None,
    reading: Reading | None = None,
) -> Json:
    """Write and check four questions for each fact of a table, and draw one of them; with a manifest.

    facts: a table with ``fact_id, subject_label, relation_id, object_label``, and for a model ``relation_label, start,
        end``; or a file of one's own facts (``subject, relation, object, start, end``, see `anachron.data.own.rows`),
        which is written again, one row a period, with the questions; those that it brings are kept.
    out: .parquet or .jsonl; ``<out>.failed.jsonl`` lists the facts without a good set, and why. Facts and out may lie
        on a store.
    llm: the model that writes the questions; without, they come from the templates of each relation, and of one's own
        facts also from the relation's own words (`anachron.text.templates.by_templates_or_role`).
    language: of the questions, see `anachron.text.languages.language_of`; by default that of the style, else English.
    style: how dates are worded, see `anachron.text.dates`; by default as the language does.
    seed: which of four questions each fact is asked with. limit: only the first so many facts.
    cache: folder of kept answers, see `anachron.io.llm.ask_all`: an interrupted call goes on without paying twice.
    prices: of a million tokens read and written, to count the cost. instructions: of the model, in the place of ours
        (`anachron.text.verbalize.fact_prompt`). callbacks: told (answers, of how many), and what
        the run does without. reading: how a file of one's own facts is read.

    Returns what the manifest counts: ``facts, verbalised, failed {reason: facts}, source`` and, of a model, ``usage``.
    Raises `ConfigError` for options that do not go together, `DataError` naming the row of a bad fact, and
    `BackendError` where the server cannot be asked.
    """
    if prices is not None:
        check_prices(*prices)
    facts, out = place(facts), place(out)
    refuse_stores(cache)
    if out.suffix not in ENDINGS:
        raise ConfigError(f"{out}: unknown ending {out.suffix!r}; questions are lists, so use .parquet or .jsonl")
    lang, wording = chosen(language, style)
    given = read_given_facts(facts, reading) if has_own_names(facts, reading) else None
    own = None if given is None else given.facts
    if given is None:
        (reading or Reading()).refuse(str(facts))
    elif callbacks is not None:
        for note in given.notes:
            callbacks.warn(note)
    every_row = facts_table(read_table(facts), str(facts)) if own is None else facts_to_ask(own, lang)
    brought = _brought(facts, own or (), lang.name)
    every_fact = facts_to_word(every_row, str(facts), by_model=llm is not None)
    table, asked = every_row[:limit], every_fact[:limit]
    parameters: Json = {"seed": seed, "limit": limit, **recorded(lang, wording)} | (
        given.reading.recorded() if given else {}
    )
    usage: Json = {}
    if llm is None:
        source = TEMPLATES
        worded_by = by_templates if own is None else by_templates_or_role  # one's own facts are asked as a probe does
        outcomes: list[Outcome] = [brought.get(fact.fact_id) or worded_by(fact, seed, lang) for fact in asked]
    else:
        source = llm.model
        # examples of the whole table, so that the first facts are asked in the same words when the rest follows
        examples = relation_examples(every_fact)
        prompts = [brought.get(fact.fact_id) or prompt_of(fact, examples, wording, instructions) for fact in asked]
        sent = [prompt for prompt in prompts if not isinstance(prompt, Failed | Verbalised)]
        answers, used = ask_all(sent, llm, cache, schema=QUESTIONS_SCHEMA, callbacks=callbacks)
        replies = iter(answers)
        outcomes = [
            prompt if isinstance(prompt, Failed | Verbalised) else _outcome(fact, next(replies), seed, wording)
            for fact, prompt in zip(asked, prompts, strict=True)
        ]
        usage = asdict(used)
        if prices is not None:
            usage["cost"], usage["cost_of_all_runs"] = used.cost(*prices)
        parameters |= llm.recorded() | {"prices": prices or (None, None)}
        if instructions is not None:
            parameters["instructions"] = instructions
    counts: Json = {
        "facts": len(asked),
        "verbalised": sum(isinstance(outcome, Verbalised) for outcome in outcomes),
        "failed": count_reasons(outcomes),
        **({"usage": usage} if usage else {}),
    }
    failed = failures_table(outcomes)
    write_table(f"{out}.failed.jsonl", failed if own is None else in_words(own, failed))
    look = [o.questions[o.drawn] for o in outcomes if isinstance(o, Verbalised) and not o.sure]
    if look and callbacks is not None:
        callbacks.notice(worth_a_look(list(dict.fromkeys(look)), str(out)))
    worded = questions_table(table, outcomes, source)
    write_table(out, worded if own is None else with_questions(own, worded))
    write_manifest(
        out, command="verbalize", parameters={"source": source, **parameters},
        inputs={str(facts): file_fingerprint(facts)}, counts=counts,
    )  # fmt: skip
    return counts | {"source": source}


def _brought(facts: Place, own: Sequence[GivenFact], language: str) -> dict[str, Verbalised]:
    """The questions that a file of one's own facts holds already, by the ids of their facts."""
    try:
        refuse([fault for item in own for fault in question_faults(item, language)])
    except DataError as error:
        raise DataError(f"{facts}: {error}") from None
    return {item.fact.id: Verbalised(item.fact.id, (item.question,), 0) for item in own if item.question is not None}


def _outcome(fact: FactToWord, reply: Answer | NoAnswer, seed: int, style: str | Wording) -> Outcome:
    """What a model's reply makes of a fact."""
    reply = readable(reply)
    if isinstance(reply, NoAnswer):
        return Failed(fact.fact_id, reply.reason, reply.detail)
    return by_answer(fact, reply.text, seed, style)


def sample_questions(questions: Place | str, out: Place | str, size: int, *, seed: int = 0) -> int:
    """Draw questions for a person to judge, into a .csv with an empty column ``good``, and return how many.

    It is 0, and nothing is written, where the table has no question. Raises `DataError` for a table without questions'
    columns.
    """
    table = _read_questions(questions)
    if not table.height:
        return 0
    drawn = draw_sample(table, size, seed)
    write_table(out, harmless(drawn))  # it is filled in in a spreadsheet
    return drawn.height


def judged_questions(questions: Place | str, judged: Place | str) -> Judged:
    """Count the good questions of a sample (from `sample_questions`, filled in with yes and no).

    Raises `DataError` for a row that is not judged, judged twice, or not one of these questions.
    """
    return read_judged(read_table(judged), _read_questions(questions), str(judged))


def _read_questions(path: Place | str) -> pl.DataFrame:
    table = read_table(path)
    needed = ("fact_id", "object_label", "question")
    refuse_missing(table.columns, needed, str(path), "give a table that verbalize wrote")
    return table
