"""Passes through a model that read or shift single positions inside it.

Texts are padded on the right without a mask, as in `anachron.lm.scoring`: in a causal model nothing real attends to
padding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from anachron.edit.requests import Marked
from anachron.errors import DataError, ModelError
from anachron.lm.scoring import answer_logits, input_device
from anachron.lm.temporary import Temporary, together


@dataclass(frozen=True, slots=True)
class Texts:
    """A batch of texts: ids (batch, time) and, for each text, the position of its subject's last token."""

    ids: torch.Tensor
    subjects: torch.Tensor


def batch(model: Any, marked: Sequence[Marked], *, feed_last: bool = False) -> Texts:
    """Texts padded on the right; the last token is fed only where something is read there."""
    kept = [m.ids if feed_last else m.ids[:-1] for m in marked]
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


def run(model: Any, texts: Texts) -> torch.Tensor:
    """Logits of a batch, (batch, time, vocabulary)."""
    return model(input_ids=texts.ids, use_cache=False).logits


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
    model: Any, marked: Sequence[Marked], *, inputs: Sequence[str] = (), outputs: Sequence[str] = ()
) -> dict[tuple[str, str], torch.Tensor]:
    """Inputs and outputs of modules at the subject's last token, in float32 or finer, without gradient.

    Returns {("in" | "out", module): (texts, width)}.
    """
    found = [_values_of(model, batch(model, part), inputs, outputs) for part in parts(marked, TOKENS)]
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
    with torch.no_grad(), together(hooks):
        run(model, texts)
    return found


def loss_and_gradients(
    model: Any, marked: Sequence[Marked], trained: Sequence[torch.Tensor], *, last_position: bool = False
) -> tuple[float, list[torch.Tensor]]:
    """The mean over texts of the mean loss of their target tokens, and its gradients; a part of the texts at a time.

    last_position: read every target token's probability off the last position before the target.
    """
    total, sums = 0.0, [torch.zeros_like(tensor) for tensor in trained]
    for part in parts(marked, TRAINED_TOKENS):
        rows = torch.tensor([r for r, m in enumerate(part) for _ in m.targets])
        columns = torch.tensor([(m.targets[0] if last_position else t) - 1 for m in part for t in m.targets])
        wanted = torch.tensor([m.ids[t] for m in part for t in m.targets])
        share = torch.tensor([1 / (len(m.targets) * len(marked)) for m in part for _ in m.targets])
        logits = answer_logits(model, batch(model, part).ids, rows, columns)
        logp = torch.log_softmax(at_least_float32(logits), -1)
        loss = -(logp.gather(1, wanted.to(logp.device)[:, None])[:, 0] * share.to(logp)).sum()
        total += loss.item()
        for into, gradient in zip(sums, torch.autograd.grad(loss, trained), strict=True):
            into += gradient
    return total, sums


def _short_head(head: torch.nn.Module) -> Temporary[None]:
    def first_position(_: Any, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return (given[0][:1, :1], *given[1:]) if given else None

    return Temporary(lambda: head.register_forward_pre_hook(first_position).remove)
