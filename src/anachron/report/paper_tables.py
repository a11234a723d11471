"""What the tables of a paper show: the summary of a study, its other tables, and those of evaluated edits."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl

from anachron.errors import ConfigError
from anachron.evaluate.results import UNEDITED, method_label
from anachron.probe.analyses.analysis import Analysis
from anachron.report.edits import WORDS, Columns, Layout, leading, same_in_all
from anachron.report.outputs import PRINTED_ROWS, cell_text, write_printed
from anachron.report.paper import Numbers, PaperTable, counted, paper_latex, paper_markdown

STYLES = ("plain", "paper")
BESIDE = 8  # columns of means that a page has room for
INTERVAL = "95 % intervals in brackets"
SUMMARY = "summary"


def check_style(style: str) -> str:
    """The name of a style. Raises `ConfigError` for another one."""
    if style not in STYLES:
        raise ConfigError(f"--style {style!r}: choose {' or '.join(STYLES)}")
    return style


def summary_paper(summary: pl.DataFrame) -> PaperTable:
    """Rows of `anachron.metrics.summarise`: W and R in per cent, the best model at each granularity in bold."""
    same = [name for name in ("format", "prefix") if summary[name].n_unique() == 1]
    words = {name: summary[name].to_list() for name in ("model", "format", "prefix") if name not in same}
    words["dates"] = summary["granularity"].to_list()
    facts = counted(summary["facts"], "facts")
    if facts is None:
        words["n"] = [f"{count:,}" for count in summary["facts"]]
    numbers = [
        _share(summary, heading, name, best=best)
        for heading, name, best in (("W (%)", "win_rate", "high"), ("R (%)", "robustness", "high"))
    ]
    numbers.append(_share(summary, "random R (%)", "random_robustness", decimals=3))
    about = [f"{name} {summary[name][0]}" for name in same] + ([facts] if facts else [])
    caption = (
        f"Win rate W and robustness R, mean over facts ({', '.join(about)}; {INTERVAL}, bootstrap over facts). A "
        "random scorer has W 50 % and R as in the last column. Bold: the best at each granularity of dates."
    )
    runs = summary.select("model", "format", "prefix").rows()
    return PaperTable(SUMMARY, caption, words, numbers, summary["granularity"].to_list(), runs)


def _share(table: pl.DataFrame, heading: str, name: str, *, best: str | None = None, decimals: int = 1) -> Numbers:
    ends = [f"{name}_low", f"{name}_high"]
    scaled = [
        table[column] * 100 if column in table.columns else pl.Series(column, [None] * table.height, pl.Float64)
        for column in (name, *ends)
    ]
    return Numbers(heading, list(zip(*scaled, strict=True)), decimals, best)


def edits_papers(summary: pl.DataFrame, layout: Layout) -> list[PaperTable]:
    """Rows of `anachron.evaluate.metrics.summarise` in the columns of a layout, `BESIDE` of them a table.

    Bold is the best edited model of a mode and scenario, and where edits accumulate of a number of edits; the unedited
    one is no competitor.
    """
    labelled = summary.with_columns(method_label())
    apart = leading(summary)
    words = {("n" if c == "done" else c): [_text(value) for value in labelled[c]] for c in apart if c in WORDS}
    words |= {("n" if c == "done" else c): [_text(value) for value in labelled[c]] for c in apart if c not in WORDS}
    sections = summary.select("mode", "scenario").rows()
    within = [c for c in ("mode", "scenario", "way", "edits") if c in summary.columns]
    edited = [method != UNEDITED for method in summary["method"]]
    compared = [row if one else None for row, one in zip(summary.select(within).rows(), edited, strict=True)]
    about = "; ".join(part for part in (same_in_all(summary), INTERVAL) if part)
    columns = {**layout.columns, **layout.measured(summary)}
    columns = {heading: column for heading, column in columns.items() if summary[column[0]].null_count() < len(summary)}
    parts = [dict(list(columns.items())[first : first + BESIDE]) for first in range(0, len(columns), BESIDE)]
    return [
        PaperTable(
            layout.name if number == 0 else f"{layout.name}_{number + 1}",
            f"{layout.title} ({about}). {_units(part)} Bold: the best edited model.",
            words, [_column(summary, heading, *column) for heading, column in part.items()], compared, sections,
        )
        for number, part in enumerate(parts)
    ]  # fmt: skip


def _column(summary: pl.DataFrame, heading: str, metric: str, factor: int, decimals: int) -> Numbers:
    scaled = [summary[f"{metric}{end}"] * factor for end in ("", "_low", "_high")]
    best = {"↑": "high", "↓": "low"}.get(heading[-1])
    return Numbers(heading, list(zip(*scaled, strict=True)), decimals, best)


def _units(columns: Columns) -> str:
    plain = [heading[:-2] for heading, (_, factor, _) in columns.items() if factor == 1]
    return f"Means × 100, but for {' and '.join(plain)}." if plain else "Means × 100."


def analysis_paper(analysis: Analysis, table: pl.DataFrame) -> PaperTable:
    """Any table of a study: a number and its bounds are one column; nothing is bold, as no end of a scale is better."""
    words: dict[str, list[str]] = {}
    numbers: list[Numbers] = []
    bounds = _bounds_of(table)
    taken = {end for ends in bounds.values() for end in ends}
    for name, dtype in table.schema.items():
        if name in taken:
            continue
        if name in bounds:
            low, high = (table[end].to_list() for end in bounds[name])
            numbers.append(Numbers(_words(name), list(zip(table[name], low, high, strict=True)), 3))
        elif dtype.is_float() and not _is_p(name):
            numbers.append(Numbers(_words(name), [(value, None, None) for value in table[name]], 3))
        else:
            words[_words(name)] = [cell_text(name, value) for value in table[name]]
    facts = counted(table["facts"], "facts") if "facts" in table.columns and table.height else None
    details = "; ".join(part for part in (facts, INTERVAL if bounds else None) if part)
    caption = f"{analysis.title}{f' ({details})' if details else ''}. Source: {analysis.source}."
    one = [None] * table.height
    return PaperTable(analysis.name, caption, words, numbers, one, one)


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


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def write_study_papers(tables: Mapping[str, pl.DataFrame], analyses: Iterable[Analysis], out: Path) -> None:
    """Write the tables for print of a study in the style of papers, in the place of the plain ones."""
    for analysis in analyses:
        table = tables.get(analysis.name)
        if table is not None and not analysis.large and table.height <= PRINTED_ROWS:
            paper = summary_paper(table) if analysis.name == SUMMARY else analysis_paper(analysis, table)
            write_printed(out, analysis.name, paper_markdown(paper), paper_latex(paper))


def write_edits_papers(summary: pl.DataFrame, layout: Layout, out: Path) -> None:
    """Write the table of a layout in the style of papers, in the place of the plain one; all parts in one file."""
    parts = edits_papers(summary, layout)
    write_printed(out, layout.name, "\n".join(map(paper_markdown, parts)), "\n".join(map(paper_latex, parts)))
