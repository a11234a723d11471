"""A topic fetched from a server: states, the same rows as of a dump, the least of requests, faults, kills."""

import gzip
import json
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from math import ceil

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.cli.wikidata_topic import print_fetched
from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.settings import IngestSettings
from anachron.wikidata.topic.choose import Topic
from anachron.wikidata.topic.fetch import MOST
from wikidata.topic import naive
from wikidata.topic.worlds import (
    AFTER,
    BEFORE,
    BETWEEN,
    EARLY,
    FRANCE,
    LATE,
    MIDDLE,
    TOPIC,
    country,
    histories,
    person,
    world,
)
from wikidata.wikibase import Redirect, Revision, World, unavailable

TODAY = f"{datetime.now(UTC):%Y-%m-%d}"
DAYS = [None, BEFORE, BETWEEN, AFTER]


def states(fetched):
    rows = fetched.outcomes.filter(part="topic").iter_rows(named=True)
    return {row["id"]: row["state"] for row in rows}


def content(folder):
    """All that a snapshot holds but its times: the bytes of its files, and the manifest."""
    files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    manifest = json.loads(files.pop(next(path for path in files if path.name == "manifest.json")))
    for name in ("started", "finished", "seconds"):
        manifest.pop(name)
    manifest["topic"].pop("fetched")
    return files, manifest


def tables(folder):
    return {
        path.relative_to(folder): pl.read_parquet(path).to_dicts()
        for path in sorted(folder.rglob("*.parquet"))
    }  # fmt: skip


@pytest.mark.parametrize("day", DAYS)
def test_what_became_of_each_id_is_told_apart(fetching, day):
    fetched = fetching(as_of=day)
    found = {row[0]: row[1:] for row in fetched.outcomes.drop("part").iter_rows()}
    of_topic = set(TOPIC) | {"Q104"} if day != BEFORE else set(TOPIC)
    assert set(states(fetched)) == of_topic
    for id in of_topic:
        kind, number, into = naive.state(histories(), id, day or naive.TODAY)
        assert (found[id][0], found[id][3]) == (kind, into), id
        if kind == "deleted":
            assert found[id][2] == number
        elif kind in ("found", "hidden"):
            assert found[id][1] == number
    assert {"merged": ["Q9 into Q104"], "found": ["Q9"]}[found["Q9"][0]][0] in fetched.states()[found["Q9"][0]]


@pytest.mark.parametrize("day", DAYS)
def test_the_snapshot_is_that_of_a_dump_of_the_same_entities(fetching, tmp_path, day):
    fetched = fetching(as_of=day, language="fr")
    past, told = histories(), day or naive.TODAY
    wanted = set().union(naive.items(past, TOPIC, told), TOPIC, *naive.rounds(past, TOPIC, told))
    assert set(fetched.outcomes["id"]) >= wanted
    dump = naive.dump(tmp_path / "dump.json.gz", past, fetched.outcomes["id"], told)
    chosen = IngestSettings(
        fetched.manifest["date"], "all", "fr", entities=frozenset(naive.items(past, TOPIC, told)),
        buckets=fetched.manifest["options"]["buckets"], references=True,
    )  # fmt: skip
    manifest = ingest(dump, tmp_path / "of dump", chosen)
    assert tables(fetched.snapshot) == tables(tmp_path / "of dump")
    assert fetched.manifest["counts"] == manifest["counts"]
    assert fetched.manifest["date"] == (day or fetched.manifest["topic"]["fetched"][:10])
    with gzip.open(fetched.snapshot / "topic.json.gz", "rt") as ours, gzip.open(dump, "rt") as theirs:
        assert json.load(ours) == json.load(theirs)


def test_today_takes_a_request_for_50_entities_of_each_round(fetching):
    many = {f"Q{1000 + n}": [Revision(1000 + n, LATE, person(f"Q{1000 + n}", f"Person {n}"))] for n in range(120)}
    fetching.show(world(**many))
    fetched = fetching(topic=[*TOPIC, *many])
    rounds = naive.rounds(histories() | many, [*TOPIC, *many])
    least = ceil(len([*TOPIC, *many]) / 50) + sum(ceil(len(ids) / 50) for ids in rounds)
    assert fetched.requests == {"entities": least, "log": 2} == fetched.manifest["topic"]["requests"]
    assert len(fetching.asked()) == least + 2


def test_as_of_a_day_only_what_changed_since_is_asked_for_one_by_one(fetching):
    past = histories()
    fetched = fetching(as_of=BETWEEN)
    asked = [set(TOPIC), {"Q104"}, *naive.rounds(past, TOPIC, BETWEEN)]
    everything = set().union(*asked)
    there = {id for id in everything if past.get(id) and past[id][-1].content is not None}
    changed = {
        id for id in there if past[id][-1].timestamp[:10] > BETWEEN or isinstance(past[id][-1].content, Redirect)
    }
    read = {id for id in changed if naive.state(past, id, BETWEEN)[0] in ("found", "merged")}
    same = [(ids & there) - changed for ids in asked]
    assert fetched.requests == {
        "info": sum(ceil(len(ids) / 50) for ids in asked), "entities": sum(ceil(len(ids) / 50) for ids in same),
        "log": 2, "revisions": len(changed) + 1, "entity_at_revision": len(read),  # one more: where Q9 led on that day
    }  # fmt: skip
    assert len(fetching.asked()) == sum(fetched.requests.values())


def test_requests_are_in_series_named_and_polite(fetching):
    fetching(as_of=BETWEEN)
    for one in fetching.asked():
        assert one.at_once == 1
        assert "test@example.org" in one.headers["user-agent"] and one.headers["accept-encoding"] == "gzip"
        assert one.params["maxlag"] == "5" if one.path == "/w/api.php" else one.path.startswith("/wiki/Special:EntityD")


def test_no_contact_is_refused_before_anything_is_asked(fetching, monkeypatch, tmp_path):
    from dataclasses import replace

    from anachron.wikidata.topic.fetch import fetch_topic

    monkeypatch.delenv("ANACHRON_CONTACT", raising=False)
    settings = fetching.settings()
    nobody = replace(settings, web=replace(settings.web, contact=None))
    with pytest.raises(ConfigError, match="ANACHRON_CONTACT"):
        fetch_topic(Topic(items=TOPIC), tmp_path / "out", nobody)
    assert not fetching.asked()
    monkeypatch.setenv("ANACHRON_CONTACT", "https://example.org/us")
    fetch_topic(Topic(items=TOPIC), tmp_path / "out", nobody)
    assert "https://example.org/us" in fetching.asked()[0].headers["user-agent"]


def test_broken_off_at_any_request_nothing_is_asked_twice(fetching):
    usual = content(fetching("usual", cache=fetching.folder / "usual cache").snapshot)
    number = len(fetching.asked())
    for at in range(number):
        fetching.server.fail([unavailable(at)])
        place = {"name": f"out {at}", "cache": fetching.folder / f"cache {at}"}
        with pytest.raises(BackendError, match="503"):
            fetching(**place, retries=0)
        assert content(fetching(**place).snapshot) == usual
        keys = [one.key for one in fetching.asked()]
        assert len(keys) == number + 1 and keys[at] == keys[at + 1]
        assert len(set(keys)) == number
        assert not (fetching.folder / f"out {at}" / ".fetch").exists()


def command(fetching, name, cache):
    site = fetching.server.site()
    return [
        *("wikidata", "fetch", "--items", ",".join(TOPIC), "--site", site.url),
        *("--contact", "test@example.org", "--cache", str(cache), "--out", str(fetching.folder / name)),
    ]


def test_several_at_a_time_give_the_same(fetching):
    usual = content(fetching("usual", as_of=BETWEEN, cache=fetching.folder / "usual cache").snapshot)
    assert content(fetching(as_of=BETWEEN, at_a_time=4).snapshot) == usual


def test_an_increment_fetches_what_changed(fetching):
    past = histories()
    before = {id: revisions for id, revisions in past.items() if id not in ("Q102", "Q8")}
    before["Q142"] = before["Q142"][:1]
    fetching.show(World(before))
    topic = [id for id in TOPIC if id != "Q8"]
    earlier = fetching("earlier", topic=topic)
    fetching.show(World(past))
    later = fetching("later", since=earlier.snapshot, cache=fetching.folder / "elsewhere", topic=topic)
    fetched = [one.params["ids"] for one in fetching.asked() if "labels" in one.params.get("props", "")]
    assert sorted("|".join(fetched).split("|")) == ["Q102", "Q142", "Q7", "Q9", "Q999"]
    fresh = fetching("fresh", cache=fetching.folder / "fresh cache", topic=topic)
    assert (later.snapshot / "topic.json.gz").read_bytes() == (fresh.snapshot / "topic.json.gz").read_bytes()
    assert tables(later.snapshot) == tables(fresh.snapshot)
    with pytest.raises(ConfigError, match="earlier"):
        fetching("last", since=fetching.folder / "none", topic=topic)


def test_what_is_in_the_cache_is_not_fetched_again(fetching):
    first = fetching("first", as_of=BEFORE)
    second = fetching("second", as_of=BEFORE)
    assert second.requests == {
        name: number for name, number in first.requests.items() if name in ("info", "log", "revisions")
    }
    assert tables(first.snapshot) == tables(second.snapshot)


def test_a_dry_run_says_what_is_to_come_and_writes_nothing(fetching):
    plan = fetching(dry_run=True)
    assert not (fetching.folder / "out").exists()
    assert plan.manifest["asked"] == {"entities": 1, "log": 2} and plan.seconds > 0
    assert plan.manifest["needed"] == {"items": 5, "properties": 4, "objects": 6}
    real = fetching()
    assert plan.requests == {name: number for name, number in real.requests.items() if name != "log"}
    plan = fetching(dry_run=True, as_of=BEFORE, cache=fetching.folder / "other")
    number = len({*TOPIC, *naive.rounds(histories(), TOPIC)[0]})
    assert plan.requests == {"info": 5, "revisions": number, "entity_at_revision": number}


def test_too_much_is_refused_before_it_is_fetched(fetching):
    with pytest.raises(ConfigError, match=r"at least 15 entities \(5 items, 4 properties, 6 objects\), above --most 9"):
        fetching(most=9)
    assert len(fetching.asked()) == 3
    assert fetching(most=19).requests["entities"] == 5


def test_relations_that_are_named_bound_the_objects(fetching):
    topic = Topic(instances_of="Q6256", with_=("P6",))
    fetched = fetching(topic=topic)
    ids = fetched.outcomes.filter(part="topic")["id"].to_list()
    assert ids == ["Q8", "Q142", "Q183"]
    needed = set().union(*naive.rounds(histories(), ids, relations=("P6",)))
    assert {"Q6256", "Q101", "Q102", "Q103"} < needed  # the class is asked for all the same, not as an object
    assert set(fetched.outcomes.filter(part="needed")["id"]) == needed | {"Q104"}
    assert fetched.requests["query"] == 1
    assert fetched.manifest["topic"]["chosen"]["query"] == topic.sparql()


def test_a_query_is_asked_once_and_says_why_it_fails(fetching):
    topic = Topic(instances_of="Q6256", with_=("P6",))
    fetching.server.fail([unavailable(2)])
    with pytest.raises(BackendError):
        fetching(topic=topic, retries=0)
    fetching(topic=topic)
    assert sum(one.path == "/sparql" for one in fetching.asked()) == 1
    with pytest.raises(BackendError, match="answers 400"):
        fetching("wrong", topic=Topic(query="SELECT ?item WHERE { nonsense"))


def test_another_topic_may_follow_one_of_which_nothing_came(fetching):
    with pytest.raises(ConfigError, match="--most 9"):
        fetching(most=9)
    assert states(fetching(topic=["Q142"])) == {"Q142": "found"}
    assert [one.params["props"] for one in fetching.asked()[3:4]] == ["info"]  # nothing of it is fetched again


def test_a_folder_of_something_else_is_refused_before_anything_is_asked(fetching):
    (fetching.folder / "out").mkdir()
    (fetching.folder / "out" / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"not empty \(mine.txt\)"):
        fetching()
    fetching("other")
    fetching.server.fail()
    again = fetching("other")  # complete: as it is
    assert again.requests == {"entities": 5, "log": 2} and states(again)["Q7"] == "deleted"
    with pytest.raises(ConfigError, match="other settings"):
        fetching("other", language="fr")
    assert not fetching.asked()


def test_where_no_item_can_be_had_the_states_are_named(fetching):
    with pytest.raises(DataError, match="1 deleted, 1 missing"):
        fetching(topic=["Q7", "Q999"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"as_of": "2020"}, "YYYY-MM-DD"), ({"as_of": "2020-02-31"}, "2020-02-31"),
     ({"as_of": "2999-01-01"}, "leave it out"), ({"as_of": TODAY}, f"before {TODAY}"), ({"most": 0}, "at least 1"),
     ({"at_a_time": 0}, "at least 1"), ({"wiki": "No Wiki"}, "--wiki")],
)  # fmt: skip
def test_wrong_settings_are_refused(fetching, changes, words):
    with pytest.raises(ConfigError, match=words):
        fetching(**changes)
    assert not fetching.asked()


def test_the_help_says_how_many_entities_there_may_be(capsys):
    assert run_command(["wikidata", "fetch", "--help"], debug=False) == 0
    assert f"{MOST:,}" in capsys.readouterr().out


def test_the_command_says_what_became_of_the_ids(fetching, capsys):
    words = command(fetching, "out", fetching.folder / "cache")
    assert run_command([*words, "--dry-run"], debug=False) == 0
    shown = capsys.readouterr()
    assert "1 deleted\n1 merged\n1 missing\n" in shown.out
    assert "needed: 5 items, 4 properties, 6 objects" in shown.out
    assert "about 6 requests (1 info, 5 entities): about 0.0 minutes" in shown.out
    assert not (fetching.folder / "out").exists()
    assert run_command(words, debug=False) == 0
    told = capsys.readouterr().err
    assert "1 deleted: Q7\n" in told and "1 merged: Q9 into Q104\n" in told and "1 missing: Q999\n" in told
    assert "requests: 5 entities, 1 info, 2 log" in told and "5 items are subjects" in told
    assert run_command([*words, "--json"], debug=False) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == {"entities": 5, "info": 1, "log": 2}
    words[words.index("--items") + 1] = "Q142"
    assert run_command(words, debug=False) == 2
    assert "other settings" in capsys.readouterr().err


CHAIN = {  # Q9 was led on to Q101, after it had been merged into Q104; Q11 leads to Q9, and Q12 to what is deleted
    "Q9": [*histories()["Q9"], Revision(90, LATE, Redirect("Q101"))],
    "Q11": [Revision(91, EARLY, person("Q11", "Eli")), Revision(92, MIDDLE, Redirect("Q9"))],
    "Q12": [Revision(93, EARLY, country("Q12", "Lost", [])), Revision(94, MIDDLE, Redirect("Q7"))],
}  # fmt: skip


@pytest.mark.parametrize(("day", "into"), [(None, "Q101"), (BETWEEN, "Q104"), (AFTER, "Q101")])
def test_merges_are_followed_to_where_they_led_on_the_day(fetching, capsys, day, into):
    fetching.show(world(**CHAIN))
    fetched = fetching(as_of=day, topic=["Q142", "Q9", "Q11", "Q12"])
    rows = {row["id"]: row for row in fetched.outcomes.iter_rows(named=True)}
    told = {id: (rows[id]["state"], rows[id]["merged_into"]) for id in ("Q9", "Q11", "Q12", "Q7")}
    assert told == {
        id: (naive.state(histories() | CHAIN, id, day or naive.TODAY)[::2]) for id in ("Q9", "Q11", "Q12", "Q7")
    }
    assert told["Q9"] == ("merged", into) and rows[into]["part"] == "topic"
    assert fetched.states() == {
        "found": [into, "Q142"], "merged": [f"Q9 into {into}", f"Q11 into {into}"],
        "merged into another that cannot be had": ["Q12 into Q7 (deleted)"],
    }  # fmt: skip
    print_fetched(fetched)
    assert "1 merged into another that cannot be had: Q12 into Q7 (deleted)\n" in capsys.readouterr().err
    assert len(fetching.asked()) == len({one.key for one in fetching.asked()})


def test_an_old_revision_that_the_service_cannot_give_is_told(fetching):
    fetching(as_of=BEFORE)
    place = next(n for n, one in enumerate(fetching.asked()) if one.path.endswith("/Q142.json"))
    fetching.server.fail([unavailable(place, times=7, status=500)])
    changes = {"as_of": BEFORE, "cache": fetching.folder / "other"}
    fetched = fetching("broken", **changes)
    assert states(fetched)["Q142"] == "unreadable" and states(fetched)["Q183"] == "found"
    assert fetched.states()["unreadable"] == ["Q142"]
    assert [one.path.endswith("/Q142.json") for one in fetching.asked()[place:]].count(True) == 7
    # a service that is away is another matter, and so is one that cannot give anything else
    for fault, at in ((unavailable(place, times=7), place), (unavailable(place - 1, times=7, status=500), place - 1)):
        fetching.server.fail([fault])
        with pytest.raises(BackendError, match="7 times in a row"):
            fetching(f"away {fault.status}", as_of=BEFORE, cache=fetching.folder / f"away {at} {fault.status}")


def test_the_cache_keeps_no_answers_of_runs_that_are_over(fetching):
    with pytest.raises(ConfigError, match="--most 9"):
        fetching(most=9)
    file = next((fetching.folder / "cache").glob("*.sqlite"))

    def runs():
        with closing(sqlite3.connect(file)) as opened:
            return {run for (run,) in opened.execute("select distinct run from answers")}

    assert runs() == {str(fetching.folder / "out")}
    shutil.rmtree(fetching.folder / "out")
    fetching.server.fail([unavailable(1)])
    with pytest.raises(BackendError):
        fetching(topic=["Q142"], retries=0)
    with closing(sqlite3.connect(file)) as opened:
        kinds = opened.execute("select key from answers where kind = 'today'").fetchall()
    assert kinds == [("Q142",)]  # nothing of the topic before
    fetching(topic=["Q142"])
    assert not runs()


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[: len(data) // 2], lambda data: data[:60] + b"\xff\xff" + data[62:],
     lambda data: gzip.compress(b'[\n{"id": "Q1", "lastrevid": "x"}\n]\n'), lambda data: b"no gzip"],
)  # fmt: skip
def test_a_damaged_earlier_dump_is_named(fetching, damage):
    earlier = fetching("earlier")
    dump = earlier.snapshot / "topic.json.gz"
    dump.write_bytes(damage(dump.read_bytes()))
    with pytest.raises(DataError, match=r"topic\.json\.gz is damaged \(.+\); give another --earlier") as raised:
        fetching("later", since=earlier.snapshot, cache=fetching.folder / "elsewhere")
    assert "\n" not in str(raised.value)


def test_an_item_as_it_stood_has_the_statements_of_then(fetching):
    for day, content in ((BEFORE, histories()["Q142"][0].content), (AFTER, FRANCE)):
        fetched = fetching(day, as_of=day)
        rows = pl.read_parquet(fetched.snapshot / "statements" / "*.parquet").filter(subject="Q142", property="P6")
        assert rows.height == len(content["claims"]["P6"])
