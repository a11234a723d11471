"""The command ``covariance``: what several methods of editing need first."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.commands import SELDOM, setting
from anachron.cli.groups import grouped
from anachron.cli.options import JsonFlag, ModelArgument, ModelOptions, layer_numbers, split_commas
from anachron.cli.output import on_screen, print_json, say, stdout

if TYPE_CHECKING:
    from anachron.edit.covariance.prepare import PreparedCovariance


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=SELDOM)(grouped(covariance))


@dataclass(frozen=True, kw_only=True)
class CollectOptions:
    """How the statistics are taken: options of `anachron.collect_covariance`."""

    tokens: Annotated[
        int, typer.Option(min=1, help="Number of tokens to average over, from the start of the corpus.")
    ] = 100_000
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


def covariance(
    *,
    model: ModelArgument,
    corpus: Annotated[
        str,
        typer.Option(
            help="A UTF-8 text file (also .gz), a table or folder of tables, a hub name[:config[:split]], mini, or "
            "auto (text that the model writes itself)."
        ),
    ],
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
    column: Annotated[str, typer.Option(help="Column of a table or hub data set that holds the text.")] = "text",
    corpus_revision: Annotated[str | None, setting(help="Revision of a corpus on the hub.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder to store it in. Default: $ANACHRON_CACHE or the user's cache folder.")
    ] = None,
    loading: ModelOptions,
    json_: JsonFlag = False,
) -> None:
    """Compute the covariance of a model's inputs over a text, which ROME, MEMIT, EMMET and AlphaEdit need.

    For the MLP output projection of each layer, C is the mean of k kT over the inputs k of all tokens. It is stored
    under the model's fingerprint, with its inverse or eigenvectors, where the editing commands find it. If
    interrupted, repeat the same command to resume.

    Example: anachron covariance gpt2 --corpus wiki.txt --layers 3-8
    """
    from anachron.edit.corpus import AUTO, open_corpus
    from anachron.edit.covariance.collect import cache_folder, check_settings
    from anachron.edit.covariance.prepare import check_choice, prepare_covariance

    chosen_factors = _factors(factors)  # what is wrong is said before anything is loaded
    numbers = None if layers is None else layer_numbers(layers)
    names = None if modules is None else split_commas(modules)
    check_choice(numbers, names)
    check_settings(precision=collecting.precision, regularise=collecting.regularise)
    text = AUTO if corpus == AUTO else open_corpus(corpus, column=column, revision=corpus_revision)
    lm = loading.load(model)
    with on_screen().bar(model) as bar:
        prepared = prepare_covariance(
            lm, text, layers=numbers, modules=names, factors=chosen_factors, cache=cache or cache_folder(),
            callbacks=bar, **asdict(collecting),
        )  # fmt: skip
    rows, kept = [_row(module) for module in prepared], prepared[0].moment.folder
    if json_:
        print_json({"model": lm.name, "corpus": corpus, "folder": str(kept), "modules": rows})
        return
    _print(rows)
    say(f"kept in {kept}")


def _print(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        numbers = [(name, value) for name, value in row.items() if isinstance(value, float)]
        about = "".join(f", {name.replace('_', ' ')} {value:,.4g}" for name, value in numbers)
        stdout().print(f"{row['module']}: {row['size']:,} inputs, {row['tokens']:,} tokens{about}")


def _factors(text: str) -> tuple[str, ...]:
    from anachron.core.errors import ConfigError
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
