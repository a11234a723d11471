"""Four steps of recipes/small-models.sh that no command does: a sample of statements, the statements of successions,
the updates whose old fact a model knows, and the page of results with the tables that were measured.

    python tools/small_models.py sample mini.parquet --facts 200 --dates 10 --out sample.parquet
    python tools/small_models.py successions mini.parquet --objects 4 --out successions.parquet
    python tools/small_models.py draw lacking.jsonl --count 50 --out known.jsonl
    python tools/small_models.py page runs/small-models docs/results.md

All draws are seeded, so the same input gives the same file.
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

FACT = ["SubjectLabel", "RelationID", "ObjectLabel", "StartDate"]
TABLE = re.compile(
    r"(<!-- table: (\S+)(?: columns: ([^>]+?))?(?: where: ([^>]+?))? -->\n)(.*?)(<!-- end -->)", re.DOTALL
)


def sample(statements: pl.DataFrame, facts: int, dates: int) -> pl.DataFrame:
    """The statements of so many facts, at most so many correct and so many incorrect dates a fact and granularity.

    Columns as `anachron datasets` writes them; the order of the rows is kept. Statements that are neither correct nor
    incorrect have no part in W and R and are left out.
    """
    drawn = statements.select(FACT).unique(maintain_order=True).sample(facts, seed=0)
    numbered = statements.with_row_index("row").filter(pl.col("Status").is_in(["Correct", "Incorrect"]))
    kept = (
        numbered.join(drawn, on=FACT, how="semi", nulls_equal=True)
        .sample(fraction=1.0, shuffle=True, seed=1)
        .group_by([*FACT, "Granularity", "Status"], maintain_order=True)
        .head(dates)
    )
    return kept.sort("row").select(statements.columns)


def successions(statements: pl.DataFrame, objects: int) -> pl.DataFrame:
    """The statements of the first so many objects of each subject and relation that has two or more, for the first, the
    middle and the last year in which each of them held: what crossed matches need, by year.

    Columns as `anachron datasets` writes them; the order of the rows is kept. A statement that an object's fact lacks
    (a year that is too far from its period) stays out.
    """
    key = ["SubjectLabel", "RelationID"]
    facts = statements.select(FACT).unique(maintain_order=True).filter(pl.len().over(key) > 1)
    first = facts.sort([*key, "StartDate"], maintain_order=True).group_by(key, maintain_order=True).head(objects)
    years = statements.with_row_index("row").filter(
        pl.col("Granularity") == "year", pl.col("Status").is_in(["Correct", "Incorrect"])
    )
    years = years.join(first, on=FACT, how="semi", nulls_equal=True)
    own = years.filter(pl.col("Status") == "Correct").sort(*FACT, "Time")
    own = own.with_columns(pl.len().over(FACT).alias("of"), pl.int_range(pl.len()).over(FACT).alias("place"))
    chosen = own.filter(pl.any_horizontal(pl.col("place") == at for at in (0, pl.col("of") // 2, pl.col("of") - 1)))
    asked = years.join(chosen.select(*key, "Time").unique(), on=[*key, "Time"], how="semi")
    return asked.sort("row").select(statements.columns)


def draw(lines: Sequence[str], count: int) -> list[str]:
    """So many of some lines, drawn with a fixed seed, in their order."""
    if len(lines) < count:
        raise SystemExit(f"there are {len(lines)} updates whose old fact the model knows, not {count}; lower --count")
    return [lines[place] for place in np.sort(np.random.default_rng(0).choice(len(lines), count, replace=False))]


def provenance(out: Path, before: str = "") -> str:
    """When and with what each run was made: a Markdown table, one row a finished run of the folder, and those of the
    table before whose runs are not there."""
    head = ["| run | what | finished | anachron, torch, transformers | machine |", "| --- | --- | --- | --- | --- |"]
    rows = {
        line.split("|")[1].strip(): line for line in before.splitlines() if line.startswith("|") and line not in head
    }
    for file in sorted(out.rglob("run.json")):
        run = json.loads(file.read_text(encoding="utf-8"))
        if run["status"] != "done" or (file.parent.parent / "run.json").exists():  # a part of another
            continue
        # of advice, its parts have the sessions and the ways
        parts = [json.loads(part.read_text(encoding="utf-8")) for part in sorted(file.parent.glob("*/run.json"))]
        last = [session for one in (*parts, run) for session in one["sessions"]][-1]
        name = file.parent.relative_to(out).as_posix()
        what = f"{run.get('statements', 0):,} statements"
        if parts:
            what = f"{len(parts[-1]['methods'])} ways"
        elif run.get("methods"):
            what = f"{len(run['methods'])} methods"
        if decoys := run.get("decoy_statements"):
            what += f" and {decoys:,} of decoys"
        versions = ", ".join(last["versions"][package] for package in ("anachron", "torch", "transformers"))
        machine = f"{last['hardware']['device']}, {last['hardware']['cores']} cores"
        rows[name] = f"| {name} | {what} | {run['finished'][:10]} | {versions} | {machine} |"
    return "\n".join([*head, *(rows[name] for name in sorted(rows))]) + "\n"


def table_of(file: Path, columns: Sequence[str], where: Mapping[str, str]) -> str:
    """The table of a Markdown file that `metrics` or `evaluate` wrote, with the named columns alone where any are, and
    the rows alone that have these values."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    wanted = columns or cells[0]
    missing = {*wanted, *where} - set(cells[0])
    if missing:
        raise SystemExit(f"{file}: no column {', '.join(sorted(missing))}; there are {', '.join(cells[0])}")
    places = {name: place for place, name in enumerate(cells[0])}
    kept = [row for row in cells[2:] if all(row[places[name]] == value for name, value in where.items())]
    cells = [[row[places[name]] for name in wanted] for row in (*cells[:2], *kept)]
    return "".join("| " + " | ".join(row) + " |\n" for row in cells)


def listed(text: str | None) -> list[str]:
    """What stands between commas."""
    return [item.strip() for item in (text or "").split(",") if item.strip()]


def page(out: Path, text: str) -> str:
    """The page with what stands between ``<!-- table: FILE columns: A, B where: C=x, D=y -->`` and ``<!-- end -->``
    made anew.

    FILE is relative to the folder of the runs; ``provenance`` is the table of the runs themselves. A table whose file
    is not there, as its step was not run, is left as it is, and said so.
    """

    def fill(match: re.Match[str]) -> str:
        name, columns, where = match[2], listed(match[3]), dict(item.split("=") for item in listed(match[4]))
        if name != "provenance" and not (out / name).exists():
            print(f"left as it is: {name}, which {out} does not hold", file=sys.stderr)
            return match[0]
        made = provenance(out, match[5]) if name == "provenance" else table_of(out / name, columns, where)
        return f"{match[1]}{made}{match[6]}"

    return TABLE.sub(fill, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("sample")
    step.add_argument("statements", type=Path)
    step.add_argument("--facts", type=int, default=200)
    step.add_argument("--dates", type=int, default=10)
    step.add_argument("--out", type=Path, required=True)
    step = steps.add_parser("successions")
    step.add_argument("statements", type=Path)
    step.add_argument("--objects", type=int, default=4)
    step.add_argument("--out", type=Path, required=True)
    step = steps.add_parser("draw")
    step.add_argument("updates", type=Path)
    step.add_argument("--count", type=int, default=50)
    step.add_argument("--out", type=Path, required=True)
    step = steps.add_parser("page")
    step.add_argument("runs", type=Path)
    step.add_argument("page", type=Path)
    arguments = parser.parse_args()
    if arguments.step == "sample":
        made = sample(pl.read_parquet(arguments.statements), arguments.facts, arguments.dates)
        made.write_parquet(arguments.out)
        print(f"{made.height} statements of {arguments.facts} facts written to {arguments.out}")
    elif arguments.step == "successions":
        made = successions(pl.read_parquet(arguments.statements), arguments.objects)
        made.write_parquet(arguments.out)
        print(f"{made.height} statements of {made.select(FACT).n_unique()} facts written to {arguments.out}")
    elif arguments.step == "draw":
        lines = arguments.updates.read_text(encoding="utf-8").splitlines(keepends=True)
        text = "".join(draw(lines, arguments.count))
        arguments.out.write_text(text, encoding="utf-8")
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        print(f"{arguments.count} of {len(lines)} drawn, written to {arguments.out} ({digest})")
    else:
        arguments.page.write_text(page(arguments.runs, arguments.page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
