"""Groups of options: a dataclass whose fields are options, as one parameter of the commands that share them."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from anachron.cli.outputs import guarded, outputs_of

OVERWRITE = "overwrite"
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
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

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
        with guarded(name, annotations, values, overwrite=overwrite):
            run(values)

    def run(values: dict[str, Any]) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    called.outputs = outputs  # type: ignore[attr-defined]
    return called


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
        )
        for field in fields(group)
    ]


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default
