"""The figures of a study: from a tidy table to a matplotlib figure, under the name of its analysis in the catalogue.

Needs the extra ``report`` (pip install 'anachron[report]'); matplotlib is loaded when the first figure is drawn. Only
its object interface is used, so drawing leaves no open figure and no setting behind.
"""

from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from anachron.errors import DataError
from anachron.io import write_bytes
from anachron.plots import style
from anachron.report.figures import comparison, distance, factors, summary, timelines, transfer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: dict[str, Callable[[pl.DataFrame], "Figure"]] = {
    "summary": summary.summary,
    "alpha": distance.alpha,
    "alpha_fine": distance.alpha_fine,
    "far_errors": distance.far_errors,
    "formats": comparison.formats,
    "transfer": transfer.transfer,
    "transfer_mean": transfer.transfer_mean,
    "agreement": distance.agreement,
    "prefixes": comparison.prefixes,
    "granularity_variance": comparison.granularity_variance,
    "sizes": factors.sizes,
    "base_and_instruct": comparison.base_and_instruct,
    "correlations": factors.correlations,
    "factor_bins": factors.factor_bins,
    "relations": factors.relations,
    "overlap": transfer.overlap,
    "comparison": comparison.comparison,
    "margins": summary.margins,
    "timelines": timelines.timelines,
    "years": timelines.years,
}
# Facts are too many to draw, and the others are a few numbers that a table says better.
WITHOUT_FIGURE = frozenset({
    "facts", "believed", "anachronisms", "dataset", "shared_knowledge", "size_to_perfection", "believed_summary",
    "anachronism_summary",
})  # fmt: skip

# Without the date of writing, so that the same table gives the same bytes.
FILES: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def write_figures(tables: Mapping[str, pl.DataFrame], out: Path) -> dict[str, str]:
    """Draw every table that has a figure. Returns the names of those with nothing to draw, and why.

    Raises `ConfigError` where matplotlib is not installed.
    """
    not_drawn = {}
    for name, draw in FIGURES.items():
        for ending in FILES:
            (out / f"{name}.{ending}").unlink(missing_ok=True)  # of an earlier study
        if name in tables:
            try:
                figure = draw(tables[name])
            except DataError as error:
                not_drawn[name] = str(error)
            else:
                write_figure(figure, out, name)
    return not_drawn


def write_figure(figure: "Figure", out: Path, name: str) -> tuple[Path, Path]:
    """Write ``NAME.svg`` and ``NAME.pdf`` into the folder ``out`` and return where they are.

    Letters are outlines in SVG and an embedded TrueType font (Type 42) in PDF. The same figure gives the same bytes.
    """
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.style import context

    # Not by `Figure.savefig`, which draws all twice for each file, the first time for the layout alone.
    printers = {"svg": lambda: FigureCanvasSVG(figure).print_svg, "pdf": lambda: FigureCanvasPdf(figure).print_pdf}
    paths = []
    with context(style.STYLE, after_reset=True):
        for ending, metadata in FILES.items():
            buffer = BytesIO()
            printers[ending]()(buffer, metadata=metadata)
            paths.append(out / f"{name}.{ending}")
            write_bytes(paths[-1], buffer.getvalue())
    return paths[0], paths[1]
