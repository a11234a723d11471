"""What an editing method is: one record, made in its module and listed in `anachron.edit.methods`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from anachron.edit.base import Edit
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites

# What may be searched of a setting (`Method.tunable`): factors of its value, or places in a model's depth.
RATES = (0.1, 0.3, 3.0, 10.0)
STEPS = (0.5, 2.0)
DEPTHS = (0.0, 0.2, 0.4, 0.6, 0.8)
INSERTING = ("ReplaceObject", "AddObject", "AddRelation", "AddEntity")
REMOVING = (*INSERTING, "Archive")


class Network(Protocol):
    """What a method was trained to before it edits (`anachron.edit.methods.mend.MendNetwork`)."""

    settings: Any

    def fingerprint(self) -> str: ...


@dataclass(frozen=True)
class Resources:
    """What methods need besides the model.

    covariance: module -> C; None takes the identity instead, on request. network: a trained one. passages: a user's
    own, for a method that searches them. The edits in force, which some methods spare, are those of the model
    (`anachron.edit.base.keys_in_force`).
    """

    covariance: Mapping[str, SecondMoment] | None = field(default_factory=dict)
    network: Network | None = None
    passages: tuple[str, ...] = ()


NOTHING = Resources()


class Make(Protocol):
    """One edit of all requests, made true together, or with ``apart`` one a request, as if it were the only one."""

    def __call__(
        self, lm: LanguageModel, requests: Sequence[EditRequest], settings: Any, sites: Sites, resources: Resources,
        *, apart: bool,
    ) -> list[Edit]: ...  # fmt: skip


@dataclass(frozen=True)
class CovarianceUse:
    """What settings take of the covariance, in words, and warnings where that is hardly what they are meant to."""

    summary: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preset:
    """Settings for a model that differ from the method's defaults, and where all its settings are from.

    source: a repository and its file, or a paper and section; "" says that nobody published them. note: where they
    differ from the source, or what nothing published was made of.
    """

    values: Mapping[str, Any]
    source: str = ""
    note: str = ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.source or "ours", self.note) if part)


@dataclass(frozen=True)
class Method:
    """A way to update facts.

    name: as users write it. settings: its dataclass. make: see `Make`. printed_name: what reports call it, by the
    fields of its settings, where these make it a variant that the literature names otherwise.

    What it needs: modules, those whose covariance it takes, by settings and sites; factorise, what it takes of a
    covariance, so that this is computed before the first update; covariance_use, what its settings take of the
    covariances of modules (None: the identity), which raises where no update could be made; needs_network, a trained
    one; needs_sites, that the model's blocks are known; needs_subject, that prompts name their subject;
    readable_weights, that the weights it edits can be read (not quantised). reads_passages: it takes a user's own.

    What it can do: scenarios, the updates that it can make (`anachron.core.facts.SCENARIOS`). Archive asks for an
    object to be removed with nothing in its place, which a method that only writes values cannot do. No method supports
    Other, whose groups mix changes that no one request describes. changes_weights: False for a method whose edits are
    not in the weights, or not in them alone: a text that the model reads, a memory. size: how many numbers it trains
    for an edit, where memory may not hold all at once.

    parts: the methods that it consists of (`anachron.edit.methods.combined`), each with settings under its own name.
    presets: by the name of a model in `anachron.edit.presets`. For other models: width_scaled, settings that are scaled
    with the width of the MLP; elsewhere, settings that differ; scale_bound, settings that depend on the scale of a
    model's weights or states, and so are the first to be changed where nobody tuned them; instead_of, settings that
    count only while another, the value, is None. tunable: what a search may try of a setting (`anachron.advise.tune`),
    the most telling first: factors of its value, and of layers relative depths from 0 to 1, at which their middle is
    put.
    """

    name: str
    settings: type
    make: Make
    modules: Callable[[Any, Sites], tuple[str, ...]] = lambda settings, sites: ()
    factorise: Callable[[SecondMoment], object] = SecondMoment.factorise
    covariance_use: Callable[[Any, Sequence[str], Mapping[str, SecondMoment] | None], CovarianceUse] = (
        lambda settings, modules, covariance: CovarianceUse()
    )
    needs_network: bool = False
    needs_sites: bool = True
    needs_subject: bool = True
    readable_weights: bool = True
    reads_passages: bool = False
    scenarios: tuple[str, ...] = INSERTING
    changes_weights: bool = True
    size: Callable[[LanguageModel, Any, Sites], int] | None = None
    parts: "tuple[Method, ...]" = ()
    presets: Mapping[str, Preset] = field(default_factory=dict)
    width_scaled: tuple[str, ...] = ()
    tunable: Mapping[str, Sequence[float]] = field(default_factory=dict)
    elsewhere: Mapping[str, Any] = field(default_factory=dict)
    scale_bound: tuple[str, ...] = ()
    instead_of: Mapping[str, str] = field(default_factory=dict)
    printed_name: Callable[[Mapping[str, Any]], str] | None = None

    @property
    def needs_covariance(self) -> bool:
        """Whether it takes the covariance of any module."""
        return self.modules is not Method.modules


def of_one_layer(settings: Any, sites: Sites) -> tuple[str, ...]:
    """The MLP projection of the layer in the settings."""
    return (sites.mlp_out(settings.layer),)


def of_several_layers(settings: Any, sites: Sites) -> tuple[str, ...]:
    """The MLP projections of the layers in the settings."""
    return tuple(sites.mlp_out(layer) for layer in settings.layers)
