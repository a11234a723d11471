"""A topic on two days: its updates are those of two dumps that hold the same states."""

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.core.errors import ConfigError
from anachron.wikidata.fetching.web import FetchSettings
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.settings import IngestSettings
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.topic import days as days_module
from anachron.wikidata.topic.choose import topic_of
from anachron.wikidata.topic.days import fetch_days
from anachron.wikidata.topic.fetch import TopicSettings, fetch_topic
from anachron.wikidata.updates.build import UpdateSettings, build_updates, check_pair
from anachron.wikidata.views.popularity import compute_popularity
from wikidata.topic.changes import MONTHS, NEW, OLD, QUERY, STATES, WORLD, dump_of, measured
from wikidata.wikibase import Redirect, Revision, World, serving

FILES = tuple(f"updates.{part}parquet" for part in ("", "replacements.", "entities.", "sources."))


@pytest.fixture(scope="module")
def running():
    with serving(WORLD) as server:
        yield server


@pytest.fixture
def server(running, tmp_path, monkeypatch):
    running.show(WORLD)
    running.fail()
    monkeypatch.setenv("ANACHRON_CONTACT", "test@example.org")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return running


def options(server) -> tuple[str, ...]:
    return ("--site", server.url, "--sparql", f"{server.url}/sparql", "--views", f"{server.url}/api/rest_v1")


def run(*words: object) -> int:
    return run_command(list(map(str, words)), debug=False)


def merged() -> dict[str, str]:
    last = {id: revisions[-1].content for id, revisions in WORLD.entities.items()}
    return {id: content.to for id, content in last.items() if isinstance(content, Redirect)}


def of_dumps(folder: Path, items: list[str], popularity: bool) -> dict[str, pl.DataFrame]:
    """The updates by two dumps, a list of the items, a list of what was merged, and files of page views."""
    for day in (OLD, NEW):
        dump = dump_of(folder / f"{day}.json.gz", day)
        ingest(dump, folder / day, IngestSettings(day, "all", entities=frozenset(items)))
    files = []
    for month in MONTHS:
        files.append(folder / f"pageviews-{month.replace('-', '')}-user")
        lines = [f"{p} {t} 1 desktop {v[month]}\n" for (p, t), v in WORLD.views.items() if month in v]
        files[-1].write_text("".join(sorted(lines)))
    if popularity:
        compute_popularity(folder / NEW, files)
    settings = UpdateSettings(popularity=popularity, neighbours=5)
    build_updates(folder / OLD, folder / NEW, folder / FILES[0], settings, redirects=merged())
    return {name: pl.read_parquet(folder / name) for name in FILES}


@pytest.mark.parametrize(
    ("topic", "items", "popularity"),
    [
        (QUERY, STATES[:6], False),  # the query service knows the present, where the last is none
        (",".join(STATES), STATES, False),
        pytest.param(QUERY, STATES[:6], True, marks=pytest.mark.full),
    ],
)
def test_updates_are_those_of_two_dumps(server, tmp_path, topic, items, popularity, capsys, monkeypatch):
    expected = of_dumps(tmp_path, items, popularity)
    out = tmp_path / "topic" / FILES[0]
    words = ("--topic", topic, "--old-date", OLD, "--new-date", NEW, "--neighbours", 5, *options(server))
    flag = () if popularity else ("--no-popularity",)
    assert run("build", "updates", *words, *flag, "--out", out) == 0
    for name in FILES:
        assert pl.read_parquet(out.with_name(name)).equals(expected[name]), name
    kinds = expected[FILES[0]].select(pl.col("subject").struct.field("id"), "scenario").rows()
    assert sorted(kinds) == [("Q101", "ReplaceObject"), ("Q104", "ReplaceObject"), ("Q106", "AddRelation")]
    err = capsys.readouterr().err
    assert ("SELECT DISTINCT ?item WHERE {" in err) == (topic == QUERY)
    assert "merged items:" in err
    card = (out.parent / "updates.parquet.card.md").read_text()
    assert topic in card or f"{len(items):,} items" in card
    # the same command finds all of it there, without the network and without a contact
    before = len(server.requests())
    monkeypatch.delenv("ANACHRON_CONTACT")
    assert run("build", "updates", *words, *flag, "--out", out) == 0
    assert len(server.requests()) == before


@pytest.mark.full
def test_a_killed_command_goes_on(server, tmp_path):
    """Killed at some requests of its way: the same bytes, and for each kill at most the answer on its way once more."""
    words = ["build", "updates", "--topic", QUERY, "--old-date", OLD, "--new-date", NEW, *options(server)]
    assert run(*words, "--out", tmp_path / "whole" / "u.parquet") == 0
    whole = {path.name: path.read_bytes() for path in (tmp_path / "whole").glob("u.*parquet")}
    requests = Counter(one.key for one in server.requests())
    shutil.rmtree(tmp_path / "cache")
    server.fail()
    out = tmp_path / "killed" / "u.parquet"
    kills = range(1, requests.total(), requests.total() // 4)  # four, or five where a rest is left
    for at in kills:
        with subprocess.Popen(
            [sys.executable, "-m", "anachron", *words, "--out", out], stderr=subprocess.DEVNULL
        ) as one:
            while one.poll() is None and len(server.requests()) < at:
                time.sleep(0.005)
            one.kill()
    assert run(*words, "--out", out) == 0
    assert {path.name: path.read_bytes() for path in out.parent.glob("u.*parquet")} == whole
    asked = Counter(one.key for one in server.requests())
    assert asked.keys() == requests.keys()
    assert (asked - requests).total() <= len(kills)


def test_a_query_is_asked_once_and_both_days_have_its_items(server, tmp_path):
    settings = TopicSettings(site=server.site(), web=FetchSettings(contact="test@example.org"), cache=tmp_path / "c")
    days = fetch_days(topic_of(QUERY), tmp_path, OLD, "today", settings)
    kinds = [one.path for one in server.requests()]
    assert kinds.count("/sparql") == 1
    chosen = [one.manifest["topic"]["chosen"] for one in (days.old, days.new)]
    assert [one["words"] for one in chosen] == [QUERY, QUERY]
    assert chosen[0]["query"] == chosen[1]["query"]
    own = [set(one.outcomes.filter(pl.col("part") == "topic")["id"]) for one in (days.old, days.new)]
    assert own[0] == own[1] == set(STATES) - {"Q107"}  # the query service knows the present, where that one is none
    assert days.merged == {"Q212": "Q218"}
    assert days.old.manifest["date"] == OLD < days.new.manifest["date"]
    # what was the same on both days is fetched once
    asked = [
        one.params["ids"].split("|") for one in server.requests() if one.params.get("props", "").startswith("info|")
    ]
    fetched = [id for ids in asked for id in ids]
    assert fetched.count("Q103") == 1
    assert fetched.count("P6") == 1


def test_merges_are_those_of_the_days(server, tmp_path, monkeypatch):
    """Q107 and Q213 led elsewhere on the earlier day; Q212 was merged after the later one."""
    before, between, after = "2021-01-01T00:00:00Z", "2024-10-10T00:00:00Z", "2025-09-09T00:00:00Z"
    state = WORLD.entities["Q107"][0].content
    changed = {
        "Q107": [Revision(1, "2020-01-01T00:00:00Z", state), Revision(2, before, Redirect("Q103")),
                 Revision(3, between, Redirect("Q105"))],
        "Q212": [WORLD.entities["Q212"][0], Revision(4, after, Redirect("Q218"))],
        "Q213": [WORLD.entities["Q213"][0], Revision(5, before, Redirect("Q214")),
                 Revision(6, between, Redirect("Q218"))],
        "Q102": [replace(one, content=json.loads(json.dumps(one.content).replace("Q209", "Q213"))) if not n else one
                 for n, one in enumerate(WORLD.entities["Q102"])],
    }  # fmt: skip
    server.show(World(dict(WORLD.entities) | changed))
    server.fail()
    settings = TopicSettings(site=server.site(), web=FetchSettings(contact="test@example.org"), cache=tmp_path / "c")
    topic = topic_of("Q102,Q107")
    written = days_module.write_json
    monkeypatch.setattr(days_module, "write_json", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fetch_days(topic, tmp_path, OLD, NEW, settings)
    monkeypatch.setattr(days_module, "write_json", written)
    before = len(server.requests())
    days = fetch_days(topic, tmp_path, OLD, NEW, settings)
    assert len(server.requests()) == before  # what was asked for is forgotten when it is written
    old, new = (dict(one.outcomes.select("id", "merged_into").iter_rows()) for one in (days.old, days.new))
    assert (old["Q107"], new["Q107"], old["Q213"]) == ("Q103", "Q105", "Q214")
    assert days.merged == {"Q107": "Q105", "Q213": "Q218"}
    one, other = (day.manifest["options"]["entities"] for day in (days.old, days.new))
    assert one == other and one["ids"] == 3  # not Q103, which is none of the later day
    check_pair(*(open_snapshot(day.snapshot) for day in (days.old, days.new)))


def test_a_day_without_any_of_the_items(server, tmp_path):
    """Q107 led to what is no item of the later day, and that one was not there yet."""
    changed = {"Q107": [WORLD.entities["Q107"][0], Revision(2, "2021-01-01T00:00:00Z", Redirect("Q103")),
                        Revision(3, "2024-10-10T00:00:00Z", Redirect("Q106"))]}  # fmt: skip
    server.show(World(dict(WORLD.entities) | changed))
    settings = TopicSettings(site=server.site(), web=FetchSettings(contact="test@example.org"), cache=tmp_path / "c")
    days = fetch_days(topic_of("Q107"), tmp_path, OLD, NEW, settings)
    assert days.old.states() == {"not yet": ["Q106"], "merged": ["Q107 into Q103"]}
    assert days.old.manifest["options"]["entities"] == days.new.manifest["options"]["entities"]


def test_words_are_understood_by_the_services_own_mapping(server, tmp_path):
    settings = TopicSettings(site=server.site(), web=FetchSettings(contact="test@example.org"), cache=tmp_path / "c")
    found = fetch_topic(topic_of(f"{QUERY},P36 since 2025"), tmp_path / "t", settings)
    # with a head in office in 2025 or later, since whenever
    ids = found.outcomes.filter(pl.col("part") == "topic")["id"].to_list()
    assert ids == ["Q101", "Q103", "Q104", "Q105", "Q106"]
    assert found.manifest["topic"]["chosen"]["words"] == "instances of Q3624078 with P6,P36 since 2025"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (NEW, OLD, "the old one must be earlier"),
        ("today", "today", "the old one"),
        ("2024", NEW, "as YYYY-MM-DD"),
        (NEW, f"{datetime.now(UTC):%Y-%m-%d}", "--new-date: today"),
    ],
)
def test_days_that_cannot_be_are_refused_before_anything_is_asked(server, tmp_path, old, new, message):
    before = len(server.requests())
    settings = TopicSettings(site=server.site(), web=FetchSettings(contact="test@example.org"))
    with pytest.raises(ConfigError, match=message):
        fetch_days(topic_of("Q101"), tmp_path, old, new, settings)
    assert len(server.requests()) == before


def test_facts_of_a_topic_are_a_file_of_facts(server, tmp_path, capsys):
    out = tmp_path / "facts.csv"
    assert run("build", "facts", "--topic", QUERY, "--as-of", NEW, *options(server), "--out", out) == 0
    table = pl.read_csv(out, infer_schema=False)
    rows = {(one["subject_id"], one["object_id"]): one for one in table.iter_rows(named=True)}
    assert set(table["relation_id"]) == {"P6"}  # those that the topic names, not the capitals
    expected = {
        "subject": "Aland", "relation": "head of government", "object": "Person A", "start": "2010-01-01",
        "end": "2019-01-01", "subject_id": "Q101", "relation_id": "P6", "object_id": "Q201",
        "other_objects": "2", "statement_id": "s-Q201-2010-01-01",
        "subject_revision": "1011", "subject_modified": "2024-09-09T09:09:09Z",
    }  # fmt: skip
    assert rows["Q101", "Q201"] == expected
    assert (rows["Q101", "Q215"]["start"], rows["Q101", "Q215"]["end"]) == ("2024-02-01", None)
    assert ("Q104", "Q217") not in rows  # of after that day
    assert "--as-of 2025-06-30" in capsys.readouterr().err  # of the check that comes next
    manifest = json.loads((tmp_path / "facts.csv.manifest.json").read_text())
    assert manifest["parameters"]["preset"] == "dated"
    assert (tmp_path / "facts.csv.topic" / "topic.json.gz").is_file()
    capsys.readouterr()
    other = QUERY.replace("P6", "P36")
    assert run("build", "facts", "--topic", other, "--as-of", NEW, *options(server), "--out", out) == 2
    assert "is there already, and another command or other inputs made it" in capsys.readouterr().err


@pytest.fixture
def measuring(server):
    with serving(measured()) as other:
        yield other


@pytest.mark.parametrize(
    ("topic", "more", "relations"),
    [
        ("Q101", (), {"P6", "P36", "P2046"}),
        (QUERY, (), {"P6"}),  # of the others no objects are fetched
        (QUERY, ("--relations", "P6,P2046"), {"P6", "P2046"}),
        (QUERY, ("--relations", ""), {"P6", "P36", "P2046"}),
    ],
)
def test_updates_are_of_the_relations_chosen_and_in_units(measuring, tmp_path, topic, more, relations):
    for day in (OLD, NEW):
        dump = dump_of(tmp_path / f"{day}.json.gz", day, measured())
        ingest(dump, tmp_path / day, IngestSettings(day, "all", entities=frozenset({"Q101"})))
    settings = UpdateSettings(popularity=False)
    expected = build_updates(tmp_path / OLD, tmp_path / NEW, tmp_path / "dumps.parquet", settings).updates
    assert expected["relation"].struct.field("id").sort().to_list() == ["P2046", "P36", "P6"]
    assert "7 square miles" in str(expected.to_dicts())
    days = (
        "--old-date",
        OLD,
        "--new-date",
        NEW,
        "--no-popularity",
        *options(measuring),
        "--out",
        tmp_path / "u.parquet",
    )
    assert run("build", "updates", "--topic", topic, *more, *days) == 0
    chosen = expected.filter(pl.col("relation").struct.field("id").is_in(relations)).drop("case_id")
    assert pl.read_parquet(tmp_path / "u.parquet").drop("case_id").equals(chosen)


def test_relations_beyond_those_of_the_topic_are_fetched_too(measuring, tmp_path, capsys):
    words = ("build", "facts", "--topic", QUERY, "--as-of", NEW, *options(measuring))
    assert run(*words, "--relations", "P36", "--out", tmp_path / "facts.csv") == 0
    assert pl.read_csv(tmp_path / "facts.csv").select("relation_id", "object").rows() == [("P36", "Two")]
    capsys.readouterr()
    # those of another file are no part of what lies in this folder
    shutil.copytree(tmp_path / "facts.csv.topic", tmp_path / "more.csv.topic")
    assert run(*words, "--relations", "P6,P36", "--out", tmp_path / "more.csv") == 2
    assert "with other settings (relations" in capsys.readouterr().err


def test_facts_since_a_year_are_those_that_had_not_ended(server, tmp_path):
    words = ("build", "facts", "--as-of", NEW, *options(server))
    assert run(*words, "--topic", QUERY, "--out", tmp_path / "all.csv") == 0
    assert run(*words, "--topic", f"{QUERY} since 2024", "--out", tmp_path / "since.csv") == 0
    every, since = (pl.read_csv(tmp_path / name) for name in ("all.csv", "since.csv"))
    left = every.filter(pl.col("end").is_null() | (pl.col("end") >= "2024"))
    assert 0 < left.height < every.height
    assert since.select("subject", "object").rows() == left.select("subject", "object").rows()
    words = (*words, "--topic", f"{QUERY} since 2024", "--ended-since", 1)
    assert run(*words, "--out", tmp_path / "again.csv") == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "all.csv").read_bytes()


def test_a_timestress_of_a_topic(server, tmp_path):
    out = tmp_path / "ts"
    words = ("--topic", ",".join(STATES[:5]), "--date", NEW, "--templates", "--ended-before", "2025", "--out", out)
    assert run("build", "timestress", *words, "--no-popularity", *options(server)) == 0
    without = pl.read_parquet(out / "timestress.parquet")
    assert without["SubjectLabel"].n_unique() == 5
    assert run("build", "timestress", *words[:-1], tmp_path / "viewed", *options(server)) == 0
    viewed = pl.read_parquet(tmp_path / "viewed" / "timestress.parquet")
    popularity = viewed.select("SubjectLabel", "SubjectPop").unique().drop_nulls()
    assert 0 < popularity.height < 5  # some have no views
    for title, number in popularity.iter_rows():
        found = WORLD.views["en.wikipedia", title]
        first = min(MONTHS.index(month) for month in found)
        assert number == statistics.median([found.get(month, 0) for month in MONTHS[first:]])


@pytest.mark.parametrize(
    ("words", "views", "message"),
    [
        (("timestress", "--templates", "--date", NEW), False, "no page views are known of it"),
        (("updates", "--old-date", OLD, "--new-date", NEW), False, "no page views are known of it"),
        (("timestress", "--templates", "--date", "2016-01-01"), True, "the service has them since 2015-07"),
        (("updates", "--old-date", "2015-10-01", "--new-date", "2016-01-01"), True, "since 2015-07"),
    ],
)
def test_page_views_that_cannot_be_had_are_told_before_anything_is_fetched(
    server, tmp_path, words, views, message, capsys
):
    given = options(server) if views else options(server)[:-2]
    before = len(server.requests())
    assert run("build", *words, "--topic", QUERY, *given, "--out", tmp_path / "u.parquet") == 2
    assert message in capsys.readouterr().err
    assert len(server.requests()) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("build", "facts", "--out", "f.csv"), "name a snapshot, or say a topic"),
        (("build", "facts", "S", "--topic", "Q1", "--out", "f.csv"), "name a snapshot, or say a topic"),
        (("wikidata", "fetch", "--items", "Q1", "--topic", "Q1", "--out", "s"), "--topic 'Q1' says the whole topic"),
        (("build", "facts", "S", "--as-of", "2024-01-01", "--out", "f.csv"), "--as-of 2024-01-01 is for a topic"),
        (("build", "facts", "S", "--language", "en", "--out", "f.csv"), "--language en is for a topic"),
        (("build", "facts", "S", "--site", "https://w.org", "--out", "f.csv"), "--site https://w.org is for a topic"),
        (("build", "facts", "S", "--contact", "me", "--out", "f.csv"), "--contact me is for a topic"),
        (("build", "facts", "S", "--requests", "2", "--out", "f.csv"), "--requests 2 is for a topic"),
        (("build", "facts", "--topic", "Q1", "--class-depth", "5", "--out", "f.csv"), "--class-depth 5: of a topic"),
        (("build", "timestress", "--topic", f"{QUERY} since 2021", "--templates", "--out", "t"), "before 2021"),
        (("build", "updates", "--old", "S", "--new", "T", "--old-date", NEW, "--out", "u.parquet"), "is for a topic"),
        (("build", "updates", "--old", "S", "--new", "T", "--new-date", NEW, "--out", "u.parquet"), "is for a topic"),
        (("build", "updates", "--topic", "Q1", "--out", "u.parquet"), "--old-date 2024-01-01 --new-date today"),
        (("build", "updates", "--old", "S", "--out", "u.parquet"), "give two snapshots, --old and --new, or --topic"),
        (("build", "updates", "--old", "S", "--new", "T", "--relations", "6", "--out", "u.parquet"), "relation '6'"),
        (("build", "timestress", "--templates", "--out", "t"), "give a dump, page views and --date, or a topic"),
        (("build", "timestress", "D", "--topic", "Q1", "--templates", "--out", "t"), "give a dump, page views"),
        (
            ("build", "timestress", "--topic", "Q1", "--most-bad", "5", "--templates", "--out", "t"),
            "--most-bad 5 is for a dump",
        ),
    ],
)
def test_what_is_neither_is_refused(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(*words) == 2
    assert message in capsys.readouterr().err
