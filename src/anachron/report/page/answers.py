"""What the page shows of runs that asked for answers: choices by year, believed periods, and the model's own words."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from anachron.analysis.plots.charts import LEVELS, numbers
from anachron.core.dates import Date, astronomical
from anachron.core.several_periods import parse_periods, periods_in_words, status_in
from anachron.io.files import Json
from anachron.probe.ask.matching import UNREAD
from anachron.probe.ask.tables import FIRST, SECOND
from anachron.report.terminal.answers import answer_run_lines

LONGEST = 300  # characters of an answer; all of it is in answers.jsonl
WORDED = ("period", "open")  # kinds of questions whose answers are shown as they are


@dataclass(frozen=True)
class AnswersOnPage:
    """A run that asked, as the page names it (model, ``asked by BACKEND``, ``none``), with its summary, facts and
    answers (`anachron.probe.ask.tables`)."""

    run: tuple[str, str, str]
    summary: Json
    facts: pl.DataFrame
    answers: pl.DataFrame


def facts_on_page(
    runs: Sequence[AnswersOnPage], about: pl.DataFrame, still: Collection[str] = frozenset()
) -> pl.DataFrame:
    """What is known of facts (`anachron.analysis.study.Study.about`), from answers where scores do not say it, with
    those that were only asked about behind. Of several periods the first is taken. still: facts that hold still, whose
    periods a run that asked ends at its ``as_of``.
    """
    rows: dict[str, dict[str, Any]] = {}
    for run in runs:
        for fact in run.facts.iter_rows(named=True):
            start, _, end = fact["periods"].split("; ")[0].partition("/")
            end = None if fact["fact_id"] in still else end or None
            labels = {f"{name}_label": fact[name] for name in ("subject", "relation", "object")}
            row = {"fact_id": fact["fact_id"], "start": start, "end": end, "question": fact["question"]}
            rows.setdefault(fact["fact_id"], row | labels)
    from_answers = pl.DataFrame([dict.fromkeys(about.columns) | row for row in rows.values()], schema=about.schema)
    held = ["start", "end"]  # both or neither: an open end is known too
    filled = about.join(from_answers, on="fact_id", how="left", maintain_order="left", suffix=" told").with_columns(
        *(pl.when(pl.col("start").is_null() & pl.col("end").is_null()).then(f"{name} told").otherwise(name).alias(name)
          for name in held),
        *(pl.coalesce(name, f"{name} told") for name in about.columns if name not in ("fact_id", *held)),
    )  # fmt: skip
    new = from_answers.join(about, on="fact_id", how="anti", maintain_order="left")
    return pl.concat([filled.select(about.columns), new])


def answer_metrics(run: AnswersOnPage, ids: Sequence[str]) -> Json:
    """W by choice as the page has the W of scores, by year alone; R where it is known."""
    found = {row["fact_id"]: row for row in run.facts.select("fact_id", "win_rate", "robustness").iter_rows(named=True)}
    rows = [found.get(fact, {}) for fact in ids]
    robust = [None if (r := row.get("robustness")) is None else int(r) for row in rows]
    nothing = {"win_rate": [None] * len(ids), "robust": [None] * len(ids)}
    return {
        level: {"win_rate": numbers(row.get("win_rate") for row in rows), "robust": robust}
        if level == "year"
        else nothing
        for level in LEVELS
    }


def answers_of_fact(run: AnswersOnPage, ids: Sequence[str]) -> Json:
    """``lines`` about all facts, and for each of ``ids`` null or a record: ``w`` (W by choice with its interval),
    ``matches`` (read, of all), ``unread`` choices, ``believed`` (first and last year, null where it goes on), ``years``
    (year, how often it was chosen, in how many choices, whether the fact held in it) and ``said`` (year or null, the
    model's words, what was read in them)."""
    said, chosen = _words(run.answers), _choices(run.answers)
    facts = {row["fact_id"]: row for row in run.facts.iter_rows(named=True)}
    records = [
        None if (row := facts.get(fact)) is None else {
            "w": numbers(row[name] for name in ("win_rate", "win_rate_low", "win_rate_high")),
            "matches": [row["matches"], row["matches_of"]], "unread": row["choices_unread"],
            "believed": _believed(row["believed_start"], row["believed_end"]),
            "years": _years(chosen[fact], row["periods"]), "said": said[fact],
        }
        for fact in ids
    ]  # fmt: skip
    return {"lines": list(answer_run_lines(run.summary)), "facts": records}


def _believed(start: str | None, end: str | None) -> list[int | None] | None:
    return None if start is None else [Date.parse(start).year, None if end is None else Date.parse(end).year]


def _words(answers: pl.DataFrame) -> dict[str, list[list[str | None]]]:
    """Fact -> the answers of `WORDED` questions: year or null, the words, what was read in them."""
    found: dict[str, list[list[str | None]]] = defaultdict(list)
    own = pl.col("fact_id").is_not_null() & pl.col("decoy").is_null()
    for row in answers.filter(pl.col("kind").is_in(WORDED) & own).iter_rows(named=True):
        text = " ".join((row["text"] or "").split())
        short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        read = row["outcome"]
        if row["kind"] == "period" and read not in UNREAD:
            read = periods_in_words(row["read"])
        found[row["fact_id"]].append([row["years"], short, read])
    return found


def _choices(answers: pl.DataFrame) -> dict[str, dict[str, list[int]]]:
    """Fact -> year -> how often it was chosen, and in how many choices that could be read."""
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    of_facts = answers.filter(pl.col("decoy").is_null())
    read = of_facts.filter((pl.col("kind") == "choice") & pl.col("outcome").is_in([FIRST, SECOND]))
    for fact, years, outcome in read.select("fact_id", "years", "outcome").iter_rows():
        for year, taken in zip(years.split(), (outcome == FIRST, outcome == SECOND), strict=True):
            found[fact][year][0] += taken
            found[fact][year][1] += 1
    return found


def _years(chosen: dict[str, list[int]], periods: str) -> list[list[int]]:
    held = parse_periods(periods)
    years = sorted(((Date.parse(year), counts) for year, counts in chosen.items()), key=lambda item: item[0].year)
    return [[year.year, *counts, int(status_in(held, year) == "correct")] for year, counts in years]


def named_by_year(run: AnswersOnPage) -> dict[str, list[tuple[int, str]]]:
    """Fact -> years, without the gap at 0, in which it was asked who it was, and the object that was named."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    named = run.answers.filter(pl.col("kind") == "open", pl.col("decoy").is_null(), pl.col("read").is_not_null())
    for fact, text, name in named.drop_nulls(["fact_id", "years"]).select("fact_id", "years", "read").iter_rows():
        found[fact].append((astronomical(Date.parse(text).year), name))
    return found


def run_key(label: str, asked_by: str) -> tuple[str, str, str]:
    """What the page calls a run that asked, in the place of model, format and prefix
    (`anachron.analysis.metrics.RUN_KEYS`)."""
    return label, f"asked by {asked_by}", "none"
