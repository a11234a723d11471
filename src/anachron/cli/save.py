"""``save``."""

from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.options import JsonFlag, ModelArgument, ModelOptions, TemplateOption
from anachron.cli.output import print_json, say
from anachron.cli.outputs import FOLDER


def save(
    *,
    model: ModelArgument,
    folder: Annotated[Path, typer.Argument(help="New folder for the model."), FOLDER],
    chat_template: TemplateOption = None,
    loading: ModelOptions,
    json_: JsonFlag = False,
) -> None:
    """Write a model as a plain Hugging Face folder, which loads faster than a GGUF file and works in other tools.

    Example: anachron save model.gguf model
    """
    from anachron.lm.saving import save_model
    from anachron.probe.backends import read_template

    lm = loading.load(model, read_template(chat_template))
    save_model(lm, folder)
    about = {"out": str(folder), "architecture": type(lm.model).__name__, **lm.about(), "dtype": lm.dtype}
    if json_:
        print_json(about)
    else:
        say(f"{about['architecture']} with {about['parameters']:,} parameters in {lm.dtype} written to {folder}")
