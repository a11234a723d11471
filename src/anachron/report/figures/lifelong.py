"""Figure of lifelong editing: success, what other facts lose and the model's state against the number of edits."""

from typing import TYPE_CHECKING

import polars as pl

from anachron.analysis.plots import marks, style
from anachron.analysis.plots.style import PAGE
from anachron.evaluate.results import UNEDITED, method_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = {
    "efficacy_success": "efficacy success",
    "generalization_success": "generalization success",
    "locality_loss": "locality loss",
    "perplexity": "perplexity",
    "fluency": "fluency (bits)",
}
OF_CLEAN = ("perplexity", "fluency")  # which have a value that is the clean model's
SHARES = ("efficacy_success", "generalization_success")
APART = 3.0  # points between methods at one number of edits
FAR = 10.0  # ratio of perplexities from which on their axis is logarithmic
HEIGHT = 1.6  # of a row of panels, inches


def lifelong(summary: pl.DataFrame) -> "Figure":
    """A panel a measure, a line a method, with the 95 % intervals; a dotted line is the unedited model.

    summary: rows of `anachron.evaluate.lifelong_metrics.lifelong_summary` of one mode; of several scenarios the first.
    Edits count on a logarithmic axis, as they are made in powers of ten; a measure that no row has gets no panel.
    """
    rows = style.check("lifelong", summary, "efficacy_success", made_by="lifelong_summary")
    rows = rows.filter(pl.col("scenario") == rows["scenario"][0]).with_columns(method_label())
    panels = [name for name in PANELS if rows.filter(pl.col("method") != UNEDITED)[name].is_finite().any()]
    methods = [name for name in dict.fromkeys(rows["method"]) if name != UNEDITED]
    lines, columns = style.grid(len(panels), 3)
    height = HEIGHT * lines + 0.2 + marks.legend_height(methods, PAGE)
    with style.sheet(PAGE, height, lines, columns, sharex=True) as (figure, axes):
        flat = list(axes.flat)
        for panel, name in zip(flat, panels, strict=False):
            _panel(panel, name, rows, methods)
        marks.blank(flat[len(panels) :])
        for panel in flat[: len(panels)][-columns:]:  # the lowest of each column
            panel.set_xlabel("updates made")
            panel.tick_params(labelbottom=True)
        marks.legend(figure)
    return figure


def _logarithmic(panel: "Axes", values: pl.Series) -> None:
    """A logarithmic axis upwards where values lie far apart."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    known = values.drop_nulls().filter(values.drop_nulls().is_finite())
    if len(known) and float(known.max()) > FAR * float(known.min()):  # type: ignore[arg-type]
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: marks.short_count(value)))
        panel.yaxis.set_minor_formatter(NullFormatter())


def _panel(panel: "Axes", name: str, rows: pl.DataFrame, methods: list[str]) -> None:
    panel.set_title(PANELS[name])
    panel.set_xscale("log")
    counts = rows["edits"].unique().sort().to_list()
    panel.set_xticks(counts, [marks.short_count(count) for count in counts])
    panel.minorticks_off()
    for number, method in enumerate(methods):
        of_method = rows.filter(pl.col("method") == method)
        marks.dots(
            panel, of_method["edits"], of_method[name], style.look(number), low=of_method[f"{name}_low"],
            high=of_method[f"{name}_high"],
            label=method, upright=True, joined=True, shift=APART * (number - (len(methods) - 1) / 2),
        )  # fmt: skip
    clean = rows.filter(pl.col("method") == UNEDITED)[name].drop_nulls()
    if name in OF_CLEAN and len(clean):
        marks.reference(panel, clean[0], label=UNEDITED, upright=True)
    if name == "perplexity":
        _logarithmic(panel, rows[name])
    elif name != "fluency":
        if name in SHARES:
            panel.set_ylim(-0.02, 1.02)
        marks.in_percent(panel, "y")
