"""What a model generates: names in texts, by hand and by properties, and a model's texts from a file to the summary."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import ConfigError, DataError
from anachron.data.updates.case_records import EditCase
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.edit.base import edited
from anachron.edit.make import make_edit
from anachron.edit.plan import plan_edits
from anachron.evaluate.measure import Measures, ModelWriter, measure
from anachron.evaluate.measures.generations import (
    GENERATION_METRICS,
    GENERATIONS,
    SPARE,
    continuations,
    generation_rows,
    letters_of_name,
    names_of,
    plain_words,
)
from anachron.evaluate.metrics import METRICS, summarise, update_metrics
from anachron.evaluate.requests import requests_of
from anachron.evaluate.results import NEIGHBOURS, TARGETS, UPDATES
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.lm.model import LanguageModel
from support.edit_models import make_edit_lm

# --- names in texts ---


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (" Paris. It is", "Paris"),
        (" the Hague, which", "The Hague"),
        ("Hague", "The Hague"),
        (" The\n\nUnited  States of America", "United States"),
        (' "Emmanuel Macron"', "emmanuel macron"),
        (" sao paulo!", "São Paulo"),
        (" ZÜRICH", "Zu\u0308rich"),
        (" the U.S. and", "US"),
        (" OʼNeal", "O'Neal"),
        (" Jean–Luc Mélenchon", "Jean-Luc Melenchon"),
        (" Paris—the capital", "Paris"),
        (" (Paris)", "Paris"),
        (" 67,413,000 people", "67413000"),
        (" 3.5 million", "3.5"),
        (" 1998, when", "1998"),
        (" 3.", "3"),
        (" Strasse 3", "Straße"),
        ("北京是中国的首都", "北京"),
        ("गांधी ने", "गांधी"),
        (" An", "An"),  # nothing but an article is a name all the same
        (" The, A", "A"),
        (" the The The were", "The The"),
        (" ÷", "÷"),
        (' the "÷" of', "÷"),
        (" !!!, a band", "!!!"),
        (" Έλλάδα", "ελλαδα"),
    ],
)
def test_a_text_that_begins_with_a_name(text: str, name: str):
    assert letters_of_name(text, [name]) > 0


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (" Parisian", "Paris"),
        (" near Paris", "Paris"),
        (" Paris", "Paris Hilton"),
        (" 19981", "1998"),
        (" 3.5 million", "3"),
        (" 35", "3.5"),
        ("", "Paris"),
        (" !?", "Paris"),
        (" Paris", "!?"),
        (" the", "Paris"),
        (" the Paris", "A"),
        (" The", "The The"),
        (" another", "An"),
        (" the album ÷", "÷"),
        (" !!!!", "!!!"),
        (" +44", "+"),
        ("गांधीनगर", "गांधी"),
        ("गांधी", "गांध"),  # its last letter would lose its vowel
        (" Pari\u0301s", "Pari s"),
    ],
)
def test_a_text_that_does_not(text: str, name: str):
    assert letters_of_name(text, [name]) == 0


def test_the_longest_of_the_names_counts():
    assert letters_of_name(" Paris Hilton", ["Paris", "Paris Hilton", "Hilton"]) == len("paris hilton")
    assert letters_of_name(" Paris Hilton", []) == 0


WORD = st.text(st.characters(categories=["L", "N", "Mn"]), min_size=1, max_size=6).filter(plain_words)
NOISE = st.sampled_from(["", " ", "\n", " the ", " a ", ' "', " (", "... ", " The, ", " — "])


@given(st.lists(WORD, min_size=1, max_size=4), NOISE, st.sampled_from(["", ".", ", who", '"', ") is", " — a", "\n\nX"]))
def test_articles_and_punctuation_around_a_name_change_nothing(words: list[str], front: str, behind: str):
    name = " ".join(words)
    if not plain_words(name)[-1][-1].isdecimal() or not behind.startswith("."):
        assert letters_of_name(f"{front}{name}{behind}", [name]) > 0
    assert letters_of_name(f"{front}{name.upper()}", [name.upper()]) > 0


@given(st.text("÷+=!?*", min_size=1, max_size=4), st.sampled_from([" ", "\n", " the ", ' "', " (", " A, "]))
def test_a_name_without_letters_is_found_sign_by_sign(name: str, front: str):
    assert letters_of_name(f"{front}{name}, which", [name]) > 0
    assert letters_of_name(f"{front}{name}{name[-1]}", [name]) == letters_of_name(f"{front}Paris {name}", [name]) == 0


@pytest.mark.full
@given(st.text(max_size=20))
def test_words_are_in_a_form_that_stays(text: str):
    once = plain_words(text)
    assert plain_words(" ".join(once)) == once
    assert not any(c.isspace() or c != c.casefold() for word in once for c in word)  # Cherokee folds to capitals


@given(st.text("abcdef ", max_size=12), st.text("abcdef ", min_size=1, max_size=5))
def test_against_a_comparison_of_words(text: str, name: str):
    """Of plain letters a name is generated where its words are the first ones of the text."""
    words, wanted = ([w for w in t.split() if w != "a"] for t in (text, name))
    if not wanted:
        words, wanted = text.split(), name.split()
    assert (letters_of_name(text, [name]) > 0) == (bool(wanted) and words[: len(wanted)] == wanted)


# --- new and old objects ---


def case(new: str | None, old: str | None, **changes: Any) -> EditCase:
    return EditCase("1", "France", "The president of France is", new, old, ("In France, the president is",), **changes)


def test_names_of_an_update_are_those_of_all_its_objects():
    group = case(
        "A", None, scenario="AddObject", objects=(("A", "new"), ("B", "new"), ("", "new"), ("C", "static")),
        aliases=(("B", "Bee"), ("C", "Sea"), ("A", "B")),
    )  # fmt: skip
    assert names_of(group, "new") == ("A", "B", "Bee")
    assert (names_of(group, "obsolete"), names_of(group, "static")) == ((), ("C", "Sea"))
    assert names_of(case("A", "B"), "obsolete") == ("B",)  # a record without a list of objects


def test_what_is_generated_is_new_or_old_and_the_longer_of_two_that_begin_alike():
    update = case("Paris Hilton", "Paris", aliases=(("Paris", "Lutetia"),))
    found = generation_rows(update, [" Paris Hilton.", " Paris, France", " the Lutetia", " Lyon"])
    assert [(row["new"], row["old"]) for row in found] == [(1, 0), (0, 1), (0, 1), (0, 0)]
    assert [row["kind"] for row in found] == ["update", *["generalization"] * 3]
    assert [row["prompt_number"] for row in found] == [0, 1, 2, 3] and found[3]["text"] == " Lyon"
    assert [(row["new"], row["old"]) for row in generation_rows(case("Lyon", None), [" Lyon"])] == [(1, None)]
    assert [(row["new"], row["old"]) for row in generation_rows(case("Lyon", "LYON"), [" Lyon"])] == [(1, 1)]


def generated(
    method: str, number: int, before: str, after: str | None, flags: tuple[Any, Any, Any, Any]
) -> dict[str, Any]:
    names = ("new_before", "old_before", "new_after", "old_after")
    kind = "generalization" if number else "update"
    return {"method": method, "mode": "batch", "case_id": "1", "kind": kind, "prompt_number": number,
            "text_before": before, "text_after": after} | dict(zip(names, flags, strict=True))  # fmt: skip


def test_what_was_generated_is_beside_the_probabilities():
    rows = [
        generated("FT", 0, "B", "A", (0, 1, 1, 0)), generated("FT", 1, "B", "A", (0, 1, 1, 0)),
        generated("FT", 2, "C", "C", (0, 0, 0, 0)), generated("ROME", 0, "B", "B", (0, 1, 0, 1)),
        generated("ROME", 1, "B", "C", (0, 1, 0, 0)), generated("ROME", 2, "C", "C", (0, 0, 0, None)),
    ]  # fmt: skip
    updates = [{"method": name, "mode": "batch", "case_id": "1", "status": "done"} for name in ("FT", "ROME")]
    tables = pl.DataFrame([], TARGETS), pl.DataFrame([], NEIGHBOURS), pl.DataFrame(updates, UPDATES)
    found = update_metrics(*tables, generations=pl.DataFrame(rows, GENERATIONS.table))
    assert found.select("method", *GENERATION_METRICS).rows() == [
        ("unedited", 0.0, 1.0, 0.0, 0.5), ("FT", 1.0, 0.0, 0.5, 0.0), ("ROME", 0.0, 1.0, 0.0, 0.0),
    ]  # fmt: skip
    summary = summarise(found)
    assert summary["generated_new"].to_list() == [0, 1, 0] and summary["generated_new_low"][1] > 0  # of one update
    assert not set(GENERATION_METRICS) & set(update_metrics(*tables).columns)
    broken = pl.DataFrame([generated("FT", 0, "B", "A", (0, 1, 2, 0))], GENERATIONS.table)
    with pytest.raises(DataError, match=r"generations, row 1: new_after 2\.0 is not a probability"):
        update_metrics(*tables, generations=broken)


# --- from a model to the summary ---

QUICK = {"FT": {"steps": 25, "layer": 2, "rate": 3e-2}, "ROME": {"steps": 2, "contexts": [], "layer": 1}}


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("llama")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> CaseSet:
    path = tmp_path_factory.mktemp("updates") / "updates.json"
    updates = [
        {"subject": subject, "prompt": f"The president of {subject} is", "target_new": "Angela Merkel",
         "ground_truth": ["Jacques Chirac", "Chirac"], "rephrase_prompt": f"In 1998, who led {subject}? It was"}
        for subject in ("France", "Berlin")
    ] + [{"subject": "Rome", "prompt": "The president of Paris is", "target_new": "Emmanuel Macron"}]  # fmt: skip
    path.write_text(json.dumps(updates), "utf-8")
    return load_cases(str(path))


def naive(lm: LanguageModel, prompt: str, new_tokens: int) -> str:
    ids = lm.tokenizer(prompt)["input_ids"]
    start = len(ids)
    with torch.no_grad():
        for _ in range(new_tokens):
            ids.append(int(lm.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    written = ids[start:]
    end = lm.tokenizer.eos_token_id
    return lm.tokenizer.decode(written[: written.index(end)] if end in written else written, skip_special_tokens=True)


def test_texts_are_a_few_tokens_longer_than_the_longest_name(lm: LanguageModel, cases: CaseSet):
    update = cases.cases[0]
    longest = max(
        len(lm.encode([(update.text, name, None)])[0].targets) for name in ("Angela Merkel", "Jacques Chirac", "Chirac")
    )
    prompts = (update.text, *update.generalization)
    assert continuations(ModelWriter(lm), update) == [naive(lm, prompt, longest + SPARE) for prompt in prompts]
    assert continuations(ModelWriter(lm), case(None, None)) == []


def test_updates_that_are_measured_together_are_written_together(lm: LanguageModel, cases: CaseSet, monkeypatch: Any):
    """The same results as of each alone, from fewer calls of the model: prompts of all updates are one batch."""
    measures, calls, plain = Measures(fluency_tokens=20, generate=True), [], lm.model.generate
    monkeypatch.setattr(lm.model, "generate", lambda *a, **k: (calls.append(1), plain(*a, **k))[1])
    together = measure(lm, cases.cases, measures)
    of_all = len(calls)
    apart = [measure(lm, [one], measures)[0] for one in cases.cases]
    assert [(one.texts, one.fluency, one.rows["generations"]) for one in together] == [
        (one.texts, one.fluency, one.rows["generations"]) for one in apart
    ]
    assert of_all < len(calls) - of_all


@pytest.mark.full
def test_a_run_that_lets_models_speak(lm: LanguageModel, cases: CaseSet, tmp_path: Path):
    planned = plan_edits(lm, ["FT", "ROME"], changes=QUICK, identity_covariance=True)
    settings = EvaluateSettings(measures=Measures(fluency_tokens=0, generate=True))
    result = run_evaluation(lm, cases, planned, tmp_path / "run", settings)
    assert result.tables["generations"].equals(pl.read_parquet(tmp_path / "run" / "generations.parquet"))
    for one in planned:
        for update in cases.cases[:2]:
            mine = result.tables["generations"].filter(
                (pl.col("method") == one.label) & (pl.col("case_id") == update.case_id)
            )
            edit = make_edit(lm, one.method, requests_of(update, one.method), one.settings, one.resources, one.sites)
            assert mine["text_before"].to_list() == continuations(ModelWriter(lm), update)
            with edited(lm, edit):
                assert mine["text_after"].to_list() == continuations(ModelWriter(lm), update)
    written = result.tables["generations"].drop_nulls("text_after")
    generated_of = set(written.select("method", "case_id").iter_rows())
    assert ("ROME", "2") not in generated_of and ("FT", "2") in generated_of  # ROME needs the subject in the prompt
    tables = (
        result.tables["targets"],
        result.tables["neighbours"],
        result.tables["updates"],
        result.tables["objects"],
        result.tables["generations"],
    )
    summary = summarise(update_metrics(*tables))
    by_method = {row["method"]: row for row in summary.to_dicts()}
    learned = result.tables["generations"].filter(method="FT", kind="update").sort("case_id")["new_after"].to_list()
    assert by_method["FT"]["generated_new"] == sum(learned) / 3 and learned[:2] == [1, 1]
    assert by_method["unedited"]["generated_new"] == 0
    assert (
        by_method["FT"]["generated_new_n"] == 3 and by_method["FT"]["efficacy_success_n"] == 2
    )  # one has no old object
    assert by_method["FT"]["efficacy_success"] == 1 and set(METRICS) < set(summary.columns)
    with pytest.raises(ConfigError, match="generate: True -> False"):
        run_evaluation(lm, cases, planned, tmp_path / "run", EvaluateSettings(measures=Measures(fluency_tokens=0)))


def test_nothing_is_written_unless_asked(lm: LanguageModel, cases: CaseSet, tmp_path: Path):
    planned = plan_edits(lm, ["FT"], changes={"FT": QUICK["FT"]})
    result = run_evaluation(lm, cases, planned, tmp_path / "run", EvaluateSettings(measures=Measures(fluency_tokens=0)))
    assert result.tables["generations"].height == 0 and not (tmp_path / "run" / "generations.parquet").exists()
    assert result.record["settings"]["generate"] is False
