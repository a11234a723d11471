"""Texts of differently edited models, scored in common batches."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from anachron.edit.base import Edit
from anachron.edit.passes.overlay import Overlay
from anachron.lm.formats import Format
from anachron.lm.model import LanguageModel
from anachron.lm.scorer import Triple
from anachron.lm.scoring import score_all
from anachron.lm.spans import Encoded
from anachron.lm.tree_scoring import score_tree_batches


def encode_under(lm: LanguageModel, edit: Edit, pairs: Sequence[Triple]) -> list[Encoded]:
    """Pairs as the model reads them under an edit, whose prefix stands before every prompt."""
    return lm.encode(pairs, Format(prefix=edit.prefix))


def score_together(
    lm: LanguageModel, edits: Sequence[Edit], texts: Sequence[Sequence[Encoded]], *, batch_tokens: int | None = None,
    prefix_tree: bool = True,
) -> list[np.ndarray]:  # fmt: skip
    """Scores of the texts of each edit under that edit alone, as one at a time under `anachron.edit.base.edited`.

    texts: of each edit, encoded with its prefix. Returns sums of log-probabilities (nats) in the order of the texts.
    By prefix trees or padded batches (see `anachron.lm.model.LanguageModel.plan`), halved where memory is full; texts
    of different edits share nothing. Raises `BackendError` where one text does not fit, `ModelError` for a module that
    cannot take its change.
    """
    flat = [(number, text) for number, own in enumerate(texts) for text in own]
    distinct = list(dict.fromkeys(flat))
    owners, encoded = [number for number, _ in distinct], [text for _, text in distinct]
    scores = np.full(0, np.nan)
    if encoded:
        overlay = Overlay(lm, edits)
        plan = lm.plan(encoded, batch_tokens, prefix_tree=prefix_tree, owners=owners)
        given: tuple[Any, ...] = (lm.model, encoded, plan.batches)
        if plan.prefix_tree:
            scores = score_tree_batches(*given, counters=lm.counters, owners=owners, during=overlay.tokens)
        else:
            scores = score_all(
                *given, counters=lm.counters, during=lambda chosen: overlay.rows([owners[i] for i in chosen])
            )
    place = {one: i for i, one in enumerate(distinct)}
    return [scores[[place[number, text] for text in own]] for number, own in enumerate(texts)]
