"""Scoring and editing on a GPU in bfloat16, with random weights in the shape of models that people use.

    python benchmarks/scoring_gpu.py [--shape llama-1b llama-8b] [--statements 100000] [--tokenizer FOLDER]
    python benchmarks/scoring_gpu.py --shape tiny --device cpu --statements 200     # everything at once, small

Scores statements from generated facts (names of made-up syllables, 85 years, 12 months and 12 days each) by the prefix
tree and, a tenth of them, by padded batches, by lm-evaluation-harness, vLLM and SGLang where these are installed, each
in a process of its own; then makes one edit by every method (the identity as the covariance; of AlphaEdit that of
random inputs, and MEND's network is not trained: neither changes what an edit takes). Prints JSON: statements/s, tokens
computed beside the distinct prefixes, the share of the measured rate of large matrix products that the arithmetic of
the computed tokens makes, the most memory, how far the scores are from those of the tree, and the time that the 521,000
statements of TimeStress would take. vLLM and SGLang get the token ids and are asked for the log-probabilities of these.
"""

import argparse
import importlib.util
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from editing import moment
from scoring import Pair, harness, operations
from transformers import AutoConfig, AutoModelForCausalLM

from anachron.core.errors import AnachronError
from anachron.edit.make import make_edit, settings_for, sites_for
from anachron.edit.method import Method, Resources
from anachron.edit.methods import methods
from anachron.edit.methods.mend import untrained_network
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.prefix_tree import distinct_prefixes
from anachron.lm.spans import Encoded
from anachron.lm.tokenizers import load_tokenizer

TIMESTRESS = 521_000
SHARE = 10  # every other way scores one in so many statements
HARNESS_BATCH = 128
SHAPES: dict[str, dict[str, Any]] = {
    "llama-1b": {
        "model_type": "llama", "vocab_size": 128_256, "hidden_size": 2048, "intermediate_size": 8192, "head_dim": 64,
        "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    "llama-8b": {
        "model_type": "llama", "vocab_size": 128_256, "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
    },
    "gemma-2b": {
        "model_type": "gemma2", "vocab_size": 256_000, "hidden_size": 2304, "intermediate_size": 9216, "head_dim": 256,
        "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 8192,
    },
    "tiny": {
        "model_type": "llama", "vocab_size": 4096, "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    },
}  # fmt: skip
WORDINGS = ("who was the leader of {}?", "which country did {} belong to?", "who owned {}?", "where was {} made?")


def statements(count: int) -> list[Pair]:
    """So many dated questions and answers, in the order of a data set: fact by fact."""
    chance = random.Random(0)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]

    def name() -> str:
        return " ".join("".join(chance.choices(syllables, k=3)).title() for _ in range(2))

    months = ("January", "March", "May", "July", "September", "November")
    dates = [f"In {year}" for year in range(1936, 2021)]
    dates += [f"In {month} {year}" for month in months for year in (1990, 2005)]
    dates += [f"On {month} {day}, {year}" for month in months for day, year in ((3, 1990), (17, 2005))]
    found: list[Pair] = []
    while len(found) < count:
        question, answer = chance.choice(WORDINGS).format(name()), name()
        found += [(f"{date}, {question}", answer) for date in dates]
    return found[:count]


def done(device: str) -> float:
    """The time, once the device has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def matrix_rate(device: str) -> float:
    """Floating-point operations a second of bfloat16 products of square matrices."""
    size, rounds = (8192, 50) if device == "cuda" else (1024, 5)
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        a @ b
    started = done(device)
    for _ in range(rounds):
        a @ b
    return rounds * 2 * size**3 / (done(device) - started)


def random_model(shape: str, device: str, tokenizer: str) -> LanguageModel:
    """The same weights in every process: they are drawn on the CPU of a tiny one, on the card of the others."""
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**SHAPES[shape]), dtype=torch.bfloat16)
    return LanguageModel(model.eval(), load_tokenizer(tokenizer), shape, dtype="bfloat16")


# Ways to score: each gives the scores, seconds and what else is known


def planned(lm: LanguageModel, device: str, encoded: list[Encoded], rate: float, *, tree: bool) -> dict[str, Any]:
    """Ours, by the prefix tree or in padded batches, after a warm-up on some of the texts."""
    warm = encoded[:2000]
    list(lm.score_parts(warm, {0: lm.plan(warm, prefix_tree=tree)}))  # one trial a model, not one a run
    started = done(device)
    plan = lm.plan(encoded, prefix_tree=tree)
    middle = done(device)
    ((_, scores, counters),) = lm.score_parts(encoded, {0: plan})
    seconds = done(device) - middle
    predicting = [text.ids[:t] for text in encoded for t in text.targets]  # what the head is computed behind
    rows = len(set(predicting) if tree else predicting)
    length = float(np.mean([len(text.ids) for text in encoded]))
    spent = operations(lm, counters.tokens, rows, length)
    return {
        "scores": scores[np.argsort(plan.texts)].tolist(), "seconds": seconds, "seconds_planning": middle - started,
        "prefix_tree": plan.prefix_tree, "refusal": plan.refusal, "attention": plan.trial and plan.trial.attention,
        "batch_tokens": plan.batch_tokens, "tokens_computed": counters.tokens, "halvings": counters.halvings,
        "distinct_prefixes": distinct_prefixes(encoded), "share_of_matrix_rate": spent / seconds / rate,
    }  # fmt: skip


def by_harness(lm: LanguageModel, device: str, pairs: list[Pair], encoded: list[Encoded]) -> dict[str, Any]:
    harness(lm, pairs[:64], encoded[:64], HARNESS_BATCH)
    started = done(device)
    scores = harness(lm, pairs, encoded, HARNESS_BATCH)
    return {"scores": scores.tolist(), "seconds": done(device) - started}


def by_vllm(folder: str, encoded: list[Encoded]) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

    engine = LLM(model=folder, dtype="bfloat16", max_model_len=1024)
    asked = SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False)
    texts = [{"prompt_token_ids": list(text.ids)} for text in encoded]
    engine.generate(texts[:64], asked)
    started = time.perf_counter()
    found = engine.generate(texts, asked)
    seconds = time.perf_counter() - started
    scores = [
        sum(out.prompt_logprobs[t][text.ids[t]].logprob for t in text.targets)
        for out, text in zip(found, encoded, strict=True)
    ]
    return {"scores": scores, "seconds": seconds}


def by_sglang(folder: str, encoded: list[Encoded]) -> dict[str, Any]:
    from sglang import Engine

    engine = Engine(model_path=folder, dtype="bfloat16", context_length=1024)

    def score(some: list[Encoded]) -> list[float]:
        starts = [text.targets[0] - 1 for text in some]  # from the token before the answer on, as (value, id, text)
        found = engine.generate(
            input_ids=[list(text.ids) for text in some], sampling_params={"max_new_tokens": 1, "temperature": 0},
            return_logprob=True, logprob_start_len=starts,
        )  # fmt: skip
        told = [out["meta_info"]["input_token_logprobs"] for out in found]
        return [
            sum(values[t - start][0] for t in text.targets)
            for values, start, text in zip(told, starts, some, strict=True)
        ]

    score(encoded[:64])
    started = time.perf_counter()
    scores = score(encoded)
    seconds = time.perf_counter() - started
    engine.shutdown()
    return {"scores": scores, "seconds": seconds}


ENGINES: dict[str, Callable[[str, list[Encoded]], dict[str, Any]]] = {"vllm": by_vllm, "sglang": by_sglang}
WAYS = {"anachron": None, "padded": None, "lm-eval": "lm_eval", "vllm": "vllm", "sglang": "sglang"}  # way -> package


def measure(way: str, options: argparse.Namespace) -> dict[str, Any]:
    """One way in this process."""
    device, tokenizer = options.device, options.tokenizer
    pairs = statements(options.statements if way == "anachron" else max(1, options.statements // SHARE))
    if way in ENGINES:  # the encoder is all that is needed of a model
        encoded = random_model("tiny", "cpu", tokenizer).encode([(*pair, None) for pair in pairs])
        return {"statements": len(encoded), **ENGINES[way](options.folder, encoded)}
    lm = random_model(options.shape[0], device, tokenizer)
    started = time.perf_counter()
    encoded = lm.encode([(*pair, None) for pair in pairs])
    took = {"statements": len(encoded), "seconds_tokenising": time.perf_counter() - started}
    if way == "lm-eval":
        found = by_harness(lm, device, pairs, encoded)
    else:
        found = planned(lm, device, encoded, options.rate, tree=way == "anachron")
    return took | found | {"peak_gib": peak(device)}


def peak(device: str) -> float:
    """The most memory of the card that torch held, or of this process."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # kB on Linux


# Edits


def edits(shape: str, device: str, tokenizer: str) -> dict[str, Any]:
    """Seconds and memory of one edit by every method; why not, where one cannot be made."""
    lm = random_model(shape, device, tokenizer)
    request = EditRequest("{} is led by", "Bado Kile", "Mora Tuve")
    found: dict[str, Any] = {}
    for name, method in methods().items():
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        try:
            settings, resources = needs_of(method, lm)
            started = done(device)
            edit = make_edit(lm, name, [request], settings, resources)
            found[name] = {"seconds": edit.about["seconds"], "seconds_in_all": done(device) - started}
            found[name] |= {"peak_gib": peak(device)}
        except AnachronError as error:
            found[name] = {"cannot": str(error)}
        print(f"{shape}, {name}: {found[name]}", file=sys.stderr, flush=True)
    return found


def needs_of(method: Method, lm: LanguageModel) -> tuple[Any, Resources]:
    """Settings, and the identity as the covariance; MEND gets a network that was not trained.

    AlphaEdit gets the covariance of random inputs, of whose directions those with half the trace count as empty.
    """
    sites = sites_for(method, lm)
    settings = settings_for(method.name, lm, sites)[0]
    if method.needs_network:
        return settings, Resources(network=untrained_network(lm, settings, sites))
    if method.name != "AlphaEdit":
        return settings, Resources(covariance=None)
    modules = method.modules(settings, sites)
    moments = {name: moment(lm.model.get_submodule(name).weight.shape[1], name) for name in modules}
    for one in moments.values():
        method.factorise(one)
    return replace(settings, threshold=None, relative_threshold=0.5), Resources(covariance=moments)


def compare(shape: str, rate: float, options: argparse.Namespace) -> dict[str, Any]:
    """All ways that are installed, each in a process of its own, and the edits."""
    found: dict[str, Any] = {"shape": shape}
    with tempfile.TemporaryDirectory() as folder:
        ways = [way for way, package in WAYS.items() if package is None or importlib.util.find_spec(package)]
        if any(way in ENGINES for way in ways):
            lm = random_model(shape, options.device, options.tokenizer)
            lm.model.save_pretrained(folder)
            lm.tokenizer.save_pretrained(folder)
            del lm
            if options.device == "cuda":
                torch.cuda.empty_cache()
        command = [sys.executable, __file__, "--shape", shape, "--statements", str(options.statements)]
        command += ["--device", options.device, "--tokenizer", options.tokenizer, "--rate", str(rate)]
        for way in [*ways, "edits"]:
            arguments = [*command, "--way", way, "--folder", folder]
            with tempfile.TemporaryFile("w+") as complaints:
                asked = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=complaints, text=True)
                if asked.returncode:
                    complaints.seek(0)
                    raise SystemExit(f"{' '.join(arguments)}\n{complaints.read()}")
            found[way] = json.loads(asked.stdout.splitlines()[-1])
    return found | summary(found, [way for way in ways if way != "anachron"])


def summary(found: dict[str, Any], others: list[str]) -> dict[str, Any]:
    """Rates, ratios and differences of scores; the scores themselves go."""
    tree = found["anachron"]
    scores = np.array(tree.pop("scores"))
    rates = {way: found[way]["statements"] / found[way]["seconds"] for way in ["anachron", *others]}
    told: dict[str, Any] = {"statements_per_second": rates}
    for way in others:
        gap = np.abs(np.array(found[way].pop("scores")) - scores[: found[way]["statements"]])
        told[f"against {way}"] = {
            "speedup": rates["anachron"] / rates[way], "largest_difference": float(gap.max()),
            "mean_difference": float(gap.mean()),
        }  # fmt: skip
    seconds = sum(tree[name] for name in ("seconds", "seconds_tokenising", "seconds_planning"))
    return told | {"hours_for_timestress": TIMESTRESS / tree["statements"] * seconds / 3600}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=list(SHAPES), nargs="+", default=["llama-1b", "llama-8b"])
    parser.add_argument("--statements", type=int, default=100_000)
    parser.add_argument("--tokenizer", default="demo")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--way", choices=[*WAYS, "edits"], help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU here: this benchmark measures one; --device cpu --shape tiny shows that it runs")
    if options.way:
        is_edit = options.way == "edits"
        made = edits(options.shape[0], options.device, options.tokenizer) if is_edit else measure(options.way, options)
        print(json.dumps(made))
        return
    rate = matrix_rate(options.device)
    results = [compare(shape, rate, options) for shape in options.shape]
    device = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    about = {"device": device, "matrix_tflops": rate / 1e12, "torch": torch.__version__}
    print(json.dumps({"about": about, "results": results}, indent=2))


if __name__ == "__main__":
    main()
