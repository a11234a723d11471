"""One line to rows: every datatype and trap by hand, and whole entities against a second reading by json.loads."""

import bz2
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.core.errors import ConfigError
from anachron.wikidata.reading.parse import CREATED, BadEntity, Parser
from anachron.wikidata.reading.snapshot import schemas
from anachron.wikidata.reading.times import read_time
from wikidata.dumps import (
    NOVALUE,
    SINGLE_BEST_VALUE,
    SOMEVALUE,
    constraint,
    coordinate,
    entity,
    item,
    lexeme,
    line,
    monolingual,
    property_,
    quantity,
    snak,
    statement,
    string,
    time,
)

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "wikidata"
NAMES = schemas()["statements"].names


def read(made, **options):
    return Parser(**options).read(line(made).encode())


def only(claim, **options):
    """The one row of an item that has this one claim."""
    rows = read(item("Q1", "one", title="One", claims=[claim]), **options).statements
    assert len(rows) == 1
    return dict(zip(NAMES, rows[0], strict=True))


def values(row):
    return tuple(row[name] for name in ("value_type", "value", "value_extra", "value_precision", "value_calendar"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (entity("Q5"), ("entity", "Q5", None, None, None)),
        (entity("P31"), ("entity", "P31", None, None, None)),
        (entity("Q5", numeric_only=True), ("entity", "Q5", None, None, None)),
        (entity("P31", numeric_only=True), ("entity", "P31", None, None, None)),
        (entity("L7"), ("entity", "L7", None, None, None)),
        (entity("L7-F2"), ("entity", "L7-F2", None, None, None)),
        (entity("L7-S1"), ("entity", "L7-S1", None, None, None)),
        (entity("E10"), ("entity", "E10", None, None, None)),
        (string("a/b \" \\ ü \U0001f600"), ("text", "a/b \" \\ ü \U0001f600", None, None, None)),
        (monolingual("Ça", "fr"), ("monolingual", "Ça", "fr", None, None)),
        (quantity("+12.50"), ("quantity", "+12.50", None, None, None)),
        (quantity("-3", "Q11573"), ("quantity", "-3", "Q11573", None, None)),
        (coordinate(52.5, -13), ("coordinate", "52.5,-13", None, None, None)),
        (time("2009-01-20"), ("time", "2009-01-20", "+2009-01-20T00:00:00Z", 11, "gregorian")),
        (time("2009-01"), ("time", "2009-01", "+2009-01-00T00:00:00Z", 10, "gregorian")),
        (time("2009"), ("time", "2009", "+2009-00-00T00:00:00Z", 9, "gregorian")),
        (time("+2009-03-00T00:00:00Z", 11), ("time", "2009-03", "+2009-03-00T00:00:00Z", 11, "gregorian")),
        (time("+2009-00-00T00:00:00Z", 11), ("time", "2009", "+2009-00-00T00:00:00Z", 11, "gregorian")),
        (time("+1900-00-00T00:00:00Z", 7), ("time", "1900", "+1900-00-00T00:00:00Z", 7, "gregorian")),
        (time("-0044-03-15", calendar="julian"), ("time", "-0044-03-13", "-0044-03-15T00:00:00Z", 11, "julian")),
        (time("+2009-02-30T00:00:00Z"), ("time", None, "+2009-02-30T00:00:00Z", 11, "gregorian")),
        ({"value": {"b": [1, None], "a": "é"}, "type": "new"}, ("other", '{"b":[1,null],"a":"é"}', None, None, None)),
        ({"value": 7, "type": "number"}, ("other", "7", None, None, None)),
        ({"value": {"error": "x"}, "type": "time"}, ("other", '{"error":"x"}', None, None, None)),
    ],
)  # fmt: skip
def test_values(value, expected):
    row = only(statement("P1", value))
    assert values(row) == expected
    assert (row["snak"], row["qualifiers"], row["start"], row["end"], row["point"]) == ("value", "{}", None, None, None)


def test_what_a_statement_carries():
    row = only(statement("P39", string("x"), "preferred", datatype="external-id", references=2))
    assert row["statement_id"] == "Q1$00000000-0000-4000-8000-000000000000"
    assert (row["subject"], row["property"], row["rank"], row["datatype"]) == ("Q1", "P39", "preferred", "external-id")
    bare = only(statement("P39", entity("Q5"), "deprecated", datatype=None, id=None))
    assert (bare["statement_id"], bare["rank"], bare["datatype"]) == (None, "deprecated", None)


@pytest.mark.parametrize("kind", [SOMEVALUE, NOVALUE])
def test_unknown_and_no_value(kind):
    row = only(statement("P39", kind))
    assert row["snak"] == kind
    assert values(row) == (None,) * 5


def test_date_qualifiers_keep_three_things_apart():
    known = ("known", "2009-01-20", 11, "gregorian", "+2009-01-20T00:00:00Z", 1)
    row = only(statement("P39", entity("Q2"), qualifiers={"P580": time("2009-01-20"), "P582": SOMEVALUE}))
    assert (row["start"], row["end"], row["point"]) == (known, ("unknown", None, None, None, None, 1), None)
    row = only(statement("P39", entity("Q2"), qualifiers={"P585": time("2009-01-20"), "P582": NOVALUE}))
    assert (row["start"], row["end"], row["point"]) == (None, ("open", None, None, None, None, 1), known)
    assert row["qualifiers"] == "{}"


def test_several_values_of_one_date_qualifier():
    two = [SOMEVALUE, time("2001"), time("2002")]
    row = only(statement("P39", entity("Q2"), qualifiers={"P580": two, "P582": [NOVALUE, SOMEVALUE]}))
    assert row["start"] == ("known", "2001", 9, "gregorian", "+2001-00-00T00:00:00Z", 3)
    assert row["end"] == ("open", None, None, None, None, 2)
    listed = {"P580": [["somevalue", None], ["value", "2001"], ["value", "2002"]]}
    assert json.loads(row["qualifiers"]) == listed | {"P582": [["novalue", None], ["somevalue", None]]}


def test_a_date_qualifier_that_does_not_exist_stays_known():
    row = only(statement("P39", entity("Q2"), qualifiers={"P580": time("+2009-13-01T00:00:00Z")}))
    assert row["start"] == ("known", None, 11, "gregorian", "+2009-13-01T00:00:00Z", 1)


def test_other_qualifiers_as_json():
    qualifiers = {
        "P642": [entity("Q5"), SOMEVALUE],
        "P1545": string("é"),
        "P1": {"value": [1], "type": "odd"},
        "P2": time("1999"),
    }
    row = only(statement("P39", entity("Q2"), qualifiers=qualifiers))
    expected = {"P642": [["value", "Q5"], ["somevalue", None]], "P1545": [["value", "é"]]}
    assert json.loads(row["qualifiers"]) == expected | {"P1": [["value", "[1]"]], "P2": [["value", "1999"]]}


def test_labels_of_the_language_or_of_all_languages():
    made = item("Q1", "one", labels={"mul": "all", "fr": "un"}, description="number", descriptions={"fr": "nombre"})
    assert read(made).entity[1:3] == ("one", "number")
    assert read(made, language="fr").entity[1:3] == ("un", "nombre")
    assert read(made, language="de").entity[1:3] == ("all", None)
    assert read(made, language="mul").entity[1:3] == ("all", None)
    assert read(item("Q1", labels={"fr": "un"})).entity[1] is None


def test_empty_maps_may_be_lists():
    found = read(item("Q1", empty_as_list=True), wiki="all")
    assert found.entity == ("Q1", None, None, None, (), None, None, 1, "2021-01-01T00:00:00Z")
    assert found.statements == []
    api = {
        "type": "item",
        "id": "Q2",
        "labels": [],
        "claims": {"P1": [statement("P1", SOMEVALUE) | {"qualifiers": []}]},
    }
    assert read(api, wiki="all").statements[0][14] == "{}"


def test_subjects_are_the_items_of_the_wiki():
    made = item("Q1", "one", title="One", sitelinks={"frwiki": "Un"}, claims=[statement("P1", string("x"))])
    assert read(made).entity[3] == "One"
    assert read(made, wiki="frwiki").entity[3] == "Un"
    other = read(made, wiki="dewiki")
    assert (other.entity[3], other.statements) == (None, None)
    mentioned = item("Q1", "enwiki", claims=[statement("P1", string("enwiki"))], sitelinks={"dewiki": '"enwiki"'})
    assert read(mentioned).statements is None
    everything = read(
        item("Q1", claims=[statement("P1", string("x"))], sitelinks={"frwiki": "Un"}), wiki="all", language="fr"
    )
    assert (everything.entity[3], len(everything.statements)) == ("Un", 1)


def test_sitelinks_before_the_claims_are_found_too():
    made = item("Q1", "one", title="One", claims=[statement("P1", string('"sitelinks":{}'))])
    turned = {"id": "Q1", "type": "item", "sitelinks": made["sitelinks"], "claims": made["claims"]}
    assert len(read(turned).statements) == len(read(made).statements) == 1


def test_classes_and_parents():
    claims = [
        statement("P31", entity("Q5")),
        statement("P31", entity("Q6"), "deprecated"),
        statement("P31", SOMEVALUE),
        statement("P31", entity("Q5")),
        statement("P31", entity("Q7"), "preferred"),
        statement("P279", entity("Q8")),
        statement("P279", entity("Q9"), "deprecated"),
    ]
    for title in (None, "One"):
        found = read(item("Q1", title=title, claims=claims))
        assert (found.entity[4], found.parents) == (("Q5", "Q7"), ("Q8",))


def test_creation_date_is_of_the_first_property_in_order():
    born, published = (
        statement("P569", time("1961-08-04")),
        [statement("P577", time(y)) for y in ("1999-05", "-0044", "1998")],
    )
    assert read(item("Q1", claims=[*published, born])).entity[5:7] == ("1961-08-04", "P569")
    assert read(item("Q1", claims=published)).entity[5:7] == ("-0044", "P577")
    two = [statement("P571", time("2002")), statement("P571", time("2001"))]
    assert read(item("Q1", claims=two)).entity[5:7] == ("2002", "P571")
    unusable = [
        statement("P571", SOMEVALUE),
        statement("P571", time("2000"), "deprecated"),
        statement("P571", time("+2000-13-00T00:00:00Z")),
    ]
    for title in (None, "One"):
        assert read(item("Q1", title=title, claims=[*unusable, born])).entity[5:7] == ("1961-08-04", "P569")
        assert read(item("Q1", title=title, claims=unusable)).entity[5:7] == (None, None)


def test_creation_in_a_decade_or_century_counts_from_its_first_year():
    for year, precision, first in (
        ("+2000", 7, "1901"), ("+2001", 7, "2001"), ("+1901", 7, "1901"), ("+0001", 7, "0001"), ("-0100", 7, "-0100"),
        ("-0044", 7, "-0100"), ("-0101", 7, "-0200"), ("+2010", 8, "2010"), ("+2014", 8, "2010"), ("+0005", 8, "0001"),
        ("-0040", 8, "-0049"), ("-0049", 8, "-0049"), ("-0005", 8, "-0009"), ("+2000", 6, "1001"),
        ("-0500", 6, "-1000"),
    ):  # fmt: skip
        claim = statement("P571", time(f"{year}-00-00T00:00:00Z", precision))
        for title in (None, "One"):
            assert read(item("Q1", title=title, claims=[claim])).entity[5:7] == (first, "P571")
    coarse = statement("P571", time("+2000-00-00T00:00:00Z", 5))
    born = statement("P569", time("1961-08-04"))
    assert read(item("Q1", claims=[coarse, born])).entity[5:7] == ("1961-08-04", "P569")
    assert read(item("Q1", claims=[coarse])).entity[5:7] == (None, None)
    published = [statement("P577", time("1950")), statement("P577", time("+2000-00-00T00:00:00Z", 7))]
    assert read(item("Q1", claims=published)).entity[5:7] == ("1901", "P577")


def test_properties():
    claims = [
        constraint(separators=["P580", "P582"], exceptions=["Q30"]),
        constraint(SINGLE_BEST_VALUE, separators=["P582", "P585"]),
        constraint(SINGLE_BEST_VALUE, separators=["P1"], rank="deprecated"),
        constraint("Q21503250", exceptions=["Q2"]),
        statement("P31", entity("Q18608871")),
        statement("P279", entity("P2")),
        statement("P1647", entity("P3")),
    ]
    found = read(property_("P6", "head of government", description="d", claims=claims))
    names = schemas()["properties"].names
    row = dict(zip(names, found.property, strict=True))
    assert (row["id"], row["label"], row["description"], row["datatype"]) == (
        "P6",
        "head of government",
        "d",
        "wikibase-item",
    )
    assert (row["classes"], row["parents"], found.parents) == (("Q18608871",), ("P2",), ("P2",))
    assert row["single_value"] is True
    assert (row["separators"], row["exceptions"]) == (("P580", "P582", "P585"), ("Q30",))
    assert [c["rank"] for c in row["constraints"]] == ["normal", "normal", "deprecated", "normal"]
    assert row["constraints"][2] == {
        "kind": SINGLE_BEST_VALUE,
        "rank": "deprecated",
        "separators": ("P1",),
        "exceptions": (),
    }


def test_a_deprecated_constraint_makes_nothing_single():
    found = read(property_("P6", claims=[constraint(rank="deprecated", separators=["P580"])]))
    assert found.property[6:9] == (False, (), ())


def test_lexemes_and_unlisted_items():
    assert read(lexeme("L1")).kind == "lexeme"
    listed = {"listed": frozenset({"Q2"})}
    made = item("Q1", "one", title="One", claims=[statement("P279", entity("Q3")), statement("P31", entity("Q4"))])
    for options in ({}, {"wiki": "all"}):
        other = read(made, **listed, **options)
        assert (other.kind, other.statements, other.parents) == ("unlisted", None, ("Q3",))
        assert other.entity == (*read(made).entity[:7], None, None)
    assert read(item("Q2"), **listed).kind == "item"
    assert read(property_("P2"), **listed).kind == "property"
    assert read(lexeme("L1"), **listed).kind == "lexeme"


@pytest.mark.parametrize(
    ("text", "says", "id"),
    [
        ('{"type":"item","id":"Q1"', "malformed|truncated", None),
        ('{"type":"item","id":"Q1","labels":{}}}', "malformed", None),
        ('{"type":"item","id":"Q1","claims":{"P1":[{"mainsnak":7}]},"sitelinks":{"enwiki":{"title":""}}}', "nak", "Q1"),
        ('{"type":"item","id":"Q1","sitelinks":{"enwiki":{"title":null}}}', "title", "Q1"),
        ('{"type":"item","labels":{}}', "id", None),
        ('{"id":"Q1"}', "type", None),
        ('{"type":"item","id":"P1"}', "not the id of a item", "P1"),
        ('{"type":"item","id":"Q01"}', "not the id", "Q01"),
        ('{"type":"mediainfo","id":"M1"}', "none of item, property, lexeme", "M1"),
        ('{"type":"item","id":"Q1","claims":[1]}', "claims|length", "Q1"),
        ('"text"', "object", None),
        ("\ufffd", "malformed", None),
    ],
)  # fmt: skip
def test_broken_lines_say_why(text, says, id):
    with pytest.raises(BadEntity, match=says) as caught:
        Parser().read(text.encode())
    assert caught.value.id == id


def test_bytes_that_are_no_text_and_deep_nesting_are_bad():
    for data in (b'{"type":"item","id":"Q\xff"}', b'{"type":"item","id":"Q1","labels":' + b"[" * 100_000):
        with pytest.raises(BadEntity):
            Parser().read(data)


def test_a_value_without_its_datavalue_is_bad():
    broken = statement("P1", string("x"))
    del broken["mainsnak"]["datavalue"]
    with pytest.raises(BadEntity, match="no datavalue"):
        read(item("Q1", title="One", claims=[broken]))


@pytest.mark.parametrize("options", [{"wiki": "en wiki"}, {"wiki": ""}, {"language": "EN"}, {"language": ""}])
def test_impossible_wikis_and_languages(options):
    with pytest.raises(ConfigError, match="give"):
        Parser(**options)


# A second reading, written apart from the first: json.loads, and one plain rule after another.


def slow_text(datavalue):
    kind, value = datavalue["type"], datavalue["value"]
    if kind == "wikibase-entityid":
        return value.get("id") or {"item": "Q", "property": "P"}[value["entity-type"]] + str(value["numeric-id"])
    if kind == "time":
        return read_time(value["time"], value["precision"], value["calendarmodel"]).date
    if kind == "quantity":
        return value["amount"]
    if kind == "monolingualtext":
        return value["text"]
    if kind == "globecoordinate":
        return f"{value['latitude']},{value['longitude']}"
    return value


def slow_rows(document):
    rows = []
    for name, claims in (document.get("claims") or {}).items():
        for claim in claims:
            main = claim["mainsnak"]
            qualifiers = claim.get("qualifiers") or {}
            dates = []
            for date in ("P580", "P582", "P585"):
                snaks = qualifiers.get(date, [])
                known = [s["datavalue"]["value"] for s in snaks if s["snaktype"] == "value"]
                if known:
                    read = read_time(known[0]["time"], known[0]["precision"], known[0]["calendarmodel"])
                    dates.append(("known", read.date, read.precision, read.calendar, known[0]["time"], len(snaks)))
                elif snaks:
                    kind = {"somevalue": "unknown", "novalue": "open"}[snaks[0]["snaktype"]]
                    dates.append((kind, None, None, None, None, len(snaks)))
                else:
                    dates.append(None)
            others = {
                key: [[s["snaktype"], slow_text(s["datavalue"]) if s["snaktype"] == "value" else None] for s in snaks]
                for key, snaks in qualifiers.items()
                if key not in ("P580", "P582", "P585") or len(snaks) > 1
            }
            text = slow_text(main["datavalue"]) if main["snaktype"] == "value" else None
            rows.append(
                (
                    document["id"],
                    name,
                    claim.get("id"),
                    claim["rank"],
                    main.get("datatype"),
                    main["snaktype"],
                    text,
                    *dates,
                    others,
                )
            )
    return rows


def slow_references(document):
    return [
        [
            {
                key: [[s["snaktype"], slow_text(s["datavalue"]) if s["snaktype"] == "value" else None] for s in snaks]
                for key, snaks in reference["snaks"].items()
            }
            for reference in claim.get("references", [])
        ]
        for claims in (document.get("claims") or {}).values()
        for claim in claims
    ]


def slow_first(datavalue):
    """The first year that Wikidata shows under the same name as this one, found by trying."""
    date, precision = slow_text(datavalue), datavalue["value"]["precision"]
    if date is None or precision >= 9:
        return date

    def name(year):
        number = abs(year)
        return {8: number // 10, 7: -(-number // 100), 6: -(-number // 1000)}[precision], year > 0

    year = int(date)
    while year - 1 and name(year - 1) == name(year):
        year -= 1
    return str(Date(year))


def slow_created(document):
    for name in CREATED:
        found = []
        for claim in (document.get("claims") or {}).get(name, []):
            if claim["mainsnak"]["snaktype"] == "value" and claim["rank"] != "deprecated":
                date = slow_first(claim["mainsnak"]["datavalue"])
                found += [date] if date is not None else []
        if found:
            return (min(found, key=lambda d: Date.parse(d).first_day) if name == "P577" else found[0]), name
    return None, None


def assert_same(text: bytes):
    document = json.loads(text)
    found = Parser(wiki="all").read(text)
    rows = [(*r[:6], r[7], *r[11:14], json.loads(r[14])) for r in found.statements]
    assert rows == slow_rows(document)
    assert found.entity[5:7] == slow_created(document)
    labels = document.get("labels") or {}
    assert found.entity[1] == (labels.get("en") or labels.get("mul") or {"value": None})["value"]
    assert found.entity[7:] == (document.get("lastrevid"), document.get("modified"))
    assert {row[15] for row in found.statements} <= {None}
    referenced = Parser(wiki="all", references=True).read(text)
    assert [row[:15] for row in referenced.statements] == [row[:15] for row in found.statements]
    assert [json.loads(row[15] or "[]") for row in referenced.statements] == slow_references(document)
    light = Parser(wiki="nosuchwiki").read(text)
    assert light.entity[4:] == (*found.entity[4:7], None, None)  # no revision where statements are not kept
    assert light.parents == found.parents


some_values = st.one_of(
    st.integers(1, 10**9).map(lambda n: entity(f"Q{n}")),
    st.integers(1, 10**9).map(lambda n: entity(f"Q{n}", numeric_only=True)),
    st.text(max_size=8).filter(lambda t: not any(0xD800 <= ord(c) < 0xE000 for c in t)).map(string),
    st.floats(-1e6, 1e6).map(lambda x: quantity(f"{x:+.3f}", "Q11573")),
    st.tuples(st.floats(-90, 90), st.integers(-180, 180)).map(lambda p: coordinate(*p)),
    st.text("abc é", max_size=5).map(monolingual),
    st.sampled_from([SOMEVALUE, NOVALUE]),
)
some_times = st.one_of(
    st.builds(
        lambda y, m, d, p, c: time(f"{y:+05d}-{m:02d}-{d:02d}T00:00:00Z", p, c),
        st.integers(-3000, 3000),
        st.integers(0, 13),
        st.integers(0, 31),
        st.integers(6, 11),
        st.sampled_from(["gregorian", "julian"]),
    ),
    st.sampled_from([SOMEVALUE, NOVALUE]),
)
some_qualifiers = st.dictionaries(
    st.sampled_from(["P580", "P582", "P585"]), st.lists(some_times, min_size=1, max_size=3), max_size=3
).flatmap(
    lambda dates: st.dictionaries(
        st.sampled_from(["P1", "P2"]), st.lists(some_values, min_size=1, max_size=2), max_size=2
    ).map(lambda others: {**others, **dates})
)
ranks = st.sampled_from(["preferred", "normal", "deprecated"])
some_claims = st.one_of(
    st.builds(statement, st.sampled_from(["P31", "P279"]), st.integers(1, 9).map(lambda n: entity(f"Q{n}")), ranks),
    st.builds(
        statement, st.sampled_from(["P39", "P1"]), some_values, ranks, some_qualifiers, references=st.integers(0, 2)
    ),
    st.builds(statement, st.sampled_from(CREATED), some_times, ranks),
)


@given(
    claims=st.lists(some_claims, max_size=8),
    labels=st.dictionaries(st.sampled_from(["en", "mul", "fr"]), st.text("xyz", max_size=3)),
)
def test_entities_read_as_by_plain_json(claims, labels):
    assert_same(line(item("Q42", labels=labels, claims=claims)).encode())


@pytest.mark.full
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real files are not here")
@pytest.mark.parametrize("name", ["opentapioca_short_stream.json", "qrank_twenty_entities.json", "qsdump_entities"])
def test_real_entities_read_as_by_plain_json(name):
    lines = [raw.strip().rstrip(b",") for raw in bz2.open(SHARED / f"{name}.bz2")]  # noqa: SIM115
    entities = [raw for raw in lines if len(raw) > 1]
    assert len(entities) == {"o": 635, "q": 20}[name[0]] if name[1] != "s" else len(entities) == 1
    for raw in entities:
        assert_same(raw)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real files are not here")
def test_real_properties():
    rows = {}
    for file in sorted((SHARED / "properties").glob("*.json")):
        row = dict(zip(schemas()["properties"].names, Parser().read(file.read_bytes()).property, strict=True))
        rows[row["id"]] = row
        document = json.loads(file.read_bytes())
        assert row["datatype"] == document["datatype"]
        assert len(row["constraints"]) == len(document["claims"]["P2302"])
    assert {id for id, row in rows.items() if row["single_value"]} == {"P2427", "P25", "P571", "P580"}
    assert (rows["P580"]["separators"], rows["P25"]["separators"]) == (("P518", "P1013", "P291"), ("P1039",))
    assert rows["P25"]["exceptions"][:2] == ("Q41054", "Q83160")
    assert rows["P580"]["datatype"] == "time"


BROKEN = "half \ud800 a pair"


def test_half_a_surrogate_pair_costs_its_value_and_not_the_entity():
    """json and JavaScript write such texts; no decoder that makes UTF-8 of them can."""
    sound = [statement("P1", string("\U0001f600")), statement("P39", entity("Q3"), qualifiers={"P1": string("x")})]
    broken = [
        statement("P1", string("\U0001f600")),
        statement("P39", entity("Q3"), qualifiers={"P1": [string("x"), string(BROKEN)]}),
        statement("P7", string(BROKEN)),
    ]
    whole = item("Q1", "label", title="T", description="about", claims=sound)
    for written in (line, lambda made: json.dumps(made, ensure_ascii=False)):
        made = item("Q1", BROKEN, title="T", description="about", claims=broken)
        text = written(made).encode("utf-8", "surrogatepass")
        read, expected = Parser().read(text), Parser().read(line(whole).encode())
        assert read.entity == (*expected.entity[:1], None, *expected.entity[2:])
        first, second, third = read.statements
        assert first == expected.statements[0]
        assert second[:14] == expected.statements[1][:14] and '["somevalue",null]' in second[14]
        assert third[5:8] == ("somevalue", None, None)
        assert [reason.split(":")[0].partition(" ")[0] for reason in read.left_out] == [
            "labels",
            "qualifier",
            "statement",
        ]
    with pytest.raises(BadEntity):
        Parser().read(line(whole | {"id": BROKEN}).encode())


@pytest.mark.parametrize("precision", [4_000, -4_000, 10**30, "11", None, True, 11.5, [11]])
def test_a_strange_precision_costs_its_date_and_not_the_entity(precision):
    odd = time("2000")
    odd["value"]["precision"] = precision
    claims = [statement("P1", odd, qualifiers={"P580": odd, "P582": time("2001")}), statement("P571", odd)]
    read = Parser().read(line(item("Q1", "label", title="T", claims=claims)).encode())
    assert read.entity[1] == "label" and read.entity[5] is None
    row = read.statements[0]
    assert row[6] == "other" and json.loads(row[7])["precision"] == precision
    assert row[11][:2] == ("known", None) and row[12][:2] == ("known", "2001")


@pytest.mark.parametrize("precision", [77, -1, 15, 4_000, "11", None, [11]])
def test_times_of_a_strange_precision_are_named_one_by_one(precision):
    odd = time("2000")
    odd["value"]["precision"] = precision
    claims = [
        statement("P1", time("1990"), qualifiers={"P580": odd, "P582": [time("2001"), odd], "P3": [odd, SOMEVALUE]}),
        statement("P571", odd, id="Q1$odd"),
        statement("P571", time("1980"), qualifiers={"P585": [odd]}),
    ]
    read = Parser().read(line(item("Q1", "label", title="T", claims=claims)).encode())
    assert [reason.partition(":")[0] for reason in read.left_out] == [
        *(f"qualifier {name} of a statement of P1" for name in ("P580", "P582", "P3")),
        "statement Q1$odd of P571",
        "qualifier P585 of a statement of P571",
    ]
    wrong = f"+2000-00-00T00:00:00Z has the precision {precision!r}, which is none of 0 to 14"
    assert all(reason.endswith(f": {wrong}") for reason in read.left_out)
    assert len(read.statements) == 3 and read.entity[5] == "1980"
    # Of what is no subject only the date of creation is kept
    for parser, title in ((Parser(), None), (Parser(listed=frozenset({"Q2"})), "T")):
        read = parser.read(line(item("Q1", "label", title=title, claims=claims)).encode())
        assert read.statements is None and read.left_out == (f"a statement of P571: {wrong}",)


def test_a_time_without_a_date_for_another_reason_is_no_value_that_was_lost():
    claims = [
        statement(
            "P571", SOMEVALUE, qualifiers={"P580": SOMEVALUE, "P582": NOVALUE, "P585": time("+2000-02-31T00:00:00Z")}
        ),
        *(statement("P1", time(text)) for text in ("+0000-00-00T00:00:00Z", "+2000-02-31T00:00:00Z", "2000")),
        *(statement("P2", time("2000", precision)) for precision in (0, 6, 9, 14)),
        statement("P3", {"type": "musical-notation", "value": {"time": "4/4"}}),
    ]
    for title in ("T", None):
        assert Parser().read(line(item("Q1", "label", title=title, claims=claims)).encode()).left_out == ()


@pytest.mark.parametrize("id", ["Q9223372036854775808", "Q99999999999999", "Z1", "Q", "Q-3", "L1-F99999"])
def test_an_object_that_can_be_no_entity_is_set_aside_with_its_subject(id):
    odd = {"value": {"entity-type": "item", "id": id}, "type": "wikibase-entityid"}
    claims = [statement("P1", odd), statement("P2", entity("Q2"), qualifiers={"P3": odd})]
    read = Parser().read(line(item("Q1", "label", title="T", claims=claims)).encode())
    assert [row[5:8] for row in read.statements] == [("somevalue", None, None), ("value", "entity", "Q2")]
    assert read.statements[1][14] == '{"P3":[["somevalue",null]]}'
    assert len(read.left_out) == 2 and all(repr(id) in reason for reason in read.left_out)


@pytest.mark.parametrize("revision", [None, "12", 1.5, True, 1 << 63, [1]])
def test_what_is_no_revision_or_time_is_not_known_and_costs_nothing(revision):
    made = item("Q1", "label", title="T", claims=[statement("P1", string("x"))])
    read = Parser().read(line(made | {"lastrevid": revision, "modified": 7}).encode())
    assert read.entity[1] == "label" and read.entity[7:] == (None, None) and len(read.statements) == 1
    del made["lastrevid"], made["modified"]
    assert Parser().read(line(made).encode()).entity[7:] == (None, None)


def test_a_broken_reference_costs_the_references_of_its_statement_alone():
    sound = statement("P1", entity("Q2"), references=1)
    broken = statement("P2", entity("Q3"), references=1)
    broken["references"][0]["snaks"] = {"P854": [snak("P854", string(BROKEN))]}
    text = line(item("Q1", "label", title="T", claims=[sound, broken])).encode("utf-8", "surrogatepass")
    read = Parser(references=True).read(text)
    assert [row[15] is None for row in read.statements] == [False, True]
    assert [reason.split(":")[0] for reason in read.left_out] == [
        f"references of statement {read.statements[1][2]} of P2"
    ]
    # Where nobody asks for references, nothing is lost
    assert Parser().read(text).left_out == ()


def test_a_value_of_an_unknown_kind_in_a_reference_is_kept_as_json():
    claim = statement("P1", entity("Q2"), references=2)
    odd = {"value": {"what": [1, 2]}, "type": "musical-thing"}
    claim["references"][1]["snaks"] = {"P9": [snak("P9", SOMEVALUE), snak("P9", odd)]}
    row = only(claim, references=True)
    expected = [
        {"P248": [["value", "Q36578"]], "P813": [["value", "2020-02-03"]]},
        {"P9": [["somevalue", None], ["value", '{"what":[1,2]}']]},
    ]
    assert json.loads(row["references"]) == expected
