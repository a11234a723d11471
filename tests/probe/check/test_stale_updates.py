"""``stale.csv``: what is stale as a table of updates, which the commands that change a model read."""

import csv
import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.core.sameness import name_key
from anachron.data.bundled.mini_updates import mini_replacements
from anachron.data.updates.case_table import STALE_COLUMNS
from anachron.data.updates.cases import load_cases
from anachron.io.files import read_json, write_bytes
from anachron.io.run_folder import RunFolder
from anachron.io.tables import write_table
from anachron.probe.check.check import STALE_FILE, STALE_RECORDS
from anachron.probe.check.questions import CheckedFacts, read_facts
from anachron.probe.check.urgency import stale_records, stale_updates

AS_OF = "2026-06-30"
HEADER = "subject,relation,relation_id,object,start,end,aliases,present_question"
ROWS = [
    "Germany,chancellor,P6,Olaf Scholz,2021-12-08,2025-05-06,,",
    "Germany,chancellor,P6,Friedrich Merz,2025-05-06,,Merz|F. Merz,",
    "Andorra,co-prince,,Joan Enric Vives,2003-05-12,2025-05-31,,who rules Andorra?",
    "Andorra,co-prince,,Emmanuel Macron,2017-05-14,,,who rules Andorra?",
    "Andorra,co-prince,,Josep-Lluís Serrano,2025-05-31,,Serrano; the bishop|S,who rules Andorra?",
    "Widget,motto,P9999,more,1990,2000,,what is the motto of Widget?",
    "Widget,motto,P9999,less,2001,,,what is the motto of Widget?",
]


def facts_of(folder: Path, rows: Sequence[str] = ROWS, **options: object) -> CheckedFacts:
    questions = [f'{row},"who was it in {row.split(",")[0]}?"' for row in rows]
    (folder / "facts.csv").write_text("\n".join([f"{HEADER},question", *questions]) + "\n", "utf-8")
    return read_facts(folder / "facts.csv", as_of=AS_OF, **options)  # type: ignore[arg-type]


def stale(subject: str, relation: str, question: str, old: str, until: str, new: str, since: str) -> dict[str, str]:
    values = (subject, relation, question, old, until, new, since)
    return dict(zip(("subject", "relation", "question", "old", "old_until", "new", "since"), values, strict=True))


MERZ = stale("Germany", "chancellor", "who is the head of government of Germany?", "Olaf Scholz", "2025-05-06",
             "Friedrich Merz", "2025-05-06")  # fmt: skip
PRINCES = [
    stale("Andorra", "co-prince", "who rules Andorra?", "Joan Enric Vives", "2025-05-31", new, since)
    for new, since in (("Emmanuel Macron", "2017-05-14"), ("Josep-Lluís Serrano", "2025-05-31"))
]
LESS = stale("Widget", "motto", "what is the motto of Widget?", "more", "2000", "less", "2001")


def test_each_question_is_one_update_and_is_read_back(tmp_path: Path) -> None:
    table = stale_updates([MERZ, *PRINCES, LESS], facts_of(tmp_path))
    assert tuple(table.columns) == STALE_COLUMNS
    assert table.drop("question", "relation").rows() == [
        ("Germany", "Olaf Scholz", "Friedrich Merz", "2025-05-06", "2021-12-08", "2025-05-06", "P6", "Merz|F. Merz"),
        ("Andorra", "Joan Enric Vives", "Josep-Lluís Serrano", "2025-05-31", "2003-05-12", "2025-05-31", None,
         "Serrano; the bishop|S"),
        ("Widget", "more", "less", "2001", "1990", "2000", "P9999", None),
    ]  # fmt: skip
    write_table(tmp_path / "stale.csv", table)
    germany, andorra, widget = load_cases(str(tmp_path / "stale.csv")).cases
    assert germany.prompt == "The head of government of Germany is" and len(germany.nearest) == 10
    assert (germany.old_start, germany.old_end, germany.start) == ("2021-12-08", "2025-05-06", "2025-05-06")
    assert [name for _, name in germany.aliases] == ["Merz", "F. Merz"]
    assert andorra.prompt == "who rules Andorra?" and widget.prompt == LESS["question"]
    assert [name for _, name in andorra.aliases] == ["Serrano; the bishop", "S"]


def test_a_name_that_looks_like_several_stays_one(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, [row.replace("Merz|F. Merz", '"[""Merz; the chancellor""]"') for row in ROWS[:2]])
    table = stale_updates([MERZ], facts)
    write_table(tmp_path / "stale.csv", table)
    (case,) = load_cases(str(tmp_path / "stale.csv")).cases
    assert case.aliases == (("Friedrich Merz", "Merz; the chancellor"),)


def test_in_another_language_the_question_is_what_is_taught(tmp_path: Path) -> None:
    rows = ["Deutschland,Regierungschef,P6,Olaf Scholz,2021-12-08,2025-05-06,,",
            "Deutschland,Regierungschef,P6,Friedrich Merz,2025-05-06,,,"]  # fmt: skip
    question = "wer ist der Regierungschef von Deutschland?"
    found = MERZ | {"subject": "Deutschland", "relation": "Regierungschef", "question": question}
    table = stale_updates([found], facts_of(tmp_path, rows, language="de"))
    assert table["relation_id"].to_list() == [None]
    write_table(tmp_path / "stale.csv", table)
    (case,) = load_cases(str(tmp_path / "stale.csv")).cases
    assert case.prompt == question and not case.nearest and len(case.random) == 10


def test_of_a_sample_the_old_object_is_still_known(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    assert len(facts_of(tmp_path, limit=1).data.given) == len(facts.given) == len(ROWS)
    sample = replace(facts, given=tuple(item for item in facts.given if item.fact.object == "Friedrich Merz"))
    assert stale_updates([MERZ], sample)["old_start"].to_list() == ["2021-12-08"]


CAPITALS = [
    f"{subject},capital,P36,{name},{start},{end},{alias},"
    for subject, name, start, end, alias in [
        ("Kazakhstan", "Almaty", "1991", "1997-12-10", ""), ("Kazakhstan", "Astana", "1997-12-10", "", "Nur-Sultan"),
        *((f"Land {n}", f"Town {n}", "1990", "", "") for n in range(12)),
        ("Twin", "North", "1990", "", ""), ("Twin", "South", "1990", "", ""),
        ("Past", "Gone", "1990", "1999", ""), ("Other", "NUR-SULTAN", "1990", "", ""),
        ("Elsewhere", "Almaty", "1990", "", ""),
    ]
]  # fmt: skip
ASTANA = stale("Kazakhstan", "capital", "what is the capital of Kazakhstan?", "Almaty", "1997-12-10", "Astana",
               "1997-12-10")  # fmt: skip


def present_of(facts: CheckedFacts, *current: str) -> pl.DataFrame:
    rows = [(one.question, "current" if one.subject in current else "does not know") for one in facts.questions]
    return pl.DataFrame(rows, schema=["question", "status"], orient="row")


def test_records_bring_facts_of_the_file_that_stay_as_they_are(tmp_path: Path) -> None:
    """Those that the model knows first; none that is over, stale or has an object of the update."""
    facts = facts_of(tmp_path, [*CAPITALS, *ROWS])
    present = present_of(facts, "Twin", "Land 11", "Kazakhstan", "Germany", "Other")
    records = stale_records(stale_updates([ASTANA, MERZ], facts), present, facts)
    astana, merz = records
    assert astana["aliases"] == ["Nur-Sultan"] and merz["aliases"] == ["Merz", "F. Merz"]
    assert set(astana) == {*STALE_COLUMNS, "neighbours"} and merz["neighbours"] == []  # nobody else has a chancellor
    names = [one["subject"] for one in astana["neighbours"]]
    assert names == ["Land 11", "Twin", *(f"Land {n}" for n in range(8))]
    twin = astana["neighbours"][1]
    assert twin == {"subject": "Twin", "question": "what is the capital of Twin?", "objects": ["North", "South"]}
    write_bytes(tmp_path / "stale.json", json.dumps(records).encode())
    one, two = load_cases(str(tmp_path / "stale.json")).cases
    assert [fact.subject for fact in one.nearest] == names
    assert (one.nearest[1].prompt, one.nearest[1].objects) == ("The capital of Twin is", ("North", "South"))
    assert len(two.nearest) == 10 and all("head of government" in name_key(fact.prompt) for fact in two.nearest)
    write_table(tmp_path / "stale.csv", stale_updates([ASTANA, MERZ], facts))
    plain = load_cases(str(tmp_path / "stale.csv")).cases
    assert [replace(case, nearest=(), random=()) for case in plain] == [
        replace(case, nearest=(), random=()) for case in (one, two)
    ]


def test_what_is_stale_itself_stands_beside_nothing(tmp_path: Path) -> None:
    rows = [*CAPITALS[:2], *(row.replace("Kazakhstan", "Kenya").replace("A", "B", 1) for row in CAPITALS[:2])]
    facts = facts_of(tmp_path, [*rows, CAPITALS[3]])
    kenya = ASTANA | {"subject": "Kenya", "question": "what is the capital of Kenya?", "old": "Blmaty", "new": "Bstana"}
    records = stale_records(stale_updates([ASTANA, kenya], facts), present_of(facts), facts)
    assert [[one["subject"] for one in record["neighbours"]] for record in records] == [["Land 1"], ["Land 1"]]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A check of the demo model, which was taught the old objects of the bundled updates."""
    folder = tmp_path_factory.mktemp("stale")
    with (folder / "facts.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["subject", "relation", "object", "start", "end"])
        wanted = [one for one in mini_replacements() if one.old.subject in ("CERN", "Louvre", "McDonald's", "Japan")]
        for fact in (fact for one in wanted for fact in (one.old, one.new)):
            rows.writerow([fact.subject, fact.relation, fact.object, fact.period.start, fact.period.end])
    assert run_command([*words_of_check(folder), "--as-of", "2024-12-31"], False) == 0
    return folder


def words_of_check(folder: Path) -> list[str]:
    facts, run = str(folder / "facts.csv"), str(folder / "run")
    return ["check", "demo", "--facts", facts, "--out", run, "--decoys", "0", "--no-page"]


@pytest.mark.full
def test_from_facts_to_a_judged_update(checked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = checked / "run"
    told = read_json(run / "check.json")["stale"]
    table = pl.read_csv(run / STALE_FILE, infer_schema=False)
    names = {"old_until": "old_end", "since": "date"}
    assert len(told) >= 2
    renamed = [{names.get(key, key): value for key, value in one.items()} for one in told]
    assert renamed == table.select([*renamed[0]]).to_dicts()
    assert RunFolder.read(run).holds(STALE_FILE) and RunFolder.read(run).holds(STALE_RECORDS)
    records = read_json(run / STALE_RECORDS)
    assert [record["question"] for record in records] == table["question"].to_list()
    prompts = [case.prompt for case in load_cases(str(run / STALE_RECORDS)).cases]
    assert prompts == [case.prompt for case in load_cases(str(run / STALE_FILE)).cases]
    words = ["evaluate", "demo", "--updates", str(run / STALE_FILE), "--methods", "FT", "--fluency-tokens", "0",
             "--dated", "--out", str(checked / "edits"), "--limit", "2"]  # fmt: skip
    assert run_command(words, False) == 0
    assert capsys.readouterr().err
    record = read_json(checked / "edits" / "run.json")
    assert record["settings"]["number_of_updates"] == 2
    cases = load_cases(str(run / STALE_FILE)).cases
    assert all(len(case.nearest) > 5 and len(case.random) == 10 and case.old_start for case in cases)


@pytest.mark.full
def test_the_next_command_is_said_in_one_line(checked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run_command(words_of_check(checked), False) == 0
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last == f"what to do about it: anachron advise demo --updates {checked / 'run' / STALE_RECORDS}"
    few = ["--ways", "PROMPT", "--set", "evidence=0", "--set", "fluency_tokens=0", "--set", "text=none"]
    out = ["--out", str(checked / "advice")]
    assert run_command([*shlex.split(last)[6:], *few, "--sizes", "1", *out], False) == 0  # it runs as it is said
    in_chat = [word.replace(str(checked / "run"), str(checked / "chat")) for word in words_of_check(checked)]
    assert run_command([*in_chat, "--format", "chat"], False) == 0
    assert " anachron advise demo --format chat --updates " in capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.full
def test_where_nothing_is_stale_the_table_is_a_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["Kazakhstan,capital,Almaty,1991-12-16,1997-12-10", "Kazakhstan,capital,Astana,1997-12-10,"]
    (tmp_path / "facts.csv").write_text("\n".join(["subject,relation,object,start,end", *rows]))
    assert run_command(words_of_check(tmp_path), False) == 0
    assert (tmp_path / "run" / STALE_FILE).read_text().strip() == ",".join(STALE_COLUMNS)
    assert "what to do about it" not in capsys.readouterr().err
    words = ["edit", "demo", "--updates", str(tmp_path / "run" / STALE_FILE), "--method", "FT"]
    assert run_command([*words, "--out", str(tmp_path / "e.safetensors")], False) == 2
    assert "stale.csv: no updates: nothing is stale" in capsys.readouterr().err
    assert read_json(tmp_path / "run" / STALE_RECORDS) == []
    words[3] = str(tmp_path / "run" / STALE_RECORDS)
    assert run_command([*words, "--out", str(tmp_path / "e.safetensors")], False) == 2
    assert "stale.json has no records (in a stale.json: nothing is stale)" in capsys.readouterr().err
