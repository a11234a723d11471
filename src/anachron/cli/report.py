"""The command ``report``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from anachron.cli.measure import open_study
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
from anachron.cli.output import print_json, say, stdout

PAGE = "index.html"


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    scores: Sources,
    out: Annotated[Path, typer.Option(help="Folder for the page, the tables and the figures.")],
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
    """One page about one or more runs that works offline, with every table behind it and every figure for print.

    The page is a single file: headline numbers, every fact with its timeline, all analyses as charts, and the tables
    to download. Tables come as Parquet, CSV, Markdown and LaTeX, figures as SVG and PDF.

    Example: anachron report runs/gpt2 runs/gemma --out report
    """
    from anachron.probe.runs import fingerprints
    from anachron.report.figures import write_figures
    from anachron.report.outputs import write_tables
    from anachron.report.page.render import plotly_source

    plotly_source()  # a missing extra is said before any work
    study, parameters, sources = open_study(
        scores, noise=noise, models=models, common_facts=common_facts, baseline=baseline, top=top, present=present,
        resamples=resamples, seed=seed,
    )  # fmt: skip
    written = write_tables(study, out / "tables", parameters=parameters, inputs=fingerprints(sources), command="report")
    page = out / PAGE
    write_page(study, written, sources, page)
    not_drawn = write_figures(written.tables, out / "figures")
    if json_:
        found: dict[str, Any] = {"page": str(page), "tables": str(out / "tables"), "figures": str(out / "figures")}
        found |= {"summary": written.summary.to_dicts(), "notes": written.notes}
        print_json(found | {"left_out": dict(written.left_out), "not_drawn": not_drawn})
        return
    for note in written.notes:
        say(note)
    for name, reason in written.left_out.items():
        say(f"left out: {name}, for {reason}")
    for reason in not_drawn.values():
        say(reason)
    say(f"{len(written.tables)} tables written to {out / 'tables'}, figures to {out / 'figures'}")
    stdout().print(f"page: {page}", markup=False, soft_wrap=True)


def write_page(study: Any, written: Any, sources: list[Any], page: Path) -> None:
    """Write the page of a study with its manifest beside it."""
    from anachron.io import write_bytes, write_manifest
    from anachron.report.page.data import counts, page_data
    from anachron.report.page.render import render

    data = page_data(study, written, [{"name": s.label or str(s.file), "record": s.record} for s in sources])
    write_bytes(page, render(data).encode())
    write_manifest(page, command="report", parameters=written.parameters, inputs=written.inputs, counts=counts(data))
