"""The answers of an audited run judged by a language model (``judge``)."""

import json
from dataclasses import asdict
from pathlib import Path

import polars as pl

from anachron.errors import DataError
from anachron.evaluate.judge import VERDICT_SCHEMA, agreement, answers_to_judge, judge_prompt, read_verdict
from anachron.io import Json, file_fingerprint, write_bytes, write_manifest, write_table
from anachron.jobs import Callbacks, RunFolder
from anachron.pipelines.evaluation import with_printed_names
from anachron.text.json_answers import by_frequency
from anachron.text.llm import ask_all
from anachron.text.llm_settings import LlmSettings

AUDIT = "audit.parquet"  # of a run
ANSWERS, AGREEMENT, DISAGREEMENTS = "answers.parquet", "agreement.csv", "disagreements.jsonl"


def judge_run(
    folder: Path | str, llm: LlmSettings, out: Path | str | None = None, *, cache: Path | None = None,
    callbacks: Callbacks | None = None,
) -> tuple[pl.DataFrame, Json]:  # fmt: skip
    """Have a model judge the answers of a run of ``evaluate --audit``; returns `agreement`, and counts.

    out: a folder, by default ``judge`` in the run's: ``answers.parquet`` has a row an answer, ``agreement.csv`` what is
    returned, ``disagreements.jsonl`` the answers on which judge and rule disagree. cache: of kept verdicts, see
    `anachron.text.llm.ask_all`; an interrupted call goes on without paying twice, and the same answer to the same
    question is judged once. The counts: ``answers``, ``judged``, ``unreadable`` by reason, ``disagreements`` and
    ``usage``. Raises `DataError` for a run without an audit and a damaged one, `ConfigError` and `BackendError` as
    `ask_all`.
    """
    run = RunFolder.read(Path(folder))
    if AUDIT not in run.record["files"]:
        raise DataError(f"{folder} holds no answers to judge ({AUDIT}); make the run with evaluate --audit")
    answers = with_printed_names({"": answers_to_judge(run.read_table(AUDIT))}, run.record)[""]
    if not answers.height:
        raise DataError(
            f"{run.path / AUDIT} holds no answer about an update with a new object, so there is none to judge"
        )
    prompts = [judge_prompt(row["prompt"], row["new_names"], row["text"]) for row in answers.iter_rows(named=True)]
    replies, usage = ask_all(prompts, llm, cache, schema=VERDICT_SCHEMA, callbacks=callbacks)
    verdicts = [read_verdict(reply) for reply in replies]
    judged = answers.with_columns(
        pl.Series("judge", [verdict.correct for verdict in verdicts], pl.Boolean),
        pl.Series("unreadable", [verdict.reason or None for verdict in verdicts], pl.String),
        pl.Series("detail", [verdict.detail or None for verdict in verdicts], pl.String),
    )
    table, apart = agreement(judged), judged.filter(pl.col("rule") != pl.col("judge"))
    out = Path(out) if out is not None else run.path / "judge"
    write_table(out / ANSWERS, judged)
    write_table(out / AGREEMENT, table)
    lines = [json.dumps(row, ensure_ascii=False) for row in apart.drop("unreadable", "detail").to_dicts()]
    write_bytes(out / DISAGREEMENTS, "".join(f"{line}\n" for line in lines).encode())
    counts: Json = {
        "answers": judged.height,
        "judged": judged["judge"].count(),
        "unreadable": by_frequency(verdict.reason for verdict in verdicts if verdict.correct is None),
        "disagreements": apart.height,
        "usage": asdict(usage),
    }
    write_manifest(
        out / ANSWERS, command="judge", parameters=llm.recorded(),
        inputs={str(run.path / AUDIT): file_fingerprint(run.path / AUDIT)}, counts=counts,
    )  # fmt: skip
    return table, counts
