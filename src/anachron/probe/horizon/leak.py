"""Does a model know changes after a claimed cut-off?

After an honest cut-off nothing is known, so a new value is preferred to the old one no more often than decoys: names
of its kind that the subject never had. Each change after the claim is its own pair of the two. Changes that could be
told beforehand (of medium or high predictability) are left out. But a new value may be a better guess than most decoys
without any knowledge. Where it is known when the model was published, changes after that day cannot be known, and what
their new values are ahead of decoys is taken off. Where it is not, a leak is seen only if new values win more often
than the likeliest decoy of each change; if they are ahead of decoys on average alone, there is no verdict.

Silence is no honesty: where the answers to too many of these changes were not given or not read, or too few can be
tested, there is no verdict (`Leak.error`).
"""

from dataclasses import dataclass
from math import nan

import numpy as np
import polars as pl
from scipy.special import ndtri

from anachron.analysis.statistics import sign_flips
from anachron.core.errors import ConfigError
from anachron.probe.ask.matching import EMPTY, UNANSWERED, UNREADABLE
from anachron.probe.horizon.asking import TWICE, UNASKED
from anachron.probe.horizon.changes import FORESEEN
from anachron.probe.horizon.measure import comparable

CONFIDENCE = 0.95
POWER = 0.8
LEAST = 10  # changes after the claim, for a test
PERMUTATIONS = 9999
# Of answers: to say that it does not know is one, which the question offers.
NO_ANSWER = (UNASKED, UNANSWERED, EMPTY, UNREADABLE)


@dataclass(frozen=True)
class Leak:
    """What was found after the claim.

    changes: how many were tested, of subjects that the model knows. new, decoy, likeliest: shares of them in which the
    new value, decoys (mean), and the likeliest decoy are preferred to the old one. ahead: what new values are ahead of
    decoys after the day of publication, in shares; 0 where that is not known. p: one-sided, of new values so far ahead
    of decoys by chance, NaN of too few changes; p_likeliest: so far ahead of the likeliest decoy, where that is tested.
    smallest: the least share of changes known that would be seen in four of five such tests. rows: those whose new
    value is preferred, the surest first: what gave it away, if anything did. asked: how many changes after the claim
    were to be asked about; judged: of how many an answer was read, or a score computed. error: why there is no verdict,
    if there is none.
    """

    claim: int
    changes: int
    new: float
    decoy: float
    likeliest: float
    ahead: float
    p: float
    p_likeliest: float | None
    smallest: float
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
        p = self.p if self.p_likeliest is None else self.p_likeliest
        return self.told and p < 1 - CONFIDENCE


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
    (`anachron.analysis.statistics.sign_flips`), against decoys and against the likeliest of each change; with it their
    subjects change sides between before and after that month. Subjects, never changes, are what is exchanged, for
    answers about one depend on each other. min_judged: share (0 to 1) of the changes after the claim of which an answer
    must have been read; at least `LEAST` must be testable too.
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
    new, decoy, likeliest = (_mean(tested[name]) for name in ("wins", "decoy_wins", "likeliest_decoy_wins"))
    shares = new, decoy, likeliest
    if error := _too_little(*counts, min_judged, tested.height, None if released is None else unknowable.height):
        return Leak(claim, tested.height, *shares, 0.0, nan, None, nan, rows, *counts, error)
    excess = _by_subject(tested, "decoy_wins")
    if released is None:
        over = _by_subject(tested, "likeliest_decoy_wins")
        p, surely = (_ahead(sums[:, 0], seed) for sums in (excess, over))
        luck = None if surely < 1 - CONFIDENCE or p >= 1 - CONFIDENCE else _lucky(shares, p)
        smallest = _smallest(over, max(0.0, shares[2] - shares[1]), shares[1])
        return Leak(claim, tested.height, *shares, 0.0, p, surely, smallest, rows, *counts, luck)
    later = _by_subject(unknowable, "decoy_wins")
    ahead = float(later[:, 0].sum() / later[:, 1].sum())
    p = _apart(excess, later, shares[0] - shares[1] - ahead, seed)
    smallest = _smallest(excess, 0.0, shares[1] + ahead, later)
    return Leak(claim, tested.height, *shares, ahead, p, None, smallest, rows, *counts)


def _ahead(sums: np.ndarray, seed: int) -> float:
    """One-sided p of sums by subject so far above 0, by flips of their signs."""
    two_sided = sign_flips(np.zeros(len(sums)), sums, seed=seed)
    return two_sided / 2 if sums.sum() > 0 else 1 - two_sided / 2


def _lucky(shares: tuple[float, float, float], p: float) -> str:
    new, decoys, likeliest = (f"{100 * share:.0f} %" for share in shares)
    return (
        f"new values are preferred in {new}, decoys in {decoys} (p {p:.3f}), but the likeliest decoy of each in "
        f"{likeliest}, so lucky guesses may explain it; give the month of publication with --released"
    )


def _smallest(tested: np.ndarray, behind: float, floor: float, later: np.ndarray | None = None) -> float:
    """The share of changes known that is seen in `POWER` of such tests, at most 1, by normal approximation.

    tested, later: as of `_by_subject`, of the changes that are compared. behind: what new values that nobody knows are
    behind what they are held against. floor: the share of them that wins.
    """
    error = sum((part[:, 0] ** 2).sum() / part[:, 1].sum() ** 2 for part in (tested, later) if part is not None) ** 0.5
    return min(1.0, float((ndtri(CONFIDENCE) + ndtri(POWER)) * error + behind) / max(1 - floor, 1e-9))


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


def _by_subject(rows: pl.DataFrame, decoys: str) -> np.ndarray:
    """What new values are ahead of decoys, and of how many changes, by subject: shape (subjects, 2)."""
    sums = rows.group_by("subject", maintain_order=True).agg(
        (pl.col("wins") - pl.col(decoys)).sum().alias("ahead"), pl.len().cast(pl.Float64).alias("changes")
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
