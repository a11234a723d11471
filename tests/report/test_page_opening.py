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
        assert entry["finding"] == (f"{looks.name(run)}: {found}" if found else None)
        assert (entry["group"] is None) == (not entry["views"] and not found)
    robust = study.facts.filter(
        pl.col("granularity") == "global", pl.col("model") == run[0], pl.col("format") == run[1]
    )
    text = next(entry["finding"] for entry in data["analyses"] if entry["name"] == "summary")
    assert text.endswith(f"every match of {int(robust['robustness'].sum())} of {robust.height} facts")


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
        ("relations", [{"relation": r, "win_rate": w, "facts": 4} for r, w in (("editor", 0.5), ("mayor", 0.83))],
         "W is highest for mayor: 83 % over 4 facts"),
        ("years", [{"first_year": 1900}], None),
    ],
)  # fmt: skip
def test_findings(name, rows, told):
    other = [row | KEY | {"model": "another"} for row in rows]
    assert finding(name, pl.DataFrame([row | KEY for row in rows] + other), RUN) == told
    assert finding(name, pl.DataFrame(other), RUN) is None
