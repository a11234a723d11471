"""Decoys of a model that only answers: recounted from its answers, and what nobody can win by a taste for years."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import anachron
from anachron.core.draws import draw
from anachron.data.dataset import Dataset
from anachron.data.decoys import with_decoys, without_decoys
from anachron.io.run_folder import reopen_run
from anachron.probe.ask.asking import AskSettings
from anachron.probe.ask.budget import Budget
from anachron.probe.ask.questions import decoys_to_ask
from anachron.probe.ask.run import ANSWERS_FILE, AnswerRun, read_answers
from anachron.probe.ask.sampling import LEAST_ROUNDS
from anachron.probe.ask.verdicts import answer_verdicts
from anachron.probe.by_answers import ByAnswers
from anachron.probe.check.verdicts import doubt_in_words
from anachron.probe.questions import questions_of_data
from support import asked_runs
from support.asked_runs import Scripted

CHOICE = re.compile(r"Question: (.+)\nAnswer: (.+)\nIn which year .*, (.+) or (.+)\?", re.DOTALL)
PERIOD = re.compile(r"Question: (.+)\nAnswer: (.+)\nFrom when", re.DOTALL)
DECLINED = "I do not know"
Liking = Callable[[str, str, int], float]  # of a question, an answer and a year, in nats


@cache
def data(facts: int) -> Dataset:
    return with_decoys(anachron.load_dataset("mini", limit=facts), 5)


@cache
def held(facts: int) -> dict[tuple[str, str], tuple[int, int, str]]:
    """Question and object -> first and last year, and the period in words."""
    rows = data(facts).table.filter(pl.col("time").is_null()).select("prompt", "object_label", "start", "end").rows()
    return {
        (question, name): (int(start[:4]), int(end[:4]) if end else 2100, f"{start[:4]} to {(end or 'today')[:4]}")
        for question, name, start, end in rows
    }


def uniform(*about: object) -> float:
    return draw(*about) % 10**9 / 10**9


def year_of(words: str) -> int:
    """Of ``1998``, ``AD 44`` or ``44 BC``."""
    number = re.search(r"\d+", words)
    assert number is not None
    return -int(number[0]) if words.endswith("BC") else int(number[0])


def who(
    liking: Liking, period: Callable[[str, str], str] | None = None, declines: Callable[[str, str], bool] | None = None
) -> Callable[[str], str]:
    """Who chooses a year as often as it likes it better."""

    def script(text: str) -> str:
        asked = PERIOD.search(text) or CHOICE.search(text)
        assert asked is not None, text
        if declines is not None and declines(asked[1], asked[2]):
            return DECLINED
        if PERIOD.search(text):
            return DECLINED if period is None else period(asked[1], asked[2])
        first, second = (liking(asked[1], asked[2], year_of(asked[place])) for place in (3, 4))
        better = second - first
        return asked[4] if uniform("coin", text) < 1 / (1 + math.exp(-max(-50.0, min(50.0, better)))) else asked[3]

    return script


def era(*about: object) -> int:
    return 1900 + int(120 * uniform("era", *about))


def wandering(question: str, answer: str, year: int) -> float:
    return sum(math.sin(year / length + 6.28 * uniform(question, answer, length)) for length in (3, 7, 15, 40))


def knowing(facts: int) -> Callable[[str], str]:
    """Who knows all periods of so many facts, and throws a coin about everybody else."""
    known = held(facts)

    def liking(question: str, answer: str, year: int) -> float:
        start, end, _ = known.get((question, answer), (0, 0, ""))
        return 9.0 * (start <= year <= end)

    return who(liking, lambda question, answer: known.get((question, answer), (0, 0, DECLINED))[2])


def ask(script: Callable[[str], str], folder: Path, facts: int, **settings: object) -> AnswerRun:
    ways = AskSettings(**({"ways": ("choice", "period")} | settings))  # type: ignore[arg-type]
    return ByAnswers(Scripted("somebody", script), ways).probe(data(facts), folder)


IGNORANT: dict[str, Callable[[int], Callable[[str], str]]] = {
    "coin": lambda facts: who(lambda question, answer, year: 0),
    "later": lambda facts: who(lambda question, answer, year: year, lambda question, answer: "2015 to today"),
    "rather later": lambda facts: who(lambda question, answer, year: year / 10),
    "earlier": lambda facts: who(lambda question, answer, year: -year),
    "round years": lambda facts: who(lambda question, answer, year: 3.0 * (year % 10 == 0)),
    "own slopes": lambda facts: who(lambda question, answer, year: (2 * uniform(question, answer) - 1) * year),
    "own eras": lambda facts: who(
        lambda question, answer, year: -abs(year - era(question, answer)),
        lambda question, answer: f"{era(question, answer) - 5} to {era(question, answer) + 5}",
    ),
    "eras of subjects": lambda facts: who(
        lambda question, answer, year: -abs(year - era(question)),
        lambda question, answer: f"{era(question) - 5} to {era(question) + 5}",
    ),
    "wandering": lambda facts: who(lambda question, answer, year: 5 * wandering(question, answer, year)),
    "later, declines half": lambda facts: who(
        lambda question, answer, year: year, declines=lambda question, answer: uniform(question, answer) < 0.5
    ),
    # knows who held, but not when
    "later, declines decoys": lambda facts: who(
        lambda question, answer, year: year,
        declines=lambda question, answer: (question, answer) not in held(facts) and uniform(question, answer) < 0.9,
    ),
}


def verdicts(run: AnswerRun) -> Counter[str]:
    return Counter(answer_verdicts(run.facts)["verdict"].drop_nulls())


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["later", "own eras", "later, declines decoys"])
def test_a_taste_for_years_is_no_knowledge(name: str, tmp_path: Path) -> None:
    found = verdicts(ask(IGNORANT[name](40), tmp_path / "run", 40))
    assert found.total() >= 38 and found["unknown"] >= 0.95 * found.total()
    assert not found["known"] and not found["robust"]


@pytest.mark.full
@pytest.mark.share(2)
@pytest.mark.parametrize("name", IGNORANT)
def test_of_who_knows_nothing_one_in_twenty_is_more_than_unknown_at_most(name: str, tmp_path: Path) -> None:
    found = verdicts(ask(IGNORANT[name](240), tmp_path / "run", 240))
    above = 1 - found["unknown"] / found.total()
    print(f"{name}: {100 * above:.1f} % above unknown, {found}")
    assert above <= 0.05 and found["known"] + found["robust"] <= 0.01 * found.total()


def test_who_knows_is_known_and_without_decoys_nobody_is(tmp_path: Path) -> None:
    run = ask(knowing(40), tmp_path / "run", 40)
    found = verdicts(run)
    assert found["known"] + found["robust"] >= 0.85 * found.total()
    assert run.summary["difference"] > 0.4 and run.summary["difference_low"] > 0.2
    assert 0.4 < run.summary["later"] < 0.6 and run.summary["decoys_read"] > 0.9
    settings = AskSettings(ways=("choice", "period"))
    alone = ByAnswers(Scripted("somebody", knowing(40)), settings).probe(without_decoys(data(40)), tmp_path / "alone")
    assert {*verdicts(alone)} == {"unknown"} and "decoys" not in alone.summary
    row = answer_verdicts(alone.facts).filter(pl.col("win_rate") == 1).row(0, named=True)
    assert doubt_in_words(row) == "no decoys to compare with"
    both = run.facts.join(alone.facts, on="fact_id")  # decoys take nothing from the facts
    assert both["win_rate"].equals(both["win_rate_right"], null_equal=True) and both.height == alone.facts.height


@pytest.mark.share(2)
@pytest.mark.full
@pytest.mark.parametrize(("declines", "least"), [(False, 0.85), (True, 0.5)])
def test_how_many_facts_of_who_knows_them_all_are_known(declines: bool, least: float, tmp_path: Path) -> None:
    def honest(text: str) -> str:
        asked = PERIOD.search(text) or CHOICE.search(text)
        assert asked is not None
        return DECLINED if declines and (asked[1], asked[2]) not in held(240) else knowing(240)(text)

    found = verdicts(ask(honest, tmp_path / "run", 240))
    share = (found["known"] + found["robust"]) / found.total()
    print(
        f"knows all, {'declines' if declines else 'guesses about'} decoys: {100 * share:.0f} % known or robust, {found}"
    )
    assert share >= least


def test_a_check_asks_about_enough_decoys_by_itself(tmp_path: Path) -> None:
    found = asked_runs.ask(tmp_path / "run", "somebody", asked_runs.known, rounds=3, decoys=True)
    assert {*found.verdicts["verdict"]} == {"known"} and found.summary["answers"]["decoys"] >= 100


@pytest.mark.full
def test_more_decoys_are_asked_about_only_while_a_fact_may_be_told(tmp_path: Path) -> None:
    later = ask(IGNORANT["later"](40), tmp_path / "later", 40)
    assert later.summary["decoys"] == 25  # the first few do as well as every fact
    known = ask(knowing(40), tmp_path / "known", 40)
    assert known.summary["decoys"] == len(questions_of_data(data(40)).decoys) >= 100


def recounted(run: AnswerRun, facts: int) -> dict[str, dict[str, float | None]]:
    """What decoys say of each fact, by loops over the answers: of matches asked in both orders, on each side."""
    years = (
        data(facts).table.filter(pl.col("granularity") == "year").select("fact_id", "time", "status", "alpha").rows()
    )
    status = {(fact, time): state for fact, time, state, _ in years}
    alphas = {(fact, time): alpha for fact, time, _, alpha in years}
    said: dict[tuple[str, str | None], dict[tuple[str, str], list[float | None]]] = defaultdict(dict)
    for row in run.answers.filter(pl.col("kind") == "choice").iter_rows(named=True):
        one, two = row["years"].split()
        right = one if status[row["fact_id"], one] == "correct" else two
        chosen = {"first year": one, "second year": two}.get(row["outcome"])
        pair = (right, two if right == one else one)
        answers = said[row["fact_id"], row["decoy"]].setdefault(pair, [])
        answers.append(None if chosen is None else float(chosen == right))
    sides: dict[tuple[str, str | None], dict[bool, list[float]]] = {}
    rates: dict[tuple[str, str | None], float | None] = {}
    for key, matches in said.items():
        of_side: dict[bool, list[float]] = defaultdict(list)
        strata: dict[int, list[float]] = defaultdict(list)
        for (right, wrong), answers in matches.items():
            assert len(answers) == 2
            of_side[int(wrong) > int(right)].append(sum(one or 0.0 for one in answers) / 2)
            if None not in answers:
                alpha = abs(alphas[key[0], wrong])
                strata[0 if alpha <= 1 else 1 if alpha <= 2 else 2].append(sum(answers) / 2)  # type: ignore[arg-type]
        sides[key] = {side: scores for side, scores in of_side.items() if len(scores) >= 3}
        sizes: Counter[int] = Counter()
        for fact, _, state, alpha in years:
            if fact == key[0] and state == "incorrect":
                sizes[0 if abs(alpha) <= 1 else 1 if abs(alpha) <= 2 else 2] += 1
        weight = sum(sizes[stratum] for stratum in strata)
        means = {stratum: sum(scores) / len(scores) for stratum, scores in strata.items()}
        rates[key] = sum(sizes[stratum] * mean for stratum, mean in means.items()) / weight if strata else None
    found: dict[str, dict[str, float | None]] = {}
    for fact, decoy in sides:
        if decoy is not None:
            continue
        own = {side: sum(scores) / len(scores) for side, scores in sides[fact, None].items()}
        as_good = of = 0
        for (_, name), others in sides.items():
            if name is None or not {*others} >= {*own} or sum(len(others[side]) for side in own) < 4:
                continue
            of += 1
            as_good += (
                min(sum(others[side]) / len(others[side]) for side in own) >= min(own.values()) - 1e-9 if own else 0
            )
        mine = [
            rate for (about, name), rate in rates.items() if about == fact and name is not None and rate is not None
        ]
        found[fact] = {
            "weaker_side": min(own.values(), default=None), "chance": (1 + as_good) / (1 + of) if own and of else None,
            "ranked_among": of if own else 0, "decoys": len(mine),
            "decoy_win_rate": sum(mine) / len(mine) if mine else None,
        }  # fmt: skip
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["wandering", "rather later", "coin"])
def test_the_chance_of_a_fact_recounted_from_the_answers(name: str, tmp_path: Path) -> None:
    run = ask(IGNORANT[name](30), tmp_path / "run", 30)
    again = recounted(run, 30)
    assert len(again) >= 28
    for row in run.facts.filter(pl.col("fact_id").is_in([*again])).iter_rows(named=True):
        for column, value in again[row["fact_id"]].items():
            assert row[column] == (value if value is None else pytest.approx(value, abs=1e-12)), (row["object"], column)
    means = run.facts.drop_nulls(["win_rate", "decoy_win_rate"])
    assert run.summary["decoy_win_rate"] == pytest.approx(means["decoy_win_rate"].mean())
    assert run.summary["difference"] == pytest.approx((means["win_rate"] - means["decoy_win_rate"]).mean())


@pytest.mark.full
def test_where_most_about_decoys_is_declined_one_side_says_nothing(tmp_path: Path) -> None:
    script = who(
        lambda question, answer, year: year, declines=lambda question, answer: (question, answer) not in held(40)
    )
    run = ask(script, tmp_path / "run", 40)
    assert run.summary["decoys_read"] == 0 and "difference" not in run.summary
    one_sided = {fact.fact_id for fact in questions_of_data(data(40)).facts if len(fact.matches.sides(rounds=6)) == 1}
    table = run.facts.filter(pl.col("fact_id").is_in([*one_sided]) & (pl.col("win_rate") == 1))
    assert table.height and table["chance"].null_count() == table.height


def test_the_sample_of_decoys() -> None:
    questions = questions_of_data(data(40))
    names = {fact.fact_id: [f"{fact.fact_id} {place}" for place in range(9)] for fact in questions.facts}
    few = decoys_to_ask(questions.facts, names, 10)
    first = {fact.fact_id for fact in questions.facts[:10]}
    assert {one.fact_id for one in few if one.decoy == f"{one.fact_id} 0"} >= first  # a fair sample, by ids
    wanted = {tuple(sorted(fact.matches.sides(LEAST_ROUNDS))) for fact in questions.facts} - {()}
    for sides in wanted:
        able = [
            one for one in few
            if {*sides} <= {*(counts := one.matches.sides(LEAST_ROUNDS))} and sum(counts[side] for side in sides) > 3
        ]  # fmt: skip
        assert len(able) >= 10
    assert len(few) <= 10 * (1 + len(wanted))
    for one in few:
        fact = next(fact for fact in questions.facts if fact.fact_id == one.fact_id)
        years = [[(match.correct, match.incorrect) for match in drawn] for drawn in one.matches.drawn]
        assert years == [[(match.correct, match.incorrect) for match in drawn] for drawn in fact.matches.drawn]
    assert decoys_to_ask(questions.facts, {}) == ()


@pytest.mark.full
def test_decoys_count_in_the_budget_and_are_asked_on_with_a_larger_one(tmp_path: Path) -> None:
    whole = ask(knowing(8), tmp_path / "whole", 8)
    some = whole.answers.filter(pl.col("decoy").is_null()).height  # what the facts alone need
    calls = some + 60
    part = ask(knowing(8), tmp_path / "run", 8, budget=Budget(calls, "calls"))
    assert part.summary["budget_ended"] and part.summary["calls"] == calls
    assert 0 < part.summary["decoys"] < whole.summary["decoys"]
    again = ask(knowing(8), tmp_path / "run", 8, budget=Budget(10**6, "calls"))
    assert again.answers.equals(whole.answers) and again.facts.equals(whole.facts)


def test_answers_of_before_decoys_are_read(tmp_path: Path) -> None:
    run = ask(knowing(4), tmp_path / "run", 4)
    assert read_answers(run.folder).equals(run.answers)
    with reopen_run(run.folder) as folder:
        folder.write_table(ANSWERS_FILE, run.answers.drop("decoy"))
    table = read_answers(run.folder)
    assert table.columns == run.answers.columns and table["decoy"].null_count() == table.height
