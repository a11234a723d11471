"""Lifelong editing: many updates in one model, measured after so many of them. Do the earlier ones last, is the rest
spared?

    run.json                       as of any evaluation run
    clean/, METHOD/after-00010/    results of all updates: of the unedited model, and under the edit of the first ten
    METHOD/undone-00010/           of those ten, with the middle one of the sequence taken out again
    METHOD/after-00010.json        the model as a whole after ten: perplexity, free text; written last
    METHOD/sequence.safetensors    the edit so far, while unfinished; METHOD/undo-00010.safetensors its middle one
    targets, neighbours, updates, ... .parquet    as of any run, with a column ``edits``; updates also has its ``place``
    locality.parquet               facts beside the updates: p of their true objects before and after
    stages.parquet                 the model as a whole, a row a method and number of edits

Modes: ``batch`` makes the first n updates in one edit, ``sequential`` one on top of the other, or batches of them, and
stops at each n.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import polars as pl

from anachron.core.errors import ConfigError
from anachron.core.labels import PLAIN
from anachron.data.updates.cases import CaseSet
from anachron.edit.base import Edit, edited
from anachron.edit.corpus import Corpus
from anachron.edit.failures import failure_of
from anachron.edit.plan import Planned
from anachron.evaluate.joint_edits import EditFile, JointEdit, load, make_batch, make_sequence, save
from anachron.evaluate.lifelong_metrics import STAGES, locality
from anachron.evaluate.measure import Measures
from anachron.evaluate.measures.fluency import fluency
from anachron.evaluate.measures.perplexity import TOKENS, HeldText, perplexity, read_text
from anachron.evaluate.results import UNEDITED
from anachron.evaluate.run import opened
from anachron.evaluate.stages import CLEAN, Evaluation, Runner, Stage, in_parts
from anachron.io.files import Json
from anachron.io.jobs import Callbacks
from anachron.lm.generation import greedy_texts
from anachron.lm.model import LanguageModel

MODES = ("batch", "sequential")
FLUENT = 20  # prompts, evenly spread over the updates, after which the model generates free text


@dataclass(frozen=True)
class LifelongSettings:
    """after: increasing numbers of updates after which to measure. mode: one of `MODES`. measures: what is measured;
    the length of free text is that of `FLUENT` prompts. text: running text to measure perplexity on, or None;
    text_tokens: how many of its tokens, from the start. size: updates of a sequence made together; an update of a batch
    is not taken out again."""

    after: tuple[int, ...]
    mode: str = "sequential"
    measures: Measures = field(default_factory=Measures)
    text: Corpus | None = None
    text_tokens: int = TOKENS
    size: int = 1

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"mode {self.mode!r}: updates add up in the modes {' and '.join(MODES)} only; choose one")
        if not self.after or self.after[0] < 1 or list(self.after) != sorted(set(self.after)):
            raise ConfigError(
                f"after {', '.join(map(str, self.after)) or 'nothing'}: give increasing numbers of updates, from 1 on"
            )
        if self.size < 1 or (self.size > 1 and self.mode != "sequential"):
            raise ConfigError(
                f"size {self.size}: a number of updates from 1 on, with --after for the mode sequential only"
            )
        if uneven := [number for number in self.after if number % self.size]:
            raise ConfigError(
                f"after {uneven[0]}: not a multiple of size {self.size}, so a batch would be cut; give multiples of it"
            )
        if self.text_tokens < 2:
            raise ConfigError(f"text_tokens is {self.text_tokens}; a perplexity needs at least 2 tokens")


def run_lifelong(
    lm: LanguageModel,
    cases: CaseSet,
    methods: Sequence[Planned],
    out: Path | str,
    settings: LifelongSettings,
    *,
    callbacks: Callbacks | None = None,
) -> Evaluation:
    """Make the first n updates of a data set with each method, for several n, and measure all updates after each.

    Those that are not made yet are measured too: their neighbours are facts that no update has changed. Resumes where
    an interrupted run stopped; a finished folder can be given further methods. Failures are records, as in
    `anachron.evaluate.run.run_evaluation`. Raises `ConfigError` for more updates than there are, and as that does.
    """
    if settings.after[-1] > len(cases.cases):
        raise ConfigError(
            f"after {settings.after[-1]}: of {cases.name} there are {len(cases.cases)} updates; leave that number out, "
            "or give more updates (a higher --limit)"
        )
    more: Json = {"after": list(settings.after), "size": settings.size, "text": None}
    if settings.text is not None:
        more["text"] = {"identity": settings.text.identity, "tokens": settings.text_tokens}
    folder, callbacks = Path(out), callbacks or Callbacks()
    asked = replace(settings.measures, portability=False)  # tests of updates are of runs that judge each update
    with opened(lm, cases, methods, folder, mode=settings.mode, measures=asked, more=more, notice=callbacks.notice) as (
        run,
        measures,
    ):
        # free text is the model's as a whole
        runner = Runner(lm, cases, settings.mode, replace(measures, fluency_tokens=0), run, callbacks)
        lifelong = _Lifelong(runner, settings)
        lifelong.compute_clean()
        for planned in methods:
            for edits in settings.after:
                lifelong.compute(planned, edits)
            lifelong.remove_edits(planned)
        return runner.finish(lifelong.tables())


@dataclass
class _Lifelong:
    """The stages of a run: the clean model, and each method after each number of edits, ``edits``."""

    runner: Runner
    settings: LifelongSettings

    def __post_init__(self) -> None:
        self.lm, self.run, self.callbacks = self.runner.lm, self.runner.run, self.runner.callbacks
        self.cases = self.runner.cases.cases

    @property
    def clean(self) -> Stage:
        return Stage(CLEAN, in_parts(self.cases))

    def after(self, label: str, edits: int) -> Stage:
        """All updates under the edit of the first so many."""
        columns = self.runner.columns(label) | {"edits": edits}
        return Stage(_folder(label, "after", edits), in_parts(self.cases), columns)

    def undone(self, label: str, edits: int) -> Stage:
        """The first so many, without their neighbours, with the middle one taken out again."""
        bare = [replace(case, nearest=(), random=()) for case in self.cases[:edits]]
        return Stage(_folder(label, "undone", edits), in_parts(bare))

    def compute_clean(self) -> None:
        self.runner.compute_clean(self.clean)
        if not self.run.has(self.clean.whole, self.callbacks.warn):
            self.run.write_json(self.clean.whole, self._whole())

    def compute(self, planned: Planned, edits: int) -> None:
        """Everything about a method after so many updates, where not all of it is there as it was written."""
        after, undone = self.after(planned.label, edits), self.undone(planned.label, edits)
        parts = [file for file in (*after.files, *undone.files) if file in self.run.record["files"]]
        if self.run.has(after.whole, self.callbacks.warn) and all(map(self.run.has, parts)):
            return
        joint = self._joint(planned, edits)
        self.runner.compute(after, lambda part, _: self.runner.under(joint, part))
        with edited(self.lm, joint.edit, check=False):
            whole = self._whole()
        undo = self._undo(planned, edits)
        if undo.is_there():
            one = undo.load()
            without = replace(joint, edit=joint.edit - one)
            measures = replace(self.runner.measures, generate=False, dated=None, token_accuracy=False, audit=None)
            self.runner.compute(undone, lambda part, _: self.runner.under(without, part, measures))
            whole["undone"] = one.about["case_id"]
        self.run.write_json(after.whole, whole)

    def remove_edits(self, planned: Planned) -> None:
        for file in (self._sequence(planned), *(self._undo(planned, edits) for edits in self.settings.after)):
            file.remove()

    def _sequence(self, planned: Planned) -> EditFile:
        return EditFile(self.run, f"{planned.label}/sequence.safetensors", self.callbacks.warn)

    def _undo(self, planned: Planned, edits: int) -> EditFile:
        return EditFile(self.run, f"{_folder(planned.label, 'undo', edits)}.safetensors", self.callbacks.warn)

    def _joint(self, planned: Planned, edits: int) -> JointEdit:
        """The edit of the first so many updates, read where it was made before."""
        file, cases = self._sequence(planned), self.cases[:edits]
        undos = [self._undo(planned, number) for number in self.settings.after]
        if broken := [undo for undo in undos if undo.is_known() and not undo.is_there()]:
            for damaged in (file, *broken):  # an update by itself is kept only while its sequence is made
                damaged.remove()
        if self.settings.mode == "sequential":
            note = f"{planned.label}, making"
            return make_sequence(
                self.lm, planned, cases, file, size=self.settings.size,
                progress=lambda done: self.callbacks.progress(done, edits, note),
                each=lambda place, edit: self._keep_middle(planned, place, edit),
            )  # fmt: skip
        joint = load(self.lm, file)
        if {*joint.seconds, *joint.failed} != {case.case_id for case in cases}:
            self.callbacks.progress(0, edits, f"{planned.label}, making {edits} together")
            joint = make_batch(self.lm, planned, cases)
            save(joint, file)
        return joint

    def _keep_middle(self, planned: Planned, place: int, edit: Edit) -> None:
        """Keep an update by itself that is the middle one of a stage, or the first behind it that could be made.

        One that is made again, as after a kill before the sequence with it was saved, takes the place of itself: it may
        differ by rounding, and only what is in a sum can be taken out of it.
        """
        about = {"case_id": self.cases[place - 1].case_id, "edits": 1}
        for edits in self.settings.after:
            middle, undo = (edits + 1) // 2, self._undo(planned, edits)
            if middle <= place <= edits and (not undo.is_there() or undo.load().about == about):
                undo.save(replace(edit, about=about))

    def _whole(self) -> Json:
        """The model as it is now, apart from any update."""
        text, batch_tokens = self._text, self.settings.measures.batch_tokens
        try:
            return {
                "perplexity": perplexity(self.lm, text, batch_tokens) if text else None,
                "fluency": [fluency([written]) for written in self._free_texts()],
            }
        except Exception as error:
            if (failure := failure_of(error)) is None:
                raise
            return {"reason": str(failure)}

    @cached_property
    def _text(self) -> HeldText | None:
        text = self.settings.text
        return None if text is None else read_text(self.lm, text, self.settings.text_tokens)

    def _free_texts(self) -> list[str]:
        length = self.settings.measures.fluency_tokens
        every = -(-len(self.cases) // FLUENT)
        prompts = [(*case.generalization, case.text)[0] for case in self.cases[::every]]
        counts = self.settings.measures.fluency_counts_prefix
        return greedy_texts(self.lm, prompts, length, count_prefix=counts) if length else []

    def tables(self) -> dict[str, pl.DataFrame]:
        """Of all stages that are done, those of methods too that an earlier session was given."""
        known = [(edits, label) for edits in self.settings.after for label in self.run.record["methods"]]
        stages = [self.after(label, edits) for edits, label in known]
        tables = self.runner.tables(self.clean, [stage for stage in stages if stage.whole in self.run.record["files"]])
        places = pl.DataFrame(
            {"case_id": [case.case_id for case in self.cases], "place": range(1, len(self.cases) + 1)}
        )
        tables["updates"] = tables["updates"].join(places, on="case_id", how="left", maintain_order="left")
        return tables | {"locality": locality(tables["neighbours"], self.cases), "stages": self._stages()}

    def _stages(self) -> pl.DataFrame:
        """The clean model, as ``unedited`` after 0 updates, and each method after each number of them."""
        clean = {"mode": self.settings.mode, "method": UNEDITED, "variant": PLAIN, "edits": 0}
        rows = [self._row(self.clean, clean)]
        for label in self.run.record["methods"]:
            for edits in self.settings.after:
                stage = self.after(label, edits)
                if stage.whole in self.run.record["files"]:
                    row = self._row(stage, stage.columns)
                    rows.append(row | self._after_undoing(self.undone(label, edits), stage, row["undone"]))
        return pl.DataFrame(rows, schema=STAGES)

    def _row(self, stage: Stage, columns: Json) -> Json:
        return dict.fromkeys(STAGES) | self.run.read_json(stage.whole) | columns

    def _after_undoing(self, undone: Stage, stage: Stage, case_id: str | None) -> Json:
        """p of the objects of the update that was taken out, on its own prompt, and by how much p(new) of the others
        changed; nothing where none was."""
        if case_id is None:
            return {}
        without, within = (
            {row["case_id"]: row["targets"][0] for row in table.iter_rows(named=True) if row["targets"]}
            for table in (self.runner.read(undone), self.runner.read(stage))
        )
        changes = [
            abs(target["new"] - within[other]["new"])
            for other, target in without.items()
            if other != case_id and other in within and target["new"] is not None
        ]
        target = without.get(case_id, {})
        return {"undone_new": target.get("new"), "undone_old": target.get("old"), "undone_others": changes}


def _folder(label: str, kind: str, edits: int) -> str:
    return f"{label}/{kind}-{edits:05d}"
