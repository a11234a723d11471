"""Tables in the style of papers: which number is bold, what LaTeX makes of them, and that both formats say the same."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.errors import ConfigError
from anachron.probe.catalogue import every_analysis, make_tables
from anachron.report.edits import EDITS
from anachron.report.paper import PREAMBLE, Numbers, PaperTable, best_rows, counted, paper_latex, paper_markdown
from anachron.report.paper_tables import (
    analysis_paper,
    check_style,
    edits_papers,
    summary_paper,
    write_edits_papers,
    write_study_papers,
)
from studies import synthetic_study

TABLE = PaperTable(
    "two_models", "W of two models (n = 41 facts; 50 % is chance)",
    {"model": ["my_model#1", "my_model#1", "b&c {x}", "b&c {x}"], "dates": ["year", "day", "year", "day"]},
    [
        Numbers("W (%)", [(66.12, 60.2, 71.3), (50.0, 40.0, 60.0), (70.5, 61.0, 80.0), (50.04, 4.0, 100.0)], 1, "high"),
        Numbers("Bleedover random ↓", [(-1.2, -2.0, 0.04), (3.3, None, None), (None,) * 3, (100.0, 93.1, 100.0)],
                1, "low"),
    ],
    ["year", "day", "year", "day"], ["a", "a", "b", "b"], ["one ~ note"],
)  # fmt: skip


def test_markdown_has_bounds_in_brackets_and_the_best_in_bold():
    assert paper_markdown(TABLE) == (
        "W of two models (n = 41 facts; 50 % is chance)\n\n"
        "| model | dates | W (%) | Bleedover random ↓ |\n| --- | --- | --- | --- |\n"
        "| my_model#1 | year | 66.1 [60.2, 71.3] | -1.2 [-2.0, 0.0] |\n"
        "| my_model#1 | day | 50.0 [40.0, 60.0] | **3.3** |\n"
        "| b&c {x} | year | **70.5** [61.0, 80.0] | - |\n"
        "| b&c {x} | day | 50.0 [4.0, 100.0] | 100.0 [93.1, 100.0] |\n\n"
        "- one ~ note\n"
    )  # 50.0 and 50.04 print alike: neither is better; -1.2 has nothing to be compared with


def test_latex_has_columns_of_siunitx_and_names_as_they_are():
    tex = paper_latex(TABLE)
    assert tex.startswith(f"% {PREAMBLE}\n") and r"\label{tab:two-models}" in tex
    assert r"\begin{tabular}{llS[table-format=2.1]S[table-format=-3.1]}" in tex
    assert r"my\_model\#1 & year & 66.1 & -1.2 \\" in tex and r"b\&c \{x\} & year & \bfseries 70.5 & {--} \\" in tex
    assert r" &  & {\scriptsize [60.2, 71.3]} & {\scriptsize [-2.0, 0.0]} \\" in tex
    assert r"{\shortstack{Bleedover\\random $\downarrow$}}" in tex and "50 \\% is chance" in tex
    assert tex.count("\\midrule") == 2 and "one \\textasciitilde{} note" in tex
    assert "± " not in tex


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.floats(-1e3, 1e3), st.booleans()),
        min_size=1, max_size=12,
    ),
    st.sampled_from(["high", "low"]),
)  # fmt: skip
def test_bold_is_what_no_printed_number_beats(rows, best):
    compared = [group for group, *_ in rows]
    column = Numbers("x", [(mean, None, None) for _, mean, _ in rows], 1, best)
    found = best_rows(column, compared)
    for place, (group, mean, _) in enumerate(rows):
        others = [round(m, 1) for g, m, _ in rows if g == group and m is not None]
        if group is None or mean is None:
            assert place not in found
        elif place in found:
            top = max(others) if best == "high" else min(others)
            assert abs(float(f"{mean:.1f}") - top) < 0.11 and len(others) > 1
    for group in {"a", "b"} & set(compared):
        printed = {f"{m:z.1f}" for g, m, _ in rows if g == group and m is not None}
        assert any(compared[place] == group for place in found) == (len(printed) > 1)


def test_nothing_is_bold_where_no_end_is_better():
    assert best_rows(replace(TABLE.numbers[0], best=None), TABLE.compared) == set()


def test_a_common_count_stands_in_the_caption():
    assert counted([41, 41], "facts") == "n = 41 facts" and counted([41, 40], "facts") is None
    with pytest.raises(ConfigError, match="'latex': choose plain or paper"):
        check_style("latex")


@pytest.fixture(scope="module")
def study():
    return synthetic_study(16)


@pytest.fixture(scope="module")
def tables(study):
    return make_tables(study)[0]


@pytest.mark.full
def test_the_summary_of_a_study(tables):
    summary = tables["summary"]
    paper = summary_paper(summary)
    text = paper_markdown(paper)
    for row in summary.iter_rows(named=True):
        ends = (row[f"win_rate{end}"] * 100 for end in ("", "_low", "_high"))
        mean, low, high = (f"{value:z.1f}" for value in ends)
        assert re.search(rf"\| {re.escape(row['model'])} \|.*\| (\*\*)?{mean}(\*\*)? \[{low}, {high}\] \|", text)
    facts = summary["facts"].unique().to_list()
    assert (f"n = {facts[0]} facts" in paper.caption) == (len(facts) == 1)
    best = best_rows(paper.numbers[0], paper.compared)
    for (granularity,), part in summary.with_row_index("row").group_by("granularity"):
        top = round(part["win_rate"].max() * 100, 1)
        bold = [part.filter(row=row)["win_rate"].item() for row in best if summary["granularity"][row] == granularity]
        assert all(round(value * 100, 1) == pytest.approx(top, abs=0.051) for value in bold)


@pytest.mark.full
def test_every_table_of_a_study_has_one_column_for_a_number_and_its_bounds(tables):
    seen = 0
    for analysis in every_analysis():
        table = tables.get(analysis.name)
        if table is None or analysis.large or not table.height:
            continue
        paper = analysis_paper(analysis, table)
        named = {*paper.words, *(column.heading for column in paper.numbers)}
        ends = [name for name in table.columns if name.replace("_", " ") not in named]
        assert all(name.endswith("low") or name.endswith("high") for name in ends), analysis.name
        assert len(ends) == 2 * sum(value != (None, None) for value in map(_first_bounds, paper.numbers))
        seen += len(ends)
    assert seen > 10


def _first_bounds(column):
    return next((value[1:] for value in column.values if value[1] is not None), (None, None))


def edited_summary() -> pl.DataFrame:
    """Two methods and the unedited model, with numbers of every layout column."""
    metrics = [metric for metric, *_ in EDITS.columns.values()]
    rows = []
    for place, method in enumerate(("unedited", "ROME", "FT_x")):
        row = {"mode": "independent", "scenario": "ReplaceObject", "method": method, "variant": "plain"}
        row |= {"done": 1200, "failed": 0}
        for number, metric in enumerate(metrics):
            mean = (place + 1) / (number + 4)
            row |= {metric: mean, f"{metric}_low": mean - 0.1, f"{metric}_high": mean + 0.05, f"{metric}_n": 1200}
        rows.append(row)
    return pl.DataFrame(rows)


def test_edits_are_compared_among_edited_models():
    (paper,) = edits_papers(edited_summary(), EDITS)
    assert "1,200 updates" in paper.caption and "but for Fluency and Seconds" in paper.caption
    text = paper_markdown(paper)
    rome, ft, unedited = (next(line for line in text.splitlines() if f"| {m} |" in line) for m in
                          ("ROME", "FT_x", "unedited"))  # fmt: skip
    assert "**" not in unedited
    for heading, _, cell, other in zip(*(line.split(" | ") for line in (_header(text), unedited, rome, ft)),
                                       strict=True):  # fmt: skip
        if heading.strip("| ")[-1] in "↑↓":
            assert ("**" in cell) == heading.strip("| ").endswith("↓") and ("**" in other) == ("↑" in heading)
            assert re.fullmatch(r"(\*\*)?[\d.]+(\*\*)? \[[-\d.]+, [\d.]+\]( \|)?", cell), cell


def _header(text):
    return next(line for line in text.splitlines() if line.startswith("| method"))


def compiled(folder: Path, content: str) -> str:
    """What LaTeX says of a text with these floats."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "t.tex").write_text(
        f"\\documentclass[twocolumn]{{article}}\n{PREAMBLE}\n\\begin{{document}}\n{content}\n\\end{{document}}\n",
        "utf-8",
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    return (folder / "t.log").read_text("utf-8", errors="replace")


@pytest.mark.full
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_latex_takes_every_table(tmp_path, tables):
    """Without an error, and with the main tables inside the width of a page."""
    write_study_papers(tables, every_analysis(), tmp_path)
    write_edits_papers(edited_summary(), EDITS, tmp_path)
    files = sorted((tmp_path / "latex").glob("*.tex"))
    assert len(files) > 10
    text = [file.read_text("utf-8") for file in files]
    floats = "\\clearpage\n".join(text)
    compiled(tmp_path / "all", floats)
    main = "\n".join((tmp_path / "latex" / f"{name}.tex").read_text("utf-8") for name in ("summary", "edits"))
    log = compiled(tmp_path / "main", main + "\n" + paper_latex(TABLE))
    assert "Overfull" not in log
    assert "cmbx" in log  # the bold numbers are set in the bold font
