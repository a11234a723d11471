"""The command ``train-mend``."""

from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.models import load
from anachron.cli.options import (
    DatasetRevision,
    Device,
    DeviceMap,
    Dtype,
    JsonFlag,
    Revision,
    Split,
    Tokenizer,
    Trust,
    layer_numbers,
)
from anachron.cli.output import print_json, progress_bar, say, warn


def register(app: typer.Typer) -> None:
    app.command()(train_mend)


def train_mend(
    model: Annotated[str, typer.Argument(help="A hub name, a folder, or demo.")],
    updates: Annotated[str, typer.Option(help="Updates to learn from: a file, a hub name or mini-updates.")],
    out: Annotated[Path, typer.Option(help="File for the network (safetensors).")],
    layers: Annotated[
        str | None, typer.Option(help="Blocks to edit, from 0: 3 or 1,2,3 or 3-8; by default the last three.")
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(help="File with a text a line that edits must leave alone; by default the updates' neighbours."),
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(help="Updates to be judged on later, a file or hub name: none of their subjects is learned from."),
    ] = None,
    scenario: Annotated[str, typer.Option(help="Which updates to learn from, such as AddRelation.")] = "ReplaceObject",
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many updates, from the start.")] = None,
    split: Split = None,
    dataset_revision: DatasetRevision = None,
    steps: Annotated[int, typer.Option(help="Steps of the optimiser.")] = 10_000,
    batch: Annotated[int, typer.Option(help="Updates a step, each an edit of its own.")] = 10,
    rank: Annotated[int, typer.Option(help="Rank of the network's layers.")] = 1920,
    rate: Annotated[
        float, typer.Option(help="Of the optimiser; small models learn faster with a larger one, such as 1e-4.")
    ] = 1e-6,
    lr_rate: Annotated[float, typer.Option(help="Of the optimiser, for the learned rates of the modules.")] = 1e-4,
    start: Annotated[float, typer.Option(help="Learned rate of every module at the start.")] = 1e-4,
    edit_weight: Annotated[float, typer.Option(help="Weight of the targets' loss.")] = 0.1,
    kl_weight: Annotated[float, typer.Option(help="Weight of the KL divergence on unrelated text.")] = 1.0,
    clip: Annotated[float, typer.Option(help="Longest gradient.")] = 100.0,
    normalise: Annotated[bool, typer.Option(help="By mean and deviation of the tokens seen.")] = True,
    seed: Annotated[int, typer.Option(help="Of the network's start and the order of updates.")] = 0,
    checkpoint_every: Annotated[int, typer.Option(help="Steps that an interrupt can lose.")] = 500,
    dtype: Dtype = "auto",
    device: Device = None,
    device_map: DeviceMap = None,
    revision: Revision = None,
    tokenizer: Tokenizer = None,
    trust_remote_code: Trust = False,
    json_: JsonFlag = False,
) -> None:
    """Train the network that the method MEND edits a model with.

    It learns to change the model so that it says each update's new object, also after other prompts, and to leave
    unrelated text alone. The network is for this model only. An interrupted training goes on from its last checkpoint.
    What it has learned from says nothing about how well it edits: judge it on other updates (--without).

    Example: anachron train-mend gpt2 --updates train.parquet --without judged.parquet --out gpt2-mend.safetensors
    """
    from dataclasses import replace

    from anachron.data.cases import load_cases
    from anachron.edit.methods.mend import MendSettings, last_blocks
    from anachron.edit.training.mend import train_mend as train
    from anachron.edit.training.mend_examples import examples_of
    from anachron.errors import DataError
    from anachron.jobs import Callbacks
    from anachron.lm.sites import find_sites

    chosen = None if layers is None else tuple(layer_numbers(layers))
    settings = MendSettings(
        layers=chosen or (0,), rank=rank, start=start, normalise=normalise, edit_weight=edit_weight,
        kl_weight=kl_weight, rate=rate, lr_rate=lr_rate, clip=clip, steps=steps, batch=batch, seed=seed,
    )  # fmt: skip  # what is wrong in the command is said before anything is loaded
    lines = () if text is None else _lines(text)
    judged = set() if without is None else {case.subject for case in load_cases(without, scenario=None).cases}
    found = load_cases(updates, split=split, revision=dataset_revision, scenario=scenario).cases
    others = [case for case in found if case.subject not in judged]
    if len(others) < len(found):
        say(f"{len(found) - len(others):,} of {len(found):,} updates are about subjects of {without}: left out")
    if not others:
        raise DataError(f"{updates}: every update is about a subject of {without}; nothing is left to learn from")
    cases = others[:limit]
    examples, left_out = examples_of(cases, lines)
    if not examples:
        raise DataError(f"{updates}: no update can be learned from, for instance: {(left_out or ['it has none'])[0]}")
    if left_out:
        warn(f"{len(left_out)} of {len(cases)} updates are left out, for instance: {left_out[0]}")
    lm = load(
        model, dtype=dtype, device=device, device_map=device_map, revision=revision, tokenizer=tokenizer,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    sites = find_sites(lm.model)
    if chosen is None:
        settings = replace(settings, layers=last_blocks(sites))
    with progress_bar(model) as progress:
        network = train(
            lm, examples, settings, sites, out, checkpoint_every=checkpoint_every, callbacks=Callbacks(warn, progress)
        )
    course = network.about["course"]
    if json_:
        print_json(
            {"network": str(out), "model": lm.name, "layers": list(settings.layers), "left_out": len(left_out),
             **network.about["counts"], "course": course}
        )  # fmt: skip
        return
    say(
        f"{len(examples):,} updates, {settings.steps:,} steps: loss {course[0]['edit_loss']:.3f} -> "
        f"{course[-1]['edit_loss']:.3f}, KL divergence {course[0]['kl_loss']:.3g} -> {course[-1]['kl_loss']:.3g} "
        f"nats; written to {out}"
    )


def _lines(path: Path) -> tuple[str, ...]:
    from anachron.errors import ConfigError, DataError

    try:
        lines = tuple(line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--text {path} cannot be read as UTF-8 text: {error}") from error
    if not lines:
        raise DataError(f"--text {path} has no line with text; give some, or leave it out")
    return lines
