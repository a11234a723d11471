"""A file of facts in another language: its questions, its dates, and what does not go together."""

import json
from pathlib import Path

import polars as pl
import pytest

import anachron
from anachron.cli.main import run_command
from anachron.core.errors import ConfigError, DataError
from anachron.probe.check.questions import read_facts

FRENCH = """subject,relation,object,start,end
États-Unis,chef de l'État,Barack Obama,2009-01-20,2017-01-20
États-Unis,chef de l'État,Donald Trump,2017-01-20,2021-01-20
Kazakhstan,capital,Almaty,1991-12-16,1997-12-10
Kazakhstan,capital,Astana,1997-12-10,
Le Monde,couleur préférée,bleu,1990,1999
"""
JAPANESE = """subject,relation,object,start,end,question,present_question
日本,首相,菅義偉,2020-09-16,2021-10-04,日本の首相は誰でしたか？,日本の首相は誰ですか？
日本,首相,岸田文雄,2021-10-04,2024-10-01,日本の首相は誰でしたか？,日本の首相は誰ですか？
"""
OPENINGS = {
    "language": "Japanese", "locale": "ja", "year": "{date}年、", "month": "{date}、", "day": "{date}、",
    "era": "紀元前{year}",
}  # fmt: skip
AS_OF = "2025-11-22"


def parameters(path: Path) -> dict[str, object]:
    recorded: dict[str, object] = json.loads(Path(f"{path}.manifest.json").read_text())["parameters"]
    return recorded


@pytest.fixture
def french(tmp_path: Path) -> Path:
    (path := tmp_path / "faits.csv").write_text(FRENCH, "utf-8")
    return path


def test_a_french_file_is_asked_in_french(french: Path) -> None:
    asked = read_facts(french, as_of=AS_OF, language="fr")
    dated = asked.data.table.filter(pl.col("time").is_not_null())
    assert set(dated["prompt"].str.extract("^(En|Le) ")) == {"En", "Le"}
    assert dated["prompt"].str.contains(r"(des États-Unis|du Kazakhstan|aux États-Unis|au Kazakhstan).* \?$").all()
    presents = {question.subject: question.question for question in asked.questions}
    assert presents["États-Unis"] == "qui est à la tête de l'État des États-Unis ?"
    assert presents["Kazakhstan"] == "quelle est la capitale du Kazakhstan ?"
    assert asked.data.left_out is not None and asked.data.language == "fr"
    assert "no templates for the relation 'couleur préférée' in French" in asked.data.left_out["reason"].item()


def test_english_is_what_it_was(french: Path) -> None:
    assert anachron.load_dataset(str(french), as_of=AS_OF, language="en").language is None
    with pytest.raises(DataError, match=r"rows? |no question|none of") as caught:
        (french.parent / "alone.csv").write_text("\n".join(FRENCH.splitlines()[:2]) + "\n", "utf-8")
        anachron.load_dataset(str(french.parent / "alone.csv"), as_of=AS_OF)
    assert 'no templates for the relation "chef de l\'État"' in str(caught.value)


def test_any_other_language_by_openings_and_own_questions(tmp_path: Path) -> None:
    facts, openings = tmp_path / "facts.csv", tmp_path / "ja.json"
    facts.write_text(JAPANESE, "utf-8")
    openings.write_text(json.dumps(OPENINGS), "utf-8")
    asked = read_facts(facts, as_of=AS_OF, language=openings)
    years = asked.data.table.filter(pl.col("granularity") == "year", pl.col("time").is_not_null())
    assert years["prompt"].str.contains(r"^\d{4}年、日本の首相は誰でしたか？$").all() and years.height >= 10
    assert asked.questions[0].question == "日本の首相は誰ですか？" and asked.data.language == "Japanese"
    with pytest.raises(DataError, match="does not name its subject"):
        read_facts(facts, as_of=AS_OF)


def test_statements_know_their_language(french: Path, tmp_path: Path) -> None:
    questions, out = tmp_path / "questions.parquet", tmp_path / "statements.csv"
    anachron.verbalise(french, questions, language="fr")
    assert parameters(questions).items() >= {"language": "fr", "style": "french"}.items()
    made = anachron.build_statements(questions, out, as_of=AS_OF).table
    direct = anachron.build_statements(french, tmp_path / "direct.csv", as_of=AS_OF, language="fr").table
    assert made["prompt"].to_list() == direct["prompt"].to_list()
    assert parameters(out).items() >= {"language": "fr", "style": "french"}.items()
    for wrong in ({"language": "de"}, {"style": "american"}):
        with pytest.raises(ConfigError, match=r"the questions of .*questions\.parquet are French"):
            anachron.build_statements(questions, out, as_of=AS_OF, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="its dates are French, the questions English"):
        anachron.build_statements(french, out, as_of=AS_OF, language="en", style="french")


def test_only_files_of_facts_take_a_language() -> None:
    with pytest.raises(ConfigError, match="mini is not a file of facts"):
        anachron.load_dataset("mini", language="fr")


@pytest.mark.full
def test_a_check_in_french_by_the_command(french: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["check", "demo", "--facts", french, "--out", run, "--as-of", AS_OF, "--language", "fr", "--no-page"]
    assert run_command([*map(str, words)], False) == 0
    table = pl.read_csv(run / "verdicts.csv")
    assert table["verdict"].drop_nulls().len() == 4 and table["question"].drop_nulls().str.ends_with(" ?").all()
    assert json.loads((run / "run.json").read_text())["settings"]["language"] == "fr"
    assert run_command([*map(str, words[:-3]), "--no-page"], False) == 2, "the same folder in English is another run"
