"""Pages and figures that a command writes beside its results: left out, with a notice, where what draws them is not
installed; an error only where they were asked for by name."""

import typer

from anachron.cli.output import say
from anachron.core.errors import ConfigError


def drawn(context: typer.Context, option: typer.CallbackParam, wanted: bool) -> bool:
    """Whether to write a page, which Plotly draws, or a figure, which matplotlib draws, by the name of the option.

    Raises `ConfigError` where it cannot be drawn and the option was given, before any work.
    """
    try:
        if wanted and option.name == "page":
            from anachron.report.page.render import plotly_source

            plotly_source()
        elif wanted:
            from anachron.analysis.plots.style import check_matplotlib

            check_matplotlib()
    except ConfigError as error:
        source = context.get_parameter_source(str(option.name))
        if source is not None and source.name != "DEFAULT":
            raise
        say(f"note: no {option.name} is written: {error}")
        return False
    return wanted
