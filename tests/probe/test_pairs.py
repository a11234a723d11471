"""Pairs as people and other tools write them: files of every kind, and answers that begin with white space."""

import json

import numpy as np
import polars as pl
import pytest

import anachron
from anachron.core.errors import DataError
from anachron.lm.formats import as_triple
from anachron.probe.pairs import read_pairs, score_pairs

ROWS = [("In 2011, who was it? ", "Barack Obama", None), ("Die Hauptstadt heißt:", "Bonn", "\n")]


def files(folder):
    records = [{"prompt": p, "answer": a, "separator": s} for p, a, s in ROWS]
    (folder / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    (folder / "a.json").write_text(json.dumps(records), "utf-8")
    (folder / "lists.json").write_text(json.dumps([[p, a] if s is None else [p, a, s] for p, a, s in ROWS]), "utf-8")
    table = pl.DataFrame(records, schema={"prompt": pl.String, "answer": pl.String, "separator": pl.String})
    table.write_csv(folder / "a.csv")
    table.write_parquet(folder / "a.parquet")
    return sorted(path for path in folder.iterdir() if path.suffix != ".txt")


def test_every_kind_of_file_holds_the_same_pairs(tmp_path):
    made = files(tmp_path)
    assert len(made) == 5
    for path in made:
        assert read_pairs(path) == ROWS, path.name


@pytest.mark.parametrize(
    "name, text, said",
    [
        ("a.json", '{"prompt": "x", "answer": "y"}', "give a list of objects"),
        ("a.json", '[["x"]]', r"row 1: \[.x.\] is neither an object"),
        ("a.json", '[["x", 3]]', "row 1: answer is 3"),
        ("a.csv", "prompt,answer\nx,\n", "row 1: answer is None"),
        ("a.csv", "prompt,reply\nx,y\n", "row 1: unknown field 'reply'"),
        ("a.csv", "prompt,answer\n", "no pairs in it"),
        ("a.jsonl", '{"prompt": "x", "answer": " y", "separator": " "}\n', "begins with white space and has the sep"),
    ],
)
def test_what_is_no_pair_is_named(tmp_path, name, text, said):
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(DataError, match=said):
        read_pairs(tmp_path / name)


def test_white_space_before_an_answer_is_part_of_it():
    assert as_triple(("The capital is", " Paris")) == ("The capital is", " Paris", "")
    assert as_triple(("The capital is", "\n\nParis", "")) == ("The capital is", "\n\nParis", "")
    assert as_triple(["The capital is ", "Paris"]) == ("The capital is ", "Paris", None)
    lm = anachron.load_model("demo")
    question = "In 2011, who was the president of the USA?"
    plain, harness = lm.log_probs([(question, "Barack Obama"), (question, " Barack Obama")])
    assert plain == harness  # the tokenizer of the demo model writes the space into the word's token


@pytest.mark.parametrize("given", ["In 2011, who?", ("one",), ("a", "b", "c", "d"), ("a", 3), 5])
def test_a_text_where_a_pair_belongs_is_refused(given):
    with pytest.raises(DataError, match="is not a pair of texts"):
        anachron.load_model("demo").log_probs([given])


def test_scores_stand_beside_their_pairs(tmp_path):
    lm, path = anachron.load_model("demo"), tmp_path / "p.json"
    path.write_text('[["In 2011, who was the president of the USA?", " Barack Obama"]]', "utf-8")
    table = score_pairs(lm, read_pairs(path), path, tmp_path / "s.csv")
    assert table.columns == ["row", "prompt", "answer", "logp", "n_tokens"]
    assert table.row(0)[:3] == (0, "In 2011, who was the president of the USA?", " Barack Obama")
    np.testing.assert_allclose(table["logp"], lm.log_probs([table.row(0)[1:3]]))
