"""Whether the Hugging Face hub answers. Where it does not, its client tries a minute for each file that it lacks."""

from pathlib import Path

from huggingface_hub import constants
from huggingface_hub.utils import get_session

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
