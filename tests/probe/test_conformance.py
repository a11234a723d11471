"""What holds of every scorer and of every answerer, wherever it computes: one suite, with what differs as flags."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from anachron.core.errors import TooLongError
from anachron.io.answers import Answer
from anachron.io.jobs import Callbacks
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.scorer import Scorer, score_texts
from anachron.lm.spans import Encoded
from anachron.lm.tokenizers import load_tokenizer
from anachron.probe.ask.asking import Answerer
from anachron.probe.backends import Backend, open_answerer, open_scorer
from support.gguf_models import make_gguf_lm, write_gguf
from support.llm_server import chat, prompt_of, serving
from support.processes import program, surroundings
from support.tiny_models import naive_log_prob

PAIRS = [
    ("In 1990, who led the country?", "Helmut Kohl"), ("In 1990, who led the country?", "Helmut Schmidt"),
    ("In 1991, who led the country?", "Helmut Kohl"), ("Who? ", "a b c"), ("In 1990, who led the country?", "Helmut"),
    ("In May 1990, naïve Łódź 東京 e\u0301?", "don't 12,345.6"), ("In 1990, who led the country?", "Helmut Kohl"),
]  # fmt: skip
TRIPLES = [(prompt, answer, None) for prompt, answer in PAIRS]


@dataclass(frozen=True)
class Way:
    """A way to score. open: the model in a file. close: nats a text by which it may differ from the naive way. knows:
    whether its identity tells weights apart. limits: whether it knows how many tokens it reads. needs: a module."""

    name: str
    open: Callable[[str, ExitStack], Scorer]
    close: float = 1e-4
    knows: bool = True
    limits: bool = True
    needs: str = "torch"


def _served(file: str, stack: ExitStack) -> Scorer:
    command = [*program("completions_server"), file]
    process = stack.enter_context(subprocess.Popen(command, env=surroundings(), stdout=subprocess.PIPE, text=True))
    stack.callback(process.kill)
    assert process.stdout is not None
    backend = Backend(backend="openai", base_url=process.stdout.readline().strip())
    return stack.enter_context(open_scorer("served", backend, tokenizer=file))


WAYS = (
    Way("transformers", lambda file, stack: stack.enter_context(open_scorer(file, device="cpu"))),
    Way(
        "llama.cpp", lambda file, stack: stack.enter_context(open_scorer(file, Backend(backend="llama.cpp"))),
        close=1e-3, needs="xllamacpp",
    ),
    Way("openai", _served, knows=False, limits=False, needs="openai"),
)  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model as a file that all of them read."""
    return write_gguf(make_gguf_lm(), tmp_path_factory.mktemp("conformance") / "llama.gguf")


@pytest.fixture(scope="module")
def reference(file: str) -> LanguageModel:
    """The same weights, never written to a file; the tokenizer is the file's."""
    return replace(make_gguf_lm(), tokenizer=load_tokenizer(file))


@pytest.fixture(
    scope="module",
    params=[pytest.param(way, id=way.name, marks=[pytest.mark.full] if way.name == "openai" else []) for way in WAYS],
)
def way(request: pytest.FixtureRequest) -> Way:
    if find_spec(request.param.needs) is None:
        pytest.skip(f"needs {request.param.needs}")
    return request.param


@pytest.fixture(scope="module")
def scorer(way: Way, file: str) -> Iterator[Scorer]:
    with ExitStack() as stack:
        yield way.open(file, stack)


def test_scores_are_those_of_the_naive_way_in_any_order_and_batch(way: Way, scorer: Scorer, reference: LanguageModel):
    naive = np.array([naive_log_prob(reference, prompt, answer) for prompt, answer in PAIRS])
    encoded = scorer.encode(TRIPLES)
    assert encoded == reference.encode(TRIPLES)
    for order in (range(len(PAIRS)), range(len(PAIRS) - 1, -1, -1)):
        for options in ({}, {"batch_tokens": 40}, {"prefix_tree": False}):
            scores = score_texts(scorer, [encoded[i] for i in order], **options)
            np.testing.assert_allclose(scores, naive[list(order)], atol=way.close, rtol=0)
    assert score_texts(scorer, encoded)[0] == score_texts(scorer, encoded)[-1]  # the same text, computed once


def test_plans_hold_each_text_once_and_parts_come_each_once(scorer: Scorer):
    encoded = list(dict.fromkeys(scorer.encode(TRIPLES)))
    plan = scorer.plan(encoded, 40)
    assert plan == scorer.plan(encoded, 40) and sorted(plan.texts) == list(range(len(encoded)))
    halves = {7: replace(plan, batches=plan.batches[:1]), 3: replace(plan, batches=plan.batches[1:])}
    whole, told = score_texts(scorer, encoded), []
    parts = scorer.score_parts(encoded, halves, progress=told.append)
    found = {number: (scores, counts) for number, scores, counts in parts}
    assert sorted(found) == [3, 7] and sum(told) == len(encoded)
    for number, (scores, counts) in found.items():
        np.testing.assert_allclose(scores, whole[halves[number].texts], atol=1e-3, rtol=0)
        assert counts.tokens > 0


def test_identities_are_json_and_tell_models_apart(way: Way, scorer: Scorer, file: str, tmp_path: Path):
    identity = scorer.identity()
    assert json.loads(json.dumps(identity)) == identity == scorer.identity()
    assert json.dumps(scorer.about()) and json.dumps(scorer.hardware())
    assert scorer.prefix == "" and scorer.dtype and scorer.name
    other = make_gguf_lm()
    next(other.model.parameters()).data[0, 0] += 1
    changed = write_gguf(other, tmp_path / "changed.gguf")
    with ExitStack() as stack:
        again = way.open(changed, stack).identity()
        apart = {name for name in identity | again if identity.get(name) != again.get(name)}
    assert bool(apart - {"model", "device"}) == way.knows  # the device of a server is its address


def test_texts_that_it_cannot_read_are_refused(way: Way, scorer: Scorer):
    if not way.limits:
        pytest.skip(f"{way.name} does not know how many tokens the model reads")
    with pytest.raises(TooLongError):
        scorer.check([Encoded((1,) * 100_000, (99_999,))])


QUESTIONS = ["In which year, 1998 or 2011?", "Who?", "In which year, 1998 or 2011?", "From when to when?"]


@pytest.fixture(params=["chat", pytest.param("generate", marks=pytest.mark.full)])
def answering(request: pytest.FixtureRequest, file: str) -> Iterator[Callable[[Path], Answerer]]:
    """Makes answerers of one model that keep their answers in a folder."""
    with ExitStack() as stack:
        if request.param == "chat":
            if find_spec("openai") is None:
                pytest.skip("needs the extra llm")
            server = stack.enter_context(serving(lambda asked, number: chat(f"to {prompt_of(asked)}")))
            name, backend, loading = "served-model", Backend(backend="chat", base_url=server.url), {}
        else:
            name, backend, loading = file, Backend(backend="generate"), {"device": "cpu"}
        yield lambda folder: stack.enter_context(
            open_answerer(name, backend, answers=folder, asking={"max_tokens": 4}, **loading)
        )


def test_answers_come_in_order_once_a_question_and_are_kept(answering: Callable[[Path], Answerer], tmp_path: Path):
    one, told = answering(tmp_path), Callbacks(warn=pytest.fail)
    found = one.answers(QUESTIONS, told)
    assert len(found) == len(QUESTIONS) and all(isinstance(answer, Answer) for answer in found)
    assert found[0] == found[2] and one.answers([], told) == []
    assert answering(tmp_path).answers(QUESTIONS[::-1], told) == found[::-1]
    assert len([*tmp_path.rglob("*.json")]) == len(set(QUESTIONS))
    identity = one.identity()
    assert json.loads(json.dumps(identity)) == identity == answering(tmp_path / "elsewhere").identity()
    assert identity["max_tokens"] == 4 and identity["backend"] in ("chat", "generate") and one.name


@pytest.mark.full
def test_a_model_of_this_machine_says_which_weights_answered(file: str, tmp_path: Path):
    with open_answerer(file, Backend(backend="generate"), answers=tmp_path, device="cpu") as one:
        assert one.identity()["weights"] == load_model(file, device="cpu").identity()["weights"]
