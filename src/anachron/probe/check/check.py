"""A user's own facts put to a model: a verdict for each, what is stale, and whether a build should fail (``check``)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from anachron.analysis.metrics import check_scores, fact_metrics
from anachron.core.dates import Date
from anachron.core.errors import ConfigError
from anachron.core.facts import fact_id
from anachron.core.several_periods import periods_text
from anachron.data.columns import STATEMENT_SCHEMA
from anachron.data.dataset import Dataset
from anachron.io.files import Json, write_bytes
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import reopen_run
from anachron.probe.check.gate import NOTHING_IN_COMMON, Gate, Outcome, junit, loss_against, outcomes
from anachron.probe.check.present import PresentQuestion, holding, present_answers, present_pairs
from anachron.probe.check.questions import CheckedFacts, read_facts
from anachron.probe.check.verdicts import (
    VERDICTS,
    VERDICTS_FILE,
    fact_verdicts,
    mean_win_rates,
    short_timeline,
    verdict_in_words,
)
from anachron.probe.runs import read_runs, recorded_as_of

if TYPE_CHECKING:
    from anachron.lm.scorer import Scorer
    from anachron.probe.run import ProbeSettings

PRESENT, SUMMARY_FILE = "present", "check.json"


@dataclass(frozen=True)
class Check:
    """What a check found.

    folder: the run folder, with ``verdicts.csv`` and ``check.json``. verdicts: one row a fact of the file, those that
    could not be asked too; columns: name, subject, relation, object, periods, question, then those of
    `anachron.probe.check.verdicts.VERDICT_SCHEMA`, ``timeline``, ``present`` (current, stale, nothing to compare with,
    or null), ``answer`` and ``answer_until``, and ``left_out``, why a fact was not asked with dates. outcomes: the
    demands.
    """

    folder: Path
    model: str
    verdicts: pl.DataFrame
    present: pl.DataFrame
    outcomes: list[Outcome]
    as_of: Date

    @property
    def passed(self) -> bool:
        """Whether every demand is met."""
        return all(outcome.passed for outcome in self.outcomes)

    @property
    def judged(self) -> bool:
        """Whether enough facts speak to every demand."""
        return all(outcome.error is None for outcome in self.outcomes)

    @property
    def summary(self) -> Json:
        """Counts by verdict and by what is said today, mean W, and the demands."""
        asked = self.verdicts.filter(pl.col("verdict").is_not_null())
        today = self.verdicts["present"].drop_nulls()
        return {
            "model": self.model, "as_of": str(self.as_of), "facts": self.verdicts.height, "asked": asked.height,
            "win_rate": asked["win_rate"].mean(), "robustness": asked["robustness"].mean(),
            "verdicts": {name: int((asked["verdict"] == name).sum()) for name in VERDICTS},
            "present": {name: int((today == name).sum()) for name in today.unique(maintain_order=True)},
            "passed": self.passed, "judged": self.judged, "demands": [asdict(outcome) for outcome in self.outcomes],
        }  # fmt: skip


def check(
    model: "str | Scorer",
    facts: Path | str | CheckedFacts,
    out: Path | str,
    *,
    settings: "ProbeSettings | None" = None,
    gate: Gate | None = None,
    baseline: Path | str | None = None,
    callbacks: Callbacks | None = None,
) -> Check:
    """Ask a model about the facts of a file, with dates and in the present tense, and give a verdict for each.

    model: a loaded model, or a name for `load_model`. facts: a file for `read_facts`, or what that read. out: the run
    folder; a killed check resumes there, as of the day on which it began. baseline: the folder of an earlier check or
    probe of these facts; W is compared over the dates that both were asked about.

    Writes ``verdicts.csv`` and ``check.json`` into the folder. Raises as `read_facts` and `anachron.run_probe`, and
    `ConfigError` for impossible demands.
    """
    from anachron.lm.loading import load_model  # these load torch, which asking a server does without
    from anachron.probe.run import ProbeSettings, run_probe

    callbacks, gate, settings, folder = callbacks or Callbacks(), gate or Gate(), settings or ProbeSettings(), Path(out)
    earlier = None if baseline is None else _scores(Path(baseline))
    if not isinstance(facts, CheckedFacts):
        facts = read_facts(facts, as_of=recorded_as_of(folder))
    if earlier is not None:
        _shared(earlier, facts.data.table)  # before anything is scored
    lm = load_model(model) if isinstance(model, str) else model
    scored = run_probe(lm, facts.data, folder, settings, callbacks=callbacks)
    present = _present(lm, facts.questions, folder / PRESENT, settings, callbacks)
    scores = check_scores(scored.scores)
    verdicts = _verdicts(facts, scores, present)
    loss = None if earlier is None else loss_against(*on_shared_dates(earlier, scores))
    label = scored.record["settings"]["label"]
    met = outcomes(gate, verdicts, present, loss, dated=facts.data.facts, holding=holding(facts.questions))
    found = Check(folder, label, verdicts, present, met, facts.as_of)
    write_found(found)
    return found


def write_found(found: Check) -> None:
    """Write what a check found into its run folder, and the checksums into its record."""
    with reopen_run(found.folder) as run:
        run.write_table(VERDICTS_FILE, found.verdicts)
        run.write_json(SUMMARY_FILE, found.summary)


def write_junit(found: Check, path: Path | str) -> None:
    """Write a check as a JUnit file: its demands pass or fail, and each fact states its verdict."""
    asked, left_out = [], []
    for row in found.verdicts.iter_rows(named=True):
        about = {"name": row["name"] or f"{row['subject']}: {row['object']}", "relation": row["relation"]}
        if row["verdict"] is None:
            left_out.append(about | {"reason": row["left_out"]})
        else:
            asked.append(about | {"verdict": verdict_in_words(row)})
    write_bytes(path, junit(found.model, found.outcomes, asked, left_out))


def _scores(folder: Path) -> pl.DataFrame:
    """The scores of the one run in a folder."""
    scores = read_runs([folder])
    if scores["model"].n_unique() > 1:
        raise ConfigError(f"--baseline {folder} holds {scores['model'].n_unique()} runs; give the folder of one")
    return check_scores(scores)


def on_shared_dates(baseline: pl.DataFrame, scores: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`mean_win_rates` of two runs over the dates of each fact that both asked about, and found in the same status.

    Runs as of other days, or with other samplings, ask about other dates; a date that has become incorrect since is in
    neither. scores: as `anachron.analysis.metrics.check_scores` returns them.
    """
    before, now = _shared(baseline, scores), _shared(scores, baseline)
    return mean_win_rates(fact_metrics(before)), mean_win_rates(fact_metrics(now))


def _shared(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """The rows of a table whose fact and date, in the same status, another has too. Raises `ConfigError` without."""
    found = one.join(other, on=["fact_id", "granularity", "time", "status"], how="semi")
    if not found.height:
        raise ConfigError(NOTHING_IN_COMMON)
    return found


def _present(
    lm: "Scorer", questions: Sequence[PresentQuestion], out: Path, settings: "ProbeSettings", callbacks: Callbacks
) -> pl.DataFrame:
    """What the model answers in the present tense. The scores are a run of their own, of statements without dates."""
    from anachron.probe.run import run_probe

    pairs = present_pairs(questions)
    if not pairs:
        return present_answers(questions, {})
    subjects = {q.question: q for q in questions}
    rows = [
        dict.fromkeys(STATEMENT_SCHEMA) | {
            "fact_id": fact_id(subjects[question].subject, subjects[question].relation, answer, "", question),
            "subject_label": subjects[question].subject, "relation_label": subjects[question].relation,
            "object_label": answer, "granularity": "year", "status": "none", "prompt": question, "answer": answer,
        }
        for question, answer in pairs
    ]  # fmt: skip
    data = Dataset("questions in the present tense", pl.DataFrame(rows, schema=STATEMENT_SCHEMA), "released")
    scores = run_probe(lm, data, out, settings, callbacks=callbacks).scores
    per_token = (scores["logp"] / scores["n_tokens"]).to_list()
    return present_answers(questions, dict(zip(pairs, per_token, strict=True)))


def _verdicts(facts: CheckedFacts, scores: pl.DataFrame, present: pl.DataFrame) -> pl.DataFrame:
    """The table of `Check`: all facts of the file, in its order."""
    data = facts.data
    assert data.about is not None and data.left_out is not None  # as of every file of facts
    about = pl.DataFrame(
        [
            {
                "fact_id": item.fact.id, "name": item.name, "subject": item.fact.subject,
                "relation": item.fact.relation, "object": item.fact.object, "periods": periods_text(item.periods),
                "row": item.rows[0],
            }
            for item in facts.given
        ],
        schema_overrides={"name": pl.String},
    )  # fmt: skip
    years = scores.filter(pl.col("granularity") == "year")
    lines = [{"fact_id": fact, "timeline": short_timeline(table)} for (fact,), table in years.group_by("fact_id")]
    reasons = data.left_out.select(
        pl.col("rows").str.split(" ").list.first().cast(pl.Int64).alias("row"), left_out="reason"
    )
    today = present.select("subject", "relation", "object", pl.col("status").alias("present"), "answer", "answer_until")
    return (
        about.join(data.about.select("fact_id", "question"), on="fact_id", how="left", maintain_order="left")
        .join(fact_verdicts(scores, fact_metrics(scores)), on="fact_id", how="left", maintain_order="left")
        .join(pl.DataFrame(lines), on="fact_id", how="left", maintain_order="left")
        .join(today, on=["subject", "relation", "object"], how="left", maintain_order="left")
        .join(reasons, on="row", how="left", maintain_order="left")
        .drop("row")
    )
