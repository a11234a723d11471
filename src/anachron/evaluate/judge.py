"""What one update is judged by: probabilities of objects after prompts, and text that the model writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anachron.core.scenarios import DECISIONS
from anachron.data.case_records import EditCase
from anachron.edit.base import Edit, edited
from anachron.edit.failures import Failure, each_or_failure
from anachron.edit.passes.batched_adapters import encode_under, score_batched
from anachron.evaluate.dated import Dating, dated_pairs, dated_rows
from anachron.evaluate.fluency import fluency
from anachron.evaluate.metrics import geometric_mean
from anachron.evaluate.parts import Verdict, failed
from anachron.evaluate.said import SPARE, names_of, said_rows
from anachron.evaluate.scenarios import object_pairs, object_rows
from anachron.lm.generation import greedy_continuations, greedy_texts
from anachron.lm.model import LanguageModel
from anachron.lm.scorer import Triple, score_texts
from anachron.lm.spans import Encoded
from anachron.lm.temporary import unchanged


@dataclass(frozen=True, slots=True)
class Judging:
    """fluency_tokens: length of prompt and text together, 0 for no text. batch_tokens: most tokens scored at a time; by
    default what suits the device. say: also let the model go on from each prompt, to see whether it says the object.
    dated: which dates to ask about, None for no dated questions."""

    fluency_tokens: int = 100
    batch_tokens: int | None = None
    say: bool = False
    dated: Dating | None = None

    @property
    def writes(self) -> bool:
        """Whether the model is to write text, for which an edit must be on."""
        return self.say or self.fluency_tokens > 0


Pair = tuple[str, str]


def pairs_of(case: EditCase, judging: Judging) -> list[Pair]:
    """All (prompt, object) pairs that judging an update takes, each once."""
    objects = [o for o in (case.new, case.old) if o]
    pairs = [(prompt, o) for prompt in (case.text, *case.generalization) for o in objects]
    pairs += [(n.prompt, o) for n in (*case.nearest, *case.random) for o in n.objects]
    pairs += object_pairs(case)
    if judging.dated is not None:
        pairs += dated_pairs(case, judging.dated)
    return list(dict.fromkeys(pairs))


def probabilities(lm: LanguageModel, pairs: Sequence[Pair], judging: Judging) -> dict[Pair, float]:
    """Geometric mean of the probabilities of an object's tokens after a prompt, for each pair."""
    encoded = lm.encode(_triples(pairs))
    return _means(pairs, encoded, score_texts(lm, encoded, batch_tokens=judging.batch_tokens, finite=False))


def _triples(pairs: Sequence[Pair]) -> list[Triple]:
    return [(prompt, answer, None) for prompt, answer in pairs]


def _means(pairs: Sequence[Pair], encoded: Sequence[Encoded], scores: np.ndarray) -> dict[Pair, float]:
    found = zip(pairs, scores, encoded, strict=True)
    return {pair: geometric_mean(float(score), len(text.targets)) for pair, score, text in found}


def verdicts(
    lm: LanguageModel, cases: Sequence[EditCase], judging: Judging, seconds: Mapping[str, float] | None = None
) -> list[Verdict]:
    """Judge updates under the model as it is now; what they ask in common is asked once.

    A neighbour fact with several true objects counts with the mean of their probabilities. seconds: of the edit, by
    case_id. An update that cannot be judged has a failed verdict with the reason.
    """

    def judged(some: Sequence[EditCase]) -> list[Verdict]:
        p = probabilities(lm, list(dict.fromkeys(pair for case in some for pair in pairs_of(case, judging))), judging)
        took = seconds or {}
        plain = [_verdict(case, judging, p, took.get(case.case_id)) for case in some]
        return [_with_texts(lm, case, judging, found) for case, found in zip(some, plain, strict=True)]

    return or_failed(cases, each_or_failure(judged, cases))


def or_failed(cases: Sequence[EditCase], found: Sequence[Verdict | Failure]) -> list[Verdict]:
    """Verdicts on updates, with a failed one where there is a failure in its place."""
    pairs = zip(cases, found, strict=True)
    return [one if isinstance(one, Verdict) else failed(case, str(one)) for case, one in pairs]


def verdicts_apart(lm: LanguageModel, edited_cases: Sequence[tuple[EditCase, Edit]], judging: Judging) -> list[Verdict]:
    """Judge updates, each under its own edit of the clean model, as `verdicts` would inside ``edited``.

    Probabilities of all are computed in common batches, texts under one edit after the other.
    """
    pairs = [pairs_of(case, judging) for case, _ in edited_cases]
    edits = [edit for _, edit in edited_cases]
    encoded = [encode_under(lm, edit, _triples(own)) for edit, own in zip(edits, pairs, strict=True)]
    scores = score_batched(lm, edits, encoded, batch_tokens=judging.batch_tokens)
    judgements = []
    for (case, edit), asked, texts, found in zip(edited_cases, pairs, encoded, scores, strict=True):
        judged = _verdict(case, judging, _means(asked, texts, found), edit.about["seconds"])
        with edited(lm, edit, check=False) if judging.writes else unchanged():
            judgements.append(_with_texts(lm, case, judging, judged))
    return judgements


def _verdict(case: EditCase, judging: Judging, p: Mapping[Pair, float], seconds: float | None) -> Verdict:
    result = Verdict(case.case_id, seconds=seconds)
    for number, prompt in enumerate((case.text, *case.generalization)):
        kind = "generalization" if number else "update"
        old = p[prompt, case.old] if case.old else None
        new = p[prompt, case.new] if case.new else None
        result.targets.append({"kind": kind, "prompt_number": number, "new": new, "old": old})
    for kind, facts in (("nearest", case.nearest), ("random", case.random)):
        for number, fact in enumerate(facts):
            mean = sum(p[fact.prompt, o] for o in fact.objects) / len(fact.objects)
            result.neighbours.append({"kind": kind, "number": number, "p": mean})
    result.objects = object_rows(case, p)
    if judging.dated is not None:
        result.dated, result.dated_neighbours = dated_rows(case, judging.dated, p)
    return result


def _with_texts(lm: LanguageModel, case: EditCase, judging: Judging, judged: Verdict) -> Verdict:
    """With what the model, as it is now, writes behind the prompts, where that is asked for."""
    if judging.say:
        judged = replace(judged, said=said_rows(case, continuations(lm, case)))
    if judging.fluency_tokens and case.generalization:
        texts = greedy_texts(lm, case.generalization, judging.fluency_tokens)
        judged = replace(judged, texts=texts, fluency=fluency(texts))
    return judged


def continuations(lm: LanguageModel, case: EditCase) -> list[str]:
    """What the model writes after each prompt of an update: a few tokens more than its longest object has.

    None where the update has no object that could be said.
    """
    names = [name for decision in DECISIONS for name in names_of(case, decision)]
    if not names:
        return []
    longest = max(len(text.targets) for text in lm.encode([(case.text, name, None) for name in names]))
    return greedy_continuations(lm, (case.text, *case.generalization), longest + SPARE)
