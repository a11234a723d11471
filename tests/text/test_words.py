"""The file of each language obeys the rules of ``docs/add-a-language.md``, whose own language works."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anachron.core.errors import ConfigError
from anachron.probe.ask.wordings import Wordings
from anachron.text.agreement import in_phrase
from anachron.text.cloze import cloze_fault
from anachron.text.dates import Wording, wordings
from anachron.text.languages import in_tenses, language_of
from anachron.text.words import FOLDER, by_language, language_fault, language_files, phrases, words_of

RECIPE = Path(__file__).parents[2] / "docs" / "add-a-language.md"


def recipe() -> dict[str, Any]:
    found = re.search(r"```json\n(.*?)```", RECIPE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    words: dict[str, Any] = json.loads(found[1])
    return words


@pytest.mark.parametrize("words", [*language_files().values(), recipe()], ids=lambda words: words["language"])
def test_a_file_has_what_a_language_needs(words: dict[str, Any]) -> None:
    whole = [
        relation for relation in words["relations"] if "questions" in relation
    ]  # some English ones have no question
    assert language_fault(words | {"relations": whole}) is None
    for style, how in words["styles"].items():
        Wording(words["language"], **how)
        assert style.islower()
    assert len(set(words["openings"])) == len(words["openings"])
    for text in words.get("asking", {}).values():
        assert "{question}" in text
    if words["language"] != "English":
        for relation in words["relations"]:
            assert set(relation) == {"id", "label", "questions", "cloze"}
            assert len(relation["questions"]) == 4 and len(relation["cloze"]) == 5
            assert all(q.count("[SUBJ]") == 1 and "{" not in in_tenses(q)[0] for q in relation["questions"])
            for statement in relation["cloze"]:
                assert [cloze_fault(tense) for tense in in_tenses(statement)] == [None, None]


def test_languages_are_found_by_their_files() -> None:
    codes = list(language_files())
    assert codes[0] == "en" and codes[1:] == sorted(codes[1:]) and {"de", "es", "fr", "pt"} <= set(codes)
    for code, words in language_files().items():
        language = language_of(code)
        assert language.name == words["language"] and language.style in words["styles"]
        assert wordings()[str(language.style)].language == language.name
    assert words_of("German", "language") == "German" and set(by_language("the")) == {"English"}


def test_phrases_of_all_languages_are_in_small_letters_and_there_once() -> None:
    kinds = {kind for answers in by_language("answers").values() for kind in answers}
    for kind in kinds:
        assert all(kind in answers for answers in by_language("answers").values())
        assert len(set(phrases(kind))) == len(phrases(kind))
        assert all(re.fullmatch("[a-z ]+", phrase) for phrase in phrases(kind))
    assert phrases("but")[:3] == ("but", "rather", "instead") and "sondern" in phrases("but")
    assert {"open", "choice", "period"} == set(Wordings.__dataclass_fields__)


@pytest.mark.parametrize("language", ["French", "German", "Portuguese", "Spanish"])
def test_no_name_is_listed_under_two_articles(language: str) -> None:
    for lists in (words_of(language, "agreement")["names"], words_of(language, "agreement")["nouns"]):
        names = [name for listed in lists.values() for name in listed]
        assert len(names) == len(set(names))
    for name in words_of(language, "agreement")["names"]:
        assert in_phrase("x ", name, language)


def in_the_folder(folder: Path, code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Python code or, by -m, a command in a process that has a folder of languages."""
    where = os.environ | {FOLDER: str(folder)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=where, capture_output=True, text=True, check=False)


READ = "from anachron.text.languages import language_of; print(language_of('id').question('apa [SUBJ]?', 'Mali'))"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"language": "German"}, "id.json: language 'German' is the name of another one"),
        ({"styles": {}}, "id.json: styles: it needs a dict that is not empty"),
        ({"styles": {"german": recipe()["styles"]["indonesian"]}}, "style 'german' is that of another language"),
        ({"styles": {"x": {"locale": "id"}}}, "id.json: style 'x' needs locale, year"),
        ({"styles": {"x": recipe()["styles"]["indonesian"] | {"day": "Pada, "}}}, "style 'x', day: 'Pada, ' must be a"),
        ({"openings": ["Apa"]}, "id.json: openings: give single words in small letters"),
        ({"spans": {"decade": "x"}}, "id.json: spans: give decade, century and millennium"),
        ({"relations": [{"id": "P36"}]}, "id.json: relations: each needs id, label, questions and cloze"),
        ({"relations": [recipe()["relations"][0] | {"cloze": ["x [SUBJ]"] * 5}]}, "relation P36: template 'x [SUBJ]'"),
        ({"relations": [recipe()["relations"][0] | {"questions": ["who?"] * 4}]}, "must hold [SUBJ] exactly once"),
        ({"relations": [recipe()["relations"][0] | {"questions": ["[SUBJ]?"]}]}, "needs 4 questions and 5 statements"),
        ({"colour": "red"}, "id.json: unknown key 'colour'"),
    ],
)
def test_a_folder_of_ones_own_has_languages_that_obey_the_rules(tmp_path: Path, changed: dict, said: str) -> None:
    (tmp_path / "id.json").write_text(json.dumps(recipe() | changed), "utf-8")
    done = in_the_folder(tmp_path, READ)
    if said:
        assert "ConfigError" in done.stderr and said in done.stderr
    else:
        assert done.stdout == "apa Mali?\n", done.stderr


def test_what_is_no_folder_of_languages_is_refused(tmp_path: Path) -> None:
    assert "no such folder" in in_the_folder(tmp_path / "none", READ).stderr
    (tmp_path / "de.json").write_text(json.dumps(recipe()), "utf-8")
    assert "de.json: de is bundled; call the file otherwise" in in_the_folder(tmp_path, READ).stderr
    with pytest.raises(ConfigError, match="is a language with relations: put it into a folder"):
        language_of(tmp_path / "de.json")


@pytest.mark.full
def test_the_language_of_the_recipe_is_added_by_its_file_alone(tmp_path: Path) -> None:
    """In a folder of one's own, by the commands of the page."""
    (tmp_path / "languages").mkdir()
    (tmp_path / "languages" / "id.json").write_text(json.dumps(recipe()), "utf-8")
    commands = re.search(r"```bash\n(.*?)```", RECIPE.read_text("utf-8"), re.DOTALL)
    assert commands is not None
    binary = tmp_path / "anachron"
    binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m anachron "$@"\n')
    binary.chmod(0o755)
    where = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands[1]], cwd=tmp_path, env=where, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    made = pl.read_csv(tmp_path / "pernyataan.csv", infer_schema_length=0)
    dated = made.filter(pl.col("Granularity") == "day", pl.col("Time").is_not_null())["Statement"]
    question = r"^Pada \d{1,2} \w+ \d{4}, \w.* Kazakhstan( berkedudukan)?\? (Almaty|Astana)$"
    assert dated.len() > 20 and dated.str.contains(question).all()
    assert (tmp_path / "runs" / "id" / "verdicts.csv").exists()
