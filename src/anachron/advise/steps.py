"""What a refresh would do, and about how long it takes, by the speed at which a few of its questions are scored."""

import time
from typing import TYPE_CHECKING

from anachron.advise.refresh import BUNDLED_FACTS
from anachron.analysis.decoys import ALIKE
from anachron.analysis.plots.words import counted
from anachron.data.decoys import with_enough_decoys
from anachron.data.loaders import load_dataset
from anachron.data.updates.cases import MINI_UPDATES, load_cases
from anachron.evaluate.measure import Measures, measure
from anachron.lm.model import LanguageModel

if TYPE_CHECKING:
    from anachron.probe.check.questions import CheckedFacts

SAMPLE = 200  # questions that are timed


def steps_of(
    lm: LanguageModel, facts: "CheckedFacts", measures: Measures, ways: int, evidence: int, way: str | None = None
) -> list[str]:
    """The steps in words, one a line, with the times of what is asked: how many facts are stale is not known yet, so
    those of the advice are for each, by the time that a bundled update takes. measures: of the advice. ways: how many,
    leaving the model as it is among them. evidence: how many updates are tried at least. way: the one that makes them
    whatever the advice.
    """
    asked = with_enough_decoys(facts.data, ALIKE).statements()
    questions = asked.height
    pairs = [*asked.select("prompt", "answer").head(SAMPLE).iter_rows()]
    started = time.perf_counter()
    lm.log_probs(pairs)
    each = (time.perf_counter() - started) / len(pairs)
    started = time.perf_counter()
    measure(lm, load_cases(MINI_UPDATES, limit=1).cases, measures)
    tried = time.perf_counter() - started
    beside = f", and on bundled updates that the model lacks too until they are {evidence}" if evidence else ""
    bundled = load_dataset("mini", limit=BUNDLED_FACTS).table.height
    return [
        f"1. check {counted(facts.data.facts, 'fact')}: {questions:,} questions, {_time(each * questions)}",
        "2. make updates of what is stale (stale.csv)",
        f"3. try {counted(ways - 1, 'way')} and nothing on them{beside}: {_time(tried * ways)} an update and number of "
        "updates made together, and what making the updates takes; --budget-minutes bounds it",
        f"4. make the updates by {way or 'the way that is recommended'}",
        f"5. check the same facts again, {_time(each * questions)}, and {BUNDLED_FACTS} bundled facts before and "
        f"after, {_time(2 * each * bundled)}",
    ]


def _time(seconds: float) -> str:
    return f"about {max(1, round(seconds)):,} s" if seconds < 90 else f"about {seconds / 60:,.0f} minutes"
