"""The command ``train-mend``."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anachron.cli.commands import setting
from anachron.cli.options import (
    DatasetRevision,
    JsonFlag,
    ModelArgument,
    ModelOptions,
    Split,
    UpdateLimit,
    layer_numbers,
)
from anachron.cli.output import on_screen, print_json, say
from anachron.cli.outputs import KEPT
from anachron.core.errors import ConfigError
from anachron.edit.mend_settings import MendSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anachron.edit.training.train import MendLessons


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The settings of MEND and of its training but for the layers; see `anachron.edit.mend_settings.MendSettings`."""

    steps: Annotated[int, setting(help="Number of optimiser steps.")] = MendSettings.steps
    batch: Annotated[int, setting(help="Number of updates per step, each an edit of its own.")] = MendSettings.batch
    rank: Annotated[int, setting(help="Rank of the network's layers.")] = MendSettings.rank
    rate: Annotated[
        float, setting(help="Learning rate; small models learn faster with a larger one, such as 1e-4.")
    ] = MendSettings.rate
    lr_rate: Annotated[float, setting(help="Learning rate for the modules' own learned rates.")] = MendSettings.lr_rate
    start: Annotated[float, setting(help="Initial value of every module's learned rate.")] = MendSettings.start
    edit_weight: Annotated[float, setting(help="Weight of the loss on the targets.")] = MendSettings.edit_weight
    kl_weight: Annotated[float, setting(help="Weight of the KL divergence on unrelated text.")] = MendSettings.kl_weight
    clip: Annotated[float, setting(help="Maximum norm of the gradient.")] = MendSettings.clip
    normalise: Annotated[
        bool, setting(help="Normalise inputs by the mean and standard deviation of the tokens seen.")
    ] = MendSettings.normalise
    seed: Annotated[int, setting(help="Seed for the initial network and the order of updates.")] = MendSettings.seed

    def settings(self, layers: "Sequence[int]") -> MendSettings:
        return MendSettings(layers=tuple(layers), **asdict(self))


@dataclass(frozen=True, kw_only=True)
class LessonOptions:
    """Which updates the network learns from, and what it must leave alone."""

    text: Annotated[
        Path | None,
        typer.Option(help="File with one text per line that edits must leave alone. Default: the updates' neighbours."),
    ] = None
    without: Annotated[
        str | None,
        typer.Option(
            help="Updates to evaluate on later, a file or hub name: none of their subjects is used for training."
        ),
    ] = None
    scenario: Annotated[str, typer.Option(help="Scenario of the updates to learn from, such as AddRelation.")] = (
        "ReplaceObject"
    )
    limit: UpdateLimit = None
    split: Split = None
    dataset_revision: DatasetRevision = None

    def lessons(self, updates: str) -> "MendLessons":
        from anachron.edit.training.train import mend_lessons

        return mend_lessons(
            updates, without=self.without, text=self.text, limit=self.limit, scenario=self.scenario, split=self.split,
            revision=self.dataset_revision, callbacks=on_screen(),
        )  # fmt: skip


def train_mend(
    *,
    model: ModelArgument,
    updates: Annotated[str, typer.Option(help="Updates to learn from: a file, a hub name or mini-updates.")],
    out: Annotated[Path, typer.Option(help="File for the network (safetensors)."), KEPT],
    layers: Annotated[
        str | None, typer.Option(help="Blocks to edit, counted from 0: 3 or 1,2,3 or 3-8. Default: the last three.")
    ] = None,
    learned: LessonOptions,
    training: TrainingOptions,
    checkpoint_every: Annotated[int, setting(help="Number of steps between checkpoints.")] = 500,
    loading: ModelOptions,
    json_: JsonFlag = False,
) -> None:
    """Train the network with which the method MEND edits a model.

    It learns to change the model so that it gives each update's new object, also after other prompts, and to leave
    unrelated text alone. The network works for this model only. An interrupted training resumes from its last
    checkpoint. The updates it was trained on do not show how well it edits: evaluate it on others (--without).

    Example: anachron train-mend gpt2 --updates train.parquet --without judged.parquet --out gpt2-mend.safetensors
    """
    from anachron.edit.methods.mend import last_blocks
    from anachron.edit.training.mend import train_mend as train
    from anachron.lm.sites import find_sites

    if out.suffix not in ("", ".safetensors"):
        raise ConfigError(f"--out {out}: the network is a safetensors file; name it {out.with_suffix('.safetensors')}")
    chosen = None if layers is None else layer_numbers(layers)
    settings = training.settings(chosen or MendSettings.layers)  # what is wrong is said before anything is loaded
    lessons = learned.lessons(updates)
    lm = loading.load(model)
    if chosen is None:
        settings = replace(settings, layers=last_blocks(find_sites(lm.model)))
    with on_screen().bar(model) as bar:
        network = train(lm, lessons.examples, out, settings, checkpoint_every=checkpoint_every, callbacks=bar)
    course = network.about["course"]
    if json_:
        print_json({
            "network": str(out), "model": lm.name, "layers": list(settings.layers), "left_out": len(lessons.left_out),
            **network.about["counts"], "course": course,
        })  # fmt: skip
        return
    say(
        f"{len(lessons.examples):,} updates, {settings.steps:,} steps: loss {course[0]['edit_loss']:.3f} -> "
        f"{course[-1]['edit_loss']:.3f}, KL divergence {course[0]['kl_loss']:.3g} -> {course[-1]['kl_loss']:.3g} "
        f"nats; written to {out}"
    )
