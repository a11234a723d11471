"""From a snapshot to a data set by commands: facts, statements, card, and what reads them again."""

import bz2
import json
import re
from collections import defaultdict
from dataclasses import fields
from math import comb
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer

from anachron.cli.main import app, run_command
from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.data.build_statements import last_year
from anachron.data.bundled.mini import mini_facts
from anachron.data.card import card, history, statistics
from anachron.data.columns import PUBLISHED
from anachron.data.facts import FACTS_SCHEMA, facts_with_questions, read_questions
from anachron.data.loaders import load_dataset
from anachron.data.statements import FactWithQuestion, make_statements
from anachron.io.files import file_fingerprint, read_json, write_manifest
from anachron.text.questions import draw_question, fill_question, relation_templates
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.selection.rules import Selection
from anachron.wikidata.selection.select import emptied_by, select_facts
from wikidata.made import entity, property_, statement, write_snapshot

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "wikidata"
PEOPLE = [
    entity("Q76", "Barack Obama", created="1961-08-04"), entity("Q30", "United States", created="1776"),
    entity("Q100", "Ann Lee"), entity("Q101", "Rovers"), entity("Q102", "United"),
]  # fmt: skip
HELD = [
    statement("Q30", "P35", "Q76", "2009-01-20", "2017-01-20"),
    statement("Q100", "P54", "Q101", "1990", "1996-05"),
    statement("Q100", "P54", "Q102", "1997", "2000"),
    statement("Q100", "P54", "Q102", "2004", "2012"),
    statement("Q100", "P54", "Q30", "2004", "2005"),
]
PROPERTIES = [property_("P35", "head of state"), property_("P54", "member of sports team")]
VIEWS = {"Q76": 400_000.0, "Q30": 300_000.0, "Q100": 10.0, "Q101": 90.0, "Q102": 40.0}


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return write_snapshot(tmp_path / "snapshot", PEOPLE, HELD, PROPERTIES, popularity=VIEWS)


def run(*words: object) -> int:
    return run_command([str(word) for word in words], debug=False)


def ask(facts: Path, out: Path) -> Path:
    """Questions by templates, as ``verbalize`` writes them, with a manifest that leads back to the facts."""
    table = pl.read_parquet(facts)
    rows = []
    for row in table.iter_rows(named=True):
        templates = relation_templates()[row["relation_id"]][1]
        questions = [fill_question(template, row["subject_label"]) for template in templates]
        drawn = draw_question(templates, row["fact_id"])
        rows.append({"question": questions[drawn], "drawn": drawn, "questions": questions, "source": "templates"})
    pl.concat([table, pl.DataFrame(rows)], how="horizontal").write_parquet(out)
    counts = {"facts": table.height, "failed": 0}
    write_manifest(out, command="verbalize", parameters={}, inputs={str(facts): file_fingerprint(facts)}, counts=counts)
    return out


@pytest.fixture
def questions(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    facts = tmp_path / "facts.parquet"
    assert run("build", "facts", snapshot, "--out", facts, "--several-periods", "keep") == 0
    capsys.readouterr()
    return ask(facts, tmp_path / "questions.parquet")


def test_every_setting_of_the_selection_is_an_option():
    tree = typer.main.get_command(app)
    options = {p.name: p for p in tree.commands["build"].commands["facts"].params}  # type: ignore[attr-defined]
    for field in fields(Selection):
        assert field.name in options, f"build facts lacks --{field.name}"
        assert options[field.name].default == (True if field.name == "popularity" else None)  # a preset's own


def test_facts_their_manifest_and_what_is_printed(snapshot: Path, tmp_path: Path, capsys):
    out = tmp_path / "new" / "facts.parquet"
    assert run("build", "facts", snapshot, "--out", out, "--more-than", "0", "--highest-popularity", "400000") == 0
    printed = capsys.readouterr()
    assert "lasts less than 1,140 days" in printed.out and "more than one period" in printed.out
    assert "minimum popularity: 340,000 monthly views" in printed.err and "1 fact written" in printed.err
    facts = pl.read_parquet(out)
    assert dict(facts.schema) == FACTS_SCHEMA
    (row,) = facts.iter_rows(named=True)
    assert (row["subject_label"], row["object_label"], row["subject_from"]) == ("United States", "Barack Obama", "1776")
    manifest = read_json(f"{out}.manifest.json")
    assert manifest["sha256"] == file_fingerprint(out) and manifest["command"] == "build facts"
    assert manifest["parameters"]["preset"] == "timestress" and manifest["parameters"]["highest_popularity"] == 400_000
    read = [snapshot / "manifest.json", snapshot / "popularity.parquet"]
    assert manifest["inputs"] == {str(path): file_fingerprint(path) for path in read}
    assert manifest["counts"]["cut"] == {"threshold": 340_000, "last": {}}
    first, last = manifest["counts"]["steps"][0], manifest["counts"]["steps"][-1]
    assert (first["statements_in"], last["statements_kept"]) == (5, 1)
    assert {path.name for path in out.parent.iterdir()} == {"facts.parquet", "facts.parquet.manifest.json"}
    assert run("build", "facts", snapshot, "--out", out, "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["facts"] == 2
    assert "warning: not more than 2,000 facts, so all are kept, 0 without page views among them" in printed.err
    again = out.read_bytes()
    assert run("build", "facts", snapshot, "--out", out, "--json", "--workers", 2) == 0
    assert out.read_bytes() == again


def test_facts_that_are_written_are_counted(tmp_path: Path, capsys):
    names = {"Q1": "Georgia", "Q2": "georgia", "Q3": "Atlanta", "Q4": "Tbilisi", "Q5": "France", "Q6": "Paris"}
    rows = [statement(f"Q{n}", "P36", f"Q{there}", "1990") for n, there in ((1, 3), (2, 4), (5, 6))]
    things = [entity(id, name) for id, name in names.items()]
    folder = write_snapshot(tmp_path / "s", things, rows, [property_("P36", "capital")])
    out = tmp_path / "facts.csv"
    assert run("build", "facts", folder, "--out", out) == 0
    said = capsys.readouterr().err
    assert "1 fact written" in said and "2 facts are left out" in said and len(out.read_text().splitlines()) == 2
    assert run("build", "facts", folder, "--out", out, "--json") == 0
    assert json.loads(capsys.readouterr().out)["facts"] == read_json(f"{out}.manifest.json")["counts"]["facts"] == 1


def test_the_default_preset_is_told_of_the_command_that_has_it():
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    of = [commands["build"].commands[name] for name in ("facts", "timestress")] + [
        commands["wikidata"].commands["explain"]
    ]
    said = [next(p.help for p in one.params if p.name == "preset") for one in of]
    assert ["dated" in text for text in said] == [True, False, False]


@pytest.mark.slow
def test_ray_gives_the_same_bytes(snapshot: Path, tmp_path: Path):
    pytest.importorskip("ray", reason="needs the extra ray")
    for name, options in (("here", []), ("ray", ["--ray", "local", "--workers", "2"])):
        assert run("build", "facts", snapshot, "--out", tmp_path / f"{name}.parquet", *options) == 0
    assert (tmp_path / "here.parquet").read_bytes() == (tmp_path / "ray.parquet").read_bytes()


@pytest.mark.full
def test_statements_are_read_back_and_audited(questions: Path, tmp_path: Path, capsys):
    out = tmp_path / "set.parquet"
    assert run("build", "statements", questions, "--out", out, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    raw = pl.read_parquet(out)
    assert tuple(raw.columns) == (*PUBLISHED, "SubjectPop", "ObjectPop", "SubjectFrom", "ObjectFrom", "Questions")
    data = load_dataset(str(out))
    assert data.facts == printed["facts"] == 4 and data.boundaries == "released"
    assert data.table.equals(make_statements(facts_with_questions(read_questions(questions))))
    known = data.table.filter(pl.col("object_label") == "Barack Obama").row(0, named=True)
    assert (known["subject_from"], known["object_from"], known["object_popularity"]) == ("1776", "1961-08-04", 400_000)
    assert run("audit", out, "--tokenizer", "demo", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["statements"] == data.table.height
    assert not any(found[name] for name in ("unscorable", "answer_in_prompt", "status_differs", "alpha_differs"))


def test_contexts_in_other_periods_are_left_out(questions: Path, tmp_path: Path):
    out = tmp_path / "set.parquet"
    assert run("build", "statements", questions, "--out", out) == 0
    table = load_dataset(str(out)).table.filter(pl.col("object_label") == "United", pl.col("time").is_not_null())
    periods = [Period("1997", "2000"), Period("2004", "2012")]
    assert set(table["start"]) == {"1997", "2004"}
    for row in table.iter_rows(named=True):
        (other,) = [p for p in periods if str(p.start) != row["start"]]
        assert row["status"] != "incorrect" or not other.meets(Date.parse(row["time"]))
    years = table.filter(start="2004", granularity="year")["time"].to_list()
    assert "1996" in years and "2001" in years and not {"1997", "1998", "1999", "2000"} & set(years)


def test_every_option_of_statements_reaches_the_data_set(questions: Path, tmp_path: Path):
    plain, other = tmp_path / "plain.csv", tmp_path / "other.jsonl"
    assert run("build", "statements", questions, "--out", plain) == 0
    options = ["--boundaries", "paper", "--seed", 3, "--until", 2015, "--style", "classic", "--sample", 2]
    assert run("build", "statements", questions, "--out", other, *options) == 0
    a, b = load_dataset(str(plain)), load_dataset(str(other))
    assert (a.boundaries, b.boundaries) == ("released", "paper")
    assert b.facts == 2 and set(b.table["fact_id"]) == set(sorted(set(a.table["fact_id"]))[:2])
    assert [max(Date.parse(t).year for t in d.table["time"].drop_nulls()) for d in (a, b)] == [2020, 2015]
    assert b.table["prompt"].str.contains(r"^On \d+ [A-Z][a-z]+ \d{4}, ").any()
    same_day = tmp_path / "same.parquet"
    assert run("build", "statements", questions, "--out", same_day, "--sampling", "robustness-2025") == 0
    assert "discarded" not in load_dataset(str(same_day)).table["status"]


def test_the_last_year_asked_about_is_the_last_that_facts_could_end_in(snapshot: Path, tmp_path: Path, capsys):
    facts, out = tmp_path / "later.parquet", tmp_path / "set.parquet"
    assert run("build", "facts", snapshot, "--out", facts, "--ended-before", 2025) == 0
    questions = ask(facts, tmp_path / "questions.parquet")

    def last(*options: object) -> int:
        assert run("build", "statements", questions, "--out", out, *options) == 0
        years = load_dataset(str(out)).table["time"].drop_nulls().map_elements(lambda t: Date.parse(t).year, pl.Int64)
        assert read_json(f"{out}.manifest.json")["parameters"]["until"] == years.max()
        return years.max()  # type: ignore[return-value]

    assert (last(), last("--until", 2022), last("--sampling", "robustness-2025")) == (2024, 2022, 2024)
    assert "the last year asked about is 2024" in capsys.readouterr().err
    Path(f"{facts}.manifest.json").unlink()  # nobody knows any more
    assert last() == 2020
    assert [last_year(year) for year in (2021, 1, -43)] == [2020, -1, -44]


def test_statistics_against_plain_loops():
    facts_of_mini = [m.fact for m in mini_facts() if m.probed][:12]
    table = make_statements([FactWithQuestion(fact, "who was it?") for fact in facts_of_mini], boundaries="paper")
    rows, found = table.to_dicts(), statistics(table)
    facts = {r["fact_id"]: r for r in rows}
    by: dict[tuple[str, str], list[str]] = defaultdict(list)
    for r in rows:
        by[r["fact_id"], r["granularity"]].append(r["status"])
    assert found["facts"] == 12 and found["statements"] == len(rows)
    assert found["entities"] == len({r["subject_label"] for r in rows} | {r["object_label"] for r in rows})
    for status in ("correct", "incorrect", "transitional", "discarded"):
        mean = sum(s.count(status) for s in by.values()) / len(by)
        assert found[f"{status} contexts a fact and granularity"] == pytest.approx(mean)
    matches = [s.count("correct") * s.count("incorrect") for s in by.values()]
    assert found["matches (tests) a fact and granularity"] == pytest.approx(sum(matches) / len(by))
    words = [len(r["prompt"].split(" ")) for r in rows if r["time"] is not None]
    assert found["words a dated question"] == pytest.approx(sum(words) / len(words))
    chances = {key: 1 / comb(s.count("correct") + s.count("incorrect"), s.count("correct")) for key, s in by.items()}
    years = [chance for (_, granularity), chance in chances.items() if granularity == "year"]
    assert found["robustness of a random scorer, year"] == pytest.approx(sum(years) / 12)
    assert found["largest chance of a random scorer to be robust on a fact"] == max(chances.values())
    for side in ("start", "end"):
        parts = [str(r[side]).lstrip("-").count("-") for r in facts.values()]
        for dashes, name in enumerate(("year", "month", "day")):
            assert found[f"share of facts whose {side} is known to the {name}"] == parts.count(dashes) / 12


def test_how_popularity_goes_with_the_length_of_a_period():
    """TimeStress in French, 4.2: longer facts are less popular. Against NumPy."""
    lengths, views = (3, 30, 12, 5, 8), (900.0, 10.0, 60.0, 300.0, None)
    asked = [
        FactWithQuestion(
            Fact(f"s{n}", "r", f"o{n}", Period(1950, 1950 + years - 1), popularity=popularity), "who was it?"
        )
        for n, (years, popularity) in enumerate(zip(lengths, views, strict=True))
    ]
    found = statistics(make_statements(asked))["correlation of ln popularity and ln length of the period"]
    days = [Date(1950 + years - 1).last_day - Date(1950).first_day + 1 for years in lengths[:4]]
    expected = np.corrcoef(np.log(days), np.log(views[:4]))[0, 1]
    assert found == pytest.approx(expected) and found < -0.9
    assert "correlation of ln popularity and ln length of the period" not in statistics(make_statements(asked[:2]))


def test_the_card_tells_numbers_and_steps(questions: Path, tmp_path: Path):
    out = tmp_path / "set.parquet"
    assert run("build", "statements", questions, "--out", out) == 0
    text = (tmp_path / "set.parquet.card.md").read_text("utf-8")
    assert text.startswith("# Dated statements: set.parquet\n")
    assert "| facts | 4 | 2,003 | 600 |" in text and "| relations | 2 | 86 | 6 |" in text
    assert "| incorrect contexts a fact and granularity |" in text and "| 74 | 55.59 |" in text
    table = load_dataset(str(out)).table
    sample = text.split("## A sample\n\n")[1].split("\n## ")[0].splitlines()[2:]
    statements = {
        (f"{r['subject_label']}, {r['relation_label']}, {r['object_label']} ({r['start']} to {r['end']})", r["time"],
         r["status"], f"{r['prompt']} {r['answer']}")
        for r in table.to_dicts()
    }  # fmt: skip
    shown = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in sample if line.startswith("|")]
    assert len(shown) == table["relation_label"].n_unique() and set(shown) <= statements
    # TimeStress v1, table 2
    assert re.search(r"\| matches \(tests\) a fact and granularity \| [\d,.]+ \| - \| 638\.27 \|", text)
    assert re.search(r"\| words a dated question \| [\d.]+ \| - \| 15\.16 \|", text)
    assert "| length | 5 | 1: it lasts less than 1,140 days | 4 | 2 |" in text
    assert (
        '### wikidata ingest\n\n- dump: `"made.json"`\n' in text
        and '- date: `"2021-01-04"`\n- wiki: `"enwiki"`' in text
    )
    assert "- limit" not in text and "- items: 5\n- kept: 2\n- properties: 2\n- statements: 5\n" in text
    assert (
        text.index("### wikidata ingest")
        < text.index("### build facts")
        < text.index("### verbalize")
        < text.index("### build statements")
    )
    assert "| member of sports team | P54 | 3 |" in text and "Boundaries `released`" in text
    assert [m["command"] for m in history(out)] == ["wikidata ingest", "build facts", "verbalize", "build statements"]
    with (tmp_path / "facts.parquet").open("ab") as file:  # no longer what went in
        file.write(b"x")
    assert [m["command"] for m in history(out)] == ["verbalize", "build statements"]
    with pytest.raises(DataError, match="no statements"):
        card("empty", load_dataset(str(out)).table.head(0), "released", [])


def test_every_file_has_a_card_of_its_own(questions: Path, tmp_path: Path, capsys):
    for name, sample in (("set.parquet", 3), ("set.csv", 1)):
        assert run("build", "statements", questions, "--out", tmp_path / name, "--sample", sample, "--json") == 0
        assert json.loads(capsys.readouterr().out)["card"] == str(tmp_path / f"{name}.card.md")
    for name, sample in (("set.parquet", 3), ("set.csv", 1)):
        text = (tmp_path / f"{name}.card.md").read_text("utf-8")
        assert text.startswith(f"# Dated statements: {name}\n") and f"| facts | {sample} |" in text


@pytest.mark.full
def test_scores_carry_what_is_known_of_subject_and_object(questions: Path, tmp_path: Path):
    out = tmp_path / "set.parquet"
    assert run("build", "statements", questions, "--out", out, "--sample", 1) == 0
    assert run("probe", "demo", "--dataset", out, "--out", tmp_path / "run") == 0
    scores = pl.read_parquet(tmp_path / "run" / "scores.parquet")
    known = load_dataset(str(out)).table
    more = [name for name in ("subject_popularity", "object_popularity", "subject_from") if name in known.columns]
    assert more and scores.select(more).equals(known.select(more))


def test_explain_prints_a_table_or_json(snapshot: Path, tmp_path: Path, capsys):
    assert run("wikidata", "explain", snapshot, "Q100", "--preset", "robustness-2025") == 0
    printed = capsys.readouterr()
    assert "kept as fact" in printed.out and "dropped at one period" in printed.out
    assert "1 of 4 statements of Q100 are kept" in printed.err
    facts = tmp_path / "facts.parquet"
    assert run("build", "facts", snapshot, "--out", facts, "--several-periods", "keep", "--min-popularity", 25) == 0
    capsys.readouterr()
    assert run("wikidata", "explain", snapshot, "Q100", "--facts", facts, "--property", "P54", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["entity"]["label"], found["kept"]) == ("Ann Lee", 1)
    assert [s["step"] for s in found["statements"]] == [None, "popularity", "popularity", "length"]
    assert run("wikidata", "explain", snapshot, "Q76") == 0
    assert "0 of 0 statements of Q76" in capsys.readouterr().err


@pytest.mark.full
def test_real_statements_are_counted_as_their_json_says(tmp_path: Path, capsys):
    source = SHARED / "opentapioca_short_stream.json.bz2"
    if not source.is_file():
        pytest.skip("the folder with real Wikidata files is not there")
    items: dict[str, dict] = {}
    for line in bz2.decompress(source.read_bytes()).splitlines():
        item = json.loads(line)
        items.setdefault(item["id"], item)  # of an item that the stream repeats, the first is read
    claims = [(id, claim) for id, item in items.items() for group in dict(item["claims"]).values() for claim in group]
    left = {"ranks": [(id, c) for id, c in claims if c["rank"] != "deprecated"]}
    dropped = {"url", "external-id", "commonsMedia", "globe-coordinate"}
    left["datatypes"] = [(id, c) for id, c in left["ranks"] if c["mainsnak"]["datatype"] not in dropped]
    left["known values"] = [(id, c) for id, c in left["datatypes"] if c["mainsnak"]["snaktype"] == "value"]
    left["restricted statements"] = [(i, c) for i, c in left["known values"] if "P447" not in c.get("qualifiers", {})]
    dated = []
    for id, claim in left["restricted statements"]:
        value, qualifiers = claim["mainsnak"]["datavalue"], claim.get("qualifiers", {})
        if value["type"] == "wikibase-entityid" and {"P580", "P582"} & set(qualifiers):
            sides = [qualifiers.get(p, []) for p in ("P580", "P582")]
            times = [
                [(s["snaktype"], s.get("datavalue", {}).get("value", {}).get("time")) for s in side] for side in sides
            ]
            dated.append((id, claim["mainsnak"]["property"], value["value"]["id"], times))
    left["dated relations of entities"] = dated
    left["one period"] = [a for a in dated if all(b is a or a[:3] != b[:3] for b in dated)]
    closed = [row for row in left["one period"] if all(side and side[0][0] == "value" for side in row[3])]
    left["closed periods"] = closed
    folder = tmp_path / "snapshot"
    options = ["--date", "2019-04-02", "--out", folder, "--wiki", "all", "--buckets", 3]
    assert run("wikidata", "ingest", source, *options) == 0
    selected = select_facts(open_snapshot(folder), Selection(popularity=False))
    kept = {step["step"]: step["statements_kept"] for step in selected.steps}
    assert {name: kept[name] for name in left} == {name: len(rows) for name, rows in left.items()}
    assert selected.steps[0]["statements_in"] == len(claims)
    assert kept["length"] == 4 and "the relation has no label" in emptied_by(selected.steps)
    capsys.readouterr()
    assert run("build", "facts", folder, "--out", tmp_path / "facts.parquet", "--no-popularity") == 2
    assert "'labels' dropped the last 4 statements (4 because the relation has no label)" in capsys.readouterr().err


def test_explain_refuses_a_cut_by_other_page_views(snapshot: Path, tmp_path: Path, capsys):
    views, facts = snapshot / "popularity.parquet", tmp_path / "facts.parquet"
    assert run("build", "facts", snapshot, "--out", facts) == 0
    assert run("build", "facts", snapshot, "--out", tmp_path / "all.parquet", "--no-popularity") == 0
    pl.read_parquet(views).with_columns(pl.col("popularity") * 2).write_parquet(views)
    for change in (lambda: None, views.unlink):
        change()
        assert run("wikidata", "explain", snapshot, "Q100", "--facts", facts) == 2
        assert "was cut by other page views" in capsys.readouterr().err
        assert run("wikidata", "explain", snapshot, "Q100", "--facts", tmp_path / "all.parquet") == 0
        capsys.readouterr()


def damage(path: Path, how: str) -> None:
    """Cut a file off, or leave its end and spoil what it holds."""
    whole = path.read_bytes()
    middle = len(whole) // 3
    path.write_bytes(
        whole[: len(whole) // 2] if how == "cut off" else whole[:4] + b"\xff" * middle + whole[4 + middle :]
    )


@pytest.mark.parametrize("how", ["cut off", "spoilt"])
@pytest.mark.parametrize("name", ["popularity", "classes", "properties", "entities/part-000", "statements/part-000"])
def test_damaged_tables_are_named_with_what_to_do(name: str, how: str, tmp_path: Path, capsys):
    folder = write_snapshot(
        tmp_path / "snapshot", PEOPLE, HELD, [property_("P35", classes=["Q1"])], [("Q1", "Q2")], VIEWS, buckets=1
    )
    damage(folder / f"{name}.parquet", how)
    remedy = "wikidata pageviews" if name == "popularity" else "ingest"
    for words in (["build", "facts", folder, "--out", tmp_path / "f.parquet"],
                  ["wikidata", "explain", folder, "Q100", "--min-popularity", 1]):  # fmt: skip
        assert run(*words) == 2
        line = capsys.readouterr().err.strip().splitlines()[-1]  # behind what is said of missing properties
        assert line.startswith("error: ") and "unexpected" not in line and "cannot" in line and "read" in line
        assert remedy in line and name.partition("/")[0] in line
    assert not (tmp_path / "f.parquet").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("options"), lambda m: m.pop("counts"), lambda m: m["options"].pop("wiki"),
        lambda m: m["options"].update(buckets="x"), lambda m: m["options"].update(buckets=0),
    ],
)  # fmt: skip
def test_a_manifest_that_says_too_little_is_refused(change, snapshot: Path, tmp_path: Path, capsys):
    manifest = read_json(snapshot / "manifest.json")
    change(manifest)
    (snapshot / "manifest.json").write_text(json.dumps(manifest))
    assert run("build", "facts", snapshot, "--out", tmp_path / "f.parquet") == 2
    assert "manifest.json does not say its wiki, buckets and counts" in capsys.readouterr().err


def test_explain_refuses_facts_of_something_else(snapshot: Path, tmp_path: Path, capsys):
    facts = tmp_path / "facts.parquet"
    assert run("build", "facts", snapshot, "--out", facts, "--no-popularity") == 0
    other = write_snapshot(tmp_path / "other", PEOPLE, HELD[:2], PROPERTIES)
    for words, code, message in (
        ([other, "Q100", "--facts", facts], 2, "was not selected from"),
        ([snapshot, "Q100", "--facts", tmp_path / "none.parquet"], 2, "none.parquet.manifest.json"),
        ([snapshot, "Q100", "--facts", facts, "--no-popularity"], 2, "brings its own thresholds"),
        ([snapshot, "Q999"], 2, "Q999 is not in"),
        ([snapshot, "Ann"], 2, "'Ann' is not an item id"),
        ([other, "Q100", "--min-popularity", "5"], 2, "wikidata pageviews"),
    ):
        assert run("wikidata", "explain", *words) == code
        assert message in capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["facts", "nowhere", "--out", "f.parquet"], 2, "nowhere: no such snapshot folder"),
        (["facts", ".", "--out", "f.parquet"], 2, "no manifest.json"),
        (["facts", "snapshot", "--out", "f.txt"], 2, "write .csv for check, .parquet or .jsonl"),
        (["facts", "snapshot", "--out", "f.parquet", "--preset", "mine"], 2, "choose one of timestress"),
        (
            ["facts", "snapshot", "--out", "f.parquet", "--relations", "P35,employer"],
            2,
            "'employer' is not a property id",
        ),
        (
            ["facts", "snapshot", "--out", "f.parquet", "--no-popularity", "--min-popularity", "3"],
            2,
            "needs popularity",
        ),
        (
            ["facts", "snapshot", "--out", "f.parquet", "--preset", "robustness-2025", "--more-than", "3"],
            2,
            "more than 3 needs a search, and top per relation 100 decides",
        ),
        (
            ["facts", "snapshot", "--out", "f.parquet", "--min-popularity", "5", "--more-than", "3"],
            2,
            "more than 3 needs a search, and min popularity 5 fixes",
        ),
        (
            ["facts", "snapshot", "--out", "f.parquet", "--no-popularity", "--popularity-step", "3"],
            2,
            "popularity step 3.0 needs popularity, which is turned off",
        ),
        (
            ["facts", "snapshot", "--out", "f.parquet", "--top-per-relation", "3", "--highest-popularity", "9"],
            2,
            "highest popularity 9.0 needs a search, and top per relation 3 decides",
        ),
        (
            ["facts", "snapshot", "--out", "f.parquet", "--ended-before", "1900"],
            2,
            "'ended before 1900' dropped the last",
        ),
        (["facts", "snapshot", "--out", "f.parquet", "--relations", "P6"], 2, "'relations' dropped the last 5"),
        (["facts", "snapshot", "--out", "f.parquet", "--min-popularity", "1e9"], 2, "less popular than the threshold"),
        (["facts", "snapshot", "--out", "f.parquet", "--workers", "0"], 2, "give at least 1"),
        (["statements", "nowhere.parquet", "--out", "s.parquet"], 2, "nowhere.parquet: no such file"),
        (["statements", "facts.parquet", "--out", "s.parquet"], 2, "lacks the column question; verbalize"),
        (["statements", "questions.parquet", "--out", "s.txt"], 2, "unknown ending '.txt'"),
        (["statements", "questions.parquet", "--out", "s.csv", "--sampling", "x"], 2, "choose one of timestress"),
        (["statements", "questions.parquet", "--out", "s.csv", "--boundaries", "x"], 2, "choose 'released' or 'paper'"),
        (["statements", "questions.parquet", "--out", "s.csv", "--style", "x"], 2, "choose one of american"),
        (
            ["statements", "questions.parquet", "--out", "s.csv", "--style", "german"],
            2,
            "are English, and dates in German",
        ),
        (["statements", "questions.parquet", "--out", "s.csv", "--sample", "0"], 2, "1 or more"),
        (["statements", "broken.jsonl", "--out", "s.csv"], 2, "broken.jsonl: row 1: '1990-13' is not a date"),
        (["statements", "empty.jsonl", "--out", "s.csv"], 2, "row 1: question ' ' is empty"),
        (["statements", "unmarked.jsonl", "--out", "s.csv"], 2, "row 1: question 'he was.' must end with '?'"),
        (["statements", "twice.jsonl", "--out", "s.csv"], 2, "row 2: the same fact as row 1 (A, B)"),
        (
            ["statements", "questions.parquet", "--out", "questions.parquet"],
            2,
            "is the input itself, which QUESTIONS names",
        ),
        (["facts", "snapshot", "--out", "snapshot/facts.parquet"], 2, "lies in the snapshot itself"),
        # of a topic all of this is said before anything is fetched: there is no contact, which would be asked for
        (["facts", "--topic", "Q30", "--out", "f.txt"], 2, "write .csv for check, .parquet or .jsonl"),
        (["facts", "--topic", "Q30", "--out", "f.parquet", "--still-held"], 2, "write a .csv with build facts"),
        (["updates", "--topic", "Q30", "--old-date", "2024-01-01", "--out", "u.csv"], 2, "updates hold lists"),
    ],
)
def test_wrong_use_is_one_line(words, code, message, questions, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANACHRON_CONTACT", raising=False)
    row = {"subject_label": "A", "relation_label": "r", "object_label": "B", "start": "1990-13", "end": "1999"}
    Path("broken.jsonl").write_text(json.dumps(row | {"question": "who?"}))
    Path("empty.jsonl").write_text(json.dumps(row | {"question": " "}))
    Path("unmarked.jsonl").write_text(json.dumps(row | {"question": "he was."}))
    Path("twice.jsonl").write_text((json.dumps(row | {"start": "1990", "question": "who?"}) + "\n") * 2)
    before = set(tmp_path.iterdir())
    assert run("build", *words) == code
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ") and message in error
    assert set(tmp_path.iterdir()) == before
