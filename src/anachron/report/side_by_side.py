"""Runs side by side, fact by fact: what one gained and lost against another, and by how much W differs
(``runs compare``)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.metrics import check_scores, fact_metrics
from anachron.analysis.statistics import korn_graubard_difference, sign_flips
from anachron.core.errors import ConfigError, DataError
from anachron.evaluate.results import UNEDITED, method_label
from anachron.evaluate.summaries import of_edits
from anachron.io.files import Json
from anachron.probe.ask.run import FACTS_FILE, read_answer_run
from anachron.probe.check.present import CURRENT
from anachron.probe.check.verdicts import VERDICTS_FILE, mean_win_rates
from anachron.probe.horizon.find import CHANGES_FILE
from anachron.probe.horizon.measure import read_preferences
from anachron.probe.runs import SCORES_FILE
from anachron.report.edits.page import names_of_updates, read_evaluation
from anachron.report.page.verdicts import read_verdicts
from anachron.report.runs import open_kept
from anachron.report.terminal.runs import SAME

GAINED, LOST, CHANGED = "gained", "lost", "changed"
CHANGES = (LOST, GAINED, CHANGED, SAME)  # in the order in which they are shown
KNOWN = ("robust", "known")
NAMES = ("fact_id", "subject", "relation", "object", "held")
SAID = ("state", "win_rate", "says")  # of the run that is compared with, then of the other
COLUMNS = (
    "against", "run", "change", *NAMES, *(f"{name}_{of}" for of in ("before", "after") for name in SAID),
    "win_rate_difference",
)  # fmt: skip
ROBUST, NOT_ROBUST = "robust", "not robust"


@dataclass(frozen=True)
class RunFacts:
    """What one run found of each fact. name: of the run among others. group: what it is compared within, such as a
    method of editing. scores: of a run by scores, from which W and R are computed on the dates that all runs share.

    table: ``fact_id``, names in words and ``unit`` (the subject, by which intervals are clustered); ``state``, what is
    found in a word; ``good`` and ``today``, whether that is right (null where it was not asked); ``win_rate``, 0 to 1,
    of edits and horizons 1 where the new object is preferred; ``says``, the model's own answer where it has one.
    """

    name: str
    what: str
    table: pl.DataFrame
    group: str = ""
    scores: pl.DataFrame | None = None


@dataclass(frozen=True)
class Comparison:
    """One run against another, on the ``facts`` of both; what: the command that made it.

    ``win_rate`` and ``against_win_rate`` are means over those of them that have a W in both (``paired``), and
    ``difference`` is theirs with its 95 % interval, paired by fact and over subjects (`korn_graubard_difference`), and
    p (`sign_flips`); null of no such fact.
    """

    run: str
    against: str
    what: str
    facts: int
    gained: int
    lost: int
    changed: int
    same: int
    paired: int
    win_rate: float | None = None
    against_win_rate: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p: float | None = None


@dataclass(frozen=True)
class SideBySide:
    """Comparisons, and a row for each of their facts (`COLUMNS`): first what was lost, then what was gained and what
    changed otherwise, and within these by the size of the difference of W."""

    comparisons: list[Comparison]
    facts: pl.DataFrame

    def json(self) -> Json:
        return {"comparisons": [asdict(one) for one in self.comparisons], "facts": self.facts.to_dicts()}


def compare_runs(folders: Sequence[Path | str]) -> SideBySide:
    """Compare runs with the first of them, each on the facts that both have; of edits by method.

    Raises `DataError` for a folder without a finished run, `ConfigError` where there is nothing to compare.
    """
    if len(folders) < 2:
        raise ConfigError(f"{len(folders)} run given; name two or more to compare")
    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        raise ConfigError(f"{', '.join(map(str, folders))}: one run is named twice; name different ones")
    found = [_facts_of(Path(folder)) for folder in folders]
    kinds = {runs[0].what for runs in found}
    if len(kinds) > 1 and kinds & {"horizon", "evaluate"}:
        raise ConfigError(f"runs of {' and '.join(sorted(kinds))} have no facts in common; compare runs of one kind")
    runs = _on_shared_dates(_with_names(found, folders))
    pairs = [(first, run) for run in runs if (first := next(one for one in runs if one.group == run.group)) is not run]
    made = [_compare(first, run) for first, run in pairs]
    if not made:
        raise ConfigError("the runs have no method of editing in common; nothing to compare")
    return SideBySide([one for one, _ in made], pl.concat([table for _, table in made]))


def _with_names(found: Sequence[list[RunFacts]], folders: Sequence[Path | str]) -> list[RunFacts]:
    """All runs under names that tell them apart: their labels, where these are the same with their folders."""
    counts = Counter(runs[0].name for runs in found)
    return [
        replace(run, name=", ".join(filter(None, (run.name, str(path) if counts[run.name] > 1 else "", run.group))))
        for runs, path in zip(found, folders, strict=True)
        for run in runs
    ]


def _facts_of(folder: Path) -> list[RunFacts]:
    """What a run found; of edits one for each method. Raises `DataError` where it is not finished."""
    kept = open_kept(folder)
    if kept.record["status"] != "done":
        raise DataError(f"{folder}: the run is not finished; repeat its command to go on")
    if kept.what == "evaluate":
        return _of_edits(folder)
    if kept.what == "advise":
        raise DataError(f"{folder} compares ways by itself (advice.json, ways.csv); name its runs of evaluate, at-*")
    name, files = str(kept.settings["label"]), kept.files
    if f"../{CHANGES_FILE}" in files:
        return [RunFacts(name, kept.what, _of_changes(read_preferences(kept.table(f"../{CHANGES_FILE}"))))]
    scores = check_scores(kept.table(SCORES_FILE)) if SCORES_FILE in files else None
    if VERDICTS_FILE in files:
        table = _of_verdicts(read_verdicts(kept.table(VERDICTS_FILE), folder / VERDICTS_FILE))
    elif scores is not None:
        table = _of_scores(scores)
    elif FACTS_FILE in files:
        table = _of_answers(read_answer_run(folder)[1])
    else:
        raise DataError(f"{folder} has no table of facts to compare")
    return [RunFacts(name, kept.what, table, scores=scores)]


def _table(table: pl.DataFrame, unit: str = "subject", **columns: pl.Expr | str) -> pl.DataFrame:
    """The columns of `RunFacts`, null where they are neither in the table nor given."""
    kinds = dict.fromkeys((*NAMES, "unit", "state", "says"), pl.String) | dict.fromkeys(("good", "today"), pl.Boolean)
    wide = table.with_columns(**columns).with_columns(unit=pl.coalesce(unit, "fact_id"))
    return wide.select(
        (pl.col(name) if name in wide.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in (kinds | {"win_rate": pl.Float64}).items()
    )


def _of_verdicts(verdicts: pl.DataFrame) -> pl.DataFrame:
    today = pl.format("today {}", "present")
    said = pl.coalesce("answer", *(["said"] if "said" in verdicts.columns else []))
    by_name = pl.concat_str("subject", "relation", "object", "periods", separator="|", ignore_nulls=True)
    return _table(
        verdicts, fact_id=pl.coalesce("fact_id", by_name),  # one that could not be asked with dates has no id
        held="periods", state=pl.concat_str("verdict", today, separator="; ", ignore_nulls=True), says=said,
        good=pl.col("verdict").is_in(KNOWN), today=pl.col("present") == CURRENT,
    )  # fmt: skip


def _of_scores(scores: pl.DataFrame) -> pl.DataFrame:
    means = mean_win_rates(fact_metrics(scores))
    if not means.height:
        raise DataError("a run without correct and incorrect dates has no W to compare")
    labels = {f"{name}_label": name for name in ("subject", "relation", "object")}
    about = scores.select("fact_id", "start", "end", *labels).rename(labels).unique("fact_id", maintain_order=True)
    found = about.join(means.rename({"subject": "of_subject"}), on="fact_id", maintain_order="left")
    robust = pl.col("robustness") == 1
    return _table(
        found, "of_subject", good=robust, state=pl.when(robust).then(pl.lit(ROBUST)).otherwise(pl.lit(NOT_ROBUST)),
        held=pl.format("{}/{}", pl.col("start").fill_null(""), pl.col("end").fill_null("")),
    )  # fmt: skip


def _of_answers(facts: pl.DataFrame) -> pl.DataFrame:
    won = pl.when("won_all").then(pl.lit("won all")).when(~pl.col("won_all")).then(pl.lit("not all won"))
    return _table(facts, held="periods", good="won_all", state=won, says="said")


def _of_changes(changes: pl.DataFrame) -> pl.DataFrame:
    """Changes of subjects that the model knows count as right where it prefers the new value."""
    keys = ("subject", "relation", "old", "new", "date")
    known = pl.col("known") & pl.col("wins").is_not_null()
    return _table(
        changes.filter(pl.col("control") == "").unique(keys, maintain_order=True),
        fact_id=pl.concat_str(keys, separator="|", ignore_nulls=True), object=pl.format("{} → {}", "old", "new"),
        held="date", good=pl.when(known).then(pl.col("wins") == 1), says="named",
        win_rate=pl.when(known).then("wins"),
        state=pl.when(~known).then(pl.lit("subject not known")).when(pl.col("wins") == 1).then(pl.lit("new preferred"))
        .otherwise(pl.lit("old preferred")),
    )  # fmt: skip


def _of_edits(folder: Path) -> list[RunFacts]:
    record, tables = read_evaluation(folder)
    if "stages" in tables:
        raise DataError(f"{folder} measures edits as they accumulate, not update by update; see its report")
    names, _, _ = names_of_updates(record["settings"])
    model = Path(str(record["settings"]["model"])).name
    made = []
    metrics = of_edits(tables)[0].filter(pl.col("method") != UNEDITED).with_columns(method_label())
    for (method,), rows in metrics.group_by("method"):
        won = pl.col("efficacy_success") == 1
        state = pl.when(won).then(pl.lit("new preferred")).when(~won).then(pl.lit("old preferred"))
        named = pl.col("case_id").replace_strict(names, default=pl.col("case_id"), return_dtype=pl.String)
        table = _table(
            rows, fact_id="case_id", object=named, good=won, win_rate="efficacy_success",
            state=state.otherwise("status"),
        )  # fmt: skip
        made.append(RunFacts(model, "evaluate", table, str(method)))
    return sorted(
        made, key=lambda one: list(record["methods"]).index(one.group) if one.group in record["methods"] else 0
    )


def _on_shared_dates(runs: Sequence[RunFacts]) -> list[RunFacts]:
    """The runs by scores with W, and where they have no verdicts R, over the dates of each fact that all of them asked
    about and found in the same status: checks as of other days ask about others."""
    keys = ["fact_id", "granularity", "time", "status"]
    scored = [run.scores for run in runs if run.scores is not None]
    if len(scored) < 2:
        return list(runs)
    shared = scored[0].select(keys)
    for other in scored[1:]:
        shared = shared.join(other.select(keys), on=keys, how="semi", nulls_equal=True)
    made = []
    for run in runs:
        if run.scores is None:
            made.append(run)
            continue
        known = run.scores.join(shared, on=keys, how="semi", nulls_equal=True, maintain_order="left")
        if not known.height:
            raise ConfigError("the runs have no fact in common that was asked under the same dates; nothing to compare")
        if run.what == "check":
            means = mean_win_rates(fact_metrics(known)).select("fact_id", "win_rate")
            table = run.table.drop("win_rate").join(means, on="fact_id", how="left", maintain_order="left")
        else:
            table = _of_scores(known)
        made.append(replace(run, table=table))
    return made


def win_rates(before: np.ndarray, after: np.ndarray, units: np.ndarray) -> dict[str, Any]:
    """Mean W of the same facts in a run and in the one it is compared with, and the difference, as `Comparison` has
    them. units: of each fact, by which intervals are clustered."""
    low, high = korn_graubard_difference(before, after, units)
    return {
        "win_rate": float(after.mean()), "against_win_rate": float(before.mean()),
        "difference": float((after - before).mean()), "difference_low": low, "difference_high": high,
    }  # fmt: skip


def _compare(first: RunFacts, second: RunFacts) -> tuple[Comparison, pl.DataFrame]:
    both = first.table.join(second.table, on="fact_id", suffix="_second", maintain_order="left")
    if not both.height:
        raise ConfigError(f"{first.name} and {second.name} have no fact in common; nothing to compare")

    def moved(up: bool) -> pl.Expr:
        """Whether what is right became so, or no longer is, of a fact or of its answer about today."""
        ways = ((name, f"{name}_second") if up else (f"{name}_second", name) for name in ("good", "today"))
        return pl.any_horizontal((~pl.col(was) & pl.col(now)).fill_null(False) for was, now in ways)

    other = pl.col("state").ne_missing(pl.col("state_second")) | pl.col("says").ne_missing(pl.col("says_second"))
    change = (
        pl.when(moved(True) & ~moved(False)).then(pl.lit(GAINED))
        .when(moved(False) & ~moved(True)).then(pl.lit(LOST))
        .when(other).then(pl.lit(CHANGED)).otherwise(pl.lit(SAME))
    )  # fmt: skip
    both = both.with_columns(change.alias("change"), win_rate_difference=pl.col("win_rate_second") - pl.col("win_rate"))
    counts = Counter(both["change"])
    paired = both.drop_nulls("win_rate_difference")
    found = Comparison(
        second.name,
        first.name,
        second.what,
        both.height,
        counts[GAINED],
        counts[LOST],
        counts[CHANGED],
        counts[SAME],
        paired.height,
    )
    if paired.height:
        before, after, units = (paired[name].to_numpy() for name in ("win_rate", "win_rate_second", "unit"))
        found = replace(found, **win_rates(before, after, units), p=sign_flips(before, after, units))
    order = pl.col("change").replace_strict({name: n for n, name in enumerate(CHANGES)}, return_dtype=pl.Int8)
    size = pl.col("win_rate_difference").abs()
    shown = both.sort(order, size, descending=[False, True], nulls_last=True, maintain_order=True)
    named = {f"{name}_{of}": f"{name}{end}" for of, end in (("before", ""), ("after", "_second")) for name in SAID}
    return found, shown.with_columns(
        against=pl.lit(first.name), run=pl.lit(second.name), **{new: pl.col(old) for new, old in named.items()}
    ).select(COLUMNS)
