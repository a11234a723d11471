"""An evaluation run: updates made by several methods and judged, into a folder that survives being killed.

    run.json                    settings, model, data, methods with their settings, machine, times
    clean/part-*.parquet        the unedited model's scores, computed once and shared by all methods
    METHOD/part-*.parquet       a method's; METHOD/sequence-*.safetensors while a sequence is unfinished
    targets, neighbours, updates .parquet    all of it, once done (columns: `anachron.evaluate.results`)
    objects, said .parquet      the same of updates that are no replacements, and of what the model says, where asked
    dated, dated_neighbours .parquet         the same of dated questions, where they are asked
    past_scores.parquet         the past facts as a score table, which ``anachron report`` reads

Modes: ``independent`` edits each start from the clean model, as the papers judge, and a part of them is made and judged
together; ``batch`` makes many updates true in one edit; ``sequential`` makes one after the other, each on top of the
ones before, and judges all at the end.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import polars as pl

from anachron.data.case_records import EditCase
from anachron.data.cases import CaseSet
from anachron.edit.base import Edit, edited, identified
from anachron.edit.failures import Failure, each_or_failure
from anachron.edit.make import edits_at_once, make_edits
from anachron.edit.methods import check_scenarios
from anachron.edit.plan import Planned
from anachron.edit.requests import EditRequest
from anachron.errors import ConfigError, DataError
from anachron.evaluate.asking import askable
from anachron.evaluate.dated import not_asked, settled
from anachron.evaluate.dated_metrics import past_scores
from anachron.evaluate.grown import Grown, Held, grow, joint_edit, make_batch
from anachron.evaluate.judge import Judging, or_failed, verdicts, verdicts_apart
from anachron.evaluate.parts import Verdict, Verdicts, dated_tables_of, failed, tables_of
from anachron.io import Json, versions
from anachron.jobs import Callbacks, RunFolder, now, open_run, refuse_others
from anachron.lm.model import LanguageModel

MODES = ("independent", "batch", "sequential")
CLEAN = "clean"
PART = 16  # updates a part of independent edits: what is made and judged together, and what a killed run can lose


@dataclass(frozen=True)
class EvaluateSettings:
    """mode: one of `MODES`. size: updates in a batch or sequence; None takes all. judging: see `Judging`."""

    mode: str = "independent"
    size: int | None = None
    judging: Judging = field(default_factory=Judging)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"mode {self.mode!r}: choose one of {', '.join(MODES)}")
        if self.size is not None and (self.mode == "independent" or self.size < 1):
            raise ConfigError(
                f"size {self.size}: a number of updates from 1 on, for the modes batch and sequential only"
            )


@dataclass(frozen=True)
class Evaluation:
    """A finished run: its folder, its record (``run.json``) and its tables (`anachron.evaluate.results`).

    objects: no rows where all updates are replacements. said: none where it was not asked for. dated and
    dated_neighbours: None where no dated questions were asked.
    """

    folder: Path
    record: Json
    targets: pl.DataFrame
    neighbours: pl.DataFrame
    updates: pl.DataFrame
    objects: pl.DataFrame
    said: pl.DataFrame
    dated: pl.DataFrame | None = None
    dated_neighbours: pl.DataFrame | None = None


def run_evaluation(
    lm: LanguageModel,
    cases: CaseSet,
    methods: Sequence[Planned],
    out: Path | str,
    settings: EvaluateSettings | None = None,
    *,
    callbacks: Callbacks | None = None,
) -> Evaluation:
    """Make every update of a data set by every method and judge it, resuming where an interrupted run stopped.

    A finished folder can be given further methods; what is there is kept. An update that a method fails on leaves a
    record with the reason and no score, as does one of a scenario that the method does not support. Raises
    `ConfigError` for a method that supports none of the updates, and where the folder holds a run, or a method, with
    other settings; finished parts stay. A part that is not as it was written is made again, with a warning, if its
    method is among these; else `DataError` says so.
    """
    settings, callbacks, folder = settings or EvaluateSettings(), callbacks or Callbacks(), Path(out)
    size: Json = {"size": settings.size}
    with opened(lm, cases, methods, folder, settings.mode, settings.judging, size) as (run, judging):
        return _Run(lm, cases, replace(settings, judging=judging), run, callbacks).finish(methods)


@contextmanager
def opened(
    lm: LanguageModel, cases: CaseSet, methods: Sequence[Planned], folder: Path, mode: str, judging: Judging, more: Json
) -> Iterator[tuple[RunFolder, Judging]]:
    """A run's folder, locked and with the record of these settings, and how to judge with all dates settled.

    more: settings of this kind of run. Raises `ConfigError` and `DataError` as `run_evaluation`.
    """
    if not cases.cases:
        raise DataError(f"{cases.name} holds no update to judge ({dict(cases.left_out)} left out)")
    check_scenarios([planned.method for planned in methods], {case.scenario for case in cases.cases})
    if judging.dated is not None:
        judging = replace(judging, dated=settled(judging.dated, cases.cases))
    dating = judging.dated
    weights = lm.weights_fingerprint()
    identity = lm.identity(weights) | {
        "edit_prefix": lm.prefix or None,
        "updates": cases.name, "number_of_updates": len(cases.cases), "updates_fingerprint": cases.fingerprint(),
        "mode": mode, "fluency_tokens": judging.fluency_tokens, "batch_tokens": judging.batch_tokens,
        "say": judging.say, "dated": None if dating is None else asdict(dating), **more,
    }  # fmt: skip
    with identified(lm, weights), open_run(folder, identity) as run:
        record = run.record
        _add_methods(record, methods, folder)
        run.remove_leftovers(CLEAN, *record["methods"])
        record |= {"status": "running", "model": lm.about(), "left_out": dict(cases.left_out)}
        record["not_asked"] = {} if dating is None else not_asked(cases.cases, dating)
        record["sessions"].append({"started": now(), "versions": versions(), "hardware": lm.hardware()})
        run.save()
        yield run, judging


def _add_methods(record: Json, methods: Sequence[Planned], folder: Path) -> None:
    known = record.setdefault("methods", {})
    if not isinstance(known, dict) or not all(isinstance(one, dict) and "identity" in one for one in known.values()):
        raise DataError(f"{folder} holds no run of evaluate (its methods are broken); choose another --out")
    for planned in methods:
        identity = planned.identity()
        if planned.label in known:
            refuse_others(folder, known[planned.label]["identity"], identity, planned.label)
        known[planned.label] = {"identity": identity, "settings_from": planned.source}


class _Run:
    def __init__(
        self, lm: LanguageModel, cases: CaseSet, settings: EvaluateSettings, run: RunFolder, callbacks: Callbacks
    ) -> None:
        self.lm, self.cases, self.settings, self.run, self.callbacks = lm, cases, settings, run, callbacks
        size = PART if settings.mode == "independent" else settings.size or len(cases.cases)
        self.parts = Verdicts.of(run, cases.cases, size)

    def finish(self, methods: Sequence[Planned]) -> Evaluation:
        work = {"independent": self._independent, "batch": self._batch, "sequential": self._sequential}
        told, judging = (self.callbacks.progress, self.callbacks.warn), self.settings.judging
        clean = self.parts.make(CLEAN, lambda part, number: in_pieces(self.lm, part, judging), *told)
        for planned in methods:
            self.parts.make(planned.label, partial(work[self.settings.mode], planned), *told)
        record = self.run.record
        known = {name: self.parts.read(name) for name in record["methods"] if self.parts.is_done(name)}
        tables = tables_of({c.case_id: c for c in self.cases.cases}, clean, known, self.settings.mode)
        if judging.dated is not None:
            tables |= dated_tables_of(clean, known, self.settings.mode)
            past = past_scores(tables["dated"], tables["targets"], self.cases.cases)
            self.run.write_table("past_scores.parquet", past)
        for name, table in tables.items():
            if table.height or name not in ("objects", "said"):
                self.run.write_table(f"{name}.parquet", table)
        tell_failures(tables["updates"], self.callbacks)
        record |= {"status": "done", "finished": now()}
        self.run.save()
        return Evaluation(self.run.path, record, **tables)

    def _independent(self, planned: Planned, part: Sequence[EditCase], number: int) -> Iterator[Verdict]:
        size = edits_at_once(self.lm, planned.method, planned.settings, planned.sites, len(part))
        for first in range(0, len(part), size):
            yield from self._apart(planned, part[first : first + size])

    def _apart(self, planned: Planned, part: Sequence[EditCase]) -> list[Verdict]:
        """Updates made together and judged together, each as if it were the only one."""
        asked, found = askable(part, planned.label)
        made: list[tuple[EditCase, Edit]] = []
        for (case, _), edit in zip(asked, self._edits(planned, [requests for _, requests in asked]), strict=True):
            if isinstance(edit, Edit):
                made.append((case, edit))
            else:
                found.append(failed(case, str(edit)))
        judged = each_or_failure(lambda some: verdicts_apart(self.lm, some, self.settings.judging), made)
        return _in_order(part, [*found, *or_failed([case for case, _ in made], judged)])

    def _edits(self, planned: Planned, asked: Sequence[Sequence[EditRequest]]) -> Iterator[Edit | Failure]:
        """An edit for each update: those that ask for one thing are made together, others one after the other."""
        one = [requests[0] for requests in asked if len(requests) == 1]
        given = (self.lm, planned.method, one, planned.settings, planned.resources, planned.sites)
        together = iter(make_edits(*given))
        for requests in asked:
            if len(requests) == 1:
                yield next(together)
            else:
                yield from each_or_failure(lambda some: [joint_edit(self.lm, planned, some[0])], [requests])

    def _batch(self, planned: Planned, part: Sequence[EditCase], number: int) -> Iterator[Verdict]:
        before = sum(map(len, self.parts.parts[:number]))
        self.callbacks.progress(before, len(self.cases.cases), f"{planned.label}, making {len(part)} together")
        return self._under(make_batch(self.lm, planned, part), part)

    def _sequential(self, planned: Planned, part: Sequence[EditCase], number: int) -> Iterator[Verdict]:
        making = f"{planned.label}, making"
        held = Held(self.run, f"{planned.label}/sequence-{number:05d}.safetensors", self.callbacks.warn)
        grown = grow(
            self.lm, planned, part, held, progress=lambda done: self.callbacks.progress(done, len(part), making)
        )
        yield from self._under(grown, part)
        held.forget()

    def _under(self, grown: Grown, part: Sequence[EditCase]) -> Iterator[Verdict]:
        with edited(self.lm, grown.edit, check=False):
            yield from in_pieces(self.lm, part, self.settings.judging, grown)


def tell_failures(updates: pl.DataFrame, callbacks: Callbacks, when: str = "") -> None:
    """Warn of each method's failed updates, with the commonest reason."""
    for (name,), group in updates.group_by(["method"], maintain_order=True):
        bad = group.filter(pl.col("status") == "failed")
        if bad.height:
            reason, count = Counter(bad["reason"].to_list()).most_common(1)[0]
            callbacks.warn(f"{name}{when}: {bad.height} of {group.height} updates failed, {count} of them: {reason}")


def in_pieces(
    lm: LanguageModel, cases: Sequence[EditCase], judging: Judging, grown: Grown | None = None
) -> Iterator[Verdict]:
    """Verdicts on updates under the model as it is now, `PART` at a time; those that are not in its edit failed."""
    known, reasons = (grown.seconds, grown.failed) if grown else ({}, {})
    for start in range(0, len(cases), PART):
        piece = cases[start : start + PART]
        bad = [failed(case, reasons[case.case_id]) for case in piece if case.case_id in reasons]
        good = [case for case in piece if case.case_id not in reasons]
        yield from _in_order(piece, [*bad, *verdicts(lm, good, judging, known)])


def _in_order(part: Sequence[EditCase], verdicts: Sequence[Verdict]) -> list[Verdict]:
    place = {case.case_id: number for number, case in enumerate(part)}
    return sorted(verdicts, key=lambda v: place[v.case_id])
