"""Loading the model that a command names."""

from pathlib import Path
from typing import Any

from anachron.cli.output import quiet_loading


def load(name: str, template: Path | None = None, **options: Any) -> Any:
    """The model by name, quietly where stderr is no terminal; ``options`` are those of `load_model`.

    template: file with a chat template. Raises `ConfigError` where that cannot be read.
    """
    from anachron.errors import ConfigError
    from anachron.lm.model import load_model

    text = None
    if template is not None:
        try:
            text = template.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"chat template {template} cannot be read as UTF-8 text: {error}") from error
    quiet_loading()
    return load_model(name, chat_template=text, **options)
