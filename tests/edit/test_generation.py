"""Texts that a model writes, against one token at a time through the whole model without a cache."""

from dataclasses import replace
from functools import wraps
from typing import Any

import pytest
import torch
import transformers

from anachron.core.errors import ConfigError
from anachron.edit.base import Edit, edited
from anachron.edit.passes.context_sampling import STARTS, TOP_K, sampled_contexts
from anachron.lm import generation
from anachron.lm.generation import continued, greedy_continuations, greedy_texts
from anachron.lm.model import LanguageModel
from support.architectures import lm_of, make_architecture
from support.edit_models import make_edit_lm
from support.tiny_models import TOKENIZERS, make_lm

PROMPTS = ["France", "Paris is the capital of", "In May 2004, which team did", "北京是", "Paris is the capital of"]


def typed(lm: LanguageModel, text: str) -> list[int]:
    """Tokens of a text, without an end-of-text mark."""
    ids = lm.tokenizer(text)["input_ids"]
    return ids[:-1] if ids[-1] == lm.tokenizer.eos_token_id else ids


def naive(lm: LanguageModel, prompt: str, length: int, prefix: str = "") -> str:
    """The likeliest next token, again and again."""
    ids = typed(lm, prefix + prompt)
    start, new = len(ids), length - len(typed(lm, prompt))
    with torch.no_grad():
        for _ in range(new):
            ids.append(int(lm.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    return lm.tokenizer.decode(ids[start:], skip_special_tokens=True)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("family", "kind"),
    [
        *(("gpt2", kind) for kind in TOKENIZERS),
        ("llama", "eos"),
        ("gemma2", "mistral"),
        ("opt", "gpt2"),
        ("bloom", "llama"),
    ],
)
def test_greedy_texts_are_those_of_a_plain_loop(family: str, kind: str):
    lm = make_edit_lm(family, kind)
    assert lm.model.generation_config.eos_token_id == 2  # which transformers would keep from being written
    texts = greedy_texts(lm, PROMPTS, 24)
    assert texts == [naive(lm, prompt, 24) for prompt in PROMPTS]
    assert texts[1] == texts[4]
    assert texts == [greedy_texts(lm, [prompt], 24)[0] for prompt in PROMPTS]  # the company does not matter


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_prefix_is_read_and_not_counted(kind: str):
    lm = make_lm("gpt2", kind)
    prefix = "Angela Merkel is in Berlin. "
    with edited(lm, Edit(prefix=prefix)):
        texts = greedy_texts(lm, PROMPTS, 24)
        as_published = greedy_texts(lm, PROMPTS, 30, count_prefix=True)
    assert texts == [naive(lm, prompt, 24, prefix) for prompt in PROMPTS]
    assert texts != greedy_texts(lm, PROMPTS, 24)
    lengths = [30 - len(typed(lm, prefix + prompt)) + len(typed(lm, prompt)) for prompt in PROMPTS]
    assert as_published == [naive(lm, p, n, prefix) for p, n in zip(PROMPTS, lengths, strict=True)]


@pytest.mark.parametrize("together", [1, 60, 10**6])
def test_each_prompt_may_want_a_number_of_its_own(together: int, monkeypatch: pytest.MonkeyPatch):
    """The text is the same whatever is computed together, and no batch holds more tokens than it may."""
    lm, numbers, sizes = make_lm("gpt2", "mistral"), [3, 12, 2, 7, 5], []
    plain = lm.model.generate

    def counted(ids: torch.Tensor, **how: Any) -> Any:
        rows = plain(ids, **how)
        if (new := how["generation_config"].max_new_tokens) > 1:  # one token is a trial whether padding is harmless
            sizes.append((len(ids), len(ids) * (ids.shape[1] + new)))
        return rows

    monkeypatch.setattr(generation, "TOGETHER", together)
    monkeypatch.setattr(lm.model, "generate", counted)
    texts = greedy_continuations(lm, PROMPTS, numbers)
    lengths = [number + len(typed(lm, prompt)) for prompt, number in zip(PROMPTS, numbers, strict=True)]
    end = lm.tokenizer.eos_token
    wanted = [naive(lm, prompt, length) for prompt, length in zip(PROMPTS, lengths, strict=True)]
    assert texts == [text.partition(end)[0] for text in wanted]
    assert all(rows == 1 or tokens <= together for rows, tokens in sizes)
    assert sum(rows for rows, _ in sizes) == len(PROMPTS) and (together > 1 or len(sizes) == len(PROMPTS))


@pytest.mark.parametrize(
    "family",
    [
        "gpt2",
        "llama",
        "gemma2",
        "gemma3",
        "mistral",
        *(pytest.param(f, marks=pytest.mark.full) for f in ("opt", "bloom")),
    ],
)
def test_what_all_texts_begin_with_is_read_once(family: str, monkeypatch: pytest.MonkeyPatch):
    """Against a plain loop, in families with learned, rotary and no positions, and with windows shorter than it, behind
    which it is read for each length of a prompt."""
    lm = make_edit_lm(family, "llama")
    prefix = "Angela Merkel is in Berlin. " * 14
    read, plain = [], lm.model.forward

    @wraps(plain)  # transformers looks at its signature
    def counted(*args: Any, **how: Any) -> Any:
        ids = args[0] if args else how["input_ids"]
        read.append(ids.numel())
        return plain(*args, **how)

    monkeypatch.setattr(lm.model, "forward", counted)
    numbers = [5, 9, 12, 4, 7]
    with edited(lm, Edit(prefix=prefix)):
        texts = greedy_continuations(lm, PROMPTS * 8, numbers * 8)
    monkeypatch.setattr(lm.model, "forward", plain)
    end, long = lm.tokenizer.eos_token, len(typed(lm, prefix))
    lengths = [number + len(typed(lm, prompt)) for prompt, number in zip(PROMPTS, numbers, strict=True)]
    wanted = [naive(lm, prompt, length, prefix) for prompt, length in zip(PROMPTS, lengths, strict=True)]
    assert texts == [text.partition(end)[0] for text in wanted] * 8
    whole = [tokens for tokens in read if tokens > long / 2]  # others are a text's own tokens, and new ones
    assert long > generation.SHARED and sum(whole) < long * len(PROMPTS) * 8 / 3


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("lfm2", {}),
        ("mamba", {}),
        ("llama4", {"attention_chunk_size": 125, "initializer_range": 0.2}),
        *(
            pytest.param(name, changes, marks=pytest.mark.full)
            for name, changes in (("falcon_h1", {}), ("qwen3_next", {}), ("gpt_neo", {"window_size": 125}))
        ),
    ],
)
def test_models_that_keep_more_than_keys_or_see_chunks_write_as_alone(name: str, changes: dict[str, Any]):
    """What they keep of the past cannot be repeated for each text, or padding would move it out of a chunk."""
    lm = lm_of(make_architecture(name, **changes))
    with edited(lm, Edit(prefix="Angela Merkel is in Berlin. " * 14)):
        alone = [greedy_continuations(lm, [prompt], 40)[0] for prompt in PROMPTS]
        assert greedy_continuations(lm, PROMPTS * 3, 40) == alone * 3


def test_a_short_text_is_not_padded_to_where_its_positions_change():
    lm = lm_of(make_architecture("phi3_longrope"))  # other positions beyond 128 tokens
    long, short = [5] * 140, [7] * 100
    found = generation.written(lm, [short, long], [12, 12])
    assert found == [generation.written(lm, [row], [12])[0] for row in (short, long)]
    assert not generation._together(lm, [short, long], [12, 12], [0, 1])
    assert generation._together(lm, [short, short[:90]], [12, 12], [0, 1])


def test_prompts_of_many_lengths_are_written_together_behind_a_window(monkeypatch: pytest.MonkeyPatch):
    """To read what they share once, each would have to be written by itself."""
    lm = lm_of(make_architecture("gemma3", sliding_window=48))
    rows, steps, plain = [[5] * 80 + [9] * n for n in range(1, 13)], [], lm.model.forward

    @wraps(plain)
    def counted(*args: Any, **how: Any) -> Any:
        steps.append(1)
        return plain(*args, **how)

    monkeypatch.setattr(lm.model, "forward", counted)
    found = generation.written(lm, rows, [10] * len(rows))
    assert len(steps) < 10 + 5  # the steps of one batch, and trials
    assert found == [generation.written(lm, [row], [10])[0] for row in rows]


def test_a_memory_is_asked_about_whole_prompts(monkeypatch: pytest.MonkeyPatch):
    """It looks for where a prompt ends, which what is read once does not."""
    lm = make_lm("gpt2", "mistral")
    monkeypatch.setattr(generation, "_read", lambda *a: pytest.fail("read once"))
    rows = [[5] * 80 + [last] for last in range(7, 27)]
    found = generation.written(replace(lm, memories={"transformer.h.0": object()}), rows, [3] * len(rows))
    monkeypatch.undo()
    assert found == generation.written(lm, rows, [3] * len(rows))


def test_a_prompt_that_is_long_enough_has_no_text():
    lm = make_lm("gpt2", "mistral")
    size = len(typed(lm, PROMPTS[1]))
    assert greedy_texts(lm, [PROMPTS[1]], size) == greedy_texts(lm, [PROMPTS[1]], size - 3) == [""]
    assert greedy_texts(lm, [PROMPTS[1]], size + 1) == [naive(lm, PROMPTS[1], size + 1)]
    assert greedy_texts(lm, [PROMPTS[0], PROMPTS[1]], size)[1] == ""


def test_texts_end_where_the_model_s_context_does():
    lm = make_lm("gpt2", "gpt2", max_position_embeddings=20)
    sizes = [len(typed(lm, prompt)) for prompt in PROMPTS]
    assert min(sizes) < 20
    assert greedy_texts(lm, PROMPTS, 50) == [naive(lm, prompt, 20) for prompt in PROMPTS]


def always(lm: LanguageModel, token: int) -> None:
    """A model that likes one token best wherever it is."""
    vocabulary, width = lm.model.lm_head.weight.shape
    lm.model.lm_head = torch.nn.Linear(width, vocabulary)
    with torch.no_grad():
        lm.model.lm_head.bias.zero_()[token] = 1e4


def test_an_end_of_text_token_is_not_the_end():
    lm = make_lm("llama", "mistral")
    always(lm, lm.tokenizer.eos_token_id)
    lm.model.generation_config.eos_token_id = lm.tokenizer.eos_token_id
    ids = torch.tensor([typed(lm, PROMPTS[0])])
    written = continued(lm.model, ids, 7)[0, ids.shape[1] :]
    assert written.tolist() == [lm.tokenizer.eos_token_id] * 7
    assert greedy_texts(lm, PROMPTS, 30) == [""] * len(PROMPTS)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "own", [{"eos_token_id": 2}, {"repetition_penalty": 5.0}, {"no_repeat_ngram_size": 1}, {"num_beams": 3},
            {"bad_words_ids": [[n] for n in range(100)]}, {"do_sample": True, "temperature": 9.0},
            {"suppress_tokens": list(range(200))}, {"max_length": 3}, {"stop_strings": ["e"]}]
)  # fmt: skip
def test_the_checkpoint_s_settings_are_not_used_and_kept(own: dict[str, Any]):
    lm = make_lm("llama", "mistral")
    lm.model.generation_config = transformers.GenerationConfig(**own)
    before = lm.model.generation_config
    assert greedy_texts(lm, PROMPTS, 24) == [naive(lm, prompt, 24) for prompt in PROMPTS]
    assert lm.model.generation_config is before and before.to_diff_dict().items() >= own.items()


def test_no_prompts_no_texts():
    assert greedy_texts(make_lm("gpt2"), [], 10) == []
    assert greedy_continuations(make_lm("gpt2"), [], 10) == []


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_continuations_have_the_same_number_of_tokens_each(kind: str):
    lm = make_lm("gpt2", kind)
    lm.tokenizer.eos_token = None
    expected = [naive(lm, prompt, len(typed(lm, prompt)) + 7) for prompt in PROMPTS]
    assert greedy_continuations(lm, PROMPTS, 7) == expected
    prefix = "Angela Merkel is in Berlin. "
    with edited(lm, Edit(prefix=prefix)):
        found = greedy_continuations(lm, PROMPTS, 7)
    assert found == [naive(lm, prompt, len(typed(lm, prompt)) + 7, prefix) for prompt in PROMPTS] != expected


def test_a_continuation_ends_with_the_text():
    lm = make_lm("llama", "mistral")
    whole = greedy_continuations(lm, [PROMPTS[1]], 8)[0]
    ids = torch.tensor([typed(lm, PROMPTS[1])])
    written = continued(lm.model, ids, 8)[0, ids.shape[1] :].tolist()
    assert lm.tokenizer.eos_token_id not in written
    place = next(i for i, token in enumerate(written) if i > 1 and token not in written[:i])
    lm.tokenizer.eos_token = lm.tokenizer.convert_ids_to_tokens(written[place])
    cut = greedy_continuations(lm, [PROMPTS[1]], 8)[0]
    assert cut == lm.tokenizer.decode(written[:place], skip_special_tokens=True) != whole


def test_a_full_context_has_no_continuation():
    lm = make_lm("gpt2", "gpt2", max_position_embeddings=20)
    long = " ".join(["Paris is the capital of France."] * 8)
    short, none = greedy_continuations(lm, ["France", long], 5)
    assert (short, none) == (naive(lm, "France", len(typed(lm, "France")) + 5), "")


# Sampled


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_contexts_depend_on_model_and_seed_alone(kind: str):
    lm = make_lm("llama", kind)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = sampled_contexts(lm, ((5, 3), (10, 2)), 0)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert sampled_contexts(lm, ((5, 3), (10, 2)), 0) == one
    assert sampled_contexts(lm, ((5, 3), (10, 2)), 1) != one
    assert sampled_contexts(make_lm("llama", kind, seed=1), ((5, 3), (10, 2)), 0) != one
    assert len(one) == 5 and all(text.endswith(". ") and text == text.lstrip() for text in one)
    assert len(set(one)) > 1
    assert not any(special in text for text in one for special in ("<s>", "</s>", "<unk>"))
    assert sampled_contexts(lm, (), 0) == ()


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_contexts_go_on_from_words_and_count_no_special_token(kind: str, monkeypatch: pytest.MonkeyPatch):
    lm = make_lm("llama", kind)
    fed: list[tuple[list[int], int]] = []

    def watched(model: Any, ids: torch.Tensor, new_tokens: int, **how: Any) -> torch.Tensor:
        fed.extend((row, new_tokens) for row in ids.tolist())
        return continued(model, ids, new_tokens, **how)

    monkeypatch.setattr("anachron.edit.passes.context_sampling.continued", watched)
    texts = sampled_contexts(lm, ((10, 7),), 0, STARTS)
    assert sampled_contexts(lm, ((10, 7),), 0, STARTS) == texts
    words = [word for word in STARTS for _ in range(2 if word in STARTS[:2] else 1)]  # seven texts over five words
    assert [text.startswith(word) for word, text in zip(words, texts, strict=True)] == [True] * 7
    for word, (ids, new_tokens) in zip(words, fed[:7], strict=True):
        own = lm.tokenizer(word, add_special_tokens=False)["input_ids"]
        begun = lm.tokenizer(word)["input_ids"][: len(ids)]  # without an end-of-text token
        assert ids == begun and ids[-len(own) :] == own  # with the start-of-text token where the tokenizer puts one,
        assert len(own) + new_tokens == 10  # which is not counted
    assert sampled_contexts(lm, ((1, 1),), 0, ("The",)) == ("The. ",)


@pytest.mark.parametrize("own", [{}, {"temperature": 0.01}, {"top_p": 0.01}, {"repetition_penalty": 9.0}])
def test_contexts_are_drawn_among_the_likeliest_tokens(own: dict[str, Any]):
    lm = make_lm("llama", "mistral")
    lm.model.generation_config = transformers.GenerationConfig(do_sample=True, **own)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = continued(lm.model, torch.full((40, 1), 1), 6, do_sample=True, top_k=TOP_K)
    with torch.no_grad():
        likely = lm.model(input_ids=drawn).logits.topk(TOP_K).indices
    places = (likely[:, :-1] == drawn[:, 1:, None]).nonzero()[:, 2]
    assert len(places) == 40 * 6  # each is among them,
    assert all((places == place).sum() > 0 for place in range(TOP_K))  # and none of them is left out


def test_a_tokenizer_without_a_start_uses_its_end_and_without_both_is_refused():
    lm = make_lm("llama", "gpt2")
    lm.tokenizer.bos_token = None
    assert len(sampled_contexts(lm, ((4, 2),), 0)) == 2
    lm.tokenizer.eos_token = None
    with pytest.raises(ConfigError, match=r"neither a start- nor an end-of-text token.*give contexts"):
        sampled_contexts(lm, ((4, 2),), 0)
