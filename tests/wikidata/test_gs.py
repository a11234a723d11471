"""The commands on gs://, against a server that speaks Google's protocol: the bytes of a local disk, and locks."""

import json
import os
from collections.abc import Iterator

import pytest

pytest.importorskip("obstore", reason="files on stores need the extra s3")

from anachron.core.errors import ConfigError
from anachron.io import store_requests, stores
from anachron.io.cluster import Spread
from anachron.io.jobs import locked
from anachron.io.stores import StorePath, place, remove_tree
from anachron.wikidata.reading.ingest import ingest
from support.gcs_server import Server, serving
from wikidata.dumps import write_dump
from wikidata.test_ingest import SETTINGS, some_entities
from wikidata.test_stores import content, nothing_is_left, same_facts_and_updates
from wikidata.updates.world import write_world

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("key")) as server:
        server.make_bucket("bucket")
        yield server


@pytest.fixture
def store(served: Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[StorePath]:
    for name in [name for name in os.environ if name.startswith(("GOOGLE_", "AWS_"))]:
        monkeypatch.delenv(name)
    for name, value in served.environment().items():
        monkeypatch.setenv(name, value)
    # Google's own address is never asked without encryption; that of a test's server is
    monkeypatch.setattr(store_requests, "plain_http", lambda: True)
    served.faults.each = 0
    folder = place(f"gs://bucket/{request.node.name}")
    assert isinstance(folder, StorePath)
    yield folder
    served.faults.each = 0


def test_objects_folders_and_conditions(store, served):
    served.faults.each, served.faults.kinds = 3, ("503", "drop")
    (store / "a/b c").put(b"0123456789")
    assert (store / "a/b c").is_file() and (store / "a").is_dir() and not (store / "none").exists()
    assert (store / "a/b c").read_range(2, 3) == b"234" and (store / "a/b c").read_range(-4, 2) == b"67"
    assert (store / "y").create(b"mine") and not (store / "y").create(b"other")
    found = (store / "y").version()
    assert found is not None and (store / "y").replace(b"newer", found[1])
    assert not (store / "y").replace(b"stale", found[1]) and (store / "y").read_bytes() == b"newer"
    for number in range(30):
        (store / "many" / str(number)).put(b"1")
    assert len(list((store / "many").rglob("*"))) == 30
    remove_tree(store)
    assert not store.is_dir() and served.faults.done["drop"]
    with pytest.raises(FileNotFoundError):
        (store / "y").read_bytes()


def test_what_another_removes_meanwhile_stops_no_removal(store, monkeypatch):
    for number in range(20):
        (store / str(number)).put(b"1")
    listed = list(store.rglob("*"))
    for path in listed[::3]:
        path.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(stores.StorePath, "rglob", lambda path, pattern: iter(listed))
        remove_tree(store)
    assert not store.is_dir()


def test_a_lock_is_held_and_taken_over_from_the_dead(store):
    lock = store / ".lock"
    with locked(lock, store):
        held = json.loads(lock.read_bytes())
        with pytest.raises(ConfigError, match=rf"in use by process {os.getpid()} .* gcloud storage rm {lock}"):
            locked(lock, store).__enter__()
    assert not lock.is_file()
    lock.put(json.dumps(held | {"process": 2**30}).encode())
    with locked(lock, store):
        assert json.loads(lock.read_bytes())["process"] == os.getpid()
    assert not lock.is_file()


def test_the_same_snapshot_facts_and_updates(store, served, tmp_path):
    dump = write_dump(tmp_path / "dump.json.bz2", some_entities())
    ingest(dump, tmp_path / "here", SETTINGS, range_bytes=12_000)
    (store / dump.name).put(dump)
    served.faults.each, served.faults.kinds = 9, ("503", "cut", "drop")
    ingest(str(store / dump.name), store / "there", SETTINGS, range_bytes=12_000)
    served.faults.each = 0
    assert content(store / "there") == content(tmp_path / "here")
    same_facts_and_updates(store, tmp_path, write_world(tmp_path / "world", buckets=3), Spread())
    nothing_is_left(store)
