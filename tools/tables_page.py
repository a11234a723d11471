"""The page ``docs/tables.md``: every table of the catalogue with its title, source, needs and columns."""

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

The most robust models are the first five (`--top`) of each format by global R, then W, without a prefix; the same
models are used for runs with a prefix. The rows called `pooled` in `transfer` and `far_errors`, the rows called `top`,
and all of `agreement` cover these models; `pooled` in `alpha` covers all models. In the sources, TimeStress v1 is
the first version of the TimeStress paper; see [definitions](definitions.md).
"""


def tables_page() -> str:
    """The page as Markdown."""
    contents = [f"| [`{a.name}`](#{a.name}) | {a.title} | {a.source} |" for a in catalogue.every_analysis()]
    parts = [HEAD, "\n".join(["| table | shows | source |", "| --- | --- | --- |", *contents]) + "\n"]
    return "\n".join([*parts, *map(_section, catalogue.every_analysis())])


def _section(analysis: Analysis) -> str:
    needs = "; ".join(need.words for need in analysis.needs) or "only scores"
    columns = [f"| `{name}` | {meaning} |" for name, meaning in analysis.columns.items()]
    head = f"## {analysis.name}\n\n{analysis.title}. Source: {analysis.source}. Needs: {needs}.\n"
    return "\n".join([head, "| column | content |", "| --- | --- |", *columns, ""])
