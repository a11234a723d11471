"""The page of a check in a real browser: the order of cards, filters, strips against the score table, no clipping."""

import re
from random import Random

import polars as pl
import pytest

from anachron.analysis.catalogue import make_tables
from anachron.analysis.study import make_study
from anachron.core.dates import Date
from anachron.probe.check.present import CURRENT, STALE
from anachron.probe.check.verdicts import VERDICT_SCHEMA
from anachron.report.outputs import Written, study_notes
from anachron.report.page.data import page_data
from anachron.report.page.render import render
from anachron.report.page.verdicts import CheckOnPage
from support.browser import wider
from support.synthetic_studies import RUNS, synthetic_scores

pytestmark = pytest.mark.full

RUN = RUNS[0][:3]
ORDER = ["stale", "wrong period", "unknown", "shaky", "known", "robust"]
EVIL = "<img src=x onerror='window.hacked=1'>"
LONG = "Hochverehrte " + "Donaudampfschifffahrtsgesellschaftskapitaensgattin" * 2
DEMAND = {"demand": "at most 0 stale", "passed": False, "words": f"4 stale {EVIL}", "error": None}


@pytest.fixture(scope="module")
def study():
    """24 facts: two objects of a subject and relation each."""
    name = pl.when(pl.col("fact_id") == "fact0003").then(pl.lit(LONG)).otherwise("object_label").alias("object_label")
    return make_study([synthetic_scores(24, seed=5, runs=RUNS[:1]).with_columns(name)], resamples=20)


@pytest.fixture(scope="module")
def verdicts(study):
    """A verdict for each fact, by chance; the later of two still holds, and a third of these are stale."""
    random, rows = Random(2), []
    groups = {}
    for fact in study.about.to_dicts():
        groups.setdefault((fact["subject_label"], fact["relation_label"]), []).append(fact)
    latest = {max(group, key=lambda one: Date.parse(one["start"]).first_day)["fact_id"] for group in groups.values()}
    for n, fact in enumerate(study.about.to_dicts()):
        key = fact["subject_label"], fact["relation_label"]
        other = next(one["object_label"] for one in groups[key] if one["fact_id"] != fact["fact_id"])
        row = dict.fromkeys(VERDICT_SCHEMA) | dict.fromkeys(["present", "answer", "answer_until", "left_out"])
        row |= {"fact_id": fact["fact_id"], "subject": key[0], "relation": key[1], "object": fact["object_label"]}
        row |= {"verdict": random.choice(ORDER[1:]), "win_rate": 0.4}
        row |= {"believed_start": "1900", "start_error_years": 7.2}
        row |= {"periods": f"{fact['start']}/{'' if fact['fact_id'] in latest else fact['end']}"}
        if fact["fact_id"] in latest:
            present, answer = (CURRENT, fact["object_label"]) if n % 3 else (STALE, other)
            row |= {"present": present, "answer": answer}
        rows.append(row)
    return rows


@pytest.fixture(scope="module")
def address(study, verdicts, tmp_path_factory):
    tables, left_out = make_tables(study)
    written = Written(tables, study_notes(study), left_out, {}, {})
    table = pl.DataFrame(verdicts, infer_schema_length=None)
    check = CheckOnPage(table, {"as_of": "2016-12-31", "demands": [DEMAND]})
    path = tmp_path_factory.mktemp("check") / "index.html"
    path.write_bytes(render(page_data(study, written, [], style="american", verdicts={RUN: check})).encode())
    return path.as_uri()


@pytest.fixture(scope="module")
def page(browser, address):
    opened = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
    opened.goto(address)
    opened.wait_for_selector("html[data-ready]")
    return opened


@pytest.fixture(autouse=True)
def cleared(page):
    page.click("#clear")


def shown(page):
    """Cards as lists of the places of their facts."""
    return page.eval_on_selector_all(
        "#cards > .card",
        "all => all.map(card => [...card.querySelectorAll('.members li')].map(one => Number(one.dataset.fact)))",
    )


def kind_of(row):
    return STALE if row["present"] == STALE else row["verdict"]


def expected(verdicts, passes=lambda row: True):
    """The same by a plain loop."""
    passing = [n for n, row in enumerate(verdicts) if passes(row)]
    places = sorted(passing, key=lambda n: ORDER.index(kind_of(verdicts[n])))
    cards = {}
    for n in places:
        cards.setdefault((verdicts[n]["subject"], verdicts[n]["relation"]), []).append(n)
    return list(cards.values())


def test_it_opens_with_the_gate_and_what_is_stale_then_wrong_periods(page, verdicts):
    assert page.inner_text(".demands li") == f"failed: at most 0 stale; 4 stale {EVIL}"
    assert page.evaluate("window.hacked") is None
    pressing = sorted((row for row in verdicts if kind_of(row) in ORDER[:2]), key=lambda row: ORDER.index(kind_of(row)))
    told = page.locator(".first li").all_inner_texts()
    assert len([row for row in pressing if kind_of(row) == STALE]) >= 2 < len(pressing) <= 12
    for row, text in zip(pressing, told, strict=True):
        assert text.startswith(f"{kind_of(row)} {row['subject']}, {row['relation']}: ")
        assert (f"says {row['answer']}; {row['object']} has held" if kind_of(row) == STALE else row["object"]) in text
    top = [page.locator(one).bounding_box()["y"] for one in (".demands", ".first", "#cards", "#headline", "#analyses")]
    assert top == sorted(top)


def test_cards_are_in_the_order_of_what_presses_most(page, verdicts):
    assert shown(page) == expected(verdicts)
    for card, members in zip(page.locator("#cards > .card").all(), expected(verdicts), strict=True):
        kinds = card.locator(".members .kind").all_inner_texts()
        assert kinds == [kind_of(verdicts[n]) for n in members]
        today = [verdicts[n] for n in members if verdicts[n]["present"]]
        for row, text in zip(today, card.locator(".today").all_inner_texts(), strict=True):
            says = "says" if row["present"] == STALE else "gives the right name,"
            assert text.startswith(f"Asked about today, the model {says} {row['answer']}")


@pytest.mark.parametrize("kind", [*ORDER, CURRENT])
def test_filter_by_verdict(page, verdicts, kind):
    page.select_option("#verdict", kind)
    assert shown(page) == expected(verdicts, lambda row: kind in (row["verdict"], row["present"]))


def test_search_by_any_word_also_of_the_answer(page, verdicts):
    assert not page.locator("#run").is_visible() and not page.locator("#level").is_visible()
    stale = next(row for row in verdicts if row["present"] == STALE)
    for words in (stale["answer"], "CAPITAL 1", "subject 4 spouse", "nobody"):
        page.fill("#search", words)

        def passes(row, words=words):
            text = " ".join(filter(None, (row[name] for name in ("subject", "relation", "object", "answer")))).lower()
            return all(word in text for word in words.lower().split())

        assert shown(page) == expected(verdicts, passes)
    assert page.inner_text("#count") == "No fact matches these filters (of 24)"


def pieces(page, card, strip):
    """Year -> the objects of a strip, by what is written on its pieces, and whether they are underlined."""
    told = page.locator("#cards > .card").nth(card).locator(".track:not(.now)").nth(strip)
    found = {}
    for part in told.locator(".hue").all():
        name, years = re.fullmatch(r"(.*), (.*)", part.get_attribute("title")).groups()
        ends = [int(end.removesuffix(" BCE")) * (-1 if "BCE" in end else 1) for end in years.split(" to ")]
        for year in range(ends[0], ends[-1] + 1):
            found.setdefault(year, set()).add((name, "wrong" in part.get_attribute("class").split()))
    return found


def test_the_lower_strip_is_the_likeliest_by_the_score_table(page, study, verdicts):
    scores = study.runs[0].filter(pl.col("granularity") == "year").drop_nulls("time").to_dicts()
    seen = 0
    for number, members in enumerate(expected(verdicts)):
        rows = [verdicts[n] for n in members]
        ends = {}
        for row in rows:
            start, end = row["periods"].split("/")
            ends[row["object"]] = Date.parse(start).year, Date.parse(end).year if end else 2016
        naive = {}
        for year in range(min(one for one, _ in ends.values()), max(one for _, one in ends.values()) + 1):
            near = {}
            for row in rows:
                own = {int(s["time"]): s["logp"] for s in scores if s["fact_id"] == row["fact_id"]}
                if year and min(own) <= year <= max(own):
                    near[row["object"]] = own[min(own, key=lambda at: (abs(at - year), at))]
            if len(near) == 2:
                ahead = {name for name, logp in near.items() if logp == max(near.values())}
                held = {name for name, (start, end) in ends.items() if start <= year <= end}
                naive[year] = {(name, bool(held) and not ahead <= held) for name in ahead}
        if min(year for pair in ends.values() for year in pair) > 0:  # the loop does not know of 1 BCE
            strips = page.locator("#cards > .card").nth(number).locator(".track:not(.now)").count()
            assert strips == (2 if naive or any(row["answer"] for row in rows) else 1)
            assert (pieces(page, number, 1) if strips == 2 else {}) == naive
            seen += bool(naive)
    assert seen >= 3


def test_a_name_opens_its_timeline(page, verdicts):
    first = expected(verdicts)[0][0]
    page.locator("#cards .members button").first.click()
    page.wait_for_selector(f"#timeline-chart[data-fact='{verdicts[first]['fact_id']}']")
    told = page.inner_text("#timeline-verdict")
    assert told.startswith(f"Verdict: {verdicts[first]['verdict']}. W 40 %.") and "Asked about today" in told
    page.keyboard.press("Escape")


def test_of_few_facts_the_analyses_are_folded_and_drawn_when_they_are_opened(page):
    assert not page.locator("#analyses-fold").get_attribute("open")
    chart = page.locator("#analyses-list .chart").first
    assert not chart.is_visible() and page.evaluate("document.querySelector('.analysis .chart').data") is None
    page.click("#analyses-fold > summary")
    page.wait_for_selector("html[data-charts=drawn]")
    drawn = page.eval_on_selector_all(".analysis .chart", "all => all.map(one => one.getBoundingClientRect().width)")
    assert min(drawn) > 500
    assert page.is_hidden("#trouble")
    page.click("#analyses-fold > summary")


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_clipped(browser, address, width, scheme):
    opened = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme).new_page()
    opened.goto(address)
    opened.wait_for_selector("html[data-ready]")
    opened.click("#analyses-fold > summary")
    assert wider(opened) == []
    opened.close()
