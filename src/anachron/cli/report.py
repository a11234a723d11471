"""The command ``report``."""

from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.measure import (
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
    open_study,
)
from anachron.cli.output import print_json, say

PAGE = "index.html"


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    scores: Sources,
    out: Annotated[Path, typer.Option(help="Folder for the page and the tables.")],
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
    """One page about one or more runs that works offline, and every table behind it.

    The page is a single file: headline numbers, every fact with its timeline, all analyses as charts, and the tables
    to download.

    Example: anachron report runs/gpt2 runs/gemma --out report
    """
    from anachron.io import file_fingerprint, write_bytes, write_manifest
    from anachron.probe.runs import find_sources
    from anachron.report.outputs import write_tables
    from anachron.report.page.data import counts, page_data
    from anachron.report.page.render import plotly_source, render

    plotly_source()  # a missing extra is said before any work
    study, parameters = open_study(
        scores, noise=noise, models=models, common_facts=common_facts, baseline=baseline, top=top, present=present,
        resamples=resamples, seed=seed,
    )  # fmt: skip
    written = write_tables(study, out / "tables", parameters=parameters, inputs=scores)
    sources = find_sources(scores)
    data = page_data(study, written, [{"name": s.label or str(s.file), "record": s.record} for s in sources])
    page = out / PAGE
    write_bytes(page, render(data).encode())
    inputs = {str(source.file): file_fingerprint(source.file) for source in sources}
    write_manifest(page, command="report", parameters=parameters, inputs=inputs, counts=counts(data))
    if json_:
        found = {"page": str(page), "tables": str(out / "tables"), "summary": written.summary.to_dicts()}
        print_json(found | {"notes": written.notes, "left_out": dict(written.left_out)})
        return
    for name, reason in written.left_out.items():
        say(f"left out: {name}, for {reason}")
    say(f"{len(written.tables)} tables written to {out / 'tables'}")
    print(f"page: {page}")
