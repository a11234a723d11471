"""What is measured of one update: probabilities of objects after prompts, and text that the model generates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anachron.core.facts import REPLACEMENT
from anachron.data.updates.case_records import EditCase
from anachron.edit.base import Edit, edited
from anachron.edit.failures import Failure, each_or_failure
from anachron.edit.passes.batched_adapters import encode_under, score_batched
from anachron.evaluate.case_results import CaseResult, failed
from anachron.evaluate.measures.audit import AnswerAudit
from anachron.evaluate.measures.catalogue import MEASURES
from anachron.evaluate.measures.dated import Dating
from anachron.evaluate.measures.fluency import fluency
from anachron.evaluate.measures.measure import Measure, Pair, Rows, Scores
from anachron.evaluate.metrics import geometric_mean
from anachron.lm.generation import greedy_continuations, greedy_texts, natural_answers
from anachron.lm.model import LanguageModel
from anachron.lm.scorer import Triple, score_texts
from anachron.lm.scoring import count_argmax
from anachron.lm.spans import Encoded
from anachron.lm.temporary import unchanged

LONG_OBJECT = 20  # tokens beyond which an object is a text rather than a name; there is no token without a byte


@dataclass(frozen=True, slots=True)
class Measures:
    """fluency_tokens: length of prompt and generated text together, 0 for no text.
    batch_tokens: maximum number of tokens scored at once, by default chosen for the device.
    generate: also let the model continue each prompt, to see whether it gives the object.
    dated: which dates to ask about, None for no dated questions and none of AToKe's.
    token_accuracy: also count the tokens of objects that are the model's first choice, as zsRE is evaluated.
    portability: ask the tests that come with the updates.
    conditions: also ask, of the unedited model only, what must be known for a test to count.
    audit: also let the model answer each prompt until it stops, None for no such answers.
    fluency_counts_prefix: the prefix of an edit (PROMPT's) counts among the fluency_tokens, as in the published code,
    so that what is written behind it is shorter, and its entropy lower."""

    fluency_tokens: int = 100
    batch_tokens: int | None = None
    generate: bool = False
    dated: Dating | None = None
    token_accuracy: bool = False
    portability: bool = True
    conditions: bool = False
    audit: AnswerAudit | None = None
    fluency_counts_prefix: bool = False

    def generates_text(self, case: EditCase) -> bool:
        """Whether the model is to generate text, for which an edit must be on."""
        return self.fluency_tokens > 0 or any(one.writes(case, how) for one, how in asked_by(self))


def measures_of_objects(
    lm: LanguageModel, cases: Sequence[EditCase], measures: Measures, notice: Callable[[str], None]
) -> Measures:
    """With token accuracy, and of long objects what the model generates too, where the other measures of targets say
    little of these updates; with a notice.

    The mean over a whole text's tokens hides where it fails; without old objects there is nothing to compare the new
    ones with.
    """
    if measures.token_accuracy and measures.generate:
        return measures
    objects = {o for case in cases for o in (case.new, case.old) if o and len(o.encode()) > LONG_OBJECT}
    ids = lm.tokenizer([*objects], add_special_tokens=False)["input_ids"] if objects else []
    longest = max(map(len, ids), default=0)
    if longest > LONG_OBJECT:
        lacking = {"token accuracy": not measures.token_accuracy, "what the model generates": not measures.generate}
        named = " and ".join(name for name, lacks in lacking.items() if lacks)
        notice(f"{named} is measured too: the longest object has {longest} tokens, more than {LONG_OBJECT}")
        return replace(measures, token_accuracy=True, generate=True)
    if not any(case.old for case in cases) and all(case.scenario == REPLACEMENT for case in cases):
        if not measures.token_accuracy:
            notice("token accuracy is measured, since no update has an old object to compare the new one with")
        return replace(measures, token_accuracy=True)
    return measures


@dataclass(frozen=True, slots=True)
class ModelWriter:
    """A model, as it is now, as measures have it write (`anachron.evaluate.measures.measure.Writer`).

    known: texts that it has written already, by prompt and number of tokens.
    """

    lm: LanguageModel
    known: Mapping[tuple[str, int], str] = field(default_factory=dict)

    def greedy(self, prompts: Sequence[str], tokens: int) -> list[str]:
        new = [prompt for prompt in prompts if (prompt, tokens) not in self.known]
        texts = dict(zip(new, greedy_continuations(self.lm, new, tokens), strict=True))
        return [texts[prompt] if prompt in texts else self.known[prompt, tokens] for prompt in prompts]

    def answers(
        self,
        prompts: Sequence[str],
        most_tokens: int,
        end: Callable[[str], int | None],
        goes_on: Callable[[str], bool],
    ) -> list[tuple[str, bool]]:
        answers = natural_answers(self.lm, prompts, most_tokens, end, goes_on=goes_on)
        return [(one.text, one.stopped) for one in answers]

    def longest(self, prompt: str, names: Sequence[str]) -> int:
        return max(
            len(text.targets) for text in self.lm.encode([(prompt, name, None) for name in names], self.lm.style)
        )


@dataclass(frozen=True, slots=True)
class Wishes(ModelWriter):
    """Writes nothing, and notes what is to be written greedily: of several updates it can then be written together."""

    wanted: dict[tuple[str, int], None] = field(default_factory=dict)

    def greedy(self, prompts: Sequence[str], tokens: int) -> list[str]:
        self.wanted.update(dict.fromkeys((prompt, tokens) for prompt in prompts))
        return [""] * len(prompts)

    def answers(self, prompts: Sequence[str], *how: Any, **more: Any) -> list[tuple[str, bool]]:
        return [("", True)] * len(prompts)


def asked_by(measures: Measures) -> list[tuple[Measure, Any]]:
    """The measures that are taken, each with how."""
    return [(one, how) for one in MEASURES if (how := one.how(measures)) is not None]


def pairs_of(case: EditCase, measures: Measures) -> list[Pair]:
    """All (prompt, object) pairs that measuring an update takes, each once."""
    return list(dict.fromkeys(pair for one, how in asked_by(measures) for pair in one.pairs(case, how)))


def accuracy_pairs(case: EditCase, measures: Measures) -> list[Pair]:
    """The pairs whose tokens are counted, each once."""
    return list(dict.fromkeys(pair for one, how in asked_by(measures) for pair in one.counted(case, how)))


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
        scores = Scores(p, accuracies)
        scored = [_scored(case, measures, scores, took.get(case.case_id)) for case in some]
        return _with_texts(lm, some, measures, scored)

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
        scores_of_case = Scores(_means(asked, texts, logps), of_tokens)
        scored = _scored(case, measures, scores_of_case, edit.about["seconds"])
        with edited(lm, edit, check=False) if measures.generates_text(case) else unchanged():
            results += _with_texts(lm, [case], measures, [scored])
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


def _scored(case: EditCase, measures: Measures, scores: Scores, seconds: float | None) -> CaseResult:
    """From the scores of `pairs_of` and `accuracy_pairs`."""
    rows = {one.name: one.rows(case, how, scores) for one, how in asked_by(measures)}
    return CaseResult(case.case_id, seconds=seconds, rows=rows)


def _with_texts(
    lm: LanguageModel, cases: Sequence[EditCase], measures: Measures, results: Sequence[CaseResult]
) -> list[CaseResult]:
    """With what the model, as it is now, generates after the prompts, where that is asked for; of all updates together,
    as far as what is to be written depends on nothing that was written before."""
    wishes = Wishes(lm)
    for case, result in zip(cases, results, strict=True):
        _written(wishes, case, measures, result)
    prompts, tokens = [prompt for prompt, _ in wishes.wanted], [number for _, number in wishes.wanted]
    texts = greedy_continuations(lm, prompts, tokens) if prompts else []
    writer = ModelWriter(lm, dict(zip(wishes.wanted, texts, strict=True)))
    made = [
        replace(result, rows=_written(writer, case, measures, result))
        for case, result in zip(cases, results, strict=True)
    ]
    if not measures.fluency_tokens:
        return made
    length, counts = measures.fluency_tokens, measures.fluency_counts_prefix
    openings = list(dict.fromkeys(prompt for case in cases for prompt in case.generalization))
    free = dict(zip(openings, greedy_texts(lm, openings, length, count_prefix=counts), strict=True))
    return [_with_fluency(one, [free[p] for p in case.generalization]) for case, one in zip(cases, made, strict=True)]


def _written(writer: ModelWriter, case: EditCase, measures: Measures, result: CaseResult) -> dict[str, Rows]:
    return {one.name: one.written(writer, case, how, result.rows[one.name]) for one, how in asked_by(measures)}


def _with_fluency(result: CaseResult, texts: list[str]) -> CaseResult:
    return replace(result, texts=texts, fluency=fluency(texts)) if texts else result
