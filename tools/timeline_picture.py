"""Draw one fact's timeline, as a model scored it, into an SVG that suits light and dark pages.

    anachron probe MODEL --dataset facts.csv --out runs/facts
    python tools/timeline_picture.py runs/facts --object "Barack Obama" --out docs/timeline.svg

Years alone are drawn: the log-probability of the answer under each year, against that without a date (the dashed
line). Years in which the fact held throughout are green, those in which it began or ended pale green, and wrong years
that beat the weakest right one red; a legend says so below.
"""

import argparse
import html
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from anachron.io.files import write_bytes
from anachron.probe.runs import read_runs

WIDTH, HEIGHT = 760, 324
LEFT, RIGHT, TOP, BOTTOM = 20, 20, 84, 80
LEGEND = {  # what a bar of a kind is, and how wide these words are
    "right": ("a year when it held", 155), "part": ("when it began or ended", 180), "wrong": ("a wrong year", 115),
    "lost": ("a wrong year that beats a right one", 230),
}  # fmt: skip
STYLE = """
  text { font: 13px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 17px; font-weight: 600; } .small { fill: #59636e; font-size: 12px; }
  .answer { font-weight: 600; }
  .held { fill: #1a7f37; opacity: .12; } .right { fill: #1a7f37; }
  .part { fill: #1a7f37; opacity: .5; } .wrong { fill: #b6bdc6; } .lost { fill: #cf222e; }
  .axis { stroke: #8c959f; } .prior { stroke: #59636e; stroke-dasharray: 4 4; }
  .held-word { fill: #1a7f37; } .lost-word { fill: #cf222e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .small { fill: #9198a1; }
    .right, .part { fill: #3fb950; } .held { fill: #3fb950; } .wrong { fill: #4b535d; } .lost { fill: #f85149; }
    .prior { stroke: #9198a1; } .held-word { fill: #3fb950; } .lost-word { fill: #f85149; }
  }
"""


def years_of(scores: pl.DataFrame, answer: str, subject: str | None = None) -> pl.DataFrame:
    """The scores of one fact under years and without a date, in order of time; ``time`` is null without one.

    Raises `SystemExit` where no fact or several have this answer.
    """
    found = scores.filter(pl.col("object_label") == answer)
    if subject is not None:
        found = found.filter(pl.col("subject_label") == subject)
    if found["fact_id"].n_unique() != 1 or found["model"].n_unique() != 1:
        raise SystemExit(
            f"{found['fact_id'].n_unique()} facts of {found['model'].n_unique()} models have the object {answer!r}; "
            "name one fact of one run with --object and --subject"
        )
    dated = (pl.col("granularity") == "year") & pl.col("status").is_in(["correct", "transitional", "incorrect"])
    undated = (pl.col("granularity") == "year") & pl.col("time").is_null()
    return found.filter(dated | undated).sort(pl.col("time").cast(pl.Int64), nulls_last=True)


def picture(years: pl.DataFrame, question: str, source: str) -> str:
    """The SVG. years: `years_of`. question: asked under each year. source: what the small print says of the model."""
    prior = years.filter(pl.col("time").is_null())
    question = question[:1].upper() + question[1:]
    rows = list(years.filter(pl.col("time").is_not_null()).iter_rows(named=True))
    threshold = min(row["logp"] for row in rows if row["status"] == "correct")
    times = [int(row["time"]) for row in rows]
    low = min([row["logp"] for row in rows] + prior["logp"].to_list())
    high = max([row["logp"] for row in rows] + prior["logp"].to_list())
    low -= 0.08 * (high - low)
    step = (WIDTH - LEFT - RIGHT) / (times[-1] - times[0] + 1)

    def x(year: int) -> float:
        return LEFT + (year - times[0]) * step

    def y(logp: float) -> float:
        return TOP + (high - logp) / (high - low) * (HEIGHT - TOP - BOTTOM)

    bars, lost, kinds = [], [], set()
    for row, year in zip(rows, times, strict=True):
        kind = {"correct": "right", "transitional": "part"}.get(row["status"], "wrong")
        if kind == "wrong" and row["logp"] >= threshold:
            kind = "lost"
        lost += [year] if kind == "lost" else []
        kinds.add(kind)
        top = y(row["logp"])
        bars.append(
            f'<rect class="{kind}" x="{x(year) + 0.1 * step:.1f}" y="{top:.1f}" width="{0.8 * step:.1f}" '
            f'height="{HEIGHT - BOTTOM - top:.1f}"><title>{year}: {row["logp"]:.2f} nats</title></rect>'
        )
    right = [year for row, year in zip(rows, times, strict=True) if row["status"] != "incorrect"]
    first, last = min(right), max(right)
    period = f"it held in {first}" if first == last else f"it held from {first} to {last}"
    parts = [
        f'<rect class="held" x="{x(first):.1f}" y="{TOP - 8}" width="{x(last + 1) - x(first):.1f}" '
        f'height="{HEIGHT - BOTTOM - TOP + 8}"/>',
        *bars,
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>',
    ]
    for logp in prior["logp"]:
        parts.append(f'<line class="prior" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(logp):.1f}" y2="{y(logp):.1f}"/>')
    for year in marked(times):
        parts.append(
            f'<text class="small" x="{x(year) + step / 2:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
            f"{year}</text>"
        )
    place = LEFT
    for kind, (words, width) in LEGEND.items():
        if kind in kinds:
            parts += [
                f'<path class="{kind}" d="M{place} {HEIGHT - 45}h11v11h-11Z"/>',
                f'<text class="small" x="{place + 17}" y="{HEIGHT - 35}">{words}</text>',
            ]
            place += width
    answer = rows[0]["object_label"]
    parts += [
        f'<text class="title" x="{LEFT}" y="26">{html.escape(question)}</text>',
        f'<text class="small" x="{LEFT}" y="47"><tspan class="answer">{html.escape(answer)}</tspan>: log-probability '
        "of this answer under each year, from the lowest up. Dashed: without a date.</text>",
        f'<text class="held-word" x="{(x(first) + x(last + 1)) / 2:.1f}" y="{TOP - 14}" text-anchor="middle">'
        f"{period}</text>",
        f'<text class="small" x="{LEFT}" y="{HEIGHT - 10}">{html.escape(source)}</text>',
    ]
    if lost:
        parts.append(
            f'<text class="lost-word" x="{WIDTH - RIGHT}" y="{HEIGHT - 10}" text-anchor="end">'
            f"{len(lost)} wrong {'year' if len(lost) == 1 else 'years'} at or above the weakest right one</text>"
        )
    body = "\n  ".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="'
        f'{html.escape(f"Timeline of {answer}: log-probability of the answer by year", quote=True)}">\n'
        f"  <style>{STYLE}</style>\n  {body}\n</svg>\n"
    )


def marked(times: Sequence[int]) -> list[int]:
    """The years that get a number: every fifth, tenth, twentieth ..., at most twelve of them."""
    every = next(size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500) if (times[-1] - times[0]) / size <= 12)
    return [year for year in range(times[0], times[-1] + 1) if year % every == 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--object", required=True, help="label of the fact's object, the answer")
    parser.add_argument("--subject", help="label of its subject, where several facts have this object")
    parser.add_argument("--source", default="", help="what the small print says of the model")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    years = years_of(read_runs([options.run]), options.object, options.subject)
    question = str(years["question"].first())
    write_bytes(options.out, picture(years, question, options.source).encode("utf-8"))
    print(f"{options.out}: {years.height} statements")


if __name__ == "__main__":
    main()
