"""Every field of the JSON files of a checkpoint is changed: no change of a score may leave the identity as it was."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers

from anachron.lm.formats import Format, encode_pairs
from anachron.lm.generation import greedy_continuations
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.tokenizers import load_tokenizer
from support.config_changes import ADDED, FAMILIES, NOISE, SENSELESS, changes, loaded, make_checkpoint, scores, write
from support.tiny_models import make_lm, make_tokenizer, save

pytestmark = pytest.mark.trial

WAYS = 2  # of changing a field, at most
PAIRS = [
    ("Paris is the capital of", "France", None),
    ("In May 2004,  <s> the team </s> of São Paulo was", "Berlin", None),
]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    bars, level = transformers.utils.logging.is_progress_bar_enabled(), transformers.utils.logging.get_verbosity()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    yield
    transformers.utils.logging.set_verbosity(level)
    if bars:
        transformers.utils.logging.enable_progress_bar()


def some(content: dict[str, Any], added: dict[str, list[Any]], seed: int = 0) -> list[tuple[str, dict[str, Any]]]:
    """At least one change of every field, and of each `WAYS` that are drawn."""
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for what, changed in changes(content, added):
        found.setdefault(what.partition(" = ")[0].removeprefix("without "), []).append((what, changed))
    chooser = random.Random(seed)
    return [one for ways in found.values() for one in chooser.sample(ways, min(WAYS, len(ways)))]


@pytest.mark.share(4)
@pytest.mark.parametrize("part", range(4))
def test_no_field_of_a_configuration_is_missed(part: int, tmp_path: Path):
    """Of every fourth family; the rest in the other parts."""
    tried = opened = changed = 0
    missed: list[str] = []
    families = [*enumerate(FAMILIES)][part::4]
    for number, family in families:
        folder = tmp_path / family
        make_checkpoint(family, folder)
        lm = load_model(str(folder))
        expected, identity, prints = scores(lm), lm.identity(), lm.fingerprint()
        moved = 0
        for what, content in some(json.loads((folder / "config.json").read_text("utf-8")), ADDED, number):
            tried += 1
            write(folder / "config.json", content)
            other = loaded(folder)
            now = None if other is None else tried_scores(other)
            if other is None or now is None:
                continue
            opened += 1
            if not (now - expected).abs().max() <= NOISE:
                moved += 1
                if other.identity() == identity or other.fingerprint() == prints:
                    missed.append(f"{family}: {what}")
        assert moved >= 3, f"{family}: too few changes matter for this to say anything"
        changed += moved
        shutil.rmtree(folder)
    print(
        f"\ntrial: {tried} changes of config.json in {len(families)} families, {opened} could be loaded, {changed} "
        f"changed scores, {len(missed)} of these not in the identity"
    )
    assert not missed


def tried_scores(lm: LanguageModel) -> Any:
    try:
        return scores(lm)
    except SENSELESS:
        return None


def test_no_field_of_an_adapter_is_missed(tmp_path: Path):
    import peft

    save(make_lm("llama", "mistral"), tmp_path / "base")
    config = peft.LoraConfig(
        r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM"
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    folder = tmp_path / "adapted"
    peft.get_peft_model(model, config).save_pretrained(folder)
    make_tokenizer("mistral").save_pretrained(folder)
    lm = load_model(str(folder))
    expected, identity = scores(lm), lm.identity()
    tried = changed = 0
    missed = []
    added = {"rank_pattern": [{"q_proj": 1}], "alpha_pattern": [{"q_proj": 9}]}
    for what, content in changes(json.loads((folder / "adapter_config.json").read_text("utf-8")), added):
        tried += 1
        write(folder / "adapter_config.json", content)
        other = loaded(folder)
        now = None if other is None else tried_scores(other)
        if other is not None and now is not None and not (now - expected).abs().max() <= NOISE:
            changed += 1
            missed += [what] if other.identity() == identity else []
    print(
        f"\ntrial: {tried} changes of adapter_config.json, {changed} changed scores, {len(missed)} of these not in the "
        "identity"
    )
    assert changed >= 3 and not missed


def test_no_field_of_a_tokenizer_is_missed(tmp_path: Path):
    """Of both files: what texts become, raw and by the chat template, and what is written at the end."""
    model = make_lm("llama", "mistral")
    tried = changed = 0
    missed: list[str] = []
    for kind in ("mistral", "gpt2"):
        folder = tmp_path / kind
        make_checkpoint("llama", folder)
        tokenizer = make_tokenizer(kind)
        tokenizer.chat_template = (
            "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}{{ pad_token }}"
        )
        tokenizer.save_pretrained(folder)
        expected = seen(folder, model.model)
        assert expected is not None
        for name in ("tokenizer_config.json", "tokenizer.json"):
            whole = json.loads((folder / name).read_text("utf-8"))
            content = {k: v for k, v in whole.items() if k not in ("model", "added_tokens")}
            for what, other in changes(content, {"add_bos_token": [True, False], "add_eos_token": [True, False]}):
                tried += 1
                write(folder / name, {**whole, **other})
                now = seen(folder, model.model)
                if now is not None and now[0] != expected[0]:
                    changed += 1
                    missed += [f"{kind}: {what}"] if now[1] == expected[1] else []
            write(folder / name, whole)
    print(
        f"\ntrial: {tried} changes of a tokenizer's files, {changed} changed what is read or written, {len(missed)} of "
        "these not in its fingerprint"
    )
    assert changed >= 5 and not missed


def seen(folder: Path, model: Any) -> tuple[Any, str] | None:
    """What a tokenizer makes of texts, and its fingerprint; None where it does not work."""
    parts: list[Callable[[LanguageModel], Any]] = [
        lambda lm: encode_pairs(lm.tokenizer, PAIRS, Format()),
        lambda lm: encode_pairs(lm.tokenizer, PAIRS, Format("chat")),
        lambda lm: greedy_continuations(lm, ["In", "Paris is in"], 8),
        lambda lm: lm.tokenizer.decode(list(range(3, 300)), skip_special_tokens=True),
    ]
    found = []
    try:
        lm = LanguageModel(model, load_tokenizer(str(folder)), "tiny")
        for part in parts:
            try:
                found.append(part(lm))
            except Exception as error:  # noqa: BLE001 - a text that cannot be encoded is seen by its error
                found.append(type(error).__name__)
        return found, lm.tokenizer_fingerprint()
    except BaseException as error:  # the tokenizers' own code panics on some files
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


def test_no_setting_for_generation_gets_into_what_is_written(tmp_path: Path):
    save(make_lm("llama", "mistral"), tmp_path / "m")
    whole = transformers.GenerationConfig().to_dict()
    own: dict[str, Any] = {
        "repetition_penalty": 9.0, "eos_token_id": 5, "suppress_tokens": [7, 8, 9, 10], "num_beams": 3, "min_length": 4,
        "forced_eos_token_id": 7, "no_repeat_ngram_size": 1, "bad_words_ids": [[9], [11]], "temperature": 4.0,
        "do_sample": True, "top_k": 1, "max_length": 3, "exponential_decay_length_penalty": [1, 3.0],
        "max_time": 1e-9, "begin_suppress_tokens": [7, 8, 9], "stop_strings": ["a", "e"],
        "guidance_scale": 3.0, "prompt_lookup_num_tokens": 2,
    }  # fmt: skip
    prompts = ["Paris is the capital of", "In"]
    expected = greedy_continuations(load_model(str(tmp_path / "m")), prompts, 10)
    tried = opened = 0
    leaked = []
    for what, content in some(whole, {}):
        tried, opened = tried + 1, opened + leaks(tmp_path / "m", content, expected, leaked, what)
    for name, value in own.items():
        tried, opened = tried + 1, opened + leaks(tmp_path / "m", {**whole, name: value}, expected, leaked, name)
    print(f"\ntrial: {tried} changes of generation_config.json, {opened} could be loaded, {len(leaked)} changed a text")
    assert opened > 50 and not leaked


def leaks(folder: Path, content: dict[str, Any], expected: list[str], leaked: list[str], what: str) -> int:
    """1 where a model with these settings could be loaded; ``leaked`` gets what changed a text."""
    write(folder / "generation_config.json", content)
    lm = loaded(folder)
    if lm is None:
        return 0
    if greedy_continuations(lm, ["Paris is the capital of", "In"], 10) != expected:
        leaked.append(what)
    return 1
