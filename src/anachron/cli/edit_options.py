"""What `edit` and `evaluate` ask for in common: options, what they mean together, and the plan made of them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from anachron.cli.output import progress_bar, warn

Model = Annotated[str, typer.Argument(help="A hub name, a folder, or demo.")]
Updates = Annotated[
    str,
    typer.Option(
        help="mini-updates, a hub name, or a file (WikiFactDiff, CounterFact, zsRE; .json, .jsonl, .parquet)."
    ),
]
Scenario = Annotated[
    str,
    typer.Option(help="Which updates: ReplaceObject, Archive, AddObject, AddRelation, AddEntity; several with commas."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only so many updates, from the start.")]
CorpusOption = Annotated[
    str | None,
    typer.Option(help="Text for the covariance of ROME, MEMIT, EMMET, AlphaEdit: a file, a hub name, or mini."),
]
NoCovariance = Annotated[bool, typer.Option("--no-covariance", help="Take the identity in the covariance's place.")]
CorpusTokens = Annotated[
    int | None, typer.Option(min=1, help="Tokens of the corpus to read; by default 100,000, and all of mini.")
]
Regularise = Annotated[float | None, typer.Option(help="Share of the mean diagonal to add to the covariance.")]
Cache = Annotated[
    Path | None, typer.Option(help="Folder of the covariances; by default $ANACHRON_CACHE or the user's cache folder.")
]
Mend = Annotated[Path | None, typer.Option(help="The network that train-mend wrote.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="A setting other than the preset: METHOD.NAME=VALUE, as JSON.")
]
SiteNames = Annotated[
    list[str] | None,
    typer.Option("--site", help="Modules by hand: blocks=, mlp_in= (+ between several), mlp_out=."),
]

TOKENS = 100_000


@dataclass(frozen=True)
class Wanted:
    """What the options of a command ask for, each checked as far as it can be without the model."""

    methods: tuple[str, ...]
    changes: dict[str, dict[str, Any]]
    sites: dict[str, str]
    corpus: Any  # an open corpus, or None
    no_covariance: bool
    tokens: int | None
    regularise: float | None
    cache: Path | None
    mend: Path | None


def wanted_of(
    methods: tuple[str, ...], set_: list[str] | None, site: list[str] | None, corpus: str | None, no_covariance: bool,
    tokens: int | None, regularise: float | None, cache: Path | None, mend: Path | None,
) -> Wanted:  # fmt: skip
    from anachron.edit.corpus import open_corpus
    from anachron.edit.covariance.collect import check_settings
    from anachron.edit.plan import parse_method
    from anachron.errors import ConfigError

    if not methods:
        raise ConfigError("no method is named; give one at least, such as ROME")
    if corpus is not None and no_covariance:
        raise ConfigError("give either --corpus or --no-covariance, not both")
    if mend is not None and not mend.is_file():
        raise ConfigError(f"--mend {mend}: no such file; train a network with anachron train-mend")
    check_settings(precision="float64", regularise=regularise)
    for name in methods:
        parse_method(name)
    changes, sites = _changes(set_), _site_names(site)
    text = None if corpus is None else open_corpus(corpus)
    return Wanted(methods, changes, sites, text, no_covariance, tokens, regularise, cache, mend)


def planned_of(lm: Any, wanted: Wanted) -> Any:
    from anachron.edit.corpus import BUNDLED, open_corpus
    from anachron.edit.covariance.collect import cache_folder, collect
    from anachron.edit.methods.mend import MendNetwork
    from anachron.edit.plan import plan
    from anachron.jobs import Callbacks
    from anachron.lm.loading import DEMO
    from anachron.lm.sites import find_sites

    corpus = wanted.corpus
    if corpus is None and not wanted.no_covariance and lm.name == DEMO:
        corpus = open_corpus(BUNDLED)
    short = corpus is not None and corpus.name == BUNDLED and wanted.tokens is None  # it is known to be short

    def collected(modules: Any) -> Any:
        with progress_bar("covariance") as progress:
            return collect(
                lm, modules, corpus, tokens=wanted.tokens or TOKENS, cache=wanted.cache or cache_folder(),
                regularise=wanted.regularise,
                callbacks=Callbacks(progress=progress) if short else Callbacks(warn, progress),
            )  # fmt: skip

    return plan(
        lm,
        wanted.methods,
        changes=wanted.changes,
        collect=None if corpus is None else collected,
        identity_covariance=wanted.no_covariance,
        network=None if wanted.mend is None else MendNetwork.load(wanted.mend, lm),
        sites=find_sites(lm.model, **wanted.sites) if wanted.sites else None,
    )


def _changes(given: list[str] | None) -> dict[str, dict[str, Any]]:
    """``METHOD.NAME=VALUE`` as method -> name -> value; a value that is no JSON is a text."""
    from anachron.errors import ConfigError

    found: dict[str, dict[str, Any]] = {}
    for text in given or []:
        left, equals, value = text.partition("=")
        method, point, name = left.rpartition(".")
        if not (equals and point and method and name):
            raise ConfigError(f"--set {text!r}: write METHOD.NAME=VALUE, for instance ROME.layer=5")
        try:
            found.setdefault(method, {})[name] = json.loads(value)
        except ValueError:
            found.setdefault(method, {})[name] = value
    return found


def _site_names(given: list[str] | None) -> dict[str, str]:
    from anachron.errors import ConfigError

    found: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if name not in ("blocks", "mlp_in", "mlp_out") or not equals or not value:
            raise ConfigError(f"--site {text!r}: write blocks=NAME, mlp_in=NAME or mlp_out=NAME")
        found[name] = value.replace("+", ",")
    return found
