"""The page ``docs/tables.md``: every table of the catalogue with its title, source, needs and columns."""

from collections import Counter
from collections.abc import Collection, Iterable

from anachron.analysis import catalogue
from anachron.analysis.analyses.analysis import Analysis

HEAD = """# Tables

Made from the code by `make docs`; do not edit.

`anachron metrics RUN... --out tables` writes every table that its input allows, as `NAME.parquet` and `NAME.csv`, and
for print as `markdown/NAME.md` and `latex/NAME.tex` (booktabs). If a table needs something that is missing, the
command says so and records it in `manifest.json`. Tables with a row for each fact are written as data only.

In these CSV files, those of `evaluate` and the sample of `verbalize`, an apostrophe is put before any text that a
spreadsheet would run as a formula, that is, text that starts with `=`, `+`, `-` or `@` and is not a number or date.
Parquet files contain every label unchanged, and so do data sets in any format (`datasets`, `build`, `export`).

`X_low` and `X_high` are the ends of the 95 % interval of `X`; `low` and `high` those of the table's number. The most
robust models are the first five (`--top`) of each format by global R, then W, without a prefix. The rows `pooled` of
`transfer` and `far_errors`, the rows `top`, and all of `agreement` cover these models; `pooled` in `alpha` covers all.
Sources are named as on the page of [definitions](definitions.md).
"""


ENDS = {"lower end of its 95 % interval", "its upper end", "lower end of the 95 % interval, by resampling facts"}
SHARED = 2  # tables from which on a column of the same name and content is described once for all of them


def tables_page() -> str:
    """The page as Markdown."""
    every = catalogue.every_analysis()
    counts = Counter(column for analysis in every for column in described(analysis))
    common: dict[str, tuple[str, str]] = {}  # of each name the content that most tables have
    for column, count in counts.most_common():
        if count >= SHARED:
            common.setdefault(column[0], column)
    shared = [column for column in counts if column in common.values()]
    parts = [HEAD, *(_section(analysis, set(shared)) for analysis in every)]
    return "\n".join([*parts, "## Columns of several tables\n", *_columns(shared)])


def described(analysis: Analysis) -> list[tuple[str, str]]:
    """The columns that need words: not the ends of an interval, of which the head says all."""
    return [(name, meaning) for name, meaning in analysis.columns.items() if meaning not in ENDS]


def _section(analysis: Analysis, shared: Collection[tuple[str, str]]) -> str:
    needs = "; ".join(need.words for need in analysis.needs) or "only scores"
    own = [column for column in described(analysis) if column not in shared]
    others = [f"`{name}`" for name, meaning in described(analysis) if (name, meaning) in shared]
    also = [f"[Shared](#columns-of-several-tables): {', '.join(others)}.", ""] if others else []
    head = f"## {analysis.name}\n\n{analysis.title}. Source: {analysis.source}. Needs: {needs}.\n"
    return "\n".join([head, *(_columns(own) if own else []), *also])


def _columns(columns: Iterable[tuple[str, str]]) -> list[str]:
    return [*(f"* `{name}`: {meaning}" for name, meaning in columns), ""]
