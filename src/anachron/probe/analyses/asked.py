"""What models said that were asked for answers and gave no log-probabilities: of each run, and of each fact."""

import polars as pl

from anachron.probe.analyses.analysis import Analysis, InPaper, Need
from anachron.probe.analyses.common import FACT, LABELS
from anachron.probe.answers import RUNS_SCHEMA
from anachron.probe.study import Study

SHOWN = (
    "model", "asked_by", "fact_id", "subject_label", "relation_label", "object_label", "question", "periods",
    "win_rate", "win_rate_low", "win_rate_high", "matches", "matches_of", "won_all", "lost_at_most", "robustness",
    "open_right", "open_other_period", "open_somebody_else", "open_unread", "period", "believed_start", "believed_end",
    "start_error_days", "end_error_days", "overlap", "choices_unread", "said",
)  # fmt: skip
ASKED_RUN = {"model": "label of the run", "asked_by": "`chat` or `generate`: the backend by which it was asked"}
W_BY_CHOICE = {
    "win_rate": "W by choice of two years, 0 to 1; empty where none could be read",
    "win_rate_low": "lower end of its 95 % interval",
    "win_rate_high": "upper end",
}


def asked_facts(study: Study) -> pl.DataFrame:
    """One row a run and fact: `anachron.ask.tables.facts_table`, and whose it is."""
    assert study.answers is not None
    return study.answers.facts.select(SHOWN)


def asked_runs(study: Study) -> pl.DataFrame:
    """One row a run: what `anachron.ask.tables.summary_of` says."""
    assert study.answers is not None
    return study.answers.runs.select(list(RUNS_SCHEMA))


def _answers(study: Study) -> str | None:
    return "no run here asked for answers" if study.answers is None else None


ANSWERS = Need("runs that asked (`--backend chat` or `generate`)", _answers)

ASKED = Analysis(
    name="asked",
    title="What models say that were asked for answers",
    source="beyond the papers",
    compute=asked_runs,
    needs=(ANSWERS,),
    columns={
        **ASKED_RUN,
        "facts": "that were to be asked about",
        "facts_with_choices": "of which a choice of two years could be read",
        **{name: f"{meaning}, over facts" if name == "win_rate" else meaning for name, meaning in W_BY_CHOICE.items()},
        "won_all": "R_k: share of these facts of which every match that was read was won; R is at most that",
        "won_all_low": "lower end of its 95 % interval (Wilson)",
        "won_all_high": "upper end",
        "matches_a_fact": "k: matches read of a fact, on average",
        "position_bias": "how much more often than every second time the year named first is chosen, -0.5 to 0.5",
        "position_bias_low": "lower end of its 95 % interval",
        "position_bias_high": "upper end",
        "open_named": "open questions with a year that were answered with a name",
        "open_right": "share of them answered with somebody who held in that year",
        "periods_read": "facts of which a period could be read",
        "overlap": "mean over them of days in the believed and the true period by days in either",
        "start_error_years": "median size of the error of the start",
        "end_error_years": "the same of the end",
        "calls": "questions asked",
        "budget_ended": "whether the budget ended the asking",
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
    title="Every fact that models were asked about, and what they said",
    source="beyond the papers",
    compute=asked_facts,
    needs=(ANSWERS,),
    large=True,
    columns={
        **ASKED_RUN,
        **FACT,
        **{name: LABELS[name] for name in ("subject_label", "relation_label", "object_label")},
        "question": "as asked without a date",
        "periods": "in which the fact holds, `start/end`; up to the day that is known of",
        **W_BY_CHOICE,
        "matches": "k: those that were read",
        "matches_of": "all that the fact has",
        "won_all": "whether all k were won in both orders",
        "lost_at_most": "share of all matches that may be lost all the same (95 %)",
        "robustness": "R where it is known: 0 with a match not won, 1 where all there are were won",
        "open_right": "open questions with a year, answered with somebody who held in it",
        "open_other_period": "answered with another object of the subject and relation",
        "open_somebody_else": "answered with another name",
        "open_unread": "without a name that could be read",
        "period": "`read`, or why no period could be read",
        "believed_start": "first date of the period that the model gives",
        "believed_end": "last date; empty where it says that the fact still holds",
        "start_error_days": "negative where the model is too early",
        "end_error_days": "the same of the end",
        "overlap": "days in both periods by days in either",
        "choices_unread": "choices that could not be read",
        "said": "the model's own words, the period first",
    },
)
