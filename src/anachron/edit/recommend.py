"""Which method to take where the user names none: by what is known before anything is made.

The table is that of docs/edits.md; what stands behind it is docs/results.md. It says which method does least harm as a
rule, not which is best on this model and these facts: that takes an evaluation.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from anachron.core.facts import REPLACEMENT

Weights = Literal["plain", "fixed", "elsewhere"]
Had = Literal["there", "not wanted", "missing"]
FEW = 10  # updates; ROME makes them one on top of the other, and takes four times as long for each as MEMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known of a model and its updates.

    updates: how many. weights: ``plain`` ones can be added to, ``fixed`` ones cannot (quantised, offloaded), those
    ``elsewhere`` are behind an API. covariance: whether one can be had without a word of the user. scenarios: of the
    updates. subjects_named: whether every prompt names its subject. kept_as_model: whether the edited model is to be
    written too, so that weights must change.
    """

    updates: int
    weights: Weights = "plain"
    covariance: Had = "there"
    scenarios: Collection[str] = (REPLACEMENT,)
    subjects_named: bool = True
    kept_as_model: bool = False


@dataclass(frozen=True, slots=True)
class Recommended:
    """A method, and why it."""

    method: str
    reason: str


def recommend(known: Situation) -> Recommended:
    """The method for a situation, with the reason in words."""
    few, removal = known.updates <= FEW, "Archive" in known.scenarios
    how_many = "1 update" if known.updates == 1 else f"{known.updates:,} updates{'' if few else ' at once'}"
    if known.weights == "elsewhere":
        return Recommended("PROMPT", "the model's weights are elsewhere, so only what it reads can change")
    if known.weights == "fixed":
        if few and not removal and not known.kept_as_model:
            return Recommended("GRACE", f"for {how_many}: the weights cannot be added to, and a memory spares the rest")
        return Recommended("LoRA", f"for {how_many}: the weights cannot be added to, adapters stand beside them")
    if removal:
        lacking = "ROME and MEMIT take no object out"
    elif not known.subjects_named:
        lacking = "ROME and MEMIT need prompts that name their subject"
    elif known.covariance == "missing":
        lacking = "no covariance is at hand, which --corpus auto makes for ROME and MEMIT"
    else:
        return Recommended("ROME" if few else "MEMIT", f"for {how_many}, and a covariance is {known.covariance}")
    if few and not known.kept_as_model:
        return Recommended("PROMPT", f"for {how_many}: {lacking}")
    return Recommended("FT", f"for {how_many}: {lacking}")
