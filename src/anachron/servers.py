"""Addresses of servers as they may be shown, and what servers say about when to ask again."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

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
