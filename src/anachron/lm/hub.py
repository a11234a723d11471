"""Whether the Hugging Face hub answers. Where it does not, its client tries a minute for each file that it lacks.

Also keeps the progress bars of transformers and the hub's client out of logs while a model is loaded.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import constants
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars, get_session
from transformers import modeling_gguf_pytorch_utils as of_gguf
from transformers.utils import logging

SECONDS, TRIES = 3.0, 2  # a hub that answers at all does so within these


def out_of_reach(source: str) -> bool:
    """Whether a name is no file here, and the hub (``HF_ENDPOINT``, through the proxies that it uses) does not answer.

    What such a name means can be in the cache alone. An answer of any kind, also a refusal, is one.
    """
    return not Path(source).exists() and not _answers()


def why_not_found(source: str) -> str:
    """Why a name that is `out_of_reach` could not be loaded."""
    return (
        f"there is no folder {source!r} here, it is not in the cache, and the hub {constants.ENDPOINT} does not "
        "answer; check the name, or the connection"
    )


def _answers() -> bool:
    for _ in range(TRIES):
        try:
            get_session().head(constants.ENDPOINT, timeout=SECONDS)
        except Exception:  # noqa: BLE001 - which classes depends on the version of the client; all mean no answer
            continue
        return True
    return False


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
