"""RippleEdits', MQuAKE's and EasyEdit's records of tests: read whole, and refused with the field and the fix."""

import json
from copy import deepcopy

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import DataError
from anachron.data.updates.cases import load_cases
from anachron.evaluate.measures import portability
from support.portability_rows import MACRON, hop, mquake, query, ripple, test_of

RELATIONS = {  # sentences that name their subject in each of the ways that RippleEdits does
    "HEAD_OF_STATE": "The name of the head of state of {} is",
    "PLACE_OF_BIRTH": "The place of birth of {} is",
    "SIBLING": "The names of the siblings of {} are",
    "COUNTRY": "The name of the country which {} is associated with is",
    "MEMBER_OF_SPORTS_TEAM": "The name of the sports team which {} is a member of is",
    "CAPITAL_OF": "The name of the country which {} is the capital of is",
    "LEAGUE": "The name of the league which {} plays in is",
    "CONTINENT": "The name of the continent which {} is part of is",
    "POSITION_HELD": "The name of the position held by {} is",
    "AWARD_RECEIVED": "The name of the award {} won is",
    "NUMBER_OF_CHILDREN": "The number of children {} has is",
    "CURRENCY": "The name of the currency in {} is",
    "FOLLOWS": "{} follows",
    "FOLLOWED_BY": "{} is followed by",
}


def load(tmp_path, *records):
    path = tmp_path / "updates.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return load_cases(str(path))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("subject", ["France", "University of the Arts", "The Who, of Leeds", "Who Is Next", ""])
@pytest.mark.parametrize("original", [True, False])
def test_a_sentence_is_taken_apart(tmp_path, relation, subject, original):
    """New and old begin alike, and each of them with a word that could end a prompt's subject."""
    prompt, record = RELATIONS[relation].format(subject), ripple()
    record["edit"] |= {"relation": relation, "prompt": f"{prompt} University of Y."}
    record["edit"]["original_fact"] |= {"relation": relation, "prompt": f"{prompt} University of X."}
    record["Logical_Generalization"] = record["Subject_Aliasing"] = []
    if not original:
        del record["edit"]["original_fact"]
    case = load(tmp_path, record).cases[0]
    assert (case.subject, case.prompt, case.new) == (subject, prompt, "University of Y")
    assert case.old == ("University of X" if original else None)


def test_a_name_that_the_record_knows_decides(tmp_path):
    """Of a sentence that can be parted in two ways; and a subject that the file gives."""
    record = ripple(Subject_Aliasing=[test_of(query("The chief is", ["This is Me", "Me"], target_ids=[MACRON]))])
    record["Logical_Generalization"] = []
    del record["edit"]["original_fact"]
    record["edit"]["prompt"] = "The name of the head of state of What of it is This is Me."
    case = load(tmp_path, record).cases[0]
    assert (case.subject, case.new) == ("What of it", "This is Me")
    assert case.aliases == (("This is Me", "Me"),)
    record["edit"] |= {"prompt": "Its chief, says What of it, is This is Me.", "subject": "What of it"}
    assert load(tmp_path, record).cases[0].prompt == "Its chief, says What of it, is"


def test_ripple_tests(tmp_path):
    cases = load(tmp_path, ripple())
    (case,) = cases.cases
    assert cases.format == "rippleedits" and case.subject == "France" and case.old == "François Hollande"
    kinds = [test.kind for test in case.tests]
    assert kinds == ["edit", *["relation specificity"] * 2, *["logical generalization"] * 2, "subject aliasing",
                     *["compositionality I"] * 2, "forgetfulness"]  # fmt: skip
    assert [bool(test.unusable) for test in case.tests] == [False] * 7 + [True] * 2
    any_of, all_of = (test for test in case.tests if test.kind == "logical generalization")
    assert (any_of.needed, all_of.needed) == ("any", "all")
    assert all_of.questions[1].answers == (("French",), ("Breton", "Brezhoneg"))
    (alias,) = next(test for test in case.tests if test.kind == "subject aliasing").questions
    assert alias.answers == (("Emmanuel Macron", "Macron"),)  # without the alias of one letter, as published
    assert alias.old == ("François Hollande",) and any_of.questions[0].old == ()  # the second hop is another fact
    assert case.tests[2].conditions[0].answers == (("no such money",),)


def test_mquake_tests(tmp_path):
    cases = load(tmp_path, mquake())
    (case,) = cases.cases
    assert cases.format == "mquake" and case.case_id == "7" and case.text == "Emmanuel Macron is the head of state of"
    assert [(one.subject, one.prompt, one.new) for one in case.rewrites] == [
        ("Germany", "The capital of {} is", "Lyon")
    ]
    first, second, chain, questions = case.tests
    assert [test.kind for test in case.tests] == ["edit-wise", "edit-wise", "instance-wise", "multi-hop"]
    assert first.questions[0].answers == (("Germany", "Deutschland"),) and first.questions[0].old == ("France",)
    assert second.questions[0].prompt == "The capital of Germany is"
    assert chain.needed == "all" and [one.old for one in chain.questions] == [("France",), ("Berlin",)]
    assert questions.needed == "any" and {one.answers for one in questions.questions} == {(("Lyon", "Lugdunum"),)}
    assert questions.questions[1].prompt == "Q: Macron's capital is which?\nA:"
    assert questions.questions[0].old == ("Paris", "City of Light")


def test_easyedit_tests(tmp_path):
    base = {"subject": "France", "prompt": "The capital of France is", "target_new": "Lyon"}
    asked = {
        "Subject_Aliasing": [{"prompt": "The capital of Gaul is", "ground_truth": "Lyon"}],
        "Reasoning": [{"prompt": "It lies on the", "ground_truth": [["Rhone", "Rhône"], ["Saone"]]}],
        "Logical_Generalization": [{"prompt": "Its mayor is", "ground_truth": ["A", "B"]}, {"prompt": "x", "y": 1}],
    }
    tests = load(tmp_path, base | {"portability": asked}).cases[0].tests
    assert [(test.kind, test.questions[0].answers) for test in tests[:3]] == [
        ("subject aliasing", (("Lyon",),)), ("reasoning", (("Rhone", "Rhône"), ("Saone",))),
        ("logical generalization", (("A", "B"),)),
    ]  # fmt: skip
    assert tests[3].unusable == "it has no answer"
    zsre = {"subject": "France", "src": "What is the capital of France?", "alt": "Lyon", "answers": ["Paris"],
            "rephrase": "France's capital?", "loc": "nq question: who", "loc_ans": "me"}  # fmt: skip
    hopped = zsre | {"portability": {"New Question": "On which river?", "New Answer": "Rhône"}}
    (test,) = load(tmp_path, hopped).cases[0].tests
    assert (test.kind, test.questions[0].prompt) == ("one hop", "On which river?")


KNOWEDIT = {  # Wiki counterfact, as EasyEdit's examples/KnowEdit.md shows it
    "subject": "Frederic Piesch",
    "prompt": "The name of the position held by Frederic Piesch is",
    "target_new": "Archbishop of León, Mexico",
    "ground_truth": "mayor of Vienna",
    "locality": {
        "Relation_Specificity": [{"prompt": "The gender of Frederic Piesch is", "ground_truth": "male"}],
        "Forgetfulness": [{"prompt": "The position that is not Archbishop is", "ground_truth": "mayor of Vienna"}],
    },
}


def neighbours(case):
    return [(fact.prompt, fact.objects) for fact in case.nearest]


def test_locality_of_knowedit_is_facts_to_leave_alone(tmp_path):
    (case,) = load(tmp_path, KNOWEDIT).cases
    both = [("The gender of Frederic Piesch is", ("male",)), ("The position that is not Archbishop is", (case.old,))]
    assert neighbours(case) == both and case.tests == ()
    known = KNOWEDIT | {"locality_prompt": "Vienna lies in", "locality_ground_truth": "Austria"}
    assert neighbours(load(tmp_path, known).cases[0]) == [("Vienna lies in", ("Austria",)), *both]
    assert load(tmp_path, KNOWEDIT | {"locality": None}).cases[0].nearest == ()


@pytest.mark.parametrize(
    ("given", "objects"),
    [("genus", ("genus",)), (["genus"], ("genus",)), (["A", "also A"], ("A",)), ([["A", "also A"], ["B"]], ("A", "B"))],
)
def test_answers_of_locality_are_read_as_those_of_portability(tmp_path, given, objects):
    asked = {"Relation_Specificity": [{"prompt": "x is", "ground_truth": given}]}
    (case,) = load(tmp_path, KNOWEDIT | {"locality": asked, "portability": asked}).cases
    assert neighbours(case) == [("x is", objects)]
    assert tuple(names[0] for names in case.tests[0].questions[0].answers) == objects


@pytest.mark.parametrize(
    "asked",
    [
        {"prompt": ["x is", "nq question: who"], "ground_truth": ["A", ["B", "also B"]]},
        [{"prompt": "x is", "ground_truth": "A"}, {"prompt": "nq question: who", "ground_truth": ["B"]}],
    ],
)
def test_locality_as_easyedits_editor_takes_it(tmp_path, asked):
    (case,) = load(tmp_path, KNOWEDIT | {"locality": {"neighborhood": asked}}).cases
    assert neighbours(case) == [("x is", ("A",)), ("nq question: who?", ("B",))]
    one = {"neighborhood": {"prompt": "x is", "ground_truth": "A"}}
    assert neighbours(load(tmp_path, KNOWEDIT | {"locality": one}).cases[0]) == [("x is", ("A",))]


@pytest.mark.parametrize("nothing", ["", [], [[]], None])
def test_locality_without_an_answer_is_counted(tmp_path, nothing):
    asked = {
        "Relation_Specificity": [{"prompt": "x is", "ground_truth": nothing}, {"prompt": "y", "ground_truth": "A"}]
    }
    cases = load(tmp_path, KNOWEDIT | {"locality": asked}).cases
    assert neighbours(cases[0]) == [("y", ("A",))]
    assert portability.tests_not_asked(cases) == {"relation specificity: it has no answer": 1}


def test_a_parquet_file_has_every_kind_in_every_row(tmp_path):
    less = KNOWEDIT | {"locality": {"Forgetfulness": KNOWEDIT["locality"]["Forgetfulness"]}}
    pl.DataFrame([KNOWEDIT, less]).write_parquet(tmp_path / "updates.parquet")
    read = load_cases(str(tmp_path / "updates.parquet")).cases
    assert read == load(tmp_path, KNOWEDIT, less).cases


@pytest.mark.parametrize(
    ("locality", "words"),
    [
        ("x", ["locality is 'x'", "named fields"]),
        ({"neighborhood": "x"}, ["locality.neighborhood is 'x'", "list"]),
        ({"neighborhood": ["x"]}, ["locality.neighborhood[0] is 'x'", "named fields"]),
        ({"neighborhood": [{"question": "x", "ground_truth": "A"}]}, ["locality.neighborhood[0].prompt", "not empty"]),
        ({"neighborhood": {"prompt": ["x", "y"], "ground_truth": ["A"]}}, ["ground_truth", "one answer for each", "2"]),
        ({"neighborhood": {"prompt": ["x"], "ground_truth": "A"}}, ["locality.neighborhood.ground_truth", "list"]),
        ({"neighborhood": [{"prompt": "x", "ground_truth": {"str": "A"}}]}, ["[0].ground_truth", "text"]),
    ],
)
def test_locality_of_another_shape_is_refused(tmp_path, locality, words):
    with pytest.raises(DataError, match="record 2") as error:
        load(tmp_path, KNOWEDIT, KNOWEDIT | {"locality": locality})
    assert all(word in str(error.value) for word in words), str(error.value)


def test_fingerprints_see_tests_and_rewrites(tmp_path):
    """And those of sets without any are what they were before there were any."""
    whole = load(tmp_path, mquake()).fingerprint()
    other = mquake()
    other["requested_rewrite"][1]["target_new"]["str"] = "Nice"
    assert (
        len({whole, load(tmp_path, mquake(new_answer_alias=[])).fingerprint(), load(tmp_path, other).fingerprint()})
        == 3
    )
    plain = {"subject": "France", "prompt": "The capital of France is", "target_new": "Lyon"}
    assert load(tmp_path, plain).fingerprint() == load(tmp_path, plain | {"portability": None}).fingerprint()


@pytest.mark.parametrize(
    ("make", "change", "words"),
    [
        (ripple, lambda r: r["edit"].update(prompt="France: Macron"), ["edit.prompt", "sentence", "edit.subject"]),
        (ripple, lambda r: r.pop("Compositionality_I"), ["RippleEdits", "lacks Compositionality_I"]),
        (ripple, lambda r: r["Subject_Aliasing"][0].update(test_condition="XOR"), ["test_condition", "OR or AND"]),
        (ripple, lambda r: r["Subject_Aliasing"][0]["test_queries"][0].update(prompt=""), ["test_queries[1].prompt"]),
        (ripple, lambda r: r.update(Forgetfulness={"a": 1}), ["Forgetfulness", "list"]),
        (mquake, lambda r: r.update(requested_rewrite=[]), ["requested_rewrite", "at least one rewrite"]),
        (mquake, lambda r: r["requested_rewrite"][1].update(prompt="of {} and {}"), ["requested_rewrite[1].prompt"]),
        (mquake, lambda r: r["new_single_hops"].append(hop("x", "")), ["new_single_hops[2].answer", "not empty"]),
        (mquake, lambda r: r.pop("single_hops"), ["MQuAKE", "lacks single_hops"]),
    ],
)
def test_damaged_records(tmp_path, make, change, words):
    damaged = deepcopy(make())
    change(damaged)
    if make is mquake:
        damaged["case_id"] = 8
    with pytest.raises(DataError, match="record 2") as error:
        load(tmp_path, make(), damaged)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_formats_are_told_apart_and_not_mixed(tmp_path):
    """MQuAKE has CounterFact's mark as well, and its own."""
    counterfact = {
        "requested_rewrite": mquake()["requested_rewrite"][0], "paraphrase_prompts": [], "neighborhood_prompts": [],
    }  # fmt: skip
    assert load(tmp_path, counterfact).format == "counterfact"
    with pytest.raises(DataError, match=r"record 2 is MQuAKE \(new_answer\), the first record CounterFact"):
        load(tmp_path, counterfact, mquake())
    with pytest.raises(DataError, match=r"fields of RippleEdits .* and of MQuAKE"):
        load(tmp_path, ripple() | mquake())


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Relation_Specificity", "Subject_Aliasing", "Compositionality_II", "Forgetfulness"]),
            st.lists(st.lists(st.sampled_from(["A", "7", "Lyon", "the Rhône"]), min_size=1), max_size=3),
        ),
        max_size=8,
    )
)
def test_no_test_is_lost(tmp_path_factory, given_tests):
    """Each is read with its questions, or kept with the reason why it cannot be asked."""
    record = ripple(**{name: [] for name in ripple() if name not in ("example_type", "edit")})
    for kind, answers in given_tests:
        queries = [query(f"Number {number} is", names) for number, names in enumerate(answers)]
        record[kind].append(test_of(*queries))
    read = load(tmp_path_factory.mktemp("tests"), record).cases[0].tests[1:]
    assert len(read) == len(given_tests)
    expected = sorted(
        (kind.replace("_", " ").lower(), len(answers), not answers or any(set(names) == {"A"} for names in answers))
        for kind, answers in given_tests
    )
    assert sorted((t.kind.lower(), len(t.questions), t.unusable is not None) for t in read) == expected
