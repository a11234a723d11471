"""Outcomes of ids against the histories themselves, answers of other forms, and other Wikibases."""

import json
import string

import httpx2
import pytest

from anachron.core.errors import BackendError, ConfigError
from anachron.wikidata.fetching.web import FetchSettings
from anachron.wikidata.reading.snapshot import in_order
from anachron.wikidata.topic import services as services_module
from anachron.wikidata.topic.entities import Resolver, dumped
from anachron.wikidata.topic.kept import Kept
from anachron.wikidata.topic.services import Services
from anachron.wikidata.topic.site import Site
from wikidata.dumps import item


@pytest.fixture
def mocked(monkeypatch, tmp_path):
    """Outcomes from answers that a function gives to each request."""

    def resolve(answer, ids=("Q1",), day=None):
        from contextlib import contextmanager

        @contextmanager
        def client(settings, encoding):
            with httpx2.Client(transport=httpx2.MockTransport(answer)) as opened:
                yield opened

        monkeypatch.setattr(services_module, "client", client)
        web = FetchSettings(contact="a@b.org", retries=1, sleep=lambda seconds: None)
        with Services(Site("https://wiki.example.org"), web) as services, Kept(tmp_path / "kept.sqlite", "r") as kept:
            return Resolver(services, kept, day).resolve(ids)

    return resolve


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>", "not whole JSON"),
        (b'{"entities": {"Q1": {"id"', "not whole JSON"),
        (b"[]", "expected an object with entities"),
        (b'{"entities": []}', "expected an object with entities"),
        (b"{}", "expected an object with entities"),
        (b'{"entities": {}}', "of Q1 is expected records of the ids"),
        (b'{"entities": {"Q1": {"id": "Q1"}}}', "of Q1 is expected a record with lastrevid and modified"),
        (b'{"entities": {"Q1": {"lastrevid": 1}}}', "of Q1 is expected a record with id"),
        (b'{"entities": {"Q1": {"id": "Q1", "lastrevid": "x"}}}', "of Q1 is expected a record with id"),
        (b'{"error": {"code": "no-such-entity", "info": "Could not find"}}', "answers no-such-entity: Could not find"),
        (b'{"error": {"code": "readonly", "info": "Locked"}}', "readonly"),
    ],
)
def test_an_answer_of_another_form_fails_in_a_line(mocked, body, words):
    with pytest.raises(BackendError, match=words) as raised:
        mocked(lambda request: httpx2.Response(200, content=body))
    assert "\n" not in str(raised.value) and "wiki.example.org" in str(raised.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [({"query": {}}, "of Q1 is expected one page; the answer has 0"), ({"query": {"pages": []}}, "expected one page"),
     ({"query": {"pages": [{"title": "Q1", "revisions": [{"revid": 1}]}]}}, "timestamp")],
)  # fmt: skip
def test_a_history_of_another_form_fails_in_a_line(mocked, body, words):
    def answer(request):
        head = {"id": "Q1", "title": "Q1", "lastrevid": 9, "modified": "2024-01-01T00:00:00Z"}
        return httpx2.Response(200, json=body if "revisions" in str(request.url) else {"entities": {"Q1": head}})

    with pytest.raises(BackendError, match=words) as raised:
        mocked(answer, day="2020-01-01")
    assert "\n" not in str(raised.value)


def test_an_entity_of_another_revision_than_asked_is_refused(mocked):
    def answer(request):
        head = {"id": "Q1", "title": "Q1", "lastrevid": 9, "modified": "2024-01-01T00:00:00Z"}
        listed = {
            "query": {"pages": [{"title": "Q1", "revisions": [{"revid": 5, "timestamp": "2019-01-01T00:00:00Z"}]}]}
        }
        return httpx2.Response(200, json=listed if "rvstart" in str(request.url) else {"entities": {"Q1": head}})

    with pytest.raises(BackendError, match="expected the entity Q1 at this revision"):
        mocked(answer, day="2020-01-01")


def test_titles_are_of_the_namespace_that_pages_show(mocked):
    asked = []

    def answer(request):
        params = dict(request.url.params)
        asked.append(params.get("titles") or params.get("letitle"))
        if params["action"] == "wbgetentities":
            head = {"id": "Q1", "title": "Item:Q1", "lastrevid": 9, "modified": "2024-01-01T00:00:00Z"}
            return httpx2.Response(200, json={"entities": {"Q1": head, "Q2": {"id": "Q2", "missing": ""}}})
        if "letitle" in params:
            return httpx2.Response(200, json={"query": {"logevents": [], "pages": [{"title": "Item:Q2"}]}})
        return httpx2.Response(200, json={"query": {"pages": [{"title": "Item:Q1"}]}})

    outcomes = mocked(answer, ["Q1", "Q2"], "2020-01-01")
    assert asked == [None, "Item:Q2", "Item:Q1"]
    assert [one.state for one in outcomes.values()] == ["not yet", "missing"]


def test_a_wrong_address_is_named(mocked):
    with pytest.raises(BackendError, match="check --site"):
        mocked(lambda request: httpx2.Response(404))
    with pytest.raises(BackendError, match="answers 418"):
        mocked(lambda request: httpx2.Response(418))


def test_an_entity_is_written_as_in_a_dump():
    record = item("Q1", "one", title="One") | {
        "pageid": 1,
        "ns": 0,
        "title": "Q1",
        "redirects": {"from": "Q2", "to": "Q1"},
    }
    record["sitelinks"]["enwiki"]["url"] = "https://en.wikipedia.org/wiki/One"
    shuffled = {name: record[name] for name in sorted(record)}
    assert list(json.loads(dumped(json.dumps(shuffled).encode())).items()) == list(
        item("Q1", "one", title="One").items()
    )


def test_order_is_by_kind_and_number():
    assert in_order(["P10", "Q9", "Q10", "P9", "Q9"]) == ["Q9", "Q10", "P9", "P10"]


def test_sites_have_their_addresses():
    wikidata, other = Site(), Site("https://wiki.example.org/")
    assert wikidata.api == "https://www.wikidata.org/w/api.php"
    assert wikidata.sparql == "https://query.wikidata.org/sparql"
    assert wikidata.views == "https://wikimedia.org/api/rest_v1"
    assert (other.sparql, other.views) == (None, None)
    assert other.entity("Q1", 7) == "https://wiki.example.org/wiki/Special:EntityData/Q1.json?revision=7"
    assert (
        Site("https://wiki.example.org", sparql="https://q.example.org/sparql").sparql == "https://q.example.org/sparql"
    )
    with pytest.raises(ConfigError):
        Site(f"ftp://{string.ascii_lowercase}")
