"""The command ``wikidata explain``."""

from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.build import (
    MinPopularity,
    Preset,
    Ray,
    Relations,
    SnapshotArgument,
    UsePopularity,
    Workers,
    selection,
)
from anachron.cli.options import JsonFlag
from anachron.cli.output import print_json, progress_bar, say, stdout


def register(app: typer.Typer) -> None:
    """Add the command to the group ``wikidata``."""
    app.command("explain")(explain)


def explain(
    snapshot: SnapshotArgument,
    entity: Annotated[str, typer.Argument(help="Id of an item, such as Q76.")],
    property: Annotated[str | None, typer.Option(help="Statements of this property only.")] = None,
    facts: Annotated[
        Path | None,
        typer.Option(help="A file of build facts: its thresholds, and where its popularity cut, in place of a preset."),
    ] = None,
    preset: Preset = "timestress",
    relations: Relations = None,
    popularity: UsePopularity = True,
    min_popularity: MinPopularity = None,
    workers: Workers = None,
    ray: Ray = None,
    json_: JsonFlag = False,
) -> None:
    """What each step of build facts does with each statement of one entity, and why.

    Where popularity cuts depends on all facts: without --facts, --min-popularity or --no-popularity the whole snapshot
    is selected from first.

    Example: anachron wikidata explain SNAPSHOT Q76 --facts facts.parquet
    """
    from dataclasses import asdict

    from anachron.errors import ConfigError
    from anachron.report.tables import explanation_table
    from anachron.wikidata.build import selection_of
    from anachron.wikidata.explain import explain_entity
    from anachron.wikidata.select import Spread
    from anachron.wikidata.snapshot import open_snapshot

    opened, cut = open_snapshot(snapshot), None
    if facts is not None:
        if (preset, relations, popularity, min_popularity) != ("timestress", None, True, None):
            raise ConfigError("--facts brings its own thresholds; leave --preset and the thresholds out")
        settings, cut = selection_of(facts, opened)
    else:
        settings = selection(preset, popularity, relations=relations, min_popularity=min_popularity)
    with progress_bar("buckets") as progress:
        spread = Spread(workers, ray, progress)
        found = explain_entity(opened, entity, settings, property=property, cut=cut, spread=spread)
    verdicts = [asdict(verdict) for verdict in found.verdicts]
    kept = sum(verdict.kept for verdict in found.verdicts)
    if json_:
        print_json({"entity": found.entity, "kept": kept, "statements": verdicts})
        return
    if verdicts:
        stdout().print(explanation_table(found.entity, verdicts))
    elif found.entity["title"] is None:
        say(f"{entity} has no title in {opened.manifest['options']['wiki']}, so the snapshot holds no statements of it")
    say(f"{kept:,} of {len(verdicts):,} statements of {entity} are kept as facts")
