"""Scoring speed against the ways it is done elsewhere, with random weights in a Llama shape (hidden 512, 6 layers).

    python benchmarks/scoring.py [--vocabulary 32000 128000] [--threads 2] [--rounds 3] [--tokenizer FOLDER]
    python benchmarks/scoring.py --model FOLDER_OR_NAME     # a real model in place of random weights
    python benchmarks/scoring.py --model FOLDER_OR_NAME --dtype bfloat16

Four sets of texts: 12 facts in 85 years each, the same behind an explanatory prefix of 60 tokens, 1,000 statements
drawn from all of ``mini``, and 12 facts in 9 years each behind 600 tokens, for a model that sees 512 tokens back in
five of six layers (Gemma's shape). Three ways, each in a process of its own: batches of 32 in the order of the data,
padded, with a full-vocabulary log softmax, as in the published code (in float32, whatever the weights);
lm-evaluation-harness (where it is there); and ours. Prints JSON: statements/s, ratios, the ratio that floating-point
operations alone would give, tokens computed beside the number of distinct prefixes, the largest memory of each process
(which holds torch and the weights too), and the largest and mean difference of scores. ``--tokenizer`` is the demo
model's unless given.
"""

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, Gemma3TextConfig, LlamaConfig

from anachron.data.loaders import load_dataset
from anachron.lm.formats import PREFIXES
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.plans import tokens_computed
from anachron.lm.prefix_tree import distinct_prefixes
from anachron.lm.scorer import score_texts
from anachron.lm.spans import Encoded
from anachron.lm.tokenizers import load_tokenizer

HIDDEN, LAYERS, INNER, BATCH = 512, 6, 1408, 32
PREFIX_TOKENS = {"dates": 0, "dates behind a prefix": 60, "mini": 0, "dates beyond a window": 600}
CASES = list(PREFIX_TOKENS)
WINDOW = 512  # of the model of the last case
Pair = tuple[str, str]


def pairs_of(case: str) -> list[Pair]:
    """Prompts and answers in the order of the data set."""
    table = load_dataset("mini").table
    if case == "mini":
        return list(table.sample(1000, seed=0, shuffle=False).select("prompt", "answer").iter_rows())
    dated = table.filter((table["granularity"] == "year") & (table["status"] != "none"))
    asked = dated.unique("fact_id", maintain_order=True).sample(12, seed=0).select("prompt", "answer")
    bodies = [(prompt.split(", ", 1)[1], answer) for prompt, answer in asked.iter_rows()]
    years = range(1936, 2021, 10 if case == "dates beyond a window" else 1)
    return [(f"In {year}, {question}", answer) for question, answer in bodies for year in years]


def texts_of(case: str, lm: LanguageModel) -> list[Encoded]:
    encoded = lm.encode([(prompt, answer, None) for prompt, answer in pairs_of(case)])
    length = PREFIX_TOKENS[case]
    if not length:
        return encoded
    prefix = lm.tokenizer(PREFIXES["few-shot"] * 20, add_special_tokens=False)["input_ids"][:length]
    assert len(prefix) == length
    start = 1 if lm.tokenizer("a")["input_ids"][0] == lm.tokenizer.bos_token_id else 0
    return [Encoded((*e.ids[:start], *prefix, *e.ids[start:]), tuple(t + length for t in e.targets)) for e in encoded]


def language_model(case: str, model: str | None, vocabulary: int, tokenizer: str, dtype: str) -> LanguageModel:
    """The named model, or random weights with so large a vocabulary, for the last case with windows."""
    if model:
        return load_model(model, device="cpu", dtype=dtype)
    torch.manual_seed(0)
    shape = {
        "vocab_size": vocabulary, "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 1024,
        "tie_word_embeddings": False,
    }  # fmt: skip
    windows = case == "dates beyond a window"
    config = Gemma3TextConfig(**shape, head_dim=64, sliding_window=WINDOW) if windows else LlamaConfig(**shape)
    made = AutoModelForCausalLM.from_config(config).eval().to(getattr(torch, dtype))
    return LanguageModel(made, load_tokenizer(tokenizer), "random", dtype=dtype)


def published(lm: LanguageModel, pairs: list[Pair], encoded: list[Encoded]) -> np.ndarray:
    scores = []
    with torch.inference_mode():
        for first in range(0, len(encoded), BATCH):
            batch = encoded[first : first + BATCH]
            width = max(len(item.ids) for item in batch)
            ids = torch.tensor([list(item.ids) + [0] * (width - len(item.ids)) for item in batch])
            mask = torch.tensor([[1] * len(item.ids) + [0] * (width - len(item.ids)) for item in batch])
            logp = torch.log_softmax(lm.model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float(), -1)
            for row, item in enumerate(batch):
                scores.append(sum(logp[row, t - 1, item.ids[t]].item() for t in item.targets))
    return np.array(scores)


def harness(lm: LanguageModel, pairs: list[Pair], encoded: list[Encoded], batch: int = BATCH) -> np.ndarray:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    bos = lm.tokenizer("a")["input_ids"][0] == lm.tokenizer.bos_token_id
    runner = HFLM(pretrained=lm.model, tokenizer=lm.tokenizer, batch_size=batch, add_bos_token=bos)
    requests = [
        Instance(request_type="loglikelihood", doc={}, arguments=(prompt, f" {answer}"), idx=i)
        for i, (prompt, answer) in enumerate(pairs)
    ]
    return np.array([found[0] for found in runner.loglikelihood(requests, disable_tqdm=True)])


def ours(lm: LanguageModel, pairs: list[Pair], encoded: list[Encoded]) -> np.ndarray:
    return score_texts(lm, encoded)


WAYS = {"published": published, "lm-eval": harness, "anachron": ours}


def measure(way: str, case: str, model: str | None, vocabulary: int, tokenizer: str, dtype: str) -> dict[str, Any]:
    """Time one way in this process, after a warm-up on some of the texts."""
    lm = language_model(case, model, vocabulary, tokenizer, dtype)
    pairs, encoded = pairs_of(case), texts_of(case, lm)
    WAYS[way](lm, pairs[:64], encoded[:64])
    lm.plan(encoded)  # one self-check a model, not one a thousand statements
    started = time.perf_counter()
    scores = WAYS[way](lm, pairs, encoded)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # kB on Linux
    return {"statements_per_second": len(pairs) / seconds, "peak_memory_mb": peak, "scores": scores.tolist()}


def operations(lm: LanguageModel, tokens: int, rows: int, seen: float) -> float:
    """Floating-point operations of some tokens, each of which sees so many, and of rows through the head."""
    config = lm.model.config
    head = lm.model.get_output_embeddings().weight.numel()
    embeddings = {
        id(layer.weight): layer.weight.numel()
        for layer in (lm.model.get_input_embeddings(), lm.model.get_output_embeddings())
    }
    blocks = sum(weight.numel() for weight in lm.model.parameters()) - sum(embeddings.values())
    width = config.num_attention_heads * getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    return tokens * (2 * blocks + 4 * config.num_hidden_layers * width * seen) + rows * 2 * head


def counted(case: str, model: str | None, vocabulary: int, tokenizer: str, dtype: str) -> dict[str, Any]:
    """Tokens of both ways, and the ratio that their operations alone would give."""
    lm = language_model(case, model, vocabulary, tokenizer, dtype)
    encoded = texts_of(case, lm)
    batches = [encoded[first : first + BATCH] for first in range(0, len(encoded), BATCH)]
    padded = sum(len(batch) * max(len(text.ids) for text in batch) for batch in batches)
    distinct = list(dict.fromkeys(encoded))
    computed = tokens_computed(distinct, lm.plan(distinct))
    rows = len({text.ids[:t] for text in distinct for t in text.targets})
    length = float(np.mean([len(text.ids) for text in encoded]))
    predicted = operations(lm, padded, padded, length) / operations(lm, computed, rows, length)
    return {
        "tokens_published": padded, "tokens_computed": computed, "distinct_prefixes": distinct_prefixes(distinct),
        "answer_rows": rows, "speedup_by_operations": predicted,
    }  # fmt: skip


def compare(
    case: str, model: str | None, vocabulary: int, threads: int, rounds: int, tokenizer: str, dtype: str,
    ways: list[str],
) -> dict[str, Any]:  # fmt: skip
    """All ways in turn, each time in a fresh process; medians of the ratios."""
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            command = [sys.executable, __file__, "--way", way, "--case", case, "--vocabulary", str(vocabulary)]
            command += ["--threads", str(threads), "--tokenizer", tokenizer, "--dtype", dtype]
            command += ["--model", model] if model else []
            shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[way].append(json.loads(shown.splitlines()[-1]))
    rates = {way: [run["statements_per_second"] for run in runs] for way, runs in found.items()}
    summary: dict[str, Any] = {"case": case, **({} if model else {"vocabulary": vocabulary})}
    summary |= counted(case, model, vocabulary, tokenizer, dtype)
    summary["statements_per_second"] = {way: round(float(np.median(rate)), 1) for way, rate in rates.items()}
    summary["peak_memory_mb"] = {way: round(max(run["peak_memory_mb"] for run in runs)) for way, runs in found.items()}
    for way in ways[:-1]:
        ratios = np.array(rates["anachron"]) / np.array(rates[way])
        gap = np.abs(np.array(found[way][0]["scores"]) - np.array(found["anachron"][0]["scores"]))
        summary[f"against {way}"] = {
            "speedup": float(np.median(ratios)), "speedups": ratios.tolist(), "largest_difference": float(gap.max()),
            "mean_difference": float(gap.mean()),
        }  # fmt: skip
    summary["share_of_operations"] = summary["against published"]["speedup"] / summary["speedup_by_operations"]
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a model to load, in place of random weights")
    parser.add_argument("--vocabulary", type=int, nargs="+", default=[32_000, 128_000])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokenizer", default="demo")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--case", choices=CASES, help="only this one")
    parser.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    if options.way:
        given = (options.way, options.case, options.model, options.vocabulary[0], options.tokenizer, options.dtype)
        print(json.dumps(measure(*given)))
        return
    shape = "Llama shape (beyond a window Gemma 3's), hidden 512, 6 layers, random weights"
    results = []
    for case in [options.case] if options.case else CASES:
        installed = importlib.util.find_spec("lm_eval") is not None and not PREFIX_TOKENS[case]
        ways = ["published", *(["lm-eval"] if installed else []), "anachron"]
        for vocabulary in [0] if options.model else options.vocabulary:
            given = (vocabulary, options.threads, options.rounds, options.tokenizer, options.dtype, ways)
            results.append(compare(case, options.model, *given))
            print(f"{case}, {options.model or vocabulary}: {results[-1]['statements_per_second']}", file=sys.stderr)
    tokenizer = Path(options.model or options.tokenizer).name
    about = {"model": options.model or shape, "dtype": options.dtype}
    about |= {"threads": options.threads, "tokenizer": tokenizer}
    print(json.dumps({"about": about, "results": results}, indent=2))


if __name__ == "__main__":
    main()
