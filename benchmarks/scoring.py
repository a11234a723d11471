"""Scoring speed against the naive way, in one process, with random weights.

    python benchmarks/scoring.py [--statements 1000] [--vocabulary 32000 128000] [--threads 2]

The naive way is what the published code does: batches of 32 in the order of the data set, padded, full-vocabulary
logits and log softmax for every token. Ours feeds no last token, batches by length and puts only answer rows through
the head. Both score the same statements with the same Llama-shaped model (hidden 512, 6 layers). Prints JSON:
statements/s and peak memory of each (measured in a process of its own), their ratio, tokens computed and ideal, and
the largest difference of scores.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from anachron.data.loaders import load_dataset
from anachron.lm.batches import Limits, plan_batches, work_of
from anachron.lm.model import load_tokenizer
from anachron.lm.scoring import score_all
from anachron.lm.spans import Encoded


def statements(count: int) -> list[Encoded]:
    """Encoded statements of ``mini``, a fixed sample, as a real data set would give them."""
    from anachron.lm.formats import locate
    from anachron.lm.spans import encode

    table = load_dataset("mini").table.sample(count, seed=0)
    tokenizer = load_tokenizer("demo")
    located, special = locate(tokenizer, [(p, a, None) for p, a in table.select("prompt", "answer").iter_rows()])
    return encode(tokenizer, located, add_special_tokens=special)


def model_of(vocabulary: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=512, intermediate_size=1408, num_hidden_layers=6, num_attention_heads=8,
        num_key_value_heads=8, max_position_embeddings=256, tie_word_embeddings=False,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def naive(model: LlamaForCausalLM, encoded: list[Encoded]) -> np.ndarray:
    scores = []
    with torch.inference_mode():
        for first in range(0, len(encoded), 32):
            batch = encoded[first : first + 32]
            width = max(len(item.ids) for item in batch)
            ids = torch.tensor([list(item.ids) + [0] * (width - len(item.ids)) for item in batch])
            mask = torch.tensor([[1] * len(item.ids) + [0] * (width - len(item.ids)) for item in batch])
            logp = torch.log_softmax(model(input_ids=ids, attention_mask=mask, use_cache=False).logits, -1)
            for row, item in enumerate(batch):
                scores.append(sum(logp[row, t - 1, item.ids[t]].item() for t in item.targets))
    return np.array(scores)


def ours(model: LlamaForCausalLM, encoded: list[Encoded]) -> np.ndarray:
    return score_all(model, encoded, plan_batches(encoded, model.config.vocab_size, Limits()))


WAYS = {"naive": naive, "ours": ours}


def measure(way: str, vocabulary: int, count: int) -> dict[str, object]:
    """Time one way in this process, after a warm-up on a few statements."""
    encoded, model = statements(count), model_of(vocabulary)
    WAYS[way](model, encoded[:64])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    scores = WAYS[way](model, encoded)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work = work_of(encoded, plan_batches(encoded, vocabulary, Limits()))
    return {
        "seconds": seconds,
        "statements_per_second": count / seconds,
        "peak_mib": peak / 1024,
        "peak_mib_before": before / 1024,
        "tokens_computed": work.tokens_computed if way == "ours" else None,
        "tokens_ideal": work.tokens_ideal,
        "scores": scores.tolist(),
    }


def compare(vocabulary: int, count: int, threads: int, rounds: int) -> dict[str, object]:
    """Both ways in turn, each time in a fresh process; the median of the ratios."""
    results: dict[str, list[dict[str, object]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            command = [sys.executable, __file__, "--way", way, "--vocabulary", str(vocabulary)]
            command += ["--statements", str(count), "--threads", str(threads)]
            results[way].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    ratios = [n["seconds"] / o["seconds"] for n, o in zip(results["naive"], results["ours"], strict=True)]  # type: ignore[operator]
    gap = np.abs(np.array(results["naive"][0]["scores"]) - np.array(results["ours"][0]["scores"])).max()
    summary: dict[str, object] = {
        "vocabulary": vocabulary,
        "statements": count,
        "speedup_median": float(np.median(ratios)),
        "speedups": ratios,
        "largest_difference": float(gap),
    }
    for way, runs in results.items():
        summary[way] = {k: float(np.median([r[k] for r in runs])) for k in ("statements_per_second", "peak_mib")}
    summary |= {k: results["ours"][0][k] for k in ("tokens_computed", "tokens_ideal")}
    return summary


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--statements", type=int, default=1000)
    parser.add_argument("--vocabulary", type=int, nargs="+", default=[32_000, 128_000])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.way:
        print(json.dumps(measure(options.way, options.vocabulary[0], options.statements)))
    else:
        shape = {"model": "Llama shape, hidden 512, 6 layers, float32, random weights", "threads": options.threads}
        found = [compare(v, options.statements, options.threads, options.rounds) for v in options.vocabulary]
        print(json.dumps({"shape": shape, "results": found}, indent=2))
