"""A dump to a snapshot: the same tables whoever worked and however often it was killed, and nothing lost in silence."""

import bz2
import json
import os
import signal
import subprocess
import sys
import time as clock
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.entry import run
from anachron.core.errors import ConfigError, DataError
from anachron.io.jobs import Callbacks
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.settings import IngestSettings
from anachron.wikidata.reading.snapshot import TABLES, bucket_of, open_snapshot, part_name, schemas
from anachron.wikidata.topic.choose import read_items
from wikidata.dumps import (
    compress,
    constraint,
    dump_bytes,
    entity,
    item,
    lexeme,
    property_,
    statement,
    string,
    time,
    write_dump,
)

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "wikidata"
SETTINGS = IngestSettings("2021-01-04", buckets=4)
ANY_BAD = replace(SETTINGS, most_bad=100)


def some_entities(number=120, first=1):
    """Items of which every third is a subject, and a few properties and lexemes between them."""
    made = []
    for n in range(first, first + number):
        title = f"Title {n}" if n % 3 == 0 else None
        claims = [statement("P31", entity(f"Q{n % 7 + 1}"))]
        claims += [statement("P39", entity(f"Q{k}"), qualifiers={"P580": time(f"{1900 + k}")}) for k in range(n % 5)]
        if n % 4 == 0:
            claims.append(statement("P279", entity(f"Q{n + 1}")))
        made.append(item(f"Q{n}", f"label {n}", title=title, claims=claims, empty_as_list=n % 2 == 0))
        if n % 50 == 0:
            made += [lexeme(f"L{n}"), property_(f"P{n}", "p", claims=[constraint(separators=["P580"])])]
    return made


def content(folder):
    """Bytes of everything but the manifest, and the manifest without what differs between runs."""
    files = {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}
    manifest = json.loads(files.pop("manifest.json"))
    return files, {key: manifest[key] for key in ("format", "dump", "date", "options", "counts")}


def check_invariants(folder, wiki="enwiki"):
    snapshot = open_snapshot(folder)
    counts = snapshot.manifest["counts"]
    entities = pl.concat([snapshot.read("entities", b) for b in range(snapshot.buckets)])
    statements = pl.concat([snapshot.read("statements", b) for b in range(snapshot.buckets)])
    assert counts["lines"] == sum(counts[k] for k in ("items", "properties", "lexemes", "unlisted", "bad"))
    assert counts["entities"] == counts["items"] + counts["unlisted"] + counts["properties"]
    assert counts["items"] == counts["kept"] + counts["dropped"].get(f"no title in {wiki}", 0)
    assert sum(counts["dropped"].values()) + counts["kept"] + counts["properties"] == counts["lines"]
    assert (entities.height, statements.height) == (counts["items"] + counts["unlisted"], counts["statements"])
    assert entities["id"].n_unique() == entities.height
    assert set(statements["subject"]) <= set(entities["id"])
    assert (snapshot.properties().height, snapshot.classes().height) == (counts["properties"], counts["class_edges"])
    assert len((folder / "bad.jsonl").read_text().splitlines()) == counts["bad"] + counts.get("values_left_out", 0)
    for bucket in range(snapshot.buckets):
        for table, key in (("entities", "id"), ("statements", "subject")):
            ids = snapshot.read(table, bucket, [key])[key]
            assert all(bucket_of(id, snapshot.buckets) == bucket for id in ids)
    assert not (folder / "work").exists()
    assert {p.name for p in folder.iterdir()} == {
        "manifest.json",
        "bad.jsonl",
        *TABLES,
        "properties.parquet",
        "classes.parquet",
    }
    return counts


def test_tables_hold_what_was_read_in_the_order_of_the_dump(tmp_path):
    made = some_entities()
    ingest(write_dump(tmp_path / "dump.json.bz2", made), tmp_path / "snapshot", SETTINGS, range_bytes=700)
    counts = check_invariants(tmp_path / "snapshot")
    assert counts | {"dropped": {}} == {
        "lines": 124, "entities": 122, "kept": 40, "dropped": {}, "items": 120, "properties": 2, "lexemes": 2,
        "unlisted": 0, "bad": 0, "statements": counts["statements"], "class_edges": 30,
    }  # fmt: skip
    assert counts["dropped"] == {"no title in enwiki": 80, "lexeme": 2}
    snapshot = open_snapshot(tmp_path / "snapshot")
    for bucket in range(4):
        inside = [e for e in made if e["type"] == "item" and bucket_of(e["id"], 4) == bucket]
        assert snapshot.read("entities", bucket)["id"].to_list() == [e["id"] for e in inside]
        rows = [
            (e["id"], c["id"]) for e in inside if "enwiki" in e["sitelinks"] for cs in e["claims"].values() for c in cs
        ]
        assert snapshot.read("statements", bucket).select("subject", "statement_id").rows() == rows
    edges = [(f"Q{n}", f"Q{n + 1}") for n in range(4, 121, 4)]
    assert snapshot.classes().rows() == edges


def test_columns_and_types(tmp_path):
    claims = [statement("P39", entity("Q2"), qualifiers={"P580": time("2009-01-20")}), statement("P1", string("x"))]
    ingest(write_dump(tmp_path / "d.json", [item("Q1", title="One", claims=claims)]), tmp_path / "s", SETTINGS)
    snapshot = open_snapshot(tmp_path / "s")
    table = snapshot.read("statements", snapshot.bucket_of("Q1"))
    assert table.columns == schemas()["statements"].names
    assert table["start"].to_list()[0] == {
        "kind": "known", "date": "2009-01-20", "precision": 11, "calendar": "gregorian",
        "raw": "+2009-01-20T00:00:00Z", "values": 1,
    }  # fmt: skip
    assert table["start"].to_list()[1] is None
    assert table.schema["value_precision"] == pl.Int8
    entities = snapshot.read("entities", snapshot.bucket_of("Q1"))
    assert entities.schema["classes"] == pl.List(pl.String)
    assert entities.row(0) == ("Q1", None, None, "One", [], None, None, 1, "2021-01-01T00:00:00Z")


@pytest.mark.few(2)
@pytest.mark.parametrize("ending", [".json", ".gz", ".bz2", ".zst"])
def test_same_bytes_whatever_the_ranges_and_layout(tmp_path, ending):
    made = some_entities()
    ingest(write_dump(tmp_path / f"dump{ending}", made), tmp_path / "one", SETTINGS)
    ingest(
        tmp_path / f"dump{ending}",
        tmp_path / "many",
        SETTINGS,
        range_bytes=12_000 if ending in (".json", ".gz", ".zst") else 900,
    )
    assert content(tmp_path / "one") == content(tmp_path / "many")
    ingest(write_dump(tmp_path / f"lines{ending}", made, "lines"), tmp_path / "lines", SETTINGS, range_bytes=17_001)
    ingest(write_dump(tmp_path / f"document{ending}", made, "document"), tmp_path / "document", SETTINGS)
    assert content(tmp_path / "one")[0] == content(tmp_path / "lines")[0] == content(tmp_path / "document")[0]
    check_invariants(tmp_path / "one")


@pytest.mark.full
@pytest.mark.parametrize(
    ("ending", "numbers"), [(".gz", (2, 4)), pytest.param(".bz2", (2, 4), marks=pytest.mark.slow), (".bz2", (2,))]
)
def test_same_bytes_with_any_number_of_workers(tmp_path, ending, numbers):
    path = write_dump(tmp_path / f"dump{ending}", some_entities(), streams=3)
    size = 900 if ending == ".bz2" else 12_000
    ingest(path, tmp_path / "1", SETTINGS, range_bytes=size, workers=1)
    for workers in numbers:
        ingest(path, tmp_path / str(workers), SETTINGS, range_bytes=size, workers=workers)
        assert content(tmp_path / "1") == content(tmp_path / str(workers))


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".bz2", ".gz"])
def test_same_bytes_on_a_local_ray(tmp_path, ending):
    pytest.importorskip("ray")
    path = write_dump(tmp_path / f"dump{ending}", some_entities(), streams=3)
    ingest(path, tmp_path / "here", SETTINGS, range_bytes=9_000)
    ingest(path, tmp_path / "ray", SETTINGS, range_bytes=9_000, workers=2, ray="local")
    assert content(tmp_path / "here") == content(tmp_path / "ray")


KILLED = """
import sys, time
import anachron.wikidata.reading.ranges as ranges
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.settings import IngestSettings
real = ranges._do_range
def slow(*a):
    time.sleep(0.05)
    return real(*a)
ranges._do_range = slow
ingest(sys.argv[1], sys.argv[2], IngestSettings("2021-01-04", buckets=4), range_bytes=int(sys.argv[3]))
"""


@pytest.mark.full
@pytest.mark.parametrize("ending", [".bz2", ".gz", pytest.param(".json", marks=pytest.mark.slow)])
def test_killed_and_resumed_gives_the_same_bytes(tmp_path, ending):
    path = write_dump(tmp_path / f"dump{ending}", some_entities(200), streams=5)
    size = 900 if ending == ".bz2" else 12_000
    ingest(path, tmp_path / "whole", SETTINGS, range_bytes=size)
    out = tmp_path / "killed"
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(path), str(out), str(size)])
    until = clock.monotonic() + 60
    while len(list(out.glob("work/*/done.json"))) < 3:
        assert child.poll() is None and clock.monotonic() < until
        clock.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    done = {f: f.stat().st_mtime_ns for f in out.glob("work/*/done.json")}
    assert len(done) >= 3 and not (out / "manifest.json").exists()
    seen = []
    (out / "work" / "000001" / ".statements.rows.1.abc.tmp").write_bytes(b"half")
    told = lambda done, total, note: seen.append((done, total))  # noqa: E731
    (tmp_path / "kept").mkdir()
    kept = {f: os.link(f, tmp_path / "kept" / f.parent.name) for f in done}  # a finished range is not written again
    workers = 2 if ending == ".gz" else 1
    ingest(path, out, SETTINGS, range_bytes=size, workers=workers, callbacks=Callbacks(progress=told))
    assert all((tmp_path / "kept" / f.parent.name).stat().st_nlink == 1 for f in kept)
    assert all((tmp_path / "kept" / f.parent.name).stat().st_mtime_ns == done[f] for f in done)
    assert content(tmp_path / "whole") == content(out)
    assert 0 < seen[0][0] <= seen[-1][0] == seen[-1][1] == path.stat().st_size


def test_killed_while_joining_resumes(tmp_path, monkeypatch):
    path = write_dump(tmp_path / "dump.bz2", [*some_entities(), item("Q7", "again")])
    ingest(path, tmp_path / "whole", SETTINGS)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("anachron.wikidata.reading.ingest.merge_rest", stop)
        with pytest.raises(KeyboardInterrupt):
            ingest(path, tmp_path / "stopped", SETTINGS)
    assert (tmp_path / "stopped" / "work" / "bucket-003.json").is_file()
    assert not (tmp_path / "stopped" / ".lock").exists()
    ingest(path, tmp_path / "stopped", SETTINGS)
    assert content(tmp_path / "whole") == content(tmp_path / "stopped")


def test_repeating_a_finished_ingest_changes_nothing_and_other_options_are_refused(tmp_path):
    path = write_dump(tmp_path / "dump.bz2", some_entities())
    first = ingest(path, tmp_path / "s", SETTINGS)
    assert ingest(path, tmp_path / "s", SETTINGS) == first
    with pytest.raises(ConfigError, match=r"holds a snapshot with other settings \(buckets: 4 -> 8\)"):
        ingest(path, tmp_path / "s", IngestSettings("2021-01-04", buckets=8))
    write_dump(path, some_entities(121))
    with pytest.raises(ConfigError, match=r"holds a snapshot with other settings \(dump.size: [0-9]+ -> "):
        ingest(path, tmp_path / "s", SETTINGS)


def test_ranges_without_their_options_are_not_taken_for_done(tmp_path, monkeypatch):
    """As a process leaves them that is killed while it removes its work."""
    other = write_dump(tmp_path / "other.json", some_entities(first=500))
    with monkeypatch.context() as patch:
        patch.setattr("anachron.wikidata.reading.ingest._join", lambda *a: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ingest(other, tmp_path / "s", SETTINGS)
    (tmp_path / "s" / "work" / "job.json").unlink()
    path = write_dump(tmp_path / "dump.json", some_entities())
    for out in ("s", "fresh"):
        ingest(path, tmp_path / out, SETTINGS)
    assert content(tmp_path / "s") == content(tmp_path / "fresh")


def test_unfinished_work_of_other_options_is_refused(tmp_path, monkeypatch):
    path = write_dump(tmp_path / "dump.json", some_entities())
    with monkeypatch.context() as patch:
        patch.setattr("anachron.wikidata.reading.ingest._join", lambda *a: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ingest(path, tmp_path / "s", SETTINGS)
    with pytest.raises(ConfigError, match=r"holds unfinished work with other settings \(wiki: 'enwiki' -> 'frwiki'\)"):
        ingest(path, tmp_path / "s", IngestSettings("2021-01-04", wiki="frwiki", buckets=4))
    with pytest.raises(ConfigError, match="range_bytes"):
        ingest(path, tmp_path / "s", SETTINGS, range_bytes=1_000)
    ingest(path, tmp_path / "s", SETTINGS)
    with pytest.raises(DataError, match=r"no manifest\.json"):
        open_snapshot(tmp_path)
    with pytest.raises(ConfigError, match="is not empty"):
        ingest(path, tmp_path, SETTINGS)


def test_single_broken_entities_are_set_aside(tmp_path):
    made = some_entities(30)
    broken = [
        '{"type":"item","id":"Q500","labels":{',
        '{"type":"item","id":"Q501","claims":{"P31":7}}',
        '"' + "x" * 5_000,
    ]
    made[10:10] = [broken[0]]
    made[20:20] = [broken[1], broken[2]]
    text = dump_bytes(made)
    for ending in (".json", ".bz2", ".gz"):
        path, out = tmp_path / f"d{ending}", tmp_path / ending[1:]
        path.write_bytes(compress(text, ending))
        ingest(path, out, ANY_BAD, range_bytes=3_000)
        counts = check_invariants(out)
        assert (counts["bad"], counts["items"]) == (3, 30)
        rows = [json.loads(line) for line in (out / "bad.jsonl").read_text().splitlines()]
        assert [row.get("id") for row in rows] == [None, "Q501", None]
        assert [row["line"] for row in rows] == [line[:2000] for line in broken]
        for row in rows:
            assert text[row["position"] :].startswith(row["line"].encode())


@pytest.mark.few(2)
@pytest.mark.parametrize("ending", [".json", ".gz", ".bz2", ".zst"])
def test_more_bad_lines_than_are_allowed_stop_the_ingest_with_the_first_positions(tmp_path, ending):
    """45 % garbage was once taken for success."""
    made = some_entities(60)
    broken = [line for n, line in enumerate(made) if n % 9 == 4]
    mixed = [f"garbage {n}" if line in broken else line for n, line in enumerate(made)]
    text = dump_bytes(mixed)
    path = tmp_path / f"d{ending}"
    path.write_bytes(compress(text, ending))
    places = [f"byte {text.index(f'garbage {n}'.encode()):,} " for n, line in enumerate(made) if line in broken]
    size = 900 if ending == ".bz2" else 4_000
    with pytest.raises(DataError, match=f"{len(broken)} of {len(made)} lines") as refused:
        ingest(path, tmp_path / "s", SETTINGS, range_bytes=size)
    told = str(refused.value)
    assert all(place in told for place in places[:5]) and not any(place in told for place in places[5:])
    assert "--most-bad" in told and not (tmp_path / "s" / "manifest.json").exists()
    share = 100 * len(broken) / len(made)
    with pytest.raises(DataError, match="--most-bad"):
        ingest(path, tmp_path / "s", replace(SETTINGS, most_bad=share - 0.1), range_bytes=size)
    counts = ingest(path, tmp_path / "s", replace(SETTINGS, most_bad=share + 0.1), range_bytes=size)["counts"]
    assert (counts["bad"], counts["lines"]) == (len(broken), len(made))
    ingest(path, tmp_path / "other", replace(SETTINGS, most_bad=100), range_bytes=size)
    assert content(tmp_path / "s") == content(tmp_path / "other")


@pytest.mark.full
def test_a_dump_that_was_mended_is_read_again_where_it_was_bad(tmp_path):
    """The file is known again by its ends and size, which damage in the middle does not change."""
    text = dump_bytes(some_entities(2_000))
    middle = text.index(b'"Q1000"')
    path, out = tmp_path / "d.json", tmp_path / "s"
    path.write_bytes(text[:middle] + b"\n" * 40 + text[middle + 40 :])
    assert middle > 2**20 and len(text) > middle + 2**20
    with pytest.raises(DataError, match="--most-bad"):
        ingest(path, out, replace(SETTINGS, most_bad=0), range_bytes=100_000)
    path.write_bytes(text)
    assert ingest(path, out, SETTINGS, range_bytes=100_000)["counts"]["bad"] == 0


def test_damage_that_makes_one_line_of_many_counts_by_its_bytes(tmp_path):
    lines = dump_bytes(some_entities(1_500)).split(b"\n")
    lines[500:900] = [b" ".join(lines[500:900])]  # one bad line of 1,162: less than a tenth of a percent
    (tmp_path / "d.json").write_bytes(b"\n".join(lines))
    with pytest.raises(DataError, match=r"1 of 1,\d+ lines \(0.08\d+ %; 2\d(.\d)? % of the bytes\)"):
        ingest(tmp_path / "d.json", tmp_path / "s", SETTINGS)


def test_a_damaged_zst_without_a_checksum_is_refused(tmp_path):
    """Nothing in such a file tells damage but what comes out of it."""
    import zstandard

    data = zstandard.ZstdCompressor(level=1, write_content_size=False).compress(dump_bytes(some_entities(400)))
    refused = 0
    for place in range(len(data) // 5, len(data), len(data) // 11):
        path = tmp_path / f"{place}.json.zst"
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x15]) + data[place + 1 :])
        try:
            counts = ingest(path, tmp_path / str(place), SETTINGS)["counts"]
        except DataError:
            refused += 1
        else:
            assert counts["bad"] <= counts["lines"] / 1_000
    assert refused


@pytest.mark.full
def test_build_timestress_stops_at_bad_lines_too(tmp_path, capsys):
    path = write_dump(tmp_path / "d.json", [*some_entities(), "garbage"])
    (tmp_path / "pageviews-202001-user").write_text("en.wikipedia Title_3 1 desktop 10 A1\n")
    words = ["build", "timestress", str(path), str(tmp_path / "pageviews-202001-user"), "--date", "2021", "--templates"]
    for more, expected in (([], "--most-bad"), (["--most-bad", "1"], "40 items are subjects")):
        with pytest.raises(SystemExit):
            run([*words, "--out", str(tmp_path / "ts"), *more])
        assert expected in capsys.readouterr().err


@pytest.mark.parametrize("ending", [".json", ".gz"])
def test_the_list_of_entities_does_not_travel_with_the_jobs(tmp_path, monkeypatch, ending):
    import pickle

    import anachron.wikidata.reading.ingest as module

    sizes, real = [], module.map_in_order

    def told(function, items, *more):
        items = list(items)
        sizes.extend(len(pickle.dumps(item)) for item in items)
        return real(function, items, *more)

    monkeypatch.setattr(module, "map_in_order", told)
    path = write_dump(tmp_path / f"d{ending}", some_entities(30))
    many = replace(SETTINGS, entities=frozenset(f"Q{n}" for n in range(15, 20_000)))
    counts = ingest(path, tmp_path / "s", many, range_bytes=3_000)["counts"]
    assert (counts["items"], counts["unlisted"]) == (16, 14) and max(sizes) < 4_000
    again = replace(SETTINGS, entities=frozenset(["Q3"]))  # another list in the same process
    assert ingest(path, tmp_path / "t", again, range_bytes=3_000)["counts"]["items"] == 1


def test_a_repeated_entity_is_kept_once(tmp_path):
    made = some_entities(60)
    again = [
        item("Q6", "other", title="Other", claims=[statement("P279", entity("Q1")), statement("P1", string("x"))]),
        item("Q7"),
        property_("P50", "again", claims=[statement("P279", entity("P1"))]),
    ]
    ingest(write_dump(tmp_path / "once.json", made), tmp_path / "once", SETTINGS)
    ingest(
        write_dump(tmp_path / "twice.json", made[:40] + again + made[40:] + again[:1]),
        tmp_path / "twice",
        SETTINGS,
        range_bytes=4_000,
    )
    once, twice = check_invariants(tmp_path / "once"), check_invariants(tmp_path / "twice")
    # P50 comes behind position 40, so there the first one is the one that was put in
    assert {k: v for k, v in twice.items() if k not in ("lines", "bad", "dropped", "class_edges")} == {
        k: v for k, v in once.items() if k not in ("lines", "bad", "dropped", "class_edges")
    }
    assert (twice["bad"], twice["lines"]) == (4, once["lines"] + 4)
    rows = [json.loads(line) for line in (tmp_path / "twice" / "bad.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["Q6", "Q7", "P50", "Q6"]
    assert all("came before" in row["reason"] for row in rows)
    assert sorted(row["position"] for row in rows) == [row["position"] for row in rows]
    for name in ("entities", "statements"):
        for bucket in range(4):
            same = (pl.read_parquet(tmp_path / n / name / part_name(bucket)) for n in ("once", "twice"))
            assert next(same).equals(next(same))


@pytest.mark.parametrize(
    ("layout", "ending"), [("array", ".json"), ("array", ".gz"), ("lines", ".json"), ("lines", ".bz2")]
)
def test_truncated_dumps_are_refused_with_the_position(tmp_path, layout, ending):
    """What was cut off before it was compressed: the file is sound, its content is not whole."""
    text = dump_bytes(some_entities(12), layout)
    path = tmp_path / f"dump{ending}"
    for cut in range(40, len(text) - 2, 2_011):
        path.write_bytes(compress(text[:cut], ending))
        if layout == "lines" and text[cut - 1 : cut + 1].find(b"\n") >= 0:
            continue  # between two lines nothing shows
        with pytest.raises(DataError, match=r"cut off after [0-9,]+ bytes"):
            ingest(path, tmp_path / f"s{cut}", SETTINGS, range_bytes=3_000)
        assert not (tmp_path / f"s{cut}" / "manifest.json").exists()


@pytest.mark.parametrize("ending", [".json", ".bz2"])
def test_the_rest_of_a_cut_file_can_be_fetched_and_the_command_repeated(tmp_path, ending):
    path = write_dump(tmp_path / f"dump{ending}", some_entities(30), streams=3)
    size = 900 if ending == ".bz2" else 3_000
    ingest(path, tmp_path / "whole", SETTINGS, range_bytes=size)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(DataError, match="cut off"):
        ingest(path, tmp_path / "s", SETTINGS, range_bytes=size)
    with pytest.raises(ConfigError, match="wiki: "):
        path.write_bytes(data)
        ingest(path, tmp_path / "s", IngestSettings("2021-01-04", "frwiki", buckets=4), range_bytes=size)
    path.write_bytes(b"\n" + data if ending == ".json" else compress(dump_bytes(some_entities(31)), ending, level=1))
    with pytest.raises(
        ConfigError, match=r"holds unfinished work with other settings \(dump\.size: "
    ):  # not a part of this one
        ingest(path, tmp_path / "s", SETTINGS, range_bytes=size)
    path.write_bytes(data)
    ingest(path, tmp_path / "s", SETTINGS, range_bytes=size)
    assert content(tmp_path / "whole") == content(tmp_path / "s")


def test_a_part_missing_in_the_middle_of_two_arrays_is_refused(tmp_path):
    one, two = dump_bytes(some_entities(5)), dump_bytes(some_entities(5, first=100))
    path = tmp_path / "both.json"
    path.write_bytes(one + two)
    assert ingest(path, tmp_path / "both", SETTINGS)["counts"]["items"] == 10
    path.write_bytes(one[:-2] + b"\n" + two)
    with pytest.raises(DataError, match=r"2 lines '\[' and 1 lines '\]'"):
        ingest(path, tmp_path / "part", SETTINGS)


def test_brackets_on_the_lines_of_entities(tmp_path):
    text = dump_bytes(some_entities(9)).replace(b"[\n{", b"[{", 1).replace(b"}\n]\n", b"}]")
    (tmp_path / "tight.json").write_bytes(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))
    write_dump(tmp_path / "dump.json", some_entities(9))
    for name in ("tight", "dump"):
        ingest(tmp_path / f"{name}.json", tmp_path / name, SETTINGS, range_bytes=700)
    assert content(tmp_path / "tight")[0] == content(tmp_path / "dump")[0]


@pytest.mark.parametrize(("layout", "place"), [("array", 0), ("array", 5), ("array", 9), ("lines", 5), ("lines", 9)])
def test_brackets_of_broken_entities_do_not_count(tmp_path, layout, place):
    broken = ['{"type":"item","id":"Q500","claims":[1,2]', "[1,2]", '[{"id":7}]', "{]", "[["]
    made = some_entities(9)
    path = write_dump(tmp_path / "d.json", [*made[:place], *broken, *made[place:]], layout)
    ingest(path, tmp_path / "s", ANY_BAD, range_bytes=5_000)
    counts = check_invariants(tmp_path / "s")
    assert (counts["bad"], counts["items"]) == (5, 9)
    rows = [json.loads(row) for row in (tmp_path / "s" / "bad.jsonl").read_text().splitlines()]
    assert [row["line"] for row in rows] == broken


def test_a_broken_first_entity_behind_the_bracket(tmp_path):
    text = dump_bytes(['{"type":"item","id":7}', *some_entities(9)]).replace(b"[\n{", b"[{", 1)
    (tmp_path / "d.json").write_bytes(text)
    assert ingest(tmp_path / "d.json", tmp_path / "s", ANY_BAD)["counts"]["bad"] == 1
    assert json.loads((tmp_path / "s" / "bad.jsonl").read_text())["line"] == '{"type":"item","id":7}'
    (tmp_path / "cut.json").write_bytes(text[: text.rfind(b"]", 0, -5) + 1])  # cut off behind a bracket of an entity
    with pytest.raises(DataError, match="cut off after"):
        ingest(tmp_path / "cut.json", tmp_path / "cut", SETTINGS)


@pytest.mark.parametrize("layout", ["array", "lines", "document"])
def test_a_byte_order_mark_changes_nothing(tmp_path, layout):
    for name, mark in (("plain", b""), ("marked", b"\xef\xbb\xbf")):
        (tmp_path / f"{name}.json").write_bytes(mark + dump_bytes(some_entities(9), layout))
        ingest(tmp_path / f"{name}.json", tmp_path / name, SETTINGS)
    assert content(tmp_path / "plain")[0] == content(tmp_path / "marked")[0]


@pytest.mark.parametrize(
    ("ending", "separators"),
    [(".json", (",", ":")), (".gz", (", ", ": "))],
)
def test_entities_that_are_not_one_a_line_are_named_as_such(tmp_path, ending, separators):
    path = tmp_path / f"d{ending}"
    text = json.dumps(some_entities(9), separators=separators)
    for end in ("", "\n"):
        path.write_bytes(compress((text + end).encode(), ending))
        with pytest.raises(DataError, match=r"does not have one entity per line: several"):
            ingest(path, tmp_path / "s", SETTINGS, range_bytes=5_000)


def test_a_damaged_byte_never_loses_an_entity_in_silence(tmp_path):
    text = dump_bytes(some_entities(20))
    path = tmp_path / "dump.json"
    for place in range(0, len(text), 4_031):
        path.write_bytes(text[:place] + bytes([text[place] ^ 0x41]) + text[place + 1 :])
        try:
            counts = ingest(path, tmp_path / str(place), ANY_BAD)["counts"]
        except DataError:
            continue
        assert counts["lines"] == counts["items"] + counts["bad"] == 20


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "dump.json"
    path.write_text("".join(f'{{"event": {n}}}\n' for n in range(5)))
    with pytest.raises(DataError, match="5 of 5 lines are not Wikidata entities"):
        ingest(path, tmp_path / "s", SETTINGS)
    path.write_text("".join(f'{{"event": {n}}}\n' for n in range(5_000)))
    with pytest.raises(DataError, match="are not Wikidata entities"):
        ingest(path, tmp_path / "t", SETTINGS, range_bytes=20_000)


@pytest.mark.parametrize(
    ("limit", "ending"),
    [(1, ".json"), (37, ".gz"), (37, ".bz2"), (37, ".json"), (124, ".gz"), (500, ".bz2"), (500, ".gz")],
)
def test_limit_takes_the_first_entities_of_the_dump(tmp_path, limit, ending):
    made = some_entities()
    path = write_dump(tmp_path / f"dump{ending}", made)
    ingest(
        path,
        tmp_path / "s",
        IngestSettings("2021-01-04", limit=limit, buckets=2),
        range_bytes=9_700 if ending != ".bz2" else 900,
    )
    assert check_invariants(tmp_path / "s")["lines"] == min(limit, len(made))
    snapshot = open_snapshot(tmp_path / "s")
    ids = {id for bucket in range(2) for id in snapshot.read("entities", bucket)["id"]}
    assert ids == {e["id"] for e in made[:limit] if e["type"] == "item"}


def test_few_bad_lines_are_no_wrong_file_and_leave_nothing_in_the_way(tmp_path):
    path = write_dump(tmp_path / "d.json", ["{broken", *some_entities(9)])
    assert ingest(path, tmp_path / "1", IngestSettings("2021", limit=1, buckets=2, most_bad=100))["counts"]["bad"] == 1
    check_invariants(tmp_path / "1")
    (tmp_path / "d.json").write_text('{"event": 1}\n' * 200)
    for limit in (150, 151, None):  # not refused for the work of the try before
        with pytest.raises(DataError, match="are not Wikidata entities"):
            ingest(path, tmp_path / "s", IngestSettings("2021", limit=limit, buckets=2))
    write_dump(path, some_entities(9))
    assert ingest(path, tmp_path / "s", SETTINGS)["counts"]["items"] == 9


def test_limit_does_not_look_at_the_end_and_resumes(tmp_path, monkeypatch):
    made = [item(f"Q{n}", description=f"{n} " * 3_000) for n in range(1, 300)]  # more than is read at once
    data = compress(dump_bytes(made), ".gz")
    path = tmp_path / "dump.gz"
    path.write_bytes(data[: len(data) * 2 // 3])
    settings = IngestSettings("2021-01-04", limit=60, buckets=2)
    ingest(path, tmp_path / "whole", settings, range_bytes=200_000)
    import anachron.wikidata.reading.ranges as ranges

    real, calls = ranges._do_range, []

    def twice(found, *rest):
        calls.append(found.number)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(found, *rest)

    monkeypatch.setattr(ranges, "_do_range", twice)
    with pytest.raises(KeyboardInterrupt):
        ingest(path, tmp_path / "again", settings, range_bytes=200_000)
    ingest(path, tmp_path / "again", settings, range_bytes=200_000)
    assert calls[:4] == [0, 1, 2, 2]
    assert content(tmp_path / "whole") == content(tmp_path / "again")


def test_only_listed_entities(tmp_path):
    listed = tmp_path / "ids.txt"
    listed.write_text("# a few\nQ3\n\n Q9 \nQ4\nQ12345\n")
    settings = IngestSettings("2021-01-04", entities=frozenset(read_items(listed)), buckets=1)
    again = [item("Q9", "listed", title="Again"), item("Q6", "not listed", title="Again")]
    path = write_dump(tmp_path / "dump.json.gz", [*some_entities(), *again])
    ingest(path, tmp_path / "s", settings)
    counts = check_invariants(tmp_path / "s")
    snapshot = open_snapshot(tmp_path / "s")
    assert snapshot.read("statements", 0)["subject"].unique(maintain_order=True).to_list() == ["Q3", "Q9"]
    assert (counts["items"], counts["unlisted"], counts["properties"], counts["kept"]) == (3, 117, 2, 2)
    assert counts["dropped"]["not listed in --entities"] == 117
    assert open_snapshot(tmp_path / "s").manifest["absent"] == {"ids": 1, "first": ["Q12345"]}
    # Objects and classes that are not listed have what they have in a whole snapshot.
    ingest(path, tmp_path / "whole", IngestSettings("2021-01-04", buckets=1))
    whole = open_snapshot(tmp_path / "whole")
    read = [side.read("entities", 0).drop("revision", "modified") for side in (snapshot, whole)]
    assert read[0].equals(read[1])
    assert snapshot.classes().equals(whole.classes())
    assert snapshot.properties().equals(whole.properties())
    assert whole.manifest["absent"] is None
    many = IngestSettings("2021-01-04", entities=frozenset(f"Q{n}" for n in range(95, 1_000)), buckets=3)
    absent = ingest(path, tmp_path / "many", many)["absent"]
    assert absent == {"ids": 879, "first": ["Q121", "Q122", "Q123", "Q124", "Q125"]}


@pytest.mark.parametrize(("text", "says"), [("", "lists no"), ("Q1\nObama\n", "line 2: 'Obama'"), ("P31\n", "'P31'")])
def test_wrong_lists_of_entities(tmp_path, text, says):
    (tmp_path / "ids").write_text(text)
    with pytest.raises(DataError, match=says):
        read_items(tmp_path / "ids")
    with pytest.raises(DataError, match="cannot read"):
        read_items(tmp_path / "none")


def test_all_items_as_subjects(tmp_path):
    ingest(write_dump(tmp_path / "d.json", some_entities()), tmp_path / "s", IngestSettings("2021", "all", buckets=2))
    assert check_invariants(tmp_path / "s", "all")["kept"] == 120


def test_an_empty_dump_gives_an_empty_snapshot(tmp_path):
    ingest(write_dump(tmp_path / "d.json", []), tmp_path / "s", SETTINGS)
    assert check_invariants(tmp_path / "s")["lines"] == 0


@pytest.mark.parametrize(
    "options",
    [{"date": "soon"}, {"limit": 0}, {"buckets": 0}, {"buckets": 70_000}, {"wiki": "en.wikipedia"}, {"language": "E"}],
)
def test_impossible_settings(options):
    with pytest.raises((ConfigError, DataError)):
        IngestSettings(**({"date": "2021-01-04"} | options))


def test_a_folder_in_use_is_refused(tmp_path):
    import filelock

    path = write_dump(tmp_path / "d.json", some_entities(3))
    (tmp_path / "s").mkdir()
    with filelock.FileLock(tmp_path / "s" / ".lock"), pytest.raises(ConfigError, match="in use by another process"):
        ingest(path, tmp_path / "s", SETTINGS)


def test_damaged_snapshots_are_named(tmp_path):
    ingest(write_dump(tmp_path / "d.json", some_entities(3)), tmp_path / "s", SETTINGS)
    (tmp_path / "s" / "entities" / part_name(2)).unlink()
    with pytest.raises(DataError, match=r"part-002.parquet is missing"):
        open_snapshot(tmp_path / "s")
    (tmp_path / "s" / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(DataError, match="format 99"):
        open_snapshot(tmp_path / "s")
    with pytest.raises(DataError, match="no such snapshot folder"):
        open_snapshot(tmp_path / "none")


def test_the_command(tmp_path, capsys):
    path = write_dump(tmp_path / "dump.json.bz2", [*some_entities(), "{broken"])
    words = ["wikidata", "ingest", str(path), "--date", "2021-01-04", "--out", str(tmp_path / "s"), "--buckets", "3"]
    words += ["--most-bad", "1"]
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            run([*words, *more])
        assert ended.value.code == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["counts"]["lines"] == 125
    assert "40 items are subjects" in printed.err and "bad.jsonl" in printed.err
    with pytest.raises(SystemExit) as ended:
        run([*words, "--limit", "3"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_machines_that_share_no_folder_are_told_what_to_do(tmp_path, monkeypatch):
    # what is done is elsewhere, on a machine that joined after the others were asked what they see
    monkeypatch.setattr("anachron.wikidata.reading.ingest.check_shared", lambda *_: None)
    monkeypatch.setattr("anachron.wikidata.reading.ingest.connected", lambda *_: nullcontext())
    monkeypatch.setattr("anachron.wikidata.reading.ingest.map_in_order", lambda *_: iter(()))
    dump = write_dump(tmp_path / "dump.json", some_entities())
    with pytest.raises(
        DataError, match=r"its end is not in .* do not share that folder; give --out s3://BUCKET/FOLDER"
    ):
        ingest(dump, tmp_path / "out", SETTINGS, workers=2, ray="head:6379")
    with pytest.raises(DataError, match="its end was not read; repeat the command"):
        ingest(dump, tmp_path / "out", SETTINGS, workers=2)


@pytest.mark.full
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real files are not here")
def test_real_dumps(tmp_path):
    for name, items, bad in (("opentapioca_short_stream.json", 574, 61), ("qrank_twenty_entities.json", 20, 0)):
        ingest(SHARED / f"{name}.bz2", tmp_path / name, ANY_BAD, range_bytes=200_000)
        counts = check_invariants(tmp_path / name)
        assert (counts["items"], counts["bad"]) == (items, bad)
        (tmp_path / f"{name}.gz").write_bytes(
            compress(bz2.decompress((SHARED / f"{name}.bz2").read_bytes()), ".gz", level=1)
        )
        ingest(tmp_path / f"{name}.gz", tmp_path / f"{name}-gz", ANY_BAD, range_bytes=10**6)
        assert content(tmp_path / name)[0] == content(tmp_path / f"{name}-gz")[0]
