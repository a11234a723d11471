"""``--corpus auto``: text that the model writes itself, the same each time, kept as any other corpus."""

from itertools import islice
from pathlib import Path

import pytest
import torch

from anachron.core.errors import ConfigError
from anachron.edit.corpus import open_corpus, token_batches
from anachron.edit.covariance import own_text
from anachron.edit.covariance.collect import collect_covariance
from anachron.edit.covariance.own_text import OwnText, enough_tokens
from anachron.io.jobs import Callbacks
from anachron.lm.model import LanguageModel
from support.tiny_models import make_lm

MODULE = "transformer.h.0.mlp.c_proj"


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_lm("gpt2", "gpt2")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_text, "TEXTS", 3)
    monkeypatch.setattr(own_text, "LENGTH", 12)


def test_the_same_model_writes_the_same_from_any_piece_on(lm):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    pieces = list(islice(OwnText(lm).pieces(), 4))
    assert torch.equal(torch.get_rng_state(), state)
    assert [number for number, _ in pieces] == [0, 1, 2, 3] and len({text for _, text in pieces}) == 4
    torch.manual_seed(6)
    assert list(islice(OwnText(lm).pieces(2), 2)) == pieces[2:]
    assert next(OwnText(lm, seed=1).pieces())[1] not in {text for _, text in pieces}
    assert OwnText(lm, seed=1).identity != OwnText(lm).identity == OwnText(make_lm("gpt2", "gpt2", seed=1)).identity


def test_what_it_writes_follows_its_own_distribution(lm, monkeypatch):
    """First tokens of many texts, against the model's probabilities behind the token that a text starts from."""
    monkeypatch.setattr(own_text, "LENGTH", 1)
    monkeypatch.setattr(own_text, "TEXTS", 4000)
    kept: list[torch.Tensor] = []
    real = own_text.continued

    def caught(*given, **how):
        kept.append(real(*given, **how)[:, 1])
        return torch.zeros(1, 2, dtype=torch.long)

    monkeypatch.setattr(own_text, "continued", caught)
    next(OwnText(lm).pieces())
    with torch.inference_mode():
        logits = lm.model(torch.tensor([[own_text.start_of_text(lm.tokenizer)]])).logits[0, -1]
    wanted = torch.softmax(logits.double(), -1)
    found = torch.bincount(kept[0], minlength=len(wanted)).double() / 4000
    spread = (wanted * (1 - wanted) / 4000).sqrt()
    assert bool(((found - wanted).abs() <= 5 * spread + 1e-3).all()) and int((found > 0).sum()) > 20


def test_its_covariance_is_kept_under_the_model(lm, tmp_path: Path):
    asked: list[int] = []
    heard = Callbacks(progress=lambda done, total: asked.append(done))
    (made,) = collect_covariance(lm, [MODULE], "auto", tokens=70, cache=tmp_path, callbacks=heard).values()
    assert made.tokens == 70 and asked and made.manifest["corpus"] == "auto"
    assert made.manifest["settings"]["corpus"]["seed"] == 0
    asked.clear()
    (again,) = collect_covariance(lm, [MODULE], "auto", tokens=70, cache=tmp_path, callbacks=heard).values()
    assert torch.equal(again.matrix, made.matrix) and not asked  # nothing was sampled again
    batches = list(token_batches(lm.tokenizer, OwnText(lm), window=16, batch_tokens=16, left=70))
    keys = []
    handle = lm.model.get_submodule(MODULE).register_forward_hook(lambda m, given, out: keys.append(given[0][0]))
    with torch.inference_mode():
        for batch in batches:
            lm.model(input_ids=torch.tensor(batch.windows))
    handle.remove()
    rows = torch.cat(keys).double()
    assert len(rows) == 70
    (of_windows,) = collect_covariance(lm, [MODULE], "auto", tokens=70, window=16).values()
    torch.testing.assert_close(of_windows.matrix, rows.T @ rows / 70)


def test_ten_tokens_for_each_input(lm):
    inputs = lm.model.get_submodule(MODULE).weight.shape[0]  # Conv1D: (inputs, outputs)
    assert enough_tokens(lm, [MODULE], 10**6) == 10 * inputs and enough_tokens(lm, [MODULE], 100) == 100


def test_it_is_no_text_for_anything_else():
    with pytest.raises(ConfigError, match="corpus auto: the model's own text is for a covariance alone"):
        open_corpus("auto")
