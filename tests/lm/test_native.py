"""Servers' own ways to score, of real server processes: the model's own scores, and a prefix cache that is used.

The server of these tests is written after the sources of vLLM and SGLang; see `native_server`.
"""

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import BackendError
from anachron.data.dataset import Dataset
from anachron.io.jobs import Callbacks
from anachron.io.servers import Server
from anachron.lm.batches import plan_requests
from anachron.lm.formats import Format
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.plans import Plan
from anachron.lm.prefix_tree import distinct_prefixes
from anachron.lm.scorer import score_texts
from anachron.lm.scoring import Counters
from anachron.lm.server.served import ServedModel
from anachron.lm.spans import Encoded
from anachron.lm.tokenizers import load_tokenizer
from anachron.probe.run import ProbeSettings, run_probe
from support.processes import program, surroundings

PROGRAM = program("native_server")
PAIRS = [
    (f"In {year}, who was the president of {land}?", name, None)
    for year in (1995, 1999, 2003)
    for land, names in (("France", ("Jacques Chirac", "Jacques Delors")), ("Brasil", ("São", "Lula da Silva")))
    for name in names
]
VLLM, SGLANG = "vLLM prompt_logprob_token_ids", "SGLang logprob_start_len"


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("demo", device="cpu")


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[str], str]]:
    """The address of a running server, in some mode."""
    process = subprocess.Popen([*PROGRAM, "demo"], env=surroundings(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    yield lambda mode: address.replace("/vllm/", f"/{mode}/")
    process.kill()
    process.wait()


def served(url: str, name: str = "served", **how: int) -> tuple[ServedModel, list[str]]:
    told: list[str] = []
    return ServedModel(Server(name, url, **how), load_tokenizer("demo"), told.append), told


def counts(url: str) -> dict[str, int]:
    with urllib.request.urlopen(url.removesuffix("v1") + "counts") as reply:
        return json.loads(reply.read())


def scored(model: ServedModel, texts: list[Encoded], plan: Plan) -> tuple[np.ndarray, Counters]:
    ((_, scores, counters),) = model.score_parts(texts, {0: plan})
    return scores, counters


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "mode, way",
    [
        ("vllm", VLLM),
        ("sglang", SGLANG),
        ("vllm-uncounted", VLLM),
        ("vllm-old", "echo"),  # the field is not known and passed over
        ("vllm-v1", "echo"),
        ("vllm-closed", "echo"),
        ("vllm-never", "echo"),
        ("sglang-none", "echo"),
        ("sglang-old", "echo"),
        ("sglang-adapter", "echo"),  # /generate would ask the model below the adapter
    ],
)
def test_scores_are_the_models_own_and_the_way_is_told(serve, lm: LanguageModel, mode: str, way: str):
    model, told = served(serve(mode))
    assert model.hardware()["way"] is None
    scores = score_texts(model, model.encode(PAIRS), batch_tokens=60)
    np.testing.assert_allclose(scores, lm.log_probs(PAIRS), atol=1e-4, rtol=0)
    assert model.hardware()["way"] == way
    (line,) = told
    assert (way if way != "echo" else "echo of /v1/completions") in line
    assert ("--enable-scale-out" in line) is (mode == "vllm-closed")
    assert ("VLLM_USE_V2_MODEL_RUNNER=1" in line) is (mode == "vllm-v1")
    assert ("v1/completions" in counts(serve(mode))) is (way == "echo")


@pytest.mark.full
@pytest.mark.parametrize("mode", ["vllm", "sglang"])
def test_texts_that_are_all_in_the_cache_get_the_same_scores_again(serve, lm: LanguageModel, mode: str):
    """vLLM gives no numbers for what its cache holds beyond the beginning of the answer: it is asked without it."""
    model, _ = served(serve(mode), concurrency=1)
    texts = model.encode([PAIRS[0]], Format(prefix="It is known to all that the following holds. " * 3))
    texts = [Encoded(texts[0].ids, (place,)) for place in range(3, len(texts[0].ids), 5)]
    first = score_texts(model, texts)
    np.testing.assert_allclose(score_texts(model, texts), first, atol=1e-6, rtol=0)
    np.testing.assert_allclose(first, score_texts(lm, texts), atol=1e-4, rtol=0)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["vllm", "sglang", "vllm-uncounted"])
def test_what_texts_share_is_computed_once_by_the_servers_own_count(serve, lm: LanguageModel, mode: str):
    """Three beginnings of 60 tokens in turn, more than the cache holds, and texts in no order."""
    url = serve(mode)
    model, _ = served(url, concurrency=1)
    chooser = np.random.default_rng(0)
    words = sorted({id for text in model.encode(PAIRS) for id in text.ids})
    prefixes = chooser.choice(words, (3, 60)).tolist()
    tails = chooser.choice(words, (16, 6)).tolist()
    texts = [Encoded((*prefix, *tail), (64, 65)) for tail in tails for prefix in prefixes]
    right = score_texts(lm, texts)
    sent = sum(len(text.ids) for text in texts)
    scored(model, texts[:1], model.plan(texts[:1]))  # the trials of the first request are not counted below

    def computed(plan: Plan) -> int:
        before = counts(url)
        scores, counters = scored(model, texts, plan)
        np.testing.assert_allclose(scores, right[plan.texts], atol=1e-4, rtol=0)
        after = counts(url)
        assert counters.tokens == after["computed"] - before["computed"]
        assert counters.cached == after["cached"] - before["cached"]
        return counters.tokens

    ordered = computed(model.plan(texts))
    unordered = computed(replace(model.plan(texts), batches=[list(range(len(texts)))]))
    assert ordered * 3 <= sent
    assert sent <= unordered * 1.5


@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=7), min_size=1, max_size=40), st.integers(1, 40))
def test_requests_hold_every_text_once_in_an_order_that_meets_each_prefix_once(ids: list[list[int]], tokens: int):
    texts = [Encoded(tuple(one), (len(one) - 1,)) for one in ids]
    plan = plan_requests(texts, tokens)
    order = [i for request in plan for i in request]
    assert sorted(order) == list(range(len(texts)))
    assert all(len(request) == 1 or sum(len(texts[i].ids) for i in request) <= tokens for request in plan)
    met: list[tuple[int, ...]] = []  # what is fed of each text, prefix by prefix: a new one never comes back later
    for i in order:
        met += [texts[i].ids[:n] for n in range(1, len(texts[i].ids)) if not met or texts[i].ids[:n] not in before(met)]
    assert len(met) == distinct_prefixes(texts)


def before(met: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """The prefixes of the prefix that was met last: all that a cache of one text still holds."""
    return {met[-1][:n] for n in range(1, len(met[-1]) + 1)}


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "mode, what",
    [
        ("vllm-shifted", "belong to other tokens"),
        ("vllm-filled", "are filled in|belong to other tokens"),
        ("vllm-constant", "are filled in|belong to other tokens"),
        ("vllm-one-more", r"of the shape .* was asked for"),
        ("vllm-one-less", r"of the shape .* was asked for"),
        ("vllm-nan", "a log-probability as nan"),
        ("vllm-infinite", "no number for a token of the answer"),
        ("vllm-probabilities", "0 or less"),
        ("vllm-nameless", "does not answer with a completion .out of memory"),
        ("vllm-another-model", "answers as the model 'another'"),
        ("vllm-wrong-size", "read 3 tokens where"),
        ("vllm-too-cached", "number of tokens from its cache as 9999"),
        ("vllm-no-array", "not a NumPy array"),
        ("vllm-pickled", "not a NumPy array"),
        ("vllm-whole-numbers", "an array of floating-point numbers"),
        ("sglang-shifted", "belong to other tokens"),
        ("sglang-filled", "are filled in|belong to other tokens"),
        ("sglang-one-less", "log-probabilities where .* were asked for"),
        ("sglang-nan", "NaN is not a JSON number"),
        ("sglang-probabilities", "0 or less"),
        ("sglang-aborted", "gave up on the text .too long"),
        ("sglang-not-null", "before the answer as -1.0"),
        ("sglang-other-tokens", "belong to other tokens"),
        ("sglang-no-lists", "a list of lists"),
    ],
)
def test_what_would_be_a_wrong_number_is_refused(serve, mode: str, what: str):
    model, _ = served(serve(mode), tries=1)
    with pytest.raises(BackendError, match=what) as caught:
        score_texts(model, model.encode(PAIRS[:2]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", ["1e999", "1.2.3", "NaN", "-1", "+Inf", "1e30", "many"])
def test_a_counter_of_the_cache_that_is_none_is_one_line(serve, count: str):
    model, _ = served(serve(f"vllm-counter:{count}"), tries=1)
    with pytest.raises(BackendError, match=r"gives a counter of its metrics as '.+', and it must") as caught:
        score_texts(model, model.encode(PAIRS[:1]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mode", ["vllm-half-way", "sglang-half-way"])
def test_a_refusal_half_way_ends_the_run_in_one_line(serve, mode: str):
    model, _ = served(serve(mode))
    with pytest.raises(BackendError, match=r"refuses to score with 'served' \(HTTP 400: .*no room in the cache"):
        score_texts(model, model.encode(PAIRS), batch_tokens=30)


def test_another_model_is_refused_as_by_the_echo(serve):
    model, _ = served(serve("vllm"), name="other")
    with pytest.raises(BackendError, match="refuses to score with 'other'"):
        score_texts(model, model.encode(PAIRS[:1]))


def test_a_cache_that_the_echo_reports_is_counted(serve):
    model, _ = served(serve("sglang_none-echo-usage"))
    texts = model.encode(PAIRS)
    _, counters = scored(model, texts, model.plan(texts, 60))
    requests = len(model.plan(texts, 60).batches)
    assert counters.cached == 2 * requests
    assert counters.tokens == sum(len(text.ids) for text in texts) - 2 * requests


@pytest.mark.full
def test_a_probe_records_the_way_and_the_servers_count(serve, lm: LanguageModel, brief: Dataset, tmp_path: Path):
    data, notices = brief.sample(2), []
    prefix = tmp_path / "prefix"
    prefix.write_text("It is known to all that the following holds. " * 5)
    settings = ProbeSettings(prefix=str(prefix))
    here = run_probe(lm, data, tmp_path / "here", settings).scores
    model, _ = served(serve("vllm"))
    result = run_probe(model, data, tmp_path / "run", settings, callbacks=Callbacks(notice=notices.append))
    np.testing.assert_allclose(result.scores["logp"].to_numpy(), here["logp"].to_numpy(), atol=1e-4, rtol=0)
    (session,) = result.record["sessions"]
    assert session["hardware"]["way"] == VLLM
    assert session["tokens_cached"] > 2 * session["tokens_computed"]
    assert session["tokens_computed"] >= result.record["tokens_ideal"]
    assert any("were in its prefix cache" in notice for notice in notices)
