"""Where a request's subject and target are: checked against the bytes of tokens, and by what edits come of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import combining, normalize

import pytest
import tokenizers
import torch
import transformers
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers

from anachron.core.errors import DataError, ModelError
from anachron.core.sameness import name_key
from anachron.data.updates.cases import load_cases
from anachron.edit.base import Dense
from anachron.edit.make import make_edit, settings_for
from anachron.edit.method import Resources
from anachron.edit.passes.forward import batch
from anachron.edit.requests import EditRequest, mark, mark_prompts
from anachron.evaluate.requests import requests_of
from support.edit_models import make_edit_lm
from support.tiny_models import TOKENIZERS, answer_positions, make_tokenizer, normal_form, token_bytes

# prompt, subject, target, the part of the prompt behind the subject
WRITTEN = [
    ("The president of {} is", "France", "Angela Merkel", " is"),
    ("{} is a city in", "São Paulo", "Berlin", " is a city in"),
    ("{}", "Zürich", "the capital", ""),
    ("Jacques Chirac was president of {}", "the capital of France", "1998", ""),
    ("In France, the president of {} is", "France", "Jacques Chirac", " is"),
    ("the {}'s team: ", "Zürich", "Berlin", "'s team: "),
    ("Кто был президентом {}? ", "России", "Москва", "? "),
    ("北京是{}的首都，", "中国", "北京", "的首都，"),
    ("القاهرة عاصمة {} و", "مصر", "القاهرة", " و"),
    ("{} is", "हिन्दी", "दिल्ली भारत", " is"),
    ("Who is {} of", "👩‍💻", "🇫🇷", " of"),
    ("A {} in", "cafe\u0301", "Zu\u0308rich", " in"),
]


def expected(tokenizer: Any, ids: list[int], request: EditRequest, behind: str) -> tuple[list[int], int]:
    """Positions of the target's tokens, and of the last one with a byte of the subject, counted from the text's end.

    The target's are those with a byte of it, and those of the space before it that have no byte of the prompt.
    """
    space = request.sentence.removeprefix(request.text).removesuffix(request.target)
    last_of_prompt = answer_positions(tokenizer, ids, request.text, space + request.target)[-1]
    targets = set(answer_positions(tokenizer, ids, request.target))
    if space:
        targets |= {i for i in answer_positions(tokenizer, ids, space + request.target) if i > last_of_prompt}
    return sorted(targets), answer_positions(tokenizer, ids, request.subject, behind + space + request.target)[-1]


@pytest.mark.parametrize("context", ["", "Berlin. ", "北京. ", "Paris is the capital of France. France\n"])
@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize(("prompt", "subject", "target", "behind"), WRITTEN)
def test_positions_are_those_of_the_bytes(prompt: str, subject: str, target: str, behind: str, kind: str, context: str):
    tokenizer = make_tokenizer(kind)
    request = EditRequest(prompt, subject, target)
    assert request.text == prompt.format(subject)
    (marked,) = mark(tokenizer, [request], context)
    ids = tokenizer(context + request.sentence)["input_ids"]
    targets, last = expected(tokenizer, ids, request, behind)
    assert list(marked.targets) == targets
    assert marked.subject == last
    assert list(marked.ids) == ids[: targets[-1] + 1]  # with BOS where there is one, never with what comes behind
    assert marked.subject < marked.targets[0]
    rest = b"".join(token_bytes(tokenizer, list(marked.ids[marked.targets[0] :])))
    assert rest.strip().startswith(normal_form(tokenizer, target).encode()[:1])


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_positions_of_bare_prompts(kind: str):
    tokenizer = make_tokenizer(kind)
    for subject in ("France", "São Paulo", "中国", "हिन्दी", "the capital of France"):
        (marked,) = mark_prompts(tokenizer, [("{} is a", subject)])
        pieces = token_bytes(tokenizer, list(marked.ids))
        assert b"".join(pieces).endswith(b" is a")
        wanted = answer_positions(tokenizer, list(marked.ids), subject, " is a")[-1]
        assert (marked.subject, marked.targets) == (wanted, ())


words = st.sampled_from(["France", "São", "Iran", "中国", "हिन्दी", "e\u0301t", "Zürich", "is", "of", "x"])


@given(st.lists(words, max_size=4), st.lists(words, min_size=1, max_size=3), st.lists(words, max_size=4),
       st.lists(words, min_size=1, max_size=3), st.sampled_from(TOKENIZERS))  # fmt: skip
def test_positions_of_any_words(front: list[str], subject: list[str], behind: list[str], target: list[str], kind: str):
    tokenizer = make_tokenizer(kind)
    request = EditRequest(" ".join([*front, "{}", *behind]), " ".join(subject), " ".join(target))
    (marked,) = mark(tokenizer, [request])
    ids = tokenizer(request.sentence)["input_ids"]
    wanted = expected(tokenizer, ids, request, "".join(" " + w for w in behind))
    assert (list(marked.targets), marked.subject) == wanted


@pytest.mark.parametrize(
    ("prompt", "subject", "with_slot"),
    [
        ("France is a country", "France", "{} is a country"),
        ("The president of France", "France", "The president of {}"),
        ("France and the president of France are", "France", "France and the president of {} are"),
        ("Iran, not Iranian: Iranians say", "Iran", "{}, not Iranian: Iranians say"),
        ("The Iranian president of Iran is", "Iran", "The Iranian president of {} is"),
        ("France's president is", "France", "{}'s president is"),
        ("U.S. is", "U.S.", "{} is"),
        ("aa aa aa is", "aa aa", "aa {} is"),
        ("Президент России –", "России", "Президент {} –"),
        ("日本の首都と中国的首都是", "中国", "日本の首都と{}的首都是"),
        ("프랑스의 수도는", "프랑스", "{}의 수도는"),
        ("Apple的总部在", "Apple", "{}的总部在"),
        ("हिन्दी और हिन्द का", "हिन्द", "हिन्दी और {} का"),
        ("the cafe\u0301 or the cafe is", "cafe", "the cafe\u0301 or the {} is"),
        ("a {} slot with France", "France", "a {} slot with France"),
    ],
)
def test_the_last_whole_mention_becomes_the_slot(prompt: str, subject: str, with_slot: str):
    assert EditRequest.of(prompt, subject, "X").prompt == with_slot


@pytest.mark.parametrize(
    ("prompt", "subject"),
    [
        ("The Iranian president is", "Iran"),
        ("The capital is", "France"),
        ("who leads it is", "WHO"),
        ("the cafe\u0301 is", "cafe"),
        ("हिन्दी is", "हिन्द"),
        ("1998 is", "199"),
        ("กิ is", "ก"),
    ],
)
def test_where_a_prompt_names_no_subject_the_refusal_says_value_rule_and_fix(prompt: str, subject: str):
    request = EditRequest.of(prompt, subject, "X")
    assert not request.located and request.text == prompt and request.sentence == f"{prompt} X"
    with pytest.raises(DataError) as caught:
        request.check_located()
    message = str(caught.value)
    assert repr(subject) in message and repr(prompt) in message
    assert "not in the prompt" in message and "must name it" in message and "\n" not in message


FORMS = ("NFC", "NFD", "NFKC", "NFKD")
# letters of any script, with marks in any order behind them, and what only compatible forms call letters
NAMED = st.text(
    st.characters(categories=("L", "M", "Nd", "Nl", "No")) | st.sampled_from(" \u0301\u0323\u0327ﬁŖｶﾞ한가"), min_size=1
)


@given(
    name=NAMED,
    written=st.sampled_from(FORMS),
    given_as=st.sampled_from(FORMS),
    before=st.sampled_from(["", "The home of "]),
)
def test_a_subject_is_found_in_any_normal_form(name: str, written: str, given_as: str, before: str):
    """Wherever the prompt and the field have it in two of them; and the prompt stays what it is, letter by letter."""
    subject, named = normalize(given_as, name), normalize(written, name)
    for one in (subject, named):
        begins = normalize("NFKD", one)[0]  # a name begins with no mark, and no vowel of a Korean syllable
        assume(one == one.strip() and begins.isalnum() and not combining(begins) and not "\u1160" <= begins <= "\u11ff")
    request = EditRequest.of(f"{before}{named} is", subject, "X")
    assert request.located and request.text == f"{before}{named} is"
    assert name_key(normalize("NFKC", request.subject)) == name_key(normalize("NFKC", name))


@pytest.mark.parametrize(
    ("prompt", "subject", "with_slot"),
    [
        ("The capital of Co\u0302te d'Ivoire is", "Côte d'Ivoire", "The capital of {} is"),
        ("The capital of Côte d'Ivoire is", "Co\u0302te d'Ivoire", "The capital of {} is"),
        ("The á\u0327 of", "a\u0327\u0301", "The {} of"),
        ("The ﬁeld of Ｔｏｋｙｏ is", "Tokyo", "The ﬁeld of {} is"),
        ("Louis ⅩⅣ is", "Louis XIV", "{} is"),
        ("Louis XIV is", "Louis ⅩⅣ", "{} is"),
        ("ｶﾞｰﾅの首都は", "ガーナ", "{}の首都は"),
        (normalize("NFD", "대한민국의 수도는"), "대한민국", normalize("NFD", "{}의 수도는")),
        (normalize("NFD", "각은"), "가", normalize("NFD", "각은")),  # not within a syllable
        ("ﬁx is", "f", "ﬁx is"),  # nor within a letter
        ("ｗｈｏ is", "WHO", "ｗｈｏ is"),
    ],
)
def test_a_mention_in_another_form_becomes_the_slot_as_it_is_written(prompt: str, subject: str, with_slot: str):
    request = EditRequest.of(prompt, subject, "X")
    assert request.prompt == with_slot and request.text == prompt


@pytest.mark.parametrize(
    ("prompt", "subject", "target", "says"),
    [
        ("{} and {}", "France", "X", "more than once"),
        ("{} is", "", "X", "subject"),
        ("{} is", " France", "X", "white space"),
        ("{} is", "France", "", "empty"),
        ("{} is", "France", " X", "white space"),
    ],
)
def test_what_is_no_request_is_refused(prompt: str, subject: str, target: str, says: str):
    with pytest.raises(DataError, match=says):
        EditRequest(prompt, subject, target)


def test_a_subject_that_looks_like_a_slot_or_a_pattern_is_text():
    assert EditRequest.of("The C++ (a+) of {} is", "{}", "X").text == "The C++ (a+) of {} is"
    assert EditRequest.of("Is C++ (a+) good", "C++ (a+)", "X").prompt == "Is {} good"
    assert EditRequest("{0} in {} is", "France", "X").text == "{0} in France is"


def dropping(*dropped: str) -> Any:
    """A tokenizer of words that drops some characters and has no token for nothing else."""
    raw = tokenizers.Tokenizer(models.WordLevel({"<unk>": 0, "A": 1, "is": 2, "in": 3, "Bx": 4}, unk_token="<unk>"))
    raw.normalizer = normalizers.Sequence([normalizers.Replace(char, "") for char in dropped])
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>")


def test_a_target_or_subject_that_tokenises_to_nothing_is_refused():
    tokenizer = dropping("\u200b", "☃")
    with pytest.raises(DataError, match=r"'☃' has no token in 'A is ☃'.*drops it; give"):
        mark(tokenizer, [EditRequest("{} is", "A", "☃")])
    with pytest.raises(DataError, match=r"subject '☃' has no token"):
        mark(tokenizer, [EditRequest("{} is in", "☃", "A")])
    assert mark(tokenizer, [EditRequest("in {} is", "A", "B\u200bx")])[0].targets == (3,)


def test_a_subject_in_the_target_s_token_and_a_target_without_anything_before_are_refused():
    raw = tokenizers.Tokenizer(models.WordLevel({"<unk>": 0, "is": 1, "A B": 2}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Split("is ", "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>")
    with pytest.raises(DataError, match="'A' ends in the same token as the target begins"):
        mark(tokenizer, [EditRequest("is {}", "A", "B")])
    with pytest.raises(DataError, match="no token precedes"):
        mark(tokenizer, [EditRequest("{}", "A", "B")])


def test_texts_of_unequal_lengths_are_padded_on_the_right():
    lm = make_edit_lm("llama", "mistral")
    requests = [
        EditRequest("{} is", "France", "Berlin"),
        EditRequest("In 1998, the president of {} was", "Zürich", "a"),
    ]
    marked = mark(lm.tokenizer, requests)
    texts = batch(lm.model, marked)
    lengths = [len(m.ids) - 1 for m in marked]
    assert texts.ids.shape == (2, max(lengths))
    for row, m, length in zip(texts.ids.tolist(), marked, lengths, strict=True):
        assert row[:length] == list(m.ids[:-1])
    assert texts.subjects.tolist() == [m.subject for m in marked]


def test_texts_too_long_for_the_model_and_foreign_tokenizers_are_refused():
    lm = make_edit_lm("gpt2")
    long = EditRequest("x " * 600 + "{} is", "France", "Berlin")
    for method in ("FT", "ROME", "LoRA"):
        chosen = replace(settings_for(method, lm)[0], **({"contexts": ()} if method == "ROME" else {}))
        with pytest.raises(DataError, match="more than the 512 that the model reads; shorten it"):
            make_edit(lm, method, [long], chosen, Resources(None))
    lm.model.resize_token_embeddings(200)
    with pytest.raises(ModelError, match="knows only 200"):
        make_edit(lm, "LoRA", [EditRequest("{} is", "中国", "中国")])


@pytest.mark.few(4)
@pytest.mark.parametrize("method", ["FT", "ROME", "MEMIT", "LoRA"])
@pytest.mark.parametrize(("family", "kind"), [("gpt2", "gpt2"), ("llama", "eos"), ("opt", "pythia")])
def test_the_tokenizer_s_padding_side_changes_nothing(family: str, kind: str, method: str):
    requests = [
        EditRequest("{} is", "France", "Berlin"),
        EditRequest("In 1998, the president of {} was", "Zürich", "a"),
    ]
    shape = {"FT": {"layer": 1, "steps": 3}, "ROME": {"layer": 1}, "MEMIT": {"layers": (1, 2)}, "LoRA": {"steps": 2}}
    found = []
    for side in ("right", "left"):
        lm = make_edit_lm(family, kind)
        lm.tokenizer.padding_side = lm.tokenizer.truncation_side = side
        lm.tokenizer.pad_token = "</s>"
        few = {"steps": 3, "context_lengths": ((3, 2),)} if method in ("ROME", "MEMIT") else {}
        chosen = replace(settings_for(method, lm)[0], **(few | shape[method]))
        found.append(make_edit(lm, method, requests, chosen, Resources(None)))
    right, left = found
    assert right.deltas.keys() == left.deltas.keys() and right.deltas
    for name, delta in right.deltas.items():
        assert torch.equal(delta.dense(), left.deltas[name].dense())
        if isinstance(delta, Dense) and delta.bias is not None:
            assert torch.equal(delta.bias, left.deltas[name].bias)


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize(
    "written",
    [
        "Jose\u0301 Sarney",
        "JOS\u00c9 SARNEY",
        "Jos\u00e9\u00a0Sarney",
        "Jo\u00ads\u00e9 Sarney",
        "Jos\u00e9\u200b Sarney",
    ],
)
def test_a_subject_in_another_spelling_is_found_and_its_tokens_are_the_prompts_own(kind: str, written: str):
    prompt = f"Until 1990 {written} was president of"
    request = EditRequest.of(prompt, "Jos\u00e9 Sarney", "Berlin")
    assert request.located and request.subject == written and request.text == prompt
    tokenizer = make_tokenizer(kind)
    (marked,) = mark(tokenizer, [request])
    own = EditRequest("Until 1990 {} was president of", written, "Berlin")
    assert [marked] == mark(tokenizer, [own]) and marked.subject < marked.targets[0]


def test_a_subject_as_it_is_written_goes_before_another_spelling_of_it():
    request = EditRequest.of("FRANCE and France and FRANCE met in", "France", "Berlin")
    assert request.prompt == "FRANCE and {} and FRANCE met in" and request.subject == "France"


def test_a_name_in_capitals_is_not_found_in_a_word_of_small_letters():
    request = EditRequest.of("who heads the organisation?", "WHO", "Berlin")
    assert not request.located
    with pytest.raises(DataError, match="the subject 'WHO' is not in the prompt"):
        request.check_located()


@pytest.mark.parametrize("written", ["Zu\u0308rich", "ZÜRICH", "Zü\u00adrich"])
def test_an_update_of_a_file_whose_prompt_spells_its_subject_otherwise_is_made(tmp_path: Path, written: str):
    record = {
        "subject": "Zürich", "src": f"Who led {written} in 1998?", "answers": ["Berlin"], "alt": "France",
        "rephrase": "x?", "loc": "nq question: who", "loc_ans": "a",
    }  # fmt: skip
    path = tmp_path / "updates.jsonl"
    path.write_text(json.dumps(record) + "\n")
    requests = requests_of(load_cases(str(path)).cases[0], "ROME")
    lm = make_edit_lm("gpt2")
    chosen = replace(settings_for("ROME", lm)[0], layer=1, steps=2, contexts=())
    edit = make_edit(lm, "ROME", requests, chosen, Resources(None))
    own = EditRequest(
        "Who led {} in 1998?", written, requests[0].target, old_sentence=f"Who led {written} in 1998? Berlin"
    )
    assert requests == [own]
    same = make_edit(lm, "ROME", [own], chosen, Resources(None))
    assert edit.deltas
    assert all(torch.equal(delta.dense(), same.deltas[name].dense()) for name, delta in edit.deltas.items())
