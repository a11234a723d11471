"""A command in a process of its own, killed by SIGKILL where it writes a file."""

import multiprocessing
import os
import signal
import traceback
from pathlib import Path
from typing import Any

BEGUN, NAMED = "half-written", "named"  # half of the file is there under another name; all of it, under its own
MOMENTS = (BEGUN, NAMED)
_processes = multiprocessing.get_context("forkserver")  # copies of a process that has imported what takes seconds
_processes.set_forkserver_preload(["anachron.report.refreshed", "anachron.cli.refresh", "anachron.lm.loading"])


def run_killed(words: list[str], folder: Path, mini: Path, place: str | None, moment: str, log: Path) -> int:
    """How the command ended: a negative number is the signal's.

    place: the file in the folder, or a folder that gets its name at last, at whose first write it is killed; None lets
    it end. mini: a table for the bundled statements, which take seconds to build. log: what the command says.
    """
    process = _processes.Process(target=_run, args=(words, folder, mini, place, moment, log))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _run(words: list[str], folder: Path, mini: Path, place: str | None, moment: str, log: Path) -> None:
    """Ends this process."""
    with log.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    try:
        import polars as pl
        import torch

        from anachron.advise import refresh
        from anachron.cli.main import run_command
        from anachron.data import loaders

        torch.set_num_threads(1)
        os.fsync = lambda descriptor: None
        loaders.BUNDLED["mini"] = lambda limit: pl.read_parquet(mini)
        refresh.BUNDLED_FACTS = 2
        if place is not None:
            _kill_at(folder / place, moment)
        code = run_command(words, False)
    except BaseException:  # noqa: BLE001  # an exit by itself would tidy up
        traceback.print_exc()
        code = 70
    os._exit(code)


def _kill_at(place: Path, moment: str) -> None:
    """Let this process be killed where a file, or a folder, gets this name."""
    renaming = {name: getattr(Path, name) for name in ("replace", "rename")}

    def killed(name: str) -> Any:
        def rename(self: Path, target: Any) -> Path:
            here = Path(target) == place
            if here and moment == BEGUN:
                if self.is_file():
                    os.truncate(self, self.stat().st_size // 2)
                os.kill(os.getpid(), signal.SIGKILL)
            found: Path = renaming[name](self, target)
            if here:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return rename

    for name in renaming:
        setattr(Path, name, killed(name))
