"""Horizons that were found, written for people: the figure of each, and one page of all."""

from collections.abc import Sequence
from pathlib import Path

from anachron.io.files import write_bytes
from anachron.probe.horizon.find import FIGURE, FoundHorizon, compare_horizons, comparisons_json
from anachron.probe.horizon.summary import curve_table
from anachron.report.horizon_page import HorizonPart, horizon_page


def draw_horizon(found: FoundHorizon) -> Path | None:
    """Draw the figure of a horizon into its folder, as SVG, PDF and PNG; None of too few changes.

    Raises `ConfigError` where matplotlib is not installed.
    """
    if found.horizon is None:
        return None
    from anachron.report.figures import write_figure
    from anachron.report.figures.horizon import horizon_figure

    dates = [month / 12 for month in found.horizon.halving()]
    figure = horizon_figure(
        curve_table(found.horizon),
        found.model,
        halving=(dates[0], dates[1], dates[2]) if found.horizon.told else None,
        claim=None if found.leak is None else (found.leak.claim + 1) / 12,
    )
    return write_figure(figure, found.folder, FIGURE)[0]


def write_horizon_page(found: Sequence[FoundHorizon], page: Path, *, figures: bool) -> Path:
    """Write the page of some horizons. figures: with their pictures, which `draw_horizon` has drawn."""
    parts = [
        HorizonPart(
            one.summary,
            one.kinds,
            (one.folder / f"{FIGURE}.svg").read_bytes() if figures and one.horizon is not None else None,
        )
        for one in found
    ]
    write_bytes(page, horizon_page(parts, comparisons_json(compare_horizons(found))).encode())
    return page
