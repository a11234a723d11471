"""``build updates``: two snapshots to the update data set, with its manifest, card and companions."""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from anachron.core.errors import ConfigError, DataError
from anachron.data.card import card_of
from anachron.io.cluster import Spread, check_shared, connected, map_in_order
from anachron.io.files import Json, file_fingerprint, rows_fingerprint, write_bytes, write_manifest
from anachron.io.jobs import begin, discard, locked, parts_folder
from anachron.io.stores import Place, map_places, place
from anachron.io.tables import write_table
from anachron.text.cloze import Cloze
from anachron.text.dates import wording_of
from anachron.text.languages import cloze_in
from anachron.wikidata.reading.snapshot import POPULARITY, Snapshot, open_snapshot
from anachron.wikidata.selection.cited import missing_revisions
from anachron.wikidata.selection.lookups import missing_from, missing_rules, scan_popularity
from anachron.wikidata.selection.rules import Selection, Steps
from anachron.wikidata.selection.tally import Tally, count_steps
from anachron.wikidata.updates.card import card, statistics
from anachron.wikidata.updates.compare import Comparison, compare_bucket, created_of, move_triples
from anachron.wikidata.updates.groups import GroupCounts, Sieve, scenarios, wordable
from anachron.wikidata.updates.judge import kept_triples
from anachron.wikidata.updates.neighbours import find_neighbours
from anachron.wikidata.updates.popularity import kept_levels, log_popularity
from anachron.wikidata.updates.redirects import merged_by, write_redirects
from anachron.wikidata.updates.slices import buckets_within, split
from anachron.wikidata.updates.sources import sources_of
from anachron.wikidata.updates.table import EVERY, REPLACED, replacements, updates_table
from anachron.wikidata.updates.triples import Side, day_of, open_side, relation_types, update_steps
from anachron.wikidata.updates.words import put_in_words

COMMAND = "build updates"
ENDINGS = (".parquet", ".jsonl")
UNDECIDED, AS_PUBLISHED = "undecided", "published"  # dates known to the year or less


@dataclass(frozen=True)
class UpdateSettings:
    """What the updates depend on besides the snapshots.

    valid_at_date: drop values of functional relations that did not hold at their snapshot's date (WikiFactDiff, section
    4; its appendix A.1 and the published code keep them). coarse_dates: what becomes of a triple whose label depends on
    where in its year, month or decade a date lies: ``undecided``, or as ``published``, which takes the first day.
    label_unchanged: label also the groups whose triples are in both snapshots (``--unchanged-groups label``).
    neighbours: number of nearest facts per group. popularity: order by page views of the new snapshot, and write them.
    style: how dates in objects are worded, see `anachron.text.dates`; its language is that of the prompts.
    relations: make updates of these alone, of all where empty. seed: seed for random neighbours, the neighbours'
    prompts and the replacement subset. random_facts: what those of a replacement are drawn from, the facts nearest to
    the subset's ``replacements`` (WikiFactDiff, footnote 5) or to ``all`` updates; those of other updates are always
    drawn from all.
    """

    label_unchanged: bool = False
    neighbours: int = 10
    popularity: bool = True
    style: str = "american"
    seed: int = 0
    random_facts: str = REPLACED
    valid_at_date: bool = False
    coarse_dates: str = UNDECIDED
    relations: tuple[str, ...] = ()
    class_depth: int = Selection().class_depth
    barred_words: tuple[str, ...] = Selection().barred_words

    def __post_init__(self) -> None:
        wording_of(self.style)
        Selection(relations=self.relations, banned=())  # says which is none
        if self.random_facts not in (REPLACED, EVERY):
            raise ConfigError(f"random facts {self.random_facts!r}: choose {REPLACED} or {EVERY}")
        if self.coarse_dates not in (UNDECIDED, AS_PUBLISHED):
            raise ConfigError(f"coarse dates {self.coarse_dates!r}: choose {UNDECIDED} or {AS_PUBLISHED}")
        if self.neighbours < 0:
            raise ConfigError(f"neighbours {self.neighbours}: give 0 or more")

    @property
    def language(self) -> str:
        return wording_of(self.style).language


@dataclass(frozen=True)
class Built:
    """What `build_updates` wrote.

    sources: what each object of an update can be cited by (`anachron.wikidata.updates.sources.SOURCES`).
    steps: of the cleaning, ``{"old": [...], "new": [...]}`` as `anachron.wikidata.selection.tally.count_steps`. counts:
    the rest of what was counted on the way.
    """

    updates: pl.DataFrame
    replacements: pl.DataFrame
    created: pl.DataFrame
    sources: pl.DataFrame
    steps: dict[str, list[Json]]
    counts: Json


def companions(out: Place) -> dict[str, Place]:
    """The files beside the updates: the replacement subset, the new entities, the sources of all objects, the card."""
    named = {name: out.with_name(f"{out.stem}.{name}{out.suffix}") for name in ("replacements", "entities", "sources")}
    return named | {"card": card_of(out)}


def check_out(out: Place) -> None:
    """Raise `ConfigError` for what is no file of updates."""
    if out.suffix not in ENDINGS:
        raise ConfigError(f"{out}: updates hold lists; write {' or '.join(ENDINGS)}")
    if out.is_dir():
        raise ConfigError(f"{out} is a folder; name a file for --out")


def check_pair(old: Snapshot, new: Snapshot) -> None:
    """Raise `ConfigError` for snapshots that cannot be compared."""
    there, here = old.manifest["options"], new.manifest["options"]
    for name in ("wiki", "language", "limit", "entities"):
        if there.get(name) != here.get(name):
            raise ConfigError(
                f"{old.folder} was made with --{name} {there.get(name)!r}, {new.folder} with {here.get(name)!r}; only "
                "snapshots of the same filters can be compared, ingest one of them again"
            )
    if day_of(old) >= day_of(new):
        fix = "exchange --old and --new" if day_of(old) > day_of(new) else "take two of different dates"
        raise ConfigError(
            f"the old snapshot {old.folder} is of {old.manifest['date']}, the new one {new.folder} of "
            f"{new.manifest['date']}: the old one must be earlier; {fix}"
        )


def open_comparison(
    old: Snapshot, new: Snapshot, settings: UpdateSettings, work: Place, redirects: dict[str, str] | None = None
) -> Comparison:
    """What the buckets of two snapshots are compared by. Raises `ConfigError` for a pair that cannot be compared."""
    check_pair(old, new)
    old_side, new_side = (
        open_side(snapshot, work / f"barred-{name}.parquet", settings.barred_words, settings.class_depth)
        for name, snapshot in (("old", old), ("new", new))
    )
    return comparison_of(old_side, new_side, settings, work, redirects or {})


def comparison_of(old: Side, new: Side, settings: UpdateSettings, work: Place, redirects: dict[str, str]) -> Comparison:
    """What a worker must know to compare the two sides. work: folder of its files."""
    relations = relation_types(old.snapshot.properties(), new.snapshot.properties())
    if redirects:
        write_redirects(work / "redirects.parquet", redirects)
    return Comparison(
        old, new, steps=update_steps(new.snapshot.wiki, valid_at_date=settings.valid_at_date), relations=relations,
        work=work, label_unchanged=settings.label_unchanged, redirected=bool(redirects),
        valid_at_date=settings.valid_at_date, coarse_undecided=settings.coarse_dates == UNDECIDED,
    )  # fmt: skip


def compare(comparison: Comparison, spread: Spread) -> tuple[list[Json], pl.DataFrame, GroupCounts]:
    """Counts of each bucket, the labelled triples of all groups that are understood and changed, and their counts."""
    if comparison.redirected and not (comparison.work / "moved.parquet").is_file():
        move_triples(comparison, spread)
    tasks = ((comparison, bucket) for bucket in range(comparison.buckets))
    counts = []
    for of_bucket in map_in_order(compare_bucket, tasks, spread.workers, spread.ray):
        counts.append(of_bucket)
        spread.progress(len(counts), comparison.buckets)
    return counts, *kept_triples(comparison)


def build_updates(
    old: Snapshot | Place | str, new: Snapshot | Place | str, out: Place | str,
    settings: UpdateSettings | None = None, *, templates: dict[str, Cloze] | None = None,
    redirects: dict[str, str] | None = None, sources: Iterable[Place] = (), spread: Spread | None = None,
    memory: int | None = None, warn: Callable[[str], None] = lambda message: None,
) -> Built:  # fmt: skip
    """Write the updates between two snapshots (.parquet or .jsonl), with manifest, card and `companions`.

    templates: relation -> cloze templates, see `anachron.text.cloze.read_cloze`; by default this project's own, in
    the language of the style. redirects: item -> item it was merged into, see
    `anachron.wikidata.updates.redirects.read_redirects`; those that the new snapshot still has were merged later and
    are not followed. sources: the files that these two come from, for the manifest. memory: bytes that all workers of a
    machine may take together, by default 85 % of what it has, less what this process will hold
    (`anachron.wikidata.updates.slices.left_for_workers`); buckets that are too large for it are split first. warn:
    told what a reader of the updates must know.

    An interrupted call resumes from the work kept in a folder beside ``out``. Raises `ConfigError` for snapshots that
    cannot be compared and for unfinished work of other settings; `DataError` where nothing changed or page views are
    missing.
    """
    old, new, out, settings = open_snapshot(old), open_snapshot(new), place(out), settings or UpdateSettings()
    templates = cloze_in(settings.language) if templates is None else templates
    if templates is None:
        raise ConfigError(f"--style {settings.style}: no templates in {settings.language}; give --cloze FILE")
    check_out(out)
    if any(side.folder.resolve() in out.resolve().parents for side in (old, new)):
        raise ConfigError(f"{out} lies in a snapshot itself; choose another --out")
    check_pair(old, new)
    for missing in filter(None, (tell(side) for tell in (missing_rules, missing_revisions) for side in (old, new))):
        warn(missing)
    merged = merged_by(redirects or {}, missing_from(new, redirects or {}))
    if settings.popularity:
        scan_popularity(new)  # before the long part
    spread = spread or Spread()
    buckets_wanted = buckets_within(old, new, memory, spread)
    work = out.with_name(f".{out.name}.work")
    lock = out.with_name(f".{out.name}.lock")
    with locked(lock, out, remove=True), connected(spread.ray, spread.workers):
        check_shared([side.folder / "manifest.json" for side in (old, new)], out.parent, spread.ray)
        parts = parts_folder(work, begin(work, _identity(old, new, settings, templates, merged)))
        levels = kept_levels(new, parts) if settings.popularity else None
        slices = parts if buckets_wanted == math.lcm(old.buckets, new.buckets) else parts / f"buckets-{buckets_wanted}"
        comparison = open_comparison(*split(old, new, buckets_wanted, slices, spread), settings, slices, merged)
        buckets, kept, counts = compare(comparison, spread)
        worded = _worded(comparison, kept, counts, templates, settings)
        if not worded.height:
            discard(work)  # repeating would change nothing
            raise DataError(
                f"nothing that is understood changed between {old.folder} and {new.folder}: {_reasons(counts)}; look "
                "at single entities with `anachron wikidata explain OLD NEW ENTITY`"
            )
        near = find_neighbours(comparison, worded, settings.neighbours, settings.style, spread)
        ids = {*worded["subject"], *near["subject"]}
        views = {} if levels is None else log_popularity(new, ids, levels)
        updates = updates_table(
            worded, near, views.get, templates, settings.language, settings.seed, settings.random_facts
        )
        built = Built(
            updates,
            replacements(updates, settings.seed),
            created_of(comparison),
            sources_of(worded, updates, old, new),
            {side: _steps(buckets, side, comparison.steps) for side in ("old", "new")},
            _all_counts(buckets, counts) | {"merged": {"given": len(redirects or {}), "followed": len(merged)}},
        )
        read = [side.folder / "manifest.json" for side in (old, new)]
        read += [new.folder / POPULARITY] if settings.popularity else []
        _write(out, built, old, new, settings, [*read, *sources])
        discard(work)
    return built


def _identity(
    old: Snapshot, new: Snapshot, settings: UpdateSettings, templates: dict[str, Cloze], redirects: dict[str, str]
) -> Json:
    """What updates depend on, under the names that the command has for it."""
    named = asdict(settings)
    unchanged_groups = "label" if named.pop("label_unchanged") else "skip"
    return {
        "old": _fingerprint(old),
        "new": _fingerprint(new),
        "unchanged_groups": unchanged_groups,
        **named,
        "templates": rows_fingerprint([id, cloze.templates, cloze.past] for id, cloze in sorted(templates.items())),
        "redirects": rows_fingerprint(sorted(redirects.items())),
    }


def _fingerprint(snapshot: Snapshot) -> str:
    """Of the manifest and the sizes of all tables: enough to tell another snapshot, and one that was damaged."""
    begin = len(str(snapshot.folder)) + 1
    files = [*snapshot.files(), snapshot.folder / POPULARITY]
    sizes = zip(files, map_places(_size, files), strict=True)
    known = sorted([str(path)[begin:], size] for path, size in sizes if size is not None)
    return rows_fingerprint([file_fingerprint(snapshot.folder / "manifest.json"), *known])


def _size(path: Place) -> int | None:
    """Bytes of a file; None where there is none."""
    try:
        return int(path.stat().st_size)
    except FileNotFoundError:
        return None


def _worded(
    comparison: Comparison, kept: pl.DataFrame, counts: GroupCounts, templates: dict[str, Cloze],
    settings: UpdateSettings,
) -> pl.DataFrame:  # fmt: skip
    """The triples with words and ``scenario``, without groups that are not chosen or not wordable; counts go on."""
    old, new = comparison.old.snapshot, comparison.new.snapshot
    sieve = Sieve(put_in_words(kept, old, new, settings.style))
    if settings.relations:
        sieve.drop_groups("the relation is not among the chosen", ~pl.col("property").is_in(list(settings.relations)))
    wordable(sieve, templates)
    left = sieve.done()
    counts.go_on(sieve.counts)
    return left.join(scenarios(left), on="group", how="left", maintain_order="left")


def _reasons(counts: GroupCounts) -> str:
    dropped = [f"{groups:,} groups: {reason}" for reason, (groups, _) in counts.dropped.items() if groups]
    return "; ".join(dropped) or "no group of one subject and relation differs"


def _steps(buckets: list[Json], side: str, steps: Steps) -> list[Json]:
    total = Tally()
    for bucket in buckets:
        total.add(Tally.from_json(bucket[side]))
    return count_steps(total, steps)


def _all_counts(buckets: list[Json], groups: GroupCounts) -> Json:
    """Sums over the buckets, and what became of the groups."""
    total: dict[str, Any] = {}
    for name in ("triples", "changes", "groups", "subjects", "redirected"):
        names = {key for bucket in buckets for key in bucket[name]}
        total[name] = {key: sum(bucket[name].get(key, 0) for bucket in buckets) for key in sorted(names)}
    total["created"] = sum(bucket["created"] for bucket in buckets)
    return total | {"judged": asdict(groups)}


def _write(
    out: Place, built: Built, old: Snapshot, new: Snapshot, settings: UpdateSettings, sources: Iterable[Place]
) -> None:
    files = companions(out)
    tables = {"replacements": built.replacements, "entities": built.created, "sources": built.sources}
    for name, table in tables.items():
        write_table(files[name], table)
    inputs = {str(path): file_fingerprint(path) for path in sources}
    dates = {"old_date": old.manifest["date"], "new_date": new.manifest["date"]}
    parameters = {**dates, **asdict(settings)}
    write_table(out, built.updates)
    counts = {"statistics": statistics(built.updates), "steps": built.steps, **built.counts}
    write_manifest(out, command=COMMAND, parameters=parameters, inputs=inputs, counts=counts)
    for name, table in tables.items():
        write_manifest(
            files[name], command=COMMAND, parameters=parameters, inputs=inputs, counts={"rows": table.height}
        )
    about = card(out.name, built.updates, built.replacements, parameters, counts, [old.manifest, new.manifest])
    write_bytes(files["card"], about.encode())
