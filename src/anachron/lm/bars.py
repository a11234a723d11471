"""The progress bars of transformers and the hub's client, kept out of logs while a model is loaded."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
from transformers import modeling_gguf_pytorch_utils as of_gguf
from transformers.utils import logging


@contextmanager
def no_bars_in_logs() -> Iterator[None]:
    """Within the block, or the function, no bar is drawn where stderr is no terminal; afterwards all is as before."""
    if sys.stderr.isatty():
        yield
        return
    of_models, of_hub = logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    bar: Any = getattr(of_gguf, "tqdm", None)  # drawn for the tensors of a GGUF file, whatever the settings say
    logging.disable_progress_bar()  # those of the hub's client too
    if bar is not None:
        of_gguf.tqdm = partial(bar, disable=True)
    try:
        yield
    finally:
        if bar is not None:
            of_gguf.tqdm = bar
        if of_models:
            logging.enable_progress_bar()
        (enable_progress_bars if of_hub else disable_progress_bars)()
