"""Every row that is built can be cited: item, relation, statement, revision, date and references."""

import json
from pathlib import Path

import polars as pl
import pytest

from anachron.data.build_statements import build_statements, sources_of
from anachron.data.card import licence
from anachron.data.question_files import verbalise
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.rebucket import rebucket
from anachron.wikidata.reading.settings import IngestSettings
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.selection.cited import REVISION
from anachron.wikidata.selection.facts import build_facts
from anachron.wikidata.selection.rules import Selection
from anachron.wikidata.updates.build import UpdateSettings, build_updates, companions
from wikidata.dumps import entity, item, property_, snak, statement, string, time, write_dump

OLD, NEW = "2021-01-04", "2023-02-27"
SOURCE = [{"snaks": {"P854": [snak("P854", string("https://example.org/a b"))], "P248": [snak("P248", entity("Q9"))]}}]
AS_KEPT = [{"P854": [["value", "https://example.org/a b"]], "P248": [["value", "Q9"]]}]
RELATIONS = [property_("P35", "head of state"), property_("P27", "citizenship")]
PEOPLE = [item(f"Q{number}", f"person {number}") for number in range(100, 130)]


def head(country: int, person: int, start: str, end: str | None = None, **more):
    qualifiers = {"P580": time(start)} | ({} if end is None else {"P582": time(end)})
    made = statement("P35", entity(f"Q{person}"), qualifiers=qualifiers, id=f"Q{country}$head-{person}", **more)
    return made | ({"references": SOURCE} if person % 2 else {})


def countries(new: bool):
    made = []
    for number in range(1, 9):
        heads = [head(number, 100 + number, "2001-02-03", "2009-02-03")]
        heads.append(head(number, 110 + number, "2009-02-03", "2022-01-01" if new and number % 2 else None))
        if new and number == 1:
            del heads[1]["references"]  # those of the old snapshot are of another state of the statement
        if new and number % 2:
            heads.append(head(number, 120 + number, "2022-01-01"))
        revision = {"lastrevid": 1000 * number + new, "modified": f"202{2 * new}-03-0{number}T00:00:00Z"}
        made.append(item(f"Q{number}", f"Country {number}", claims=heads) | revision)
    if not new:  # merged into Q1 later; the letter of a statement's id may be small
        gone = statement("P27", entity("Q2"), id="q50$a")
        made.append(item("Q50", "once", claims=[gone]) | {"lastrevid": 7})
        return made
    made[0]["claims"]["P27"] = [
        statement("P27", entity("Q2"), id="Q1$c", qualifiers={"P582": time("2022-05")}),
        statement("P27", entity("Q3"), id="Q1$b", qualifiers={"P580": time("2022-05")}),
    ]
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cited")
    for name, date in (("old", OLD), ("new", NEW)):
        dump = write_dump(folder / f"{name}.json.gz", [*countries(name == "new"), *PEOPLE, *RELATIONS])
        ingest(dump, folder / name, IngestSettings(date, "all", references=True))
    return folder


def said(new: bool):
    """Statement id -> item, relation, object and references, by plain JSON."""
    return {
        claim["id"]: (one["id"], name, claim["mainsnak"]["datavalue"]["value"]["id"], "references" in claim)
        for one in countries(new)
        for name, claims in one["claims"].items()
        for claim in claims
    }


def revisions(new: bool):
    return {one["id"]: (one["lastrevid"], one["modified"]) for one in countries(new)}


def without_citations(snapshot: Path, out: Path) -> Path:
    """The snapshot as a version wrote it that knew no revisions."""
    for file in (snapshot / "manifest.json", *snapshot.rglob("*.parquet")):
        target = out / file.relative_to(snapshot)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".parquet":
            pl.read_parquet(file).drop(*REVISION, "references", strict=False).write_parquet(target)
        else:
            manifest = json.loads(file.read_text())
            manifest["options"].pop("references", None)
            target.write_text(json.dumps(manifest))
    return out


NO_VIEWS = UpdateSettings(popularity=False, neighbours=2)


def test_each_object_of_an_update_names_its_statements_and_the_states_that_were_read(made, tmp_path):
    out = tmp_path / "u.parquet"
    build_updates(made / "old", made / "new", out, NO_VIEWS, redirects={"Q50": "Q1"})
    updates, sources = pl.read_parquet(out), pl.read_parquet(companions(out)["sources"])
    listed = updates.explode("objects").select(
        "case_id",
        pl.col("subject").struct.field("id").alias("subject_id"),
        pl.col("relation").struct.field("id").alias("relation_id"),
        *(pl.col("objects").struct.field(a).alias(b) for a, b in (("id", "object_id"), ("label", "object_label"))),
        pl.col("objects").struct.field("decision"),
    )
    assert listed.height > 8 and sources.select(listed.columns).equals(listed)
    old, new = said(False), said(True)
    for row in sources.iter_rows(named=True):
        triple = (row["subject_id"], row["relation_id"], row["object_id"])
        before, now = row["old_statement_id"], row["new_statement_id"]
        assert before or now
        assert now is None or new[now][:3] == triple
        item_then = row["subject_id"]
        if before is not None:
            item_then = old[before][0]
            assert old[before][1:3] == triple[1:]
        assert (row["new_revision"], row["new_modified"]) == revisions(True)[row["subject_id"]]
        assert (row["old_revision"], row["old_modified"]) == revisions(False)[item_then]
        referenced = new[now][3] if now else old[before][3]
        assert json.loads(row["references"] or "null") == (AS_KEPT if referenced else None)
    merged = sources.filter(pl.col("old_statement_id") == "q50$a")
    assert merged.select("subject_id", "old_revision").rows() == [("Q1", 7)]
    as_lines = tmp_path / "u.jsonl"
    build_updates(made / "old", made / "new", as_lines, NO_VIEWS, redirects={"Q50": "Q1"})
    assert pl.read_ndjson(companions(as_lines)["sources"], schema=sources.schema).equals(sources)


def test_facts_questions_and_statements_keep_what_they_are_cited_by(made, tmp_path):
    settings = Selection(popularity=False, ended_before=2023)
    build_facts(made / "new", tmp_path / "facts.parquet", settings)
    facts = pl.read_parquet(tmp_path / "facts.parquet")
    assert facts.height == 12
    stated = said(True)
    for row in facts.iter_rows(named=True):
        known = stated[row["statement_id"]]
        assert known[:3] == (row["subject_id"], row["relation_id"], row["object_id"])
        assert (row["subject_revision"], row["subject_modified"]) == revisions(True)[row["subject_id"]]
        assert json.loads(row["references"] or "null") == (AS_KEPT if known[3] else None)
    verbalise(tmp_path / "facts.parquet", tmp_path / "q.jsonl")
    build_statements(tmp_path / "q.jsonl", tmp_path / "d.csv", sample=5)
    sources = pl.read_csv(sources_of(tmp_path / "d.csv"))
    dataset = pl.read_csv(tmp_path / "d.csv", infer_schema=False)
    published = {"SubjectID": "subject_id", "RelationID": "relation_id", "ObjectID": "object_id"}
    published |= {"StartDate": "start", "EndDate": "end"}
    asked = dataset.select(*published).unique().rename(published)
    assert sources.height == asked.height == 5
    assert sources.join(asked, on=asked.columns, how="semi").height == 5
    assert sources.join(facts, on=sources.columns, how="semi", nulls_equal=True).height == 5
    # Facts that nobody can cite have no such file, and none of earlier ones stays
    (tmp_path / "own.csv").write_text("subject,relation,object,start,end\nA,head of state,B,2001,2009\n")
    build_statements(tmp_path / "own.csv", tmp_path / "d.csv")
    assert not sources_of(tmp_path / "d.csv").is_file()
    build_statements(tmp_path / "q.jsonl", tmp_path / "d.csv")
    assert sources_of(tmp_path / "d.csv").is_file()
    pl.read_ndjson(tmp_path / "q.jsonl").drop("statement_id").write_ndjson(tmp_path / "q.jsonl")
    build_statements(tmp_path / "q.jsonl", tmp_path / "d.csv")
    assert not sources_of(tmp_path / "d.csv").is_file()


def test_snapshots_of_an_earlier_version_open_and_know_no_revisions(made, tmp_path):
    old, new = (without_citations(made / name, tmp_path / name) for name in ("old", "new"))
    out, cited = tmp_path / "u.parquet", tmp_path / "cited" / "u.parquet"
    told = []
    build_updates(old, new, out, NO_VIEWS, warn=told.append)
    assert [str(side) in text for side, text in zip((old, new), told, strict=True)] == [True, True]
    assert all("kept no revisions of items" in text for text in told)
    build_updates(made / "old", made / "new", cited, NO_VIEWS, warn=told.append)
    assert pl.read_parquet(out).equals(pl.read_parquet(cited))
    sources, known = (pl.read_parquet(companions(path)["sources"]) for path in (out, cited))
    unknown = ["old_revision", "old_modified", "new_revision", "new_modified", "references"]
    assert sources.select(unknown).null_count().row(0) == (sources.height,) * 5
    assert sources.drop(unknown).equals(known.drop(unknown))
    # one of each side, in other buckets
    build_updates(rebucket(old, 3, tmp_path / "three"), made / "new", tmp_path / "mixed.parquet", NO_VIEWS)
    mixed = pl.read_parquet(companions(tmp_path / "mixed.parquet")["sources"])
    assert mixed["new_revision"].null_count() == 0 and mixed["old_revision"].null_count() == mixed.height
    settings = Selection(popularity=False, ended_before=2023)
    facts = build_facts(new, tmp_path / "f.parquet", settings, warn=told.append).facts
    assert facts.height == 12 and facts["subject_revision"].null_count() == 12
    assert len(told) == 3 and told[1] == told[2]


def test_references_are_kept_where_they_are_asked_for(made, tmp_path):
    plain = IngestSettings(NEW, "all")
    ingest(made / "new.json.gz", tmp_path / "s", plain)
    with_them, without = open_snapshot(made / "new"), open_snapshot(tmp_path / "s")
    assert without.read("statements", 0)["references"].null_count() == without.manifest["counts"]["statements"]
    same = [side.read("statements", 0).drop("references") for side in (with_them, without)]
    assert same[0].equals(same[1])
    facts = build_facts(without, tmp_path / "f.parquet", Selection(popularity=False)).facts
    assert facts["references"].null_count() == facts.height and facts["subject_revision"].null_count() == 0


def test_only_what_is_known_to_be_of_wikidata_is_said_to_be_cc0():
    dump = {"dump": {"name": "d.json"}, "date": "2024-05-01"}
    topic = dump | {"topic": {"site": "https://www.wikidata.org", "chosen": {"items": ["Q1"]}}}
    assert "- d.json, dated 2024-05-01: https://www.wikidata.org, CC0 1.0 (https" in licence([topic])
    said = licence([dump | {"source": "drawn from dates"}])
    assert "- d.json, dated 2024-05-01: drawn from dates, CC0 1.0 (https" in said and "dumps of Wikidata" not in said


def test_cards_name_the_source_its_licence_and_how_a_topic_was_chosen(made, tmp_path):
    for name, topic in (
        ("old", None),
        ("new", {"chosen": {"words": "instances of Q3624078"}, "site": "https://x.org"}),
    ):
        (tmp_path / name).symlink_to(made / name) if topic is None else (tmp_path / name).mkdir()
        if topic is not None:
            for file in (made / name).iterdir():
                (tmp_path / name / file.name).symlink_to(file) if file.name != "manifest.json" else None
            manifest = json.loads((made / name / "manifest.json").read_text()) | {"topic": topic}
            (tmp_path / name / "manifest.json").write_text(json.dumps(manifest))
    build_updates(tmp_path / "old", tmp_path / "new", tmp_path / "u.parquet", NO_VIEWS)
    card = companions(tmp_path / "u.parquet")["card"].read_text()
    lines = card[card.index("## Source and licence") :].splitlines()[2:5]
    assert lines == [
        f"- old.json.gz, dated {OLD}: dumps of Wikidata are CC0 1.0 "
        "(https://creativecommons.org/publicdomain/zero/1.0/); those of another Wikibase stand under its own terms",
        f"- new.json.gz, dated {NEW}: https://x.org, under the terms of that site",
        '  - words: `"instances of Q3624078"`',
    ]
    build_facts(tmp_path / "new", tmp_path / "facts.parquet", Selection(popularity=False))
    verbalise(tmp_path / "facts.parquet", tmp_path / "q.parquet")
    card = build_statements(tmp_path / "q.parquet", tmp_path / "d.parquet").card.read_text()
    assert "## Source and licence\n\n- new.json.gz, dated" in card and '  - words: `"instances of Q3624078"`' in card
    (tmp_path / "own.csv").write_text("subject,relation,object,start,end\nA,head of state,B,2001,2009\n")
    assert "licence" not in build_statements(tmp_path / "own.csv", tmp_path / "o.parquet").card.read_text()
