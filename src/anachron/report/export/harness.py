"""Win rate W and robustness R inside lm-evaluation-harness.

``anachron export lm-eval`` copies this file beside the task as ``metrics.py``. It needs nothing but the harness.

One document is one dated statement. A match pits a correct date of a fact against an incorrect one of the same
granularity, and is won when the answer's log-probability is higher, strictly. W is the share of a fact's matches
won, R is 1 when all are. Over the three granularities ("global"), W is the mean of theirs and R is 1 when all
three are. The metrics are means over facts (not over documents).

After a run with --log_samples, ``python metrics.py samples_*.jsonl --model NAME --out scores.jsonl`` writes the
score table that ``anachron metrics scores.jsonl --out tables`` reads.
"""

import argparse
import json
import logging
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

GRANULARITIES = ("year", "month", "day")
GLOBAL = "global"
STATEMENTS = "statements.parquet"

log = logging.getLogger(__name__)

Item = tuple[str, str, str, int, float]


def load(**_: Any) -> Any:
    """The statements beside this file, as the split ``test``; what the harness passes along is not needed."""
    import datasets

    return datasets.load_dataset("parquet", data_files={"test": str(Path(__file__).with_name(STATEMENTS))})


def process_results(doc: dict[str, Any], results: list[tuple[float, bool]]) -> dict[str, Item]:
    """One document's part of every metric: (fact, granularity, status, statements of both, log-probability)."""
    logp = float(results[0][0])
    if not math.isfinite(logp):
        raise ValueError(f"the log-probability of {doc['prompt'] + doc['target']!r} is {logp}; try a wider dtype")
    item = (doc["fact_id"], doc["granularity"], doc["status"], doc["statements"], logp)
    return dict.fromkeys(METRICS, item)


def fact_metrics(items: Iterable[Item]) -> dict[tuple[str, str], tuple[float, float]]:
    """{(fact, granularity or "global"): (W, R)} of the items that `process_results` made.

    A fact of which only some statements are there (a run with --limit) has none, for its matches are not all known;
    neither has a fact without a correct or without an incorrect date.
    """
    groups: dict[tuple[str, str], list[tuple[str, int, float]]] = defaultdict(list)
    for fact, granularity, status, statements, logp in items:
        groups[fact, granularity].append((status, statements, logp))
    metrics: dict[tuple[str, str], tuple[float, float]] = {}
    cut = 0
    for key, rows in groups.items():
        if len(rows) != rows[0][1]:
            cut += 1
            continue
        correct = [logp for status, _, logp in rows if status == "correct"]
        incorrect = sorted(logp for status, _, logp in rows if status == "incorrect")
        if correct and incorrect:
            won = sum(bisect_left(incorrect, logp) for logp in correct)
            matches = len(correct) * len(incorrect)
            metrics[key] = (won / matches, float(won == matches))
    if cut:
        log.warning("%d facts and granularities are left out: only some of their statements were scored", cut)
    for fact in dict.fromkeys(fact for fact, _ in metrics):
        parts = [metrics[fact, g] for g in GRANULARITIES if (fact, g) in metrics]
        if len(parts) == len(GRANULARITIES):
            metrics[fact, GLOBAL] = (sum(w for w, _ in parts) / len(parts), min(r for _, r in parts))
    return metrics


def _mean(which: int, granularity: str) -> Callable[[list[Item]], float]:
    def aggregate(items: list[Item]) -> float:
        values = [of_fact[which] for (_, g), of_fact in fact_metrics(items).items() if g == granularity]
        return sum(values) / len(values) if values else math.nan

    return aggregate


def facts(items: list[Item]) -> int:
    """Number of facts that have W and R at one granularity at least."""
    return len({fact for fact, _ in fact_metrics(items)})


win_rate_year, robustness_year = _mean(0, "year"), _mean(1, "year")
win_rate_month, robustness_month = _mean(0, "month"), _mean(1, "month")
win_rate_day, robustness_day = _mean(0, "day"), _mean(1, "day")
win_rate_global, robustness_global = _mean(0, GLOBAL), _mean(1, GLOBAL)

METRICS = (*(f"{what}_{g}" for what in ("win_rate", "robustness") for g in (*GRANULARITIES, GLOBAL)), "facts")


def scores(samples: Iterable[dict[str, Any]], model: str) -> Iterator[dict[str, Any]]:
    """Rows of a score table from logged samples (dicts as the harness writes them, one a document)."""
    for sample in samples:
        doc = sample["doc"]
        kept = {name: value for name, value in doc.items() if name not in ("prompt", "target", "statements")}
        yield {"model": model, "format": "raw", "prefix": "none", **kept, "logp": sample[METRICS[0]][-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description="Logged samples of this task to a score table for anachron metrics.")
    parser.add_argument("samples", type=Path, help="samples_*.jsonl, written by lm_eval --log_samples")
    parser.add_argument("--model", required=True, help="what the model is called in tables")
    parser.add_argument("--out", type=Path, required=True, help="the score table, ending in .jsonl")
    options = parser.parse_args()
    with options.samples.open(encoding="utf-8") as lines, options.out.open("w", encoding="utf-8") as out:
        for row in scores(map(json.loads, lines), options.model):
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
