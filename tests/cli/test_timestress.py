"""From a dump and page views to a data set, in one command as in five, in English and in French."""

import bz2
import json
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import _code
from llm_server import good_answer, serving
from wikidata.dumps import entity, item, property_, statement, time, write_dump

HELD = {
    "Q23": ("George Washington", "1789-04-30", "1797-03-04"),
    "Q91": ("Abraham Lincoln", "1861-03-04", "1865-04-15"),
    "Q76": ("Barack Obama", "2009-01-20", "2017-01-20"),
    "Q22686": ("Donald Trump", "2017-01-20", "2021-01-20"),
}


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """A dump, and views of three months."""
    held = [
        statement("P35", entity(q), qualifiers={"P580": time(start), "P582": time(end)})
        for q, (_, start, end) in HELD.items()
    ]
    people = [item(q, name, title=name, labels={"fr": name}) for q, (name, *_) in HELD.items()]
    usa = item("Q30", "USA", title="United States", labels={"fr": "États-Unis"}, claims=held)
    office = property_("P35", "head of state")
    office["labels"]["fr"] = {"language": "fr", "value": "chef d'État"}
    write_dump(tmp_path / "dump.json.bz2", [office, usa, *people])
    views = []
    for month in (10, 11, 12):
        titles = ["United_States", *(name.replace(" ", "_") for name, *_ in HELD.values())]
        text = "".join(f"en.wikipedia {title} 7 desktop {200_000 + month} A9\n" for title in titles)
        views.append(tmp_path / f"pageviews-2020{month}-user.bz2")
        views[-1].write_bytes(bz2.compress(text.encode()))
    return [tmp_path / "dump.json.bz2", *views]


def run(*words: object) -> int:
    return _code(list(map(str, words)), debug=False)


def test_one_command_is_the_five(sources: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    one, five = tmp_path / "one", tmp_path / "five"
    dated = ("--date", "2021-01-04")
    assert run("build", "timestress", *sources, *dated, "--out", one, "--templates", "--seed", 5) == 0
    assert "probe it: anachron probe MODEL" in capsys.readouterr().err
    assert run("wikidata", "ingest", sources[0], *dated, "--out", five / "s") == 0
    assert run("wikidata", "pageviews", five / "s", *sources[1:]) == 0
    assert run("build", "facts", five / "s", "--out", five / "f.parquet") == 0
    seed = ("--seed", 5)
    assert run("verbalize", five / "f.parquet", "--out", five / "q.parquet", "--templates", *seed) == 0
    assert run("build", "statements", five / "q.parquet", "--out", five / "d.parquet", *seed) == 0
    made = pl.read_parquet(one / "timestress.parquet")
    assert made.equals(pl.read_parquet(five / "d.parquet"))
    assert set(made["ObjectLabel"]) == {name for q, (name, *_) in HELD.items() if q != "Q22686"}  # ended in 2021
    assert made["FactPop"].unique().to_list() == [pytest.approx(200_011)]
    assert run("build", "timestress", *sources, *dated, "--out", one, "--templates", "--seed", 5) == 0
    assert pl.read_parquet(one / "timestress.parquet").equals(made)


def test_another_year_moves_the_end_of_facts_and_of_dates(sources: list[Path], tmp_path: Path):
    out = tmp_path / "later"
    words = ("--date", "2024-01-01", "--out", out, "--templates", "--ended-before", 2024)
    assert run("build", "timestress", *sources, *words) == 0
    made = pl.read_parquet(out / "timestress.parquet")
    assert "Donald Trump" in set(made["ObjectLabel"])
    assert made["Time"].drop_nulls().str.head(4).cast(pl.Int64).max() == 2023


def test_another_language_is_asked_for_and_kept(
    sources: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    out = tmp_path / "french"
    words = ["build", "timestress", *sources, "--date", "2021-01-04", "--out", out, "--language", "fr"]
    with serving(lambda request, number: good_answer(request)) as server:
        assert run(*words, "--style", "french", "--llm", "m", "--base-url", server.url) == 0
        asked = [request["messages"][0]["content"] for request in server.requests]
    assert len(asked) == 3 and all("Write the questions in French" in prompt for prompt in asked)
    assert any('The date phrase: "En 2013, "' in prompt for prompt in asked)
    made = pl.read_parquet(out / "timestress.parquet")
    assert set(made["SubjectLabel"]) == {"États-Unis"}
    days = made.filter(pl.col("Granularity") == "day", pl.col("Time").is_not_null())["Statement"]
    assert days.str.contains(r"^Le (1er|\d+) [a-zéû]+ \d{4}, ").all()
    assert json.loads((out / "questions.parquet.manifest.json").read_text())["parameters"]["style"] == "french"
    capsys.readouterr()
    questions = out / "questions.parquet"
    assert run("build", "statements", questions, "--out", tmp_path / "d.csv", "--style", "american") == 2
    assert f"--style american: the questions of {questions} are French" in capsys.readouterr().err
    assert run(*words, "--style", "french", "--templates") == 2
    assert "templates are English; questions in French need --llm MODEL" in capsys.readouterr().err


def test_somebody_must_write_the_questions(sources: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run("build", "timestress", *sources, "--date", "2021-01-04", "--out", tmp_path / "o") == 2
    assert "--llm MODEL, or --templates" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
