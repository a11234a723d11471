"""The table of present and past and its figure: every cell and point against the numbers they stand for."""

from io import StringIO

import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from rich.console import Console

from anachron.errors import DataError
from anachron.evaluate.dated_metrics import DATED_METRICS, DATED_SHARES, dated_metrics
from anachron.evaluate.metrics import summarise
from anachron.evaluate.results import DATED as COLUMNS
from anachron.evaluate.results import DATED_NEIGHBOURS, UPDATES
from anachron.report.edits import DATED, edits_latex, edits_markdown, edits_table, printed
from anachron.report.evaluation import write_dated
from anachron.report.figures.present_and_past import present_and_past

METHODS = ("FT", "ROME", "ROME dated")


def tables(methods=METHODS, modes=("independent",), cases=4):
    """FT erases the past; ROME keeps it, but for the first update. Nobody knows the past of the last update."""
    dated, neighbours, updates = [], [], []
    for mode in modes:
        for method in methods:
            for case in range(cases):
                key = {"method": method, "mode": mode, "case_id": str(case)}
                updates.append(key | {"status": "done"})
                kept = method != "FT" and case > 0
                for granularity in ("year", "month", "day"):
                    for side in ("past", "present") if case < cases - 1 else ("present",):
                        old = 0.5 if kept and side == "past" else 0.1
                        dated.append(key | {
                            "granularity": granularity, "time": f"{granularity} {side}", "side": side,
                            "distance": -1.0 if side == "past" else 1.0, "new_before": 0.1, "old_before": 0.6,
                            "new_after": 0.3, "old_after": old,
                        })  # fmt: skip
                neighbours.append(key | {
                    "kind": "nearest", "number": 0, "granularity": "year", "time": "2018", "side": "present",
                    "distance": 1.0, "before": 0.5, "after": 0.25,
                })  # fmt: skip
    empty = dict.fromkeys(UPDATES)
    return (
        pl.DataFrame(dated, COLUMNS),
        pl.DataFrame(neighbours, DATED_NEIGHBOURS),
        pl.DataFrame([empty | row for row in updates], UPDATES),
    )


def summary(*args):
    dated, _, updates = tables(*args)
    return summarise(dated_metrics(dated, updates), DATED_METRICS, DATED_SHARES)


def test_cells_of_the_table():
    cells = printed(summary(), DATED)
    assert cells.columns == [
        "method", *(f"{word} {g} ↑" for word in ("Updated", "Kept") for g in ("year", "month", "day")), "W past ↑",
        "R past ↑",
    ]  # fmt: skip
    rows = {row["method"]: row for row in cells.iter_rows(named=True)}
    assert list(rows) == ["unedited", *METHODS]
    assert (rows["unedited"]["Updated day ↑"], rows["unedited"]["Kept day ↑"]) == ("0.0 ± 0.0", "100.0 ± 0.0")
    assert (rows["FT"]["Updated day ↑"], rows["FT"]["Kept day ↑"]) == ("100.0 ± 0.0", "0.0 ± 0.0")
    assert rows["ROME dated"]["Kept month ↑"] == "66.7 ± 65.3"  # 1.96 * sqrt(1/3) / sqrt(3)
    assert rows["ROME dated"]["W past ↑"] == "66.7 ± 65.3"


def test_what_a_reader_is_told():
    console = Console(file=StringIO(), width=140)
    console.print(edits_table(summary(), DATED))
    text = console.file.getvalue()
    assert text.split("\n")[0].strip() == "Present updated, past kept, mode independent, 4 updates"
    assert "dates before the change against dates after it" in text
    assert (
        "without Kept year, Kept month, Kept day, W past, R past, and left out of the mean: 1 update of every row"
        in (" ".join(text.split()))
    )
    narrow = Console(file=StringIO(), width=80)
    narrow.print(edits_table(summary(), DATED, narrow=True))
    assert max(map(len, narrow.file.getvalue().splitlines())) <= 80
    assert edits_markdown(summary(), DATED).startswith("## Present updated, past kept, mode independent, 4 updates")
    tex = edits_latex(summary(), DATED)
    assert r"\label{tab:present-and-past}" in tex and "p(new) $>$ p(old)" in tex


def test_another_table_is_refused():
    with pytest.raises(DataError, match="the table of present_and_past lacks past_kept_day"):
        printed(summary().drop("past_kept_day"), DATED)


def points(panel):
    return {line.get_label(): (line.get_xdata()[0], line.get_ydata()[0]) for line in panel.lines
            if not line.get_label().startswith("_")}  # fmt: skip


def test_each_method_is_a_point_with_its_intervals():
    table = summary()
    (panel,) = present_and_past(table).axes
    expected = {row["method"]: (row["present_updated_global"], row["past_kept_global"]) for row in table.to_dicts()}
    assert points(panel) == expected
    assert points(panel)["FT"] == (1, 0)
    spans = [tuple(map(tuple, path.vertices)) for c in panel.collections if isinstance(c, LineCollection)
             for path in c.get_paths()]  # fmt: skip
    rome = table.row(3, named=True)
    x, y = expected["ROME dated"]
    assert ((x, rome["past_kept_global_low"]), (x, rome["past_kept_global_high"])) in spans
    assert ((rome["present_updated_global_low"], y), (rome["present_updated_global_high"], y)) in spans


@pytest.mark.parametrize("modes", [("independent",), ("batch", "sequential")])
def test_the_figure_says_which_method_is_which(modes):
    figure = present_and_past(summary(METHODS, modes))
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert titles == ([""] if len(modes) == 1 else list(modes))
    FigureCanvasAgg(figure).draw()
    seen = {line.get_label(): line for line in figure.axes[0].lines}
    assert seen["ROME"].get_color() == seen["ROME dated"].get_color() != seen["FT"].get_color()
    assert seen["ROME dated"].get_markerfacecolor() == "white" != seen["ROME"].get_markerfacecolor()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["unedited", *METHODS]
    box = legend.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1


def test_files_of_a_run(tmp_path):
    found, notes = write_dated(*tables(), tmp_path)
    assert notes == [] and found.equals(summary())
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()) == [
        "bleedover_by_date.csv", "dated_metrics.parquet", "latex/present_and_past.tex", "markdown/present_and_past.md",
        "present_and_past.csv", "present_and_past.parquet", "present_and_past.pdf", "present_and_past.svg",
    ]  # fmt: skip
    assert (tmp_path / "present_and_past.csv").read_text() == summary().write_csv()
    nothing = tables()[0].filter(pl.col("side") == "present")
    _, notes = write_dated(nothing, *tables()[1:], tmp_path)
    assert len(notes) == 1 and notes[0].startswith("no figure of present and past: ")
    assert not (tmp_path / "present_and_past.svg").exists()
