"""The test server of Wikidata's services: the forms and limits that their documentation gives, by hand."""

import gzip
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request

import pytest

from wikidata.dumps import NOVALUE, SOMEVALUE, entity, item, property_, statement, time
from wikidata.wikibase import (
    Redirect,
    Revision,
    World,
    close,
    cut,
    half,
    lag,
    serving,
    too_many,
    unavailable,
)

AGENT = {"User-Agent": "Tests/1.0 (someone@example.org)"}
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
FRANCE = item("Q142", "France", title="France", claims=[
    statement("P31", entity("Q3624078")),
    statement("P6", entity("Q101"), qualifiers={"P580": time("2017-05-15")}, rank="preferred"),
    statement("P6", entity("Q102"), qualifiers={"P580": time("2014"), "P582": SOMEVALUE}),
    statement("P6", entity("Q103"), rank="deprecated"),
    statement("P122", NOVALUE),
])  # fmt: skip
OLD_FRANCE = item("Q142", "France", title="France", claims=[statement("P31", entity("Q3624078"))])
WORLD = World(
    {
        "Q142": [
            Revision(10, "2013-01-01T00:00:00Z", OLD_FRANCE),
            Revision(20, "2018-03-01T12:00:00Z", OLD_FRANCE, hidden=True),
            Revision(30, "2020-02-01T00:00:00Z", FRANCE),
        ],
        "Q3624078": [Revision(11, "2013-01-02T00:00:00Z", item("Q3624078", "sovereign state"))],
        "Q9": [
            Revision(12, "2015-01-01T00:00:00Z", item("Q9", "double")),
            Revision(22, "2019-01-01T00:00:00Z", Redirect("Q142")),
        ],
        "Q8": [Revision(23, "2019-01-01T00:00:00Z", Redirect("Q9"))],
        "Q7": [Revision(13, "2015-01-01T00:00:00Z", item("Q7", "hoax")), Revision(24, "2016-01-01T00:00:00Z", None)],
        "P6": [Revision(14, "2013-01-03T00:00:00Z", property_("P6", "head of government"))],
    },
    views={("en.wikipedia", "AC/DC"): {"2015-06": 1, "2020-01": 31, "2020-03": 33}},
)  # fmt: skip


@pytest.fixture(scope="module")
def running():
    with serving(WORLD) as server:
        yield server


@pytest.fixture
def server(running):
    running.fail()
    return running


def get(server, path, headers=AGENT, **params):
    """Status, headers and body: JSON is read."""
    url = server.url + path + ("?" + urllib.parse.urlencode(params) if params else "")
    try:
        answer = DIRECT.open(urllib.request.Request(url, headers=headers), timeout=30)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        body = answer.read()
    kind = answer.headers["content-type"]
    return (
        answer.status,
        answer.headers,
        json.loads(body) if "json" in kind and answer.headers["content-encoding"] is None else body,
    )


def api(server, **params):
    status, headers, body = get(server, "/w/api.php", format="json", **params)
    assert status == 200  # always, errors too
    assert headers["MediaWiki-API-Error"] == body.get("error", {}).get("code")
    return body


def test_entities_come_with_page_and_revision(server):
    body = api(server, action="wbgetentities", ids="Q142|P6")
    assert body["success"] == 1 and list(body["entities"]) == ["Q142", "P6"]
    france, head = body["entities"]["Q142"], body["entities"]["P6"]
    assert (france["lastrevid"], france["modified"], france["title"], france["ns"]) == (
        30,
        "2020-02-01T00:00:00Z",
        "Q142",
        0,
    )
    assert (head["title"], head["ns"], head["datatype"]) == ("Property:P6", 120, "wikibase-item")
    assert france["claims"] == FRANCE["claims"] and "url" not in france["sitelinks"]["enwiki"]
    assert "warnings" not in body


def test_entities_can_be_given_in_part(server):
    body = api(
        server,
        action="wbgetentities",
        ids="Q142",
        props="labels|sitelinks/urls",
        languages="de|en",
        sitefilter="enwiki",
    )
    france = body["entities"]["Q142"]
    assert set(france) == {"type", "id", "labels", "sitelinks"} and set(france["labels"]) == {"en"}
    assert france["sitelinks"]["enwiki"]["url"] == "https://en.wikipedia.org/wiki/France"


@pytest.mark.parametrize("version", ["1", "2"])
def test_missing_deleted_and_merged_entities(server, version):
    found = api(server, action="wbgetentities", ids="Q7|Q404|Q9|Q8", formatversion=version)["entities"]
    assert found["Q7"] == {"id": "Q7", "missing": ""} and found["Q404"] == {"id": "Q404", "missing": ""}
    assert found["Q9"]["redirects"] == {"from": "Q9", "to": "Q142"} and found["Q9"]["id"] == "Q142"
    assert found["Q9"]["lastrevid"] == 30
    assert found["Q8"] == {"id": "Q8", "missing": ""}  # a redirect to a redirect is not followed
    unresolved = api(server, action="wbgetentities", ids="Q9", redirects="no", formatversion=version)
    assert unresolved["entities"]["Q9"] == {"id": "Q9", "missing": ""}


@pytest.mark.parametrize("id", ["X1", "Q0", "Q2147483648", "France"])
def test_a_text_that_is_no_id_ends_the_whole_request(server, id):
    body = api(server, action="wbgetentities", ids=f"Q142|{id}")
    assert body["error"]["code"] == "no-such-entity" and body["error"]["id"] == id and "entities" not in body


def test_at_most_fifty_values(server):
    assert len(api(server, action="wbgetentities", ids="|".join(f"Q{n}" for n in range(1, 51)))["entities"]) == 50
    for params in ({"action": "wbgetentities", "ids": "|".join(f"Q{n}" for n in range(1, 52))},
                   {"action": "query", "prop": "info", "titles": "|".join(f"Q{n}" for n in range(1, 52))}):  # fmt: skip
        error = api(server, **params)["error"]
        assert (error["code"], error["limit"], error["highlimit"]) == ("toomanyvalues", 50, 500)


def test_errors_and_warnings_in_both_versions(server):
    one, two = (api(server, action="nothing", formatversion=version)["error"] for version in "12")
    assert one["code"] == two["code"] == "badvalue" and "*" in one and "docref" in two
    assert api(server, action="query", prop="info", titles="Q142", foo="1")["warnings"] == {
        "main": {"*": "Unrecognized parameter: foo."}
    }
    warned = api(server, action="query", prop="info", titles="Q142", foo="1", bar="2", formatversion="2")["warnings"]
    assert warned == {"main": {"warnings": "Unrecognized parameters: bar, foo."}}
    assert api(server, action="wbgetentities")["error"]["code"] == "param-missing"


def test_answers_too_large_leave_entities_out(server):
    size = len(json.dumps(FRANCE, ensure_ascii=False).encode())
    server.show(World(WORLD.entities, largest=size + 400))
    body = api(server, action="wbgetentities", ids="Q142|Q9|Q404")
    server.show(WORLD)
    assert list(body["entities"]) == ["Q142", "Q404"] and body["success"] == 1
    assert "truncated" in body["warnings"]["result"]["*"]


def rows(body, version):
    pages = body["query"]["pages"]
    return pages if version == "2" else list(pages.values())


@pytest.mark.parametrize("version", ["1", "2"])
def test_last_revision_up_to_a_moment(server, version):
    ask = {"action": "query", "prop": "revisions", "titles": "Q142", "rvlimit": "1", "rvprop": "ids|timestamp",
           "formatversion": version}  # fmt: skip
    [page] = rows(api(server, **ask, rvstart="2019-12-31T23:59:59Z"), version)
    assert page["revisions"] == [{"revid": 20, "parentid": 10, "timestamp": "2018-03-01T12:00:00Z"}]
    assert page["pageid"] >= 1000 and page["title"] == "Q142"
    [page] = rows(api(server, **ask, rvstart="2018-03-01T12:00:00Z"), version)
    assert page["revisions"][0]["revid"] == 20  # the moment itself counts
    [page] = rows(api(server, **ask, rvstart="2012-01-01T00:00:00Z"), version)
    assert "revisions" not in page and "missing" not in page  # it was not there yet
    [page] = rows(api(server, **ask, rvstart="2012-01-01T00:00:00Z", rvdir="newer"), version)
    assert page["revisions"][0]["revid"] == 10
    assert api(server, **ask, rvstart="yesterday")["error"]["code"] == "badtimestamp"


def test_more_revisions_than_are_asked_for_go_on(server):
    ask = {
        "action": "query",
        "prop": "revisions",
        "titles": "Q142",
        "rvlimit": "2",
        "rvprop": "ids",
        "formatversion": "2",
    }
    first = api(server, **ask)
    assert [row["revid"] for row in first["query"]["pages"][0]["revisions"]] == [30, 20]
    assert first["continue"] == {"rvcontinue": "20130101000000|10", "continue": "||"} and "batchcomplete" not in first
    second = api(server, **ask, **first["continue"])
    assert [row["revid"] for row in second["query"]["pages"][0]["revisions"]] == [10] and second[
        "batchcomplete"
    ] is True
    assert "continue" not in second
    high = api(server, **(ask | {"rvlimit": "501"}))
    assert "501 was given" in high["warnings"]["revisions"]["warnings"]


def test_one_page_for_rvstart_and_the_like(server):
    ask = {"action": "query", "prop": "revisions", "titles": "Q142|Q9", "formatversion": "2"}
    for more in (
        {"rvlimit": "1"},
        {"rvstart": "2020-01-01T00:00:00Z"},
        {"rvdir": "newer"},
        {"rvend": "2020-01-01T00:00:00Z"},
    ):
        assert api(server, **ask, **more)["error"]["code"] == "invalidparammix"
    both = {page["title"]: page["revisions"][0]["revid"] for page in api(server, **ask)["query"]["pages"]}
    assert both == {"Q142": 30, "Q9": 22}  # the last revision of each; a redirect is a page like any other
    alone = api(server, **(ask | {"titles": "Q142|Q404|Q7"}), rvlimit="1")  # only one of them exists
    assert [("missing" in page) for page in alone["query"]["pages"]] == [False, True, True]


@pytest.mark.parametrize("version", ["1", "2"])
def test_hidden_revisions_are_marked_where_their_text_is_asked_for(server, version):
    mark, name = ("", "*") if version == "1" else (True, "content")
    ask = {"action": "query", "prop": "revisions", "titles": "Q142", "rvlimit": "3", "formatversion": version}
    [page] = rows(api(server, **ask, rvprop="ids|content|sha1", rvslots="main"), version)
    last, hidden, first = page["revisions"]
    assert (
        hidden["slots"]["main"] == {"contentmodel": "wikibase-item", "texthidden": mark}
        and hidden["sha1hidden"] == mark
    )
    stored = json.loads(last["slots"]["main"][name])
    assert stored["id"] == "Q142" and "lastrevid" not in stored and len(last["sha1"]) == 40
    assert "datatype" not in stored["claims"]["P31"][0]["mainsnak"]  # the wiki stores none
    assert "texthidden" not in first["slots"]["main"]
    [page] = rows(api(server, **ask, rvprop="ids"), version)
    assert [set(row) for row in page["revisions"]] == [{"revid", "parentid"}] * 3  # nothing tells which is hidden
    assert (
        name in rows(api(server, **ask, rvprop="content"), version)[0]["revisions"][0]
    )  # without rvslots: the old form


def test_a_redirect_says_where_it_leads(server):
    ask = {"action": "query", "titles": "Q9", "formatversion": "2"}
    page = api(server, **ask, prop="revisions", rvprop="content", rvslots="main")["query"]["pages"][0]
    assert json.loads(page["revisions"][0]["slots"]["main"]["content"]) == {"entity": "Q9", "redirect": "Q142"}
    assert api(server, **ask, prop="info")["query"]["pages"][0]["redirect"] is True
    resolved = api(server, **ask, prop="info", redirects="1")["query"]
    assert resolved["redirects"] == [{"from": "Q9", "to": "Q142"}] and resolved["pages"][0]["lastrevid"] == 30


def test_revisions_by_their_numbers(server):
    ask = {"action": "query", "prop": "revisions", "rvprop": "ids|content", "rvslots": "main", "formatversion": "2"}
    found = api(server, **ask, revids="22|10|404|13")["query"]
    assert found["badrevids"] == {id: {"revid": int(id), "missing": True} for id in ("404", "13")}  # 13 is deleted
    one, other = sorted(found["pages"], key=lambda page: page["title"])
    assert (one["title"], other["title"]) == ("Q142", "Q9")
    assert [row["revid"] for page in (one, other) for row in page["revisions"]] == [10, 22]
    assert json.loads(other["revisions"][0]["slots"]["main"]["content"])["redirect"] == "Q142"
    assert api(server, **ask, revids="22", rvlimit="1")["error"]["code"] == "invalidparammix"


def test_info_of_fifty_pages_at_once(server):
    body = api(server, action="query", prop="info", titles="Q142|Property:P6|Q7|q3624078")
    pages = {page["title"]: page for page in body["query"]["pages"].values()}
    assert (pages["Q142"]["lastrevid"], pages["Property:P6"]["lastrevid"], pages["Q3624078"]["lastrevid"]) == (
        30,
        14,
        11,
    )
    assert pages["Q7"]["missing"] == "" and body["query"]["pages"]["-1"] is pages["Q7"]
    assert body["query"]["normalized"] == [{"from": "q3624078", "to": "Q3624078"}] and body["batchcomplete"] == ""


def test_the_log_tells_deleted_from_never_there(server):
    ask = {"action": "query", "list": "logevents", "leaction": "delete/delete", "formatversion": "2"}
    [event] = api(server, **ask, letitle="Q7")["query"]["logevents"]
    assert (event["action"], event["timestamp"], event["title"]) == ("delete", "2016-01-01T00:00:00Z", "Q7")
    assert api(server, **ask, letitle="Q404")["query"]["logevents"] == []


def test_entity_at_a_revision(server):
    def ask(name, **params):
        return get(server, f"/wiki/Special:EntityData/{name}", **params)

    status, _, body = ask("Q142.json", revision=10)
    assert status == 200 and body["entities"]["Q142"]["lastrevid"] == 10
    assert body["entities"]["Q142"]["modified"] == "2013-01-01T00:00:00Z"
    assert body["entities"]["Q142"]["sitelinks"]["enwiki"]["url"] == "https://en.wikipedia.org/wiki/France"
    assert ask("Q142.json")[2]["entities"]["Q142"]["lastrevid"] == 30
    assert ask("q142.json", revision=10)[2] == body  # by way of 301
    assert list(ask("Q9.json")[2]["entities"]) == ["Q142"]  # a redirect is followed, to today's
    assert ask("Q9.json", revision=12)[2]["entities"]["Q9"]["id"] == "Q9"  # before it was merged
    wrong = {("Q9.json", 22): 400, ("Q142.json", 20): 404, ("Q142.json", 11): 404, ("Q142.json", 99): 404,
             ("Q7.json", 13): 404, ("Q404.json", 0): 404, ("Q7.json", 0): 404, ("X1.json", 0): 400}  # fmt: skip
    assert {(name, number): ask(name, revision=number)[0] for name, number in wrong} == wrong


def test_page_views(server):
    def ask(start, end, article="AC%2FDC", agent="user", granularity="monthly", project="en.wikipedia"):
        base = f"/api/rest_v1/metrics/pageviews/per-article/{project}/all-access"
        status, _, body = get(server, f"{base}/{agent}/{article}/{granularity}/{start}/{end}")
        return status, body

    status, body = ask("20200101", "20200331")
    assert status == 200 and [(one["timestamp"], one["views"]) for one in body["items"]] == [
        ("2020010100", 31),
        ("2020030100", 33),
    ]
    assert body["items"][0] | {"timestamp": 0, "views": 0} == {
        "project": "en.wikipedia", "article": "AC/DC", "granularity": "monthly", "timestamp": 0, "access": "all-access",
        "agent": "user", "views": 0,
    }  # fmt: skip
    assert ask("2020010100", "2020033100", project="en.wikipedia.org") == (200, body)
    assert [one["timestamp"] for one in ask("20200101", "20200330")[1]["items"]] == ["2020010100"]  # whole months alone
    assert (
        ask("20200201", "20200229")[0]
        == ask("20150601", "20150630")[0]
        == ask("20200101", "20200131", "Nobody")[0]
        == 404
    )
    assert ask("20200101", "20200131", "Nobody")[1]["title"] == "Not Found"
    assert ask("20200102", "20200131")[1]["detail"] == ["no full months found in specified date range"]
    assert (
        ask("20200331", "20200101")[0]
        == ask("20201301", "20201331")[0]
        == ask("20200101", "20200131", agent="me")[0]
        == 400
    )


def select(server, query, **params):
    status, headers, body = get(server, "/sparql", query=query, format="json", **params)
    assert status == 200 and headers["content-type"] == "application/sparql-results+json;charset=utf-8"
    return body


def test_queries_are_answered_by_an_engine(server):
    body = select(server, "SELECT ?item WHERE { ?item wdt:P31 wd:Q3624078 . ?item wdt:P6 [] }")
    assert body["head"]["vars"] == ["item"]
    assert body["results"]["bindings"] == [{"item": {"type": "uri", "value": "http://www.wikidata.org/entity/Q142"}}]
    heads = select(server, "SELECT ?who WHERE { wd:Q142 wdt:P6 ?who }")["results"]["bindings"]
    assert [row["who"]["value"][-4:] for row in heads] == ["Q101"]  # the best rank alone
    query = """SELECT ?who ?rank ?start WHERE {
        wd:Q142 p:P6 ?s . ?s ps:P6 ?who ; wikibase:rank ?rank OPTIONAL { ?s pq:P580 ?start } }"""
    found = {row["who"]["value"][-4:]: (row["rank"]["value"].split("#")[1], row.get("start", {}).get("value"))
             for row in select(server, query)["results"]["bindings"]}  # fmt: skip
    assert found == {
        "Q101": ("PreferredRank", "2017-05-15T00:00:00Z"), "Q102": ("NormalRank", "2014-01-01T00:00:00Z"),
        "Q103": ("DeprecatedRank", None),
    }  # fmt: skip
    ended = select(server, "SELECT ?e WHERE { wd:Q142 p:P6 [ pq:P582 ?e ] }")["results"]["bindings"]
    assert ended[0]["e"]["type"] == "bnode"
    assert select(server, "ASK { wd:Q142 a wdno:P122 }")["boolean"] is True
    since = """SELECT ?x WHERE {
        ?x p:P6 [ pqv:P580 [ wikibase:timeValue ?t ; wikibase:timePrecision 11 ] ] FILTER(YEAR(?t) >= 2015) }"""
    assert len(select(server, since)["results"]["bindings"]) == 1
    merged = select(server, "SELECT ?x WHERE { ?x owl:sameAs wd:Q142 }")["results"]["bindings"]
    assert merged[0]["x"]["value"].endswith("/Q9")
    labelled = """SELECT ?item ?itemLabel WHERE {
        VALUES ?item { wd:Q142 wd:Q101 } SERVICE wikibase:label { bd:serviceParam wikibase:language "de,en" . } }"""
    assert [row["itemLabel"]["value"] for row in select(server, labelled)["results"]["bindings"]] == ["France", "Q101"]
    articles = select(
        server, "SELECT ?a WHERE { ?a schema:about wd:Q142 ; schema:isPartOf <https://en.wikipedia.org/> }"
    )
    assert articles["results"]["bindings"][0]["a"]["value"] == "https://en.wikipedia.org/wiki/France"


def test_wrong_queries_and_other_formats(server):
    status, _, body = get(server, "/sparql", query="SELECT ?x WHERE {", format="json")
    assert status == 400 and b"ExecutionException" in body
    status, headers, _ = get(server, "/sparql", query="SELECT ?x WHERE {}")
    assert headers["content-type"] == "application/sparql-results+xml"  # what it gives unasked


@pytest.mark.parametrize(
    ("time_", "precision", "calendar", "expected"),
    [
        ("+1500-01-01T00:00:00Z", 11, "julian", "1500-01-10"),  # nine days, as the calendars stood that year
        ("+1582-10-04T00:00:00Z", 11, "julian", "1582-10-14"),
        ("-0044-03-15T00:00:00Z", 11, "julian", "-0043-03-13"),
        ("+1500-00-00T00:00:00Z", 9, "julian", "1500-01-01"),  # no day, nothing to turn
        ("+2009-01-20T00:00:00Z", 11, "gregorian", "2009-01-20"),
        ("-0001-00-00T00:00:00Z", 9, "gregorian", "0000-01-01"),  # 1 BCE is the year 0
    ],
)
def test_times_as_the_query_service_has_them(time_, precision, calendar, expected):
    from wikidata.wikibase_rdf import date_time

    assert date_time(time(time_, precision, calendar)["value"]) == expected + "T00:00:00Z"


def test_who_does_not_say_who_asks_is_refused(server):
    assert (
        get(server, "/w/api.php", headers={"User-Agent": "python-httpx2/2.16"}, format="json", action="query")[0] == 403
    )
    assert get(server, "/w/api.php", headers={"User-Agent": ""}, format="json", action="query")[0] == 403


def test_gzip_where_it_is_accepted(server):
    ask = {"format": "json", "action": "wbgetentities", "ids": "Q142"}
    _, headers, body = get(server, "/w/api.php", AGENT | {"Accept-Encoding": "gzip"}, **ask)
    assert headers["content-encoding"] == "gzip" and json.loads(gzip.decompress(body)) == api(
        server, action="wbgetentities", ids="Q142"
    )


def test_faults_meet_the_requests_that_they_name(server):
    ask = {"format": "json", "action": "wbgetentities", "ids": "Q404"}
    server.fail([too_many(0), too_many(1, "3"), unavailable(2), lag(3, times=2), cut(5), half(6), close(7)])
    status, headers, _ = get(server, "/w/api.php", **ask)
    assert (status, headers["Retry-After"]) == (429, None)
    status, headers, _ = get(server, "/w/api.php", **ask)
    assert (status, headers["Retry-After"]) == (429, "3")
    assert get(server, "/w/api.php", **ask)[0] == 503
    assert "entities" in get(server, "/w/api.php", **ask)[2]  # who gives no maxlag is not told of lag
    status, headers, body = get(server, "/w/api.php", **ask, maxlag=5)
    assert (status, headers["Retry-After"], body["error"]["code"], body["error"]["lag"] > 5) == (
        200,
        "5",
        "maxlag",
        True,
    )
    with pytest.raises(http.client.IncompleteRead):
        get(server, "/w/api.php", **ask)
    with pytest.raises(json.JSONDecodeError):  # it looks whole
        get(server, "/w/api.php", **ask)
    with pytest.raises((http.client.RemoteDisconnected, urllib.error.URLError, ConnectionError)):
        get(server, "/w/api.php", **ask)
    assert get(server, "/w/api.php", **ask)[0] == 200
    assert len(server.requests()) == 9


def test_requests_are_written_down(server):
    api(server, action="wbgetentities", ids="Q142", maxlag="5")
    [request] = server.requests()
    assert (request.method, request.path, request.at_once) == ("GET", "/w/api.php", 1)
    assert request.params == {"format": "json", "action": "wbgetentities", "ids": "Q142", "maxlag": "5"}
    assert request.headers["user-agent"] == AGENT["User-Agent"]


def test_posted_forms_are_read_like_addresses(server):
    form = urllib.parse.urlencode({"format": "json", "action": "wbgetentities", "ids": "Q404"}).encode()
    with DIRECT.open(urllib.request.Request(server.url + "/w/api.php", form, AGENT), timeout=30) as answer:
        assert json.load(answer)["entities"] == {"Q404": {"id": "Q404", "missing": ""}}
    query = urllib.request.Request(
        server.url + "/sparql?format=json", b"ASK {}", AGENT | {"Content-Type": "application/sparql-query"}
    )
    with DIRECT.open(query, timeout=30) as answer:
        assert json.load(answer)["boolean"] is True
