"""Forward passes that read or shift single positions inside a model, the losses of targets, and training by Adam.

Texts are padded on the right without a mask, as in `anachron.lm.scoring`: in a causal model nothing real attends to
padding.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from anachron.core.errors import DataError
from anachron.edit.passes.activation_replay import stopped_after
from anachron.edit.requests import Marked, MarkedTarget
from anachron.lm.batches import successive
from anachron.lm.numerics import at_least_float32, wide_dtype
from anachron.lm.scoring import (
    During,
    ScoredText,
    answer_logits,
    fed_ids,
    head_on,
    input_device,
    softmax_rows,
    target_ids,
    target_places,
)
from anachron.lm.soundness import check_token
from anachron.lm.temporary import Temporary, together, unchanged


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
    """A batch of texts: ids (texts, length), and the position of each one's subject's last token, (texts,)."""

    ids: torch.Tensor
    subjects: torch.Tensor


def batch(model: Any, marked: Sequence[Marked]) -> Texts:
    ids = batch_ids(model, marked)
    return Texts(ids, torch.tensor([m.subject for m in marked], device=ids.device))


def batch_ids(model: Any, texts: Sequence[ScoredText]) -> torch.Tensor:
    """Texts as they are fed, (texts, length). Raises as `checked_ids`."""
    return torch.tensor(checked_ids(model, texts), device=input_device(model))


def checked_ids(model: Any, texts: Sequence[ScoredText]) -> list[list[int]]:
    """The same as lists. Raises `DataError` for a text that is too long for the model, `ModelError` for a token that it
    does not know."""
    ids = fed_ids(texts)
    most = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if most is not None and len(ids[0]) > most:
        raise DataError(
            f"an update's text has {len(ids[0])} tokens, more than the {most} that the model reads; shorten it"
        )
    check_token(max(map(max, ids)), model.get_input_embeddings().weight.shape[0], "the model")
    return ids


TOKENS, TRAINED_TOKENS = 16384, 4096  # most that pass a model at a time, padding included; fewer with gradients


def picked(values: torch.Tensor, texts: Texts, columns: torch.Tensor) -> torch.Tensor:
    """One position a text, (texts, width), of a module's input or output, (texts, length, width).

    OPT flattens texts and length into one dimension. columns: (texts,).
    """
    rows = torch.arange(len(columns), device=values.device)
    return values.reshape(*texts.ids.shape, values.shape[-1])[rows, columns.to(values.device)]


def hooked(model: Any, module: str, hook: Callable[[torch.Tensor], torch.Tensor | None]) -> Temporary[None]:
    """Let a function see a module's output (of a tuple the first part), and replace it unless it returns None."""

    def on_output(_: Any, __: Any, output: Any) -> Any:
        first = output[0] if isinstance(output, tuple) else output
        changed = hook(first)
        if changed is None:
            return None
        return (changed, *output[1:]) if isinstance(output, tuple) else changed

    return Temporary(lambda: model.get_submodule(module).register_forward_hook(on_output).remove)


def inputs_seen(model: Any, module: str, see: Callable[[torch.Tensor], None]) -> Temporary[None]:
    """Let a function see a module's input."""
    return Temporary(
        lambda: model.get_submodule(module).register_forward_pre_hook(lambda _, given: see(given[0])).remove
    )


def shifted(model: Any, module: str, texts: Texts, delta: torch.Tensor) -> Temporary[None]:
    """Add delta, (texts, width), to a module's output at the subject's last token of each text."""

    def add(output: torch.Tensor) -> torch.Tensor:
        shaped = output.reshape(*texts.ids.shape, output.shape[-1])  # (texts, length, width)
        at_subject = torch.zeros(shaped.shape[:2], dtype=torch.bool, device=shaped.device)  # (texts, length)
        at_subject[torch.arange(len(texts.subjects)), texts.subjects.to(shaped.device)] = True
        with_delta = torch.where(at_subject[..., None], shaped + delta.to(shaped)[:, None, :], shaped)
        return with_delta.reshape(output.shape)

    return hooked(model, module, add)


def values_at_subject(
    model: Any, marked: Sequence[Marked], *, inputs: Sequence[str] = (), outputs: Sequence[str] = (),
    during: During = unchanged,
) -> dict[tuple[str, str], torch.Tensor]:  # fmt: skip
    """Inputs and outputs of modules at the subject's last token, in float32 or finer, without gradient.

    Nothing behind that token is fed. during: the change of the model in force for some texts, given their numbers.
    Returns {("in" | "out", module): (texts, width)}.
    """
    short = [replace(m, ids=m.ids[: m.subject + 2]) for m in marked]
    batches = []
    for part in successive([len(m.ids) for m in short], TOKENS):
        with during(range(part.start, part.stop)):
            batches.append(_values_of(model, batch(model, short[part]), inputs, outputs))
    return {side: torch.cat([values[side] for values in batches]) for side in batches[0]}


def _values_of(
    model: Any, texts: Texts, inputs: Sequence[str], outputs: Sequence[str]
) -> dict[tuple[str, str], torch.Tensor]:
    seen: dict[tuple[str, str], torch.Tensor] = {}

    def keep(side: str, module: str) -> Callable[[torch.Tensor], None]:
        def see(values: torch.Tensor) -> None:
            seen[side, module] = at_least_float32(picked(values, texts, texts.subjects).detach())

        return see

    hooks = [inputs_seen(model, module, keep("in", module)) for module in inputs]
    hooks += [hooked(model, module, keep("out", module)) for module in outputs]
    head = model.get_output_embeddings()
    if head is not None:  # nothing is read from the logits, so the head is given a single position
        hooks.append(head_on(head, lambda hidden: hidden[0, :1]))
    hooks.append(stopped_after(model, [*inputs, *outputs]))
    with torch.no_grad(), together(hooks):
        model(input_ids=texts.ids, use_cache=False)
    return seen


def target_logits(model: Any, texts: Sequence[ScoredText], *, last_position: bool = False) -> torch.Tensor:
    """The rows of logits that predict the target tokens, (target tokens, vocabulary); gradients flow through them.

    last_position: every one off the last position before the target.
    """
    rows, columns = torch.tensor(target_places(texts)).T  # (target tokens,) each
    if last_position:
        columns = torch.tensor([text.targets[0] - 1 for text in texts])[rows]
    return answer_logits(model, batch_ids(model, texts), rows, columns)


def nll_losses(logits: torch.Tensor, texts: Sequence[ScoredText]) -> torch.Tensor:
    """Mean negative log-likelihood (nats) of each text's target tokens, shape (texts,).

    logits: (all target tokens, vocabulary), the rows that predict them; gradients flow through it.
    """
    return nll_losses_and_rest(logits, texts)[0]


def nll_losses_and_rest(logits: torch.Tensor, texts: Sequence[ScoredText]) -> tuple[torch.Tensor, torch.Tensor]:
    """As `nll_losses`, of logits that go on behind the rows of the targets; and log-probabilities of what is there,
    (further rows, vocabulary).
    """
    wanted = torch.tensor(target_ids(texts), device=logits.device)
    log_probs, rest = _LogProbs.apply(logits, wanted)  # (target tokens,), (further rows, vocabulary)
    return -means([len(t.targets) for t in texts]).to(log_probs) @ log_probs, rest


def unlikelihood_losses(logits: torch.Tensor, texts: Sequence[ScoredText]) -> torch.Tensor:
    """Mean unlikelihood, -log(1 - p) in nats, of each text's target tokens, shape (texts,).

    Zero where the model gives none of them; arguments as of `nll_losses`. log(1 - p) is the log of what all other
    tokens share, which stays exact where p is almost 1. Source: Welleck and others, 2020, equation 3.
    """
    wanted = torch.tensor(target_ids(texts), device=logits.device)
    wide = at_least_float32(logits)  # (target tokens, vocabulary)
    others = wide.scatter(1, wanted[:, None], float("-inf")).logsumexp(-1) - wide.logsumexp(-1)  # log(1 - p)
    return -means([len(t.targets) for t in texts]).to(others) @ others


class _LogProbs(torch.autograd.Function):
    """Log-probability of one token in each of the first rows of logits, and all of them in the rest, in float32 or
    finer.

    As log_softmax and gather, but some rows at a time, with nothing beside the logits kept of the first rows for the
    gradient, and all of the gradient in one piece.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, target_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, rest = logits[: len(target_ids)], logits[len(target_ids) :]
        wide = wide_dtype(logits.dtype)
        size = softmax_rows(logits)
        log_probs = [
            torch.log_softmax(piece, -1, dtype=wide).gather(1, ids[:, None])[:, 0]
            for piece, ids in zip(first.split(size), target_ids.split(size), strict=True)
        ]
        table = torch.log_softmax(rest, -1, dtype=wide)  # (further rows, vocabulary)
        ctx.save_for_backward(logits, target_ids, table)
        return torch.cat(log_probs), table

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, of_table: torch.Tensor) -> tuple[torch.Tensor, None]:
        """gradient: of the log-probabilities, (target tokens,); of_table: of the rest, (further rows, vocabulary).

        Of log softmax: d log p_t / d logits = onehot(t) - p.
        """
        logits, target_ids, table = ctx.saved_tensors
        to_logits = torch.empty_like(logits)  # (target tokens + further rows, vocabulary)
        for begin in range(0, len(target_ids), softmax_rows(logits)):
            span = slice(begin, min(begin + softmax_rows(logits), len(target_ids)))
            into = to_logits[span] if to_logits.dtype == gradient.dtype else None  # else it is rounded once, at the end
            p = torch.softmax(logits[span], -1, dtype=gradient.dtype, out=into).mul_(-gradient[span, None])
            rows = torch.arange(len(p), device=p.device)
            p[rows, target_ids[span]] += gradient[span]
            if into is None:
                to_logits[span] = p
        to_logits[len(target_ids) :] = of_table - table.exp() * of_table.sum(-1, keepdim=True)
        return to_logits, None


def means(lengths: Sequence[int]) -> torch.Tensor:
    """The matrix (runs, sum of lengths) that takes the mean of each run of that length in a row of numbers.

    A product, not a scattered sum, whose order a GPU does not keep.
    """
    runs = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))  # (sum of lengths,)
    share = 1 / torch.tensor(lengths, dtype=torch.float64)  # (runs,)
    return torch.nn.functional.one_hot(runs, len(lengths)).T * share[:, None]


def fit_apart(
    model: Any, marked: Sequence[MarkedTarget], trained: Sequence[torch.Tensor], settings: FitSettings, name: str, *,
    last_position: bool = False, after_step: Callable[[], None] = lambda: None, during: During = unchanged,
) -> None:  # fmt: skip
    """Train by Adam on the mean loss of each text's target tokens, each text apart: with a loss and an end of its own.

    trained: tensors whose first dimension is the texts'. A finished text is computed no more. The rest is as in
    `fit_together`.
    """
    optimiser = torch.optim.Adam(list(trained), lr=settings.rate, weight_decay=0)
    removed = torch.tensor([m.remove for m in marked])  # (texts,)
    active, finished = list(range(len(marked))), list[int]()
    with torch.enable_grad():
        for step in range(settings.steps):
            losses, gradients = _losses_and_gradients(
                model, marked, active, trained, share=1, last_position=last_position, during=during
            )  # losses: (active,)
            if not losses.isfinite().all():
                raise _not_a_number(name, losses[~losses.isfinite()][0].item())
            done = losses < settings.stop_below
            if step == 0:
                done &= ~removed.to(done.device)
            if done.all():
                return
            finished += [i for i, end in zip(active, done.tolist(), strict=True) if end]
            active = [i for i in active if i not in finished]
            before = [tensor.detach()[finished] for tensor in trained]  # Adam's momentum would go on moving them
            for tensor, gradient in zip(trained, gradients, strict=True):
                tensor.grad = gradient
            optimiser.step()
            after_step()
            with torch.no_grad():
                for tensor, old in zip(trained, before, strict=True):
                    tensor[finished] = old


def fit_together(
    model: Any, marked: Sequence[MarkedTarget], trained: Sequence[torch.Tensor], settings: FitSettings, name: str, *,
    minibatch: int | None = None, last_position: bool = False, after_step: Callable[[], None] = lambda: None,
    during: During = unchanged,
) -> None:  # fmt: skip
    """Train some tensors by Adam on the mean over texts of the mean loss of their target tokens.

    The loss of a target to be removed is its unlikelihood. A removal takes one step at least, however low its loss: it
    asks for less probability than there is, and some is always there.

    settings: ``steps, rate, stop_below`` (nats). minibatch: texts a step of Adam, in their order, by default all; then
    ``steps`` counts the times that all texts are gone through. A minibatch whose loss is below ``stop_below`` takes no
    step, and an epoch whose mean loss is below it is the last. last_position: read every target token's probability off
    the last position before the target. after_step: called after each step of Adam. during: the change of the model in
    force for some texts, given their numbers. name: the method's, for errors. Raises `DataError` for a loss that is not
    a number.
    """
    optimiser = torch.optim.Adam(list(trained), lr=settings.rate, weight_decay=0)
    size = minibatch or len(marked)
    minibatches = [range(i, min(i + size, len(marked))) for i in range(0, len(marked), size)]
    with torch.enable_grad():
        for epoch in range(settings.steps):
            mean_loss, removes = 0.0, [epoch == 0 and m.remove for m in marked]
            for texts in minibatches:
                losses, gradients = _losses_and_gradients(
                    model, marked, texts, trained, share=len(texts), last_position=last_position, during=during
                )
                loss = float(losses.sum())
                if not math.isfinite(loss):
                    raise _not_a_number(name, loss)
                mean_loss += loss * len(texts) / len(marked)
                if loss >= settings.stop_below or any(removes[i] for i in texts):
                    for tensor, gradient in zip(trained, gradients, strict=True):
                        tensor.grad = gradient
                    optimiser.step()
                    after_step()
            if mean_loss < settings.stop_below and not any(removes):
                return


def _not_a_number(name: str, loss: float) -> DataError:
    return DataError(f"the loss of {name} is {loss}; use a lower rate or dtype float32")


def _losses_and_gradients(
    model: Any, marked: Sequence[MarkedTarget], active: Sequence[int], trained: Sequence[torch.Tensor], *, share: int,
    last_position: bool, during: During,
) -> tuple[torch.Tensor, list[torch.Tensor]]:  # fmt: skip
    """The losses of the active texts divided by ``share``, (active,), and the gradients of their sum; so many at a time
    as fit.
    """
    active_losses, sums = [], [torch.zeros_like(tensor) for tensor in trained]
    for places in successive([len(marked[i].ids) for i in active], TRAINED_TOKENS):
        part = [marked[i] for i in active[places]]
        with during(active[places]):
            logits = target_logits(model, part, last_position=last_position)  # (target tokens, vocabulary)
        losses = nll_losses(logits, part)  # (part,)
        if any(m.remove for m in part):
            removed = torch.tensor([m.remove for m in part], device=losses.device)
            losses = torch.where(removed, unlikelihood_losses(logits, part), losses)
        losses = losses / share
        active_losses.append(losses.detach())
        for into, gradient in zip(sums, torch.autograd.grad(losses.sum(), trained), strict=True):
            into += gradient
    return torch.cat(active_losses).to(trained[0].device), sums
