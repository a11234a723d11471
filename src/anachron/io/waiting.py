"""Waits that Ctrl-C ends."""

from concurrent.futures import Future, wait
from typing import TypeVar

EVERY = 0.5  # seconds between looks
Result = TypeVar("Result")


def result_of(future: "Future[Result]") -> Result:
    """What a future comes to, or the exception that it raises here.

    Polars has the system go on with a wait that a signal broke off, so that Python hears of Ctrl-C only when the wait
    is over: one without an end of its own would go on until the work is done. This one is of many short ones.
    """
    while not wait([future], timeout=EVERY).done:
        pass
    return future.result()
