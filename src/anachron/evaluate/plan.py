"""Methods made ready for a run: settings found, contexts drawn, covariance factorised, layers checked, all before the
first update, so that what is wrong in the command is said at once and not once an update."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anachron.edit.base import fingerprint
from anachron.edit.mend import MendNetwork
from anachron.edit.methods import METHODS, Resources, method_named, settings_for, with_contexts
from anachron.edit.presets import changed
from anachron.edit.second_moment import SecondMoment
from anachron.edit.sites import NO_SITES, Sites, find_sites, weight_of
from anachron.errors import ConfigError
from anachron.io import Json
from anachron.lm.model import LanguageModel

Collect = Callable[[Sequence[str]], Mapping[str, SecondMoment]]


@dataclass(frozen=True)
class Planned:
    """One method of a run: its label in tables, its name, its settings and what it needs."""

    label: str
    method: str
    settings: Any
    source: str
    resources: Resources
    sites: Sites | None

    def identity(self) -> Json:
        """What must match for its results to be resumed."""
        covariance = self.resources.covariance
        return {
            "method": self.method,
            "settings": _as_json(asdict(self.settings)),
            "covariance": None
            if covariance is None
            else {name: c.fingerprint for name, c in sorted(covariance.items())},
            "network": None if self.resources.network is None else self.resources.network.fingerprint(),
        }


def plan(
    lm: LanguageModel,
    methods: Sequence[str],
    *,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    collect: Collect | None = None,
    identity_covariance: bool = False,
    network: MendNetwork | None = None,
    sites: Sites | None = None,
) -> list[Planned]:
    """The methods by name, ready for `anachron.evaluate.run.run_evaluation`.

    changes: method -> settings that differ from its preset. collect: gives the covariance of some modules; where it is
    None and a method needs one, that is an error unless ``identity_covariance`` asks for none. network: MEND's.

    Raises `ConfigError`, `ModelError` and `DataError` for whatever would fail on every update.
    """
    names = [method_named(name) for name in methods]
    if len(set(names)) != len(names):
        raise ConfigError(f"the methods {', '.join(names)} are not all different")
    unknown = [name for name in changes or {} if method_named(name) not in names]
    if unknown:
        raise ConfigError(f"settings are given for {', '.join(unknown)}, which is not among {', '.join(names)}")
    return [_planned(lm, name, changes or {}, collect, identity_covariance, network, sites) for name in names]


def _planned(
    lm: LanguageModel, name: str, changes: Mapping[str, Mapping[str, Any]], collect: Collect | None, identity: bool,
    network: MendNetwork | None, sites: Sites | None,
) -> Planned:  # fmt: skip
    method = METHODS[name]
    sites = sites or (find_sites(lm.model) if method.needs_sites else NO_SITES)
    settings, source = settings_for(name, lm, sites)
    for given, wanted in changes.items():
        if method_named(given) == name:
            settings = changed(settings, name, dict(wanted))
            source += f", changed: {', '.join(wanted)}"
    modules = method.modules(settings, sites)
    for module in modules:
        weight_of(lm.model, module)
    settings = with_contexts(lm, settings)
    covariance: Mapping[str, SecondMoment] | None = {}
    if modules and identity:
        covariance = None
    elif modules and collect is not None:
        covariance = collect(modules)
        for moment in covariance.values():
            if name == "AlphaEdit":
                moment.eigen()
            else:
                moment.factorise()
    elif modules:
        raise ConfigError(
            f"{name} needs the covariance of {', '.join(modules)}: give a text with --corpus, or --no-covariance to do "
            "without"
        )
    if method.needs_network and network is None:
        raise ConfigError(f"{name} needs its trained network: train one with anachron train-mend, give it with --mend")
    if method.needs_network and network is not None:
        settings, source = network.settings, "of the trained network"
    about = Resources(covariance, network if method.needs_network else None)
    return Planned(name, name, settings, source, about, sites)


def _as_json(value: Any) -> Any:
    """Tuples as lists, as they come back from a file."""
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    return [_as_json(item) for item in value] if isinstance(value, list | tuple) else value


def model_identity(lm: LanguageModel) -> Json:
    return {
        "model": lm.name,
        "revision": lm.revision,
        "weights": fingerprint(lm),
        "tokenizer": lm.tokenizer_fingerprint(),
        "dtype": lm.dtype,
        "device": lm.device.type,
    }
