"""Every error that Anachron raises on purpose, so that callers can tell them from bugs.

Each message states the value that was wrong, the rule it broke and the way out.
"""

import errno
import os
import re
import shlex

_WAYS_OUT = {
    errno.ENOSPC: "free the disk, or choose another place for it",
    errno.EDQUOT: "free some of your quota, or choose another place for it",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f), or choose another disk",
    errno.EISDIR: "that is a folder; name a file",
    errno.ENOTDIR: "a part of that path is a file; choose another place for it",
    errno.EEXIST: "a part of that path is a file; choose another place for it",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.EROFS: "that disk is read-only; choose another place for it",
    errno.ENAMETOOLONG: "choose a shorter name",
}
_OUT_OF_MEMORY = (
    "failed to map segment",
    "bad_alloc",
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "not enough memory",
)
_OF_RUST = re.compile(r"\(os error (\d+)\)")  # how libraries written in Rust put an error of the system


class AnachronError(Exception):
    """Base of all errors raised on purpose."""


class DataError(AnachronError, ValueError):
    """A date, fact, data set or score table breaks a rule."""


class ConfigError(AnachronError, ValueError):
    """Options contradict each other, or do not match what an existing run folder was made with."""


class ModelError(AnachronError, RuntimeError):
    """A model or tokenizer cannot be loaded or cannot do what was asked."""


class TooLongError(ModelError):
    """A text has more tokens than a model reads."""


class BackendError(AnachronError, RuntimeError):
    """What computes scores failed: memory, disk or a server."""


def how_to_install(extra: str) -> str:
    """The command that installs what an extra of this package needs: ``pip install 'matplotlib>=3.9' 'plotly>=6'``.

    It names the packages that the installed Anachron asks for and never Anachron itself, whose name in a registry may
    be anybody's until there is a release.
    """
    from importlib.metadata import PackageNotFoundError, requires  # takes as long to import as all else here

    try:
        packages = _packages(extra, requires("anachron") or [])
    except PackageNotFoundError:
        return f"pip install -e '.[{extra}]' in the copy of the repository from which this runs"
    return f"pip install {' '.join(map(shlex.quote, packages))}"


def _packages(extra: str, required: list[str]) -> list[str]:
    """Those of an extra, and of the extras that it names: ``anachron[gguf]; extra == "llamacpp"``."""
    found = []
    for text, _, marker in (one.partition(";") for one in required):
        if re.search(rf"extra == ['\"]{extra}['\"]", marker):
            inner = re.match(r"anachron\[(.*)\]", text)
            found += (
                [one for name in inner[1].split(",") for one in _packages(name, required)] if inner else [text.strip()]
            )
    return found


def unwritable(path: object, error: Exception) -> BackendError:
    """The error of a file that cannot be written, with the way out of what the system says."""
    number = _number(error)
    reason = first_line(error) if number is None else os.strerror(number)
    return BackendError(f"cannot write {path}: {reason}; finished files are intact: {way_out(error)}")


def way_out(error: Exception) -> str:
    """What to do about an error of the system, where a file could not be written."""
    return _WAYS_OUT.get(_number(error) or 0, "choose another place for it")


def _number(error: Exception) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    status = _OF_RUST.search(str(error))
    return None if status is None else int(status[1])


def of_machine(error: BaseException) -> str | None:
    """One line about what a machine lacks or its system refuses, which is no fault of the program; None for others."""
    text = str(error)
    lacks = isinstance(error, MemoryError) or any(words in text.lower() for words in _OUT_OF_MEMORY)
    if lacks or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return f"out of memory ({first_line(error)[:150]}); take a smaller model or input, or allow more memory"
    if isinstance(error, OSError) and error.errno is not None:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{os.strerror(error.errno)}; {way_out(error)}, and repeat the command"
    return None


def first_line(error: BaseException) -> str:
    """The first line of what an exception of another library says, or the name of its class where it says nothing."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
