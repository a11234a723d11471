"""Fetching a topic from a service that fails, lags, cuts answers off and falls silent, and by a process that is killed.

The server is `wikidata.wikibase`, which is written from the documentation of the services. Whatever meets the requests,
what comes out is the same bytes; and whoever comes back asks for nothing that was answered.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import date, timedelta
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anachron.core.errors import BackendError
from anachron.wikidata.fetching.web import FetchSettings
from anachron.wikidata.topic.choose import Topic
from anachron.wikidata.topic.entities import Resolver, end_of
from anachron.wikidata.topic.fetch import TopicSettings, fetch_topic
from anachron.wikidata.topic.kept import Kept
from anachron.wikidata.topic.services import Services
from support.processes import surroundings
from wikidata import wikibase_api
from wikidata.dumps import entity, item, property_, statement
from wikidata.topic.worlds import BETWEEN, TOPIC, world
from wikidata.wikibase import (
    Fault,
    Redirect,
    Revision,
    World,
    close,
    cut,
    half,
    lag,
    serving,
    silent,
    too_many,
    unavailable,
)
from wikidata.wikibase_pages import entity_data

CONTACT = "someone@example.org"
FAULTS = {
    "429": too_many, "429 with Retry-After": lambda at, times=1: too_many(at, "7", times), "503": unavailable,
    "500": lambda at, times=1: unavailable(at, times, 500), "lag": lag, "cut": cut, "half": half, "close": close,
}  # fmt: skip
MADE = ("topic.json.gz", "topic.csv")


@pytest.fixture
def fetch(server, tmp_path_factory):
    """Fetch the topic anew into a folder of its own, without waiting; the folder, and the pauses it would have made."""

    def once(day=None, ids=TOPIC, **more):
        place, slept = tmp_path_factory.mktemp("fetch"), []
        web = FetchSettings(contact=CONTACT, timeout=60, sleep=slept.append)
        chosen = TopicSettings(as_of=day, site=server.site(), web=web, cache=place / "cache", **more)
        fetch_topic(Topic(items=tuple(ids)), place / "out", chosen)
        return place / "out", slept

    return once


def made(folder):
    """What a fetched folder holds: the dump and the table as bytes, the snapshot's tables as rows."""
    rows = {str(path.relative_to(folder)): pl.read_parquet(path).rows() for path in sorted(folder.rglob("*.parquet"))}
    return {name: (folder / name).read_bytes() for name in MADE} | rows


def keys(requests):
    return Counter(one.key for one in requests)


def test_a_service_in_trouble_gives_the_same_bytes(server, fetch):
    """Every second request meets a fault, one kind after the other."""
    expected = made(fetch()[0])
    asked = len(server.requests())
    kinds = list(FAULTS.values())
    server.fail([kinds[place % len(kinds)](2 * place) for place in range(asked)])
    folder, slept = fetch()
    assert made(folder) == expected
    assert len(server.requests()) == 2 * asked  # each was asked for twice, no more
    assert len(slept) == asked


@pytest.mark.full
@pytest.mark.parametrize("day", [None, BETWEEN])
@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_at_every_request(server, fetch, kind, day):
    expected = made(fetch(day)[0])
    usual = server.requests()
    for at in range(len(usual)):
        server.fail([FAULTS[kind](at)])
        folder, slept = fetch(day)
        assert made(folder) == expected
        twice = Counter({usual[at].key: 1})
        if usual[at].path != "/w/api.php":  # an entity at a revision: no lag, and a state says all without a text
            refused = entity_data(world(), usual[at].path.rsplit("/", 1)[1], usual[at].params)[0] != 200
            twice = Counter() if kind == "lag" or (kind == "half" and refused) else twice
        assert (len(slept), keys(server.requests()) - keys(usual)) == (twice.total(), twice)
        assert len(server.requests()) == len(usual) + len(slept)


@pytest.mark.parametrize(
    ("fault", "pause"),
    [
        (too_many(1, "7"), 7),
        (too_many(1, "0"), 0),
        (lag(1), 5),
        (lag(1, retry_after="30"), 30),
        (lag(1, retry_after="1"), 5),
    ],
)
def test_a_server_that_says_how_long_is_given_that_time(server, fetch, fault, pause):
    server.fail([fault])
    assert fetch()[1] == [pause]


def test_pauses_grow_and_end(server, fetch):
    server.fail([unavailable(1, times=4)])
    slept = fetch()[1]
    assert len(slept) == 4 and all(low < high for low, high in pairwise(slept))
    server.fail([unavailable(1, times=99)])
    with pytest.raises(BackendError, match=r"answers 503.*7 times in a row.*run the same command again"):
        fetch()
    assert len(server.requests()) == 1 + 7
    server.fail([too_many(1, "86400")])
    with pytest.raises(BackendError, match="asks to wait 86,400 seconds"):
        fetch()


# -- killed ------------------------------------------------------------------------------------------------------------

PROGRAM = """
import json, sys
from anachron.wikidata.fetching.web import FetchSettings
from anachron.wikidata.topic.choose import Topic
from anachron.wikidata.topic.fetch import TopicSettings, fetch_topic
from anachron.wikidata.topic.site import Site
url, folder, day, ids = sys.argv[1:]
web = FetchSettings(contact="someone@example.org", timeout=600)
from pathlib import Path
chosen = TopicSettings(as_of=day or None, site=Site(url), web=web, cache=Path(folder) / "cache")
fetch_topic(Topic(items=tuple(ids.split(","))), Path(folder) / "out", chosen)
"""


def begun(server, folder, day):
    command = [sys.executable, "-c", PROGRAM, server.url, str(folder), day or "", ",".join(TOPIC)]
    return subprocess.Popen(command, env=surroundings(), stderr=subprocess.PIPE, text=True)


def killed_at(server, folder, day, at):
    """Run until request number ``at`` has come to the server, which does not answer it; then kill. The requests.

    None where the run came to its end without so many.
    """
    server.fail([silent(at)])
    with begun(server, folder, day) as process:
        while process.poll() is None and len(server.requests()) <= at:
            time.sleep(0.01)
        asked = server.requests()
        if len(asked) <= at:
            assert process.returncode == 0, process.stderr.read()
            return None
        os.kill(process.pid, signal.SIGKILL)
    return asked


@pytest.mark.full
@pytest.mark.parametrize("day", [None, BETWEEN])
def test_killed_at_every_request_it_goes_on_where_it_was(server, fetch, tmp_path, day):
    """Each run of one folder gets a single answer, and is killed as it waits for the next."""
    expected = made(fetch(day)[0])
    usual = keys(server.requests())
    answered = Counter()
    while (asked := killed_at(server, tmp_path, day, 1)) is not None:
        answered += keys(asked[:-1])  # the last one had no answer
        assert len(asked) == 2 and answered.keys() <= usual.keys()
    answered += keys(server.requests())
    assert answered == usual  # each was answered once
    assert made(tmp_path / "out") == expected


@pytest.mark.full
def test_killed_once_at_any_request(server, fetch, tmp_path, day=None):
    expected = made(fetch(day)[0])
    usual = server.requests()
    for at in range(len(usual)):
        folder = tmp_path / str(at)
        asked = killed_at(server, folder, day, at)
        server.fail()
        with begun(server, folder, day) as process:
            assert process.wait() == 0, process.stderr.read()
        assert keys(asked[:-1]) + keys(server.requests()) == keys(usual)
        assert made(folder / "out") == expected


# -- manners -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("day", [None, BETWEEN])
def test_every_request_is_as_the_services_ask(server, fetch, day):
    fetch(day)
    for one in server.requests():
        assert one.method == "GET" and CONTACT in one.headers["user-agent"]
        assert "gzip" in one.headers["accept-encoding"] and one.at_once == 1  # in series, unless more are allowed
        if one.path == "/w/api.php":
            assert one.params["maxlag"] == "5" and one.params["format"] == "json"
            body, code = wikibase_api.call(world(), one.params)  # what it says of parameters that it does not know
            assert code is None and "warnings" not in body


def test_at_most_so_many_requests_at_once():
    ids = [f"Q{number}" for number in range(1, 301)]
    with serving(World({id: [Revision(1, "2020-01-01T00:00:00Z", item(id, id))] for id in ids}), pace=0.1) as slow:
        web = FetchSettings(contact=CONTACT)
        for at_a_time in (1, 3):
            slow.fail()
            with Services(slow.site(), web, at_a_time) as services:
                list(services.map(lambda id: services.api("entities", dict, action="wbgetentities", ids=id), ids[:12]))
            assert max(one.at_once for one in slow.requests()) == at_a_time


def test_as_few_requests_as_the_limits_allow(server, fetch):
    """230 items that name 120 more and one class: five batches, three, and those of the properties."""
    claims = [[statement("P31", entity("Q5")), statement("P6", entity(f"Q{n % 120 + 1000}"))] for n in range(230)]
    found = {f"Q{n + 2000}": item(f"Q{n + 2000}", f"item {n}", claims=claims[n]) for n in range(230)}
    found |= {f"Q{n + 1000}": item(f"Q{n + 1000}", f"object {n}") for n in range(120)} | {"Q5": item("Q5", "human")}
    found |= {id: property_(id, id) for id in ("P31", "P6")}
    server.show(World({id: [Revision(1, "2020-01-01T00:00:00Z", one)] for id, one in found.items()}))
    folder, _ = fetch(ids=[id for id in found if id.startswith("Q2")])
    assert Counter(one.params.get("action") for one in server.requests()) == {"wbgetentities": 5 + 3}
    told = json.loads((folder / "manifest.json").read_text())["topic"]["requests"]
    assert told == {"entities": 8}


# -- what becomes of an id, against a plain reading of the histories -------------------------------------------------


def oracle(histories, id, day):
    """(state, revision, merged into) of an id by what its history says. day: None for today."""
    history = histories.get(id, [])
    if not history:
        return "missing", None, None
    if history[-1].content is None:
        return "deleted", None, None  # whatever there was, nothing of it can be seen
    there = [one for one in history if one.content is not None and (day is None or one.timestamp[:10] <= day)]
    if not there:
        return "not yet", None, None
    last = there[-1]
    if last.hidden:
        return "hidden", last.number, None
    if isinstance(last.content, Redirect):
        return "merged", None, last.content.to
    return "found", last.number, None


def outcome(one):
    return one.state, one.revision if one.state in ("found", "hidden") else None, one.to


IDS = ("Q1", "Q2", "Q3", "Q4")
FIRST = date(2020, 1, 1)


@st.composite
def worlds(draw):
    """Items that are changed, merged into one that stays or into each other, and parted again; deleted, restored, and
    whose revisions are hidden."""
    histories = {"Q5": [Revision(1, "2019-06-01T00:00:00Z", item("Q5", "stays"))]}
    number = 1
    for id in IDS:
        history = []
        days = sorted(draw(st.lists(st.integers(0, 40), min_size=0, max_size=4, unique=True)))
        for place, day in enumerate(days):
            number += 1
            kinds = ["edit"] if place == 0 else ["edit", "edit", "merge", "merge", "delete"]
            kind = draw(st.sampled_from(kinds))
            other = draw(st.sampled_from([one for one in (*IDS, "Q5", "Q404") if one != id]))
            content = {"edit": item(id, f"{id} {number}"), "merge": Redirect(other), "delete": None}[kind]
            stamp = f"{FIRST + timedelta(day)}T{draw(st.sampled_from(['00:00:00', '12:30:00', '23:59:59']))}Z"
            last = place == len(days) - 1  # the text of today's revision cannot be hidden
            hidden = kind == "edit" and not last and draw(st.booleans())
            history.append(Revision(number, stamp, content, hidden))
        histories[id] = history
    return histories


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories=worlds(), day=st.none() | st.integers(-1, 41).map(lambda n: str(FIRST + timedelta(n))))
def test_outcomes_are_those_of_the_histories(running, tmp_path_factory, histories, day):
    running.show(World(histories))
    running.fail()
    web = FetchSettings(contact=CONTACT)
    with Services(running.site(), web) as services, Kept(tmp_path_factory.mktemp("kept") / "a.sqlite", "run") as kept:
        found = Resolver(services, kept, day).resolve([*IDS, "Q404"])
        expected = {id: oracle(histories, id, day) for id in [*IDS, "Q404"]}
        if any(into == "Q5" for *_, into in expected.values()):
            expected["Q5"] = oracle(histories, "Q5", day)
        assert {id: outcome(one) for id, one in found.items()} == expected
        for id in IDS:  # what it came to in the end
            passed, end = [], id
            while expected[end][0] == "merged" and end not in passed:
                passed.append(end)
                end = expected[end][2]
            assert (end_of(found, id).id, end_of(found, id).state) == (end, expected[end][0])
        for id, one in found.items():  # and what is kept is the content of that revision
            if one.state == "found":
                content = next(rev.content for rev in histories[id] if rev.number == one.revision)
                kept_one = json.loads(kept.entity(id, one.revision))
                assert kept_one["labels"] == content["labels"] and kept_one["lastrevid"] == one.revision
    assert max(keys(running.requests()).values()) == 1


def test_what_is_too_large_for_an_answer_is_asked_for_again(server, fetch):
    expected = made(fetch()[0])
    largest = max(
        len(json.dumps(one[-1].content)) for one in world().entities.values() if isinstance(one[-1].content, dict)
    )
    server.show(World(world().entities, largest=2 * largest))
    server.fail()
    assert made(fetch()[0]) == expected
    server.show(World(world().entities, largest=200))
    with pytest.raises(BackendError, match="the answer has none"):
        fetch()


def test_a_redirect_to_a_redirect(server):
    """api.php does not follow it: it calls the id missing, though there is a page."""
    histories = {
        "Q1": [Revision(1, "2020-01-01T00:00:00Z", Redirect("Q2"))],
        "Q2": [Revision(2, "2020-02-01T00:00:00Z", Redirect("Q3"))],
        "Q3": [Revision(3, "2019-02-01T00:00:00Z", item("Q3", "three"))],
    }  # fmt: skip
    assert wikibase_api.call(World(histories), {"action": "wbgetentities", "ids": "Q1"})[0]["entities"]["Q1"] == {
        "id": "Q1", "missing": "",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["status", "lag"])
def test_faults_of_views_are_like_all_others(server, kind):
    """The page views are asked for by the same client: a lag is api.php's alone."""
    server.show(World(world().entities, views={("en.wikipedia", "France"): {"2023-01": 7}}))
    server.fail([Fault(0, kind, headers={"Retry-After": "0"})])
    with Services(server.site(), FetchSettings(contact=CONTACT, sleep=lambda seconds: None)) as services:
        path = "/metrics/pageviews/per-article/en.wikipedia/all-access/user/France/monthly/20230101/20230131"
        answer = services.get("views", f"{services.site.views}{path}")
    assert answer.json()["items"][0]["views"] == 7
    assert len(server.requests()) == (2 if kind == "status" else 1)
