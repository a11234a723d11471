"""What the network of MEND learns from: edits, with paraphrases of their prompts and texts to be left alone."""

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anachron.core.errors import DataError
from anachron.edit.methods.mend import MendSettings
from anachron.edit.passes.gradients import encoded
from anachron.edit.requests import SLOT, EditRequest, Marked, mark_prompts
from anachron.lm.model import LanguageModel
from anachron.lm.spans import Encoded


@dataclass(frozen=True, slots=True)
class MendExample:
    """An edit to learn from: paraphrases of its prompt, and texts that it must leave as they are."""

    request: EditRequest
    paraphrases: tuple[str, ...] = ()
    unrelated: tuple[str, ...] = ()


def examples_of(cases: Sequence[Any], texts: Sequence[str] = ()) -> tuple[list[MendExample], list[str]]:
    """Examples from updates (records as of `anachron.data.updates.cases`), and for each that is left out the reason.

    texts: unrelated texts, dealt out to the examples, instead of each update's nearest facts with their objects.
    """
    examples: list[MendExample] = []
    left_out: list[str] = []
    for number, case in enumerate(cases):
        try:
            request = EditRequest.of(case.prompt, case.subject, case.new or "")
        except DataError as error:
            left_out.append(str(error))
            continue
        if texts:
            unrelated = tuple(texts[number :: len(cases)]) or (texts[number % len(texts)],)
        else:
            unrelated = tuple(" ".join((fact.prompt, *fact.objects[:1])) for fact in case.nearest)
        examples.append(MendExample(request, tuple(case.generalization), unrelated))
    return examples, left_out


@dataclass(frozen=True, slots=True)
class Prepared:
    """An example's tokens: its request, its paraphrases with the target, and its unrelated texts."""

    request: Encoded
    paraphrases: tuple[Encoded, ...]
    unrelated: tuple[Marked, ...]


def prepared(
    lm: LanguageModel, examples: Sequence[MendExample], settings: MendSettings, warn: Callable[[str], None]
) -> list[Prepared]:
    """All examples tokenised, so that what cannot be used is found before the first step."""
    if not examples:
        raise DataError("no example to train on; give at least one update")
    texts = tuple(dict.fromkeys(text for example in examples for text in example.unrelated))
    if not texts and settings.kl_weight:
        raise DataError("no example has unrelated text, which kl_weight is the weight of; give some, or kl_weight 0")
    without = sum(not example.unrelated for example in examples)
    if without and texts:
        warn(f"{without} of {len(examples)} examples have no unrelated text of their own; they take that of others")
    alone = sum(not example.paraphrases for example in examples)
    if alone:
        warn(f"{alone} of {len(examples)} examples have no paraphrase; they are trained on their prompt alone")
    # A text is read to its end. The batch leaves out every last token, so each gets one that is never fed.
    marked = [replace(m, ids=(*m.ids, m.ids[-1])) for m in mark_prompts(lm.tokenizer, [(SLOT, text) for text in texts])]
    longest = max((len(m.ids) - 1 for m in marked), default=0)
    if lm.context_length is not None and longest > lm.context_length:
        raise DataError(
            f"an unrelated text has {longest} tokens, more than the {lm.context_length} that {lm.name} reads; cut it"
        )
    known, everything = dict(zip(texts, marked, strict=True)), tuple(marked)
    requests = encoded(lm, [(e.request.text, e.request.target) for e in examples])
    others = iter(encoded(lm, [(text, e.request.target) for e in examples for text in e.paraphrases]))
    return [
        Prepared(
            request,
            tuple(next(others) for _ in example.paraphrases),
            tuple(known[text] for text in example.unrelated) or everything,
        )
        for example, request in zip(examples, requests, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Drawn:
    """An example as one step sees it: with at most one paraphrase, and one unrelated text."""

    request: Encoded
    paraphrase: Encoded | None
    unrelated: Marked | None


@functools.lru_cache(maxsize=2)
def _order(seed: int, epoch: int, count: int) -> tuple[int, ...]:
    return tuple(random.Random(f"{seed} {epoch}").sample(range(count), count))


def draw(examples: Sequence[Prepared], settings: MendSettings, step: int) -> list[Drawn]:
    """The examples of a step: every example once an epoch. They depend on the seed and the step alone."""
    drawn = []
    for place in range(step * settings.batch, (step + 1) * settings.batch):
        epoch, index = divmod(place, len(examples))
        example = examples[_order(settings.seed, epoch, len(examples))[index]]
        chooser = random.Random(f"{settings.seed} {place} texts")
        paraphrase = chooser.choice(example.paraphrases) if example.paraphrases else None
        drawn.append(
            Drawn(example.request, paraphrase, chooser.choice(example.unrelated) if example.unrelated else None)
        )
    return drawn
