"""When a request is made again: after a failure that may pass, with growing pauses, or when the server asks for it."""

import random
import time
from collections.abc import Callable
from typing import Any

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential

LONGEST_RETRY_AFTER = 600.0  # seconds; a model server that asks for more has no place for this run


class Failure(Exception):
    """A request failed.

    wait: seconds that the server asks for; None where it names none. passing: whether it may succeed at the next try.
    busy: nothing is wrong with the server, it only asks to come back later. state: with which a server answered.
    """

    def __init__(
        self, words: str, wait: float | None = None, *, passing: bool = True, busy: bool = False,
        state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(words)
        self.wait, self.passing, self.busy, self.state = wait, passing, busy, state


def failure(state: RetryCallState) -> Any:
    """What the last try raised."""
    return None if state.outcome is None else state.outcome.exception()


def repeating(
    first: float, longest: float, stop: Callable[[RetryCallState], bool], sleep: Callable[[float], Any] = time.sleep,
    *, longest_wait: float | None = None, apart: float = 0.0, **told: Any,
) -> Retrying:  # fmt: skip
    """What calls a function again for as long as it raises a `Failure` that passes; that of the last try is raised.

    first, longest: seconds before the second try, doubled before each that follows up to the longest. longest_wait:
    a server that asks for more is not asked again. apart: most seconds that are added to what a server asks for, so
    that requests that failed together do not return together. told: other arguments of `tenacity.Retrying`.
    """
    growing = wait_exponential(first, max=longest)

    def wait(state: RetryCallState) -> float:
        asked = failure(state).wait
        return growing(state) * random.uniform(0.75, 1) if asked is None else asked + random.uniform(0, apart)

    def over(state: RetryCallState) -> bool:
        asked = failure(state).wait or 0.0
        return stop(state) or (longest_wait is not None and asked > longest_wait)

    def passing(error: BaseException) -> bool:
        return isinstance(error, Failure) and error.passing

    return Retrying(retry=retry_if_exception(passing), wait=wait, stop=over, sleep=sleep, reraise=True, **told)
