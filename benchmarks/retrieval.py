"""How long it takes to find the passages for 100 questions in a store of 100,000, against a plain loop of the formula.

Run: python benchmarks/retrieval.py [--passages 100000] [--repeat 3]. Makes its own sentences (synthetic, repeatable):
a relation of 200, a subject and an object of 50,000 names each, so that common words are in nearly all of them. Prints
JSON: seconds to build the index, and to find three passages for each of 100 questions (best and median of the repeats);
the plain loop counts words beforehand and goes through all passages for one question in ten; whether both found the
same.
"""

import argparse
import json
import math
import platform
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from anachron.edit.carried.passages import Passage, Passages

QUESTIONS, NAIVE = 100, 10


def sentences(count: int) -> list[str]:
    chance = random.Random(0)
    names = [f"name{number}" for number in range(50_000)]
    return [
        f"The relation{chance.randrange(200)} of {' '.join(chance.sample(names, 2))} is {chance.choice(names)} {number}"
        for number in range(count)
    ]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def plain_loop(texts: list[str]) -> Callable[[str], list[str]]:
    """BM25 of Lucene, with the counts of words made once."""
    counts = [Counter(text.lower().split()) for text in texts]
    holding = Counter(word for count in counts for word in count)
    mean = sum(count.total() for count in counts) / len(counts)

    def find(prompt: str) -> list[str]:
        scores = []
        for count in counts:
            length = 1.5 * (0.25 + 0.75 * count.total() / mean)
            known = [word for word in prompt.lower().split() if count[word]]
            idf = {word: math.log(1 + (len(texts) - holding[word] + 0.5) / (holding[word] + 0.5)) for word in known}
            scores.append(sum(idf[word] * count[word] / (count[word] + length) for word in known))
        return [texts[place] for place in sorted(range(len(texts)), key=lambda place: -scores[place])[:3]]

    return find


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    texts = sentences(options.passages)
    store = Passages(tuple(map(Passage, texts)))
    questions = [text.partition(" is ")[0] + " is" for text in texts[:: max(1, len(texts) // QUESTIONS)]][:QUESTIONS]
    indexing, _ = timed(lambda: store.shown(["nothing"]))
    runs = [timed(lambda: store.shown(questions)) for _ in range(options.repeat)]
    find = plain_loop(texts)
    slow, expected = timed(lambda: [find(question) for question in questions[:NAIVE]])
    seconds = statistics.median(took for took, _ in runs)
    about = {
        "python": platform.python_version(), "passages": len(texts), "questions": len(questions),
        "seconds": {"index": round(indexing, 2), "best": round(min(runs)[0], 3), "median": round(seconds, 3)},
        "plain_loop_seconds": round(slow / NAIVE * len(questions), 1),
        "times_as_fast": round(slow / NAIVE * len(questions) / seconds),
        "same_found": [list(found) for found in runs[0][1][:NAIVE]] == expected,
    }  # fmt: skip
    print(json.dumps(about, indent=2))


if __name__ == "__main__":
    main()
