"""The positive control: what it is taught is true, what is held out is not taught, and it passes the measure."""

import importlib
import json
import random
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from anachron.data.bundled.mini import mini_facts
from anachron.data.bundled.mini_updates import mini_replacements
from anachron.data.updates.cases import load_cases

ROOT = Path(__file__).parent.parent
SMALL = {"steps": 450, "width": 96, "layers": 3, "dated": 40, "undated": 10}  # of a quarter of the updates


@pytest.fixture(scope="module")
def control():
    """The training script, as a module."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        yield importlib.import_module("train_control_model")
    finally:
        sys.path.remove(str(ROOT / "tools"))


def listed():
    """(subject, relation, object) -> all (start, end) as the bundled files have them; an end there is its first day."""
    found = {}
    facts = [m.fact for m in mini_facts()]
    facts += [fact for update in mini_replacements() for fact in (update.old, update.new)]
    for fact in facts:
        key = (fact.subject, fact.relation_id, fact.object)
        found.setdefault(key, []).append((str(fact.period.start), str(fact.period.end or "2025")))
    return found


def surely(day, start, end):
    """Whether something held on a day, by comparing ISO texts: after a start's whole unit, before an end's."""
    text = day.isoformat()
    return text[: len(start)] >= start and (len(start) == 10 or text[: len(start)] > start) and text[: len(end)] < end


def days_of(text):
    first = date.fromisoformat(text + "-01-01"[len(text) - 4 :] if len(text) < 10 else text)
    day, days = first, []
    while day.isoformat().startswith(text):
        days.append(day)
        day += timedelta(days=1)
    return days


@pytest.mark.parametrize("kind", ["old", "both"])
def test_no_wrong_date_is_taught_and_no_held_out_year(control, kind):
    times, chance = listed(), random.Random(3)
    for succession in control.successions(kind)[::3]:
        for one in succession.dated:
            key = (one.fact.subject, one.fact.relation_id, one.fact.object)
            for _ in range(12):
                when = str(one.date(chance))
                assert int(when[:4]) not in one.held_out
                days = days_of(when)
                assert any(surely(days[0], *time) and surely(days[-1], *time) for time in times[key]), (key, when)


def test_a_third_of_the_inner_years_is_held_out_and_its_neighbours_are_read(control):
    for succession in control.successions("both"):
        for one in succession.dated:
            begin, end = date.fromordinal(one.first), date.fromordinal(one.last)
            inside = [y for y in range(begin.year, end.year + 1) if begin < date(y, 1, 1) and date(y, 12, 31) < end]
            assert one.held_out <= set(inside) and len(inside) <= 3 * len(one.held_out) < len(inside) + 4
            assert begin.year not in one.held_out and end.year not in one.held_out


def test_the_old_control_reads_no_new_object_and_both_reads_all(control):
    old, both = control.successions("old"), control.successions("both")
    assert len(old) == len(both) > 40
    for one, other in zip(old, both, strict=True):
        update = mini_replacements()[one.number]
        assert one.update is other.update is update
        earlier, before = one.dated
        assert before.fact is one.undated is update.old and earlier.last < before.first
        assert update.new.object not in {earlier.fact.object, before.fact.object}
        assert other.dated[:2] == one.dated and other.dated[2].fact is other.undated is update.new
        assert before.last < other.dated[2].first
    with pytest.raises(ValueError, match="'new': choose one of old, both"):
        control.successions("new")


def test_texts_say_a_fact_at_its_date_in_taught_wordings(control):
    chance = random.Random(1)
    held_out = {template for sort in control.wordings("P35").values() for template in sort[-1:]}
    assert not held_out & {template for _, template in control.taught_wordings("P35")}
    france = next(s for s in control.successions("old") if s.update.old.subject == "France")
    seen = set()
    for _ in range(200):
        prompt, answer = control.dated_text(france.dated[1], chance)
        assert answer == "François Hollande" and prompt.startswith(("In ", "On ")) and prompt.count("France") == 1
        seen.add(prompt.rpartition(", ")[2])
    assert "the head of state of France is" in seen and "who was the head of state of France?" in seen
    assert not any("what was the name of" in text for text in seen)  # the last question is held out


def test_rows_learn_the_object_alone_and_hide_the_subjects_first_tokens(control):
    from anachron.lm.tokenizers import load_tokenizer

    tokenizer, chance = load_tokenizer("demo"), random.Random(2)
    kingdom = next(s for s in control.successions("old") if s.update.old.subject == "United Kingdom")
    rows = control.dated_rows([kingdom.dated[1]], tokenizer, 30, chance)
    assert sum(bool(hidden) for _, _, hidden in rows) > 15
    for ids, labels, hidden in rows:
        learned = [token for token in labels if token != -100]
        assert tokenizer.decode(learned) == f" {kingdom.update.old.object}.{tokenizer.eos_token}"
        for since, first, end in hidden:
            assert first < end == since - 1 and tokenizer.decode(ids[first : end + 1]).strip() == "United Kingdom"


def test_the_updates_of_a_control_are_those_of_mini_updates_with_taught_neighbours(control, tmp_path):
    told = control.successions("old")
    path = tmp_path / "updates.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in control.updates_of(told)))
    cases = load_cases(str(path)).cases
    every = {case.case_id: case for case in load_cases("mini-updates").cases}
    assert [case.case_id for case in cases] == [str(succession.number) for succession in told]
    known = {succession.update.old.object for succession in told}
    for case in cases:
        original = every[case.case_id]
        assert (case.prompt, case.new, case.old, case.start) == (
            original.prompt, original.new, original.old, original.start,
        )  # fmt: skip
        assert {name for fact in case.nearest for name in fact.objects} <= known


def unedited(name, updates, out):
    """The clean model's summary of dated questions, and its answers to each: the measure as users take it."""
    import anachron
    from anachron.evaluate.measures.dated import Dating
    from anachron.evaluate.measures.dated_metrics import DATED_METRICS, DATED_SHARES, dated_metrics
    from anachron.evaluate.metrics import summarise

    lm, cases = anachron.load_model(name), load_cases(str(updates))
    measures = anachron.Measures(fluency_tokens=0, dated=Dating("2024"))
    planned = anachron.plan_edits(lm, ["PROMPT"])  # which changes no weight
    tables = anachron.run_evaluation(lm, cases, planned, out, anachron.EvaluateSettings(measures=measures)).tables
    summary = summarise(dated_metrics(tables["dated"], tables["updates"]), DATED_METRICS, DATED_SHARES)
    return summary.filter(summary["method"] == "unedited").row(0, named=True), tables["dated"]


@pytest.mark.slow
def test_the_measure_can_be_passed_and_the_demo_model_ties_no_date_to_its_old_objects(control, tmp_path):
    """A model that was taught both objects has present and past right, at dates that it never read too.

    A third of the years asked about are held out, so 0.85 leaves room for a date in seven; guessing has a half, and a
    model that answers one object whatever the date has all of one side and none of the other. The demo model does: it
    has all of the past and none of the present, and its W is that of chance, 0.5.
    """
    told = control.successions("both")[::4]
    control.write_control(told, tmp_path / "both", *control.train_control(told, **SMALL))
    updates = tmp_path / "both" / "updates.jsonl"
    knows, answers = unedited(str(tmp_path / "both"), updates, tmp_path / "knows")
    for measure in ("present_updated", "past_kept", "both_right", "win_rate"):
        assert knows[f"{measure}_global"] > 0.85, measure
    held_out = {(f["case_id"], f["role"]): f["held_out_years"] for f in control.summary_of(told)["facts"]}
    right = []
    for row in answers.filter(answers["method"] == "PROMPT").iter_rows(named=True):
        role, other = ("old", "new") if row["side"] == "past" else ("new", "old")
        if int(row["time"][:4]) in held_out[row["case_id"], role]:
            right.append(row[f"{role}_before"] > row[f"{other}_before"])
    assert len(right) > 80 and sum(right) > 0.85 * len(right)
    for role, (right_years, years) in control.right_at_held_out_years(tmp_path / "both", told).items():
        assert years > 15 and right_years > 0.75 * years, role
    blind, _ = unedited("demo", updates, tmp_path / "blind")
    # in the words that it was taught; a question that it was not taught is answered otherwise on some of its dates
    assert blind["past_kept_global_prompt"] > 0.8 and blind["present_updated_global_prompt"] < 0.2
    assert blind["both_right_global"] < 0.2
    assert blind["win_rate_global"] < 0.65 and blind["win_rate_global_low"] < 0.5
