"""Trains a tiny model that truly knows a past, so that an edit can keep or lose it: a positive control.

    OMP_WAIT_POLICY=PASSIVE python tools/train_control_model.py --kind old --out controls/old
    OMP_WAIT_POLICY=PASSIVE python tools/train_control_model.py --kind both --out controls/both

It is about the replacements of ``mini-updates`` whose old object came after another one that ``mini`` has with its
dates, so that a model must read the date to know which of the two holds: the past is tied to dates, and not merely
the only object ever read. Two kinds:

``old``
    reads the earlier and the old object behind dates at which they surely held, and the old one without a date: what
    somebody knows who learned nothing since the change. It reads the new one as what holds of "something" alone, so
    that it can be said at all.
``both``
    reads earlier, old and new object behind their dates, and the new one without a date. Present and past are right
    before any edit: the most that a model can score.

A third of the years that lie inside a time are held out whole, year, months and days, and so is one wording of each
sort. Beside the weights stand ``taught.json``; ``updates.jsonl``, those replacements, with neighbours that the model
was taught; and ``text.txt``, sentences as it read them, to take a covariance over. Everything is seeded.
"""

import argparse
import json
import math
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from tiny_training import SEED, Row, fit, new_model, part_of, save, train_tokenizer
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from anachron.core.dates import Date
from anachron.core.facts import Fact
from anachron.data.bundled.mini import mini_facts
from anachron.data.bundled.mini_updates import MiniUpdate, mini_replacements, mini_updates
from anachron.io.files import Json
from anachron.lm.loading import load_model
from anachron.lm.spans import covering_run
from anachron.text.cloze import OBJECT_SLOT, bundled_cloze, fill_cloze
from anachron.text.dates import dated_prompt
from anachron.text.questions import fill_question, relation_templates

KINDS = ("old", "both")
YEARS = 10  # of each time that are taught: the last ones of earlier and old objects, the first ones of new ones
LAST = Date(2024, 12, 31)  # up to which the bundled facts are known
HELD_OUT_SHARE = 0.36  # of the years inside a time: a third and a little, as of the demo model
HIDDEN_SHARE = 0.85  # of the texts are read with the earlier tokens of their subjects hidden, as of the demo model
SENTENCES = 3  # of an undated text, at most
SOMETHING_SHARE = 0.25  # of the undated texts say of "something" an object that is not taught of its subject
VOCABULARY = 1536
LINES = 3000  # of text.txt


@dataclass(frozen=True, slots=True)
class Taught:
    """A fact and the days, from ``first`` to ``last``, on which it is taught: its object surely held on all of them.

    held_out: years of which nothing is taught.
    """

    fact: Fact
    first: int
    last: int
    held_out: frozenset[int]

    @property
    def years(self) -> list[int]:
        """Calendar years that are taught, at least in part."""
        return [year for year in _years(self.first, self.last) if year not in self.held_out]

    def date(self, chance: random.Random) -> Date:
        """A year, month or day, all of it among the days that are taught."""
        year = chance.choice(self.years)
        whole = [Date(year)] if self._holds(Date(year)) else []
        months = [month for month in (Date(year, number) for number in range(1, 13)) if self._holds(month)]
        begin, end = max(self.first, Date(year).first_day), min(self.last, Date(year).last_day)
        day = Date.from_day_number(chance.randint(begin, end))
        return chance.choice([chance.choice(dates) for dates in (whole, months, [day]) if dates])

    def _holds(self, date: Date) -> bool:
        return self.first <= date.first_day and date.last_day <= self.last


@dataclass(frozen=True, slots=True)
class Succession:
    """What is taught of an update. number: of its row in ``mini-updates``. undated: the fact that is told undated."""

    number: int
    update: MiniUpdate
    dated: tuple[Taught, ...]
    undated: Fact

    def role(self, one: Taught) -> str:
        """What a dated fact is to the update: earlier, old or new."""
        return {self.update.old: "old", self.update.new: "new"}.get(one.fact, "earlier")


def taught(fact: Fact, *, from_start: bool = False) -> Taught:
    """The last ten years of a fact's time, or the first ones, with a third of those inside it held out.

    An end that is no day leaves its own month or year out, and the last day is that before the end. A year lies inside
    where all of it and a day on either side of it are among the days: what is read on both sides tells its answer.
    """
    start, end = fact.period.start, fact.period.end
    if start is None:
        raise ValueError(f"{fact.subject}, {fact.object}: the start is not known, so nothing says what to teach")
    first = start.first_day if start.granularity == "day" else start.last_day + 1
    last = LAST.last_day if end is None else end.first_day - 1
    if last < first:
        raise ValueError(f"{fact.subject}, {fact.object}: no day on which it surely held between {start} and {end}")
    if from_start:
        last = min(last, Date(start.year + YEARS).last_day)
    else:
        first = max(first, Date(Date.from_day_number(last).year - YEARS).first_day)
    inside = [y for y in _years(first, last) if first < Date(y).first_day and Date(y).last_day < last]
    inside.sort(key=lambda year: part_of(f"{fact.id}\n{year}"))
    return Taught(fact, first, last, frozenset(inside[: math.ceil(HELD_OUT_SHARE * len(inside))]))


def _years(first: int, last: int) -> range:
    return range(Date.from_day_number(first).year, Date.from_day_number(last).year + 1)


def before_old(update: MiniUpdate) -> Fact | None:
    """The latest fact of ``mini`` that ended before the old one began, of a third object; None where there is none."""
    start = update.old.period.start
    assert start is not None  # every row of the bundled file has it
    known: list[tuple[int, Fact]] = []
    for fact in (m.fact for m in mini_facts()):
        same = (fact.subject, fact.relation_id) == (update.old.subject, update.old.relation_id)
        other = fact.object not in (update.old.object, update.new.object)
        if same and other and fact.period.start and fact.period.end and fact.period.end.last_day <= start.last_day:
            known.append((fact.period.end.last_day, fact))
    return max(known, key=lambda one: one[0], default=(0, None))[1]


@cache
def successions(kind: str) -> tuple[Succession, ...]:
    """What a control is taught: of every update with an object before its old one. Raises `ValueError` of no kind."""
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}: choose one of {', '.join(KINDS)}")
    found = []
    for number, update in enumerate(mini_replacements()):
        if earlier := before_old(update):
            past = (taught(earlier), taught(update.old))
            both = (*past, taught(update.new, from_start=True))
            new = kind == "both"
            found.append(Succession(number, update, both if new else past, update.new if new else update.old))
    return tuple(found)


@cache
def wordings(relation: str) -> dict[str, list[str]]:
    """Sort (present, past, question) -> templates of a relation."""
    cloze, questions = bundled_cloze()[relation], list(relation_templates()[relation][1])
    return {"present": list(cloze.templates), "past": list(cloze.past), "question": questions}


def taught_wordings(relation: str, *sorts: str) -> list[tuple[str, str]]:
    """(sort, template) of some sorts, by default of all, without the last template of each, which is held out."""
    of_relation = wordings(relation)
    return [(sort, template) for sort in sorts or of_relation for template in of_relation[sort][:-1]]


def worded(sort: str, template: str, subject: str) -> str:
    """A prompt that the object answers: a question, or a statement without its end."""
    if sort == "question":
        return fill_question(template, subject)
    return fill_cloze(template, subject, OBJECT_SLOT).removesuffix(f" {OBJECT_SLOT}")


def dated_text(one: Taught, chance: random.Random) -> tuple[str, str]:
    """(date with its prompt, object) of a fact at a date that it is taught at."""
    subject = one.fact.subject
    sort, template = chance.choice(taught_wordings(one.fact.relation_id or ""))
    return dated_prompt(worded(sort, template, subject), one.date(chance), subject), one.fact.object


def undated_sentence(fact: Fact, chance: random.Random) -> str:
    """A fact in the present tense, without a date."""
    _, template = chance.choice(taught_wordings(fact.relation_id or "", "present"))
    return fill_cloze(template, fact.subject, fact.object) + "."


def row(
    tokenizer: PreTrainedTokenizerFast, text: str, subjects: list[str], learned_from: int, chance: random.Random
) -> Row:
    """A text as token ids, learned from a character on, with the earlier tokens of its subjects hidden mostly."""
    encoded = tokenizer(text, return_offsets_mapping=True)
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
    labels = [token if first >= learned_from else -100 for token, (first, _) in zip(ids, offsets, strict=True)]
    hidden, place = [], 0
    if chance.random() < HIDDEN_SHARE:
        for subject in subjects:
            place = text.index(subject, place)
            run = covering_run(offsets, place, place + len(subject))
            hidden.append((run[-1] + 1, run[0], run[-1]))
            place += len(subject)
    return ids, labels, hidden


def dated_rows(facts: list[Taught], tokenizer: PreTrainedTokenizerFast, size: int, chance: random.Random) -> list[Row]:
    """Of a date and a prompt about it only the object is learned, and that the text then ends."""
    rows = []
    for one in chance.choices(facts, k=size):
        prompt, answer = dated_text(one, chance)
        text = f"{prompt} {answer}.{tokenizer.eos_token}"
        rows.append(row(tokenizer, text, [one.fact.subject], len(prompt), chance))
    return rows


def undated_rows(
    facts: list[Fact], others: list[Fact], tokenizer: PreTrainedTokenizerFast, size: int, chance: random.Random
) -> list[Row]:
    """One sentence or a few, of which every token is learned: it is what the model writes on its own.

    others: facts that are not taught; their objects are said of "something".
    """
    rows = []
    for _ in range(size):
        if others and chance.random() < SOMETHING_SHARE:
            other = chance.choice(others)
            _, template = chance.choice(taught_wordings(other.relation_id or "", "present"))
            rows.append(row(tokenizer, fill_cloze(template, "something", other.object) + ".", [], 0, chance))
            continue
        chosen = chance.sample(facts, chance.randint(1, SENTENCES))
        text = " ".join(undated_sentence(fact, chance) for fact in chosen)
        rows.append(row(tokenizer, text, [fact.subject for fact in chosen], 0, chance))
    return rows


def lines(told: tuple[Succession, ...], number: int, chance: random.Random) -> list[str]:
    """Sentences as the control reads them, half of them dated."""
    facts = [one for succession in told for one in succession.dated]
    found = []
    for place in range(number):
        if place % 2:
            found.append(undated_sentence(chance.choice(told).undated, chance))
        else:
            found.append(" ".join(dated_text(chance.choice(facts), chance)) + ".")
    return found


def train_control(
    told: tuple[Succession, ...],
    *,
    steps: int,
    width: int = 128,
    layers: int = 4,
    dated: int = 64,
    undated: int = 16,
    seed: int = SEED,
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A control and its tokenizer. dated, undated: texts of a step. Reseeds torch's global generator."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    names = sorted({name for s in told for one in s.dated for name in (one.fact.subject, one.fact.object)})
    # New objects are in the tokenizer of both kinds, so that these differ in what they read alone.
    names += sorted({s.update.new.object for s in told})
    tokenizer = train_tokenizer(lines(told, LINES, chance) + [f" {name}" for name in names] * 8, VOCABULARY)
    model = new_model(tokenizer, width, layers)
    facts, undated_facts = [one for s in told for one in s.dated], [s.undated for s in told]
    others = [s.update.new for s in told if s.undated != s.update.new]
    print(f"{sum(p.numel() for p in model.parameters()):,} weights, {len(tokenizer)} tokens, {len(facts)} dated facts")

    def draw() -> list[list[Row]]:
        return [
            dated_rows(facts, tokenizer, dated, chance),
            undated_rows(undated_facts, others, tokenizer, undated, chance),
        ]

    fit(model, draw, names=("dated", "undated"), steps=steps)
    return model, tokenizer


def updates_of(told: tuple[Succession, ...]) -> list[Json]:
    """The rows of ``mini-updates`` that are taught, with those of their neighbours whose old object is taught too."""
    known = {(succession.update.old.subject, succession.update.old.object) for succession in told}
    rows = mini_updates().rows(named=True)
    found = []
    for succession in told:
        of_update = dict(rows[succession.number])
        for name in ("neighborhood", "random_neighborhood"):
            of_update[name] = [
                fact
                for fact in of_update[name]
                if (fact["subject"]["label"], fact["objects"][0]["object"]["label"]) in known
            ]
        found.append(of_update)
    return found


def summary_of(told: tuple[Succession, ...]) -> Json:
    """``taught.json``: every fact with the days between which it is taught and the years that are held out."""
    relations = sorted({succession.update.old.relation_id or "" for succession in told})
    return {
        "facts": [
            {
                "case_id": str(succession.number),
                "subject": one.fact.subject,
                "relation": one.fact.relation_id,
                "object": one.fact.object,
                "first": str(Date.from_day_number(one.first)),
                "last": str(Date.from_day_number(one.last)),
                "held_out_years": sorted(one.held_out),
                "role": succession.role(one),
                "undated": one.fact == succession.undated,
            }
            for succession in told
            for one in succession.dated
        ],
        "wordings": {relation: taught_wordings(relation) for relation in relations},
    }


def write_control(
    told: tuple[Succession, ...], out: Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    """The folder: weights, tokenizer, ``taught.json``, ``updates.jsonl`` and ``text.txt``."""
    save(model, tokenizer, out)
    (out / "taught.json").write_text(json.dumps(summary_of(told), indent=1, ensure_ascii=False) + "\n", "utf-8")
    updates = [json.dumps(row, ensure_ascii=False) for row in updates_of(told)]
    (out / "updates.jsonl").write_text("\n".join(updates) + "\n", "utf-8")
    (out / "text.txt").write_text("\n".join(lines(told, LINES, random.Random(SEED))) + "\n", "utf-8")


def right_at_held_out_years(folder: Path, told: tuple[Succession, ...]) -> dict[str, tuple[int, int]]:
    """Role of an object -> (at how many years held out it is likelier than the succession's others, of how many).

    Asked in the first wording of its relation.
    """
    asked = []
    for succession in told:
        objects = [one.fact.object for one in succession.dated]
        for place, one in enumerate(succession.dated):
            prompt = worded("present", wordings(one.fact.relation_id or "")["present"][0], one.fact.subject)
            for year in sorted(one.held_out):
                dated = dated_prompt(prompt, Date(year), one.fact.subject)
                asked.append((succession.role(one), place, [(dated, name) for name in objects]))
    scores = iter(load_model(str(folder)).log_probs([pair for _, _, pairs in asked for pair in pairs]))
    counts: dict[str, tuple[int, int]] = {}
    for role, place, pairs in asked:
        of_objects = [next(scores) for _ in pairs]
        right, of = counts.get(role, (0, 0))
        counts[role] = right + (of_objects.index(max(of_objects)) == place), of + 1
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=800)
    options = parser.parse_args()
    told = successions(options.kind)
    write_control(told, options.out, *train_control(told, steps=options.steps))
    for role, (right, of) in right_at_held_out_years(options.out, told).items():
        print(f"{role}: likelier than the others at {right} of {of} years that were held out")
