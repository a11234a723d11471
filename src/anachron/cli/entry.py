"""The program ``anachron``: its streams, and what Ctrl-C says, also while everything else is still being imported."""

import atexit
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anachron.cli.output import RESULTS

ROOM = 3 << 29  # bytes of addresses that torch and the smallest model take


def run(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    try:
        open_streams()
        look_for_room()
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        from anachron.cli.main import execute

        code = execute(argv)
        # the work is done, and Python takes a second or two to forget what it has loaded
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever cannot wait for the end of the process presses it again
        print("interrupted; finished work is kept, and the same command resumes from there", file=sys.stderr)
        code = 130
    sys.exit(code)


def open_streams() -> None:
    """Make stdout and stderr streams that take every text.

    A character that the terminal's encoding lacks is written as an escape, so that no work ends in an encoding error.
    A stream that was closed before the start (``>&-``) takes what comes and drops it. An error of stdout carries its
    name, `RESULTS`.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # in this order each takes the number that is free, which no other file may get
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    for name in ("write", "flush"):
        setattr(sys.stdout, name, _named(getattr(sys.stdout, name)))


def _named(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of stdout whose errors say that they are its own; those of a full disk could be any file's."""

    def called(*given: Any) -> Any:
        try:
            return method(*given)
        except OSError as error:
            error.filename = RESULTS
            raise

    return called


class _Room:
    """Stands before all that finds modules, and finds none."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise `MemoryError` where torch is wanted and does not fit: it ends the process without a word."""
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if name == "torch" and name not in sys.modules and _used() + ROOM > limit:
            raise MemoryError(f"ulimit -v {limit >> 10} leaves less than {ROOM >> 20:,} MiB to torch and a model")


def look_for_room() -> None:
    """Where the addresses of this process are limited (``ulimit -v``), look for room before torch is loaded."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        sys.meta_path.insert(0, _Room)


def _used() -> int:
    """Bytes of addresses that this process has; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    run()
