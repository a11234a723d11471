"""The file that holds the questions of which a rule was not sure: it is written, mended and given back."""

from pathlib import Path

import pytest

from anachron.data.own.files import read_given_facts
from anachron.data.own.statements import own_facts
from anachron.data.question_files import verbalise
from anachron.io.jobs import Callbacks
from anachron.io.tables import read_table, write_table
from anachron.probe.check.questions import read_facts

FACTS = """subject,relation,object,start,end,aliases,note
Russland,Präsident,Wladimir Putin,2000-05-07,2008-05-07,Putin|V. Putin,a
Russland,Präsident,Dmitri Medwedew,2008-05-07,2012-05-07,,
Russland,Präsident,Wladimir Putin,2012-05-07,,,b
Goldener Löwe,Präsident,Max Mustermann,2001,2010,,
Initech,Motivation,Geld,2001,2010,,
Initech,Lieblingsfarbe,Blau,2001,2010,,
"""


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "fakten.csv"
    path.write_text(FACTS, "utf-8")
    return path


def test_what_the_rules_are_unsure_of_is_told_and_can_be_mended(facts: Path, tmp_path: Path) -> None:
    made = own_facts(facts, as_of="2024-06-30", language="de")
    (note,) = made.notes
    assert note.startswith("2 questions were made by a rule that is not sure") and "questions.csv" in note
    assert "wer war der Präsident von Goldener Löwe?; was war die Motivation von Initech?" in note
    assert made.to_edit is not None and made.to_edit["sure"].to_list() == ["yes", "yes", "yes", "no", "no", None]
    assert made.to_edit.height == FACTS.count("\n") - 1, "one row a period, also of what cannot be asked"

    mended = tmp_path / "questions.csv"
    write_table(mended, made.to_edit)
    text = mended.read_text("utf-8").replace("von Goldener Löwe", "des Goldenen Löwen")
    mended.write_text(text, "utf-8")
    again = own_facts(mended, as_of="2024-06-30", language="de")
    assert again.to_edit is None and again.notes == ()
    assert "wer war der Präsident des Goldenen Löwen?" in again.about["question"].to_list()
    before, after = (dict(one.about.select("object", "question").iter_rows()) for one in (made, again))
    assert {key: value for key, value in after.items() if key != "Max Mustermann"} == {
        key: value for key, value in before.items() if key != "Max Mustermann"
    }
    assert [f.periods for f in read_given_facts(mended).facts] == [f.periods for f in read_given_facts(facts).facts]
    same = [f.fact.id for f in read_given_facts(facts).facts]
    assert [f.fact.id for f in read_given_facts(mended).facts] == same


def test_the_mended_questions_are_those_of_the_present_too(facts: Path, tmp_path: Path) -> None:
    made = read_facts(facts, as_of="2024-06-30", language="de")
    asked = {q.subject: q.question for q in made.questions}
    assert asked["Goldener Löwe"] == "wer ist der Präsident von Goldener Löwe?"
    assert made.data.to_edit is not None
    mended = tmp_path / "questions.csv"
    write_table(mended, made.data.to_edit)
    mended.write_text(mended.read_text("utf-8").replace("von Goldener Löwe", "des Goldenen Löwen"), "utf-8")
    asked = {q.subject: q.question for q in read_facts(mended, as_of="2024-06-30", language="de").questions}
    assert asked["Goldener Löwe"] == "wer ist der Präsident des Goldenen Löwen?"
    assert asked["Russland"] == "wer ist der Präsident von Russland?"


def test_a_file_whose_questions_are_sure_has_none_to_edit(facts: Path) -> None:
    facts.write_text("\n".join(FACTS.splitlines()[:4]), "utf-8")
    made = own_facts(facts, as_of="2024-06-30", language="de")
    assert made.to_edit is None and made.notes == ()


def test_verbalize_tells_of_them_as_well(facts: Path, tmp_path: Path) -> None:
    told: list[str] = []
    out = tmp_path / "fragen.jsonl"
    verbalise(facts, out, language="de", callbacks=Callbacks(notice=told.append))
    assert len(told) == 1 and told[0].startswith("2 questions") and str(out) in told[0]
    assert "was war die Motivation von Initech?" in read_table(out)["question"].to_list()
