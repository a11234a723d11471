"""Texts that pass through a model many times while one position of each is shifted.

What stands before a shifted position cannot see it: keys and values of those tokens are computed once and kept, and
only the rest, the tail of each text, passes through the model again, and of that only what is computed behind the
shift. Short tails share a row, in which none sees another, so that little is padding. In a causal model that changes
nothing; whether a model takes kept keys, a mask and positions, and outputs that were kept, is tried on the texts
themselves, not looked up.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from transformers import DynamicCache

from anachron.edit.forward import Texts
from anachron.edit.unreached import Replay, ended_behind
from anachron.lm.scoring import answer_logits, is_out_of_memory
from anachron.lm.selfcheck import REFUSALS
from anachron.lm.temporary import unchanged

log = logging.getLogger("anachron")
T = TypeVar("T")

KEYS, OUTPUTS = "kept keys and values", "kept outputs"
CROWDED = 2  # most that is kept of the texts of one row, as a multiple of the most of one text: all see it, masked
ALIKE = 1e-4  # largest difference of logits, as a share of their spread, that is taken for rounding; more in bfloat16


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text lies: its row, the column of its subject and how many tokens there are from it on; and where in that
    row of what is kept its first token lies, and how many are before the subject.
    """

    row: int
    first: int
    size: int
    kept: int
    before: int


@dataclass(frozen=True)
class Kept:
    """What is kept of the tokens before the tails: a layer's keys and values (rows, heads, tokens, width).

    places: of the texts. positions (rows, time) of the tails' tokens, and mask (rows, 1, time, tokens + time), added
    before the softmax. replay: of what the shift cannot reach in the tails; None for a model that is not to be spared
    that.
    """

    places: tuple[Place, ...]
    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    positions: torch.Tensor
    mask: torch.Tensor
    replay: Replay | None


@dataclass(frozen=True)
class Passes:
    """Texts, or their tails, and the positions in them whose logits are wanted.

    owners, columns: of each position its text and its place in that text's row; ordered by text.
    """

    texts: Texts
    owners: torch.Tensor
    columns: torch.Tensor
    kept: Kept | None = None

    def logits(self, model: Any) -> torch.Tensor:
        """Logits of the wanted positions, (positions, vocabulary); gradients flow through them."""
        if self.kept is None:
            return answer_logits(model, self.texts.ids, self.texts.row_of(self.owners), self.columns)
        cache = DynamicCache()
        for number, (keys, values) in enumerate(self.kept.layers):
            cache.update(keys, values, number)
        with unchanged() if self.kept.replay is None else self.kept.replay.passing(model):
            return answer_logits(
                model, self.texts.ids, self.texts.row_of(self.owners), self.columns,
                position_ids=self.kept.positions, attention_mask=self.kept.mask, past_key_values=cache, use_cache=True,
            )  # fmt: skip

    def last(self) -> "Passes":
        """With the last wanted position of each text alone, which sees most of it."""
        ends = torch.ones(len(self.owners), dtype=torch.bool)
        ends[:-1] = self.owners[1:] != self.owners[:-1]
        return replace(self, owners=self.owners[ends], columns=self.columns[ends])

    def only(self, texts: Sequence[int]) -> "Passes":
        """Some of the texts, in rising order."""
        chosen = torch.tensor(texts)
        new = torch.full((len(self.texts.subjects),), -1)
        new[chosen] = torch.arange(len(chosen))
        wanted = new[self.owners] >= 0
        owners, columns = new[self.owners][wanted], self.columns[wanted]
        if self.kept is not None:
            places = [self.kept.places[text] for text in texts]
            some = replace(self, owners=owners, columns=columns)
            return _arranged(some, self.kept.layers, self.kept.positions, places, self.kept.replay)
        on = self.texts.ids.device
        return Passes(Texts(self.texts.ids[chosen.to(on)], self.texts.subjects[chosen.to(on)]), owners, columns)


def tails(model: Any, whole: Passes, lengths: Sequence[int], shifted: Sequence[str]) -> Passes:
    """The same logits from the subject's last token on, with what is before it kept; ``whole`` for a model that cannot.

    lengths: tokens of each text without padding. All wanted positions must be at the subject or behind it. shifted:
    modules to whose outputs something will be added there.
    """
    starts = whole.texts.subjects.tolist()
    if max(starts) == 0:
        return whole
    last = whole.last()

    def first_pass() -> tuple[Passes, torch.Tensor]:
        cache = DynamicCache()
        wanted = answer_logits(model, last.texts.ids, last.owners, last.columns, past_key_values=cache, use_cache=True)
        places = [Place(row, at, end - at, 0, at) for row, (at, end) in enumerate(zip(starts, lengths, strict=True))]
        positions = torch.arange(whole.texts.ids.shape[1], device=wanted.device).expand(whole.texts.ids.shape)
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        found = _arranged(whole, layers, positions, places, Replay(shifted))
        with ended_behind(model, shifted):
            found.last().logits(model)  # keeps what the next ones replay
        return found, wanted

    with torch.no_grad():
        made = _tried(model, first_pass, KEYS)
        if made is None:
            return whole
        found, wanted = made
        if _agree(model, found, wanted, OUTPUTS):
            return found
        assert found.kept is not None
        plain = replace(found, kept=replace(found.kept, replay=None))
        return plain if _agree(model, plain, wanted, KEYS) else whole


def _agree(model: Any, passes: Passes, wanted: torch.Tensor, what: str) -> bool:
    """Whether the logits of the last wanted position of each text are those of whole texts."""
    logits = _tried(model, lambda: passes.last().logits(model), what)
    apart = torch.inf if logits is None else _apart(logits, wanted)
    if apart <= ALIKE + 4 * torch.finfo(wanted.dtype).eps:
        return True
    if logits is not None:
        log.info("%s differs by %.2g with %s; they are computed in each pass", type(model).__name__, apart, what)
    return False


def _tried(model: Any, work: Callable[[], T], what: str) -> T | None:
    try:
        return work()
    except REFUSALS as error:
        if is_out_of_memory(error):
            raise
        log.info("%s takes no %s (%s); they are computed in each pass", type(model).__name__, what, error)
        return None


def _apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Root mean square of a difference of logits, as a share of their spread; NaN where they are no numbers."""
    found, wanted = found.double(), wanted.double()
    spread = (wanted - wanted.mean(-1, keepdim=True)).square().mean().sqrt()
    return float((found - wanted).square().mean().sqrt() / spread)


def _arranged(
    passes: Passes, layers: Sequence[tuple[torch.Tensor, torch.Tensor]], positions: torch.Tensor,
    old: Sequence[Place], replay: Replay | None,
) -> Passes:  # fmt: skip
    """The tails of texts in as few rows as they fit into, from rows in which they have other places."""
    ids, new = passes.texts.ids, _fitted(old)
    rows = 1 + max(place.row for place in new)
    time, tokens = max(place.first + place.size for place in new), max(place.kept + place.before for place in new)
    from_tail, from_kept = np.zeros((2, rows, time), int), np.zeros((2, rows, tokens), int)
    of_tail, of_kept = np.full((rows, time), -1), np.full((rows, tokens), -2)  # no text: seen by no other
    for text, (there, here) in enumerate(zip(old, new, strict=True)):
        own, before = slice(here.first, here.first + here.size), slice(here.kept, here.kept + here.before)
        of_tail[here.row, own] = of_kept[here.row, before] = text
        from_tail[0, here.row, own] = from_kept[0, here.row, before] = there.row
        from_tail[1, here.row, own] = range(there.first, there.first + there.size)
        from_kept[1, here.row, before] = range(there.kept, there.kept + there.before)
    seen = np.concatenate([of_tail[:, :, None] == of_kept[:, None], of_tail[:, :, None] == of_tail[:, None]], 2)
    seen[:, :, tokens:] &= np.tri(time, dtype=bool)
    dtype = layers[0][0].dtype
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(torch.tensor(~seen), torch.finfo(dtype).min)
    row, column = torch.tensor(from_tail, device=ids.device)
    texts = Texts(ids[row, column], torch.tensor([place.first for place in new]), torch.tensor([p.row for p in new]))
    moved = torch.tensor([here.first - there.first for there, here in zip(old, new, strict=True)])
    held = tuple((_taken(keys, from_kept), _taken(values, from_kept)) for keys, values in layers)
    return Passes(
        texts, passes.owners, passes.columns + moved[passes.owners],
        Kept(new, held, positions[row, column], mask[:, None].to(ids.device), replay and Replay(replay.shifted)),
    )  # fmt: skip


def _taken(kept: torch.Tensor, places: np.ndarray) -> torch.Tensor:
    """Keys or values (rows, heads, tokens, width) from (row, token) places, (2, new rows, new tokens)."""
    row, token = torch.tensor(places, device=kept.device)
    return kept.transpose(1, 2)[row, token].transpose(1, 2).contiguous()


def _fitted(old: Sequence[Place]) -> tuple[Place, ...]:
    """New places: each tail in the first row that has room, long ones first; rows are as long as the longest tail."""
    time, tokens = max(place.size for place in old), CROWDED * max(place.before for place in old)
    filled: list[tuple[int, int]] = []
    new: dict[int, Place] = {}
    for text in sorted(range(len(old)), key=lambda i: (-old[i].size, -old[i].before)):
        size, before = old[text].size, old[text].before
        fits = (n for n, (used, kept) in enumerate(filled) if used + size <= time and kept + before <= tokens)
        row = next(fits, len(filled))
        if row == len(filled):
            filled.append((0, 0))
        used, kept = filled[row]
        new[text] = Place(row, used, size, kept, before)
        filled[row] = (used + size, kept + before)
    return tuple(new[text] for text in range(len(old)))
