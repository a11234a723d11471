"""Prompt beside score: what a finished run put to a model, and what came of it, as one table (``runs export``).

A run keeps no prompts. They are rebuilt from its questions and the wording of its dates, or read from its data set
again, and are taken only where they are, to the letter, those that the run scored: the run records their fingerprint.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.dates import Date
from anachron.core.errors import AnachronError, DataError
from anachron.data.columns import BESIDE_SCORES, MORE_SCHEMA, STATEMENT_SCHEMA
from anachron.data.dataset import Dataset
from anachron.data.loaders import load_dataset
from anachron.data.own.reading import Reading, columns_of
from anachron.data.wordings import with_wordings
from anachron.io.files import Json, file_fingerprint, write_manifest
from anachron.io.run_folder import RUN_FILE, Kind, RunFolder
from anachron.io.tables import by_schema, check_ending, write_table
from anachron.probe.ask.run import ANSWERS_FILE, FACTS_FILE, read_answers
from anachron.probe.runs import ASKED_FILE, DECOYS_FILE, SCORES_FILE, WORDINGS_FILE
from anachron.text.dates import date_in_words

# In this order; then what else is known of the facts
FIRST = (
    "prompt", "answer", "time", "granularity", "status", "alpha", "logp", "n_tokens", "model", "format", "prefix",
    "decoy", "wording", "fact_id", "subject_label", "relation_label", "object_label", "start", "end",
)  # fmt: skip
ANSWERED = (
    "prompt", "answer", "kind", "years", "outcome", "read", "right_names", "decoy", "model", "asked_by", "fact_id",
    "subject", "relation", "object", "reasoning", "finish", "served_by", "prompt_tokens", "completion_tokens",
)  # fmt: skip


def prompts_of_run(folder: Path | str, dataset: str | None = None) -> pl.DataFrame:
    """What a finished run put to its model, one row a text or a question.

    Of a run by scores: `FIRST` (``decoy`` and ``wording`` where there are any, in rows below those of the facts), then
    what else its score table has. Scored was the run's prefix, the ``prompt``, a space where it ends without one, and
    the ``answer``; ``logp`` is in nats, the sum over the answer's ``n_tokens`` tokens. Of a run by answers: `ANSWERED`,
    where ``answer`` is what the model said. dataset: where the run's data set lies now, as of `load_dataset`.

    Raises `DataError` for a run that is unfinished, damaged, or of edits, and where prompts cannot be rebuilt.
    """
    run = RunFolder.read(Path(folder))
    if not run.is_done:
        raise DataError(f"{folder}: the run is not finished; repeat the command that began it, then export it")
    if run.kind is Kind.ANSWERS or ANSWERS_FILE in run.record["files"]:
        return _answers(run)
    if SCORES_FILE not in run.record["files"]:
        raise DataError(f"{folder} holds no scores of prompts; what it found is in the tables of the folder itself")
    tables = {
        name: run.read_table(name) for name in (SCORES_FILE, DECOYS_FILE, WORDINGS_FILE) if name in run.record["files"]
    }
    settings = run.record["settings"]
    scored = pl.concat([table.select("logp", "n_tokens") for table in tables.values()])
    named = {
        name: pl.lit(settings[of]) for name, of in (("model", "label"), ("format", "format"), ("prefix", "prefix"))
    }
    texts = _texts(run, tables, dataset).hstack(scored).with_columns(**named)
    first = [name for name in FIRST if name in texts.columns]
    return texts.select(*first, pl.exclude(*first))


def _texts(run: RunFolder, tables: dict[str, pl.DataFrame], dataset: str | None) -> pl.DataFrame:
    """The statements that were scored, in the order of the tables."""
    settings, why = run.record["settings"], ""
    for make in (_from_run, _from_dataset):
        try:
            data = make(run, tables, dataset)
        except AnachronError as error:
            why = str(error)
            continue
        if data is not None and data.fingerprint() == settings["dataset_fingerprint"]:
            return data.statements().drop("questions", strict=False)
        why = why if data is None else f"{data.whole} is not what the run scored"
    raise DataError(
        f"{run.path}: the prompts cannot be rebuilt from the run alone, and its data set does not give them: {why}; "
        "name the file that was scored with --dataset"
    )


def _from_run(run: RunFolder, tables: dict[str, pl.DataFrame], dataset: str | None) -> Dataset | None:
    """By the question of each fact and the wording of dates. None where the run lacks either."""
    scores, style = tables[SCORES_FILE], run.record.get("date_style")
    times = scores["time"].drop_nulls().unique().to_list()
    if dataset or ASKED_FILE not in run.record["files"] or WORDINGS_FILE in tables or (times and style is None):
        return None
    openings = {time: date_in_words(Date.parse(time), str(style)) for time in times}
    asked = run.read_table(ASKED_FILE).select("fact_id", "question")
    opening = pl.col("time").replace_strict(openings, default="", return_dtype=pl.String)
    made = scores.join(asked, on="fact_id", how="left", maintain_order="left").with_columns(
        prompt=opening.fill_null("") + pl.col("question"), answer="object_label"
    )
    known = [name for name in BESIDE_SCORES if name in made.columns]
    types: dict[str, Any] = STATEMENT_SCHEMA | {name: MORE_SCHEMA[name] for name in known}
    table = by_schema(made, types)
    return _with_decoys(Dataset("the run", table, run.record["settings"]["boundaries"]), tables)


def _from_dataset(run: RunFolder, tables: dict[str, pl.DataFrame], dataset: str | None) -> Dataset:
    settings: Json = run.record["settings"]
    name, limit = settings["dataset"], settings.get("limit")
    if limit is not None:  # the name of a sample ends in its size
        name = name.rpartition(", ")[0]
    chosen = {key: settings.get(key) for key in ("boundaries", "as_of", "language", "sampling")}
    columns = columns_of(settings["columns"]) if "columns" in settings else {}
    reading = Reading(columns, settings.get("dates"), settings.get("sheet"))
    data = _with_decoys(load_dataset(dataset or name, limit=limit, reading=reading, **chosen), tables)
    return with_wordings(data) if WORDINGS_FILE in tables else data


def _with_decoys(data: Dataset, tables: dict[str, pl.DataFrame]) -> Dataset:
    """The data set with the decoys that the run asked about."""
    if DECOYS_FILE not in tables:
        return data
    return replace(data, decoys=tables[DECOYS_FILE].select("fact_id", "decoy").unique(maintain_order=True))


def _answers(run: RunFolder) -> pl.DataFrame:
    """Each question with what the model said, and the fact that it is about where the run has a table of facts."""
    settings = run.record["settings"]
    table = read_answers(run.path).rename({"text": "answer"})
    labels = ("subject", "relation", "object")
    if FACTS_FILE in run.record["files"]:
        facts = run.read_table(FACTS_FILE).select("fact_id", *labels)
        table = table.join(facts, on="fact_id", how="left", maintain_order="left")
    else:
        table = table.with_columns(pl.lit(None, pl.String).alias(name) for name in labels)
    return table.with_columns(
        pl.col("right_names").list.join("; "), model=pl.lit(settings["label"]), asked_by=pl.lit(settings["backend"])
    ).select(ANSWERED)


def export_run(folder: Path | str, out: Path | str, dataset: str | None = None) -> int:
    """Write `prompts_of_run` with a manifest, as .csv, .parquet or .jsonl; returns how many rows it has."""
    check_ending(out)
    table = prompts_of_run(folder, dataset)
    write_table(out, table)
    record = Path(folder) / RUN_FILE
    inputs = {str(record): file_fingerprint(record)}
    write_manifest(out, command="runs export", parameters={}, inputs=inputs, counts={"rows": table.height})
    return table.height
