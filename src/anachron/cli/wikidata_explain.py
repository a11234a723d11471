"""The command ``wikidata explain``."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.build import MinPopularity, Preset, Relations, SelectionOptions, UsePopularity
from anachron.cli.options import JsonFlag, SpreadOptions, given
from anachron.cli.output import print_json, progress_bar, say, stdout
from anachron.cli.updates import ClozeFile, CoarseDates, Redirects, UnchangedGroups, ValidAtDate, update_settings
from anachron.core.errors import ConfigError

if TYPE_CHECKING:
    from anachron.wikidata.reading.snapshot import Snapshot
    from anachron.wikidata.updates.build import UpdateSettings

AllStatements = Annotated[
    bool, typer.Option("--all", help="With two snapshots, also show the statements that did not change.")
]


def explain(
    *,
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="SNAPSHOT [SNAPSHOT] ENTITY",
            help="One snapshot, or an old and a new one, followed by the id of an item, such as Q76.",
        ),
    ],
    property: Annotated[str | None, typer.Option(help="Show only statements of this property.")] = None,
    facts: Annotated[
        Path | None,
        typer.Option(help="File written by build facts: use its thresholds and popularity cut-off, not a preset's."),
    ] = None,
    preset: Preset = None,
    relations: Relations = None,
    popularity: UsePopularity = True,
    min_popularity: MinPopularity = None,
    unchanged_groups: UnchangedGroups = "skip",
    valid_at_date: ValidAtDate = False,
    coarse_dates: CoarseDates = "undecided",
    redirects: Redirects = None,
    cloze: ClozeFile = None,
    spread: SpreadOptions,
    all_: AllStatements = False,
    json_: JsonFlag = False,
) -> None:
    """Show what each step of build facts (with two snapshots, build updates) does with the statements of one entity.

    The popularity cut-off depends on all facts. With one snapshot and none of --facts, --min-popularity and
    --no-popularity, the selection is therefore first run on the whole snapshot.

    Example: anachron wikidata explain SNAPSHOT Q76 --facts facts.parquet
    """
    _check_number(what)
    for_facts = given(
        facts=facts, preset=preset, relations=relations,
        no_popularity=None if popularity else False, min_popularity=min_popularity, workers=spread.workers,
        ray=spread.ray,
    )  # fmt: skip
    for_changes = given(
        unchanged_groups=None if unchanged_groups == "skip" else unchanged_groups, redirects=redirects, cloze=cloze,
        valid_at_date=valid_at_date or None, coarse_dates=None if coarse_dates == "undecided" else coarse_dates,
        all=all_ or None,
    )  # fmt: skip
    if (unused := for_changes if len(what) == 2 else for_facts) is not None:
        raise ConfigError(f"{unused} is for {'two snapshots' if len(what) == 2 else 'one snapshot'}; leave it out")
    if len(what) == 3:
        settings = update_settings(unchanged_groups, valid_at_date=valid_at_date, coarse_dates=coarse_dates)
        _explain_changes(what, property, json_, all_=all_, settings=settings, redirects=redirects, cloze=cloze)
        return
    thresholds = SelectionOptions(
        preset=preset, relations=relations, popularity=popularity, min_popularity=min_popularity
    )
    if facts is not None and thresholds != SelectionOptions():
        raise ConfigError("--facts brings its own thresholds; leave --preset and the thresholds out")
    _explain_facts(what[0], what[1], property, json_, facts=facts, thresholds=thresholds, spread=spread)


def _check_number(what: list[str]) -> None:
    if not 2 <= len(what) <= 3:
        raise ConfigError(f"{len(what)} arguments: give a snapshot, or the old and the new one, and the id of an item")
    if len(what) == 2 and Path(what[1]).is_dir():
        raise ConfigError(f"{what[1]} is a snapshot; give the id of an item behind it, such as Q76")


def tell_missing(snapshots: "Sequence[Snapshot]", relations: set[str]) -> None:
    """Say where a snapshot lacks the property entities that rules need."""
    from anachron.wikidata.selection.lookups import missing_rules

    for snapshot in snapshots:
        if (missing := missing_rules(snapshot, relations)) is not None:
            say(missing)


def _explain_facts(
    snapshot: str, entity: str, property: str | None, json_: bool, *, facts: Path | None,
    thresholds: SelectionOptions, spread: SpreadOptions,
) -> None:  # fmt: skip
    from anachron.report.terminal.tables import explanation_table
    from anachron.wikidata.reading.snapshot import open_snapshot
    from anachron.wikidata.selection.explain import explain_entity

    opened = open_snapshot(snapshot)
    with progress_bar("buckets") as progress:
        explained = explain_entity(
            opened, entity, thresholds.selection(), property=property, facts=facts, spread=spread.over(progress)
        )
    tell_missing([opened], {verdict.property_id for verdict in explained.verdicts})
    verdicts = [asdict(verdict) for verdict in explained.verdicts]
    kept = sum(verdict.kept for verdict in explained.verdicts)
    if json_:
        print_json({"entity": explained.entity, "kept": kept, "statements": verdicts})
        return
    if verdicts:
        stdout().print(explanation_table(explained.entity, verdicts))
    elif explained.entity["title"] is None:
        say(f"{entity} has no title in {opened.manifest['options']['wiki']}, so the snapshot holds no statements of it")
    say(f"{kept:,} of {len(verdicts):,} statements of {entity} are kept as facts")


def _explain_changes(
    what: list[str], property: str | None, json_: bool, *, all_: bool, settings: "UpdateSettings",
    redirects: Path | None, cloze: Path | None,
) -> None:  # fmt: skip
    from anachron.report.terminal.tables import changes_table
    from anachron.text.cloze import read_cloze
    from anachron.wikidata.reading.snapshot import open_snapshot
    from anachron.wikidata.updates.explain import explain_changes
    from anachron.wikidata.updates.redirects import read_redirects

    old, new, entity = what
    merged = None if redirects is None else read_redirects(redirects)
    explained = explain_changes(
        old, new, entity, settings, property=property, redirects=merged,
        relations_with_templates=None if cloze is None else read_cloze(cloze),
    )  # fmt: skip
    changes = [asdict(change) for change in explained.changes if all_ or change.is_changed]
    summary = explained.summary()
    tell_missing([open_snapshot(old), open_snapshot(new)], {change.property_id for change in explained.changes})
    if json_:
        print_json({"entity": explained.entity, "is_new": explained.is_new, "summary": summary, "statements": changes})
        return
    if explained.changes:
        for line in _summary_lines(entity, summary):
            stdout().print(line, markup=False)
    if changes:
        stdout().print(changes_table(explained.entity, explained.is_new, changes))
    elif not explained.changes:
        of_property = f" of {property}" if property is not None else ""
        into = f"; it was merged into {merged[entity]}; ask for that one" if merged and entity in merged else ""
        say(f"neither snapshot holds a statement{of_property} of {entity} as a subject{into}")


def _summary_lines(entity: str, summary: dict[str, Any]) -> list[str]:
    sides = summary["sides"]
    first = (
        f"{summary['statements']:,} statements of {entity}: {sides['old']:,} in the old snapshot only, "
        f"{sides['new']:,} in the new one only, {sides['both']:,} in both; {summary['changed']:,} changed (--all shows "
        "the others too)"
    )
    return [first, *(f"  {number:,} {outcome}" for outcome, number in summary["outcomes"].items())]
