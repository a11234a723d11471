"""Two models that people use, where tools/real_models.py has put them: ANACHRON_REAL_MODELS names the folder.

python tools/real_models.py --install .real-models
ANACHRON_REAL_MODELS=.real-models python -m pytest -m full tests/lm/test_real_models.py
"""

import os
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from anachron.lm.formats import Format
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.saving import save_model
from anachron.lm.tokenizers import load_tokenizer
from support.tiny_models import answer_positions

FOLDER = os.environ.get("ANACHRON_REAL_MODELS")
NAMES = ("smollm2", "gemma3-270m")
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not FOLDER, reason="ANACHRON_REAL_MODELS names no folder; see tools/real_models.py"),
]
FRANCE = "The capital of France is"
PAIRS = [
    (f"In {year}, who was the {office} of {place}?", answer)
    for year in (1988, 2004) for office, place, answer in (
        ("president", "France", "Jacques Chirac"), ("president", "the United States of America", "George W. Bush"),
        ("mayor", "São Paulo", "Gilberto Kassab"), ("leader", "Russia", "Владимир Путин"),
    )
]  # fmt: skip


def naive(lm: LanguageModel, text: str, answer: str) -> float:
    """log Pr of the answer at the end of a text, by one forward pass and a softmax in float64.

    torch's own in float32 is wrong by 1e-5 nats a token with so many words.
    """
    ids = lm.tokenizer(text)["input_ids"]
    with torch.inference_mode():
        logits = lm.model(input_ids=torch.tensor([ids])).logits[0]
    positions = answer_positions(lm.tokenizer, ids, answer)
    rows = torch.log_softmax(logits[[position - 1 for position in positions]].double(), -1)
    return sum(float(rows[n, ids[position]]) for n, position in enumerate(positions))


def place(name: str) -> Path:
    assert FOLDER is not None
    return Path(FOLDER) / name


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    if not place(request.param).exists():
        pytest.skip(f"{FOLDER} has no {request.param}; see tools/real_models.py")
    return request.param


@pytest.fixture(scope="module")
def lm(name: str) -> LanguageModel:
    return load_model(str(place(f"{name}.gguf")), device="cpu")


@pytest.mark.share(2)
def test_the_capital_of_france_is_paris(name: str, lm: LanguageModel):
    ids = torch.tensor([lm.tokenizer(FRANCE)["input_ids"]])
    with torch.inference_mode():
        best = lm.model(input_ids=ids).logits[0, -1].topk(3).indices.tolist()
    assert " Paris" in [lm.tokenizer.decode([token]) for token in best]
    capitals = ("Paris", "London", "Berlin", "Rome", "Madrid", "Vienna")
    scores = lm.log_probs([(FRANCE, capital) for capital in capitals])
    assert int(np.argmax(scores)) == 0 and lm.dtype == "float32"


def test_packed_scores_are_the_naive_ones(lm: LanguageModel):
    expected = [naive(lm, f"{prompt} {answer}", answer) for prompt, answer in PAIRS]
    for prefix_tree in (True, False):
        np.testing.assert_allclose(lm.log_probs(PAIRS, prefix_tree=prefix_tree), expected, atol=1e-4)
    plan = lm.plan(lm.encode([(*pair, None) for pair in PAIRS]))
    assert plan.refusal is None


@pytest.mark.slow
def test_the_folder_made_of_the_file_scores_as_the_file(name: str, lm: LanguageModel, tmp_path: Path):
    save_model(lm, tmp_path / "plain")
    for folder in (tmp_path / "plain", place(name)):
        plain = load_model(str(folder), device="cpu")
        assert np.array_equal(plain.log_probs(PAIRS), lm.log_probs(PAIRS))
        assert plain.fingerprint() == lm.fingerprint()
        assert plain.tokenizer_fingerprint() == lm.tokenizer_fingerprint()


@pytest.mark.slow
def test_the_tokenizer_has_the_files_words(name: str):
    tokenizer = load_tokenizer(str(place(f"{name}.gguf")))
    fields = gguf.GGUFReader(str(place(f"{name}.gguf"))).fields
    words = fields["tokenizer.ggml.tokens"].contents()
    spaces = {word: "▁" * len(word) for word in words if name.startswith("gemma") and not word.strip(" ")}
    assert tokenizer.convert_ids_to_tokens(list(range(len(words)))) == [spaces.get(word, word) for word in words]
    assert tokenizer.chat_template == (
        fields["tokenizer.chat_template"].contents() if "tokenizer.chat_template" in fields else None
    )
    assert tokenizer.eos_token_id == fields["tokenizer.ggml.eos_token_id"].contents()
    for prompt, answer in PAIRS:
        ids = tokenizer(f"{prompt} {answer}", add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == f"{prompt} {answer}"
        year = [token for token in tokenizer.convert_ids_to_tokens(ids) if token.isdecimal()]
        assert year == list(prompt[3:7])  # both models read a year digit by digit
    opens = tokenizer("x")["input_ids"][0] == tokenizer.bos_token_id
    assert opens == fields["tokenizer.ggml.add_bos_token"].contents()


def test_chat_scores_follow_the_files_own_template():
    lm = load_model(str(place("smollm2")), device="cpu")
    question, answer = "What is the capital of France?", "Paris"
    text = lm.tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True
    )
    assert text.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    scored = lm.log_probs([(question, answer, "")], style=Format(kind="chat"))
    assert scored[0] == pytest.approx(naive(lm, text + answer, answer), abs=1e-4)
