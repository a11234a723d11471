"""Decoys: whose objects they are, and what is asked about them."""

import polars as pl
import pytest

from anachron.core.errors import ConfigError
from anachron.core.sameness import name_key
from anachron.data.bundled.mini import mini_entities, mini_facts
from anachron.data.dataset import Dataset
from anachron.data.decoys import with_decoys
from anachron.data.loaders import load_dataset
from anachron.data.own.statements import dataset_of_facts

FACTS = """subject,relation,object,start,end
Ruritania,minister of tides,Anna Alba,1990-01-01,2001-01-01
Ruritania,minister of tides,Bert Benz,2001-01-01,2012-01-01
Genovia,minister of tides,Carl Cox,1991-01-01,2005-01-01
Genovia,minister of tides,Anna Alba,2005-01-01,2015-01-01
Florin,minister of tides,Dora Dix,1980-01-01,1999-01-01
"""


@pytest.fixture(scope="module")
def mini() -> Dataset:
    return with_decoys(load_dataset("mini", limit=300))


@pytest.fixture
def own(tmp_path) -> Dataset:
    path = tmp_path / "facts.csv"
    path.write_text(FACTS)
    return dataset_of_facts(path, as_of="2024-12-31", sampling="near")


def named(data: Dataset) -> dict[str, list[str]]:
    """Object -> its decoys, of facts with subject."""
    facts = data.table.unique("fact_id", maintain_order=True).select("fact_id", "subject_label", "object_label")
    assert data.decoys is not None
    rows = facts.join(data.decoys, on="fact_id", maintain_order="left_right")
    return {
        f"{subject}: {name}": part["decoy"].to_list()
        for (subject, name), part in rows.group_by("subject_label", "object_label", maintain_order=True)
    }


def test_no_decoy_is_an_object_of_its_subject_by_any_relation(mini: Dataset) -> None:
    held: dict[str, set[str]] = {}
    for item in mini_facts():
        held.setdefault(item.fact.subject, set()).add(item.fact.object)
    facts = mini.table.unique("fact_id").select("fact_id", "subject_label")
    rows = facts.join(mini.decoys, on="fact_id").select("subject_label", "decoy").rows()
    assert len(rows) >= 0.98 * 5 * mini.facts
    assert not [pair for pair in rows if pair[1] in held[pair[0]] or pair[0] == pair[1]]


def test_decoys_are_of_the_kind_of_the_objects(mini: Dataset) -> None:
    known = mini_entities()
    facts = mini.table.unique("fact_id").select("fact_id", "object_label")
    pairs = facts.join(mini.decoys, on="fact_id").select("object_label", "decoy").rows()
    kinds = [(known[name].kind, known[decoy].kind) for name, decoy in pairs if {name, decoy} <= known.keys()]
    assert len(kinds) > len(pairs) / 2 and all(one == other for one, other in kinds)


def test_those_of_the_file_come_first_then_persons_for_a_role(own: Dataset) -> None:
    found = named(with_decoys(own, 4))
    assert found["Ruritania: Anna Alba"] == found["Ruritania: Bert Benz"]  # of one subject and relation the same
    assert set(found["Ruritania: Anna Alba"][:2]) == {"Carl Cox", "Dora Dix"}
    assert set(found["Florin: Dora Dix"][:3]) == {"Anna Alba", "Bert Benz", "Carl Cox"}
    assert set(found["Genovia: Carl Cox"][:2]) == {"Bert Benz", "Dora Dix"}  # Anna Alba is one of Genovia's too
    people = mini_entities()
    assert all(people[decoy].kind == "person" for decoys in found.values() for decoy in decoys[3:])


def test_the_nearest_in_length_are_taken(own: Dataset) -> None:
    """None of the persons that were passed over is nearer to the mean of 9 and 9 letters than one that was taken."""
    decoys = named(with_decoys(own, 30))["Ruritania: Anna Alba"][2:]
    known = mini_entities()
    objects = {held.fact.object for held in mini_facts()} & known.keys()
    people = {name for name in objects if known[name].kind == "person"}
    farthest = max(abs(len(decoy) - 9) for decoy in decoys)
    assert all(abs(len(name) - 9) >= farthest for name in people - {*decoys})


def test_seeds_draw_others_and_one_seed_the_same(own: Dataset) -> None:
    first, same, other = (named(with_decoys(own, 9, seed=seed)) for seed in (0, 0, 1))
    assert first == same != other


def test_where_nobody_knows_any_there_is_none(tmp_path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text(
        "subject,relation,object,start,end,question\nWidget,colour,teal,1990,2005,what colour was Widget?\n"
    )
    data = with_decoys(dataset_of_facts(path, as_of="2024-12-31"))
    assert data.decoys is not None and data.decoys.height == 0
    assert data.statements().drop("decoy").equals(data.table)


def test_each_is_asked_about_at_the_correct_and_incorrect_dates_of_its_fact(own: Dataset) -> None:
    data = with_decoys(own, 3)
    rows = data.statements()
    assert rows[: own.table.height].drop("decoy").equals(own.table)
    dated = own.table.filter(pl.col("status").is_in(["correct", "incorrect"]))
    of_decoys = rows.filter(pl.col("decoy").is_not_null())
    keys = ["fact_id", "granularity", "time", "status", "prompt"]
    for (_, decoy), part in of_decoys.group_by("fact_id", "decoy"):
        wanted = dated.filter(pl.col("fact_id") == part["fact_id"][0]).select(keys)
        assert part.select(keys).equals(wanted) and set(part["answer"]) == set(part["object_label"]) == {decoy}
    assert of_decoys.height == 3 * dated.height


def test_the_choice_is_part_of_what_a_run_is_told_by(own: Dataset) -> None:
    data = with_decoys(own, 2)
    assert data.choices()["decoys"] == 2 and "decoys" not in own.choices()
    assert len({own.fingerprint(), data.fingerprint(), with_decoys(own, 2, seed=5).fingerprint()}) == 3
    few = data.sample(2)
    assert set(few.decoys["fact_id"]) == set(few.table["fact_id"])
    with pytest.raises(ConfigError, match="decoys 0"):
        with_decoys(own, 0)


def test_an_alias_of_an_object_is_no_decoy(tmp_path) -> None:
    path = tmp_path / "facts.csv"
    rows = FACTS.splitlines()
    path.write_text("\n".join([rows[0] + ",aliases", rows[1] + ",Carl Cox", *(row + "," for row in rows[2:])]))
    found = named(with_decoys(dataset_of_facts(path, as_of="2024-12-31"), 9))
    assert name_key("Carl Cox") not in map(name_key, found["Ruritania: Bert Benz"])


def test_other_languages_borrow_bundled_persons_alone(tmp_path) -> None:
    """English names of countries would be another language than the question's; persons are called alike."""
    path = tmp_path / "facts.csv"
    path.write_text(
        "subject,relation,object,start,end\nAllemagne,chef du gouvernement,Willy Brandt,1969-10-22,1974-05-07\n"
        "Nigeria,capitale,Lagos,1914-01-01,1991-12-12\n"
    )
    found = named(with_decoys(dataset_of_facts(path, as_of="2024-12-31", language="fr")))
    assert len(found["Allemagne: Willy Brandt"]) == 5 and "Nigeria: Lagos" not in found
