"""RETRIEVAL: of a store of passages, those nearest to a prompt are put before it; no weight is changed.

What WikiBigEdit (Thede and others, 2025) finds hard to beat. The store holds the sentence of each update, as PROMPT
puts it before every prompt, passages of the user's own and, if wanted, sentences of bundled facts about other subjects.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from anachron.edit.base import Edit, model_fingerprint
from anachron.edit.carried.passages import Passage, Passages
from anachron.edit.method import NOTHING, REMOVING, Method, Resources
from anachron.edit.methods.prompt import REMOVED
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import NO_SITES, Sites


@dataclass(frozen=True, kw_only=True)
class RetrievalSettings:
    """k: passages before a prompt, at most. stale: the sentence of the old fact stands in the store too, as in one that
    nobody cleaned. distractors: sentences of bundled facts in the store, but for those about a subject of the updates.
    """

    k: int = 3
    stale: bool = False
    distractors: int = 0


def retrieval(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: RetrievalSettings, sites: Sites = NO_SITES,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """One store with the sentences of all requests, in their order; with ``apart`` one each."""
    others = (*(Passage(text) for text in resources.passages), *bundled_sentences(settings.distractors))
    stores = [
        Passages(tuple(one for request in some for one in passages_of(request, settings)), others, settings.k)
        for some in ([[request] for request in requests] if apart else [requests])
    ]
    return [Edit(passages=store, model=model_fingerprint(lm)) for store in stores]


def passages_of(request: EditRequest, settings: RetrievalSettings) -> list[Passage]:
    """What stands in the store for a request: the old sentence first, where there is one and it is wanted."""
    old = [request.old_sentence] if settings.stale and request.old_sentence else []
    return [Passage(text, request.subject) for text in (*old, new_sentence(request))]


def new_sentence(request: EditRequest) -> str:
    """What the store says of a request."""
    return (REMOVED if request.remove else "") + request.sentence


@cache
def bundled_sentences(most: int) -> tuple[Passage, ...]:
    """Sentences of the bundled known facts, one a fact, evenly spread over them."""
    from anachron.data.bundled.mini_updates import known_facts
    from anachron.text.cloze import bundled_cloze, fill_cloze
    from anachron.text.kinds import subject_kind

    facts = known_facts()
    count = min(most, len(facts))
    chosen = [facts[number * len(facts) // count] for number in range(count)]
    return tuple(
        Passage(
            fill_cloze(
                bundled_cloze()[fact.relation_id or ""].templates[0], fact.subject, fact.object,
                kind=subject_kind(fact.relation_id),
            ),
            fact.subject,
        )
        for fact in chosen
    )  # fmt: skip


RETRIEVAL = Method(
    "RETRIEVAL", RetrievalSettings, retrieval, needs_sites=False, needs_subject=False, readable_weights=False,
    scenarios=REMOVING, changes_weights=False, reads_passages=True,
)  # fmt: skip
