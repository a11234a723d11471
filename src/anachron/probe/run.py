"""A probe run: every statement of a data set scored by one model, into a folder that survives being killed."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from anachron.data.columns import MORE_SCHEMA
from anachron.data.loaders import Dataset, load_dataset
from anachron.errors import ConfigError, DataError
from anachron.io import Json, locked, read_table, versions, write_table
from anachron.lm.formats import PREFIXES, ChatTemplate, Format
from anachron.lm.loading import load_model
from anachron.lm.numerics import deterministic
from anachron.lm.packing import distinct_prefixes
from anachron.lm.plans import Plan, tokens_computed
from anachron.lm.scorer import Scorer, check_scores
from anachron.lm.scoring import Counters
from anachron.probe import runs
from anachron.probe.audit import Audit, audited

PART_TEXTS = 1024  # texts a part: what a killed run can lose
NOISE_SAMPLE = 100
SCORE_COLUMNS = (
    "model", "format", "prefix", "fact_id", "granularity", "time", "status", "alpha", "logp", "n_tokens", "start",
    "end", "relation_id", "relation_label", "subject_label", "object_label", "popularity", "other_objects",
)  # fmt: skip


@dataclass(frozen=True)
class ProbeSettings:
    """How a data set is put to a model.

    format: ``raw`` or ``chat``.
    prefix: a name of `anachron.lm.formats.PREFIXES`, or the path of a text file whose content is used as it is.
    label: what the model is called in tables; by default the last part of its name.
    batch_tokens: most tokens a batch, by default what suits the device; part of a run's identity.
    packing: compute what texts share once, where the model takes it; off for padded batches everywhere.
    all_occurrences, answer_in_user_turn, native_softmax: see `anachron.lm.formats.Format` and
        `anachron.lm.scoring`; off except to compare with the published code.
    deterministic: see `anachron.lm.numerics`.
    seed: of the noise measurement.
    """

    format: str = "raw"
    prefix: str = "none"
    label: str | None = None
    batch_tokens: int | None = None
    packing: bool = True
    all_occurrences: bool = False
    answer_in_user_turn: bool = False
    native_softmax: bool = False
    deterministic: bool = False
    seed: int = 0


@dataclass(frozen=True)
class ProbeResult:
    """A finished run: its folder, its record (``run.json``) and its score table."""

    folder: Path
    record: Json
    scores: pl.DataFrame

    @property
    def noise(self) -> float:
        """Largest difference seen between two scores of one text in different batches."""
        return float(self.record["noise"]["largest"])


@dataclass(frozen=True)
class Callbacks:
    """How a run tells the outside: warnings, and texts done out of all (and perhaps of what)."""

    warn: Callable[[str], None] = lambda message: None
    progress: Callable[..., None] = lambda done, total, note="": None


def prefix_text(prefix: str) -> tuple[str, str]:
    """(name, text) of a prefix given by name or by file. Raises `ConfigError` when it is neither."""
    if prefix in PREFIXES:
        return prefix, PREFIXES[prefix]
    path = Path(prefix)
    if not path.is_file():
        raise ConfigError(f"prefix {prefix!r} is neither a file nor one of {', '.join(PREFIXES)}")
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"prefix file {prefix}: not UTF-8 text ({error})") from error
    return (prefix if path.name in PREFIXES else path.name), text


def run_probe(
    model: str | Scorer,
    dataset: str | Dataset,
    out: Path | str,
    settings: ProbeSettings | None = None,
    *,
    callbacks: Callbacks | None = None,
) -> ProbeResult:
    """Score every statement of a data set, resuming where an interrupted run of the same settings stopped.

    model: a loaded model, or a name for `load_model`. dataset: a loaded data set, or a name for `load_dataset`.
    out: the run folder (see `anachron.probe.runs`).

    The batch plan is fixed before the first batch and stored, so a resumed run gives the same bytes as one that was
    never interrupted. Raises `ConfigError` when the folder holds a run with other settings or is in use, and
    `DataError`, `ModelError` or `BackendError` as the parts do; finished parts stay.
    """
    settings = settings or ProbeSettings()
    callbacks = callbacks or Callbacks()
    lm = load_model(model) if isinstance(model, str) else model
    data = load_dataset(dataset) if isinstance(dataset, str) else dataset
    folder = Path(out)
    with locked(folder / ".lock", f"{folder} is in use by another run; wait for it or choose another --out"):
        identity, style = _identity(lm, data, settings)
        record = runs.open_run(folder, identity)
        style = _freeze_date(lm, style, record, callbacks)
        if record["status"] == "done" and (folder / runs.SCORES_FILE).is_file():
            return ProbeResult(folder, record, runs.read_scores(folder))
        with deterministic(settings.deterministic):
            return _Run(lm, data, settings, folder, record, style, callbacks).finish()


def _identity(lm: Scorer, data: Dataset, settings: ProbeSettings) -> tuple[Json, Format]:
    """What must match for a run to be resumed, and the format of its texts."""
    prefix_name, prefix = prefix_text(settings.prefix)
    style = Format(
        kind=settings.format,  # type: ignore[arg-type]
        prefix=prefix,
        all_occurrences=settings.all_occurrences,
        answer_in_user_turn=settings.answer_in_user_turn,
    )
    identity = {
        "label": settings.label or Path(lm.name).resolve().name,
        **lm.identity(),
        "format": settings.format,
        "prefix": prefix_name,
        "prefix_text": prefix,
        "edit_prefix": lm.prefix or None,
        "all_occurrences": settings.all_occurrences,
        "answer_in_user_turn": settings.answer_in_user_turn,
        "native_softmax": settings.native_softmax,
        "dataset": data.name,
        "dataset_fingerprint": data.fingerprint(),
        "boundaries": data.boundaries,
        "batch_tokens": settings.batch_tokens,
        "packing": settings.packing,
        "deterministic": settings.deterministic,
        "seed": settings.seed,
    }
    return identity, style


def _freeze_date(lm: Scorer, style: Format, record: Json, callbacks: Callbacks) -> Format:
    """Fix the date that a chat template calls today, once for all of a run."""
    if style.kind != "chat":
        return style
    template = ChatTemplate(lm.tokenizer, record.get("template_date"))
    template.fill("?", ".")
    if template.asks_date:
        record["template_date"] = template.today
        callbacks.warn(f"the chat template inserts the current date; it is frozen to {template.today} in run.json")
    return Format(style.kind, style.prefix, template.today, style.all_occurrences, style.answer_in_user_turn)


def _new_session(scorer: Scorer) -> Json:
    return {
        "started": runs.now(),
        "versions": versions(),
        "hardware": scorer.hardware(),
        "statements": 0,
        "seconds": 0.0,
    }


class _Run:
    """The state of one run while it goes on."""

    def __init__(
        self, lm: Scorer, data: Dataset, settings: ProbeSettings, folder: Path, record: Json, style: Format,
        callbacks: Callbacks,
    ) -> None:  # fmt: skip
        self.lm, self.data, self.settings, self.folder = lm, data, settings, folder
        self.record, self.callbacks = record, callbacks
        self.session = _new_session(lm)
        self.counters = Counters()
        style = replace(style, prefix=lm.prefix + style.prefix)
        found, encoded = audited(data.table, lm.tokenizer, style, data.boundaries)
        _warn_of(found, callbacks)
        lm.check(encoded)
        record["audit"] = found.as_dict()
        self.texts = list(dict.fromkeys(encoded))
        place = {text: i for i, text in enumerate(self.texts)}
        self.text_of_row = np.array([place[text] for text in encoded])
        record["model"] = lm.about()
        runs.write_record(folder, record)  # only now: a command that cannot be scored leaves no run behind
        self.plan = self._plan()

    def _plan(self) -> list[Plan]:
        """A plan for each part; read back from the folder when it is there."""
        path = self.folder / runs.PLAN_FILE
        if not path.is_file():
            made = self.lm.plan(self.texts, self.settings.batch_tokens, packing=self.settings.packing)
            self.record["plan"] = {
                "packed": made.packed, "refusal": made.refusal, "batch_tokens": made.batch_tokens,
            }  # fmt: skip
            runs.write_record(self.folder, self.record)
            write_table(path, _plan_table(made.batches))
        stored = read_table(path)
        if stored.height != len(self.texts):
            raise DataError(f"{path}: {stored.height} texts planned, {len(self.texts)} expected; use a new --out")
        parts: list[Plan] = []
        for (part, _), group in stored.group_by(["part", "batch"], maintain_order=True):
            if len(parts) <= part:
                parts.append(Plan([], self.record["plan"]["packed"], self.record["plan"]["batch_tokens"]))
            parts[-1].batches.append(group["text"].to_list())
        self.record |= {
            "statements": self.data.table.height,
            "texts": len(self.texts),
            "tokens_planned": sum(tokens_computed(self.texts, part) for part in parts),
            "tokens_ideal": distinct_prefixes(self.texts),
            "answer_rows": sum(len(text.targets) for text in self.texts),
        }
        return parts

    def finish(self) -> ProbeResult:
        """Score what is missing, measure the noise, and put the parts together."""
        self.record["sessions"].append(self.session)
        missing = {n: plan for n, plan in enumerate(self.plan) if not runs.part_path(self.folder, n).is_file()}
        done = len(self.texts) - sum(len(plan.texts) for plan in missing.values())

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self.callbacks.progress(done, len(self.texts))

        advance(0)
        found = self.lm.score_parts(
            self.texts, missing, native_softmax=self.settings.native_softmax, progress=advance
        )  # fmt: skip
        started = time.perf_counter()
        for number, scores, counters in found:
            check_scores(scores, self.lm, self.plan[number].texts)
            self._keep_part(number, scores, counters)
            self.session["seconds"] += time.perf_counter() - started
            self._save_session()
            started = time.perf_counter()
        table = self._gather()
        self.record["noise"] = self._noise(table)
        write_table(self.folder / runs.SCORES_FILE, table)
        self.record |= {"status": "done", "finished": runs.now()}
        self._save_session()
        if self.session["halvings"]:
            self.callbacks.warn(
                f"{self.session['halvings']} batches ran out of memory and were halved; scores agree within the noise "
                "that the run measured"
            )
        return ProbeResult(self.folder, self.record, table)

    def _keep_part(self, number: int, scores: np.ndarray, counters: Counters) -> None:
        texts = self.plan[number].texts
        scored = np.full(len(self.texts), np.nan)
        scored[texts] = scores
        rows = np.flatnonzero(np.isin(self.text_of_row, texts))
        write_table(runs.part_path(self.folder, number), self._score_rows(rows, scored))
        self.counters.add(counters)
        self.session["statements"] += len(rows)

    def _score_rows(self, rows: np.ndarray, scored: np.ndarray) -> pl.DataFrame:
        texts = self.text_of_row[rows]
        identity = self.record["settings"]
        return (
            self.data.table[rows]
            .with_columns(
                pl.lit(identity["label"]).alias("model"),
                pl.lit(identity["format"]).alias("format"),
                pl.lit(identity["prefix"]).alias("prefix"),
                pl.Series("logp", scored[texts], pl.Float64),
                pl.Series("n_tokens", [len(self.texts[i].targets) for i in texts], pl.Int32),
            )
            .select(*SCORE_COLUMNS, *(name for name in MORE_SCHEMA if name in self.data.table.columns))
        )

    def _gather(self) -> pl.DataFrame:
        """All parts as one table in the order of the data set."""
        order: list[np.ndarray] = []
        tables: list[pl.DataFrame] = []
        for part, plan in enumerate(self.plan):
            rows = np.flatnonzero(np.isin(self.text_of_row, plan.texts))
            table = read_table(runs.part_path(self.folder, part))
            if table.height != len(rows):
                raise DataError(
                    f"{runs.part_path(self.folder, part)} has {table.height} rows, not {len(rows)}; delete it and "
                    "repeat the command"
                )
            order.append(rows)
            tables.append(table)
        return pl.concat(tables)[np.argsort(np.concatenate(order), kind="stable")].rechunk()

    def _noise(self, scores: pl.DataFrame) -> Json:
        """Score a sample again in shuffled batches: what differs is the backend's noise, in nats."""
        first = {int(t): i for i, t in reversed(list(enumerate(self.text_of_row)))}
        chooser = random.Random(self.settings.seed)
        sample = chooser.sample(range(len(self.texts)), min(NOISE_SAMPLE, len(self.texts)))
        sizes = [1, 3, 7, 13]
        batches: list[list[int]] = []
        start = 0
        while start < len(sample):
            size = sizes[len(batches) % len(sizes)]
            batches.append(list(range(start, min(start + size, len(sample)))))
            start += size
        plan = Plan(batches, packed=False, batch_tokens=0)
        texts = [self.texts[i] for i in sample]
        ((_, again, _),) = self.lm.score_parts(texts, {0: plan}, native_softmax=self.settings.native_softmax)
        check_scores(again, self.lm, sample)
        before = scores["logp"].to_numpy()[[first[i] for i in sample]]
        gap = np.abs(again - before)
        return {"sample": len(sample), "largest": float(gap.max()), "mean": float(gap.mean())}

    def _save_session(self) -> None:
        self.session["halvings"] = self.counters.halvings
        self.session["tokens_computed"] = self.counters.tokens
        seconds = self.session["seconds"]
        self.session["statements_per_second"] = self.session["statements"] / seconds if seconds else None
        runs.write_record(self.folder, self.record)


def _plan_table(batches: Sequence[Sequence[int]]) -> pl.DataFrame:
    rows: list[tuple[int, int, int]] = []
    part = held = 0
    for number, batch in enumerate(batches):
        if held and held + len(batch) > PART_TEXTS:
            part, held = part + 1, 0
        held += len(batch)
        rows += [(part, number, text) for text in batch]
    return pl.DataFrame(rows, schema={"part": pl.Int32, "batch": pl.Int32, "text": pl.Int64}, orient="row")


def _warn_of(found: Audit, callbacks: Callbacks) -> None:
    if found.unscorable:
        raise DataError(
            f"{found.unscorable} of {found.statements} statements cannot be scored, for instance: "
            f"{found.examples['unscorable'][0]}"
        )
    for name, what in (
        ("straddling", "answers start inside a token that also holds the end of the question"),
        ("answer_in_prompt", "statements already hold their answer in the question"),
        ("status_differs", "statements have a status that does not follow from their dates"),
        ("alpha_differs", "statements have an Alpha that does not follow from their dates"),
        ("repeated", "texts occur for more than one fact or date"),
    ):
        count = getattr(found, name)
        if count:
            callbacks.warn(f"{count} {what}, for instance: {found.examples[name][0]}")
    if any(count > 1 for count in found.bos):
        callbacks.warn("some texts start with more than one start-of-text token; check the tokenizer or template")
