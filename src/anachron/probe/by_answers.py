"""A model that only answers, as who is asked: questions are put to it, and its answers read."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from anachron.core.errors import ConfigError
from anachron.data.dataset import Dataset
from anachron.data.decoys import with_enough_decoys
from anachron.io.files import Json
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import Kind
from anachron.probe.ask.asking import Answerer, AskSettings, estimate
from anachron.probe.ask.budget import Cost, expected
from anachron.probe.ask.run import ANSWERS_FILE, AnswerRun, open_asking, read_answer_run, run_asking
from anachron.probe.ask.tables import answers_table
from anachron.probe.ask.verdicts import answer_verdicts
from anachron.probe.check.gate import NOTHING_IN_COMMON, Gate, loss_against
from anachron.probe.check.levels import AMONG
from anachron.probe.check.questions import CheckedFacts
from anachron.probe.horizon.asking import answered, change_questions, wordings_around
from anachron.probe.horizon.measure import statements
from anachron.probe.horizon.questions import ChangeToAsk
from anachron.probe.questions import questions_of, questions_of_data
from anachron.probe.respondent import JudgedFacts, Respondent
from anachron.probe.runs import recorded_as_of

CANDIDATES = (
    3 * AMONG
)  # decoys of a check: each fact is ranked among those that have its sides, of which there are three


@dataclass(frozen=True)
class ByAnswers(Respondent):
    """A model that is asked questions. settings: how much is asked. language: of the questions, a code or the path of a
    language file; by default English. What was answered is not asked again; where a budget ended, a larger one goes
    on."""

    answerer: Answerer
    settings: AskSettings = field(default_factory=AskSettings)
    language: str | Path | None = None

    def judge(
        self, facts: CheckedFacts, out: Path, gate: Gate, baseline: Path | None, callbacks: Callbacks | None = None
    ) -> JudgedFacts:
        """Verdicts are those of `anachron.probe.ask.verdicts`; W of a baseline is compared by fact."""
        refuse_unasked(self.settings, gate, baseline)
        earlier = None if baseline is None else read_answer_run(baseline)[1].select("fact_id", "win_rate")
        data = with_enough_decoys(facts.data, CANDIDATES)
        questions, as_of = questions_of(data, facts.given, self.language)
        dated = [fact.fact_id for fact in questions.facts]
        if earlier is not None and set(dated).isdisjoint(earlier["fact_id"]):
            raise ConfigError(NOTHING_IN_COMMON)
        run = run_asking(
            questions, facts.questions, self.answerer, out, _identity(data), as_of, self.settings,
            to_edit=data.to_edit, callbacks=callbacks,
        )  # fmt: skip
        found = answer_verdicts(run.facts).drop("subject", "relation", "object", "periods")
        unread = found.filter(pl.col("verdict").is_null())["fact_id"]
        return JudgedFacts(
            run.label, found, len(dated), run.present,
            None if earlier is None else loss_against(earlier, run.facts),
            {**questions.left_out, **dict.fromkeys(unread, "no choice of two years could be read")},
            {"robustness": None, "answers": run.summary},  # answers do not tell R
        )  # fmt: skip

    def probe(self, data: Dataset, out: Path | str, callbacks: Callbacks | None = None) -> AnswerRun:
        questions, as_of = questions_of(data, None, self.language, recorded_as_of(out))
        return run_asking(
            questions, (), self.answerer, out, _identity(data), as_of, self.settings,
            to_edit=data.to_edit, callbacks=callbacks,
        )  # fmt: skip

    def prefer(
        self, changes: Sequence[ChangeToAsk], out: Path | str, callbacks: Callbacks | None = None
    ) -> tuple[str, pl.DataFrame]:
        """By one question in the present tense for each subject and relation. Of the settings the budget and the prices
        count."""
        callbacks = callbacks or Callbacks()
        questions, around, label = change_questions(changes), wordings_around(), self.answerer.name
        identity: Json = {
            "what": "horizon", "label": label, **self.answerer.identity(),
            "dataset_fingerprint": statements(changes).fingerprint(), "wordings": around.wordings.open,
        }  # fmt: skip
        with open_asking(Path(out), identity, Kind.CHANGES, self.answerer, self.settings, callbacks) as (run, asking):
            readings = dict(zip(questions, asking.ask([*questions.values()]), strict=False))
            run.write_table(ANSWERS_FILE, answers_table(asking, around))
        if asking.ended:
            callbacks.warn(
                f"the budget ended after {len(readings)} of {len(questions)} questions; "
                "repeat the command with a larger one to go on"
            )
        return label, answered(changes, readings)


Costs = tuple[int, Cost, Cost]  # number of facts or changes that are asked about, least and most cost


def refuse_unasked(settings: AskSettings, gate: Gate, baseline: Path | None) -> None:
    """Raise `ConfigError` for a demand that the questions which are to be asked cannot answer."""
    demands = (
        ("--max-stale", gate.max_stale, "open"),
        ("--min-win-rate", gate.min_win_rate, "choice"),
        ("--baseline", baseline, "choice"),
    )
    for option, demand, way in demands:
        if demand is not None and way not in settings.ways:
            raise ConfigError(
                f"{option} {demand} is judged by the answers to {way} questions, and --ways {','.join(settings.ways)} "
                f"asks none: add {way}, or leave {option} out"
            )


def cost_of_facts(
    facts: CheckedFacts, settings: AskSettings, gate: Gate, baseline: Path | None, language: str | Path | None = None
) -> Costs:
    """What a check costs. Raises `ConfigError` as `refuse_unasked`."""
    refuse_unasked(settings, gate, baseline)
    questions = questions_of(with_enough_decoys(facts.data, CANDIDATES), facts.given, language)[0]
    return len(questions.facts), *estimate(questions, facts.questions, settings)


def cost_of_data(data: Dataset, settings: AskSettings, language: str | Path | None = None) -> Costs:
    """What a probe costs."""
    questions = questions_of_data(data, language)
    return len(questions.facts), *estimate(questions, (), settings)


def cost_of_changes(changes: Sequence[ChangeToAsk]) -> Costs:
    """What a horizon costs, the budget aside: at least and at most the same."""
    cost = expected((one.kind, one.prompt) for one in change_questions(changes).values())
    return len(changes), cost, cost


def _identity(data: Dataset) -> Json:
    return {"dataset": data.name, "dataset_fingerprint": data.fingerprint(), **data.choices()}
