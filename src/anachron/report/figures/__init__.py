"""Figures as files: those of the analyses of a study, each under the name of its analysis, and single ones.

Needs the extra ``report``; matplotlib is loaded when the first figure is drawn. Only
its object interface is used, so drawing leaves no open figure and no setting behind.
"""

from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from anachron.analysis import catalogue
from anachron.analysis.plots import style
from anachron.core.errors import DataError
from anachron.io.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Without the date of writing, so that the same table gives the same bytes.
FILES: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}


def write_figures(
    tables: Mapping[str, pl.DataFrame],
    out: Path,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, str]:
    """Draw every table that has a figure. Returns the names of those with nothing to draw, and why.

    progress: told how many analyses with a figure are drawn, out of how many.
    Raises `ConfigError` where matplotlib is not installed.
    """
    not_drawn = {}
    with_figure = [
        (analysis, analysis.figure) for analysis in catalogue.every_analysis() if analysis.figure is not None
    ]
    for done, (analysis, draw) in enumerate(with_figure, start=1):
        remove_figure(out, analysis.name)  # of an earlier study
        if analysis.name in tables:
            try:
                figure = draw(tables[analysis.name])
            except DataError as error:
                not_drawn[analysis.name] = str(error)
            else:
                write_figure(figure, out, analysis.name)
        progress(done, len(with_figure))
    return not_drawn


def remove_figure(out: Path, name: str) -> None:
    for ending in FILES:
        (out / f"{name}.{ending}").unlink(missing_ok=True)


def write_figure(figure: "Figure", out: Path, name: str) -> list[Path]:
    """Write ``NAME.svg``, ``NAME.pdf`` and ``NAME.png`` into the folder ``out`` and return where they are.

    Text is text in SVG, which can be searched and edited, and an embedded TrueType font (Type 42) in PDF; PNG has 300
    points an inch. The same figure gives the same bytes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.style import context

    # Not by `Figure.savefig`, which draws all twice for each file, the first time for the layout alone.
    printers: dict[str, Callable[[], Any]] = {
        "svg": lambda: FigureCanvasSVG(figure).print_svg,
        "pdf": lambda: FigureCanvasPdf(figure).print_pdf,
        "png": lambda: FigureCanvasAgg(figure).print_png,
    }
    paths = []
    with context(style.STYLE, after_reset=True):
        for ending, metadata in FILES.items():
            buffer = BytesIO()
            figure.set_dpi(style.STYLE["savefig.dpi"])  # which the printers of vectors change
            printers[ending]()(buffer, metadata=metadata)
            paths.append(out / f"{name}.{ending}")
            write_bytes(paths[-1], buffer.getvalue())
    return paths
