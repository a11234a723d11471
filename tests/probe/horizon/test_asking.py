"""Changes put to a model that only answers: how answers are read, and whether the date of a known answerer is found."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from anachron.core.dates import Date
from anachron.core.errors import ConfigError
from anachron.core.sameness import plain
from anachron.io.answers import Answer
from anachron.io.jobs import Callbacks
from anachron.lm.model import LanguageModel
from anachron.probe.ask.asking import AskSettings
from anachron.probe.ask.budget import Budget
from anachron.probe.ask.generate import LocalAnswerer
from anachron.probe.ask.matching import EMPTY, READ, REFUSED, UNANSWERED, UNREADABLE, Reading
from anachron.probe.by_answers import ByAnswers
from anachron.probe.horizon.asking import (
    DECOY,
    EARLIER,
    LATER,
    NEW,
    NOBODY,
    OLD,
    TWICE,
    UNASKED,
    answered,
    change_questions,
)
from anachron.probe.horizon.changes import INVENTED, STILL, Change, month_text, with_values_before
from anachron.probe.horizon.find import find_horizon, read_horizon
from anachron.probe.horizon.leak import leak_after
from anachron.probe.horizon.measure import comparable, read_preferences, usable
from anachron.probe.horizon.questions import ChangeToAsk, changes_to_ask
from anachron.probe.horizon.summary import horizon_of
from support.tiny_models import make_model, make_tokenizer

LISTED = with_values_before(
    [
        Change("X", "mayor", "Ann Ash", "Bob Birch", Date(2012, 5)),
        Change("X", "mayor", "Bob Birch", "Cid Cedar", Date(2016, 5)),
        Change("X", "mayor", "Cid Cedar", "Dan Dogwood", Date(2020, 5)),
    ]
)
ASKED = [
    ChangeToAsk(one, ("The mayor of X is", "who is the mayor of X?"), ("Eve Elm",), ("Fay Fir",)) for one in LISTED
]


def named(reading: Reading | None) -> pl.DataFrame:
    return answered(ASKED, {} if reading is None else {"who is the mayor of X?": reading})


@pytest.mark.parametrize(
    ("name", "wins", "words"),
    [
        ("Ann Ash", [0, 0, 0], [OLD, EARLIER, EARLIER]),
        ("Bob Birch", [1, 0, 0], [NEW, OLD, EARLIER]),
        ("Cid Cedar", [1, 1, 0], [LATER, NEW, OLD]),
        ("Dan Dogwood", [1, 1, 1], [LATER, LATER, NEW]),
    ],
)
def test_one_answer_speaks_of_all_changes_of_its_subject(name: str, wins: list[int], words: list[str]) -> None:
    table = named(Reading(READ, plain(name)))
    assert table["wins"].to_list() == wins
    assert table["named"].to_list() == words
    assert table["known"].all()
    assert table["decoy_wins"].to_list() == [0, 0, 0]


@pytest.mark.parametrize(
    ("reading", "word", "decoy"),
    [
        (Reading(READ, plain("Eve Elm")), NOBODY, 0),
        (Reading(READ, None), NOBODY, 0),
        (Reading(READ, plain("Fay Fir")), DECOY, 1),
        (Reading(REFUSED), REFUSED, None),
        (Reading(EMPTY), EMPTY, None),
        (Reading(UNREADABLE), UNREADABLE, None),
        (Reading(UNANSWERED), UNANSWERED, None),
        (None, UNASKED, None),
    ],
)
def test_who_names_none_of_the_holders_says_nothing(reading: Reading | None, word: str, decoy: float | None) -> None:
    table = named(reading)
    assert table["named"].to_list() == [word] * 3
    assert table["wins"].to_list() == [None] * 3
    assert not table["known"].any()
    assert usable(table).height == 0
    assert table["decoy_wins"].to_list() == [decoy] * 3
    assert comparable(table).height == (3 if word == DECOY else 0)


def test_the_question_is_asked_once_and_matched_against_everybody() -> None:
    questions = change_questions(ASKED)
    assert [*questions] == ["who is the mayor of X?"]
    question = questions["who is the mayor of X?"]
    assert question.prompt.startswith("who is the mayor of X?\nReply with the full name only.")

    def read(text: str) -> Reading:
        return question.read(Answer(text, "stop", None, None, None, None))

    assert read("It is Bob  BIRCH.") == Reading(READ, "bob birch")
    assert read("Eve Elm").value == "eve elm"
    assert read("Gus Gum") == Reading(READ, None)
    assert read("Bob Birch, then Cid Cedar").outcome == UNREADABLE
    assert read("unknown").outcome == REFUSED


def test_whoever_comes_back_makes_a_change_unasked_and_no_other() -> None:
    listed = with_values_before(
        [
            Change("Y", "mayor", "Ann", "Bob", Date(2012, 5)),
            Change("Y", "mayor", "Bob", "Ann", Date(2016, 5)),
            Change("Y", "mayor", "Ann", "Cid", Date(2020, 5)),
        ]
    )
    asked = [ChangeToAsk(one, ("who?",), (), ()) for one in listed]
    table = answered(asked, {"who?": Reading(READ, "ann")})
    assert table["named"].to_list() == [TWICE, TWICE, OLD]
    assert table["wins"].to_list() == [None, None, 0]
    assert table["decoy_wins"].to_list() == [None] * 3


def test_controls() -> None:
    rows = [
        Change("X", "mayor", "Ann", "", Date(2020, 5), control=STILL),
        Change("Z", "mayor", "Old", "New", Date(2020, 5), control=INVENTED),
    ]
    asked = [ChangeToAsk(one, (f"who of {one.subject}?",), (), ("Fay",)) for one in rows]

    def wins(name: str) -> list[float | None]:
        return answered(asked, {one.question: Reading(READ, name) for one in asked})["wins"].to_list()

    assert wins("ann") == [0, None]
    assert wins("fay") == [1, None]
    assert wins("new") == [None, 1]


def test_only_decoys_that_are_named_weigh_against_new_values_in_the_test_of_a_leak() -> None:
    changes = [Change(f"S{i}", "mayor", f"O{i}", f"N{i}", Date(2020, 5)) for i in range(30)]
    asked = [ChangeToAsk(one, (f"who of {one.subject}?",), (), (f"F{one.subject}",)) for one in changes]

    def test(*shares: int) -> pl.DataFrame:
        names = [f"n{i}" for i in range(shares[0])] + [f"fs{i}" for i in range(shares[0], sum(shares))]
        names += [f"o{i}" for i in range(len(names), 30)]
        return answered(asked, {o.question: Reading(READ, n) for o, n in zip(asked, names, strict=True)})

    none, some = leak_after(test(6, 6), 2019 * 12), leak_after(test(6, 0), 2019 * 12)
    assert not none.leaked
    assert none.changes == 30
    assert none.decoy == pytest.approx(0.2)
    assert some.p == pytest.approx(0.5**6, abs=0.003)
    assert some.leaked


@dataclass
class Simulated:
    """Somebody who learned until a month, at once, and knows a share of subjects; ``lapse`` of these are never up to
    date, some refuse, some name anybody. asked: every prompt that was put."""

    changes: Sequence[Change]
    until: int
    seed: int
    known: float = 0.8
    lapse: float = 0.2
    asked: list[str] = field(default_factory=list)
    kept: dict[str, Answer] = field(default_factory=dict)
    name: str = "simulated"

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.seed)
        by_subject: dict[str, list[Change]] = {}
        for one in self.changes:
            by_subject.setdefault(one.subject, []).append(one)
        self.says: dict[str, str] = {}
        for subject, ones in by_subject.items():
            learned = [one for one in ones if one.month < self.until]
            if random.random() > self.known:
                says = ["I do not know", "", "Somebody Unheard"][random.integers(3)]
            else:
                says = learned[-1].new if learned and random.random() > self.lapse else ones[0].old
            self.says[subject] = says

    def identity(self) -> dict[str, object]:
        return {"backend": "simulated"}

    def answers(self, prompts: Sequence[str], callbacks: Callbacks) -> list[Answer]:
        for prompt in prompts:
            if prompt not in self.kept:
                self.asked.append(prompt)
                subject = prompt.split(" of ")[-1].split("?")[0]
                self.kept[prompt] = Answer(self.says[subject], "stop", None, 20, 5, None)
        return [self.kept[prompt] for prompt in prompts]


def world(size: int, seed: int) -> list[Change]:
    """Towns with one to three mayors' changes each, 2010 to 2024."""
    random, found = np.random.default_rng(seed), []
    while len(found) < size:
        town = f"Town{len(found)}"
        months = sorted(random.choice(np.arange(2010 * 12, 2025 * 12), random.integers(1, 4), replace=False).tolist())
        for place, month in enumerate(months):
            names = [f"{town} Holder{place + shift}" for shift in (0, 1)]
            found.append(Change(town, "mayor", *names, Date(month // 12, month % 12 + 1)))
    return with_values_before(found)


@pytest.mark.full
def test_the_date_of_a_known_answerer_lies_in_its_interval_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    changes = world(300, 1)
    somebody = Simulated(changes, 2018 * 12 + 5, 2)
    limits = {"min_judged": 0.5}  # for some of its answers are empty
    found = find_horizon(ByAnswers(somebody), changes, tmp_path / "run", claim=2018 * 12 + 5, **limits)
    assert found.summary["leak"]["told"]
    half = found.summary["halving"]
    assert half["low"] <= month_text(somebody.until) <= half["high"]
    assert int(half["high"][:4]) - int(half["low"][:4]) <= 2
    counts = found.summary["counts"]
    assert sum(counts["named"].values()) == counts["changes"] == len(changes)
    assert counts["known_subjects"] == sum(counts["named"].get(name, 0) for name in (NEW, OLD, LATER, EARLIER))
    assert not found.summary["leak"]["leaked"]
    assert len(somebody.asked) == len({one.subject for one in changes}) == len(set(somebody.asked))
    again = find_horizon(ByAnswers(somebody), changes, tmp_path / "run", claim=2015 * 12, **limits)
    assert again.summary["leak"]["leaked"]
    assert len(somebody.asked) == len(set(somebody.asked))
    assert again.preferences.equals(found.preferences)
    assert read_horizon(tmp_path / "run").preferences.equals(found.preferences)
    with pytest.raises(ConfigError):
        find_horizon(ByAnswers(somebody), changes[:50], tmp_path / "run")


def test_a_budget_buys_a_sample_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    changes = world(26, 3)  # too few for a curve, which is not what this is about
    somebody, told = Simulated(changes, 2018 * 12, 4), []
    few = AskSettings(budget=Budget(5, "calls"))
    part = find_horizon(ByAnswers(somebody, few), changes, tmp_path / "run", callbacks=Callbacks(warn=told.append))
    assert len(somebody.asked) == 5
    assert part.preferences.filter(pl.col("named") != UNASKED)["subject"].n_unique() == 5
    assert any("the budget ended after 5 of" in line for line in told)
    whole = find_horizon(ByAnswers(somebody), changes, tmp_path / "run")
    assert UNASKED not in whole.preferences["named"].to_list()
    assert len(somebody.asked) == len(set(somebody.asked))
    other = find_horizon(ByAnswers(Simulated(changes, 2018 * 12, 4)), changes, tmp_path / "other")
    assert other.preferences.equals(whole.preferences)


@pytest.mark.slow
def test_intervals_hold_the_truth_of_many_answerers() -> None:
    """Forty answerers with horizons over ten years, known shares and lapses that differ, subjects answered as one."""
    held, errors, false_leaks = 0, [], 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        changes = world(300, seed)
        until = int(random.integers(2012 * 12, 2022 * 12))
        somebody = Simulated(changes, until, seed, known=random.uniform(0.4, 1), lapse=random.uniform(0, 0.3))
        asked = changes_to_ask(changes)
        readings = {
            question: one.read(somebody.answers([one.prompt], Callbacks())[0])
            for question, one in change_questions(asked).items()
        }
        table = answered(asked, readings)
        found = horizon_of(table)
        assert found is not None
        assert found.told
        middle, low, high = found.halving()
        held += low <= until <= high
        errors.append(abs(middle - until))
        leak = leak_after(table, until, min_judged=0)
        assert leak.told
        false_leaks += leak.leaked
    print(f"held {held} of 40, mean error {np.mean(errors):.2f} months, false leaks {false_leaks}")
    assert held >= 36
    assert np.mean(errors) < 3
    assert false_leaks == 0


def test_a_table_of_answers_is_read_as_it_was_written() -> None:
    table = named(Reading(READ, plain("Cid Cedar")))
    text = pl.read_csv(table.write_csv().encode(), infer_schema=False)
    assert read_preferences(text).equals(table)


@pytest.mark.full
def test_a_local_model_writes_its_answers(tmp_path: Path) -> None:
    tokenizer = make_tokenizer("mistral")
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant] {% endif %}"
    )
    local = LocalAnswerer(LanguageModel(make_model("llama"), tokenizer, "tiny"), tmp_path / "answers", "tiny", 4)
    found = find_horizon(ByAnswers(local), LISTED, tmp_path / "run")
    assert found.model == "tiny"
    assert found.preferences["named"].null_count() == 0
    assert not found.summary["told"]
    assert len([*(tmp_path / "answers").rglob("*.json")]) == 1
