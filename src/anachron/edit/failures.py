"""Failures of one update out of many, told apart from errors of the command or the program."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from anachron.core.errors import BackendError, DataError, TooLongError, first_line
from anachron.lm.scoring import is_out_of_memory

Failure = DataError | BackendError | TooLongError
T = TypeVar("T")
R = TypeVar("R")


def failure_of(error: Exception) -> Failure | None:
    """The failure of an update that an exception is: bad data, too long a text, too little memory; else None."""
    if isinstance(error, Failure):
        return error.with_traceback(None)  # which holds tensors
    if isinstance(error, RuntimeError) and is_out_of_memory(error):
        return BackendError(f"out of memory: {first_line(error)}")
    return None


def or_failure(work: Callable[[], R]) -> R | Failure:
    """The result of ``work``, or its failure; exceptions that are none are raised."""
    try:
        return work()
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return failure


def each_or_failure(work: Callable[[Sequence[T]], Sequence[R]], items: Sequence[T]) -> list[R | Failure]:
    """The result of ``work`` for each item, computed for all items in one call.

    Where that call fails, each half is tried, down to the item that fails alone, whose failure takes the place of its
    result. Exceptions that are no failure of an item are raised.
    """
    if not items:
        return []
    found = or_failure(lambda: list(work(items)))
    if isinstance(found, list):
        return [*found]
    if len(items) == 1:
        return [found]
    half = len(items) // 2
    return each_or_failure(work, items[:half]) + each_or_failure(work, items[half:])
