"""A budget that is spent while requests are under way: what each may cost at most is set aside before it is sent.

Requests are sent together only where the most that each may cost is known: with a limit on the tokens of an answer,
once an answer to a question of its kind has shown how the server counts, and while the server keeps to the limit. Else
each goes alone. One is sent while what is spent and set aside is less than the budget, so that the last one overdraws
it by no more than it may cost itself; and not where the rest is less than such a question usually costs.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from anachron.core.errors import BackendError, DataError
from anachron.io.answers import Answer
from anachron.io.llm_settings import Lost, Meter, NoAnswer
from anachron.probe.ask.budget import Budget, Cost, Kind, Prices, affordable, cost_of, tokens_of

LEDGER = "spent.jsonl"  # in a run folder
SURE = 2.0  # times more read than was to be expected, of a kind that was asked before: the server's counts jump


@dataclass
class Purse(Meter):
    """A meter with a budget, or without one only counting.

    kinds: of the questions, by prompt. write: told each entry, for a file (`kept_purse`). warn: told what people should
    know. spent: over all runs; of a request whose end is unknown the most that it may cost.
    """

    budget: Budget | None = None
    prices: Prices | None = None
    kinds: dict[str, Kind] = field(default_factory=dict)
    write: Callable[[Mapping[str, Any]], None] = lambda entry: None
    warn: Callable[[str], None] = lambda message: None
    spent: Cost = field(default_factory=Cost)
    open: dict[str, Cost] = field(default_factory=dict)  # what is under way may cost at most
    answered: set[str] = field(default_factory=set)  # prompts, by `named`
    failures: dict[str, NoAnswer] = field(default_factory=dict)
    of_kind: dict[Kind, Cost] = field(default_factory=dict)  # what answers cost in this run
    ratio: float = 1.0  # tokens read of a prompt by the server's count, at most, over ours
    beyond: float = 0.0  # and at most more than ours
    longest: float = 0.0  # tokens of an answer, of those that came and by its limit
    lost: int = 0  # requests whose end is unknown: each is counted as the longest answer
    alone: bool = False  # whether the server does not keep to what it is told
    limited: bool = False  # whether answers have a limit of tokens
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def idle(self) -> bool:
        return not self.open

    def take(self, prompt: str, max_tokens: int | None, *, entered: bool = True) -> bool:
        """As `Meter.take`. entered: whether it is written down at once, as what costs something must be."""
        kind = self.kinds.get(prompt, "open")
        with self.lock:
            self.limited, self.longest = max_tokens is not None, max(self.longest, max_tokens or 0)
            most = self._most(kind, prompt)
            if not self._allows(kind, prompt, bounded=max_tokens is not None):
                return False
            self.open[prompt] = most
            if entered:
                self.write({"sent": named(prompt), "read": most.read, "written": most.written})
            return True

    def settle(self, prompt: str, came: Answer | Lost) -> None:
        kind = self.kinds.get(prompt, "open")
        with self.lock:
            most = self.open.pop(prompt)
            if isinstance(came, Answer):
                cost = cost_of(kind, prompt, came)
                self._doubt(kind, cost, most)
                self._learn(kind, prompt, cost)
                self.answered.add(named(prompt))
            else:
                cost = {"nothing": Cost(), "refused": Cost(1), "unknown": most}[came]
                self.lost += came == "unknown"
            self._count(prompt, cost, answered=isinstance(came, Answer))

    def kept(self, prompt: str, answer: Answer) -> None:
        """An answer of an earlier version's run, or of a folder that several runs share, counts once, too."""
        kind = self.kinds.get(prompt, "open")
        with self.lock:
            cost = cost_of(kind, prompt, answer)
            self._learn(kind, prompt, cost)
            if named(prompt) not in self.answered:
                self.answered.add(named(prompt))
                self._count(prompt, cost, answered=True)

    def failed(self, prompt: str, why: NoAnswer) -> None:
        with self.lock:
            self.failures[named(prompt)] = why
            self.write({"failed": named(prompt), "reason": why.reason, "detail": why.detail})

    def failure(self, prompt: str) -> NoAnswer | None:
        return self.failures.get(named(prompt))

    def enter(self, entry: Mapping[str, Any]) -> None:
        """Take over an entry of an earlier run, in its order."""
        if "sent" in entry:
            self.spent += self.open.get(entry["sent"], Cost())  # of a run that was killed while it was under way
            self.open[entry["sent"]] = Cost(1, float(entry["read"]), float(entry["written"]))
        elif "came" in entry:
            self.open.pop(entry["came"], None)
            self.spent += Cost(int(entry["calls"]), float(entry["read"]), float(entry["written"]))
            if entry["answered"]:
                self.answered.add(entry["came"])
                self.longest = max(self.longest, float(entry["written"]))
            elif entry["calls"] and entry["written"]:
                self.lost += 1
        else:
            self.failures[entry["failed"]] = NoAnswer(entry["reason"], entry["detail"])

    def close_earlier(self) -> None:
        """Count what was under way when the last run was killed, too: the most that it may have cost."""
        self.spent = sum(self.open.values(), self.spent)
        self.lost += len(self.open)
        self.open.clear()

    def _count(self, prompt: str, cost: Cost, *, answered: bool) -> None:
        self.spent += cost
        counted = {"calls": cost.calls, "read": cost.read, "written": cost.written, "answered": answered}
        self.write({"came": named(prompt), **counted})

    def _most(self, kind: Kind, prompt: str) -> Cost:
        read, written = tokens_of(kind, prompt)
        longest = self.longest if self.limited else max(written, self.longest)
        return Cost(1, max(read * self.ratio, read + self.beyond), longest)

    def _allows(self, kind: Kind, prompt: str, *, bounded: bool) -> bool:
        if self.budget is None:
            return True
        usual = self.of_kind.get(kind) or Cost(1, *tokens_of(kind, prompt))
        if self.budget.unit == "calls":
            return affordable(1, sum(self.open.values(), self.spent), usual, self.budget, self.prices) > 0
        if self.open and not (bounded and kind in self.of_kind and not self.alone):
            return False
        most = sum(map(self._worth, (self.spent, *self.open.values())))
        each = Cost(1, usual.read / usual.calls, usual.written / usual.calls)
        soon = self.spent + each.times(len(self.open))
        return most < self.budget.amount and affordable(1, soon, each, self.budget, self.prices) > 0

    def _worth(self, cost: Cost) -> float:
        assert self.budget is not None
        return cost.in_unit(self.budget.unit, self.prices)

    def _learn(self, kind: Kind, prompt: str, cost: Cost) -> None:
        """See from what an answer cost what the next ones may cost."""
        ours = tokens_of(kind, prompt)[0]
        self.ratio, self.beyond = max(self.ratio, cost.read / ours), max(self.beyond, cost.read - ours)
        if cost.written > self.longest:
            if self.lost:  # they may have been as long
                self._count("", Cost(0, 0.0, self.lost * (cost.written - self.longest)), answered=False)
            self.longest = cost.written
        self.of_kind[kind] = self.of_kind.get(kind, Cost()) + cost

    def _doubt(self, kind: Kind, cost: Cost, most: Cost) -> None:
        """Ask one at a time from here where an answer cost more than was set aside for it."""
        if self.budget is None or self.budget.unit == "calls" or self.alone or not self.limited:
            return
        self.alone = cost.written > most.written or (kind in self.of_kind and cost.read > SURE * most.read)
        if self.alone:
            self.warn(
                f"an answer took {cost.read:,.0f} tokens read and {cost.written:,.0f} written, where at most "
                f"{most.read:,.0f} and {most.written:,.0f} were set aside: the server does not keep to --max-tokens or "
                "to its own counts; so that the budget holds, one question is asked at a time from here"
            )


def named(prompt: str) -> str:
    """What stands for a prompt in the ledger."""
    return sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@contextmanager
def kept_purse(folder: Path, budget: Budget | None, prices: Prices | None) -> Iterator[Purse]:
    """A purse whose entries are kept in a run folder (`LEDGER`), so that the command goes on counting.

    A request is entered before it is sent, so one that was under way in a killed run is known, too. Each entry holds a
    checksum of itself and of all before it; what a killed run wrote half of is cut off. Raises `DataError` for a ledger
    that is not as it was written.
    """
    path, purse = folder / LEDGER, Purse(budget, prices)
    content = path.read_bytes() if path.is_file() else b""
    whole, chain = content[: content.rfind(b"\n") + 1], ""
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            entry, check = json.loads(line), chained(chain, line.rpartition(b', "check"')[0])
            if entry["check"] != check:
                raise ValueError("another checksum")
            purse.enter(entry)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path}, line {number}: not as it was written ({error}), so what was spent is not known; remove the "
                "file to count anew, from the answers that are kept"
            ) from None
        chain = check
    purse.close_earlier()
    with _appended(path, len(whole)) as file:

        def write(entry: Mapping[str, Any]) -> None:
            nonlocal chain
            begun = json.dumps(entry).encode()[:-1]
            chain = chained(chain, begun)
            try:
                file.write(begun + f', "check": "{chain}"}}\n'.encode())
            except OSError as error:
                raise BackendError(
                    f"cannot write {path}: {error.strerror}; nothing is asked that is not counted"
                ) from None

        purse.write = write
        yield purse


def chained(before: str, entry: bytes) -> str:
    return sha256(before.encode() + entry).hexdigest()[:16]


def _appended(path: Path, size: int) -> IO[bytes]:
    """A file opened to write behind its first bytes, each time at once."""
    try:
        file = path.open("r+b" if path.exists() else "w+b", buffering=0)
    except OSError as error:
        raise BackendError(f"cannot write {path}: {error.strerror}; choose another --out") from None
    file.truncate(size)
    file.seek(size)
    return file
