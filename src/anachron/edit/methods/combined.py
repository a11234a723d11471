"""Retrieval on an edited model: ``MEMIT with RETRIEVAL`` makes both edits of the same requests, and is their sum."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from anachron.core.errors import ConfigError
from anachron.edit.base import Edit
from anachron.edit.method import NOTHING, CovarianceUse, Method, Resources
from anachron.edit.methods.retrieval import RETRIEVAL, RetrievalSettings, retrieval
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites


@dataclass(frozen=True)
class BothSettings:
    """Those of the method that edits, and those of RETRIEVAL."""

    editing: Any
    retrieval: RetrievalSettings


def with_retrieval(one: Method) -> Method:
    """A method and RETRIEVAL beside it. Raises `ConfigError` for RETRIEVAL itself."""
    if one.reads_passages:
        raise ConfigError(f"{one.name} with RETRIEVAL: it has passages already; name a method without")

    def make(
        lm: LanguageModel, requests: Sequence[EditRequest], settings: BothSettings, sites: Sites,
        resources: Resources = NOTHING, *, apart: bool = False,
    ) -> list[Edit]:  # fmt: skip
        edits = one.make(lm, requests, settings.editing, sites, resources, apart=apart)
        stores = retrieval(lm, requests, settings.retrieval, sites, resources, apart=apart)
        return [replace(edit, passages=store.passages) for edit, store in zip(edits, stores, strict=True)]

    def covariance_use(settings: BothSettings, modules: Sequence[str], covariance: Any) -> CovarianceUse:
        return one.covariance_use(settings.editing, modules, covariance)

    size, printed = one.size, one.printed_name or (lambda fields: one.name)
    return replace(
        one, name=f"{one.name} with RETRIEVAL", settings=BothSettings, make=make, parts=(one, RETRIEVAL),
        modules=(lambda settings, sites: one.modules(settings.editing, sites)) if one.needs_covariance else one.modules,
        covariance_use=covariance_use,
        size=size and (lambda lm, settings, sites: size(lm, settings.editing, sites)),
        printed_name=lambda fields: f"{printed(fields['editing'])} with RETRIEVAL",
        needs_network=False, changes_weights=False, reads_passages=True, presets={}, tunable={},
    )  # fmt: skip
