"""Questions from templates and from what a model wrote: what passes, and under which name the rest is dropped."""

import contextlib
import csv
import json
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.periods import Period
from anachron.data.question_tables import (
    count_reasons,
    draw_sample,
    facts_table,
    facts_to_word,
    failures_table,
    questions_table,
    read_judged,
)
from anachron.text.questions import draw_question, fill_question, question_fault, relation_templates
from anachron.text.templates import FactToWord, Failed, Verbalised, by_templates
from anachron.text.verbalize import (
    INSTRUCTIONS,
    by_answer,
    example_for,
    fact_prompt,
    fact_to_word,
    middle_year,
    prompt_of,
    read_answer,
    relation_examples,
)

EXAMPLES = {
    row["relation"]: (row["subject"], row["object"])
    for row in csv.DictReader((Path(__file__).parent / "relation_examples.csv").read_text("utf-8").splitlines())
}
BUNDLED = 32  # relations of the bundled data set come first in the file, in its order; then the others by number
FACT = FactToWord("f1", "British India", "P36", "Kolkata", "capital", 1890)
WORDINGS = (
    "what was the capital of British India?",
    "which city served British India as its capital?",
    "from where was British India ruled?",
    "where did British India have its seat of government?",
)


def written(*questions: str, answer: str = "Kolkata", opening: str = "In 1890, ") -> str:
    entries = [{"question": opening + question, "answer": answer} for question in questions or WORDINGS]
    return json.dumps({"questions": entries}, ensure_ascii=False)


# Templates


def test_at_least_95_relations_have_templates_in_a_set_order():
    ids = list(relation_templates())
    assert len(ids) >= 95 and len(set(ids)) == len(ids)
    others = [int(relation[1:]) for relation in ids[BUNDLED:]]
    assert others == sorted(others)


def test_relations_of_the_papers_have_templates():
    named = {  # TimeStress v1, section 4.2; TimeStress, table 2 and its examples
        "P108": "employer", "P463": "member of", "P39": "position held", "P54": "member of sports team",
        "P35": "head of state", "P6": "head of government", "P27": "country of citizenship", "P26": "spouse",
        "P527": "has part(s)", "P451": "unmarried partner", "P361": "part of", "P17": "country", "P551": "residence",
        "P102": "member of political party", "P131": "located in the administrative territorial entity",
        "P36": "capital", "P38": "currency", "P127": "owned by",
    }  # fmt: skip
    assert {relation: relation_templates()[relation][0] for relation in named} == named


def test_every_relation_has_an_example():
    assert list(EXAMPLES) == list(relation_templates())


@pytest.mark.parametrize("relation", list(EXAMPLES))
def test_templates_filled_in_are_good_questions(relation: str):
    subject, answer = EXAMPLES[relation]
    for template in relation_templates()[relation][1]:
        question = fill_question(template, subject)
        assert question_fault(question, subject, answer, answer) is None
        bare = template.replace("[SUBJ]", "")
        assert not re.search(r"\b(he|she|his|her|hers|him|himself|herself|now|today|currently|still|ago)\b", bare)
        assert not re.search(r"\b(year|month|day|date|century|time when)\b|\d", bare), template
        assert "  " not in question and not re.search(r"\b(a) [aeiou]|\b(an) [^aeiouh]", bare), template
        assert re.match(r"([a-z]+ ){0,5}(who|whom|whose|what|which|where|how)\b", template), template


def test_a_fact_by_templates_is_drawn_by_its_id_and_the_seed():
    for seed in range(4):
        outcome = by_templates(FACT, seed)
        assert isinstance(outcome, Verbalised)
        assert outcome.questions == tuple(fill_question(t, FACT.subject) for t in relation_templates()["P36"][1])
        assert outcome.drawn == draw_question(outcome.questions, "f1", seed)


def test_the_article_follows_what_the_subject_is():
    def asked(relation: str, subject: str, kind: str | None) -> str:
        outcome = by_templates(FactToWord("f", subject, relation, "x", subject_kind=kind))
        assert isinstance(outcome, Verbalised)
        return outcome.questions[0]

    assert asked("P127", "Titanic", "ship") == "who owned the Titanic?"
    assert asked("P127", "Titanic", "work") == "who owned Titanic?"
    assert asked("P26", "Margaret Court", None) == "who was the spouse of Margaret Court?"
    assert asked("P1308", "President of Chile", "office") == "who held the office of President of Chile?"


def test_a_kind_that_is_none_is_refused():
    row = {"fact_id": "f", "subject_label": "s", "relation_id": "P36", "object_label": "o", "subject_kind": "city"}
    with pytest.raises(DataError, match="subject_kind 'city': choose one of band"):
        fact_to_word(row)
    assert fact_to_word(row | {"subject_kind": "place"}).subject_kind == "place"


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        (FactToWord("f", "A", "P47", "B", "shares border with"), "relation without templates"),
        (FactToWord("f", "", "P36", "B"), "no label"),
        (FactToWord("f", "A", "P36", ""), "no label"),
        (FactToWord("f", "Capitals", "P36", "city"), "answer in question"),
        (FactToWord("f", "a  b", "P36", "c c"), "stray white space"),
    ],
)
def test_what_templates_cannot_ask_is_named(fact: FactToWord, reason: str):
    outcome = by_templates(fact)
    assert isinstance(outcome, Failed) and (outcome.fact_id, outcome.reason) == ("f", reason)


# The year and the prompt


@given(st.integers(-3000, 3000).filter(bool), st.integers(0, 4000))
def test_the_year_is_that_of_the_middle_day(first: int, days: int):
    start = Date(first)
    end = Date.from_day_number(start.last_day + days)
    middle = Period(start, end).centre("released")[0]
    assert middle_year(str(start), str(end)) == Date.from_day_number(middle).year


def test_the_year_of_a_period_with_one_end_or_none():
    assert middle_year("2011-03", None) == middle_year("", "2011") == 2011
    assert middle_year("-0045", "-0043") == -44
    assert middle_year(None, "") is None


def test_the_prompt_holds_what_the_model_must_know():
    fact = FactToWord("f", 'The "Who"', "P1", "O", "rel", 1970, "a band", "what it is", "thing")
    text = fact_prompt(fact, "In 1970, ", FactToWord("g", "S2", "P1", "O2", "rel"))
    assert text.startswith(INSTRUCTIONS)
    for part in (
        '- subject: "The \\"Who\\"", meaning "a band"', '- relation: "rel", meaning "what it is"',
        '- object: "O", meaning "thing"', 'The date phrase: "In 1970, "', 'subject "S2", relation "rel", object "O2"',
    ):  # fmt: skip
        assert part in text
    assert "meaning" not in fact_prompt(FACT, "In 1890, ") and "another fact" not in fact_prompt(FACT, "In 1890, ")


def test_the_example_in_the_instructions_obeys_the_rules():
    good = re.findall(r'"(In 1900, [^"]+\?)"', INSTRUCTIONS)
    assert len(good) == 2
    for question in good:
        assert question_fault(question.removeprefix("In 1900, "), "Zanzibar", "Arabic", "Arabic") is None


def test_an_example_is_another_fact_of_the_relation():
    def fact(number: int, subject: str, answer: str, relation: str = "P1") -> FactToWord:
        return FactToWord(f"f{number}", subject, relation, answer, "r", 1900)

    facts = [fact(0, "A", "B"), fact(1, "A", "C"), fact(2, "C", "D"), fact(3, "E", "F"), fact(4, "X", "Y", "P2")]
    examples = relation_examples(facts)
    assert [e.fact_id for e in examples["P1"]] == ["f0", "f2", "f3"]
    chosen = [example_for(f, examples) for f in facts]
    assert [c and c.fact_id for c in chosen] == ["f2", "f3", "f0", "f0", None]


@given(st.lists(st.tuples(st.sampled_from("ABCDEFGH"), st.sampled_from("ABCDEFGH")), max_size=12))
def test_an_example_shares_no_entity_and_is_found_where_three_are_apart(pairs: list[tuple[str, str]]):
    facts = [FactToWord(str(i), s, "P1", o) for i, (s, o) in enumerate(pairs)]
    examples = relation_examples(facts)
    for fact in facts:
        example = example_for(fact, examples)
        assert example is not None or len(examples["P1"]) < 3
        assert example is None or not {fact.subject, fact.object} & {example.subject, example.object}


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        (FactToWord("f", "", "P36", "B", "r", 1), "no label"),
        (FactToWord("f", "A", "P36", "B", "", 1), "no label"),
        (FactToWord("f", "A", "P36", "B", "r", None), "no date"),
    ],
)
def test_what_no_model_is_asked(fact: FactToWord, reason: str):
    outcome = prompt_of(fact, {})
    assert isinstance(outcome, Failed) and outcome.reason == reason


# What a model wrote


def test_a_good_answer():
    outcome = by_answer(FACT, written())
    assert outcome == Verbalised("f1", WORDINGS, draw_question(WORDINGS, "f1"))


@pytest.mark.parametrize(
    "wrapped",
    [
        "```json\n{}\n```", "```\n{}\n```", "Here you are:\n{}\nGood luck!", "<think>Maybe {{1}}? {}</think>\n{}",
        "  {}\n", "As asked { here }: {}",
    ],
)  # fmt: skip
def test_what_surrounds_the_object_is_no_matter(wrapped: str):
    text = wrapped.replace("{}", written()).replace("{{", "{").replace("}}", "}")
    assert isinstance(by_answer(FACT, text), Verbalised)


def test_case_and_full_stop_of_an_answer_do_not_matter_nor_the_case_of_the_opening():
    assert isinstance(by_answer(FACT, written(answer="kolkata.", opening="in 1890, ")), Verbalised)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not the JSON asked for"),
        ("I cannot help with that.", "not the JSON asked for"),
        (written()[:-30], "not the JSON asked for"),
        (written() + written(), "not the JSON asked for"),
        (json.dumps([1, 2]), "not the JSON asked for"),
        (json.dumps({"questions": "none"}), "not the JSON asked for"),
        (json.dumps({"questions": list(WORDINGS)}), "not the JSON asked for"),
        (written(*WORDINGS[:3]), "not the JSON asked for"),
        (written(*WORDINGS, WORDINGS[0]), "not the JSON asked for"),
        (json.dumps({"questions": [{"question": "In 1890, x?", "answer": None}] * 4}), "not the JSON asked for"),
        ("{" * 5000, "not the JSON asked for"),
        (written(opening=""), "no date phrase in front"),
        (written(opening="In 1891, "), "no date phrase in front"),
        (written(opening="In 1890 "), "no date phrase in front"),
        (written(*WORDINGS[:3], WORDINGS[0]), "questions not distinct"),
        (written(*WORDINGS[:3], "what WAS the capital of British India ?"), "questions not distinct"),
        (written(answer="Delhi"), "wrong answer"),
        (written(answer="British India"), "answer is the subject"),
        (written(*WORDINGS[:3], "Which city ruled British India?"), "capital letter"),
        (written(*WORDINGS[:3], "How was the capital of British India called?"), "capital letter"),
        (written(*WORDINGS[:3], "which city was the capital?"), "subject missing"),
        (written(*WORDINGS[:3], "was Kolkata the capital of British India?"), "answer in question"),
        (written(*WORDINGS[:3], "what city ruled British India? Kolkata"), "no question mark"),
        (written(*WORDINGS[:3], "what city ruled British India in 1890?"), "date left"),
        (written(*WORDINGS[:3], "what city was the 1890 capital of British India?"), "date left"),
        (written(*WORDINGS[:3], "in 1890, what city ruled British India?"), "date left"),
        (written(*WORDINGS[:3], "what city ruled\nBritish India?"), "stray white space"),
    ],
)
def test_a_bad_answer_drops_the_fact_with_its_reason(text: str, reason: str):
    outcome = by_answer(FACT, text)
    assert isinstance(outcome, Failed) and outcome.reason == reason, outcome
    assert len(outcome.detail) < 500


def test_a_year_in_the_subject_is_no_date_left():
    fact = FactToWord("f", "Expo 1890", "P276", "Lyon", "location", 1890)
    texts = ["where was Expo 1890?", "what place had Expo 1890?", "which city held Expo 1890?", "who got Expo 1890?"]
    assert isinstance(by_answer(fact, written(*texts, answer="Lyon")), Verbalised)


def test_a_name_may_open_a_question():
    fact = FactToWord("f", "WHO", "P169", "Margaret Chan", "head", 2010)
    texts = ["WHO was led by whom?", "who led WHO?", "whom did WHO have as head?", "under whom was WHO?"]
    assert isinstance(by_answer(fact, written(*texts, answer="Margaret Chan", opening="In 2010, ")), Verbalised)


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str):
    assert isinstance(by_answer(FACT, text), Failed)


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=5) | st.integers(),
                    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(
                        st.sampled_from(["questions", "question", "answer", "x"]), inner, max_size=4)))  # fmt: skip
def test_no_json_breaks_the_reader(value: object):
    with contextlib.suppress(DataError):
        assert len(read_answer(json.dumps(value))) == 4


# Tables


def facts(**columns: list) -> pl.DataFrame:
    base = {
        "fact_id": ["a", "b", "c"],
        "subject_label": ["Spain", "France", None],
        "relation_id": ["P36", "P0", "P36"],
        "object_label": ["Madrid", "Paris", "Rome"],
    }
    return pl.DataFrame(base | columns)


def test_rows_in_are_rows_out_plus_failures():
    table = facts_table(facts(popularity=["1.5", "2", None], question=["old"] * 3), "t")
    assert "question" not in table.columns and table["popularity"].to_list() == [1.5, 2.0, None]
    outcomes = [by_templates(fact) for fact in facts_to_word(table, "t", by_model=False)]
    made, failed = questions_table(table, outcomes, "templates"), failures_table(outcomes)
    assert made.height + failed.height == table.height
    assert made.columns == [*table.columns, "question", "drawn", "questions", "source"]
    assert made.schema["drawn"] == pl.Int8 and made.schema["questions"] == pl.List(pl.String)
    (row,) = made.iter_rows(named=True)
    assert row["question"] == row["questions"][row["drawn"]] and row["source"] == "templates"
    assert failed.rows() == [("b", "relation without templates", "P0"), ("c", "no label", "the subject has no label")]
    assert count_reasons(outcomes) == {"no label": 1, "relation without templates": 1}


def test_a_table_without_any_success_or_any_row_keeps_its_types():
    for table in (facts().head(0), facts(relation_id=["P0"] * 3)):
        outcomes = [by_templates(fact_to_word(row)) for row in table.iter_rows(named=True)]
        made = questions_table(table, outcomes, "x")
        assert made.height == 0 and made.schema["questions"] == pl.List(pl.String)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (facts().drop("object_label"), "t lacks the column object_label"),
        (facts(fact_id=["a", "a", "b"]), r"row 2: the same as row 1 \(fact_id 'a'\)"),
        (facts(fact_id=["a", None, "b"]), "t, row 2: fact_id None is empty"),
        (facts(fact_id=["a", "", "b"]), "t, row 2: fact_id '' is empty"),
        (facts(popularity=["x", "1", "2"]), "t, row 1: popularity 'x' is no number"),
    ],
)
def test_tables_that_are_refused(table: pl.DataFrame, words: str):
    with pytest.raises(DataError, match=words) as caught:
        facts_table(table, "t")
    assert "\n" not in str(caught.value)


def test_ids_that_are_numbers_stay_numbers():
    assert facts_table(facts(fact_id=[7, 8, 9]), "t")["fact_id"].to_list() == [7, 8, 9]
    with pytest.raises(DataError, match=r"row 3: the same as row 1 \(fact_id 7\)"):
        facts_table(facts(fact_id=[7, 8, 7]), "t")


def test_a_model_needs_more_columns_and_dates_that_are_dates():
    with pytest.raises(DataError, match="relation_label, start, end"):
        facts_to_word(facts(), "t", by_model=True)
    dated = facts(relation_label=["r"] * 3, start=["2001"] * 3, end=["2002", "soon", "2003"])
    with pytest.raises(DataError, match=r"t, row 2: 'soon' is not a date"):
        facts_to_word(dated, "t", by_model=True)
    with pytest.raises(DataError, match=r"t, row 1: the end 2002 lies before the start 2003"):
        facts_to_word(dated.with_columns(start=pl.lit("2003")), "t", by_model=True)


# Samples


@pytest.fixture
def asked() -> pl.DataFrame:
    ids = [f"f{i}" for i in range(30)]
    return pl.DataFrame({"fact_id": ids, "question": [f"who led {i}?" for i in ids], "object_label": ["X"] * 30})


def test_a_sample_depends_on_ids_and_seed_alone(asked: pl.DataFrame):
    one, other = draw_sample(asked, 8, 3), draw_sample(asked.sample(fraction=1, shuffle=True, seed=1), 8, 3)
    assert one.equals(other) and one.columns == ["fact_id", "question", "answer", "good"]
    assert one["good"].null_count() == 8 and one["fact_id"].n_unique() == 8
    assert set(one["fact_id"]) != set(draw_sample(asked, 8, 4)["fact_id"])
    assert set(draw_sample(asked, 99)["fact_id"]) == set(asked["fact_id"])
    assert set(one["fact_id"]) < set(draw_sample(asked, 9, 3)["fact_id"])  # a larger sample extends a smaller one
    with pytest.raises(DataError, match="at least 1"):
        draw_sample(asked, 0)


def test_a_judged_sample_is_counted(asked: pl.DataFrame):
    sample = draw_sample(asked, 6).with_columns(good=pl.Series(["yes", "No", " Y ", "1", "false", "TRUE"]))
    found = read_judged(sample, asked, "s")
    assert (found.good, found.judged, found.population) == (4, 6, 30)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"good": pl.lit(None, pl.String)}, "line 2: good is None"),
        ({"good": pl.lit("perhaps")}, "line 2: good is 'perhaps'"),
        ({"question": pl.lit("who?")}, "line 2: 'who\\?' is not the question of fact"),
        ({"fact_id": pl.lit("f99")}, "line 2: .* of fact 'f99'"),
    ],
)
def test_a_sample_that_cannot_be_counted(asked: pl.DataFrame, change: dict, words: str):
    sample = draw_sample(asked, 6).with_columns(good=pl.lit("yes")).with_columns(**change)
    with pytest.raises(DataError, match=words):
        read_judged(sample, asked, "s")


def test_a_row_judged_twice_or_none_at_all(asked: pl.DataFrame):
    sample = draw_sample(asked, 2).with_columns(good=pl.lit("yes"))
    with pytest.raises(DataError, match="judged twice"):
        read_judged(pl.concat([sample, sample]), asked, "s")
    with pytest.raises(DataError, match="no question was judged"):
        read_judged(sample.head(0), asked, "s")
    with pytest.raises(DataError, match="s lacks the column good"):
        read_judged(sample.drop("good"), asked, "s")


def test_questions_in_another_language_open_with_its_dates():
    prompt = prompt_of(FACT, {}, "french")
    assert isinstance(prompt, str) and '"En 1890, "' in prompt and "Write the questions in French" in prompt
    assert "Write the questions in" not in str(prompt_of(FACT, {}))
    assert isinstance(by_answer(FACT, written(opening="En 1890, "), style="french"), Verbalised)
    assert by_answer(FACT, written(), style="french").reason == "no date phrase in front"
