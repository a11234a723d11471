"""Files fetched over HTTP that survive cut connections, restarts and kill -9.

Beside ``NAME`` while it is unfinished: ``NAME.part`` (the bytes so far) and ``NAME.part.json`` (where they come from
and which version of the file they are). The next request asks for the rest, on condition (``If-Range``) that the file
is still that version; a server that answers with the whole file starts it over. ``NAME`` appears when all bytes are
there and its checksum is right, then ``NAME.manifest.json``.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anachron.core.errors import AnachronError, BackendError, ConfigError, DataError, way_out
from anachron.io.files import Json, read_json, versions, write_json
from anachron.io.jobs import locked
from anachron.io.retries import Failure
from anachron.io.servers import retry_after
from anachron.wikidata.fetching.sources import RemoteFile
from anachron.wikidata.fetching.web import MISSING, PASSING, FetchSettings, in_words, persist, refused

if TYPE_CHECKING:
    import httpx2

Progress = Callable[[str, int, int], None]  # what is done, bytes done, bytes in all (0 where unknown)
CHUNK = 1 << 20
RESERVE = 64 * CHUNK  # bytes of the disk that are left alone, for manifests and whoever else writes


@dataclass(frozen=True, slots=True)
class Fetched:
    """What became of a file: ``state`` is ``fetched`` or ``already there``; ``received`` are bytes of this run."""

    source: RemoteFile
    path: Path
    state: Literal["fetched", "already there"]
    size: int
    received: int


def fetch_all(
    web: "httpx2.Client",
    sources: Iterable[RemoteFile],
    folder: Path | str,
    settings: FetchSettings | None = None,
    progress: Progress = lambda what, done, total: None,
) -> list[Fetched]:
    """Fetch files into a folder, one after the other; what is finished there is left as it is.

    Raises `BackendError` for a disk too small (before anything is fetched), a server that keeps failing or refuses,
    and `DataError` for a file whose checksum or size is wrong.
    """
    folder, sources, settings = Path(folder), list(sources), settings or FetchSettings()
    with locked(folder / ".download.lock", folder):
        check_space(sources, folder)
        return [_fetch(web, source, folder, settings, progress) for source in sources]


def bytes_here(source: RemoteFile, folder: Path | str) -> int:
    """Bytes of a file that need not be fetched again, as far as its size tells."""
    target = Path(folder) / source.name
    if target.is_file():
        return target.stat().st_size
    part = _part(target)
    return part.stat().st_size if part.is_file() and _usable(target, source) else 0


def free_space(folder: Path) -> tuple[Path, int]:
    """The nearest folder that exists, and the bytes free on its disk."""
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return place, shutil.disk_usage(place).free


def check_space(sources: Iterable[RemoteFile], folder: Path) -> None:
    """Raise `BackendError` unless the disk has room for what is still to be fetched."""
    needed = sum(max(0, (source.size or 0) - bytes_here(source, folder)) for source in sources)
    free = free_space(folder)[1]
    if needed and needed + RESERVE > free:
        raise BackendError(
            f"{folder}: {needed:,} bytes are still to be fetched and the disk has {free:,} free; make room or choose "
            "another --out"
        )


def _fetch(
    web: "httpx2.Client", source: RemoteFile, folder: Path, settings: FetchSettings, progress: Progress
) -> Fetched:
    target = folder / source.name
    if target.exists():
        return Fetched(source, target, "already there", _finished(source, target, progress), 0)
    try:
        received = _Transfer(web, source, target, settings, progress).run()
        digests = _check(source, target, progress)
        size = _part(target).stat().st_size
        _part(target).replace(target)
        _state_file(target).unlink(missing_ok=True)
    except OSError as error:
        raise BackendError(
            f"cannot write {target}: {error.strerror or error}; what was fetched is kept: {way_out(error)}, then run "
            "the same command again"
        ) from error
    _write_manifest(source, target, size, digests)
    return Fetched(source, target, "fetched", size, received)


def _part(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def _state_file(target: Path) -> Path:
    return target.with_name(target.name + ".part.json")


def _manifest_file(target: Path) -> Path:
    return target.with_name(target.name + ".manifest.json")


def _read_state(target: Path) -> Json:
    """What is known of the bytes in the part; empty where nothing readable is."""
    if not _state_file(target).is_file():
        return {}
    try:
        state = read_json(_state_file(target))
    except AnachronError:  # written by something else: then the bytes are of unknown origin too, and are not used
        return {}
    return state if isinstance(state, dict) else {}


def _usable(target: Path, source: RemoteFile) -> Json | None:
    """The state of a part that the rest can be added to; ``None`` where it must be started over.

    Without a version to ask for (``ETag``, ``Last-Modified``) bytes of two versions could be mixed unseen, unless
    a checksum would tell.
    """
    state = _read_state(target)
    usable = state.get("url") == source.url and bool(_version(state) or source.checksum)
    return state if usable else None


def _version(state: Json) -> str | None:
    """What If-Range may carry: a strong ETag, else the date of the last change."""
    etag = state.get("etag")
    return etag if etag and not etag.startswith("W/") else state.get("last_modified")


class _Transfer:
    """The requests that fill one part."""

    def __init__(
        self, web: "httpx2.Client", source: RemoteFile, target: Path, settings: FetchSettings, progress: Progress
    ) -> None:
        self.web, self.source, self.target, self.progress = web, source, target, progress
        self.part = _part(target)
        self.settings = settings
        self.received = 0
        self.furthest = 0

    def run(self) -> int:
        """Fetch until the part is whole; the number of bytes that came."""
        self.furthest = self._have()
        persist(self.settings, self.source.url, self._once, self._progressed)
        return self.received

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def _progressed(self) -> bool:
        """Whether there are more bytes than ever before."""
        before, self.furthest = self.furthest, max(self.furthest, self._have())
        return self.furthest > before

    def _once(self) -> None:
        """Requests until the part is whole. Raises `Failure` where one fails."""
        import httpx2

        try:
            self._request()
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise ConfigError(f"{self.source.url} is not an address to fetch from: {error}") from error
        except (httpx2.TransportError, httpx2.TooManyRedirects) as error:
            raise Failure(in_words(error)) from error

    def _request(self) -> None:
        state = _usable(self.target, self.source) or {}
        have = self._have() if state else 0
        if have and have == (state.get("size") or self.source.size):
            return
        headers = {}
        if have:
            headers["Range"] = f"bytes={have}-"
            if version := _version(state):
                headers["If-Range"] = version
        with self.web.stream("GET", self.source.url, headers=headers) as response:
            problem = self._problem(response, have, state)
            if problem is None:
                if response.status_code == 200:
                    have, state = 0, self._begin(response, state)
                size = state.get("size") or self.source.size or 0
                have = self._receive(response, have, size)
                if have < size:
                    problem = f"the connection ended after {have:,} of {size:,} bytes"
        if problem is not None:  # the connection is closed by now, so nothing is held while waiting
            raise Failure(problem, retry_after(response.headers))

    def _problem(self, response: "httpx2.Response", have: int, state: Json) -> str | None:
        """Why an answer is of no use now, or ``None``. Raises `BackendError` when it will not be later either."""
        status = response.status_code
        if status in PASSING:
            return f"the server answers {status}"
        if status in MISSING:
            raise BackendError(f"{self.source.url}: no such file on the server ({status}); check the address")
        if status == 416 or (status == 206 and not _continues(response, have, state)):
            self._start_over({})  # what is here does not belong to the file as the server has it now
            return f"the server answers {status} to a request for the bytes from {have:,}"
        if status not in (200, 206):
            raise refused(response)
        return None

    def _begin(self, response: "httpx2.Response", before: Json) -> Json:
        """Start the part over, as the version of the file that this answer holds; the new state."""
        state: Json = {
            "url": self.source.url,
            "size": _length(response),
            "etag": response.headers.get("etag"),
            "last_modified": response.headers.get("last-modified"),
        }
        if _version(state) != _version(before):
            self.furthest = 0
        self._start_over(state)
        return state

    def _start_over(self, state: Json) -> None:
        # The bytes go before the state changes: bytes of one version are never beside the state of another.
        self.part.unlink(missing_ok=True)
        write_json(_state_file(self.target), state)

    def _receive(self, response: "httpx2.Response", have: int, size: int) -> int:
        with self.part.open("ab", buffering=CHUNK) as part:
            for chunk in response.iter_raw():
                part.write(chunk)
                have += len(chunk)
                self.received += len(chunk)
                self.progress(self.source.name, have, size)
        return have


def _length(response: "httpx2.Response") -> int | None:
    length = response.headers.get("content-length", "")
    return int(length) if length.isdecimal() else None


def _continues(response: "httpx2.Response", have: int, state: Json) -> bool:
    """Whether a partial answer is the rest of what is here: it starts where that ends, and is of the same size."""
    unit, _, of = response.headers.get("content-range", "").partition(" ")
    span, _, total = of.partition("/")
    same_size = total == "*" or not state.get("size") or total == str(state["size"])
    etag = response.headers.get("etag")
    same_version = not etag or not state.get("etag") or etag == state["etag"]
    return unit == "bytes" and span.partition("-")[0] == str(have) and have > 0 and same_size and same_version


def _digests(path: Path, source: RemoteFile, progress: Progress) -> dict[str, str]:
    """SHA-256, and the checksum that the server publishes, in one reading."""
    digests = {name: hashlib.new(name, usedforsecurity=False) for name in {"sha256", source.algorithm} if name}
    done, size = 0, path.stat().st_size
    with path.open("rb") as data:
        while chunk := data.read(CHUNK):
            for digest in digests.values():
                digest.update(chunk)
            done += len(chunk)
            progress(f"checking {source.name}", done, size)
    return {name: digest.hexdigest() for name, digest in digests.items()}


def _check(source: RemoteFile, target: Path, progress: Progress) -> dict[str, str]:
    """Digests of a whole part, on disk. Raises `BackendError`, with the file set aside, when they are wrong."""
    part = _part(target)
    if not part.exists():  # a file of no bytes
        part.touch()
    with part.open("rb") as written:
        os.fsync(written.fileno())
    digests, size = _digests(part, source, progress), part.stat().st_size
    expected = _read_state(target).get("size") or source.size
    wrong = None
    if source.algorithm and digests[source.algorithm] != source.checksum:
        wrong = f"its {source.algorithm} is {digests[source.algorithm]}, and the server publishes {source.checksum}"
    elif source.checksum is None and expected is not None and size != expected:
        wrong = f"it has {size:,} bytes, and the server announced {expected:,}"
    if wrong is None:
        return digests
    aside = target.with_name(target.name + ".wrong")
    part.replace(aside)
    _state_file(target).unlink(missing_ok=True)
    raise BackendError(  # what the server sent, not what was asked of us
        f"{source.url}: {wrong}; the file is set aside as {aside}: run the same command again to refetch it, "
        "and delete that file once a fetch succeeds"
    )


def _finished(source: RemoteFile, target: Path, progress: Progress) -> int:
    """Size of a file that is already there, after a look whether it is the one to fetch.

    A manifest of ours vouches for a checksum; without one, the file is read once and gets a manifest.
    Raises `DataError` for another file: nothing is overwritten.
    """
    size = target.stat().st_size
    _state_file(target).unlink(missing_ok=True)
    if not target.is_file() or (source.size is not None and size != source.size):
        raise DataError(
            f"{target} is there with {size:,} bytes, and {source.url} has {source.size or 0:,}; move it away or choose "
            "another --out"
        )
    manifest = read_json(_manifest_file(target)) if _manifest_file(target).is_file() else {}
    known = manifest.get("size") == size and manifest.get("url") == source.url
    if known and (source.checksum is None or manifest.get(source.algorithm or "") == source.checksum):
        return size
    digests = _digests(target, source, progress)
    if source.algorithm and digests[source.algorithm] != source.checksum:
        raise DataError(
            f"{target} is there, its {source.algorithm} is {digests[source.algorithm]}, and the server publishes "
            f"{source.checksum} for {source.url}; move it away or choose another --out"
        )
    _write_manifest(source, target, size, digests)
    return size


def _write_manifest(source: RemoteFile, target: Path, size: int, digests: dict[str, str]) -> None:
    content = {
        "output": target.name, "command": "wikidata download", "kind": source.kind, "date": source.date,
        "url": source.url, "size": size, **digests, "published_checksum": source.algorithm, "versions": versions(),
    }  # fmt: skip
    write_json(_manifest_file(target), content)
