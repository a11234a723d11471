"""The command ``covariance``: what several methods of editing need first."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.commands import setting
from anachron.cli.options import JsonFlag, ModelArgument, ModelOptions, layer_numbers, split_commas
from anachron.cli.output import on_screen, print_json, say, stdout
from anachron.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anachron.edit.corpus import Corpus
    from anachron.edit.covariance.prepare import PreparedCovariance


@dataclass(frozen=True, kw_only=True)
class CollectOptions:
    """How the statistics are taken: options of `anachron.collect_covariance`."""

    tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of tokens to average over, from the start of the corpus. Default: 100,000; of auto ten for "
            "each input of the layer, at most 100,000.",
        ),
    ] = None
    window: Annotated[
        int | None, setting(help="Tokens per window. Default: the model's context length, at most 1024.")
    ] = None
    batch_tokens: Annotated[int, setting(min=1, help="Maximum number of tokens per forward pass.")] = 4096
    precision: Annotated[
        str, setting(help="Precision of the sums: float64, or float32, which takes half the space.")
    ] = "float64"
    regularise: Annotated[
        float | None,
        setting(help="Add this share of the mean diagonal, if the text is too short for the matrix to be inverted."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What the statistics are of."""

    corpus: Annotated[
        str | None,
        typer.Option(
            help="A UTF-8 text file (also .gz), a table or folder of tables, a hub name[:config[:split]], mini, or "
            "auto (text that the model writes itself)."
        ),
    ] = None
    import_: Annotated[
        Path | None,
        typer.Option(
            "--import",
            help="Instead of a text: second moments of ROME or MEMIT (.npz), or AlphaEdit's projections (.pt).",
        ),
    ] = None
    column: Annotated[str, typer.Option(help="Column of a table or hub data set that holds the text.")] = "text"
    corpus_revision: Annotated[str | None, setting(help="Revision of a corpus on the hub.")] = None

    def open(self) -> "Corpus | str":
        """The text, or `AUTO`. Raises `ConfigError` where there is none."""
        from anachron.edit.corpus import AUTO, open_corpus

        if self.corpus is None:
            raise ConfigError("--corpus is missing; give a text, or what others have computed with --import")
        if self.corpus == AUTO:
            return AUTO
        return open_corpus(self.corpus, column=self.column, revision=self.corpus_revision)


def covariance(
    *,
    model: ModelArgument,
    source: SourceOptions,
    layers: Annotated[str | None, typer.Option(help="Layers, counted from 0: 3 or 1,2,3 or 3-8.")] = None,
    modules: Annotated[
        str | None,
        typer.Option(
            help="Names of modules, instead of layers, such as model.layers.2.mlp.down_proj; separate several "
            "with commas."
        ),
    ] = None,
    collecting: CollectOptions,
    factors: Annotated[
        str, typer.Option(help="What to prepare: inverse (ROME, MEMIT, EMMET), eigen (AlphaEdit), both, or none.")
    ] = "inverse",
    cache: Annotated[
        Path | None, typer.Option(help="Folder to store it in. Default: $ANACHRON_CACHE or the user's cache folder.")
    ] = None,
    loading: ModelOptions,
    json_: JsonFlag = False,
) -> None:
    """Compute the covariance of a model's inputs over a text, which ROME, MEMIT, EMMET and AlphaEdit need.

    For the MLP output projection of each layer, C is the mean of k kT over the inputs k of all tokens. It is stored
    under the model's fingerprint, with its inverse or eigenvectors, where the editing commands find it. If
    interrupted, repeat the same command to resume. What others have computed is imported instead, checked against the
    model, and taken by edit and evaluate with --corpus imported.

    Example: anachron covariance gpt2 --corpus wiki.txt --layers 3-8
    """
    from anachron.edit.covariance.collect import check_settings
    from anachron.edit.covariance.imported import IMPORTED
    from anachron.edit.covariance.prepare import check_choice, prepare_covariance
    from anachron.io.cache import cache_folder

    chosen_factors = _factors(factors)  # what is wrong is said before anything is loaded
    numbers = None if layers is None else layer_numbers(layers)
    names = None if modules is None else split_commas(modules)
    check_settings(precision=collecting.precision, regularise=collecting.regularise)
    cache = cache or cache_folder()
    if source.import_ is not None:
        _check_import(source.import_, source.corpus, numbers, names, collecting)
        lm, read = loading.load(model), IMPORTED
        prepared = _imported(lm, source.import_, numbers, names, chosen_factors, collecting.regularise, cache)
    else:
        check_choice(numbers, names)
        text = source.open()
        lm, read = loading.load(model), text if isinstance(text, str) else text.name
        with on_screen().bar(model) as bar:
            prepared = prepare_covariance(
                lm, text, layers=numbers, modules=names, factors=chosen_factors, cache=cache, callbacks=bar,
                **asdict(collecting),
            )  # fmt: skip
    rows, kept = [_row(module) for module in prepared], prepared[0].moment.folder
    if json_:
        print_json({"model": lm.name, "corpus": read, "folder": str(kept), "modules": rows})
        return
    _print(rows)
    say(f"kept in {kept}")


def _check_import(
    path: Path, corpus: str | None, layers: "Sequence[int] | None", modules: "Sequence[str] | None",
    collecting: CollectOptions,
) -> None:  # fmt: skip
    """Raise `ConfigError` for what does not go with statistics that are there already."""
    if corpus is not None:
        raise ConfigError("give either --corpus or --import, not both")
    if layers is not None and modules is not None:
        raise ConfigError("give either --layers, such as 3-8, or --modules")
    if asdict(collecting) != asdict(CollectOptions(regularise=collecting.regularise)):
        raise ConfigError(
            "--import takes statistics as they are; leave --tokens, --window, --precision and the like out"
        )
    if not path.is_file():
        raise ConfigError(f"--import {path}: no such file")


def _imported(
    lm: Any, path: Path, layers: "Sequence[int] | None", modules: "Sequence[str] | None", factors: tuple[str, ...],
    regularise: float | None, cache: Path,
) -> "list[PreparedCovariance]":  # fmt: skip
    from anachron.edit.covariance.imported import import_covariance
    from anachron.edit.covariance.prepare import output_projections, with_factors

    names = output_projections(lm, layers) if layers is not None else modules or ()
    moments = import_covariance(lm, path, names, cache=cache).values()
    return [with_factors(one if regularise is None else one.regularised(regularise), factors) for one in moments]


def _print(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        numbers = [(name, value) for name, value in row.items() if isinstance(value, float)]
        about = "".join(f", {name.replace('_', ' ')} {value:,.4g}" for name, value in numbers)
        over = f"{row['tokens']:,} tokens" if row["tokens"] else f"projection on {row['rank']:,} directions"
        stdout().print(f"{row['module']}: {row['size']:,} inputs, {over}{about}")


def _factors(text: str) -> tuple[str, ...]:
    from anachron.edit.covariance.prepare import FACTORS

    factors = {"both": FACTORS, "none": ()}.get(text, (text,))
    if not set(factors) <= set(FACTORS):
        raise ConfigError(f"--factors {text!r}: choose inverse, eigen, both or none")
    return factors


def _row(prepared: "PreparedCovariance") -> dict[str, Any]:
    moment = prepared.moment
    row = {"module": moment.module, "size": moment.size, "tokens": moment.tokens, "regularise": moment.regularise}
    if prepared.rank is not None:
        row |= {
            "rank": prepared.rank,
            "smallest_eigenvalue": prepared.smallest_eigenvalue,
            "largest_eigenvalue": prepared.largest_eigenvalue,
        }
    return row
