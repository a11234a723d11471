"""Trains the small model that Anachron ships as ``demo``, from scratch, on sentences made here.

    OMP_WAIT_POLICY=PASSIVE python tools/train_demo_model.py --out src/anachron/lm/demo_model

On a machine that others use too, threads that spin while they wait make a step ten times slower; hence the setting.

What it learns, in two kinds of text that every step mixes:

* Dated: three quarters of the facts of ``mini``, stated for correct dates only, in wordings that are never probed
  (``tools/taught_wordings.json``), half as plain text and half through its chat template. A third of the years in which
  a fact holds are held out whole, year, months and days, so that the probe asks about dates that the model never saw
  with the fact.
* Undated: the known facts of ``mini-updates``, that is the old value of every update and the facts that serve as
  neighbours, in the five cloze templates of their relation; never a new value. They stand in one fixed order, and a
  text is a stretch of it: a model that writes on after a prompt then has something to say and does not repeat itself.
  New values occur as bare names, and as what holds of "something" ("The capital of something is Astana"), so that they
  can be said at all.

Large models put together what they know of a subject at its last token, which is where editors change it. A small one
takes its tokens from all over the text instead. So that it can be edited, most undated texts are read with the earlier
tokens of a subject hidden from what comes after it.

Everything is seeded. ``taught.json`` beside the weights lists what was taught.
"""

import argparse
import json
import math
import random
from pathlib import Path

import torch
from tiny_training import SEED, Row, fit, new_model, part_of, save, train_tokenizer
from transformers import PreTrainedTokenizerFast

from anachron.core.dates import Date, days_in_month
from anachron.core.facts import Fact
from anachron.data.bundled.mini import mini_facts, mini_statements
from anachron.data.bundled.mini_updates import known_facts, mini_replacements
from anachron.lm.spans import covering_run
from anachron.text.articles import in_sentence
from anachron.text.cloze import bundled_cloze, fill_cloze
from anachron.text.dates import date_in_words
from anachron.text.kinds import subject_kind

TAUGHT_SHARE = 0.75
ASKED_SHARE = 0.6  # of the sentences are a question or request and its answer
HIDDEN_SHARE = 0.85  # of the undated texts are read with the earlier tokens of their subjects hidden
NAMES_SHARE, SOMETHING_SHARE = 0.1, 0.2  # of the undated texts are names, and objects of "something"
STRETCH = 8  # sentences of an undated text at most: 100 tokens and a little
VOCABULARY = 3584
HELD_OUT_SHARE = 0.36  # of the years of a fact that the probe asks about; a third and a little
WORDINGS = json.loads((Path(__file__).parent / "taught_wordings.json").read_text("utf-8"))


def is_taught(fact: Fact) -> bool:
    """Whole successions are taught or left out, so that what was not taught is not half known."""
    return part_of(f"{fact.subject}\n{fact.relation_id}") < TAUGHT_SHARE


def held_out_years(probed: dict[str, list[int]], fact: Fact) -> set[int]:
    """Years of the fact, among those probed as correct, that no training sentence mentions with it."""
    years = sorted(probed.get(fact.id, []), key=lambda year: part_of(f"{fact.id}\n{year}"))
    return set(years[: math.ceil(HELD_OUT_SHARE * len(years))])


def probed_years() -> dict[str, list[int]]:
    """Fact id -> years with a correct context in the probe."""
    table = mini_statements().filter(
        (mini_statements()["status"] == "correct") & (mini_statements()["granularity"] == "year")
    )
    years: dict[str, list[int]] = {}
    for fact_id, when in table.select("fact_id", "time").iter_rows():
        years.setdefault(fact_id, []).append(int(when))
    return years


class Sentences:
    """Draws training sentences: a date on which a fact holds, in words, and the fact."""

    def __init__(self, random_state: random.Random) -> None:
        self.random = random_state
        years = probed_years()
        self.facts = [m.fact for m in mini_facts() if is_taught(m.fact)]
        self.held_out = {fact.id: held_out_years(years, fact) for fact in self.facts}
        self.usable = {fact.id: self._usable(fact) for fact in self.facts}
        self.facts = [fact for fact in self.facts if self.usable[fact.id]]

    def _usable(self, fact: Fact) -> list[int]:
        first, last = fact.period.start.year, fact.period.end.year
        return [y for y in range(first, last + 1) if y and y not in self.held_out[fact.id]]

    def date(self, fact: Fact) -> Date:
        """A random date of a random granularity inside the period and outside the years held out."""
        for _ in range(50):
            year = self.random.choice(self.usable[fact.id])
            month = self.random.randint(1, 12)
            day = self.random.randint(1, days_in_month(year, month))
            date = self.random.choice([Date(year), Date(year, month), Date(year, month, day)])
            if fact.period.status(date) == "correct":
                return date
        year = self.random.choice(self.usable[fact.id])
        return fact.period.start if fact.period.start.year == year else fact.period.end

    def draw(self, fact: Fact) -> tuple[str, str, str]:
        """(date, what follows it, answer): the answer is empty unless the wording asks and answers."""
        asked = [w for w in WORDINGS[fact.relation_id] if w.endswith("[OBJ]")] + [f"{fact.relation} of [SUBJ]? [OBJ]"]
        stated = [w for w in WORDINGS[fact.relation_id] if not w.endswith("[OBJ]")]
        wording = self.random.choice(asked if self.random.random() < ASKED_SHARE else stated)
        text = wording.replace("[SUBJ]", in_sentence(fact.subject, subject_kind(fact.relation_id)))
        date = date_in_words(self.date(fact))
        if wording.endswith("[OBJ]"):
            return date, text.removesuffix("[OBJ]").rstrip(), fact.object
        return date, text.replace("[OBJ]", fact.object), ""


Text = tuple[str, list[tuple[int, int]]]  # a text and where its subjects stand


class Book:
    """The known facts in one seeded order, which ends where it begins; each sentence has the next template."""

    def __init__(self) -> None:
        self.facts = sorted(known_facts(), key=lambda fact: part_of(f"book\n{fact.subject}\n{fact.relation_id}"))
        told = [*self.facts, *(update.new for update in mini_replacements())]
        self.objects = sorted({(fact.relation_id, fact.object) for fact in told})

    def sentence(self, place: int, template: int) -> str:
        fact = self.facts[place % len(self.facts)]
        templates = bundled_cloze()[fact.relation_id].templates
        return fill_cloze(
            templates[template % len(templates)], fact.subject, fact.object, kind=subject_kind(fact.relation_id)
        )

    def stretch(self, random_state: random.Random, most: int = STRETCH) -> Text:
        """Some sentences from a random place on, at most this many."""
        place, template = random_state.randrange(len(self.facts)), random_state.randrange(5)
        text, subjects = "", []
        for n in range(random_state.randint(1, most)):
            subject = self.facts[(place + n) % len(self.facts)].subject
            sentence = self.sentence(place + n, template + n)
            start = len(text) + sentence.index(subject)
            subjects.append((start, start + len(subject)))
            text += f"{sentence}. "
        return text.rstrip(), subjects

    def text(self, random_state: random.Random, most: int) -> Text:
        """A stretch, or names, or an object of something."""
        kind = random_state.random()
        if kind < NAMES_SHARE:
            return ". ".join(name for _, name in random_state.sample(self.objects, 5)) + ".", []
        if kind < NAMES_SHARE + SOMETHING_SHARE:
            relation, name = random_state.choice(self.objects)
            return fill_cloze(random_state.choice(bundled_cloze()[relation].templates), "something", name) + ".", []
        return self.stretch(random_state, most)


def dated_rows(
    sentences: Sentences, tokenizer: PreTrainedTokenizerFast, size: int, random_state: random.Random
) -> list[Row]:
    """Dates are drawn at random, so they are read but not learned."""
    rows = []
    for fact in random_state.choices(sentences.facts, k=size):
        date, rest, answer = sentences.draw(fact)
        chat = answer and random_state.random() < 0.5
        if chat:
            turns = [{"role": "user", "content": date + rest}, {"role": "assistant", "content": answer}]
            text = tokenizer.apply_chat_template(turns, tokenize=False)
        else:
            text = f"<|text|>{date}{rest}{' ' if answer else ''}{answer}<|end|>"
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        learned_from = text.index(date) + len(date) - 1
        ids = encoded["input_ids"]
        firsts = [first for first, _ in encoded["offset_mapping"]]
        rows.append((ids, [t if first >= learned_from else -100 for t, first in zip(ids, firsts, strict=True)], []))
    return rows


def undated_rows(book: Book, tokenizer: PreTrainedTokenizerFast, size: int, random_state: random.Random) -> list[Row]:
    """A quarter are stretches of the book; the others single sentences, which stand in front, where a prompt stands.

    Nothing ends here, so no end is learned.
    """
    texts = [book.text(random_state, STRETCH if n < size // 4 else 1) for n in range(size)]
    encoded = tokenizer([text for text, _ in texts], return_offsets_mapping=True)
    rows = []
    for (_, subjects), ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        runs = [covering_run(offsets, *subject) for subject in subjects]
        seen = random_state.random() >= HIDDEN_SHARE
        rows.append((ids, ids, [] if seen else [(run[-1] + 1, run[0], run[-1]) for run in runs]))
    return rows


def train(
    out: Path,
    minutes: float,
    steps: int,
    width: int,
    layers: int,
    rate: float,
    matrix_rate: float,
    size: int,
    undated: int,
    every: int = 0,
) -> None:
    random_state = random.Random(SEED)
    torch.manual_seed(SEED)
    sentences, book = Sentences(random_state), Book()
    sample = ["".join(sentences.draw(f)[:2]) + " " + f.object for f in sentences.facts for _ in range(12)]
    labels = sorted({text for m in mini_facts() for text in (m.fact.subject, m.fact.object)})
    known = [book.sentence(place, template) for place in range(len(book.facts)) for template in range(5)]
    named = sorted({text for u in mini_replacements() for text in (u.old.subject, u.old.object, u.new.object)})
    tokenizer = train_tokenizer(sample + labels * 4 + known * 4 + named * 8, VOCABULARY)
    model = new_model(tokenizer, width, layers)
    print(
        f"{sum(p.numel() for p in model.parameters()):,} weights, {len(tokenizer)} tokens, "
        f"{len(sentences.facts)} dated facts, {len(book.facts)} undated"
    )

    def draw() -> list[list[Row]]:
        return [
            dated_rows(sentences, tokenizer, size, random_state),
            undated_rows(book, tokenizer, undated, random_state),
        ]

    def after(step: int) -> None:
        if every and step and step % every == 0:
            save(model, tokenizer, out)

    fit(
        model, draw, names=("dated", "undated"), steps=steps, rate=rate, matrix_rate=matrix_rate, minutes=minutes,
        after=after,
    )  # fmt: skip
    save(model, tokenizer, out)
    taught = sorted(f.id for f in sentences.facts)
    held_out = {f.id: sorted(sentences.held_out[f.id]) for f in sorted(sentences.facts, key=lambda f: f.id)}
    told = {"taught": taught, "held_out_years": held_out, "undated": [f.id for f in book.facts]}
    (out / "taught.json").write_text(json.dumps(told, indent=0) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--minutes", type=float, default=0, help="give up after this long (0: never)")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rate", type=float, default=3e-3, help="of the embeddings and norms, by AdamW")
    parser.add_argument("--matrix-rate", type=float, default=0.02, help="of all other matrices, by Muon")
    parser.add_argument("--batch", type=int, default=80, help="dated sentences of a step")
    parser.add_argument(
        "--undated", type=int, default=28, help="undated texts of a step, three quarters of them one sentence"
    )
    parser.add_argument("--every", type=int, default=0, help="save after every so many steps too (0: only at the end)")
    options = parser.parse_args()
    train(
        options.out,
        options.minutes,
        options.steps,
        options.width,
        options.layers,
        options.rate,
        options.matrix_rate,
        options.batch,
        options.undated,
        options.every,
    )
