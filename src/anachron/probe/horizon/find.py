"""Until when a model learned (``horizon``): changes put to it, a curve fitted, a claimed cut-off tested."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from anachron.core.errors import ConfigError, DataError
from anachron.data.bundled.mini import MINI_CHANGES
from anachron.data.own.reading import Reading
from anachron.io.files import Json
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import RunFolder, reopen_run
from anachron.probe.backends import respondent_of
from anachron.probe.horizon.changes import Change, changes_of_table, sample
from anachron.probe.horizon.fit import Horizon
from anachron.probe.horizon.leak import Leak, check_claim, leak_after
from anachron.probe.horizon.measure import read_preferences
from anachron.probe.horizon.questions import changes_to_ask
from anachron.probe.horizon.read import read_changes
from anachron.probe.horizon.summary import (
    HorizonComparison,
    compare,
    curve_table,
    horizon_json,
    horizon_of,
    kinds_table,
    leak_json,
)
from anachron.probe.respondent import Respondent

if TYPE_CHECKING:
    from anachron.lm.scorer import Scorer
    from anachron.probe.run import ProbeSettings

ASKED, CHANGES_FILE, CURVE_FILE, KINDS_FILE, SUMMARY_FILE = (
    "asked", "changes.csv", "curve.csv", "kinds.csv", "horizon.json",
)  # fmt: skip
FIGURE, PAGE = "horizon", "index.html"
TWO_VALUED = ("alive or dead",)  # no third value can show whether a model knows the person at all


@dataclass(frozen=True)
class FoundHorizon:
    """What was found of one model. preferences: one row a change (`anachron.probe.horizon.measure.PREFERENCE_SCHEMA`).
    horizon: None of too few changes; leak: None where no cut-off was claimed."""

    folder: Path
    model: str
    preferences: pl.DataFrame
    horizon: Horizon | None
    leak: Leak | None
    kinds: pl.DataFrame | None = None

    @property
    def summary(self) -> Json:
        found: Json = {"model": self.model} | horizon_json(self.horizon, self.preferences)
        return found if self.leak is None else found | {"leak": leak_json(self.leak)}


def read_horizon_changes(
    name: Path | str = MINI_CHANGES, *, limit: int | None = None, callbacks: Callbacks | None = None,
    reading: Reading | None = None,
) -> list[Change]:  # fmt: skip
    """Changes to ask about, as of `read_changes`: the bundled ones, or those of a file.

    Of the bundled ones those are left out that have two possible values (`TWO_VALUED`). limit: a fixed random sample of
    so many. Raises `DataError` naming what is wrong with the file.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit {limit}: take 1 or more changes")
    table = read_changes(name, callbacks=callbacks, reading=reading)
    if str(name) == MINI_CHANGES:
        table = table.filter(~pl.col("relation").is_in(TWO_VALUED))
    return sample(changes_of_table(table), limit)


def find_horizon(
    model: "str | Scorer | Respondent",
    changes: Sequence[Change],
    out: Path | str,
    *,
    settings: "ProbeSettings | None" = None,
    claim: int | None = None,
    released: int | None = None,
    min_judged: float = 1.0,
    callbacks: Callbacks | None = None,
) -> FoundHorizon:
    """Ask a model about changes, and find out until when it learned.

    model: a loaded model, a name for `load_model`, or who answers (`anachron.ByAnswers`). changes: as of
    `read_horizon_changes`. out: the run folder, in which a killed run goes on; one that is done is read again and
    nothing is asked; what was asked is in its folder ``asked``. settings: of a model that is scored. claim, released:
    months since the year 0, for the test of a leak (`anachron.probe.horizon.leak`); min_judged: share (0 to 1) of the
    changes after the claim that must have been judged for a verdict.

    Writes ``changes.csv``, ``horizon.json`` and, of enough changes, ``curve.csv``, ``kinds.csv`` and the figure.
    Raises as `anachron.run_probe`, what the model raises, and `DataError` where no change can be asked.
    """
    callbacks, folder = callbacks or Callbacks(), Path(out)
    check_claim(claim, released)
    asked = changes_to_ask(changes)
    if len(asked) < len(changes):
        callbacks.warn(f"{len(changes) - len(asked)} of {len(changes)} changes have a relation without wordings")
    label, table = respondent_of(model, settings).prefer(asked, folder / ASKED, callbacks)
    return write_found_horizon(folder, label, table, claim, released, min_judged)


def is_horizon(folder: Path | str) -> bool:
    """Whether a folder holds a horizon that was found."""
    return all((Path(folder) / name).is_file() for name in (SUMMARY_FILE, CHANGES_FILE))


def read_horizon(
    folder: Path | str, *, claim: int | None = None, released: int | None = None, min_judged: float = 1.0
) -> FoundHorizon:
    """A horizon that was found, without its model: what was asked is read, and judged again.

    claim, released, min_judged: as of `find_horizon`; the tables of the folder are written anew. Raises `DataError` for
    a folder that is none, or whose tables are not as they were written.
    """
    if not is_horizon(folder):
        raise DataError(f"{folder}: no horizon here; give a folder that anachron horizon --out wrote")
    check_claim(claim, released)
    path = Path(folder)
    run = RunFolder.read(path / ASKED)
    if not run.is_done:
        raise DataError(f"{run.path}: the run is not finished; repeat its horizon command to go on")
    model, found = run.read_json(_beside(SUMMARY_FILE))["model"], run.read_table(_beside(CHANGES_FILE))
    try:
        table = read_preferences(found)
    except DataError as error:
        raise DataError(f"{path / CHANGES_FILE}: {error}") from None
    return write_found_horizon(path, model, table, claim, released, min_judged)


def write_found_horizon(
    folder: Path, model: str, table: pl.DataFrame, claim: int | None, released: int | None, min_judged: float
) -> FoundHorizon:
    """Judge a table of preferences and write what was found. Arguments as of `read_horizon`; model: its label."""
    leak = None if claim is None else leak_after(table, claim, released, min_judged=min_judged)
    horizon = horizon_of(table)
    kinds = None if horizon is None else kinds_table(table, horizon)
    found = FoundHorizon(folder, model, table, horizon, leak, kinds)
    with reopen_run(folder / ASKED) as run:
        run.write_table(_beside(CHANGES_FILE), table)
        if horizon is not None and kinds is not None:
            run.write_table(_beside(CURVE_FILE), curve_table(horizon))
            run.write_table(_beside(KINDS_FILE), kinds)
        run.write_json(_beside(SUMMARY_FILE), found.summary)
    return found


def _beside(name: str) -> str:
    """A file of the horizon as the record of what it rests on names it: that run lies in the folder `ASKED`."""
    return f"../{name}"


def compare_horizons(found: Sequence[FoundHorizon]) -> list[HorizonComparison]:
    """Every two of some models, on the changes that both were asked."""
    return [compare(a.model, a.preferences, b.model, b.preferences) for a, b in combinations(found, 2)]


def comparisons_json(found: Sequence[HorizonComparison]) -> list[Json]:
    return [asdict(one) for one in found]
