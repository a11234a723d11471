"""The report page in a real browser, opened from its file: what people see against plain computations."""

import polars as pl
import pytest

from anachron.analysis.catalogue import make_tables
from anachron.analysis.study import make_study
from anachron.core.dates import GRANULARITIES, Date
from anachron.report.outputs import Written, study_notes
from anachron.report.page.columns import in_words
from anachron.report.page.data import page_data
from anachron.report.page.periods import position
from anachron.report.page.render import render
from anachron.text.dates import date_in_words
from support.browser import wait_until, wider
from support.synthetic_studies import RUNS, synthetic_scores

EVIL = '</script><img src=x onerror="window.hacked=1"><b>Ünï</b> & "q" 東京'
FACTS = 56
CHART = "document.getElementById('timeline-chart')"
DATA = "JSON.parse(document.getElementById('data').textContent)"


@pytest.fixture(scope="module")
def study():
    """Three runs, one of a hostile name; a fact of hostile labels, one without matches, one that a run lacks."""
    scores = synthetic_scores(FACTS, seed=3, runs=(RUNS[0], RUNS[6], RUNS[7]))
    fact = pl.col("fact_id")
    labels = [
        pl.when(fact == "fact0007").then(pl.lit(EVIL)).otherwise(pl.col(name)).alias(name)
        for name in ("subject_label", "object_label")
    ]
    model = pl.when(pl.col("model") == "oak-3b").then(pl.lit(EVIL)).otherwise("model").alias("model")
    scores = scores.with_columns(*labels, model, question="what is " + fact + EVIL)
    unmatched = (fact == "fact0005") & (pl.col("status") == "incorrect")
    lacking = (fact == "fact0009") & (pl.col("model") == "fir-1b")
    return make_study([scores.filter(~unmatched & ~lacking)], resamples=100)


@pytest.fixture(scope="module")
def tables(study):
    return make_tables(study)


@pytest.fixture(scope="module")
def address(study, tables, tmp_path_factory):
    record = {"settings": {"model": EVIL, "dtype": "float32"}, "noise": {"largest": 1e-5}}
    written = Written(tables[0], study_notes(study), tables[1], {}, {})
    data = page_data(study, written, [{"name": EVIL, "record": record}], style="american")
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_bytes(render(data).encode())
    return path.as_uri()


class Seen:
    """What a page complained of and asked for."""

    def __init__(self, page):
        self.errors, self.requests = [], []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))


@pytest.fixture(scope="module")
def opened(browser, address):
    """One page for all tests, and what it complained of."""
    page = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True).new_page()
    seen = Seen(page)
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    return page, seen


@pytest.fixture
def page(opened):
    """The page, with its timeline closed and its filters cleared."""
    found = opened[0]
    if found.evaluate("document.getElementById('timeline').open"):
        found.keyboard.press("Escape")
    found.click("#clear")
    found.select_option("#run", "0")
    found.select_option("#level", "global")
    sort(found, "popularity", down=True)
    return found


def key_of(run):
    return tuple(run[name][0] for name in ("model", "format", "prefix"))


def global_win_rates(study, run):
    rows = study.facts.filter(pl.col("granularity") == "global").to_dicts()
    key = key_of(study.runs[run])
    return {r["fact_id"]: r["win_rate"] for r in rows if (r["model"], r["format"], r["prefix"]) == key}


def robust_count(study, run, fact):
    rows = study.facts.filter(pl.col("granularity") != "global", pl.col("fact_id") == fact).to_dicts()
    own = [r["robustness"] for r in rows if (r["model"], r["format"], r["prefix"]) == key_of(study.runs[run])]
    return sum(own) if own else None


def listed(page):
    """Ids of all facts that pass the filters, page by page, in order."""
    found = []
    ids = page.evaluate(f"{DATA}.facts.id")
    while True:
        rows = page.eval_on_selector_all("#facts-table tbody tr", "rows => rows.map(row => Number(row.dataset.fact))")
        found += [ids[row] for row in rows]
        if page.is_disabled("#next-page"):
            return found
        page.click("#next-page")


def sort(page, key, *, down):
    header = page.locator(f"#facts-table th[data-key={key}]")
    for _ in range(2):
        if header.get_attribute("aria-sort") == ("descending" if down else "ascending"):
            return
        header.locator("button").click()
    assert header.get_attribute("aria-sort") == ("descending" if down else "ascending")


def cells(page, row):
    return page.locator("#facts-table tbody tr").nth(row).locator("td").all_text_contents()


def marks(page):
    """Points of every panel of the timeline: [{name: [(x, y), ...]}, ...] from what Plotly was given."""
    traces = page.evaluate(f"{CHART}.data.map(t => ({{name: t.name, axis: t.yaxis, x: [...t.x], y: [...t.y]}}))")
    panels = {}
    for trace in traces:
        points = [(x, y) for x, y in zip(trace["x"], trace["y"], strict=True) if x is not None]
        panels.setdefault(trace["axis"], {})[trace["name"]] = points
    return list(panels.values())


def expected_marks(study, run, fact, level):
    """The same from the scores: kind -> sorted log-probabilities, rounded as the page does."""
    rows = [r for r in study.runs[run].to_dicts() if r["fact_id"] == fact and r["granularity"] == level]
    correct = [r["logp"] for r in rows if r["status"] == "correct"]
    found = {"right": [], "wrong": [], "lost": [], "far": [], "open": [], "prior": []}
    for r in rows:
        if r["status"] == "incorrect":
            lost = bool(correct) and r["logp"] >= min(correct)
            kind = "far" if lost and abs(r["alpha"]) >= 1 else "lost" if lost else "wrong"
        else:
            kind = {"correct": "right", "none": "prior"}.get(r["status"], "open")
        found[kind].append(r["logp"])
    return {kind: sorted(values) for kind, values in found.items()}


NAMES = {
    "right": "the fact held", "wrong": "it did not, match won", "lost": "it did not, match lost",
    "far": "far error: lost from |alpha| ≥ 1", "open": "undecided, not counted",
}  # fmt: skip


def check_panel(panel, expected):
    for kind, name in NAMES.items():
        assert sorted(y for _, y in panel[name]) == pytest.approx(expected[kind], abs=0.0051), kind
    for name, level in (("prior: no date given", expected["prior"]), ("weakest right date", expected["right"])):
        assert [y for _, y in panel[name]] == pytest.approx([level[0]] * 2, abs=0.0051)


def until(page, condition):
    """Wait for a condition. (Playwright's own way evaluates texts in the page, which its policy forbids.)"""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never came true: {condition}")


def wait_for_timeline(page, fact):
    page.wait_for_selector(f"#timeline-chart[data-fact='{fact}']")


@pytest.mark.full
def test_it_opens_from_a_file_without_errors_or_requests(opened, address, tables):
    page, seen = opened
    page.wait_for_selector("html[data-charts=drawn]")
    assert seen.errors == []
    assert seen.requests == [address]
    assert page.is_hidden("#trouble")
    drawn = page.eval_on_selector_all(".analysis .chart", "all => all.map(chart => chart.data.length)")
    assert len(drawn) >= 14
    assert min(drawn) > 0
    titles = page.locator("#analyses-list h3").all_text_contents()
    assert len(titles) == len(tables[0]) - 2  # facts and timelines have places of their own
    assert page.locator("#left-out + ul li").count() == len(tables[1])


@pytest.mark.full
def test_headline_numbers(page, tables):
    rows = page.locator("#headline tbody tr").all_text_contents()
    summary = tables[0]["summary"].filter(pl.col("granularity") == "global")
    assert len(rows) == summary.height
    for row in summary.iter_rows(named=True):
        (own,) = [" ".join(text.split()) for text in rows if text.startswith(f"{row['model']}, {row['format']}")]
        for score in ("win_rate", "robustness"):
            mean, low, high = (f"{100 * row[score + end]:.1f}" for end in ("", "_low", "_high"))
            assert f"{mean} ({low}–{high})" in own


@pytest.mark.full
def test_every_fact_is_listed_the_most_popular_first(page, study):
    popular = {r["fact_id"]: r["popularity"] for r in study.about.to_dicts()}
    found = listed(page)
    assert sorted(found) == sorted(popular)
    values = [popular[fact] for fact in found]
    known = [v for v in values if v is not None]
    assert known == sorted(known, reverse=True)
    assert values[len(known) :] == [None] * (FACTS - len(known))
    assert page.inner_text("#count") == f"51–{FACTS} of {FACTS} facts"


@pytest.mark.full
def test_a_fact_without_matches_has_a_dash(page):
    page.fill("#search", "object 5")
    rows = [cells(page, i) for i in range(page.locator("#facts-table tbody tr").count())]
    (row,) = [row for row in rows if row[2] == "Object 5"]
    assert row[-3:-1] == ["–", "–"]


@pytest.mark.full
@pytest.mark.parametrize("query", ["Object 12", "CAPITAL 1", "uni", "東京", "no such fact", "</script>"])
def test_search(page, study, query):
    page.fill("#search", query)
    words = query.lower().replace("ü", "u").split()
    expected = []
    for row in study.about.to_dicts():
        text = " ".join(row[k] for k in ("subject_label", "relation_label", "object_label")).lower()
        text = text.replace("ü", "u").replace("ï", "i")
        if all(word in text for word in words):
            expected.append(row["fact_id"])
    assert sorted(listed(page)) == sorted(expected)
    if not expected:
        assert page.inner_text("#count").startswith("No fact")


@pytest.mark.full
def test_filter_by_relation(page, study):
    page.select_option("#relation", "spouse")
    expected = [r["fact_id"] for r in study.about.to_dicts() if r["relation_label"] == "spouse"]
    assert sorted(listed(page)) == sorted(expected)


@pytest.mark.full
@pytest.mark.parametrize("status", ["all", "some", "none", "unknown"])
def test_filter_by_robustness(page, study, status):
    page.select_option("#run", "1")
    page.select_option("#robust", status)
    counts = {fact: robust_count(study, 1, fact) for fact in study.about["fact_id"]}
    kinds = {None: "unknown", 0: "none", 1: "some", 2: "some", 3: "all"}
    assert sorted(listed(page)) == sorted(fact for fact, count in counts.items() if kinds[count] == status)


@pytest.mark.full
@pytest.mark.parametrize(
    ("since", "until", "low", "high"),
    [("1950", "1960", 1950, 1960), ("", "44 BCE", None, -44), ("-200", "-100", -200, -100), ("100 bc", "", -100, None)],
)
def test_filter_by_period(page, study, since, until, low, high):
    page.fill("#from", since)
    page.fill("#to", until)
    expected = [
        r["fact_id"]
        for r in study.about.to_dicts()
        if (low is None or Date.parse(r["end"]).year >= low) and (high is None or Date.parse(r["start"]).year <= high)
    ]
    assert sorted(listed(page)) == sorted(expected)
    assert page.inner_text("#filter-trouble") == ""


@pytest.mark.full
@pytest.mark.parametrize("fact", ["fact0012", "fact0020"])
def test_both_ends_of_a_period_belong_to_it(page, study, fact):
    about = study.about.filter(pl.col("fact_id") == fact).to_dicts()[0]
    first, last = Date.parse(about["start"]).year, Date.parse(about["end"]).year
    for field, inside, outside in (("#from", last, last + 1), ("#to", first, first - 1)):
        page.fill(field, str(inside))
        assert fact in listed(page)
        page.fill(field, str(outside))
        assert fact not in listed(page)
        page.fill(field, "")


@pytest.mark.full
def test_filter_by_popularity(page, study):
    page.fill("#popular-from", "100")
    page.fill("#popular-to", "1,000")
    known = {r["fact_id"]: r["popularity"] for r in study.about.to_dicts() if r["popularity"] is not None}
    expected = [fact for fact, popularity in known.items() if 100 <= popularity <= 1000]
    assert 0 < len(expected) < FACTS
    assert sorted(listed(page)) == sorted(expected)


@pytest.mark.full
def test_filters_work_together_and_are_cleared(page, study):
    page.fill("#search", "capital")
    page.fill("#from", "1900")
    few = listed(page)
    assert 0 < len(few) < FACTS
    page.click("#clear")
    assert len(listed(page)) == FACTS


@pytest.mark.full
def test_a_bound_that_is_no_year_is_named(page):
    page.fill("#from", "0")
    assert "“0” is not a year" in page.inner_text("#filter-trouble")
    assert page.get_attribute("#from", "aria-invalid") == "true"
    assert len(listed(page)) == FACTS


@pytest.mark.full
@pytest.mark.parametrize("down", [True, False])
def test_sort_by_win_rate(page, study, down):
    sort(page, "win_rate", down=down)
    known = global_win_rates(study, 0)
    found = listed(page)
    values = [known[fact] for fact in found if fact in known]
    assert values == sorted(values, reverse=down)
    assert set(found[len(values) :]) == {"fact0005", "fact0009"}  # those without matches come last either way


@pytest.mark.full
def test_sort_by_period_knows_that_bce_comes_before(page, study):
    sort(page, "held", down=False)
    starts = {r["fact_id"]: r["start"] for r in study.about.to_dicts()}
    years = [Date.parse(starts[fact]).year for fact in listed(page)]
    assert years == sorted(years)
    assert years[0] < 0


@pytest.mark.full
def test_the_chosen_run_decides_w(page, study):
    sort(page, "subject", down=False)
    shown = []
    for run in (0, 2):
        page.select_option("#run", str(run))
        known = global_win_rates(study, run)
        fact = listed(page)[-1]
        last = cells(page, page.locator("#facts-table tbody tr").count() - 1)
        assert last[-3].replace("\u00a0", " ") == f"{100 * known[fact]:.1f} %"
        beside = [global_win_rates(study, other).get(fact) for other in range(len(study.runs)) if other != run]
        words = ["–" if share is None else f"{100 * share:.1f} %" for share in beside]
        told = last[-1].replace("\u00a0", " ").split("; ")
        assert [text.rpartition(": ")[2] for text in told] == words  # the other runs, side by side
        page.click("#previous-page")
        shown.append(last[-3])
    assert shown[0] != shown[1]


@pytest.mark.full
def test_a_click_opens_the_timeline_of_a_fact(page, study):
    page.fill("#search", "Object 12")
    page.locator("#facts-table tbody tr", has_text="Object 12").first.click()
    wait_for_timeline(page, "fact0012")
    assert page.inner_text("#timeline-title") == "Subject 4 | head of state | Object 12"
    (panel,) = marks(page)
    check_panel(panel, expected_marks(study, 0, "fact0012", "year"))
    held = page.evaluate(f"{CHART}.layout.shapes.map(s => [s.x0, s.x1])")
    about = study.about.filter(pl.col("fact_id") == "fact0012").to_dicts()[0]
    assert held[0][0] == pytest.approx(int(about["start"][:4]), abs=1)
    assert held[0][1] == pytest.approx(int(about["end"]) + 1, abs=1e-6)


@pytest.mark.full
def test_the_prompt_of_a_date_is_shown(page, study):
    """The question at first; under a mark the whole prompt, as `date_in_words` has its opening."""
    page.fill("#search", "Object 12")
    page.locator("#facts-table tbody tr", has_text="Object 12").first.click()
    wait_for_timeline(page, "fact0012")
    question = f"what is fact0012{EVIL}"
    assert page.inner_text("#timeline-prompt") == f"Asked: {question}"
    for level in ("month", "day"):
        page.check(f"#timeline-levels input[value={level}]")
    wait_for_timeline(page, "fact0012")
    for level, curve in (("year", 3), ("month", 11), ("day", 19)):  # 8 traces a panel: line, 2 levels, 5 marks
        dates = page.evaluate(f"{CHART}.data[{curve}].customdata")
        point = {"points": [{"customdata": dates[0]}]}
        page.evaluate(f"point => {CHART}.emit('plotly_hover', point)", point)
        date = Date(*(part for part in dates[0] if part))
        assert date.granularity == level
        assert page.inner_text("#timeline-prompt") == f"Asked: {date_in_words(date)}{question}"
    page.evaluate(f"{CHART}.emit('plotly_unhover', {{}})")
    assert page.inner_text("#timeline-prompt") == f"Asked: {question}"
    for level in ("month", "day"):
        page.uncheck(f"#timeline-levels input[value={level}]")


@pytest.mark.full
def test_years_lie_in_the_middle_of_themselves(page, study):
    page.fill("#search", "Object 13")
    page.locator("#facts-table tbody tr", has_text="Object 13").first.click()
    wait_for_timeline(page, "fact0013")
    (panel,) = marks(page)
    rows = study.runs[0].filter(pl.col("fact_id") == "fact0013", pl.col("granularity") == "year").drop_nulls("time")
    found = sorted(x for name in NAMES.values() for x, _ in panel[name])
    assert found == pytest.approx(sorted(int(time) + 0.5 for time in rows["time"]))


@pytest.mark.full
def test_all_granularities_and_runs_side_by_side(page, study):
    page.fill("#search", "Object 20")
    page.locator("#facts-table tbody tr", has_text="Object 20").first.click()
    wait_for_timeline(page, "fact0020")
    page.check("#timeline-levels input[value=month]")
    page.check("#timeline-levels input[value=day]")
    page.check("#timeline-runs input[value='1']")
    wait_for_timeline(page, "fact0020")
    panels = marks(page)
    for panel, (run, level) in zip(panels, [(r, g) for r in (0, 1) for g in ("year", "month", "day")], strict=True):
        check_panel(panel, expected_marks(study, run, "fact0020", level))
    for value in ("month", "day"):
        page.uncheck(f"#timeline-levels input[value={value}]")
    page.click("#timeline-levels input[value=year]")  # the last one cannot be taken away
    assert page.is_checked("#timeline-levels input[value=year]")


@pytest.mark.full
def test_a_run_without_scores_of_a_fact_draws_none(page, study):
    page.fill("#search", "Object 9")
    page.locator("#facts-table tbody tr", has_text="Object 9").first.click()
    wait_for_timeline(page, "fact0009")
    assert sum(len(points) for points in marks(page)[0].values()) == 0
    assert page.locator("#timeline-chart .annotation-text").text_content().endswith("no score")
    page.check("#timeline-runs input[value='1']")
    wait_for_timeline(page, "fact0009")
    check_panel(marks(page)[1], expected_marks(study, 1, "fact0009", "year"))


@pytest.mark.full
def test_dates_before_the_common_era_have_names(page):
    sort(page, "held", down=False)
    page.locator("#facts-table tbody tr").first.click()
    page.wait_for_selector("#timeline[open] #timeline-chart[data-fact]")
    assert page.evaluate(f"{CHART}.layout.xaxis.ticktext.every(t => /^\\d+ BCE$/.test(t))")
    low, _ = page.evaluate(f"{CHART}.layout.xaxis.range")
    page.evaluate("range => Plotly.relayout('timeline-chart', {'xaxis.range': range})", [low + 5, low + 6])
    until(page, f"{CHART}.layout.xaxis.ticktext.every(t => /^[A-Z][a-z]+ \\d+ BCE$/.test(t))")
    places = page.evaluate(f"{CHART}.layout.xaxis.tickvals")
    assert all(low + 5 <= place <= low + 6 for place in places)
    assert len(places) >= 4


@pytest.mark.full
def test_everything_works_from_the_keyboard(page, study):
    page.focus("#facts-table th[data-key=win_rate] button")
    page.keyboard.press("Enter")
    assert page.get_attribute("#facts-table th[data-key=win_rate]", "aria-sort") == "descending"
    page.keyboard.press("Tab")  # to the header of R
    page.keyboard.press("Tab")  # to that of the other runs, the last
    page.keyboard.press("Tab")  # to the first row
    page.keyboard.press("ArrowDown")
    fact = page.evaluate(f"{DATA}.facts.id[document.activeElement.dataset.fact]")
    assert page.evaluate("[...document.querySelectorAll('#facts-table tbody tr')].indexOf(document.activeElement)") == 1
    page.keyboard.press("Enter")
    wait_for_timeline(page, fact)
    (panel,) = marks(page)
    check_panel(panel, expected_marks(study, 0, fact, "year"))
    page.keyboard.press("Escape")
    assert not page.evaluate("document.getElementById('timeline').open")
    assert page.evaluate("document.activeElement.dataset.fact !== undefined")
    wait_until(page, "!location.hash.includes('fact=')")  # it goes back in history, which takes a moment


@pytest.mark.full
def test_previous_and_next_follow_the_list(page):
    order = listed(page)
    page.click("#previous-page")
    page.locator("#facts-table tbody tr").first.click()
    wait_for_timeline(page, order[0])
    assert page.is_disabled("#previous-fact")
    page.click("#next-fact")
    wait_for_timeline(page, order[1])
    assert f"fact={order[1]}" in page.url


@pytest.mark.full
def test_worst_errors_lead_to_their_timelines(page, study, tables):
    worst = tables[0]["timelines"].unique("rank", keep="first", maintain_order=True)
    assert page.locator("#worst-list li").count() == worst.height > 0
    assert page.locator("#worst-list svg .far").count() == tables[0]["timelines"]["far"].sum()
    page.locator("#worst-list a").first.click()
    first = worst.row(0, named=True)
    wait_for_timeline(page, first["fact_id"])
    run = [key_of(r) for r in study.runs].index((first["model"], first["format"], first["prefix"]))
    (panel,) = marks(page)
    check_panel(panel, expected_marks(study, run, first["fact_id"], "year"))
    assert panel[NAMES["far"]]


@pytest.mark.full
def test_an_address_opens_its_timeline(browser, address):
    page = browser.new_page()
    page.goto(f"{address}#fact=fact0011&run=1")
    wait_for_timeline(page, "fact0011")
    assert page.is_checked("#timeline-runs input[value='1']")
    assert not page.is_checked("#timeline-runs input[value='0']")
    page.close()


@pytest.mark.full
@pytest.mark.parametrize("name", ["facts", "summary", "timelines"])
def test_downloads_are_the_tables_byte_by_byte(page, tables, name):
    with page.expect_download() as waiting:
        page.click(f"#downloads-list button[data-file='{name}.csv']")
    assert waiting.value.suggested_filename == f"{name}.csv"
    with open(waiting.value.path(), "rb") as file:  # noqa: PTH123
        assert file.read() == tables[0][name].write_csv().encode()


@pytest.mark.full
def test_tables_are_shown_as_they_are(page, tables):
    page.click("#analysis-relations summary")
    page.wait_for_selector("#analysis-relations td")
    relations = tables[0]["relations"]
    assert page.locator("#analysis-relations tbody tr").count() == relations.height
    first = page.locator("#analysis-relations tbody tr").first.locator("td").all_text_contents()
    assert first[relations.columns.index("relation")] == relations["relation"][0]
    assert float(first[relations.columns.index("robustness")]) == pytest.approx(relations["robustness"][0], abs=1e-4)
    heads = page.locator("#analysis-relations thead th")
    assert heads.all_text_contents() == [in_words(name) for name in relations.columns]
    assert heads.nth(relations.columns.index("robustness")).get_attribute("title") == "robustness: mean R"


@pytest.mark.full
def test_another_view_of_a_chart(page):
    page.select_option("#analysis-summary select", label="R")
    until(page, "document.querySelector('#analysis-summary .chart').layout.yaxis.title.text === 'R'")


@pytest.mark.full
def test_believed_periods_lie_where_the_table_says(page, study, tables):
    """Bars by their place on the axis, read off two of its ticks, against true ends = believed ends minus errors."""
    page.select_option("#analysis-believed select", label=page.inner_text("#analysis-believed option >> nth=0"))
    believed = tables[0]["believed"].filter("believed")
    model = page.inner_text("#analysis-believed option >> nth=0").split(",")[0]
    ticks = page.eval_on_selector_all(
        "#analysis-believed .axis:first-of-type .tick", "all => all.map(t => [t.textContent, parseFloat(t.style.left)])"
    )
    (one, left), (two, right) = [(int(t.split()[0]) * (-1 if "BCE" in t else 1), x) for t, x in (ticks[0], ticks[-1])]
    places = [year + (year < 0) for year in (one, two)]
    rows = page.eval_on_selector_all(
        "#analysis-believed .periods li",
        """all => all.map(row => [new URLSearchParams(row.querySelector('a').hash.slice(1)).get('fact'),
           ...['.held', '.thought'].map(kind => row.querySelector(kind)).map(bar =>
             [parseFloat(bar.style.left), parseFloat(bar.style.left) + parseFloat(bar.style.width), bar.title])])""",
    )
    assert len(rows) == min(20, believed.filter(pl.col("model") == model).height) > 3
    for fact, held, thought in rows:
        (row,) = believed.filter(pl.col("fact_id") == fact, pl.col("model") == model).to_dicts()
        for side, end in enumerate(("start", "end")):
            if row[f"believed_{end}"] is None or row[f"{end}_error_days"] is None:
                continue
            date = Date.parse(row[f"believed_{end}"])
            day = (date.last_day + 1) if side else date.first_day
            for bar, at in ((thought, day), (held, day - row[f"{end}_error_days"])):
                drawn = places[0] + (bar[side] - left) / (right - left) * (places[1] - places[0])
                assert drawn == pytest.approx(position(at), abs=0.02)
        assert held[2].startswith("held ") and thought[2].startswith("believed ")


@pytest.mark.full
def test_no_label_runs_or_draws_as_html(page):
    page.fill("#search", "東京")
    assert cells(page, 0)[0] == EVIL
    page.locator("#facts-table tbody tr").first.click()
    wait_for_timeline(page, "fact0007")
    assert page.inner_text("#timeline-title").startswith(EVIL)
    page.check("#timeline-runs input[value='2']")
    wait_for_timeline(page, "fact0007")
    texts = page.locator("#timeline-chart .annotation-text").all_text_contents()
    assert any(EVIL in text for text in texts)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator("#run option").all_text_contents()[2].startswith(EVIL)


@pytest.mark.full
def test_inline_handlers_are_forbidden_by_policy(page):
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img id=bad src=x onerror=\"window.hacked=1\">')")
    page.wait_for_timeout(100)
    assert page.evaluate("window.hacked") is None
    page.evaluate("document.getElementById('bad').remove()")


@pytest.mark.full
@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_clipped(browser, address, width):
    page = browser.new_context(viewport={"width": width, "height": 844}).new_page()
    page.goto(address)
    page.wait_for_selector("html[data-charts=drawn]")
    page.evaluate("document.querySelectorAll('.analysis details').forEach((one) => (one.open = true))")
    page.wait_for_selector(".analysis details table")
    assert wider(page) == [] and page.locator("#analyses-fold[open]").count() == 1


@pytest.mark.full
def test_nothing_is_wider_than_a_phone(browser, address):
    page = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True).new_page()
    page.goto(address)
    page.wait_for_selector("html[data-charts=drawn]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert "<br>" in page.evaluate("document.querySelector('#analysis-alpha .chart').layout.xaxis.title.text")
    for box in (title.bounding_box() for title in page.locator(".analysis .xtitle").all()):
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    page.locator("#facts-table tbody tr").first.tap()
    page.wait_for_selector("#timeline-chart[data-fact]")
    assert page.evaluate("document.getElementById('timeline').scrollWidth") <= 390
    assert page.evaluate("document.querySelector('#timeline-chart svg').getBoundingClientRect().right") <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.context.close()


@pytest.mark.full
def test_dark_mode_changes_the_page_and_its_charts(page):
    def seen():
        return page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color, "
            "document.getElementById('opening-chart').layout.paper_bgcolor]"
        )

    def brightness(colour):
        return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))

    page.emulate_media(color_scheme="light")
    until(page, "document.getElementById('opening-chart').layout.paper_bgcolor === '#ffffff'")
    light = seen()
    page.emulate_media(color_scheme="dark")
    until(page, "document.getElementById('opening-chart').layout.paper_bgcolor !== '#ffffff'")
    dark = seen()
    page.emulate_media(color_scheme="light")
    assert brightness(light[0]) > 600 > brightness(dark[0])
    assert brightness(light[1]) < brightness(dark[1])
    assert dark[2] == "#1a1f25"


@pytest.mark.full
def test_print_leaves_out_what_paper_cannot_do(page):
    page.emulate_media(media="print")
    assert page.is_hidden("#filters")
    assert page.is_hidden("#downloads")
    assert page.is_visible("#facts-table")
    page.emulate_media(media="screen")


@pytest.mark.full
def test_nothing_went_wrong_meanwhile(opened, address):
    page, seen = opened
    expected = ("Content Security Policy", "ERR_FILE_NOT_FOUND")  # of the test of the policy
    assert [text for text in seen.errors if not any(words in text for words in expected)] == []
    assert page.is_hidden("#trouble")
    assert {url.split("#")[0].split("?")[0] for url in seen.requests if not url.startswith("blob:")} <= {
        address,
        address.rpartition("/")[0] + "/x",  # what the test of the policy asked for
    }


EDITED = ("unedited", "edited with FT", "edited with FT dated")
LABELS = "#timeline-chart :is(.annotation-text, .xtick text, .ytick text)"


@pytest.fixture(scope="module")
def edited(tmp_path_factory):
    """A page of past facts before and after two kinds of edits, which take 2 and 8 nats, and its study."""
    scores = synthetic_scores(12, seed=3, runs=[(name, "raw", "none", 1.0) for name in EDITED])
    lost = pl.col("model").replace_strict(dict(zip(EDITED, (0.0, 2.0, 8.0), strict=True)))
    study = make_study([scores.with_columns(pl.col("logp") - lost)], resamples=100)
    made, left_out = make_tables(study)
    data = page_data(study, Written(made, study_notes(study), left_out, {}, {}), [{"name": "past", "record": None}])
    path = tmp_path_factory.mktemp("edited") / "index.html"
    path.write_bytes(render(data).encode())
    return path.as_uri(), study


@pytest.mark.full
@pytest.mark.parametrize("width", [1200, 390])
def test_past_facts_are_shown_before_and_after_edits(browser, edited, width):
    address, study = edited
    page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    seen = Seen(page)
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    assert page.inner_text("h1") == "Past facts before and after edits"
    page.locator("#facts-table tbody tr", has_text="Object 2").first.click()
    wait_for_timeline(page, "fact0002")
    assert [box.is_checked() for box in page.locator("#timeline-runs input").all()] == [True] * 3
    assert page.locator("#timeline-chart .annotation-text").all_text_contents() == [f"{m} by year" for m in EDITED]
    for panel, run in zip(marks(page), range(3), strict=True):
        check_panel(panel, expected_marks(study, run, "fact0002", "year"))
    every = [
        score for run in range(3) for own in expected_marks(study, run, "fact0002", "year").values() for score in own
    ]
    axes = page.evaluate(
        f"Object.entries({CHART}.layout).filter(([k]) => k.startsWith('yaxis')).map(([, a]) => a.range)"
    )
    assert len(axes) == 3 and axes.count(axes[0]) == 3  # one scale, which holds every score
    assert axes[0][0] < min(every) and axes[0][1] > max(every)
    end = study.about.filter(pl.col("fact_id") == "fact0002")["end"][0]
    lines = page.evaluate(
        f"{CHART}.layout.shapes.filter(s => s.type === 'line').map(s => [s.x0, s.x1, s.xref, s.yref])"
    )
    place = position(Date.from_day_number(Date.parse(end).last_day + 1).first_day)
    assert lines == [[pytest.approx(place, abs=1e-3)] * 2 + [f"x{n}", f"y{n} domain"] for n in ("", 2, 3)]
    assert "its end, the change" in page.inner_text("#timeline-legend")
    boxes = [label.bounding_box() for label in page.locator(LABELS).all()]
    boxes = [(b["x"], b["y"], b["x"] + b["width"], b["y"] + b["height"]) for b in boxes]
    assert len(boxes) > 8 and all(left >= 0 and right <= width for left, _, right, _ in boxes)
    over = [
        (a, b)
        for n, a in enumerate(boxes)
        for b in boxes[:n]
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]
    assert over == []
    page.evaluate(f"Plotly.relayout('timeline-chart', {{'xaxis.range': [{place - 0.4}, {place + 0.4}]}})")
    until(page, f"{CHART}.layout.xaxis3.ticktext.every(t => /^[A-Z][a-z]+ \\d+$/.test(t))")  # months, in every panel
    page.uncheck("#timeline-runs input[value='1']")
    wait_for_timeline(page, "fact0002")
    assert len(marks(page)) == 2
    assert seen.errors == []
    page.context.close()


@pytest.mark.full
def test_a_fact_without_years_opens_by_its_coarsest_dates(browser, tmp_path):
    """It spans no whole year, so it is asked about months and days; another fact keeps the years that were chosen."""
    scores = synthetic_scores(6, seed=3, runs=(RUNS[0],))
    short = (pl.col("fact_id") == "fact0002") & (pl.col("granularity") == "year")
    study = make_study([scores.filter(~short)], resamples=50)
    made, left_out = make_tables(study)
    data = page_data(study, Written(made, study_notes(study), left_out, {}, {}), [{"name": "run", "record": None}])
    path = tmp_path / "index.html"
    path.write_bytes(render(data).encode())
    page = browser.new_context().new_page()
    seen = Seen(page)
    for fact, levels in (("fact0002", ["month"]), ("fact0001", ["year"])):
        page.goto(f"{path.as_uri()}#fact={fact}&run=0")
        page.reload()
        wait_until(page, f"document.getElementById('timeline-chart').dataset.fact === '{fact}'")
        boxes = {level: page.is_checked(f"#timeline-levels input[value={level}]") for level in GRANULARITIES}
        assert [level for level, checked in boxes.items() if checked] == levels
        expected = scores.filter(~short, pl.col("fact_id") == fact, pl.col("granularity") == levels[0])
        drawn = page.evaluate("document.getElementById('timeline-chart').data[0].x.length")
        assert drawn == expected["time"].count() > 0
    assert seen.errors == []
