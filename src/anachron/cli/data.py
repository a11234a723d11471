"""Commands about data: ``contexts``, ``datasets``, ``audit``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.options import Boundaries, DatasetArgument, FormatOption, JsonFlag, PrefixOption, Split, Trust
from anachron.cli.output import print_json, say, stdout


def register(app: typer.Typer) -> None:
    app.command()(contexts)
    app.command()(datasets)
    app.command()(audit)


def contexts(
    start: Annotated[str, typer.Option(help="First date of the period: YYYY, YYYY-MM or YYYY-MM-DD; -0044 is 44 BCE.")],
    end: Annotated[str, typer.Option(help="Last date of the period, inclusive.")],
    boundaries: Annotated[str, typer.Option(help="How coarse boundaries are read: released or paper.")] = "released",
    seed: Annotated[int, typer.Option(help="Seed of the random months and days.")] = 0,
    until: Annotated[int, typer.Option(help="Last year asked about.")] = 2020,
    fact_id: Annotated[str, typer.Option(help="Keys the random stream, as in a data set.")] = "",
    sampling: Annotated[str, typer.Option(help="Sampler: timestress or robustness-2025.")] = "timestress",
) -> None:
    """Dates to ask about a fact that held from START to END, as JSON lines.

    Example: anachron contexts --start 2009-01-20 --end 2017-01-20
    """
    from anachron.core.contexts import SAMPLINGS, sample_contexts
    from anachron.core.periods import Period
    from anachron.errors import ConfigError

    if sampling not in SAMPLINGS:
        raise ConfigError(f"sampling {sampling!r}: choose one of {', '.join(SAMPLINGS)}")
    found = sample_contexts(
        Period(start, end),
        boundaries=boundaries,  # type: ignore[arg-type]
        seed=seed,
        fact_id=fact_id,
        sampling=SAMPLINGS[sampling],
        until=until,
    )
    for c in found:
        print(json.dumps({"granularity": c.granularity, "time": c.time, "status": c.status, "alpha": c.alpha}))


def datasets(
    name: Annotated[
        str | None, typer.Argument(help="A data set to write out; without it, the bundled ones are listed.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for its statements: .parquet, .csv or .jsonl.")] = None,
    json_: JsonFlag = False,
) -> None:
    """List the bundled data sets, or write one out: statements in the published TimeStress columns, updates in those
    of WikiFactDiff (.parquet or .jsonl).

    Example: anachron datasets mini --out mini.csv
    """
    from dataclasses import asdict

    from anachron.data.columns import to_published
    from anachron.data.loaders import UPDATES, list_datasets, list_updates, load_dataset
    from anachron.errors import ConfigError
    from anachron.io import rows_fingerprint, write_manifest, write_table
    from anachron.report.tables import dataset_table, update_sets_table

    if (name is None) != (out is None):
        raise ConfigError("give both a data set and --out FILE to write it, or neither to list the bundled ones")
    if name is None or out is None:
        listings = [asdict(listing) for listing in list_datasets()]
        updates = [asdict(listing) for listing in list_updates()]
        if json_:
            print_json([*listings, *updates])
        else:
            stdout().print(dataset_table(listings), update_sets_table(updates))
        return
    if name in UPDATES:
        if out.suffix == ".csv":
            raise ConfigError(f"{out}: the columns of updates are nested; write .parquet or .jsonl")
        rows = UPDATES[name][1]()
        write_table(out, rows)
        fingerprint = rows_fingerprint(rows.iter_rows())
        write_manifest(
            out,
            command="datasets",
            parameters={"name": name},
            inputs={name: fingerprint},
            counts={"updates": rows.height},
        )
        say(f"{rows.height:,} updates written to {out}")
        return
    dataset = load_dataset(name)
    table = to_published(dataset.table, dataset.boundaries)
    write_table(out, table)
    write_manifest(
        out,
        command="datasets",
        parameters={"name": name, "boundaries": dataset.boundaries},
        inputs={name: dataset.fingerprint()},
        counts={"statements": table.height, "facts": dataset.facts},
    )
    say(f"{table.height:,} statements of {dataset.facts:,} facts written to {out}")


def audit(
    dataset: DatasetArgument,
    tokenizer: Annotated[str, typer.Option(help="Hub name or folder of a tokenizer, or demo.")],
    format: FormatOption = "raw",
    prefix: PrefixOption = "none",
    boundaries: Boundaries = None,
    split: Split = None,
    context_length: Annotated[
        int | None, typer.Option(help="Most tokens that fit; by default the tokenizer's.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of the tokenizer.")] = None,
    trust_remote_code: Trust = False,
    json_: JsonFlag = False,
) -> None:
    """Check a data set against a tokenizer, without any model: boundaries, start tokens, leaks, lengths, duplicates.

    Example: anachron audit mini --tokenizer demo
    """
    from anachron.data.loaders import load_dataset
    from anachron.lm.formats import Format
    from anachron.lm.loading import load_tokenizer
    from anachron.probe.audit import audit as look
    from anachron.probe.run import prefix_text
    from anachron.report.tables import audit_table

    data = load_dataset(dataset, boundaries=boundaries, split=split)  # type: ignore[arg-type]
    style = Format(format, prefix_text(prefix)[1])  # type: ignore[arg-type]
    loaded = load_tokenizer(tokenizer, revision=revision, trust_remote_code=trust_remote_code)
    found = look(data.table, loaded, style=style, boundaries=data.boundaries, context_length=context_length)
    if json_:
        print_json(found.as_dict())
    else:
        stdout().print(audit_table(found.as_dict()))
