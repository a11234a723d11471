"""The covariance of a model's MLP outputs' inputs, with what the methods make of it (``covariance``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anachron.core.errors import ConfigError
from anachron.edit.corpus import Corpus
from anachron.edit.covariance.collect import collect_covariance
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites

FACTORS = ("inverse", "eigen")


@dataclass(frozen=True)
class PreparedCovariance:
    """The covariance of one module. rank (of a projection, its directions) and eigenvalues: None where the eigenvectors
    were not asked for."""

    moment: SecondMoment
    rank: int | None = None
    smallest_eigenvalue: float | None = None
    largest_eigenvalue: float | None = None


def prepare_covariance(
    lm: LanguageModel,
    corpus: str | Path | Corpus,
    *,
    layers: Sequence[int] | None = None,
    modules: Sequence[str] | None = None,
    factors: Sequence[str] = ("inverse",),
    **collecting: Any,
) -> list[PreparedCovariance]:
    """Compute the covariance of modules over a text, and everything that the methods need from it.

    layers: blocks, from 0, whose MLP output projections are meant; or modules: dotted names. factors: ``inverse``
    (ROME, MEMIT, EMMET) and ``eigen`` (AlphaEdit). collecting: the other options of `anachron.collect_covariance`.

    Raises `ConfigError` for both or neither of layers and modules, a layer that the model does not have and unknown
    factors, and as `anachron.collect_covariance`.
    """
    check_choice(layers, modules)
    if unknown := sorted(set(factors) - set(FACTORS)):
        raise ConfigError(f"factors {', '.join(unknown)}: choose among {', '.join(FACTORS)}")
    names = output_projections(lm, layers) if layers is not None else modules or ()
    return [with_factors(moment, factors) for moment in collect_covariance(lm, names, corpus, **collecting).values()]


def check_choice(layers: Sequence[int] | None, modules: Sequence[str] | None) -> None:
    """Raise `ConfigError` unless one of the two is given."""
    if (layers is None) == (modules is None):
        raise ConfigError("give either --layers, such as 3-8, or --modules")


def output_projections(lm: LanguageModel, layers: Sequence[int]) -> list[str]:
    """Names of the MLP output projections of some layers. Raises `ConfigError` for a layer that the model has not."""
    sites = find_sites(lm.model)
    for layer in layers:
        if layer >= sites.layers:
            raise ConfigError(f"--layers {layer}: {lm.name} has layers 0 to {sites.layers - 1}")
    return [sites.mlp_out(layer) for layer in layers]


def with_factors(moment: SecondMoment, factors: Sequence[str]) -> PreparedCovariance:
    """Once all that was asked for is computed and in its files; of a projection there is nothing to compute."""
    if moment.is_projection:
        return PreparedCovariance(moment, round(float(moment.matrix.double().trace())))
    prepared = PreparedCovariance(moment)
    if "eigen" in factors:
        values, _ = moment.eigen()
        prepared = PreparedCovariance(moment, moment.rank, float(values[0]), float(values[-1]))
    if "inverse" in factors:
        moment.factorise()
    return prepared
