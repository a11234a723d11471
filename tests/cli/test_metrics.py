"""The command metrics on tables of several models: options, refusals, and what it leaves out."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from anachron.analysis.catalogue import ANALYSES
from anachron.analysis.study import make_study
from anachron.cli.main import run_command
from anachron.core.errors import ConfigError
from support.synthetic_studies import synthetic_scores


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scores") / "scores.parquet"
    synthetic_scores(10).write_parquet(path)
    return path


def run(*words: object) -> int:
    return run_command([*map(str, words), "--resamples", "100"], False)


@pytest.mark.full
def test_tables_of_several_models(table: Path, tmp_path: Path, capsys):
    (tmp_path / "models.csv").write_text("model,family,parameters\nfir-1b,fir,1e9\nfir-7b,fir,7e9\n")
    out = tmp_path / "out"
    assert (
        run("metrics", table, "--out", out, "--models", tmp_path / "models.csv", "--baseline", "oak-3b", "--json") == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert set(said["left_out"]) == {"decoys", "decoy_facts", "wordings"}  # a table alone has none of them
    assert set(pl.read_csv(out / "sizes.csv")["model"]) == {"fir-1b", "fir-7b"}
    comparison = pl.read_csv(out / "comparison.csv")
    assert set(comparison["against_model"]) == {"oak-3b"} and "oak-3b" not in comparison["model"]
    assert json.loads((out / "manifest.json").read_text())["parameters"]["baseline"] == "oak-3b"


@pytest.mark.full
def test_the_style_of_papers_and_back(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Only what is for print differs, and another run in the same folder has its own style."""
    out, words = tmp_path / "out", ("metrics", table, "--limit", 4, "--out")
    assert run(*words, out, "--style", "paper") == 0 and run(*words, tmp_path / "plain") == 0
    papers = {path.name: path.read_text("utf-8") for path in (out / "latex").iterdir()}
    plain = {path.name for path in (tmp_path / "plain" / "latex").iterdir()}
    said = " ".join(capsys.readouterr().err.split())
    assert papers.keys() < plain and len(papers) > 10
    for name in plain - papers.keys():
        assert re.search(rf"not set for print: [a-z_, ]*\b{name.removesuffix('.tex')}\b", said)
    assert all(text.startswith("% \\usepackage{booktabs,siunitx}\n") for text in papers.values())
    assert "S[table-format" in papers["summary.tex"] and "n = 4 facts" in papers["summary.tex"]
    assert "**" in (out / "markdown" / "summary.md").read_text("utf-8")
    assert (out / "summary.csv").read_bytes() == (tmp_path / "plain" / "summary.csv").read_bytes()
    assert run(*words, out) == 0
    for path in (out / "latex").iterdir():
        assert path.read_bytes() == (tmp_path / "plain" / "latex" / path.name).read_bytes()
    capsys.readouterr()
    assert run(*words, tmp_path / "none", "--style", "latex") == 2
    assert "'latex': choose plain or paper" in capsys.readouterr().err and not (tmp_path / "none").exists()


@pytest.mark.share(2)
@pytest.mark.full
@pytest.mark.parametrize("command", ["metrics", pytest.param("report", marks=pytest.mark.full)])
def test_a_log_has_a_line_for_each_step(
    command: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line a minute; here no time lies between two, so that each is printed."""
    monkeypatch.setattr("anachron.cli.progress.BETWEEN", 0.0)
    assert run(command, table, "--out", tmp_path / "out", "--limit", 4) == 0
    said = capsys.readouterr().err
    for step in ("reading runs", "win rates", "tables", *(["page", "figures"] if command == "report" else [])):
        counts = [(int(a), int(b)) for a, b in re.findall(rf"^{step}: (\d+) of (\d+) \(\d+ %\)", said, re.MULTILINE)]
        assert counts and counts == sorted(counts) and counts[-1][0] == counts[-1][1], step
    assert f"{len(ANALYSES)} of {len(ANALYSES)} (100 %)" in said


def test_a_limit_takes_the_facts_with_the_smallest_ids(table: Path):
    """Before runs are held against each other: those of other facts may share the few."""
    scores = pl.read_parquet(table)
    few = sorted(scores["fact_id"].unique())[:3]
    one, other = (scores.filter(pl.col("model") == name) for name in ("fir-7b", "oak-3b"))
    study = make_study([one, other.filter(pl.col("fact_id") != "fact0009")], sharing="refuse", limit=3)
    assert study.about["fact_id"].sort().to_list() == few and study.shares_contexts
    assert study.remarks == ("on a fixed sample of 3 of 10 facts",)
    assert study.facts.equals(make_study([one, other]).facts.filter(pl.col("fact_id").is_in(few)))
    lacking = make_study([one, other.filter(pl.col("fact_id") != few[0])], sharing="common", limit=3)
    assert lacking.about["fact_id"].n_unique() == 3 and few[0] not in lacking.about["fact_id"]
    with pytest.raises(ConfigError, match="limit 0"):
        make_study([one], limit=0)


def test_questions_that_differ_are_said(table: Path):
    scores = pl.read_parquet(table)
    one, other = (
        scores.filter(pl.col("model") == name).with_columns(question=pl.lit(name) + pl.col("fact_id"))
        for name in ("fir-7b", "oak-3b")
    )
    study = make_study([one, other])
    assert study.remarks == ("question of 10 facts differs between the sources; the first one is used",)
    assert set(study.about["question"]) == {f"fir-7b{fact}" for fact in study.about["fact_id"]}


@pytest.mark.full
def test_what_is_left_out_is_said(table: Path, tmp_path: Path, capsys):
    assert run("metrics", table, "--out", tmp_path / "out") == 0
    said = " ".join(capsys.readouterr().err.split())
    manifest = tmp_path / "out" / "manifest.json"
    left_out = json.loads(manifest.read_text())["left_out"]
    assert set(left_out) == {"sizes", "size_to_perfection", "decoys", "decoy_facts", "wordings"}  # sizes are unknown
    assert f"5 analyses do not apply to these runs; {manifest} says why" in said and "size_to_perfection" not in said
    assert not (tmp_path / "out" / "sizes.csv").exists()


@pytest.mark.full
def test_top_and_present_reach_the_tables(table: Path, tmp_path: Path):
    for name, options in (("one", ["--top", "1"]), ("all", ["--present", "2100"])):
        assert run("metrics", table, "--out", tmp_path / name, *options) == 0
    one, all_ = (pl.read_csv(tmp_path / n / "shared_knowledge.csv").filter(group="top") for n in ("one", "all"))
    assert one.height == 0 and all_["models"].max() == 5
    bins = [
        pl.read_csv(tmp_path / n / "factor_bins.csv").filter(factor="log_distance")["value_low"].min()
        for n in ("one", "all")
    ]
    assert bins[1] > bins[0]


def test_sources_of_other_facts_need_a_word(table: Path, tmp_path: Path, capsys):
    scores = pl.read_parquet(table)
    for name, part in (
        ("a", scores.filter(model="fir-7b")),
        ("b", scores.filter(pl.col("model") == "oak-3b").head(900)),
    ):
        part.write_parquet(tmp_path / f"{name}.parquet")
    sources = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    assert run("metrics", *sources, "--out", tmp_path / "out") == 2
    assert "do not share their data set" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run("metrics", *sources, "--out", tmp_path / "out", "--common-facts") == 0
    facts = pl.read_parquet(tmp_path / "out" / "facts.parquet")
    assert facts.group_by("model").agg(pl.col("fact_id").n_unique())["fact_id"].n_unique() == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--baseline", "nobody"], "baseline 'nobody' is not one of the models"),
        (["--models", "no.csv"], "no.csv: no such file"),
    ],
)
def test_wrong_options_are_one_line(table: Path, tmp_path: Path, options: list[str], words: str, capsys):
    assert run("metrics", table, "--out", tmp_path / "out", *options) in (1, 2)
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
