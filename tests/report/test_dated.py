"""The table of present and past, its figure and that of bleedover by date: every cell and point against its number."""

from io import StringIO
from itertools import pairwise
from math import sqrt
from statistics import mean, stdev

import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.text import Text
from rich.console import Console
from scipy.stats import t

from anachron.core.errors import DataError
from anachron.core.labels import split_label
from anachron.evaluate.measures.dated import DATED as QUESTIONS
from anachron.evaluate.measures.dated import DATED_NEIGHBOURS
from anachron.evaluate.measures.dated_metrics import (
    DATED_METRICS,
    DATED_SHARES,
    bleedover_by_date,
    by_way,
    dated_metrics,
)
from anachron.evaluate.metrics import summarise
from anachron.evaluate.results import UPDATES, method_label
from anachron.report.edits.dated import DATED, DATED_WAYS
from anachron.report.edits.evaluation import write_dated
from anachron.report.edits.tables import edits_latex, edits_markdown, edits_table, printed
from anachron.report.figures.bleedover import bleedover_by_date as by_date
from anachron.report.figures.present_and_past import present_and_past
from support.intervals import exact

METHODS = ("FT", "ROME", "ROME dated")


def tables(methods=METHODS, modes=("independent",), cases=4):
    """FT erases the past; ROME keeps it, but for the first update. Nobody knows the past of the last update."""
    dated, neighbours, updates = [], [], []
    for mode in modes:
        for method in methods:
            for case in range(cases):
                name, variant = split_label(method)
                key = {"method": name, "variant": variant, "mode": mode, "case_id": str(case)}
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
        pl.DataFrame(dated, QUESTIONS.table),
        pl.DataFrame(neighbours, DATED_NEIGHBOURS.table),
        pl.DataFrame([empty | row for row in updates], UPDATES),
    )


def summary(*args):
    dated, _, updates = tables(*args)
    return summarise(dated_metrics(dated, updates), DATED_METRICS, DATED_SHARES)


def of_shares(successes, trials):
    low, high = exact(successes, trials)
    return f"{100 * successes / trials:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def test_cells_of_the_table():
    cells = printed(summary(), DATED)
    assert cells.columns == [
        "method", *(f"{word} {g} ↑" for word in ("Updated", "Kept") for g in ("year", "month", "day")), "W past ↑",
        "R past ↑", *(f"Both {g} ↑" for g in ("year", "month", "day")), "Both ↑", "Kept if right ↑", "Kept prompt ↑",
    ]  # fmt: skip
    rows = {row["method"]: row for row in cells.iter_rows(named=True)}
    assert list(rows) == ["unedited", *METHODS]
    none, all_of, some = (of_shares(successes, 3) for successes in (0, 3, 2))
    assert (rows["unedited"]["Updated day ↑"], rows["unedited"]["Kept day ↑"]) == (of_shares(0, 4), all_of)
    assert (rows["FT"]["Updated day ↑"], rows["FT"]["Kept day ↑"]) == (of_shares(4, 4), none)
    assert rows["ROME dated"]["Kept month ↑"] == rows["ROME dated"]["W past ↑"] == rows["ROME dated"]["Both ↑"] == some
    assert [rows[m]["Both day ↑"] for m in ("unedited", "FT")] == [none] * 2
    assert [rows[m]["Kept if right ↑"] for m in ("unedited", "FT")] == [all_of, none]


def in_two_ways():
    """The tables of FT and ROME with questions besides, in which FT keeps what it does not keep in prompts."""
    dated, _, updates = tables(METHODS[:2])
    old = pl.when(pl.col("side") == "past").then(0.5).otherwise(0.1)
    both = pl.concat([dated, dated.with_columns(way=pl.lit("question"), old_after=old)])
    return summarise(dated_metrics(both, updates), DATED_METRICS, DATED_SHARES)


def test_ways_of_asking_have_a_table_of_their_own_and_kept_stands_beside_the_mean():
    rows = {row["method"]: row for row in printed(in_two_ways(), DATED).iter_rows(named=True)}
    wanted = {  # of three updates, which agree: as three, and as nine halves where each is half right
        "Kept year ↑": "50.0 [8.1, 91.9]", "Kept prompt ↑": "0.0 [0.0, 70.8]", "Kept question ↑": "100.0 [29.2, 100.0]"
    }  # fmt: skip
    assert {heading: rows["FT"][heading] for heading in wanted} == wanted and "Kept paraphrase ↑" not in rows["FT"]
    ways = printed(by_way(in_two_ways()), DATED_WAYS)
    assert ways.select("method", "way", "Kept year ↑", "Updated day ↑", "R past ↑").rows() == [
        ("unedited", "prompt", "100.0 [29.2, 100.0]", "0.0 [0.0, 60.2]", "0.0 [0.0, 70.8]"),
        ("unedited", "question", "100.0 [29.2, 100.0]", "0.0 [0.0, 60.2]", "0.0 [0.0, 70.8]"),
        ("FT", "prompt", "0.0 [0.0, 70.8]", "100.0 [39.8, 100.0]", "0.0 [0.0, 70.8]"),
        ("FT", "question", "100.0 [29.2, 100.0]", "100.0 [39.8, 100.0]", "100.0 [29.2, 100.0]"),
        ("ROME", "prompt", "66.7 [9.4, 99.2]", "100.0 [39.8, 100.0]", "66.7 [9.4, 99.2]"),
        ("ROME", "question", "100.0 [29.2, 100.0]", "100.0 [39.8, 100.0]", "100.0 [29.2, 100.0]"),
    ]
    assert "FT (question)" in edits_markdown(by_way(in_two_ways().with_columns(done=4 + (pl.col("method") == "FT"))),
                                             DATED_WAYS)  # fmt: skip
    assert r"\label{tab:present-and-past-by-way}" in edits_latex(by_way(in_two_ways()), DATED_WAYS)


def test_what_a_reader_is_told():
    console = Console(file=StringIO(), width=140)
    console.print(edits_table(summary(), DATED))
    text = console.file.getvalue()
    assert text.split("\n")[0].strip() == "Present updated, past kept, mode independent, 4 updates"
    assert "dates before the change against dates after it" in text
    assert (
        "no Kept year, Kept month, Kept day, W past, R past, Both year, Both month, Both day, Both, "
        "Kept if right, Kept prompt, so left out of the mean: 1 update of every row" in (" ".join(text.split()))
    )
    narrow = Console(file=StringIO(), width=80)
    narrow.print(edits_table(summary(), DATED, narrow=True))
    assert max(map(len, narrow.file.getvalue().splitlines())) <= 80
    assert edits_markdown(summary(), DATED).startswith("## Present updated, past kept, mode independent, 4 updates")
    tex = edits_latex(summary(), DATED)
    assert r"\label{tab:present-and-past}" in tex and "p(new) $>$ p(old)" in tex


def test_another_table_is_refused():
    with pytest.raises(DataError, match="the table of present_and_past lacks the column past_kept_day"):
        printed(summary().drop("past_kept_day"), DATED)


def points(panel):
    return {line.get_label(): (line.get_xdata()[0], line.get_ydata()[0]) for line in panel.lines
            if not line.get_label().startswith("_")}  # fmt: skip


def test_each_method_is_a_point_with_its_intervals():
    table = summary()
    (panel,) = present_and_past(table).axes
    labelled = table.with_columns(method_label())
    expected = {row["method"]: (row["present_updated_global"], row["past_kept_global"]) for row in labelled.to_dicts()}
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


def asked(methods=METHODS, modes=("independent",), kinds=("nearest", "random")):
    """Neighbours of three updates on four dates each; a method loses the more, the later it comes and the date is."""
    return [
        {"method": method, "mode": mode, "case_id": str(case), "kind": kind, "number": number, "granularity": "day",
         "time": f"day {years}", "side": "past" if years < 0 else "present", "distance": years, "before": 0.75,
         "after": 0.75 - 0.015625 * (1 + methods.index(method)) * (1 + case) * (number + years / 8 + 0.5)}
        for mode in modes for method in methods for case in range(3) for kind in kinds for number in range(2)
        for years in (-6.5 + number, -2.0, 0.25, 3.0 - case)
    ]  # fmt: skip


def neighbours_of(rows):
    """The table of such rows, with the labels of methods split."""
    split = [dict(zip(("method", "variant"), split_label(row["method"]), strict=True)) for row in rows]
    return pl.DataFrame([row | method for row, method in zip(rows, split, strict=True)], DATED_NEIGHBOURS.table)


def drawn_by(panel, method):
    """(x, y) of a method's marks, and the ends (low, high) of their intervals."""
    (line,) = [line for line in panel.lines if line.get_label() == method]
    (spans,) = [c for c in panel.collections if c.get_label() == f"_interval {method}"]
    return line.get_xydata().tolist(), [(low[1], high[1]) for low, high in spans.get_segments()]


def test_every_mark_of_bleedover_by_date_against_the_rows():
    rows = asked(modes=("batch", "sequential"))
    figure = by_date(bleedover_by_date(neighbours_of(rows)))
    panels = {panel.get_title(loc="left"): panel for panel in figure.axes}
    assert list(panels) == [
        f"{kind} facts, {mode}" for mode in ("batch", "sequential") for kind in ("nearest", "random")
    ]
    for title, panel in panels.items():
        kind, mode = title.replace(" facts,", "").split()
        for method in METHODS:
            own = [r for r in rows if (r["kind"], r["mode"], r["method"]) == (kind, mode, method)]
            points, spans = drawn_by(panel, method)
            expected = []
            for low, high in ((-99, -5), (-5, -2), (-2, 0), (0, 2), (2, 5), (5, 99)):
                inside = [r for r in own if low <= r["distance"] < high]
                lost = [[max(0.0, r["before"] - r["after"]) for r in inside if r["case_id"] == case] for case in "012"]
                if means := [mean(each) for each in lost if each]:
                    half = t.ppf(0.975, len(means) - 1) * stdev(means) / sqrt(len(means)) if len(means) > 1 else None
                    expected.append((mean(r["distance"] for r in inside), mean(means), half))
            assert points == [pytest.approx((x, y)) for x, y, _ in expected]
            assert spans == [pytest.approx((y - half, y + half)) for _, y, half in expected if half is not None]
        assert panel.get_ylim() == figure.axes[0].get_ylim() and panel.get_ylim()[0] == 0
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["the change", *METHODS]


def test_marks_of_several_methods_at_one_date_are_apart_on_paper_and_look_as_in_the_other_figure():
    figure = by_date(bleedover_by_date(neighbours_of(asked())))
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    first = [lines[m].get_transform().transform(lines[m].get_xydata())[0][0] for m in METHODS]
    assert [b - a for a, b in pairwise(first)] == [pytest.approx(2.5 / 72 * figure.dpi)] * 2
    others = {line.get_label(): line for line in present_and_past(summary()).axes[0].lines}
    for method in METHODS:
        one, other = (
            (line.get_color(), line.get_marker(), line.get_markerfacecolor())
            for line in (lines[method], others[method])
        )
        assert one == other


def test_texts_of_bleedover_by_date_stay_on_the_sheet_and_apart(monkeypatch):
    methods = tuple(f"{name}{variant}" for name in ("FT", "FT+L", "ROME", "AlphaEdit") for variant in ("", " dated"))
    figure = by_date(bleedover_by_date(neighbours_of(asked(methods, ("batch", "sequential")))))
    texts = []  # those that reach the paper
    draw = Text.draw
    monkeypatch.setattr(Text, "draw", lambda text, renderer: (texts.append(text), draw(text, renderer))[1])
    FigureCanvasAgg(figure).draw()
    boxes = [text.get_window_extent() for text in texts if text.get_visible() and text.get_text()]
    assert len(boxes) > 20
    assert all(box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1 for box in boxes)
    assert all(box.y0 >= -1 and box.y1 <= figure.bbox.y1 + 1 for box in boxes)
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])


def test_one_kind_of_neighbour_is_a_figure_of_a_column_and_none_is_no_figure():
    alone = by_date(bleedover_by_date(neighbours_of(asked(("FT",), kinds=("random",)))))
    assert [p.get_title(loc="left") for p in alone.axes] == ["random facts"] and alone.get_figwidth() == 3.3
    with pytest.raises(DataError, match="figure bleedover_by_date: nothing to draw"):
        by_date(bleedover_by_date(neighbours_of([])))


@pytest.mark.full
def test_files_of_a_run(tmp_path):
    of_run = dict(zip(("dated", "dated_neighbours", "updates"), tables(), strict=True))
    found, notes = write_dated(of_run, tmp_path)
    assert notes == [] and found.equals(summary())
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()) == [
        "bleedover_by_date.csv", "bleedover_by_date.pdf", "bleedover_by_date.png", "bleedover_by_date.svg",
        "dated_metrics.parquet",
        "latex/present_and_past.tex", "latex/present_and_past_by_way.tex", "latex/present_and_past_tests.tex",
        "markdown/present_and_past.md", "markdown/present_and_past_by_way.md", "markdown/present_and_past_tests.md",
        "present_and_past.csv", "present_and_past.parquet", "present_and_past.pdf", "present_and_past.png",
        "present_and_past.svg",
        "present_and_past_by_way.csv", "present_and_past_by_way.parquet", "present_and_past_tests.csv",
        "present_and_past_tests.parquet",
    ]  # fmt: skip
    assert (tmp_path / "present_and_past.csv").read_text() == summary().write_csv()
    nothing = tables()[0].filter(pl.col("side") == "present")
    _, notes = write_dated(of_run | {"dated": nothing}, tmp_path)
    assert len(notes) == 1 and notes[0].startswith("no figure of present and past: ")
    assert not (tmp_path / "present_and_past.svg").exists()
    none_beside = of_run | {"dated_neighbours": of_run["dated_neighbours"].clear()}
    _, notes = write_dated(none_beside, tmp_path)
    assert len(notes) == 1 and notes[0].startswith("no figure of bleedover by date: ")
    assert not (tmp_path / "bleedover_by_date.svg").exists()
