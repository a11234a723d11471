"""The report page without a browser: what it holds, against plain loops, and that nothing in it can break out."""

import base64
import json
import re
import sys
import zlib
from datetime import date
from html.parser import HTMLParser
from math import isfinite

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.analysis.analyses.dataset import round_years
from anachron.analysis.analyses.sizes import round_sizes
from anachron.analysis.catalogue import ANALYSES, make_tables
from anachron.analysis.plots.charts import Looks
from anachron.analysis.plots.marks import short_count
from anachron.analysis.study import make_study
from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.report.outputs import Written, study_notes, write_tables
from anachron.report.page.data import headline_sentence, page_data, title_of
from anachron.report.page.periods import position
from anachron.report.page.render import (
    LARGEST,
    content_policy,
    json_for_html,
    manifest_parts,
    pack,
    page_script,
    render,
)
from support.synthetic_studies import RUNS, synthetic_scores, synthetic_study

EVIL = '</script><img src=x onerror="window.hacked=1"> & "quoted" \'single\' أهلا 東京'
ANALYSIS = {analysis.name: analysis for analysis in ANALYSES}


def inflated(text):
    return zlib.decompress(base64.b64decode(text))


def unpacked(packed):
    """The inverse of `pack`, number by number."""
    raw, width = inflated(packed["data"]), int(packed["type"][1:])
    count = len(raw) // width
    found = []
    for i in range(count):
        own = bytes(raw[plane * count + i] for plane in range(width))
        value = np.frombuffer(own, "<f8")[0] if packed["type"] == "f8" else int.from_bytes(own, "little", signed=True)
        found.append(int(value) + (found[-1] if packed["differences"] and found else 0))
    return found


def written_of(study):
    tables, left_out = make_tables(study)
    return Written(tables, study_notes(study), left_out, {}, {})


@pytest.fixture(scope="module")
def study():
    """Runs that do not share all facts, a fact without matches, dates before the common era."""
    scores = synthetic_scores(16, runs=RUNS[:3])
    lacking = (pl.col("model") == "fir-1b") & (pl.col("fact_id") == "fact0003")
    unmatched = (pl.col("fact_id") == "fact0005") & (pl.col("status") == "incorrect")
    return make_study([scores.filter(~lacking & ~unmatched)], resamples=100)


@pytest.fixture(scope="module")
def written(study):
    return written_of(study)


@pytest.fixture(scope="module")
def data(study, written):
    return page_data(study, written, [])


@given(st.lists(st.integers(-LARGEST, LARGEST)), st.booleans())
def test_packed_numbers_come_back(values, differences):
    assert unpacked(pack(np.array(values, np.int64), differences=differences)) == values


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([127, -128], "i1"),
        ([128], "i2"),
        ([-129], "i2"),
        ([32768], "i4"),
        ([2**31], "f8"),
        ([-(2**31)], "i4"),
        ([], "i1"),
    ],
)
def test_packed_numbers_take_the_narrowest_type(values, kind):
    assert pack(np.array(values, np.int64))["type"] == kind


def test_numbers_beyond_doubles_are_refused():
    with pytest.raises(DataError, match="too large"):
        pack(np.array([1e17]))


def test_contexts_and_marks_are_those_of_a_plain_loop(study, data):
    packed = data["contexts"]
    ids = data["facts"]["id"]
    columns = [unpacked(packed[name]) for name in ("year", "month", "day", "alpha", "kind")]
    fact_of = [fact for fact, count in zip(ids, unpacked(packed["counts"]), strict=True) for _ in range(count)]
    levels, statuses = ["year", "month", "day"], ["correct", "incorrect", "transitional", "discarded", "none"]
    for run, own in zip(study.runs, packed["scores"], strict=True):
        found = {}
        scores = zip(fact_of, *columns, unpacked(own["logp"]), unpacked(own["flags"]), strict=True)
        for fact, year, month, day, alpha, kind, logp, flags in scores:
            if flags & 2:
                continue
            parts = [f"{'-' if year < 0 else ''}{abs(year):04d}", *(f"{n:02d}" for n in (month, day) if n)]
            status = statuses[kind & 7]
            key = (fact, levels[kind >> 4], None if status == "none" else "-".join(parts), status)
            assert key not in found
            found[key] = (logp, bool(flags & 1), bool(kind & 8), alpha)
        expected = {}
        rows = run.to_dicts()
        weakest = {}
        for row in rows:
            if row["status"] == "correct":
                key = (row["fact_id"], row["granularity"])
                weakest[key] = min(weakest.get(key, 1e9), row["logp"])
        for row in rows:
            rival = weakest.get((row["fact_id"], row["granularity"]))
            lost = row["status"] == "incorrect" and rival is not None and row["logp"] >= rival
            alpha = row["alpha"] or 0
            key = (row["fact_id"], row["granularity"], row["time"], row["status"])
            expected[key] = (round(100 * row["logp"]), lost, abs(alpha) >= 1, round(alpha * 100))
        assert {key: value[1:3] for key, value in found.items()} == {k: v[1:3] for k, v in expected.items()}
        for key, value in expected.items():
            assert abs(found[key][0] - value[0]) <= 1  # a half may be rounded either way
            assert abs(found[key][3] - value[3]) <= 1
        assert any(lost for _, lost, _, _ in found.values())


def test_contexts_are_in_order_of_time(data):
    packed = data["contexts"]
    columns = [unpacked(packed[name]) for name in ("year", "month", "day", "kind")]
    at = 0
    for count in unpacked(packed["counts"]):
        rows = list(zip(*(column[at : at + count] for column in columns), strict=True))
        keys = [(kind >> 4, kind & 7 != 4, year, month, day) for year, month, day, kind in rows]
        assert keys == sorted(keys)
        at += count
    assert at == len(columns[0])


def test_packed_scores_stay_small():
    study = make_study([synthetic_scores(8, runs=RUNS[:2])])
    noisy = np.random.default_rng(0)
    runs = tuple(run.with_columns(pl.Series("logp", noisy.normal(-20, 2, run.height))) for run in study.runs)
    packed = page_data(make_study(list(runs)), written_of(study), [])["contexts"]
    scores = sum(run.height for run in runs)
    # two bytes a score at most, before base64 adds a third; so 1.6 million of them are below 4.5 MB
    assert sum(len(own["logp"]["data"]) for own in packed["scores"]) < scores * 2 * 4 / 3


def test_a_time_that_is_no_date_is_refused(study, written):
    broken = [
        run.with_columns(time=pl.when(pl.int_range(pl.len()) == 5).then(pl.lit("spring")).otherwise("time"))
        for run in study.runs
    ]
    with pytest.raises(DataError, match="time 'spring' is not a date"):
        page_data(make_study(broken), written, [])


def test_metrics_of_each_run_and_none_without_matches(study, data):
    known = {
        (r["model"], r["format"], r["prefix"], r["granularity"], r["fact_id"]): (r["win_rate"], r["robustness"])
        for r in study.facts.iter_rows(named=True)
    }
    empty = 0
    for run, metrics in zip(data["runs"], data["metrics"], strict=True):
        for level in ("year", "month", "day", "global"):
            columns = metrics[level]
            for fact, win_rate, robust in zip(data["facts"]["id"], columns["win_rate"], columns["robust"], strict=True):
                expected = known.get((run["model"], run["format"], run["prefix"], level, fact))
                empty += expected is None
                if expected is None:
                    assert win_rate is None
                    assert robust is None
                else:
                    assert win_rate == pytest.approx(expected[0], abs=1e-6)
                    assert robust == expected[1]
    assert empty == 4 * (3 + 1)  # fact0005 in three runs, fact0003 in one


def test_every_fact_is_listed_with_what_is_known_of_it(study, data):
    facts = data["facts"]
    assert facts["id"] == [f"fact{n:04d}" for n in range(16)]
    for i, row in enumerate(study.about.iter_rows(named=True)):
        assert [facts[k][i] for k in ("subject", "object", "start", "end", "popularity")] == [
            row[k] for k in ("subject_label", "object_label", "start", "end", "popularity")
        ]
        assert facts["held_from"][i] < facts["held_until"][i]
    assert facts["popularity"][5] is None


@pytest.mark.parametrize("text", ["2011-01-01", "2012-12-31", "0004-02-29", "1900-03-01"])
def test_positions_are_fractions_of_years(text):
    day = date.fromisoformat(text)
    length = (date(day.year + 1, 1, 1) - date(day.year, 1, 1)).days
    expected = day.year + (day - date(day.year, 1, 1)).days / length
    assert position(Date.parse(text).first_day) == pytest.approx(expected, abs=1e-12)


def test_positions_before_the_common_era_have_no_gap():
    last, first = Date.parse("-0001-12-31").first_day, Date.parse("0001-01-01").first_day
    assert position(last) == pytest.approx(1 - 1 / 366)  # 1 BCE is a leap year, and lies from 0 to 1
    assert position(first) == 1
    assert position(Date.parse("-0044").first_day) == -43


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("models", "edits", "title"),
    [
        (("unedited", "edited with FT"), True, "Past facts before and after edits"),
        (("unedited",), False, "What unedited believes about when facts hold"),
        (("fir-1b", "edited with FT"), False, "What fir-1b and edited with FT believe about when facts hold"),
    ],
)
def test_facts_before_and_after_edits_are_known_by_the_unedited_model(models, edits, title):
    study = synthetic_study(4, runs=[(name, "raw", "none", 1.0) for name in models], resamples=20)
    data = page_data(study, written_of(study), [])
    assert (data["edits"], data["title"]) == (edits, title)
    assert ("<b>unedited</b> is the model before the updates" in render(data)) == edits


@pytest.mark.full
def test_worst_errors_are_the_farthest_lost_years():
    study = synthetic_study(60, seed=2, runs=RUNS[4:7])
    data = page_data(study, written_of(study), [])
    assert data["worst"]
    columns = ["model", "format", "prefix", "fact_id", "win_rate"]
    years = study.facts.filter(pl.col("granularity") == "year").select(columns)
    known = {row[:4]: row[4] for row in years.iter_rows()}
    distances = []
    for error in data["worst"]:
        run, fact = data["runs"][error["run"]], data["facts"]["id"][error["fact"]]
        table = study.runs[error["run"]].filter(pl.col("fact_id") == fact, pl.col("granularity") == "year")
        correct = [r["logp"] for r in table.to_dicts() if r["status"] == "correct"]
        lost = [r for r in table.to_dicts() if r["status"] == "incorrect" and r["logp"] >= min(correct)]
        farthest = max(lost, key=lambda r: abs(r["alpha"]))
        assert error["time"] == farthest["time"]
        assert error["alpha"] == pytest.approx(farthest["alpha"], abs=1e-3)
        assert 0.9 <= known[run["model"], run["format"], run["prefix"], fact] < 1
        distances.append(abs(farthest["alpha"]))
    assert distances == sorted(distances, reverse=True)


@pytest.mark.full
def test_tables_are_embedded_byte_by_byte_and_the_others_explained(tmp_path):
    study = synthetic_study(12, runs=RUNS[:2])
    written = write_tables(study, tmp_path, parameters={}, inputs={})
    data = page_data(study, written, [])
    assert [entry["name"] for entry in data["analyses"]] == [a.name for a in ANALYSES if a.name in written.tables]
    for entry in data["analyses"]:
        assert inflated(entry["csv"]) == (tmp_path / f"{entry['name']}.csv").read_bytes()
        assert entry["rows"] == written.tables[entry["name"]].height
    assert {item["name"]: item["reason"] for item in data["left_out"]} == dict(written.left_out)
    assert {"prefixes", "overlap"} & {item["name"] for item in data["left_out"]}


# What each chart draws: the coordinate, and the columns of the table that must be there, all of them, once.
DRAWN = {
    "summary": ("y", ["win_rate", "robustness"]),
    "crossed": ("y", ["crossed"]),
    "decoys": ("y", ["difference"]),
    "alpha": ("y", ["logp"]),
    "alpha_fine": ("y", ["logp"]),
    "far_errors": ("y", ["share"]),
    "formats": ("y", ["win_rate_difference", "robustness_difference"]),
    "prefixes": ("y", ["win_rate_difference", "robustness_difference"]),
    "comparison": ("y", ["win_rate_difference", "robustness_difference"]),
    "transfer": ("z", ["rate"]),
    "transfer_mean": ("x", ["rate"]),
    "agreement": ("y", ["accuracy", "matthews"]),
    "granularity_variance": ("x", ["ratio"]),
    "sizes": ("y", ["win_rate", "robustness"]),
    "base_and_instruct": ("x", ["win", "tie", "loss"]),
    "correlations": ("x", ["r"]),
    "factor_bins": ("y", ["mean"]),
    "relations": ("x", ["robustness", "win_rate"]),
    "overlap": ("z", ["jaccard", "jaccard"]),  # both halves of the square
    "margins": ("y", ["robustness"]),
    "fewer_contexts": ("y", ["robustness"]),
    "wordings": ("y", ["win_rate", "robustness"]),
    "years": ("y", ["correct", "transitional", "incorrect"]),
}


@pytest.fixture(scope="module")
def everything():
    study = synthetic_study(40, seed=1)
    return (
        study,
        make_tables(study)[0],
        Looks([tuple(run[k][0] for k in ("model", "format", "prefix")) for run in study.runs]),
    )


def test_every_chart_belongs_to_a_table_and_is_tested():
    assert {analysis.name for analysis in ANALYSES if analysis.chart is not None} == set(DRAWN)


@pytest.mark.few(6)
@pytest.mark.parametrize("name", sorted(DRAWN))
def test_charts_draw_what_their_tables_say(everything, name):
    _, tables, looks = everything
    views = ANALYSIS[name].views(tables[name], looks)
    json.dumps(views, allow_nan=False)
    coordinate, columns = DRAWN[name]
    drawn = []
    for view in views:
        assert view["label"]
        for trace in view["data"]:
            values = trace[coordinate]
            flat = [v for line in values for v in line] if coordinate == "z" else values
            drawn += [v for v in flat if v is not None]
    table = tables[name]
    if name == "relations":
        table = table.filter(pl.col("rank") <= 10)
    if name == "crossed":
        table = table.filter(pl.col("relation") == "all")
    if name in ("formats", "prefixes"):
        table = table.filter(pl.col("model") != "pooled")  # the mean over models is in the table alone
    if name == "correlations":
        table = table.filter(pl.col("models") == "all")  # of five models, the same as the most robust
    expected = [v for c in columns for v in table[c] if v is not None and isfinite(v)]
    assert len(drawn) == len(expected) > 0
    assert sorted(drawn) == pytest.approx(sorted(expected), abs=1e-4)


def test_intervals_are_drawn_from_end_to_end(everything):
    _, tables, looks = everything
    drawn = {
        (trace["name"], x): (y - down, y, y + up)
        for trace in ANALYSIS["summary"].views(tables["summary"], looks)[0]["data"]
        for x, y, up, down in zip(
            trace["x"], trace["y"], trace["error_y"]["array"], trace["error_y"]["arrayminus"], strict=True
        )
    }
    for row in tables["summary"].iter_rows(named=True):
        name = looks.name([row["model"], row["format"], row["prefix"]])
        expected = (row["win_rate_low"], row["win_rate"], row["win_rate_high"])
        assert drawn[name, row["granularity"]] == pytest.approx(expected, abs=1e-5)


def test_transfer_cells_are_where_they_belong(everything):
    _, tables, looks = everything
    views = {view["label"]: view["data"][0] for view in ANALYSIS["transfer"].views(tables["transfer"], looks)}
    for row in tables["transfer"].iter_rows(named=True):
        name = looks.name([row["model"], row["format"], row["prefix"]])
        if name not in views:  # a run that knows nothing
            assert row["rate"] is None
            continue
        trace = views[name]
        cell = trace["z"][trace["y"].index(row["b"])][trace["x"].index(row["a"])]
        assert cell == (None if row["rate"] is None else pytest.approx(row["rate"], abs=1e-6))


def test_an_empty_table_draws_nothing(everything):
    _, tables, looks = everything
    assert ANALYSIS["summary"].views(tables["summary"].head(0), looks) == []
    assert ANALYSIS["dataset"].views(tables["dataset"], looks) == []
    unknown = tables["transfer_mean"].with_columns(pl.lit(None, pl.Float64).alias("rate"))
    assert ANALYSIS["transfer_mean"].views(unknown, looks) == []


def test_runs_keep_their_look_and_are_named_by_what_differs():
    looks = Looks([("a", "raw", "none"), ("a", "chat", "none"), ("b", "raw", "none")])
    assert [looks.name(run) for run in looks.runs] == ["a, raw", "a, chat", "b, raw"]
    traces = [looks.trace(run) for run in looks.runs]
    assert len({(t["line"]["color"], t["marker"]["symbol"], t["line"]["dash"]) for t in traces}) == 3
    pooled = [looks.trace(("pooled", form, "none")) for form in ("raw", "chat")]
    assert {trace["line"]["color"] for trace in pooled} == {"@ink"}
    assert pooled[0]["marker"]["symbol"] != pooled[1]["marker"]["symbol"]
    many = Looks([(f"m{i}", "raw", "none") for i in range(40)])
    marks = {(t["line"]["color"], t["marker"]["symbol"]) for t in map(many.trace, many.runs)}
    assert len(marks) == 40


@pytest.mark.parametrize(
    ("low", "high", "years"),
    [(1800, 2010, [1800, 1850, 1900, 1950, 2000]), (-40, 9, [-40, -30, -20, -10, 0]), (5, 5, [5])],
)
def test_round_years(low, high, years):
    assert [y for y in round_years(low, high) if y in years] == years
    assert len(round_years(low, high)) <= 11


def test_round_sizes_surround_the_models():
    assert round_sizes(1.1e9, 7e9) == [1e9, 2e9, 5e9, 1e10]
    assert round_sizes(1e9, 1e9) == [5e8, 1e9, 2e9]
    assert [short_count(n, 3) for n in (7e9, 1.5e6, 2000, 12, 1e12)] == ["7B", "1.5M", "2k", "12", "1T"]


def test_headline_is_ranked_and_says_what_guessing_gives(data, written):
    rows = data["headline"]["rows"]
    assert data["headline"]["granularity"] == "global"
    assert [r["robustness"] for r in rows] == sorted((r["robustness"] for r in rows), reverse=True)
    summary = {
        (r["model"], r["format"]): r for r in written.summary.filter(pl.col("granularity") == "global").to_dicts()
    }
    for row in rows:
        own = summary[row["model"], row["format"]]
        assert row["win_rate_low"] == pytest.approx(own["win_rate_low"])
        assert row["random_robustness"] == pytest.approx(own["random_robustness"], abs=1e-12)
    assert f"{100 * rows[0]['win_rate']:.1f} % of matches" in headline_sentence(data["headline"])
    assert "less than 0.1 %" in headline_sentence(data["headline"])


def test_without_a_global_row_the_coarsest_granularity_leads():
    study = make_study([synthetic_scores(6, runs=RUNS[:1]).filter(pl.col("granularity") != "year")])
    data = page_data(study, written_of(study), [])
    assert data["headline"]["granularity"] == "month"
    assert "by month" in data["sentence"]
    assert data["worst"] == []
    assert "years" not in [entry["name"] for entry in data["analyses"] if entry["views"]]


def test_titles():
    assert title_of(["a"]) == "What a believes about when facts hold"
    assert title_of(["a", "b"]) == "What a and b believe about when facts hold"
    assert title_of(["a", "b", "c"]) == "What 3 models believe about when facts hold"


class Elements(HTMLParser):
    """Tags with attributes, and the content of scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, text):
        if self.tags and self.tags[-1][0] == "script" and self.cdata_elem == "script":
            self.scripts[-1] += text


@pytest.fixture(scope="module")
def evil():
    """A study whose labels and model try to leave their places, and its page."""
    scores = synthetic_scores(6, runs=RUNS[:2])
    texts = {name: pl.lit(EVIL) for name in ("subject_label", "object_label", "relation_label")}
    model = pl.when(pl.col("model") == "fir-1b").then(pl.lit(EVIL)).otherwise("model")
    study = make_study([scores.with_columns(**texts, model=model)], resamples=100)
    record = {"settings": {"model": EVIL, "format": "raw"}, "noise": {"largest": 1e-5}, "audit": {"examples": [EVIL]}}
    data = page_data(study, written_of(study), [{"name": EVIL, "record": record}, {"name": "bare", "record": None}])
    return data, render(data)


def test_no_label_leaves_its_place(evil):
    data, page = evil
    found = Elements(page)
    assert len(found.scripts) == 3
    assert json.loads(found.scripts[0]) == data
    assert data["facts"]["subject"][0] == EVIL
    assert all(tag != "img" for tag, _ in found.tags)
    assert "<" not in found.scripts[0]
    assert not re.search(r"<(script|img)[^>]*hacked", page)


def test_texts_for_plotly_are_escaped(evil):
    data, _ = evil
    drawn = json.dumps([view["data"] for entry in data["analyses"] for view in entry["views"]], ensure_ascii=False)
    assert "&lt;/script&gt;&lt;img" in drawn
    assert "<img" not in drawn


def test_the_page_asks_the_network_nothing_and_allows_its_own_scripts_only(evil):
    _, page = evil
    found = Elements(page)
    for _, attributes in found.tags:
        assert not (attributes.get("src") or "").startswith(("http", "//"))
        assert not (attributes.get("href") or "").startswith(("http", "//", "javascript"))
    (policy,) = [a["content"] for tag, a in found.tags if tag == "meta" and a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline' " not in policy.split("style-src")[0]
    assert found.scripts[2] == page_script()
    plotly = inflated(found.scripts[1]).decode()
    assert content_policy([page_script(), plotly]) == policy
    assert "plotly.js" in plotly[:200]


@pytest.mark.full
def test_the_same_study_makes_the_same_page(study, written):
    assert render(page_data(study, written, [])) == render(page_data(study, written, []))


def test_json_in_html_comes_back():
    value = {"a": [EVIL, None, 1.5, "\u2028"], "<!--": "]]>"}
    text = json_for_html(value)
    assert json.loads(text) == value
    assert "<" not in text
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_for_html({"a": float("nan")})


def test_manifests_say_what_matters(evil):
    _, page = evil
    lines, whole = manifest_parts(
        {"settings": {"model": "m", "dtype": "float32"}, "noise": {"largest": 1.2e-5}, "model": {"parameters": 1234},
         "sessions": [{"versions": {"torch": "1"}}, {"versions": {"torch": "2"}, "hardware": {"cores": 2}}]}
    )  # fmt: skip
    found = dict(lines)
    assert found["noise"] == "1.2e-05 nats"
    assert found["parameters"] == "1,234"
    assert found["versions"] == "torch 2"
    assert json.loads(whole)["settings"]["dtype"] == "float32"
    assert manifest_parts(None) == ([], "")
    assert "This score table is not part of a run" in page


def test_a_missing_extra_is_named(monkeypatch, data):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ConfigError, match=r"pip install 'matplotlib.* 'plotly"):
        render(data)
