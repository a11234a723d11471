"""However a block ends, and whenever Ctrl-C comes: the model is what it was, and the interrupt is not lost."""

import gc
import os
import pydoc
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
import torch

from anachron.edit.base import Edit, LowRank, edited
from anachron.edit.make import make_edit, settings_for
from anachron.edit.method import Resources
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.temporary import Temporary, unchanged
from support.edit_models import make_edit_lm

NAME = "model.layers.1.mlp.down_proj"
REQUEST = EditRequest("The president of {} is", "France", "Berlin")


def edit_of(factor: float = 1.0, prefix: str = "Now. ") -> Edit:
    numbers = torch.Generator().manual_seed(0)
    left, right = torch.randn(32, 2, generator=numbers), torch.randn(2, 64, generator=numbers)
    return Edit({NAME: LowRank(factor * left, right)}, prefix, "m")


class Watched:
    """A model, and whether it is as it was when this was made."""

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self.before = self.look()
        self.values = {name: tensor.clone() for name, tensor in lm.model.state_dict().items()}

    def look(self) -> Any:
        model = self.lm.model
        hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks), m.training) for m in model.modules()]
        parts = [(name, id(module), sorted(vars(module))) for name, module in model.named_modules()]
        needed = [(p.requires_grad, p.data_ptr()) for p in model.parameters()]
        return (
            hooks,
            parts,
            needed,
            repr(model.config),
            self.lm.prefix,
            self.lm.edit_of,
            self.lm.edit_beside,
            sorted(vars(model)),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
        )

    def assert_same(self) -> None:
        now = self.lm.model.state_dict()
        assert now.keys() == self.values.keys()
        assert all(torch.equal(now[name], tensor) for name, tensor in self.values.items())
        assert self.look() == self.before


@pytest.fixture
def watched() -> Iterator[Watched]:
    found = Watched(make_edit_lm("llama"))
    handler = signal.getsignal(signal.SIGINT)
    yield found
    assert signal.getsignal(signal.SIGINT) is handler


class Own(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, Own, GeneratorExit])
def test_any_exception_comes_out_and_the_edit_off(watched: Watched, error: type[BaseException]):
    with pytest.raises(error), edited(watched.lm, edit_of(), check=False):
        with pytest.raises(error), edited(watched.lm, edit_of(2), check=False):
            raise error
        assert watched.lm.prefix == "Now. "
        raise error
    watched.assert_same()


def test_leaving_by_return_break_and_a_dropped_generator(watched: Watched):
    def returns() -> str:
        with edited(watched.lm, edit_of(), check=False) as lm:
            return lm.prefix

    def gives() -> Iterator[str]:
        with edited(watched.lm, edit_of(), check=False) as lm:
            yield lm.prefix

    assert returns() == "Now. "
    watched.assert_same()
    for _ in range(3):
        with edited(watched.lm, edit_of(), check=False):
            break
    watched.assert_same()
    dropped = gives()
    assert next(dropped) == "Now. " == watched.lm.prefix
    dropped.close()
    watched.assert_same()
    dropped = gives()
    next(dropped)
    del dropped
    gc.collect()
    watched.assert_same()


def test_an_interrupt_inside_comes_at_once(watched: Watched):
    seen = []
    with pytest.raises(KeyboardInterrupt), edited(watched.lm, edit_of(), check=False):
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
        until = time.monotonic() + 5
        while time.monotonic() < until:
            seen.append(watched.lm.prefix)
    assert set(seen) == {"Now. "} and time.monotonic() < until
    watched.assert_same()


def storm(work: Callable[[], object], after: Callable[[], None], rounds: int, longest: float) -> int:
    """Run it many times with an interrupt at a random moment each; how many of these came. None may be lost.

    Without others' callbacks of the garbage collector (Hypothesis times it): Python drops what is raised in them.
    """
    chance, came = random.Random(0), 0
    callbacks, gc.callbacks[:] = gc.callbacks[:], []
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        for _ in range(rounds):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + chance.random() * longest)
                work()
                while signal.getitimer(signal.ITIMER_REAL)[0] > 0:
                    time.sleep(1e-4)
                time.sleep(1e-4)
            except KeyboardInterrupt:
                came += 1
            after()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.callbacks[:] = callbacks
    return came


@pytest.mark.full
def test_interrupts_at_any_moment_of_putting_on_and_taking_off(watched: Watched):
    def nested() -> None:
        with edited(watched.lm, edit_of(), check=False), edited(watched.lm, edit_of(2), check=False):
            pass

    rounds = 600
    assert storm(nested, watched.assert_same, rounds, 5e-4) == rounds


@pytest.mark.full
@pytest.mark.parametrize("method", ["FT", "ROME", "LoRA", "UltraEdit", "GRACE"])
def test_interrupts_at_any_moment_of_making_an_edit(watched: Watched, method: str):
    more: dict[str, Any] = {
        "FT": {"layer": 1, "steps": 2}, "ROME": {"layer": 1, "contexts": (), "steps": 2},
        "LoRA": {"layers": (1,), "steps": 2}, "UltraEdit": {"layers": (1,), "tokens": "all"},
        "GRACE": {"layer": 1, "steps": 2},
    }[method]  # fmt: skip
    chosen = replace(settings_for(method, watched.lm)[0], **more)
    watched.lm.model.get_submodule(NAME).weight.requires_grad_(False)  # what is frozen stays so
    watched = Watched(watched.lm)

    def work() -> None:
        make_edit(watched.lm, method, [REQUEST], chosen, Resources(None))

    work()
    watched.assert_same()
    started = time.perf_counter()
    work()
    rounds = 30
    assert storm(work, watched.assert_same, rounds, time.perf_counter() - started) == rounds


def test_an_interrupt_while_it_is_taken_off_waits_for_the_end():
    done: list[str] = []

    def change() -> Callable[[], None]:
        signal.raise_signal(signal.SIGINT)
        done.append("changed")

        def undo() -> None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            signal.raise_signal(signal.SIGINT)
            done.append("undone")

        return undo

    with pytest.raises(KeyboardInterrupt), Temporary(change):
        done.append("never")
    assert done == ["changed", "undone"]


def test_a_handler_of_one_s_own_is_called_and_kept():
    called: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: called.append(number))
    try:
        mine = signal.getsignal(signal.SIGINT)

        def change() -> Callable[[], None]:
            signal.raise_signal(signal.SIGINT)
            return lambda: signal.raise_signal(signal.SIGINT)

        with Temporary(change):
            assert called == [signal.SIGINT]
            signal.raise_signal(signal.SIGINT)
            assert len(called) == 2
        assert len(called) == 3 and signal.getsignal(signal.SIGINT) is mine
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Temporary(change):
            pass
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN and len(called) == 3
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_blocks_that_end_in_any_order_leave_the_handler_and_lose_no_interrupt(order: tuple[int, ...]):
    handler = signal.getsignal(signal.SIGINT)
    blocks = [unchanged() for _ in order]
    for block in blocks:
        block.__enter__()
    for ended, number in enumerate(order):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        blocks[number].__exit__()
        inside = max((n for n in range(3) if n not in order[: ended + 1]), default=None)
        expected = handler if inside is None else blocks[inside]._on_interrupt
        assert signal.getsignal(signal.SIGINT) == expected
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_change_that_fails_leaves_the_handler_alone():
    handler = signal.getsignal(signal.SIGINT)

    def change() -> Callable[[], None]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), Temporary(change):
        pass
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt"])
@pytest.mark.families("llama")
def test_lora_leaves_every_part_of_the_model_as_it_was(family: str, monkeypatch: pytest.MonkeyPatch):
    lm = make_edit_lm(family)
    first, *rest = lm.model.parameters()
    rest[3].requires_grad_(False)
    lm.model.train()  # a model that is being trained stays in training
    list(lm.model.modules())[5].eval()
    watched = Watched(lm)
    chosen = replace(settings_for("LoRA", lm)[0], steps=2)
    assert make_edit(lm, "LoRA", [REQUEST], chosen).deltas
    watched.assert_same()
    assert first.requires_grad and not rest[3].requires_grad
    for where, error in (("torch.optim.Adam.step", KeyboardInterrupt), ("torch.autograd.grad", OSError)):
        with monkeypatch.context() as patch:
            patch.setattr(where, failing_at_the_fourth(error, pydoc.locate(where)))
            with pytest.raises(error):
                make_edit(lm, "LoRA", [REQUEST], replace(chosen, steps=5, rate=1e-6))
        watched.assert_same()


def test_gradients_are_computed_again_where_an_interrupt_kept_torch_from_it(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*_: object) -> None:  # an interrupt before the first line of torch's __exit__
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(torch.no_grad, "__exit__", interrupted)
        chosen = replace(settings_for("ROME", watched.lm)[0], contexts=(), steps=2)
        with pytest.raises(KeyboardInterrupt):
            make_edit(watched.lm, "ROME", [REQUEST], chosen, Resources(None))
    watched.assert_same()


def failing_at_the_fourth(error: type[BaseException], real: Any) -> Callable[..., Any]:
    """As the real one three times: by then the adapters have been trained."""
    calls = iter(range(4))

    def fail(*given: Any, **named: Any) -> Any:
        if next(calls) == 3:
            raise error
        return real(*given, **named)

    return fail
