"""With what the page opens, in what groups it shows analyses, and the findings at their head, against plain loops."""

import polars as pl
import pytest

from anachron.plots.charts import Looks
from anachron.probe.catalogue import every_analysis, make_tables
from anachron.probe.study import make_study
from anachron.report.outputs import Written, study_notes
from anachron.report.page.data import page_data
from anachron.report.page.groups import FINDINGS, GROUPS, finding
from studies import RUNS, synthetic_scores

RUN = ("m", "raw", "none")
KEY = dict(zip(("model", "format", "prefix"), RUN, strict=True))


def made(seed=2, facts=40, runs=RUNS[4:6]):
    study = make_study([synthetic_scores(facts, seed=seed, runs=runs)], resamples=20)
    tables, left_out = make_tables(study)
    return study, tables, page_data(study, Written(tables, study_notes(study), left_out, {}, {}), [])


@pytest.fixture(scope="module")
def several():
    return made()


def test_every_analysis_has_one_group():
    names = [name for names in GROUPS.values() for name in names]
    assert sorted(names) == sorted(analysis.name for analysis in every_analysis())
    assert set(FINDINGS) <= set(names)


def test_it_opens_with_the_worst_far_error(several):
    _, _, data = several
    first = data["worst"][0]
    assert {k: data["telling"][k] for k in ("run", "fact", "time")} == {k: first[k] for k in ("run", "fact", "time")}
    assert f"{abs(first['alpha']):.1f} lengths of its period away" in data["telling"]["why"]
    assert f"wins {100 * first['win_rate']:.0f} %" in data["telling"]["why"]


def test_without_far_errors_it_opens_with_the_fact_that_is_won_most():
    study, tables, _ = made(seed=5, facts=3, runs=RUNS[:1])
    rest = {name: table for name, table in tables.items() if name != "timelines"}
    data = page_data(study, Written(rest, [], {}, {}, {}), [])
    popular = {row["fact_id"]: row["popularity"] or -1 for row in study.about.to_dicts()}
    years = [row for row in study.facts.to_dicts() if row["granularity"] == "year"]
    best = max(years, key=lambda row: (row["win_rate"], row["matches"], popular[row["fact_id"]]))
    told = data["telling"]
    assert (data["facts"]["id"][told["fact"]], told["run"], told["time"]) == (best["fact_id"], 0, None)
    assert f"wins {100 * best['win_rate']:.0f} % of its {best['matches']} matches" in told["why"]


def test_without_years_it_opens_with_no_timeline():
    study = make_study([synthetic_scores(6, runs=RUNS[:1]).filter(pl.col("granularity") != "year")], resamples=20)
    tables, left_out = make_tables(study)
    assert page_data(study, Written(tables, [], left_out, {}, {}), [])["telling"] is None


def test_findings_are_about_the_leading_run_and_what_says_nothing_is_folded(several):
    study, tables, data = several
    best = data["headline"]["rows"][0]
    run = tuple(best[name] for name in ("model", "format", "prefix"))
    looks = Looks([tuple(one[k] for k in ("model", "format", "prefix")) for one in data["runs"]])
    for entry in data["analyses"]:
        found = finding(entry["name"], tables[entry["name"]], run)
        of_run = f"{looks.name(run)}: " if "model" in tables[entry["name"]].columns else ""
        assert entry["finding"] == (f"{of_run}{found}" if found else None)
        assert (entry["group"] is None) == (not entry["views"] and not found)
    robust = study.facts.filter(
        pl.col("granularity") == "global", pl.col("model") == run[0], pl.col("format") == run[1]
    )
    text = next(entry["finding"] for entry in data["analyses"] if entry["name"] == "summary")
    assert text.endswith(f"every match of {int(robust['robustness'].sum())} of {robust.height} facts")


COMPARED = {
    "granularity": "year", "against_model": "b", "against_format": "chat", "against_prefix": "none",
    "win_rate_difference": 0.024, "win_rate_difference_high": 0.067,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rows", "told"),
    [
        ("transfer", [{"a": "day", "b": "year", "known_b": 45, "known_both": 14}],
         "Knows the year, not the day: 31 of 45"),
        ("transfer", [{"a": "day", "b": "year", "known_b": 4, "known_both": 4}],
         "Knows the day wherever it knows the year: 4 of 4"),
        ("transfer", [{"a": "day", "b": "year", "known_b": 0, "known_both": 0}], None),
        ("transfer", [{"a": "day", "b": "month", "known_b": 5, "known_both": 0}], None),
        ("far_errors", [{"threshold": t, "alpha": 1.0, "average": a, "share": s}
                        for t, a, s in ((0.9, "facts", 0.54), (0.95, "facts", 0.1), (0.9, "matches", 0.5))],
         "54 % of the errors on facts that seem known are far from the period"),
        ("far_errors", [{"threshold": 0.9, "alpha": 1.0, "average": "facts", "share": None}], None),
        ("believed_summary", [{"facts": 200, "believed": 0.935, "overlap": 0.299}],
         "Ties 187 of 200 facts to some period; where both ends are known, it overlaps the true one by 30 %"),
        ("believed_summary", [{"facts": 4, "believed": 0.0, "overlap": None}], "Ties 0 of 4 facts to some period"),
        ("anachronism_summary", [{"facts": 200, "facts_with": 198}],
         "Prefers an impossible or far date to a true one for 198 of 200 facts"),
        ("comparison", [COMPARED | {"win_rate_difference_low": -0.014}],
         "W is not surely apart from that of b, chat: +2.4 points (\N{MINUS SIGN}1.4 to +6.7)"),
        ("comparison", [COMPARED | {"win_rate_difference_low": 0.001}],
         "W is above that of b, chat: +2.4 points (+0.1 to +6.7)"),
        ("comparison", [COMPARED | {f"win_rate_difference{end}": n
                                    for end, n in (("", -0.3), ("_low", -0.4), ("_high", -0.2))}],
         "W is below that of b, chat: \N{MINUS SIGN}30.0 points (\N{MINUS SIGN}40.0 to \N{MINUS SIGN}20.0)"),
        ("margins", [{"granularity": g, "margin": m, "robustness": r}
                     for g, m, r in (("year", 0.0, 0.9), ("global", 0.5, 0.1), ("global", 0.0, 0.25),
                                     ("global", 0.1, 0.2))],
         "R is 25 %, and 20 % if each match must be won by more than 0.1 nats"),
        ("margins", [{"granularity": "year", "margin": m, "robustness": 0.0} for m in (0.0, 0.1)], None),
        ("lifespans", [{"granularity": "year", "difference": 0.062, "low": 0.008, "high": 0.11}],
         "Without dates outside the lives of those named W is 6.2 points lower (0.8 to 11.0)"),
        ("lifespans", [{"granularity": "year", "difference": -0.05, "low": -0.09, "high": -0.01}],
         "Without dates outside the lives of those named W is 5.0 points higher (1.0 to 9.0)"),
        ("lifespans", [{"granularity": "year", "difference": 0.01, "low": -0.09, "high": 0.05}], None),
        ("years", [{"first_year": 1900}], None),
    ],
)  # fmt: skip
def test_findings(name, rows, told):
    other = [row | KEY | {"model": "another"} for row in rows]
    assert finding(name, pl.DataFrame([row | KEY for row in rows] + other), RUN) == told
    assert finding(name, pl.DataFrame(other), RUN) is None


def test_findings_of_all_runs_together():
    names = ("format", "relation", "facts", "robustness", "low", "high")
    rows = [
        ("raw", "editor", 9, 0.9, 0.8, 1.0), ("raw", "mayor", 20, 0.25, 0.1, 0.4), ("raw", "ruler", 40, 0.2, 0.1, 0.3),
        ("chat", "ruler", 40, 0.9, 0.8, 1.0),
    ]  # fmt: skip
    table = pl.DataFrame(rows, schema=names, orient="row")
    assert finding("relations", table, RUN) == "R is highest for mayor: 25 % (10 % to 40 %) over 20 facts"
    assert finding("relations", table.with_columns(robustness=0.0), RUN) is None  # all are the first then
    names = ("models", "format", "factor", "score", "facts", "r", "p_clustered")
    rows = [
        ("all", "raw", "popularity", "win_rate", 90, 0.31, 0.001),
        ("all", "raw", "duration", "win_rate", 90, -0.4, 0.02),
        ("all", "raw", "popularity", "robustness", 90, float("nan"), float("nan")),
        ("top", "raw", "duration", "win_rate", 90, 0.9, 1e-9), ("all", "raw", "others", "robustness", 90, 0.1, 0.5),
        ("all", "all", "others", "win_rate", 99, 0.9, 1e-9),
    ]  # fmt: skip
    table = pl.DataFrame(rows, schema=names, orient="row")
    assert finding("correlations", table, RUN) == "W goes most with popularity: r +0.31 over 90 facts"
    assert finding("correlations", table.filter(pl.col("p_clustered") != 0.001), RUN) == (
        "W goes most with duration: r \N{MINUS SIGN}0.40 over 90 facts"
    )  # of two tests each may take 0.025
    assert finding("correlations", table.filter(pl.col("factor") == "others"), RUN) is None
