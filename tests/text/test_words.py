"""The file of each language obeys the rules of ``docs/add-a-language.md``, whose own language works."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import anachron
from anachron.probe.ask.wordings import Wordings
from anachron.text.agreement import in_phrase
from anachron.text.cloze import cloze_fault
from anachron.text.dates import Wording, wordings
from anachron.text.languages import in_tenses, language_of
from anachron.text.words import by_language, language_files, phrases, words_of

NEEDED = {"language", "styles", "openings", "spans", "relations"}
KNOWN = NEEDED | {"articles", "asking", "answers", "agreement", "roles", "the", "units", "changes"}
RECIPE = Path(__file__).parents[2] / "docs" / "add-a-language.md"


def recipe() -> dict[str, Any]:
    found = re.search(r"```json\n(.*?)```", RECIPE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    words: dict[str, Any] = json.loads(found[1])
    return words


@pytest.mark.parametrize("words", [*language_files().values(), recipe()], ids=lambda words: words["language"])
def test_a_file_has_what_a_language_needs(words: dict[str, Any]) -> None:
    assert words.keys() >= NEEDED and words.keys() <= KNOWN
    for style, how in words["styles"].items():
        Wording(words["language"], **how)
        assert style.islower() and all(how[key].count("{date}") == 1 for key in ("year", "month", "day"))
        assert all(how[key].count("{year}") == 1 for key in ("before_common_era", "common_era"))
    assert words["openings"] and all(word == word.lower() and " " not in word for word in words["openings"])
    assert len(set(words["openings"])) == len(words["openings"])
    assert set(words["spans"]) == {"decade", "century", "millennium"}
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


@pytest.mark.full
def test_the_language_of_the_recipe_is_added_by_its_file_alone(tmp_path: Path) -> None:
    """In a copy of the package, with the file of the page, by the commands of the page."""
    package = Path(anachron.__file__).parent
    shutil.copytree(package, tmp_path / "src" / "anachron", ignore=shutil.ignore_patterns("__pycache__"))
    added = tmp_path / "src" / "anachron" / "text" / "languages" / "id.json"
    added.write_text(json.dumps(recipe()), "utf-8")
    commands = re.search(r"```bash\n(.*?)```", RECIPE.read_text("utf-8"), re.DOTALL)
    assert commands is not None
    binary = tmp_path / "anachron"
    binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m anachron "$@"\n')
    binary.chmod(0o755)
    where = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands[1]], cwd=tmp_path, env=where, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    made = pl.read_csv(tmp_path / "pernyataan.csv", infer_schema_length=0)
    dated = made.filter(pl.col("Granularity") == "day", pl.col("Time").is_not_null())["Statement"]
    question = r"^Pada \d{1,2} \w+ \d{4}, \w.* Kazakhstan( berkedudukan)?\? (Almaty|Astana)$"
    assert dated.len() > 20 and dated.str.contains(question).all()
    assert (tmp_path / "runs" / "id" / "verdicts.csv").exists()
