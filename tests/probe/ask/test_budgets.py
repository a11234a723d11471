"""A budget against servers that fail, lie and write at length: what they served is counted, and bounded."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.cli.main import run_command
from anachron.core.errors import DataError
from anachron.io.answers import Answer
from anachron.io.jobs import Callbacks
from anachron.io.llm_settings import NoAnswer
from anachron.io.untrusted import MOST_COUNTED, believed
from anachron.probe.ask.asking import Asking, AskSettings, Question
from anachron.probe.ask.budget import Budget, Kind, Prices, Unit, tokens_of
from anachron.probe.ask.matching import Reading
from anachron.probe.ask.purse import LEDGER, Purse, kept_purse
from support.asked_runs import FACTS
from support.llm_server import Reply, Server, chat, error, prompt_of, serving

needs_llm = pytest.mark.skipif(find_spec("openai") is None, reason="needs the extra llm")


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.csv"
    path.write_text(FACTS)
    return path


def words(url: str, facts: Path, out: Path, *more: object) -> list[str]:
    return [
        "check", "gpt-like", "--backend", "chat", "--base-url", url, "--facts", str(facts), "--out", str(out),
        "--as-of", "2025-11-22", "--pause", "0.001", "--timeout", "5", "--no-page", "--decoys", "0", *map(str, more),
    ]  # fmt: skip


def check(server: Server, facts: Path, out: Path, *more: object) -> int:
    return run_command(words(server.url, facts, out, *more), False)


# The rule against a simulated server


@st.composite
def worlds(draw: st.DrawFn) -> tuple:
    kinds: list[Kind] = draw(
        st.lists(st.sampled_from(["present", "open", "period", "choice"]), min_size=1, max_size=40)
    )
    prompts = {f"{place} {'x' * draw(st.integers(0, 400))}": kind for place, kind in enumerate(kinds)}
    limit = draw(st.none() | st.integers(1, 2000))
    unit: Unit = draw(st.sampled_from(["calls", "tokens", "money"]))
    amount = draw(st.integers(1, 60) if unit == "calls" else st.floats(1, 20_000))
    return prompts, limit, unit, amount, draw(st.floats(1, 3)), draw(st.integers(0, 500)), draw(st.integers(1, 8))


@given(worlds(), st.randoms(use_true_random=False))
def test_what_a_server_served_is_within_the_budget_and_one_call(world: tuple, random) -> None:
    """Requests end in any order, some are asked again, some vanish with what was written; told by plain addition."""
    prompts, limit, unit, amount, times, around, concurrency = world
    prices = Prices(2e5, 8e5)
    purse = Purse(Budget(amount, unit), prices, kinds=dict(prompts))

    def worth(read: float, written: float) -> float:
        return {"calls": 1, "tokens": read + written, "money": (2e5 * read + 8e5 * written) / 1e6}[unit]

    waiting, running, served, most, tries = list(prompts), [], 0.0, 0.0, dict.fromkeys(prompts, 0)
    answered: dict[Kind, list[float]] = {}
    while waiting or running:
        if waiting and len(running) < concurrency and purse.take(waiting[0], limit):
            kind = prompts[waiting[0]]
            running.append(waiting.pop(0))
            # until an answer of the kind is there, and without a limit, nobody is beside it
            assert unit == "calls" or len(running) == 1 or (limit is not None and kind in answered)
            continue
        if not running:
            break
        prompt = running.pop(random.randrange(len(running)))
        read = round(times * tokens_of(prompts[prompt], prompt)[0]) + around
        written = random.randint(0, limit or 5000)
        came = random.choice(["answer", "answer", "answer", "nothing", "refused", "unknown"])
        tries[prompt] += 1
        if came == "answer":
            cost = worth(read, written)
            purse.settle(prompt, Answer("a", "stop", None, read, written, None))
            answered.setdefault(prompts[prompt], []).append(cost)
        else:
            at_most = purse.open[prompt]
            cost = worth(min(read, at_most.read), min(written, at_most.written)) if came == "unknown" else 0.0
            cost = max(cost, float(unit == "calls" and came != "nothing"))
            purse.settle(prompt, came)
            if tries[prompt] < 4:
                waiting.insert(0, prompt)
        served, most = served + cost, max(most, worth(read, limit or written))
    assert served <= amount + (0 if unit == "calls" else most) + 1e-6
    if waiting:  # it did not end too early
        kind = prompts[waiting[0]]
        mine = answered.get(kind, [worth(*tokens_of(kind, waiting[0]))])
        rest = amount - purse.spent.in_unit(unit, prices)
        assert rest < sum(mine) / len(mine) + 1e-6
    assert purse.idle or unit == "calls" or not running


# Real servers


def lengthy(tokens: int):
    return lambda request, number: chat("unknown", usage=(100, tokens))


@needs_llm
@pytest.mark.few(1)
@pytest.mark.parametrize("more", [(), ("--max-tokens", 50)])
@pytest.mark.parametrize(
    ("budget", "tokens", "amount"),
    [("20k tokens", 3000, 20_000), ("1 money", 9000, 1e6 / 100)],
    ids=["tokens", "money"],
)
def test_long_answers_overdraw_a_budget_by_one_call_at_most(
    facts: Path,
    tmp_path: Path,
    budget: str,
    tokens: int,
    amount: float,
    more: tuple,
    capsys: pytest.CaptureFixture[str],
):
    """Also where the server passes over ``--max-tokens``, which shows in its first answer. Seen: 762,500 for 20,000."""
    with serving(lengthy(tokens)) as server:
        prices = ("--price-in", 100, "--price-out", 100)
        check(server, facts, tmp_path / "run", "--budget", budget, *prices, *more)
        served = len(server.requests) * (100 + tokens)
        assert amount - (100 + tokens) < served <= amount + 100 + tokens and server.most == 1
        check(server, facts, tmp_path / "run", "--budget", budget, *prices, *more)
        assert len(server.requests) * (100 + tokens) == served
    told = " ".join(capsys.readouterr().err.split())
    assert ("does not keep to --max-tokens" in told) is bool(more)
    assert ("one question at a time, since an answer may have any length" in told) is not bool(more)


@needs_llm
@pytest.mark.full
def test_with_a_limit_that_is_kept_many_are_asked_at_once(facts: Path, tmp_path: Path):
    def slowly(request: dict, number: int) -> Reply:
        time.sleep(0.005)
        assert request["max_tokens"] == 40
        return chat("unknown", usage=(100, 40))

    with serving(slowly) as server:
        check(server, facts, tmp_path / "run", "--budget", "10k tokens", "--max-tokens", 40, "--concurrency", 6)
        assert 1 < server.most <= 6
        assert 10_000 - 140 < len(server.requests) * 140 <= 10_000 + 140


@pytest.mark.share(2)
@needs_llm
@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["500", "cut", "page", "refused", "limit"])
def test_a_retry_is_a_call_over_all_runs(facts: Path, tmp_path: Path, kind: str):
    """Seen: "20 calls" sent 45, and then 30 more."""

    def script(request: dict, number: int) -> Reply:
        if kind == "limit" and "max_tokens" in request:
            return error(400, "Unsupported parameter: use 'max_completion_tokens'", param="max_tokens")
        if kind == "limit" or number % 3 == 0 or (kind == "refused" and number < 8):  # the first refusals end a run
            return chat("1998")
        pages = {"cut": Reply(raw=b"x" * 500, cut=True), "page": Reply(raw=b"<html>", status=200)}
        return pages[kind] if kind in pages else error(400 if kind == "refused" else 500)

    more = ("--budget", "20 calls", "--tries", 3, "--max-tokens", 9)
    with serving(script) as server:
        codes = [check(server, facts, tmp_path / "run", *more) for _ in range(3)]
        assert len(server.requests) == 20
        assert len(set(codes)) == 1
        check(server, facts, tmp_path / "run", "--budget", "31 calls", *more[2:])
        assert len(server.requests) == 31


@needs_llm
def test_the_same_command_says_the_same_when_its_budget_is_spent(facts: Path, tmp_path: Path):
    """Also of questions that had no answer, which are not asked again: why is kept."""

    def script(request: dict, number: int) -> Reply:
        return error(400, "not this one") if "Scholz" in prompt_of(request) else chat("1998")

    with serving(script) as server:
        check(server, facts, tmp_path / "run", "--budget", "30 calls")
        assert len(server.requests) == 30
        before = [(tmp_path / "run" / name).read_bytes() for name in ("answers.jsonl", "facts.csv", "ask.json")]
        check(server, facts, tmp_path / "run", "--budget", "30 calls")
        assert len(server.requests) == 30
    assert before == [(tmp_path / "run" / name).read_bytes() for name in ("answers.jsonl", "facts.csv", "ask.json")]
    assert any(b"unanswered" in content for content in before)


@needs_llm
@pytest.mark.full
def test_requests_turned_away_unserved_are_free(facts: Path, tmp_path: Path):
    def script(request: dict, number: int) -> Reply:
        return error(429, headers={"retry-after": "0"}) if number % 2 else chat("1998")

    with serving(script) as server:
        check(server, facts, tmp_path / "run", "--budget", "10 calls", "--concurrency", 1)
        assert sum(1 for number in range(len(server.requests)) if number % 2 == 0) == 10


@needs_llm
@pytest.mark.full
def test_a_killed_run_has_paid_for_what_was_under_way(facts: Path, tmp_path: Path):
    def script(request: dict, number: int) -> Reply:
        time.sleep(0.05)
        return chat("1998")

    with serving(script) as server:
        line = words(server.url, facts, tmp_path / "run", "--budget", "25 calls", "--concurrency", 4)
        for sent in (6, 12, 18):
            process = subprocess.Popen(
                [sys.executable, "-c", "from anachron.cli.entry import run; run()", *line], stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, env=os.environ,
            )  # fmt: skip
            while len(server.requests) < sent and process.poll() is None:
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.wait()
        run_command(line, False)
        # what was about to be sent when it was killed counts, too, so fewer may be sent; never more
        assert 25 - 3 * 4 <= len(server.requests) <= 25


IMPOSSIBLE = [0, -5, True, False, 10**30, 1e400, float("nan"), "many", [3], {}, 2.5, MOST_COUNTED + 1]


@pytest.mark.share(2)
@needs_llm
@pytest.mark.few(1)
@pytest.mark.parametrize("count", IMPOSSIBLE, ids=repr)
def test_counts_that_cannot_be_are_our_own_with_a_warning(
    facts: Path, tmp_path: Path, count: object, capsys: pytest.CaptureFixture[str]
):
    def script(request: dict, number: int) -> Reply:
        body = json.loads(chat("It was in the year 1998, as I said.").data)
        body["usage"] = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": count}
        return Reply(body=body)

    with serving(script) as server:
        check(server, facts, tmp_path / "run", "--budget", "1k tokens", "--ways", "choice")
        assert 10 <= len(server.requests) <= 20
        check(server, facts, tmp_path / "run", "--budget", "30 calls", "--ways", "choice")
    told = " ".join(capsys.readouterr().err.split())
    assert told.count("as prompt_tokens, which cannot be; our estimate is recorded") == 2  # once a run
    answers = pl.read_ndjson(tmp_path / "run" / "answers.jsonl", infer_schema_length=None)
    ours = [-(-(40 + len(prompt)) // 4) for prompt in answers["prompt"]]
    assert answers["prompt_tokens"].to_list() == ours and set(answers["completion_tokens"]) == {9}


def test_counts_that_can_be_are_the_servers():
    answer = Answer("a year" * 40, "stop", None, 30, 900, "m", "thought")
    assert believed(answer, "who is it?" * 30) == (answer, {})
    none = Answer("", "stop", None, None, None, None)
    assert believed(none, "who?") == (none, {})
    long, faults = believed(Answer("x" * 3200, "stop", None, 300, 1, None), "who?")
    assert long.completion_tokens == 800 and list(faults) == ["completion_tokens"]


@needs_llm
@pytest.mark.full
def test_a_count_that_an_earlier_version_kept_raw_does_no_harm(facts: Path, tmp_path: Path):
    """Such a folder could not be read any more."""
    with serving(lambda request, number: chat("1998")) as server:
        check(server, facts, tmp_path / "run", "--rounds", 1)
        count = len(server.requests)
        for path in (tmp_path / "run" / "answers").rglob("*.json"):
            kept = json.loads(path.read_text())
            if "sha256" not in kept:  # which later versions refuse where it is altered
                kept["answer"]["prompt_tokens"] = 10**30
                path.write_text(json.dumps(kept))
        (tmp_path / "run" / LEDGER).unlink()
        assert check(server, facts, tmp_path / "run", "--rounds", 1, "--budget", "900k tokens") == 0
        assert len(server.requests) == count


class Noting:
    """Answers without requests, in a folder of its own, as a local model does; ``asked``: how many at a time."""

    name, most_tokens = "local", 9

    def __init__(self) -> None:
        self.asked: list[int] = []

    def identity(self) -> dict:
        return {}

    def answers(self, prompts: list[str], callbacks: Callbacks) -> list[Answer]:
        self.asked.append(len(prompts))
        return [Answer("x", "stop", None, 20, 9, None) for _ in prompts]


@pytest.mark.parametrize(("budget", "count"), [(Budget(7, "calls"), 7), (Budget(100, "tokens"), 3), (None, 30)])
def test_a_local_model_has_the_same_budgets(tmp_path: Path, budget: Budget | None, count: int):
    """Over several runs, too; what was answered before is read whatever is left."""
    questions = [Question("open", f"who was it in {1900 + year}?", lambda reply: Reading("read")) for year in range(30)]
    for _ in range(2):
        answerer = Noting()
        with kept_purse(tmp_path, budget, None) as purse:
            asking = Asking(answerer, AskSettings(budget=budget), Callbacks(), purse=purse)
            assert len(asking.ask(questions)) == count and asking.ended is (count < 30)
    assert answerer.asked == [count] and purse.spent.calls == count


# The ledger


def test_entries_survive_and_what_was_half_written_is_cut_off(tmp_path: Path):
    with kept_purse(tmp_path, Budget(9, "calls"), None) as purse:
        assert purse.take("a", 50) and purse.take("b", 50)
        purse.settle("a", Answer("x", "stop", None, 20, 4, None))
        purse.failed("c", NoAnswer("request refused", "HTTP 400: \ud800"))
    path = tmp_path / LEDGER
    with path.open("ab") as file:
        file.write(b'{"sent": "half')
    with kept_purse(tmp_path, Budget(9, "calls"), None) as purse:
        assert purse.spent.calls == 2 and purse.spent.written == 54 and purse.idle  # b is counted as its most
        assert purse.failure("c") == NoAnswer("request refused", "HTTP 400: \ud800")
        assert purse.take("b", 50)
    assert [json.loads(line).get("sent") is not None for line in path.read_bytes().splitlines()][-1]
    with kept_purse(tmp_path, None, None) as purse:
        assert purse.spent.calls == 3


def test_a_ledger_that_is_not_as_it_was_written_is_refused(tmp_path: Path):
    with kept_purse(tmp_path, None, None) as purse:
        for prompt in "abc":
            purse.take(prompt, None)
            purse.settle(prompt, Answer("x", "stop", None, 20, 4, None))
    path = tmp_path / LEDGER
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    changed = [whole.replace(b"20.0" if b"20.0" in whole else b"20", b"10", 1), b"".join(lines[1:]),
               b"".join([*lines[:2], *lines[4:]]), b"[]\n", whole + b"{}\n", b"\xff\n"]  # fmt: skip
    for content in changed:
        path.write_bytes(content)
        with (
            pytest.raises(DataError, match=r"line \d: not as it was written .* remove the file"),
            kept_purse(tmp_path, None, None),
        ):
            pass
