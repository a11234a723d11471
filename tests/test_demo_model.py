"""The bundled model: what it was taught, what it was not, and the pattern it must show."""

import importlib
import json
import sys
from pathlib import Path

import polars as pl
import pytest

from anachron.analysis.metrics import GLOBAL, fact_metrics, summarise
from anachron.core.dates import Date
from anachron.data.bundled.mini import mini_facts
from anachron.data.bundled.mini_updates import known_facts, mini_replacements, mini_updates
from anachron.data.dataset import Dataset
from anachron.lm.loading import taught_facts
from anachron.lm.tokenizers import demo_folder
from anachron.probe.run import ProbeSettings, run_probe
from anachron.text.cloze import bundled_cloze, fill_cloze
from anachron.text.questions import relation_templates

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def trainer():
    """The training script, as a module."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        yield importlib.import_module("train_demo_model")
    finally:
        sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def training(trainer):
    """What training scripts share, as a module."""
    return sys.modules["tiny_training"]


def test_it_is_small():
    assert sum(f.stat().st_size for f in demo_folder().iterdir()) <= 8 * 1024 * 1024
    assert (demo_folder() / "model.safetensors").is_file()


@pytest.mark.full
def test_no_probed_question_is_taught(trainer):
    probed = {question for _, questions in relation_templates().values() for question in questions}
    for relation, wordings in trainer.WORDINGS.items():
        label = relation_templates()[relation][0]
        for wording in [*wordings, f"{label} of [SUBJ]? [OBJ]"]:
            assert not any(question in wording for question in probed)
            assert wording.count("[SUBJ]") == wording.count("[OBJ]") == 1


@pytest.mark.slow
@pytest.mark.full
def test_a_third_of_the_correct_contexts_of_each_taught_fact_is_held_out(mini: Dataset):
    held_out = json.loads((demo_folder() / "taught.json").read_text())["held_out_years"]
    table = mini.table.filter(pl.col("status") == "correct")
    seen = 0
    for (fact, _), group in table.group_by(["fact_id", "granularity"]):
        if fact in taught_facts():
            seen += 1
            away = [Date.parse(time).year in held_out[fact] for time in group["time"]]
            assert 3 * sum(away) >= len(away), fact
    assert seen > 1000


@pytest.mark.slow
def test_sentences_are_true_and_keep_away_from_held_out_years(trainer):
    import random

    sentences = trainer.Sentences(random.Random(3))
    for fact in sentences.facts[::7]:
        for _ in range(20):
            date = sentences.date(fact)
            assert fact.period.status(date) != "incorrect"
            assert date.year not in sentences.held_out[fact.id]


def test_the_book_tells_the_known_facts_and_no_new_value(trainer):
    book = trainer.Book()
    assert set(book.facts) == set(known_facts())
    told = {book.sentence(place, template) for place in range(len(book.facts)) for template in range(5)}
    assert len(told) == 5 * len(book.facts)
    new = {
        fill_cloze(template, update.new.subject, update.new.object)
        for update in mini_replacements()
        for template in bundled_cloze()[update.new.relation_id].templates
    }
    assert not told & new
    for row in mini_updates().iter_rows(named=True):
        for one in [*row["neighborhood"], *row["random_neighborhood"]]:
            asked = one["objects"][0]
            assert asked["prompt"].removesuffix("____") + asked["object"]["label"] in told


def test_a_stretch_of_the_book_goes_on_where_it_ends(trainer):
    import random

    book = trainer.Book()
    again = [trainer.Book().stretch(random.Random(5)) for _ in range(2)]
    assert again[0] == again[1]
    last = len(book.facts) - 1
    assert book.sentence(last + 1, 5) == book.sentence(0, 0)
    chance = random.Random(6)
    for _ in range(50):
        text, subjects = book.stretch(chance, 3)
        assert text.endswith(".") and 1 <= len(subjects) <= 3
        assert {text[slice(*place)] for place in subjects} <= {fact.subject for fact in book.facts}


def test_earlier_tokens_of_a_subject_are_hidden_from_what_comes_after(training):
    """Against a plain reading of the rule: text after a subject sees of it only its last token."""
    rows = [([0] * 6, [0] * 6, [(5, 2, 4)]), ([0] * 4, [0] * 4, [])]
    mask = training.attention(rows, 6)
    for row, (since, first, end) in enumerate([(5, 2, 4), (9, 0, 0)]):
        for query in range(6):
            for key in range(6):
                hidden = key > query or (query >= since and first <= key < end)
                assert (mask[row, 0, query, key] < -1e30) == hidden
    assert training.attention(rows[1:], 6) is None


def test_undated_rows_hide_subjects_where_they_stand(trainer):
    import random

    from anachron.lm.tokenizers import load_tokenizer

    tokenizer, book = load_tokenizer("demo"), trainer.Book()
    rows = trainer.undated_rows(book, tokenizer, 40, random.Random(1))
    subjects = {fact.subject for fact in book.facts}
    hidden = [(ids, one) for ids, _, ranges in rows for one in ranges]
    assert len(hidden) > 20
    for ids, (since, first, end) in hidden:
        assert first <= end == since - 1
        assert tokenizer.decode(ids[first : end + 1]).strip() in subjects


def test_a_muon_step_is_nearly_orthogonal(training):
    import torch

    for shape in ((12, 30), (30, 12)):
        found = torch.linalg.svdvals(
            training.orthogonal(torch.randn(shape, generator=torch.Generator().manual_seed(1)))
        )
        assert found.min() > 0.5 and found.max() < 1.5


@pytest.mark.full
def test_whole_successions_are_taught_or_not():
    groups: dict[tuple[str, str | None], set[bool]] = {}
    for m in mini_facts():
        if m.probed:
            groups.setdefault((m.fact.subject, m.fact.relation_id), set()).add(m.fact.id in taught_facts())
    assert all(len(found) == 1 for found in groups.values())
    assert 0.6 < sum(found == {True} for found in groups.values()) / len(groups) < 0.9


def check_pattern(
    scores: pl.DataFrame, untrained: pl.DataFrame, granularity: str = GLOBAL, *, apart: float = 0.0
) -> None:
    """apart: how far from one half the interval of the untrained model may lie."""
    taught = pl.col("fact_id").is_in(list(taught_facts()))
    known, unknown, blind = (
        summarise(fact_metrics(table)).filter(pl.col("granularity") == granularity).row(0, named=True)
        for table in (scores.filter(taught), scores.filter(~taught), untrained)
    )
    assert 0.80 <= known["win_rate"] <= 0.97
    assert 0.02 <= known["robustness"] <= 0.60  # a random scorer has 0.005 at most
    assert unknown["win_rate_high"] < known["win_rate_low"]
    assert unknown["robustness"] < known["robustness"]
    assert blind["win_rate_low"] - apart <= 0.5 <= blind["win_rate_high"] + apart
    assert blind["robustness"] <= 0.02


@pytest.mark.slow
@pytest.mark.full
def test_pattern_on_a_sample(mini: Dataset, tmp_path: Path):
    """In years alone, which is a third of the statements."""
    years = Dataset("years", mini.table.filter(pl.col("granularity") == "year"), mini.boundaries)
    facts = {"demo": 200, "demo-untrained": 25}
    scores, untrained = (run_probe(name, years.sample(n), tmp_path / name).scores for name, n in facts.items())
    check_pattern(scores, untrained, "year")


@pytest.mark.slow
def test_pattern_on_all_of_mini(tmp_path: Path):
    scores, untrained = (run_probe(name, "mini", tmp_path / name).scores for name in ("demo", "demo-untrained"))
    # Weights drawn at random prefer some dates to others by a little, which an interval over so many facts can tell
    check_pattern(scores, untrained, apart=0.01)


@pytest.mark.slow
def test_pattern_in_chat_format(mini: Dataset, tmp_path: Path):
    data = mini.sample(160)
    chat = ProbeSettings(format="chat")
    scores, untrained = (run_probe(name, data, tmp_path / name, chat).scores for name in ("demo", "demo-untrained"))
    check_pattern(scores, untrained)
