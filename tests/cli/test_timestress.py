"""From a dump and page views to a data set, in one command as in five, in English and in French."""

import bz2
import json
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.text.words import language_files
from support.llm_server import good_answer, serving
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
    people = [item(q, name, title=name, labels={"mul": name}) for q, (name, *_) in HELD.items()]
    names = {"fr": "États-Unis", "de": "Vereinigte Staaten", "es": "Estados Unidos", "pt": "Estados Unidos"}
    usa = item("Q30", "USA", title="United States", labels=names, claims=held)
    office = property_("P35", "head of state")
    office["labels"] |= {code: {"language": code, "value": "chef d'État"} for code in names}
    write_dump(tmp_path / "dump.json.bz2", [office, usa, *people])
    views = []
    titles = ["United_States", *(name.replace(" ", "_") for name, *_ in HELD.values())]
    for month in (10, 11, 12):
        text = "".join(f"en.wikipedia {title} 7 desktop {200_000 + month} A9\n" for title in titles)
        views.append(tmp_path / f"pageviews-2020{month}-user.bz2")
        views[-1].write_bytes(bz2.compress(text.encode()))
    return [tmp_path / "dump.json.bz2", *views]


def run(*words: object) -> int:
    return run_command(list(map(str, words)), debug=False)


@pytest.mark.full
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
    card = (one / "timestress.parquet.card.md").read_text("utf-8")
    steps = ["wikidata ingest", "wikidata pageviews", "build facts", "verbalize", "build statements"]
    places = [card.index(f"\n### {step}\n") for step in steps]
    assert places == sorted(places) and card.count("\n### ") == len(steps)
    assert '- dump: `"dump.json.bz2"`' in card and "- items: 5\n" in card


@pytest.mark.full
def test_another_year_moves_the_end_of_facts_and_of_dates(sources: list[Path], tmp_path: Path):
    out = tmp_path / "later"
    words = ("--date", "2024-01-01", "--out", out, "--templates", "--ended-before", 2024)
    assert run("build", "timestress", *sources, *words) == 0
    made = pl.read_parquet(out / "timestress.parquet")
    assert "Donald Trump" in set(made["ObjectLabel"])
    assert made["Time"].drop_nulls().str.head(4).cast(pl.Int64).max() == 2023


@pytest.mark.full
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


# Word that begins a question, and the beginning of a day
SPOKEN = {
    "de": (r"\b[Ww]er\b|Staatsoberhaupt", r"^Am \d+\. \w+ \d{4}, "),
    "es": (r"\b[Qq]uién\b", r"^El \d+ de \w+ de \d{4}, "),
    "fr": (r"\b[Qq]ui\b|chef", r"^Le (1er|\d+) \w+ \d{4}, "),
    "pt": (r"\b[Qq]uem\b", r"^Em \d+ de \w+ de \d{4}, "),
}


@pytest.mark.full
@pytest.mark.parametrize("code", SPOKEN)
def test_templates_write_in_the_language_of_the_labels(code: str, sources: list[Path], tmp_path: Path):
    out = tmp_path / code
    words = ["build", "timestress", *sources, "--date", "2021-01-04", "--templates", "--language", code]
    assert run(*words, "--out", out) == 0
    questions = pl.read_parquet(out / "questions.parquet")
    parameters = json.loads((out / "questions.parquet.manifest.json").read_text())["parameters"]
    assert (questions.height, parameters["language"]) == (3, code)
    asked, day = SPOKEN[code]
    assert questions["question"].str.contains(asked).all(), questions["question"].to_list()
    made = pl.read_parquet(out / "timestress.parquet")
    days = made.filter(pl.col("Granularity") == "day", pl.col("Time").is_not_null())["Statement"]
    assert days.str.contains(day).all(), days[0]
    assert (
        run("verbalize", out / "facts.parquet", "--out", tmp_path / "q.parquet", "--templates", "--language", code) == 0
    )
    assert pl.read_parquet(tmp_path / "q.parquet").equals(questions)


def test_bundled_languages_are_all_tried():
    assert set(language_files()) == {"en", *SPOKEN}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "--llm MODEL, or --templates"),
        (["--llm", "m"], 2, "OPENAI_API_KEY holds no key"),
        (["--llm", "m", "--base-url", "localhost"], 2, "write it as http://host:port/v1"),
        (["--llm", "m", "--base-url", "http://localhost/v1", "--style", "x"], 2, "date style 'x': choose one of"),
        (["--templates", "--base-url", "http://localhost/v1"], 2, "is for --llm"),
        (
            ["--templates", "--style", "french"],
            2,
            "style french: its dates are French, the questions English; leave it out",
        ),
        (["--templates", "--boundaries", "foo"], 2, "choose 'released' or 'paper'"),
        (["--templates", "--preset", "x"], 2, "choose one of timestress"),
        (["--templates", "--preset", "dated"], 2, "write a .csv with build facts"),
        (["--templates", "--min-popularity", -1], 2, "give monthly views, 0 or more"),
        (["--templates", "--more-than", -1], 2, "until more than -1 pass"),
        (["--templates", "--ended-before", 0], 2, "there is no year 0"),
        (["--templates", "--workers", 0], 2, "give at least 1"),
        (["--templates", "--wiki", "x!"], 2, "--wiki 'x!'"),
        (["--templates", "--wiki", "nothing"], 2, "no page views are known of nothing"),
        (["--templates", "--language", "?"], 2, "--language '?'"),
        (["--templates", "--language", "it"], 2, "there are templates in en, de, es, fr, pt; choose one of these"),
        (["--templates", "--date", "2021-13"], 2, "--date"),
    ],
)
def test_options_are_checked_before_the_long_part(
    words, code, message, sources: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    out = tmp_path / "o"
    assert run("build", "timestress", *sources, "--date", "2021-01-04", "--out", out, *words) == code
    assert message in capsys.readouterr().err and not out.exists()


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda dump, views: [dump, *views, views[0].with_name("pageviews-202009-user.bz2")], 2, "no such file"),
        (lambda dump, views: [dump, dump], 2, "the name must end in pageviews-YYYYMM-user"),
        (lambda dump, views: [dump, views[0], views[0]], 2, "hold its views"),
        (lambda dump, views: [views[0].with_name("none.json"), *views], 2, "no such file"),
    ],
)
def test_files_are_looked_at_before_the_long_part(change, code, message, sources: list[Path], tmp_path: Path, capsys):
    words = [*change(sources[0], sources[1:]), "--date", "2021-01-04", "--out", tmp_path / "o", "--templates"]
    assert run("build", "timestress", *words) == code
    assert message in capsys.readouterr().err and not (tmp_path / "o").exists()


@pytest.mark.full
def test_what_is_finished_needs_no_key(sources: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    words = ["build", "timestress", *sources, "--date", "2021-01-04", "--out", tmp_path / "o", "--llm", "m"]
    with serving(lambda request, number: good_answer(request)) as server:
        assert run(*words, "--base-url", server.url) == 0
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert run(*words, "--base-url", server.url) == 0
