"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

DatasetArgument = Annotated[str, typer.Argument(help="A file, a hub name or a bundled name.")]
Boundaries = Annotated[str | None, typer.Option(help="released or paper, where the data set records none.")]
Split = Annotated[str | None, typer.Option(help="Split of a hub data set.")]
DatasetRevision = Annotated[str | None, typer.Option(help="Revision of a hub data set.")]
FormatOption = Annotated[str, typer.Option(help="raw text, or chat through the tokenizer's chat template.")]
PrefixOption = Annotated[str, typer.Option(help="none, hierarchy, transfer, few-shot or a text file.")]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.")]
Trust = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")]
Dtype = Annotated[str, typer.Option(help="auto (the checkpoint's), float32, bfloat16 or float16.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 ...; by default a GPU where there is one.")]
DeviceMap = Annotated[str | None, typer.Option(help="Spread a large model over devices, for instance auto.")]
Tokenizer = Annotated[str | None, typer.Option(help="Hub name or folder of another tokenizer.")]
Resamples = Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
Sources = Annotated[list[Path], typer.Argument(help="Score tables, run folders, or folders of run folders.")]
Noise = Annotated[
    float | None, typer.Option(min=0, help="Largest meaningless difference in nats; by default each run's own.")
]
Models = Annotated[
    Path | None, typer.Option(help="Table of model, family, parameters, instruct, base; overrides what runs recorded.")
]
Common = Annotated[bool, typer.Option("--common-facts", help="Compare runs of different data sets on shared facts.")]
Baseline = Annotated[str | None, typer.Option(help="Model that the others are compared with; by default the first.")]
Top = Annotated[int, typer.Option(min=1, help="How many of the most robust models pooled tables are taken over.")]
Present = Annotated[int, typer.Option(min=100, help="Year that distances from the present are counted from.")]
Seed = Annotated[int, typer.Option(help="Of the bootstrap.")]
Workers = Annotated[int | None, typer.Option(help="Processes; by default one, on Ray all cores.")]
Ray = Annotated[str | None, typer.Option(help="Address of a Ray cluster (auto, host:port), or local.")]


def split_commas(text: str) -> tuple[str, ...]:
    """The parts of an option that is a list with commas between."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def layer_numbers(text: str) -> list[int]:
    """Layers written as 3, 1,2,3 or 3-8, each once. Raises `ConfigError` for anything else."""
    from anachron.errors import ConfigError

    numbers: list[int] = []
    for part in split_commas(text) or ("",):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or not (last.isdecimal() if dash else True) or (dash and int(last) < int(first)):
            raise ConfigError(f"--layers {text!r}: write 3 or 1,2,3 or 3-8, counted from 0")
        numbers += range(int(first), int(last if dash else first) + 1)
    return list(dict.fromkeys(numbers))
