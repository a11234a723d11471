"""The command ``metrics``."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from anachron.cli.options import (
    Baseline,
    Common,
    JsonFlag,
    Models,
    Noise,
    Present,
    Resamples,
    Seed,
    Sources,
    Top,
)
from anachron.cli.output import print_json, say, stdout, warn


def register(app: typer.Typer) -> None:
    app.command()(metrics)


def open_study(paths: Iterable[Path], **options: Any) -> tuple[Any, dict[str, Any], list[Any]]:
    """The study of some runs and score tables, the parameters that a manifest records, and the sources."""
    from anachron.probe.models import merge_models, read_models, recorded_models
    from anachron.probe.runs import find_sources, read_sources
    from anachron.probe.study import make_study

    given, common = options.pop("models"), options.pop("common_facts")
    sources = find_sources(paths)
    models = recorded_models((s.label, s.record) for s in sources if s.label is not None and s.record is not None)
    if given is not None:
        models = merge_models(models, read_models(given))
    sharing = "common" if common else "refuse" if len(sources) > 1 else "keep"
    study = make_study(read_sources(sources), models=models, sharing=sharing, **options)  # type: ignore[arg-type]
    here = study.models["model"].to_list()
    if unknown := sorted(set(models["model"]) - set(here)):
        warn(f"{given or 'a run'} names {', '.join(unknown)}, not among the models here: {', '.join(here)}")
    return study, {**options, "sharing": sharing, "models": None if given is None else str(given)}, sources


def metrics(
    scores: Sources,
    out: Annotated[Path, typer.Option(help="Folder for the tables.")],
    noise: Noise = None,
    models: Models = None,
    common_facts: Common = False,
    baseline: Baseline = None,
    top: Top = 5,
    present: Present = 2021,
    resamples: Resamples = 1000,
    seed: Seed = 0,
    json_: JsonFlag = False,
) -> None:
    """Per-fact win rate and robustness, and every table they allow, from any score table.

    Tables come as Parquet and CSV, and for print as Markdown and LaTeX.

    Example: anachron metrics runs/gpt2 --out tables
    """
    from anachron.probe.runs import fingerprints
    from anachron.report.outputs import write_tables
    from anachron.report.tables import summary_table

    study, parameters, sources = open_study(
        scores, noise=noise, models=models, common_facts=common_facts, baseline=baseline, top=top, present=present,
        resamples=resamples, seed=seed,
    )  # fmt: skip
    tables = write_tables(study, out, parameters=parameters, inputs=fingerprints(sources))
    if json_:
        print_json({"summary": tables.summary.to_dicts(), "notes": tables.notes, "left_out": dict(tables.left_out)})
        return
    stdout().print(summary_table(tables.summary))
    for note in tables.notes:
        say(note)
    for name, reason in tables.left_out.items():
        say(f"left out: {name}, for {reason}")
    say(f"{len(tables.tables)} tables written to {out}")
