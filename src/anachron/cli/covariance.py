"""The command ``covariance``: what several methods of editing need first."""

from pathlib import Path
from typing import Annotated, Any

import typer

from anachron.cli.models import load
from anachron.cli.options import (
    Device,
    DeviceMap,
    Dtype,
    JsonFlag,
    Revision,
    Tokenizer,
    Trust,
    layer_numbers,
    split_commas,
)
from anachron.cli.output import print_json, progress_bar, say, stdout, warn

FACTORS = ("inverse", "eigen")


def register(app: typer.Typer) -> None:
    app.command()(covariance)


def covariance(
    model: Annotated[str, typer.Argument(help="A hub name, a folder, or demo.")],
    corpus: Annotated[
        str,
        typer.Option(
            help="A UTF-8 text file (also .gz), a table or folder of tables, a hub name[:config[:split]], or mini."
        ),
    ],
    layers: Annotated[str | None, typer.Option(help="Layers, from 0: 3 or 1,2,3 or 3-8.")] = None,
    modules: Annotated[
        str | None,
        typer.Option(help="Modules by name instead, such as model.layers.2.mlp.down_proj, with commas between."),
    ] = None,
    tokens: Annotated[
        int, typer.Option(min=1, help="Tokens to take the mean over, from the start of the corpus.")
    ] = 100_000,
    window: Annotated[
        int | None, typer.Option(help="Tokens a window; by default what the model reads, at most 1024.")
    ] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Most tokens in a forward pass.")] = 4096,
    precision: Annotated[str, typer.Option(help="Of the sums: float64, or float32 in half the space.")] = "float64",
    regularise: Annotated[
        float | None,
        typer.Option(help="Add this share of the mean diagonal, where the text is too short for an inverse."),
    ] = None,
    factors: Annotated[
        str, typer.Option(help="What to prepare: inverse (ROME, MEMIT, EMMET), eigen (AlphaEdit), both, or none.")
    ] = "inverse",
    column: Annotated[str, typer.Option(help="Column of a table or hub data set that holds the text.")] = "text",
    corpus_revision: Annotated[str | None, typer.Option(help="Revision of a hub data set.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder to keep it in; by default $ANACHRON_CACHE or the user's cache folder.")
    ] = None,
    dtype: Dtype = "auto",
    device: Device = None,
    device_map: DeviceMap = None,
    revision: Revision = None,
    tokenizer: Tokenizer = None,
    trust_remote_code: Trust = False,
    json_: JsonFlag = False,
) -> None:
    """The statistics of a text that ROME, MEMIT, EMMET and AlphaEdit weigh a model's inputs by.

    For the MLP output projection of each layer, C is the mean of k kT over the inputs k of all tokens. It is kept under
    the model's fingerprint, with its inverse or eigenvectors, and found again by the commands that edit. An
    interrupted pass goes on where it stopped.

    Example: anachron covariance gpt2 --corpus wiki.txt --layers 3-8
    """
    from anachron.edit.corpus import open_corpus
    from anachron.edit.covariance.collect import cache_folder, check_settings, collect
    from anachron.errors import ConfigError
    from anachron.jobs import Callbacks

    wanted = _factors(factors)
    if (layers is None) == (modules is None):
        raise ConfigError("give either --layers, such as 3-8, or --modules")
    numbers = [] if layers is None else layer_numbers(layers)
    check_settings(precision=precision, regularise=regularise)  # what is wrong is said before anything is loaded
    text = open_corpus(corpus, column=column, revision=corpus_revision)
    lm = load(
        model, dtype=dtype, device=device, device_map=device_map, revision=revision, tokenizer=tokenizer,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    names = list(split_commas(modules)) if modules is not None else _modules_of(lm, numbers)
    folder = cache or cache_folder()
    with progress_bar(model) as progress:
        found = collect(
            lm, names, text, tokens=tokens, window=window, batch_tokens=batch_tokens, precision=precision,
            cache=folder, regularise=regularise, callbacks=Callbacks(warn, progress),
        )  # fmt: skip
    rows = [_prepared(moment, wanted) for moment in found.values()]
    kept = next(iter(found.values())).folder
    if json_:
        print_json({"model": lm.name, "corpus": text.name, "folder": str(kept), "modules": rows})
        return
    for row in rows:
        about = ", ".join(
            f"{name.replace('_', ' ')} {value:,.4g}" for name, value in row.items() if isinstance(value, float)
        )
        stdout().print(f"{row['module']}: {row['size']:,} inputs, {row['tokens']:,} tokens" + (about and f", {about}"))
    say(f"kept in {kept}")


def _prepared(moment: Any, wanted: tuple[str, ...]) -> dict[str, Any]:
    """What is said of one module, once all that was asked for is computed and in its files."""
    row = {"module": moment.module, "size": moment.size, "tokens": moment.tokens, "regularise": moment.regularise}
    if "eigen" in wanted:
        values, _ = moment.eigen()
        row |= {"rank": moment.rank, "smallest_eigenvalue": float(values[0]), "largest_eigenvalue": float(values[-1])}
    if "inverse" in wanted:
        moment.factorise()
    return row


def _factors(text: str) -> tuple[str, ...]:
    from anachron.errors import ConfigError

    wanted = {"both": FACTORS, "none": ()}.get(text, (text,))
    if not set(wanted) <= set(FACTORS):
        raise ConfigError(f"--factors {text!r}: choose inverse, eigen, both or none")
    return wanted


def _modules_of(lm: Any, numbers: list[int]) -> list[str]:
    from anachron.errors import ConfigError
    from anachron.lm.sites import find_sites

    sites = find_sites(lm.model)
    for number in numbers:
        if number >= sites.layers:
            raise ConfigError(f"--layers {number}: {lm.name} has layers 0 to {sites.layers - 1}")
    return [sites.mlp_out(number) for number in numbers]
