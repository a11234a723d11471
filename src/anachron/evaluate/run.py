"""An evaluation run: updates made by several methods and measured, into a folder that survives being killed.

    run.json                    settings, model, data, methods with their settings, machine, times
    clean/part-*.parquet        the unedited model's scores, computed once and shared by all methods
    METHOD/part-*.parquet       a method's; METHOD/sequence-*.safetensors while a sequence is unfinished
    targets, neighbours, updates .parquet    all of it, once done (columns: `anachron.evaluate.results`)
    objects, generations, audit .parquet     the same of updates that are no replacements, and of what the model
                                generates and answers, where asked
    portability.parquet         the same of the tests that updates bring (RippleEdits, MQuAKE)
    dated, dated_neighbours, atoke .parquet  the same of dated questions and AToKe's, where they are asked
    past_scores.parquet         the past facts as a score table, which ``anachron report`` reads

Modes: ``independent`` edits each start from the clean model, as the papers evaluate, and a part of them is made and
measured together; ``batch`` makes many updates true in one edit, ``entity`` all those of one subject, as for a new
entity with all that is said of it (WikiFactDiff, section 4); ``sequential`` makes one after the other, or batches
of them, each on top of the ones before, and measures all at the end.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from anachron.core.errors import ConfigError, DataError
from anachron.data.updates.case_records import EditCase
from anachron.data.updates.cases import CaseSet
from anachron.edit.base import Edit, identified
from anachron.edit.failures import Failure, each_or_failure
from anachron.edit.make import edits_at_once, make_edits
from anachron.edit.methods import check_scenarios
from anachron.edit.plan import Planned
from anachron.edit.requests import EditRequest
from anachron.evaluate.case_results import CaseResult, failed, in_order_of
from anachron.evaluate.joint_edits import EditFile, Make, joint_edit, make_batch, make_sequence
from anachron.evaluate.measure import Measures, measure_apart, measures_of_objects, or_failed
from anachron.evaluate.measures.audit import PUBLISHED_TOKENS
from anachron.evaluate.measures.catalogue import MEASURES
from anachron.evaluate.measures.dated import settled
from anachron.evaluate.measures.dated_metrics import past_scores
from anachron.evaluate.requests import askable
from anachron.evaluate.results import METHOD
from anachron.evaluate.stages import CLEAN, Evaluation, Runner, Stage, in_parts
from anachron.io.files import Json, versions
from anachron.io.jobs import Callbacks, now, refuse_others
from anachron.io.run_folder import Kind, RunFolder, open_run
from anachron.lm.generation import ends_of
from anachron.lm.model import LanguageModel
from anachron.lm.temporary import Temporary, attribute


@dataclass(frozen=True)
class EvaluateSettings:
    """mode: one of `MODES`. size: updates made together; None takes all of them in the mode batch, and one in the mode
    sequential. measures: what is measured.
    """

    mode: str = "independent"
    size: int | None = None
    measures: Measures = field(default_factory=Measures)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"mode {self.mode!r}: choose one of {', '.join(MODES)}")
        if self.size is not None and (self.mode not in ("batch", "sequential") or self.size < 1):
            raise ConfigError(
                f"size {self.size}: a number of updates from 1 on, for the modes batch and sequential only"
            )


def run_evaluation(
    lm: LanguageModel,
    cases: CaseSet,
    methods: Sequence[Planned],
    out: Path | str,
    settings: EvaluateSettings | None = None,
    *,
    callbacks: Callbacks | None = None,
    make: Make = make_batch,
) -> Evaluation:
    """Make every update of a data set with every method and measure it, resuming where an interrupted run stopped.

    A finished folder can be given further methods; what is there is kept. An update that a method fails on leaves a
    record with the reason and no score, as does one of a scenario that the method does not support. Raises
    `ConfigError` for a method that supports none of the updates, and where the folder holds a run, or a method, with
    other settings; finished parts stay. A part that is not as it was written is made again, with a warning, if its
    method is among these; else `DataError` says so.

    make: makes updates together in the modes ``batch`` and ``entity``; for a caller that measures their making too.
    """
    settings, callbacks, folder = settings or EvaluateSettings(), callbacks or Callbacks(), Path(out)
    with opened(
        lm, cases, methods, folder, mode=settings.mode, measures=settings.measures, more={"size": settings.size},
        notice=callbacks.notice,
    ) as (run, measures):  # fmt: skip
        runner = Runner(lm, cases, settings.mode, measures, run, callbacks, make)
        parts = _parts(cases.cases, settings)
        clean = Stage(CLEAN, parts)
        runner.compute_clean(clean)
        for planned in methods:
            runner.compute(Stage(planned.label, parts), partial(WORK[settings.mode], runner, planned, settings.size))
        stages = [Stage(label, parts, runner.columns(label)) for label in run.record["methods"]]
        tables = runner.tables(clean, [stage for stage in stages if runner.is_done(stage)])
        if measures.dated is not None:
            past = past_scores(tables["dated"], tables["targets"], cases.cases, lm.style.kind)
            run.write_table("past_scores.parquet", past)
        return runner.finish(tables)


def _parts(cases: Sequence[EditCase], settings: EvaluateSettings) -> list[Sequence[EditCase]]:
    """What is made and measured together."""
    if settings.mode == "entity":
        of_subject: dict[str, list[EditCase]] = {}
        for case in cases:
            of_subject.setdefault(case.subject, []).append(case)
        return [*of_subject.values()]
    whole = {"independent": None, "batch": settings.size or len(cases), "sequential": len(cases)}
    return in_parts(cases, whole[settings.mode])


@contextmanager
def opened(
    lm: LanguageModel, cases: CaseSet, methods: Sequence[Planned], folder: Path, *, mode: str, measures: Measures,
    more: Json, notice: Callable[[str], None],
) -> Iterator[tuple[RunFolder, Measures]]:  # fmt: skip
    """A run's folder, locked and with the record of these settings, and what is measured, settled for these updates.

    more: settings of this kind of run. notice: told what is measured unasked (`measures_of_objects`). Raises
    `ConfigError` and `DataError` as `run_evaluation`.
    """
    if not cases.cases:
        raise DataError(f"{cases.name} holds no update to measure ({dict(cases.left_out)} left out)")
    check_scenarios([planned.method for planned in methods], {case.scenario for case in cases.cases})
    if measures.dated is not None:
        measures = replace(measures, dated=settled(measures.dated, cases))
    measures = measures_of_objects(lm, cases.cases, measures, notice)
    dating = measures.dated
    weights = lm.weights_fingerprint()
    identity = lm.identity(weights) | {
        "edit_prefix": lm.prefix or None,
        "updates": cases.name, "number_of_updates": len(cases.cases), "updates_fingerprint": cases.fingerprint(),
        "mode": mode, "fluency_tokens": measures.fluency_tokens, "batch_tokens": measures.batch_tokens,
        "generate": measures.generate, "token_accuracy": measures.token_accuracy, "format": lm.style.kind,
        "audit": None if measures.audit is None else {"most_tokens": measures.audit.most_tokens or PUBLISHED_TOKENS},
        "answer_ends": _answer_ends(lm, measures),
        "dated": None if dating is None else asdict(dating), **more,
    }  # fmt: skip
    if measures.fluency_counts_prefix:
        identity["fluency_counts_prefix"] = True
    with identified(lm, weights), open_run(folder, identity, Kind.EDITS, CLEAN) as run, _same_day(lm, run):
        record = run.record
        _add_methods(record, methods, folder)
        run.remove_leftovers(*record["methods"])
        record |= {"status": "running", "model": lm.about(), "left_out": dict(cases.left_out)}
        for measure in MEASURES:
            record |= measure.about(cases.cases, measure.how(measures))
        record["sessions"].append({"started": now(), "versions": versions(), "hardware": lm.hardware()})
        run.save()
        yield run, measures


def _answer_ends(lm: LanguageModel, measures: Measures) -> list[int] | None:
    """Tokens that end an answer, where texts depend on them: some are of settings for generation, which are no part of
    a model's identity."""
    asked = measures.audit is not None or lm.style.kind == "chat"
    return sorted(ends_of(lm)) if asked else None


def _same_day(lm: LanguageModel, run: RunFolder) -> Temporary[None]:
    """Chats of a run are on one day, that of its first session, where the template says what day is today."""
    style = lm.style
    if style.template_date is not None:
        style = replace(style, template_date=run.record.setdefault("template_date", style.template_date))
    return attribute(lm, "style", style)


def _add_methods(record: Json, methods: Sequence[Planned], folder: Path) -> None:
    known = record.setdefault("methods", {})
    if isinstance(known, dict) and any("dated_requests" in one.get("identity", ()) for one in known.values()):
        raise DataError(
            f"{folder} holds a run of an earlier version, whose methods have dated_requests where they now have a "
            "variant; repeat the command that made it, with a new --out"
        )
    if not isinstance(known, dict) or not all(METHOD.keys() <= {*one.get("identity", ())} for one in known.values()):
        raise DataError(f"{folder} holds no run of evaluate (its methods are broken); choose another --out")
    for planned in methods:
        identity = planned.identity()
        if planned.label in known:
            refuse_others(folder, known[planned.label]["identity"], identity, planned.label)
        known[planned.label] = {"identity": identity, "settings_from": planned.source}


def _independent(
    runner: Runner, planned: Planned, size: int | None, part: Sequence[EditCase], number: int
) -> Iterator[CaseResult]:
    at_once = edits_at_once(runner.lm, planned.method, planned.settings, planned.sites, len(part))
    for cases in in_parts(part, at_once):
        yield from _apart(runner, planned, cases)


def _apart(runner: Runner, planned: Planned, cases: Sequence[EditCase]) -> list[CaseResult]:
    """Updates made together and measured together, each as if it were the only one."""
    asked, results = askable(cases, planned.method, planned.variant)
    made: list[tuple[EditCase, Edit]] = []
    edits = _edits(runner.lm, planned, [requests for _, requests in asked])
    for (case, _), edit in zip(asked, edits, strict=True):
        if isinstance(edit, Edit):
            made.append((case, edit))
        else:
            results.append(failed(case, str(edit)))
    measured = each_or_failure(lambda some: measure_apart(runner.lm, some, runner.measures), made)
    return in_order_of(cases, [*results, *or_failed([case for case, _ in made], measured)])


def _edits(lm: LanguageModel, planned: Planned, asked: Sequence[Sequence[EditRequest]]) -> Iterator[Edit | Failure]:
    """An edit for each update: those that ask for one thing are made together, others one after the other."""
    single = [requests[0] for requests in asked if len(requests) == 1]
    made = iter(make_edits(lm, planned.method, single, planned.settings, planned.resources, planned.sites))
    for requests in asked:
        if len(requests) == 1:
            yield next(made)
        else:
            yield joint_edit(lm, planned, requests)


def _batch(
    runner: Runner, planned: Planned, size: int | None, part: Sequence[EditCase], number: int
) -> Iterator[CaseResult]:
    runner.callbacks.progress(0, len(part), f"{planned.label}, making {len(part)} together")
    return runner.under(runner.make(runner.lm, planned, part), part)


def _sequential(
    runner: Runner, planned: Planned, size: int | None, part: Sequence[EditCase], number: int
) -> Iterator[CaseResult]:
    note = f"{planned.label}, making"
    file = EditFile(runner.run, f"{planned.label}/sequence-{number:05d}.safetensors", runner.callbacks.warn)
    joint = make_sequence(
        runner.lm, planned, part, file, size=size or 1,
        progress=lambda done: runner.callbacks.progress(done, len(part), note),
    )  # fmt: skip
    yield from runner.under(joint, part)
    file.remove()


Work = Callable[[Runner, Planned, int | None, Sequence[EditCase], int], Iterator[CaseResult]]
WORK: dict[str, Work] = {"independent": _independent, "batch": _batch, "entity": _batch, "sequential": _sequential}
MODES = tuple(WORK)
