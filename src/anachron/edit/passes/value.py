"""The optimised value that ROME, MEMIT, AlphaEdit and EMMET share.

A vector delta is added to a module's output h0 at the subject's last token and optimised until the model gives the
target; v* = h0 + delta is what the edit writes (ROME, section 3.1, equation 4). In MEMIT it is z = h + delta at the
last edited block (equation 16). Where the papers are silent the published code counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from anachron.core.errors import DataError
from anachron.edit.passes.context_sampling import sampled_contexts
from anachron.edit.passes.forward import TRAINED_TOKENS, batch, nll_losses_and_rest, shifted, values_at_subject
from anachron.edit.passes.frozen import frozen
from anachron.edit.passes.prefix_cache import RepeatedPass, with_prefix_cache
from anachron.edit.requests import SLOT, EditRequest, Marked, mark, mark_prompts
from anachron.lm.model import LanguageModel
from anachron.lm.scoring import target_places
from anachron.lm.temporary import Temporary, together

ESSENCE = f"{SLOT} is a"  # p' of equation 4: the subject is to stay what it is
PADDED = 1.25  # how much longer suffixes may be than others in one batch


@dataclass(frozen=True, kw_only=True)
class ValueSettings:
    """How a value is optimised.

    steps: of Adam, the last of which only measures the loss (as published: n steps move delta n - 1 times). rate: of
    Adam. stop_below: loss (nats) at which an update is finished. decay: weight of |delta| / |h0|^2. kl: weight of the
    KL divergence at "{subject} is a". clamp: largest |delta| as a multiple of |h0|. contexts: texts put before the
    prompt; None samples them from the model by ``context_lengths`` ((tokens, texts) pairs), ``context_starts`` and
    ``seed``, see `sampled_contexts`; the prompt without a context is always among the inputs. The published code counts
    the start-of-text token, so that its lengths of 5 and 10 are 4 and 9 here.
    """

    steps: int = 20
    rate: float = 0.5
    stop_below: float = 0.05
    decay: float = 0.5
    kl: float = 0.0625
    clamp: float = 4.0
    contexts: tuple[str, ...] | None = None
    context_lengths: tuple[tuple[int, int], ...] = ((4, 10), (9, 10))
    context_starts: tuple[str, ...] = ()
    seed: int = 0


def contexts_of(lm: LanguageModel, settings: ValueSettings) -> tuple[str, ...]:
    """The contexts given, or sampled from the model."""
    if settings.contexts is not None:
        return settings.contexts
    return sampled_contexts(lm, settings.context_lengths, settings.seed, settings.context_starts)


@dataclass(frozen=True)
class Values:
    """Outputs of modules at the subject in the clean model, what is added to each, and the last losses.

    clean, delta: (modules, requests, width); losses: (requests,).
    """

    clean: torch.Tensor
    delta: torch.Tensor
    losses: torch.Tensor


def optimise_values(
    lm: LanguageModel, requests: Sequence[EditRequest], modules: Sequence[str], contexts: Sequence[str],
    settings: ValueSettings,
) -> Values:  # fmt: skip
    """What to add to the output of each module at each request's subject so that the model gives its target.

    Several modules are shifted at once, each within its own clamp; the methods as published shift one. All requests
    together, each with a loss, a step size and an end of its own, so that the result does not depend on the company.
    So many at a time as fit. Raises `DataError` where the optimisation meets a number that is none.
    """
    marked = [mark(lm.tokenizer, requests, context, lm.style) for context in ("", *contexts)]
    groups = alike_requests(marked)
    parts = [
        _optimise(lm, [requests[i] for i in group], modules, [[texts[i] for i in group] for texts in marked], settings)
        for group in groups
    ]
    order = torch.tensor([i for group in groups for i in group]).argsort()
    clean, delta = torch.cat([part.clean for part in parts], 1), torch.cat([part.delta for part in parts], 1)
    losses = torch.cat([part.losses for part in parts])
    order = order.to(losses.device)
    return Values(clean[:, order], delta[:, order], losses[order])


def alike_requests(marked: Sequence[Sequence[Marked]]) -> list[list[int]]:
    """Requests that go through a model together: as many as fit, with about as many tokens from the subject on."""
    longest = [max(len(m.ids) for m in texts) for texts in zip(*marked, strict=True)]
    suffix = [len(m.ids) - m.subject for m in marked[0]]
    groups: list[list[int]] = []
    width = 0
    for i in sorted(range(len(suffix)), key=lambda i: (suffix[i], longest[i])):
        width = max(width, longest[i]) if groups else longest[i]
        tokens = (len(groups[-1]) + 1) * (1 + len(marked)) * width if groups else 0
        if not groups or tokens > TRAINED_TOKENS or suffix[i] > PADDED * suffix[groups[-1][0]]:
            groups.append([])
            width = longest[i]
        groups[-1].append(i)
    return groups


def _optimise(
    lm: LanguageModel, requests: Sequence[EditRequest], modules: Sequence[str], marked: Sequence[Sequence[Marked]],
    settings: ValueSettings,
) -> Values:  # fmt: skip
    """ROME's equation 4 by Adam over delta, with v* = h0 + delta, for all requests at once.

    marked: the requests' texts, bare and then behind each context. Shapes: ``active`` counts the requests that are not
    finished yet; width is that of the modules' outputs.
    """
    group = _Group.of(lm, requests, modules, marked)
    at_subject = values_at_subject(lm.model, marked[0], outputs=modules)
    h0 = torch.stack([at_subject["out", module] for module in modules])  # (modules, requests, width)
    h0_norm = h0.norm(dim=-1)  # (modules, requests)
    delta = torch.zeros_like(h0, requires_grad=True)  # (modules, requests, width)
    clean_essence = torch.empty(0)  # (active, vocabulary), log P of the clean model, from the first step on
    optimiser = torch.optim.Adam([delta], lr=settings.rate)
    losses = torch.full_like(h0_norm[0], torch.inf)  # (requests,)
    active = torch.arange(len(requests), device=h0.device)  # (active,); what is finished stays as it is
    with frozen(lm.model), torch.enable_grad():
        for step in range(settings.steps):
            active_delta = delta[:, active]  # (modules, active, width)
            with together(group.shifts(lm.model, modules, active_delta)):
                nll_loss, essence = group.losses(lm.model)  # (active,), (active, vocabulary)
            clean_essence = essence.detach() if step == 0 else clean_essence  # delta is still 0
            # equation 4: -log P(o*), the mean over contexts, and D_KL(edited || clean) at "{subject} is a"
            kl_loss = (essence.exp() * (essence - clean_essence)).sum(-1)  # (active,)
            # the published code adds |delta| / |h0|^2, here of each module
            weight_decay = (active_delta.norm(dim=-1) / h0_norm[:, active] ** 2).sum(0)  # (active,)
            # a large model may lie on several devices, so the terms are brought together
            loss = (nll_loss + settings.kl * kl_loss).to(h0.device) + settings.decay * weight_decay  # (active,)
            losses[active] = loss.detach()
            unfinished = loss.detach() >= settings.stop_below  # (active,)
            if not unfinished.any() or step == settings.steps - 1:
                break
            (delta.grad,) = torch.autograd.grad(loss[unfinished].sum(), [delta])
            if not unfinished.all():
                group, active = group.only(unfinished.nonzero()[:, 0].tolist()), active[unfinished]
                clean_essence = clean_essence[unfinished.to(clean_essence.device)]
            updated = delta.detach().clone()  # Adam's momentum would go on moving what is finished
            optimiser.step()
            with torch.no_grad():
                updated[:, active] = _clamped(delta, settings.clamp * h0_norm)[:, active]
                delta.copy_(updated)
    if not torch.isfinite(losses).all():
        bad = requests[int((~torch.isfinite(losses)).nonzero()[0])]
        raise DataError(f"the loss of the update {bad.sentence!r} is not a number; use a lower rate or dtype float32")
    return Values(h0, delta.detach(), losses)


def _clamped(delta: torch.Tensor, longest: torch.Tensor) -> torch.Tensor:
    """delta, (modules, requests, width), shortened where it is longer than ``longest``, (modules, requests)."""
    size = delta.norm(dim=-1).clamp_min(1e-30)
    return delta * torch.clamp(longest / size, max=1.0)[..., None]


@dataclass(frozen=True)
class _Group:
    """The texts of some requests, row by row: each context with prompt and target, then "{subject} is a".

    marked: of the texts with a target, all requests behind one context after the other.
    """

    count: int
    marked: Sequence[Marked]
    passes: RepeatedPass

    @classmethod
    def of(
        cls, lm: LanguageModel, requests: Sequence[EditRequest], modules: Sequence[str],
        texts: Sequence[Sequence[Marked]],
    ) -> "_Group":  # fmt: skip
        marked = [m for part in texts for m in part]
        essence = mark_prompts(lm.tokenizer, [(ESSENCE, r.subject) for r in requests])
        fed = batch(lm.model, [*marked, *essence])
        at_essence = [(len(marked) + row, m.subject) for row, m in enumerate(essence)]
        rows, columns = torch.tensor(target_places(marked) + at_essence).T  # (target tokens + requests,) each
        lengths = [*(len(m.ids) - 1 for m in marked), *(m.subject + 1 for m in essence)]
        whole = RepeatedPass(fed, rows, columns)
        return cls(len(requests), marked, with_prefix_cache(lm.model, whole, lengths, modules))

    def shifts(self, model: Any, modules: Sequence[str], delta: torch.Tensor) -> list[Temporary[None]]:
        """delta, (modules, requests, width), added at the subject of every text of its request."""
        owners = torch.arange(self.count).repeat(len(self.passes.texts.ids) // self.count)  # (texts,)
        return [shifted(model, module, self.passes.texts, d[owners]) for module, d in zip(modules, delta, strict=True)]

    def losses(self, model: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """The target's negative log-likelihood, (requests,), the mean over the contexts; and log-probabilities at
        "{subject} is a", (requests, vocabulary).
        """
        nll_losses, essence = nll_losses_and_rest(self.passes.logits(model), self.marked)
        return nll_losses.view(-1, self.count).mean(0), essence  # of (contexts, requests)

    def only(self, requests: Sequence[int]) -> "_Group":
        """Some of the requests, in rising order."""
        copies = range(0, len(self.passes.texts.ids), self.count)
        chosen = [first + request for first in copies for request in requests]
        marked = [self.marked[row] for row in chosen[: -len(requests)]]
        return _Group(len(requests), marked, self.passes.only(chosen))
