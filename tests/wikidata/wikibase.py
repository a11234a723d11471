"""A server of Wikidata's services in a process of its own, written from their documentation and from no client.

    history = [Revision(5, "2024-01-01T00:00:00Z", {...}), Revision(9, "2024-06-01T00:00:00Z", Redirect("Q2"))]
    world = World({"Q1": history, "Q2": [...]}, views={("en.wikipedia", "Universe"): {"2023-12": 4500}})
    with serving(world, faults=[too_many(0, retry_after="0"), cut(3)]) as server:
        Site(server.url, ...) or server.site()
        server.requests()     # Request(method, path, params, headers, at_once) of every request so far, in order
        server.fail([silent(4)])   # other faults, counted from now on; the requests are forgotten
        server.show(later)    # another state of the world

* ``/w/api.php``: see `wikidata.wikibase_api`.
* ``/wiki/Special:EntityData/ID.json?revision=N``: without a revision, today's, through a redirect, under the id of
  the entity that is given; with one, exactly that: 400 where it is a redirect, 404 where it is hidden, of another
  entity, of none or of a deleted page. Names in another form (``q1.json``) lead on with 301. Links have addresses.
* ``/api/rest_v1/metrics/pageviews/per-article/PROJECT/ACCESS/AGENT/ARTICLE/monthly|daily/START/END``: months without
  data are left out; nothing at all is 404; 400 for a wrong day, or where no month is whole. Only months are held.
* ``/sparql``: see `wikidata.wikibase_rdf`; the format by ``format=json`` or the header Accept, else XML.
* All of them: gzip where it is accepted, and 403 to programs that do not say who they are (User-Agent policy).
"""

import contextlib
import gzip
import json
import os
import pickle
import re
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from support import http_server
from support.processes import surroundings
from wikidata import wikibase_api
from wikidata.wikibase_pages import entity_data, not_found, page_views
from wikidata.wikibase_world import Json, Redirect, Revision, World, of_dump

if TYPE_CHECKING:
    from anachron.wikidata.topic.site import Site

__all__ = ["Fault", "Redirect", "Request", "Revision", "World", "of_dump", "serving"]
CONTROL = "/-/"


@dataclass(frozen=True)
class Fault:
    """What goes wrong with ``times`` requests from number ``at`` on, counted from 0.

    kind: ``status`` answers with a status and headers; ``lag`` is the error of ``maxlag``, for requests to api.php that
    give it; ``cut`` ends the connection half-way through the body whose length was told, ``half`` likewise with no
    length told, so that it looks complete; ``close`` ends it without an answer; ``silent`` never answers.
    """

    at: int
    kind: str
    times: int = 1
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)

    def hits(self, number: int) -> bool:
        return self.at <= number < self.at + self.times


def too_many(at: int, retry_after: str | None = None, times: int = 1) -> Fault:
    return Fault(at, "status", times, 429, {} if retry_after is None else {"Retry-After": retry_after})


def unavailable(at: int, times: int = 1, status: int = 503) -> Fault:
    return Fault(at, "status", times, status)


def lag(at: int, times: int = 1, retry_after: str = "5") -> Fault:
    return Fault(at, "lag", times, 200, {"Retry-After": retry_after, "X-Database-Lag": "7"})


def cut(at: int, times: int = 1) -> Fault:
    return Fault(at, "cut", times)


def half(at: int, times: int = 1) -> Fault:
    return Fault(at, "half", times)


def close(at: int, times: int = 1) -> Fault:
    return Fault(at, "close", times)


def silent(at: int, times: int = 1) -> Fault:
    return Fault(at, "silent", times)


@dataclass(frozen=True)
class Request:
    """at_once: requests that were under way as this one came, with itself."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]  # names in small letters
    at_once: int = 1

    @property
    def key(self) -> tuple[str, str, tuple[tuple[str, str], ...]]:
        """What makes two requests the same."""
        return self.method, self.path, tuple(sorted(self.params.items()))


class Running:
    """The handle that a test has on the process."""

    def __init__(self, url: str, folder: Path, process: "subprocess.Popen[str]") -> None:
        self.url, self.folder, self.process = url, folder, process

    def requests(self) -> list[Request]:
        lines = (self.folder / "log.jsonl").read_text("utf-8").splitlines()
        return [Request(**json.loads(line)) for line in lines]

    def fail(self, faults: Sequence[Fault] = ()) -> None:
        self._tell("faults", json.dumps([asdict(one) for one in faults]).encode())

    def show(self, world: World) -> None:
        self._tell("world", pickle.dumps(world))

    def site(self) -> "Site":
        from anachron.wikidata.topic.site import Site

        return Site(self.url, sparql=f"{self.url}/sparql", views=f"{self.url}/api/rest_v1")

    def _tell(self, what: str, data: bytes) -> None:
        asked = urllib.request.Request(f"{self.url}{CONTROL}{what}", data, method="POST")
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=60).close()


@contextmanager
def serving(world: World, faults: Sequence[Fault] = (), pace: float = 0.0) -> Iterator[Running]:
    """A running server. pace: seconds that each answer takes, so that requests can overlap."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "world.pickle").write_bytes(pickle.dumps(world))
        (folder / "log.jsonl").touch()
        command = [sys.executable, "-m", "wikidata.wikibase", name, str(pace)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=surroundings()) as process:
            try:
                assert process.stdout is not None
                server = Running(process.stdout.readline().strip(), folder, process)
                if faults:
                    server.fail(faults)
                yield server
            finally:
                process.kill()


# -- the process -------------------------------------------------------------------------------------------------------


class Wikibase(http_server.Server):
    def __init__(self, folder: Path, pace: float) -> None:
        super().__init__(Handler)
        self.world: World = pickle.loads((folder / "world.pickle").read_bytes())
        self.log, self.pace = folder / "log.jsonl", pace
        self.faults: list[Fault] = []
        self.count = self.under_way = 0
        self.store: Any = None
        self.lock, self.querying, self.never = threading.Lock(), threading.Lock(), threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        kind = sys.exc_info()[0]
        if kind is None or not issubclass(kind, ConnectionError):  # clients that go in the middle are what this is for
            super().handle_error(request, client_address)

    def noted(self, request: Request) -> Fault | None:
        """Write a request down, before it is answered; the fault that meets it."""
        with self.lock:
            number, self.count, self.under_way = self.count, self.count + 1, self.under_way + 1
            with self.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(request) | {"at_once": self.under_way}) + "\n")
            return next((one for one in self.faults if one.hits(number)), None)

    def told(self, what: str, data: bytes) -> None:
        with self.lock:
            if what == "faults":
                self.faults, self.count = [Fault(**one) for one in json.loads(data)], 0
                self.log.write_bytes(b"")
            else:
                self.world, self.store = pickle.loads(data), None

    def query(self, text: str) -> Json:
        from wikidata.wikibase_rdf import Store

        with self.querying:
            self.store = self.store or Store(self.world)
            return self.store.answer(text)  # type: ignore[no-any-return]


class Handler(http_server.Handler):
    server: Wikibase
    under_way = False

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        path, content = place.path, self.content()
        if path.startswith(CONTROL):
            self.server.told(path.removeprefix(CONTROL), content)
            return self.reply(200, {})
        params = dict(parse_qsl(place.query, keep_blank_values=True))
        kind = self.headers.get("content-type", "")
        if kind.startswith("application/x-www-form-urlencoded"):
            params |= dict(parse_qsl(content.decode(), keep_blank_values=True))
        elif kind.startswith("application/sparql-query"):
            params["query"] = content.decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault = self.server.noted(Request(self.command, path, params, headers))
        self.under_way = True
        try:
            self.server.never.wait(self.server.pace)
            self.answer(path, params, fault)
        finally:
            self.over()

    do_POST = do_HEAD = do_GET

    def over(self) -> None:
        """Count a request as answered: before its client can know, who may be at its next one before this thread is."""
        with self.server.lock:
            self.server.under_way -= self.under_way
            self.under_way = False

    def begin(self, status: int, headers: Mapping[str, str | None]) -> None:
        self.over()
        super().begin(status, headers)

    def drop(self) -> None:
        self.over()
        super().drop()

    def answer(self, path: str, params: dict[str, str], fault: Fault | None) -> None:
        kind = None if fault is None else fault.kind
        if kind == "close":
            return self.drop()
        if kind == "silent":
            self.wait_for_the_client_to_go()
            return self.drop()
        if fault and kind == "status":
            return self.reply(fault.status, b"<html><body>upstream error</body></html>",
                              {"content-type": "text/html"} | fault.headers)  # fmt: skip
        status, body, headers = self.answered(path, params, fault)
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        headers = {"content-type": "application/json; charset=utf-8"} | headers
        if "gzip" in self.headers.get("accept-encoding", ""):
            data = gzip.compress(data, 1, mtime=0)
            headers["content-encoding"] = "gzip"
        if kind == "cut":
            self.begin(status, headers | {"content-length": str(len(data))})
            self.wfile.write(data[: len(data) // 2])
            return self.drop()
        if kind == "half":
            self.begin(status, headers | {"connection": "close"})
            self.wfile.write(data[: len(data) // 2])
            return self.drop()
        self.reply(status, data, headers)

    def wait_for_the_client_to_go(self) -> None:
        with contextlib.suppress(ConnectionError):
            while self.connection.recv(1, socket.MSG_PEEK):  # it says nothing more; at its end there is nothing
                self.server.never.wait(0.05)

    def answered(self, path: str, params: dict[str, str], fault: Fault | None) -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers, of a request that meets no fault but perhaps lag."""
        agent = self.headers.get("user-agent", "")
        if not agent or re.match(r"(?i)(python|httpx|curl|wget|java|go-http)", agent):
            text = "Please set a user-agent and respect our robot policy https://w.wiki/4wJS."
            return 403, text.encode(), {"content-type": "text/plain"}
        world = self.server.world
        if path == "/w/api.php":
            if params.get("format") != "json":  # without it, people are meant
                return 200, b"<!DOCTYPE html>MediaWiki API result", {"content-type": "text/html"}
            if fault and fault.kind == "lag" and "maxlag" in params:
                version = 2 if params.get("formatversion") in ("2", "latest") else 1
                body = wikibase_api.lagged(version, 7.3166666666667)
                return 200, body, fault.headers | {"MediaWiki-API-Error": "maxlag"}
            body, code = wikibase_api.call(world, params)
            return 200, body, {} if code is None else {"MediaWiki-API-Error": code}
        if path.startswith("/wiki/Special:EntityData/"):
            return entity_data(world, unquote(path.rsplit("/", 1)[1]), params)
        if match := re.fullmatch(
            r"/api/rest_v1/metrics/pageviews/per-article/([^/]+)/([^/]+)/([^/]+)/([^/]+)/([^/]+)/(\d+)/(\d+)", path
        ):
            return page_views(world, *(unquote(part) for part in match.groups()))
        if path == "/sparql":
            accept = self.headers.get("accept", "")
            if params.get("format") != "json" and "json" not in accept:
                return 200, b"<?xml version='1.0'?><sparql/>", {"content-type": "application/sparql-results+xml"}
            try:
                found = self.server.query(params.get("query", ""))
            except (SyntaxError, ValueError) as error:
                text = f"SPARQL-QUERY: queryStr={params.get('query')}\njava.util.concurrent.ExecutionException: {error}"
                return 400, text.encode(), {"content-type": "text/plain"}
            return 200, found, {"content-type": "application/sparql-results+json;charset=utf-8"}
        return not_found("No such page")


def main() -> None:
    server = Wikibase(Path(sys.argv[1]), float(sys.argv[2]))
    print(server.address, flush=True)
    server.serve_forever()
    os._exit(0)


if __name__ == "__main__":
    main()
