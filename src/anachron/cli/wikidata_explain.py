"""The command ``wikidata explain``."""

from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.build import (
    MinPopularity,
    Preset,
    Ray,
    Relations,
    UsePopularity,
    Workers,
    selection,
)
from anachron.cli.options import JsonFlag
from anachron.cli.output import print_json, progress_bar, say, stdout
from anachron.cli.updates import ClozeFile, Redirects, UnchangedGroups


def register(app: typer.Typer) -> None:
    """Add the command to the group ``wikidata``."""
    app.command("explain")(explain)


def explain(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="SNAPSHOT [SNAPSHOT] ENTITY",
            help="One snapshot, or the old and the new one, and the id of an item, such as Q76.",
        ),
    ],
    property: Annotated[str | None, typer.Option(help="Statements of this property only.")] = None,
    facts: Annotated[
        Path | None,
        typer.Option(help="A file of build facts: its thresholds, and where its popularity cut, in place of a preset."),
    ] = None,
    preset: Preset = "timestress",
    relations: Relations = None,
    popularity: UsePopularity = True,
    min_popularity: MinPopularity = None,
    unchanged_groups: UnchangedGroups = "skip",
    redirects: Redirects = None,
    cloze: ClozeFile = None,
    workers: Workers = None,
    ray: Ray = None,
    json_: JsonFlag = False,
) -> None:
    """What each step of build facts, or of build updates for two snapshots, does with each statement of one entity.

    Where popularity cuts the facts depends on all of them: with one snapshot and without --facts, --min-popularity or
    --no-popularity the whole snapshot is selected from first.

    Example: anachron wikidata explain SNAPSHOT Q76 --facts facts.parquet
    """
    from anachron.errors import ConfigError

    if not 2 <= len(what) <= 3:
        raise ConfigError(f"{len(what)} arguments: give a snapshot, or the old and the new one, and the id of an item")
    given = {
        "facts": facts, "preset": None if preset == "timestress" else preset, "relations": relations,
        "no-popularity": None if popularity else False, "min-popularity": min_popularity, "workers": workers,
        "ray": ray,
    }  # fmt: skip
    compared = {
        "unchanged-groups": None if unchanged_groups == "skip" else unchanged_groups, "redirects": redirects,
        "cloze": cloze,
    }  # fmt: skip
    unused = compared if len(what) == 2 else given
    if (name := next((name for name, value in unused.items() if value is not None), None)) is not None:
        raise ConfigError(f"--{name} is for {'two snapshots' if len(what) == 2 else 'one snapshot'}; leave it out")
    if len(what) == 2 and Path(what[1]).is_dir():
        raise ConfigError(f"{what[1]} is a snapshot; give the id of an item behind it, such as Q76")
    if len(what) == 3:
        _explain_changes(what, unchanged_groups, redirects, cloze, property, json_)
        return
    _explain_facts(
        Path(what[0]), what[1], property, facts, json_,
        preset=preset, relations=relations, popularity=popularity, min_popularity=min_popularity, workers=workers,
        ray=ray,
    )  # fmt: skip


def _explain_facts(
    snapshot: Path, entity: str, property: str | None, facts: Path | None, json_: bool, *, preset: str,
    relations: str | None, popularity: bool, min_popularity: float | None, workers: int | None, ray: str | None,
) -> None:  # fmt: skip
    from dataclasses import asdict

    from anachron.cluster import Spread
    from anachron.errors import ConfigError
    from anachron.report.tables import explanation_table
    from anachron.wikidata.reading.snapshot import open_snapshot
    from anachron.wikidata.selection.explain import explain_entity
    from anachron.wikidata.selection.facts import selection_of

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


def _explain_changes(
    what: list[str],
    unchanged_groups: str,
    redirects: Path | None,
    cloze: Path | None,
    property: str | None,
    json_: bool,
) -> None:
    from dataclasses import asdict

    from anachron.cli.updates import read_merged, update_settings
    from anachron.report.tables import changes_table
    from anachron.text.cloze import cloze_templates, read_cloze
    from anachron.updates.explain import explain_changes
    from anachron.wikidata.reading.snapshot import open_snapshot

    old, new = (open_snapshot(Path(name)) for name in what[:2])
    templates = cloze_templates() if cloze is None else read_cloze(cloze)
    merged = read_merged(redirects)
    found = explain_changes(
        old, new, what[2], update_settings(unchanged_groups), relations_with_templates=templates, property=property,
        redirects=merged,
    )  # fmt: skip
    changes = [asdict(change) for change in found.changes]
    if json_:
        print_json({"entity": found.entity, "is_new": found.is_new, "statements": changes})
        return
    if changes:
        stdout().print(changes_table(found.entity, found.is_new, changes))
    else:
        of_property = f" of {property}" if property is not None else ""
        into = f"; it was merged into {merged[what[2]]}, ask for that one" if merged and what[2] in merged else ""
        say(f"neither snapshot holds a statement{of_property} of {what[2]} as a subject{into}")
