"""Fetching from a server that cuts, forgets, hangs and lies."""

import functools
import hashlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.io.servers import retry_after
from anachron.wikidata.fetching import download
from anachron.wikidata.fetching.sources import RemoteFile
from anachron.wikidata.fetching.web import FetchSettings, client
from support.flaky_server import Answer, Cut, Flaky, Hang, Lie

NAME = "wikidata-20210104-all.json.bz2"
PATH = f"/{NAME}"
DATA = random.Random(1).randbytes(1_000_003)
OTHER = random.Random(2).randbytes(900_001)


@pytest.fixture
def server():
    with Flaky() as running:
        yield running


def source(server, data=DATA, **changes):
    whole = RemoteFile("dump", "2021-01-04", NAME, server.url + PATH, len(data), "sha1", hashlib.sha1(data).hexdigest())
    return replace(whole, **changes)


UNCHECKED = {"algorithm": None, "checksum": None}


OPENED = ExitStack()


@pytest.fixture(scope="module", autouse=True)
def _closed():
    with OPENED:
        yield
    web.cache_clear()


@functools.cache
def web(timeout=5.0):
    """A client for all tests: each new one reads the certificates of this machine again."""
    return OPENED.enter_context(client(FetchSettings(timeout=timeout)))


def fetch(server, folder, retries=3, timeout=5.0, waits=None, **changes):
    settings = FetchSettings(timeout=timeout, retries=retries, sleep=([] if waits is None else waits).append)
    return download.fetch_all(web(timeout), [source(server, **changes)], folder, settings)[0]


def leftovers(folder):
    return sorted(path.name for path in Path(folder).iterdir() if path.name != ".download.lock")


def assert_finished(folder, data=DATA):
    assert (folder / NAME).read_bytes() == data
    assert leftovers(folder) == [NAME, f"{NAME}.manifest.json"]


def test_a_file_arrives_with_a_manifest_that_says_where_from(server, tmp_path):
    server.put(PATH, DATA)
    done = fetch(server, tmp_path / "new" / "folder")
    assert (done.state, done.size, done.received) == ("fetched", len(DATA), len(DATA))
    assert_finished(tmp_path / "new" / "folder")
    manifest = json.loads((tmp_path / "new" / "folder" / f"{NAME}.manifest.json").read_text())
    assert manifest["url"] == server.url + PATH and manifest["size"] == len(DATA)
    assert manifest["sha1"] == hashlib.sha1(DATA).hexdigest()
    assert manifest["sha256"] == hashlib.sha256(DATA).hexdigest()
    assert all("Anachron" in agent for agent in server.agents)


def test_a_finished_file_is_not_fetched_again(server, tmp_path):
    server.put(PATH, DATA)
    fetch(server, tmp_path)
    again = fetch(server, tmp_path)
    assert (again.state, again.size, again.received) == ("already there", len(DATA), 0)
    assert len(server.requests) == 1
    (tmp_path / f"{NAME}.manifest.json").unlink()  # killed before it was written: the file is read, not fetched
    assert fetch(server, tmp_path).state == "already there"
    assert len(server.requests) == 1
    assert_finished(tmp_path)


def test_cuts_at_random_points_cost_nothing_but_requests(server, tmp_path):
    draw = random.Random(3)
    file = server.put(PATH, DATA, faults=[Cut(draw.randrange(1, 120_000)) for _ in range(12)])
    waits = []
    done = fetch(server, tmp_path, retries=1, waits=waits)
    assert_finished(tmp_path)
    assert file.sent == done.received == len(DATA)  # never a byte twice
    assert len(waits) == 12 and max(waits) < 2  # progress between them: the pauses do not grow
    starts = [0] + [int(asked[6:-1]) for asked in server.asked(PATH)[1:]]
    assert starts == sorted(starts) and len(set(starts)) == 13


def test_a_server_that_ignores_ranges_starts_the_file_over(server, tmp_path):
    file = server.put(PATH, DATA, ranges=False, faults=[Cut(400_000), Cut(700_000)])
    fetch(server, tmp_path)
    assert_finished(tmp_path)
    assert file.sent == 400_000 + 700_000 + len(DATA)


def test_failures_without_progress_end_after_the_retries_and_pauses_grow(server, tmp_path):
    server.put(PATH, DATA, faults=[Cut(300_000)] + [Answer(500)] * 10)
    waits = []
    with pytest.raises(BackendError, match=r"the server answers 500, 5 times in a row.*goes on from what is"):
        fetch(server, tmp_path, retries=4, waits=waits)
    assert all(later > 1.2 * earlier for earlier, later in itertools.pairwise(waits[1:]))
    assert (tmp_path / f"{NAME}.part").read_bytes() == DATA[:300_000]
    server.files[PATH].faults = []
    done = fetch(server, tmp_path)
    assert done.received == len(DATA) - 300_000
    assert_finished(tmp_path)


def test_retry_after_is_obeyed(server, tmp_path):
    server.put(PATH, DATA, faults=[Answer(429, {"Retry-After": "7"}), Answer(503, {"Retry-After": "11"})])
    waits = []
    fetch(server, tmp_path, waits=waits)
    assert waits == [7.0, 11.0]
    assert_finished(tmp_path)


def test_a_server_that_asks_to_wait_for_long_is_left_alone(server, tmp_path):
    server.put(PATH, DATA, faults=[Answer(429, {"Retry-After": "86400"})])
    with pytest.raises(BackendError, match="asks to wait 86,400 seconds"):
        fetch(server, tmp_path)


def test_retry_after_may_be_a_date():
    from datetime import UTC, datetime

    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    assert retry_after({"retry-after": "Thu, 01 Jan 2026 12:01:30 GMT"}, now) == 90.0
    assert retry_after({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, now) == 0.0
    assert retry_after({"retry-after": "soon"}, now) is None and retry_after({}, now) is None


def test_a_silent_server_is_given_up_and_asked_again(server, tmp_path):
    file = server.put(PATH, DATA, faults=[Hang(0), Hang(500_000)])
    fetch(server, tmp_path, timeout=0.3)
    assert_finished(tmp_path)
    assert file.sent == len(DATA)


def test_a_silent_server_is_named_in_the_end(server, tmp_path):
    server.put(PATH, DATA, faults=[Hang(0)] * 3)
    with pytest.raises(BackendError, match="the server fell silent, 2 times in a row"):
        fetch(server, tmp_path, timeout=0.2, retries=1)


def test_no_server_at_all(tmp_path):
    with Flaky() as gone:
        pass
    with pytest.raises(BackendError, match=r"Connect.*2 times in a row; check the network"):
        fetch(gone, tmp_path, retries=1)


def test_a_wrong_checksum_is_refused_and_the_file_set_aside(server, tmp_path):
    file = server.put(PATH, DATA[:-1] + b"!")
    with pytest.raises(BackendError, match=r"its sha1 is .* set aside as .*run the same command again"):
        fetch(server, tmp_path)
    assert leftovers(tmp_path) == [f"{NAME}.wrong"]
    file.data, file.etag = DATA, '"mended"'
    assert fetch(server, tmp_path).received == len(DATA)
    assert (tmp_path / NAME).read_bytes() == DATA


def test_a_file_that_changes_between_attempts_starts_over(server, tmp_path):
    file = server.put(PATH, OTHER, faults=[Cut(500_000)] + [Answer(500)] * 2)
    with pytest.raises(BackendError):
        fetch(server, tmp_path, data=OTHER, retries=1)
    file.data, file.etag, file.sent = DATA, '"newer"', 0
    done = fetch(server, tmp_path)
    assert_finished(tmp_path)
    assert done.received == file.sent == len(DATA)
    assert server.requests[-1][3] is not None  # it was asked on condition


def test_a_file_that_changes_in_the_middle_of_a_run_is_fetched_as_it_is_now(server, tmp_path):
    file = server.put(PATH, OTHER, faults=[Cut(500_000)])

    def change(seconds):
        file.data, file.etag = DATA, '"newer"'

    settings = FetchSettings(timeout=5, sleep=change)
    found = download.fetch_all(web(), [source(server, data=OTHER, **UNCHECKED)], tmp_path, settings)[0]
    assert found.size == len(DATA)
    assert_finished(tmp_path)


def test_progress_counts_anew_for_a_file_that_changed(server, tmp_path):
    file = server.put(PATH, OTHER, faults=[Cut(800_000)])
    waits = []

    def change(seconds):
        waits.append(seconds)
        if len(waits) == 1:
            file.data, file.etag, file.faults = DATA, '"newer"', [Cut(100_000), Cut(100_000), Cut(100_000)]

    settings = FetchSettings(retries=1, sleep=change)
    download.fetch_all(web(), [source(server, data=OTHER, **UNCHECKED)], tmp_path, settings)
    assert len(waits) == 4
    assert_finished(tmp_path)


def test_a_part_from_another_address_starts_over(server, tmp_path):
    server.put(PATH, OTHER, faults=[Cut(500_000), Answer(500), Answer(500)])
    with pytest.raises(BackendError):
        fetch(server, tmp_path, data=OTHER, retries=1)
    server.put("/mirror" + PATH, DATA, etag=server.files[PATH].etag)
    fetch(server, tmp_path, url=f"{server.url}/mirror{PATH}")
    assert server.asked("/mirror" + PATH) == [None]
    assert_finished(tmp_path)


def test_the_last_change_stands_in_for_an_etag(server, tmp_path):
    file = server.put(
        PATH, OTHER, etag='W/"weak"', last_modified=1_000_000, faults=[Cut(100), Answer(500), Answer(500)]
    )
    with pytest.raises(BackendError):
        fetch(server, tmp_path, data=OTHER, retries=1, **UNCHECKED)
    assert server.requests[1][3].startswith("Mon, 12 Jan 1970")
    changed = server.put(PATH, DATA, etag='W/"weak"', last_modified=2_000_000)
    assert fetch(server, tmp_path, **UNCHECKED).received == len(DATA) == changed.sent
    assert file.sent == 100
    assert_finished(tmp_path)


def test_without_any_version_only_a_checksum_allows_to_go_on(server, tmp_path):
    file = server.put(PATH, DATA, etag=None, faults=[Cut(250_000)])
    fetch(server, tmp_path / "checked")
    assert file.sent == len(DATA)
    file.sent, file.faults = 0, [Cut(250_000)]
    fetch(server, tmp_path / "unchecked", **UNCHECKED)
    assert file.sent == 250_000 + len(DATA)
    assert_finished(tmp_path / "checked")
    assert_finished(tmp_path / "unchecked")


@pytest.mark.parametrize(
    "lie",
    [
        {"Content-Range": f"bytes 0-{len(DATA) - 1}/{len(DATA)}"},
        {"Content-Range": f"bytes 250000-{len(DATA)}/{len(DATA) + 1}"},
        {"Content-Range": "nonsense"},
        {"Content-Range": None},
        {"ETag": '"another"'},
    ],
)
def test_a_part_of_something_else_is_not_appended(server, tmp_path, lie):
    server.put(PATH, DATA, faults=[Cut(250_000), Lie(lie)])
    fetch(server, tmp_path)
    assert_finished(tmp_path)
    assert server.asked(PATH) == [None, "bytes=250000-", None]


def test_a_part_that_is_longer_than_the_file_starts_over(server, tmp_path):
    server.put(PATH, DATA, faults=[Cut(250_000), Answer(500), Answer(500)])
    with pytest.raises(BackendError):
        fetch(server, tmp_path, retries=1)
    with (tmp_path / f"{NAME}.part").open("ab") as part:
        part.write(bytes(len(DATA)))
    fetch(server, tmp_path)
    assert server.asked(PATH)[-2:] == [f"bytes={250_000 + len(DATA)}-", None]  # the answer in between was 416
    assert_finished(tmp_path)


def test_a_part_of_unknown_origin_starts_over(server, tmp_path):
    server.put(PATH, DATA)
    (tmp_path / f"{NAME}.part").write_bytes(b"what is this")
    (tmp_path / f"{NAME}.part.json").write_text("{broken")
    fetch(server, tmp_path)
    assert server.asked(PATH) == [None]
    assert_finished(tmp_path)


def test_a_part_that_was_whole_when_the_process_died_is_only_checked(server, tmp_path):
    server.put(PATH, DATA, faults=[Cut(len(DATA) - 1), Answer(500), Answer(500)])
    with pytest.raises(BackendError):
        fetch(server, tmp_path, retries=1)
    with (tmp_path / f"{NAME}.part").open("ab") as part:
        part.write(DATA[-1:])
    assert fetch(server, tmp_path).received == 0
    assert_finished(tmp_path)


def test_a_server_that_tells_no_size_is_held_to_the_one_that_is_known(server, tmp_path):
    file = server.put(PATH, DATA, length=False, faults=[Cut(100_000)])
    fetch(server, tmp_path, **UNCHECKED)
    assert file.sent == len(DATA)
    assert_finished(tmp_path)
    with pytest.raises(BackendError, match="it has 1,000,003 bytes, and the server announced 1,000,000"):
        fetch(server, tmp_path / "short", size=1_000_000, **UNCHECKED)


def test_an_empty_file(server, tmp_path):
    server.put(PATH, b"")
    assert fetch(server, tmp_path, data=b"").size == 0
    assert_finished(tmp_path, b"")


@pytest.mark.parametrize(("status", "message"), [(404, "no such file"), (403, "--contact"), (401, "answers 401")])
def test_refusals_are_final(server, tmp_path, status, message):
    server.put(PATH, DATA, faults=[Answer(status)])
    with pytest.raises(BackendError, match=message):
        fetch(server, tmp_path)
    assert len(server.requests) == 1


def test_another_file_under_the_name_is_not_overwritten(server, tmp_path):
    server.put(PATH, DATA)
    (tmp_path / NAME).write_bytes(b"mine")
    with pytest.raises(DataError, match=r"is there with 4 bytes.*move it away"):
        fetch(server, tmp_path)
    (tmp_path / NAME).write_bytes(bytes(len(DATA)))
    with pytest.raises(DataError, match="is there, its sha1 is"):
        fetch(server, tmp_path)
    assert (tmp_path / NAME).read_bytes() == bytes(len(DATA)) and not server.requests


def test_a_disk_too_small_is_seen_before_anything_is_fetched(server, tmp_path):
    server.put(PATH, DATA)
    with pytest.raises(BackendError, match=r"still to be fetched and the disk has [\d,]+ free"):
        fetch(server, tmp_path, size=10**17)
    assert not server.requests


def test_a_folder_that_cannot_be_made(server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendError, match="choose another --out"):
        fetch(server, tmp_path / "file" / "folder")


def test_a_second_download_into_the_folder_is_kept_out(server, tmp_path):
    import filelock

    server.put(PATH, DATA)
    with filelock.FileLock(tmp_path / ".download.lock"), pytest.raises(ConfigError, match="in use by another process"):
        fetch(server, tmp_path)


KILLED = """
import sys
from anachron.wikidata.fetching.download import fetch_all
from anachron.wikidata.fetching.sources import RemoteFile
from anachron.wikidata.fetching.web import FetchSettings, client
url, name, size, sha1, folder = sys.argv[1:]
with client(FetchSettings()) as web:
    fetch_all(web, [RemoteFile("dump", "2021-01-04", name, url, int(size), "sha1", sha1)], folder)
"""


def test_a_disk_that_is_full_keeps_what_is_there(server, tmp_path):
    """The limit of file sizes stands in for the disk's end."""
    server.put(PATH, DATA)
    wanted = source(server)
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))" + KILLED
    arguments = [wanted.url, NAME, str(len(DATA)), wanted.checksum, str(tmp_path)]
    ended = subprocess.run([sys.executable, "-c", limited, *arguments], capture_output=True, text=True)
    assert "BackendError: cannot write" in ended.stderr and "what was fetched is kept" in ended.stderr
    kept = (tmp_path / f"{NAME}.part").stat().st_size
    assert 0 < kept <= 600_000
    file = server.put(PATH, DATA)  # counts anew: the server may not know yet that the first client is gone
    assert fetch(server, tmp_path).received == file.sent == len(DATA) - kept
    assert_finished(tmp_path)


def test_killed_in_the_middle_and_resumed(server, tmp_path):
    """kill -9 loses what is not written yet, at most one block; nothing that is on disk comes again."""
    data = DATA * 6
    server.put(PATH, data, pace=0.004)
    wanted = source(server, data=data)
    part = tmp_path / f"{NAME}.part"
    arguments = [wanted.url, NAME, str(len(data)), wanted.checksum, str(tmp_path)]
    process = subprocess.Popen([sys.executable, "-c", KILLED, *arguments], env=os.environ | {"OMP_NUM_THREADS": "1"})
    for _ in range(3000):
        if part.is_file() and part.stat().st_size >= 2_000_000:
            break
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = part.stat().st_size
    assert 2_000_000 <= kept < len(data) and not (tmp_path / NAME).exists()
    file = server.put(PATH, data)  # counts anew: the server may still be sending to the killed process
    done = fetch(server, tmp_path, data=data)
    assert done.received == file.sent == len(data) - kept
    assert server.asked(PATH)[-1] == f"bytes={kept}-"
    assert_finished(tmp_path, data)
