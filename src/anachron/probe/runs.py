"""Probe runs that are done: how they are found, read, and put beside others.

A run folder (`anachron.io.run_folder`) holds ``run.json`` (settings, model, data set, versions, hardware, times,
checksums), ``texts.parquet`` (a fingerprint of the text of each statement), ``plan.parquet`` (which text is scored in
which batch and part), ``scores/part-*.parquet`` (written as the run goes) and, where scores were taken over,
``reused-*.parquet`` (`anachron.probe.reuse`). Once it is done there are ``scores.parquet`` (all parts in the order of
the data set), where there are decoys ``decoys.parquet`` (their scores, `DECOY_COLUMNS`), where there are wordings
``wordings.parquet`` (`WORDING_COLUMNS`), ``asked.csv`` (the question of each fact) and, where rules were unsure of
some, ``questions.csv`` to mend.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from anachron.analysis.metrics import POOLED, RUN_KEYS
from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.io.files import Json, file_fingerprint
from anachron.io.jobs import locked
from anachron.io.run_folder import RUN_FILE, Kind, RunFolder
from anachron.io.tables import read_table

PLAN_FILE, SCORES_FILE, PARTS = "plan.parquet", "scores.parquet", "scores"
TEXTS_FILE = "texts.parquet"
ASKED_FILE, LEFT_OUT_FILE = "asked.csv", "left_out.csv"  # the latter of a run about a file of facts
QUESTIONS_FILE = "questions.csv"  # of one where a question is worth a look
DECOYS_FILE = "decoys.parquet"
WORDINGS_FILE = "wordings.parquet"
WORDING_COLUMNS = (
    "model", "format", "prefix", "fact_id", "wording", "granularity", "time", "status", "alpha", "logp", "n_tokens"
)  # fmt: skip
DECOY_COLUMNS = ("model", "format", "prefix", "fact_id", "decoy", "granularity", "time", "status", "logp", "n_tokens")
OWN_FILES = frozenset(
    {TEXTS_FILE, PLAN_FILE, SCORES_FILE, DECOYS_FILE, WORDINGS_FILE, ASKED_FILE, LEFT_OUT_FILE, QUESTIONS_FILE}
)  # a check writes more beside them


def part_name(part: int) -> str:
    return f"{PARTS}/part-{part:05d}.parquet"


def find_runs(path: Path | str) -> list[Path]:
    """Run folders at or below a path, in order of name. Raises `DataError` when there is none."""
    root = Path(path)
    folders = [root] if (root / RUN_FILE).is_file() else sorted(p.parent for p in root.glob(f"*/{RUN_FILE}"))
    if not folders:
        raise DataError(f"{path}: no run here (no {RUN_FILE}); give the folder that probe --out wrote")
    return folders


def recorded_as_of(folder: Path | str) -> Date | None:
    """The date up to which the facts of a run are known, where it records one: a run goes on as of its first day."""
    if not (Path(folder) / RUN_FILE).is_file():
        return None
    recorded = RunFolder.read(Path(folder)).record["settings"].get("as_of")
    return Date.parse(recorded) if isinstance(recorded, str) else None


def rename(run: RunFolder, label: str) -> None:
    """Call the model of a run otherwise; what it is and what was scored stay. The run's lock is held.

    The record goes first: a run that is killed between has its new name, and readers take names from the record.
    Raises `ConfigError` for a label that is empty or kept for all models together.
    """
    if not label.strip() or label == POOLED:
        raise ConfigError(f"label {label!r}: give a name that is not empty and not {POOLED!r}")
    run.record["settings"]["label"] = label
    run.save()
    for name in list(run.record["files"]):
        if name in (SCORES_FILE, DECOYS_FILE, WORDINGS_FILE):
            run.write_table(name, run.read_table(name).with_columns(pl.lit(label).alias("model")))
        elif name.endswith(".json"):  # check.json, ask.json, horizon.json
            found = run.read_json(name)
            if isinstance(found, dict) and "model" in found:
                run.write_json(name, found | {"model": label})


def rename_run(path: Path | str, label: str) -> str:
    """Rename the model of a probe run in tables, and return its former label. Nothing is scored again.

    Raises `DataError` where there is no run, `ConfigError` while it is in use and for an invalid label.
    """
    folder = Path(path)
    if not (folder / RUN_FILE).is_file():
        raise DataError(f"{folder}: no run here (no {RUN_FILE}); give the folder that probe --out wrote")
    with locked(folder / ".lock", folder):
        run = RunFolder.read(folder)
        before = run.record["settings"].get("label")
        if not isinstance(before, str) or "dataset_fingerprint" not in run.record["settings"]:
            raise DataError(f"{folder} holds no probe run; give the folder that probe --out wrote")
        rename(run, label)
    return before


def finished(folder: Path) -> RunFolder:
    """A run that is done. Raises `DataError` for an unfinished one, and for a record that is damaged or another's."""
    run = RunFolder.read(folder)
    if not run.is_done:
        raise DataError(f"{folder}: the run is not finished; repeat its probe command to resume it")
    if run.kind is Kind.ANSWERS:
        raise DataError(
            f"{folder} holds answers and no scores (of --backend chat or generate); its tables are facts.csv and "
            "ask.json, in it"
        )
    if SCORES_FILE not in run.record["files"]:
        raise DataError(f"{folder} holds a run without a score table; give the folder that probe --out wrote")
    settings, model, noise = (run.record.get(name, {}) for name in ("settings", "model", "noise"))
    wrong = [name for name in ("label", "format", "prefix") if not isinstance(settings.get(name), str)]
    wrong += [name for name, held in (("model", model), ("noise", noise)) if not isinstance(held, dict)]
    if wrong or not isinstance(noise.get("largest", 0.0), int | float):
        raise DataError(
            f"{folder / RUN_FILE} is not the record of a probe (its {(*wrong, 'noise')[0]} is missing or broken); give "
            "the folder that probe --out wrote"
        )
    return run


@dataclass(frozen=True)
class ScoreSource:
    """A score table: that of a run under the label that is its own among others, or a bare one (without a label).

    run: the folder that the table belongs to, if any.
    """

    file: Path
    label: str | None = None
    run: RunFolder | None = None

    @property
    def record(self) -> Json | None:
        return None if self.label is None or self.run is None else self.run.record

    def read(self) -> pl.DataFrame:
        """Its scores; of a run with the label as ``model``, the ``noise`` it measured, and each fact's ``question``.

        Raises `DataError` where the table is not as its run wrote it.
        """
        if self.run is None:
            return read_table(self.file)
        table = self.run.read_table(self.file.relative_to(self.run.path).as_posix())
        if self.record is None:
            return table
        noise = self.record.get("noise", {}).get("largest")
        table = table.with_columns(pl.lit(self.label).alias("model"), pl.lit(noise, pl.Float64).alias("noise"))
        if ASKED_FILE not in self.run.record["files"]:  # a run of before questions were kept
            return table
        asked = self.run.read_table(ASKED_FILE).select("fact_id", "question")
        return table.join(asked, on="fact_id", how="left", maintain_order="left")

    def read_more(self, file: str) -> pl.DataFrame | None:
        """The scores of a run's decoys (`DECOYS_FILE`, `DECOY_COLUMNS`) or wordings (`WORDINGS_FILE`,
        `WORDING_COLUMNS`) under its label; None where it has none. Raises as `read`."""
        if self.run is None or self.label is None or file not in self.run.record["files"]:
            return None
        return self.run.read_table(file).with_columns(pl.lit(self.label).alias("model"))


def _bare(file: Path) -> ScoreSource:
    """A table that is given by itself: one of a run, beside its record or among its parts, is checked against that."""
    for folder in (file.parent, file.parent.parent):
        if (folder / RUN_FILE).is_file() and (folder == file.parent or file.parent.name == PARTS):
            return ScoreSource(file, None, RunFolder.read(folder))
    return ScoreSource(file)


def find_sources(paths: Iterable[Path | str]) -> list[ScoreSource]:
    """Score tables, run folders and folders of run folders, with labels that tell the runs apart.

    Runs of one name that differ in model, dtype or revision get labels that say so. Raises `DataError` where there is
    no finished run, `ConfigError` when two runs cannot be told apart.
    """
    sources: list[ScoreSource] = []
    for path in map(Path, paths):
        if path.is_file():
            sources.append(_bare(path))
        else:
            runs = [finished(folder) for folder in find_runs(path)]
            sources += [ScoreSource(run.path / SCORES_FILE, run.record["settings"]["label"], run) for run in runs]
    if not sources:
        raise DataError("no score table and no run given")
    folders = [None if source.run is None else source.run.path for source in sources]
    labels = unique_labels([source.record or {} for source in sources], folders)
    return [replace(source, label=label) for source, label in zip(sources, labels, strict=True)]


def fingerprints(sources: Iterable[ScoreSource]) -> Json:
    """SHA-256 of each source's score table, by its path."""
    return {str(source.file): file_fingerprint(source.file) for source in sources}


def read_sources(sources: Iterable[ScoreSource]) -> Iterator[pl.DataFrame]:
    """Each score table in turn. Raises `ConfigError` when two hold scores of one model, format and prefix."""
    seen: set[tuple[str, ...]] = set()
    for source in sources:
        table = source.read()
        if set(RUN_KEYS) <= set(table.columns):
            keys = set(table.select(RUN_KEYS).unique().iter_rows())
            for model, form, prefix in sorted(seen & keys, key=str):
                raise ConfigError(f"two sources hold scores of {model!r}, {form}, prefix {prefix}; rename one of them")
            seen |= keys
        yield table


def read_runs(paths: Iterable[Path | str]) -> pl.DataFrame:
    """Scores of one or more runs (or bare score tables) as one table.

    A column ``noise`` holds what each run measured of its own; it is null for bare tables that have none. See
    `find_sources` for the labels and the errors.
    """
    return pl.concat(list(read_sources(find_sources(paths))), how="diagonal_relaxed")


def distinct_names(names: Sequence[str]) -> list[str]:
    """The last part of each path or hub name, with as many parts before it as tell the names apart."""
    parts = [Path(name).resolve().parts for name in names]
    for length in range(1, max(map(len, parts), default=0) + 1):
        ends = ["/".join(part[-length:]) for part in parts]
        if len(set(ends)) == len(set(parts)):
            return ends
    return list(names)


def unique_labels(records: Sequence[Json], folders: Sequence[Path | None] = ()) -> list[str | None]:
    """One label a run: its own, or where runs of that label differ, with more of the model's path, dtype and revision.

    ``None`` for records without settings (bare tables). Raises `ConfigError` when two runs cannot be told apart.
    folders: of the runs, for its message.
    """
    settings = [record.get("settings") for record in records]
    labels: list[str | None] = []
    for one in settings:
        if one is None:
            labels.append(None)
            continue
        namesakes = [other for other in settings if other is not None and other["label"] == one["label"]]
        telling = [n for n in ("dtype", "revision") if len({str(other.get(n)) for other in namesakes}) > 1]
        models = sorted({str(other.get("model")) for other in namesakes})
        named_by_path = all(one["label"] == Path(name).resolve().name for name in models)
        label = dict(zip(models, distinct_names(models), strict=True))[str(one.get("model"))] if named_by_path else None
        labels.append(" ".join([label or one["label"], *(str(one.get(n)) for n in telling)]))
    places: dict[tuple[Any, ...], list[Path | None]] = {}
    for label, one, folder in zip(labels, settings, folders or [None] * len(labels), strict=True):
        if one is not None:
            places.setdefault((label, one["format"], one["prefix"]), []).append(folder)
    for (label, form, prefix), same in places.items():
        if len(same) > 1:
            run = "RUN" if same[-1] is None else shlex.quote(str(same[-1]))
            raise ConfigError(
                f"{len(same)} runs are all called {label!r}, {form}, prefix {prefix}; give one another name, which "
                f"scores nothing again: anachron runs rename {run} NAME"
            )
    return labels
