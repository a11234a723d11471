"""The page of an evaluation of edits: the methods' tables, and each update before and after on one scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

import polars as pl

from anachron.analysis.plots.words import counted
from anachron.evaluate.results import KEYS, UNEDITED, method_label
from anachron.io.files import Json, versions
from anachron.report.edits.tables import Layout, edit_notes, printed
from anachron.report.page.render import in_page, manifest_parts

WIDTH, HEIGHT, EDGE = 300, 34, 8  # of a sketch, in pixels
LEAST = 1e-12  # smaller probabilities are drawn at it
SHOWN, FALL = 10, 0.05  # facts of a method that fell: how many are shown, and from how much of p(true)
SIDES = (("new", 10), ("old", 24))  # what is drawn in a sketch, and how far down


@dataclass(frozen=True)
class Moved:
    """What one method did to one update: probabilities of the new and the old object before and after, None where not
    known; ``reason`` is why it could not be made."""

    update: str
    new: tuple[float | None, float | None]
    old: tuple[float | None, float | None]
    reason: str | None

    @property
    def preferred(self) -> tuple[bool | None, bool | None]:
        """Whether the new object was likelier than the old one, before and after; None where one is not known."""
        sides = zip(self.new, self.old, strict=True)
        before, after = (None if new is None or old is None else new > old for new, old in sides)
        return before, after


@dataclass(frozen=True)
class Kept:
    """A fact that an edit was to leave alone: probabilities of its true object and of the update's new one, before and
    after, None where not known."""

    fact: str
    update: str
    true: tuple[float | None, float | None]
    new: tuple[float | None, float | None]

    @property
    def fall(self) -> float:
        """By how much its true object has become less likely, 0 where that is not known."""
        before, after = self.true
        return 0.0 if before is None or after is None else before - after

    @property
    def lost(self) -> bool | None:
        """Whether the new object has overtaken the true one; None where that is not known, or it was ahead before."""
        (true, true_after), (new, new_after) = self.true, self.new
        if true is None or new is None or true_after is None or new_after is None or new >= true:
            return None
        return new_after >= true_after


def moves(targets: pl.DataFrame, updates: pl.DataFrame, names: Mapping[str, str]) -> dict[str, list[Moved]]:
    """Method -> its updates in the order of the run, of which targets has the update prompts' probabilities.

    names: of updates by ``case_id``; one that has none is called by its id. Several modes are told apart.
    """
    scores = targets.filter(pl.col("kind") == "update").drop("kind", "prompt_number")
    joined = updates.join(scores, on=KEYS, how="left", nulls_equal=True, maintain_order="left")
    found: dict[str, list[Moved]] = {}
    for row in _of_methods(joined).iter_rows(named=True):
        new, old = ((row[f"{side}_before"], row[f"{side}_after"]) for side, _ in SIDES)
        moved = Moved(names.get(row["case_id"], f"update {row['case_id']}"), new, old, row["reason"])
        found.setdefault(row["label"], []).append(moved)
    return found


def keeps(
    neighbours: pl.DataFrame, names: Mapping[str, str], facts: Mapping[tuple[str, str, int], str]
) -> dict[str, list[Kept]]:
    """Method -> the facts beside its updates, in the order of the run. names: as of `moves`. facts: their names by
    ``case_id``, ``kind`` and ``number``."""
    found: dict[str, list[Kept]] = {}
    for row in _of_methods(neighbours).iter_rows(named=True):
        update = names.get(row["case_id"], f"update {row['case_id']}")
        fact = facts.get((row["case_id"], row["kind"], row["number"]), f"{row['kind']} fact {row['number'] + 1}")
        true, new = (row["before"], row["after"]), (row["new_before"], row["new_after"])
        found.setdefault(row["label"], []).append(Kept(fact, update, true, new))
    return found


def _of_methods(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of edits with ``label``: their method, and their mode where there are several."""
    several = rows["mode"].n_unique() > 1
    label = pl.format("{} ({})", method_label(), "mode") if several else method_label()
    return rows.filter(pl.col("method") != UNEDITED).with_columns(label.alias("label"))


def broke(method: str, kept: Sequence[Kept]) -> Json:
    """What a method broke: in a line, and the facts that it took, then those that fell by `FALL`, the worst first."""
    compared = [lost for one in kept if (lost := one.lost) is not None]
    worse = [one for one in kept if one.lost or one.fall >= FALL]
    fell = sum(one.fall >= FALL for one in kept)
    said = (
        f"{method}: in {sum(compared):,} of {counted(len(compared), 'fact')} beside the updates the new object has "
        f"overtaken the true one; {fell:,} of {len(kept):,} became less likely by {FALL:g} or more"
    )
    shown = sorted(worse, key=lambda one: (not one.lost, -one.fall))[:SHOWN]
    rows = [
        {"fact": one.fact, "update": one.update}
        | {name: " → ".join(map(_p, getattr(one, name))) for name in ("true", "new")}
        for one in shown
    ]
    return {"said": said, "rows": rows, "more": len(worse) - len(rows)}


def said(method: str, made: Sequence[Moved]) -> str:
    """What a method did to its updates, in a line: ``ROME: the new object comes before the old one in 45 of 50``."""
    known = [both for one in made if None not in (both := one.preferred)]
    failed = sum(one.reason is not None for one in made)
    lost = f"; {failed} could not be made" if failed else ""
    of = counted(len(known or made), "update")
    if not known:
        return f"{method}: {of}{lost}"
    before, after = (sum(bool(both[side]) for both in known) for side in (0, 1))
    wins = f"the new object is likelier than the old one in {after:,} of {of}, and in {before:,} before the edit"
    return f"{method}: {wins}{lost}"


def floor_of(made: Mapping[str, Sequence[Moved]]) -> int:
    """The power of ten at which the one scale of all sketches begins."""
    values = [p for some in made.values() for one in some for p in (*one.new, *one.old) if p is not None]
    return min(-1, floor(log10(max(LEAST, min(values, default=1.0)))))


def place(p: float, lowest: int) -> float:
    """Where a probability stands in a sketch, in pixels: the logarithm, from ``10 ** lowest`` to 1."""
    return round(EDGE + (WIDTH - 2 * EDGE) * (1 - max(log10(max(p, LEAST)), lowest) / lowest), 1)


def edits_data(
    record: Json, summaries: Mapping[str, tuple[pl.DataFrame, Layout]], made: Mapping[str, Sequence[Moved]],
    notes: Sequence[str], *, name: str, past: str | None = None, kept: Mapping[str, Sequence[Kept]],
) -> Json:  # fmt: skip
    """All that the page shows. name: of the run. past: a score table of past facts that the run wrote, if any. kept: of
    `keeps`."""
    lowest = floor_of(made)
    powers = range(0, lowest - 1, -max(1, -lowest // 3))
    tables = []
    for summary, layout in summaries.values():
        cells = printed(summary, layout)
        words = edit_notes(summary, layout)
        tables.append(
            {
                "title": layout.title,
                "source": layout.source,
                "columns": cells.columns,
                "rows": cells.rows(),
                "notes": words,
            }
        )
    return {
        "title": f"What edits did to {name}",
        "tables": tables,
        "methods": [
            {"said": said(method, some), "rows": [_row(one, lowest) for one in some]} for method, some in made.items()
        ],
        "broke": [broke(method, some) for method, some in kept.items()],
        "ticks": [(place(10.0**n, lowest), f"1e{n}" if n else "1") for n in reversed(powers)],
        "size": (WIDTH, HEIGHT),
        "notes": list(notes),
        "past": past,
        "run": (name, *manifest_parts(record)),
        "version": versions()["anachron"],
    }


def _row(one: Moved, lowest: int) -> dict[str, Any]:
    marks = []
    for side, y in SIDES:
        before, after = getattr(one, side)
        places = [None if p is None else place(p, lowest) for p in (before, after)]
        marks.append(
            {"side": side, "y": y, "before": places[0], "after": places[1], "told": f"{_p(before)} → {_p(after)}"}
        )
    return {"name": one.update, "reason": one.reason, "marks": marks}


def _p(p: float | None) -> str:
    return "–" if p is None else f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def render_edits(data: Json) -> str:
    """The page of `edits_data`: one HTML file without code."""
    return in_page("edits.html", data)
