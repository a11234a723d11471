"""Which items a topic has: lists as people have them, queries on a real engine, answers as the service gives them."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import ConfigError, DataError
from anachron.wikidata.topic.choose import Topic, ids_of_answer, items_of, read_items, topic_of, why_failed
from anachron.wikidata.topic.closure import named_by
from wikidata.topic.worlds import country

pyoxigraph = pytest.importorskip("pyoxigraph")

# Wikibase's mapping: an item has truthy values (wdt), and statement nodes (p) with a value (ps) and qualifiers (pq).
# Q30 and Q142 are states, Q20 a kingdom, Q9 no state, Q99 a state of long ago, Q921 one with a head since 1967 and a
# deprecated one; of Q85 it is said that it has none. The value _:unknown is a somevalue.
WORLD = """
@prefix wd: <http://www.wikidata.org/entity/> .
@prefix s: <http://www.wikidata.org/entity/statement/> .
@prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix p: <http://www.wikidata.org/prop/> .
@prefix ps: <http://www.wikidata.org/prop/statement/> .
@prefix pq: <http://www.wikidata.org/prop/qualifier/> .
@prefix wikibase: <http://wikiba.se/ontology#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
wd:Q417175 wdt:P279 wd:Q3624078 .
wd:Q30 wdt:P31 wd:Q3624078 ; wdt:P30 wd:Q49 ; p:P6 s:Q30-a .
s:Q30-a ps:P6 wd:Q6279 ; pq:P580 "2021-01-20T00:00:00Z"^^xsd:dateTime .
wd:Q142 wdt:P31 wd:Q3624078 ; wdt:P30 wd:Q46 ; p:P6 s:Q142-a, s:Q142-b .
s:Q142-a ps:P6 wd:Q1 ; pq:P580 "1981-05-22T00:00:00Z"^^xsd:dateTime ; pq:P582 "1990-01-01T00:00:00Z"^^xsd:dateTime .
s:Q142-b ps:P6 wd:Q2 ; pq:P580 _:unknown .
wd:Q20 wdt:P31 wd:Q417175 ; wdt:P30 wd:Q46 ; p:P35 s:Q20-a .
s:Q20-a ps:P35 wd:Q57287 ; pq:P580 "1991-01-17T00:00:00Z"^^xsd:dateTime .
wd:Q9 wdt:P31 wd:Q5 ; wdt:P30 wd:Q46 ; p:P6 s:Q9-a .
s:Q9-a ps:P6 wd:Q1 ; pq:P580 "2000-01-01T00:00:00Z"^^xsd:dateTime .
wd:Q99 wdt:P31 wd:Q3624078 ; wdt:P30 wd:Q46 ; p:P6 s:Q99-a .
s:Q99-a ps:P6 wd:Q3 ; pq:P580 "1890-01-01T00:00:00Z"^^xsd:dateTime ; pq:P582 "1989-12-31T00:00:00Z"^^xsd:dateTime .
wd:Q921 wdt:P31 wd:Q3624078 ; wdt:P30 wd:Q48 ; p:P6 s:Q921-a ; p:P35 s:Q921-b .
s:Q921-a ps:P6 wd:Q4 ; pq:P580 "1967-10-04T00:00:00Z"^^xsd:dateTime .
s:Q921-b ps:P35 wd:Q4 ; pq:P580 "1967-10-04T00:00:00Z"^^xsd:dateTime ; wikibase:rank wikibase:DeprecatedRank .
wd:Q85 wdt:P31 wd:Q3624078 ; wdt:P30 wd:Q48 ; p:P6 s:Q85-a .
s:Q85-a a <http://www.wikidata.org/prop/novalue/P6> .
s:Q30-a wikibase:rank wikibase:PreferredRank . s:Q85-a wikibase:rank wikibase:NormalRank .
s:Q142-a wikibase:rank wikibase:NormalRank . s:Q142-b wikibase:rank wikibase:NormalRank .
s:Q20-a wikibase:rank wikibase:NormalRank . s:Q9-a wikibase:rank wikibase:NormalRank .
s:Q99-a wikibase:rank wikibase:NormalRank . s:Q921-a wikibase:rank wikibase:NormalRank .
wd:Q64 wdt:P31 wd:Q515 ; wdt:P131 wd:Q7 . wd:Q7 wdt:P131 wd:Q8 .
"""


def asked(query: str, world: str = WORLD) -> tuple[str, ...]:
    store = pyoxigraph.Store()
    store.load(world.encode(), format=pyoxigraph.RdfFormat.TURTLE)
    answer = store.query(query)
    return ids_of_answer(answer.serialize(format=pyoxigraph.QueryResultsFormat.JSON))


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (
            Topic(instances_of="Q3624078"),
            ("Q20", "Q30", "Q85", "Q99", "Q142", "Q921"),
        ),  # subclasses too, in order of their numbers
        (Topic(instances_of="Q3624078", in_="Q46"), ("Q20", "Q99", "Q142")),
        (Topic(instances_of="Q3624078", with_=("P6",)), ("Q30", "Q99", "Q142", "Q921")),  # not one without a value
        (Topic(instances_of="Q3624078", with_=("P35",)), ("Q20",)),  # not one that is deprecated
        (Topic(instances_of="Q3624078", with_=("P6", "P35"), in_="Q46"), ("Q20", "Q99", "Q142")),
        # one that ends on the first day counts, and one that ends on the day before does not
        (Topic(instances_of="Q3624078", with_=("P6", "P35"), in_="Q46", since=1990), ("Q20", "Q142")),
        # whoever is in office since 1967 counts, and whoever is since an unknown day
        (Topic(instances_of="Q3624078", with_=("P6",), since=1991), ("Q30", "Q142", "Q921")),
        (Topic(instances_of="Q515", in_="Q8"), ("Q64",)),  # a place in a place
        (Topic(instances_of="Q11111"), ()),
        (Topic(query="PREFIX p: <http://www.wikidata.org/prop/> SELECT ?item ?s { ?item p:P35 ?s }"), ("Q20", "Q921")),
    ],
)
def test_a_query_finds_what_the_words_say(topic, expected):
    assert asked(topic.sparql()) == expected


DATES = st.lists(st.sampled_from(["1967-01-01", "1989-12-31", "1990-01-01", "2001-05-06"]), max_size=2)
STATEMENTS = st.fixed_dictionaries({
    "of": st.integers(1, 4), "relation": st.sampled_from(["P6", "P35", "P7"]), "value": st.booleans(),
    "rank": st.sampled_from(["Preferred", "Normal", "Deprecated"]), "P580": DATES, "P582": DATES, "P585": DATES,
})  # fmt: skip


@given(st.lists(STATEMENTS, max_size=6))
def test_since_is_what_a_plain_reading_of_the_statements_says(statements):
    text, expected = (
        WORLD.partition("wd:Q417175")[0] + "".join(f"wd:Q{n} wdt:P31 wd:Q50 . " for n in range(1, 5)),
        set(),
    )
    for number, one in enumerate(statements):
        node = f"s:Q{one['of']}-{number}"
        text += f"wd:Q{one['of']} p:{one['relation']} {node} . {node} wikibase:rank wikibase:{one['rank']}Rank . "
        text += f"{node} ps:{one['relation']} wd:Q9 . " if one["value"] else ""
        for name in ("P580", "P582", "P585"):
            text += "".join(f'{node} pq:{name} "{day}T00:00:00Z"^^xsd:dateTime . ' for day in one[name])
        counts = one["relation"] in ("P6", "P35") and one["value"] and one["rank"] != "Deprecated"
        dated = one["P580"] or one["P582"] or any(day >= "1990" for day in one["P585"])
        if counts and dated and not any(day < "1990" for day in one["P582"]):
            expected.add(f"Q{one['of']}")
    assert asked(Topic(instances_of="Q50", with_=("P6", "P35"), since=1990).sparql(), text) == tuple(sorted(expected))


def test_a_query_declares_the_prefixes_that_it_uses():
    query = Topic(instances_of="Q5", with_=("P6",), in_="Q46", since=1990).sparql()
    declared = set(re.findall(r"PREFIX (\w+):", query))
    assert declared == set(re.findall(r"\b(\w+):[PQdrD]", query.partition("SELECT")[2]))
    assert "PREFIX p:" not in Topic(instances_of="Q5").sparql()


IDS = st.integers(1, 10**9 - 1).map(lambda number: f"Q{number}")
RELATIONS = st.lists(st.integers(1, 9999).map(lambda number: f"P{number}"), min_size=1, max_size=3).map(tuple)


@given(IDS, RELATIONS | st.just(()), st.none() | IDS, st.none() | st.integers(1, 9999))
def test_words_are_read_as_they_are_written(class_, relations, in_, since):
    topic = Topic(instances_of=class_, with_=relations, in_=in_, since=since if relations else None)
    assert topic_of(topic.words()) == topic
    assert topic.describe()["query"] == topic.sparql()


def test_what_a_query_found_remembers_it():
    topic = topic_of("instances of Q5 with P6 P35")
    found = topic.found(["Q2", "Q1"])
    assert (found.items, found.sparql(), found.words()) == (("Q2", "Q1"), None, "instances of Q5 with P6,P35")
    assert found.describe() == topic.describe() | {"items": 2, "sha256": found.describe()["sha256"]}
    with pytest.raises(DataError, match=r"finds no items \(instances of Q5 with P6,P35\)"):
        topic.found([])


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "said in no way"),
        ({"items": ("Q1",), "query": "SELECT ?item {}"}, "several ways"),
        ({"items": ("Q1",), "since": 1990}, "narrow down --instances-of"),
        ({"items": ("Q1234567890",)}, "items 'Q1234567890' is not the id of an item"),
        ({"items": ("P6",)}, "items 'P6' is not the id of an item"),
        ({"instances_of": "state"}, "--instances-of 'state' is not the id"),
        ({"instances_of": "Q1", "in_": "Europe"}, "--in 'Europe' is not the id"),
        ({"instances_of": "Q1", "with_": ("Q6",)}, "--with 'Q6' is not the id of a relation"),
        ({"instances_of": "Q1", "since": 1990}, "--since 1990: give a year"),
        ({"query": "ASK { ?s ?p ?o }"}, "is no SELECT"),
        ({"query": "DESCRIBE wd:Q1 # selected"}, "is no SELECT"),
    ],
)
def test_a_topic_is_said_in_one_way(said, message):
    with pytest.raises(ConfigError, match=message):
        Topic(**said)


FILES = {
    "ids.txt": "# mine\nQ30\n\n  http://www.wikidata.org/entity/Q142\nQ30\n",
    "query.csv": "item\nhttp://www.wikidata.org/entity/Q30\nhttp://www.wikidata.org/entity/Q142\n",
    "no-header.csv": "Q30\nQ142\n",
    "labels.csv": "﻿country,countryLabel\r\nhttp://www.wikidata.org/entity/Q30,USA\r\n"
    'https://www.wikidata.org/wiki/Q142,"France, Q1"\r\n',
    "two.tsv": "head\titem\n<http://www.wikidata.org/entity/Q1>\t<http://www.wikidata.org/entity/Q30>\nQ2\tQ142\n",
    "rows.json": json.dumps([{"item": "http://www.wikidata.org/entity/Q30", "n": 1}, {"item": "Q142", "n": 2}]),
    "own.csv": "a,b\nhttps://base.example/wiki/Item:Q30,x\nhttps://base.example/entity/Q142,y\n",
}


@pytest.mark.parametrize("name", FILES)
def test_ids_are_read_from_files_as_people_have_them(name, tmp_path):
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    assert read_items(path) == items_of(str(path)) == topic_of(str(path)).items == ("Q30", "Q142")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "Q30\nGermany\n", "line 2: 'Germany' is not the id of an item"),
        ("a.csv", "item\nQ30\nQ1234567890\n", "line 3: 'Q1234567890' is not the id of an item"),
        ("a.txt", "# none\n", "lists no items"),
        ("a.csv", "item,label\nQ30,a\nx,b\n", "holds no items; it has column item, column label"),
        ("a.csv", "head,state\nQ1,Q2\n", "several sets of items, in column head, column state"),
    ],
)
def test_a_file_without_ids_says_where(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises((ConfigError, DataError), match=message):
        read_items(tmp_path / name)


def test_an_id_too_large_for_the_service_is_not_asked_for():
    """It would make the answer of all 50 ids an error."""
    body = json.dumps(country("Q8", "Eight", [("Q999999999", "2020", None), ("Q1234567890", "2021", None)])).encode()
    assert {id for id in named_by([body]).all() if id not in ("P6", "P31", "P580", "P582", "Q6256")} == {"Q999999999"}


def test_a_text_that_is_no_topic_says_what_is_one(tmp_path):
    with pytest.raises(ConfigError, match=r"'Q30,France' is neither ids .* nor a file of them"):
        topic_of("Q30,France")
    (tmp_path / "t.rq").write_text("SELECT ?item {}")
    assert topic_of(str(tmp_path / "t.rq")) == Topic(query="SELECT ?item {}")


def answer(names: list[str], *rows: dict[str, str]) -> dict:
    bound = [{name: {"type": "uri", "value": value} for name, value in row.items()} for row in rows]
    return {"head": {"vars": names}, "results": {"bindings": bound}}


WD = "http://www.wikidata.org/entity/"


def test_the_variable_of_an_answer_that_holds_items():
    rows = [{"x": f"{WD}Q10", "label": "ten"}, {"x": f"{WD}Q9", "label": "nine"}, {"x": f"{WD}Q10"}]
    assert ids_of_answer(answer(["x", "label"], *rows)) == ("Q9", "Q10")
    assert ids_of_answer(answer(["head", "item"], {"head": f"{WD}Q1", "item": f"{WD}Q2"})) == ("Q2",)
    assert ids_of_answer(answer(["item"])) == ()
    statement = {"item": f"{WD}Q2", "s": f"{WD}statement/Q2-55A9"}
    assert ids_of_answer(answer(["item", "s"], statement)) == ("Q2",)
    with pytest.raises(ConfigError, match=r"several sets of items, in \?a, \?b"):
        ids_of_answer(answer(["a", "b"], {"a": f"{WD}Q1", "b": f"{WD}Q2"}))
    with pytest.raises(ConfigError, match=r"holds no items; it has \?n"):
        ids_of_answer(answer(["n"], {"n": "7"}))


def test_an_answer_of_another_form():
    # what a service that stops in the middle of an answer has sent by then
    cut = json.dumps(answer(["item"], {"item": f"{WD}Q1"}))[:-9] + "SPARQL-QUERY: queryStr=SELECT\n"
    with pytest.raises(DataError, match=r"broke off its answer: the query takes longer .* narrow it down"):
        ids_of_answer(cut + "java.util.concurrent.TimeoutException\n\tat java.util.concurrent.FutureTask.get\n")
    with pytest.raises(DataError, match="broke off its answer: <html> Bad gateway"):
        ids_of_answer(b"<html>\nBad gateway")
    with pytest.raises(DataError, match="is no answer to a SELECT"):
        ids_of_answer({"head": {}, "boolean": True})
    assert why_failed(b"upstream request timeout").startswith("the query takes longer")
    assert why_failed("") == "it says nothing"
