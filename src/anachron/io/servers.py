"""Servers that speak the OpenAI protocol or HTTP at all: their addresses, their keys, their words, when to ask again.

A server is believed nothing: what it says is shown without the key that it may repeat, and the key goes nowhere that it
was not meant for.
"""

import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from math import inf
from socket import inet_aton
from string import ascii_lowercase, ascii_uppercase
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from anachron.core.errors import ConfigError

OPENAI = "https://api.openai.com/v1"
DUMPS_URL = "https://dumps.wikimedia.org"
WIKIDATA_URL = "https://www.wikidata.org"
QUERY_URL = "https://query.wikidata.org/sparql"
VIEWS_URL = "https://wikimedia.org/api/rest_v1"
WORDS = 300  # characters of a server's message that are shown
UNKNOWN = "unknown"  # in the place of an address: of answers kept by versions that did not record theirs
SHORTEST = 8  # characters of a key in a row that are not shown
LONGEST_TIMEOUT = 604_800  # seconds; what waits on sockets counts in milliseconds and ends at 24 days
LONGEST_NAME = 40  # letters of a variable's name that is shown though no such variable is there
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_SECONDS = re.compile(r"\d+(\.\d+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Server:
    """A model behind a server, and how requests to it are made and repeated.

    The fields are those of `anachron.LlmSettings`. Raises `ConfigError` as it does.
    """

    model: str
    base_url: str | None = None
    _: KW_ONLY
    api_key_env: str | None = None
    concurrency: int = 8
    tries: int = 6
    timeout: float = 120.0
    pause: float = 1.0
    same_as: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ConfigError("the model's name is empty; give it as the server knows it")
        object.__setattr__(self, "same_as", same_servers(self.same_as))
        if self.base_url is not None:
            check_address(self.base_url)
        if self.api_key_env is not None:
            check_variable(self.api_key_env)
        for name in ("concurrency", "tries"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} {getattr(self, name)}: must be at least 1")
        if not 0 < self.timeout <= LONGEST_TIMEOUT:
            raise ConfigError(f"timeout {self.timeout}: give seconds above 0, at most {LONGEST_TIMEOUT:,} (a week)")
        if not 0 <= self.pause < inf:
            raise ConfigError(f"pause {self.pause}: give a number, 0 or more")

    @property
    def address(self) -> str:
        """Where requests go: to the server that was named, here or in the environment, or to OpenAI's own."""
        return self.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI

    @property
    def identity(self) -> str:
        """Who answers: the address as `server_identity` writes it."""
        return server_identity(self.address)


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
    values = [value for _, value in parse_qsl(parts.query) if len(value) >= SHORTEST]
    password = unquote(parts.password or "")
    # as a user and a password stand in a header
    basic = b64encode(f"{unquote(parts.username or '')}:{password}".encode()).decode() if password else ""
    return tuple(secret for secret in (key, password, basic, *values) if secret)


def redirected(where: str, status: int, headers: Mapping[str, str]) -> str:
    """What to say of a server that answers with another address."""
    to = headers.get("location", "")
    return (
        f"{where} redirects requests to {public_url(to) if to else 'nowhere'} (HTTP {status}); the redirect is not "
        "followed, because the key would go there: give --base-url the intended address"
    )


def shown(words: object, secrets: tuple[str, ...]) -> str:
    """A server's words as they may be shown: one line of printable text, not too long, ``***`` for secrets.

    A secret is found as it is and as it would be written in an address; of each, any part of `SHORTEST` characters or
    more.
    """
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in str(words)[: 100 * WORDS]).split())
    return redacted(text, secrets)[:WORDS]


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """The text with ``***`` in place of every part that `shown` hides."""
    lower = text.translate(_LOWER)
    hidden = [False] * len(text)
    for form in {form.translate(_LOWER) for secret in secrets for form in (secret, quote(secret, safe=""))}:
        size = min(SHORTEST, len(form))
        parts = {form[i : i + size] for i in range(len(form) - size + 1)}
        for i in range(len(lower) - size + 1):
            if lower[i : i + size] in parts:
                hidden[i : i + size] = [True] * size
    marked = "".join("\0" if hide else sign for sign, hide in zip(text, hidden, strict=True))
    return re.sub("\0+", "***", marked)


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
