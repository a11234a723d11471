"""Many updates in one model, judged after so many of them: do the earlier ones last, is the rest spared?

    run.json                       as of any evaluation run
    clean/, METHOD/after-00010/    verdicts on all updates: the unedited model's, and under the edit of the first ten
    METHOD/undone-00010/           on those ten, with the middle one of the sequence taken out again
    METHOD/after-00010.json        the model as a whole after ten: perplexity, free text; written last
    METHOD/growing.safetensors     the sequence so far, while unfinished; METHOD/undo-00010.safetensors its middle one
    targets, neighbours, updates, ... .parquet    as of any run, with a column ``edits``; updates also has its ``place``
    untouched.parquet              facts beside the updates: p of their true objects before and after
    stages.parquet                 the model as a whole, a row a method and number of edits

Modes: ``batch`` makes the first n updates in one edit, ``sequential`` one on top of the other, and stops at each n.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import polars as pl

from anachron.data.cases import CaseSet
from anachron.edit.base import Edit, edited
from anachron.edit.corpus import Corpus
from anachron.edit.failures import failure_of
from anachron.edit.plan import Planned
from anachron.errors import ConfigError
from anachron.evaluate.fluency import fluency
from anachron.evaluate.grown import Grown, Held, grow, load, make_batch, save
from anachron.evaluate.growth_metrics import STAGES, untouched
from anachron.evaluate.judge import Judging
from anachron.evaluate.parts import Verdicts, dated_tables_of, tables_of
from anachron.evaluate.perplexity import TOKENS, HeldText, perplexity, read_text
from anachron.evaluate.results import UNEDITED
from anachron.evaluate.run import CLEAN, PART, in_pieces, opened, tell_failures
from anachron.io import Json
from anachron.jobs import Callbacks, RunFolder, now
from anachron.lm.generation import greedy_texts
from anachron.lm.model import LanguageModel

MODES = ("batch", "sequential")
FLUENT = 20  # prompts, evenly spread over the updates, behind which the model writes free text


@dataclass(frozen=True)
class GrowthSettings:
    """after: numbers of updates, rising, after which to judge. mode: one of `MODES`. judging: see `Judging`; the length
    of free text is that of `FLUENT` prompts. text: running text to take the perplexity of, None for no perplexity;
    text_tokens: how many of its tokens, from the start."""

    after: tuple[int, ...]
    mode: str = "sequential"
    judging: Judging = field(default_factory=Judging)
    text: Corpus | None = None
    text_tokens: int = TOKENS

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"mode {self.mode!r}: updates add up in the modes {' and '.join(MODES)} only; choose one")
        if not self.after or self.after[0] < 1 or list(self.after) != sorted(set(self.after)):
            raise ConfigError(
                f"after {', '.join(map(str, self.after)) or 'nothing'}: give rising numbers of updates, from 1 on"
            )
        if self.text_tokens < 2:
            raise ConfigError(f"text_tokens is {self.text_tokens}; a perplexity needs 2 tokens at least")


@dataclass(frozen=True)
class Growth:
    """A finished run: its folder, its record, and its tables with the column ``edits``: targets, neighbours, updates,
    objects and said, and where asked for dated and dated_neighbours (`anachron.evaluate.results`); ``untouched``, facts
    that no update changes; and ``stages``, the model as a whole (`anachron.evaluate.growth_metrics`)."""

    folder: Path
    record: Json
    tables: dict[str, pl.DataFrame]


def run_growth(
    lm: LanguageModel,
    cases: CaseSet,
    methods: Sequence[Planned],
    out: Path | str,
    settings: GrowthSettings,
    *,
    callbacks: Callbacks | None = None,
) -> Growth:
    """Make the first n updates of a data set by each method, for several n, and judge all updates after each.

    Those that are not made yet are judged too: their neighbours are facts that no update has touched. Resumes where an
    interrupted run stopped; a finished folder can be given further methods. Failures are records, as in
    `anachron.evaluate.run.run_evaluation`. Raises `ConfigError` for more updates than there are, and as that does.
    """
    if settings.after[-1] > len(cases.cases):
        raise ConfigError(
            f"after {settings.after[-1]}: {cases.name} holds {len(cases.cases)} updates; leave that number out, or "
            "give more updates"
        )
    more: Json = {"after": list(settings.after), "text": None}
    if settings.text is not None:
        more["text"] = {"identity": settings.text.identity, "tokens": settings.text_tokens}
    folder, callbacks = Path(out), callbacks or Callbacks()
    with opened(lm, cases, methods, folder, settings.mode, settings.judging, more) as (run, judging):
        return _Growing(lm, cases, replace(settings, judging=judging), run, callbacks).finish(methods)


@dataclass
class _Growing:
    lm: LanguageModel
    cases: CaseSet
    settings: GrowthSettings
    run: RunFolder
    callbacks: Callbacks

    def __post_init__(self) -> None:
        self.told = (self.callbacks.progress, self.callbacks.warn)
        self.parts = Verdicts.of(self.run, self.cases.cases, PART)
        self.judging = replace(self.settings.judging, fluency_tokens=0)  # free text is the model's as a whole

    def finish(self, methods: Sequence[Planned]) -> Growth:
        self.parts.make(CLEAN, lambda part, _: in_pieces(self.lm, part, self.judging), *self.told)
        if not self.run.has(_file(CLEAN), self.callbacks.warn):
            self.run.write_json(_file(CLEAN), self._whole())
        for planned in methods:
            for edits in self.settings.after:
                if not self._is_whole(planned.label, edits):
                    self._make(planned, edits)
            for held in (self._growing(planned), *(self._undo(planned, edits) for edits in self.settings.after)):
                held.forget()
        tables = self._tables()
        tables |= {"untouched": untouched(tables["neighbours"], self.cases.cases), "stages": self._stages()}
        for name, table in tables.items():
            if table.height or name not in ("objects", "said"):
                self.run.write_table(f"{name}.parquet", table)
        for (edits,), updates in tables["updates"].group_by(["edits"], maintain_order=True):
            tell_failures(updates.filter(pl.col("place") <= edits), self.callbacks, f" after {edits}")
        self.run.record |= {"status": "done", "finished": now()}
        self.run.save()
        return Growth(self.run.path, self.run.record, tables)

    def _is_whole(self, label: str, edits: int) -> bool:
        """Whether all that is known of a method after so many updates is as it was written."""
        stage, undone = _stage(label, edits), _stage(label, edits, "undone")
        parts = [name for name in self.run.record["files"] if name.startswith((f"{stage}/", f"{undone}/"))]
        return self.run.has(_file(stage), self.callbacks.warn) and all(map(self.run.has, parts))

    def _held(self, name: str) -> Held:
        return Held(self.run, f"{name}.safetensors", self.callbacks.warn)

    def _growing(self, planned: Planned) -> Held:
        return self._held(f"{planned.label}/growing")

    def _undo(self, planned: Planned, edits: int) -> Held:
        return self._held(_stage(planned.label, edits, "undo"))

    def _methods(self, edits: int) -> list[str]:
        """Methods that were judged after so many updates."""
        return [name for name in self.run.record["methods"] if _file(_stage(name, edits)) in self.run.record["files"]]

    def _make(self, planned: Planned, edits: int) -> None:
        """Everything about a method after so many updates."""
        stage = _stage(planned.label, edits)
        grown = self._grown(planned, edits)
        with edited(self.lm, grown.edit, check=False):
            self.parts.make(stage, lambda part, _: in_pieces(self.lm, part, self.judging, grown), *self.told)
            found = self._whole()
        undo = self._undo(planned, edits)
        if undo.is_there():
            one = undo.load()
            plain = replace(self.judging, say=False, dated=None)
            with edited(self.lm, grown.edit - one, check=False):
                self._undone(edits).make(
                    _stage(planned.label, edits, "undone"),
                    lambda part, _: in_pieces(self.lm, part, plain, grown), *self.told,
                )  # fmt: skip
            found["undone"] = one.about["case_id"]
        self.run.write_json(_file(stage), found)

    def _grown(self, planned: Planned, edits: int) -> Grown:
        """The edit of the first so many updates, read where it was made before."""
        growing, cases = self._growing(planned), self.cases.cases[:edits]
        undos = [self._undo(planned, number) for number in self.settings.after]
        if broken := [undo for undo in undos if undo.is_known() and not undo.is_there()]:
            for held in (growing, *broken):  # an update by itself is kept only while its sequence grows
                held.forget()
        if self.settings.mode == "sequential":
            making = f"{planned.label}, making"
            return grow(
                self.lm, planned, cases, growing, progress=lambda done: self.callbacks.progress(done, edits, making),
                each=lambda place, edit: self._keep_middle(planned, place, edit),
            )  # fmt: skip
        grown = load(self.lm, growing)
        if {*grown.seconds, *grown.failed} != {case.case_id for case in cases}:
            self.callbacks.progress(0, edits, f"{planned.label}, making {edits} together")
            grown = make_batch(self.lm, planned, cases)
            save(grown, growing)
        return grown

    def _keep_middle(self, planned: Planned, place: int, edit: Edit) -> None:
        """Keep an update by itself that is the middle one of a stage, or the first behind it that could be made."""
        for edits in self.settings.after:
            middle, undo = (edits + 1) // 2, self._undo(planned, edits)
            if middle <= place <= edits and not undo.is_there():
                about = {"case_id": self.cases.cases[place - 1].case_id, "edits": 1}
                undo.save(replace(edit, about=about))

    def _undone(self, edits: int) -> Verdicts:
        """The first so many updates without their neighbours, in parts."""
        bare = [replace(case, nearest=(), random=()) for case in self.cases.cases[:edits]]
        return Verdicts.of(self.run, bare, PART)

    def _whole(self) -> Json:
        """The model as it is now, apart from any update."""
        try:
            return {
                "perplexity": perplexity(self.lm, self._text, self.judging.batch_tokens) if self._text else None,
                "fluency": [fluency([text]) for text in self._texts()],
            }
        except Exception as error:
            if (failure := failure_of(error)) is None:
                raise
            return {"reason": str(failure)}

    @cached_property
    def _text(self) -> HeldText | None:
        text = self.settings.text
        return None if text is None else read_text(self.lm, text, self.settings.text_tokens)

    def _texts(self) -> list[str]:
        length = self.settings.judging.fluency_tokens
        every = -(-len(self.cases.cases) // FLUENT)
        prompts = [(*case.generalization, case.text)[0] for case in self.cases.cases[::every]]
        return greedy_texts(self.lm, prompts, length) if length else []

    def _tables(self) -> dict[str, pl.DataFrame]:
        cases = {case.case_id: case for case in self.cases.cases}
        clean, mode = self.parts.read(CLEAN), self.settings.mode
        found: dict[str, list[pl.DataFrame]] = {}
        for edits in self.settings.after:
            known = {name: self.parts.read(_stage(name, edits)) for name in self._methods(edits)}
            tables = tables_of(cases, clean, known, mode)
            if self.judging.dated is not None:
                tables |= dated_tables_of(clean, known, mode)
            for name, table in tables.items():
                found.setdefault(name, []).append(table.with_columns(edits=pl.lit(edits, pl.Int64)))
        whole = {name: pl.concat(tables) for name, tables in found.items()}
        places = pl.DataFrame({"case_id": list(cases), "place": range(1, len(cases) + 1)})
        return whole | {"updates": whole["updates"].join(places, on="case_id", how="left", maintain_order="left")}

    def _stages(self) -> pl.DataFrame:
        """The clean model, as ``unedited`` after 0 updates, and each method after each number of them."""
        rows = [self._row(UNEDITED, 0, CLEAN)]
        for name in self.run.record["methods"]:
            rows += [self._row(name, n, _stage(name, n)) for n in self.settings.after if name in self._methods(n)]
        return pl.DataFrame(rows, schema=STAGES)

    def _row(self, method: str, edits: int, stage: str) -> Json:
        row = dict.fromkeys(STAGES) | self.run.read_json(_file(stage))
        row |= {"mode": self.settings.mode, "method": method, "edits": edits}
        if row["undone"] is not None:
            row |= self._after_undoing(_stage(method, edits, "undone"), stage, edits, row["undone"])
        return row

    def _after_undoing(self, undone: str, stage: str, edits: int, case_id: str) -> Json:
        """p of the objects of the update that was taken out, on its own prompt, and how p(new) of the others moved."""
        without, within = (
            {row["case_id"]: row["targets"][0] for row in table.iter_rows(named=True) if row["targets"]}
            for table in (self._undone(edits).read(undone), self.parts.read(stage))
        )
        moved = [
            abs(target["new"] - within[other]["new"])
            for other, target in without.items()
            if other != case_id and other in within and target["new"] is not None
        ]
        own = without.get(case_id, {})
        return {"undone_new": own.get("new"), "undone_old": own.get("old"), "undone_others": moved}


def _file(stage: str) -> str:
    return f"{stage}.json"


def _stage(label: str, edits: int, kind: str = "after") -> str:
    return f"{label}/{kind}-{edits:05d}"
