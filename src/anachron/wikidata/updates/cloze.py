"""Cloze templates of each relation of a snapshot by a language model, written to a file (``build cloze``)."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from anachron.core.errors import BackendError, ConfigError
from anachron.io.answers import Answer
from anachron.io.cluster import Spread
from anachron.io.files import Json, file_fingerprint, write_json, write_manifest
from anachron.io.jobs import Callbacks
from anachron.io.llm import ask_all, readable
from anachron.io.llm_settings import LlmSettings, NoAnswer
from anachron.text.cloze_llm import (
    SENTENCES_SCHEMA,
    Unfit,
    best_templates,
    count_unfit,
    sentences_prompt,
    templates_from,
)
from anachron.text.dates import wording_of
from anachron.text.templates import FactToWord
from anachron.text.verbalize import example_for
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.updates.sample import sample_triples

COMMAND = "build cloze"


def cloze_templates(
    snapshot: Path | str,
    out: Path | str,
    llm: LlmSettings,
    *,
    relations: Sequence[str] = (),
    triples: int = 20,
    most_popular: int = 100_000,
    style: str = "american",
    seed: int = 0,
    cache: Path | None = None,
    instructions: str | None = None,
    spread: Spread | None = None,
    callbacks: Callbacks | None = None,
) -> Json:
    """Let a model put triples of a snapshot into sentences, and write their most frequent templates to ``out`` (.json).

    relations: ids of the only ones; all where empty. triples: of each relation. most_popular: their subjects are among
    so many of most page views. style: of dates, see `anachron.text.dates`; its language is that of the sentences.
    seed: of the triples drawn. cache: folder of kept answers, see `anachron.io.llm.ask_all`. instructions: of the
    model, in the place of ours (`anachron.text.cloze_llm.sentences_prompt`). spread: over buckets of the snapshot.
    callbacks: told (answers, of how many), and what the run does without.

    Returns what the manifest counts: ``triples, sentences, dropped {reason: sentences}, relations, relations without a
    template, found {relation: {template: sentences}}, usage``. Raises `ConfigError` for invalid options,
    `DataError` where no triple is found, `BackendError` where no sentence gives a template and as the server fails.
    """
    snapshot, out = Path(snapshot), Path(out)
    if out.suffix != ".json":
        raise ConfigError(f"{out}: templates are written as .json")
    language = wording_of(style).language
    drawn = sample_triples(
        open_snapshot(snapshot), tuple(relations), triples, most_popular, style=style, seed=seed, spread=spread
    )
    asked = [triple for of_relation in drawn.values() for triple in of_relation]
    prompts = [sentences_prompt(triple, example_for(triple, drawn), language, instructions) for triple in asked]
    replies, usage = ask_all(prompts, llm, cache, schema=SENTENCES_SCHEMA, callbacks=callbacks)
    outcomes = [
        (triple.relation_id, outcome)
        for triple, reply in zip(asked, replies, strict=True)
        for outcome in _templates_in(triple, reply)
    ]
    dropped = count_unfit(outcome for _, outcome in outcomes)
    best = best_templates((relation, outcome) for relation, outcome in outcomes if not isinstance(outcome, Unfit))
    if not best:
        reasons = "; ".join(f"{number:,}: {reason}" for reason, number in dropped.items())
        raise BackendError(f"no sentence of {llm.model} gave a template ({reasons}); ask another model")
    labels = {of_relation[0].relation_id: of_relation[0].relation for of_relation in drawn.values()}
    content = [
        {"id": relation, "label": labels[relation], "templates": [template for template, _ in counted]}
        for relation, counted in best.items()
    ]
    write_json(out, content)
    counts: Json = {
        "triples": len(asked), "sentences": len(outcomes), "dropped": dropped, "relations": len(best),
        "relations without a template": sorted(set(drawn) - set(best)),
        "found": {relation: dict(counted) for relation, counted in best.items()}, "usage": asdict(usage),
    }  # fmt: skip
    parameters = llm.recorded() | {
        "relations": tuple(relations), "triples": triples, "most_popular": most_popular, "style": style, "seed": seed,
    }  # fmt: skip
    if instructions is not None:
        parameters["instructions"] = instructions
    inputs = {f"{snapshot}/manifest.json": file_fingerprint(snapshot / "manifest.json")}
    write_manifest(out, command=COMMAND, parameters=parameters, inputs=inputs, counts=counts)
    return counts


def _templates_in(triple: FactToWord, reply: Answer | NoAnswer) -> list[str | Unfit]:
    """What the sentences of a model's reply about a triple give."""
    reply = readable(reply)
    return [Unfit(reply.reason, reply.detail)] if isinstance(reply, NoAnswer) else templates_from(triple, reply.text)
