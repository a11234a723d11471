"""Commands about data: ``contexts``, ``datasets``, ``audit``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.options import (
    ContextSeed,
    DatasetArgument,
    DatasetOptions,
    FormatOption,
    JsonFlag,
    ModelOptions,
    PrefixOption,
    ReadBoundaries,
    SamplingOption,
)
from anachron.cli.output import print_json, say, stdout
from anachron.cli.outputs import FILE
from anachron.core.contexts import Sampling, sampling_named
from anachron.core.errors import ConfigError


def contexts(
    start: Annotated[str, typer.Option(help="First date of the period: YYYY, YYYY-MM or YYYY-MM-DD; -0044 is 44 BCE.")],
    end: Annotated[str, typer.Option(help="Last date of the period, inclusive.")],
    boundaries: ReadBoundaries = "released",
    seed: ContextSeed = 0,
    until: Annotated[int, typer.Option(help="Last year asked about.")] = Sampling.until,
    fact_id: Annotated[str, typer.Option(help="Fact id that keys the random stream, as in a data set.")] = "",
    sampling: SamplingOption = "timestress",
) -> None:
    """Print the dates at which to ask about a fact that held from START to END, as JSON lines.

    Example: anachron contexts --start 2009-01-20 --end 2017-01-20
    """
    from anachron.core.periods import Period
    from anachron.core.several_periods import contexts_of_periods

    sampled = contexts_of_periods(
        [Period(start, end)],
        boundaries=boundaries,  # type: ignore[arg-type]
        seed=seed,
        fact_id=fact_id,
        sampling=sampling_named(sampling, until),
    )
    for c in sampled:
        print(json.dumps({"granularity": c.granularity, "time": c.time, "status": c.status, "alpha": c.alpha}))


def datasets(
    name: Annotated[
        str | None, typer.Argument(help="Data set to write out; if omitted, the bundled ones are listed.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write it to: .parquet, .csv or .jsonl."), FILE] = None,
    json_: JsonFlag = False,
) -> None:
    """List the bundled data sets, or write one out: statements in the published TimeStress columns, updates in those
    of WikiFactDiff (.parquet or .jsonl), changes in those that anachron horizon reads.

    Example: anachron datasets mini --out mini.csv
    """
    from dataclasses import asdict

    from anachron.data.bundled.listings import CHANGES, DATASETS, UPDATES

    if (name is None) != (out is None):
        raise ConfigError("give both a data set and --out FILE to write it, or neither to list the bundled ones")
    if name is None or out is None:
        listings, updates, changes = ([asdict(one) for one in listed] for listed in (DATASETS, UPDATES, CHANGES))
        if json_:
            print_json([*listings, *updates, *changes])
        else:
            from anachron.report.terminal.listings import change_sets_table, dataset_table, update_sets_table

            stdout().print(dataset_table(listings), update_sets_table(updates), change_sets_table(changes))
        return
    from anachron.data.loaders import write_dataset

    counts = write_dataset(name, out)
    say(f"{' of '.join(f'{count:,} {what}' for what, count in counts.items())} written to {out}")


def audit(
    *,
    dataset: DatasetArgument,
    model: Annotated[
        str | None,
        typer.Option(
            help="Load this model too, and try on the largest batches whether shared prefixes can be computed once."
        ),
    ] = None,
    format: FormatOption = "raw",
    prefix: PrefixOption = "none",
    selected: DatasetOptions,
    loading: ModelOptions,
    context_length: Annotated[
        int | None, typer.Option(help="Context length in tokens. Default: the tokenizer's.")
    ] = None,
    json_: JsonFlag = False,
) -> None:
    """Check a data set against a tokenizer: boundaries, start tokens, leaks, lengths, duplicates; and with --model, how
    exactly that model is scored.

    Example: anachron audit mini --tokenizer demo
    """
    from anachron.lm.formats import Format
    from anachron.probe.prefixes import prefix_text

    if model is None:
        if loading.tokenizer is None:
            raise ConfigError("give --tokenizer, to check against a tokenizer alone, or --model")
        if given := [
            name for name in ("dtype", "device", "device_map") if getattr(loading, name) not in (None, "auto")
        ]:
            raise ConfigError(f"--{given[0].replace('_', '-')} is for --model; add it, or leave this out")
    data = selected.load(dataset)
    style = Format(format, prefix_text(prefix)[1])  # type: ignore[arg-type]

    from anachron.lm.tokenizers import load_tokenizer  # these load torch, which takes longer than reading facts
    from anachron.probe.audit import audited, try_prefix_tree
    from anachron.report.terminal.tables import audit_table, trial_table

    if model is None:
        tokenizer = load_tokenizer(
            str(loading.tokenizer), revision=loading.revision, trust_remote_code=loading.trust_remote_code
        )
    else:
        lm = loading.load(model)
        tokenizer = lm.tokenizer
    report, encoded = audited(data.table, tokenizer, style, data.boundaries, context_length)
    found, shown = report.as_dict(), [audit_table(report.as_dict())]
    if model is not None:
        found["prefix_tree"] = try_prefix_tree(lm, encoded)
        shown.append(trial_table(found["prefix_tree"]))
    if json_:
        print_json(found)
    else:
        stdout().print(*shown)
