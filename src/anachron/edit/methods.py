"""The one place where the methods are listed, and `make_edit` and `make_edits`, which run any of them."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch

from anachron.edit.alphaedit import AlphaEditSettings, alphaedit
from anachron.edit.base import MADE_ON, Edit, identified, is_finite
from anachron.edit.emmet import EmmetSettings, emmet
from anachron.edit.failures import Failure, each_or_failure
from anachron.edit.ft import FtSettings, ft
from anachron.edit.keys import no_covariance
from anachron.edit.lora import LoraSettings, lora, lora_size
from anachron.edit.memit import MemitSettings, memit
from anachron.edit.mend import MendNetwork, MendSettings, mend, mend_apart
from anachron.edit.presets import preset
from anachron.edit.prompt import PromptSettings, prompt
from anachron.edit.requests import EditRequest
from anachron.edit.rome import RomeSettings, rome
from anachron.edit.second_moment import SecondMoment
from anachron.edit.sites import NO_SITES, Sites, find_sites, weight_of
from anachron.edit.value import ValueSettings, contexts_of
from anachron.errors import ConfigError, DataError
from anachron.lm.model import LanguageModel

TRAINED_BYTES, TRAINED_COPIES = 1 << 31, 6  # room for what is trained; Adam and gradients take some more of its size


@dataclass(frozen=True)
class Resources:
    """What methods need besides the model.

    covariance: module -> C; None takes the identity instead, on request. network: a trained `MendNetwork`. earlier: the
    edits in force, for a method that spares them.
    """

    covariance: Mapping[str, SecondMoment] | None = field(default_factory=dict)
    network: MendNetwork | None = None
    earlier: Edit | None = None


Make = Callable[[LanguageModel, Sequence[EditRequest], Any, Sites, Resources, bool], list[Edit]]

INSERTING = ("ReplaceObject", "AddObject", "AddRelation", "AddEntity")
REMOVING = (*INSERTING, "Archive")


@dataclass(frozen=True)
class Method:
    """settings: its dataclass. modules: of settings and sites, those whose covariance it needs.

    make: one edit of all requests or, where its last argument ``apart`` asks for it, one a request. size: how many
    numbers it trains an edit, where there may be no room to train all at once. scenarios: the updates that it can make
    (`anachron.core.scenarios.SCENARIOS`). Archive asks for an object to be taken out with nothing in its place, which a
    method that only writes a value in cannot do. Other is nobody's: its groups mix changes, so no one thing is asked
    for.
    """

    settings: type
    make: Make
    modules: Callable[[Any, Sites], tuple[str, ...]] = lambda settings, sites: ()
    needs_network: bool = False
    needs_sites: bool = True
    size: Callable[[LanguageModel, Any, Sites], int] | None = None
    scenarios: tuple[str, ...] = INSERTING


def _one(settings: Any, sites: Sites) -> tuple[str, ...]:
    return (sites.mlp_out(settings.layer),)


def _several(settings: Any, sites: Sites) -> tuple[str, ...]:
    return tuple(sites.mlp_out(layer) for layer in settings.layers)


def _weight_size(lm: LanguageModel, settings: Any, sites: Sites) -> int:
    return weight_of(lm.model, sites.mlp_out(settings.layer)).numel()


def _ft_inside(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: Any, sites: Sites, more: Resources, apart: bool
) -> list[Edit]:
    if settings.eps is None:
        raise ConfigError("FT+L needs its setting eps, half the width of the box; without one it would be FT")
    return ft(lm, requests, settings, sites, apart=apart)


def _mend(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: Any, sites: Sites, more: Resources, apart: bool
) -> list[Edit]:
    if more.network is None:
        raise ConfigError("MEND needs its trained network; train one with anachron train-mend and give it")
    given = (lm, requests, more.network.settings, sites, more.network)
    return mend_apart(*given) if apart else [mend(*given)]


METHODS: dict[str, Method] = {
    "FT": Method(
        FtSettings, lambda lm, r, s, sites, more, apart: ft(lm, r, s, sites, apart=apart),
        size=_weight_size, scenarios=REMOVING,
    ),
    "FT+L": Method(FtSettings, _ft_inside, size=_weight_size, scenarios=REMOVING),
    "MEND": Method(MendSettings, _mend, needs_network=True),
    "ROME": Method(
        RomeSettings, lambda lm, r, s, sites, more, apart: rome(lm, r, s, sites, more.covariance, apart=apart),
        _one,
    ),
    "MEMIT": Method(
        MemitSettings, lambda lm, r, s, sites, more, apart: memit(lm, r, s, sites, more.covariance, apart=apart),
        _several,
    ),
    "AlphaEdit": Method(
        AlphaEditSettings,
        lambda lm, r, s, sites, more, apart: alphaedit(lm, r, s, sites, more.covariance, more.earlier, apart=apart),
        _several,
    ),
    "EMMET": Method(
        EmmetSettings, lambda lm, r, s, sites, more, apart: emmet(lm, r, s, sites, more.covariance, apart=apart),
        _one,
    ),
    "LoRA": Method(
        LoraSettings, lambda lm, r, s, sites, more, apart: lora(lm, r, s, sites, apart=apart),
        size=lora_size, scenarios=REMOVING,
    ),
    "PROMPT": Method(
        PromptSettings, lambda lm, r, s, sites, more, apart: prompt(lm, r, s, apart=apart),
        needs_sites=False, scenarios=REMOVING,
    ),
}  # fmt: skip


def method_named(name: str) -> str:
    """The method's name as it is listed, whatever the case. Raises `ConfigError` for an unknown one."""
    found = {known.casefold(): known for known in METHODS}.get(name.casefold())
    if found is None:
        raise ConfigError(f"method {name!r}: choose one of {', '.join(METHODS)}")
    return found


def why_unsupported(method: str, scenario: str) -> str | None:
    """What to say of a method that cannot make the updates of a scenario, with those that can; None where it can."""
    name = method_named(method)
    if scenario in METHODS[name].scenarios:
        return None
    able = [other for other, record in METHODS.items() if scenario in record.scenarios]
    return f"{name} cannot make updates of the scenario {scenario}; {', '.join(able) or 'no method'} can"


def check_scenarios(methods: Iterable[str], scenarios: Collection[str]) -> None:
    """Raise `ConfigError` for a method that supports none of the scenarios: each of its updates would fail."""
    for method in methods:
        reasons = [why_unsupported(method, scenario) for scenario in sorted(scenarios)]
        if reasons and all(reasons):
            raise ConfigError(f"{reasons[0]}; choose another method or scenario")


def settings_for(method: str, lm: LanguageModel, sites: Sites | None = None) -> tuple[Any, str]:
    """The preset of a method for a model, and in words where it is from; see `anachron.edit.presets`."""
    name = method_named(method)
    return preset(name, METHODS[name].settings, lm, sites or sites_for(name, lm))


def sites_for(name: str, lm: LanguageModel) -> Sites:
    """Where the method's modules are; a method that needs none works on models whose modules nobody knows."""
    return find_sites(lm.model) if METHODS[name].needs_sites else NO_SITES


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
    """Update facts in a model by one method; the model itself is left as it was. Put the result on with `edited`.

    method: one of `METHODS`, in any case. settings: of its dataclass; by default the preset for this model. requests:
    made true together (ROME makes them one on top of the other).

    Raises `DataError` for requests that cannot be made (no subject in the prompt, no target, a removal by a method that
    only inserts), `ConfigError` where something that the method needs is missing, and `ModelError` for layers that it
    cannot change.
    """
    if not requests:
        raise DataError(f"{method_named(method)}: no update was given; an edit needs one request at least")
    with identified(lm):  # not part of the seconds: it takes the same time for any method
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
    """Independent edits of many requests, in their order: each as `make_edit` makes it of that request alone.

    They are made together, by FT and LoRA as many at a time as there is room for what they train. A request that cannot
    be made, or for which memory does not suffice, has its `DataError` or `BackendError` in place of an edit. An edit's
    seconds are those of all that were made together, divided by their number.

    Raises `ConfigError` and `ModelError` as `make_edit` does.
    """
    with identified(lm):
        making = _Making.of(lm, method, settings, resources, sites)
        size = edits_at_once(lm, making.name, making.settings, making.sites, len(requests))
        found: list[Edit | Failure] = []
        for first in range(0, len(requests), max(1, size)):
            found += each_or_failure(partial(making.edits, apart=True), requests[first : first + size])
    return found


@dataclass(frozen=True)
class _Making:
    """A method with all that it is given but the requests."""

    lm: LanguageModel
    name: str
    settings: Any
    source: str
    resources: Resources
    sites: Sites

    @classmethod
    def of(
        cls, lm: LanguageModel, method: str, settings: Any, resources: Resources | None, sites: Sites | None
    ) -> "_Making":
        name = method_named(method)
        sites, resources, source = sites or sites_for(name, lm), resources or Resources(), "given"
        if settings is None:
            settings, source = settings_for(name, lm, sites)
        kind: Any = METHODS[name].settings
        if not isinstance(settings, kind):
            raise ConfigError(f"{name} takes {kind.__name__}, not {type(settings).__name__}")
        _check_modules(name, lm, METHODS[name].modules(settings, sites), resources)
        return cls(lm, name, settings, source, resources, sites)

    def edits(self, requests: Sequence[EditRequest], *, apart: bool) -> list[Edit]:
        """One edit of all requests, or one a request, with what they are about."""
        if any(r.remove for r in requests) and (unable := why_unsupported(self.name, "Archive")):
            raise DataError(unable)
        started = _clock(self.lm)
        found = METHODS[self.name].make(self.lm, requests, self.settings, self.sites, self.resources, apart)
        seconds = (_clock(self.lm) - started) / len(found)
        about = {
            "method": self.name, "settings": asdict(self.settings), "settings_from": self.source,
            "edits": len(requests) // len(found), "seconds": seconds, MADE_ON: self.lm.described(),
        }  # fmt: skip
        for edit, own in zip(found, [[r] for r in requests] if apart else [requests], strict=True):
            _check_finite(self.name, own, edit)
        return [replace(edit, about=about) for edit in found]


def edits_at_once(lm: LanguageModel, method: str, settings: Any, sites: Sites | None, most: int) -> int:
    """How many independent edits are to be held at a time, at most ``most``: large ones as far as there is room."""
    name = method_named(method)
    size = METHODS[name].size
    if size is None:
        return most
    numbers = size(lm, settings, sites or sites_for(name, lm))
    return min(most, max(1, TRAINED_BYTES // (4 * TRAINED_COPIES * numbers)))


def _clock(lm: LanguageModel) -> float:
    """The time, once the GPU has done what it was given."""
    if lm.device.type == "cuda":
        torch.cuda.synchronize(lm.device)
    return time.perf_counter()


def _check_modules(name: str, lm: LanguageModel, modules: Sequence[str], resources: Resources) -> None:
    """Say what cannot be changed, or lacks its covariance, before minutes are spent on values."""
    for module in modules:
        weight_of(lm.model, module)
    if resources.covariance is not None and (missing := [m for m in modules if m not in resources.covariance]):
        raise ConfigError(f"{name}: {no_covariance(missing[0], resources.covariance)}")


def _check_finite(name: str, requests: Sequence[EditRequest], edit: Edit) -> None:
    for module, delta in edit.deltas.items():
        if not is_finite(delta):
            raise DataError(
                f"{name}: the change of {module} for {requests[0].sentence!r} is not finite (a key that is 0, or steps "
                "that are too large); choose another layer, a lower rate or dtype float32"
            )
