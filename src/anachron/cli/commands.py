"""How commands are explained and parsed: options in panels, and seldom used ones behind ``--set NAME=VALUE``.

``--help`` fits a screen: it explains the panels Common and Model, and only names the options of the others, which
``--help-all`` explains too.
"""

import inspect
from collections import defaultdict
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from anachron.core.errors import ConfigError

COMMON, MODEL, SERVER, PUBLISHED, SETTINGS = "Common", "Model", "Server", "As published", "Settings"
TOPIC = "Topic"
PANELS = (COMMON, TOPIC, MODEL, SERVER, PUBLISHED, SETTINGS)
SHORT = (COMMON, MODEL)  # the panels that --help explains
BEHIND_SET = {PUBLISHED, SETTINGS}  # the panels whose options are written --set NAME=VALUE
SELDOM = "Rarely used"  # the panel of commands that is shown last
HELP_ALL = "--help-all"


def as_published(*names: str, help: str) -> Any:
    """An option that only repeats what published code does."""
    return typer.Option(*names, help=help, rich_help_panel=PUBLISHED)


def setting(*names: str, help: str, **limits: Any) -> Any:
    """An option that is seldom changed, such as a hyperparameter. limits: others of `typer.Option`."""
    return typer.Option(*names, help=help, rich_help_panel=SETTINGS, **limits)


class Command(TyperCommand):
    """A command whose help has panels, and which takes ``--set``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if HELP_ALL in args:
            ctx.meta[HELP_ALL], args = True, ["--help"]
        return super().parse_args(ctx, spelled(args, self.params))

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        _write_help(self.help or "", formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options panel by panel."""
        parameters = self.get_params(ctx)
        found: dict[str, list[Any]] = defaultdict(list)
        for parameter in parameters:
            found["Arguments" if parameter.param_type_name == "argument" else panel_of(parameter)].append(parameter)
        for panel in ("Arguments", *PANELS):
            if members := found[panel]:
                with formatter.section(panel + (" (--set NAME=VALUE)" if panel in BEHIND_SET else "")):
                    if panel in (*SHORT, "Arguments") or HELP_ALL in ctx.meta:
                        formatter.write_dl([record for one in members if (record := one.get_help_record(ctx))])
                    else:
                        names = (one.name if panel in BEHIND_SET else one.opts[0] for one in members)
                        formatter.write_text(", ".join(names))
        if HELP_ALL not in ctx.meta and any(found[panel] for panel in PANELS if panel not in SHORT):
            formatter.write_paragraph()
            formatter.write_text(f"{HELP_ALL} explains these too.")


class Group(TyperGroup):
    """A group of commands, with those that are rarely used last."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        _write_help(self.help or "", formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {"Commands": [], SELDOM: []}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            first = inspect.cleandoc(command.help or "").partition("\n\n")[0]
            panels[SELDOM if command.rich_help_panel == SELDOM else "Commands"].append((name, " ".join(first.split())))
        for panel, rows in panels.items():
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)


class App(typer.Typer):
    """Commands of these classes, which are explained in plain text."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, rich_markup_mode=None, no_args_is_help=True, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Any:
        return super().command(name, cls=Command, **settings)


def panel_of(option: Any) -> str:
    """The panel of an option in the help."""
    return getattr(option, "rich_help_panel", None) or COMMON


def spelled(args: list[str], parameters: list[Any]) -> list[str]:
    """The words of a command line, with each ``--set NAME=VALUE`` written as the option that it stands for.

    What is no such setting is left to a command that has a ``--set`` of its own, for the settings of methods of
    editing. Raises `ConfigError` for it in other commands, and for a switch that is neither true nor false.
    """
    known = {one.name.rstrip("_"): one for one in parameters if panel_of(one) in BEHIND_SET}
    own = any("--set" in one.opts for one in parameters)
    words: list[str] = []
    for place, word in enumerate(args):
        if word == "--":
            return [*words, *args[place:]]
        before = args[place - 1] if place else ""
        name, equals, value = word.removeprefix("--set=").partition("=")
        if not (word.startswith("--set=") or before == "--set") or (own and name not in known):
            words.append(word)
            continue
        if before == "--set":
            words.pop()
        if name not in known or not equals:
            choices = f"choose one of {', '.join(known)}" if known else "this command has none"
            raise ConfigError(f"--set {name}{equals}{value}: write NAME=VALUE for a setting; {choices}")
        words += _option(known[name], value)
    return words


def _option(option: Any, value: str) -> list[str]:
    if not option.is_flag:
        return [f"{option.opts[0]}={value}"]
    if value not in ("true", "false"):
        raise ConfigError(f"--set {option.name}={value}: write true or false")
    return option.opts[:1] if value == "true" else option.secondary_opts[:1]  # without a --no-…, false is the default


def _write_help(text: str, formatter: Any) -> None:
    """The paragraphs, each wrapped but for the example, which is to be copied."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        formatter.write_paragraph()
        with formatter.indentation():
            line = " ".join(paragraph.split())
            if line.startswith("Example:"):
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
            else:
                formatter.write_text(line)
