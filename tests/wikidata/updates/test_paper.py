"""WikiFactDiff, table 1 and section 4: its examples, planted in snapshots of its dates, come out as it prints them."""

import pytest

from anachron.core.errors import ConfigError
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.updates.build import UpdateSettings, build_updates
from anachron.wikidata.updates.explain import explain_changes
from wikidata.made import boundary, entity, property_, statement, write_snapshot

DATES = ("2021-01-04", "2023-02-27")
TIME = {"value_type": "time", "datatype": "time", "value_precision": 11, "value_calendar": "gregorian"}
TEMPORAL = {"single_value": True, "separators": ["P580", "P582"]}
PROPERTIES = [
    property_("P1082", "population", datatype="quantity", single_value=True, separators=["P585"]),
    property_("P54", "member of sports team"), property_("P6", "head of government", **TEMPORAL),
    property_("P6087", "coach of sports team"), property_("P31", "instance of"),
    property_("P571", "inception", datatype="time"), property_("P2997", "age of majority", datatype="quantity"),
]  # fmt: skip
NAMES = {
    "Q1": "Japan", "Q2": "Cristiano Ronaldo", "Q3": "USA", "Q4": "Vyacheslav Geraschenko", "Q5": "ChatGPT",
    "Q6": "Ukraine", "Q20": "Portugal national association football team", "Q21": "Juventus F.C.",
    "Q22": "Manchester United F.C.", "Q23": "Al-Nassr", "Q30": "Barack Obama", "Q31": "Donald Trump",
    "Q32": "Joe Biden", "Q40": "FC Smorgon", "Q41": "FC Dnepr Mogilev", "Q50": "language model", "Q51": "country",
}  # fmt: skip
# What table 1 says: subject, relation, objects and labels (its "unchanged" is our static).
TABLE_1 = {
    ("Japan", "population"): {"125,960,000": "obsolete", "125,440,000": "new"},
    ("Cristiano Ronaldo", "member of sports team"): {
        "Portugal national association football team": "static", "Juventus F.C.": "obsolete", "Al-Nassr": "new",
    },
    ("USA", "head of government"): {"Donald Trump": "obsolete", "Joe Biden": "new"},
    ("Vyacheslav Geraschenko", "coach of sports team"): {"FC Smorgon": "obsolete", "FC Dnepr Mogilev": "new"},
    ("ChatGPT", "instance of"): {"language model": "new"},
    ("ChatGPT", "inception"): {"November 30, 2022": "new"},
}  # fmt: skip


def fact(id, subject, property, value, start=None, end=None, **more):
    return statement(subject, property, value, start, end, statement_id=id, **more)


def count(id, number, year, subject="Q1", property="P1082"):
    kind = {"value_type": "quantity", "datatype": "quantity"}
    return fact(id, subject, property, f"+{number}", point=boundary(year), **kind)


OLD = [
    count("a", 125_960_000, "2020"), fact("b", "Q2", "P54", "Q20", "2003"), fact("c", "Q2", "P54", "Q21", "2018-07-10"),
    fact("d", "Q3", "P6", "Q30", "2009-01-20", "2017-01-20"), fact("e", "Q3", "P6", "Q31", "2017-01-20"),
    fact("f", "Q4", "P6087", "Q40", "2020-01"), fact("g", "Q6", "P31", "Q51"),
]  # fmt: skip
NEW = [
    *(row for row in OLD if row["statement_id"] in "abdg"), count("h", 125_440_000, "2022"),
    fact("c", "Q2", "P54", "Q21", "2018-07-10", "2021-08-31"),
    fact("i", "Q2", "P54", "Q22", "2021-08-31", "2022-11-22"),
    fact("j", "Q2", "P54", "Q23", "2023-01-01"), fact("e", "Q3", "P6", "Q31", "2017-01-20", "2021-01-20"),
    fact("k", "Q3", "P6", "Q32", "2021-01-20"), fact("f", "Q4", "P6087", "Q40", "2020-01", "2021-12"),
    fact("l", "Q4", "P6087", "Q41", "2022-01"), fact("m", "Q5", "P31", "Q50"),
    fact("n", "Q5", "P571", "2022-11-30", value_extra="+2022-11-30T00:00:00Z", **TIME),
]  # fmt: skip


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("table_1"), OLD, NEW)


def write_pair(folder, old, new):
    listed = [entity(id, name, title=name) for id, name in NAMES.items() if id != "Q5"]
    born = entity("Q5", "ChatGPT", title="ChatGPT", created="2022-11-30", created_property="P571")
    sides = (("old", listed, old, DATES[0]), ("new", [*listed, born], new, DATES[1]))
    return [
        open_snapshot(write_snapshot(folder / name, entities, rows, PROPERTIES, date=date))
        for name, entities, rows, date in sides
    ]


def built(snapshots, out, **more):
    settings = UpdateSettings(popularity=False, neighbours=0, **more)
    return build_updates(*snapshots, out / "updates.parquet", settings).updates.to_dicts()


def table_of(rows):
    return {
        (row["subject"]["label"], row["relation"]["label"]): {o["label"]: o["decision"] for o in row["objects"]}
        for row in rows
    }


def test_table_1_comes_out_of_what_held_at_each_date(snapshots, tmp_path):
    rows = built(snapshots, tmp_path, valid_at_date=True)
    assert table_of(rows) == TABLE_1
    prompts = {row["subject"]["label"]: row["update_prompt"] for row in rows if row["relation"]["id"] != "P571"}
    assert prompts["Vyacheslav Geraschenko"] == "Vyacheslav Geraschenko is the coach of ____"
    scenarios = {key: row["scenario"] for key, row in zip(table_of(rows), rows, strict=True)}
    assert scenarios["USA", "head of government"] == "ReplaceObject"
    assert scenarios["ChatGPT", "inception"] == "AddEntity"


def test_the_card_has_both_results(snapshots, tmp_path):
    """Section 4 against appendix A.1: the one group with values of another time is an update by the one alone."""
    for valid, pair in ((False, [1, 0]), (True, [0, 1])):
        (tmp_path / str(valid)).mkdir()
        settings = UpdateSettings(popularity=False, neighbours=0, valid_at_date=valid)
        made = build_updates(*snapshots, tmp_path / str(valid) / "u.parquet", settings)
        found = made.counts["judged"]["by_validity"]
        assert found == {"no update": pair, "ReplaceObject": pair[::-1]}
        card = (tmp_path / str(valid) / "u.parquet.card.md").read_text("utf-8")
        section = card.split("## Values that did not hold at a snapshot's date\n")[1].split("\n## ")[0]
        assert "| ReplaceObject | 0 | 1 |" in section and "| no update | 1 | 0 |" in section
        assert f"made {'with' if valid else 'without'} `--valid-at-date`" in section


def test_as_published_a_former_president_leaves_the_group_undecided(snapshots, tmp_path):
    """Appendix A.1 and the published code keep him, so a functional relation has three values: rule 6, dropped."""
    rows = built(snapshots, tmp_path)
    assert table_of(rows) == {key: objects for key, objects in TABLE_1.items() if key[0] != "USA"}
    said = explain_changes(*snapshots, "Q3", UpdateSettings()).changes
    assert {(c.value, c.label, c.rule) for c in said} == {
        (name, "unknown", 6) for name in ("Barack Obama", "Donald Trump", "Joe Biden")
    }  # fmt: skip
    asked = explain_changes(*snapshots, "Q3", UpdateSettings(valid_at_date=True)).changes
    gone = {(c.value, c.dropped) for c in asked if c.dropped}
    elsewhen = "one value: it did not hold at the date of the snapshot"
    assert gone == {("Barack Obama", elsewhen), ("Donald Trump", elsewhen)}  # he was president at the old date only


# Start and end of a statement of the new snapshot, its label as published, and whether its days leave that open.
COARSE = [
    ("2021", None, "static", True), ("2020", None, "static", False), ("2022", None, "new", False),
    ("2023", None, "new", True), ("2010", "2023", "obsolete", True), ("2010", "2022", "obsolete", False),
    ("2010", "2021", "ignore", True), ("2021-01-04", None, "unknown", False), ("2021-01", None, "static", True),
    ("2021-02", None, "new", False), ("2021", "2021", "ignore", True), ("2022", "2022", "ignore", False),
    ("2010", "2020", "ignore", False), (boundary("2020", precision=8), None, "static", True),
    (boundary("2010", precision=8), None, "static", False), (boundary("2015", precision=8), None, "static", False),
    (boundary("2000", precision=7), "2030", "static", False), (boundary("2001", precision=7), "2030", "static", True),
]  # fmt: skip


@pytest.mark.few(5)
@pytest.mark.parametrize(("start", "end", "label", "open_"), COARSE)
def test_a_date_known_to_the_year_leaves_open_what_depends_on_its_day(tmp_path, start, end, label, open_):
    more = fact("x", "Q2", "P54", "Q22", start, end)
    pair = write_pair(tmp_path, OLD, [*NEW, more])
    for coarse, expected in (("published", label), ("undecided", "unknown" if open_ else label)):
        said = explain_changes(*pair, "Q2", UpdateSettings(coarse_dates=coarse)).changes
        (found,) = (c for c in said if c.value_id == "Q22" and c.start != "2021-08-31")
        assert found.label == expected
        if expected == "unknown" and label != "unknown":
            assert (found.rule, found.words) == (21, "it depends on where in its year, month or decade a date lies")


def test_an_unknown_way_with_coarse_dates_is_refused():
    with pytest.raises(ConfigError, match="coarse dates 'first': choose undecided or published"):
        UpdateSettings(coarse_dates="first")
