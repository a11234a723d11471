"""Dates of numbers and in words of five languages: which of two numbers is the day is told by the whole file."""

import datetime
from collections.abc import Sequence
from pathlib import Path

import pytest
from babel.dates import get_month_names
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.data.loaders import load_dataset
from anachron.data.own.date_words import means_still, months
from anachron.data.own.dates import needs_order, read_date, read_end, read_start, settled_order
from anachron.data.own.files import read_given_facts
from anachron.data.own.reading import Reading

HEADER = "subject;relation;object;start;end\n"
AS_OF = "2025-11-22"
FORMS = {"dmy": "%d{}%m{}%Y", "mdy": "%m{}%d{}%Y"}


def table(folder: Path, *spans: tuple[str, str]) -> Path:
    rows = "".join(f"S{n};capital;O{n};{start};{end}\n" for n, (start, end) in enumerate(spans))
    (path := folder / "facts.csv").write_text(HEADER + rows, "utf-8")
    return path


def naive(texts: Sequence[str]) -> list[list[datetime.date]]:
    """What the dates may be, read in one order throughout: every way in which all of them are days."""
    ways = []
    for order, form in FORMS.items():
        try:
            marked = [(text, "." if "." in text else "/" if "/" in text else "-") for text in texts]
            if order == "mdy" and any(mark == "." for _, mark in marked):
                continue
            ways.append([datetime.datetime.strptime(text, form.format(mark, mark)).date() for text, mark in marked])
        except ValueError:
            continue
    return ways


DAYS = st.dates(datetime.date(1001, 1, 1), datetime.date(2050, 12, 31))
NUMBERS = st.tuples(st.integers(1, 31), st.integers(1, 31), st.integers(1001, 2050))


@given(st.lists(st.tuples(NUMBERS, st.sampled_from("/-/-.")), min_size=1, max_size=6))
def test_the_order_is_the_only_one_in_which_all_are_days(parts) -> None:
    """Whatever two numbers stand first: the dates are as the naive reader has them where it has one way, else
    refused."""
    texts = [f"{one:02d}{mark}{two:02d}{mark}{year}" for (one, two, year), mark in parts]
    order, _ = settled_order(texts)
    ways = naive(texts)
    same = len({tuple(way) for way in ways}) == 1
    try:
        read = [read_date(text, order) for text in texts]
    except DataError:
        read = None
    if same:
        assert read == [Date(day.year, day.month, day.day) for day in ways[0]]
    elif len(ways) == 2:
        assert read is None and any(map(needs_order, texts))
    else:  # in no order all of them are days; then a sum of unlike orders, or a day that is none
        contradicts = len(settled_order(texts)[1]) > 1
        assert read is None or contradicts


@given(st.lists(DAYS, min_size=1, max_size=8), st.sampled_from(["dmy", "mdy"]), st.sampled_from("/-"))
def test_an_order_that_is_said_is_kept(days, order, mark: str) -> None:
    texts = [day.strftime(FORMS[order].format(mark, mark)) for day in days]
    assert [read_date(text, order) for text in texts] == [Date(day.year, day.month, day.day) for day in days]
    found, shown = settled_order(texts)
    assert found in (order, None) and len(shown) < 2
    assert (found == order) == any(day.day > 12 for day in days)


def test_one_date_settles_all_others(tmp_path: Path) -> None:
    path = table(tmp_path, ("08/12/2004", "22/11/2010"), ("01/02/2003", ""))
    read = read_given_facts(path)
    assert [str(item.fact.period.start) for item in read.facts] == ["2004-12-08", "2003-02-01"]
    said = "dates such as '08/12/2004' are read day first, as 2004-12-08, as '22/11/2010' shows"
    assert read.notes == (said,) and read.reading.recorded() == {"dates": "dmy"}
    american = read_given_facts(table(tmp_path, ("12/08/2004", "11/22/2010")))
    assert str(american.facts[0].fact.period.start) == "2004-12-08" and american.reading.dates == "mdy"
    dots = read_given_facts(table(tmp_path, ("08.12.2004", "1.2.2010")))
    assert str(dots.facts[0].fact.period.start) == "2004-12-08" and "for its dots" in dots.notes[0]
    assert not read_given_facts(table(tmp_path, ("2004-12-08", "05/05/2010"))).notes


def test_what_stands_for_no_date_is_told_by_its_row(tmp_path: Path) -> None:
    read = read_given_facts(table(tmp_path, ("seit 8.12.2004", "bis 1.2.2100")))
    assert read.facts[0].fact.period.end is None and str(read.facts[0].fact.period.start) == "2004-12-08"
    for start, said in (
        ("8.12.49", "four digits"),
        ("00.12.2004", "day 0"),
        ("1.2.0000", "year 0"),
        ("8/12/49", "four"),
    ):
        with pytest.raises(DataError, match=f"row 2, start: '{start}' .*{said}"):
            read_given_facts(table(tmp_path, ("8.12.2004", ""), (start, "")))
    with pytest.raises(DataError, match=r"row 1, start: '1\.2\.2100' is what many tables write"):
        read_given_facts(table(tmp_path, ("1.2.2100", "")))


def test_what_is_undecided_or_contradictory_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, ("08/12/2004", "03/04/2010"), ("01/02/2003", ""))
    with pytest.raises(DataError) as refused:
        read_given_facts(path)
    message = str(refused.value)
    assert "'08/12/2004' may be 2004-12-08 or 2004-08-12" in message and "--dates dmy (day first) or mdy" in message
    assert "likewise 2 more: 1 end ('03/04/2010'), 2 ('01/02/2003')" in message
    for order, start in (("dmy", "2004-12-08"), ("mdy", "2004-08-12")):
        read = read_given_facts(path, Reading(dates=order))
        assert str(read.facts[0].fact.period.start) == start
    path = table(tmp_path, ("22/11/2004", "11/22/2010"))
    with pytest.raises(DataError, match=r"two orders of day and month, as '22/11/2004' and '11/22/2010' show"):
        read_given_facts(path)
    with pytest.raises(DataError, match=r"row 1, end: '11/22/2010' read day first has no month 22; write 2010-11-22"):
        read_given_facts(path, Reading(dates="dmy"))
    with pytest.raises(ConfigError, match=r"--dates ymd: choose dmy \(day first\) or mdy"):
        Reading(dates="ymd")  # type: ignore[arg-type]


def test_dates_of_lives_are_read_and_counted_as_well(tmp_path: Path) -> None:
    path = tmp_path / "lives.csv"
    path.write_text(
        "subject,relation,object,start,end,object_birth\nUSA,head of state,Barack Obama,2009,2016,04/08/1961\n"
        "USA,head of state,Donald Trump,2017,2020,14/06/1946\n"
    )
    born = load_dataset(str(path), as_of=AS_OF).table["object_from"].unique().sort().to_list()
    assert born == ["1946-06-14", "1961-08-04"]


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("13 janvier 2000", "2000-01-13"), ("1er mars 1999", "1999-03-01"), ("12. März 2004", "2004-03-12"),
        ("März 2004", "2004-03"), ("13 de enero de 2000", "2000-01-13"), ("5 de março de 2001", "2001-03-05"),
        ("1.º de maio de 1990", "1990-05-01"), ("enero del 2000", "2000-01"), ("3 d'avril 1999", "1999-04-03"),
        ("12.Okt.2004", "2004-10-12"), ("déc. 2003", "2003-12"), ("Sept. 2004", "2004-09"),
        ("8. 12. 2004", "2004-12-08"), ("08.12.2004 00:00:00", "2004-12-08"), ("1. April 1990", "1990-04-01"),
        ("15 mars 44 BC", "-0044-03-15"),
    ],
)  # fmt: skip
def test_dates_in_words_of_five_languages(text: str, date: str) -> None:
    assert str(read_date(text)) == date


@given(DAYS, st.sampled_from(["en", "de", "fr", "es", "pt"]), st.sampled_from(["wide", "abbreviated"]), st.booleans())
def test_every_month_of_every_language_is_read(day: datetime.date, locale: str, width: str, dotted: bool) -> None:
    name = get_month_names(width, "format", locale)[day.month]
    of = " de " if locale in ("es", "pt") else " "
    first = f"{day.day}." if dotted and locale == "de" else f"{day.day}"
    texts = [f"{first}{of}{name}{of}{day.year}", f"{first} {name.upper()} {day.year}", f"{name} {day.year}"]
    assert [str(read_date(text)) for text in texts] == [day.isoformat()] * 2 + [day.isoformat()[:7]]
    assert sorted(set(months().values())) == list(range(1, 13))


STILL = ["heute", "bis heute", "Aujourd’hui", "jusqu'à aujourd'hui", "jusqu’à présent", "hasta la actualidad", "hoy",
         "até hoje", "Presente", "present", "until today", "", " ", "none", "en cours", "im Amt", "atual"]  # fmt: skip


@pytest.mark.parametrize("text", STILL)
def test_words_for_today_are_no_end(tmp_path: Path, text: str) -> None:
    assert means_still(text)
    (item,) = read_given_facts(table(tmp_path, ("2004", text))).facts
    assert item.fact.period.end is None


@pytest.mark.parametrize("text", ["-", "?", "unbekannt", "tomorrow", "toujours", "to", "bis", "2009?", "!"])
def test_other_words_are_not(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match="row 1, end: "):
        read_given_facts(table(tmp_path, ("2004", text)))


@pytest.mark.parametrize(
    ("text", "start"),
    [("seit 2021", "2021"), ("depuis le 3 mars 2001", "2001-03-03"), ("desde enero de 2004", "2004-01"),
     ("Since March 2004", "2004-03"), ("ab 8.12.2004", "2004-12-08"), ("desde o 3 de maio de 2001", "2001-05-03"),
     ("april 2004", "2004-04"), ("dès 1999", "1999")],
)  # fmt: skip
def test_a_start_may_say_since(text: str, start: str) -> None:
    assert str(read_start(text)) == start and str(read_end(f"bis {start}")) == start
