"""A model that gives log-probabilities, as who is asked: every statement is scored by a probe run."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from anachron.analysis.analyses.crossed import crossed_of_run
from anachron.analysis.analyses.decoys import decoys_of_run
from anachron.analysis.decoys import ALIKE
from anachron.analysis.metrics import check_scores, fact_metrics
from anachron.core.dates import GRANULARITIES
from anachron.core.errors import ConfigError
from anachron.core.sameness import name_key
from anachron.data.dataset import Dataset
from anachron.data.decoys import choose_decoys, with_enough_decoys
from anachron.data.statements import undated_statements
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import RUN_FILE
from anachron.lm.loading import load_model
from anachron.lm.scorer import Scorer
from anachron.probe.check.gate import NOTHING_IN_COMMON, Gate, loss_against
from anachron.probe.check.present import PRESENT_DECOYS, PresentQuestion, present_answers, present_pairs
from anachron.probe.check.questions import CheckedFacts
from anachron.probe.check.verdicts import fact_verdicts, mean_win_rates, short_timeline
from anachron.probe.horizon.measure import preferences, scores_by_pair, statements
from anachron.probe.horizon.questions import ChangeToAsk
from anachron.probe.respondent import JudgedFacts, Respondent
from anachron.probe.run import ProbeResult, ProbeSettings, run_probe
from anachron.probe.runs import read_runs

PRESENT = "present"  # folder of the run about today in that of a check


@dataclass(frozen=True)
class ByScores(Respondent):
    """A model whose statements are scored. model: a loaded one, or a name for `load_model`, which is loaded when
    something is scored. reuse: the folder of an earlier probe or check, from which scores of the same texts are taken
    over; in the folder of a run about an earlier state of the same file this is done by itself."""

    model: str | Scorer
    settings: ProbeSettings = field(default_factory=ProbeSettings)
    reuse: Path | None = None

    def judge(
        self, facts: CheckedFacts, out: Path, gate: Gate, baseline: Path | None, callbacks: Callbacks | None = None
    ) -> JudgedFacts:
        """W of a baseline is compared over the dates that both were asked about."""
        earlier = None if baseline is None else _baseline(baseline)
        if earlier is not None:
            _shared(earlier, facts.data.table)
        lm = load_model(self.model) if isinstance(self.model, str) else self.model
        data = with_enough_decoys(facts.data, ALIKE, seed=self.settings.seed)
        scored = run_probe(lm, data, out, self.settings, callbacks=callbacks, reuse=self.reuse, renew=True)
        present = self._present(lm, data, facts.questions, out / PRESENT, callbacks)
        scores, about = check_scores(scored.scores), facts.data.about
        assert about is not None  # as of every file of facts
        level = pl.col("granularity").replace_strict({name: n for n, name in enumerate(GRANULARITIES)})
        coarsest = scores.filter(level == level.min().over("fact_id"))  # of facts below a year months, or days
        timelines = [{"fact_id": f, "timeline": short_timeline(rows)} for (f,), rows in coarsest.group_by("fact_id")]
        verdicts = fact_verdicts(scores, fact_metrics(scores), scored.decoys)
        found = (
            about.select("fact_id", "question")
            .join(verdicts, on="fact_id", how="left", maintain_order="left")
            .join(pl.DataFrame(timelines), on="fact_id", how="left", maintain_order="left")
        )
        loss = None if earlier is None else loss_against(*on_shared_dates(earlier, scores))
        more = {"crossed": crossed_of_run(scores)}
        if scored.decoys is not None:
            more["decoys"] = decoys_of_run(scores, scored.decoys)
        return JudgedFacts(scored.record["settings"]["label"], found, facts.data.facts, present, loss, more=more)

    def probe(self, data: Dataset, out: Path | str, callbacks: Callbacks | None = None) -> ProbeResult:
        return run_probe(self.model, data, out, self.settings, callbacks=callbacks, reuse=self.reuse, renew=True)

    def prefer(
        self, changes: Sequence[ChangeToAsk], out: Path | str, callbacks: Callbacks | None = None
    ) -> tuple[str, pl.DataFrame]:
        data = statements(changes)
        scored = run_probe(self.model, data, out, self.settings, callbacks=callbacks)
        return scored.record["settings"]["label"], preferences(changes, scores_by_pair(scored.scores, data))

    def _present(
        self,
        lm: Scorer,
        facts: Dataset,
        questions: Sequence[PresentQuestion],
        out: Path,
        callbacks: Callbacks | None = None,
    ) -> pl.DataFrame:
        """What the model answers in the present tense. The scores are a run of their own, of statements without dates.
        facts: the data set that knows decoys."""
        questions = _beside_decoys(questions, facts, self.settings.seed)
        pairs = present_pairs(questions)
        if not pairs:
            return present_answers(questions, {})
        about = {q.question: (q.subject, q.relation) for q in questions}
        table = undated_statements((*about[question], question, answer) for question, answer in pairs)
        data = Dataset("questions in the present tense", table, "released")
        reuse = None if self.reuse is None else self.reuse / PRESENT
        if reuse is not None and not (reuse / RUN_FILE).is_file():  # of a probe, or of facts of which none holds today
            reuse = None
        scores = run_probe(lm, data, out, self.settings, callbacks=callbacks, reuse=reuse, renew=True).scores
        return present_answers(questions, scores_by_pair(scores, data))


def _beside_decoys(questions: Sequence[PresentQuestion], facts: Dataset, seed: int) -> list[PresentQuestion]:
    """The questions with their decoys."""
    asked = [(q.subject, q.relation, one.label, q.relation_id) for q in questions for one in q.objects]
    found = choose_decoys(facts, asked, PRESENT_DECOYS, seed=seed)
    return [replace(q, decoys=found[name_key(q.subject), name_key(q.relation)]) for q in questions]


def _baseline(folder: Path) -> pl.DataFrame:
    """The scores of the one run in a folder."""
    scores = read_runs([folder])
    if scores["model"].n_unique() > 1:
        raise ConfigError(f"--baseline {folder} holds {scores['model'].n_unique()} runs; give the folder of one")
    return check_scores(scores)


def on_shared_dates(baseline: pl.DataFrame, scores: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`mean_win_rates` of two runs over the dates of each fact that both asked about, and found in the same status.

    Runs as of other days, or with other samplings, ask about other dates; a date that
    has become incorrect since is in neither. scores: as `anachron.analysis.metrics.check_scores` returns them.
    """
    before, now = _shared(baseline, scores), _shared(scores, baseline)
    return mean_win_rates(fact_metrics(before)), mean_win_rates(fact_metrics(now))


def _shared(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """The rows of a table whose fact and date, in the same status, another has too. Raises `ConfigError` without."""
    found = one.join(other, on=["fact_id", "granularity", "time", "status"], how="semi")
    if not found.height:
        raise ConfigError(NOTHING_IN_COMMON)
    return found
