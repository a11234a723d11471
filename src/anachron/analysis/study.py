"""What the analyses work on: the scores of all runs, what is known of their facts, and of their models.

A study keeps each run (model, format, prefix) as a table of its own, so an analysis of millions of statements
needs memory for the one run that it is looking at.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

import polars as pl

from anachron.analysis.answers import Answers
from anachron.analysis.metrics import (
    FACT_SCHEMA,
    GLOBAL,
    RUN_KEYS,
    SCORE_COLUMNS,
    RunKey,
    check_scores,
    metrics_of_checked,
    run_keys,
    summarise,
    with_noise,
    with_subjects,
)
from anachron.analysis.models import describe_models
from anachron.analysis.statistics import RESAMPLES
from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.core.periods import Period
from anachron.data.columns import finite_numbers

TOP = 5
ABOUT = {
    "start": pl.String, "end": pl.String, "relation_id": pl.String, "relation_label": pl.String,
    "subject_label": pl.String, "object_label": pl.String, "subject_id": pl.String, "object_id": pl.String,
    "popularity": pl.Float64, "subject_popularity": pl.Float64,
    "object_popularity": pl.Float64, "other_objects": pl.Float64, "subject_from": pl.String, "object_from": pl.String,
    "subject_until": pl.String, "object_until": pl.String, "question": pl.String,
}  # fmt: skip
Sharing = Literal["refuse", "common", "keep"]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Study:
    """Runs to be analysed together.

    runs: one checked score table a run, with the columns of `SCORE_COLUMNS` and ``noise``.
    about: one row a fact: ``fact_id`` and the columns of `ABOUT`, null where unknown.
    models: one row a model: ``model, family, parameters, instruct, base``; see `anachron.analysis.models`.
    facts: W and R, from `anachron.analysis.metrics.fact_metrics`.
    shares_contexts: whether every run was asked the same contexts of the same facts.
    top: how many of the most robust models the pooled rows are taken over.
    present: the year that distances from the present are counted from (2021 in TimeStress).
    baseline: the model that others are compared with; by default the first.
    remarks: what was done to put the runs together that a reader must know.
    answers: what runs found that asked and scored nothing, where there are any; then there may be no others.
    decoys: by model, format and prefix, the scores of the decoys of those facts and runs that have any
    (`anachron.analysis.decoys.decoy_metrics`). wordings: likewise the scores of facts in all their wordings
    (`anachron.probe.runs.WORDING_COLUMNS`).
    """

    runs: tuple[pl.DataFrame, ...]
    about: pl.DataFrame
    models: pl.DataFrame
    facts: pl.DataFrame
    shares_contexts: bool
    resamples: int = RESAMPLES
    seed: int = 0
    top: int = TOP
    present: int = 2021
    baseline: str | None = None
    remarks: tuple[str, ...] = ()
    answers: Answers | None = None
    decoys: Mapping[RunKey, pl.DataFrame] = field(default_factory=dict)
    wordings: Mapping[RunKey, pl.DataFrame] = field(default_factory=dict)
    _results: dict[Callable[["Study"], object], object] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def summary(self) -> pl.DataFrame:
        """Means over facts; see `anachron.analysis.metrics.summarise`."""
        return summarise(self.facts)

    @cached_property
    def undatable(self) -> dict[str, str]:
        """Per granularity a time that is no date of that kind, where there is one."""
        times = pl.concat([run.select("granularity", "time").unique() for run in self.runs]).unique(maintain_order=True)
        broken: dict[str, str] = {}
        for granularity, time in times.drop_nulls().iter_rows():
            try:
                fits = Date.parse(time).granularity == granularity
            except DataError:
                fits = False
            if not fits:
                broken.setdefault(granularity, time)
        return broken

    @cached_property
    def global_facts(self) -> pl.DataFrame:
        """The global rows of ``facts``."""
        return self.facts.filter(pl.col("granularity") == GLOBAL)

    @cached_property
    def global_facts_without_prefix(self) -> pl.DataFrame:
        """Those of runs without a prefix, which the papers relate to what is known of facts."""
        return self.global_facts.filter(pl.col("prefix") == "none")

    @cached_property
    def most_robust(self) -> pl.DataFrame:
        """``model, format, prefix`` of the ``top`` most robust models of each format and prefix.

        By global R, then global W; in a format without global rows, by their means over the granularities there are.
        With a prefix they are the models that are the most robust without it, as in TimeStress, section 4.2; where none
        of these has the prefix, the most robust with it.
        """
        order = ["robustness", "win_rate", "model"]
        chosen = []
        for (form,), of_format in self.facts.group_by("format", maintain_order=True):
            with_all = self.global_facts.filter(pl.col("format") == form)
            rated = with_all if with_all.height else of_format
            ranked = rated.group_by(RUN_KEYS, maintain_order=True).agg(pl.col("robustness", "win_rate").mean())
            ranked = ranked.sort(order, descending=[True, True, False])
            plain = ranked.filter(pl.col("prefix") == "none").head(self.top)["model"].to_list()
            for _, runs in ranked.group_by("prefix", maintain_order=True):
                same = runs.filter(pl.col("model").is_in(plain))
                chosen.append((same if same.height else runs.head(self.top)).select(RUN_KEYS))
        return pl.concat(chosen) if chosen else self.facts.select(RUN_KEYS)

    def map(self, compute: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
        """What ``compute`` makes of each run, one below the other."""
        return pl.concat([compute(run) for run in self.runs])

    def once(self, compute: Callable[["Study"], Result]) -> Result:
        """``compute(self)``, computed at the first call only: what several analyses share.

        compute: a function of a module, by which its result is remembered.
        """
        if compute not in self._results:
            self._results[compute] = compute(self)
        return self._results[compute]  # type: ignore[return-value]


def make_study(
    tables: Iterable[pl.DataFrame],
    *,
    noise: float | None = None,
    sharing: Sharing = "keep",
    models: pl.DataFrame | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    top: int = TOP,
    present: int = 2021,
    baseline: str | None = None,
    limit: int | None = None,
    answers: Answers | None = None,
    decoys: Iterable[pl.DataFrame] = (),
    wordings: Iterable[pl.DataFrame] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Study:
    """Check score tables and put them together.

    noise: see `anachron.analysis.metrics.fact_metrics`.
    sharing: what to do with runs that were not asked the same contexts of the same facts: ``refuse`` them, compare
        on the ``common`` facts, or ``keep`` all (each paired analysis then takes the facts that its two runs have).
    models: what is known of the models, by `anachron.analysis.models.read_models` or from the runs' records.
    limit: take so many facts only, a fixed sample: those with the smallest ids, as `Dataset.sample` does.
    answers: of runs that asked; with them there need be no score table.
    decoys, wordings: tables of the scores of decoys, and of facts in all wordings, of some of the runs.
    progress: told of how many runs W and R are computed, out of how many.

    Raises `DataError` for a broken table or two tables that contradict each other, `ConfigError` for runs that do
    not share their contexts, for an unknown baseline and for a limit below 1.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit {limit}: take 1 or more facts")
    runs: list[pl.DataFrame] = []
    known: list[pl.DataFrame] = []
    for table in tables:
        checked = with_noise(check_scores(table), noise)
        known.append(_about(checked))
        slim = checked.select(*SCORE_COLUMNS, "noise")
        runs += slim.partition_by(RUN_KEYS, maintain_order=True) if slim.select(RUN_KEYS).n_unique() > 1 else [slim]
    if not runs:
        return _without_scores(answers, models, resamples, seed)
    remarks = []
    common, shares_contexts = _common(runs)
    if limit is not None:
        runs, remark = _limited(runs, common if sharing == "common" else None, limit)
        remarks.append(remark)
        common, shares_contexts = _common(runs)
    if sharing != "keep" and not shares_contexts:
        runs, remark = _on_common(runs, common, sharing)
        remarks.append(remark)
        shares_contexts = True
    ids = pl.concat([run.select("fact_id").unique() for run in runs]).unique()
    known_of_facts = pl.concat(known).join(ids, on="fact_id", how="semi", maintain_order="left")
    about, differing = _one_row_a_fact(known_of_facts, sharing == "common")
    remarks += differing
    of_runs = []
    for done, run in enumerate(runs):
        progress(done, len(runs))
        of_runs.append(metrics_of_checked(run))
    progress(len(runs), len(runs))
    facts = with_subjects(pl.concat(of_runs), about)
    labels = list(dict.fromkeys(run["model"][0] for run in runs))
    if baseline is not None and baseline not in labels:
        raise ConfigError(f"baseline {baseline!r} is not one of the models {', '.join(labels)}")
    described = describe_models(labels, models)
    return Study(
        runs=tuple(runs), about=about, models=described, facts=facts, shares_contexts=shares_contexts,
        resamples=resamples, seed=seed, top=top, present=present, baseline=baseline, remarks=tuple(remarks),
        answers=answers, decoys=_of_runs(decoys, runs), wordings=_of_runs(wordings, runs),
    )  # fmt: skip


def _of_runs(tables: Iterable[pl.DataFrame], runs: Sequence[pl.DataFrame]) -> dict[RunKey, pl.DataFrame]:
    """What is beside the scores of the facts that the runs are studied on."""
    ids = {run_keys(run)[0]: run.select("fact_id").unique() for run in runs}
    parts = {key: part for table in tables for key, part in table.partition_by(RUN_KEYS, as_dict=True).items()}
    kept = {
        key: parts[key].join(ids[key], on="fact_id", how="semi", maintain_order="left") for key in ids & parts.keys()
    }
    return {key: part for key, part in kept.items() if part.height}


def _without_scores(answers: Answers | None, models: pl.DataFrame | None, resamples: int, seed: int) -> Study:
    """A study of answers alone."""
    if answers is None:
        raise DataError("no score table and no run given")
    labels = list(dict.fromkeys(answers.runs["model"]))
    return Study(
        runs=(), about=pl.DataFrame(schema={"fact_id": pl.String, **ABOUT}), models=describe_models(labels, models),
        facts=pl.DataFrame(schema={**FACT_SCHEMA, "subject": pl.String}), shares_contexts=True,
        resamples=resamples, seed=seed, answers=answers,
    )  # fmt: skip


def _about(table: pl.DataFrame) -> pl.DataFrame:
    """What one score table says of its facts; numbers are read from text, as CSV has them."""
    columns = []
    for name, kind in ABOUT.items():
        if name not in table.columns:
            columns.append(pl.repeat(None, table.height, dtype=kind, eager=True).alias(name))
        elif kind == pl.String:
            columns.append(table[name].cast(pl.String))
        else:
            columns.append(finite_numbers(table[name]))
    return pl.DataFrame([table["fact_id"], *columns]).unique(maintain_order=True)


def _one_row_a_fact(known: pl.DataFrame, numbers_may_differ: bool) -> tuple[pl.DataFrame, list[str]]:
    """One row a fact, a value before none, and a remark for each number or question of which the first of several was
    taken.

    Raises `DataError` when two rows contradict each other otherwise.
    """
    remarks = []
    merged = known.group_by("fact_id", maintain_order=True).agg(
        *(pl.col(name).drop_nulls().first() for name in ABOUT),
        *(pl.col(name).drop_nulls().n_unique().alias(f"{name} values") for name in ABOUT),
    )
    for name in ABOUT:
        clash = merged.filter(pl.col(f"{name} values") > 1)
        if clash.height and (name == "question" or (numbers_may_differ and ABOUT[name] == pl.Float64)):
            remarks.append(f"{name} of {clash.height} facts differs between the sources; the first one is used")
        elif clash.height:
            fact = clash["fact_id"][0]
            values = known.filter(pl.col("fact_id") == fact)[name].drop_nulls().unique().sort().to_list()
            raise DataError(
                f"fact {fact} has more than one {name}: {', '.join(map(repr, values))}; are these different data sets?"
            )
    for fact, start, end in merged.select("fact_id", "start", "end").iter_rows():
        try:
            Period(start, end)
        except DataError as error:
            raise DataError(f"fact {fact}: {error}") from None
    return merged.select("fact_id", *ABOUT), remarks


def _on_common(runs: Sequence[pl.DataFrame], common: pl.DataFrame, sharing: Sharing) -> tuple[list[pl.DataFrame], str]:
    """The runs, on the facts that all of them were asked in the same contexts, and how many these are."""
    everything = pl.concat([run.select("fact_id").unique() for run in runs])["fact_id"].n_unique()
    if sharing == "refuse":
        raise ConfigError(
            f"the runs do not share their data set: of {everything} facts, only {common.height} were asked in the same "
            "contexts in every run; probe the same data set, or compare on the common facts with --common-facts"
        )
    if common.height == 0:
        raise ConfigError("the runs have no fact in common that was asked in the same contexts; nothing to compare")
    kept = [run.join(common, on="fact_id", how="semi", maintain_order="left") for run in runs]
    remark = (
        f"compared on {common.height} of {everything} facts: those that every run was asked about in the same contexts"
    )
    return kept, remark


def _limited(runs: Sequence[pl.DataFrame], among: pl.DataFrame | None, limit: int) -> tuple[list[pl.DataFrame], str]:
    """The runs on the facts with the smallest ids, of all or of those ``among`` which they are drawn."""
    ids = pl.concat([run.select("fact_id").unique() for run in runs]).unique() if among is None else among
    few = ids.select("fact_id").sort("fact_id").head(limit)
    kept = [run.join(few, on="fact_id", how="semi", maintain_order="left") for run in runs]
    return [run for run in kept if run.height], f"on a fixed sample of {few.height} of {ids.height} facts"


def _common(runs: Sequence[pl.DataFrame]) -> tuple[pl.DataFrame, bool]:
    """The facts that all runs were asked in the same contexts, and whether these are all facts."""
    if len(runs) == 1:
        return runs[0].select("fact_id").unique(), True
    signatures = [_signature(run).with_columns(pl.lit(i).alias("run")) for i, run in enumerate(runs)]
    counted = pl.concat(signatures).group_by("fact_id", "signature").agg(pl.col("run").n_unique())
    common = counted.filter(pl.col("run") == len(runs)).select("fact_id")
    return common, common.height == counted["fact_id"].n_unique()


def _signature(run: pl.DataFrame) -> pl.DataFrame:
    """One number a fact that depends on its contexts, whatever their order."""
    row = pl.struct("granularity", "time", "status").hash(seed=0)
    return run.select("fact_id", row.alias("signature")).group_by("fact_id").agg(pl.col("signature").sum())
