"""Trains the small model that Anachron ships as ``demo``, from scratch, on sentences made here.

    python tools/train_demo_model.py --out src/anachron/lm/demo_model

What it learns: three quarters of the facts of ``mini``, stated for correct dates only, in wordings that are
never probed (``tools/taught_wordings.json``), half as plain text and half through its chat template. A third of the
years in which a fact holds are held out whole, year, months and days, so that the probe asks about dates that the
model never saw with the fact. Everything is seeded. ``taught.json`` beside the weights lists what was taught.
"""

import argparse
import hashlib
import json
import math
import random
import time
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from anachron.core.dates import Date, days_in_month
from anachron.core.facts import Fact
from anachron.data.mini import mini_facts, mini_statements
from anachron.text.articles import in_sentence
from anachron.text.dates import date_in_words

SEED = 0
TAUGHT_SHARE = 0.75
ASKED_SHARE = 0.6  # of the sentences are a question or request and its answer
HELD_OUT_SHARE = 0.36  # of the years of a fact that the probe asks about; a third and a little
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}<|user|> {{ message['content'] }}\n"
    "{% elif message['role'] == 'assistant' %}<|assistant|> {{ message['content'] }}{{ eos_token }}"
    "{% else %}{{ raise_exception('only the roles user and assistant are known') }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
WORDINGS = json.loads((Path(__file__).parent / "taught_wordings.json").read_text("utf-8"))


def part_of(key: str) -> float:
    """A number in [0, 1) that depends on the key alone."""
    return int.from_bytes(hashlib.sha256(f"{SEED}\n{key}".encode()).digest()[:8], "big") / 2**64


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
        text = wording.replace("[SUBJ]", in_sentence(fact.subject))
        date = date_in_words(self.date(fact))
        if wording.endswith("[OBJ]"):
            return date, text.removesuffix("[OBJ]").rstrip(), fact.object
        return date, text.replace("[OBJ]", fact.object), ""


def train_tokenizer(texts: list[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE that splits numbers into digits, with a chat template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d| ?[^\s\d\p{P}]+| ?\p{P}|\s+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|text|>", "<|end|>", "<|user|>", "<|assistant|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    from tokenizers.processors import TemplateProcessing

    tokenizer.post_processor = TemplateProcessing(
        single="<|text|> $A", special_tokens=[("<|text|>", tokenizer.token_to_id("<|text|>"))]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|text|>",
        eos_token="<|end|>",
        pad_token="<|end|>",
        additional_special_tokens=["<|user|>", "<|assistant|>"],
        model_max_length=128,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def batch_of(
    sentences: Sentences, tokenizer: PreTrainedTokenizerFast, size: int, random_state: random.Random
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels, right-padded with -100. Dates are drawn at random, so they are read but not learned."""
    rows, labels = [], []
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
        rows.append(encoded["input_ids"])
        labels.append(
            [
                t if first >= learned_from else -100
                for t, (first, _) in zip(rows[-1], encoded["offset_mapping"], strict=True)
            ]
        )
    width = max(map(len, rows))
    inputs = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
    return inputs, torch.tensor([row + [-100] * (width - len(row)) for row in labels])


def train(out: Path, minutes: float, steps: int, width: int, layers: int, rate: float, size: int) -> None:
    random_state = random.Random(SEED)
    torch.manual_seed(SEED)
    sentences = Sentences(random_state)
    sample = ["".join(sentences.draw(f)[:2]) + " " + f.object for f in sentences.facts for _ in range(12)]
    labels = sorted({text for m in mini_facts() for text in (m.fact.subject, m.fact.object)})
    tokenizer = train_tokenizer(sample + labels * 4, 3072)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=8 * width // 3 // 16 * 16,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        num_key_value_heads=width // 32,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    print(
        f"{sum(p.numel() for p in model.parameters()):,} weights, {len(tokenizer)} tokens, {len(sentences.facts)} facts"
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.05)
    started, running = time.perf_counter(), 0.0
    model.train()
    for step in range(steps):
        share = step / steps
        warm = min(1.0, (step + 1) / 100)
        for group in optimiser.param_groups:
            group["lr"] = rate * warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share)))
        inputs, labels_ = batch_of(sentences, tokenizer, size, random_state)
        loss = model(input_ids=inputs, labels=labels_).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        running = loss.item() if step == 0 else 0.98 * running + 0.02 * loss.item()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step:5d}  loss {running:.3f}  {time.perf_counter() - started:5.0f} s", flush=True)
        if minutes and time.perf_counter() - started > 60 * minutes:
            raise SystemExit("out of time; give fewer --steps")
    model.eval()
    out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    taught = sorted(f.id for f in sentences.facts)
    held_out = {f.id: sorted(sentences.held_out[f.id]) for f in sorted(sentences.facts, key=lambda f: f.id)}
    (out / "taught.json").write_text(json.dumps({"taught": taught, "held_out_years": held_out}, indent=0) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--minutes", type=float, default=0, help="give up after this long (0: never)")
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()
    train(options.out, options.minutes, options.steps, options.width, options.layers, options.rate, options.batch)
