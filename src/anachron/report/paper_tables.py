"""What the tables of a paper show: the summary of a study, its other tables, and those of evaluated edits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from anachron.analysis.analyses.analysis import Analysis, InPaper
from anachron.analysis.metrics import POOLED, RUN_KEYS
from anachron.analysis.plots.charts import NAMES
from anachron.core.errors import ConfigError
from anachron.evaluate.results import UNEDITED, method_label
from anachron.report.edits.dated import COLUMNS as PORTABILITY_COLUMNS
from anachron.report.edits.dated import NAME as PORTABILITY
from anachron.report.edits.dated import TITLE as PORTABILITY_TITLE
from anachron.report.edits.dated import WORDS as PORTABILITY_WORDS
from anachron.report.edits.paired_tests import SAME
from anachron.report.edits.tables import WORDS, Layout, leading, same_in_all
from anachron.report.numbers import text_of
from anachron.report.outputs import remove_printed, write_printed
from anachron.report.paper import Numbers, PaperTable, paper_latex, paper_markdown, same_count
from anachron.report.table import DOWN, UP, Column

STYLES = ("plain", "paper")
BESIDE = 8  # columns of means that a page has room for, beside one of words
INTERVAL = "95 % intervals in brackets"
SUMMARY = "summary"
MOST_ROWS = 200  # of a table for print
UNITS = {  # of a heading: the factor and the decimals of its numbers
    "(%)": (100.0, 1), "(points)": (100.0, 1), "(nats)": (1.0, 2), "(days)": (1.0, 0), "(millions)": (1e-6, 1),
}  # fmt: skip
TOGETHER = ["all", "top"]  # what rows over several models or formats are called


def check_style(style: str) -> str:
    """The name of a style. Raises `ConfigError` for another one."""
    if style not in STYLES:
        raise ConfigError(f"--style {style!r}: choose {' or '.join(STYLES)}")
    return style


def summary_paper(summary: pl.DataFrame) -> PaperTable:
    """Rows of `anachron.analysis.metrics.summarise`: W and R in per cent, the best model at each granularity in
    bold."""
    same = [name for name in RUN_KEYS if summary[name].n_unique() == 1]
    words = {name: summary[name].to_list() for name in RUN_KEYS if name not in same}
    words["dates"] = summary["granularity"].to_list()
    facts = same_count(summary["facts"], "facts")
    if facts is None:
        words["n"] = [f"{count:,}" for count in summary["facts"]]
    bounds = _bounds_of(summary)
    shares = [_numbers(summary, name, f"{title} (%)", bounds.get(name)) for name, title in NAMES.items()]
    numbers = [replace(share, best="high") for share in shares]
    of_chance = replace(_numbers(summary, "random_robustness", "random R (%)", None), decimals=3)
    printed = set(map(of_chance.mean, range(summary.height)))
    chance = f"R {printed.pop()} %" if len(printed) == 1 else "R as in the last column"
    numbers += [] if chance.endswith("%") else [of_chance]
    about = [f"{name} {summary[name][0]}" for name in same] + ([facts] if facts else [])
    bold = " Bold: the best at each granularity of dates." if len(same) < len(RUN_KEYS) else ""
    caption = (
        f"Win rate W and robustness R, mean over facts ({', '.join(about)}; {INTERVAL}, over subjects). A "
        f"random scorer has W 50 % and {chance}.{bold}"
    )
    runs = summary.select(RUN_KEYS).rows()
    return PaperTable(SUMMARY, caption, words, numbers, summary["granularity"].to_list(), runs)


def edits_papers(summary: pl.DataFrame, layout: Layout) -> list[PaperTable]:
    """Rows of `anachron.evaluate.metrics.summarise` in the columns of a layout, as many of them a table as fit a page.

    Bold is the best edited model of a mode and scenario, and where edits accumulate of a number of edits; the unedited
    one is no competitor.
    """
    labelled = summary.with_columns(method_label())
    apart = leading(summary)
    words = {("n" if c == "done" else c): [text_of(value) for value in labelled[c]] for c in apart if c in WORDS}
    words |= {("n" if c == "done" else c): [text_of(value) for value in labelled[c]] for c in apart if c not in WORDS}
    sections = summary.select("mode", "scenario").rows()
    within = [c for c in ("mode", "scenario", "way", "edits") if c in summary.columns]
    edited = [method != UNEDITED for method in summary["method"]]
    compared = [row if one else None for row, one in zip(summary.select(within).rows(), edited, strict=True)]
    about = "; ".join(part for part in (same_in_all(summary), INTERVAL) if part)
    columns = layout.shown(summary)
    columns = [column for column in columns if summary[column.of].null_count() < len(summary)]
    beside = max(BESIDE - len(words) + 1, 1)
    parts = [columns[first : first + beside] for first in range(0, len(columns), beside)]
    return [
        PaperTable(
            layout.name if number == 0 else f"{layout.name}_{number + 1}",
            f"{layout.title} ({about}). {_units(part)} Bold: the best edited model.",
            words, [_column(summary, column) for column in part], compared, sections,
        )
        for number, part in enumerate(parts)
    ]  # fmt: skip


def _column(table: pl.DataFrame, column: Column) -> Numbers:
    scaled = [table[f"{column.of}{end}"] * column.factor for end in ("", "_low", "_high")]
    best = {UP: "high", DOWN: "low"}.get(column.direction)
    return Numbers(column.heading, list(zip(*scaled, strict=True)), column.digits, best)


def _units(columns: Sequence[Column]) -> str:
    plain = [column.title for column in columns if column.factor == 1]
    return f"Means × 100, but for {' and '.join(plain)}." if plain else "Means × 100."


def analysis_paper(analysis: Analysis, table: pl.DataFrame) -> PaperTable | None:
    """Any table of a study: a number and its bounds are one column; nothing is bold, as no end of a scale is better.

    The caption says what all rows have in common. None where no row has a number to show; else the rows without one
    are left out, and those that say once more what a row of a single model says.
    """
    columns = analysis.paper or _all_columns(table)
    counts = [name for name in columns.numbers if table.schema[name].is_integer()]
    results = [name for name in columns.numbers if name not in counts] or counts
    distinct = _without_repetitions(table)
    rows = distinct.filter(pl.any_horizontal(pl.col(results).cast(pl.Float64).is_finite())) if results else distinct
    if not rows.height:
        return None
    bounds = _bounds_of(rows)
    words = {heading: [_word(name, value) for value in rows[name]] for name, heading in columns.words.items()}
    shared = [heading for heading, cells in words.items() if len(set(cells)) == 1]
    if len(shared) == len(words):  # the one row needs a name
        shared.remove("model" if "model" in shared else shared[0])
    about = [f"{heading} {words.pop(heading)[0]}" for heading in shared]
    numbers = []
    for name, heading in columns.numbers.items():
        column = _numbers(rows, name, heading, bounds.get(name))
        if name == "facts" and (facts := same_count(rows[name], "facts")):
            about.append(facts)
        elif rows.height > 1 and rows[name].dtype.is_integer() and rows[name].n_unique() == 1:
            about.append(f"{heading} {column.mean(0)}")
        elif any(map(column.mean, range(rows.height))):
            numbers.append(column)
    details = [part for part in (", ".join(about), INTERVAL if {*bounds} & {*columns.numbers} else "") if part]
    if rows.height < distinct.height:
        details.append("rows without a number are left out")
    one = [None] * rows.height
    return PaperTable(analysis.name, _with_details(analysis.title, details), words, numbers, one, one)


def _with_details(title: str, details: Sequence[str]) -> str:
    if not details:
        return f"{title}."
    return f"{title[:-1]}; {'; '.join(details)})." if title.endswith(")") else f"{title} ({'; '.join(details)})."


def _all_columns(table: pl.DataFrame) -> InPaper:
    """Of an analysis that names none."""
    taken = {end for ends in _bounds_of(table).values() for end in ends}
    shown = [name for name in table.columns if name not in taken]
    number = {name for name in shown if table.schema[name].is_float() or name == "facts"}
    return InPaper(
        words={name: _words(name) for name in shown if name not in number},
        numbers={name: _words(name) for name in shown if name in number},
    )


def _without_repetitions(table: pl.DataFrame) -> pl.DataFrame:
    """Without the rows of models together where there is one alone, and those of the most robust models, or of all
    formats, that say the same as a row that tells more."""
    if "model" in table.columns:
        keys = [name for name in ("format", "prefix") if name in table.columns]
        alone = (pl.col("model") != POOLED).any() & (pl.col("model").filter(pl.col("model") != POOLED).n_unique() == 1)
        table = table.filter((pl.col("model") != POOLED) | ~(alone.over(keys) if keys else alone))
    together = [name for name in ("models", "group", "format") if table.schema.get(name) == pl.String]
    if not together:
        return table
    order = table.with_row_index("row").with_columns(
        vague=pl.sum_horizontal((pl.col(name).is_in(TOGETHER)).cast(pl.Int32) for name in together)
    )
    kept = (
        order.sort("vague", "row")
        .with_columns(first=pl.int_range(pl.len()).over(*(c for c in table.columns if c not in together)) == 0)
        .filter((pl.col("vague") == 0) | pl.col("first"))
    )
    return kept.sort("row").select(table.columns)


def _numbers(rows: pl.DataFrame, name: str, heading: str, ends: tuple[str, str] | None) -> Numbers:
    unit = heading[heading.rindex("(") :] if heading.endswith(")") else ""
    factor, decimals = UNITS.get(unit, (1.0, 3))
    if rows.schema[name].is_integer():
        factor, decimals = 1.0, 0
    scaled = [rows[column].cast(pl.Float64) * factor for column in (name, *(ends or ()))]
    values = [(*row, None, None)[:3] for row in zip(*scaled, strict=True)]
    return Numbers(heading, values, decimals, p=_is_p(name))


def _word(name: str, value: object) -> str:
    """What tells rows apart, as a cell."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if value == round(value) else f"{value:,.3g}"
    if name == "factor":
        return _words(str(value))
    return NAMES.get(str(value), str(value))


def _bounds_of(table: pl.DataFrame) -> dict[str, tuple[str, str]]:
    """Columns of numbers with those of their bounds: ``x_low, x_high``, or ``low, high`` right behind it."""
    names = table.columns
    found = {}
    for place, name in enumerate(names):
        if not table.schema[name].is_float():
            continue
        if {f"{name}_low", f"{name}_high"} <= set(names):
            found[name] = (f"{name}_low", f"{name}_high")
        elif names[place + 1 : place + 3] == ["low", "high"]:
            found[name] = ("low", "high")
    return found


def _is_p(name: str) -> bool:
    return name == "p" or name.endswith(("_p", "p_clustered"))


def _words(name: str) -> str:
    return name.replace("_", " ")


def paper_of_tests(tests: pl.DataFrame, name: str) -> PaperTable | None:
    """Rows of `anachron.evaluate.paired_tests.paired_tests`; None where there is none."""
    if not tests.height:
        return None
    rows = tests.with_columns(method_label())
    apart = [column for column in SAME if rows[column].n_unique() > 1]
    words = {column: rows[column].to_list() for column in (*apart, "method")}
    words["metric"] = [_words(metric) for metric in rows["metric"]]
    updates = same_count(rows["updates"], "updates")
    spec = {"unedited": "unedited (%)", "edited": "edited (%)", "difference": "difference (points)", "p": "p"}
    spec = spec if updates else {"updates": "updates", **spec}
    bounds = {"difference": ("low", "high")}
    numbers = [_numbers(rows, column, heading, bounds.get(column)) for column, heading in spec.items()]
    about = "; ".join(part for part in (updates, INTERVAL) if part)
    caption = (
        f"Edited models against the unedited one ({about}, paired by update). p: two-sided, exact McNemar of yes or no "
        "and sign flips otherwise, not corrected for the number of tests."
    )
    return PaperTable(name, caption, words, numbers, [None] * rows.height, rows.select(*SAME, "method").rows())


def paper_of_portability(summary: pl.DataFrame) -> PaperTable:
    """Rows of `anachron.evaluate.measures.portability.portability_summary`: the best edited model of a kind of test in
    bold."""
    rows = summary.with_columns(method_label())
    words = {name: rows[name].to_list() for name in PORTABILITY_WORDS if name != "mode" or rows[name].n_unique() > 1}
    updates = same_count(rows["updates"], "updates")
    counts = ("tests",) if updates else ("updates", "tests")
    numbers = [_numbers(rows, name, name, None) for name in counts]
    numbers += [_column(rows, column) for column in PORTABILITY_COLUMNS if rows[column.of].count()]
    keys = rows.select("mode", "kind").rows()
    about = f"{updates}; " if updates else ""
    compared = [None if method == UNEDITED else key for method, key in zip(rows["method"], keys, strict=True)]
    caption = (
        f"{PORTABILITY_TITLE} ({about}mean over updates in %, each the mean of its tests; {INTERVAL}). If edited: "
        "Right, only over updates whose own object the model generates. Bold: the best edited model of each kind."
    )
    return PaperTable(PORTABILITY, caption, words, numbers, compared, rows.select("mode", "method").rows())


def write_study_papers(tables: Mapping[str, pl.DataFrame], analyses: Iterable[Analysis], out: Path) -> dict[str, str]:
    """Write the tables of a study in the style of papers, in the place of the plain ones.

    Returns those that are left out, with the reason: they hold no number, or too many rows for print.
    """
    left_out = {}
    for analysis in analyses:
        table = tables.get(analysis.name)
        if table is None or analysis.large:
            continue
        if table.height > MOST_ROWS:
            paper, why = None, f"{table.height:,} rows are too many for a table; take its figure or its CSV file"
        else:
            paper = summary_paper(table) if analysis.name == SUMMARY else analysis_paper(analysis, table)
            why = "there is no number to show"
        if paper is None:
            left_out[analysis.name] = why
            remove_printed(out, analysis.name)
        else:
            write_printed(out, analysis.name, paper_markdown(paper), paper_latex(paper))
    return left_out


def write_edits_papers(summary: pl.DataFrame, layout: Layout, out: Path) -> None:
    """Write the table of a layout in the style of papers, in the place of the plain one; all parts in one file."""
    parts = edits_papers(summary, layout)
    write_printed(out, layout.name, "\n".join(map(paper_markdown, parts)), "\n".join(map(paper_latex, parts)))


def write_paper(paper: PaperTable | None, out: Path) -> None:
    """Write a table in the style of papers, in the place of the plain one, if there is one."""
    if paper is not None:
        write_printed(out, paper.name, paper_markdown(paper), paper_latex(paper))
