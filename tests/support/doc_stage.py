"""A place where documented commands run offline: hub names are folders with the bundled model, ``mini`` is small.

Names of models and data sets need no replacement in a text that is run. A hub name is also a relative path, and in the
stage's folder that path exists: the bundled model's files for a model, a few facts of ``mini`` in the published columns
for a data set. On the stage's PATH, ``anachron`` and ``python`` run with ``mini`` cut to the same few facts, ``pip``
does nothing (what it would install is there), and ``make`` only looks whether the target exists, as it would set up an
environment of its own. Models under hub names read longer texts than the bundled one does, for it has no room for every
prefix.
"""

import bz2
import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl
import typer

from anachron.cli.main import command_tree
from anachron.data.columns import to_published
from anachron.data.loaders import load_dataset
from anachron.lm.tokenizers import demo_folder
from wikidata.dumps import entity, item, property_, statement, time, write_dump

ROOT = Path(__file__).parents[2]
SUBJECT = "Land Rover"  # three owners, one after the other: short questions, and successions
ROOM = 512  # tokens that the stand-ins read
LAUNCHER = """
import runpy, sys
from dataclasses import replace
from pathlib import Path

def main():
    import polars as pl
    from anachron.data import loaders
    few = pl.read_parquet(Path(__file__).parent / "few.parquet")
    loaders.BUNDLED["mini"] = lambda limit: few
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "anachron":
        from anachron.cli.entry import run
        run(sys.argv[1:])
    sys.path.insert(0, "")
    if sys.argv[0] == "-c":
        code = sys.argv.pop(1)
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        return
    runpy.run_path(sys.argv[0], run_name="__main__")

if __name__ == "__main__":  # worker processes import this file too
    main()
"""
MAKE = """
for target in "$@"; do
    grep -q "^$target:" {makefile} || {{ echo "make: no target $target" >&2; exit 2; }}
done
"""


def command_of(words: Sequence[str]) -> tuple[typer.core.TyperCommand, list[str]]:
    """The command that the words after ``anachron`` name, and the words after it."""
    rest = list(words)
    command = command_tree()
    while hasattr(command, "commands"):
        name = rest.pop(0)
        assert name in command.commands, f"anachron {' '.join(words)}: no command {name}"
        command = command.commands[name]
    return command, rest


def check_options(words: Sequence[str], where: str) -> None:
    """Fail when a command or an option does not exist. Values are not looked at: a text may hold placeholders."""
    command, rest = command_of(words)
    known = {option for p in command.params for option in (*p.opts, *p.secondary_opts)} | {"--help", "--debug"}
    for word in rest:
        assert not word.startswith("--") or word in known, f"{where}: no option {word}"


def parse(words: Sequence[str]) -> None:
    """Parse a complete command line as the program does; raises what it would raise."""
    command, rest = command_of(words)
    command.make_context("anachron", rest)


def _stand_in(folder: Path) -> None:
    folder.mkdir(parents=True)
    roomier = {"config.json": "max_position_embeddings", "tokenizer_config.json": "model_max_length"}
    for file in demo_folder().iterdir():
        if file.name in roomier:
            settings = json.loads(file.read_text("utf-8"))
            assert settings[roomier[file.name]] < ROOM
            (folder / file.name).write_text(json.dumps(settings | {roomier[file.name]: ROOM}), "utf-8")
        else:
            (folder / file.name).symlink_to(file)


def _dumps(folder: Path) -> None:
    """Wikidata dumps of a few presidents and months of page views, under the names of downloaded ones."""
    folder.mkdir()
    office = {
        "Q91": ("Abraham Lincoln", "1861-03-04", "1865-04-15"),
        "Q76": ("Barack Obama", "2009-01-20", "2017-01-20"),
    }
    held = [
        statement("P35", entity(q), qualifiers={"P580": time(a), "P582": time(b)}) for q, (_, a, b) in office.items()
    ]
    entities = [property_("P35", "head of state"), item("Q30", "USA", title="United States", claims=held)]
    entities += [item(q, name, title=name) for q, (name, *_) in office.items()]
    write_dump(folder / "wikidata-20210104-all.json.bz2", entities)
    (folder.parent / "more-entities").mkdir()
    for name, one in (
        ("Q30.json", entities[1]),
        ("Q142.json.gz", item("Q142")),
        ("more-entities/P35.json", entities[0]),
    ):
        write_dump(folder.parent / name, [one])
    later = statement("P35", entity("Q6279"), qualifiers={"P580": time("2021-01-20")})
    successor = item("Q6279", "Joe Biden", title="Joe Biden")
    entities[1] = item("Q30", "USA", title="United States", claims=[*held, later])
    later_folder = folder.with_name(f"{folder.name}-2023")
    later_folder.mkdir()
    write_dump(later_folder / "wikidata-20230227-all.json.bz2", [*entities, successor])
    titles = ["United_States", "Abraham_Lincoln", "Barack_Obama"]
    views = "".join(f"en.wikipedia {title} 1 desktop 160000 A1\n" for title in titles)
    for place, months in ((folder, ("202011", "202012")), (later_folder, ("202211", "202212"))):
        for month in months:
            (place / f"pageviews-{month}-user.bz2").write_bytes(bz2.compress(views.encode()))


class Stage:
    """The folder, and the environment in which commands run there."""

    def __init__(self, folder: Path, models: Iterable[str], datasets: Iterable[str] = ()) -> None:
        self.folder = folder
        self._off_stage = folder.parent / f"{folder.name}-behind"
        self._off_stage.mkdir()
        folder.mkdir(exist_ok=True)
        mini = load_dataset("mini")
        few = mini.table.filter(pl.col("subject_label") == SUBJECT)
        assert few["fact_id"].n_unique() == 3
        few.write_parquet(self._off_stage / "few.parquet")
        published = to_published(few, mini.boundaries)
        for name in models:
            _stand_in(folder / name)
        for name in datasets:
            path = folder / name
            if path.suffix == ".parquet":
                published.write_parquet(path)
            else:
                path.mkdir(parents=True)
                published.write_parquet(path / "data.parquet")
        _dumps(folder / "dumps")
        launcher = self._off_stage / "launcher.py"
        launcher.write_text(LAUNCHER)
        start = f"exec {shlex.quote(sys.executable)} {shlex.quote(str(launcher))}"
        self._command("anachron", f'{start} anachron "$@"')
        self._command("python", f'{start} "$@"')
        self._command("pip", "exit 0")
        self._command("make", MAKE.format(makefile=shlex.quote(str(ROOT / "Makefile"))))
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join(
                map(str, [self._off_stage / "bin", Path(sys.executable).parent, os.environ["PATH"]])
            ),
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
            "HF_HOME": str(self._off_stage / "hub"),
        }

    def _command(self, name: str, script: str) -> None:
        path = self._off_stage / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
