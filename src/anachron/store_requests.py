"""Requests to object stores: the library that makes them, repeated where that does no harm, failures told in words.

The library is obstore, the same that Polars reads stores by, so one set of variables serves both. What a store answers
to a failed request may hold keys and is never shown.
"""

import os
import re
import time
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from typing import Any, TypeVar

from anachron.errors import BackendError, ConfigError, how_to_install

TRIES, PAUSE = 5, 0.5  # of a request; seconds before the second, doubled before each that follows
_STATUS = re.compile(r"status code: (\d{3}[ \w]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_KEYS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_REGION or AWS_ENDPOINT_URL",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to the file of a key",
}
Result = TypeVar("Result")


class StoreError(BackendError):
    """A store cannot be reached, refuses, or failed again and again."""


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


def plain_http() -> bool:
    """Whether the store that the variables name is asked without encryption, as one on the same machine is."""
    return any(os.environ.get(name, "").startswith("http://") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT"))


def opened(scheme: str, bucket: str) -> Any:
    """The store of a bucket, opened once per process and again if the variables that say where it is have changed."""
    variables = sorted(pair for pair in os.environ.items() if pair[0].startswith(("AWS_", "GOOGLE_")))
    return _opened(scheme, bucket, plain_http(), tuple(variables), os.getpid())


@lru_cache(maxsize=16)
def _opened(scheme: str, bucket: str, allow_http: bool, variables: tuple[tuple[str, str], ...], process: int) -> Any:
    """variables: those that the library reads by itself. process: its number, for a fork must open its own."""
    obstore()
    from obstore.store import GCSStore, S3Store

    client: Any = {"allow_http": allow_http, "timeout": "120s", "connect_timeout": "10s"}
    retry: Any = {"max_retries": 8, "retry_timeout": timedelta(seconds=150)}
    try:
        return (S3Store if scheme == "s3" else GCSStore)(bucket, client_options=client, retry_config=retry)
    except errors().BaseError:
        raise StoreError(f"{scheme}://{bucket} cannot be opened; {_KEYS[scheme]}") from None


def repeated(path: Any, what: str, request: Callable[[], Result]) -> Result:
    """What a request gives, which is made up to `TRIES` times.

    The library repeats what failed before the store may have got it or begun to answer; here the rest is repeated, too.
    path: `anachron.stores.StorePath`, and what: the verb, for the message. Raises `FileNotFoundError` where there is no
    such object, else `StoreError`.
    """
    final = (errors().PermissionDeniedError, errors().UnauthenticatedError)
    for number in range(TRIES):
        try:
            return request()
        except FileNotFoundError as error:
            if "<Code>NoSuchBucket<" in str(error):
                raise StoreError(f"cannot {what} {path}: {reason(error, path.scheme)}") from None
            raise FileNotFoundError(2, "no such object", str(path)) from None
        except errors().BaseError as error:
            if number == TRIES - 1 or isinstance(error, final) or _lacks_keys(str(error)):
                raise StoreError(f"cannot {what} {path}: {reason(error, path.scheme)}") from None
        time.sleep(PAUSE * 2**number)
    raise AssertionError("a request is made at least once")


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
