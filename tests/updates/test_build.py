"""`build updates` as a run: killed, resumed, spread over processes, refused."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from anachron.cluster import Spread
from anachron.errors import ConfigError, DataError
from anachron.text.cloze import Cloze
from anachron.updates.build import Settings, build_updates, companions
from anachron.wikidata.reading.snapshot import open_snapshot
from updates.world import NEW, PROPERTIES, VIEWS, entities, write_world
from wikidata.made import write_snapshot


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> tuple[Path, Path]:
    return write_world(tmp_path_factory.mktemp("world"), buckets=3)


def build(world, out: Path, settings=None, **more):
    return build_updates(*map(open_snapshot, world), out, settings or Settings(), **more)


def content(out: Path) -> list[bytes]:
    return [path.read_bytes() for path in (out, *companions(out).values())]


@pytest.mark.full
def test_two_processes_write_the_same_bytes(world, tmp_path):
    build(world, tmp_path / "one" / "u.parquet")
    build(world, tmp_path / "two" / "u.parquet", spread=Spread(2))
    assert content(tmp_path / "one" / "u.parquet") == content(tmp_path / "two" / "u.parquet")


@pytest.mark.slow
def test_a_local_ray_writes_the_same_bytes(world, tmp_path):
    pytest.importorskip("ray")
    build(world, tmp_path / "one" / "u.parquet")
    build(world, tmp_path / "ray" / "u.parquet", spread=Spread(2, "local"))
    assert content(tmp_path / "one" / "u.parquet") == content(tmp_path / "ray" / "u.parquet")


KILLED = """
import sys, time
import anachron.updates.compare as compare
import anachron.updates.build as build
from anachron.wikidata.reading.snapshot import open_snapshot
real = compare.compare_bucket
def slow(task):
    found = real(task)
    time.sleep(1)
    return found
build.compare_bucket = slow
build.build_updates(open_snapshot(sys.argv[1]), open_snapshot(sys.argv[2]), build.Path(sys.argv[3]), build.Settings())
"""


@pytest.mark.full
def test_killed_and_resumed_gives_the_same_bytes_and_does_no_bucket_twice(world, tmp_path):
    build(world, tmp_path / "whole" / "u.parquet")
    out = tmp_path / "killed" / "u.parquet"
    out.parent.mkdir()
    child = subprocess.Popen([sys.executable, "-c", KILLED, *map(str, (*world, out))])
    work = out.parent / ".u.parquet.work"
    until = time.monotonic() + 60
    while not (work / "counts-000.json").is_file():
        assert child.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not out.exists()
    with pytest.raises(ConfigError, match=r"holds unfinished work with other settings \(seed: 0 -> 1\)"):
        build(world, out, Settings(seed=1))
    # what is done is taken as it is, even where it was tampered with: so it was not done again
    counts = json.loads((work / "counts-000.json").read_text())
    counts["created"] += 1000
    (work / "counts-000.json").write_text(json.dumps(counts))
    assert build(world, out).counts["created"] == 1001
    whole, resumed = (pl.read_parquet(p) for p in (tmp_path / "whole" / "u.parquet", out))
    assert whole.equals(resumed) and not work.exists()


@pytest.mark.full
def test_interrupted_in_the_search_resumes(world, tmp_path, monkeypatch):
    build(world, tmp_path / "whole" / "u.parquet")
    out = tmp_path / "stopped" / "u.parquet"

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("anachron.updates.build.updates_table", stop)
        with pytest.raises(KeyboardInterrupt):
            build(world, out)
    assert (out.parent / ".u.parquet.work" / "near-002.parquet").is_file() and not out.exists()
    monkeypatch.setattr("anachron.updates.neighbours._search", stop)  # done: not looked for again
    build(world, out)
    assert content(tmp_path / "whole" / "u.parquet") == content(out)


def test_snapshots_that_cannot_be_compared_are_refused(world, tmp_path):
    old, new = world
    out = tmp_path / "u.parquet"
    with pytest.raises(ConfigError, match="the old one must be earlier; exchange --old and --new"):
        build((new, old), out)
    with pytest.raises(ConfigError, match="the old one must be earlier; take two of different dates"):
        build((old, old), out)
    more = {"date": "2023-02-27", "buckets": 3}
    french = write_snapshot(tmp_path / "fr", entities(False), NEW, PROPERTIES, wiki="frwiki", **more)
    with pytest.raises(ConfigError, match=r"--wiki 'enwiki', .* with 'frwiki'; only snapshots of the same filters"):
        build((old, french), out)
    cut = write_snapshot(tmp_path / "cut", entities(False), NEW, PROPERTIES, **more)
    manifest = json.loads((cut / "manifest.json").read_text())
    manifest["options"]["limit"] = 100
    (cut / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ConfigError, match=r"--limit None, .* with 100"):
        build((old, cut), out)
    with pytest.raises(ConfigError, match=r"--buckets 3, .* with 4"):
        build((old, write_snapshot(tmp_path / "four", entities(False), NEW, PROPERTIES, date="2023-02-27")), out)
    assert not out.exists() and not (tmp_path / ".u.parquet.work").exists()


def test_equal_snapshots_say_that_nothing_changed(world, tmp_path):
    old = world[0]
    same = tmp_path / "same"
    for path in old.rglob("*"):
        target = same / path.relative_to(old)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            target.write_bytes(path.read_bytes())
    manifest = json.loads((same / "manifest.json").read_text()) | {"date": "2023-02-27"}
    (same / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"nothing that is understood changed .* no group of one subject and relation"):
        build((old, same), tmp_path / "u.parquet", Settings(popularity=False))


def test_wrong_use_says_what_to_do(world, tmp_path):
    old, _ = world
    bare = write_snapshot(tmp_path / "bare", entities(False), NEW, PROPERTIES, date="2023-02-27", buckets=3)
    with pytest.raises(DataError, match=r"no popularity.parquet; make it with `anachron wikidata pageviews`"):
        build((old, bare), tmp_path / "u.parquet")
    with pytest.raises(ConfigError, match=r"write .parquet or .jsonl"):
        build(world, tmp_path / "u.csv")
    with pytest.raises(ConfigError, match="lies in a snapshot itself"):
        build(world, old / "u.parquet")
    with pytest.raises(ConfigError, match="neighbours -1"):
        Settings(neighbours=-1)
    with pytest.raises(ConfigError, match="klingon"):
        Settings(style="klingon")


@pytest.mark.full
def test_items_that_were_merged_after_the_new_snapshot_are_not_followed(world, tmp_path):
    plain = build(world, tmp_path / "a.parquet")
    later = build(world, tmp_path / "b.parquet", redirects={"Q3": "Q4", "Q60": "Q61", "Q61": "Q70"})
    assert later.counts["merged"] == {"given": 3, "followed": 1}
    names = ["subject", "relation", "objects", "scenario"]
    assert later.updates.select(names).equals(plain.updates.select(names))  # Q60 is Q61, which became Q70 only later


def test_the_manifest_names_what_was_read(world, tmp_path):
    listed = tmp_path / "merged.csv"
    listed.write_text("Q60,Q61\n")
    out = tmp_path / "u.parquet"
    build(world, out, redirects={"Q60": "Q61"}, sources=[listed])
    inputs = json.loads(Path(f"{out}.manifest.json").read_text())["inputs"]
    names = [Path(path).name for path in inputs]
    assert names == ["manifest.json", "manifest.json", "popularity.parquet", "merged.csv"]


def test_nothing_left_leaves_no_work_behind(world, tmp_path):
    out = tmp_path / "u.parquet"
    with pytest.raises(DataError, match="the relation has no template"):
        build(world, out, templates={"P404404": Cloze("x", ("[SUBJ] has [OBJ]",))})
    assert not list(tmp_path.iterdir())
    build(world, out)
    with pytest.raises(ConfigError, match="is a folder; name a file"):
        (tmp_path / "d.parquet").mkdir()
        build(world, tmp_path / "d.parquet")


def test_a_damaged_part_is_named(tmp_path):
    old, new = write_world(tmp_path, buckets=3)
    part = next((new / "statements").glob("part-001*"))
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"new/statements/part-001.parquet cannot be read"):
        build((old, new), tmp_path / "u.parquet")


def test_without_popularity_the_updates_come_by_number_of_the_subject(world, tmp_path):
    found = build(world, tmp_path / "u.parquet", Settings(popularity=False)).updates
    assert found["subject_popularity"].null_count() == found.height
    numbers = [int(subject["id"][1:]) for subject in found["subject"]]
    assert numbers == sorted(numbers) and set(VIEWS)


def test_the_replacement_subset_keeps_one_count_in_fourteen():
    from anachron.updates.table import replacements

    def update(subject, relation, replaced=True):
        return {"subject": {"id": f"Q{subject}"}, "relation": {"id": relation}, "is_replace": replaced}

    rows = [update(n, "P1082") for n in range(14_000)] + [update(1, "P35"), update(2, "P39", False)]
    found = replacements(pl.DataFrame(rows), seed=0)
    of_population = found.filter(pl.col("relation").struct.field("id") == "P1082").height
    assert 1000 - 4 * 30.5 < of_population < 1000 + 4 * 30.5  # four standard deviations of 14,000 draws of 1/14
    assert found.height == of_population + 1
    shuffled = replacements(pl.DataFrame(rows[::-1]), seed=0)
    assert sorted(map(str, found.rows())) == sorted(map(str, shuffled.rows()))
    assert replacements(pl.DataFrame(rows), seed=1).height != 14_000
