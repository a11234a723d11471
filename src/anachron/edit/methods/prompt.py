"""PROMPT: the new fact's sentence in front of every prompt (Si and others, 2023; WikiFactDiff, section 5)."""

from collections.abc import Sequence
from dataclasses import dataclass

from anachron.edit.base import Edit, model_fingerprint
from anachron.edit.method import NOTHING, REMOVING, Method, Resources
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import NO_SITES, Sites

REMOVED = "No longer true: "  # in front of a sentence that is to be forgotten; fits any wording and capital letter


@dataclass(frozen=True, kw_only=True)
class PromptSettings:
    """end: what stands behind each sentence."""

    end: str = ". "


def prompt(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: PromptSettings, sites: Sites = NO_SITES,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """No weight changes: the sentences of all requests, in their order, become the prefix; with ``apart`` one each."""
    sentences = [(REMOVED if request.remove else "") + request.sentence + settings.end for request in requests]
    prefixes = sentences if apart else ["".join(sentences)]
    return [Edit(prefix=prefix, model=model_fingerprint(lm)) for prefix in prefixes]


PROMPT = Method(
    "PROMPT", PromptSettings, prompt, needs_sites=False, needs_subject=False, readable_weights=False,
    scenarios=REMOVING, changes_weights=False,
)  # fmt: skip
