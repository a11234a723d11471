"""The gradient of a linear layer's weight, taken apart into the tokens' inputs and the gradients at its outputs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from anachron.core.errors import DataError
from anachron.edit.passes.forward import nll_losses, target_logits
from anachron.edit.passes.frozen import frozen
from anachron.lm.formats import encode_pairs
from anachron.lm.model import LanguageModel
from anachron.lm.numerics import at_least_float32
from anachron.lm.spans import Encoded
from anachron.lm.temporary import Temporary, together


@dataclass(frozen=True, slots=True)
class Factors:
    """A module's gradient taken apart: its inputs x (tokens, inputs), the gradients at its outputs, delta (tokens,
    outputs), and the text that each token is of, owners (tokens,).

    Only tokens that a gradient reaches are in it, unless others are asked for. Of all these, dL/dW = delta' x.
    """

    x: torch.Tensor
    delta: torch.Tensor
    owners: torch.Tensor

    def of(self, owner: int) -> "Factors":
        """The part of one text."""
        tokens = self.owners == owner
        return Factors(self.x[tokens], self.delta[tokens], self.owners[tokens])


def gradients(
    lm: LanguageModel, texts: Sequence[Encoded], modules: Iterable[str], *,
    kept: Sequence[Sequence[int]] | None = None,
) -> dict[str, Factors]:  # fmt: skip
    """Each module's gradient of each text's loss, at the model's weights as they are. Raises `DataError` for NaN.

    kept: positions of each text's tokens that are to be in it; None takes those that a gradient reaches.
    """
    seen: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    with frozen(lm.model), torch.enable_grad(), together(_watched(lm.model, name, seen) for name in modules):
        loss = losses(lm, texts).sum()
        deltas = torch.autograd.grad(loss, [seen[name][1] for name in modules])
    return {name: _factors(name, seen[name][0], d, len(texts), kept) for name, d in zip(modules, deltas, strict=True)}


def _factors(
    name: str, x: torch.Tensor, delta: torch.Tensor, texts: int, kept: Sequence[Sequence[int]] | None
) -> Factors:
    """kept: as of `gradients`."""
    # (texts, length, width) -> (tokens, width); OPT has them flat already
    x, delta = (at_least_float32(t.reshape(-1, t.shape[-1])) for t in (x, delta))
    if not torch.isfinite(delta).all():
        raise DataError(f"the gradient at {name} is not a number; use dtype float32 or bfloat16")
    owners = torch.arange(texts, device=delta.device).repeat_interleave(len(delta) // texts)  # (tokens,)
    if kept is None:
        chosen = (delta != 0).any(1) & (x != 0).any(1)  # (tokens,)
    else:
        length = len(delta) // texts
        rows = [text * length + place for text, places in enumerate(kept) for place in places]
        chosen = torch.tensor(rows, device=delta.device)  # numbers of tokens
    return Factors(x[chosen], delta[chosen], owners[chosen])


def _watched(model: Any, module: str, seen: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> Temporary[None]:
    """Keep a module's input, and a zero that is added to its output, so that the zero's gradient is the output's."""

    def watch(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        zero = torch.zeros_like(output, requires_grad=True)
        seen[module] = (given[0].detach(), zero)
        return output + zero

    return Temporary(lambda: model.get_submodule(module).register_forward_hook(watch).remove)


def encoded(lm: LanguageModel, pairs: Sequence[tuple[str, str]]) -> list[Encoded]:
    """(prompt, target) pairs as the tokens that are fed and those that are scored: of the requests alone, as all
    methods read them, without what edits in force put before prompts."""
    found = encode_pairs(lm.tokenizer, [(prompt, target, None) for prompt, target in pairs], lm.style)
    lm.check(found)
    return found


def losses(lm: LanguageModel, texts: Sequence[Encoded]) -> torch.Tensor:
    """Mean negative log-likelihood (nats) of each text's target tokens, shape (texts,); gradients flow through it."""
    return nll_losses(target_logits(lm.model, texts), texts)
