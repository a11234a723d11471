"""The text before each prompt, by name or from a file; looked at before torch is loaded."""

from pathlib import Path

from anachron.core.errors import ConfigError
from anachron.io.files import refuse_binary
from anachron.lm.formats import PREFIXES


def prefix_text(prefix: str) -> tuple[str, str]:
    """(name, text) of a prefix given by name or by file. Raises `ConfigError` when it is neither."""
    if prefix in PREFIXES:
        return prefix, PREFIXES[prefix]
    path = Path(prefix)
    refuse_binary(path)
    if not path.is_file():
        raise ConfigError(f"prefix {prefix!r} is neither a file nor one of {', '.join(PREFIXES)}")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"prefix file {prefix}: not UTF-8 text ({error})") from error
    return (prefix if path.name in PREFIXES else path.name), text
