"""Servers that speak the OpenAI protocol or HTTP at all: their addresses, their keys, their words, when to ask again.

A server is believed nothing: what it says is shown without the key that it may repeat, and the key goes nowhere that it
was not meant for.
"""

import os
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from socket import inet_aton
from string import ascii_lowercase, ascii_uppercase
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from anachron.core.errors import ConfigError

OPENAI = "https://api.openai.com/v1"
WORDS = 300  # characters of a server's message that are shown
UNKNOWN = "unknown"  # in the place of an address: of answers kept by versions that did not record theirs
SHORTEST = 8  # characters of a key in a row that are not shown
LONGEST_TIMEOUT = 604_800  # seconds; what waits on sockets counts in milliseconds and ends at 24 days
LONGEST_NAME = 40  # letters of a variable's name that is shown though no such variable is there
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_SECONDS = re.compile(r"\d+(\.\d+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("?")[0].rpartition("@")[2]
    if not parts.netloc:  # without http:// before it, what seems to be a scheme may be a host or a user
        return url.partition("?")[0].rpartition("@")[2]
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def server_identity(url: str) -> str:
    """What of an address tells its server from others: scheme, host, port and path, in one spelling.

    Nothing secret: a user, a password and a query are no part of it. Raises `ConfigError` as `check_address`.
    """
    check_address(url)
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    usual = {"http": 80, "https": 443}[parts.scheme]
    port = "" if parts.port in (None, usual) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def same_servers(urls: Iterable[str] | None) -> tuple[str, ...]:
    """The addresses of ``--same-as`` as `server_identity` writes them, each once. `UNKNOWN` stays."""
    return tuple(sorted({url if url == UNKNOWN else server_identity(url) for url in urls or ()}))


def check_address(url: str) -> None:
    """Raise `ConfigError` for an address that is not of HTTP."""
    if not all(sign.isprintable() and not sign.isspace() for sign in url):  # urlsplit passes over line breaks and tabs
        raise ConfigError(
            f"server address {shown(public_url(url), ())!r}: it holds spaces, line breaks or control characters; "
            "write it as http://host:port/v1"
        )
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not parts.fragment
        (parts.hostname or "").encode("idna")
    except ValueError:  # a port that is no number, half an IPv6 address, a part of a name that is too long or empty
        good = False
    if not good:
        raise ConfigError(f"server address {public_url(url)!r}: write it as http://host:port/v1")


def without_query(url: str) -> tuple[str, str]:
    """An address, and what stands behind its ``?``, which belongs behind the path of each request."""
    address, _, query = url.partition("?")
    return address, query


def check_timeout(seconds: float) -> None:
    """Raise `ConfigError` for a time that no request can take."""
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise ConfigError(f"timeout {seconds}: give seconds above 0, at most {LONGEST_TIMEOUT:,} (a week)")


def check_variable(name: str) -> None:
    """Raise `ConfigError` for what cannot be the name of an environment variable, and may be the key itself."""
    if not _VARIABLE.fullmatch(name):
        raise ConfigError(
            "api_key_env (--api-key-env) takes the name of the environment variable that holds the key, and what was "
            "given is none (letters, digits and _, not beginning with a digit; it is not shown, for it may be the key "
            "itself): export MY_KEY=..., then --api-key-env MY_KEY"
        )


def variable_shown(name: str) -> str:
    """A variable's name as it may be shown: not where it may be a key that stands in the place of a name."""
    return name if name in os.environ or (name == name.upper() and len(name) <= LONGEST_NAME) else "that was named"


def is_openai(address: str) -> bool:
    """Whether an address is that of OpenAI's own service, encrypted."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    return parts.scheme == "https" and (host == "api.openai.com" or host.endswith(".api.openai.com"))


def key_for(address: str, variable: str | None) -> str:
    """The key that the server at an address is sent; empty where it is sent none.

    variable: the environment variable that was named. Where none was, a key goes to OpenAI's own service alone, that
    of ``OPENAI_API_KEY``: whoever runs another server learns no key that was not given to him by name.
    Raises `ConfigError` where the variable is empty, or holds what cannot be a key.
    """
    if variable is None and not is_openai(address):
        return ""
    name = variable or "OPENAI_API_KEY"
    check_variable(name)
    key, shown_as = os.environ.get(name, "").strip(), variable_shown(name)
    if not key:
        raise ConfigError(
            f"the environment variable {shown_as} holds no key; set it, or name another with --api-key-env"
        )
    if not all("!" <= sign <= "~" for sign in key):  # a header cannot hold it, and the refusal would show it
        raise ConfigError(
            f"the environment variable {shown_as} holds no key: a key consists of ASCII letters, digits and signs only"
        )
    return key


def open_to_all(address: str, key: str) -> str | None:
    """What to warn of where a key, or a password in the address, would cross a network unencrypted."""
    parts = urlsplit(address)
    if parts.scheme != "http" or not (key or parts.password) or is_this_machine(parts.hostname or ""):
        return None
    return (
        f"the key goes to {public_url(address)} unencrypted, so anybody on the way can read it; use https if possible"
    )


def secrets_of(address: str, key: str) -> tuple[str, ...]:
    """What of a server's address and key must not be shown; of the address a password and what its query says."""
    parts = urlsplit(address)
    said = [value for _, value in parse_qsl(parts.query) if len(value) >= SHORTEST]
    return tuple(
        secret for secret in (key, parts.password and unquote(parts.password), parts.password, *said) if secret
    )


def redirected(where: str, status: int, headers: Mapping[str, str]) -> str:
    """What to say of a server that answers with another address."""
    to = headers.get("location", "")
    return (
        f"{where} redirects requests to {public_url(to) if to else 'nowhere'} (HTTP {status}); the redirect is not "
        "followed, because the key would go there: give --base-url the intended address"
    )


def shown(words: object, secrets: tuple[str, ...]) -> str:
    """A server's words as they may be shown: one line of printable text, not too long, ``***`` for secrets.

    A secret is found as it is and as it would be written in an address, in base64 or in hexadecimal digits; of each,
    any part of `SHORTEST` characters or more.
    """
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in str(words)[: 100 * WORDS]).split())
    return redacted(text, secrets)[:WORDS]


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """The text with ``***`` in place of every part that `shown` hides."""
    lower = text.translate(_LOWER)
    hidden = [False] * len(text)
    for form in {form.translate(_LOWER) for secret in secrets for form in _forms(secret)}:
        size = min(SHORTEST, len(form))
        parts = {form[i : i + size] for i in range(len(form) - size + 1)}
        for i in range(len(lower) - size + 1):
            if lower[i : i + size] in parts:
                hidden[i : i + size] = [True] * size
    marked = "".join("\0" if hide else sign for sign, hide in zip(text, hidden, strict=True))
    return re.sub("\0+", "***", marked)


def _forms(secret: str) -> list[str]:
    data = secret.encode()
    forms = [secret, quote(secret, safe=""), data.hex(), secret[::-1]]
    for shift in range(3):  # in a longer text, such as "Bearer KEY", base64 depends on where the secret begins
        for encode in (b64encode, urlsafe_b64encode):
            whole = encode(b"\0" * shift + data).decode().rstrip("=")
            forms.append(whole[(shift * 8 + 5) // 6 : -1])  # the letters at both ends depend on what is beside
    return [form for form in forms if len(form) >= min(SHORTEST, len(secret))]


def is_this_machine(host: str) -> bool:
    """Whether a host's name or address, in any of its spellings, is that of this machine itself."""
    host = host.lower().rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        try:
            address = ip_address(inet_aton(host))  # 127.1 and 0x7f000001 are read as the system reads them
        except (OSError, ValueError):
            return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified
