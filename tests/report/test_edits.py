"""The table of evaluated edits and the figure of bleedover: every cell and field against the numbers they stand for."""

import subprocess
import sys
from io import StringIO

import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from rich.console import Console

from anachron.core.errors import ConfigError, DataError
from anachron.evaluate.by_popularity import bleedover_bins
from anachron.evaluate.metrics import METRICS, summarise, update_metrics
from anachron.evaluate.results import NEIGHBOURS, TARGETS, UPDATES
from anachron.report.edits.tables import (
    edit_notes,
    edits_latex,
    edits_markdown,
    edits_table,
    edits_tables,
    printed,
    write_edits,
)
from anachron.report.figures import write_figure
from anachron.report.figures.bleedover import bleedover
from support.intervals import exact

# WikiFactDiff, table 4: efficacy, generalization (difference, success), bleedover (random, nearest), fluency, seconds.
PUBLISHED = {
    "unedited": [-1.4, 44.6, -1.3, 44.4, 0.0, 0.0, 5.2, 0.0],
    "FT": [45.9, 99.6, 45.7, 99.5, 3.3, 5.6, 0.6, 1.4],
    "ROME": [95.5, 99.7, 59.5, 98.0, 0.0, 0.6, 5.2, 4.9],
}
HALVES = {
    "unedited": [0.2, 1.0, 0.2, 0.9, 0.0, 0.0, 0.0, 0.0],
    "FT": [0.5, 0.1, 0.5, 0.1, 0.1, 0.2, 0.0, 0.0],
    "ROME": [0.2, 0.1, 0.6, 0.2, 0.0, 0.1, 0.0, 0.0],
}
SHOWN = [m for m in METRICS if not m.endswith(("absolute", "accuracy", "exact")) and not m.startswith("neighbourhood")]
SHOWN[4:6] = reversed(SHOWN[4:6])  # random before nearest
HEADINGS = [
    "Efficacy-D ↑", "Efficacy-S ↑", "Gen.-D ↑", "Gen.-S ↑", "Bleedover random ↓", "Bleedover nearest ↓", "Fluency ↑",
    "Seconds ↓",
]  # fmt: skip


def row(method, means, halves, **cells):
    found = {
        "mode": "independent",
        "scenario": "ReplaceObject",
        "method": method,
        "variant": "plain",
        "done": 10494,
        "failed": 0,
    }
    for metric, mean, half in zip(SHOWN, means, halves, strict=True):
        factor = 1 if metric in ("fluency", "seconds") else 100
        mean, half = mean / factor, half / factor
        found |= {metric: mean, f"{metric}_low": mean - half, f"{metric}_high": mean + half, f"{metric}_n": 10494}
    return found | cells


def published(**cells):
    rows = [row(name, PUBLISHED[name], HALVES[name]) for name in PUBLISHED]
    rows[-1] |= cells
    return pl.DataFrame(rows, infer_schema_length=None)


def shown(table, width=200):
    console = Console(file=StringIO(), width=width)
    console.print(table)
    return console.file.getvalue().splitlines()


def test_the_published_table_comes_out_in_its_shape():
    cells = printed(published())
    assert cells.columns == ["method", *HEADINGS]
    assert cells.rows()[0] == (
        "unedited", "-1.4 ± 0.2", "44.6 [43.6, 45.6]", "-1.3 ± 0.2", "44.4 [43.5, 45.3]", "0.0 ± 0.0", "0.0 ± 0.0",
        "5.2 ± 0.0", "0.00 ± 0.00",
    )  # fmt: skip
    for name, cell in zip(PUBLISHED, cells.rows(), strict=True):
        pairs = zip(PUBLISHED[name], HALVES[name], [1] * 7 + [2], strict=True)
        wanted = [f"{mean:.{digits}f} ± {half:.{digits}f}" for mean, half, digits in pairs]
        for place in (1, 3):  # shares have bounds
            success, half = PUBLISHED[name][place], HALVES[name][place]
            wanted[place] = f"{success:.1f} [{success - half:.1f}, {success + half:.1f}]"
        assert cell == (name, *wanted)


def test_shares_are_printed_with_the_bounds_of_their_interval():
    low, high = exact(6, 6)
    certain = published(efficacy_success=1.0, efficacy_success_low=low, efficacy_success_high=high)
    bounds = f"100.0 [{100 * low:.1f}, 100.0]"  # the half width would say that more than all were possible
    assert printed(certain)["Efficacy-S ↑"][-1] == bounds == "100.0 [54.1, 100.0]"
    assert bounds in "\n".join(shown(edits_table(certain)))
    assert f"| {bounds} |" in edits_markdown(certain) and f"& {bounds} &" in edits_latex(certain)
    narrow = "\n".join(shown(edits_table(certain, narrow=True), 80))
    assert "[54.1," in narrow and "100.0]" in narrow and "[54.1, 100.0]" not in narrow


def test_the_terminal_says_what_all_rows_share_and_fits_130_letters():
    lines = shown(edits_table(published()), 130)
    assert lines[0].strip() == "Edited models, mode independent, 10,494 updates"
    text = " ".join(lines)
    assert "45.9 ± 0.5" in text and "4.90 ± 0.00" in text and "failed" not in text
    assert "mean ± half the 95 % interval (Student's t); for shares, 0 to 100: mean [interval bounds]" in text
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)


def test_a_narrow_terminal_gets_two_lines_a_cell_and_whole_words():
    lines = shown(edits_table(published(), narrow=True), 80)
    text = "\n".join(lines)
    assert all(word in text for word in ("Efficacy", "Bleedover", "nearest ↓", "Fluency", "unedited", "[43.6,"))
    assert max(map(len, lines)) <= 80 and "45.9 ± 0.5" not in text


def test_what_was_not_measured_at_all_is_said_once():
    known = {"fluency": None, "fluency_low": None, "fluency_high": None, "fluency_n": 0}
    without = pl.DataFrame([r | known for r in published().to_dicts()], infer_schema_length=None)
    assert edit_notes(without)[2:] == ["not measured: Fluency"]


def test_seconds_without_an_interval_are_explained():
    together = published(seconds_low=None, seconds_high=None)
    note = "Seconds have no interval where edits made together share their time"
    assert printed(together)["Seconds ↓"].to_list()[1:] == ["1.40 ± 0.00", "4.90"]
    assert edit_notes(together)[2:] == [note] and note not in edit_notes(published())
    assert note not in edit_notes(published(seconds_low=None, seconds_high=None, seconds_n=1))


def test_modes_are_sections_and_each_is_named_once():
    both = pl.concat([published(), published().with_columns(pl.lit("batch").alias("mode"))])
    lines = shown(edits_table(both))
    assert sum("independent" in line for line in lines) == sum("batch" in line for line in lines) == 1
    assert sum(line.startswith("├") for line in lines) == 1
    assert printed(both)["mode"].to_list() == ["independent"] * 3 + ["batch"] * 3


def more(table, **values):
    """With further metrics, the same in every row: a mean of all its updates, or of none."""
    return table.with_columns(
        column
        for name, mean in values.items()
        for column in (
            pl.lit(mean, pl.Float64).alias(name),
            *(pl.lit(mean, pl.Float64).alias(f"{name}{end}") for end in ("_low", "_high")),
            pl.lit(0 if mean is None else 10494).alias(f"{name}_n"),
        )
    )


def test_what_only_some_runs_measure_has_a_table_of_its_own_on_a_terminal():
    room = min(width for width in range(80, 131) if edits_table(published()).fits(width))
    for width, narrow in ((room, False), (room - 1, True)):  # one line a cell as soon as there is room for it
        plain = edits_tables(published(), width)
        assert [shown(table) for table in plain] == [shown(edits_table(published(), narrow=narrow))]
    generated = more(published(), generated_new=0.625, generalization_generated_new=None)
    first, second = edits_tables(generated, 80)
    assert "for shares, 0 to 100: mean [interval bounds] (Korn and Graubard)" in " ".join(
        " ".join(shown(first, 80)).split()
    )
    text = " ".join(shown(second, 80))
    assert "62.5" in text and "Graubard" not in text and "Gen" not in text
    assert printed(generated).columns == ["method", *HEADINGS, "Output new ↑"]
    assert "Output new" in edits_markdown(generated) and "Output new" in edits_latex(generated)


def test_scenarios_are_rows_of_their_own_and_their_measures_are_explained():
    archive = more(published(), efficacy_change=0.25).with_columns(scenario=pl.lit("Archive"))
    assert edits_tables(archive, 120)[0].title == "Edited models, mode independent, scenario Archive, 10,494 updates"
    assert any(note.startswith("Archive: objects that hold against those that do not") for note in edit_notes(archive))
    both = pl.concat([more(published(), efficacy_change=None), archive])
    cells = printed(both)
    assert cells["scenario"].to_list() == ["ReplaceObject"] * 3 + ["Archive"] * 3
    assert cells["Change ↑"].to_list() == ["-"] * 3 + ["25.0 ± 0.0"] * 3
    assert not any("left out of the mean" in note for note in edit_notes(both))  # replacements have no such measure
    assert sum(line.startswith("├") for line in shown(edits_table(both))) == 1
    tables = [shown(table) for table in edits_tables(both, 120)]  # a terminal has room for one scenario at a time
    assert len(tables) == 3 and all("Archive" in " ".join(table[:3]) for table in tables[1:])
    assert ["Graubard" in " ".join(table) for table in tables] == [False, True, False]


def test_failures_have_a_column_and_numbers_that_differ_too():
    cells = printed(published(done=10490, failed=4))
    assert cells.columns == ["method", "updates", *HEADINGS, "failed"]
    assert cells["updates"].to_list() == ["10,494", "10,494", "10,490"]
    assert cells["failed"].to_list() == ["0", "0", "4"]


def test_what_is_not_known_is_a_dash_and_one_update_has_no_interval():
    alone = {f"efficacy_difference_{end}": None for end in ("low", "high")}
    cells = printed(published(seconds=None, fluency=-0.0001, **alone)).rows(named=True)[-1]
    assert (cells["Seconds ↓"], cells["Fluency ↑"], cells["Efficacy-D ↑"]) == ("-", "0.0 ± 0.0", "95.5")


def test_notes_say_which_means_are_over_fewer_updates():
    fewer = {f"{metric}_n": 10490 for metric in ("efficacy_difference", "efficacy_success")}
    table = published(fluency_n=10493, **fewer)
    assert edit_notes(table)[2:] == [
        "no Efficacy-D, Efficacy-S, so left out of the mean: 4 updates of ROME",
        "no Fluency, so left out of the mean: 1 update of ROME",
    ]
    all_rows = published().with_columns(pl.lit(10493, pl.Int64).alias("seconds_n"))
    assert edit_notes(all_rows)[2] == "no Seconds, so left out of the mean: 1 update of every row"


def test_markdown_and_latex():
    text = edits_markdown(published())
    assert text.startswith(f"## Edited models, mode independent, 10,494 updates\n\n| method | {' | '.join(HEADINGS)} |")
    assert "| ROME | 95.5 ± 0.2 | 99.7 [99.6, 99.8] |" in text
    assert text.endswith("\nSource: WikiFactDiff, section 5, table 4.\n")
    tex = edits_latex(published(method="my_r&d", fluency_n=1))
    assert r"\begin{tabular}{lrrrrrrrr}" in tex and r"\label{tab:edits}" in tex
    assert r"95.5 $\pm$ 0.2" in tex and r"Efficacy-D $\uparrow$" in tex and r"Seconds $\downarrow$" in tex
    assert r"10,493 updates of my\_r\&d" in tex and r"95 \% interval" in tex
    assert tex.isascii()


def test_files_are_laid_out_like_those_of_a_study(tmp_path):
    write_edits(published(), tmp_path)
    assert pl.read_parquet(tmp_path / "edits.parquet").equals(published())
    assert (tmp_path / "edits.csv").read_text() == published().write_csv()
    assert (tmp_path / "markdown" / "edits.md").read_text("utf-8") == edits_markdown(published())
    assert (tmp_path / "latex" / "edits.tex").read_text("utf-8") == edits_latex(published())


@pytest.mark.parametrize("make", [edits_table, printed, edit_notes, edits_markdown, edits_latex])
def test_another_table_and_an_empty_one_are_refused(make):
    with pytest.raises(
        DataError, match=r"the table of edits lacks the column seconds; make it with anachron\.evaluate"
    ):
        make(published().drop("seconds"))
    with pytest.raises(
        DataError, match=r"table of edits has 0 rows; it needs at least one .* so evaluate an edit first"
    ):
        make(published().clear())


def test_the_report_of_edits_loads_neither_torch_nor_matplotlib():
    code = (
        "import sys, anachron.report.edits.tables, anachron.report.figures.bleedover, anachron.evaluate.metrics\n"
        "print({'torch', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def results(methods=("FT", "ROME", "PROMPT"), modes=("independent",), cases=40):
    """A made run: bleedover grows with similarity and popularity, ROME's less; PROMPT has none."""
    draw = np.random.default_rng(5)
    targets, neighbours, updates = [], [], []
    for mode in modes:
        for case in map(str, range(cases)):
            prompts, dists, views = draw.random((5, 4)), draw.random(10), np.exp(draw.normal(8, 2, 10))
            for number, method in enumerate(methods):
                key = {"method": method, "mode": mode, "case_id": case}
                updates.append(
                    key | {"status": "done", "reason": None, "seconds": 1.0, "fluency_before": 5.2, "fluency": 5.0,
                           "relation": "P6", "popularity": 1.0}
                )  # fmt: skip
                for n, (a, b, c, d) in enumerate(prompts.tolist()):
                    targets.append(
                        key | {"kind": "generalization" if n else "update", "prompt_number": n, "new_before": a,
                               "old_before": b, "new_after": c, "old_after": d}
                    )  # fmt: skip
                for n, (dist, popularity) in enumerate(zip(dists.tolist(), views.tolist(), strict=True)):
                    lost = 0.0 if method == "PROMPT" else (1 - dist) * np.log(popularity) / 40 / (number + 1)
                    neighbours.append(
                        key | {"kind": "nearest", "number": n, "before": 0.5, "after": 0.5 - max(0.0, lost),
                               "dist": dist, "popularity": popularity}
                    )  # fmt: skip
    return pl.DataFrame(targets, TARGETS), pl.DataFrame(neighbours, NEIGHBOURS), pl.DataFrame(updates, UPDATES)


def test_the_table_of_a_run_end_to_end():
    cells = printed(summarise(update_metrics(*results())))
    assert cells["method"].to_list() == ["unedited", "FT", "ROME", "PROMPT"]
    assert cells["Bleedover random ↓"].to_list() == ["-"] * 4  # no random neighbour was asked
    assert cells["Fluency ↑"].to_list() == ["5.2 ± 0.0", "5.0 ± 0.0", "5.0 ± 0.0", "5.0 ± 0.0"]


def test_each_field_is_a_cell_of_the_table():
    table = bleedover_bins(results()[1])
    figure = bleedover(table)
    top = max(2.0, table["normalised"].max())
    for axes, method in zip(figure.axes, ("FT", "ROME", "PROMPT"), strict=True):
        assert axes.get_title(loc="left") == method
        (mesh,) = [c for c in axes.collections if isinstance(c, QuadMesh)]
        values = mesh.get_array()
        texts = {text.get_position(): text.get_text() for text in axes.texts}
        if method == "PROMPT":
            assert values.mask.all() and list(filter(None, texts.values())) == ["no bleedover"]
            continue
        rows = table.filter(pl.col("method") == method).to_dicts()
        assert np.isfinite(values.filled(np.nan)).sum() == len(rows)
        for cell in rows:
            i, j = 5 - cell["similarity_bin"], cell["popularity_bin"] - 1  # similarity goes up, popularity right
            assert values[i, j] == pytest.approx(cell["normalised"] / top)
            assert texts[j, i] == f"{cell['normalised']:.1f}"
        assert axes.get_ylim() == (4.5, -0.5)
    edges = table.filter(pl.col("method") == "FT").select("similarity_low", "similarity_high").unique().sort(pl.all())
    expected = [*edges["similarity_low"], edges["similarity_high"][-1]]
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == [f"{edge:.2f}" for edge in reversed(expected)]


def test_one_wild_cell_does_not_pale_the_others_and_small_differences_look_small():
    table = bleedover_bins(results(("FT",))[1])
    wild = table.with_columns(
        pl.when(pl.int_range(pl.len()) == 0).then(40.0).otherwise("normalised").alias("normalised")
    )
    (mesh,) = bleedover(wild).axes[0].collections
    assert mesh.get_array().max() == 1 and np.ma.median(mesh.get_array()) > 0.1
    flat = table.with_columns(pl.lit(1.0).alias("normalised"))
    (mesh,) = bleedover(flat).axes[0].collections
    assert mesh.get_array().max() == 0.5


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("methods", "modes", "titles", "width"),
    [
        (("ROME",), ("batch",), ["ROME"], 3.3),
        (("FT", "ROME"), ("batch", "sequential"),
         ["FT, batch", "ROME, batch", "FT, sequential", "ROME, sequential"], 6.9),
        (tuple("ABCDEFG"), ("batch",), list("ABCDEFG"), 6.9),
    ],
)  # fmt: skip
def test_lines_of_maps_and_legible_texts(methods, modes, titles, width):
    figure = bleedover(bleedover_bins(results(methods, modes, 12)[1]))
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title(loc="left") for axes in panels] == titles
    assert figure.get_figwidth() == width
    FigureCanvasAgg(figure).draw()
    texts = [t for axes in panels for t in [*axes.get_xticklabels(), *axes.get_yticklabels(), *axes.texts, axes.title]]
    texts = [t for t in [*texts, *figure.texts] if t.get_visible() and t.get_text()]
    assert all(t.get_fontsize() >= 7 for t in texts)
    boxes = [t.get_window_extent() for t in texts]
    assert all(b.x0 >= -1 and b.y0 >= -1 and b.x1 <= figure.bbox.x1 + 1 and b.y1 <= figure.bbox.y1 + 1 for b in boxes)
    meet = [
        (texts[i].get_text(), texts[j].get_text())
        for i, a in enumerate(boxes) for j, b in enumerate(boxes[:i])
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]  # fmt: skip
    assert meet == []


@pytest.mark.full
def test_the_figure_is_written_the_same_twice(tmp_path):
    files = [write_figure(bleedover(bleedover_bins(results()[1])), tmp_path / name, "bleedover") for name in "ab"]
    for one, other in zip(*files, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert [path.name for path in files[0]] == ["bleedover.svg", "bleedover.pdf", "bleedover.png"]


def test_no_figure_of_nothing(monkeypatch):
    table = bleedover_bins(results(("FT",))[1])
    with pytest.raises(
        DataError, match=r"figure bleedover lacks the column normalised; make it with .*\.bleedover_bins"
    ):
        bleedover(table.drop("normalised"))
    with pytest.raises(DataError, match="figure bleedover: nothing to draw"):
        bleedover(table.with_columns(pl.lit(None, pl.Float64).alias("normalised")))
    with pytest.raises(DataError, match="nothing to draw"):
        bleedover(table.clear())
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'matplotlib.* 'plotly"):
        bleedover(table)
