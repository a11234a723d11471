"""Snapshots, facts and updates on a store: the bytes of a local disk, whatever fails; its locks."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("obstore", reason="files on stores need the extra s3")

from anachron.cli.entry import run
from anachron.core.errors import ConfigError, DataError
from anachron.io import leases
from anachron.io.cluster import Spread
from anachron.io.jobs import begin, begun, discard, locked, parts_folder
from anachron.io.store_requests import VARIABLE, StoreError
from anachron.io.stores import Blocks, StorePath, parts_of, place, remove_tree
from anachron.io.tables import read_parquet, scan_parquet, write_table
from anachron.wikidata.reading.dump import open_dump
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.rebucket import rebucket
from anachron.wikidata.reading.snapshot import check_table, readable
from anachron.wikidata.selection.facts import build_facts
from anachron.wikidata.selection.rules import Selection
from anachron.wikidata.updates.build import UpdateSettings, build_updates, companions
from support.store_server import KEY, SECRET, Faults, Server, proxy, serving
from wikidata.dumps import write_dump
from wikidata.test_ingest import SETTINGS, some_entities
from wikidata.updates.world import write_world


@pytest.fixture(scope="module")
def served():
    with serving() as server:
        yield server


@pytest.fixture
def store(served: Server, monkeypatch, request):
    with served.folder(str(abs(hash(request.node.name))), monkeypatch) as folder:
        yield folder


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> tuple[Path, Path]:
    return write_world(tmp_path_factory.mktemp("world"), buckets=3)


def content(folder):
    """Bytes of all files but the manifest."""
    begin = len(str(folder)) + 1
    files = {str(path)[begin:]: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    del files["manifest.json"]
    return files


def snapshot_content(folder):
    """`content` without what the end of a job could not remove, for the store did not list it."""
    return {name: data for name, data in content(folder).items() if not name.startswith("work/")}


def test_paths():
    path = place("s3://bucket/a/b.json.gz")
    assert (str(path), path.name, path.suffix, str(path.parent)) == (
        "s3://bucket/a/b.json.gz", "b.json.gz", ".gz", "s3://bucket/a",
    )  # fmt: skip
    assert place(Path("s3://bucket/a/b.json.gz")) == path == place(path)
    assert str(path.with_name("c") / "d") == "s3://bucket/a/c/d"
    assert [str(above) for above in path.parents] == ["s3://bucket/a", "s3://bucket"]
    assert place("a:b/c") == Path("a:b/c") and place("C:/x") == Path("C:/x")
    for wrong in ("az://x/y", "s3://", "hdfs://host/x"):
        with pytest.raises(ConfigError):
            place(wrong)


def test_objects_and_folders(store):
    (store / "a/b").put(b"0123456789")
    assert (store / "a/b").is_file() and not (store / "a").is_file() and (store / "a").is_dir()
    assert [str(path) for path in store.iterdir()] == [str(store / "a")]
    with parts_of(store / "a/b") as read:
        assert read(2, 3) == b"234" and read(-4, 2) == b"67"
    assert Blocks(store / "a/b").read(3, 99) == b"3456789"
    with (store / "a/b").open("rb") as file:
        assert file.read(4) == b"0123" and file.seek(-1, 2) == 9 and file.read() == b"9"
    with pytest.raises(FileNotFoundError):
        (store / "none").read_bytes()
    with pytest.raises(StoreError, match="no such bucket"):
        place("s3://nowhere/x").put(b"")
    remove_tree(store)
    assert not store.is_dir()


@pytest.mark.full
@pytest.mark.parametrize("kind", ["503", "cut", "drop"])
def test_what_fails_for_a_moment_is_repeated(store, served, kind):
    served.faults.each, served.faults.kinds = 2, (kind,)
    data = os.urandom(100_000)
    (store / "x").put(data)
    assert (store / "x").read_bytes() == data
    assert (store / "y").create(b"mine") and not (store / "y").create(b"other")
    found = (store / "y").version()
    assert found is not None and (store / "y").replace(b"newer", found[1])
    assert not (store / "y").replace(b"stale", found[1]) and (store / "y").read_bytes() == b"newer"
    (store / "y").unlink()
    for number in range(4):
        (store / "many" / str(number)).put(b"1")
        assert len(list((store / "many").iterdir())) == len(list((store / "many").rglob("*"))) == number + 1
    assert served.faults.done[kind]


@pytest.mark.full
def test_a_bucket_of_the_same_name_elsewhere_is_another(store, served, monkeypatch):
    (store / "x").put(b"here")
    write_table(store / "x.parquet", pl.DataFrame({"place": ["here"]}))
    assert read_parquet(store / "x.parquet").rows() == [("here",)]
    with serving() as other:
        monkeypatch.setenv("AWS_ENDPOINT_URL", other.endpoint)
        assert not (store / "x").is_file()
        (store / "x").put(b"there")
        write_table(store / "x.parquet", pl.DataFrame({"place": ["there"]}))
        assert read_parquet(store / "x.parquet").rows() == [("there",)]
    monkeypatch.setenv("AWS_ENDPOINT_URL", served.endpoint)
    assert (store / "x").read_bytes() == b"here"
    assert read_parquet(store / "x.parquet").rows() == [("here",)]


def test_a_lock_is_held_released_and_taken_over_from_the_dead(store):
    lock = store / ".lock"
    with locked(lock, store):
        held = json.loads(lock.read_bytes())
        assert held["process"] == os.getpid() and held["host"] == socket.gethostname()
        with (
            pytest.raises(ConfigError, match=rf"in use by process {os.getpid()} .* aws s3 rm {lock}"),
            locked(lock, store),
        ):
            pass
    assert not lock.is_file()
    lock.put(json.dumps(held | {"process": 2**30, "machine": "another"}).encode())
    with pytest.raises(ConfigError, match="in use by process"), locked(lock, store):
        pass
    lock.put(json.dumps(held | {"process": 2**30}).encode())
    with locked(lock, store):
        assert json.loads(lock.read_bytes())["process"] == os.getpid()
    assert not lock.is_file()


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="only Linux tells when a process was started")
def test_a_lock_is_taken_over_after_a_restart_or_when_its_number_is_another_programs(store, monkeypatch):
    lock = store / ".lock"
    with locked(lock, store):
        held = json.loads(lock.read_bytes())
    with subprocess.Popen(["sleep", "60"]) as other:
        long_ago = {"machine": "before pid:[1]", "alive": "2020-01-01T00:00:00.000+00:00"}
        for change, taken in (
            ({"process": other.pid}, True),  # whose start is another's
            ({"process": other.pid, "started": leases.started_at(other.pid)}, False),
            ({"process": other.pid, "started": None}, False),  # a lock of an earlier version
            (long_ago, True),
            (long_ago | {"alive": held["alive"]}, False),  # since this machine was started: a copy of it
            (long_ago | {"host": "another"}, False),
            (long_ago | {"installation": "another"}, False),
            (long_ago | {"installation": None}, False),
            (long_ago | {"machine": None}, False),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(leases, "_installation", lambda: "0123")
                lock.put(json.dumps(held | {"installation": "0123"} | change).encode())
                if taken:
                    with locked(lock, store):
                        assert json.loads(lock.read_bytes())["process"] == os.getpid()
                else:
                    with pytest.raises(ConfigError, match="in use by process"), locked(lock, store):
                        pass
        other.kill()


def test_what_is_no_lock_is_told_in_one_line(store):
    lock = store / ".lock"
    good = {"host": "h", "machine": "m", "process": 7, "token": "t", "alive": "2020-01-01T00:00:00+00:00"}
    for content in (
        b"", b"\xff\xfe", b"[]", b"null", b'"text"', b"[" * 100_000, b"another program's lock",
        *(json.dumps(good | change).encode() for change in (
            {"process": "abc"}, {"process": -1}, {"process": 1.5}, {"process": None}, {"process": True},
            {"alive": "yesterday"}, {"alive": 3}, {"alive": "2020-01-01T00:00:00"},
        )),
    ):  # fmt: skip
        lock.put(content)
        told = rf"^{lock} is not a lock of Anachron; .* aws s3 rm {lock}$"
        with pytest.raises(DataError, match=told), locked(lock, store):
            pass
        assert lock.read_bytes() == content


@pytest.mark.full
@pytest.mark.parametrize("ending", ["json", "json.gz", "json.bz2", "json.zst"])
def test_the_same_snapshot_with_faults(store, served, tmp_path, ending):
    dump = write_dump(tmp_path / f"dump.{ending}", some_entities())
    ingest(dump, tmp_path / "here", SETTINGS, range_bytes=12_000)
    (store / dump.name).put(dump)
    served.faults.each, served.faults.kinds = 9, ("503", "cut", "drop", "slow")
    ingest(str(store / dump.name), store / "there", SETTINGS, range_bytes=12_000, workers=2)
    served.faults.each = 0
    assert content(store / "there") == content(tmp_path / "here")
    with pytest.raises(ConfigError, match="with other settings"):
        ingest(str(store / dump.name), store / "there", replace(SETTINGS, date="2022-01-01"))


@pytest.mark.full
def test_requests_of_an_ingest_grow_with_ranges_and_not_with_ranges_times_buckets(store, served, tmp_path):
    dump = write_dump(tmp_path / "dump.json", some_entities())
    (store / dump.name).put(dump)
    asked = []
    for buckets in (16, 64):
        before = served.faults.requests.get("GET", 0)
        done = ingest(
            str(store / dump.name), store / str(buckets), replace(SETTINGS, buckets=buckets), range_bytes=9_000
        )
        asked.append(served.faults.requests["GET"] - before)
    ranges = -(-done["dump"]["size"] // 9_000)
    # 48 buckets are three runs: each of them is a look at the index of a range, and one at its rows
    assert ranges > 10 and asked[1] - asked[0] <= 3 * 2 * ranges + 48


NEVER = float("inf")  # seconds until a listing shows what was put


@pytest.mark.full
@pytest.mark.parametrize("late", [0.0, NEVER])
def test_an_interrupted_ingest_goes_on(store, served, tmp_path, late):
    served.faults.late = late
    dump = write_dump(tmp_path / "dump.json", some_entities())
    ingest(dump, tmp_path / "here", SETTINGS, range_bytes=12_000)
    whole = dump.read_bytes()
    dump.write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(DataError, match="cut off"):
        ingest(dump, store, SETTINGS, range_bytes=12_000)
    assert not (store / "manifest.json").is_file() and not (store / ".lock").is_file()
    dump.write_bytes(whole)
    ingest(dump, store, SETTINGS, range_bytes=12_000)
    served.faults.late = 0.0
    assert snapshot_content(store) == content(tmp_path / "here")
    assert (store / "work").is_dir() is bool(late)


@pytest.mark.full
@pytest.mark.parametrize(("ending", "limit"), [("json", None), ("json.gz", None), ("json", 40)])
def test_an_ingest_needs_no_listing(store, served, tmp_path, ending, limit):
    served.faults.late = NEVER
    dump, settings = write_dump(tmp_path / f"dump.{ending}", some_entities()), replace(SETTINGS, limit=limit)
    ingest(dump, tmp_path / "here", settings, range_bytes=12_000)
    ingest(dump, store, settings, range_bytes=12_000, workers=2)
    assert served.faults.done["late"]
    served.faults.late = 0.0
    assert snapshot_content(store) == content(tmp_path / "here")


@pytest.mark.full
@pytest.mark.parametrize("of_before", [False, True])
def test_ranges_are_read_once_though_no_listing_shows_them(store, served, tmp_path, monkeypatch, of_before):
    """of_before: work begun by a version that kept its parts in the work folder itself, as its record shows."""
    served.faults.late = NEVER
    dump = write_dump(tmp_path / "dump.json", some_entities())
    ingest(dump, tmp_path / "here", SETTINGS, range_bytes=9_000)
    with monkeypatch.context() as patch:
        patch.setattr("anachron.wikidata.reading.ingest._join", stop)
        if of_before:
            patch.setattr("anachron.wikidata.reading.ingest.parts_folder", lambda work, record: work)
        with pytest.raises(KeyboardInterrupt):
            ingest(dump, store, SETTINGS, range_bytes=9_000)
    if of_before:
        record = json.loads((store / "work" / "job.json").read_bytes())
        del record["parts"]
        (store / "work" / "job.json").put(json.dumps(record).encode())
    monkeypatch.setattr("anachron.wikidata.reading.ingest.do_ranges", stop)
    ingest(dump, store, SETTINGS, range_bytes=9_000)
    served.faults.late = 0.0
    assert snapshot_content(store) == content(tmp_path / "here")


@pytest.mark.full
def test_ranges_of_a_file_that_was_no_dump_are_not_met(store, served, tmp_path):
    served.faults.late = NEVER
    dump, wrong = write_dump(tmp_path / "dump.json", some_entities()), tmp_path / "wrong" / "dump.json"
    wrong.parent.mkdir()
    line = json.dumps({"no": "entity" * 20}) + "\n"
    wrong.write_text(line * (dump.stat().st_size // len(line)))
    ingest(dump, tmp_path / "here", SETTINGS, range_bytes=9_000)
    with pytest.raises(DataError, match="are not Wikidata entities"):
        ingest(wrong, store, SETTINGS, range_bytes=9_000)
    ingest(dump, store, SETTINGS, range_bytes=9_000)
    served.faults.late = 0.0
    assert snapshot_content(store) == content(tmp_path / "here")


@pytest.mark.full
def test_page_views_that_no_listing_shows_do_not_become_those_of_another_snapshot(store, served, tmp_path):
    served.faults.late = NEVER
    (store / "popularity.parquet").put(b"of a snapshot that was removed")
    dump = write_dump(tmp_path / "dump.json", some_entities())
    with pytest.raises(ConfigError, match=r"is not empty \(popularity.parquet\)"):
        ingest(dump, store, SETTINGS)


def test_the_work_of_a_job_on_a_store_lies_under_a_name_of_its_own(store, served):
    served.faults.late = NEVER
    work, folders = store / "work", []
    for _ in range(2):
        record = begin(work, {"seed": 0})
        assert begin(work, {"seed": 0}) == record and begun(work) == record
        folders.append(parts_folder(work, record))
        assert not (folders[-1] / "part").is_file()
        (folders[-1] / "part").put(b"")
        discard(work)
    assert folders[0] != folders[1] and begun(work) is None
    served.faults.late = 0.0
    begin(work, {"seed": 0})
    assert [path.name for path in work.rglob("*")] == ["job.json"]


def test_keys_are_never_shown(store, served):
    served.faults.each, served.faults.kinds = 1, ("403",)
    for request in ((store / "x").read_bytes, lambda: (store / "x").put(b"1"), lambda: open_dump(store / "x")):
        with pytest.raises(StoreError, match=r"access denied .403 Forbidden.*AWS_ACCESS_KEY_ID") as refused:
            request()
        assert KEY not in str(refused.value) and SECRET not in str(refused.value)
        assert refused.value.__suppress_context__


@pytest.mark.full
def test_the_same_facts_and_updates(store, tmp_path, world):
    same_facts_and_updates(store, tmp_path, world, Spread(2))
    nothing_is_left(store)


@pytest.mark.full
def test_the_same_facts_and_updates_though_no_listing_shows_anything(store, served, tmp_path, world):
    served.faults.late = NEVER
    same_facts_and_updates(store, tmp_path, world, Spread(2))
    assert served.faults.done["late"]
    served.faults.late = 0.0
    assert not any("selecting" in str(path) or "lock" in str(path) for path in store.rglob("*"))


@pytest.mark.full
def test_updates_meet_nothing_of_earlier_ones_that_no_listing_shows(store, served, tmp_path, world):
    served.faults.late = NEVER
    few, many = (UpdateSettings(popularity=False, neighbours=number) for number in (1, 10))
    build_updates(*world, tmp_path / "u.parquet", few)
    build_updates(*world, store / "u.parquet", many, redirects={"Q20": "Q22"})
    build_updates(*world, store / "u.parquet", few)
    assert (store / "u.parquet").read_bytes() == (tmp_path / "u.parquet").read_bytes()


@pytest.mark.full
def test_snapshots_are_the_same_whether_a_listing_shows_their_files_or_not(store, served, tmp_path, world, monkeypatch):
    sides, settings = on_the_store(store, world), UpdateSettings(popularity=False)
    build_updates(*world, tmp_path / "u.parquet", settings)
    served.faults.late = NEVER
    with monkeypatch.context() as patch:
        patch.setattr("anachron.wikidata.updates.build.updates_table", stop)
        with pytest.raises(KeyboardInterrupt):
            build_updates(*sides, store / "u.parquet", settings)
    served.faults.late = 0.0
    monkeypatch.setattr("anachron.wikidata.updates.neighbours._search", stop)  # done: not looked for again
    build_updates(*sides, store / "u.parquet", settings)
    assert (store / "u.parquet").read_bytes() == (tmp_path / "u.parquet").read_bytes()
    nothing_is_left(store)


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def on_the_store(store: StorePath, world: tuple[Path, Path]) -> list[StorePath]:
    """Both snapshots of a world, put on a store."""
    for name, folder in zip(("old", "new"), world, strict=True):
        for path in (path for path in folder.rglob("*") if path.is_file()):
            (store / name / str(path.relative_to(folder))).put(path)
    return [store / "old", store / "new"]


def nothing_is_left(store: StorePath) -> None:
    assert not any("work" in str(path) or "lock" in str(path) for path in store.rglob("*"))


def same_facts_and_updates(store: StorePath, tmp_path: Path, world: tuple[Path, Path], spread: Spread) -> None:
    """Check that both snapshots of a world, put on a store, give there the bytes that they give here."""
    sides = on_the_store(store, world)
    here, there = tmp_path / "u.parquet", store / "u.parquet"
    build_updates(*world, here, UpdateSettings(popularity=False))
    build_updates(*sides, there, UpdateSettings(popularity=False), spread=spread)
    for one, other in zip((here, *companions(here).values()), (there, *companions(there).values()), strict=True):
        assert other.read_bytes() == one.read_bytes()
    facts = replace(Selection(), popularity=False, top_per_relation=None, ended_before=3000)
    build_facts(world[1], tmp_path / "facts.parquet", facts)
    build_facts(sides[1], store / "facts.parquet", facts)
    assert (store / "facts.parquet").read_bytes() == (tmp_path / "facts.parquet").read_bytes()


def test_a_kind_of_store_that_is_not_known_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run(["wikidata", "ingest", "dump.json", "--date", "2021-01-04", "--out", "az://box/snapshot"])
    assert ended.value.code == 2 and "give s3:// or gs://" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigError, match="pip install 'obstore"):
        place("s3://bucket/x").read_bytes()


@pytest.mark.full
def test_requests_are_repeated_for_as_long_as_the_variable_says(store, served, tmp_path, monkeypatch):
    """By both libraries, for a store that answers 503 and for one that is gone; and no answer of it is shown."""
    table = pl.DataFrame({"a": [1, 2, 3]})
    write_table(store / "t.parquet", table)
    reads = [
        lambda path: path.read_bytes(), lambda path: read_parquet(path), lambda path: check_table(path, ["a"]),
        lambda path: readable_rows(path),
    ]  # fmt: skip
    answer = Faults(kinds=("secret",))
    with proxy(int(served.endpoint.rpartition(":")[2]), answer) as front:
        port = int(front.rpartition(":")[2])
        monkeypatch.setenv("AWS_ENDPOINT_URL", front)
        monkeypatch.setenv(VARIABLE, "0.2")
        answer.each = 1
        for read in reads:
            with pytest.raises(
                StoreError, match=rf"{store}/t.parquet: the store failed repeatedly .503 Service"
            ) as told:
                read(store / "t.parquet")
            assert SECRET not in str(told.value) and KEY not in str(told.value) and told.value.__suppress_context__
        monkeypatch.setenv(VARIABLE, "60")
        answer.each, answer.storm, answer.done["secret"] = 0, 1.0, 0
        assert (store / "t.parquet").read_bytes() and read_parquet(store / "t.parquet").equals(table)
        assert answer.done["secret"]  # how often a second leaves time to try depends on the machine
    answer.each, answer.kinds, answer.storm = 1, ("drop",), 0.0  # on connections that are open still
    monkeypatch.setenv(VARIABLE, "0.2")
    for read in reads:
        with pytest.raises(StoreError, match="no answer that could be read of 127"):
            read(store / "t.parquet")
    monkeypatch.setenv(VARIABLE, "60")
    back = threading.Event()

    def come_back() -> None:
        time.sleep(0.5)
        with proxy(int(served.endpoint.rpartition(":")[2]), Faults(), at=port):
            back.wait(60)

    coming = threading.Thread(target=come_back)
    coming.start()
    try:
        assert read_parquet(store / "t.parquet").equals(table) and (store / "t.parquet").read_bytes()
    finally:
        back.set()
        coming.join()


def readable_rows(path: StorePath) -> pl.DataFrame:
    with readable("s3://bucket: bucket 3 of statements or entities"):
        return scan_parquet(path).collect()


@pytest.mark.parametrize("seconds", ["no", "0", "-1", "inf", "nan", "3601"])
def test_a_time_that_is_none_is_refused(monkeypatch, seconds):
    monkeypatch.setenv(VARIABLE, seconds)
    with pytest.raises(ConfigError, match=rf"{VARIABLE}={seconds}: give seconds"):
        place("s3://bucket/x").read_bytes()


@pytest.mark.share(2)
@pytest.mark.full
@pytest.mark.parametrize("kind", ["503", "drop"])
def test_jobs_outlive_a_storm(store, served, tmp_path, world, monkeypatch, kind):
    """Of 12 seconds where a request is repeated for 60: the real ones are longer, and so is the real patience."""
    monkeypatch.setenv(VARIABLE, "60")
    monkeypatch.delenv("POLARS_CLOUD_RETRY_INIT_BACKOFF_MS")
    sides = on_the_store(store, world)
    dump = write_dump(tmp_path / "dump.json", some_entities())
    (store / dump.name).put(dump)
    build_updates(*world, tmp_path / "u.parquet", UpdateSettings(popularity=False))
    ingest(dump, tmp_path / "here", SETTINGS, range_bytes=12_000)
    served.faults.kinds, served.faults.storm = (kind,), 12.0
    for within, job in (
        ("statements/part", lambda: build_updates(*sides, store / "u.parquet", UpdateSettings(popularity=False))),
        ("work", lambda: ingest(str(store / dump.name), store / "there", SETTINGS, range_bytes=12_000)),
    ):
        served.faults.within, served.faults._broke_out, served.faults.done[kind] = within, None, 0
        job()
        assert served.faults.done[kind]
    assert (store / "u.parquet").read_bytes() == (tmp_path / "u.parquet").read_bytes()
    assert content(store / "there") == content(tmp_path / "here")


@pytest.mark.parametrize("finished", ["ingest", "rebucket"])
def test_the_lock_of_a_killed_process_goes_when_its_finished_job_is_repeated(store, tmp_path, world, finished):
    dump = write_dump(tmp_path / "dump.json", some_entities())
    jobs = {"ingest": lambda: ingest(dump, store, SETTINGS), "rebucket": lambda: rebucket(world[0], 6, store)}
    jobs[finished]()
    with locked(store / ".lock", store):
        held = json.loads((store / ".lock").read_bytes())
        jobs[finished]()
        assert json.loads((store / ".lock").read_bytes())["token"] == held["token"]  # of a process that lives
    (store / ".lock").put(json.dumps(held | {"process": 2**30}).encode())
    before = content(store)
    jobs[finished]()
    del before[".lock"]
    assert content(store) == before
