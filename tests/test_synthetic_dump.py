"""tools/synthetic_dump.py against a plain recount of what it writes, and the shape that it draws from."""

import bz2
import gzip
import io
import json
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from anachron.wikidata.reading.dump import open_dump, read_stream
from anachron.wikidata.reading.parse import Parser

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from synthetic_draws import Plan
from synthetic_dump import Made, lines, main, write
from wikidata_shape import fortieths, measure

PLAN = Plan(entities=6000)
DATES = {"P580", "P582", "P585"}


def entities(plan, redirects=None, views=None):
    text = b"".join(lines(plan, Made(), redirects, views)).decode("ascii")
    assert text.startswith("[\n")
    assert text.endswith("\n]\n")
    return [json.loads(line.removesuffix(",")) for line in text.splitlines()[1:-1]]


@pytest.fixture(scope="module")
def made():
    return entities(PLAN)


def statements(items):
    return [(i["id"], p, s) for i in items for p, row in i["claims"].items() for s in row]


def items_of(made):
    return [entity for entity in made if entity["type"] == "item"]


@pytest.mark.full
def test_counts_are_those_of_the_shape(made):
    items = items_of(made)
    assert len(items) == len({item["id"] for item in items}) == PLAN.entities
    numbers = [int(item["id"][1:]) for item in items]
    assert numbers == sorted(numbers)
    assert 129_900_000 < max(numbers) <= 130_000_000
    article = [item for item in items if "enwiki" in item["sitelinks"]]
    others = [item for item in items if "enwiki" not in item["sitelinks"]]
    assert len(article) / len(items) == pytest.approx(PLAN.shape["with_article"], rel=0.1)
    for kind, members in (("article", article), ("none", others)):
        shape = PLAN.shape[kind]
        for name in ("labels", "descriptions"):
            assert sum(len(i[name]) for i in members) / len(members) == pytest.approx(sum(shape[name]) / 40, rel=0.15)
        count = len(statements(members)) / len(members)
        assert count == pytest.approx(sum(shape["statements"]) / 40, rel=0.15)


@pytest.mark.full
def test_shares_are_those_of_the_shape(made):
    rows = statements(items_of(made))
    dated = [s for _, _, s in rows if DATES & s.get("qualifiers", {}).keys()]
    assert len(dated) / len(rows) == pytest.approx(0.04, rel=0.1)
    entity_share = sum(s["mainsnak"]["datatype"] == "wikibase-item" for s in dated) / len(dated)
    assert entity_share == pytest.approx(PLAN.shape["dated_datatypes"]["wikibase-item"], abs=0.03)
    kinds = Counter(" ".join(p for p in ("P580", "P582", "P585") if p in s["qualifiers"]) for s in dated)
    for kind, share in PLAN.shape["dated_kinds"].items():
        assert kinds[kind] / len(dated) == pytest.approx(share, abs=0.03)
    referenced = sum(bool(s["references"]) for _, _, s in rows) / len(rows)
    assert referenced == pytest.approx(PLAN.shape["referenced"], abs=0.02)
    snaks = [len(r["snaks"]) for _, _, s in rows for r in s["references"]]
    assert sum(snaks) / len(snaks) == pytest.approx(PLAN.shape["snaks_a_reference"], rel=0.1)
    ranks = Counter(s["rank"] for _, _, s in rows)
    assert ranks["normal"] / len(rows) == pytest.approx(PLAN.shape["ranks"]["normal"], abs=0.002)
    qualified = sum(bool(s.get("qualifiers", {}).keys() - DATES) for _, _, s in rows) / len(rows)
    assert qualified == pytest.approx(PLAN.shape["qualified"], abs=0.02)


@pytest.mark.full
def test_what_is_named_is_there(made):
    known = {entity["id"]: entity for entity in made}
    for _, name, statement in statements(items_of(made)):
        assert known[name]["datatype"] == statement["mainsnak"]["datatype"]
        if statement["mainsnak"]["datatype"] == "wikibase-item" and statement["mainsnak"]["snaktype"] == "value":
            assert statement["mainsnak"]["datavalue"]["value"]["id"] in known
    ids = [s["id"] for _, _, s in statements(made)]
    assert len(ids) == len(set(ids))


@pytest.mark.full
def test_the_same_arguments_give_the_same_bytes(tmp_path):
    small = Plan(entities=1500, seed=3)
    plain = b"".join(lines(small, Made()))
    found = {}
    for ending in ("json", "json.gz", "json.zst"):
        counts = write(small, str(tmp_path / f"dump.{ending}"))
        assert counts.bytes == len(plain)
        found[ending] = (tmp_path / f"dump.{ending}").read_bytes()
    assert found["json"] == plain == gzip.decompress(found["json.gz"])
    assert zstandard.ZstdDecompressor().stream_reader(io.BytesIO(found["json.zst"])).read() == plain
    assert b"".join(lines(Plan(entities=1500, seed=4), Made())) != plain


@pytest.mark.full
def test_every_line_is_read_as_it_was_written(tmp_path, made):
    path = tmp_path / "dump.json.gz"
    main([str(path), "--entities", str(PLAN.entities)])
    parser, read = Parser("all"), []
    for range_ in read_stream(open_dump(path), 0, 1):
        for _, batch in range_.lines:
            read += [parser.read(bytes(x).rstrip(b",")) for x in batch if len(bytes(x)) > 2]
    assert [entity.id for entity in read] == [entity["id"] for entity in made]
    rows = {entity.id: entity.statements for entity in read}
    assert not any(entity.left_out for entity in read)
    for item in items_of(made)[::50]:
        assert [row[2] for row in rows[item["id"]]] == [s["id"] for _, _, s in statements([item])]


@pytest.mark.full
def test_a_later_edition_differs_by_a_small_share(made):
    plan = Plan(entities=PLAN.entities, edition=1)
    merged, views = io.StringIO(), io.StringIO()
    later = {item["id"]: item for item in items_of(entities(plan, merged, views))}
    before = {item["id"]: item for item in items_of(made)}
    pairs = dict(line.split(",") for line in merged.getvalue().split())
    assert before.keys() - later.keys() == pairs.keys()
    assert len(pairs) / len(before) == pytest.approx(plan.merged, rel=0.5)
    assert later.keys() >= set(pairs.values())
    assert len(later.keys() - before.keys()) == round(plan.added * plan.entities)
    stayed = [item for item in before if item in later]
    old = {s["id"]: s for _, _, s in statements([before[i] for i in stayed])}
    new = {s["id"]: s for _, _, s in statements([later[i] for i in stayed])}
    assert old.keys() <= new.keys()
    changed = [name for name in old if old[name] != new[name]]
    assert len(changed) / len(old) == pytest.approx(plan.changed, rel=0.25)
    for name in new.keys() - old.keys():  # that something holds since the year between the editions, or a death in it
        since = new[name].get("qualifiers", {}).get("P580", [new[name]["mainsnak"]])[0]
        assert since["property"] in ("P580", "P570")
        assert since["datavalue"]["value"]["time"].startswith("+2022-")
    fresh = [later[name] for name in later.keys() - before.keys()]
    born = [
        item for item in fresh if any("+2022-" in json.dumps(s["mainsnak"]) for s in item["claims"].get("P571", ()))
    ]
    assert len(born) / len(fresh) == pytest.approx(plan.born, abs=0.1)
    assert not any(
        "+2022-" in json.dumps(s["mainsnak"]) for item in before.values() for s in item["claims"].get("P571", ())
    )
    titles = sum("enwiki" in item["sitelinks"] for item in later.values())
    assert len(views.getvalue().splitlines()) == titles


def test_too_few_entities_are_refused(capsys, tmp_path):
    with pytest.raises(SystemExit):
        main([str(tmp_path / "dump.json"), "--entities", "3"])
    assert "at least 100" in capsys.readouterr().err


@given(st.lists(st.integers(0, 500), min_size=1, max_size=200))
def test_fortieths_keep_the_mean_and_the_order(counts):
    parts = fortieths(counts)
    assert len(parts) == 40
    assert sum(parts) / 40 == pytest.approx(sum(counts) / len(counts), abs=1e-3)
    assert all(a <= b + 2e-3 for a, b in pairwise(parts))


def test_the_shape_is_counted_from_items(tmp_path):
    def item(id, statements, wikis=()):
        return {
            "type": "item", "id": id, "labels": {"en": {"value": "abc"}}, "descriptions": {"en": {"value": "d"}},
            "aliases": [], "sitelinks": {w: {} for w in wikis}, "claims": {"P31": statements},
        }  # fmt: skip

    def statement(target, **more):
        main = {"property": "P31", "datatype": "wikibase-item", "snaktype": "value"}
        data = {"datavalue": {"value": {"id": target}}}
        return {"mainsnak": main | data, "rank": "normal"} | more

    year = {"snaktype": "value", "datavalue": {"value": {"precision": 9}}}
    start = {"qualifiers": {"P580": [year], "P642": [{}, {}]}, "references": [{"snaks": {"P248": [{}, {}]}}]}
    stream = [item("Q1", [statement("Q5"), statement("Q6")]), item("Q2", [statement("Q5", **start)], ["enwiki"])]
    (tmp_path / "P1.json").write_text(json.dumps({"claims": {}}))
    found = measure(stream, [item("Q3", [statement("Q5")], ["enwiki", "frwiki"])], tmp_path)
    assert (found["with_article"], found["article"]["items"], found["none"]["items"]) == (0.5, 2, 1)
    assert found["none"]["statements"] == [2.0] * 40
    assert (found["dated"], found["qualified"], found["qualifiers_each"]) == (0.25, 0.25, 2.0)
    assert (found["referenced"], found["snaks_a_reference"], found["label_characters"]) == (0.25, 2.0, 3.0)
    assert found["distinct_targets"] == [3, 2]
    assert found["dated_kinds"] == {"P580": 1.0}
    assert found["wikis"] == ["enwiki", "frwiki"]
    assert found["single_value"] == 0.0


def test_the_last_of_several_versions_of_an_item_counts(tmp_path):
    from wikidata_shape import items

    versions = [
        {"type": "item", "id": "Q1", "n": 1},
        {"type": "property", "id": "P1"},
        {"type": "item", "id": "Q1", "n": 2},
    ]
    path = tmp_path / "dump.json.bz2"
    path.write_bytes(bz2.compress(("[\n" + ",\n".join(map(json.dumps, versions)) + "\n]\n").encode()))
    assert list(items(path)) == [versions[2]]
