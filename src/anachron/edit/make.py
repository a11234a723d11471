"""`make_edit` and `make_edits`, which run any of the methods (`anachron.edit.methods`)."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from anachron.core.errors import ConfigError, DataError
from anachron.edit.base import MADE_ON, Edit, identified, is_finite
from anachron.edit.failures import Failure, each_or_failure
from anachron.edit.method import Method, Resources
from anachron.edit.methods import method_named, why_unsupported
from anachron.edit.passes.frozen import gradient_mode_kept
from anachron.edit.passes.keys import no_covariance
from anachron.edit.passes.value import ValueSettings, contexts_of
from anachron.edit.presets import preset
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import NO_SITES, Sites, find_sites, weight_of
from anachron.lm.soundness import check_finite

TRAINED_BYTES, TRAINED_COPIES = 1 << 31, 6  # room for what is trained; Adam and gradients take some more of its size


def settings_for(method: str, lm: LanguageModel, sites: Sites | None = None) -> tuple[Any, str]:
    """The preset of a method for a model, and in words where it is from; see `anachron.edit.presets`."""
    known = method_named(method)
    return preset(known, lm, sites or sites_for(known, lm))


def sites_for(method: Method, lm: LanguageModel) -> Sites:
    """Where the model's modules are; not looked for where the method needs none, so that it works on any model."""
    return find_sites(lm.model) if method.needs_sites else NO_SITES


def with_contexts(lm: LanguageModel, settings: Any) -> Any:
    """Settings in which the contexts are fixed: those given, or sampled once. Others come back as they are."""
    return replace(settings, contexts=contexts_of(lm, settings)) if isinstance(settings, ValueSettings) else settings


def make_edit(
    lm: LanguageModel,
    method: str,
    requests: Sequence[EditRequest],
    settings: Any = None,
    resources: Resources | None = None,
    sites: Sites | None = None,
) -> Edit:
    """Make an edit that updates facts, by one method. The model itself is unchanged; apply the edit with `edited`.

    method: name of one of `anachron.edit.methods.methods`, in any case. settings: of its dataclass; by default the
    preset for this model, or those of a trained network. requests: made true together (ROME makes them one on top of
    the other).

    Raises `DataError` for requests that cannot be made (no target, no subject in the prompt where the method needs it,
    a removal by a method that only inserts), `ConfigError` where something that the method needs is missing, and
    `ModelError` for layers that it cannot change and weights that are NaN or infinite.
    """
    if not requests:
        raise DataError(f"{method_named(method).name}: no update was given; an edit needs at least one request")
    with identified(lm), gradient_mode_kept():  # not part of the seconds: it takes the same time for any method
        (edit,) = _Making.of(lm, method, settings, resources, sites).edits(requests, apart=False)
    return edit


def make_edits(
    lm: LanguageModel,
    method: str,
    requests: Sequence[EditRequest],
    settings: Any = None,
    resources: Resources | None = None,
    sites: Sites | None = None,
) -> list[Edit | Failure]:
    """Make one independent edit per request, in order: each as `make_edit` would make it from that request alone.

    They are made together, by FT and LoRA as many at a time as there is room for what they train. A request that cannot
    be made, or for which memory does not suffice, has its `DataError` or `BackendError` in place of an edit. An edit's
    seconds are those of all that were made together, divided by their number.

    Raises `ConfigError` and `ModelError` as `make_edit` does.
    """
    with identified(lm), gradient_mode_kept():
        making = _Making.of(lm, method, settings, resources, sites)
        size = edits_at_once(lm, making.method.name, making.settings, making.sites, len(requests))
        edits: list[Edit | Failure] = []
        for first in range(0, len(requests), max(1, size)):
            edits += each_or_failure(partial(making.edits, apart=True), requests[first : first + size])
    return edits


@dataclass(frozen=True)
class _Making:
    """A method with all its arguments but the requests."""

    lm: LanguageModel
    method: Method
    settings: Any
    source: str
    resources: Resources
    sites: Sites

    @classmethod
    def of(
        cls, lm: LanguageModel, method: str, settings: Any, resources: Resources | None, sites: Sites | None
    ) -> "_Making":
        known = method_named(method)
        sites, resources, source = sites or sites_for(known, lm), resources or Resources(), "given"
        if known.needs_network and resources.network is not None:
            settings, source = resources.network.settings, "of the trained network"
        elif settings is None:
            settings, source = preset(known, lm, sites)
        if not isinstance(settings, known.settings):
            raise ConfigError(f"{known.name} takes {known.settings.__name__}, not {type(settings).__name__}")
        _check_modules(known.name, lm, known.modules(settings, sites), resources)
        return cls(lm=lm, method=known, settings=settings, source=source, resources=resources, sites=sites)

    def edits(self, requests: Sequence[EditRequest], *, apart: bool) -> list[Edit]:
        """One edit of all requests, or one a request, with what they are about."""
        if any(r.remove for r in requests) and (unable := why_unsupported(self.method.name, "Archive")):
            raise DataError(unable)
        if self.method.needs_subject:
            for request in requests:
                request.check_located()
        started = _clock(self.lm)
        try:
            edits = self.method.make(self.lm, requests, self.settings, self.sites, self.resources, apart=apart)
        except DataError:
            check_finite(self.lm.model, self.lm.name)  # of broken weights no request is to blame
            raise
        seconds = (_clock(self.lm) - started) / len(edits)
        about = {
            "method": self.method.name, "settings": asdict(self.settings), "settings_from": self.source,
            "edits": len(requests) // len(edits), "seconds": seconds, "format": self.lm.style.kind,
            "template_date": self.lm.style.template_date, MADE_ON: self.lm.described(),
        }  # fmt: skip
        for edit, edited in zip(edits, [[r] for r in requests] if apart else [requests], strict=True):
            _check_finite(self.method.name, self.lm, edited, edit)
        return [
            replace(edit, about={**edit.about, **about}, parts=()) for edit in edits
        ]  # one edit, however it was added up


def edits_at_once(lm: LanguageModel, method: str, settings: Any, sites: Sites | None, most: int) -> int:
    """How many independent edits are made at a time, at most ``most``: fewer where they train much."""
    known = method_named(method)
    if known.size is None:
        return most
    numbers = known.size(lm, settings, sites or sites_for(known, lm))
    return min(most, max(1, TRAINED_BYTES // (4 * TRAINED_COPIES * numbers)))


def _clock(lm: LanguageModel) -> float:
    """The time, once the GPU has done what it was given."""
    if lm.device.type == "cuda":
        torch.cuda.synchronize(lm.device)
    return time.perf_counter()


def _check_modules(name: str, lm: LanguageModel, modules: Sequence[str], resources: Resources) -> None:
    """Raise for a module that cannot be changed or lacks its covariance, before minutes are spent on values."""
    for module in modules:
        weight_of(lm.model, module)
    if resources.covariance is not None and (missing := [m for m in modules if m not in resources.covariance]):
        raise ConfigError(f"{name}: {no_covariance(missing[0], resources.covariance)}")


def _check_finite(name: str, lm: LanguageModel, requests: Sequence[EditRequest], edit: Edit) -> None:
    for module, delta in edit.deltas.items():
        if not is_finite(delta):
            check_finite(lm.model, lm.name)
            raise DataError(
                f"{name}: the change of {module} for {requests[0].sentence!r} is not finite (a key that is 0, or steps "
                "that are too large); choose another layer, a lower rate or dtype float32"
            )
    for module, memory in edit.memories.items():
        if not memory.is_finite():
            check_finite(lm.model, lm.name)
            raise DataError(
                f"{name}: the memory of {module} for {requests[0].sentence!r} is not finite; choose another layer, a "
                "lower rate or dtype float32"
            )
