"""Speed and scores of the backend llama.cpp beside transformers, in one run: the same texts, threads and prefixes.

    python benchmarks/llamacpp.py smollm2.gguf smollm2/ [--statements 200] [--rounds 3]

The folder holds the same model for transformers (float32; its tokenizer serves both). Statements are drawn from
``mini``. Prints JSON: seconds of wall clock and of processor, the least of the rounds; their ratio, transformers to
llama.cpp; the largest and mean difference of the scores in nats. A file of F32 or F16 made of the same weights
(tools/requantise.py) differs by rounding, a quantised one by its arithmetic too.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from anachron.data.loaders import load_dataset
from anachron.lm.loading import load_model
from anachron.lm.scorer import Scorer, score_texts
from anachron.lm.spans import Encoded


def seconds(rounds: int, work: Callable[[], object]) -> tuple[float, float]:
    """Wall clock and processor time of the quickest round."""
    taken = []
    for _ in range(rounds):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        taken.append((time.perf_counter() - wall, time.process_time() - processor))
    return min(wall for wall, _ in taken), min(processor for _, processor in taken)


def measured(lm: Scorer, texts: Sequence[Encoded], rounds: int) -> tuple[np.ndarray, tuple[float, float]]:
    return score_texts(lm, texts), seconds(rounds, lambda: score_texts(lm, texts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("folder")
    parser.add_argument("--statements", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    table = load_dataset("mini").table.sample(given.statements, seed=0)
    triples = [(prompt, answer, None) for prompt, answer in table.select("prompt", "answer").iter_rows()]
    llama = load_model(given.file, backend="llama.cpp", tokenizer=given.folder)
    plain = load_model(given.folder, dtype="float32", device="cpu")
    texts = llama.encode(triples)
    if texts != plain.encode(triples):
        raise SystemExit("the two tokenize differently")
    ours, (wall, processor) = measured(llama, texts, given.rounds)
    theirs, (plain_wall, plain_processor) = measured(plain, texts, given.rounds)
    gap = np.abs(ours - theirs)
    found = {
        "statements": len(texts), "weights": llama.dtype, "threads": torch.get_num_threads(),
        "llama.cpp": {"wall": wall, "processor": processor},
        "transformers": {"wall": plain_wall, "processor": plain_processor},
        "ratio": {"wall": plain_wall / wall, "processor": plain_processor / processor},
        "nats": {"largest": float(gap.max()), "mean": float(gap.mean())},
    }  # fmt: skip
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
