"""When do facts hold? An Inspect task: choices of two years in both orders, and open questions with a year.

``anachron export inspect`` copies this file into the package that it writes. A sample is one fact, and its metadata all
that is asked about it, word for word (`anachron.probe.ask.sheets`). Anachron reads the answers, so that the same ones
come to the same W as in its own runs; it loads no model here.
"""

from math import isnan, nan
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from inspect_ai.model import ChatMessageUser, GenerateConfig, ModelOutput, get_model
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from anachron.io.answers import Answer
from anachron.probe.ask.sampling import ROUNDS, Call, Read, score_of, wanted_matches
from anachron.probe.ask.sheets import ORDERS, read_sheet, sheet_scores, summary

SAMPLES = Path(__file__).with_name("samples.jsonl")
SAID = "said"  # key of the answers in a sample's store: prompt -> answer
FINISH = {"max_tokens": "length", "model_length": "length"}  # Inspect's words for an answer that was cut off


@metric
def beliefs() -> Metric:
    """What all facts come to (`anachron.probe.ask.sheets.summary`); what is not known is left out."""

    def compute(scores: list[SampleScore]) -> dict[str, float | None]:
        return summary(
            [{name: None if isnan(value) else value for name, value in one.score.value.items()} for one in scores],
            [one.sample_metadata["subject"] for one in scores],
        )

    return compute


@scorer(metrics=[beliefs()])
def dated_answers() -> Scorer:
    """What the answers about a fact come to (`anachron.probe.ask.sheets.sheet_scores`), NaN where that is not known."""

    async def score(state: TaskState, target: Target) -> Score:
        sheet = read_sheet(state.metadata)
        replies = {prompt: Answer(**fields) for prompt, fields in state.store.get(SAID).items()}
        chosen = {
            call: sheet.chosen(call, replies[choice.prompt])
            for call, choice in sheet.choices.items()
            if choice.prompt in replies
        }
        opened = [one.outcome(replies[one.prompt]) for one in sheet.open if one.prompt in replies]
        found = sheet_scores(sheet, chosen, opened)
        return Score(value={name: nan if value is None else float(value) for name, value in found.items()})

    return score


@task
def dated_facts(rounds: int = ROUNDS, open_questions: bool = True) -> Task:
    """rounds: matches that are read in each stratum of a fact, 1 to 5, two questions each. open_questions: whether
    facts are asked for by year too."""
    if not 1 <= rounds <= ROUNDS:
        raise ValueError(f"rounds {rounds}: from 1 to {ROUNDS}")
    return Task(
        dataset=json_dataset(str(SAMPLES)),
        solver=ask(rounds, open_questions),
        scorer=dated_answers(),
        config=GenerateConfig(temperature=0.0),
    )


@solver
def ask(rounds: int, open_questions: bool) -> Solver:
    """Ask all questions about a fact, each in a conversation of its own; what cannot be read makes room for another."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        sheet, model = read_sheet(state.metadata), get_model()
        said: dict[str, dict[str, Any]] = {}

        async def answer(prompt: str) -> Answer:
            question = ChatMessageUser(content=prompt)
            state.output = await model.generate([question])
            state.messages += [question, state.output.message]
            said[prompt] = kept(state.output)
            return Answer(**said[prompt])

        for question in sheet.open if open_questions else ():
            await answer(question.prompt)
        read: Read = {}
        for target in range(1, rounds + 1):
            while wanted := wanted_matches(sheet.matches, read, target):
                for match in wanted:
                    chosen = []
                    for first in ORDERS:
                        call = Call(match, first)
                        chosen.append(sheet.chosen(call, await answer(sheet.choices[call].prompt)))
                    read[match] = score_of(*chosen)
        state.store.set(SAID, said)
        return state

    return solve


def kept(output: ModelOutput) -> dict[str, Any]:
    """An answer in the fields of `anachron.io.answers.Answer`."""
    usage = output.usage
    return {
        "text": output.completion, "finish": FINISH.get(output.stop_reason, output.stop_reason), "refusal": None,
        "prompt_tokens": usage and usage.input_tokens, "completion_tokens": usage and usage.output_tokens,
        "served_by": output.model,
    }  # fmt: skip
