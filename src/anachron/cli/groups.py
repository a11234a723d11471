"""Groups of options: a dataclass whose fields are options, as one parameter of the commands that share them.

A group's ``PANEL`` is where its options stand in the help, but for those that name another.
"""

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from anachron.cli.output import say
from anachron.cli.outputs import default_out, guarded, outputs_of

OVERWRITE = "overwrite"
VALUES: dict[type, str] = {int: "N", float: "X", Path: "PATH", list[str]: "TEXT", str: "TEXT"}  # in the help
CONTEXT = "context_"  # of typer, which knows how the command is called
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an output file that another command, or other inputs, made.")
]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer is to see it: every parameter of a dataclass's type stands for the options in its fields.

    Fields are annotated as parameters of commands are; their defaults are those of the options. A command that writes
    is held to the rules of `anachron.cli.outputs`; one that writes files gets ``--overwrite`` for that.
    """
    given = inspect.signature(command).parameters
    groups: dict[str, Any] = {
        name: parameter.annotation for name, parameter in given.items() if is_dataclass(parameter.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in given.items():
        if name in groups:
            parameters += _parameters(groups[name])
        else:
            parameters.append(_keyword(name, parameter.annotation, parameter.default))

    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    outputs = outputs_of(annotations)
    if any(output.kind == "file" for output in outputs.values()):
        parameters.append(_keyword(OVERWRITE, Overwrite, default=False))
    if outputs:
        parameters.append(_keyword(CONTEXT, typer.Context))

    @wraps(command)
    def called(**values: Any) -> None:
        overwrite, context = values.pop(OVERWRITE, False), values.pop(CONTEXT, None)
        name = "" if context is None else context.command_path.partition(" ")[2]
        named = [
            option
            for option, output in outputs.items()
            if output.named and context.get_parameter_source(option).name == "DEFAULT"
        ]
        values |= {option: default_out(name, values) for option in named}
        with guarded(name, annotations, values, overwrite=overwrite):
            for option in named:
                say(f"run folder: {values[option]} (--out names another)")
            run(values)

    def run(values: dict[str, Any]) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    called.outputs = outputs  # type: ignore[attr-defined]
    return called


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty, panel: str = "") -> inspect.Parameter:
    annotation = _in_panel(annotation, panel)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _in_panel(annotation: Any, panel: str) -> Any:
    """The annotation with the option's place in the help, if it has none of its own, and a short word for its value."""
    if get_origin(annotation) is not Annotated:
        return annotation
    of, *rest = get_args(annotation)
    kinds = {of, *get_args(of)}  # of Path | None: both
    word = next((word for kind, word in VALUES.items() if kind in kinds), None)
    for place, info in enumerate(rest):
        if isinstance(info, OptionInfo):
            rest[place] = shown = copy(info)  # an option may stand in several commands
            shown.rich_help_panel = info.rich_help_panel or panel or None
            shown.metavar = info.metavar if bool in kinds else info.metavar or word
    return Annotated[of, *rest]


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints, panel = get_type_hints(group, include_extras=True), getattr(group, "PANEL", "")
    return [_keyword(field.name, hints[field.name], _default(field), panel) for field in fields(group)]


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default
