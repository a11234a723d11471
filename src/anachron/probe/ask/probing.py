"""A user's own facts put to a model that only answers: a verdict for each, as ``check`` gives it from scores."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from anachron.core.errors import ConfigError
from anachron.core.several_periods import periods_text
from anachron.data.dataset import Dataset
from anachron.io.files import Json
from anachron.io.jobs import Callbacks
from anachron.probe.ask.asking import Answerer, AskSettings, estimate
from anachron.probe.ask.budget import SECONDS, Cost
from anachron.probe.ask.questions import Questions
from anachron.probe.ask.run import AnswerRun, read_answer_run, run_asking
from anachron.probe.ask.verdicts import answer_verdicts
from anachron.probe.check.check import Check, write_found
from anachron.probe.check.gate import NOTHING_IN_COMMON, Gate, loss_against, outcomes
from anachron.probe.check.present import holding
from anachron.probe.check.questions import CheckedFacts
from anachron.probe.questions import questions_of, questions_of_data
from anachron.probe.runs import recorded_as_of


@dataclass(frozen=True)
class AnswerCheck(Check):
    """A check by answers. asked: the run that it rests on."""

    asked: AnswerRun

    @property
    def summary(self) -> Json:
        """As of any check, with `anachron.probe.ask.tables.summary_of`; without R, which answers do not tell."""
        return super().summary | {"robustness": None, "answers": self.asked.summary}


def cost_lines(
    number: int, least: Cost, most: Cost, settings: AskSettings, concurrency: int, noun: str = "fact"
) -> list[str]:
    """What asking will cost, in words. noun: of what there are so many."""
    minutes = [cost.calls * SECONDS / 60 / concurrency for cost in (least, most)]
    calls = f"{least.calls:,} to {most.calls:,} calls, at most {most.calls / number:.0f} per {noun}"
    lines = [
        f"{number:,} {noun}s: {calls if least != most else f'{most.calls:,} calls'}",
        f"about {least.read:,.0f} to {most.read:,.0f} tokens read and {least.written:,.0f} to {most.written:,.0f} "
        "written (assuming four letters per token and bare answers); a reasoning model writes many times as much",
        f"about {minutes[0]:,.1f} to {minutes[1]:,.1f} minutes at {SECONDS:g} s per call, {concurrency} at a time",
    ]
    if (prices := settings.prices) is not None:
        low, high = (prices.of(cost.read, cost.written) for cost in (least, most))
        lines.append(f"price: about {low:,.4f} to {high:,.4f}")
    if (budget := settings.budget) is not None:
        lines.append(f"it stops at {budget.amount:g} {budget.unit}")
    return lines


def check_by_answers(
    answerer: Answerer, facts: CheckedFacts, out: Path | str, *, settings: AskSettings | None = None,
    gate: Gate | None = None, baseline: Path | str | None = None, language: str | Path | None = None,
    callbacks: Callbacks | None = None,
) -> AnswerCheck:  # fmt: skip
    """Ask a model about the facts of a file, and give a verdict for each (`anachron.probe.ask.verdicts`).

    facts: `anachron.probe.check.questions.read_facts`. out: the run folder (`anachron.probe.ask.run`), which gets
    ``verdicts.csv`` and ``check.json`` too. baseline: the folder of an earlier check by answers of these facts; W is
    compared by fact.

    Raises `ConfigError` for a folder of another run and for demands that cannot be, `DataError` for a baseline that is
    no such run, and what the answerer raises.
    """
    gate, settings, folder = gate or Gate(), settings or AskSettings(), Path(out)
    check_ways(settings, gate, baseline)
    earlier = None if baseline is None else read_answer_run(baseline)[1].select("fact_id", "win_rate")
    questions, as_of = questions_of(facts.data, facts.given, language)
    dated = {fact.fact_id for fact in questions.facts}
    if earlier is not None and dated.isdisjoint(earlier["fact_id"]):  # before anything is asked
        raise ConfigError(NOTHING_IN_COMMON)
    run = run_asking(
        questions, facts.questions, answerer, folder, _identity(facts.data), as_of, settings, callbacks=callbacks
    )
    verdicts = _verdicts(facts, questions, run)
    asked = verdicts.filter(pl.col("fact_id").is_in(list(dated)))
    loss = None if earlier is None else loss_against(earlier, asked)
    met = outcomes(gate, verdicts, run.present, loss, dated=len(dated), holding=holding(facts.questions))
    found = AnswerCheck(folder, run.label, verdicts, run.present, met, facts.as_of, run)
    write_found(found)
    return found


def check_ways(settings: AskSettings, gate: Gate, baseline: Path | str | None = None) -> None:
    """Raise `ConfigError` for a demand that the questions which are to be asked cannot answer."""
    demands = (
        ("--max-stale", gate.max_stale, "open"), ("--min-win-rate", gate.min_win_rate, "choice"),
        ("--baseline", baseline, "choice"),
    )  # fmt: skip
    for option, demand, way in demands:
        if demand is not None and way not in settings.ways:
            raise ConfigError(
                f"{option} {demand} is judged by the answers to {way} questions, and --ways {','.join(settings.ways)} "
                f"asks none: add {way}, or leave {option} out"
            )


def estimate_check(facts: CheckedFacts, settings: AskSettings, language: str | Path | None = None) -> tuple[Cost, Cost]:
    """What `check_by_answers` costs at least and at most."""
    return estimate(questions_of(facts.data, facts.given, language)[0], facts.questions, settings)


def probe_by_answers(
    answerer: Answerer, data: Dataset, out: Path | str, *, settings: AskSettings | None = None,
    language: str | Path | None = None, callbacks: Callbacks | None = None,
) -> AnswerRun:  # fmt: skip
    """Ask a model about the facts of a data set, as `check_by_answers` does, without verdicts and today's answers.

    data: of `anachron.load_dataset`. Raises as `check_by_answers`.
    """
    questions, as_of = questions_of(data, None, language, recorded_as_of(out))
    return run_asking(questions, (), answerer, out, _identity(data), as_of, settings, callbacks=callbacks)


def estimate_probe(data: Dataset, settings: AskSettings, language: str | Path | None = None) -> tuple[Cost, Cost]:
    """What `probe_by_answers` costs at least and at most."""
    return estimate(questions_of_data(data, language), (), settings)


def _identity(data: Dataset) -> Json:
    return {"dataset": data.name, "dataset_fingerprint": data.fingerprint(), **data.choices()}


def _verdicts(facts: CheckedFacts, questions: Questions, run: AnswerRun) -> pl.DataFrame:
    """All facts of the file in its order, with what was found of those that were asked."""
    left_out = facts.data.left_out
    assert left_out is not None  # as of every file of facts
    rows = [
        {
            "fact_id": item.fact.id, "name": item.name, "subject": item.fact.subject, "relation": item.fact.relation,
            "object": item.fact.object, "periods": periods_text(item.periods), "row": item.rows[0],
        }
        for item in facts.given
    ]  # fmt: skip
    reasons = left_out.select(pl.col("rows").str.split(" ").list.first().cast(pl.Int64).alias("row"), reason="reason")
    unread = pl.when(pl.col("question").is_not_null() & pl.col("verdict").is_null()).then(
        pl.lit("no choice of two years could be read")
    )
    today = run.present.select(
        "subject", "relation", "object", pl.col("status").alias("present"), "answer", "answer_until"
    )
    found = answer_verdicts(run.facts).drop("subject", "relation", "object", "periods")
    return (
        pl.DataFrame(rows, schema_overrides={"name": pl.String})
        .join(found, on="fact_id", how="left", maintain_order="left")
        .join(today, on=["subject", "relation", "object"], how="left", maintain_order="left")
        .join(reasons, on="row", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce(
                "reason", pl.col("fact_id").replace_strict(dict(questions.left_out), default=None), unread
            ).alias("left_out"),
            pl.lit(None, pl.String).alias("timeline"),
        )
        .drop("row", "reason")
    )  # fmt: skip
