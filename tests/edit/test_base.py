"""Edits add up, scale and come off again: against sums in NumPy, on every kind of weight."""

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.pytorch_utils import Conv1D

from anachron.core.errors import ConfigError, ModelError
from anachron.edit.base import Delta, Dense, Edit, LowRank, edited, model_fingerprint
from anachron.edit.make import make_edit
from anachron.edit.requests import EditRequest
from anachron.lm.formats import Format
from anachron.lm.model import LanguageModel
from support.edit_models import make_edit_lm
from support.tiny_models import naive_log_prob

OUT, INS = 5, 7
LLAMA, GPT2 = "model.layers.1.mlp.down_proj", "transformer.h.1.mlp.c_proj"
PAIRS = [("Paris is the capital of", "France"), ("In May 2004, the team of São Paulo was", "Berlin")]


def numbers(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@st.composite
def deltas(draw: Any) -> Delta:
    seed, rank = draw(st.integers(0, 10**6)), draw(st.integers(0, 4))
    if rank:
        return LowRank(numbers(seed, OUT, rank), numbers(seed + 1, rank, INS))
    return Dense(numbers(seed, OUT, INS), numbers(seed + 1, OUT) if draw(st.booleans()) else None)


edits = st.builds(
    lambda held, prefix, keys: Edit(held, prefix, "m", {"method": "X"}, {k: numbers(n, 2, INS) for k, n in keys}),
    st.dictionaries(st.sampled_from("abc"), deltas(), max_size=3),
    st.sampled_from(["", "Now. ", "Then. "]),
    st.sets(st.tuples(st.sampled_from("ab"), st.integers(1, 2)), max_size=2),
)


def dense(edit: Edit) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Weight and bias of each module, without the package's arithmetic."""
    found = {}
    for name, d in edit.deltas.items():
        bias = np.zeros(OUT) if isinstance(d, LowRank) or d.bias is None else d.bias.numpy()
        found[name] = ((d.left.numpy() @ d.right.numpy()) if isinstance(d, LowRank) else d.weight.numpy(), bias)
    return found


def assert_sum(edit: Edit, parts: list[tuple[float, Edit]]) -> None:
    wanted: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for factor, part in parts:
        for name, (weight, bias) in dense(part).items():
            old = wanted.get(name, (np.zeros((OUT, INS)), np.zeros(OUT)))
            wanted[name] = (old[0] + factor * weight, old[1] + factor * bias)
    assert dense(edit).keys() == wanted.keys()
    for name, (weight, bias) in dense(edit).items():
        np.testing.assert_allclose(weight, wanted[name][0], atol=1e-12)
        np.testing.assert_allclose(bias, wanted[name][1], atol=1e-12)


@given(edits, edits, edits)
def test_edits_add_up_in_any_grouping(a: Edit, b: Edit, c: Edit):
    for total in ((a + b) + c, a + (b + c)):
        assert_sum(total, [(1, a), (1, b), (1, c)])
        assert total.prefix == a.prefix + b.prefix + c.prefix
        assert total.count == a.count + b.count + c.count
        assert total.model == "m"
        for name in total.keys:
            assert torch.equal(total.keys[name], torch.cat([e.keys[name] for e in (a, b, c) if name in e.keys]))
        for delta in total.deltas.values():  # never larger than the matrix itself
            assert isinstance(delta, Dense) or delta.rank <= min(OUT, INS)
    assert_sum(b + a + c, [(1, a), (1, b), (1, c)])


@given(st.lists(edits, min_size=1, max_size=5), st.data())
def test_what_is_taken_out_of_a_sum_was_never_in_it(held: list[Edit], data: Any):
    k = data.draw(st.integers(0, len(held) - 1))
    others = held[:k] + held[k + 1 :]
    left = sum(held[1:], held[0]) - held[k]
    assert_sum(left, [(1, other) for other in others] + [(0, held[k])])
    assert left.count == sum(other.count for other in others) and left.model == "m"
    assert sorted(left.prefix.split()) == sorted(word for other in others for word in other.prefix.split())
    for name in "ab":
        rows = sorted(row.tolist() for other in others if name in other.keys for row in other.keys[name])
        assert sorted(row.tolist() for row in left.keys.get(name, [])) == rows
        assert name not in left.keys or len(left.keys[name])


def test_an_edit_that_is_not_in_a_sum_is_refused():
    one, two = (Edit({"a": Dense(numbers(n, OUT, INS))}, keys={"a": numbers(n, 2, INS)}) for n in (0, 1))
    assert torch.equal((one + two + one - one).keys["a"], (two + one).keys["a"])  # the first of the two
    assert (one - one).count == 0 and not (one - one).deltas["a"].dense().any() and not (one - one).keys
    rounded = Edit({"a": Dense(numbers(0, OUT, INS).float())}, keys=one.keys)
    fewer_keys = replace(one, keys={"a": one.keys["a"][1:]})
    other_module = Edit({"b": one.deltas["a"]}, keys={"b": one.keys["a"]})
    for stranger in (two, rounded, fewer_keys, other_module, 2 * one, replace(one, prefix="Now. ")):
        with pytest.raises(ConfigError, match="1 of 1 edits to be taken out are not among the 2 of this sum; only an"):
            one + one - stranger
    now, then = Edit(prefix="Now. "), Edit(prefix="Then. ")
    assert (now + then + now - then).prefix == "Now. Now. " and (now + then + now - now).prefix == "Then. Now. "
    for whole, removed, missing in (
        (now, then, "1 of 1"),
        (one, one + two, "1 of 2"),
        (one + two, one + one, "1 of 2"),
    ):
        with pytest.raises(ConfigError, match=f"{missing} edits to be taken out are not among the {whole.count} of"):
            whole - removed
    with pytest.raises(ModelError, match="edits of two models"):
        replace(one, model="a") - replace(one, model="b")


@given(st.lists(edits, min_size=1, max_size=4), st.data())
def test_only_what_was_added_can_be_taken_out(held: list[Edit], data: Any):
    """By the edits themselves, as a plain list would have it: any number of times that each is in the sum, no more."""
    total, left = sum(held[1:], held[0]), list(held)
    for _ in range(len(held) + 1):
        one = data.draw(st.sampled_from(held))
        same = next((other for other in left if alike(one, other)), None)
        if same is not None or not (one.deltas or one.keys or one.prefix):
            total = total - one
            left = [other for other in left if other is not same]
        else:
            with pytest.raises(ConfigError, match="to be taken out are not among"):
                total - one
    assert_sum(total, [(1, other) for other in left] + [(0, other) for other in held])


def alike(one: Edit, other: Edit) -> bool:
    """Whether two edits hold the same numbers and text."""
    pairs = [
        (one.deltas, other.deltas),
        ({n: Dense(k) for n, k in one.keys.items()}, {n: Dense(k) for n, k in other.keys.items()}),
    ]
    return one.prefix == other.prefix and all(
        a.keys() == b.keys()
        and all(
            type(a[name]) is type(b[name])
            and all(
                (x is None) == (y is None) and (x is None or torch.equal(x, y))
                for x, y in zip(vars(a[name]).values(), vars(b[name]).values(), strict=True)
            )
            for name in a
        )
        for a, b in pairs
    )


def test_an_edit_that_was_undone_is_not_in_a_sum():
    a, b = (Edit({"x": Dense(torch.full((2, 3), value))}) for value in (1.0, 2.0))
    undone = a + b + -1 * a
    assert undone.summed() == b.summed()
    with pytest.raises(ConfigError, match="only an edit that is in a sum"):
        undone - a
    assert (a + -1 * a).parts == ()


def test_scaled_edits_are_in_a_sum_as_they_were_added():
    one, two = (Edit({"a": LowRank(numbers(n, OUT, 2), numbers(n + 2, 2, INS))}) for n in (0, 1))
    total = one + 0.5 * two
    assert_sum(total - 0.5 * two, [(1, one), (0, two)])
    assert_sum(2 * total - two, [(2, one), (0, two)])
    with pytest.raises(ConfigError, match="are not among the 2 of this sum"):
        total - two


@given(edits, edits, st.floats(-3, 3))
def test_edits_scale_and_minus_one_undoes(a: Edit, b: Edit, factor: float):
    a, b = Edit(a.deltas, model="m"), Edit(b.deltas, model="m")
    assert_sum(a * factor, [(factor, a)])
    assert_sum(factor * (a + b), [(factor, a), (factor, b)])
    assert_sum(a + b + -1 * a, [(1, b), (0, a)])
    assert_sum(a + Edit(), [(1, a)])


def test_what_made_a_sum_is_counted():
    one, bare = (
        Edit({"a": Dense(numbers(0, OUT, INS))}, about={"method": "FT"}),
        Edit({"a": Dense(numbers(1, OUT, INS))}),
    )
    assert (one + bare).count == (bare + one).count == (bare + bare).count == (Edit() + one + bare).count == 2
    assert (one + one + one).about == {"method": "FT", "edits": 3}
    assert (Edit(model="m") + one).about["method"] == "FT"
    assert Edit().count == (Edit() + Edit()).count == 0 and Edit(prefix="x").count == 1


def test_what_cannot_be_added_or_scaled_is_refused():
    low, high = LowRank(numbers(0, OUT, 1), numbers(1, 1, INS)), Dense(numbers(2, OUT, INS + 1))
    with pytest.raises(ModelError, match="edits of two models"):
        Edit(model="a" * 64) + Edit(model="b" * 64)
    with pytest.raises(ModelError, match=r"shapes \(5, 7\) and \(5, 8\)"):
        Edit({"x": low}) + Edit({"x": high})
    for factor in (-1, 0.5, 0):
        with pytest.raises(ConfigError, match="prefix cannot be taken"):
            Edit(prefix="Now. ") * factor
    assert (Edit(prefix="Now. ") * 1).prefix == "Now. "


def test_edits_on_two_devices_add_up_on_the_first():
    here = Edit(
        {"x": LowRank(numbers(0, OUT, 1), numbers(1, 1, INS)), "y": Dense(numbers(2, OUT, INS), numbers(3, OUT))}
    )
    other = {n: type(d)(*(t.to("meta") for t in vars(d).values())) for n, d in here.deltas.items()}
    there = Edit(
        other, keys={"x": numbers(4, 1, INS).to("meta")}, parts=(("as read", 1.0),)
    )  # meta has no bytes to sum
    total = there + Edit(here.deltas, keys={"x": numbers(4, 1, INS)})
    assert {t.device.type for d in total.deltas.values() for t in vars(d).values()} == {"meta"}
    assert total.keys["x"].shape == (2, INS) and total.deltas["x"].rank == 2


# In a model


def low_rank(lm: LanguageModel, name: str, size: float = 0.3) -> LowRank:
    owner = lm.model.get_submodule(name)
    ins, out = owner.weight.shape if isinstance(owner, Conv1D) else owner.weight.shape[::-1]
    return LowRank(size * numbers(1, out, 2), size * numbers(2, 2, ins))


def written(weight: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(weight.detach().float().numpy() + change.float().numpy()).to(weight.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("family", "name"), [("llama", LLAMA), ("gpt2", GPT2)])
def test_weights_are_summed_in_float32_and_rounded_once(family: str, name: str, dtype: torch.dtype):
    lm = make_edit_lm(family, dtype=dtype)
    owner = lm.model.get_submodule(name)
    delta = low_rank(lm, name)
    turned = delta.dense().T if family == "gpt2" else delta.dense()
    old, place = owner.weight.detach().clone(), owner.weight.data_ptr()
    clean = lm.log_probs(PAIRS)
    with edited(lm, Edit({name: delta})):
        assert owner.weight.dtype == dtype and owner.weight.is_contiguous()
        assert torch.equal(owner.weight, written(old, turned))
        assert (lm.log_probs(PAIRS) != clean).all()
    assert torch.equal(owner.weight, old) and owner.weight.data_ptr() == place
    assert (lm.log_probs(PAIRS) == clean).all()


def test_a_dense_change_with_its_bias():
    lm = make_edit_lm("gpt2")
    owner = lm.model.get_submodule(GPT2)
    weight, bias = numbers(3, 32, 128), numbers(4, 32)
    old = owner.weight.detach().clone(), owner.bias.detach().clone()
    with edited(lm, Edit({GPT2: Dense(weight, bias)})):
        assert torch.equal(owner.weight, written(old[0], weight.T)) and torch.equal(owner.bias, written(old[1], bias))
    assert torch.equal(owner.weight, old[0]) and torch.equal(owner.bias, old[1])


def test_one_edit_and_its_undoing_leave_the_scores():
    lm = make_edit_lm("llama")
    clean = lm.log_probs(PAIRS)
    edit = Edit({LLAMA: low_rank(lm, LLAMA)})
    with edited(lm, edit), edited(lm, -1 * edit):
        np.testing.assert_allclose(lm.log_probs(PAIRS), clean, atol=1e-4)
    with edited(lm, edit + -1 * edit):
        np.testing.assert_allclose(lm.log_probs(PAIRS), clean, atol=1e-4)


def test_nested_blocks_come_off_one_by_one_and_equal_the_sum():
    lm = make_edit_lm("llama")
    original = lm.fingerprint()
    one = Edit({LLAMA: low_rank(lm, LLAMA)}, "One. ", original)
    into = "model.layers.0.mlp.up_proj"
    two = Edit({LLAMA: low_rank(lm, LLAMA, 0.2), into: low_rank(lm, into)}, "Two. ", original)
    clean = lm.log_probs(PAIRS)
    with edited(lm, one):
        outer = lm.log_probs(PAIRS)
        with edited(lm, two):
            assert (lm.prefix, model_fingerprint(lm)) == ("One. Two. ", original) and lm.fingerprint() != original
            inner = lm.log_probs(PAIRS)
        assert lm.prefix == "One. " and (lm.log_probs(PAIRS) == outer).all()
    assert lm.prefix == "" and lm.edit_of is None and lm.fingerprint() == original
    assert (lm.log_probs(PAIRS) == clean).all()
    with edited(lm, one + two):
        np.testing.assert_allclose(lm.log_probs(PAIRS), inner, atol=1e-4)


def test_a_block_in_another_thread_comes_off_too():
    lm = make_edit_lm("llama")
    clean, inside = lm.log_probs(PAIRS), []

    def work() -> None:
        with edited(lm, Edit({LLAMA: low_rank(lm, LLAMA)})):
            inside.append(lm.log_probs(PAIRS))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert (inside[0] != clean).all() and (lm.log_probs(PAIRS) == clean).all()


def test_an_edit_for_another_model_is_refused_and_one_that_says_nothing_is_not():
    lm, other = make_edit_lm("llama"), make_edit_lm("llama", seed=1)
    request = EditRequest("{} is", "France", "Berlin")
    edit = make_edit(other, "PROMPT", [request])
    with (
        pytest.raises(ModelError, match=f"^load the model it was made on: .*{edit.model[:12]}.*weights differ"),
        edited(lm, edit),
    ):
        raise AssertionError("never in force")
    with edited(other, edit, check=False), edited(lm, edit, check=False):
        pass
    unsaid = Edit({LLAMA: low_rank(lm, LLAMA)})
    mine = make_edit(lm, "PROMPT", [request])
    with edited(lm, unsaid), edited(lm, mine):  # an edit made before is still this model's
        assert make_edit(lm, "PROMPT", [request]).model == mine.model


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (1, r"\(config.z0: nothing -> 0\)"),
        (3, r"\(config.z0: nothing -> 0; config.z1: nothing -> 1; config.z2: nothing -> 2\)"),
        (5, r"\(config.z0: nothing -> 0; config.z1: nothing -> 1; config.z2: nothing -> 2; and 2 more\)"),
    ],
)
def test_a_refusal_names_a_few_fields_and_counts_the_others(fields: int, said: str):
    lm = make_edit_lm("llama")
    edit = make_edit(lm, "PROMPT", [EditRequest("{} is", "France", "Berlin")])
    lm.model.config.update({f"z{number}": number for number in range(fields)})
    with pytest.raises(ModelError, match=f"^load the model it was made on: .* {said}$"), edited(lm, edit):
        raise AssertionError("never in force")


def test_modules_that_cannot_take_it_are_refused_and_nothing_is_changed():
    lm = make_edit_lm("llama")
    before = lm.fingerprint()
    good = low_rank(lm, LLAMA)
    wrong: list[tuple[str, Delta, str]] = [
        ("model.layers.9.mlp.down_proj", good, "no module 'model.layers.9.mlp.down_proj.*another model"),
        (LLAMA, LowRank(good.left, good.right[:, 1:]), r"shape \(32, 63\), the model's is \(32, 64\)"),
        (LLAMA, Dense(good.dense().T), r"shape \(64, 32\)"),
        (LLAMA, Dense(good.dense(), numbers(0, 32)), "changes a bias of shape .32,., the module has none"),
        ("model.layers.1", good, "no linear layer"),
        ("model.layers.1", Dense(good.dense()), "LlamaDecoderLayer"),
        ("model.embed_tokens", Dense(good.dense()), "Embedding"),
        ("model.norm", good, "no linear layer"),
    ]
    for name, delta, says in wrong:
        with pytest.raises(ModelError, match=says), edited(lm, Edit({LLAMA: good, name: delta}, "Now. ")):
            raise AssertionError("never in force")
    gpt2 = make_edit_lm("gpt2")
    bad_bias = Edit({GPT2: Dense(torch.zeros(32, 128), torch.zeros(31))})
    with pytest.raises(ModelError, match=r"bias of shape \(31,\), the module has one of shape \(32,\)"):
        edited(gpt2, bad_bias)
    assert lm.fingerprint() == before and lm.prefix == "" and not any(m._forward_hooks for m in lm.model.modules())


def test_tied_weights_change_together_and_once():
    lm = make_edit_lm("gpt2")
    head, embedding = lm.model.lm_head.weight, lm.model.transformer.wte.weight
    assert head is embedding
    old = head.detach().clone()
    change = Dense(0.01 * numbers(1, *head.shape))
    with edited(lm, Edit({"lm_head": change})):
        assert torch.equal(embedding, written(old, change.weight)) and lm.model.lm_head.weight is embedding
    assert torch.equal(embedding, old) and lm.model.lm_head.weight is embedding
    twins = make_edit_lm("llama")
    twins.model.model.layers[0].mlp.down_proj.weight = twins.model.model.layers[1].mlp.down_proj.weight
    both = Edit({n: low_rank(twins, n) for n in (LLAMA, LLAMA.replace("1", "0"))})
    with pytest.raises(ModelError, match="under another name too"):
        edited(twins, both)


@pytest.mark.parametrize("kind", ["gpt2", "mistral"])
def test_a_prefix_is_read_as_if_it_were_typed(kind: str):
    lm = make_edit_lm("llama", kind)
    edit = make_edit(lm, "PROMPT", [EditRequest("{} is", "France", "Berlin"), EditRequest("{} was", "Zürich", "a")])
    assert edit.prefix == "France is Berlin. Zürich was a. "
    plain = lm.log_probs(PAIRS)
    with edited(lm, edit):
        found = lm.log_probs(PAIRS)
        styled = lm.log_probs(PAIRS, style=Format(prefix="Reply.\n"))
    assert (found == lm.log_probs([(edit.prefix + prompt, answer) for prompt, answer in PAIRS])).all()
    assert (styled == lm.log_probs([(edit.prefix + "Reply.\n" + prompt, answer) for prompt, answer in PAIRS])).all()
    for value, (prompt, answer) in zip(found, PAIRS, strict=True):
        assert value == pytest.approx(naive_log_prob(lm, edit.prefix + prompt, answer), abs=1e-5)
    assert (found != plain).all() and (lm.log_probs(PAIRS) == plain).all()
