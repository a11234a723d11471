"""The answers of an audited run, or of a model that was asked, judged by a language model (``judge``)."""

import json
from dataclasses import asdict
from pathlib import Path

import polars as pl

from anachron.core.errors import DataError
from anachron.evaluate.judge import VERDICT_SCHEMA, agreement, answers_to_judge, judge_prompt, read_verdict
from anachron.io.files import Json, file_fingerprint, write_bytes, write_manifest
from anachron.io.jobs import Callbacks
from anachron.io.json_answers import by_frequency
from anachron.io.llm import ask_all
from anachron.io.llm_settings import LlmSettings
from anachron.io.run_folder import RunFolder
from anachron.io.tables import write_table
from anachron.probe.ask import judged
from anachron.probe.ask.run import ANSWERS_FILE, is_answer_run, read_answers, read_source
from anachron.report.edits.evaluated import with_printed_names

AUDIT = "audit.parquet"  # of a run
ANSWERS, AGREEMENT, DISAGREEMENTS = "answers.parquet", "agreement.csv", "disagreements.jsonl"


def judge_run(
    folder: Path | str, llm: LlmSettings, out: Path | str | None = None, *, cache: Path | None = None,
    callbacks: Callbacks | None = None,
) -> tuple[pl.DataFrame, Json]:  # fmt: skip
    """Have a model judge the answers of a run of ``evaluate --audit``, or the open answers of one that asked
    (`anachron.probe.ask.judged`); returns `agreement`, and counts.

    out: a folder, by default ``judge`` in the run's: ``answers.parquet`` has a row an answer, ``agreement.csv`` what is
    returned, ``disagreements.jsonl`` the answers on which judge and rule disagree. cache: of kept verdicts, see
    `anachron.io.llm.ask_all`; an interrupted call goes on without paying twice, and the same answer to the same
    question is judged once. The counts: ``answers``, ``judged``, ``unreadable`` by reason, ``disagreements`` and
    ``usage``. Raises `DataError` for a run without such answers and a damaged one, `ConfigError` and `BackendError` as
    `ask_all`.
    """
    answers, source = _asked(Path(folder)) if is_answer_run(folder) else _audited(Path(folder))
    prompts = [judge_prompt(row["prompt"], row["new_names"], row["text"]) for row in answers.iter_rows(named=True)]
    replies, usage = ask_all(prompts, llm, cache, schema=VERDICT_SCHEMA, callbacks=callbacks)
    verdicts = [read_verdict(reply) for reply in replies]
    graded = answers.with_columns(
        pl.Series("judge", [verdict.correct for verdict in verdicts], pl.Boolean),
        pl.Series("unreadable", [verdict.reason or None for verdict in verdicts], pl.String),
        pl.Series("detail", [verdict.detail or None for verdict in verdicts], pl.String),
    )
    table, apart = agreement(graded), graded.filter(pl.col("rule") != pl.col("judge"))
    out = Path(out) if out is not None else Path(folder) / "judge"
    write_table(out / ANSWERS, graded)
    write_table(out / AGREEMENT, table)
    lines = [json.dumps(row, ensure_ascii=False) for row in apart.drop("unreadable", "detail").to_dicts()]
    write_bytes(out / DISAGREEMENTS, "".join(f"{line}\n" for line in lines).encode())
    counts: Json = {
        "answers": graded.height,
        "judged": graded["judge"].count(),
        "unreadable": by_frequency(verdict.reason for verdict in verdicts if verdict.correct is None),
        "disagreements": apart.height,
        "usage": asdict(usage),
    }
    write_manifest(
        out / ANSWERS, command="judge", parameters=llm.recorded(),
        inputs={str(source): file_fingerprint(source)}, counts=counts,
    )  # fmt: skip
    return table, counts


def _audited(folder: Path) -> tuple[pl.DataFrame, Path]:
    """The answers of an audit, and the file that they are in."""
    run = RunFolder.read(folder)
    if AUDIT not in run.record["files"]:
        raise DataError(
            f"{folder} holds no answers to judge ({AUDIT}); make the run with evaluate --audit, or ask a model (check "
            "or probe with --backend chat or generate)"
        )
    answers = with_printed_names({"": answers_to_judge(run.read_table(AUDIT))}, run.record)[""]
    if not answers.height:
        raise DataError(
            f"{folder / AUDIT} holds no answer about an update with a new object, so there is none to judge"
        )
    return answers, folder / AUDIT


def _asked(folder: Path) -> tuple[pl.DataFrame, Path]:
    """The open answers of a model that was asked, and the file that they are in."""
    source = read_source(folder)
    answers = judged.answers_to_judge(read_answers(folder), source.label)
    if not answers.height:
        raise DataError(f"{folder / ANSWERS_FILE} holds no open answer with a year that could be judged")
    return answers, folder / ANSWERS_FILE
