"""Pages and figures that a command writes beside its results: left out, with a notice, where what draws them is not
installed; an error only where they were asked for by name."""

from collections.abc import Callable

import typer

from anachron.cli.output import say


def drawn_page(context: typer.Context, page: bool) -> bool:
    """Whether to write a page, which Plotly draws."""

    def check() -> None:
        from anachron.report.page.render import plotly_source

        plotly_source()

    return page and _can_be(context, "page", check)


def drawn_figure(context: typer.Context, figure: bool) -> bool:
    """Whether to write a figure, which matplotlib draws."""

    def check() -> None:
        from anachron.analysis.plots.style import check_matplotlib

        check_matplotlib()

    return figure and _can_be(context, "figure", check)


def _can_be(context: typer.Context, option: str, check: Callable[[], None]) -> bool:
    """Whether a check passes. Raises its `ConfigError`, before any work, where the option was given."""
    from anachron.core.errors import ConfigError

    try:
        check()
    except ConfigError as error:
        source = context.get_parameter_source(option)
        if source is not None and source.name != "DEFAULT":
            raise
        say(f"note: no {option} is written: {error}")
        return False
    return True
