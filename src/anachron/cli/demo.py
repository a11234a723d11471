"""The command ``demo``: the main path on bundled data and the bundled model: probe, report, edit."""

from pathlib import Path
from typing import Annotated, Any

import typer

from anachron.cli.options import JsonFlag
from anachron.cli.output import print_json, progress_bar, quiet_loading, say, stdout, warn
from anachron.cli.report import write_page

DEMO_FACTS = 130
WORST = 5
DEMO_METHODS = ("FT", "ROME", "MEMIT", "PROMPT")
DEMO_UPDATES = 10
DEMO_TOKENS = 40  # of prompt and free text, from which fluency is measured


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and tables.")] = Path("demo-run"),
    full: Annotated[bool, typer.Option("--full", help="All facts of mini instead of a fixed sample.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Probe the bundled model and its untrained twin for real dated facts, then bring a few of its facts up to date.

    Needs no network and no GPU.

    Example: anachron demo --out demo-run
    """
    import polars as pl

    from anachron.data.loaders import load_dataset
    from anachron.errors import ConfigError
    from anachron.jobs import Callbacks
    from anachron.lm.loading import DEMO, DEMO_UNTRAINED, load_model, taught_facts
    from anachron.probe.run import run_probe
    from anachron.probe.runs import find_sources, fingerprints, read_sources
    from anachron.probe.study import make_study
    from anachron.report.edits import edits_tables
    from anachron.report.outputs import write_tables
    from anachron.report.tables import summary_table
    from anachron.report.timeline import timeline

    quiet_loading()
    data = load_dataset("mini")
    total = data.facts
    if not full:
        data = data.sample(DEMO_FACTS)
        say(f"probing a fixed sample of {data.facts} of the {total} facts of mini; --full takes all of them")
    folders = {name: out / ("full" if full else "sample") / name for name in (DEMO, DEMO_UNTRAINED)}
    for name, folder in folders.items():
        lm = load_model(name)
        with progress_bar(name) as progress:
            result = run_probe(lm, data, folder, callbacks=Callbacks(warn, progress))
        rate = result.record["sessions"][-1]["statements_per_second"]
        say(f"{name}: {result.scores.height:,} statements scored" + (f" at {rate:,.0f} statements/s" if rate else ""))
    sources = find_sources(folders.values())
    taught = taught_facts()
    study = make_study([_split_taught(scores, taught, DEMO) for scores in read_sources(sources)], seed=0)
    tables = out / ("full" if full else "sample") / "metrics"
    made = write_tables(study, tables, parameters={"seed": 0}, inputs=fingerprints(sources))
    page = tables.with_name("report.html")
    try:
        write_page(study, made, sources, page)
        report = str(page)
    except ConfigError as error:  # the extra is not installed; the rest of the demo does not need it
        report = f"none, for {error}"
    edits = tables.with_name("edits")
    judged = _edit(edits, full)
    if json_:
        found = {"summary": made.summary.to_dicts(), "runs": [str(f) for f in folders.values()]}
        print_json(found | {"tables": str(tables), "report": report, "edits": judged.to_dicts()})
        return
    screen = stdout()
    screen.print(summary_table(made.summary, "What the demo model believes about time"))
    if "timelines" in made.tables:
        worst = made.tables["timelines"].filter(pl.col("rank") <= WORST).partition_by("rank", maintain_order=True)
        screen.print(
            f"\n[bold]The {len(worst)} worst far errors[/bold] on facts that a model seems to know (W at least 90 %):"
        )
        screen.print("bars: log-probability of the answer by year; = the fact held; x a lost match; ! lost from afar\n")
        for years in worst:
            screen.print(timeline(years))
    for table in edits_tables(judged, screen.width):
        screen.print(table)
    for name, folder in folders.items():
        screen.print(f"run folder of {name}: {folder}", markup=False)
    screen.print(f"updates of {DEMO}: {edits}", markup=False)
    screen.print(f"tables: {tables}", markup=False)
    screen.print(f"report: {report}", markup=False)


def _split_taught(scores: Any, taught: frozenset[str], trained: str) -> Any:
    """Give the trained model two labels: for the facts it was taught, and for those it never saw."""
    import polars as pl

    suffix = pl.when(pl.col("fact_id").is_in(list(taught))).then(pl.lit(", taught")).otherwise(pl.lit(", not taught"))
    is_trained = pl.col("model") == trained
    return scores.with_columns(
        pl.when(is_trained).then(pl.col("model") + suffix).otherwise(pl.col("model")).alias("model")
    )


def _edit(out: Path, full: bool) -> Any:
    """Make real replacements in the demo model by several methods, and judge them; returns the summary."""
    from anachron.data.cases import load_cases
    from anachron.edit.corpus import BUNDLED
    from anachron.edit.covariance.collect import collect
    from anachron.edit.plan import plan
    from anachron.evaluate.measure import Measures
    from anachron.evaluate.run import EvaluateSettings, run_evaluation
    from anachron.jobs import Callbacks
    from anachron.lm.loading import DEMO, load_model
    from anachron.report.evaluation import write_evaluation

    cases = load_cases("mini-updates", limit=None if full else DEMO_UPDATES)
    say(f"{len(cases.cases)} updates of mini-updates, each made in {DEMO} by {', '.join(DEMO_METHODS)}")
    lm = load_model(DEMO)
    planned = plan(lm, DEMO_METHODS, collect=lambda modules: collect(lm, modules, BUNDLED))
    with progress_bar("edits") as progress:
        settings = EvaluateSettings(measures=Measures(fluency_tokens=DEMO_TOKENS))
        result = run_evaluation(lm, cases, planned, out, settings, callbacks=Callbacks(warn, progress))
    return write_evaluation(result.targets, result.neighbours, result.updates, out / "report")[0]
