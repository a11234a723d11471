"""Cloze templates: the rules each must obey, those of the package, those of a file, and how they are filled."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import DataError
from anachron.text.cloze import Cloze, bundled_cloze, cloze_fault, cloze_prompt_text, fill_cloze, read_cloze
from anachron.text.cloze_llm import template_of
from anachron.text.questions import relation_templates
from anachron.text.words import words_of

SUBJECTS = ("Paris", "the Beatles", "The Beatles", "John Smith", "United States", "1,200 km", "M*A*S*H (1970)", "C")
CAPITAL = "The capital of [SUBJ] is [OBJ]"
PAST_CAPITAL = "The capital of [SUBJ] was [OBJ]"

# The package's own


def test_all_relations_with_questions_and_many_more_have_templates() -> None:
    ids = list(bundled_cloze())
    assert len(ids) >= 160 and all(re.fullmatch(r"P[1-9]\d*", id) for id in ids)
    assert [id for id in ids if id in relation_templates()] == list(relation_templates())


def test_no_relation_is_listed_twice() -> None:
    raw = words_of("English", "relations")
    assert len({entry["id"] for entry in raw}) == len({entry["label"] for entry in raw}) == len(raw)
    asked = {"questions", "present"}
    assert all(set(entry) - asked == {"id", "label", "cloze", "cloze_past"} for entry in raw)
    assert all(len(set(entry) & asked) in (0, 2) for entry in raw)


def test_labels_are_those_of_the_questions() -> None:
    shared = set(bundled_cloze()) & set(relation_templates())
    assert {id: bundled_cloze()[id].label for id in shared} == {id: relation_templates()[id][0] for id in shared}


@pytest.mark.parametrize("relation", list(bundled_cloze()))
def test_a_relation_has_five_different_templates(relation: str) -> None:
    for templates in (bundled_cloze()[relation].templates, bundled_cloze()[relation].past):
        assert len({re.sub(r"\W", "", template.casefold()) for template in templates}) == len(templates) == 5


@pytest.mark.parametrize("relation", list(bundled_cloze()))
def test_templates_are_sound(relation: str) -> None:
    label, templates = bundled_cloze()[relation].label, bundled_cloze()[relation].templates
    for template in {*templates, *bundled_cloze()[relation].past}:
        assert cloze_fault(template) is None
        words = template.replace("[SUBJ]", "S").replace("[OBJ]", "O")
        assert words[0].isupper() and words[-3] not in ",;:-"
        assert not re.search(r"\b(he|she|him|himself|his|her|hers|herself)\b", words), "gender"
        assert not re.search(r"\b(now|today|currently|current|still|ago|recent|recently|latest)\b|\d", words), "time"
        assert not re.search(r"\b(a|an|the) [SO]\b|\bS['’]", words), "what not every label takes"
        assert not re.search(r"\ba [aeio]|\ban [^aeiouh]|\b(\w+) \1\b", words)
        if re.search(r"date|time|inception", label) and relation != "P421":
            assert not re.search(r"\b(in|on|at) O$", words), "a preposition that not every precision takes"


@pytest.mark.parametrize("relation", list(bundled_cloze()))
def test_templates_take_any_subject_and_come_back_from_their_sentences(relation: str) -> None:
    for template in bundled_cloze()[relation].templates:
        for subject in SUBJECTS:
            prompt = cloze_prompt_text(template, subject)
            assert subject in prompt and prompt.endswith(" ____") and "[" not in prompt
            assert fill_cloze(template, subject, "Vexilo") == prompt.removesuffix("____") + "Vexilo"
        for subject, object in (("Qux Zubrowka", "Vexilo"), ("United Zubrowka", "12.5 km"), ("Zubrowkas", "U.V.")):
            for ending in ("", ".", '".'):
                assert template_of(fill_cloze(template, subject, object) + ending, subject, object) == template


IRREGULAR = {
    "is": "was", "are": "were", "has": "had", "have": "had", "can": "could", "holds": "held", "leads": "led",
    "comes": "came", "come": "came", "runs": "ran", "goes": "went", "makes": "made", "takes": "took", "take": "took",
    "keeps": "kept", "falls": "fell", "sits": "sat", "stands": "stood", "lends": "lent", "begins": "began",
    "fits": "fit", "lies": "lay", "bears": "bore", "deals": "dealt", "shows": "showed", "know": "knew",
    "spans": "spanned", "occurs": "occurred",
}  # fmt: skip
# Words of wordings that tell of the past in the present tense as well.
PAST = {
    "was", "were", "died", "attended", "studied", "took", "participated", "earned", "aired", "flew", "traveled",
    "served", "taught", "began", "ended", "occurred", "received",
}  # fmt: skip


def in_the_past(verb: str) -> set[str]:
    """The past tense of a verb in the third person, by the rules of spelling."""
    if verb in IRREGULAR:
        return {IRREGULAR[verb]}
    stems = {verb, verb.removesuffix("s"), verb.removesuffix("es")}
    stems |= {f"{verb.removesuffix('ies')}y"} if verb.endswith("ies") else set()
    ends = {f"{stem}d" for stem in stems if stem.endswith("e")}
    ends |= {f"{stem[:-1]}ied" for stem in stems if re.search("[^aeiou]y$", stem)}
    return ends | {f"{stem}ed" for stem in stems if re.search("([^eyio]|[aeiou]y)$", stem)}


def test_a_past_wording_says_the_same_with_other_verbs() -> None:
    """Word by word: only verbs differ, all in the past, and no verb that is put into the past elsewhere is left."""
    pairs = [
        (present.split(), past.split())
        for cloze in bundled_cloze().values()
        for present, past in zip(cloze.templates, cloze.past, strict=True)
    ]
    verbs = {a for present, past in pairs for a, b in zip(present, past, strict=True) if a != b}
    for present, past in pairs:
        changed = [(a, b) for a, b in zip(present, past, strict=True) if a != b]
        assert all(b in in_the_past(a) for a, b in changed), (present, past)
        assert changed or PAST & set(present), f"{' '.join(present)}: in the present tense, and nothing changed"
        left = [word for word in past if word in verbs]
        nouns = r"(the|notable|best-known|one|annual|greatest|in|made|to) {}\b|lives lost|or starts"
        assert all(re.search(nouns.format(word), " ".join(past), re.IGNORECASE) for word in left), (past, left)


def test_the_update_prompt_of_some_relations_is_the_plain_one() -> None:
    plain = {
        "P36": CAPITAL,
        "P6": "The head of government of [SUBJ] is [OBJ]",
        "P1082": "The population of [SUBJ] is [OBJ]",
        "P569": "The date of birth of [SUBJ] is [OBJ]",
        "P31": "[SUBJ] is an instance of [OBJ]",
    }
    assert {relation: bundled_cloze()[relation].templates[0] for relation in plain} == plain


# Filling


@pytest.mark.parametrize(
    ("template", "subject", "prompt"),
    [
        (CAPITAL, "France", "The capital of France is ____"),
        (CAPITAL, "United States", "The capital of the United States is ____"),
        ("The capital of the [SUBJ] is [OBJ]", "United States", "The capital of the United States is ____"),
        ("[SUBJ] borders on [OBJ]", "United States", "The United States borders on ____"),
        ("[SUBJ] borders on [OBJ]", "the Beatles", "the Beatles borders on ____"),
        ("[SUBJ] borders on [OBJ]", "[OBJ]", "[OBJ] borders on ____"),
        ("[SUBJ] borders on [OBJ]", "[SUBJ]", "[SUBJ] borders on ____"),
    ],
)
def test_a_prompt(template: str, subject: str, prompt: str) -> None:
    assert cloze_prompt_text(template, subject) == prompt


def test_only_english_subjects_get_an_article() -> None:
    template = "La capitale de [SUBJ] est [OBJ]"
    assert cloze_prompt_text(template, "United States", "French") == "La capitale de United States est ____"


@given(st.text(min_size=1).filter(str.strip), st.text(min_size=1).filter(str.strip))
def test_a_sentence_is_its_prompt_with_the_bare_object(subject: str, object: str) -> None:
    sentence = fill_cloze(CAPITAL, subject, object)
    assert sentence == cloze_prompt_text(CAPITAL, subject).removesuffix("____") + object
    assert subject in sentence


@pytest.mark.parametrize(("subject", "object"), [("", "x"), ("x", " ")])
def test_nothing_is_filled_with_nothing(subject: str, object: str) -> None:
    with pytest.raises(DataError, match="must not be empty"):
        fill_cloze(CAPITAL, subject, object)


@pytest.mark.parametrize(
    ("template", "rule"),
    [
        ("The capital is [OBJ]", "[SUBJ] exactly once"),
        ("[SUBJ] and [SUBJ] are [OBJ]", "[SUBJ] exactly once"),
        ("[subj] is [OBJ]", "[SUBJ] exactly once"),
        ("The capital of [SUBJ] is", "[OBJ] exactly once"),
        ("[OBJ] and [SUBJ] are [OBJ]", "[OBJ] exactly once"),
        ("[OBJ] is the capital of [SUBJ]", "must end with"),
        ("The capital of [SUBJ] is [OBJ].", "must end with"),
        ("The capital of [SUBJ] is:[OBJ]", "must end with"),
        ("The capital of  [SUBJ] is [OBJ]", "single spaces"),
        ("The capital of [SUBJ]\nis [OBJ]", "single spaces"),
        (" [SUBJ] is [OBJ]", "single spaces"),
        ("[SUBJ] is [OBJ] ", "single spaces"),
        ("[SUBJ] of [YEAR] is [OBJ]", "no slot but"),
        ("[SUBJ] of ____ is [OBJ]", "no slot but"),
        ("[SUBJ] [OBJ]", "how subject and object are related"),
        ("[SUBJ]: [OBJ]", "how subject and object are related"),
        ("", "[SUBJ] exactly once"),
    ],
)
def test_a_bad_template_is_refused(template: str, rule: str) -> None:
    fault = cloze_fault(template)
    assert fault is not None and rule in fault and repr(template) in fault and "\n" not in fault
    with pytest.raises(DataError, match=re.escape(rule)):
        fill_cloze(template, "France", "Paris")


# Files


def entry(**changed: object) -> dict[str, object]:
    return {"id": "P36", "label": "capital", "templates": [CAPITAL]} | changed


def test_a_file_of_templates(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    two = ["[SUBJ] a pour capitale [OBJ]", "La capitale de [SUBJ] est [OBJ]"]
    path.write_text(json.dumps([entry(), entry(id="P6", label=" tête ", templates=two, note="x")]), "utf-8")
    assert read_cloze(path) == {"P36": Cloze("capital", (CAPITAL,)), "P6": Cloze("tête", tuple(two))}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"P36": [CAPITAL]}, "expected a list of relations, found dict"),
        ([CAPITAL], "entry 1: expected an object"),
        ([entry(id="Q36")], "entry 1: id 'Q36' is not the id of a property"),
        ([entry(), entry(id=None)], "entry 2: id None"),
        ([entry(), entry()], "entry 2: P36 occurs twice"),
        ([entry(label=" ")], r"entry 1 \(P36\): label ' '"),
        ([entry(templates=[])], r"entry 1 \(P36\): templates \[\] must be a list of at least one"),
        ([entry(templates=CAPITAL)], "must be a list of at least one"),
        ([entry(templates=[CAPITAL, 3])], r"entry 1 \(P36\), template 2: template 3 must be a text"),
        ([entry(templates=[CAPITAL, "[SUBJ] is"])], r"template 2: template '\[SUBJ\] is' must hold \[OBJ\]"),
        ([entry(templates=[CAPITAL, CAPITAL.replace("The", "the")])], "template 2: .* occurs twice"),
        ([entry(past=PAST_CAPITAL)], r"entry 1 \(P36\): past 'The capital .* must be a list with the past wording"),
        ([entry(past=[PAST_CAPITAL, "[SUBJ] had [OBJ]"])], "of each template, of which there are 1; give them all, or"),
        ([entry(past=["[SUBJ] was"])], r"entry 1 \(P36\), past wording 1: template '\[SUBJ\] was' must hold \[OBJ\]"),
    ],
)
def test_a_bad_file_is_refused_with_place_value_and_rule(tmp_path: Path, content: object, said: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(DataError, match=said) as caught:
        read_cloze(path)
    assert str(path) in str(caught.value)


def test_a_file_with_past_wordings(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([entry(past=[PAST_CAPITAL]), entry(id="P6", label="b", past=[])]), "utf-8")
    assert read_cloze(path) == {"P36": Cloze("capital", (CAPITAL,), (PAST_CAPITAL,)), "P6": Cloze("b", (CAPITAL,))}


def test_a_file_that_is_no_json_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("[", "utf-8")
    for name in ("no.json", "none.json"):
        with pytest.raises(DataError, match=name):
            read_cloze(tmp_path / name)
