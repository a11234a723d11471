"""Lying servers with budgets: what a server really served is never above the budget by more than one call's most.

Crossed are lies in the counts, lengths of answers, errors and retries, with budgets in calls, tokens and money, with
and without a limit on answers. The server itself keeps the account: of what it wrote, not of what it says it wrote.
"""

import json
import random
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from anachron.cli.main import run_command
from support.asked_runs import FACTS
from support.llm_server import Reply, chat, error, prompt_of, serving

pytestmark = [
    pytest.mark.trial, pytest.mark.skipif(find_spec("openai") is None, reason="needs the extra llm"),
]  # fmt: skip
LIMIT, PER_TOKEN = 60, 4  # of an answer; letters
USAGE: dict[str, Any] = {
    "true": None, "none": "none", "zero": 0, "negative": -7, "yes": True, "huge": 10**30, "words": "many", "half": 0.5,
    "one": 1, "list": [1], "infinite": 1e400,
}  # fmt: skip
LENGTHS = ("short", "as long as may be", "long", "long at times")
TROUBLE = ("none", "500", "cut", "page", "429", "400 at times", "max_tokens refused")
BUDGETS = ("15 calls", "4k tokens", "0.004 money")  # of 1 a million tokens, read or written: 4,000


class Account:
    """A server's script, and what it served: requests that it took on, and tokens of what was asked and written."""

    def __init__(self, usage: str, length: str, trouble: str, seed: int) -> None:
        self.usage, self.length, self.trouble, self.draw = usage, length, trouble, random.Random(seed)
        self.calls, self.tokens, self.most, self.lock = 0, 0.0, 0.0, Lock()

    def written(self, limit: int | None) -> int:
        longest = limit or 400
        if self.length == "short":
            return 9
        if self.length == "as long as may be":
            return longest
        return 700 if self.length == "long" or self.draw.random() < 0.2 else 9

    def __call__(self, request: dict, number: int) -> Reply:
        limit = request.get("max_tokens", request.get("max_completion_tokens"))
        with self.lock:
            troubled = self.draw.random() < 0.4
            if self.trouble == "max_tokens refused" and "max_tokens" in request:
                self.calls += 1
                return error(400, "use max_completion_tokens", param="max_tokens")
            if troubled and self.trouble == "429":
                return error(429, headers={"retry-after": "0"})
            self.calls += 1
            if troubled and self.trouble in ("500", "400 at times"):
                return error(int(self.trouble[:3]))
            read, written = 10 + len(prompt_of(request)) / PER_TOKEN, self.written(limit)
            self.tokens, self.most = self.tokens + read + written, max(self.most, read + written)
        if troubled and self.trouble == "cut":
            return Reply(raw=b"x" * (PER_TOKEN * written), cut=True)
        if troubled and self.trouble == "page":
            return Reply(raw=b"<html>" + b"x" * (PER_TOKEN * written))
        body = json.loads(chat("x" * (PER_TOKEN * written)).data)
        said = USAGE[self.usage]
        if self.usage == "true":
            body["usage"] = {"prompt_tokens": round(read), "completion_tokens": written}
        else:
            body["usage"] = None if said == "none" else {"prompt_tokens": said, "completion_tokens": said}
        return Reply(raw=json.dumps(body).encode())


def fault(account: Account, budget: str, limited: bool, facts: Path, out: Path, capsys: Any, *more: str) -> str | None:
    """What is wrong with three runs of one command, and one with a larger budget; None where nothing is."""
    with serving(account) as server:
        line = [
            "check", "m", "--backend", "chat", "--base-url", server.url, "--facts", str(facts), "--out", str(out),
            "--as-of", "2025-11-22", "--pause", "0", "--timeout", "5", "--no-page", "--tries", "3", "--price-in", "1",
            "--price-out", "1", *more, *(["--max-tokens", str(LIMIT)] if limited else []),
        ]  # fmt: skip
        for times in (1, 1, 1, 2):
            amount = times * float(budget.split()[0].replace("k", "000"))
            unit = budget.split()[1]
            code = run_command([*line, "--budget", f"{amount:g} {unit}"], False)
            told = "".join(capsys.readouterr())
            if code not in (0, 1, 2) or "unexpected" in told:
                return f"code {code}: {told[-300:]}"
            if unit == "calls":
                beyond = account.calls - amount
            else:
                # a server that writes long answers at times, against the limit, is known after the first that is
                together = 8 if limited and account.length == "long at times" else 1
                scale = 1e6 if unit == "money" else 1
                beyond = account.tokens - scale * amount - together * account.most
            if beyond > 0:
                return f"{beyond:g} beyond {amount:g} {unit}"
    return None


@pytest.mark.share(4)
@pytest.mark.parametrize("part", range(4))
def test_no_lie_overdraws_a_budget(part: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    facts = tmp_path / "facts.csv"
    facts.write_text(FACTS)
    worlds = [
        *product(USAGE, LENGTHS, ("none",), BUDGETS, (True, False)),
        *product(("true", "none", "huge"), LENGTHS, TROUBLE[1:], BUDGETS, (True, False)),
    ]
    worlds = random.Random(0).sample(worlds, 150)[part::4]
    faults = {}
    for number, (usage, length, trouble, budget, limited) in enumerate(worlds):
        account = Account(usage, length, trouble, number)
        alone = ("--decoys", "0") if number % 2 else ()  # many times faster
        found = fault(account, budget, limited, facts, tmp_path / str(number), capsys, *alone)
        if found is not None:
            faults[usage, length, trouble, budget, limited] = found
    for world, words in faults.items():
        print(world, words)
    print(f"trial: {len(worlds)} lying servers with a budget tried, {len(worlds) - len(faults)} survived")
    assert not faults, faults
