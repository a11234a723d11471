"""The rules of tools/make_changes.py, each on a small made-up table."""

import importlib
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data" / "changes"


@pytest.fixture(scope="module")
def tool():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        yield importlib.import_module("make_changes")
    finally:
        sys.path.remove(str(ROOT / "tools"))


def change(subject: str, relation: str, old: str, new: str, date: str, source: str) -> dict[str, str]:
    return {
        "subject": subject, "relation": relation, "old_object": old, "new_object": new, "date": date,
        "precision": "day", "source": source, "licence": "",
    }  # fmt: skip


def fact(subject: str, object: str, start: str, end: str, relation_id: str = "P1308") -> dict[str, str]:
    return {"subject": subject, "relation_id": relation_id, "object": object, "start": start, "end": end, "note": ""}


def row(tool, subject: str, old: str, new: str, date: str, source: str = "a", kind: str = "mayor"):
    return tool.Row(subject, "officeholder", kind, old, new, date, source)


@pytest.mark.parametrize(
    ("label", "office", "kind"),
    [
        ("Governor of New Hampshire (United States of America)", "Governor of New Hampshire", "regional head"),
        ("governor of NH", "Governor of New Hampshire", "regional head"),
        ("Governor of Punjab (Pakistan)", "Governor of Punjab, Pakistan", "regional head"),
        ("Governor of the Reserve Bank (India)", "Governor of the Reserve Bank of India", "central bank"),
        ("Secretary of Labor of the United States of America", "United States Secretary of Labor", "other minister"),
        ("White House Press Secretary of the United States of America", "White House Press Secretary",
         "public official"),
        ("President of the Generalitat of Catalonia of Spain", "President of the Generalitat of Catalonia",
         "regional head"),
        ("president of Germany", "President of Germany", "head of state"),
        ("Vice President of Argentina", "Vice President of Argentina", "deputy head"),
        ("Tánaiste of Ireland", "Tánaiste of Ireland", "deputy head"),
        ("Prime Minister of Ireland", "Taoiseach of Ireland", "head of government"),
        ("Secretary of State for Defence of the United Kingdom", "Defence Secretary of the United Kingdom",
         "defence minister"),
    ],
)  # fmt: skip
def test_one_label_for_an_office(tool, label: str, office: str, kind: str) -> None:
    offices = importlib.import_module("changes.offices")
    assert offices.plain_office(label) == office
    assert offices.office_kind(office) == kind


@pytest.mark.parametrize(
    "label",
    [
        "Secretary of State for Business, Energy and Industrial Strategy of the United Kingdom",  # a later name
        "President of the Chamber of Deputies of Mexico",
        "Governor of Sevastopol (Ukraine)",
    ],
)
def test_offices_of_a_later_name_or_contested_are_left_out(tool, label: str) -> None:
    assert importlib.import_module("changes.offices").plain_office(label) is None


def test_composite_ministries_are_left_out(tool) -> None:
    assert importlib.import_module("changes.offices").office_kind("Minister of Labour and Housing of Ruritania") is None


@pytest.mark.parametrize(
    ("held", "doubt"),
    [
        ([("A", "2010-01-01", "2015-01-01"), ("B", "2015-01-01", "2019-01-01")], ""),
        ([("A", "2010-01-01", "2017-01-01"), ("B", "2015-01-01", "2019-01-01")], "another seat"),
        (
            [("A", "2010-01-01", "2015-01-01"), ("B", "2015-01-01", "2019-01-01"), ("C", "2012-01-01", "2018-01-01")],
            "another seat",
        ),
        ([("A", "2010-01-01", "2015-01-01"), ("B", "2015-01-01", "2015-01-20")], "stood in"),
        ([("A", "2010-01-01", "2014-01-01"), ("B", "2015-01-01", "2019-01-01")], "a gap"),
    ],
)
def test_doubtful_successions_are_told_by_who_held_the_office(tool, held, doubt: str) -> None:
    holders = tool.sources.Holders(fact("Mayor of X", *one) for one in held)
    assert holders.doubt("Mayor of X", "A", "B", "2015-01-01") == doubt


@pytest.mark.parametrize(
    ("product", "old", "new", "right"),
    [
        ("Rust", "1.5", "1.6", True),
        ("Ruby", "1.9.3", "2.0.0", True),
        ("Drupal", "7", "8.8", False),
        ("Linux Kernel", "4.14", "4.19", False),
        ("Debian", "9", "10", True),
        ("Ubuntu", "14.10", "15.04", True),
        ("Ubuntu", "14.04", "15.04", False),
        ("Apple macOS", "15", "26", True),
        ("FreeBSD", "12.0", "11.3", False),
    ],
)
def test_a_release_comes_right_after_the_one_before(tool, product: str, old: str, new: str, right: bool) -> None:
    assert tool.sources.follows(product, old, new) is right


def test_three_releases_a_month_of_the_best_known(tool) -> None:
    given = [
        change(product, "P348 newest release series", "1.0", "1.1", f"2020-05-{day:02d}", "endoflife.date")
        for day, product in enumerate(("Qt", "Scala", "Python", "Ubuntu", "Firefox", "Nobody's Tool"), 1)
    ]
    found = list(tool.sources.endoflife(given))
    assert [one.subject for one in found] == ["Python", "Firefox", "Scala"]
    assert {one.predictable for one in found} == {"high"}


def test_releases_are_spelt_as_in_the_facts_and_of_right_dates(tool) -> None:
    given = [
        change("FreeBSD", "P348 newest release series", "9.2", "10", "2014-01-20", "endoflife.date"),
        change("Debian", "P348 newest release series", "9", "10", "2019-07-06", "endoflife.date"),
        change("Alpine Linux", "P348 newest release series", "2.1", "2.2", "2010-05-04", "endoflife.date"),
    ]
    facts = [fact("FreeBSD", "10.0", "2014-01-20", ""), fact("Debian", "10", "2019-07-06", "")]
    found = list(tool.sources.endoflife(given, facts))
    assert [(one.subject, one.new) for one in found] == [("FreeBSD", "10.0"), ("Debian", "10")]


def test_tournaments_that_the_source_did_not_check_are_left_out(tool) -> None:
    given = [
        change(cup, "P1346 winner (latest edition)", "A", "B", "2012-01-01", "martj42/international_results")
        for cup in ("Gold Cup", "Gulf Cup", "AFF Championship")
    ]
    assert [one.subject for one in tool.sources.football(given)] == ["Gold Cup"]


def test_a_redenomination_is_no_change_of_currency(tool) -> None:
    given = [
        change("Syldavia", "P38 currency", "Syldavian Khor (2000-2016)", "Syldavian Khor", "2016-07-01", "unicode"),
        change("Borduria", "P38 currency", "Bordurian Lek", "Euro", "2016-07-01", "unicode"),
        change("Zimbabwe", "P38 currency", "US Dollar", "Zimbabwean Gold", "2024-06-25", "unicode"),
    ]
    found = list(tool.sources.currencies(given))
    assert [(one.subject, one.old, one.new) for one in found] == [("Borduria", "Bordurian lek", "euro")]


def test_a_team_of_a_new_season_was_known_before_and_a_year_without_a_race_is_too_long(tool) -> None:
    spans = [
        fact("Ann", "Red", "2019-03-17", "2019-12-01", "P54"), fact("Ann", "Blue", "2020-03-15", "2020-05-03", "P54"),
        fact("Ann", "Green", "2020-07-05", "2020-12-13", "P54"), fact("Bea", "Red", "2017-03-26", "2017-11-26", "P54"),
        fact("Bea", "Blue", "2020-03-15", "2020-12-13", "P54"),
    ]  # fmt: skip
    given = [
        change("Ann", "P54 member of sports team (Formula One)", "Red", "Blue", "2020-03-15", "f1db"),
        change("Ann", "P54 member of sports team (Formula One)", "Blue", "Green", "2020-07-05", "f1db"),
        change("Bea", "P54 member of sports team (Formula One)", "Red", "Blue", "2020-03-15", "f1db"),
    ]
    found = list(tool.sources.racing(given, spans))
    assert [(one.subject, one.new, one.predictable) for one in found] == [
        ("Ann", "Blue", "high"), ("Ann", "Green", "medium"),
    ]  # fmt: skip


def test_january_first_of_v_dyknow_is_a_year(tool) -> None:
    given = [
        change("Acme", "P169 chief executive officer", "A", "B", "2015-01-01", "sislab-unitn/V-DyKnow"),
        change("Bolt", "P169 chief executive officer", "A", "B", "2015-02-01", "sislab-unitn/V-DyKnow"),
    ]
    assert [one.subject for one in tool.sources.companies_and_players(given)] == ["Bolt"]


def test_what_was_written_by_hand_is_read_as_chains(tool, tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    path.write_text("# words\n## officeholder | mayor | a list\nMayor of X | A > B 2015-03 low > C 2019-01-02 HIGH\n")
    first, second = tool.sources.known(path)
    assert (first.old, first.new, first.date, first.predictable) == ("A", "B", "2015-03", "low")
    assert (second.old, second.new, second.predictable, second.source) == ("B", "C", "high", "this project (a list)")
    assert first.source == "apoorvumang/knowledge-cutoff"
    path.write_text("## officeholder | mayor | a list\nMayor of X | A > B soon\n")
    with pytest.raises(ValueError, match="'B soon' is not VALUE DATE"):
        list(tool.sources.known(path))


def test_controls_still_hold(tool, tmp_path: Path) -> None:
    path = tmp_path / "controls.jsonl"
    lines = [
        {"id": "control-alive-x", "subject": "Ann Ace", "date": "2025-03-15"},
        {"id": "fake-resign-musk-tesla", "subject": "Elon Musk", "date": "2026-01-15"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    held = [fact("governor of AK", "Mike", "2018-12-03", "2026-12-07"), fact("governor of AL", "Kay", "2025-01-01", "")]
    found = list(tool.sources.controls(path, held, "2026-08-05"))
    assert [(one.subject, one.old, one.control) for one in found] == [
        ("Ann Ace", "alive", "still"), ("Tesla", "Elon Musk", "still"), ("Governor of Alaska", "Mike", "still"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Carlos Sainz", "Carlos Sainz Jr.", True),
        ("Pedro Sánchez", "Pedro Sanchez", True),
        ("Katherine M. Clark", "Katherine Clark", True),
        ("Kim Jong-un", "Kim Jong Un", True),
        ("Grace Mendonça", "André Mendonça", False),
        ("Boris Johnson", "Brandon Johnson", False),
        ("4.0", "5.0", False),
    ],
)
def test_names_that_may_be_one(tool, one: str, other: str, same: bool) -> None:
    names = importlib.import_module("changes.rows")
    assert names.same_name(one, other) is same
    assert names.same_name(other, one) is same


def test_two_sources_of_one_change_give_one_row_of_the_first(tool) -> None:
    first = row(tool, "Mayor of X", "José Pérez", "Ann Ace", "2015-01-02", "a")
    label = row(tool, "Lord Mayor of X", "Jose Perez", "Ann B. Ace", "2015-01-20", "b")
    other_kind = replace(label, subject="Leader of the X Party", kind="party leader")
    found, out = tool.merge.merged([[first], [label, other_kind]])
    assert found == [first, other_kind]
    assert out == Counter({"the same change of two sources": 1})


def test_one_source_may_tell_of_the_same_change_twice(tool) -> None:
    given = [
        row(tool, "Standings", "A A", "B B", "2021-09-05"), row(tool, "Standings", "B B", "A A", "2021-09-26"),
        row(tool, "Standings", "A A", "B B", "2021-10-10"),
    ]  # fmt: skip
    assert tool.merge.merged([given])[0] == given


def test_a_surer_date_replaces_that_of_a_source(tool) -> None:
    found, _ = tool.merge.merged(
        [[row(tool, "Mayor of X", "A A", "B B", "2015-01", "a")]],
        [row(tool, "Mayor of X", "A A", "B B", "2015-01-09", "mini")],
    )
    assert [(one.date, one.source) for one in found] == [("2015-01-09", "a")]


def test_sources_that_disagree_about_an_office_leave_the_first(tool) -> None:
    first = row(tool, "Mayor of X", "A A", "B B", "2015-01-02", "a")
    found, out = tool.merge.merged([[first], [row(tool, "Mayor of X", "C C", "B B", "2015-05-01", "b")]])
    assert found == [first]
    assert out == Counter({"another source says otherwise": 1})


def test_one_spelling_along_a_succession_and_never_of_versions(tool) -> None:
    given = [
        row(tool, "Mayor of X", "A A", "Gerd Müller", "2010-01-02"),
        row(tool, "Mayor of X", "Gerd Muller", "Joe E. Doe", "2015-01-02"),
        row(tool, "Mayor of X", "Joe Doe", "C C", "2019-01-02"),
        row(tool, "Mayor of Y", "Joe Doe", "D D", "2019-01-02"),
        replace(row(tool, "Rust", "4.0", "4.1", "2019-01-02"), relation="newest release series"),
        replace(row(tool, "Rust", "5.0", "5.1", "2019-02-02"), relation="newest release series"),
    ]
    found = tool.merge.one_spelling(given, {"A A": "Ann A"})
    names = {name for one in found for name in (one.old, one.new)}
    assert names == {"Ann A", "Gerd Müller", "Joe Doe", "C C", "D D", "4.0", "4.1", "5.0", "5.1"}


def test_who_stood_in_takes_both_changes_along(tool) -> None:
    given = [
        row(tool, "Mayor of X", "A", "B", "2015-01-02"), row(tool, "Mayor of X", "B", "C", "2015-01-20"),
        row(tool, "Mayor of X", "C", "D", "2018-01-20"),
    ]  # fmt: skip
    assert [one.new for one in tool.merge.without_short(given, 45)] == ["D"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the sources are not here")
@pytest.mark.full
def test_the_bundled_file_is_what_the_tool_makes(tool) -> None:
    from anachron.data.bundled.mini import mini_changes

    rows, _ = tool.bundled(SHARED)
    assert tool.table(rows).equals(mini_changes())
