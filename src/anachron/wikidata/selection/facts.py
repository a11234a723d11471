"""``build facts``: a selection written to a file, with its manifest."""

from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import Any

from anachron.core.errors import ConfigError, DataError
from anachron.data.facts import as_own_facts, told_apart
from anachron.io.cluster import Spread
from anachron.io.files import Json, file_fingerprint, read_json, write_manifest
from anachron.io.stores import Place, place
from anachron.io.tables import write_table
from anachron.wikidata.reading.snapshot import POPULARITY, Snapshot, open_snapshot
from anachron.wikidata.selection.cited import missing_revisions
from anachron.wikidata.selection.lookups import has_popularity, missing_objects, missing_rules
from anachron.wikidata.selection.rules import Selection
from anachron.wikidata.selection.rules import preset as preset_named
from anachron.wikidata.selection.select import Selected, emptied_by, select_facts, with_thresholds
from anachron.wikidata.selection.stages import Cut, no_minimum

COMMAND = "build facts"


def build_facts(
    snapshot: Snapshot | Place | str,
    out: Place | str,
    settings: Selection | None = None,
    *,
    preset: str | None = None,
    spread: Spread | None = None,
    warn: Callable[[str], None] = lambda message: None,
) -> Selected:
    """Select the facts of a snapshot and write them (.parquet or .jsonl) with ``<out>.manifest.json``.

    A .csv is a file of facts as `anachron.check` reads it (`as_own_facts`).
    settings: by default those of TimeStress; see `selection_named`. preset: the name that they started from, for the
    manifest. warn: told what a reader of the facts must know.

    Returns what was written. Raises `DataError` when nothing is left, naming the step that dropped the last
    statements; then nothing is written.
    """
    snapshot, out, settings = open_snapshot(snapshot), place(out), settings or Selection()
    check_out(out, settings)
    if snapshot.folder.resolve() in out.resolve().parents:
        raise ConfigError(f"{out} lies in the snapshot itself; choose another --out")
    if snapshot.manifest["options"].get("limit") is not None:
        warn(
            f"{snapshot.folder} was cut by --limit: where it lacks properties or their classes, meta properties and "
            "restrictive qualifiers pass"
        )
    for missing in filter(None, (missing_rules(snapshot), missing_revisions(snapshot))):
        warn(missing)
    selected = select_facts(snapshot, settings, spread=spread, work=out.parent)
    if not selected.facts.height:
        raise DataError(f"no fact of {snapshot.folder} is left: {_why_none(snapshot, selected.steps)}")
    read = [snapshot.folder / "manifest.json"]
    if settings.popularity and has_popularity(snapshot):
        read.append(snapshot.folder / POPULARITY)
    inputs = {str(path): file_fingerprint(path) for path in read}
    table = selected.facts
    if out.suffix == ".csv":
        apart = told_apart(table)
        alike = f"{table.height - apart.height:,} facts are left out of {out}: in them one name stands for two entities"
        if not apart.height:
            raise DataError(f"{alike}, and there are no others; choose other items or relations")
        if apart.height < table.height:
            warn(alike)
        selected, table = replace(selected, facts=apart), as_own_facts(apart)
    write_table(out, table)
    parameters = {"preset": preset, **asdict(settings)}
    counts = {"facts": selected.facts.height, "cut": selected.cut.as_json(), "steps": selected.steps}
    write_manifest(out, command=COMMAND, parameters=parameters, inputs=inputs, counts=counts)
    if no_minimum(settings, selected.cut):
        unknown = selected.facts["popularity"].null_count()
        warn(f"not more than {settings.more_than:,} facts, so all are kept, {unknown:,} without page views among them")
    elif settings.lowers_threshold and not selected.cut.threshold:
        unknown = next(sum(step["dropped"].values()) for step in selected.steps if step["step"] == "page views")
        warn(f"all facts with page views are kept, as few are popular; {unknown:,} without any are left out")
    return selected


def check_out(out: Place, settings: Selection) -> None:
    """Raise `ConfigError` for a file that cannot hold the facts of these settings."""
    if out.suffix not in (".parquet", ".jsonl", ".csv"):
        raise ConfigError(f"{out}: write .csv for check, .parquet or .jsonl for verbalize")
    if settings.still_held and out.suffix != ".csv":
        raise ConfigError(
            f"{out}: questions of verbalize need an end, and facts that still hold (--still-held, --preset dated) have "
            "none; leave them out, or write a .csv with build facts"
        )


def _why_none(snapshot: Snapshot, steps: list[Json]) -> str:
    """Why nothing was selected, and what to do."""
    why = emptied_by(steps)
    if "the step 'labels'" in why and (missing := missing_objects(snapshot)) is not None:
        return f"{why}; {missing}"
    if any(step["statements_in"] for step in steps):
        return f"{why}; change what that step asks for, or look at single entities with `anachron wikidata explain`"
    options = snapshot.manifest["options"]
    wiki, cuts = options.get("wiki"), [f"--{name}" for name in ("limit", "entities") if options.get(name) is not None]
    title = "" if wiki in (None, "all") else f" and a title in {wiki}"
    another = [*([] if not title else ["with another --wiki"]), *(f"without {cut}" for cut in cuts)]
    return (
        f"{why}, as it has no item with statements{title}; ingest "
        f"{' or '.join(['another dump', *(f'the same {change}' for change in another)])}"
    )


def selection_named(name: str, **thresholds: Any) -> Selection:
    """The selection of a preset (``timestress`` or ``robustness-2025``) with the thresholds that are not None.

    thresholds: fields of `anachron.wikidata.selection.rules.Selection`. Raises `ConfigError` for an unknown preset and
    for thresholds that do not go together.
    """
    return with_thresholds(preset_named(name), **thresholds)


def selection_of(facts: Place, snapshot: Snapshot) -> tuple[Selection, Cut]:
    """Settings and cut of a finished ``build facts`` of this snapshot, from the manifest of its file.

    Raises `DataError` where there is no such manifest, and `ConfigError` where it is of another snapshot or other page
    views.
    """
    manifest = read_json(f"{facts}.manifest.json")
    if not isinstance(manifest, dict) or manifest.get("command") != COMMAND:
        raise DataError(f"{facts}.manifest.json is not one of `anachron {COMMAND}`; name a file that it wrote")
    if file_fingerprint(snapshot.folder / "manifest.json") not in manifest["inputs"].values():
        raise ConfigError(f"{facts} was not selected from {snapshot.folder}; name the facts of this snapshot")
    given = {name: value for name, value in manifest["parameters"].items() if name != "preset"}
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    known = {field.name for field in fields(Selection)}
    if set(given) != known:
        raise DataError(f"{facts} was selected by another version of Anachron; repeat `anachron {COMMAND}`")
    views = snapshot.folder / POPULARITY
    read = [one for name, one in manifest["inputs"].items() if name.endswith(views.name)]
    if given["popularity"] and read != ([file_fingerprint(views)] if views.is_file() else []):
        raise ConfigError(
            f"{facts} was cut by other page views than {views} holds now; repeat `anachron {COMMAND}` and name its file"
        )
    return Selection(**given | lists), Cut.from_json(manifest["counts"]["cut"])
