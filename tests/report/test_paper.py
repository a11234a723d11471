"""Tables in the style of papers: which number is bold, what LaTeX makes of them, and that both formats say the same."""

import re
import shutil
import subprocess
from dataclasses import replace
from math import isfinite
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.analysis.analyses.analysis import Analysis, InPaper
from anachron.analysis.catalogue import every_analysis, make_tables
from anachron.core.errors import ConfigError
from anachron.evaluate.paired_tests import TESTS
from anachron.report.edits.dated import ATOKE, DATED, DATED_WAYS
from anachron.report.edits.lifelong import LIFELONG
from anachron.report.edits.tables import EDITS
from anachron.report.paper import PREAMBLE, Numbers, PaperTable, best_rows, paper_latex, paper_markdown, same_count
from anachron.report.paper_tables import (
    analysis_paper,
    check_style,
    edits_papers,
    paper_of_portability,
    paper_of_tests,
    summary_paper,
    write_edits_papers,
    write_paper,
    write_study_papers,
)
from support.synthetic_studies import RUNS, synthetic_study

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
    assert same_count([41, 41], "facts") == "n = 41 facts" and same_count([41, 40], "facts") is None
    assert same_count([1], "facts") == "n = 1 fact"
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


def test_every_printed_table_of_the_standard_set_names_its_columns():
    for analysis in every_analysis():
        if not analysis.large and analysis.name != "summary":
            assert analysis.paper is not None, analysis.name
            assert {*analysis.paper.words, *analysis.paper.numbers} <= {*analysis.columns}, analysis.name


@pytest.mark.full
def test_a_number_and_its_bounds_are_one_column(tables):
    """Shares in per cent; every printed number against the table that it comes from."""
    seen = 0
    for analysis in every_analysis():
        table = tables.get(analysis.name)
        if table is None or analysis.large or analysis.name == "summary":
            continue
        paper = analysis_paper(analysis, table)
        of_heading = {heading: name for name, heading in analysis.paper.numbers.items()}
        assert not [column.heading for column in paper.numbers if column.heading.endswith((" low", " high"))]
        for column in paper.numbers:
            name = of_heading[column.heading]
            factor = (
                100 if column.heading.endswith(("(%)", "(points)")) else 1e-6 if "millions" in column.heading else 1
            )
            known = {value * factor for value in table[name].drop_nulls() if isfinite(value)}
            for mean, *bounds in column.values:
                assert (
                    mean is None
                    or not isfinite(mean)
                    or min(abs(mean - value) for value in known) <= 1e-9 * max(1, abs(mean))
                )
                seen += bounds != [None, None]
    assert seen > 50


STUDY_TABLE = pl.DataFrame(
    [
        ("fir", "raw", "year", 12, 0.5, 0.25, 0.75, 1.0, 0.0004, None),
        ("fir", "raw", "day", 12, 0.25, 0.125, 0.5, 1.0, 0.49500, None),
        ("pooled", "raw", "year", 12, 0.5, 0.25, 0.75, 1.0, 0.0004, None),
        ("fir", "raw", "month", 12, None, None, None, None, None, None),
    ],
    ["model", "format", "granularity", "facts", "rate", "low", "high", "lift", "p", "none"], orient="row",
)  # fmt: skip
RATES = Analysis(
    name="rates", title="Rates", source="TimeStress, figure 2", compute=lambda study: STUDY_TABLE,
    columns=dict.fromkeys(STUDY_TABLE.columns, "its meaning"),
    paper=InPaper(
        words={"model": "model", "format": "format", "granularity": "dates"},
        numbers={"facts": "facts", "rate": "rate (%)", "lift": "lift (nats)", "p": "p", "none": "none (%)"},
    ),
)  # fmt: skip


def test_what_is_the_same_in_all_rows_stands_in_the_caption():
    """And a single model's rows are not repeated as pooled, nor shown where they have no number."""
    paper = analysis_paper(RATES, STUDY_TABLE)
    assert paper_markdown(paper) == (
        "Rates (model fir, format raw, n = 12 facts; 95 % intervals in brackets; rows without a number are left out)."
        "\n\n"
        "| dates | rate (%) | lift (nats) | p |\n| --- | --- | --- | --- |\n"
        "| year | 50.0 [25.0, 75.0] | 1.00 | <0.001 |\n| day | 25.0 [12.5, 50.0] | 1.00 | 0.495 |\n"
    )
    assert "{$<$0.001}" in paper_latex(paper)


def test_models_together_stay_where_there_are_several():
    two = pl.concat([STUDY_TABLE, STUDY_TABLE.head(1).with_columns(model=pl.lit("oak"))])
    assert "| pooled | year | 50.0" in paper_markdown(analysis_paper(RATES, two))


def test_a_table_without_a_number_is_left_out(tmp_path):
    empty = STUDY_TABLE.with_columns(pl.lit(None).alias(name) for name in ("rate", "lift", "p", "none"))
    assert analysis_paper(RATES, empty) is None
    for name in ("markdown/rates.md", "latex/rates.tex"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("plain")
    assert write_study_papers({"rates": empty}, [RATES], tmp_path) == {"rates": "there is no number to show"}
    assert not [*tmp_path.rglob("rates.*")]
    many = pl.concat([STUDY_TABLE] * 51)
    assert "204 rows are too many" in write_study_papers({"rates": many}, [RATES], tmp_path)["rates"]


@pytest.mark.full
def test_a_study_of_one_model_says_nothing_twice():
    tables = make_tables(synthetic_study(16, runs=RUNS[:1]))[0]
    transfer = next(a for a in every_analysis() if a.name == "transfer")
    assert "pooled" in tables["transfer"]["model"]
    text = paper_markdown(analysis_paper(transfer, tables["transfer"]))
    assert "pooled" not in text and "model fir-1b" in text and "| known by |" in text
    assert "model fir-1b" in summary_paper(tables["summary"]).caption


def test_a_long_table_goes_on_overleaf():
    rows = 50
    long = PaperTable(
        "long", "Many", {"fact": [f"f{n}" for n in range(rows)]}, [Numbers("W (%)", [(n, n, n) for n in range(rows)])],
        [None] * rows, [None] * rows,
    )  # fmt: skip
    tex = paper_latex(long)
    assert tex.count("\\begin{table*}") == 3 and tex.count("(continued)") == 2 and tex.count("\\label") == 1
    assert re.findall(r"^f(\d+) &", tex, re.M) == [str(n) for n in range(rows)]


def edited_summary(layout=EDITS, *more) -> pl.DataFrame:
    """Two methods and the unedited model, with numbers of every layout column. more: values of ``way``, if any."""
    metrics = [column.of for column in (*layout.columns, *(layout.more if more else ()))]
    rows = []
    for way in more or (None,):
        for place, method in enumerate(("unedited", "ROME", "FT_x")):
            row = {"mode": "independent", "scenario": "ReplaceObject", "method": method, "variant": "plain"}
            row |= {"done": 1200, "failed": 0} | ({} if way is None else {"way": way})
            for number, metric in enumerate(metrics):
                mean = (place + 1) / (number + 4)
                row |= {metric: mean, f"{metric}_low": mean - 0.1, f"{metric}_high": mean + 0.05, f"{metric}_n": 1200}
            rows.append(row)
    return pl.DataFrame(rows)


OF_TESTS = pl.DataFrame(
    [
        ("independent", "ReplaceObject", "FT", "plain", "efficacy_success", 1200, 0.25, 0.995, 0.745, 0.72, 0.77, 1e-9,
         "exact McNemar"),
        ("independent", "ReplaceObject", "ROME", "dated", "neighbourhood_success", 1200, 0.5, 0.4996, -0.0004, -0.02,
         0.0, 0.8, "sign flips"),
    ],
    schema=TESTS, orient="row",
)  # fmt: skip


def portability_rows() -> pl.DataFrame:
    rows = []
    for place, method in enumerate(("unedited", "ROME", "FT")):
        row = {"mode": "independent", "method": method, "variant": "plain", "kind": "Compositionality_I"}
        row |= {"updates": 10, "tests": 30 + place, "not_counted": 2}
        for name in ("right", "right_if_edited", "begins", "success", "p"):
            row |= {name: 0.25 * place, f"{name}_low": 0.1 * place, f"{name}_high": 0.3 * place, f"{name}_n": 10}
        rows.append(row)
    return pl.DataFrame(rows)


def test_paired_tests_have_their_difference_in_points_and_p():
    paper = paper_of_tests(OF_TESTS, "paired_tests")
    assert "1,200 updates" in paper.caption and "not corrected" in paper.caption
    assert paper_markdown(paper).splitlines()[4:] == [
        "| FT | efficacy success | 25.0 | 99.5 | 74.5 [72.0, 77.0] | <0.001 |",
        "| ROME dated | neighbourhood success | 50.0 | 50.0 | 0.0 [-2.0, 0.0] | 0.800 |",
    ]
    assert paper_of_tests(OF_TESTS.clear(), "paired_tests") is None


def test_portability_has_the_best_edited_model_in_bold():
    lines = paper_markdown(paper_of_portability(portability_rows())).splitlines()[4:]
    assert [line.count("**") for line in lines] == [0, 0, 10]
    assert "| ROME | Compositionality_I | 31 | 25.0 [10.0, 30.0] |" in lines[1]


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


def check_sizes(out: Path) -> None:
    """Every table of a folder fits a page, in width and in height."""
    for file in sorted((out / "latex").glob("*.tex")):
        log = compiled(out / file.stem, file.read_text("utf-8"))
        assert "Overfull" not in log, file.stem
        assert "too large" not in log, file.stem


LATEX = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")


@pytest.mark.full
@LATEX
@pytest.mark.parametrize("runs", [RUNS, RUNS[:1], RUNS[:2]], ids=["all", "one model", "two models"])
def test_latex_takes_every_table_of_a_study(tmp_path, runs):
    """Without an error, and inside a page."""
    tables = make_tables(synthetic_study(16, runs=runs))[0]
    write_study_papers(tables, every_analysis(), tmp_path)
    assert len([*(tmp_path / "latex").glob("*.tex")]) > 10
    check_sizes(tmp_path)


@pytest.mark.full
@LATEX
def test_latex_takes_every_table_of_edits(tmp_path):
    for layout in (EDITS, DATED, ATOKE, LIFELONG):
        write_edits_papers(edited_summary(layout), layout, tmp_path)
    write_edits_papers(edited_summary(DATED_WAYS, "prompt", "paraphrase", "question"), DATED_WAYS, tmp_path)
    write_paper(paper_of_tests(OF_TESTS, "paired_tests"), tmp_path)
    write_paper(paper_of_portability(portability_rows()), tmp_path)
    assert len([*(tmp_path / "latex").glob("*.tex")]) == 7
    check_sizes(tmp_path)
    assert "cmbx" in compiled(tmp_path / "bold", paper_latex(TABLE))  # the bold numbers are set in the bold font
