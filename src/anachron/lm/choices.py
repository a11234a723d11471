"""What is chosen of a model, looked at before torch is loaded."""

from anachron.core.errors import ConfigError

DTYPES = ("auto", "float32", "bfloat16", "float16")


def check_dtype(dtype: str) -> None:
    """Raise `ConfigError` for a dtype that is not one of `DTYPES`."""
    if dtype not in DTYPES:
        raise ConfigError(f"dtype {dtype!r}: choose one of {', '.join(DTYPES)}")
