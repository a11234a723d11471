"""An S3 server for tests: moto's, in a process of its own, behind a proxy that fails as real stores and networks do."""

import http.client
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from anachron.io import store_requests
from anachron.io.stores import StorePath, place
from support import http_server

SERVE = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
# The Python that has moto, which cannot live beside the other packages (make .venv-stores/installed).
PYTHON = Path(os.environ.get("ANACHRON_STORE_PYTHON", Path(__file__).parents[2] / ".venv-stores" / "bin" / "python"))
KEY, SECRET = "AKIATHISISNOREALKEY0", "this-is-no-real-secret-and-must-never-be-shown"
_ENTRY = re.compile(r"<(Contents|CommonPrefixes)>.*?</\1>", re.DOTALL)
_KEY = re.compile(r"<(?:Key|Prefix)>(.*?)</", re.DOTALL)
HOP = {"connection", "transfer-encoding", "date", "server"}


@dataclass
class Faults:
    """Of every ``each`` requests one is answered by the next of ``kinds``: 503, slow, cut, drop, 403 or secret
    (a 503 that tells keys).

    Only requests whose path holds ``within``. 0: none is. storm: for so many seconds from the first of them on, all are
    answered by the first of the kinds. late: of an S3 server, the seconds for which listings leave
    out what was put. It may be infinite; ``done`` counts what was left out.
    """

    each: int = 0
    kinds: tuple[str, ...] = ("503", "slow", "cut", "drop")
    within: str = ""
    storm: float = 0.0
    late: float = 0.0
    done: dict[str, int] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    _put: dict[str, float] = field(default_factory=dict)  # bucket/key: when it was first put
    _broke_out: float | None = None
    _numbers: Iterator[int] = field(default_factory=count)
    _lock: Any = field(default_factory=threading.Lock)

    def next(self, method: str, path: str) -> str | None:
        with self._lock:
            self.requests[method] = self.requests.get(method, 0) + 1
            if self.within not in path:
                return None
            if self.storm:
                self._broke_out = self._broke_out or time.monotonic()
                if time.monotonic() - self._broke_out < self.storm:
                    self.done[self.kinds[0]] = self.done.get(self.kinds[0], 0) + 1
                    return self.kinds[0]
            if not self.each:
                return None
            number = next(self._numbers)
            if number % self.each:
                return None
            kind = self.kinds[number // self.each % len(self.kinds)]
            self.done[kind] = self.done.get(kind, 0) + 1
            return kind

    def note(self, request: "Request", status: int) -> None:
        """Know when an object came into being, and when it went."""
        address, _, query = request.path.partition("?")
        key = unquote(address).strip("/")
        written = request.method == "PUT" and "partNumber=" not in query
        written = written or (request.method == "POST" and "uploadId=" in query)
        with self._lock:
            if written and status < 300:
                self._put.setdefault(key, time.monotonic())
            elif request.method == "DELETE" and "uploadId=" not in query:
                self._put.pop(key, None)
            elif request.method == "POST" and query.split("=")[0] == "delete":
                for found in _KEY.findall(request.body.decode()):
                    self._put.pop(f"{key}/{unescape(found)}", None)

    def listed(self, request: "Request", content: bytes) -> bytes:
        """What a listing shows: without objects that are younger than ``late``, and folders that hold only such."""
        if not self.late or request.method != "GET" or "list-type=2" not in request.path:
            return content
        bucket = unquote(request.path.partition("?")[0]).strip("/")
        since = time.monotonic() - self.late
        with self._lock:
            put = dict(self._put)

        def shown(entry: re.Match[str]) -> str:
            named = f"{bucket}/{unescape(_KEY.findall(entry[0])[0])}"
            folder = entry[1] == "CommonPrefixes"
            ages = [when for key, when in put.items() if (key.startswith(named) if folder else key == named)]
            if not ages or min(ages) <= since:
                return entry[0]
            self.done["late"] = self.done.get("late", 0) + 1
            return ""

        return _ENTRY.sub(shown, content.decode()).encode()


@dataclass(frozen=True)
class Server:
    endpoint: str
    faults: Faults

    def environment(self) -> dict[str, str]:
        """The variables by which the store is found; they take the place of any real ones."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
            # after a 503 Polars asks less often, for seconds, which tests do not wait for
            "POLARS_CLOUD_READ_INIT_RATE": "2000", "POLARS_CLOUD_READ_FLOOR_RATE": "1000",
            "POLARS_CLOUD_RETRY_INIT_BACKOFF_MS": "10",
        }  # fmt: skip

    def make_bucket(self, name: str) -> None:
        connection = http.client.HTTPConnection(self.endpoint.removeprefix("http://"), timeout=120)
        connection.request("PUT", f"/{name}")
        assert connection.getresponse().status == 200

    @contextmanager
    def folder(self, name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[StorePath]:
        """A folder in the bucket, which this process reaches with no others' keys; without faults before and after, and
        with short pauses before what failed is repeated."""
        for variable in [variable for variable in os.environ if variable.startswith("AWS_")]:
            monkeypatch.delenv(variable)
        for variable, value in self.environment().items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setattr(store_requests, "PAUSE", 0.02)
        self.faults.each, self.faults.within, self.faults.late, self.faults.storm = 0, "", 0.0, 0.0
        self.faults._broke_out = None
        there = place(f"s3://bucket/{name}".replace("[", "-").replace("]", ""))
        assert isinstance(there, StorePath)
        yield there
        self.faults.each, self.faults.late, self.faults.storm = 0, 0.0, 0.0


@contextmanager
def serving() -> Iterator[Server]:
    """A server with one bucket, ``bucket``, that is empty, with no faults yet."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    if not PYTHON.is_file():
        pytest.skip(f"no S3 server, for there is no {PYTHON}; make .venv-stores/installed")
    with subprocess.Popen(
        [PYTHON, "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, env=environment,
    ) as moto:  # fmt: skip
        assert moto.stdout is not None and moto.stdin is not None
        port = int(moto.stdout.readline())
        faults = Faults()
        try:
            with proxy(port, faults) as address:
                server = Server(address, faults)
                server.make_bucket("bucket")
                yield server
        finally:
            moto.stdin.close()
            moto.wait(60)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = tuple[int, dict[str, str], bytes]


def forwarded(port: int, request: Request) -> Answer:
    """What a server of this machine answers: status, headers and content."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(request.method, request.path, request.body, request.headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content


@contextmanager
def proxy(
    port: int, faults: Faults, forward: Callable[[int, Request], Answer] = forwarded, *, at: int = 0
) -> Iterator[str]:
    """The address at which the server on this port answers by way of the faults. at: its port, else a free one."""
    with http_server.running(http_server.Server(_handler(port, faults, forward), at)) as server:
        yield server.address


def _handler(port: int, faults: Faults, forward: Callable[[int, Request], Answer]) -> type[http_server.Handler]:
    class Handler(http_server.Handler):
        def do_any(self) -> None:
            body = self.content()
            fault = faults.next(self.command, self.path)
            if fault in ("503", "secret"):
                words = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
                if fault == "secret":
                    words = words.replace(b"Please", f"{KEY} {SECRET} please".encode())
                self.reply(503, words, {"content-type": "application/xml"})
                return
            if fault == "403":
                words = (
                    b"<Error><Code>InvalidAccessKeyId</Code><AWSAccessKeyId>%s</AWSAccessKeyId></Error>" % KEY.encode()
                )
                self.reply(403, words, {"content-type": "application/xml"})
                return
            if fault == "drop":
                self.drop()
                return
            if fault == "slow":
                time.sleep(0.2)
            request = Request(self.command, self.path, dict(self.headers), body)
            status, headers, content = forward(port, request)
            faults.note(request, status)
            if (shown := faults.listed(request, content)) != content:
                content, headers = shown, headers | {"Content-Length": str(len(shown))}
            told = {name: value for name, value in headers.items() if name.lower() not in HOP}
            self.begin(status, {"Content-Length": str(len(content)), **told})
            if fault == "cut":
                self.wfile.write(content[: len(content) // 2])
                self.drop()
            else:
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_any

    return Handler
