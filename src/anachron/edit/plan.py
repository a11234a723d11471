"""Methods made ready for a run: settings, contexts, covariance and layers are found and checked before any update, so
that an error of the command is raised once, at the start, and not once an update.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from anachron.core.errors import ConfigError
from anachron.core.labels import PLAIN, Variant, label_of, split_label
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.make import settings_for, sites_for, with_contexts
from anachron.edit.method import Network, Resources
from anachron.edit.methods import method_named, printed_name
from anachron.edit.presets import LAYER_FIELDS, changed, scaling
from anachron.io.files import Json, rows_fingerprint
from anachron.lm.model import LanguageModel
from anachron.lm.sites import NO_SITES, Sites, weight_of

GIVE_TEXT = "give a text with --corpus, or --corpus auto for the model's own, or --no-covariance to do without"
Collect = Callable[[Sequence[str]], Mapping[str, SecondMoment]]


@dataclass(frozen=True)
class Planned:
    """One method of a run: its name, its settings and what it needs.

    source: where the settings are from, in words. variant: what an update asks of it, see
    `anachron.evaluate.requests.requests_of`. warnings: what to know before the first update.
    """

    method: str
    settings: Any
    source: str
    resources: Resources
    sites: Sites | None
    variant: Variant = PLAIN
    warnings: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """As a user writes it, and for the folder of its results."""
        return label_of(self.method, self.variant)

    @property
    def printed_name(self) -> str:
        """What reports call it: ``r-ROME`` for ``ROME`` with averaged keys."""
        return label_of(printed_name(self.method, asdict(self.settings)), self.variant)

    def identity(self) -> Json:
        """What must match for its results to be resumed."""
        covariance, passages = self.resources.covariance, self.resources.passages
        return {
            "method": self.method,
            "variant": self.variant,
            "settings": asdict(self.settings),
            "covariance": covariance and {name: c.fingerprint for name, c in sorted(covariance.items())},
            "network": None if self.resources.network is None else self.resources.network.fingerprint(),
            **({"passages": rows_fingerprint(passages)} if passages else {}),
        }


def plan_edits(
    lm: LanguageModel,
    methods: Sequence[str],
    *,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    collect: Collect | None = None,
    identity_covariance: bool = False,
    network: Network | None = None,
    passages: Sequence[str] = (),
    sites: Sites | None = None,
) -> list[Planned]:
    """Plan methods by name, ready for `anachron.evaluate.run.run_evaluation`.

    methods: as `parse_method` takes them, so ``ROME dated`` and ``ROME METO`` beside ``ROME``.
    changes: method -> settings that differ from its preset, in all its variants. collect: gives the covariance of
    some modules; where it is None and a method needs one, that is an error unless ``identity_covariance`` asks for
    none. network: MEND's. passages: a user's own, for RETRIEVAL.

    Raises `ConfigError`, `ModelError` and `DataError` for whatever would fail on every update.
    """
    wanted = wanted_methods(methods, network=network is not None)
    names = [name for name, _ in wanted]
    settable = {one.name for name in names for one in method_named(name).parts or (method_named(name),)}
    unknown = [name for name in changes or {} if method_named(name).name not in settable]
    if unknown:
        raise ConfigError(f"settings are given for {', '.join(unknown)}, which is not among {', '.join(names)}")
    if passages and not any(method_named(name).reads_passages for name in names):
        raise ConfigError(
            f"passages are for RETRIEVAL, which is not among {', '.join(names)}; add it, or leave them out"
        )
    resources = Resources(network=network, passages=tuple(passages))
    settled = {name: _planned(lm, name, changes or {}, resources, sites) for name in dict.fromkeys(names)}
    planned = [replace(settled[name], variant=variant) for name, variant in wanted]
    modules = {one.label: method_named(one.method).modules(one.settings, one.sites or NO_SITES) for one in planned}
    all_modules = tuple(dict.fromkeys(name for needed in modules.values() for name in needed))
    if all_modules and collect is None and not identity_covariance:
        label, needed = next((label, needed) for label, needed in modules.items() if needed)
        raise ConfigError(f"{label} needs the covariance of {', '.join(needed)}: {GIVE_TEXT}")
    collected: Mapping[str, SecondMoment] = {}
    if all_modules and collect is not None and not identity_covariance:
        collected = collect(all_modules)  # one pass over the text serves all methods
    return [_ready(one, modules[one.label], None if identity_covariance else collected) for one in planned]


def parse_method(text: str) -> tuple[str, Variant]:
    """The name of a method and its variant, whatever the case: ``ROME``, ``ROME dated``, ``ROME METO``.

    Raises `ConfigError` for an unknown method.
    """
    name, variant = split_label(text)
    return method_named(name).name, variant


def wanted_methods(methods: Sequence[str], *, network: bool) -> list[tuple[str, Variant]]:
    """`parse_method` of each. Raises `ConfigError` where one is unknown or named twice, or needs a trained network and
    none is given (``network``)."""
    wanted = [parse_method(text) for text in methods]
    if len(set(wanted)) != len(wanted):
        raise ConfigError(f"the methods {', '.join(label_of(*one) for one in wanted)} are not all different")
    for name, _ in wanted:
        for part in method_named(name).parts or (method_named(name),):
            if part.needs_network and not network:
                raise ConfigError(
                    f"{part.name} needs its trained network: train one with anachron train-mend, give it with --mend"
                )
    return wanted


def _ready(planned: Planned, modules: Sequence[str], collected: Mapping[str, SecondMoment] | None) -> Planned:
    """With the covariance of its modules, factorised; None takes the identity instead."""
    if not modules:
        return planned
    covariance = None if collected is None else {name: collected[name] for name in modules}
    method = method_named(planned.method)
    for moment in (covariance or {}).values():
        method.factorise(moment)
    use = method.covariance_use(planned.settings, modules, covariance)
    source = f"{planned.source}; {use.summary}" if use.summary else planned.source
    resources = replace(planned.resources, covariance=covariance)
    return replace(planned, source=source, resources=resources, warnings=planned.warnings + use.warnings)


def _planned(
    lm: LanguageModel, name: str, changes: Mapping[str, Mapping[str, Any]], given: Resources,
    sites: Sites | None,
) -> Planned:  # fmt: skip
    """given: everything that any method needs."""
    method, network = method_named(name), given.network
    if method.parts:
        first, second = (_planned(lm, part.name, changes, given, sites) for part in method.parts)
        return replace(
            first, method=name, settings=method.settings(first.settings, second.settings),
            source=f"{first.source}; RETRIEVAL: {second.source}",
            resources=replace(first.resources, passages=second.resources.passages),
        )  # fmt: skip
    sites = sites or sites_for(method, lm)
    settings, source = settings_for(name, lm, sites)
    set_by_hand: list[str] = []
    for changed_name, wanted in changes.items():
        if method_named(changed_name) is method:
            if method.needs_network:
                raise ConfigError(f"the settings of {name} are those of its network; train another with train-mend")
            settings = changed(settings, name, dict(wanted))
            source += f", changed: {', '.join(wanted)}"
            set_by_hand += wanted
    for one, other in method.instead_of.items():
        if one in set_by_hand and getattr(settings, other) is not None:
            if other in set_by_hand:
                raise ConfigError(f"{name}.{one} counts only while {name}.{other} is null; set one of the two")
            settings = replace(settings, **{other: None})
    if method.needs_network and network is not None:
        settings, source = network.settings, "of the trained network"
    for layer in _layers(settings):
        sites.block(layer)
        if method.readable_weights:
            weight_of(lm.model, sites.mlp_out(layer))
    settings = with_contexts(lm, settings)
    resources = Resources(
        network=network if method.needs_network else None, passages=given.passages if method.reads_passages else ()
    )
    warnings = () if method.needs_network else scaling(method, lm, sites, set_by_hand)
    return Planned(
        method=name, settings=settings, source=source, resources=resources, sites=sites, warnings=warnings
    )  # fmt: skip


def _layers(settings: Any) -> Sequence[int]:
    """The blocks that a method edits, by its settings; none where it edits all, or no block."""
    named = [getattr(settings, name, None) for name in LAYER_FIELDS]
    return [layer for one in named if one is not None for layer in ((one,) if isinstance(one, int) else one)]
