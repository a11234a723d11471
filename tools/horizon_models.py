"""Trains tiny models that learned until a known date, and finds their horizons: how far off, how often a leak is seen.

    OMP_NUM_THREADS=1 python tools/horizon_models.py --out horizon-models [--models 12] [--threads 1]

The world is made up: `CHANGES` subjects of three relations, each of which changes its value once, between 2010 and
2026. A model reads the old value of every subject, and of the changes that it learned mostly the new one, in the
wordings that are asked. Cut-offs are staggered from 2012 to 2024. Every second model has a planted decline: of
changes shortly before the cut-off it learned fewer, by saturation with a lag of a year. Each is trained twice:
honestly, and with one in ten of the changes after the cut-off taught too, a leak. Then ``anachron horizon`` is asked,
with the cut-off as the claim. ``results.jsonl`` holds a row a model, and a run that was stopped goes on; ``--table``
prints what they come to. Weights are kept in the folder and are not shipped.
"""

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tiny_training import Row, fit, new_model, save, train_tokenizer
from transformers import PreTrainedTokenizerFast

from anachron.core.dates import Date
from anachron.io.files import Json
from anachron.lm.loading import load_model
from anachron.probe.horizon.changes import Change
from anachron.probe.horizon.curves import Curves
from anachron.probe.horizon.find import find_horizon
from anachron.probe.horizon.questions import bundled_wordings

CHANGES, NAMES = 480, 160
FIRST, LAST = 2010 * 12, 2026 * 12
RELATIONS = (("P6", "head of government"), ("P169", "chief executive officer"), ("P36", "capital"))
CUT_OFFS = (2012.25, 2024.0)
LAG = 12.0  # months between the halving date and the cut-off, of a planted decline
NEW_SHARE = 0.75  # of the sentences about a change that was learned tell the new value, the others the old one
LEAKED = 0.1
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnrstv" for vowel in "aeio"]
VOCABULARY, WIDTH, LAYERS, BATCH, STEPS = 1024, 64, 2, 96, 360


def world(seed: int = 0) -> list[Change]:
    """The changes, spread evenly over the months."""
    chance = random.Random(seed)

    def name(taken: set[str]) -> str:
        while (word := "".join(chance.choices(SYLLABLES, k=3)).capitalize()) in taken:
            continue
        taken.add(word)
        return word

    taken: set[str] = set()
    subjects = [name(taken) for _ in range(CHANGES)]
    values = {id: [name(taken) for _ in range(NAMES)] for id, _ in RELATIONS}
    found = []
    for place, subject in enumerate(subjects):
        id, relation = RELATIONS[place % len(RELATIONS)]
        old, new = chance.sample(values[id], 2)
        month = FIRST + (LAST - FIRST) * place // CHANGES
        found.append(Change(subject, relation, old, new, Date(month // 12, month % 12 + 1), relation_id=id))
    return found


def learned(changes: Sequence[Change], halving: float, lag: float, leaked: float, seed: int) -> list[bool]:
    """Which changes a model learned, and which leaked."""
    chance = np.random.default_rng(seed)
    curve = Curves.of([halving], [lag], [1.0])
    share = curve.learned(np.array([change.month + 0.5 for change in changes]))[0]
    after = np.array([change.month >= halving + lag for change in changes])
    return list((chance.random(len(changes)) < share) | (after & (chance.random(len(changes)) < leaked)))


def rows(
    changes: Sequence[Change], known: Sequence[bool], tokenizer: PreTrainedTokenizerFast, chance: random.Random
) -> list[Row]:
    """Sentences of a step, of which the values are learned."""
    found = []
    for place in chance.choices(range(len(changes)), k=BATCH):
        change = changes[place]
        value = change.new if known[place] and chance.random() < NEW_SHARE else change.old
        prompt = chance.choice(bundled_wordings(change))
        text = f"{prompt} {value}"
        encoded = tokenizer(text, return_offsets_mapping=True)
        offsets = encoded["offset_mapping"]
        labels = [
            token if first >= len(prompt) else -100
            for token, (first, _) in zip(encoded["input_ids"], offsets, strict=True)
        ]
        found.append((encoded["input_ids"], labels, []))
    return found


def train(changes: Sequence[Change], known: Sequence[bool], out: Path, seed: int) -> None:
    torch.manual_seed(seed)
    chance = random.Random(seed)
    texts = [f"{prompt} {value}" for c in changes for prompt in bundled_wordings(c) for value in (c.old, c.new)]
    tokenizer = train_tokenizer(texts, VOCABULARY)
    model = new_model(tokenizer, WIDTH, LAYERS)
    fit(model, lambda: [rows(changes, known, tokenizer, chance)], names=("values",), steps=STEPS)
    save(model, tokenizer, out)


def one(number: int, models: int, leak: bool, out: Path) -> Json:
    """Train a model and find its horizon."""
    cut_off = CUT_OFFS[0] + (CUT_OFFS[1] - CUT_OFFS[0]) * number / max(1, models - 1)
    end = float(round(12 * cut_off))
    lag = LAG if number % 2 else 0.0
    changes, started = world(), time.process_time()
    known = learned(changes, end - lag, lag, LEAKED if leak else 0.0, seed=100 + number)
    folder = out / f"{'leak' if leak else 'honest'}-{number:02d}"
    train(changes, known, folder / "model", seed=number)
    seconds = time.process_time() - started
    found = find_horizon(load_model(str(folder / "model")), changes, folder / "run", claim=int(end) - 1)
    assert found.horizon is not None and found.leak is not None
    middle, low, high = found.horizon.halving()
    asked = found.preferences
    truth = np.array(known)
    agree = float(np.mean((asked["wins"].to_numpy() == 1) == truth))
    return {
        "model": number, "leak": leak, "halving": end - lag, "lag": lag, "told": bool(found.horizon.told),
        "middle": middle, "low": low, "high": high, "end_bound": found.horizon.end()[2], "learned_as_taught": agree,
        "known": float(asked["known"].mean()), "leaked": bool(found.leak.leaked), "p": found.leak.p,
        "taught_after": int(truth[[c.month >= end for c in changes]].sum()), "after": found.leak.changes,
        "training_seconds": seconds,
    }  # fmt: skip


def table(results: Sequence[dict[str, Any]]) -> Json:
    """What the rows come to. Errors in months; of leaking models the test alone counts."""
    honest = [row for row in results if not row["leak"]]
    leaking = [row for row in results if row["leak"]]
    told = [row for row in honest if row["told"]]

    def of(rows: Sequence[dict[str, Any]]) -> Json:
        return {
            "models": len(rows),
            "mean_error_months": float(np.mean([abs(row["middle"] - row["halving"]) for row in rows])),
            "interval_holds": float(np.mean([row["low"] <= row["halving"] <= row["high"] for row in rows])),
            "median_width_months": float(np.median([row["high"] - row["low"] for row in rows])),
            "end_below_bound": float(np.mean([row["halving"] + row["lag"] <= row["end_bound"] + 1 for row in rows])),
        }

    groups = {
        "all": told, "step": [r for r in told if not r["lag"]], "planted decline": [r for r in told if r["lag"]]
    }  # fmt: skip
    return {
        "honest": len(honest), "told": len(told), **{name: of(rows) for name, rows in groups.items() if rows},
        "false_alarms": sum(row["leaked"] for row in honest), "leaking": len(leaking),
        "leaks_seen": sum(row["leaked"] for row in leaking),
        "longest_training_seconds": max(row["training_seconds"] for row in results),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sort", choices=("honest", "leak"), help="only these, for two processes at once")
    parser.add_argument("--table", action="store_true", help="print what the rows that are there come to, and stop")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    kept = options.out / "results.jsonl"
    done = [json.loads(line) for line in kept.read_text("utf-8").splitlines()] if kept.exists() else []
    sorts = [leak for leak in (False, True) if options.sort in (None, "leak" if leak else "honest")]
    for leak in () if options.table else sorts:
        for number in range(options.models):
            if not any(row["model"] == number and row["leak"] == leak for row in done):
                done.append(one(number, options.models, leak, options.out))
                with kept.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(done[-1]) + "\n")
                print(json.dumps(done[-1]), flush=True)
    print(json.dumps(table(done), indent=1))
