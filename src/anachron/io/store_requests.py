"""Requests to object stores: the library that makes them, repeated where that does no harm, failures told in words.

The library is obstore, the same that Polars reads stores by, so one set of variables serves both, and one rule of what
is repeated and for how long (`patience`). What a store answers to a failed request may hold keys and is never shown.
"""

import os
import re
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from typing import Any, TypeVar

from tenacity import RetryCallState

from anachron.core.errors import BackendError, ConfigError, how_to_install
from anachron.io.retries import Failure, failure, repeating

PATIENCE = 180.0  # seconds for which a request that fails is repeated; the variable sets others
VARIABLE = "ANACHRON_STORE_SECONDS"
ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
TRIES, PAUSE = 5, 0.5  # of a request that is refused; seconds before the second, doubled before each that follows
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 15.0  # of the libraries
_FOR_EVER = 1_000_000  # retries: the time decides
_FOR_A_WHILE = ("408", "409", "425", "429")  # of the 400s: busy, too early, too often
_OF_POLARS = re.compile(r"object-store error:.*?(?:\(path: (?P<path>[^\s)]+)\)|\Z)", re.DOTALL)
_STATUS = re.compile(r"status code: (\d{3}[ \w]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_KEYS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_REGION or AWS_ENDPOINT_URL",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to the file of a key",
}
Result = TypeVar("Result")


class StoreError(BackendError):
    """A store cannot be reached, refuses, or failed again and again."""


class _Refused(Failure):
    """What a store refuses, which seldom passes."""


def obstore() -> Any:
    """The library. Raises `ConfigError` where it is not installed."""
    try:
        import obstore as library
    except ImportError as error:
        raise ConfigError(f"files on s3:// or gs:// need obstore: {how_to_install('s3')}") from error
    return library


def errors() -> Any:
    """The library's errors."""
    obstore()
    import obstore.exceptions as kinds

    return kinds


def patience() -> float:
    """The seconds for which a request is repeated that a store does not serve now, but may soon."""
    given = os.environ.get(VARIABLE, str(PATIENCE))
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise ConfigError(f"{VARIABLE}={given}: give seconds, above 0 and at most 3600")
    return seconds


def pauses(seconds: float) -> tuple[float, float]:
    """The first and the longest pause between two tries of what is repeated for so many seconds."""
    longest = min(_LONGEST_PAUSE, seconds / 10)
    return min(_FIRST_PAUSE, longest / 2), longest


def polars_retries() -> dict[str, int]:
    """The same rule for Polars' own reads, as it is given it."""
    seconds = patience()
    first, longest = (max(1, int(1000 * pause)) for pause in pauses(seconds))
    return {
        "max_retries": _FOR_EVER,
        "retry_timeout_ms": int(1000 * seconds),
        "retry_init_backoff_ms": first,
        "retry_max_backoff_ms": max(longest, 2 * first),
    }


def plain_http() -> bool:
    """Whether the store that the variables name is asked without encryption, as one on the same machine is."""
    return any(os.environ.get(name, "").startswith("http://") for name in ENDPOINTS)


def opened(scheme: str, bucket: str) -> Any:
    """The store of a bucket, opened once per process and again if the variables that say where it is have changed."""
    variables = sorted(pair for pair in os.environ.items() if pair[0].startswith(("AWS_", "GOOGLE_")))
    return _opened(scheme, bucket, plain_http(), patience(), tuple(variables), os.getpid())


@lru_cache(maxsize=16)
def _opened(
    scheme: str, bucket: str, allow_http: bool, seconds: float, variables: tuple[tuple[str, str], ...], process: int
) -> Any:
    """variables: those that the library reads by itself. process: its number, for a fork must open its own."""
    obstore()
    from obstore.store import GCSStore, S3Store

    first, longest = (timedelta(seconds=pause) for pause in pauses(seconds))
    client: Any = {"allow_http": allow_http, "timeout": "120s", "connect_timeout": "10s"}
    retry: Any = {
        "max_retries": _FOR_EVER,
        "retry_timeout": timedelta(seconds=seconds),
        "backoff": {"init_backoff": first, "max_backoff": longest},
    }
    try:
        return (S3Store if scheme == "s3" else GCSStore)(bucket, client_options=client, retry_config=retry)
    except errors().BaseError:
        raise StoreError(f"{scheme}://{bucket} cannot be opened; {_KEYS[scheme]}") from None


def repeated(path: Any, what: str, request: Callable[[], Result]) -> Result:
    """What a request gives, which is repeated for as long as `patience` says.

    The library repeats what failed before the store may have got it or begun to answer; here the rest is repeated, too.
    What the store refuses is made up to `TRIES` times. path: `anachron.io.stores.StorePath`, and what: the verb, for
    the message. Raises `FileNotFoundError` where there is no such object, else `StoreError`.
    """
    final = (errors().PermissionDeniedError, errors().UnauthenticatedError)
    seconds = patience()

    def once() -> Result:
        try:
            return request()
        except FileNotFoundError as error:
            if "<Code>NoSuchBucket<" in str(error):
                raise StoreError(f"cannot {what} {path}: {reason(error, path.scheme)}") from None
            raise FileNotFoundError(2, "no such object", str(path)) from None
        except errors().BaseError as error:
            text, words = str(error), f"cannot {what} {path}: {reason(error, path.scheme)}"
            if isinstance(error, final) or _lacks_keys(text):
                raise StoreError(words) from None
            passing = isinstance(error, errors().GenericError) and not _refused(text)
            raise (Failure if passing else _Refused)(words) from None

    def over(state: RetryCallState) -> bool:
        refused = isinstance(failure(state), _Refused)
        return state.attempt_number >= TRIES if refused else (state.seconds_since_start or 0.0) >= seconds

    try:
        return repeating(PAUSE, pauses(seconds)[1], over)(once)
    except Failure as last:
        raise StoreError(str(last)) from None


def _refused(words: str) -> bool:
    """Whether the store answered that it will not, rather than that it cannot now."""
    status = _STATUS.search(words)
    return status is not None and status[1][0] in "34" and status[1][:3] not in _FOR_A_WHILE


def of_polars(error: BaseException) -> Exception | None:
    """What Polars met on a store, in our words; None for any other error."""
    found = _OF_POLARS.search(str(error))
    if found is None:
        return None
    path = found["path"] or "an object of the store"
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(2, "no such object", path)
    return StoreError(f"cannot read {path}: {reason(error, path.partition('://')[0] if '://' in path else 's3')}")


def _lacks_keys(words: str) -> bool:
    return "169.254.169.254" in words or "computeMetadata" in words


def reason(error: BaseException, scheme: str = "s3") -> str:
    """Why a request failed, and what to do. Nothing of the answer is in it but its status and code."""
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    if _lacks_keys(text):
        return f"no keys were found; {_KEYS[scheme]}, on every worker machine"
    if status is None:
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "") if scheme == "s3" else ""
        shown = endpoint.partition("://")[2].rpartition("@")[2]
        return (
            f"no answer that could be read{' of ' + shown if shown else ''}; is the store up and "
            "its address right? Then repeat the command: what is finished is kept"
        )
    words = status[1].strip() + (f", {code[1]}" if code else "")
    if status[1][:3] in ("401", "403"):
        return f"access denied ({words}); {_KEYS[scheme]}, on every worker machine"
    if code and code[1] == "NoSuchBucket":
        return f"there is no such bucket ({words}); create it first"
    if status[1][0] == "3":
        return f"the bucket is elsewhere ({words}); set AWS_REGION to its region"
    return f"the store failed repeatedly ({words}); repeat the command when it works again: what is finished is kept"
