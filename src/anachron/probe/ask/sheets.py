"""A fact's questions written out in full, so that another tool can ask them; and what its answers come to.

A sheet is a record of plain values that needs no other: every prompt as it is put to a model, the names that an answer
may give, the matches in the order in which they are asked. From the same answers `sheet_scores` and `summary` give the
numbers of `anachron.probe.ask.tables`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from anachron.analysis.statistics import interval_cells, korn_graubard
from anachron.core.several_periods import periods_text
from anachron.io.answers import Answer
from anachron.io.files import Json
from anachron.io.llm_settings import NoAnswer
from anachron.probe.ask.asking import correct_chosen
from anachron.probe.ask.estimator import bounds, estimate_fact, mean_over_facts, position_bias, weighted
from anachron.probe.ask.matching import UNREAD, read_choice, read_name
from anachron.probe.ask.questions import FactToAsk, Questions
from anachron.probe.ask.sampling import Call, Match, Matches, by_fact, first_in, score_in
from anachron.probe.ask.tables import NAMED, RIGHT, named_outcome

ORDERS = (True, False)  # the correct year named first, then second
OPEN = {name: f"open_{name.replace(' ', '_')}" for name in NAMED} | dict.fromkeys(UNREAD, "open_unread")


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """names: name -> object that it stands for. right: the objects that hold in the year."""

    year: str
    prompt: str
    names: Mapping[str, str]
    right: Collection[str]

    def outcome(self, reply: Answer | NoAnswer) -> str:
        """What an answer comes to: `anachron.probe.ask.tables.open_outcome`."""
        return named_outcome(read_name(reply, self.names), self.right)


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """years: as the prompt names them, in its order."""

    prompt: str
    years: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The questions about one fact."""

    matches: Matches
    choices: Mapping[Call, ChoiceQuestion]
    open: tuple[OpenQuestion, ...]

    def chosen(self, call: Call, reply: Answer | NoAnswer) -> bool | None:
        """Whether an answer chooses the correct year; None where it chooses none."""
        return correct_chosen(call, read_choice(reply, self.choices[call].years))


def write_sheet(questions: Questions, fact: FactToAsk) -> Json:
    """The sheet of a fact, as JSON; `read_sheet` reads it."""
    strata = []
    for size, drawn in zip(fact.matches.sizes, fact.matches.drawn, strict=True):
        matches = []
        for match in drawn:
            calls = [Call(match, first) for first in ORDERS]
            matches.append({
                "correct": match.correct, "incorrect": match.incorrect, "alpha": match.alpha,
                "prompts": [questions.choice_prompt(fact, call) for call in calls],
                "years": [list(questions.years(call)) for call in calls],
            })  # fmt: skip
        strata.append({"matches": size, "drawn": matches})
    names = questions.names(fact.group)
    return {
        "fact_id": fact.fact_id, "subject": fact.subject, "relation": fact.relation, "object": fact.object,
        "periods": periods_text(fact.periods), "question": fact.question,
        "open": [
            {
                "year": year, "prompt": questions.open_prompt(question), "names": names,
                "right": sorted({fact.object, *questions.holders(fact.group, year)}),
            }
            for year, question in fact.open
        ],
        "strata": strata,
    }  # fmt: skip


def read_sheet(record: Json) -> Sheet:
    """The sheet that `write_sheet` wrote."""
    drawn, choices = [], {}
    for stratum, content in enumerate(record["strata"]):
        matches = []
        for item in content["drawn"]:
            match = Match(record["fact_id"], stratum, item["correct"], item["incorrect"], item["alpha"])
            matches.append(match)
            for correct_first, prompt, (one, other) in zip(ORDERS, item["prompts"], item["years"], strict=True):
                choices[Call(match, correct_first)] = ChoiceQuestion(prompt, (one, other))
        drawn.append(tuple(matches))
    sizes = tuple(content["matches"] for content in record["strata"])
    opened = tuple(OpenQuestion(one["year"], one["prompt"], one["names"], one["right"]) for one in record["open"])
    return Sheet(Matches(record["fact_id"], sizes, tuple(drawn)), choices, opened)


def sheet_scores(sheet: Sheet, chosen: Mapping[Call, bool | None], opened: Sequence[str]) -> dict[str, float | None]:
    """What the answers about a fact come to.

    chosen: of each choice that was asked, `Sheet.chosen`. opened: the outcomes of its open questions. ``win_rate``
    (0 to 1) and its interval, ``matches`` that could be read, ``won_all`` (0 or 1), ``first_chosen``: how often the
    year that is named first is chosen (0 to 1); None where no match could be read. ``open_*``: numbers of questions.
    """
    strata, first = (
        by_fact([sheet.matches], {call.match: of(call.match, chosen) for call in chosen})[sheet.matches.fact_id]
        for of in (score_in, first_in)
    )
    found = estimate_fact(strata)
    lost, won = bounds(sheet.matches, chosen) or (None, None)
    counts = dict.fromkeys(OPEN.values(), 0.0)
    for outcome in opened:
        counts[OPEN[outcome]] += 1
    if found is None:
        known: dict[str, float | None] = dict.fromkeys(("win_rate", "win_rate_low", "win_rate_high", "won_all"))
    else:
        known = {
            "win_rate": found.win_rate,
            "win_rate_low": found.low,
            "win_rate_high": found.high,
            "won_all": float(found.won_all),
        }
    known |= {"win_rate_lost": lost, "win_rate_won": won}
    return {**known, "matches": found.matches if found else 0, "first_chosen": weighted(first), **counts}


def summary(scores: Sequence[Mapping[str, float | None]], subjects: Sequence[str]) -> dict[str, float | None]:
    """What all facts come to: W, R_k and the bias of position with intervals, and the share of right open answers.

    scores: of each fact `sheet_scores`. subjects: those of the facts. Keys and values are those of
    `anachron.probe.ask.tables.summary_of`.
    """
    known = [place for place, one in enumerate(scores) if one["win_rate"] is not None]
    asked, of_asked = [scores[place] for place in known], [subjects[place] for place in known]
    won = [one["won_all"] == 1 for one in asked]
    bias = position_bias((one["first_chosen"] for one in asked), of_asked)
    opened = {name: sum(one[OPEN[name]] or 0 for one in scores) for name in NAMED}
    ends = {f"win_rate_{end}": _mean(one[f"win_rate_{end}"] for one in scores) for end in ("lost", "won")}
    return {
        "facts": len(scores),
        "facts_with_choices": len(asked),
        **mean_over_facts((one["win_rate"] for one in asked), of_asked).cells("win_rate"),
        **ends,
        "won_all": sum(won) / len(asked) if asked else None,
        **interval_cells("won_all", korn_graubard(won, of_asked)),
        **bias.cells("position_bias"),
        "open_right": opened[RIGHT] / sum(opened.values()) if sum(opened.values()) else None,
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
