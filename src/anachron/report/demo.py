"""The main path on bundled data and the bundled model: probe, report, check, edit (``demo``)."""

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import polars as pl

from anachron.analysis.study import make_study
from anachron.core.errors import ConfigError
from anachron.data.loaders import load_dataset
from anachron.data.updates.cases import load_cases
from anachron.edit.corpus import BUNDLED
from anachron.edit.covariance.collect import collect_covariance
from anachron.edit.plan import plan_edits
from anachron.evaluate.measure import Measures
from anachron.evaluate.measures.fluency import words
from anachron.evaluate.run import EvaluateSettings
from anachron.io.jobs import Callbacks
from anachron.lm.loading import load_model, taught_facts
from anachron.lm.tokenizers import DEMO, DEMO_UNTRAINED
from anachron.probe.check.check import Check, check
from anachron.probe.check.questions import read_facts
from anachron.probe.run import run_probe
from anachron.probe.runs import find_sources, fingerprints, read_sources
from anachron.report.edits.evaluated import evaluate_updates
from anachron.report.outputs import Written, write_tables
from anachron.report.studies import write_page

DEMO_FACTS = 130
DEMO_METHODS = ("FT", "ROME", "MEMIT", "PROMPT")
DEMO_UPDATES = 10
DEMO_FACT_FILE, DEMO_AS_OF = "mini/ten_facts.csv", "2024-06-30"  # as of which they are as the file says
DEMO_TOKENS = 40  # of prompt and free text, from which fluency is measured


@dataclass(frozen=True)
class Demo:
    """What the demo left behind.

    runs: run folder of each model. tables: folder of ``written``. report: the page, or why there is none.
    check: of ten facts in a file. edits: folder of the updates that were made. edit_summary: what became of them, a
    row a method.
    """

    runs: dict[str, Path]
    tables: Path
    written: Written
    report: str
    check: Check
    edits: Path
    edit_summary: pl.DataFrame


def run_demo(out: Path | str, *, full: bool = False, callbacks: Callbacks | None = None) -> Demo:
    """Probe the bundled model and its untrained twin on real dated facts, check ten facts of a file, and make a few
    updates.

    full: all facts of ``mini`` and all updates of ``mini-updates``, instead of a fixed sample. Needs no network and no
    GPU. Raises as `anachron.run_probe` and `anachron.run_evaluation`.
    """
    callbacks, folder = callbacks or Callbacks(), Path(out) / ("full" if full else "sample")
    data = load_dataset("mini")
    if not full:
        total, data = data.facts, data.sample(DEMO_FACTS)
        callbacks.notice(
            f"probing a fixed sample of {data.facts} of the {total} facts of mini; --full uses all of them"
        )
    runs = {name: folder / name for name in (DEMO, DEMO_UNTRAINED)}
    for name, run_folder in runs.items():
        lm = load_model(name)
        with callbacks.bar(name) as bar:
            result = run_probe(lm, data, run_folder, callbacks=bar)
        rate = result.record["sessions"][-1]["statements_per_second"]
        speed = f" at {rate:,.0f} statements/s" if rate else ""
        callbacks.notice(f"{name}: {result.scores.height:,} statements scored{speed}")
    sources = find_sources(runs.values())
    taught = taught_facts()
    study = make_study([_split_taught(scores, taught, DEMO) for scores in read_sources(sources)], seed=0)
    tables = folder / "metrics"
    written = write_tables(study, tables, parameters={"seed": 0}, inputs=fingerprints(sources))
    page = folder / "report.html"
    try:
        write_page(study, written, sources, page)
        report = str(page)
    except ConfigError as error:  # the extra is not installed; the rest of the demo does not need it
        report = f"none, for {error}"
    check = _check(Path(out) / "check", callbacks)
    return Demo(runs, tables, written, report, check, folder / "edits", _edit(folder / "edits", full, callbacks))


def _split_taught(scores: pl.DataFrame, taught: frozenset[str], trained: str) -> pl.DataFrame:
    """Give the trained model two labels: for the facts it was taught, and for those it never saw."""
    suffix = pl.when(pl.col("fact_id").is_in(list(taught))).then(pl.lit(", taught")).otherwise(pl.lit(", not taught"))
    is_trained = pl.col("model") == trained
    return scores.with_columns(
        pl.when(is_trained).then(pl.col("model") + suffix).otherwise(pl.col("model")).alias("model")
    )


def _check(out: Path, callbacks: Callbacks) -> Check:
    """A verdict of the demo model for each of ten facts of mini, from a file as a user writes one."""
    with as_file(files("anachron.data").joinpath(DEMO_FACT_FILE)) as path:
        facts = read_facts(path, as_of=DEMO_AS_OF)
        callbacks.notice(f"checking the {len(facts.given)} facts of anachron/data/{DEMO_FACT_FILE}, as of {DEMO_AS_OF}")
        with callbacks.bar("check") as bar:
            return check(load_model(DEMO), facts, out, callbacks=bar)


def _edit(out: Path, full: bool, callbacks: Callbacks) -> pl.DataFrame:
    """Make real replacements in the demo model by several methods, and measure them; returns the summary."""
    cases = load_cases("mini-updates", limit=None if full else DEMO_UPDATES)
    methods = ", ".join(DEMO_METHODS)
    callbacks.notice(f"{len(cases.cases)} updates of mini-updates, each made in {DEMO} by {methods}")
    lm = load_model(DEMO)
    planned = plan_edits(lm, DEMO_METHODS, collect=lambda modules: collect_covariance(lm, modules, BUNDLED))
    settings = EvaluateSettings(measures=Measures(fluency_tokens=_fluency_tokens(callbacks)))
    with callbacks.bar("edits") as bar:
        return evaluate_updates(lm, cases, planned, out, settings, callbacks=bar).summaries["summary"][0]


def _fluency_tokens(callbacks: Callbacks) -> int:
    """`DEMO_TOKENS`, or 0 where the extra that fluency needs is not installed; the rest of the demo does without."""
    try:
        words("")
    except ConfigError as error:
        callbacks.notice(f"fluency is left out: {error}")
        return 0
    return DEMO_TOKENS
