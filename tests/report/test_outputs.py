"""The files of a study: whole, readable back, and printed as papers print."""

import json
import re
import shutil
import subprocess

import polars as pl
import pytest

from anachron.analysis.analyses.analysis import Analysis
from anachron.analysis.catalogue import ANALYSES, make_tables
from anachron.analysis.study import make_study
from anachron.io.files import file_fingerprint
from anachron.io.tables import markdown_table, write_table
from anachron.report.outputs import latex, markdown, study_notes, write_tables
from support.synthetic_studies import synthetic_models, synthetic_scores, synthetic_study

SMALL = pl.DataFrame(
    {
        "model": ["a|b", "c_d & 50 %"], "facts": [1234, 5], "rate": [0.12345, None], "p": [0.0004, 0.5],
        "mcnemar_p": [1.0, 0.04], "parameters": [7e9, float("nan")],
    }
)  # fmt: skip
ENTRY = Analysis(
    name="small", title="Share of facts & more", source="TimeStress, figure 2", compute=lambda study: SMALL, columns={}
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "tables"
    source = out.parent / "scores.parquet"
    write_table(source, synthetic_scores(4))
    study = synthetic_study(12)
    inputs = {str(source): file_fingerprint(source)}
    return study, write_tables(study, out, parameters={"seed": 0}, inputs=inputs), out, source


@pytest.mark.full
def test_every_table_is_written_and_reads_back(written):
    study, made, out, _ = written
    tables, _ = make_tables(study)
    assert set(made.tables) == set(tables)
    for name, table in tables.items():
        assert pl.read_parquet(out / f"{name}.parquet").equals(table)
        assert (out / f"{name}.csv").read_text() == table.write_csv()


@pytest.mark.full
def test_tables_for_print_are_there_unless_they_have_a_row_a_fact(written):
    _, made, out, _ = written
    for analysis in ANALYSES:
        printed = analysis.name in made.tables and not analysis.large and made.tables[analysis.name].height <= 1000
        assert (out / "markdown" / f"{analysis.name}.md").is_file() == printed
        assert (out / "latex" / f"{analysis.name}.tex").is_file() == printed


def test_manifest_says_where_from_and_what_was_left_out(written):
    _, made, out, source = written
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["inputs"] == {str(source): file_fingerprint(source)}
    assert manifest["parameters"] == {"seed": 0}
    assert manifest["left_out"] == made.left_out
    assert manifest["counts"]["summary rows"] == made.summary.height
    assert manifest["notes"] == made.notes and manifest["versions"]["anachron"]


def test_markdown_is_one_row_a_line_with_escaped_bars():
    lines = markdown(ENTRY, SMALL).splitlines()
    assert lines[0] == "## Share of facts & more" and lines[-1] == "Source: TimeStress, figure 2."
    rows = [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line.startswith("|")]
    assert rows[0] == SMALL.columns and len(rows) == 4
    assert rows[2] == ["a\\|b", "1234", "0.123", "<0.001", "1.000", "7e+09"]
    assert rows[3] == ["c_d & 50 %", "5", "-", "0.500", "0.040", "-"]


def test_latex_is_escaped_and_has_the_rules_of_booktabs():
    text = latex(ENTRY, SMALL)
    assert "\\caption{Share of facts \\& more}" in text and "\\label{tab:small}" in text
    assert all(rule in text for rule in ("\\toprule", "\\midrule", "\\bottomrule"))
    assert "c\\_d \\& 50 \\%" in text and "<0.001" not in text.replace("\\ensuremath{<}0.001", "")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_latex_compiles(written, tmp_path):
    _, made, out, _ = written
    inputs = "\n".join(
        f"\\input{{{p}}}" for p in sorted((out / "latex").glob("*.tex")) if made.tables[p.stem].height < 40
    )
    page = f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}\n{inputs}\n\\end{{document}}"
    (tmp_path / "all.tex").write_text(page)
    subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"], cwd=tmp_path, check=True)


def test_notes_name_the_models_that_are_pooled():
    study = synthetic_study(12, top=2)
    chosen = study.most_robust.filter(pl.col("format") == "chat")["model"].to_list()
    said = "chat, prefix none: rows called pooled or top, and the table agreement, are over the most robust models"
    assert f"{said}: {', '.join(chosen)}" in study_notes(study)


def test_notes_name_facts_without_matches():
    scores = synthetic_scores(4).filter(~((pl.col("fact_id") == "fact0001") & (pl.col("status") == "incorrect")))
    notes = study_notes(make_study([scores], noise=1e-4, resamples=100))
    assert (
        "fir-7b, raw, prefix none: near-ties are matches decided by at most 0.0001 nats, the noise of the run" in notes
    )
    assert any(
        n == "fir-7b, raw, prefix none, day: no W and R for 0 facts without a correct context and 1 without an "
        "incorrect one"
        for n in notes
    )


@pytest.mark.full
def test_files_of_an_earlier_study_do_not_stay(tmp_path):
    scores = synthetic_scores(12)
    for chosen, written in ((scores, True), (scores.filter(pl.col("model") == "oak-3b"), False)):
        study = make_study([chosen], models=synthetic_models(), resamples=100)
        made = write_tables(study, tmp_path, parameters={}, inputs={})
        assert ("formats" in made.tables) is written
        for file in ("formats.csv", "formats.parquet", "markdown/formats.md", "latex/formats.tex"):
            assert (tmp_path / file).exists() is written


def test_cells_of_markdown_keep_to_their_line():
    text = markdown_table(["a"], [["cap|ital\n$x_{ <b>bold</b> <0.001"]])
    assert text.splitlines()[2] == "| cap\\|ital $x_{ &lt;b>bold&lt;/b> <0.001 |"


def test_notes_name_models_of_unknown_size_and_what_has_no_baseline():
    study = make_study([synthetic_scores(8)], models=synthetic_models(), resamples=100, baseline="oak-3b")
    notes = study_notes(study)
    assert "the table sizes leaves out oak-3b, whose size is unknown (give --models)" in notes
    assert "fir-7b-it, chat, prefix none is not compared: oak-3b has no such run" in notes
