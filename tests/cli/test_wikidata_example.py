"""``wikidata example``: what is bundled, by itself, and what comes out of it with one command and no network."""

import gzip
import json
import socket
import sys
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.cli.wikidata_example import NEW, NEW_DAY, OLD, OLD_DAY

ROOT = Path(__file__).parents[2]
SOURCE = ROOT.parent / "shared" / "data" / "changes"


DUMPS = (OLD, NEW)


def topic_dump(name):
    return files("anachron.data").joinpath("mini", name).read_bytes()


def held(name):
    """The entities of a bundled dump, by id, read as lines."""
    first, *lines, last = gzip.decompress(topic_dump(name)).decode("ascii").splitlines()
    assert (first, last) == ("[", "]")
    return {(one := json.loads(line.removesuffix(",")))["id"]: one for line in lines}


def terms(entity):
    """(holder, start, end) of an office, times as they stand."""
    for statement in entity["claims"].get("P1308", ()):
        dates = {name: snaks[0]["datavalue"]["value"]["time"][1:11] for name, snaks in statement["qualifiers"].items()}
        yield statement["mainsnak"]["datavalue"]["value"]["id"], dates["P580"], dates.get("P582")


def test_the_dumps_are_small_and_hold_the_same_items():
    old, new = held(OLD), held(NEW)
    assert sum(len(topic_dump(name)) for name in DUMPS) < 1_500_000
    assert "from-dates" in OLD and "from-dates" not in NEW  # its name says how it came about
    assert list(old) == list(new)
    assert {id: one | {"claims": 0} for id, one in old.items()} == {id: one | {"claims": 0} for id, one in new.items()}
    offices = [one for one in new.values() if "P1308" in one["claims"]]
    holders = {holder for one in offices for holder, *_ in terms(one)}
    assert len(offices) == 52 and holders <= set(new)  # every object is in the file, with a label
    assert all(one["labels"]["en"]["value"] for one in new.values())
    used = {name for one in new.values() for name in one["claims"]} | {"P580", "P582"}
    assert used == {id for id in new if id.startswith("P")}
    assert {new[holder]["claims"]["P31"][0]["mainsnak"]["datavalue"]["value"]["id"] for holder in holders} == {"Q5"}
    assert all("id" not in one for office in offices for one in office["claims"]["P1308"])  # none is invented


def test_the_earlier_dump_is_the_later_one_up_to_its_day():
    old, new = held(OLD), held(NEW)
    for id, office in new.items():
        begun = [(who, start, end) for who, start, end in terms(office) if start <= OLD_DAY]
        starts = [(who, start) for who, start, _ in terms(office)]
        assert len(set(starts)) == len(starts)  # of the same term no two ends, which would be one statement before them
        assert list(terms(old[id])) == [
            (who, start, end if end and end <= OLD_DAY else None) for who, start, end in begun
        ]


@pytest.fixture
def offices(tmp_path, monkeypatch, capsys):
    """The folder of the example, made where no connection can be opened."""

    def refused(*_):
        raise AssertionError("no network is needed")

    monkeypatch.setattr(socket.socket, "connect", refused)
    out = tmp_path / "offices"
    assert run_command(["wikidata", "example", "--out", str(out)], debug=True) == 0
    assert "build updates --old" in capsys.readouterr().err
    return out


def test_facts_with_one_command(offices, tmp_path):
    snapshot, out = offices / f"offices-{NEW_DAY}", tmp_path / "facts.parquet"
    assert run_command(["build", "facts", str(snapshot), "--no-popularity", "--out", str(out)], debug=True) == 0
    found = pl.read_parquet(out)
    new = held(NEW)
    expected = set()  # by the rules of the documentation, in a plain loop
    for id, office in new.items():
        rows = list(terms(office))
        for who, start, end in rows:
            once = len({(a, b) for other, a, b in rows if other == who}) == 1
            if once and end and end < "2021" and days(end) - days(start) + 1 >= 1140:
                expected.add((id, who, start, end.replace("-00", "")))
    assert set(found.select("subject_id", "object_id", "start", "end").iter_rows()) == expected
    assert found.height == len(expected) >= 20 and found["relation_label"].unique().to_list() == ["officeholder"]
    obama = found.filter(pl.col("object_label") == "Barack Obama").row(0, named=True)
    assert (obama["subject_label"], obama["start"], obama["end"]) == (
        "President of the United States of America", "2009-01-20", "2017-01-20",
    )  # fmt: skip


def days(text):
    """A count that grows by one a day; an end in a month without a day is its last."""
    from datetime import date, timedelta

    year, month, day = map(int, text.split("-"))
    if day:
        return date(year, month, day).toordinal()
    return (date(year + month // 12, month % 12 + 1, 1) - timedelta(1)).toordinal()


def test_updates_with_one_command(offices, tmp_path):
    old, new = (str(offices / name.removesuffix(".json.gz")) for name in DUMPS)
    out = tmp_path / "updates.parquet"
    assert (
        run_command(["build", "updates", "--old", old, "--new", new, "--no-popularity", "--out", str(out)], debug=True)
        == 0
    )
    found = {
        one["subject"]["id"]: {thing["decision"]: thing["id"] for thing in one["objects"]}
        for one in pl.read_parquet(out).iter_rows(named=True)
    }
    assert len(found) >= 10
    for id, office in held(NEW).items():  # who left between the days, and who came and still held at the end
        left = [who for who, start, end in terms(office) if start < OLD_DAY < (end or "9") < NEW_DAY]
        came = [who for who, start, end in terms(office) if start > OLD_DAY and end is None]
        if id in found:
            assert ([found[id]["obsolete"]], [found[id]["new"]]) == (left, came)
    assert found["Q11696"] == {"obsolete": "Q22686", "new": "Q6279"}  # the president of the United States


def test_it_goes_on_and_leaves_what_is_not_its_own(offices, capsys):
    before = {path: path.read_bytes() for path in sorted(offices.rglob("*")) if path.is_file()}
    assert run_command(["wikidata", "example", "--out", str(offices), "--json"], debug=False) == 0
    made = json.loads(capsys.readouterr().out)
    assert [one["date"] for one in made] == [OLD_DAY, NEW_DAY] and made[1]["counts"]["kept"] == 360
    assert {path: path.read_bytes() for path in sorted(offices.rglob("*")) if path.is_file()} == before
    (offices / NEW).write_bytes(b"mine")
    assert run_command(["wikidata", "example", "--out", str(offices)], debug=False) == 2
    assert "is not the bundled dump" in capsys.readouterr().err and (offices / NEW).read_bytes() == b"mine"


def test_terms_of_an_office_are_in_order_of_the_calendar():
    """A wrong date would most often show here: of the offices of one holder at a time, most follow each other."""
    pairs = [
        (one, two) for office in held(NEW).values() for one, two in pairwise(sorted(terms(office), key=lambda t: t[1]))
    ]
    assert sum((one[2] or "9") <= two[1] or one[0] == two[0] for one, two in pairs) / len(pairs) > 0.85


@pytest.mark.skipif(not SOURCE.is_dir(), reason=f"the source tables are not in {SOURCE}")
def test_the_tool_makes_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import make_topic

    monkeypatch.setattr(make_topic, "OUT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["make_topic.py", str(SOURCE)])
    make_topic.main()
    assert {name: (tmp_path / name).read_bytes() for name in DUMPS} == {name: topic_dump(name) for name in DUMPS}
