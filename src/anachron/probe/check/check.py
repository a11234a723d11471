"""A user's own facts put to a model: a verdict for each, what is stale, and whether a build should fail (``check``)."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from anachron.core.dates import Date
from anachron.core.several_periods import periods_text
from anachron.data.own.reading import Reading
from anachron.io.files import Json, write_bytes
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import reopen_run
from anachron.probe.backends import respondent_of
from anachron.probe.check.gate import Gate, Outcome, junit, outcomes
from anachron.probe.check.present import holding
from anachron.probe.check.questions import CheckedFacts, read_facts
from anachron.probe.check.urgency import (
    stale_facts,
    stale_in_words,
    stale_records,
    stale_updates,
    urgent_first,
)
from anachron.probe.check.verdicts import VERDICTS, VERDICTS_FILE, verdict_in_words
from anachron.probe.respondent import JudgedFacts, Respondent
from anachron.probe.runs import recorded_as_of

if TYPE_CHECKING:
    from anachron.lm.scorer import Scorer
    from anachron.probe.run import ProbeSettings

SUMMARY_FILE, STALE_FILE, STALE_RECORDS = "check.json", "stale.csv", "stale.json"


@dataclass(frozen=True)
class Check:
    """What a check found.

    folder: the run folder, with ``verdicts.csv``, ``check.json``, ``stale.csv`` and ``stale.json``. verdicts: one row a
    fact of the file, those that could not be asked too; columns: name, subject, relation, object, periods, question,
    then those of `anachron.probe.check.verdicts.VERDICT_SCHEMA`, ``timeline``, ``present`` (current, stale, nothing to
    compare with, or null), ``answer`` and ``answer_until``, and ``left_out``, why a fact was not asked with dates.
    outcomes: the demands. more: what the summary says beside, of a model that was asked for answers. updates: the stale
    facts as `anachron.probe.check.urgency.stale_updates` has them, and records: as its `stale_records` has them.
    """

    folder: Path
    model: str
    verdicts: pl.DataFrame
    present: pl.DataFrame
    outcomes: list[Outcome]
    as_of: Date
    more: Json = field(default_factory=dict)
    updates: pl.DataFrame = field(default_factory=pl.DataFrame)
    records: list[Json] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every demand is met."""
        return all(outcome.passed for outcome in self.outcomes)

    @property
    def judged(self) -> bool:
        """Whether enough facts speak to every demand."""
        return all(outcome.error is None for outcome in self.outcomes)

    @property
    def stale(self) -> list[Json]:
        """The facts of which the model answers what is over, see `anachron.probe.check.urgency.stale_facts`."""
        return stale_facts(self.verdicts, self.present)

    @property
    def summary(self) -> Json:
        """The stale facts, counts by verdict and by what is said today, mean W, and the demands."""
        asked = self.verdicts.filter(pl.col("verdict").is_not_null())
        today = self.verdicts["present"].drop_nulls()
        return {
            "model": self.model, "as_of": str(self.as_of), "stale": self.stale,
            "facts": self.verdicts.height, "asked": asked.height,
            "win_rate": asked["win_rate"].mean(), "robustness": asked["robustness"].mean(),
            "verdicts": {name: int((asked["verdict"] == name).sum()) for name in VERDICTS},
            "present": {name: int((today == name).sum()) for name in today.unique(maintain_order=True)},
            "passed": self.passed, "judged": self.judged, "demands": [asdict(outcome) for outcome in self.outcomes],
        } | self.more  # fmt: skip


def check(
    model: "str | Scorer | Respondent",
    facts: Path | str | CheckedFacts,
    out: Path | str,
    *,
    settings: "ProbeSettings | None" = None,
    gate: Gate | None = None,
    baseline: Path | str | None = None,
    callbacks: Callbacks | None = None,
    reading: Reading | None = None,
) -> Check:
    """Ask a model about the facts of a file, with dates and in the present tense, and give a verdict for each.

    model: a loaded model, a name for `load_model`, or who answers (`anachron.ByAnswers`). facts: a file for
    `read_facts`, or what that read. out: the run folder; a killed check resumes there, as of the day on which it began.
    settings: of a model that is scored. baseline: the folder of an earlier check or probe of these facts. reading: how
    a file is read.

    Writes ``verdicts.csv``, ``check.json``, ``stale.csv`` and ``stale.json`` into the folder. Raises as `read_facts`
    and `anachron.run_probe`, what the model raises, and `ConfigError` for impossible demands.
    """
    callbacks, gate, folder = callbacks or Callbacks(), gate or Gate(), Path(out)
    if not isinstance(facts, CheckedFacts):
        facts = read_facts(facts, as_of=recorded_as_of(folder), reading=reading)
    earlier = None if baseline is None else Path(baseline)
    judged = respondent_of(model, settings).judge(facts, folder, gate, earlier, callbacks)
    verdicts, present = _verdicts(facts, judged), judged.present
    met = outcomes(gate, verdicts, present, judged.loss, dated=judged.dated, holding=holding(facts.questions))
    updates = stale_updates(stale_facts(verdicts, present), facts)
    records = stale_records(updates, present, facts)
    found = Check(folder, judged.label, verdicts, present, met, facts.as_of, judged.more, updates, records)
    with reopen_run(folder) as run:
        run.write_table(VERDICTS_FILE, found.verdicts)
        run.write_table(STALE_FILE, found.updates)
        run.write_json(STALE_RECORDS, found.records)
        run.write_json(SUMMARY_FILE, found.summary)
    return found


def write_junit(found: Check, path: Path | str) -> None:
    """Write a check as a JUnit file: its demands pass or fail, and each fact states its verdict, the urgent first."""
    stale = {(fact["subject"], fact["relation"], fact["new"]): stale_in_words(fact) for fact in found.stale}
    asked, left_out = [], []
    for row in urgent_first(found.verdicts).iter_rows(named=True):
        about = {"name": row["name"] or f"{row['subject']}: {row['object']}", "relation": row["relation"]}
        words = stale.get((row["subject"], row["relation"], row["object"]))
        today = [] if words is None else [f"stale: {words}"]
        if row["verdict"] is None:
            left_out.append(about | {"reason": "; ".join([row["left_out"], *today])})
        else:
            asked.append(about | {"verdict": "\n".join([*today, verdict_in_words(row)])})
    write_bytes(path, junit(found.model, found.outcomes, asked, left_out, [*stale.values()]))


def _verdicts(facts: CheckedFacts, judged: JudgedFacts) -> pl.DataFrame:
    """The table of `Check`: all facts of the file, in its order."""
    left_out = facts.data.left_out
    assert left_out is not None  # as of every file of facts
    rows = [
        {
            "fact_id": item.fact.id, "name": item.name, "subject": item.fact.subject, "relation": item.fact.relation,
            "object": item.fact.object, "periods": periods_text(item.periods), "row": item.rows[0],
        }
        for item in facts.given
    ]  # fmt: skip
    today = judged.present.select(
        "subject", "relation", "object", pl.col("status").alias("present"), "answer", "answer_until"
    )
    reasons = left_out.select(pl.col("rows").str.split(" ").list.first().cast(pl.Int64).alias("row"), "reason")
    unjudged = pl.col("fact_id").replace_strict(dict(judged.unjudged), default=None, return_dtype=pl.String)
    table = (
        pl.DataFrame(rows, schema_overrides={"name": pl.String})
        .join(judged.facts, on="fact_id", how="left", maintain_order="left")
        .join(today, on=["subject", "relation", "object"], how="left", maintain_order="left")
        .join(reasons, on="row", how="left", maintain_order="left")
        .with_columns(pl.coalesce("reason", unjudged).alias("left_out"))
        .drop("row", "reason")
    )
    # answers have no timeline; the column is there, so that tables of both kinds are read alike
    return table if "timeline" in table.columns else table.with_columns(pl.lit(None, pl.String).alias("timeline"))
