"""The strips of a check against plain loops over its scores and periods, and the colours that they are drawn in."""

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.report.page.strips import succession_strips

AS_OF = Date.parse("2020-06-30")
YEARS = [year for year in range(-12, 13) if year]  # there is no year 0


def rows_of(periods, answer=None):
    """Objects a, b, ... of one subject and relation, each with a list of periods (first and last year, or no end)."""
    names = "abcdef"[: len(periods)]
    texts = ["; ".join(f"{start:05d}/{'' if end is None else f'{end:05d}'}" for start, end in own) for own in periods]
    return pl.DataFrame(
        [
            {"fact_id": f"f{name}", "subject": "S", "relation": "r", "object": name, "periods": text, "answer": answer}
            for name, text in zip(names, texts, strict=True)
        ],
        schema_overrides={"answer": pl.String},
    )


def scores_of(scored):
    """scored: a dictionary of scores by year for each object."""
    rows = [
        (f"f{name}", "year", f"{year:05d}", logp)
        for name, own in zip("abcdef", scored, strict=False)
        for year, logp in own.items()
    ]
    rows += [(f"f{name}", "year", None, 0.0) for name in "abcdef"[: len(scored)]]  # without a date: left out
    schema = {"fact_id": pl.String, "granularity": pl.String, "time": pl.String, "logp": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def on_axis(year):
    return year if year > 0 else year + 1


def naive(periods, scored, names):
    """Year on the axis -> the likeliest of those that have a score near, and whether another held instead."""
    first = min(on_axis(start) for own in periods for start, _ in own)
    last = max(on_axis(2020 if end is None else end) for own in periods for _, end in own)
    found = {}
    for year in range(first, last + 1):
        near, held = {}, set()
        for name, own, ranges in zip(names, scored, periods, strict=True):
            asked = sorted(map(on_axis, own))
            if asked and asked[0] <= year <= asked[-1]:
                place = min(asked, key=lambda other: (abs(other - year), other))
                near[name] = next(logp for at, logp in own.items() if on_axis(at) == place)
            if any(on_axis(start) <= year <= on_axis(2020 if end is None else end) for start, end in ranges):
                held.add(name)
        if len(near) > 1:
            ahead = {name for name, logp in near.items() if logp == max(near.values())}
            found[year] = (ahead, bool(held) and not ahead <= held)
    return found


ranges = st.tuples(st.sampled_from(YEARS), st.sampled_from(YEARS)).map(sorted).map(tuple)
scored_years = st.dictionaries(st.sampled_from(YEARS), st.sampled_from([-3.0, -2.0, -1.5]), max_size=8)


@given(st.lists(st.tuples(st.lists(ranges, min_size=1, max_size=2), scored_years), min_size=2, max_size=4))
def test_the_likeliest_of_each_year_is_that_of_a_plain_loop(objects):
    periods, scored = ([one[side] for one in objects] for side in (0, 1))
    names = "abcdef"[: len(objects)]
    (found,) = succession_strips(rows_of(periods), scores_of(scored), {}, ["fb", "fa"], AS_OF)
    assert sorted(found["objects"]) == sorted(names)
    assert found["facts"] == [{"a": 1, "b": 0}.get(name) for name in found["objects"]]
    told = {
        year: ({found["objects"][n] for n in of}, wrong)
        for start, until, of, wrong in found["likeliest"]
        for year in range(start, until)
    }
    assert told == naive(periods, scored, names)
    assert all(one[1] <= other[0] for one, other in zip(found["likeliest"], found["likeliest"][1:], strict=False))
    held = {
        (found["objects"][n], year)
        for start, until, of in found["held"]
        for n in of
        for year in range(round(start), round(until))
    }
    assert held == {
        (name, on_axis(year))
        for name, own in zip(names, periods, strict=True)
        for start, end in own
        for year in YEARS
        if start <= year <= end
    }
    years = [{on_axis(year) for year in own} for own in scored]
    inside = range(int(found["held"][0][0]), int(np.ceil(found["held"][-1][1])))
    assert found["asked"] == sum(sum(year in own for own in years) > 1 for year in inside)


def test_what_holds_still_ends_at_the_day_of_the_check_and_today_is_told():
    table = rows_of([[(2000, 2010)], [(2011, None)], [(2030, 2040)]], answer="a")
    (found,) = succession_strips(table, None, {"fa": [(2005, "a"), (2012, "a")], "fb": [(2013, "b")]}, [], AS_OF)
    assert found["objects"] == ["a", "b", "c"] and found["today"] == [[1], 0]
    assert found["held"][:2] == [[2000, 2011, [0]], [2011, pytest.approx(2020.5, abs=0.01), [1]]]
    named = [[2005, 2006, [0], False], [2012, 2013, [0], True], [2013, 2014, [1], False]]
    assert found["likeliest"] == named and found["asked"] == 0
    assert succession_strips(rows_of([[(2000, None)]]), None, {}, [], AS_OF) == []
    begun = rows_of([[(2000, None)], [(2030, None)]])  # the second has not begun
    assert succession_strips(begun, None, {}, [], AS_OF) == []


# What eyes without one kind of cone see of linear RGB: Machado, Oliveira and Fernandes 2009, severity 1
EYES = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]


def linear(colour):
    share = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b*, in which 2 is just to be seen and 20 is another colour."""
    x, y, z = np.cbrt(np.maximum(TO_XYZ @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883], 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("eyes", EYES)
def test_colours_of_objects_are_told_apart_in_both_themes_by_all_eyes(theme, eyes):
    style = files("anachron.report.page").joinpath("style.css").read_text("utf-8")
    paper = re.findall(r"--paper: (#\w{6})", style)[theme]
    colours = [re.findall(rf"--c{n}: (#\w{{6}})", style)[theme] for n in range(6)]
    seen = [lab(np.array(EYES[eyes]) @ linear(colour)) for colour in colours]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 30
    for colour in colours:  # WCAG 2.2, 1.4.11: graphics have a contrast of at least 3
        low, high = sorted(float(np.array(TO_XYZ[1]) @ linear(one)) for one in (colour, paper))
        assert (high + 0.05) / (low + 0.05) >= 3
