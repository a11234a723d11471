"""What is measured of one update: probabilities of objects after prompts, and text that the model generates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from anachron.core.facts import DECISIONS
from anachron.data.updates.case_records import EditCase, numbered_neighbours, numbered_prompts, prompts_of, wrong_object
from anachron.edit.base import Edit, edited
from anachron.edit.failures import Failure, each_or_failure
from anachron.edit.passes.batched_adapters import encode_under, score_batched
from anachron.evaluate.case_results import CaseResult, failed
from anachron.evaluate.measures.atoke import atoke_pairs, atoke_rows, exact_pairs
from anachron.evaluate.measures.audit import AnswerAudit, audit_rows, sentence_end
from anachron.evaluate.measures.dated import Dating, dated_pairs, dated_rows
from anachron.evaluate.measures.fluency import fluency
from anachron.evaluate.measures.generations import SPARE, generation_rows, names_of
from anachron.evaluate.measures.portability import (
    TOKENS,
    judged,
    portability_pairs,
    portability_prompts,
    portability_rows,
)
from anachron.evaluate.measures.scenarios import object_pairs, object_rows
from anachron.evaluate.metrics import geometric_mean
from anachron.lm.generation import WrittenAnswer, greedy_continuations, greedy_texts, natural_answers
from anachron.lm.model import LanguageModel
from anachron.lm.scorer import Triple, score_texts
from anachron.lm.scoring import count_argmax
from anachron.lm.spans import Encoded
from anachron.lm.temporary import unchanged


@dataclass(frozen=True, slots=True)
class Measures:
    """fluency_tokens: length of prompt and generated text together, 0 for no text.
    batch_tokens: maximum number of tokens scored at once, by default chosen for the device.
    generate: also let the model continue each prompt, to see whether it gives the object.
    dated: which dates to ask about, None for no dated questions and none of AToKe's.
    token_accuracy: also count the tokens of objects that are the model's first choice, as zsRE is evaluated.
    portability: ask the tests that come with the updates.
    conditions: also ask, of the unedited model only, what must be known for a test to count.
    audit: also let the model answer each prompt until it stops, None for no such answers."""

    fluency_tokens: int = 100
    batch_tokens: int | None = None
    generate: bool = False
    dated: Dating | None = None
    token_accuracy: bool = False
    portability: bool = True
    conditions: bool = False
    audit: AnswerAudit | None = None

    def generates_text(self, case: EditCase) -> bool:
        """Whether the model is to generate text, for which an edit must be on."""
        tests = self.portability and bool(case.tests)
        return self.generate or self.audit is not None or self.fluency_tokens > 0 or tests


Pair = tuple[str, str]


def pairs_of(case: EditCase, measures: Measures) -> list[Pair]:
    """All (prompt, object) pairs that measuring an update takes, each once."""
    objects = [o for o in (case.new, case.old) if o]
    pairs = [(prompt, o) for prompt in prompts_of(case) for o in objects]
    for _, _, fact in numbered_neighbours(case):
        wrong = wrong_object(case, fact)
        pairs += [(fact.prompt, o) for o in (*fact.objects, *([wrong] if wrong else []))]
    pairs += object_pairs(case)
    if measures.dated is not None:
        pairs += dated_pairs(case, measures.dated) + atoke_pairs(case)
    if measures.portability:
        pairs += portability_pairs(case)
    return list(dict.fromkeys(pairs))


def accuracy_pairs(case: EditCase, measures: Measures) -> list[Pair]:
    """The pairs whose tokens are counted: the new object after the update's prompts, true ones after neighbours'; where
    dated questions are asked, the right answers to AToKe's."""
    of_atoke = exact_pairs(case) if measures.dated is not None else []
    if not measures.token_accuracy:
        return list(dict.fromkeys(of_atoke))
    pairs = [(prompt, case.new) for prompt in prompts_of(case) if case.new]
    pairs += [(fact.prompt, o) for _, _, fact in numbered_neighbours(case) for o in fact.objects]
    return list(dict.fromkeys(pairs + of_atoke))


def probabilities(lm: LanguageModel, pairs: Sequence[Pair], measures: Measures) -> dict[Pair, float]:
    """Geometric mean of the probabilities of an object's tokens after a prompt, for each pair."""
    encoded = lm.encode(_triples(pairs), lm.style)
    return _means(pairs, encoded, score_texts(lm, encoded, batch_tokens=measures.batch_tokens, finite=False))


def _triples(pairs: Sequence[Pair]) -> list[Triple]:
    return [(prompt, answer, None) for prompt, answer in pairs]


def _means(pairs: Sequence[Pair], encoded: Sequence[Encoded], scores: np.ndarray) -> dict[Pair, float]:
    scored = zip(pairs, scores, encoded, strict=True)
    return {pair: geometric_mean(float(score), len(text.targets)) for pair, score, text in scored}


def _accuracies(pairs: Sequence[Pair], encoded: Sequence[Encoded], counts: np.ndarray) -> dict[Pair, float]:
    """Share of an object's tokens that are the model's first choice, for each pair."""
    counted = zip(pairs, counts, encoded, strict=True)
    return {pair: float(count) / len(text.targets) for pair, count, text in counted}


def measure(
    lm: LanguageModel, cases: Sequence[EditCase], measures: Measures, seconds: Mapping[str, float] | None = None
) -> list[CaseResult]:
    """Results of updates under the model as it is now; what they ask in common is asked once.

    A neighbour fact with several true objects counts with the mean of their probabilities. seconds: of the edit, by
    case_id. An update that cannot be measured has a failed result with the reason.
    """
    took = seconds or {}

    def measured(some: Sequence[EditCase]) -> list[CaseResult]:
        asked = dict.fromkeys(pair for case in some for pair in pairs_of(case, measures))
        p = probabilities(lm, list(asked), measures)
        counted = list(dict.fromkeys(pair for case in some for pair in accuracy_pairs(case, measures)))
        encoded = lm.encode(_triples(counted), lm.style) if counted else []
        counts = lm.argmax_counts(encoded, measures.batch_tokens) if counted else np.zeros(0)
        accuracies = _accuracies(counted, encoded, counts)
        scored = [_scored(case, measures, p, accuracies, took.get(case.case_id)) for case in some]
        return [_with_texts(lm, case, measures, result) for case, result in zip(some, scored, strict=True)]

    return or_failed(cases, each_or_failure(measured, cases))


def or_failed(cases: Sequence[EditCase], results: Sequence[CaseResult | Failure]) -> list[CaseResult]:
    """Results of updates, with a failed one where there is a failure in its place."""
    pairs = zip(cases, results, strict=True)
    return [one if isinstance(one, CaseResult) else failed(case, str(one)) for case, one in pairs]


def measure_apart(
    lm: LanguageModel, edited_cases: Sequence[tuple[EditCase, Edit]], measures: Measures
) -> list[CaseResult]:
    """Results of updates, each under its own edit of the clean model, as `measure` would give them inside ``edited``.

    Probabilities of all are computed in common batches, texts under one edit after the other.
    """
    pairs = [pairs_of(case, measures) for case, _ in edited_cases]
    edits = [edit for _, edit in edited_cases]
    encoded = [encode_under(lm, edit, _triples(asked)) for edit, asked in zip(edits, pairs, strict=True)]
    scores = score_batched(lm, edits, encoded, batch_tokens=measures.batch_tokens)
    accuracies = _accuracies_apart(lm, edited_cases, measures)
    results = []
    for (case, edit), asked, texts, logps, of_tokens in zip(
        edited_cases, pairs, encoded, scores, accuracies, strict=True
    ):
        scored = _scored(case, measures, _means(asked, texts, logps), of_tokens, edit.about["seconds"])
        with edited(lm, edit, check=False) if measures.generates_text(case) else unchanged():
            results.append(_with_texts(lm, case, measures, scored))
    return results


def _accuracies_apart(
    lm: LanguageModel, edited_cases: Sequence[tuple[EditCase, Edit]], measures: Measures
) -> list[dict[Pair, float]]:
    """Shares of tokens that are the first choice, for the `accuracy_pairs` of each update under its own edit."""
    pairs = [accuracy_pairs(case, measures) for case, _ in edited_cases]
    if not any(pairs):
        return [{} for _ in edited_cases]
    edits = [edit for _, edit in edited_cases]
    encoded = [encode_under(lm, edit, _triples(counted)) for edit, counted in zip(edits, pairs, strict=True)]
    counts = score_batched(lm, edits, encoded, batch_tokens=measures.batch_tokens, of_batch=count_argmax)
    return [_accuracies(*one) for one in zip(pairs, encoded, counts, strict=True)]


def _scored(
    case: EditCase, measures: Measures, p: Mapping[Pair, float], accuracies: Mapping[Pair, float],
    seconds: float | None,
) -> CaseResult:  # fmt: skip
    """From p of `pairs_of` and the token accuracies of `accuracy_pairs`."""
    result = CaseResult(case.case_id, seconds=seconds)
    counted = accuracies if measures.token_accuracy else {}
    for kind, number, prompt in numbered_prompts(case):
        old = p[prompt, case.old] if case.old else None
        new = p[prompt, case.new] if case.new else None
        accuracy = counted.get((prompt, case.new)) if case.new else None
        result.targets.append({"kind": kind, "prompt_number": number, "new": new, "old": old, "accuracy": accuracy})
    for kind, number, fact in numbered_neighbours(case):
        mean = sum(p[fact.prompt, o] for o in fact.objects) / len(fact.objects)
        wrong = wrong_object(case, fact)
        new = p[fact.prompt, wrong] if wrong else None
        best = max((counted[fact.prompt, o] for o in fact.objects), default=None) if counted else None
        result.neighbours.append({"kind": kind, "number": number, "p": mean, "new": new, "accuracy": best})
    result.objects = object_rows(case, p)
    if measures.dated is not None:
        result.dated, result.dated_neighbours = dated_rows(case, measures.dated, p)
        result.atoke = atoke_rows(case, p, accuracies)
    if measures.portability:
        result.portability = portability_rows(case, p)
    return result


def _with_texts(lm: LanguageModel, case: EditCase, measures: Measures, result: CaseResult) -> CaseResult:
    """With what the model, as it is now, generates after the prompts, where that is asked for."""
    if measures.generate:
        result = replace(result, generations=generation_rows(case, continuations(lm, case)))
    if measures.portability and case.tests:
        prompts = portability_prompts(case, conditions=measures.conditions)
        answers = dict(zip(prompts, greedy_continuations(lm, prompts, TOKENS), strict=True))
        result = replace(result, portability=judged(case, result.portability, answers))
    if measures.audit is not None:
        written = [(answer.text, answer.stopped) for answer in answers_to(lm, case, measures.audit)]
        result = replace(result, audit=audit_rows(case, written))
    if measures.fluency_tokens and case.generalization:
        texts = greedy_texts(lm, case.generalization, measures.fluency_tokens)
        result = replace(result, texts=texts, fluency=fluency(texts))
    return result


def answers_to(lm: LanguageModel, case: EditCase, audit: AnswerAudit) -> list[WrittenAnswer]:
    """What the model answers each prompt of an update; nothing where the update names no object."""
    names = [*names_of(case, "new"), *names_of(case, "obsolete")]
    if not names:
        return []
    return natural_answers(lm, prompts_of(case), audit.most_tokens, partial(sentence_end, names=names))


def continuations(lm: LanguageModel, case: EditCase) -> list[str]:
    """What the model generates after each prompt of an update: a few tokens more than its longest object has.

    None where the update has no object that could be generated.
    """
    names = [name for decision in DECISIONS for name in names_of(case, decision)]
    if not names:
        return []
    longest = max(len(text.targets) for text in lm.encode([(case.text, name, None) for name in names], lm.style))
    return greedy_continuations(lm, prompts_of(case), longest + SPARE)
