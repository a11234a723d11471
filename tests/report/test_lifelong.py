"""The table of lifelong editing and its figure: every cell and point against the numbers they stand for."""

import math
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.console import Console

from anachron.core.errors import DataError
from anachron.evaluate.lifelong_metrics import STAGES, lifelong_metrics, lifelong_summary
from anachron.evaluate.results import NEIGHBOURS, TARGETS, UPDATES
from anachron.report.edits.lifelong import LIFELONG, write_lifelong
from anachron.report.edits.tables import edits_markdown, edits_tables, printed
from anachron.report.figures.lifelong import lifelong

AFTER, METHODS = (1, 10), ("FT", "ROME")


def tables(**whole: Any) -> dict[str, pl.DataFrame]:
    """FT says every new object and loses a tenth of p at each other fact an edit; ROME loses nothing, says none."""
    rows: dict[str, list[dict[str, Any]]] = {"targets": [], "neighbours": [], "updates": [], "locality": []}
    shared = {"mode": "sequential", "variant": "plain"}
    stages = [shared | {"method": "unedited", "edits": 0, "perplexity": 5.0, "fluency": [6.0, 6.0]}]
    for edits in AFTER:
        for method in METHODS:
            key = shared | {"method": method, "edits": edits}
            state = {"perplexity": 5.0 * edits if method == "FT" else 5.0, "fluency": [6.0, 5.0]}
            undone = {"undone": "1", "undone_old": 0.75, "undone_new": 0.0, "undone_others": [0.25] * (edits - 1)}
            stages.append(key | state | undone | whole)
            for place in range(1, 11):
                own = key | {"case_id": str(place)}
                rows["updates"].append(own | {
                    "status": "done", "place": place, "seconds": 0.5 if place <= edits else None,
                    "scenario": "ReplaceObject",
                })  # fmt: skip
                new = 0.9 if method == "FT" and place <= edits else 0.1
                for kind in ("update", "generalization"):
                    rows["targets"].append(own | {"kind": kind, "prompt_number": 0, "new_before": 0.1,
                                                  "old_before": 0.5, "new_after": new, "old_after": 0.5})  # fmt: skip
                fact = {"before": 1.0, "after": 1.0 - (0.1 * edits if method == "FT" else 0.0)}
                rows["neighbours"].append(own | {"kind": "nearest", "number": 0} | fact)
                rows["locality"].append(key | {"prompt": f"N{place} is"} | fact)
    schemas = {"targets": TARGETS, "neighbours": NEIGHBOURS, "updates": {**UPDATES, "place": pl.Int64()}}
    made = {name: pl.DataFrame(rows[name], schema={**schemas[name], "edits": pl.Int64()}) for name in schemas}
    empty = {name: pl.DataFrame(schema={"edits": pl.Int64()}) for name in ("objects", "generations")}
    return made | empty | {"locality": pl.DataFrame(rows["locality"]), "stages": pl.DataFrame(stages, schema=STAGES)}


def summary(**whole: Any) -> pl.DataFrame:
    found = tables(**whole)
    return lifelong_summary(lifelong_metrics(found), found["locality"], found["stages"])


def test_cells_of_the_table():
    cells = printed(summary(), LIFELONG)
    assert cells.columns == [
        "method",
        "edits",
        *(column.heading for column in LIFELONG.columns),
        "Undone old p ↑",
        "Undone others ↓",
    ]
    rows = {(row["method"], row["edits"]): row for row in cells.iter_rows(named=True)}
    assert list(rows) == [(m, n) for m in ("unedited", *METHODS) for n in ("1", "10")]
    last = rows["FT", "10"]
    assert (last["Efficacy-D ↑"], last["Gen.-S ↑"]) == ("40.0 ± 0.0", "100.0 [69.2, 100.0]")  # ten of ten
    assert (last["Locality loss ↓"], last["Perplexity ↓"], last["Fluency ↑"]) == ("100.0 ± 0.0", "50.0", "5.5 ± 6.4")
    assert (last["Undone old p ↑"], last["Undone others ↓"]) == ("75.0", "25.0 ± 0.0")
    assert rows["FT", "1"]["Efficacy-D ↑"] == "40.0" and rows["FT", "1"]["Undone others ↓"] == "-"
    assert rows["ROME", "10"]["Efficacy-S ↑"].startswith("0.0") and rows["unedited", "1"]["Perplexity ↓"] == "5.0"


def test_what_a_reader_is_told():
    console = Console(file=StringIO(), width=140)
    for table in edits_tables(summary(), 140, LIFELONG):
        console.print(table)
    text = " ".join(console.file.getvalue().split())
    assert "Lifelong editing, mode sequential" in text and "left out of the mean" not in text
    assert "unedited model): FT after 10" in text and "ROME after" not in text
    markdown = edits_markdown(summary(perplexity=None, fluency=None, undone_old=None, undone_others=None), LIFELONG)
    assert "collapsed" not in markdown and "Undone" not in markdown and "- not measured: " not in markdown
    narrow = Console(file=StringIO(), width=80)
    for table in edits_tables(summary(), 80, LIFELONG):
        narrow.print(table)
    assert max(map(len, narrow.file.getvalue().splitlines())) <= 80


def lines(panel: Any) -> dict[str, list[tuple[float, float]]]:
    return {
        line.get_label(): list(zip(line.get_xdata(), line.get_ydata(), strict=True))
        for line in panel.lines
        if not line.get_label().startswith("_") and line.get_label() != "unedited"
    }


def test_each_panel_draws_its_measure():
    table = summary()
    figure = lifelong(table)
    panels = {panel.get_title(loc="left"): panel for panel in figure.axes if panel.get_title(loc="left")}
    names = {
        "efficacy success": "efficacy_success", "generalization success": "generalization_success",
        "locality loss": "locality_loss", "perplexity": "perplexity", "fluency (bits)": "fluency",
    }  # fmt: skip
    assert list(panels) == list(names)
    for title, name in names.items():
        assert lines(panels[title]) == {
            m: [(n, table.filter(method=m, edits=n)[name][0]) for n in AFTER] for m in METHODS
        }
        assert panels[title].get_xscale() == "log"
    (clean,) = (line for line in panels["perplexity"].lines if line.get_label() == "unedited")
    assert list(clean.get_ydata()) == [5.0, 5.0]
    FigureCanvasAgg(figure).draw()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [*METHODS, "unedited"]
    ticks = [label.get_text() for label in panels["perplexity"].get_xticklabels()]
    assert ticks == ["1", "10"]


def test_far_perplexities_are_on_a_logarithmic_axis_and_infinite_ones_are_left_out():
    found = tables()
    far = pl.when(method="FT", edits=10).then(math.inf).when(method="FT").then(500.0).otherwise(pl.col("perplexity"))
    found["stages"] = found["stages"].with_columns(perplexity=far)
    figure = lifelong(lifelong_summary(lifelong_metrics(found), found["locality"], found["stages"]))
    panel = next(panel for panel in figure.axes if panel.get_title(loc="left") == "perplexity")
    assert panel.get_yscale() == "log" and lines(panel)["FT"] == [(1, 500.0)]
    FigureCanvasAgg(figure).draw()
    assert all("$" not in label.get_text() for label in panel.get_yticklabels(which="both"))


def test_what_is_not_measured_has_no_panel():
    figure = lifelong(summary(perplexity=None, fluency=[]))
    assert [p.get_title(loc="left") for p in figure.axes if p.axison] == [
        "efficacy success", "generalization success", "locality loss",
    ]  # fmt: skip
    with pytest.raises(DataError, match="nothing to draw"):
        lifelong(summary().with_columns(efficacy_success=pl.lit(None, pl.Float64)))


@pytest.mark.full
def test_files_of_a_run(tmp_path: Path):
    found, notes = write_lifelong(tables(), tmp_path)
    assert notes == [] and found.equals(summary())
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()) == [
        "latex/lifelong.tex", "lifelong.csv", "lifelong.parquet", "lifelong.pdf", "lifelong.png", "lifelong.svg",
        "lifelong_by_age.csv", "lifelong_metrics.parquet", "markdown/lifelong.md",
    ]  # fmt: skip
    ages = pl.read_csv(tmp_path / "lifelong_by_age.csv")
    assert ages.filter(method="FT")["efficacy_success"].to_list() == [1.0, 1.0, 1.0]
