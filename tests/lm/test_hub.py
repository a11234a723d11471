"""A name neither here nor in the cache, where the hub does not answer: an error at once; and none where it answers."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import transformers
from huggingface_hub import constants
from huggingface_hub.utils import get_session

from anachron.core.errors import ModelError
from anachron.lm import hub
from anachron.lm.hub import out_of_reach
from anachron.lm.loading import load_model
from anachron.lm.tokenizers import demo_folder, load_tokenizer


class Session:
    """A client of the hub whose connections fail so many times, then are answered; files are never there."""

    def __init__(self, fails: int) -> None:
        self.fails, self.asked = fails, 0

    def head(self, url: str, timeout: float) -> int:
        self.asked += 1
        if self.asked <= self.fails:
            raise ConnectionError("nobody there")
        return 503


def no_download(*arguments: Any, **options: Any) -> None:
    raise AssertionError(f"the hub's client is asked: {arguments}")


@pytest.mark.parametrize("fails", [0, 1, 2, 3])
def test_the_hub_is_asked_twice_and_any_answer_counts(fails: int, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(fails)
    monkeypatch.setattr(hub, "get_session", lambda: session)
    assert out_of_reach("no-such/model") == (fails >= 2)
    assert session.asked == min(fails + 1, 2)


def test_a_folder_needs_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "get_session", no_download)
    assert not out_of_reach(str(tmp_path))


@pytest.mark.parametrize("load", [load_model, load_tokenizer])
def test_a_wrong_name_offline_is_an_error_before_the_client_tries(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "get_session", lambda: Session(9))
    monkeypatch.setattr(type(get_session()), "request", no_download)
    monkeypatch.setattr(type(get_session()), "send", no_download)
    with pytest.raises(ModelError, match=r"no folder 'no-such/model' here, .* does not answer; check the name"):
        load("no-such/model")


def test_a_model_in_the_cache_is_loaded_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_model, commit = tmp_path / "models--no-such--model", 40 * "a"
    shutil.copytree(demo_folder(), of_model / "snapshots" / commit)
    (of_model / "refs").mkdir()
    (of_model / "refs" / "main").write_text(commit)
    for module in (constants, transformers.utils.hub.constants):
        monkeypatch.setattr(module, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub, "get_session", lambda: Session(9))
    monkeypatch.setattr(type(get_session()), "request", no_download)
    monkeypatch.setattr(type(get_session()), "send", no_download)
    assert load_model("no-such/model").name == "no-such/model"
