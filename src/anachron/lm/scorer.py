"""What scoring needs of a model, wherever it computes: in this process, behind a server, on other machines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from anachron.core.errors import ModelError
from anachron.lm.formats import Format, Shown
from anachron.lm.plans import Plan
from anachron.lm.scoring import Counters
from anachron.lm.spans import Encoded

Triple = tuple[str, str, str | None]  # prompt, answer, separator
ABOVE_ZERO = 1e-4  # nats; rounding of a sum of log-probabilities that are next to 0
Progress = Callable[[int], None]  # told how many more texts are scored


class Scorer(Protocol):
    """A model that scores, with its tokenizer. `anachron.lm.model.LanguageModel` is the one that computes here.

    ``prefix`` is the text that an edit in force puts before every prompt, else empty, ``passages`` what it chooses for
    each, else None; ``dtype`` that of the weights.
    """

    name: str
    dtype: str
    prefix: str
    tokenizer: Any

    @property
    def passages(self) -> Shown | None: ...

    def identity(self) -> dict[str, Any]:
        """What must match for a run with the model to go on."""
        ...

    def about(self) -> dict[str, Any]:
        """What a reader wants to know of the model: its family, its size, whether it is quantised."""
        ...

    def hardware(self) -> dict[str, Any]:
        """What it computes on."""
        ...

    def encode(self, pairs: Sequence[Triple], style: Format | None = None) -> list[Encoded]: ...

    def check(self, encoded: Sequence[Encoded]) -> None:
        """Raise `ModelError` where the model cannot read a text that was encoded elsewhere with its tokenizer."""
        ...

    def plan(self, encoded: Sequence[Encoded], batch_tokens: int | None = None, *, prefix_tree: bool = True) -> Plan:
        """Which texts are computed together; the same for the same texts."""
        ...

    def score_parts(
        self, encoded: Sequence[Encoded], parts: Mapping[int, Plan], *, native_softmax: bool = False,
        progress: Progress = lambda texts: None,
    ) -> Iterator[tuple[int, np.ndarray, Counters]]:  # fmt: skip
        """Each part's number, the scores of its texts (in the order of ``Plan.texts``) and what computing them took.

        Parts come as they are done, in any order.
        """
        ...


def score_texts(
    scorer: Scorer, encoded: Sequence[Encoded], *, batch_tokens: int | None = None, prefix_tree: bool = True,
    native_softmax: bool = False, finite: bool = True,
) -> np.ndarray:  # fmt: skip
    """Scores of texts in their order, in nats; what occurs twice is computed once.

    finite: raise `ModelError` for a score that is not a finite number; off where it is a finding that a
    model has broken.
    """
    distinct = list(dict.fromkeys(encoded))
    scores = np.full(len(distinct), np.nan)
    if distinct:
        plan = scorer.plan(distinct, batch_tokens, prefix_tree=prefix_tree)
        for _, part_scores, _ in scorer.score_parts(distinct, {0: plan}, native_softmax=native_softmax):
            scores[plan.texts] = part_scores
    place = {text: i for i, text in enumerate(distinct)}
    scores = scores[[place[text] for text in encoded]]
    if finite:
        check_log_probs(scores, scorer)
    return scores


def check_log_probs(scores: np.ndarray, scorer: Scorer, numbers: Sequence[int] | None = None) -> None:
    """Raise `ModelError` for a score that is NaN, infinite or above 0.

    numbers: of the texts, from 0, where they are not all in their order. One score that is NaN makes those of the other
    texts in its tree batch NaN too.
    """
    broken, above = np.flatnonzero(~np.isfinite(scores)), np.flatnonzero(scores > ABOVE_ZERO)
    if not broken.size and not above.size:
        return
    first = int(broken[0] if broken.size else above[0])
    number = (first if numbers is None else numbers[first]) + 1
    fault = ", which is not a log-probability; look at the model or its server"
    if broken.size:
        way = "its weights are damaged, so use another checkpoint"
        if scorer.dtype == "float16":
            way = "its arithmetic overflows in float16, so load it in bfloat16 or float32"
        fault = f"; {broken.size} of {len(scores)} scores are no finite numbers: {way}"
    raise ModelError(f"{scorer.name} gives text {number} the score {scores[first]}{fault}")
