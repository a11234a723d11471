"""From a snapshot to dated facts, bucket by bucket, with what every step dropped and why (``build facts``)."""

import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.data.facts import FACTS_SCHEMA, OTHER_PERIODS
from anachron.io.cluster import Spread, check_shared, connected, map_in_order
from anachron.io.files import Json, remove_file
from anachron.io.jobs import locked
from anachron.io.stores import Place, remove_tree
from anachron.io.tables import write_table
from anachron.text.kinds import kind_of
from anachron.wikidata.reading.snapshot import Snapshot, check_table, readable
from anachron.wikidata.selection.cited import with_citations
from anachron.wikidata.selection.lookups import (
    Lookups,
    all_barred,
    entity_rows,
    find_lookups,
    has_popularity,
    read_popularity,
)
from anachron.wikidata.selection.rules import Rules, Selection, Stage
from anachron.wikidata.selection.stages import (
    Cut,
    cut_stage,
    entity_stage,
    find_cut,
    period_stage,
    with_popularity,
)
from anachron.wikidata.selection.tally import (
    Tally,
    alive_rows,
    compact,
    count_steps,
    judge_rows,
    scan_statements,
    tally_of,
)

# The first step that selects; the steps before it clean, and what they leave counts as another object of a fact.
FIRST_SELECTING = "dated relations of entities"
ENTITY_COLUMNS = ("id", "label", "description", "title", "classes", "created")
COLUMNS = (
    "subject", "property", "statement_id", "rank", "datatype", "snak", "value_type", "value", "start", "end",
    "qualifiers",
)  # fmt: skip
SMALL = 1_000_000  # statements of a snapshot that is selected from before it is known whether page views are needed
WORK, LOCK, BARRED = ".selecting-", ".lock", "barred.parquet"  # the folder of a selection that goes on, and in it
PROPERTY_COLUMNS = ("id", "label", "description", "datatype", "classes")


@dataclass(frozen=True)
class Selected:
    """What `select_facts` found.

    facts: columns of `anachron.data.facts.FACTS_SCHEMA`, by falling popularity, then by id.
    steps: one a step: ``step, statements_in, dropped {reason: statements}, statements_kept, subjects_in,
        subjects_dropped, subjects_kept``.
    cut: where popularity cut.
    """

    facts: pl.DataFrame
    steps: list[Json]
    cut: Cut


def select_facts(
    snapshot: Snapshot, settings: Selection, *, spread: Spread | None = None, work: Place | None = None
) -> Selected:
    """The dated facts of a snapshot under the given settings.

    work: a folder that all workers see, for a temporary table; by default this machine's folder for such.

    Memory holds a slice of statements, the dated ones of a bucket, and all that have a closed period long enough. The
    same facts come out whatever the number of workers and buckets. Where a least popularity is searched for and
    there are not more facts than shall pass, all are kept. Raises `DataError` when the snapshot has no page
    views and popularity is to decide (with more than `SMALL` statements, before it is known whether it is), and when
    its tables cannot be read or do not hold what its manifest says.
    """
    rules = Rules(settings, snapshot.wiki)
    spread = spread or Spread()
    check_tables(snapshot)
    small = snapshot.manifest["counts"].get("statements", 0) <= SMALL
    if settings.popularity and (has_popularity(snapshot) or not (small and settings.lowers_threshold)):
        read_popularity(snapshot, ())  # before the long part
    with connected(spread.ray, spread.workers), _work_folder(work) as folder:
        check_shared([snapshot.folder / "manifest.json"], folder, spread.ray)
        return _Selecting(snapshot, rules, spread, folder / BARRED).run()


def check_tables(snapshot: Snapshot) -> None:
    """Raise `DataError` for a file that is cut off or lacks a column."""
    for table, needed in (("entities", ENTITY_COLUMNS), ("statements", COLUMNS)):
        for bucket in range(snapshot.buckets):
            check_table(snapshot.part(table, bucket), needed)
    check_table(snapshot.folder / "properties.parquet", PROPERTY_COLUMNS)
    check_table(snapshot.folder / "classes.parquet", ("child", "parent"))


@contextmanager
def _work_folder(parent: Place | None) -> Iterator[Place]:
    """A folder that goes with the block, of which a lock says that its process lives; those of killed ones go, too."""
    if parent is None:
        with tempfile.TemporaryDirectory(prefix=WORK) as name:
            yield Path(name)
        return
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BackendError(f"cannot write to {parent}: {error.strerror}; choose another --out") from error
    _remove_abandoned(parent)
    folder = parent / f"{WORK}{secrets.token_hex(4)}"
    try:
        with locked(folder / LOCK, folder):
            yield folder
    finally:
        _remove(folder)


def _remove(folder: Place) -> None:
    """Remove a work folder with its table, which a store may not list yet."""
    remove_file(folder / BARRED)
    remove_tree(folder, ignore_errors=True)


def _remove_abandoned(parent: Place) -> None:
    """Remove the work folders that killed processes left; on a store those of other machines' processes stay."""
    for folder in parent.iterdir():
        if folder.name.startswith(WORK) and (folder / LOCK).is_file():
            try:
                with locked(folder / LOCK, folder):
                    pass
            except (ConfigError, BackendError):  # its process is at work, or it is another user's
                continue
            _remove(folder)


class _Selecting:
    """One selection while it goes on."""

    def __init__(self, snapshot: Snapshot, rules: Rules, spread: Spread, barred: Place) -> None:
        self.snapshot, self.rules, self.spread, self.barred = snapshot, rules, spread, barred
        self.tally = Tally()

    def run(self) -> Selected:
        parts = list(self._buckets())
        alive = pl.concat(parts)
        self._check_alive(alive)
        ids = pl.concat([alive["subject"], alive["value"]]).unique().to_list()
        about = entity_rows(self.snapshot, ids, ["id", "label", "description", "created", "classes"])
        alive = self._stage(entity_stage(alive, about, self.rules), "entities")
        settings = self.rules.settings
        decides = settings.popularity and not (settings.lowers_threshold and alive.height <= settings.more_than)
        views, cut = pl.DataFrame(schema={"id": pl.String, "popularity": pl.Float64}), Cut()
        if decides or (settings.popularity and has_popularity(self.snapshot)):
            views = read_popularity(self.snapshot, ids)
        alive = with_popularity(alive, views)
        if decides:
            alive = self._stage(self.rules.judge(alive, "popularity"), "popularity")
            cut = find_cut(alive, settings)
            alive = self._stage(cut_stage(alive, cut, self.rules), "cut")
        kinds = {id: kind_of(classes or ()) for id, classes in about.select("id", "classes").iter_rows()}
        cited = with_citations(self.snapshot, alive)
        return Selected(_as_facts(cited, settings, kinds), self._steps(), cut)

    def _buckets(self) -> Iterator[pl.DataFrame]:
        """The rows of each bucket that the first two stages leave, in order, while counting the others."""
        total, settings = self.snapshot.buckets, self.rules.settings
        write_table(self.barred, all_barred(self.snapshot, settings.barred_words))
        lookups = find_lookups(self.snapshot, settings.class_depth)
        tasks = ((self.snapshot, self.rules, lookups, self.barred, bucket) for bucket in range(total))
        results = map_in_order(judge_bucket, tasks, self.spread.workers, self.spread.ray)
        for done, (tally, alive) in enumerate(results, 1):
            self.tally.add(tally)
            self.spread.progress(done, total)
            yield alive

    def _stage(self, judged: pl.DataFrame, stage: Stage) -> pl.DataFrame:
        self.tally.go_on(tally_of(judged, self.rules))
        alive = judged.filter(pl.col("dropped").is_null()).drop("dropped")
        self._check_alive(alive)
        return alive

    def _check_alive(self, alive: pl.DataFrame) -> None:
        counted = self.tally.statements[None], self.tally.subjects[None]
        in_table = alive.height, alive["subject"].n_unique()
        if counted != in_table:
            raise AssertionError(f"statements and subjects kept: {counted} by the counts, {in_table} in the table")

    def _steps(self) -> list[Json]:
        steps = count_steps(self.tally, self.rules)
        stated = self.snapshot.manifest["counts"].get("statements", 0)
        if steps[0]["statements_in"] != stated:
            raise DataError(
                f"{self.snapshot.folder} holds {steps[0]['statements_in']:,} statements, its manifest says {stated:,}; "
                "the snapshot is damaged, ingest again"
            )
        return steps


def judge_bucket(task: tuple[Snapshot, Rules, Lookups, Place, int]) -> tuple[Tally, pl.DataFrame]:
    """Rows of a bucket that its own tables cannot drop, with ``other_objects``, and the counts of the others.

    task: with a file of all barred entities (``id``), and the number of the bucket. The statements are judged in
    slices, so memory does not grow with them.
    """
    snapshot, rules, lookups, barred, bucket = task
    with readable(f"{snapshot.folder}: bucket {bucket} of statements or entities"):
        table = scan_statements(snapshot, bucket, COLUMNS)
        tally, rows = alive_rows(snapshot, bucket, table, barred, lookups, rules, leave_out=("qualifiers", "title"))
        second = period_stage(rows, table, rules)
        tally.go_on(tally_of(second, rules))
        alive_now = second.filter(pl.col("dropped").is_null()).drop("dropped", "start", "end")
        pairs = alive_now.lazy().select("subject", "property").unique()
        of_pairs = table.join(pairs, on=["subject", "property"], how="semi")
        others = count_objects(judge_rows(snapshot, bucket, of_pairs, barred, lookups, rules), rules)
        return tally, compact(with_other_objects(alive_now, others.collect(engine="streaming")))


def count_objects(judged: pl.LazyFrame, rules: Rules) -> pl.LazyFrame:
    """Distinct known values of each subject and property among the statements that the cleaning leaves."""
    first = next(step for step in rules.steps if step.name == FIRST_SELECTING).reasons[0].code
    clean = judged.filter(pl.col("dropped").is_null() | (pl.col("dropped") >= first))
    return clean.group_by("subject", "property").agg(pl.col("value").n_unique().alias("objects"))


def with_other_objects(alive: pl.DataFrame, objects: pl.DataFrame) -> pl.DataFrame:
    """``other_objects``: distinct objects of the same subject and relation, the row's own aside."""
    joined = alive.join(objects, on=["subject", "property"], how="left", maintain_order="left")
    return joined.with_columns((pl.col("objects").cast(pl.Int64) - 1).alias("other_objects")).drop("objects")


def emptied_by(steps: list[Json]) -> str:
    """The step that left nothing, in words, for a selection that is empty."""
    step = next((s for s in steps if not s["statements_kept"]), None)
    if step is None or not step["statements_in"]:
        return "the snapshot has no statements"
    reasons = ", ".join(f"{count:,} because {reason}" for reason, count in step["dropped"].items() if count)
    return f"the step {step['step']!r} dropped the last {step['statements_in']:,} statements ({reasons})"


def _as_facts(alive: pl.DataFrame, settings: Selection, kinds: Mapping[str, str | None]) -> pl.DataFrame:
    """Statements that passed everything, as facts by falling popularity, then by id. kinds: of their subjects."""
    names = {"subject": "subject_id", "property": "relation_id", "value": "object_id", "start_date": "start"}
    facts = alive.rename(names | {"end_date": "end"})
    if facts["fact_id"].n_unique() != facts.height:
        raise AssertionError(f"{facts.height} facts have {facts['fact_id'].n_unique()} different ids")
    of_subject = pl.col("subject_id").replace_strict(kinds, default=None, return_dtype=pl.String)
    facts = facts.with_columns(of_subject.alias("subject_kind"))
    schema = FACTS_SCHEMA | ({"other_periods": OTHER_PERIODS} if settings.several_periods == "keep" else {})
    ranked = facts.sort("popularity", "fact_id", descending=[True, False], nulls_last=True)
    return ranked.select(pl.col(name).cast(kind) for name, kind in schema.items())


def with_thresholds(settings: Selection, **given: object) -> Selection:
    """A preset with the thresholds that were given, those that are not None, in the place of its own.

    A fixed least popularity, or strata, take the place of the most popular of each relation, and popularity turned off
    of all.
    Raises `ConfigError` for thresholds that cannot be, and for one that looks for the least popularity where another
    setting decides.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    instead = {"min_popularity", "per_stratum"} & set(chosen) or chosen.get("popularity") is False
    if "top_per_relation" not in chosen and instead:
        chosen["top_per_relation"] = None
    result = replace(settings, **chosen)  # type: ignore[arg-type]
    searching = [name for name in ("more_than", "highest_popularity", "popularity_step") if name in chosen]
    if searching and not result.lowers_threshold:
        if not result.popularity:
            decides = "popularity, which is turned off"
        elif result.min_popularity is not None:
            decides = f"a search, and min popularity {result.min_popularity:g} fixes what it would find"
        elif result.per_stratum is not None:
            decides = f"a search, and per stratum {result.per_stratum} decides without one"
        else:
            decides = f"a search, and top per relation {result.top_per_relation} decides without one"
        words = searching[0].replace("_", " ")
        raise ConfigError(f"{words} {chosen[searching[0]]} needs {decides}; leave out one of them")
    return result
