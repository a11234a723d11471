"""Does a model know changes after a claimed cut-off?

After an honest cut-off nothing is known, so a new value is preferred to the old one no more often than a decoy: a
name of its kind that the subject never had. Each change after the claim is its own pair of the two. Changes that
could be told beforehand (of medium or high predictability) are left out. Where it is known when the model was
published, changes after that day cannot be known, and what their new values are ahead of decoys is what names are
likelier without knowledge: it is taken off.

Silence is no honesty: where the answers to too many of these changes were not given or not read, or too few can be
tested, there is no verdict (`Leak.error`).
"""

from dataclasses import dataclass
from math import nan

import numpy as np
import polars as pl

from anachron.analysis.statistics import sign_flips
from anachron.core.errors import ConfigError
from anachron.probe.ask.matching import EMPTY, UNANSWERED, UNREADABLE
from anachron.probe.horizon.asking import TWICE, UNASKED
from anachron.probe.horizon.changes import FORESEEN
from anachron.probe.horizon.measure import comparable

CONFIDENCE = 0.95
LEAST = 10  # changes after the claim, for a test
PERMUTATIONS = 9999
# Of answers: to say that it does not know is one, which the question offers.
NO_ANSWER = (UNASKED, UNANSWERED, EMPTY, UNREADABLE)


@dataclass(frozen=True)
class Leak:
    """What was found after the claim.

    changes: how many were tested, of subjects that the model knows. new, decoy: shares of them in which the new value,
    and the decoy, is preferred to the old one. ahead: what new values are ahead of decoys after the day of publication,
    in shares; 0 where that is not known. p: one-sided, of such an excess by chance; NaN of too few changes. rows: those
    whose new value is preferred, the surest first: what gave it away, if anything did. asked: how many changes after
    the claim were to be asked about; judged: of how many an answer was read, or a score computed. error: why there is
    no verdict, if there is none.
    """

    claim: int
    changes: int
    new: float
    decoy: float
    ahead: float
    p: float
    rows: pl.DataFrame
    asked: int
    judged: int
    error: str | None = None

    @property
    def told(self) -> bool:
        """Whether there were changes and answers enough to say anything."""
        return self.error is None

    @property
    def leaked(self) -> bool:
        return self.told and self.p < 1 - CONFIDENCE


def check_claim(claim: int | None, released: int | None) -> None:
    """Raise `ConfigError` where no change can lie between a claimed month and that of publication."""
    if released is not None and claim is None:
        raise ConfigError("--released serves the test of a claim; give --claim too")
    if released is not None and claim is not None and released <= claim:
        raise ConfigError("the model was released by the month of the claim, so no change lies between the two")


def leak_after(
    table: pl.DataFrame, claim: int, released: int | None = None, *, seed: int = 0, min_judged: float = 1.0
) -> Leak:
    """The test of a table of `anachron.probe.horizon.measure.preferences`, against a claimed month (months since the
    year 0).

    Without ``released`` (likewise) the signs of what subjects sum up to are flipped
    (`anachron.analysis.statistics.sign_flips`); with it their subjects change sides between before and after that
    month. Subjects, never changes, are what is exchanged, for answers about one depend on each other. min_judged:
    share (0 to 1) of the changes after the claim of which an answer must have been read; at least `LEAST` must be
    testable too.
    """
    after = (pl.col("month") > claim) & ~pl.col("predictable").is_in(FORESEEN)
    of_claim = after if released is None else after & (pl.col("month") <= released)
    named = table.filter(of_claim, pl.col("control") == "")["named"].fill_null("").to_list()
    asked = len(named) - named.count(TWICE)
    counts = asked, asked - sum(map(named.count, NO_ANSWER))
    said = comparable(table).filter(after)
    unknowable = said.filter(pl.col("month") > released) if released is not None else said.clear()
    tested = said.filter(pl.col("month") <= released) if released is not None else said
    rows = tested.filter(pl.col("wins") == 1).sort("margin", descending=True)
    new, decoy = (_mean(tested[name]) for name in ("wins", "decoy_wins"))
    if error := _too_little(*counts, min_judged, tested.height, None if released is None else unknowable.height):
        return Leak(claim, tested.height, new, decoy, 0.0, nan, rows, *counts, error)
    excess, before = _by_subject(tested), new - decoy
    if released is None:
        two_sided = sign_flips(np.zeros(len(excess)), excess[:, 0], seed=seed)
        p = two_sided / 2 if excess[:, 0].sum() > 0 else 1 - two_sided / 2
        return Leak(claim, tested.height, new, decoy, 0.0, p, rows, *counts)
    later = _by_subject(unknowable)
    ahead = float(later[:, 0].sum() / later[:, 1].sum())
    return Leak(claim, tested.height, new, decoy, ahead, _apart(excess, later, before - ahead, seed), rows, *counts)


def _too_little(asked: int, judged: int, min_judged: float, tested: int, unknowable: int | None) -> str | None:
    """Why there is no verdict, if there is none."""
    if asked and judged / asked < min_judged:
        return (
            f"of only {judged} of {asked} changes after it an answer was read, and --min-judged {min_judged:g} asks "
            "for more; ask on with a larger --budget, or lower --min-judged"
        )
    if tested < LEAST:
        return f"only {tested} of {asked} changes after it can be tested, of subjects that it knows; {LEAST} are needed"
    if unknowable is not None and unknowable < LEAST:
        return f"only {unknowable} changes after its publication can be compared with; {LEAST} are needed"
    return None


def _mean(values: pl.Series) -> float:
    return float(values.mean()) if len(values) else nan  # type: ignore[arg-type]


def _by_subject(rows: pl.DataFrame) -> np.ndarray:
    """What new values are ahead of decoys, and of how many changes, by subject: shape (subjects, 2)."""
    sums = rows.group_by("subject", maintain_order=True).agg(
        (pl.col("wins") - pl.col("decoy_wins")).sum().alias("ahead"), pl.len().cast(pl.Float64).alias("changes")
    )
    return sums.select("ahead", "changes").to_numpy()


def _apart(one: np.ndarray, other: np.ndarray, observed: float, seed: int) -> float:
    """One-sided p of a difference of two ratios of totals, by exchanging subjects between them."""
    both, random, as_far = np.vstack([one, other]), np.random.default_rng(seed), 0
    for _ in range(PERMUTATIONS):
        order = random.permutation(len(both))
        first, second = both[order[: len(one)]].sum(axis=0), both[order[len(one) :]].sum(axis=0)
        as_far += first[0] / first[1] - second[0] / second[1] >= observed - 1e-12
    return (as_far + 1) / (PERMUTATIONS + 1)
