"""Who is asked: a model by its log-probabilities (`by_scores`), or one that only answers (`by_answers`).

A check, a probe and a horizon are each written once over a `Respondent`; which of the two it is, is chosen where the
model is opened.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from anachron.io.files import Json
from anachron.io.jobs import Callbacks

if TYPE_CHECKING:
    from anachron.data.dataset import Dataset
    from anachron.probe.ask.run import AnswerRun
    from anachron.probe.check.gate import Gate, Loss
    from anachron.probe.check.questions import CheckedFacts
    from anachron.probe.horizon.questions import ChangeToAsk
    from anachron.probe.run import ProbeResult


@dataclass(frozen=True)
class JudgedFacts:
    """What came of the facts of a file.

    label: of the model in tables. facts: one row a fact that was asked with dates: ``fact_id``, ``question``, those of
    `anachron.probe.check.verdicts.VERDICT_SCHEMA` and, of scores, ``timeline``. dated: how many of them could be asked.
    present: of `anachron.probe.check.present.present_answers`. loss: against the baseline, where there is one.
    unjudged: fact -> why it has no verdict, beside what the file says. more: for the summary.
    """

    label: str
    facts: pl.DataFrame
    dated: int
    present: pl.DataFrame
    loss: "Loss | None"
    unjudged: Mapping[str, str] = field(default_factory=dict)
    more: Json = field(default_factory=dict)


class Respondent(ABC):
    """A model that facts, statements and changes are put to. What was asked is kept in ``out``, where a killed run goes
    on; all three raise what the model raises, and `ConfigError` where the folder holds another run or is in use."""

    @abstractmethod
    def judge(
        self, facts: "CheckedFacts", out: Path, gate: "Gate", baseline: Path | None, callbacks: Callbacks | None = None
    ) -> JudgedFacts:
        """A verdict for each fact of a file, and what is said today.

        baseline: the folder of an earlier run about these facts. Raises `ConfigError` for a demand of the gate that
        cannot be judged and for a baseline with nothing in common, before anything is asked.
        """

    @abstractmethod
    def probe(self, data: "Dataset", out: Path | str, callbacks: Callbacks | None = None) -> "ProbeResult | AnswerRun":
        """W of a data set's facts: the scores of its statements, or the answers to questions about its facts."""

    @abstractmethod
    def prefer(
        self, changes: "Sequence[ChangeToAsk]", out: Path | str, callbacks: Callbacks | None = None
    ) -> tuple[str, pl.DataFrame]:
        """The model's label, and one row a change (`anachron.probe.horizon.measure.PREFERENCE_SCHEMA`)."""
