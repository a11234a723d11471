"""Changes of a model that last as long as a block does, and are taken back whatever ends the block.

A context manager written as a generator cannot promise that: Python raises `KeyboardInterrupt` between any two
instructions, so also after the end of the block and before the first instruction that takes the change back.
"""

import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Temporary(Generic[T]):
    """``with Temporary(change, value) as value:`` - ``change`` makes the change and returns what takes it back.

    An interrupt (Ctrl-C) that comes while either of them runs is raised when it is done. For that, Python's handler of
    interrupts is replaced for as long as the block lasts, by one that calls it at all other times. Only the main thread
    gets interrupts; in others nothing is replaced. Blocks can be nested.
    """

    def __init__(self, change: Callable[[], Callable[[], None]], value: T = None) -> None:  # type: ignore[assignment]
        self._change, self._value = change, value
        self._undo: Callable[[], None] | None = None
        self._handler: Any = None
        self._waiting = False

    def __enter__(self) -> T:
        try:
            if threading.current_thread() is threading.main_thread():
                self._handler = signal.getsignal(signal.SIGINT)
                if callable(self._handler):
                    signal.signal(signal.SIGINT, self._on_interrupt)
            self._make()
            if self._waiting:
                self._waiting = False
                self._handler(signal.SIGINT, None)
            return self._value
        except BaseException:
            self.__exit__()
            raise

    def _make(self) -> None:
        self._undo = self._change()

    def __exit__(self, *_: object) -> None:
        try:
            if self._undo is not None:
                self._undo()
        finally:
            if callable(self._handler) and signal.getsignal(signal.SIGINT) == self._on_interrupt:
                signal.signal(signal.SIGINT, self._handler)
            if self._waiting:
                self._waiting = False
                self._handler(signal.SIGINT, None)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._is_busy(frame):
            self._waiting = True
        else:
            self._handler(number, frame)

    def _is_busy(self, frame: FrameType | None) -> bool:
        """Whether the frame, or one that called it, makes or takes back this very change."""
        while frame is not None:
            if frame.f_code in _BUSY and frame.f_locals.get("self") is self:
                return True
            frame = frame.f_back
        return False


def together(parts: Iterable[Temporary[Any]]) -> Temporary[None]:
    """Several changes as one, as by `contextlib.ExitStack`, but with no moment in which one of them is forgotten."""

    def change() -> Callable[[], None]:
        done: list[Callable[[], None]] = []

        def undo() -> None:
            while done:
                done.pop()()

        try:
            for part in parts:
                done.append(part._change())
        except BaseException:
            undo()
            raise
        return undo

    return Temporary(change)


def unchanged(_: object = None) -> Temporary[None]:
    """No change at all, where a function of what is computed next says what is to be changed for it."""
    return together(())


_BUSY = (Temporary._make.__code__, Temporary.__exit__.__code__)
