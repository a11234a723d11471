"""Every error that Anachron raises on purpose, so that callers can tell them from bugs.

Each message states the value that was wrong, the rule it broke and the way out.
"""

import re
import shlex


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


def first_line(error: BaseException) -> str:
    """The first line of what an exception of another library says, or the name of its class where it says nothing."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
