"""What the page shows, as one JSON record: pure functions from a study and its tables, without a browser."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import polars as pl

from anachron.analysis import catalogue
from anachron.analysis.analyses.analysis import GROUPS, Analysis
from anachron.analysis.analyses.summary import summary_of_several
from anachron.analysis.findings import after_colon
from anachron.analysis.metrics import GLOBAL, RUN_KEYS, is_run
from anachron.analysis.plots.charts import LEVELS, Looks, numbers
from anachron.analysis.study import Study
from anachron.core.dates import Date
from anachron.evaluate.results import UNEDITED
from anachron.io.files import Json, versions
from anachron.io.tables import harmless
from anachron.report.outputs import Written
from anachron.report.page.answers import AnswersOnPage, answer_metrics, answers_of_fact, facts_on_page, named_by_year
from anachron.report.page.columns import in_words
from anachron.report.page.history import history_on_page
from anachron.report.page.periods import RULE, openings, period_views, position
from anachron.report.page.render import deflate
from anachron.report.page.scores import pack_scores
from anachron.report.page.verdicts import CheckOnPage, still_holding, verdict_columns


def page_data(
    study: Study,
    written: Written,
    manifests: Sequence[Json],
    *,
    style: str | None = None,
    verdicts: Mapping[tuple[str, ...], CheckOnPage] | None = None,
    asked: Sequence[AnswersOnPage] = (),
    history: Sequence[Json] = (),
) -> Json:
    """Everything that the page shows.

    manifests: one record a score table, with ``name`` and ``record`` (the content of run.json; ``None`` where the
    table is not part of a run). style: how all runs word their dates, where known; then ``openings`` makes each prompt.
    verdicts: checks by model, format and prefix. asked: runs that asked for answers, which come last. history: lines
    of `anachron.probe.check.history`. Returns plain JSON values: ``title, edits, sentence, headline, runs, facts,
    metrics, contexts, openings, verdicts, asked, worst, telling, analyses, groups, history, left_out, notes, manifests,
    version``. ``edits`` says that the facts are the past ones of updates, before and after them: one run is that of
    the unedited model, as `anachron.evaluate.measures.dated_metrics.past_scores` has it. Facts are columns of equal
    length in the order of ``study.about``; ``metrics`` has for each run and granularity the columns ``win_rate`` and
    ``robust`` over the same facts, null where a fact has no matches; of runs that asked by year alone. ``asked`` has
    null for every run of scores, and for others `answers_of_fact`.
    """
    scored = [tuple(run[name][0] for name in RUN_KEYS) for run in study.runs]
    runs = [*scored, *(one.run for one in asked)]
    looks = Looks(runs)
    about = facts_on_page(asked, study.about, still_holding((verdicts or {}).values()))
    ids = about["fact_id"].to_list()
    headline = headline_rows(written.tables.get("summary"), looks)
    models = list(dict.fromkeys(run[0] for run in runs))
    edits = UNEDITED in models and len(models) > 1
    leading = leading_run(headline, runs, edits=edits)
    worst = worst_errors(written.tables.get("timelines"), runs, ids)
    return {
        "title": "Past facts before and after edits" if edits else title_of(models),
        "edits": edits,
        "sentence": headline_sentence(headline) if scored else "",
        "headline": headline,
        "runs": [dict(zip(RUN_KEYS, run, strict=True)) | {"name": looks.name(run)} for run in runs],
        "facts": fact_columns(about),
        "metrics": [
            *(metric_columns(study.facts, run, ids) for run in scored),
            *(answer_metrics(one, ids) for one in asked),
        ],
        "contexts": pack_scores(study, ids),
        "openings": None if style is None or not scored else openings(times_of(study), style),
        "verdicts": verdict_columns(
            verdicts or {},
            {run: looks.name(run) for run in runs},
            ids,
            dict(zip(scored, study.runs, strict=True)),
            {one.run: named_by_year(one) for one in asked},
        ),
        "asked": [None] * len(scored) + [answers_of_fact(one, ids) for one in asked],
        "worst": worst,
        "telling": telling(study, worst, leading, runs, ids, looks) if scored else None,
        "analyses": analyses(written, looks, leading, ids),
        "groups": list(GROUPS),
        "history": history_on_page(history),
        "left_out": left_out(written),
        "notes": list(written.notes),
        "manifests": list(manifests),
        "version": versions()["anachron"],
    }


def times_of(study: Study) -> list[str]:
    """Every date that some run was asked about, once."""
    return pl.concat([run.select("time").unique() for run in study.runs])["time"].drop_nulls().unique().sort().to_list()


def title_of(models: Sequence[str]) -> str:
    named = " and ".join(models) if len(models) < 3 else f"{len(models)} models"
    believe = "believes" if len(models) == 1 else "believe"
    return f"What {named} {believe} about when facts hold"


def headline_rows(summary: pl.DataFrame | None, looks: Looks) -> Json:
    """W and R of each run over all granularities, or at the coarsest one that there is, the most robust first.

    No rows without a summary, which a study of answers alone has not.
    """
    if summary is None:
        return {"granularity": "year", "rows": []}
    level = GLOBAL if GLOBAL in summary["granularity"] else next(g for g in LEVELS if g in summary["granularity"])
    order = ["robustness", "win_rate"]
    chosen = summary.filter(pl.col("granularity") == level).sort(order, descending=True, maintain_order=True)
    rows = []
    for row in chosen.iter_rows(named=True):
        name = looks.name([row[k] for k in RUN_KEYS])
        plain = {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in row.items()}
        rows.append(plain | {"name": name})
    return {"granularity": level, "rows": rows}


def headline_sentence(headline: Json) -> str:
    """The headline in a sentence, about the most robust run."""
    best = headline["rows"][0]
    dates = "by year, by month and by day" if headline["granularity"] == GLOBAL else f"by {headline['granularity']}"
    chance = f"{100 * best['random_robustness']:.1f} %" if best["random_robustness"] >= 0.001 else "less than 0.1 %"
    most = "most robust run" if best["robustness"] else "run with the highest W"
    who = best["name"] if len(headline["rows"]) == 1 else f"The {most}, {best['name']},"
    return (
        f"{who} finds an answer likelier on a date when the fact held than on one when it did not in "
        f"{100 * best['win_rate']:.1f} % of matches (W; guessing gives 50 %), and gets every single match right for "
        f"{100 * best['robustness']:.1f} % of {best['facts']:,} facts, {dates} (R; guessing gives "
        f"{chance})."
    )


def fact_columns(about: pl.DataFrame) -> Json:
    """Labels, period and popularity of every fact; ``held_from`` and ``held_until`` are places on a time axis."""
    starts = [None if text is None else Date.parse(text) for text in about["start"]]
    ends = [None if text is None else Date.parse(text) for text in about["end"]]
    return {
        "id": about["fact_id"].to_list(),
        "subject": about["subject_label"].to_list(),
        "relation": about["relation_label"].fill_null(about["relation_id"]).to_list(),
        "object": about["object_label"].to_list(),
        "start": about["start"].to_list(),
        "end": about["end"].to_list(),
        "held_from": numbers([None if d is None else position(d.first_day) for d in starts], 4),
        "held_until": numbers([None if d is None else position(d.last_day + 1) for d in ends], 4),
        "popularity": numbers(about["popularity"], 2),
        "question": about["question"].to_list(),
    }


def metric_columns(facts: pl.DataFrame, run: Sequence[str], ids: Sequence[str]) -> Json:
    """Per granularity ``win_rate`` and ``robust`` (1 or 0) of one run in the order of ``ids``, null without matches."""
    of_run = facts.filter(is_run(run))
    order = pl.DataFrame({"fact_id": ids}, schema={"fact_id": pl.String})
    columns: Json = {}
    for level in LEVELS:
        rows = order.join(
            of_run.filter(pl.col("granularity") == level), on="fact_id", how="left", maintain_order="left"
        )
        columns[level] = {"win_rate": numbers(rows["win_rate"]), "robust": rows["robustness"].cast(pl.Int64).to_list()}
    return columns


def worst_errors(timelines: pl.DataFrame | None, runs: Sequence[tuple[str, ...]], ids: Sequence[str]) -> list[Json]:
    """The farthest error of each fact of the table ``timelines``, in its order: ``run`` and ``fact`` as indices."""
    if timelines is None:
        return []
    places = {fact: i for i, fact in enumerate(ids)}
    rows = []
    far = timelines.filter("far").sort("rank", pl.col("alpha").abs(), descending=[False, True], maintain_order=True)
    for row in far.unique("rank", keep="first", maintain_order=True).iter_rows(named=True):
        run = runs.index(tuple(row[k] for k in RUN_KEYS))
        rows.append(
            {"run": run, "fact": places[row["fact_id"]], "win_rate": round(row["win_rate"], 6), "time": row["time"],
             "alpha": round(row["alpha"], 3), "logp": round(row["logp"], 3)}
        )  # fmt: skip
    return rows


def leading_run(headline: Json, runs: Sequence[tuple[str, ...]], *, edits: bool) -> tuple[str, ...]:
    """The run that findings are about: the unedited model's, else the most robust, else the first."""
    if edits:
        return next(run for run in runs if run[0] == UNEDITED)
    return tuple(headline["rows"][0][name] for name in RUN_KEYS) if headline["rows"] else runs[0]


def telling(
    study: Study, worst: Sequence[Json], leading: tuple[str, ...], runs: Sequence[tuple[str, ...]], ids: Sequence[str],
    looks: Looks,
) -> Json | None:  # fmt: skip
    """The fact that the page opens with: ``run`` and ``fact`` as indices, ``time`` (a year, or null) and ``why``.

    That of the worst far error, if there is one: a model seems to know it, and yet prefers a year far away. Else the
    fact of which the leading run wins the most by year; of several that of most matches, then the most popular, then
    the first. None without a fact that has matches by year.
    """
    if worst:
        first = worst[0]
        why = (
            f"{looks.name(runs[first['run']])} wins {100 * first['win_rate']:.0f} % of this fact's matches by year, "
            f"yet finds it likelier in a year that is {abs(first['alpha']):.1f} period lengths away than "
            "in one when it held."
        )
        return {"run": first["run"], "fact": first["fact"], "time": first["time"], "why": why}
    places = {fact: i for i, fact in enumerate(ids)}
    rows = study.facts.filter(is_run(leading), pl.col("granularity") == "year").join(
        study.about.select("fact_id", "popularity"), on="fact_id", how="left", maintain_order="left"
    )
    if not rows.height:
        return None
    order = ["win_rate", "matches", "popularity"]
    best = rows.sort(order, descending=True, nulls_last=True, maintain_order=True).row(0, named=True)
    matches = "this fact's one match" if best["matches"] == 1 else f"this fact's {best['matches']:,} matches"
    why = (
        f"{looks.name(leading)} wins {100 * best['win_rate']:.0f} % of {matches} by year and does no better on any "
        "other fact."
    )
    return {"run": runs.index(leading), "fact": places[best["fact_id"]], "time": None, "why": why}


def analyses(written: Written, looks: Looks, leading: Sequence[str], ids: Sequence[str]) -> list[Json]:
    """Each table of the catalogue that was made: what it is, its group, what it finds, what is drawn of it, and its
    CSV, compressed.

    ``finding`` is of the leading run or, if there is none, of the first that has one; ``others`` are of further runs.
    What is neither drawn nor found has no group; if it would be drawn, ``empty`` says why it is not, and the page
    leaves it out.
    """
    entries = []
    for analysis in catalogue.every_analysis():
        if analysis.name in written.tables:
            table = written.tables[analysis.name]
            entry: dict[str, Any] = {"name": analysis.name, "title": analysis.title, "source": analysis.source}
            entry |= {"rows": table.height, "columns": table.columns, "apart": analysis.shown_apart}
            entry |= {"words": [in_words(name) for name in table.columns]}
            entry |= {"meanings": [analysis.columns[name].replace("`", "") for name in table.columns]}
            entry |= {"numeric": [dtype.is_numeric() for dtype in table.dtypes]}
            entry |= {"note": "" if analysis.chart is None else analysis.chart.note}
            found, views = findings(analysis, table, leading, looks), analysis.views(table, looks)
            periods = period_views(table, looks, leading, ids) if analysis.name == "believed" else []
            if periods:
                entry |= {"periods": periods, "note": RULE}
            entry |= {"finding": found[0] if found else None, "others": found[1:]}
            entry |= {"group": analysis.group if found or views or periods else None}
            blank = analysis.chart is not None and entry["group"] is None
            entry |= {"empty": analysis.chart.empty if blank and analysis.chart is not None else None}
            entry |= {"views": views, "csv": deflate(harmless(table).write_csv().encode())}
            entries.append(entry)
    return entries


def findings(analysis: Analysis, table: pl.DataFrame, leading: Sequence[str], looks: Looks) -> list[str]:
    """What a table says of the runs, the leading one first; each is named where there are several."""
    if len(looks.runs) == 1 or "model" not in table.columns or analysis.beside is not None:
        found = analysis.found(table, leading)
        return [found] if found else []
    runs = [tuple(leading), *(run for run in looks.runs if tuple(run) != tuple(leading))]
    lines = [f"{looks.name(run)}: {after_colon(text)}" for run in runs if (text := analysis.found(table, run))]
    together = summary_of_several(table.rows(named=True), looks.name) if analysis.name == "summary" else None
    return [together, *lines] if together else lines


def left_out(written: Written) -> list[Json]:
    """What was not computed, and why."""
    titles = {analysis.name: analysis.title for analysis in catalogue.every_analysis()}
    return [{"name": n, "title": titles.get(n, n), "reason": reason} for n, reason in written.left_out.items()]


def counts(data: Json) -> Json:
    """What a manifest of the page says of its content."""
    return {"facts": len(data["facts"]["id"]), "runs": len(data["runs"]), "tables": len(data["analyses"])}
