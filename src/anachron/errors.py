"""Every error that Anachron raises on purpose, so that callers can tell them from bugs.

Each message states the value that was wrong, the rule it broke and the way out.
"""


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


def first_line(error: BaseException) -> str:
    """The first line of what an exception of another library says, or the name of its class where it says nothing."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
