"""How much of a GPU's matrix rate scoring reaches, with random weights in the shape of models that people use.

    python benchmarks/scoring_gpu.py [--shape llama-8b gemma-2b] [--statements 100000] [--tokenizer FOLDER]

Measures the card's rate on large bfloat16 products, then scores statements from generated facts (names of made-up
syllables, 85 years, 12 months and 12 days each). Prints JSON: statements/s, tokens computed beside the distinct
prefixes, the share of the measured rate that the arithmetic of the computed tokens makes, and the time that the 521,000
statements of TimeStress would take. Needs a GPU.
"""

import argparse
import json
import random
import time
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from anachron.lm.model import LanguageModel
from anachron.lm.prefix_tree import distinct_prefixes
from anachron.lm.tokenizers import load_tokenizer

TIMESTRESS = 521_000
SHAPES: dict[str, dict[str, Any]] = {
    "llama-8b": {
        "model_type": "llama", "vocab_size": 128_256, "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
    },
    "gemma-2b": {
        "model_type": "gemma2", "vocab_size": 256_000, "hidden_size": 2304, "intermediate_size": 9216, "head_dim": 256,
        "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 8192,
    },
}  # fmt: skip
WORDINGS = ("who was the leader of {}?", "which country did {} belong to?", "who owned {}?", "where was {} made?")


def statements(count: int) -> list[tuple[str, str, None]]:
    """So many dated questions and answers, in the order of a data set: fact by fact."""
    chance = random.Random(0)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]

    def name() -> str:
        return " ".join("".join(chance.choices(syllables, k=3)).title() for _ in range(2))

    months = ("January", "March", "May", "July", "September", "November")
    dates = [f"In {year}" for year in range(1936, 2021)]
    dates += [f"In {month} {year}" for month in months for year in (1990, 2005)]
    dates += [f"On {month} {day}, {year}" for month in months for day, year in ((3, 1990), (17, 2005))]
    found: list[tuple[str, str, None]] = []
    while len(found) < count:
        question, answer = chance.choice(WORDINGS).format(name()), name()
        found += [(f"{date}, {question}", answer, None) for date in dates]
    return found[:count]


def matrix_rate(size: int = 8192, rounds: int = 50) -> float:
    """Floating-point operations a second of bfloat16 products of square matrices."""
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        a @ b
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(rounds):
        a @ b
    torch.cuda.synchronize()
    return rounds * 2 * size**3 / (time.perf_counter() - started)


def measure(shape: str, count: int, tokenizer: str, rate: float) -> dict[str, Any]:
    torch.manual_seed(0)
    config = AutoConfig.for_model(**SHAPES[shape])
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    lm = LanguageModel(model, load_tokenizer(tokenizer), shape, dtype="bfloat16")
    started = time.perf_counter()
    encoded = lm.encode(statements(count))
    tokenised = time.perf_counter() - started
    distinct = list(dict.fromkeys(encoded))
    started = time.perf_counter()
    plan = lm.plan(distinct)
    planned = time.perf_counter() - started
    torch.cuda.synchronize()
    started = time.perf_counter()
    ((_, _, counters),) = lm.score_parts(distinct, {0: plan})
    torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    head = model.get_output_embeddings().weight.numel()
    weights = sum(p.numel() for p in model.parameters()) - model.get_input_embeddings().weight.numel()
    body = weights - (head if not config.tie_word_embeddings else 0)
    rows = len({text.ids[:t] for text in distinct for t in text.targets})
    operations = 2 * body * counters.tokens + 2 * head * rows
    return {
        "shape": shape, "prefix_tree": plan.prefix_tree, "refusal": plan.refusal, "batch_tokens": plan.batch_tokens,
        "statements": count, "statements_per_second": count / seconds, "seconds": seconds,
        "seconds_tokenising": tokenised, "seconds_planning": planned,
        "hours_for_timestress": TIMESTRESS / count * (seconds + tokenised + planned) / 3600,
        "tokens_computed": counters.tokens, "distinct_prefixes": distinct_prefixes(distinct), "answer_rows": rows,
        "halvings": counters.halvings, "share_of_matrix_rate": operations / seconds / rate,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=list(SHAPES), nargs="+", default=list(SHAPES))
    parser.add_argument("--statements", type=int, default=100_000)
    parser.add_argument("--tokenizer", default="demo")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no GPU here: this benchmark measures one")
    rate = matrix_rate()
    results = []
    for shape in options.shape:
        torch.cuda.reset_peak_memory_stats()
        results.append(measure(shape, options.statements, options.tokenizer, rate))
        torch.cuda.empty_cache()
    card = {"gpu": torch.cuda.get_device_name(), "matrix_tflops": rate / 1e12, "torch": torch.__version__}
    print(json.dumps({"card": card, "results": results}, indent=2))


if __name__ == "__main__":
    main()
