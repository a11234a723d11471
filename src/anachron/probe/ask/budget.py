"""What asking costs: an estimate before it starts, a budget that ends it, and what was spent."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from anachron.core.errors import ConfigError
from anachron.io.answers import Answer
from anachron.io.llm_settings import NoAnswer, check_prices
from anachron.io.untrusted import LETTERS, prompt_tokens

Kind = Literal["present", "open", "period", "choice"]
Unit = Literal["calls", "tokens", "money"]
UNITS: tuple[Unit, ...] = ("calls", "tokens", "money")
WRITTEN: Mapping[Kind, int] = {"present": 8, "open": 8, "period": 16, "choice": 5}  # tokens of a bare answer
SECONDS = 1.0  # that a call is taken to last


@dataclass(frozen=True, slots=True)
class Prices:
    """Of a million tokens read and written. Raises `ConfigError` below 0."""

    read: float
    written: float

    def __post_init__(self) -> None:
        check_prices(self.read, self.written)

    def of(self, read: float, written: float) -> float:
        return (self.read * read + self.written * written) / 1e6


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent at most, over all runs of one command. Raises `ConfigError` where it is not above 0."""

    amount: float
    unit: Unit

    def __post_init__(self) -> None:
        if not 0 < self.amount < float("inf"):
            raise ConfigError(f"budget {self.amount:g} {self.unit}: give more than 0")


def parse_budget(text: str, prices: Prices | None) -> Budget:
    """``2000 calls``, ``500k tokens``, ``1.5M tokens``, ``2.50 money``; the last needs prices. Raises `ConfigError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kM]?) ?(calls|tokens|money)", text.strip())
    if match is None:
        raise ConfigError(
            f"budget {text!r}: write a number and what it counts: '2000 calls', '500k tokens', '2.5 money'"
        )
    amount = float(match[1]) * {"": 1, "k": 1e3, "M": 1e6}[match[2]]
    unit = next(unit for unit in UNITS if unit == match[3])
    if unit == "money" and prices is None:
        raise ConfigError(f"budget {text!r}: money is counted from --price-in and --price-out; give both")
    return Budget(amount, unit)


def tokens_of(kind: Kind, prompt: str) -> tuple[float, float]:
    """About how many tokens a question has and its bare answer, without reasoning."""
    return prompt_tokens(prompt), float(WRITTEN[kind])


@dataclass(frozen=True, slots=True)
class Cost:
    """Calls, tokens read and tokens written; those of an answer whose server counts none are estimated."""

    calls: int = 0
    read: float = 0.0
    written: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.calls + other.calls, self.read + other.read, self.written + other.written)

    def times(self, number: int) -> "Cost":
        return Cost(self.calls * number, self.read * number, self.written * number)

    def in_unit(self, unit: Unit, prices: Prices | None) -> float:
        if unit == "calls":
            return self.calls
        if unit == "tokens":
            return self.read + self.written
        assert prices is not None
        return prices.of(self.read, self.written)


def expected(questions: Iterable[tuple[Kind, str]]) -> Cost:
    """What some questions cost, by `tokens_of`."""
    each = [tokens_of(kind, prompt) for kind, prompt in questions]
    return Cost(len(each), sum(read for read, _ in each), sum(written for _, written in each))


def cost_of(kind: Kind, prompt: str, reply: Answer | NoAnswer) -> Cost:
    """What one answer cost, whenever it was given; a call without an answer costs no tokens."""
    if isinstance(reply, NoAnswer):
        return Cost(1)
    read, written = reply.prompt_tokens, reply.completion_tokens
    return Cost(
        1,
        tokens_of(kind, prompt)[0] if read is None else read,
        len(reply.text + (reply.reasoning or "")) / LETTERS if written is None else written,
    )


def cost_lines(
    number: int, noun: str, least: Cost, most: Cost, concurrency: int, budget: Budget | None, prices: Prices | None
) -> list[str]:
    """What asking will cost, in words. number, noun: of what it is about. concurrency: questions at a time."""
    minutes = [cost.calls * SECONDS / 60 / concurrency for cost in (least, most)]
    calls = f"{most.calls:,} calls"
    if least != most:
        calls = f"{least.calls:,} to {calls}, at most {most.calls / number:.0f} per {noun}"
    lines = [
        f"{number:,} {noun}s: {calls}",
        f"about {least.read:,.0f} to {most.read:,.0f} tokens read and {least.written:,.0f} to {most.written:,.0f} "
        "written (assuming four letters per token and bare answers); a reasoning model writes many times as much",
        f"about {minutes[0]:,.1f} to {minutes[1]:,.1f} minutes at {SECONDS:g} s per call, {concurrency} at a time",
    ]
    if prices is not None:
        low, high = (prices.of(cost.read, cost.written) for cost in (least, most))
        lines.append(f"price: about {low:,.4f} to {high:,.4f}")
    if budget is not None:
        lines.append(f"it stops at {budget.amount:g} {budget.unit}")
    return lines


def affordable(questions: int, spent: Cost, ahead: Cost, budget: Budget | None, prices: Prices | None) -> int:
    """How many of the next questions can be paid, at what all of them are expected to cost together (ahead)."""
    if budget is None:
        return questions
    left = budget.amount - spent.in_unit(budget.unit, prices)
    each = ahead.in_unit(budget.unit, prices) / ahead.calls
    return questions if each == 0 else max(0, min(questions, int(left / each)))
