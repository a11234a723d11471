"""The analysis of ``docs/add-an-analysis.md``: one object is enough for tables, figure, page and documentation."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anachron.analysis import catalogue
from anachron.analysis.analyses.analysis import Analysis
from anachron.analysis.metrics import RUN_KEYS
from anachron.report.figures import write_figures
from anachron.report.outputs import write_tables
from anachron.report.page.data import page_data
from support.synthetic_studies import RUNS, synthetic_study

TOOLS = Path(__file__).parents[2] / "tools"


PAGE = (Path(__file__).parents[2] / "docs" / "add-an-analysis.md").read_text("utf-8")
OF_PAGE: dict[str, Any] = {}
exec(compile(PAGE.split("```python\n")[1].split("```")[0], "add-an-analysis.md", "exec"), OF_PAGE)
TIE_COUNTS: Analysis = OF_PAGE["TIE_COUNTS"]


def ties(study):
    return study.facts.group_by(RUN_KEYS, maintain_order=True).agg(pl.col("ties").sum())


@pytest.fixture(autouse=True)
def few_analyses_and_a_new_one(monkeypatch):
    known = [a for a in catalogue.ANALYSES if a.name in ("facts", "summary")]
    monkeypatch.setattr(catalogue, "ANALYSES", (*known, TIE_COUNTS))


@pytest.mark.full
def test_its_table_is_written_and_drawn_on_paper_and_on_the_page(tmp_path):
    study = synthetic_study(4, runs=RUNS[:2], resamples=20)
    written = write_tables(study, tmp_path, parameters={}, inputs={})
    expected = ties(study)
    assert pl.read_parquet(tmp_path / "tie_counts.parquet").equals(expected)
    assert "Matches of equal scores" in (tmp_path / "markdown" / "tie_counts.md").read_text()
    assert write_figures(written.tables, tmp_path) == {}
    assert (tmp_path / "tie_counts.svg").is_file() and (tmp_path / "tie_counts.pdf").is_file()
    entry = page_data(study, written, [])["analyses"][-1]
    assert (entry["name"], entry["note"], entry["apart"]) == ("tie_counts", "Fewer is better.", False)
    assert [trace["y"] for trace in entry["views"][0]["data"]] == [[n] for n in expected["ties"]]


def test_a_study_that_lacks_what_it_needs_says_why(tmp_path):
    study = synthetic_study(4, runs=RUNS[:1], resamples=20)
    written = write_tables(study, tmp_path, parameters={}, inputs={})
    assert written.left_out == {"tie_counts": "there is one run only"}
    assert page_data(study, written, [])["left_out"] == [
        {"name": "tie_counts", "title": "Matches of equal scores", "reason": "there is one run only"}
    ]


def test_the_tables_page_has_its_section(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    from tables_page import tables_page

    section = tables_page().split("## tie_counts\n", 1)[1]
    assert "Matches of equal scores. Source: beyond the papers. Needs: two runs." in section
    assert "* `ties`: matches of equal scores" in section
