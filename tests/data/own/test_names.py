"""Names that look the same are one name, wherever names are grouped, matched, counted or searched."""

import unicodedata
from pathlib import Path

import polars as pl
import pytest

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.core.sameness import code_points
from anachron.data.own.files import read_given_facts
from anachron.data.updates.case_records import EditCase, NeighbourFact, wrong_object
from anachron.data.updates.cases import draw_random, with_successions
from anachron.evaluate.measures.scenarios import other_objects
from anachron.probe.ask.matching import mentioned
from anachron.probe.check.questions import read_facts
from anachron.probe.horizon.changes import Change, changes_of_facts, with_values_before
from anachron.text.openings import mention
from anachron.text.questions import question_fault
from anachron.wikidata.updates.groups import Sieve, without_duplicates

AS_OF = "2025-11-22"
PLAIN = {"subject": "Brésil", "relation": "head of state", "object": "José Sarney"}
SPELLINGS = {
    "letter case": str.upper,
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "zero-width space": lambda text: text[:2] + "\u200b" + text[2:],
    "left-to-right mark": lambda text: text + "\u200e",
    "soft hyphen": lambda text: text[:3] + "\u00ad" + text[3:],
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
}


def facts_in(folder: Path, **other: str) -> Path:
    """Three heads of state in three rows, the last two with another spelling of some of their names."""
    named = PLAIN | other
    rows = [
        (PLAIN["subject"], PLAIN["relation"], "João Figueiredo", "1979-03-15", "1985-03-15"),
        (PLAIN["subject"], PLAIN["relation"], PLAIN["object"], "1985-03-15", "1990-03-15"),
        (named["subject"], named["relation"], named["object"], "1995-01-01", ""),
    ]
    path = folder / "facts.csv"
    path.write_text("subject,relation,object,start,end\n" + "".join(",".join(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize("kind", SPELLINGS)
@pytest.mark.parametrize("side", PLAIN)
def test_two_spellings_of_a_name_in_a_file_are_one(tmp_path: Path, kind: str, side: str) -> None:
    """The facts, and what a check asks, are those of the same file in one spelling, but for the rows as written."""
    plain = read_facts(facts_in(tmp_path), as_of=AS_OF)
    other = SPELLINGS[kind](PLAIN[side])
    spelled = read_facts(facts_in(tmp_path, **{side: other}), as_of=AS_OF)
    assert [(one.fact, one.also_held, one.other_objects) for one in spelled.given] == [
        (one.fact, one.also_held, one.other_objects) for one in plain.given
    ]
    assert len(plain.given) == 2 and plain.given[1].periods[1].end is None
    assert spelled.questions == plain.questions and spelled.data.table.equals(plain.data.table)
    if " ".join(other.split()) != PLAIN[side]:
        notes = [note for note in spelled.data.notes if "are read as one name" in note]
        assert len(notes) == 1 and code_points(other) in notes[0] and code_points(PLAIN[side]) in notes[0]


@pytest.mark.parametrize(("one", "other"), [("Weiß", "Weiss"), ("İzmir", "izmir"), ("Pelé", "Pele"), ("ılık", "ilik")])
def test_names_that_only_resemble_each_other_stay_two(tmp_path: Path, one: str, other: str) -> None:
    path = tmp_path / "facts.csv"
    path.write_text(f"subject,relation,object,start,end\nA,mayor,{one},1990,2000\nA,mayor,{other},2000,\n", "utf-8")
    read = read_given_facts(path)
    assert [fact.fact.object for fact in read.facts] == [one, other] and not read.notes
    assert [fact.other_objects for fact in read.facts] == [1, 1]


def test_of_many_spelled_twice_five_are_shown_and_all_counted(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    rows = [
        f"{name} {n},capital,C,{start},{end}"
        for n in range(40)
        for name, start, end in (("S", 1990, 1999), ("s", 2005, ""))
    ]
    path.write_text("\n".join(["subject,relation,object,start,end", *rows]))
    read = read_given_facts(path)
    assert len(read.facts) == 40
    assert (
        len(read.notes) == 6
        and read.notes[-1] == "and more: in all 40 names are spelled in several ways and read as one"
    )


@pytest.mark.parametrize("kind", SPELLINGS)
def test_questions_that_a_sheet_makes_of_its_names_are_one_question(tmp_path: Path, kind: str) -> None:
    spelled = SPELLINGS[kind]("São Tomé")
    rows = [
        f"{name},leader,{who},{start},{end},who led {name}?,who leads {name}?"
        for name, who, start, end in (
            ("São Tomé", "Ana", 1990, 1999),
            (spelled, "Ana", 2003, 2005),
            (spelled, "Rui", 2006, ""),
        )
    ]
    path = tmp_path / "facts.csv"
    path.write_text("\n".join(["subject,relation,object,start,end,question,present_question", *rows]), "utf-8")
    (question,) = read_facts(path, as_of=AS_OF).questions
    assert question.asked and question.question == "who leads São Tomé?"
    first = read_given_facts(path).facts[0]  # of two rows; what is written again is one question too
    assert first.values["present_question"] == first.present_question == "who leads São Tomé?"
    assert first.values["subject"] == first.fact.subject and first.values["question"] == "who led São Tomé?"


def test_an_alias_in_another_spelling_of_a_rival_tells_nothing_apart(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text(
        "subject,relation,object,start,end,aliases\n"
        "A,capital,Old,1990,2000,Shared name\nA,capital,New,2000,,SHARED\u00a0NAME|Newer\n",
        "utf-8",
    )
    (question,) = read_facts(path, as_of=AS_OF).questions
    assert [one.names for one in question.objects] == [("Old",), ("New", "Newer")]


@pytest.mark.parametrize("kind", SPELLINGS)
def test_a_question_names_its_subject_and_gives_its_answer_away_in_any_spelling(kind: str) -> None:
    subject, answer = "São Tomé Island", "José Sarney"
    spelled = SPELLINGS[kind]
    assert question_fault(f"who led {spelled(subject)}?", subject, answer) is None
    fault = question_fault(f"was {spelled(answer)} the leader of {subject}?", subject, answer)
    assert fault is not None and fault[0] == "answer in question"
    assert mentioned(f"It was {spelled(answer)}.", {answer: 1}) == {1}


@pytest.mark.parametrize("kind", SPELLINGS)
def test_a_prompt_mentions_a_name_in_any_spelling_and_only_as_a_whole_word(kind: str) -> None:
    written = SPELLINGS[kind]("José Sarney")
    text = f"José Sarneys heir, {written}, ruled"
    start, end = mention(text, "José Sarney") or (0, 0)
    assert text[start:end].strip("\u200e") == written.strip("\u200e")
    assert mention(f"x{written}x", "José Sarney") is None


def test_a_name_in_capitals_is_no_word_of_small_letters() -> None:
    assert mention("who is the head of it?", "WHO") is None and mention("tell us", "US") is None
    assert mention("the capital of kazakhstan is", "Kazakhstan") == (15, 25)
    assert mention("THE CAPITAL OF KAZAKHSTAN IS", "Kazakhstan") == (15, 25)


@pytest.mark.parametrize("kind", SPELLINGS)
def test_changes_of_the_world_are_found_across_spellings(kind: str) -> None:
    spelled = SPELLINGS[kind]
    facts = [
        Fact("São Tomé", "head of state", "Ana Sá", Period("2001-01-01", "2010-01-01")),
        Fact(spelled("São Tomé"), spelled("head of state"), spelled("Ana Sá"), Period("2010-01-01", "2015-06-01")),
        Fact("São Tomé", "head of state", "Rui Pé", Period("2015-06-01", None)),
        Fact("São Tomé", spelled("head of state"), spelled("Rui Pé"), Period("2015-06-01", None)),
    ]
    (change,) = changes_of_facts(facts)
    assert str(change.date) == "2015-06-01" and change.new == "Rui Pé" and change.before == ()
    first = Change("São Tomé", "head", "A", "B", Date.parse("2001-01"))
    later = Change(spelled("São Tomé"), spelled("head"), spelled("B"), "C", Date.parse("2005-01"))
    assert [one.before for one in with_values_before([first, later])] == [(), ("A",)]


@pytest.mark.parametrize("kind", SPELLINGS)
def test_updates_and_their_neighbours_know_a_name_in_any_spelling(kind: str) -> None:
    spelled = SPELLINGS[kind]
    near = NeighbourFact("The capital of X is", (spelled("São Paulo"), "Rio"), 0.1, None, spelled("São Tomé"))
    case = EditCase(
        "1", "São Tomé", "The capital of São Tomé is", "São Paulo", "Old", nearest=(near,),
        scenario="ReplaceObject", relation="P36", objects=(("São Paulo", "new"), ("Old", "obsolete")),
    )  # fmt: skip
    assert wrong_object(case, near) is None and other_objects(case) == ("Rio",)
    assert list(draw_random([case], None, 0)) == [()]  # its only fact is about itself
    table = pl.DataFrame(
        {"group": [1, 1], "label": ["new", "static"], "object_label": ["São Paulo", spelled("São Paulo")]}
    )
    sieve = Sieve(table)
    without_duplicates(sieve)
    assert sieve.triples.height == 1


def test_a_succession_is_told_across_spellings() -> None:
    def case(subject: str, old: str, new: str, start: str) -> EditCase:
        return EditCase(
            start, subject, f"Head of {subject}:", new, old, scenario="ReplaceObject", relation="P35",
            start=start, old_start="2000-01-01",
        )  # fmt: skip

    first, _ = with_successions(
        [case("São Tomé", "Ana", "Rui", "2010-05-01"), case("SA\u0303O TOMÉ", "ANA", "Eva", "2007-01-01")]
    )
    assert first.old_end == "2007-01-01"


@pytest.mark.parametrize("side", PLAIN)
def test_a_name_of_invisible_characters_alone_is_empty(tmp_path: Path, side: str) -> None:
    with pytest.raises(DataError, match=rf"row 3, {side}: .*empty|row 3, {side}: '' is empty"):
        read_given_facts(facts_in(tmp_path, **{side: "\u200b\u00ad"}))
