"""With what the page opens, in what groups it shows analyses, and the findings at their head, against plain loops."""

from statistics import NormalDist

import polars as pl
import pytest

from anachron.analysis.analyses.analysis import GROUPS
from anachron.analysis.analyses.summary import summary_of_several
from anachron.analysis.catalogue import every_analysis, make_tables
from anachron.analysis.plots.charts import Looks, shows
from anachron.analysis.study import make_study
from anachron.report.outputs import Written, study_notes
from anachron.report.page.columns import in_words
from anachron.report.page.data import page_data
from anachron.report.page.render import render
from support.synthetic_studies import RUNS, synthetic_models, synthetic_scores

RUN = ("m", "raw", "none")
KEY = dict(zip(("model", "format", "prefix"), RUN, strict=True))


def made(seed=2, facts=40, runs=RUNS[4:6]):
    study = make_study([synthetic_scores(facts, seed=seed, runs=runs)], resamples=20)
    tables, left_out = make_tables(study)
    return study, tables, page_data(study, Written(tables, study_notes(study), left_out, {}, {}), [])


@pytest.fixture(scope="module")
def several():
    return made()


def finding(name, table, run):
    (analysis,) = (one for one in every_analysis() if one.name == name)
    return analysis.found(table, run)


def test_every_analysis_stands_in_a_group_of_the_page():
    for analysis in every_analysis():
        assert analysis.group in GROUPS
        assert analysis.finding is None or analysis.beside is None


def test_it_opens_with_the_worst_far_error(several):
    _, _, data = several
    first = data["worst"][0]
    assert {k: data["telling"][k] for k in ("run", "fact", "time")} == {k: first[k] for k in ("run", "fact", "time")}
    assert f"{abs(first['alpha']):.1f} period lengths away" in data["telling"]["why"]
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
    assert f"wins {100 * best['win_rate']:.0f} % of this fact's {best['matches']} matches" in told["why"]


def test_without_years_it_opens_with_no_timeline():
    study = make_study([synthetic_scores(6, runs=RUNS[:1]).filter(pl.col("granularity") != "year")], resamples=20)
    tables, left_out = make_tables(study)
    assert page_data(study, Written(tables, [], left_out, {}, {}), [])["telling"] is None


def test_findings_are_about_the_leading_run_and_what_says_nothing_is_folded(several):
    _, tables, data = several
    best = data["headline"]["rows"][0]
    run = tuple(best[name] for name in ("model", "format", "prefix"))
    looks = Looks([tuple(one[k] for k in ("model", "format", "prefix")) for one in data["runs"]])
    order = [run, *(one for one in looks.runs if one != run)]
    for entry in data["analyses"]:
        table = tables[entry["name"]]
        said = [text for text in (entry["finding"], *entry["others"]) if text]
        (analysis,) = (one for one in every_analysis() if one.name == entry["name"])
        of_run = "model" in table.columns and analysis.beside is None
        each = [(one, finding(entry["name"], table, one)) for one in (order if of_run else order[:1])]
        found = [(looks.name(one), text) for one, text in each if text]
        if entry["name"] == "summary":
            said = said[1:]
        assert [text.lower() for text in said] == [
            (f"{name}: {text}" if of_run else text).lower() for name, text in found
        ]
        assert (entry["group"] is None) == (not entry["views"] and not found and not entry.get("periods"))


def test_the_summary_tells_of_every_run(several):
    study, _, data = several
    entry = next(entry for entry in data["analyses"] if entry["name"] == "summary")
    shares = []
    for named in data["runs"]:
        own = [
            row
            for row in study.facts.to_dicts()
            if row["granularity"] == "global" and all(row[name] == named[name] for name in KEY)
        ]
        wins, robust = ([row[score] for row in own] for score in ("win_rate", "robustness"))
        share = 100 * sum(wins) / len(wins)
        shares.append((share, named["name"]))
        line = (
            f"{named['name']}: wins {share:.0f} % of matches, and every match of {sum(robust):.0f} of {len(own)} facts"
        )
        assert line in entry["others"]
    (low, worse), (high, better) = sorted(shares)
    assert entry["finding"] == f"{better} wins {high:.0f} % of matches, {worse} {low:.0f} %"
    level = pl.DataFrame(
        [
            {"granularity": level, "win_rate": w, **KEY, "model": m}
            for level, m, w in (("year", "a", 0.2), ("year", "b", 0.5), ("year", "c", 0.9), ("global", "a", 1.0))
        ]
    )
    assert summary_of_several(level.rows(named=True), lambda key: key[0]) == (
        "3 runs win between 20 % (a) and 90 % (c) of matches"
    )  # year is what all have
    assert (
        summary_of_several(
            [*level.rows(named=True)[3:], KEY | {"model": "d", "granularity": "month", "win_rate": 0.5}],
            lambda key: key[0],
        )
        is None
    )


COMPARED = {
    "granularity": "year", "against_model": "b", "against_format": "chat", "against_prefix": "none",
    "win_rate_difference": 0.024, "win_rate_difference_high": 0.067, "facts": 10,
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
        ("far_errors", [{"threshold": t, "alpha": 1.0, "average": a, "share": s, "low": 0.4, "high": 0.66, "facts": 10,
                         "chance": 0.35}
                        for t, a, s in ((0.9, "facts", 0.54), (0.95, "facts", 0.1), (0.9, "matches", 0.5))],
         "54 % (40 % to 66 %) of the errors on facts that seem known are far from the period, where errors at any "
         "date alike would be 35 %"),
        ("far_errors", [{"threshold": 0.9, "alpha": 1.0, "average": "facts", "share": None, "facts": 0}], None),
        ("far_errors", [{"threshold": 0.9, "alpha": 1.0, "average": "facts", "share": 0.5, "low": 0.5, "high": 0.5,
                         "facts": 9}], None),
        ("believed_summary", [{"facts": 200, "believed": 0.935, "overlap": 0.299, "overlap_low": 0.25,
                               "overlap_high": 0.35, "closed": 10}],
         "Ties 187 of 200 facts to some period; where both ends are known, it overlaps the true one by 30 % "
         "(25 % to 35 %)"),
        ("believed_summary", [{"facts": 9, "believed": 1.0, "overlap": 0.3, "overlap_low": 0.3, "overlap_high": 0.3,
                               "closed": 9}], "Ties 9 of 9 facts to some period"),
        ("believed_summary", [{"facts": 4, "believed": 0.0, "overlap": None}], "Ties 0 of 4 facts to some period"),
        ("anachronism_summary", [{"facts": 200, "facts_with": 198}],
         "Prefers an impossible or far date to a true one for 198 of 200 facts"),
        ("comparison", [COMPARED | {"win_rate_difference_low": -0.014}],
         "W is not significantly different from that of b, chat: +2.4 points (\N{MINUS SIGN}1.4 to +6.7)"),
        ("comparison", [COMPARED | {"win_rate_difference_low": 0.001}],
         "W is above that of b, chat: +2.4 points (+0.1 to +6.7)"),
        ("comparison", [COMPARED | {"win_rate_difference_low": 0.001, "facts": 9}], None),
        ("comparison", [COMPARED | {f"win_rate_difference{end}": n
                                    for end, n in (("", -0.3), ("_low", -0.4), ("_high", -0.2))}],
         "W is below that of b, chat: \N{MINUS SIGN}30.0 points (\N{MINUS SIGN}40.0 to \N{MINUS SIGN}20.0)"),
        ("margins", [{"granularity": g, "margin": m, "robustness": r}
                     for g, m, r in (("year", 0.0, 0.9), ("global", 0.5, 0.1), ("global", 0.0, 0.25),
                                     ("global", 0.1, 0.2))],
         "R is 25 %, and 20 % if each match must be won by more than 0.1 nats"),
        ("margins", [{"granularity": "year", "margin": m, "robustness": 0.0} for m in (0.0, 0.1)], None),
        ("margins", [{"granularity": "year", "margin": m, "robustness": 0.25} for m in (0.0, 0.1)],
         "R is 25 %, even if each match must be won by more than 0.1 nats"),
        ("wordings", [{"granularity": g, "wording": w, "robustness": r}
                      for g, w, r in (("year", "1", 0.9), ("global", "1", 0.2), ("global", "2", 0.3),
                                      ("global", "all", 0.1), ("global", "any", 0.4))],
         "R is 20 % to 30 % by the wording of the question; 10 % of facts are robust in all"),
        ("wordings", [{"granularity": "year", "wording": w, "robustness": 0.0} for w in ("1", "all", "any")], None),
        ("fewer_contexts", [{"granularity": g, "share": s, "robustness": r}
                            for g, s, r in (("month", 0.5, 0.9), ("year", 1.0, 0.1), ("year", 0.5, 0.25))],
         "R by year is 10 %, and would be 25 % on half as many contexts"),
        ("fewer_contexts", [{"granularity": "year", "share": s, "robustness": 0.0} for s in (0.5, 1.0)], None),
        ("fewer_contexts", [{"granularity": "day", "share": s, "robustness": 0.25} for s in (0.5, 1.0)], None),
        ("base_and_instruct", [{"score": s, "base": "b", "win": w, "loss": 10} for s, w in
                               (("robustness", 10), ("win_rate", 30))],
         "Does better than its base, b, on more facts than it does worse: 30 better, 10 worse (sign test, p 0.002)"),
        ("base_and_instruct", [{"score": "win_rate", "base": "b", "win": 14, "loss": 8}], None),  # p 0.29
        ("asked", [{"win_rate": 0.7, "win_rate_low": 0.62, "win_rate_high": 0.78}],
         "Asked to choose between two years, it is right in 70 % (62 % to 78 %); chance is 50 %"),
        ("asked", [{"win_rate": 0.55, "win_rate_low": 0.48, "win_rate_high": 0.62}],
         "Asked to choose between two years, it is not significantly better than chance: right in 55 % (48 % to 62 %)"),
        ("bridge", [{"asked": a, "facts": 40, "correlation": 0.5, "correlation_low": 0.2, "correlation_high": 0.7}
                    for a in ("choice", "open")],
         "The higher a fact's W by choice, the higher its W by log-probabilities: r +0.50 (+0.20 to +0.70) over "
         "40 facts"),
        ("bridge", [{"asked": "choice", "facts": 40, "correlation": 0.5, "correlation_low": -0.1,
                     "correlation_high": 0.7}], None),
        ("transfer_mean", [{"rate": 0.5}], None),
        ("lifespans", [{"granularity": "year", "difference": 0.062, "low": 0.008, "high": 0.11, "facts": 10}],
         "Without dates outside the lifetimes of subject and object, W is 6.2 points lower (0.8 to 11.0)"),
        ("lifespans", [{"granularity": "year", "difference": -0.05, "low": -0.09, "high": -0.01, "facts": 10}],
         "Without dates outside the lifetimes of subject and object, W is 5.0 points higher (1.0 to 9.0)"),
        ("lifespans", [{"granularity": "year", "difference": 0.01, "low": -0.09, "high": 0.05, "facts": 10}], None),
        ("lifespans", [{"granularity": "year", "difference": 0.062, "low": 0.062, "high": 0.062, "facts": 9}], None),
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
    assert finding("relations", table, RUN) == (
        "Of 2 relations with R above 0, mayor comes first here: 25 % (10 % to 40 %), 20 facts"
    )
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
    assert finding("correlations", table, RUN) == (
        "W correlates with popularity: r +0.31 over 90 facts; of 3 tests, only this one passed"
    )
    assert finding("correlations", table.filter(pl.col("p_clustered") != 0.001), RUN) == (
        "W correlates with duration: r \N{MINUS SIGN}0.40 over 90 facts; of 2 tests, only this one passed"
    )  # of two tests each may take 0.025
    others = table.filter(pl.col("factor") == "others")
    assert finding("correlations", others, RUN) == "No property of facts correlates significantly with W or R (1 test)"
    assert finding("correlations", others.with_columns(facts=9), RUN) is None
    assert finding("correlations", table.with_columns(factor=pl.lit("log_duration")).head(1), RUN) == (
        "W correlates with ln duration in years: r +0.31 over 90 facts"
    )


def cell(status, name, logp, width=0.2, facts=40):
    return {"status": status, "bin": name, "logp": logp, "low": logp - width, "high": logp + width, "facts": facts}


def fine(level, name, logp, facts=40):
    return {"granularity": level, "bin": name, "logp": logp, "low": logp - 0.2, "high": logp + 0.2, "facts": facts}


MIDDLE, SIDES = "(-0.25, 0]", ("(-3, -1]", "(1, 3]")


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([cell("correct", MIDDLE, -5), cell("incorrect", SIDES[0], -6), cell("incorrect", SIDES[1], -7)],
         "An answer is likelier in the middle of its period than one to three lengths before and after it: "
         "-5.0, -6.0, -7.0 nats"),
        ([cell("correct", MIDDLE, -8), cell("incorrect", SIDES[0], -6), cell("incorrect", SIDES[1], -7)],
         "An answer is less likely in the middle of its period than one to three lengths before and after it: "
         "-8.0, -6.0, -7.0 nats"),
        ([cell("correct", MIDDLE, -6.3), cell("incorrect", SIDES[0], -6), cell("incorrect", SIDES[1], -7)],
         "In the middle of its period an answer is likelier than one to three lengths after it (-6.3, -7.0 nats), not "
         "clearly so before it"),
        ([cell("correct", MIDDLE, -6.5), cell("incorrect", SIDES[0], -6), cell("incorrect", SIDES[1], -7)],
         "In the middle of its period an answer is less likely than one to three lengths before it (-6.5, -6.0 nats) "
         "and likelier than one to three lengths after it (-6.5, -7.0 nats)"),
        ([cell("correct", MIDDLE, -6.3), cell("incorrect", SIDES[0], -6), cell("incorrect", SIDES[1], -6.4)],
         "An answer is not clearly likelier in the middle of its period than one to three lengths before and after it: "
         "-6.3, -6.0, -6.4 nats"),
        ([cell("correct", MIDDLE, -5, facts=9), *(cell("incorrect", name, -7) for name in SIDES)], None),
        ([cell("correct", MIDDLE, -5), cell("incorrect", SIDES[0], -7)], None),
    ],
)  # fmt: skip
def test_the_middle_of_the_period_is_compared_where_intervals_are_apart(rows, told):
    said = finding("alpha", pl.DataFrame([row | KEY for row in rows]), RUN)
    assert said == (told and told.replace("-", "\N{MINUS SIGN}"))


def compared(model, form, prefix, low, middle, high, p=0.5, level="global"):
    return {"model": model, "format": form, "prefix": prefix, "granularity": level, "win_rate_difference": middle,
            "win_rate_difference_low": low, "win_rate_difference_high": high, "win_rate_difference_p": p,
            "facts": 10}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rows", "told"),
    [
        ("formats", [compared("m", "chat", "none", 0.01, 0.02, 0.03)],
         "In chat, W is above that in raw text: +2.0 points (+1.0 to +3.0)"),
        ("formats", [compared("m", "chat", "none", -0.01, 0.02, 0.03), compared("n", "chat", "none", 1, 1, 1)],
         "m: in chat, W is not significantly different from that in raw text: +2.0 points (-1.0 to +3.0)"),
        ("formats", [compared("n", "chat", "none", 0.01, 0.02, 0.03)], None),
        ("prefixes", [compared("m", "raw", "early", -0.03, -0.02, -0.01), compared("m", "chat", "late", 1, 1, 1)],
         "With prefix early, W is below that without: -2.0 points (-3.0 to -1.0)"),
        ("prefixes", [compared("m", "raw", name, -1, d, 1, p) for name, d, p in
                      (("a", 0.1, 0.001), ("b", -0.1, 0.01), ("c", 0.1, 0.02), ("d", 0.2, 0.001))],
         "Of 4 prefixes, a, d raise W and b lowers W"),  # 0.02 is not below 0.05 / 4
        ("prefixes", [compared("m", "raw", name, -1, 0.1, 1, 0.03) for name in "ab"], None),
        ("granularity_variance", [KEY | {"model": "n", "prefix": "p", "ratio": 2, "low": 1.1, "high": 3}], None),
        ("granularity_variance", [KEY | {"prefix": "p", "ratio": 0.6, "low": 0.5, "high": 0.8, "facts": 10}],
         "With prefix p, R by year, month and day is more alike: its variance is 0.60 times that without "
         "(0.50 to 0.80)"),
        ("granularity_variance", [KEY | {"prefix": p, "ratio": 2, "low": 1.1, "high": 3, "facts": 10} for p in "pq"],
         "With each of 2 prefixes, R by year, month and day is less alike"),
        ("granularity_variance", [KEY | {"prefix": p, "ratio": 2, "low": low, "high": 3, "facts": 10} for p, low in
                                  (("p", 1.1), ("q", 0.9))], None),
        ("overlap", [{"format": "raw", "prefix": "none", "model": "m", "other": "n", "robust_both": 3,
                      "robust_any": 9}],
         "m and n both know 3 of the 9 facts that either knows robustly"),
        ("overlap", [{"format": "raw", "prefix": "none", "model": "m", "other": other, "robust_both": 3,
                      "robust_any": 9} for other in "no"], None),
        ("shared_knowledge", [{"format": "raw", "prefix": "none", "group": g, "models": 4, "robust_in_all": 3,
                               "robust_in_any": 9} for g in ("top", "all")],
         "All 4 models know 3 of the 9 facts that any of them knows robustly"),
        ("shared_knowledge", [{"format": "raw", "prefix": "none", "group": "all", "models": 4, "robust_in_all": 0,
                               "robust_in_any": 0}], None),
    ],
)  # fmt: skip
def test_findings_of_a_run_beside_others(name, rows, told):
    assert finding(name, pl.DataFrame(rows), RUN) == (told and told.replace("-", "\N{MINUS SIGN}"))


def sized(model, parameters, w, family="f", instruct=False, width=0.02):
    return {"model": model, "format": "raw", "prefix": "none", "family": family, "instruct": instruct,
            "parameters": parameters, "facts": 10, "win_rate": w,
            "win_rate_low": w - width, "win_rate_high": w + width}  # fmt: skip


def test_sizes_are_compared_within_a_family_where_intervals_are_apart():
    rows = [sized("m", 1e9, 0.6), sized("n", 7e9, 0.7), sized("o", 70e9, 0.9, "g"), sized("p", 9e9, 0.9, instruct=True)]
    told = "The largest of the family has the higher W: n 70 % (68 % to 72 %), the smallest, m, 60 % (58 % to 62 %)"
    assert finding("sizes", pl.DataFrame(rows), RUN) == told
    assert finding("sizes", pl.DataFrame([sized("m", 1e9, 0.6), sized("n", 7e9, 0.63)]), RUN) is None
    assert finding("sizes", pl.DataFrame([sized("m", 7e9, 0.6), sized("n", 1e9, 0.7)]), RUN).startswith(
        "The largest of the family has the lower W: m 60 %"
    )
    assert finding("sizes", pl.DataFrame(rows[:1]), RUN) is None
    assert finding("sizes", pl.DataFrame(rows).with_columns(facts=9), RUN) is None
    assert finding("sizes", pl.DataFrame(rows[1:]), RUN) is None


def test_agreement_is_that_of_the_nearest_and_the_farthest_bin_behind_the_period():
    def bins(far, facts=30):
        rows = [(-5.0, 0.1), (0.0, 0.2), (0.5, 0.7), (1.0, 0.75), (4.5, far)]
        return pl.DataFrame(
            [{"format": "raw", "prefix": "none", "alpha_low": low, "alpha_high": low + 0.5, "facts": facts,
              "accuracy": mean, "low": mean - 0.05, "high": mean + 0.05} for low, mean in rows]
        )  # fmt: skip

    assert finding("agreement", bins(0.9), RUN) == (
        "Granularities agree more on wrong dates far away: 70 % (65 % to 75 %) at alpha 0.5 to 1, "
        "90 % (85 % to 95 %) at alpha 4.5 to 5"
    )
    assert finding("agreement", bins(0.5), RUN).startswith("Granularities agree less on wrong dates far away")
    assert finding("agreement", bins(0.75), RUN) is None
    assert finding("agreement", bins(0.9, facts=9), RUN) is None


@pytest.mark.parametrize(
    ("peaks", "told"),
    [
        ("year month day", "By year, by month and by day, the answer is likelier in the middle of the period than one "
         "length before and after it"),
        ("year", "By year, the answer is likelier in the middle of the period than one length before and after it; not "
         "clearly so by month and by day"),
        ("", "By year, by month and by day, it is not clear that the answer is likelier in the middle of the period "
         "than one length before and after it"),
    ],
)  # fmt: skip
def test_fine_bins_are_compared_one_length_away(peaks, told):
    rows = [fine(level, name, -5 if name == "(-0.1, 0.0]" and level in peaks else -6)
            for level in ("year", "month", "day")
            for name in ("(-1.1, -1.0]", "(-0.1, 0.0]", "(1.0, 1.1]")]  # fmt: skip
    assert finding("alpha_fine", pl.DataFrame([row | KEY for row in rows]), RUN) == told
    assert finding("alpha_fine", pl.DataFrame([row | KEY | {"facts": 9} for row in rows]), RUN) is None
    without = [row | KEY for row in rows if row["granularity"] == "year"]
    assert finding("alpha_fine", pl.DataFrame(without), RUN).startswith("By year, ")


def grouped(factor, means, width, facts=20):
    common = {"models": "all", "format": "raw", "factor": factor, "score": "win_rate", "facts": facts}
    return [common | {"bin": n, "mean": m, "low": m - width, "high": m + width} for n, m in enumerate(means)]


def test_the_property_whose_ends_differ_most_is_told_if_a_test_passes_for_all_of_them():
    rows = grouped("popularity", (0.5, 0.9, 0.7), 0.05) + grouped("other_objects", (0.6, 0.3), 0.05)
    hidden = [row | {"models": "top", "mean": 0.99} for row in rows]
    told = "W is 30 % (25 % to 35 %) for the facts with the most other objects, 60 % (55 % to 65 %) for those with the "
    assert finding("factor_bins", pl.DataFrame(hidden + rows), RUN) == told + "fewest other objects"
    assert finding("factor_bins", pl.DataFrame(rows[:3]), RUN).startswith("W is 70 % (65 % to 75 %) for the facts with")
    for difference in (0.03, 0.08, 0.085, 0.09):  # standard error 0.05 / 1.96 * sqrt(2) = 0.036, of two tests 2.24 each
        small = grouped("popularity", (0.5, 0.5 + difference), 0.05) + grouped("other_objects", (0.6, 0.6), 0.05)
        passes = NormalDist().cdf(-difference / (2**0.5 * 0.05 / NormalDist().inv_cdf(0.975))) < 0.025 / 2
        assert (finding("factor_bins", pl.DataFrame(small), RUN) is not None) == passes
    assert finding("factor_bins", pl.DataFrame([row | {"facts": 9} for row in rows]), RUN) is None
    assert finding("factor_bins", pl.DataFrame(rows[:1]), RUN) is None


def test_years_are_counted(several):
    study, tables, _ = several
    asked = set(study.runs[0].select("fact_id", "granularity", "time", "status").iter_rows())
    years = [(int(time), status) for _, level, time, status in asked if level == "year" and status != "none"]
    first, last = min(year for year, _ in years) // 10 * 10, max(year for year, _ in years) // 10 * 10 + 9
    held, wrong, edges = (sum(own == s for _, own in years) for s in ("correct", "incorrect", "transitional"))
    assert finding("years", tables["years"], RUN) == (
        f"Asks about years between {-first} BCE and {last}: {held:,} times within a fact's period, {wrong:,} outside "
        f"it, {edges:,} on its edges"
    )


def test_what_has_nothing_to_draw_is_left_out_with_its_reason():
    """A model that prefers most other dates: R is 0, nothing is known at any granularity, and there is one size."""
    scores = synthetic_scores(12, runs=RUNS[:1]).with_columns(
        logp=pl.when(pl.col("status") == "correct").then(-9.0).when(pl.col("alpha") > -2).then(-1.0).otherwise(-20.0)
    )
    study = make_study([scores], models=synthetic_models(), resamples=20)
    tables, left_out = make_tables(study)
    data = page_data(study, Written(tables, [], left_out, {}, {}), [])
    entries = {entry["name"]: entry for entry in data["analyses"]}
    for name in ("transfer", "transfer_mean", "sizes", "margins", "far_errors"):
        assert (entries[name]["group"], entries[name]["views"]) == (None, []) and entries[name]["empty"]
    assert not [entry["name"] for entry in data["analyses"] if entry["views"] and entry["empty"]]
    assert entries["dataset"]["empty"] is None  # a table that is never drawn stays
    assert {view["label"] for view in entries["relations"]["views"]} == {"raw"}  # R of 0 is a dot beside W
    html = render(data)
    assert "<code>transfer</code>): no fact is known at any granularity." in html


def test_two_facts_make_no_correlation():
    analysis = next(analysis for analysis in every_analysis() if analysis.name == "correlations")
    for facts, drawn in ((2, 0), (6, 1)):
        study = make_study([synthetic_scores(facts, runs=RUNS[:1])], models=synthetic_models(), resamples=20)
        assert len(analysis.views(analysis.compute(study), Looks(RUNS[:1]))) == drawn  # all and top are one model's


def test_one_model_is_not_drawn_pooled(several):
    _, tables, data = made(facts=12, runs=RUNS[:1])
    pooled = {name for name, table in tables.items() if "pooled" in table.to_dict(as_series=False).get("model", ())}
    assert pooled >= {"alpha", "transfer", "far_errors"}
    for entry in data["analyses"]:
        named = [view["label"] for view in entry["views"]]
        named += [trace.get("name", "") for view in entry["views"] for trace in view["data"]]
        assert not [name for name in named if name.startswith("pooled")]
    alpha = next(entry for entry in several[2]["analyses"] if entry["name"] == "alpha")
    assert "pooled" in {trace["name"].split(",")[0] for view in alpha["views"] for trace in view["data"]}


def test_sizes_are_drawn_from_two_on():
    looks = Looks(RUNS)
    sizes = next(analysis for analysis in every_analysis() if analysis.name == "sizes")
    study = make_study([synthetic_scores(6, runs=RUNS[:2])], models=synthetic_models(), resamples=20)
    assert sizes.views(sizes.compute(study), looks) == []
    study = make_study([synthetic_scores(6, runs=RUNS[:5])], models=synthetic_models(), resamples=20)
    assert [view["label"] for view in sizes.views(sizes.compute(study), looks)] == ["W", "R"]


@pytest.mark.parametrize(
    ("trace", "drawn"),
    [
        ({"type": "scatter", "x": [1], "y": [0.0]}, False),
        ({"type": "scatter", "x": [1], "y": [None]}, False),
        ({"type": "bar", "x": [1], "y": [0, 2]}, True),
        ({"type": "scatter", "x": [1], "y": [0.0], "error_y": {"array": [0.1], "arrayminus": [0.0]}}, True),
        ({"type": "heatmap", "z": [[None, None]]}, False),
        ({"type": "heatmap", "z": [[None, 0.0]]}, True),
    ],
)
def test_a_view_of_nothing_but_zeros_shows_nothing(trace, drawn):
    assert shows({"data": [trace], "layout": {}}) is drawn
    if trace["type"] != "heatmap":
        turned = {"type": trace["type"], "x": trace["y"], "y": ["a"]}
        turned |= {"error_x": trace["error_y"]} if "error_y" in trace else {}
        assert shows({"data": [turned], "layout": {"rows": 1}}) is drawn


def test_columns_are_called_in_words():
    for analysis in every_analysis():
        words = [in_words(column) for column in analysis.columns]
        assert len(set(words)) == len(words), analysis.name
        assert not [word for word in words if "_" in word and word != "R_k" and not word.startswith("R_k, ")]
    assert [in_words(name) for name in ("believed_low", "start_error_days", "against_win_rate", "subject_label")] == [
        "believed, lower end", "start error (days)", "other run's W", "subject"
    ]  # fmt: skip


def test_titles_name_no_figure_of_a_paper():
    assert not [a.name for a in every_analysis() if "figure" in a.title.lower() or "paper" in a.title.lower()]
