"""log Pr(answer | prompt): equal to a plain computation for every tokenizer, the same in every batch."""

import functools
import itertools
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import assume, given
from hypothesis import strategies as st

from anachron.core.errors import BackendError, DataError, ModelError
from anachron.lm import scoring
from anachron.lm.batches import Limits, plan_batches
from anachron.lm.formats import Format, locate
from anachron.lm.model import LanguageModel
from anachron.lm.spans import Encoded, encode
from support.tiny_models import (
    FAMILIES,
    SOFT_CAP,
    TOKENIZERS,
    answer_positions,
    make_lm,
    make_model,
    make_tokenizer,
    naive_log_prob,
    naive_sum,
    normal_form,
    token_bytes,
)

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "tokenizers"
PADDED: dict[str, Any] = {"prefix_tree": False}
ONE_BY_ONE = {"batch_tokens": 1, "prefix_tree": False}

ANSWERS = (
    "Paris",
    "São Paulo",
    "Jacques Chirac",
    "Olympique de Marseille",
    "Москва",
    "北京市",
    "القاهرة",
    "हिन्दी",
    "किताब की दुकान",
    "क़लम",
    "\u0958लम",  # NFC takes this letter apart
    "Zu\u0308rich",  # and puts this one together
    "q\u0307\u0323",
    "각",
    "\u1100\u1161\u11a8",
    "👩‍💻",
    "👨‍👩‍👧‍👦 family",
    "🇫🇷",
    "👍🏽",
    "3.5%",
    "O'Neill",
)
QUESTION = "In 1998, who was the president of France?"
STRADDLING = ("In 1998, who was the pres", "ident", "")  # "president" is one token

PAIRS: list[tuple[str, str, str | None]] = [
    *((QUESTION, answer, None) for answer in ANSWERS),
    STRADDLING,
    (QUESTION, "Москва", ""),
    (QUESTION, "Paris", ""),
    ("Кто был президентом Рос", "сии", ""),
    ("中国的首", "都", ""),
    (QUESTION + " ", "Jacques Chirac", None),
    (QUESTION + "  ", "Paris", None),
    (QUESTION + "\n", "Paris", None),
    (QUESTION + "\n\n", "हिन्दी", None),
    (QUESTION + "\t", "北京市", None),
    (QUESTION + "\u3000", "北京市", None),
    (QUESTION, "Paris", "\n"),
    (QUESTION, "Paris", ": "),
    ("Is Paris the capital of France? The capital of France is Paris, yes:", "Paris", None),
    ("a a a a", "a", None),
    ("x", "Paris", None),
]


def lm_of(family: str, kind: str = "gpt2") -> LanguageModel:
    return LanguageModel(model_of(family), make_tokenizer(kind), f"tiny-{family}")


model_of = functools.cache(make_model)
tokenizer_of = functools.cache(make_tokenizer)


def naive(lm: LanguageModel, pairs: list, **how: bool) -> np.ndarray:
    return np.array([naive_log_prob(lm, *pair, **how) for pair in pairs])


# Right


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_a_plain_computation(family: str, kind: str):
    lm = lm_of(family, kind)
    scores = lm.log_probs(PAIRS)
    assert scores.dtype == np.float64 and scores.shape == (len(PAIRS),)
    np.testing.assert_allclose(scores, naive(lm, PAIRS), atol=1e-4, rtol=0)
    assert np.ptp(scores) > 5  # these models tell texts apart


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_span_is_the_smallest_run_of_tokens_with_the_answer(kind: str):
    check_spans(make_tokenizer(kind))


@pytest.mark.parametrize("name", ["gpt2", "pythia", "mistral"])
def test_the_span_is_right_for_real_tokenizers(name: str):
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"no tokenizer in {folder}")
    check_spans(transformers.AutoTokenizer.from_pretrained(folder))


def check_spans(tokenizer: Any) -> None:
    located, special = locate(tokenizer, PAIRS)
    items = encode(tokenizer, located, add_special_tokens=special)
    for (_, answer, _), where, item in zip(PAIRS, located, items, strict=True):
        ids = tokenizer(where.text)["input_ids"]
        positions = answer_positions(tokenizer, ids, answer)
        assert list(item.targets) == positions, where.text
        assert list(item.ids) == ids[: positions[-1] + 1], where.text
        decoded = tokenizer.decode(ids[positions[0] : positions[-1] + 1], clean_up_tokenization_spaces=False)
        assert decoded.endswith(normal_form(tokenizer, answer)), where.text


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_token_that_holds_the_end_of_the_prompt_belongs_to_the_answer(kind: str):
    tokenizer = make_tokenizer(kind)
    (item,) = encoded(tokenizer, [STRADDLING])
    assert token_bytes(tokenizer, [item.ids[t] for t in item.targets]) == [b" president"]


MARKED: list[tuple[str, str, str | None]] = [  # answers that begin with a combining mark, behind a letter or a space
    ("In 1998, who was q", "\u0307x", ""),
    ("In 1998, who was e", "\u0301t\u00e9", ""),  # NFC makes one letter of the two
    ("दिल्ली क", "\u093fताब", ""),
    ("दिल्ली क", "\u094d\u0937", ""),
    ("مصر ب", "\u064e\u064aت", ""),
    ("The mark is", "\u0301", None),
    ("दिल्ली", "\u0940 भारत", None),
]


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("pair", MARKED)
def test_an_answer_that_begins_with_a_combining_mark_is_its_own_characters(kind: str, pair: tuple[str, str, str]):
    lm = lm_of("llama", kind)
    prompt, answer, separator = pair
    before = prompt + (" " if separator is None else separator)
    ids = lm.tokenizer(before + answer)["input_ids"]
    positions = answer_positions(lm.tokenizer, ids, behind(lm.tokenizer, before, answer))
    (item,) = encoded(lm.tokenizer, [pair])
    assert list(item.targets) == positions
    assert lm.log_probs([pair])[0] == pytest.approx(naive_sum(lm.model, ids, positions), abs=1e-4)


def behind(tokenizer: Any, before: str, answer: str) -> str:
    """What of the text, as the tokenizer normalises it, is not there without the answer."""
    whole, without = normal_form(tokenizer, before + answer), normal_form(tokenizer, before)
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(whole, without, strict=False))
    return whole[len(list(same)) :]


LETTERS = st.sampled_from("aeqZñ 北क\u093f\u094d\u0940\u0301\u0307\u0323\u064eبيМÅ각\u1100\u1161\u11a8👩‍💻🏽🇫🇷.-\n")


@given(st.text(LETTERS, max_size=6), st.text(LETTERS | st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_the_span_of_any_answer_is_that_of_its_bytes(end: str, answer: str):
    answer, before = answer.strip(), "In 1998, Paris" + end
    assume(answer and not any(name in answer for name in ("<s>", "</s>", "<unk>")))
    whole, apart = (unicodedata.normalize("NFD", text) for text in (before + answer, answer))
    assume(whole == unicodedata.normalize("NFD", before) + apart)  # no mark of the answer goes in between the prompt's
    for kind in TOKENIZERS:
        tokenizer = tokenizer_of(kind)
        ids = tokenizer(before + answer)["input_ids"]
        (item,) = encoded(tokenizer, [(before, answer, "")])
        assert list(item.targets) == answer_positions(tokenizer, ids, behind(tokenizer, before, answer)), kind


def test_an_answer_that_is_also_in_the_question_is_scored_at_the_end():
    lm = lm_of("gpt2")
    (item,) = encoded(lm.tokenizer, [("Is Paris the capital? It is", "Paris", None)])
    assert item.targets[-1] == len(item.ids) - 1
    (both,) = encoded(lm.tokenizer, [("Is Paris the capital? It is", "Paris", None)], Format(all_occurrences=True))
    assert both.ids == item.ids and len(both.targets) == 2 * len(item.targets)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_every_occurrence_is_scored_on_request(kind: str):
    lm = lm_of("mistral", kind)
    prompt, answer = "Is Paris in France? Paris is", "Paris"
    ids = lm.tokenizer(prompt + " " + answer)["input_ids"]
    places = [
        answer_positions(lm.tokenizer, ids, answer, tail) for tail in (" in France? Paris is Paris", " is Paris", "")
    ]
    assert len({p for place in places for p in place}) == 3 * len(places[0])
    score = lm.log_probs([(prompt, answer)], style=Format(all_occurrences=True))[0]
    assert score == pytest.approx(sum(naive_sum(lm.model, ids, place) for place in places), abs=1e-4)


def test_the_answer_itself_is_scored_when_its_occurrences_overlap():
    pair = ("who is la de la", "de la de", None)
    (item,) = encoded(make_tokenizer("gpt2"), [pair], Format(all_occurrences=True))
    (alone,) = encoded(make_tokenizer("gpt2"), [pair])
    assert item.ids == alone.ids and set(alone.targets) <= set(item.targets)


def test_an_appended_end_of_text_is_not_part_of_the_answer():
    plain, with_eos = lm_of("llama", "mistral"), lm_of("llama", "eos")
    assert with_eos.tokenizer("a")["input_ids"] == [*plain.tokenizer("a")["input_ids"], 2]
    np.testing.assert_allclose(with_eos.log_probs(PAIRS), plain.log_probs(PAIRS), atol=1e-5)


def test_the_separator_is_a_space_unless_the_prompt_ends_in_white_space():
    lm = lm_of("gpt2")
    scores = lm.log_probs([("a b", "c"), ("a b", "c", None), ("a b", "c", " "), ("a b ", "c"), ("a b", "c", "")])
    assert len(set(scores[:4])) == 1 and scores[4] != scores[0]


def test_a_prefix_is_read_before_the_prompt():
    lm = lm_of("neox")
    prefix = "Angela Merkel is not the president.\n"
    score = lm.log_probs([(QUESTION, "Paris")], style=Format(prefix=prefix))[0]
    assert score == pytest.approx(naive_log_prob(lm, prefix + QUESTION, "Paris"), abs=1e-4)
    assert abs(score - lm.log_probs([(QUESTION, "Paris")])[0]) > 1e-3


@pytest.mark.parametrize("pair", [("", "Paris"), ("a", ""), ("a", "Paris\n"), ("a", " "), ("a", " Paris", " ")])
def test_pairs_that_cannot_be_scored_are_refused(pair: tuple[str, ...]):
    with pytest.raises(DataError):
        lm_of("gpt2").log_probs([(QUESTION, "Paris"), pair])


def test_an_answer_in_the_first_token_is_refused():
    with pytest.raises(DataError, match="no token precedes"):
        lm_of("gpt2").log_probs([(" ", "France")])


def test_no_pairs_no_scores():
    assert lm_of("gpt2").log_probs([]).shape == (0,)


# The same whatever the batch


@functools.cache
def reference() -> dict[tuple[str, str, str | None], float]:
    lm = lm_of("mistral", "mistral")
    return dict(zip(PAIRS, lm.log_probs(PAIRS, **ONE_BY_ONE), strict=True))


@given(
    st.lists(st.sampled_from(PAIRS), min_size=1, max_size=12),
    st.integers(1, 400),
    st.integers(1, 20_000),
)
def test_scores_do_not_depend_on_batches_or_order(pairs: list, tokens: int, logits: int):
    lm = lm_of("mistral", "mistral")
    texts = lm.encode(pairs)
    distinct = list(dict.fromkeys(texts))
    batches = plan_batches(distinct, lm.vocabulary, Limits(tokens, logits))
    found = dict(zip(distinct, scoring.score_all(lm.model, distinct, batches), strict=True))
    scores = np.array([found[text] for text in texts])
    np.testing.assert_allclose(scores, [reference()[pair] for pair in pairs], atol=1e-5, rtol=0)
    for pair in set(pairs):
        assert len({score for p, score in zip(pairs, scores, strict=True) if p == pair}) == 1


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.families("neox")
def test_every_family_scores_the_same_in_any_batch(family: str):
    lm = lm_of(family, "pythia")
    whole = lm.log_probs(PAIRS, **PADDED)
    np.testing.assert_allclose(lm.log_probs(PAIRS, **ONE_BY_ONE), whole, atol=1e-5, rtol=0)
    np.testing.assert_allclose(
        lm.log_probs(PAIRS[::-1], batch_tokens=100, prefix_tree=False)[::-1], whole, atol=1e-5, rtol=0
    )


# Softmax and soft-capping


def test_soft_capping_is_kept():
    capped, free = lm_of("gemma2"), make_lm("gemma2", final_logit_softcapping=None)
    with torch.no_grad():
        assert free.model(input_ids=torch.arange(1, 20)[None]).logits.abs().max() > 1.5 * SOFT_CAP
    scores = capped.log_probs(PAIRS)
    np.testing.assert_allclose(scores, naive(capped, PAIRS), atol=1e-4, rtol=0)
    assert np.abs(scores - free.log_probs(PAIRS)).max() > 1


@pytest.mark.few(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_softmax_of_a_bfloat16_model_is_float32_unless_native(family: str):
    lm = make_lm(family)
    lm.model.to(torch.bfloat16)
    scores = lm.log_probs(PAIRS, **ONE_BY_ONE)
    native = lm.log_probs(PAIRS, **ONE_BY_ONE, native_softmax=True)
    np.testing.assert_allclose(scores, naive(lm, PAIRS), atol=1e-4, rtol=0)
    np.testing.assert_allclose(native, naive(lm, PAIRS, native=True), atol=1e-4, rtol=0)
    assert np.abs(scores - native).max() > 0.01


# Work


class Wrapped:
    """A model that shows what it is fed to a function first."""

    def __init__(self, model: Any, look: Callable[[torch.Tensor], None]) -> None:
        self._model, self._look = model, look

    def __call__(self, input_ids: torch.Tensor, **rest: Any) -> Any:
        self._look(input_ids)
        return self._model(input_ids=input_ids, **rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def wrapped(look: Callable[[torch.Tensor], None], family: str = "gpt2", kind: str = "gpt2") -> LanguageModel:
    lm = lm_of(family, kind)
    return LanguageModel(Wrapped(lm.model, look), lm.tokenizer, "wrapped")


def encoded(tokenizer: Any, pairs: list, style: Format | None = None) -> list[Encoded]:
    located, special = locate(tokenizer, pairs, style)
    return encode(tokenizer, located, add_special_tokens=special)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_last_token_of_the_answer_is_never_fed(kind: str):
    fed: list[torch.Tensor] = []
    wrapped(fed.append, kind=kind).log_probs([(QUESTION, "Angela Merkel")])
    ids = make_tokenizer(kind)(QUESTION + " Angela Merkel", add_special_tokens=True)["input_ids"]
    assert [t.tolist() for t in fed] == [[ids[: -2 if kind == "eos" else -1]]]


def test_a_batch_is_as_wide_as_its_longest_text_without_the_last_token():
    fed: list[torch.Tensor] = []
    lm = wrapped(fed.append)
    lm.log_probs(PAIRS, **PADDED)
    distinct = set(lm.encode(PAIRS))
    assert [tuple(t.shape) for t in fed] == [(len(distinct), max(len(item.ids) - 1 for item in distinct))]
    assert lm.counters.tokens == fed[0].numel()


def test_a_text_asked_twice_is_computed_once():
    fed: list[torch.Tensor] = []
    wrapped(fed.append).log_probs([(QUESTION, "Paris")] * 5)
    assert [len(t) for t in fed] == [1]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.families("gpt2")
def test_the_head_sees_only_the_rows_that_predict_an_answer(family: str):
    lm = lm_of(family)
    shapes: list[tuple[int, ...]] = []
    head = lm.model.get_output_embeddings()
    spy = head.register_forward_hook(lambda _, arguments, __: shapes.append(tuple(arguments[0].shape)))
    try:
        lm.log_probs(PAIRS, **PADDED)
    finally:
        spy.remove()
    assert shapes == [(1, sum(len(item.targets) for item in set(lm.encode(PAIRS))), 32)]


def test_hooks_are_removed_also_after_an_error():
    head = lm_of("gpt2").model.get_output_embeddings()

    def fail(_: torch.Tensor) -> None:
        assert head._forward_pre_hooks  # in place while the model runs
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        wrapped(fail).log_probs(PAIRS)
    assert not head._forward_pre_hooks
    lm_of("gpt2").log_probs(PAIRS)
    assert not head._forward_pre_hooks


# Out of memory

OUT_OF_MEMORY = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
)


def short_of_memory(error: Exception, rows: int) -> LanguageModel:
    def look(ids: torch.Tensor) -> None:
        if len(ids) > rows:
            raise error

    return wrapped(look)


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["cuda", "cpu"])
def test_batches_that_do_not_fit_are_halved(error: Exception):
    pairs = PAIRS[:8]
    lm = short_of_memory(error, rows=2)
    np.testing.assert_allclose(lm.log_probs(pairs, **PADDED), lm_of("gpt2").log_probs(pairs), atol=1e-5, rtol=0)
    assert lm.counters.halvings == 3  # 8 -> 4 + 4 -> 2 + 2 + 2 + 2


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["cuda", "cpu"])
def test_a_text_that_does_not_fit_alone_is_an_error(error: Exception):
    lm = short_of_memory(error, rows=0)
    with pytest.raises(BackendError, match="does not fit into memory"):
        lm.log_probs(PAIRS[:4], **PADDED)
    assert lm.counters.halvings == 2  # 4 -> 2 -> 1


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    lm = short_of_memory(RuntimeError("shapes do not match"), rows=2)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        lm.log_probs(PAIRS[:8], **PADDED)
    assert lm.counters.halvings == 0


def test_a_head_called_by_keyword_is_refused():
    head = torch.nn.Linear(2, 3)
    with scoring.head_on(head, lambda hidden: hidden[0]), pytest.raises(ModelError, match="by keyword"):
        head(input=torch.zeros(1, 1, 2))
    assert head(input=torch.zeros(1, 1, 2)).shape == (1, 1, 3)
