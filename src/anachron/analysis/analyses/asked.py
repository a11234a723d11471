"""What models said that were asked for answers and gave no log-probabilities: of each run, and of each fact."""

import polars as pl

from anachron.analysis.analyses.analysis import FACT, LABELS, RIGHT, Analysis, InPaper, Need
from anachron.analysis.findings import Rows, interval, percent
from anachron.analysis.study import Study

ASKED_RUN = {"model": "label of the run", "asked_by": "`chat` or `generate`: the backend that asked"}
W_BY_CHOICE = {
    "win_rate": "W by choice between two years, 0 to 1; empty if no choice could be read",
    "win_rate_low": "lower end of its 95 % interval",
    "win_rate_high": "its upper end",
    "win_rate_lost": "W if every answer that could not be read had been lost",
    "win_rate_won": "W if every one had been won",
}


def asked_facts(study: Study) -> pl.DataFrame:
    """One row a run and fact: `anachron.probe.ask.tables.facts_table`, and whose it is."""
    assert study.answers is not None
    return study.answers.facts.select(list(ASKED_FACTS.columns))


def asked_runs(study: Study) -> pl.DataFrame:
    """One row a run: what `anachron.probe.ask.tables.summary_of` says."""
    assert study.answers is not None
    return study.answers.runs


def _answers(study: Study) -> str | None:
    return "no run here asked for answers" if study.answers is None else None


ANSWERS = Need("runs that asked (`--backend chat` or `generate`)", _answers)


def _asked_finding(rows: Rows) -> str | None:
    if len(rows) != 1 or rows[0]["win_rate"] is None or rows[0]["win_rate_low"] is None:
        return None
    (row,) = rows
    if row.get("win_rate_told") is False:
        ends = f"{percent(row['win_rate_lost'])} if all of that were lost, {percent(row['win_rate_won'])} if won"
        return f"Asked to choose between two years, it left too much unread to tell how often it is right: {ends}"
    share = interval(row, "win_rate")
    if row["win_rate_low"] <= 0.5 <= row["win_rate_high"]:
        return f"Asked to choose between two years, it is not significantly better than chance: right in {share}"
    return f"Asked to choose between two years, it is right in {share}; chance is 50 %"


ASKED = Analysis(
    name="asked",
    group=RIGHT,
    title="What models answer when they are asked",
    source="beyond the papers",
    compute=asked_runs,
    needs=(ANSWERS,),
    finding=_asked_finding,
    columns={
        **ASKED_RUN,
        "facts": "facts to be asked about",
        "facts_with_choices": "facts for which a choice between two years could be read",
        **{name: f"{meaning}, over facts" if name == "win_rate" else meaning for name, meaning in W_BY_CHOICE.items()},
        "win_rate_told": "whether both lie within the interval; else W cannot be told",
        "won_all": "R_k: share of these facts for which every match that was read was won; an upper bound of R",
        "won_all_low": "lower end of its 95 % interval (Korn and Graubard)",
        "won_all_high": "its upper end",
        "matches_a_fact": "k: matches read per fact, on average",
        "position_bias": "share of choices of the year named first, minus one half; -0.5 to 0.5",
        "position_bias_low": "lower end of its 95 % interval",
        "position_bias_high": "its upper end",
        "decoys": "decoys that were asked about, other objects between the same years; a sample",
        "decoys_read": "share of the choices about them that could be read",
        "decoy_win_rate": "W of the decoys of a fact, mean over facts",
        "difference": "W of these facts less that of their decoys",
        "difference_low": "lower end of its 95 % interval",
        "difference_high": "its upper end",
        "later": "share of the choices about decoys in which the later year was taken; one half if it has no taste",
        "open_named": "open questions with a year that were answered with a name",
        "open_right": "share of these for which the answer held in that year",
        "periods_read": "facts for which a period could be read",
        "overlap": "days in both the believed and the true period / days in either, mean over these facts",
        "start_error_years": "median absolute error of the start",
        "end_error_years": "median absolute error of the end",
        "calls": "number of questions asked",
        "budget_ended": "whether the run stopped because the budget was spent",
    },
    paper=InPaper(
        words={"model": "model", "asked_by": "asked by"},
        numbers={
            "facts": "facts",
            "win_rate": "W by choice (%)",
            "won_all": "all won (%)",
            "open_right": "open right (%)",
            "periods_read": "periods read",
            "overlap": "overlap (%)",
        },
    ),
)

ASKED_FACTS = Analysis(
    name="asked_facts",
    group=RIGHT,
    title="Every fact that models were asked about, and their answers",
    source="beyond the papers",
    compute=asked_facts,
    needs=(ANSWERS,),
    large=True,
    columns={
        **ASKED_RUN,
        **FACT,
        **{name: LABELS[name] for name in ("subject_label", "relation_label", "object_label")},
        "question": "question without a date",
        "periods": "periods in which the fact holds, `start/end`, up to the last day that is known",
        **W_BY_CHOICE,
        "matches": "k: matches that were read",
        "matches_of": "all matches of the fact",
        "won_all": "whether all k matches were won in both orders",
        "lost_at_most": "upper bound of the share of all matches that are lost nevertheless (95 %)",
        "robustness": "R if known: 0 if a match was not won, 1 if all matches of the fact were read and won",
        "weaker_side": "share won of the matches with an incorrect year before its dates, or of those with one after "
        "them, whichever is lower; answers that could not be read count as lost",
        "decoys": "decoys of the fact of which a choice could be read",
        "decoy_win_rate": "their mean W",
        "chance": "share of decoys of all facts, itself counted, whose same sides are no weaker",
        "ranked_among": "how many decoys these are",
        "open_right": "open questions with a year whose answer held in that year",
        "open_other_period": "those answered with another object of the subject and relation",
        "open_somebody_else": "those answered with any other name",
        "open_unread": "those in which no name could be read",
        "period": "`read`, or why no period could be read",
        "believed_start": "first date of the period that the model gives",
        "believed_end": "its last date; empty if the model says that the fact still holds",
        "start_error_days": "believed minus true start, days; negative: too early",
        "end_error_days": "believed minus true end, days",
        "overlap": "days in both periods / days in either",
        "choices_unread": "choices that could not be read",
        "said": "the model's own words, the period first",
    },
)
