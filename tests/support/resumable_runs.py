"""Every job that can be resumed, on inputs so small that it takes a moment; what it leaves; and how it is killed.

Each job writes below one folder, which is all that is left of it when it is killed.
"""

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anachron.io import files as io
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import Kind, open_run


@dataclass(frozen=True)
class Resumable:
    """run: does the job below a folder, with inputs from another, and settings that differ from the ordinary ones.
    changes: such a setting -> its value and how a refusal words it. kept: those that a finished job refuses too.
    lock: the lock file below the folder. elsewhere: how a refusal ends.
    """

    run: Callable[..., Any]
    changes: dict[str, tuple[Any, str]]
    kept: tuple[str, ...]
    lock: str = ".lock"
    elsewhere: str = "choose another --out"
    prepare: Callable[[Path], None] = field(default=lambda inputs: None)


def squares(numbers: int, out: Path, callbacks: Callbacks) -> list[int]:
    """A job that can be resumed, as short as it gets."""
    with open_run(out, {"numbers": numbers}, Kind.SCORES) as run:
        run.remove_leftovers("parts")
        for number in range(numbers):
            if not run.has(f"parts/{number}.json", callbacks.warn):
                run.write_json(f"parts/{number}.json", number**2)
            callbacks.progress(number + 1, numbers)
        run.finish()
        return [run.read_json(f"parts/{number}.json") for number in range(numbers)]


def _squares(out: Path, inputs: Path, numbers: int = 4) -> None:
    squares(numbers, out, Callbacks())


@functools.cache
def tiny_lm(family: str) -> Any:
    import torch

    from support.edit_models import make_edit_lm

    torch.set_num_threads(1)  # a copy of this process has none of its threads
    return make_edit_lm(family)


@functools.cache
def _statements() -> Any:
    from anachron.core.facts import Fact
    from anachron.core.periods import Period
    from anachron.data.dataset import Dataset
    from anachron.data.statements import FactWithQuestion, make_statements

    fact = Fact("France", "head of state", "Jacques Chirac", Period("1995", "2007"), "P35")
    table = make_statements([FactWithQuestion(fact, "who was the president of France?")])
    return Dataset("statements", table.head(120), "released")


def _probe(out: Path, inputs: Path, **changes: Any) -> None:
    from anachron.probe import run as module
    from support.small_runs import in_small_parts

    with pytest.MonkeyPatch.context() as patch:
        in_small_parts(patch, 40)
        module.run_probe(tiny_lm("gpt2"), _statements(), out, module.ProbeSettings(**changes))


def _evaluate(out: Path, inputs: Path, **changes: Any) -> None:
    from anachron.data.updates.case_records import EditCase
    from anachron.data.updates.cases import CaseSet
    from anachron.evaluate.measure import Measures
    from anachron.evaluate.run import EvaluateSettings, run_evaluation
    from support.edit_models import plan_fast

    given = {"mode": "batch", "size": 1, "measures": Measures(fluency_tokens=0)} | changes
    lm, settings = tiny_lm("llama"), EvaluateSettings(**given)
    methods = plan_fast(lm, {"FT": {"steps": 1, "layer": 1}}, "FT", "PROMPT")
    cases = [
        EditCase(
            subject, subject, f"The president of {subject} is", new, old, (f"Who leads {subject}?",), (), (), "P35"
        )
        for subject, new, old in (("France", "Angela Merkel", "Jacques Chirac"), ("Berlin", "team", "capital"))
    ]
    run_evaluation(lm, CaseSet("two updates", "wikifactdiff", tuple(cases), {}), methods, out, settings)


def _text(inputs: Path) -> None:
    (inputs / "text.txt").write_text("Paris is the capital of France. " * 40)


def _covariance(out: Path, inputs: Path, **changes: Any) -> None:
    from anachron.edit.covariance.collect import collect_covariance

    settings: dict[str, Any] = {"window": 32, "batch_tokens": 64} | changes
    modules = ["model.layers.1.mlp.down_proj", "model.layers.2.mlp.down_proj"]
    collect_covariance(
        tiny_lm("llama"), modules, inputs / "text.txt", tokens=200, cache=out, checkpoint_seconds=0, **settings
    )


def _mend(out: Path, inputs: Path, **changes: Any) -> None:
    from anachron.edit.methods.mend import MendSettings
    from anachron.edit.requests import EditRequest
    from anachron.edit.training.mend import train_mend
    from anachron.edit.training.mend_examples import MendExample

    examples = [
        MendExample(EditRequest("The president of {} is", subject, target), (f"{subject} is led by",), ("cities are",))
        for subject, target in (("France", "Emmanuel Macron"), ("Berlin", "Angela Merkel"))
    ]
    settings = MendSettings(**({"layers": (0, 1), "rank": 4, "steps": 4, "batch": 2} | changes))
    train_mend(tiny_lm("gpt2"), examples, out / "network", settings, checkpoint_every=1)


def _dump(inputs: Path) -> None:
    from wikidata.dumps import entity, item, statement, write_dump

    entities = [
        item(f"Q{n}", f"label {n}", title=f"Title {n}", claims=[statement("P31", entity(f"Q{n % 7 + 1}"))])
        for n in range(1, 21)
    ]
    write_dump(inputs / "dump.json", entities)


def _ingest(out: Path, inputs: Path, **changes: Any) -> None:
    from anachron.wikidata.reading.ingest import ingest
    from anachron.wikidata.reading.settings import IngestSettings

    settings = IngestSettings(**({"date": "2021-01-04", "buckets": 2} | changes))
    ingest(inputs / "dump.json", out, settings, range_bytes=6_000)


def _snapshots(inputs: Path) -> None:
    from wikidata.updates.world import write_world

    write_world(inputs, buckets=2)


def _updates(out: Path, inputs: Path, **changes: Any) -> None:
    from anachron.wikidata.reading.snapshot import open_snapshot
    from anachron.wikidata.updates.build import UpdateSettings, build_updates

    old, new = sorted((path.parent for path in inputs.glob("*/manifest.json")), key=_date)
    build_updates(open_snapshot(old), open_snapshot(new), out / "u.parquet", UpdateSettings(**changes))


def _date(snapshot: Path) -> str:
    return str(json.loads((snapshot / "manifest.json").read_text())["date"])


CACHE = "choose another cache (--cache or the variable ANACHRON_CACHE)"
JOBS = {
    "seventh": Resumable(_squares, {"numbers": (5, "numbers: 4 -> 5")}, ("numbers",)),
    "probe": Resumable(
        _probe,
        {"seed": (1, "seed: 0 -> 1"), "batch_tokens": (900, "tokens in a batch (batch_tokens): None -> 900"),
         "prefix_tree": (False, "shared beginnings computed once (prefix_tree): True -> False")},
        ("seed", "batch_tokens", "prefix_tree"),
    ),
    "evaluate": Resumable(
        _evaluate, {"mode": ("sequential", "mode: 'batch' -> 'sequential'"), "size": (2, "size: 1 -> 2")},
        ("mode", "size"),
    ),
    "covariance": Resumable(
        _covariance,
        {"batch_tokens": (32, "batch_tokens: 64 -> 32"), "window": (16, "window: 32 -> 16"),
         "precision": ("float32", "precision: 'float64' -> 'float32'")},
        ("window", "precision"), "*/*/.lock", CACHE, _text,
    ),
    "train-mend": Resumable(
        _mend,
        {"seed": (1, "seed: 0 -> 1"), "layers": ((0, 2), "layers[1]: 1 -> 2"), "steps": (3, "steps: 4 -> 3")},
        ("seed", "layers", "steps"), ".network.lock",
    ),
    "ingest": Resumable(
        _ingest,
        {"wiki": ("frwiki", "wiki: 'enwiki' -> 'frwiki'"), "limit": (3, "limit: None -> 3"),
         "buckets": (3, "buckets: 2 -> 3"), "date": ("2022-01-03", "date: '2021-01-04' -> '2022-01-03'")},
        ("wiki", "limit", "buckets", "date"), prepare=_dump,
    ),
    "build updates": Resumable(
        _updates,
        {"seed": (1, "seed: 0 -> 1"), "neighbours": (3, "neighbours: 10 -> 3"),
         "label_unchanged": (True, "unchanged_groups: 'skip' -> 'label'")},
        (), ".u.parquet.lock", prepare=_snapshots,
    ),
}  # fmt: skip


# What a job leaves


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but locks, and what killed writers left."""
    paths = (p for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.endswith(("lock", ".tmp")))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def result(folder: Path) -> dict[str, Any]:
    """What a job has made: bytes, but for how long it took and when."""
    made: dict[str, Any] = {}
    for name, data in files(folder).items():
        if name.endswith("run.json"):
            made[name] = {key: json.loads(data)[key] for key in ("status", "settings")}
        elif name.endswith("manifest.json"):
            made[name] = {k: v for k, v in json.loads(data).items() if k not in ("seconds", "started", "finished")}
        elif name.endswith(".parquet") and "seconds" in pl.read_parquet_schema(folder / name):
            made[name] = pl.read_parquet(folder / name).drop("seconds").to_dicts()
        else:
            made[name] = data
    return made


# How it is killed


class Killed(BaseException):
    """In the place of a signal that nothing can catch."""


@contextmanager
def killed_at(number: int, *, renamed: bool = False) -> Iterator[list[int]]:
    """Kill whatever runs at its write of this number, from 1: before the file takes its name, or right behind.

    From then on nothing is tidied up. Gives a list of the numbers of the writes so far.
    """
    replace, remove_file, writes = Path.replace, io.remove_file, list[int]()

    def write(self: Path, target: Any) -> Path:
        writes.append(len(writes) + 1)
        if len(writes) == number and not renamed:
            raise Killed
        named = replace(self, target)
        if len(writes) == number:
            raise Killed
        return named

    def tidy(path: Path) -> None:
        if len(writes) < number:
            remove_file(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", write)
        patch.setattr(io, "remove_file", tidy)
        yield writes
