"""A real HTTP server on this machine that misbehaves as told, and counts what it sends.

with Flaky() as server:
    file = server.put("/dir/name.bz2", data)          # served with ETag, Last-Modified and ranges
    file.faults = [Cut(1000), Answer(429, {"Retry-After": "0"}), Hang()]   # one a request, then it behaves
    ...
    server.requests          # (method, path, Range, If-Range) of every request, in order
    file.sent                # bytes of its body that left, of all requests together
"""

import email.utils
import hashlib
import re
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from support import http_server


@dataclass(frozen=True)
class Cut:
    """Close the connection after so many bytes of the body."""

    after: int


@dataclass(frozen=True)
class Answer:
    """Answer with a status, headers and a short body."""

    status: int
    headers: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """Send so many bytes of the body, then stay silent until the client goes."""

    after: int = 0


@dataclass(frozen=True)
class Lie:
    """Answer a range with other headers than its own."""

    headers: dict


@dataclass
class File:
    data: bytes
    etag: str | None
    last_modified: str | None = None
    ranges: bool = True
    length: bool = True  # whether the size is told
    pace: float = 0.0  # seconds between blocks of 16 KiB
    faults: list = field(default_factory=list)
    head_faults: list = field(default_factory=list)
    sent: int = 0


class Flaky(http_server.Server):
    def __init__(self):
        super().__init__(Handler)
        self.files, self.requests, self.agents = {}, [], set()
        self.closing = threading.Event()
        self.lock = threading.Lock()

    @property
    def url(self):
        return self.address

    def put(self, path, data, etag="auto", last_modified=None, **options):
        data = data.encode() if isinstance(data, str) else data
        tag = f'"{hashlib.md5(data).hexdigest()[:12]}"' if etag == "auto" else etag
        modified = None if last_modified is None else email.utils.formatdate(last_modified, usegmt=True)
        self.files[path] = File(data, tag, modified, **options)
        return self.files[path]

    def asked(self, path):
        """The Range header of each GET of a path."""
        return [asked for method, where, asked, _ in self.requests if method == "GET" and where == path]

    def handle_error(self, request, client_address):
        pass  # clients that go in the middle are what this is for

    def __enter__(self):
        self.block = http_server.running(self)
        return self.block.__enter__()

    def __exit__(self, *raised):
        self.closing.set()
        self.block.__exit__(*raised)


class Handler(http_server.Handler):
    def do_HEAD(self):
        self.answer("HEAD")

    def do_GET(self):
        self.answer("GET")

    def answer(self, method):
        path, server = urlsplit(self.path).path, self.server
        with server.lock:
            server.requests.append((method, self.path, self.headers["Range"], self.headers["If-Range"]))
            server.agents.add(self.headers["User-Agent"])
            file = server.files.get(path)
            faults = [] if file is None else file.faults if method == "GET" else file.head_faults
            fault = faults.pop(0) if faults else None
        if file is None:
            return self.plain(404, {})
        if isinstance(fault, Answer):
            return self.plain(fault.status, fault.headers)
        start, status, total = 0, 200, len(file.data)
        headers = {"ETag": file.etag, "Last-Modified": file.last_modified}
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        condition = self.headers["If-Range"]
        if wanted and file.ranges and condition in (None, file.etag, file.last_modified):
            start, status = int(wanted[1]), 206
            if start >= total:
                return self.plain(416, {"Content-Range": f"bytes */{total}"})
            headers["Content-Range"] = f"bytes {start}-{total - 1}/{total}"
        if file.length:
            headers["Content-Length"] = str(total - start)
        else:
            headers["Connection"] = "close"
        if isinstance(fault, Lie):
            headers |= fault.headers
        self.begin(status, headers)
        if method == "GET":
            self.body(file, start, fault)
        if not file.length:
            self.close_connection = True

    def body(self, file, start, fault):
        end = len(file.data)
        if isinstance(fault, Cut | Hang):
            end = min(end, start + fault.after)
        for position in range(start, end, 1 << 14):
            block = file.data[position : min(position + (1 << 14), end)]
            with self.server.lock:  # before it goes: a client that has all of it may be done before this thread is
                file.sent += len(block)
            self.wfile.write(block)
            if file.pace:
                time.sleep(file.pace)
        self.wfile.flush()
        if isinstance(fault, Hang):
            self.server.closing.wait(20)
        if isinstance(fault, Cut | Hang):
            self.close_connection = True

    def plain(self, status, headers):
        self.reply(status, b"no", headers)
