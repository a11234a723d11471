"""A probe run: every statement of a data set scored by one model, into a folder that survives being killed."""

import hashlib
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from anachron.core.errors import DataError
from anachron.core.notebook import html_record
from anachron.data.columns import BESIDE_SCORES
from anachron.data.dataset import Dataset
from anachron.data.loaders import load_dataset
from anachron.data.own.files import is_fact_file
from anachron.io.files import Json, versions
from anachron.io.jobs import Callbacks, now
from anachron.io.run_folder import Kind, RunFolder, open_run
from anachron.io.tables import table_bytes
from anachron.lm.formats import ChatTemplate, Format, in_force
from anachron.lm.loading import load_model
from anachron.lm.numerics import deterministic
from anachron.lm.plans import Plan, tokens_computed
from anachron.lm.prefix_tree import distinct_prefixes
from anachron.lm.scorer import Scorer, check_log_probs
from anachron.lm.scoring import Counters
from anachron.probe.audit import audited, tell
from anachron.probe.noise import measure_noise
from anachron.probe.parts import PART_TEXTS, PLAN_SCHEMA, part_fault, plan_fault, plan_table
from anachron.probe.prefixes import prefix_text
from anachron.probe.questions import date_style, questions_of_run
from anachron.probe.reuse import Earlier, read_earlier, reusable, take_over, text_digests
from anachron.probe.reuse import renew as renew_run
from anachron.probe.runs import (
    ASKED_FILE,
    DECOY_COLUMNS,
    DECOYS_FILE,
    LEFT_OUT_FILE,
    OWN_FILES,
    PARTS,
    PLAN_FILE,
    QUESTIONS_FILE,
    SCORES_FILE,
    TEXTS_FILE,
    WORDING_COLUMNS,
    WORDINGS_FILE,
    part_name,
    recorded_as_of,
    rename,
)
from anachron.probe.unopened import Unopened, keep_source, recorded_identity

SCORE_COLUMNS = (
    "model", "format", "prefix", "fact_id", "granularity", "time", "status", "alpha", "logp", "n_tokens", "start",
    "end", "relation_id", "relation_label", "subject_label", "object_label", "popularity", "other_objects",
)  # fmt: skip
IDS = ("subject_id", "object_id")  # behind them, where some fact has one: two entities may share a label


@dataclass(frozen=True)
class ProbeSettings:
    """How a data set is put to a model.

    format: ``raw`` or ``chat``.
    prefix: a name of `anachron.lm.formats.PREFIXES`, or the path of a text file whose content is used as it is,
        but for a byte order mark.
    label: name of the model in tables; by default the last part of its name. It is not part of a run's identity:
        giving another label for an existing run renames it.
    batch_tokens: maximum number of tokens per batch, by default chosen for the device; part of a run's identity.
    prefix_tree: compute shared prefixes of texts only once, if the model supports it; off for padded batches.
    all_occurrences, answer_in_user_turn, native_softmax: see `anachron.lm.formats.Format` and
        `anachron.lm.scoring`; off except to compare with the published code.
    deterministic: see `anachron.lm.numerics`.
    seed: seed for the noise measurement.
    """

    format: str = "raw"
    prefix: str = "none"
    label: str | None = None
    batch_tokens: int | None = None
    prefix_tree: bool = True
    all_occurrences: bool = False
    answer_in_user_turn: bool = False
    native_softmax: bool = False
    deterministic: bool = False
    seed: int = 0


@dataclass(frozen=True)
class ProbeResult:
    """A finished run: its folder, its record (``run.json``), its score table, and that of its decoys if it has any
    (`anachron.probe.runs.DECOY_COLUMNS`)."""

    folder: Path
    record: Json
    scores: pl.DataFrame
    decoys: pl.DataFrame | None = None

    @property
    def noise(self) -> float:
        """Largest difference seen between two scores of one text in different batches."""
        return float(self.record["noise"]["largest"])

    def _repr_html_(self) -> str:
        settings = self.record["settings"]
        return html_record(
            f"Run of {settings['label']}",
            {
                "model": settings["model"], "format": settings["format"], "prefix": settings["prefix"],
                "facts": f"{self.scores['fact_id'].n_unique():,}", "statements": f"{self.scores.height:,}",
                "noise": f"{self.noise:.1e} nats", "finished": self.record.get("finished"), "folder": self.folder,
            },
        )  # fmt: skip


def run_probe(
    model: str | Scorer,
    dataset: str | Dataset,
    out: Path | str,
    settings: ProbeSettings | None = None,
    *,
    callbacks: Callbacks | None = None,
    reuse: Path | str | None = None,
    renew: bool = False,
) -> ProbeResult:
    """Score every statement of a data set, resuming where an interrupted run of the same settings stopped.

    model: a loaded model, or a name for `load_model`. dataset: a loaded data set, or a name for `load_dataset`.
    out: the run folder (see `anachron.probe.runs`). reuse: the folder of an earlier run, whose scores of the same texts
    are taken over as they are where its settings are the same but for the data set (`anachron.probe.reuse`). renew: let
    a folder's run begin anew, with all its scores, where only the content of its data set was edited since.

    The batch plan is fixed before the first batch and stored, so a resumed run gives the same bytes as one that was
    never interrupted. A file that is not as the run wrote it is made again, with a warning. Raises `ConfigError` when
    the folder holds a run with other settings or is in use, `DataError`, `ModelError` or `BackendError` as the parts
    do, and `BackendError` where texts that are scored again get other scores (`anachron.probe.noise`); finished parts
    stay.
    """
    settings = settings or ProbeSettings()
    callbacks = callbacks or Callbacks()
    lm = load_model(model) if isinstance(model, str) else model
    folder = Path(out)
    data = _named(dataset, folder) if isinstance(dataset, str) else dataset
    recorded = recorded_identity(lm, folder)
    of_model = recorded or {**lm.identity(), "edit_prefix": lm.prefix or None}
    identity, style = _identity(lm.name, of_model, data, settings)
    earlier = None
    if reuse is not None and Path(reuse).resolve() != folder.resolve():
        earlier = read_earlier(Path(reuse), identity, callbacks.warn)
    if renew:
        renew_run(folder, identity)
    with open_run(folder, identity, Kind.SCORES, PARTS) as run:
        if settings.label is not None and settings.label != run.record["settings"]["label"]:
            rename(run, settings.label)
        if recorded is None:
            keep_source(lm, run, of_model)
        own = {name for name in run.record["files"] if name in OWN_FILES or name.startswith(f"{PARTS}/")}
        if run.is_done and {PLAN_FILE, SCORES_FILE} <= own and all(map(run.has, own)):
            decoys = run.read_table(DECOYS_FILE) if DECOYS_FILE in own else None
            return ProbeResult(folder, run.record, run.read_table(SCORES_FILE), decoys)
        if isinstance(lm, Unopened):
            lm = lm.open()
        if earlier is not None and earlier.template_date is not None:
            run.record.setdefault("template_date", earlier.template_date)  # else every text would be another
        style = _freeze_date(lm, style, run.record, callbacks)
        with deterministic(settings.deterministic):
            return _Run(lm, data, settings, run, style, callbacks, earlier).finish()


def _named(dataset: str, folder: Path) -> Dataset:
    return load_dataset(dataset, as_of=recorded_as_of(folder) if is_fact_file(dataset) else None)


def _identity(name: str, of_model: Json, data: Dataset, settings: ProbeSettings) -> tuple[Json, Format]:
    """What must match for a run to be resumed, and the format of its texts. of_model: the model's part of it."""
    prefix_name, prefix = prefix_text(settings.prefix)
    published = {"all_occurrences": settings.all_occurrences, "answer_in_user_turn": settings.answer_in_user_turn}
    style = Format(settings.format, prefix, **published)  # type: ignore[arg-type]
    identity = {
        "label": settings.label or Path(name).resolve().name,
        **of_model,
        "format": settings.format,
        "prefix": prefix_name,
        "prefix_text": prefix,
        **published,
        "native_softmax": settings.native_softmax,
        "dataset": data.name,
        "dataset_fingerprint": data.fingerprint(),
        "boundaries": data.boundaries,
        **data.choices(),
        "batch_tokens": settings.batch_tokens,
        "prefix_tree": settings.prefix_tree,
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
    return replace(style, template_date=template.today)


# What else a run may score of its facts: the column that tells these rows, and where and with which columns they go
APART = {"decoy": (DECOYS_FILE, DECOY_COLUMNS), "wording": (WORDINGS_FILE, WORDING_COLUMNS)}


def _apart(whole: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    """The scores of the facts, and by the name of their file those of their decoys and wordings where there are any."""
    there = [name for name in APART if name in whole.columns]
    more = {APART[name][0]: whole.filter(pl.col(name).is_not_null()).select(APART[name][1]) for name in there}
    return whole.filter(pl.col(name).is_null() for name in there).drop(there) if there else whole, more


class _Run:
    """The state of one run while it goes on."""

    def __init__(
        self, lm: Scorer, data: Dataset, settings: ProbeSettings, run: RunFolder, style: Format, callbacks: Callbacks,
        earlier: Earlier | None = None,
    ) -> None:  # fmt: skip
        self.lm, self.data, self.settings, self.run = lm, data, settings, run
        self.record, self.callbacks = run.record, callbacks
        self.session: Json = {"started": now(), "versions": versions(), "hardware": lm.hardware()}
        self.session |= {"statements": 0, "seconds": 0.0}
        self.counters = Counters()
        self.table = data.statements()
        style = in_force(lm, style)
        audit, encoded = audited(self.table, lm.tokenizer, style, data.boundaries)
        tell(audit, callbacks.warn)
        lm.check(encoded)
        self.record["audit"] = audit.as_dict()
        self.texts = list(dict.fromkeys(encoded))
        place = {text: i for i, text in enumerate(self.texts)}
        self.text_of_row = np.array([place[text] for text in encoded])
        self.record |= {"model": lm.about(), "status": "running"}
        for name in (SCORES_FILE, DECOYS_FILE, WORDINGS_FILE):
            run.has(name, callbacks.warn)  # says so where it is damaged; it is made again in any case
        run.forget([SCORES_FILE, DECOYS_FILE, WORDINGS_FILE])
        run.save()  # only now: a command that cannot be scored leaves no run behind
        self.digests = text_digests(self.texts)
        if not run.has(TEXTS_FILE, callbacks.warn):
            run.write_table(TEXTS_FILE, pl.DataFrame({"text": [self.digests[i] for i in self.text_of_row]}))
        if earlier is not None and PLAN_FILE not in self.record["files"]:  # later the plan says what is scored
            take_over(run, earlier, self.digests)
        self.known = reusable(run, callbacks.warn)
        self.plan = self._plan()

    def _plan(self) -> list[Plan]:
        """A plan for each part; read back from the folder when it is there."""
        if not self.run.has(PLAN_FILE, self.callbacks.warn) or self._lost():
            self._make_plan()
        stored = self.run.read_table(PLAN_FILE)
        if fault := plan_fault(stored, len(self.texts)):
            raise DataError(f"{self.run.path / PLAN_FILE} is not the plan of this run: {fault}; use a new --out")
        parts: list[Plan] = []
        for (part, _), group in stored.group_by(["part", "batch"], maintain_order=True):
            if len(parts) <= part:
                parts.append(Plan([], self.record["plan"]["prefix_tree"], self.record["plan"]["batch_tokens"]))
            parts[-1].batches.append(group["text"].to_list())
        self.scored = self.record["plan"].get("parts_scored", len(parts))  # those behind them are taken over
        self.record |= {
            "statements": self.data.table.height,
            "texts": len(self.texts),
            "tokens_planned": sum(tokens_computed(self.texts, part) for part in parts[: self.scored]),
            "tokens_ideal": distinct_prefixes(self.texts),
            "answer_rows": sum(len(text.targets) for text in self.texts),
        }
        if self.data.decoys is not None:  # what the rest alone would take
            of_decoys = self.table["decoy"].is_not_null().to_numpy()
            of_facts = np.unique(self.text_of_row[~of_decoys])
            self.record |= {
                "decoy_statements": int(of_decoys.sum()),
                "tokens_ideal_without_decoys": distinct_prefixes([self.texts[text] for text in of_facts]),
            }
        return parts

    def _make_plan(self) -> None:
        """Plan the batches of what is not taken over, and behind them parts of what is, each text by itself. Parts that
        were made by another plan than this are made again."""
        new = [i for i, digest in enumerate(self.digests) if digest not in self.known]
        texts = [self.texts[i] for i in new]
        made = Plan([], prefix_tree=False, batch_tokens=0)
        if new:
            made = self.lm.plan(texts, self.settings.batch_tokens, prefix_tree=self.settings.prefix_tree)
        about = {"prefix_tree": made.prefix_tree, "refusal": made.refusal, "batch_tokens": made.batch_tokens}
        table = plan_table([[new[i] for i in batch] for batch in made.batches], PART_TEXTS)
        if len(new) < len(self.texts):
            about["parts_scored"] = parts = table["part"].n_unique()
            taken = plan_table([[i] for i in sorted({*range(len(self.texts))} - {*new})], PART_TEXTS)
            behind = (pl.col("part") + parts, pl.col("batch") + len(made.batches))
            table = pl.concat([table, taken.with_columns(behind).cast(PLAN_SCHEMA)])  # type: ignore[arg-type]
        content = table_bytes(table, ".parquet")
        self.record["trial"] = made.trial and made.trial.as_dict()
        files = self.record["files"]
        if self.record.get("plan") != about or files.get(PLAN_FILE) != hashlib.sha256(content).hexdigest():
            there = {f"{PARTS}/{path.name}" for path in (self.run.path / PARTS).glob("part-*.parquet")}
            if old := there | {name for name in files if name.startswith(f"{PARTS}/")}:
                self.callbacks.warn(
                    f"{len(old)} parts of {self.run.path} belong to a plan that is lost; they are scored again"
                )
            self.record["plan"] = about
            self.run.forget([PLAN_FILE, *sorted(old)])
        self.run.write(PLAN_FILE, content)

    def finish(self) -> ProbeResult:
        """Score what is missing, measure the noise, and put the parts together."""
        self.record["sessions"].append(self.session)
        warn = self.callbacks.warn
        missing = {n: plan for n, plan in enumerate(self.plan) if not self.run.has(part_name(n), warn)}
        self._take_over(missing)
        done = len(self.texts) - sum(len(plan.texts) for plan in missing.values())

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self.callbacks.progress(done, len(self.texts))

        advance(0)
        native_softmax = self.settings.native_softmax
        scored = self.lm.score_parts(self.texts, missing, native_softmax=native_softmax, progress=advance)
        started = time.perf_counter()
        for number, scores, counters in scored:
            check_log_probs(scores, self.lm, self.plan[number].texts)
            self.session["statements"] += self._write_part(number, scores)
            self.counters.add(counters)
            self.session["seconds"] += time.perf_counter() - started
            self._count_session()
            self.run.save()
            started = time.perf_counter()
        whole = self._gather()
        self.record["noise"] = self._noise(whole)
        table, more = _apart(whole)
        self.record["date_style"] = date_style(self.data.table)
        self.run.write_table(ASKED_FILE, questions_of_run(self.data))
        for name, beside in more.items():
            self.run.write_table(name, beside)
        if self.data.left_out is not None:
            self.run.write_table(LEFT_OUT_FILE, self.data.left_out)
        if self.data.to_edit is not None:
            self.run.write_table(QUESTIONS_FILE, self.data.to_edit)
        self.run.write_table(SCORES_FILE, table)
        self._count_session()
        self.run.finish()
        if self.counters.cached is not None:
            sent = self.counters.tokens + self.counters.cached
            computed = self.counters.tokens
            self.callbacks.notice(
                f"of {sent:,} tokens sent the server computed {computed:,}; the others were in its prefix cache"
            )
        if self.session["halvings"]:
            warn(
                f"{self.session['halvings']} batches ran out of memory and were halved; scores agree within the noise "
                "that the run measured"
            )
        return ProbeResult(self.run.path, self.record, table, more.get(DECOYS_FILE))

    def _lost(self) -> bool:
        """Whether scores that were to be taken over are neither in a part nor to be had any more."""
        first = self.record.get("plan", {}).get("parts_scored")
        if first is None or self.known:
            return False
        last = self.run.read_table(PLAN_FILE)["part"].max()
        return not all(self.run.has(part_name(n)) for n in range(first, int(last) + 1))  # type: ignore[arg-type]

    def _take_over(self, missing: dict[int, Plan]) -> None:
        """Write the parts of scores that an earlier run has, and leave in ``missing`` those to score."""
        if (reused := self.record.get("reused")) is None:
            return
        for number in [number for number in missing if number >= self.scored]:
            self._write_part(number, np.array([self.known[self.digests[i]] for i in missing.pop(number).texts]))
        reused["texts"] = sum(len(plan.texts) for plan in self.plan[self.scored :])
        self.callbacks.notice(
            f"{reused['texts']:,} of {len(self.texts):,} texts have the scores that they had in "
            f"{' and '.join(reused['from'])}; {len(self.texts) - reused['texts']:,} are new"
        )

    def _write_part(self, number: int, scores: np.ndarray) -> int:
        """Write the scores of a part's texts; how many statements it has."""
        scored = np.full(len(self.texts), np.nan)
        scored[self.plan[number].texts] = scores
        rows = self._rows(number)
        self.run.write_table(part_name(number), self._score_rows(rows, scored))
        return len(rows)

    def _rows(self, part: int) -> np.ndarray:
        """The statements of a part's texts, in the order of the data set."""
        return np.flatnonzero(np.isin(self.text_of_row, self.plan[part].texts))

    def _score_rows(self, rows: np.ndarray, scored: np.ndarray) -> pl.DataFrame:
        texts = self.text_of_row[rows]
        identity = self.record["settings"]
        return (
            self.table[rows]
            .with_columns(
                pl.lit(identity["label"]).alias("model"),
                pl.lit(identity["format"]).alias("format"),
                pl.lit(identity["prefix"]).alias("prefix"),
                pl.Series("logp", scored[texts], pl.Float64),
                pl.Series("n_tokens", [len(self.texts[i].targets) for i in texts], pl.Int32),
            )
            .select(*SCORE_COLUMNS, *self.more)
        )

    @cached_property
    def more(self) -> list[str]:
        """Columns of the score tables besides those that all have."""
        known = [name for name in IDS if self.table[name].null_count() < self.table.height]
        return [*known, *(name for name in (*APART, *BESIDE_SCORES) if name in self.table.columns)]

    def _gather(self) -> pl.DataFrame:
        """All parts as one table in the order of the data set."""
        order: list[np.ndarray] = []
        tables: list[pl.DataFrame] = []
        unknown = np.full(len(self.texts), np.nan)
        for part in range(len(self.plan)):
            rows = self._rows(part)
            table = self.run.read_table(part_name(part))
            if fault := part_fault(table, self._score_rows(rows, unknown)):
                raise DataError(
                    f"{self.run.path / part_name(part)} is not a part of this run: {fault}; delete it and repeat the "
                    "command"
                )
            order.append(rows)
            tables.append(table)
        whole = pl.concat(tables)[np.argsort(np.concatenate(order), kind="stable")].rechunk()
        return whole.with_columns(pl.lit(self.record["settings"]["label"]).alias("model"))  # it may have been renamed

    def _noise(self, scores: pl.DataFrame) -> Json:
        """How far scores of texts move that are scored again in other batches, here or where they are from."""
        first = {int(t): i for i, t in reversed(list(enumerate(self.text_of_row)))}
        before = scores["logp"].to_numpy()[[first[i] for i in range(len(self.texts))]]  # (texts,)
        of_earlier = self.record["reused"]["noise"] if self.scored < len(self.plan) else 0.0
        # A share of what was computed here, and one text at least of each part that was not; of all, where no run did
        parts = self.plan if of_earlier is None else self.plan[: self.scored]
        noise = measure_noise(
            self.lm, self.texts, before, {part_name(number): plan for number, plan in enumerate(self.plan)},
            computed=sum(tokens_computed(self.texts, part) for part in parts), seed=self.settings.seed,
            native_softmax=self.settings.native_softmax,
            progress=lambda done, texts: self.callbacks.progress(done, texts, "scored again"),
        )  # fmt: skip
        return noise | {"largest": max(noise["largest"], of_earlier or 0.0)}

    def _count_session(self) -> None:
        self.session["halvings"] = self.counters.halvings
        self.session["tokens_computed"] = self.counters.tokens
        self.session["tokens_cached"] = self.counters.cached
        self.session["hardware"] = self.lm.hardware()  # by which way a server scores is known by now
        seconds = self.session["seconds"]
        self.session["statements_per_second"] = self.session["statements"] / seconds if seconds else None
