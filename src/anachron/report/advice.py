"""Advice on updates in words, a table and a page: what each way gained and broke, and what the model then says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from anachron.advise.balance import BALANCE, PARTS
from anachron.advise.rule import in_words
from anachron.advise.run import ORACLE, Advised
from anachron.analysis.plots.words import counted
from anachron.analysis.statistics import MIN_CLUSTERS
from anachron.data.updates.case_records import EditCase
from anachron.evaluate.results import UNEDITED, method_label
from anachron.io.files import Json, versions, write_bytes, write_manifest
from anachron.report.outputs import write_printed
from anachron.report.page.render import in_page, manifest_parts
from anachron.report.table import UP, Column, Table, measured

PAGE = Path("report/index.html")
EXAMPLES = 3  # updates whose texts the page shows of each way
COLUMNS = (
    measured("Present", "present", UP, digits=0), measured("Past kept", "past", UP, digits=0),
    measured("W past", "past_win_rate", UP, digits=0), measured("R past", "past_robustness", UP, digits=0),
    measured("Others kept", "others", UP, digits=0), measured("Fluency kept", "fluency", UP, digits=0),
    measured("Balance", "balance", UP),
)  # fmt: skip
COSTS = ("seconds", "MB", "ms a question", "perplexity", "own passage found", "one taken back")
WIDTH, HEIGHT, EDGE = 760, 400, 46  # of the chart, in pixels
LABEL, LINE = 220, 16  # of a way's name and numbers beside its point
NOTES = (
    "× 100, mean [95 % interval] over updates. Present: the new object likelier than the old one, and generated, as "
    "asked and in other words. Past kept: the old one still likelier on dates before the change. W, R past: of the old "
    "fact, dates before the change against dates after it; they weigh nothing. Others kept: facts beside the updates "
    "with at least half of their probability. Balance: the weighted mean. The oracle is told which fact is asked; what "
    "it lacks are errors of reading.",
    "seconds, MB: to make all updates of the row together; ms a question: eight tokens of an answer, one at a time; "
    "own passage found: for the prompts of updates; what is missing are errors of retrieval.",
)


def gains_table(ways: pl.DataFrame) -> Table:
    """What each way gained and broke, of rows of `anachron.advise.run.Advised.ways`: a section a number of updates."""
    shown = [one for one in COLUMNS if ways[f"{one.of}_n"].sum()]
    return _table("What each way gained and broke", ways, {one.heading: one.cells(ways) for one in shown}, NOTES[0])


def costs_table(ways: pl.DataFrame) -> Table:
    """What each way costs, of the same rows; without the oracle, which nobody can have."""
    ways = ways.filter(pl.col("way") != ORACLE)
    costs = [_costs(row) for row in ways.iter_rows(named=True)]
    known = [place for place in range(len(COSTS)) if any(row[place] != "-" for row in costs)]
    return _table("What each way costs", ways, {COSTS[i]: [row[i] for row in costs] for i in known}, NOTES[1])


def _table(title: str, ways: pl.DataFrame, cells: dict[str, list[str]], note: str) -> Table:
    named = {"updates": [f"{size:,}" for size in ways["size"]], "way": [_way(name) for name in ways["way"]]}
    columns = [Column("updates", once=True), Column("way"), *(Column(n, number=True) for n in cells)]
    rows = [*zip(*named.values(), *cells.values(), strict=True)]
    return Table(title, columns, rows, [note], sections=ways["size"].to_list())


def _way(name: str) -> str:
    return "nothing" if name == UNEDITED else name


def _costs(row: Json) -> tuple[str, ...]:
    def number(name: str, digits: int, factor: float = 1.0) -> str:
        return "-" if row[name] is None else f"{row[name] * factor:,.{digits}f}"

    back = "-" if row["takes_back"] is None or row["way"] == UNEDITED else "yes" if row["takes_back"] else "no"
    return (
        number("seconds", 1), number("memory", 0, 1e-6), number("milliseconds", 0), number("perplexity", 1),
        "-" if row["found"] is None else f"{100 * row['found']:.0f} %", back,
    )  # fmt: skip


def advice_lines(found: Advised) -> list[str]:
    """The advice in words, the leads that it stands on, parts that are not known of all updates, and which ways were
    not judged, and why."""
    advice = found.advice
    lines = [f"for {counted(found.size, 'update')}: {advice.words}"]
    for row in advice.leads.iter_rows(named=True):
        if row["lead"] is not None:
            over = f"{row['lead']:+.2f} ({row['lead_low']:+.2f} to {row['lead_high']:+.2f})"
            lines.append(
                f"  {in_words(advice.best)} over {in_words(row['way'])}: {over}, on {counted(row['updates'], 'update')}"
            )
    if found.size > 1 and (edits := found.summary["edits"]) < MIN_CLUSTERS:
        made = "1 edit" if edits == 1 else f"{edits} edits"
        lines.append(f"  of {made} of {found.size:,} updates: the intervals hold for these, others may differ by more")
    row = found.ways.row(by_predicate=(pl.col("size") == found.size) & (pl.col("way") == UNEDITED), named=True)
    for part in PARTS:
        if (known := row[f"{part}_n"]) == 0 and found.summary["weights"][part]:
            lines.append(f"  {part}: not measured, so it weighs nothing")
        elif 0 < known < (of := row[f"{BALANCE}_n"]):
            lines.append(f"  {part}: known of {known:,} of {counted(of, 'update')}, and weighed in these alone")
    lines += [f"  not judged: {_way(way)}, {reason}" for way, reason in advice.not_judged.items()]
    return lines


def write_advice_page(found: Advised, cases: Sequence[EditCase], record: Json) -> Path:
    """Write the page of advice below its folder, and beside it the tables (``markdown/NAME.md``, ``latex/NAME.tex``);
    returns the page's path. cases: the updates, for the examples."""
    page = found.folder / PAGE
    for name, table in (("gains", gains_table(found.ways)), ("costs", costs_table(found.ways))):
        text = f"## {table.title}\n\n{table.markdown()}\n- {table.notes[0]}\n"
        write_printed(page.parent, name, text, table.latex(name, f"{table.title}; {table.notes[0]}"))
    write_bytes(page, in_page("advice.html", advice_data(found, cases, record)).encode())
    write_manifest(page, command="advise", parameters=record["settings"], inputs={}, counts={"updates": found.updates})
    return page


def advice_data(found: Advised, cases: Sequence[EditCase], record: Json) -> Json:
    """All that the page shows."""
    tables = (gains_table(found.ways), costs_table(found.ways))
    last = found.ways.filter(pl.col("size") == found.size)
    return {
        "title": f"How to bring {found.summary['model']} up to date", "lines": advice_lines(found),
        "advice_lines": None, "before_after": None,
        "points": chart_points(last, found.summary["weights"]), "size": (WIDTH, HEIGHT, EDGE), "updates": found.size,
        "tables": [
            {"columns": table.titles, "rows": table.rows, "notes": table.notes, "title": table.title}
            for table in tables
        ],
        "recommended": found.advice.recommended, "examples": examples(found, cases),
        "run": (found.folder.name, *manifest_parts(record)), "version": versions()["anachron"],
    }  # fmt: skip


def chart_points(ways: pl.DataFrame, weights: Json) -> list[Json]:
    """Where each way of one size stands: ``gained``, what it has more of the present than the unedited model, and
    ``broken``, what it has less of the other parts, in their weighted mean; a part that got better broke nothing."""
    rows = {row["way"]: row for row in ways.iter_rows(named=True)}
    nothing = rows[UNEDITED]
    points: list[Json] = []
    for way, row in rows.items():
        lost = {
            part: max(0.0, nothing[part] - row[part]) * weights[part]
            for part in PARTS[1:]
            if row[part] is not None and nothing[part] is not None
        }
        total = sum(weights[part] for part in lost)
        if row["present"] is None or nothing["present"] is None or not total:
            continue
        gained, broken = row["present"] - nothing["present"], sum(lost.values()) / total
        points.append({"way": _way(way), "gained": gained, "broken": broken, "oracle": way == ORACLE})
    return _placed(points)


def _placed(points: list[Json]) -> list[Json]:
    """With x and y in pixels, on axes from 0 (or the least gain) to the largest value, and labels kept apart."""
    most = max([0.1, *(point["broken"] for point in points)])
    high, low = max([0.1, *(p["gained"] for p in points)]), min([0.0, *(p["gained"] for p in points)])
    taken: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda p: (p["broken"], -p["gained"])):
        point["x"] = round(EDGE + (WIDTH - 2 * EDGE - LABEL) * point["broken"] / most, 1)
        point["y"] = round(HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (point["gained"] - low) / (high - low), 1)
        text, step = point["y"] + 4, LINE if point["y"] < HEIGHT / 2 else -LINE  # never out of the picture
        while any(abs(text - y) < LINE and abs(point["x"] - x) < LABEL for x, y in taken):
            text += step
        taken.append((point["x"], text))
        point["text_y"] = round(text, 1)
    return points


def examples(found: Advised, cases: Sequence[EditCase]) -> list[Json]:
    """What the model goes on with after the prompts of a few updates, in its own words, under each way."""
    generations = found.evaluations[found.size].tables.get("generations")
    if generations is None or not generations.height:
        return []
    own = generations.filter(pl.col("kind") == "update").with_columns(method_label().alias("way"))
    own = own.filter(pl.col("way").is_in(found.ways["way"].implode()))  # without those of an earlier call
    shown = []
    for case in [case for case in cases if case.case_id in set(own["case_id"])][:EXAMPLES]:
        of_case = own.filter(pl.col("case_id") == case.case_id)
        texts: list[dict[str, Any]] = [{"way": "nothing", "text": of_case["text_before"].drop_nulls().first()}]
        texts += [{"way": row["way"], "text": row["text_after"]} for row in of_case.iter_rows(named=True)]
        shown.append({"prompt": case.text, "new": case.new, "old": case.old, "texts": texts})
    return shown
