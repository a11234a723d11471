"""`build updates` as a run: killed, resumed, spread over processes, refused."""

import json
import math
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.entry import run
from anachron.core.errors import ConfigError, DataError
from anachron.io.cluster import Spread
from anachron.text.cloze import Cloze
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.selection.facts import build_facts
from anachron.wikidata.selection.rules import Selection
from anachron.wikidata.updates import build as module
from anachron.wikidata.updates import popularity, slices
from anachron.wikidata.updates.build import UpdateSettings, build_updates, companions
from wikidata.made import entity, write_snapshot
from wikidata.updates.world import NEW, NEW_DATE, OLD, OLD_DATE, PROPERTIES, VIEWS, entities, write_world


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> tuple[Path, Path]:
    return write_world(tmp_path_factory.mktemp("world"), buckets=3)


def build(world, out: Path, settings=None, **more):
    return build_updates(*map(open_snapshot, world), out, settings or UpdateSettings(), **more)


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
from pathlib import Path
import anachron.wikidata.updates.compare as compare
import anachron.wikidata.updates.build as build
from anachron.wikidata.reading.snapshot import open_snapshot
real = compare.compare_bucket
def slow(task):
    found = real(task)
    time.sleep(1)
    return found
build.compare_bucket = slow
build.build_updates(open_snapshot(sys.argv[1]), open_snapshot(sys.argv[2]), Path(sys.argv[3]), build.UpdateSettings())
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
        build(world, out, UpdateSettings(seed=1))
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
        patch.setattr("anachron.wikidata.updates.build.updates_table", stop)
        with pytest.raises(KeyboardInterrupt):
            build(world, out)
    assert (out.parent / ".u.parquet.work" / "near-002.parquet").is_file() and not out.exists()
    monkeypatch.setattr("anachron.wikidata.updates.neighbours._search", stop)  # done: not looked for again
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
    assert not out.exists() and not (tmp_path / ".u.parquet.work").exists()


@pytest.mark.full
def test_a_slice_without_properties_says_which_rules_find_nothing(world, tmp_path):
    told = []
    build(world, tmp_path / "u.parquet", warn=told.append)
    assert not told
    old, new = (
        write_snapshot(tmp_path / name, entities(name == "old"), rows, held, buckets=3, date=date, popularity=VIEWS)
        for name, rows, held, date in (
            ("old", OLD, PROPERTIES[:2], OLD_DATE), ("new", NEW, PROPERTIES, NEW_DATE)
        )
    )  # fmt: skip
    build((old, new), tmp_path / "v.parquet", warn=told.append)
    assert len(told) == 1 and "holds 2 property entities and lacks those of 6 of the 8 relations" in told[0]
    assert "(P19, P27, P31, ...)" in told[0] and str(old) in told[0]
    select = Selection(popularity=False, ended_before=2024, least_days=1)
    build_facts(old, tmp_path / "facts.parquet", select, warn=told.append)
    assert told[1:] == told[:1]
    build_facts(new, tmp_path / "others.parquet", select, warn=told.append)
    assert len(told) == 2


@pytest.mark.full
def test_levels_of_popularity_are_found_once_behind_the_lock_and_kept(world, tmp_path, monkeypatch):
    whole = build(world, tmp_path / "whole" / "u.parquet")
    out, found, scans = tmp_path / "u.parquet", [], []
    there = lambda: list(tmp_path.glob(".u*"))  # noqa: E731
    real_levels, real_scan = popularity.find_levels, popularity.scan_popularity
    monkeypatch.setattr(popularity, "find_levels", lambda side: found.append(there()) or real_levels(side))
    monkeypatch.setattr(popularity, "scan_popularity", lambda side: scans.append(side) or real_scan(side))

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "compare", stop)
        with pytest.raises(KeyboardInterrupt):
            build(world, out)
    assert build(world, out).updates.equals(whole.updates)
    assert len(scans) == len(found) == 1 and found[0]  # of two calls and three buckets; work folder and lock were there
    with pytest.raises(DataError, match=r"no popularity\.parquet"):  # before a bucket is looked at
        bare = write_snapshot(tmp_path / "n", entities(False), NEW, PROPERTIES, buckets=3, date=NEW_DATE)
        build((world[0], bare), out)


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_levels_are_means_of_the_members_with_views(tmp_path, buckets):
    draw = random.Random(buckets)
    classes = {f"Q{n}": [f"Q{900 + c}" for c in range(5) if draw.random() < 0.4] for n in range(200)}
    views = {id: draw.randrange(1_000) / 2 for id in classes if draw.random() < 0.7}
    rows = [entity(id, id, classes=of) for id, of in classes.items()]
    made = write_snapshot(tmp_path / "s", rows, [], PROPERTIES, buckets=buckets, popularity=views | {"Q9999": 3.0})
    expected = {}
    for name in sorted({c for of in classes.values() for c in of}):
        members = [views[id] for id, of in classes.items() if name in of and id in views]
        expected[name] = math.log(sum(members) / len(members) + 1)
    levels = popularity.find_levels(open_snapshot(made))
    assert dict(levels.classes.iter_rows()) == pytest.approx(expected)
    assert levels.median == pytest.approx(math.log(statistics.median([*views.values(), 3.0]) + 1))


@pytest.mark.full
def test_snapshots_of_other_buckets_are_split_until_they_are_alike(world, tmp_path):
    whole = build(world, tmp_path / "whole" / "u.parquet")
    four = write_snapshot(tmp_path / "four", entities(False), NEW, PROPERTIES, date=NEW_DATE, popularity=VIEWS)
    out = tmp_path / "u.parquet"
    found = build((world[0], four), out)
    assert found.updates.equals(whole.updates) and found.created.equals(whole.created)
    assert (found.counts, found.steps) == (whole.counts, whole.steps)
    assert not list(tmp_path.glob(".*"))
    inputs = json.loads(Path(f"{out}.manifest.json").read_text())["inputs"]
    assert [str(Path(path).parent) for path in inputs][:2] == [str(world[0]), str(four)]


@pytest.mark.full
def test_buckets_are_split_until_a_worker_has_room_for_one(world, tmp_path, monkeypatch):
    monkeypatch.setattr(slices, "WORKER", 0)
    old, new = map(open_snapshot, world)
    rows = [sum(pl.read_parquet(side.part("statements", b)).height for side in (old, new)) for b in range(old.buckets)]
    assert slices.buckets_within(old, new, 10 * max(rows) * slices.STATEMENT, Spread()) == 3
    tight = max(rows) * slices.STATEMENT // 3
    wanted = slices.buckets_within(old, new, tight, Spread())
    assert wanted == 12 and slices.buckets_within(old, new, tight, Spread(2)) == 24
    compared, real = [], module.compare
    monkeypatch.setattr(module, "compare", lambda c, spread: compared.append(c.buckets) or real(c, spread))
    build(world, tmp_path / "whole" / "u.parquet")
    build(world, tmp_path / "tight" / "u.parquet", memory=tight)
    assert compared == [3, 12]
    assert content(tmp_path / "whole" / "u.parquet") == content(tmp_path / "tight" / "u.parquet")
    monkeypatch.undo()
    with pytest.raises(ConfigError, match=r"--memory 0.1 GB for 1 worker: .* give --memory 0.4 or more"):
        build(world, tmp_path / "u.parquet", memory=100_000_000)
    assert slices.buckets_within(old, new, None, Spread()) == 3


@pytest.mark.parametrize(
    ("memory", "workers", "words"),
    [
        (
            "-1",
            1,
            "--memory -1 GB for 1 worker: each needs more than 0.3 GB, whatever it holds; give --memory 0.4 or more",
        ),
        (
            "0",
            2,
            "--memory 0 GB for 2 workers: each needs more than 0.3 GB, whatever it holds; give --memory 0.7 or more",
        ),
        ("nan", 1, "--memory nan: give a number of GB"),
        ("inf", 1, "--memory inf: give a number of GB"),
    ],
)
def test_a_memory_that_cannot_be_is_refused_with_the_rule_and_the_fix(world, tmp_path, capsys, memory, workers, words):
    old, new = world
    out = tmp_path / "u.parquet"
    given = ["build", "updates", "--old", old, "--new", new, "--out", out, "--workers", workers, f"--memory={memory}"]
    with pytest.raises(SystemExit) as ended:
        run([str(word) for word in given])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and words in said and ", or leave it out for what this machine can spare" in said
    assert ("fewer --workers" in said) == (workers > 1) and not list(tmp_path.iterdir())


def test_the_main_process_is_taken_off_the_memory_of_the_workers(world, monkeypatch):
    # All of Wikidata on 64 GB: 85 % are 54.4, of which 430 million statements take 34.4 in the main process.
    assert slices.left_for_workers(64_000_000_000, 430_000_000) == 54_400_000_000 - 430_000_000 * 80 == 20_000_000_000
    old, new = map(open_snapshot, world)
    files = [part for side in (old, new) for part in side.folder.glob("statements/*.parquet")]
    statements = sum(pl.read_parquet(part).height for part in files)
    monkeypatch.setattr(slices, "MAIN", 1_000_000)
    # Two workers of 300 MB and their buckets, and 1 MB a statement for the main process; then less than that.
    least = math.ceil((2 * 300_000_000 + statements * 1_000_000 + statements * slices.STATEMENT * 2) / 0.85)
    monkeypatch.setattr(slices, "machine_memory", lambda: least)
    assert slices.buckets_within(old, new, None, Spread(2)) == 3
    monkeypatch.setattr(slices, "machine_memory", lambda: int((600_000_000 + statements * 1_000_000) / 0.85))
    with pytest.raises(
        ConfigError, match=rf"main process, which holds .* for {statements} statements, and for 2 workers"
    ):
        slices.buckets_within(old, new, None, Spread(2))


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
        build((old, same), tmp_path / "u.parquet", UpdateSettings(popularity=False))


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
        UpdateSettings(neighbours=-1)
    with pytest.raises(ConfigError, match="klingon"):
        UpdateSettings(style="klingon")


@pytest.mark.full
def test_items_that_were_merged_after_the_new_snapshot_are_not_followed(world, tmp_path):
    plain = build(world, tmp_path / "a.parquet")
    later = build(world, tmp_path / "b.parquet", redirects={"Q3": "Q4", "Q60": "Q61", "Q61": "Q70"})
    assert later.counts["merged"] == {"given": 3, "followed": 1}
    names = ["subject", "relation", "objects", "scenario"]
    assert later.updates.select(names).equals(plain.updates.select(names))  # Q60 is Q61, which became Q70 only later


@pytest.mark.full
def test_a_bucket_takes_the_redirects_that_occur_in_it(world, tmp_path, monkeypatch):
    """A million redirects once cost 7.5 seconds in each bucket, whatever it held."""
    import pickle

    from anachron.wikidata.updates import compare

    redirects = {"Q60": "Q61"} | {f"Q{n}": f"Q{n + 1}" for n in range(10_000, 40_000, 2)}
    seen, sizes, real, real_map = [], [], compare.follow, module.map_in_order

    def told(function, tasks, *more):
        tasks = list(tasks)
        sizes.extend(len(pickle.dumps(task)) for task in tasks)
        return real_map(function, tasks, *more)

    few = build(world, tmp_path / "few.parquet", redirects={"Q60": "Q61"})
    monkeypatch.setattr(compare, "follow", lambda rows, given: seen.append(given) or real(rows, given))
    monkeypatch.setattr(module, "map_in_order", told)
    many = build(world, tmp_path / "many.parquet", redirects=redirects)
    assert many.updates.equals(few.updates) and many.counts["merged"] == {"given": 15_001, "followed": 15_001}
    assert many.counts["redirected"] == few.counts["redirected"] and few.counts["redirected"]["triples"]
    assert len(seen) == 3 and sorted(map(str, seen)) == sorted(map(str, [{"Q60": "Q61"}, {}, {}]))
    assert max(sizes) < 60_000


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
    found = build(world, tmp_path / "u.parquet", UpdateSettings(popularity=False)).updates
    assert found["subject_popularity"].null_count() == found.height
    numbers = [int(subject["id"][1:]) for subject in found["subject"]]
    assert numbers == sorted(numbers) and set(VIEWS)


def test_the_replacement_subset_keeps_one_count_in_fourteen():
    from anachron.wikidata.updates.table import replacements

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
