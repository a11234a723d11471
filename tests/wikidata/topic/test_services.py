"""The one client: who is let in, how a query is asked, and what the pauses of one request mean for the others."""

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from anachron.core.errors import BackendError, ConfigError
from anachron.wikidata.fetching.web import FetchSettings
from anachron.wikidata.topic import services as module
from anachron.wikidata.topic.choose import Topic, ids_of_answer
from anachron.wikidata.topic.services import Services
from anachron.wikidata.topic.site import Site
from support.processes import surroundings
from wikidata.wikibase import lag, silent, too_many, unavailable

QUERY = Topic(instances_of="Q6256", with_=("P6",)).sparql()


def settings(**more):
    return FetchSettings(**{"contact": "test@example.org", "pause": 0.01} | more)


@pytest.mark.parametrize("name", ["url", "sparql", "views"])
@pytest.mark.parametrize("address", ["https://user:pw@wiki.corp/here", "https://wiki.corp/here?key=pw"])
def test_an_address_with_a_secret_is_refused_without_showing_it(name, address):
    with pytest.raises(ConfigError, match=r"https://wiki\.corp/here: write the address without a user") as refused:
        Site(**{"url": "https://wiki.corp", name: address})
    assert "pw" not in str(refused.value)


def test_one_site_has_one_address():
    assert Site("HTTPS://WWW.wikidata.org:443/") == Site()
    assert Site("http://Wiki.corp/base/", sparql="http://wiki.corp:81/sparql/").api == "http://wiki.corp/base/w/api.php"


def test_wikimedia_is_asked_for_a_few_things_at_a_time():
    for site in (Site(), Site("http://test.wikidata.org"), Site("https://wiki.corp", views=Site().views)):
        with pytest.raises(ConfigError, match="--requests 4: Wikimedia asks for one at a time; give at most 3 there"):
            Services(site, settings(), 4)
    assert Services(Site(), settings(), 3).at_a_time == 3
    assert Services(Site("https://wiki.corp"), settings(), 9).at_a_time == 9


@pytest.mark.parametrize(("length", "method"), [(2_000, "GET"), (2_001, "POST")])
def test_a_long_query_is_posted(server, length, method):
    query = QUERY + "#" + "x" * (length - len(QUERY) - 1)
    with Services(server.site(), settings()) as services:
        assert ids_of_answer(services.query(query)) == ("Q8", "Q142", "Q183")
    (asked,) = server.requests()
    assert (asked.method, asked.params) == (method, {"query": query})
    assert asked.headers["accept"] == "application/sparql-results+json"


def test_a_query_whose_time_was_up_is_not_asked_again(server, monkeypatch):
    server.fail([unavailable(0, status=504)])
    with Services(server.site(), settings()) as services:
        with pytest.raises(BackendError, match="the query service answers 504: "):
            services.query(QUERY)
        assert len(server.requests()) == 1
        monkeypatch.setattr(module, "QUERY_TIMEOUT", 0.3)
        server.fail([silent(0)])
        with pytest.raises(BackendError, match=r"sparql: no answer within 0\.3 seconds"):
            services.query(QUERY)
    assert len(server.requests()) == 1
    with Services(server.site(), settings(sleep=lambda seconds: None)) as services:
        server.fail([too_many(0)])
        assert ids_of_answer(services.query(QUERY))  # what the service has no time for now, it may have then
    with Services(Site(server.url), settings()) as services, pytest.raises(ConfigError, match="no query service"):
        services.query(QUERY)


def test_lag_has_an_end(server):
    server.fail([lag(0, times=99)])
    waits = []
    with (
        Services(server.site(), settings(longest_wait=24, sleep=waits.append)) as services,
        pytest.raises(BackendError, match=r"maxlag .* for 24 seconds now; run the same command again"),
    ):
        info(services, "Q142")
    assert waits == [5] * 4 and len(server.requests()) == 5


def info(services, id):
    return services.api("info", dict, action="wbgetentities", ids=id, props="info")


def test_a_pause_of_one_thread_is_one_of_all(server):
    """While one waits as it was told, another that comes then sends nothing."""
    asleep, other, asked = threading.Event(), threading.Event(), []

    def sleep(seconds):
        if threading.current_thread() is threading.main_thread():
            asked.append(len(server.requests()))
            other.set()
        else:
            asleep.set()
            assert other.wait(60)

    server.fail([too_many(0, "1000")])
    with ThreadPoolExecutor(1) as pool, Services(server.site(), settings(sleep=sleep), 2) as services:
        first = pool.submit(info, services, "Q142")
        assert asleep.wait(60)
        assert info(services, "Q183")["entities"] and first.result()["entities"]
    assert asked[0] == 1 and len(server.requests()) == 3


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_ends_what_others_wait_for(server, kind):
    """The other thread was told to wait for a quarter of an hour."""
    told = threading.Event()
    server.fail([too_many(0, "900")])

    def call(id):
        if id == "Q142":
            return info(services, id)
        assert told.wait(60)
        raise kind

    with pytest.raises(kind), Services(server.site(), settings(note=lambda message: told.set()), 2) as services:
        for _ in services.map(call, ["Q183", "Q142"]):
            pass
    assert len(server.requests()) == 1


@pytest.mark.full
@pytest.mark.parametrize("requests", [1, 2])
def test_ctrl_c_ends_a_command_that_was_told_to_wait(server, tmp_path, requests):
    server.fail([too_many(2, "900", times=2)])  # a question about one id: of several, each thread has one
    command = [
        *(sys.executable, "-m", "anachron", "wikidata", "fetch", "--items", "Q142,Q7,Q999", "--site", server.url),
        *("--contact", "test@example.org", "--requests", str(requests)),
        *("--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")),
    ]
    with subprocess.Popen(command, env=surroundings(), stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "trying again in 900 s" in line:
                break
        time.sleep(0.2)  # the pause begins after its announcement
        process.send_signal(signal.SIGINT)
        assert "interrupted; finished work is kept" in process.stderr.read()
        assert process.wait() == 130
