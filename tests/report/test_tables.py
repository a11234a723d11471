"""What the terminal tables show."""

from io import StringIO

import polars as pl
from rich.console import Console

from anachron.report.numbers import interval, p_value, percent
from anachron.report.terminal.listings import dataset_table
from anachron.report.terminal.tables import audit_table, decoy_and_crossed_lines, decoy_words, summary_table


def shown(table):
    """The table as lines of text."""
    console = Console(file=StringIO(), width=240)
    console.print(table)
    return console.file.getvalue().splitlines()


def cells(lines, *wanted):
    """Cells of the first line that holds all the texts wanted."""
    line = next(line for line in lines if all(text in line for text in wanted))
    return [cell.strip() for cell in line.replace("┃", "│").strip("│").split("│")]


def summary(**values):
    return {
        "model": "gpt2", "format": "raw", "prefix": "none", "granularity": "year", "facts": 1234,
        "win_rate": 0.8, "win_rate_low": 0.75, "win_rate_high": 0.8432, "robustness": 0.17, "robustness_low": 0.1,
        "robustness_high": 0.25, "ties": 0.00012, "near_ties": None, "random_robustness": 0.00433,
    } | values  # fmt: skip


def test_summary_shows_every_number_in_per_cent():
    lines = shown(summary_table(pl.DataFrame([summary()])))
    assert "Win rate W and robustness R" in lines[0]
    assert "(format raw, prefix none)" in lines[0]
    assert cells(lines, "model", "W %") == [
        "model", "dates", "facts", "W %", "95 %", "R %", "95 %", "ties %", "near-ties %",
        "random R %",
    ]  # fmt: skip
    assert cells(lines, "gpt2") == [
        "gpt2", "year", "1,234", "80.0", "75.0 to 84.3", "17.0", "10.0 to 25.0", "0.012", "-", "0.433",
    ]  # fmt: skip


def test_summary_names_each_run_once_and_parts_runs_with_a_line():
    rows = [summary(), summary(granularity="month", near_ties=0.5), summary(granularity="day"), summary(format="chat")]
    lines = shown(summary_table(pl.DataFrame(rows, infer_schema_length=None), "Title"))
    assert lines[0].strip() == "Title (prefix none)"
    assert sum("gpt2" in line for line in lines) == 2
    assert cells(lines, "month")[:3] == ["", "", "month"]
    assert cells(lines, "month")[9] == "50.000"
    assert cells(lines, "chat")[:3] == ["gpt2", "chat", "year"]
    assert sum(line.startswith("├") for line in lines) == 1


def test_percent_and_interval():
    assert percent(None) == "-"
    assert percent(0.12345) == "12.3"
    assert percent(1, 0) == "100"
    assert interval(0, 1) == "0.0 to 100.0" and interval(None, None) == ""
    assert [percent(s, floor=True, missing="–") for s in (0.1234, 0.0, 1.0, 0.0001, None)] == [
        "12.3", "0.0", "100.0", "<0.1", "–",
    ]  # fmt: skip
    assert [p_value(p) for p in (0.0, 0.00099, 0.001, 0.25)] == ["<0.001", "<0.001", "0.001", "0.250"]


def test_dataset_table():
    item = {"name": "mini", "facts": 400, "statements": 12345, "relations": 7, "about": "real facts", "listed": 500}
    lines = shown(dataset_table([item, item | {"name": "maxi"}]))
    assert cells(lines, "mini") == ["mini", "400", "12,345", "7", "real facts (500 facts listed)"]
    assert any("maxi" in line for line in lines)


def test_audit_table_shows_counts_and_one_example_of_each():
    checks = ("unscorable", "too_long", "straddling", "answer_in_prompt", "repeated", "status_differs", "alpha_differs")
    found = {name: 1000 + n for n, name in enumerate(checks)}
    found |= {"statements": 54321, "facts": 99, "longest": 77, "answer_tokens": 2.345, "bos": {0: 5, 2: 1500}}
    found["examples"] = {name: [f"first {name}", f"second {name}"] for name in checks if name != "too_long"}
    lines = shown(audit_table(found))
    text = " ".join(" ".join(lines).split())
    assert "54,321 statements of 99 facts" in lines[0]
    assert "longest text 77 tokens; 2.3 answer tokens on average; " in text
    assert "start-of-text tokens: 0 in 5 texts, 2 in 1,500 texts" in text
    for n, name in enumerate(checks):
        example = "" if name == "too_long" else f"first {name}"
        assert cells(lines, f"1,00{n}")[1:] == [f"1,00{n}", example]
    assert "second" not in text


def crossed(model, granularity, share, successions, relation="all"):
    return {
        "model": model, "format": "raw", "prefix": "none", "granularity": granularity, "relation": relation,
        "successions": successions, "pairs": 1000 + successions, "crossed": share, "crossed_low": share - 0.1,
        "crossed_high": share + 0.1,
    }  # fmt: skip


def test_crossed_matches_are_told_at_the_granularity_of_most_successions():
    rows = [
        crossed("a", "year", 0.6, 50), crossed("a", "year", 0.9, 40, "capital"), crossed("a", "month", 0.7, 9),
        crossed("b", "year", 0.55, 5), crossed("b", "month", 0.52, 6),
    ]  # fmt: skip
    told = "crossed matches by {}: {} % won ({}) of {} pairs of objects; any preference wins half"
    one = told.format("year", "60.0", "50.0 to 70.0", "1,050")
    assert [*decoy_and_crossed_lines({"crossed": pl.DataFrame(rows[:3])})] == [one]
    other = told.format("month", "52.0", "42.0 to 62.0", "1,006")
    assert [*decoy_and_crossed_lines({"crossed": pl.DataFrame(rows)})] == [f"a: {one}", f"b: {other}"]
    objects = {"dates": 1200, "chance": 1 / 3, "likeliest": 0.45, "likeliest_less_prior": 0.512}
    (line,) = decoy_and_crossed_lines({"crossed": pl.DataFrame([rows[0] | objects])})
    assert line == (
        f"{one}. At 45.0 % of 1,200 dates the likeliest object is the right one, at 51.2 % after what each is likelier "
        "by anyway; chance 33.3 %"
    )
    assert [*decoy_and_crossed_lines({})] == []


def test_the_difference_to_decoys_is_that_of_the_numbers_beside_it():
    """W of all facts, which is told elsewhere, may be another one: not every fact has decoys."""
    row = {
        "win_rate": 0.662, "decoy_win_rate": 0.673, "difference": 0.184, "difference_low": -0.1, "difference_high": 0.4,
        "later": 0.5,
    }  # fmt: skip
    told = decoy_words(row)
    assert "decoys under the same dates: 67.3 %, of the facts that have decoys 85.7 %: +18.4 points" in told
