"""Passes through a model that read or shift single positions inside it.

Texts are padded on the right without a mask, as in `anachron.lm.scoring`: in a causal model nothing real attends to
padding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from anachron.edit.passes.unreached import ended_behind
from anachron.edit.requests import Marked
from anachron.errors import DataError, ModelError
from anachron.lm.scoring import During, answer_logits, input_device, softmax_rows
from anachron.lm.temporary import Temporary, together, unchanged


class Scored(Protocol):
    """A text's tokens and the positions of those that are scored: `Marked`, or an `anachron.lm.spans.Encoded`."""

    @property
    def ids(self) -> tuple[int, ...]: ...
    @property
    def targets(self) -> tuple[int, ...]: ...


class FitSettings(Protocol):
    """Settings of a method that trains by Adam."""

    @property
    def steps(self) -> int: ...
    @property
    def rate(self) -> float: ...
    @property
    def stop_below(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Texts:
    """A batch of texts: ids (batch, time) and, for each text, the position of its subject's last token."""

    ids: torch.Tensor
    subjects: torch.Tensor


def batch(model: Any, marked: Sequence[Marked]) -> Texts:
    """Texts padded on the right, without their last tokens, which are never fed."""
    kept = [m.ids[:-1] for m in marked]
    width = max(map(len, kept))
    most = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if most is not None and width > most:
        raise DataError(f"an update's text has {width} tokens, more than the {most} that the model reads; shorten it")
    known, largest = model.get_input_embeddings().weight.shape[0], max(map(max, kept))
    if largest >= known:
        raise ModelError(f"the tokenizer gives token {largest}, but the model knows only {known}; use the model's own")
    device = input_device(model)
    ids = torch.tensor([list(k) + [k[-1]] * (width - len(k)) for k in kept], device=device)
    return Texts(ids, torch.tensor([m.subject for m in marked], device=device))


TOKENS, TRAINED_TOKENS = 16384, 4096  # most that pass a model at a time, padding included; fewer with gradients


def parts(marked: Sequence[Marked], most: int) -> Iterator[Sequence[Marked]]:
    """Texts in their order, a batch that fits into ``most`` tokens at a time (one text at least)."""
    first, width = 0, 0
    for i, m in enumerate(marked):
        width = max(width, len(m.ids))
        if i > first and (i + 1 - first) * width > most:
            yield marked[first:i]
            first, width = i, len(m.ids)
    yield marked[first:]


def at_least_float32(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def picked(values: torch.Tensor, texts: Texts, columns: torch.Tensor) -> torch.Tensor:
    """One position a text of a module's input or output, (batch, width); OPT flattens batch and time into one."""
    rows = torch.arange(len(columns), device=values.device)
    return values.reshape(*texts.ids.shape, values.shape[-1])[rows, columns.to(values.device)]


def hooked(model: Any, module: str, hook: Callable[[torch.Tensor], torch.Tensor | None]) -> Temporary[None]:
    """Let a function see, and replace if it returns something, what a module gives out (its first part, of a tuple)."""

    def on_output(_: Any, __: Any, output: Any) -> Any:
        first = output[0] if isinstance(output, tuple) else output
        changed = hook(first)
        if changed is None:
            return None
        return (changed, *output[1:]) if isinstance(output, tuple) else changed

    return Temporary(lambda: model.get_submodule(module).register_forward_hook(on_output).remove)


def inputs_seen(model: Any, module: str, see: Callable[[torch.Tensor], None]) -> Temporary[None]:
    """Let a function see what goes into a module."""
    return Temporary(
        lambda: model.get_submodule(module).register_forward_pre_hook(lambda _, given: see(given[0])).remove
    )


def shifted(model: Any, module: str, texts: Texts, delta: torch.Tensor) -> Temporary[None]:
    """Add delta, (batch, width), to a module's output at the subject's last token of each text."""

    def add(output: torch.Tensor) -> torch.Tensor:
        shaped = output.reshape(*texts.ids.shape, output.shape[-1])
        at_subject = torch.zeros(shaped.shape[:2], dtype=torch.bool, device=shaped.device)
        at_subject[torch.arange(len(texts.subjects)), texts.subjects.to(shaped.device)] = True
        moved = torch.where(at_subject[..., None], shaped + delta.to(shaped)[:, None, :], shaped)
        return moved.reshape(output.shape)

    return hooked(model, module, add)


def values_at_subject(
    model: Any, marked: Sequence[Marked], *, inputs: Sequence[str] = (), outputs: Sequence[str] = (),
    during: During = unchanged,
) -> dict[tuple[str, str], torch.Tensor]:  # fmt: skip
    """Inputs and outputs of modules at the subject's last token, in float32 or finer, without gradient.

    Nothing behind that token is fed. during: what is in force while the texts of some numbers are computed. Returns
    {("in" | "out", module): (texts, width)}.
    """
    short = [replace(m, ids=m.ids[: m.subject + 2]) for m in marked]
    found, first = [], 0
    for part in parts(short, TOKENS):
        with during(range(first, first + len(part))):
            found.append(_values_of(model, batch(model, part), inputs, outputs))
        first += len(part)
    return {side: torch.cat([values[side] for values in found]) for side in found[0]}


def _values_of(
    model: Any, texts: Texts, inputs: Sequence[str], outputs: Sequence[str]
) -> dict[tuple[str, str], torch.Tensor]:
    found: dict[tuple[str, str], torch.Tensor] = {}

    def keep(side: str, module: str) -> Callable[[torch.Tensor], None]:
        def see(values: torch.Tensor) -> None:
            found[side, module] = at_least_float32(picked(values, texts, texts.subjects).detach())

        return see

    hooks = [inputs_seen(model, module, keep("in", module)) for module in inputs]
    hooks += [hooked(model, module, keep("out", module)) for module in outputs]
    head = model.get_output_embeddings()
    if head is not None:  # nothing is read from the logits, so the head is given a single position
        hooks.append(_short_head(head))
    hooks.append(ended_behind(model, [*inputs, *outputs]))
    with torch.no_grad(), together(hooks):
        model(input_ids=texts.ids, use_cache=False)
    return found


def target_losses(logits: torch.Tensor, texts: Sequence[Scored]) -> torch.Tensor:
    """Mean negative log-likelihood (nats) of each text's target tokens, shape (texts,).

    logits: (all target tokens, vocabulary), the rows that predict them; gradients flow through it.
    """
    return target_losses_and_rest(logits, texts)[0]


def target_losses_and_rest(logits: torch.Tensor, texts: Sequence[Scored]) -> tuple[torch.Tensor, torch.Tensor]:
    """As `target_losses`, of logits that go on behind the rows of the targets; and log-probabilities of what is there,
    (further rows, vocabulary).
    """
    wanted = torch.tensor([t.ids[target] for t in texts for target in t.targets], device=logits.device)
    logp, rest = _LogProbs.apply(logits, wanted)
    return -means([len(t.targets) for t in texts]).to(logp) @ logp, rest


def removal_losses(logits: torch.Tensor, texts: Sequence[Scored]) -> torch.Tensor:
    """Mean unlikelihood, -log(1 - p) in nats, of each text's target tokens, shape (texts,).

    Zero where the model says none of them; arguments as of `target_losses`. log(1 - p) is the log of what all other
    tokens share, which stays exact where p is almost 1. Source: Welleck and others, 2020, equation 3.
    """
    wanted = torch.tensor([t.ids[target] for t in texts for target in t.targets], device=logits.device)
    wide = at_least_float32(logits)
    others = wide.scatter(1, wanted[:, None], float("-inf")).logsumexp(-1) - wide.logsumexp(-1)
    return -means([len(t.targets) for t in texts]).to(others) @ others


class _LogProbs(torch.autograd.Function):
    """Log-probability of one token in each of the first rows of logits, and all of them in the rest, in float32 or
    finer.

    As log_softmax and gather, but some rows at a time, with nothing beside the logits kept of the first rows for the
    gradient, and all of the gradient in one piece.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, rest = logits[: len(wanted)], logits[len(wanted) :]
        wide = torch.promote_types(logits.dtype, torch.float32)
        size = softmax_rows(logits)
        found = [
            torch.log_softmax(piece, -1, dtype=wide).gather(1, chosen[:, None])[:, 0]
            for piece, chosen in zip(first.split(size), wanted.split(size), strict=True)
        ]
        table = torch.log_softmax(rest, -1, dtype=wide)
        ctx.save_for_backward(logits, wanted, table)
        return torch.cat(found), table

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, of_table: torch.Tensor) -> tuple[torch.Tensor, None]:
        logits, wanted, table = ctx.saved_tensors
        found = torch.empty_like(logits)
        for begin in range(0, len(wanted), softmax_rows(logits)):
            span = slice(begin, min(begin + softmax_rows(logits), len(wanted)))
            into = found[span] if found.dtype == gradient.dtype else None  # else it is rounded once, when all is summed
            p = torch.softmax(logits[span], -1, dtype=gradient.dtype, out=into).mul_(-gradient[span, None])
            rows = torch.arange(len(p), device=p.device)
            p[rows, wanted[span]] += gradient[span]
            if into is None:
                found[span] = p
        found[len(wanted) :] = of_table - table.exp() * of_table.sum(-1, keepdim=True)
        return found, None


def means(lengths: Sequence[int]) -> torch.Tensor:
    """The matrix (runs, sum of lengths) that takes the mean of each run of that length in a row of numbers.

    A product, not a scattered sum, whose order a GPU does not keep.
    """
    runs = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    share = 1 / torch.tensor(lengths, dtype=torch.float64)
    return torch.nn.functional.one_hot(runs, len(lengths)).T * share[:, None]


def fit(
    model: Any, marked: Sequence[Marked], trained: Sequence[torch.Tensor], settings: FitSettings, name: str, *,
    last_position: bool = False, after_step: Callable[[], None] = lambda: None, apart: bool = False,
    during: During = unchanged,
) -> None:  # fmt: skip
    """Train some tensors by Adam on the mean over texts of the mean loss of their target tokens.

    The loss of a target to be removed is its unlikelihood. It takes one step at least, however low that is: a removal
    is asked for as a loss of probability, and there is some to lose.

    settings: ``steps, rate, stop_below`` (nats). last_position: read every target token's probability off the last
    position before the target. after_step: is called when the tensors have moved. apart: the first dimension of each
    tensor is the texts', and each text has a loss and an end of its own; what is finished is computed no more. during:
    what is in force while the texts of some numbers are computed. Raises `DataError` for a loss that is not a number;
    ``name`` is the method's, in its words.
    """
    optimiser = torch.optim.Adam(list(trained), lr=settings.rate, weight_decay=0)
    share, removed = 1 if apart else len(marked), torch.tensor([m.remove for m in marked])
    going, finished = list(range(len(marked))), list[int]()
    with torch.enable_grad():
        for step in range(settings.steps):
            losses, gradients = _losses_and_gradients(model, marked, going, trained, share, last_position, during)
            losses = losses if apart else losses.sum()[None]
            if not losses.isfinite().all():
                bad = losses[~losses.isfinite()][0].item()
                raise DataError(f"the loss of {name} is {bad}; use a lower rate or dtype float32")
            done = losses < settings.stop_below
            if step == 0:
                done &= ~(removed if apart else removed.any()).to(done.device)
            if done.all():
                return
            if apart:
                finished += [i for i, end in zip(going, done.tolist(), strict=True) if end]
                going = [i for i in going if i not in finished]
            before = [tensor.detach()[finished] for tensor in trained]
            for tensor, gradient in zip(trained, gradients, strict=True):
                tensor.grad = gradient
            optimiser.step()
            after_step()
            with torch.no_grad():
                for tensor, old in zip(trained, before, strict=True):
                    tensor[finished] = old


def _losses_and_gradients(
    model: Any, marked: Sequence[Marked], going: Sequence[int], trained: Sequence[torch.Tensor], share: int,
    last_position: bool, during: During,
) -> tuple[torch.Tensor, list[torch.Tensor]]:  # fmt: skip
    """The losses divided by ``share`` of the texts that are going, and the gradients of their sum; so many at a time
    as fit.
    """
    found, sums = [], [torch.zeros_like(tensor) for tensor in trained]
    first = 0
    for part in parts([marked[i] for i in going], TRAINED_TOKENS):
        rows = torch.tensor([r for r, m in enumerate(part) for _ in m.targets])
        columns = torch.tensor([(m.targets[0] if last_position else t) - 1 for m in part for t in m.targets])
        with during(going[first : first + len(part)]):
            logits = answer_logits(model, batch(model, part).ids, rows, columns)
        losses = target_losses(logits, part)
        if any(m.remove for m in part):
            removed = torch.tensor([m.remove for m in part], device=losses.device)
            losses = torch.where(removed, removal_losses(logits, part), losses)
        losses = losses / share
        found.append(losses.detach())
        for into, gradient in zip(sums, torch.autograd.grad(losses.sum(), trained), strict=True):
            into += gradient
        first += len(part)
    return torch.cat(found).to(trained[0].device), sums


def _short_head(head: torch.nn.Module) -> Temporary[None]:
    def first_position(_: Any, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return (given[0][:1, :1], *given[1:]) if given else None

    return Temporary(lambda: head.register_forward_pre_hook(first_position).remove)
