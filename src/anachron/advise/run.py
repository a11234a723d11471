"""Advice on updates: each way is tried on them, one at a time and many together, and the rule says which to take.

    run.json                settings, model and updates
    at-00001/, at-00010/    runs of ``evaluate``: every way, for each update alone, and for ten at a time
    costs.json              seconds, memory, milliseconds a question and perplexity of each way and number
    pilot/, pilot.json      a few updates, timed, from which a budget takes how many are tried
    ways.csv                a row a number of updates and way
    advice.json             the advice, and on what it stands

Ways are methods (`anachron.edit.methods`) and leaving the model as it is. Beside them stands an oracle: the true
sentence of the very update before each of its prompts, which is there where the method PROMPT is tried on single
updates.
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path

import polars as pl

from anachron.advise.balance import WEIGHTS, balances, checked_weights
from anachron.advise.cost import Cost, Costs
from anachron.advise.rule import ADVICE_FILE, Advice, advise, summary_of_ways
from anachron.analysis.statistics import MIN_CLUSTERS
from anachron.core.errors import ConfigError, DataError
from anachron.data.updates.case_records import EditCase, left_alone
from anachron.data.updates.cases import CaseSet
from anachron.edit.corpus import Corpus
from anachron.edit.plan import Planned
from anachron.evaluate.joint_edits import Make, make_batch
from anachron.evaluate.measure import Measures
from anachron.evaluate.measures.dated import Dating, has_change, ways_of
from anachron.evaluate.results import UNEDITED
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.evaluate.stages import Evaluation, in_parts
from anachron.io.files import Json
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import Kind, RunFolder, open_run
from anachron.lm.model import LanguageModel

SIZES = (1, 10, 100, 1000)
PILOT = 4  # updates that are timed for a budget
QUESTIONS = 1000  # for which the costs of ways are compared
ORACLE, ALONE = "oracle", "PROMPT"  # the oracle is the method PROMPT, each update alone
TOLD = "it is told which update a question is about"
WAYS_FILE, PILOT_FILE = "ways.csv", "pilot.json"
UPDATES, TEXT_TOKENS = 1000, 2000


@dataclass(frozen=True)
class AdviceSettings:
    """own: how many of the updates, the first, are those to be made; the others are tried beside them
    (`anachron.advise.evidence`), None for no others. sizes: numbers of updates made together, increasing; by default
    `SIZES` as far as there are own updates, and all of these. weights: of `anachron.advise.balance.PARTS`. questions:
    whose asking counts among costs. measures: of each evaluation. text: running text for perplexity, or None, and how
    many of its tokens. budget_minutes: about how long all may take; fewer updates are tried where it does not suffice.
    """

    own: int | None = None
    sizes: tuple[int, ...] | None = None
    weights: Mapping[str, float] = field(default_factory=lambda: dict(WEIGHTS))
    questions: int = QUESTIONS
    measures: Measures = field(default_factory=lambda: Measures(50, generate=True))
    text: Corpus | None = None
    text_tokens: int = TEXT_TOKENS
    budget_minutes: float | None = None

    def __post_init__(self) -> None:
        if self.sizes is not None and (
            not self.sizes or self.sizes[0] < 1 or list(self.sizes) != sorted({*self.sizes})
        ):
            raise ConfigError(
                f"sizes {', '.join(map(str, self.sizes)) or 'none'}: give increasing numbers of updates, from 1 on"
            )
        object.__setattr__(self, "weights", checked_weights(self.weights))
        if self.budget_minutes is not None and not 0 < self.budget_minutes < float("inf"):
            raise ConfigError(f"budget of {self.budget_minutes:g} minutes: give a number above 0")


@dataclass(frozen=True)
class Advised:
    """The advice for ``size`` updates together, the last of the sizes. ways: a row a size and way (``ways.csv``).
    evaluations: by size. updates: how many were tried, of how many there are."""

    folder: Path
    advice: Advice
    size: int
    ways: pl.DataFrame
    evaluations: Mapping[int, Evaluation]
    updates: int
    given: int
    summary: Json


def measures_for(cases: CaseSet, fluency_tokens: int = 50) -> Measures:
    """What advice measures: probabilities, generated texts and fluency, and where an update says when its new object
    took the place of the old one, questions with dates: in a way other than the edit's own words, where one is known.
    """
    ways = {way for case in cases.cases if has_change(case) for way in ways_of(case, Dating())}
    way = next((way for way in ("question", "prompt") if way in ways), None)
    return Measures(fluency_tokens, generate=True, dated=None if way is None else Dating(ways=(way,)))


def sizes_of(settings: AdviceSettings, updates: int) -> tuple[int, ...]:
    """The numbers of updates that are made together. Raises `ConfigError` for more than there are."""
    if settings.sizes is None:
        own = min(updates, settings.own or updates)
        return tuple(dict.fromkeys((*(size for size in SIZES if size < own), own)))
    if settings.sizes[-1] > updates:
        raise ConfigError(f"size {settings.sizes[-1]}: there are {updates} updates; leave it out, or give more updates")
    return settings.sizes


def run_advice(
    lm: LanguageModel,
    cases: CaseSet,
    ways: Sequence[Planned],
    out: Path | str,
    settings: AdviceSettings | None = None,
    *,
    callbacks: Callbacks | None = None,
) -> Advised:
    """Try ways to make updates true, and say which to take. An interrupted call goes on where it was.

    ways: of `anachron.prepare_methods`. Of each size the updates are cut into parts of that many, made together, each
    part in the unedited model; a rest that is smaller is left out, so that every part is as large as it is said to be.
    Raises as `anachron.run_evaluation`, and `ConfigError` where the folder holds advice on something else.
    """
    settings, callbacks, folder = settings or AdviceSettings(), callbacks or Callbacks(), Path(out)
    if not cases.cases:
        raise DataError(f"{cases.name} holds no update to advise on ({dict(cases.left_out)} left out)")
    sizes_of(settings, len(cases.cases))  # what is wrong is said before the folder is begun
    identity = lm.identity() | {
        "what": "advice", "edit_prefix": lm.prefix or None, "updates": cases.name,
        "updates_fingerprint": cases.fingerprint(), "number_of_updates": len(cases.cases), "format": lm.style.kind,
        "sizes": settings.sizes, "own": settings.own,
        "budget": settings.budget_minutes,
        "text": None if settings.text is None else {"identity": settings.text.identity, "tokens": settings.text_tokens},
    }  # fmt: skip
    with open_run(folder, identity, Kind.ADVICE) as run:
        run.save()
        tried = _affordable(lm, cases, ways, settings, run, callbacks)
        sizes = sizes_of(settings, len(tried.cases))
        costs = Costs(lm, tried.cases, settings.text, settings.text_tokens, run, callbacks)
        done = {
            size: _evaluated(lm, tried, ways, folder / f"at-{size:05d}", size, settings, callbacks, costs.make)
            for size in sizes
        }
        of_ways: dict[tuple[int, str], Cost] = {}
        for size, planned in product(sizes, ways):
            callbacks.progress(len(of_ways), len(sizes) * len(ways), f"{planned.label}, costs of {size}")
            of_ways[size, planned.label] = costs.of(size, planned)
        table, advice = _judged(done, of_ways, costs.unedited, ways, settings, tried)
        summary = _summary(lm, cases, tried, sizes, advice, table, settings)
        run.write_table(WAYS_FILE, table)
        run.write_json(ADVICE_FILE, summary)
        run.finish()
        return Advised(folder, advice, sizes[-1], table, done, len(tried.cases), len(cases.cases), summary)


def _evaluated(
    lm: LanguageModel, cases: CaseSet, ways: Sequence[Planned], folder: Path, size: int, settings: AdviceSettings,
    callbacks: Callbacks, make: Make = make_batch,
) -> Evaluation:  # fmt: skip
    whole, measures = replace(cases, cases=cases.cases[: len(cases.cases) // size * size]), settings.measures
    if not any(map(has_change, whole.cases)):  # of all updates those that have a date are not among them
        measures = replace(measures, dated=None)
    mode = EvaluateSettings("independent") if size == 1 else EvaluateSettings("batch", size)
    return run_evaluation(lm, whole, ways, folder, replace(mode, measures=measures), callbacks=callbacks, make=make)


def _affordable(
    lm: LanguageModel, cases: CaseSet, ways: Sequence[Planned], settings: AdviceSettings, run: RunFolder,
    callbacks: Callbacks,
) -> CaseSet:  # fmt: skip
    """As many of the updates, from the first, as the budget suffices for, by the time that a few of them take."""
    if len(cases.cases) > (most := max(UPDATES, *(settings.sizes or (0,)))):
        callbacks.notice(f"of {len(cases.cases):,} updates the first {most:,} are tried")
        cases = replace(cases, cases=cases.cases[:most])
    if settings.budget_minutes is None:
        return cases
    if not run.has(PILOT_FILE, callbacks.warn):
        shutil.rmtree(run.path / "pilot", ignore_errors=True)  # of a killed one the time is not known
        few = replace(cases, cases=cases.cases[:PILOT])
        started = time.monotonic()
        _evaluated(lm, few, ways, run.path / "pilot", 1, settings, callbacks)
        run.write_json(PILOT_FILE, {"updates": len(few.cases), "seconds": time.monotonic() - started})
    pilot = run.read_json(PILOT_FILE)
    of_update = pilot["seconds"] / pilot["updates"]
    number = enough_for(60 * settings.budget_minutes - pilot["seconds"], of_update, len(cases.cases), settings)
    if number < len(cases.cases):
        callbacks.notice(
            f"{settings.budget_minutes:g} minutes suffice for about {number} of {len(cases.cases)} updates, at "
            f"{of_update:.1f} s an update for the ways of the folder's first call; the first {number} are tried"
        )
    return replace(cases, cases=cases.cases[:number])


def enough_for(seconds: float, of_update: float, updates: int, settings: AdviceSettings) -> int:
    """How many of the updates may be tried in so many seconds, where each takes some at each number made together; at
    least one, and the largest of the sizes where they are given."""
    number = updates
    while number > 1 and of_update * number * len(settings.sizes or sizes_of(settings, number)) > seconds:
        number -= 1
    return number if settings.sizes is None else max(number, settings.sizes[-1])


def _judged(
    done: Mapping[int, Evaluation], costs: Mapping[tuple[int, str], Cost], unedited: Cost, ways: Sequence[Planned],
    settings: AdviceSettings, tried: CaseSet,
) -> tuple[pl.DataFrame, Advice]:  # fmt: skip
    """The rows of all sizes, and the advice of the last one.

    Updates that were made together share one edit, so where there are `MIN_CLUSTERS` such parts the intervals are over
    these; where there are fewer, they are over subjects, and hold for these very edits.
    """
    named = [UNEDITED, *(one.label for one in ways)]  # those of an earlier call with more ways are left out
    tables, advice = [], None
    for size, evaluation in done.items():
        kept = _left_alone(tried.cases, size)
        found = _balances(evaluation, kept, settings).filter(pl.col("way").is_in(named))
        oracle = size > 1 and 1 in done and ALONE in named
        if oracle:  # on the same updates, and the same facts beside them
            alone = _balances(done[1], kept, settings).filter(pl.col("way") == ALONE).with_columns(way=pl.lit(ORACLE))
            found = pl.concat([found, alone.filter(pl.col("case_id").is_in(found["case_id"].implode()))])
        if len(tried.cases) // size >= MIN_CLUSTERS and size > 1:
            parts = {case.case_id: f"part {place // size}" for place, case in enumerate(tried.cases)}
            found = found.with_columns(cluster=pl.col("case_id").replace_strict(parts, return_dtype=pl.String))
        of_size = {way: costs[size, way] for way in named if (size, way) in costs} | {UNEDITED: unedited}
        totals = {way: cost.total(settings.questions, unedited) for way, cost in of_size.items()}
        advice = advise(found, totals, {ORACLE: TOLD} if oracle else {})
        tables.append(_with_costs(summary_of_ways(found), of_size, totals, advice, size))
    assert advice is not None
    return pl.concat(tables), advice


def _left_alone(cases: Sequence[EditCase], size: int) -> pl.DataFrame:
    """The neighbours that no update of the same edit is about: ``case_id, kind, number``."""
    rows = [
        (case.case_id, kind, number) for part in in_parts(cases, size) for case, kind, number, _ in left_alone(part)
    ]
    return pl.DataFrame(rows, schema={"case_id": pl.String, "kind": pl.String, "number": pl.Int64}, orient="row")


def _balances(evaluation: Evaluation, kept: pl.DataFrame, settings: AdviceSettings) -> pl.DataFrame:
    """`balances` by these neighbours alone: that another update of an edit came true is no damage."""
    neighbours = evaluation.tables["neighbours"].join(kept, on=kept.columns, how="semi", maintain_order="left")
    return balances({**evaluation.tables, "neighbours": neighbours}, settings.weights)


def _with_costs(
    table: pl.DataFrame, costs: Mapping[str, Cost], totals: Mapping[str, float], advice: Advice, size: int
) -> pl.DataFrame:
    beside = [
        asdict(costs.get(way, Cost())) | {"cost": totals.get(way), "not_judged": advice.not_judged.get(way)}
        for way in table["way"]
    ]
    schema = {
        "seconds": pl.Float64, "memory": pl.Int64, "milliseconds": pl.Float64, "cost": pl.Float64,
        "perplexity": pl.Float64, "takes_back": pl.Boolean, "found": pl.Float64, "not_judged": pl.String,
    }  # fmt: skip
    rows = pl.concat([table, pl.DataFrame(beside, schema=schema)], how="horizontal")
    rows = rows.join(advice.leads.drop("updates"), on="way", how="left", maintain_order="left")
    return rows.select(pl.lit(size, pl.Int64).alias("size"), pl.all())


def _summary(
    lm: LanguageModel, cases: CaseSet, tried: CaseSet, sizes: Sequence[int], advice: Advice, table: pl.DataFrame,
    settings: AdviceSettings,
) -> Json:  # fmt: skip
    return {
        "model": lm.name, "updates": cases.name, "given": len(cases.cases), "tried": len(tried.cases),
        "own": settings.own or len(cases.cases),
        "sizes": list(sizes), "size": sizes[-1],
        "recommended": advice.recommended, "separated": advice.separated,
        "best": advice.best, "tied": list(advice.tied), "words": advice.words, "weights": dict(settings.weights),
        "questions": settings.questions, "not_judged": dict(advice.not_judged), "leads": advice.leads.to_dicts(),
        "edits": len(tried.cases) // sizes[-1], "ways": [_finite(row) for row in table.to_dicts()],
    }  # fmt: skip


def _finite(row: Json) -> Json:
    """JSON has no word for what is infinite, such as the cost of a way that could not be timed."""
    return {name: None if value == float("inf") else value for name, value in row.items()}
