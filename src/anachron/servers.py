"""Servers that speak the OpenAI protocol or HTTP at all: their addresses, keys and clients, and when to ask again."""

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anachron.errors import BackendError, ConfigError

if TYPE_CHECKING:
    from openai import OpenAI

_SECONDS = re.compile(r"\d+(\.\d+)?")


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks for (a number or an HTTP date), ``None`` where there is none to read."""
    text = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def public_url(url: str) -> str:
    """An address as it may be shown and written down: without a user, a password or a query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else url.partition("?")[0]


def check_address(url: str) -> None:
    """Raise `ConfigError` for an address that is not of HTTP."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"server address {public_url(url)!r}: write it as http://host:port/v1")


def key_from(variable: str | None, *, needed: bool = False) -> str:
    """The key in an environment variable (``OPENAI_API_KEY`` where none is named), empty where there is none.

    Raises `ConfigError` where a variable that was named, or a key that is needed, is missing.
    """
    name = variable or "OPENAI_API_KEY"
    key = os.environ.get(name, "").strip()
    if not key and (needed or variable is not None):
        raise ConfigError(f"the environment variable {name} holds no key; set it, or name another with --api-key-env")
    return key


def openai_client(base_url: str | None, key: str, *, timeout: float, max_retries: int) -> "OpenAI":
    """A client of a server. Raises `BackendError` without the package ``openai``."""
    try:
        from openai import OpenAI
    except ImportError as error:
        raise BackendError(f"asking a model needs the package openai ({error}); pip install 'anachron[llm]'") from error
    return OpenAI(api_key=key or "none", base_url=base_url, timeout=timeout, max_retries=max_retries)
