"""Changes of a model that last as long as a block does, and are taken back whatever ends the block."""

import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Temporary(Generic[T]):
    """``with Temporary(change, value) as value:`` - ``change`` makes the change and returns what takes it back.

    An interrupt (Ctrl-C) that comes while either of them runs is raised when it is done; any other is raised at once.
    Blocks can be nested, and may also end in another order than that of their beginnings. Only the main thread gets
    interrupts; in other threads no handler is replaced.

    Neither try/finally nor a signal mask is as safe: Python raises `KeyboardInterrupt` between any two instructions, so
    also on entry to whatever takes the change back, before its first line can hold signals off. So the handler of
    interrupts is replaced while the block lasts, by one that looks whether ``__exit__`` has been entered.
    """

    def __init__(self, change: Callable[[], Callable[[], None]], value: T = None) -> None:  # type: ignore[assignment]
        self._change, self._value = change, value
        self._undo: Callable[[], None] | None = None
        self._handler: Any = None  # that of interrupts outside of the block
        self._critical = self._waiting = False  # the change is being made or taken back; an interrupt came meanwhile
        self._ended = False

    def __enter__(self) -> T:
        try:
            self._critical, self._ended = True, False
            if threading.current_thread() is threading.main_thread():
                self._handler = signal.getsignal(signal.SIGINT)
                if callable(self._handler):
                    signal.signal(signal.SIGINT, self._on_interrupt)
            self._undo = self._change()
            self._critical = False
            self._raise_waiting()
            return self._value
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._critical = True
        try:
            if self._undo is not None:
                self._undo()
        finally:
            self._ended = True
            self._restore_handler()
            self._raise_waiting()

    def _restore_handler(self) -> None:
        """Put back the handler from outside of this block and of all that ended before it without being innermost."""
        found = signal.getsignal(signal.SIGINT)
        while isinstance(block := getattr(found, "__self__", None), Temporary) and block._ended:
            found = block._handler
        if callable(self._handler) and found is not signal.getsignal(signal.SIGINT):
            signal.signal(signal.SIGINT, found)

    def _raise_waiting(self) -> None:
        if self._waiting:
            self._waiting = False
            self._handler(signal.SIGINT, None)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if (self._critical and not self._ended) or self._is_exiting(frame):
            self._waiting = True
        else:
            self._handler(number, frame)

    def _is_exiting(self, frame: FrameType | None) -> bool:
        """Whether the interrupted frame, or one that called it, is ``__exit__`` of this very change."""
        exit_code = Temporary.__exit__.__code__
        while frame is not None and not (frame.f_code is exit_code and frame.f_locals.get("self") is self):
            frame = frame.f_back
        return frame is not None


def attribute(owner: Any, name: str, value: Any) -> Temporary[None]:
    """An object's attribute has this value for as long as the block lasts."""

    def change() -> Callable[[], None]:
        before = getattr(owner, name)
        setattr(owner, name, value)
        return lambda: setattr(owner, name, before)

    return Temporary(change)


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
    """No change at all, where a function has to say what is changed for the texts that are computed next."""
    return together(())
