"""Run folders: what identifies one, how it is created, refused, read, and put beside others.

A run folder holds ``run.json`` (settings, model, data set, versions, hardware, times), ``plan.parquet``
(which text is scored in which batch and part), ``scores/part-*.parquet`` (written as the run goes) and, once
done, ``scores.parquet`` (all parts in the order of the data set).
"""

import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from anachron.errors import ConfigError, DataError
from anachron.io import Json, read_json, read_table, versions, write_json

RUN_FILE, PLAN_FILE, SCORES_FILE, PARTS = "run.json", "plan.parquet", "scores.parquet", "scores"


def part_path(folder: Path, part: int) -> Path:
    return folder / PARTS / f"part-{part:05d}.parquet"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def hardware(device: str) -> Json:
    """What the scores were computed on."""
    found: Json = {
        "device": device,
        "machine": platform.machine(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
    }
    if device.startswith("cuda"):
        import torch

        found["gpu"] = torch.cuda.get_device_name(device)
    return found


def differences(old: Json, new: Json) -> list[str]:
    """Lines ``name: old -> new`` for every setting that differs."""
    return [
        f"{name}: {_short(old.get(name))} -> {_short(new.get(name))}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 70 else text[:67] + "..."


def open_run(folder: Path, settings: Json) -> Json:
    """The record of a run folder: that of an unfinished or finished run with the same settings, or a new one.

    Raises `ConfigError` with the differences when the folder holds a run with other settings, or other files.
    """
    if (folder / RUN_FILE).exists():
        record = read_json(folder / RUN_FILE)
        found = differences(record.get("settings", {}), settings)
        if found:
            raise ConfigError(
                f"{folder} holds a run with other settings ({'; '.join(found)}); "
                "choose another --out or the same settings"
            )
        return record
    if folder.is_file() or (folder.is_dir() and any(not p.name.startswith(".") for p in folder.iterdir())):
        raise ConfigError(f"{folder} is not empty and holds no {RUN_FILE}; choose a new or empty folder")
    return {"status": "running", "settings": settings, "started": now(), "sessions": []}


def new_session(device: str) -> Json:
    return {"started": now(), "versions": versions(), "hardware": hardware(device), "statements": 0, "seconds": 0.0}


def write_record(folder: Path, record: Json) -> None:
    write_json(folder / RUN_FILE, record)


def find_runs(path: Path | str) -> list[Path]:
    """Run folders at or below a path, in order of name. Raises `DataError` when there is none."""
    root = Path(path)
    found = [root] if (root / RUN_FILE).is_file() else sorted(p.parent for p in root.glob(f"*/{RUN_FILE}"))
    if not found:
        raise DataError(f"{path}: no run here (no {RUN_FILE}); give the folder that probe --out wrote")
    return found


def read_scores(folder: Path) -> pl.DataFrame:
    """The score table of a finished run. Raises `DataError` for an unfinished one."""
    if not (folder / SCORES_FILE).is_file():
        raise DataError(f"{folder}: the run is not finished; repeat its probe command to resume it")
    return read_table(folder / SCORES_FILE)


def read_runs(paths: Iterable[Path | str]) -> tuple[pl.DataFrame, float | None]:
    """Scores of one or more runs (or bare score tables) as one table, and the largest of their noises.

    Two runs of one name that differ in dtype or revision get labels that say so. The noise is ``None`` when a
    bare score table is among them.
    """
    tables: list[pl.DataFrame] = []
    records: list[Json] = []
    for path in paths:
        if Path(path).is_file():
            tables.append(read_table(path))
            records.append({})
        else:
            for folder in find_runs(path):
                tables.append(read_scores(folder))
                records.append(read_json(folder / RUN_FILE))
    if not tables:
        raise DataError("no score table and no run given")
    tables = [t.with_columns(pl.lit(name).alias("model")) if name else t for t, name in zip(
        tables, unique_labels(records), strict=True)]  # fmt: skip
    noises = [record.get("noise", {}).get("largest") for record in records]
    noise = None if any(n is None for n in noises) else max(noises)
    return pl.concat(tables, how="diagonal_relaxed"), noise


def unique_labels(records: Sequence[Json]) -> list[str | None]:
    """One label a run: its own, plus what tells it from another run of the same label, format and prefix."""
    settings = [record.get("settings") for record in records]
    keys = [None if s is None else (s["label"], s["format"], s["prefix"]) for s in settings]
    clash = {key for key, times in Counter(keys).items() if key is not None and times > 1}
    labels: list[str | None] = []
    for key, s in zip(keys, settings, strict=True):
        if s is None or key not in clash:
            labels.append(None if s is None else s["label"])
            continue
        rivals = [other for other, k in zip(settings, keys, strict=True) if k == key and other is not None]
        telling = [n for n in ("dtype", "revision") if len({str(other[n]) for other in rivals}) > 1]
        labels.append(" ".join([s["label"], *(str(s[n]) for n in telling)]))
    named = [(label, *key[1:]) for label, key in zip(labels, keys, strict=True) if key is not None]
    if len(set(named)) != len(named):
        twice = next(name for name, times in Counter(named).items() if times > 1)
        raise ConfigError(f"two runs are both called {twice[0]!r}; give one of them another --label when probing")
    return labels
