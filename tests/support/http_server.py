"""The base of the tests' own servers: real HTTP on this machine, in a thread of the test or in a process of its own."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """What all of them do alike with a connection; subclasses say by ``do_GET`` and others what is answered."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer of two writes waits 40 ms

    def log_message(self, *words: Any) -> None:
        pass

    def content(self) -> bytes:
        """What was sent with the request."""
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def reply(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        """Answer with a status and a body: bytes as they are, all else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.lower(): value for name, value in (headers or {}).items()}
        self.begin(status, {"content-type": "application/json", "content-length": str(len(data))} | given)
        if self.command != "HEAD":
            self.wfile.write(data)

    def begin(self, status: int, headers: Mapping[str, str | None]) -> None:
        """Send the status and those headers that are not None; what follows is the body."""
        self.send_response(status)
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()

    def drop(self) -> None:
        """End the connection, whatever was promised."""
        self.wfile.flush()
        self.close_connection = True
        self.connection.close()


class Server(ThreadingHTTPServer):
    """at: the port, by default a free one."""

    daemon_threads = True

    def __init__(self, handler: type[Handler], at: int = 0) -> None:
        super().__init__(("127.0.0.1", at), handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """A server that answers as long as the block lasts."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serve_for_ever(handler: type[Handler], path: str = "") -> None:
    """The whole of a process: print the address, with a path behind it, and answer until it is killed."""
    server = Server(handler)
    print(server.address + path, flush=True)
    server.serve_forever()
