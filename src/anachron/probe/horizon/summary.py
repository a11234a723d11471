"""What a horizon says, in tables: dates with their intervals, or that the answers do not tell."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from anachron.analysis.statistics import sign_flips
from anachron.io.files import Json
from anachron.probe.horizon.changes import CONTROLS, INVENTED, STILL, month_text
from anachron.probe.horizon.fit import BAND, MISFIT, TOLD, Horizon, fit_horizon, quantiles
from anachron.probe.horizon.kinds import kind_horizons
from anachron.probe.horizon.leak import CONFIDENCE, Leak, leak_after
from anachron.probe.horizon.measure import change_preferences, comparable, dated, usable

LEAST = 20  # changes, for a curve
SHOWN = 20  # changes that gave a leak away, in a summary
KIND_LEAST = 10  # changes of a kind, for a date of its own
CURVE_SCHEMA: dict[str, type[pl.DataType]] = {
    "month": pl.String, "changes": pl.Int64, "share": pl.Float64, "chance": pl.Float64, "low": pl.Float64,
    "high": pl.Float64,
}  # fmt: skip
KINDS_SCHEMA: dict[str, type[pl.DataType]] = {
    "kind": pl.String, "changes": pl.Int64, "share": pl.Float64, "halving": pl.String, "low": pl.String,
    "high": pl.String,
}  # fmt: skip


def horizon_of(table: pl.DataFrame) -> Horizon | None:
    """The horizon by a table of preferences; None where fewer than `LEAST` changes say something.

    The same is fitted to decoys, of which nothing can be known: where they have a horizon too, none is told.
    """
    rows = dated(table)
    if usable(table).height < LEAST:
        return None
    found, decoys = fit_horizon(change_preferences(rows)), comparable(table)
    found = replace(found, endless=leak_after(table, int(found.end()[0])).leaked)
    if decoys.height < LEAST:
        return found
    placebo = fit_horizon(change_preferences(decoys.with_columns(wins=pl.col("decoy_wins"))))
    return replace(found, placebo=placebo.inside)


def counts_of(table: pl.DataFrame) -> Json:
    """How many changes were asked, and of how many the subject is known; how often controls and decoys win; of answers
    how many there are of each sort (`anachron.probe.horizon.asking.answered`)."""
    real, rows = table.filter(pl.col("control") == ""), usable(table)
    decoys, named = comparable(table)["decoy_wins"], real["named"].drop_nulls()
    found: Json = {
        "changes": real.height,
        "known_subjects": rows.height,
        "new_preferred": _share(rows["wins"]),
        "decoys_preferred": _share(decoys),
    }
    for name, control in (("still", STILL), ("invented", INVENTED)):
        of_control = table.filter(pl.col("control") == control)["wins"].drop_nulls()
        found[name] = {"rows": len(of_control), "new_preferred": _share(of_control)}
    assert {STILL, INVENTED} == {*CONTROLS}
    if len(named):
        found["named"] = dict(sorted(Counter(named).items(), key=lambda item: (-item[1], item[0])))
    return found


def _share(values: pl.Series) -> float | None:
    return float(values.mean()) if len(values) else None  # type: ignore[arg-type]


def horizon_json(found: Horizon | None, table: pl.DataFrame) -> Json:
    """``told`` and, where it is so, dates as months; else ``reason``, in words."""
    counts = counts_of(table)
    if found is None:
        known = counts["known_subjects"]
        reason = f"of {counts['changes']} changes {known} are of subjects that it knows; {LEAST} are needed"
        return {"told": False, "reason": reason, "counts": counts}
    guess, plateau = (float((found.weights @ levels)[0]) for levels in _levels(found, found.fits.coefficients))
    about: Json = {
        "told": found.told, "chance_of_horizon": found.inside, "chance_of_fit": found.fits_by,
        "chance_of_horizon_of_decoys": found.placebo, "plateau": plateau, "floor": guess,
        "changes_as_one": found.design, "counts": counts,
        "curves": dict(zip(("one fall", "two falls", "gap"), found.families(), strict=True)),
    }  # fmt: skip
    if not found.told:
        return about | {"reason": _why_not(found, counts["new_preferred"])}
    said = about | {"halving": _dates(found.halving())}
    return said if found.endless else said | {"end": _end(found.end())}


def _why_not(found: Horizon, share: float) -> str:
    """Why no date is told, in words."""
    if found.inside < TOLD:
        return (
            f"that it prefers the new value ({100 * share:.0f} %) does not surely depend on the date of the change, "
            "other than steadily over all years"
        )
    if found.fits_by < MISFIT:
        return (
            "the answers fit no curve that ends once, ends in two steps or has a gap (p "
            f"{found.fits_by:.4f}, half-years compared); see the figure"
        )
    return (
        "decoys, of which it can know nothing, are preferred less from some date on too (chance "
        f"{found.placebo:.3f}), so the answers do not come from what it learned"
    )


def _dates(values: Sequence[float]) -> Json:
    return dict(zip(("date", "low", "high"), map(month_text, values), strict=True))


def _end(values: Sequence[float]) -> Json:
    """The end and its upper bound; its lower bound says nothing that the halving date does not say better."""
    return {"date": month_text(values[0]), "no_later_than": month_text(values[2])}


def _levels(found: Horizon, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Floor and plateau by each of some coefficients, (rows, 1), of a change like the mean of all: in popularity,
    kinds, sources and so on."""
    trials = found.counts.trials
    x, z = (trials @ side[None] / trials.sum() for side in (found.counts.x, found.counts.z))
    return expit(coefficients[:, : z.shape[1]] @ z.T), expit(coefficients[:, z.shape[1] :] @ x.T)


def curve_table(found: Horizon) -> pl.DataFrame:
    """`CURVE_SCHEMA`, a row a month: changes of it, the share of new values preferred, and the curve with its band.

    The curve is the chance that a new value is preferred, for a change like the mean of all (in popularity and so on).
    """
    counts = found.counts
    months = np.arange(np.floor(counts.month.min()), np.floor(counts.month.max()) + 1) + 0.5
    chosen, coefficients = found.draws()
    guess, plateau = _levels(found, coefficients)
    kinds, place = np.unique(chosen, return_inverse=True)
    known = plateau * found.curves[kinds].learned(months)[place]
    chance = known + (1 - known) * guess
    low, high = np.quantile(chance, BAND, axis=0)
    order = np.searchsorted(months, counts.month)
    trials = np.bincount(order, weights=counts.trials * found.design, minlength=len(months))
    wins = np.bincount(order, weights=counts.wins * found.design, minlength=len(months))
    share = [w / n if n else None for w, n in zip(wins, trials, strict=True)]
    return pl.DataFrame(
        {
            "month": [month_text(month) for month in months], "changes": np.round(trials).astype(int),
            "share": share, "chance": np.median(chance, axis=0), "low": low, "high": high,
        },
        schema=CURVE_SCHEMA,
    )  # fmt: skip


def kinds_table(table: pl.DataFrame, found: Horizon) -> pl.DataFrame:
    """`KINDS_SCHEMA`: each kind with enough changes; the others together are ``other``."""
    rows = dated(table)
    count = rows.group_by("kind").len()
    many = count.filter(pl.col("len") >= KIND_LEAST)["kind"]
    named = rows.with_columns(
        pl.when(pl.col("kind").is_in(many.to_list())).then(pl.col("kind")).otherwise(pl.lit("other")).alias("kind")
    )
    of_kinds: list[dict[str, Any]] = [
        {
            "kind": one.kind, "changes": one.changes, "share": one.share, "halving": month_text(one.halving),
            "low": month_text(one.low), "high": month_text(one.high),
        }
        for one in kind_horizons(named["kind"].to_numpy(), change_preferences(named), found)
    ]  # fmt: skip
    return pl.DataFrame(of_kinds, schema=KINDS_SCHEMA)


def leak_json(found: Leak) -> Json:
    """The test in numbers, and of a leak what gave it away."""
    return {
        "claim": month_text(found.claim), "told": found.told, "leaked": found.leaked, "changes": found.changes,
        "asked": found.asked, "judged": found.judged, "error": found.error,
        "new_preferred": None if isnan(found.new) else found.new,
        "decoys_preferred": None if isnan(found.decoy) else found.decoy,
        "likeliest_decoys_preferred": None if isnan(found.likeliest) else found.likeliest,
        "ahead_without_knowing": found.ahead, "p": None if isnan(found.p) else found.p,
        "p_likeliest": found.p_likeliest, "smallest_seen": None if isnan(found.smallest) else found.smallest,
        "confidence": CONFIDENCE,
        "gave_away": found.rows.select("subject", "relation", "old", "new", "date", "margin").head(SHOWN).to_dicts()
        if found.leaked else [],
    }  # fmt: skip


KEY = ["subject", "relation", "old", "new", "date"]


@dataclass(frozen=True)
class HorizonComparison:
    """A second model against a first. changes: that both were asked. only_first, only_second: new values that one alone
    prefers. p: two-sided, of such a difference by chance (signs flipped by subject). later, low, high: by how many
    months the second one's halving date is later, with its interval of 95 %; None where one has no date."""

    first: str
    second: str
    changes: int
    only_first: int
    only_second: int
    p: float
    later: float | None
    low: float | None
    high: float | None


def compare(first: str, one: pl.DataFrame, second: str, other: pl.DataFrame) -> HorizonComparison:
    """Tables of `anachron.probe.horizon.measure.preferences` of two models.

    The interval takes the two dates as independent, given the changes; answers that go together make it too wide, not
    too narrow.
    """
    both = dated(one).join(dated(other).select(*KEY, wins_other="wins"), on=KEY, maintain_order="left")
    gaps = both["wins_other"] - both["wins"]
    by_subject = both.with_columns(gap=gaps).group_by("subject", maintain_order=True).agg(pl.col("gap").sum())["gap"]
    p = sign_flips(np.zeros(len(by_subject)), by_subject.to_numpy()) if both.height else 1.0
    later: list[float | None] = [None] * 3
    if both.height:
        fits = [
            fit_horizon(change_preferences(both.with_columns(wins=pl.col(name)))) for name in ("wins", "wins_other")
        ]
        if all(fit.told for fit in fits):
            (dates, of), (others, of_others) = (_by_date(fit) for fit in fits)
            apart, weights = others[None, :] - dates[:, None], of[:, None] * of_others[None, :]
            later = list(quantiles(apart.ravel(), weights.ravel()))
    return HorizonComparison(first, second, both.height, int((gaps < 0).sum()), int((gaps > 0).sum()), p, *later)


def _by_date(found: Horizon) -> tuple[np.ndarray, np.ndarray]:
    """The distinct halving dates and their weights."""
    dates, place = np.unique(found.curves.halving, return_inverse=True)
    return dates, np.bincount(place.ravel(), weights=found.weights)
