"""Settings for a model: the papers' for theirs, scaled ones for others, and changes that are checked."""

import dataclasses
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
import torch
import transformers

from anachron.edit.make import make_edit, settings_for, with_contexts
from anachron.edit.method import Resources
from anachron.edit.methods import METHODS, method_named, printed_name
from anachron.edit.methods.alphaedit import AlphaEditSettings
from anachron.edit.methods.ft import FtSettings
from anachron.edit.methods.lora import LoraSettings
from anachron.edit.methods.memit import MemitSettings
from anachron.edit.methods.prompt import PromptSettings
from anachron.edit.methods.rome import RomeSettings
from anachron.edit.plan import plan
from anachron.edit.presets import changed, preset
from anachron.edit.requests import EditRequest
from anachron.errors import ConfigError, DataError
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from edit_models import make_edit_lm
from tiny import make_tokenizer

REQUEST = EditRequest("The president of {} is", "France", "Berlin")


def of_shape(config: Any) -> LanguageModel:
    """A model of full shape that takes no memory."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    return LanguageModel(model, make_tokenizer("gpt2"), "a/model")


GPT_J = transformers.GPTJConfig()
XL = transformers.GPT2Config(n_layer=48, n_embd=1600, n_head=25)
LLAMA = transformers.LlamaConfig()
# spec/editing.md; paper 003, appendix B
PUBLISHED: list[tuple[Any, str, dict[str, Any]]] = [
    (GPT_J, "FT", {"layer": 21, "steps": 25, "rate": 5e-4, "stop_below": 1e-2, "eps": None}),
    (GPT_J, "FT+L", {"layer": 0, "eps": 5e-5}),
    (GPT_J, "ROME", {"layer": 5, "steps": 20, "decay": 0.5, "clamp": 4.0, "rate": 0.5, "stop_below": 0.05, "kl": 0.0625,
                     "averaged_key": True, "context_lengths": ((5, 10), (10, 10))}),
    (GPT_J, "MEMIT", {"layers": (3, 4, 5, 6, 7, 8), "steps": 25, "clamp": 0.75, "decay": 0.5, "weight": 15000.0}),
    (GPT_J, "AlphaEdit", {"layers": (3, 4, 5, 6, 7, 8), "threshold": 2e-2, "ridge": 10.0}),
    (GPT_J, "EMMET", {"layer": 5, "ridge": 0.1}),
    (XL, "FT", {"layer": 1}),
    (XL, "FT+L", {"layer": 0, "eps": 5e-4}),
    (XL, "ROME", {"layer": 17}),
    (XL, "MEMIT", {"layers": (13, 14, 15, 16, 17), "steps": 20, "weight": 20000.0}),
    (LLAMA, "FT", {"layer": 21}),
    (LLAMA, "ROME", {"layer": 5}),
    (LLAMA, "MEMIT", {"layers": (4, 5, 6, 7, 8), "weight": 15000.0}),
]  # fmt: skip


@pytest.mark.parametrize(("config", "method", "wanted"), PUBLISHED)
def test_the_papers_models_have_the_papers_settings(config: Any, method: str, wanted: dict[str, Any]):
    settings, source = settings_for(method, of_shape(config))
    assert asdict(settings).items() >= wanted.items()
    assert source == f"published for {name_of(config)}"


def name_of(config: Any) -> str:
    return {"gptj": "GPT-J", "gpt2": "GPT-2-XL", "llama": "Llama-7B"}[config.model_type]


@pytest.mark.parametrize(
    ("config", "method", "wanted", "says"),
    [
        (
            transformers.GPT2Config(),
            "ROME",
            {"layer": 4},
            "GPT-2-XL by relative depth: 48 layers to 12, MLP width 6400 to 3072",
        ),
        (transformers.GPT2Config(), "FT", {"layer": 0}, "GPT-2-XL"),
        (
            transformers.GPT2Config(),
            "MEMIT",
            {"layers": (3, 4), "weight": 20000 * 3072 / 6400, "steps": 20},
            "GPT-2-XL",
        ),
        (
            transformers.LlamaConfig(num_hidden_layers=16, hidden_size=2048, intermediate_size=8192),
            "MEMIT",
            {"layers": (2, 3, 4), "weight": 15000 * 8192 / 11008},
            "Llama-7B by relative depth: 32 layers to 16",
        ),
        (transformers.MistralConfig(), "ROME", {"layer": 5}, "Llama-7B by relative depth: 32 layers to 32"),
        (transformers.MistralConfig(), "AlphaEdit", {"layers": (4, 5, 6, 7, 8)}, "Llama-7B"),
        (transformers.GPTNeoXConfig(num_hidden_layers=44), "FT", {"layer": round(21 * 43 / 27)}, "GPT-J"),
        (transformers.OPTConfig(num_hidden_layers=1), "MEMIT", {"layers": (0,)}, "GPT-J"),
        (transformers.Gemma2Config(num_hidden_layers=42), "FT+L", {"layer": 0, "eps": 5e-5}, "Llama-7B"),
    ],
)
def test_other_models_have_them_scaled_by_relative_depth(config: Any, method: str, wanted: dict[str, Any], says: str):
    settings, source = settings_for(method, of_shape(config))
    assert asdict(settings).items() >= wanted.items()
    assert source.startswith("scaled from ") and says in source


def test_methods_without_published_settings_have_their_defaults_on_any_model():
    lm = make_edit_lm("llama")
    assert settings_for("LoRA", lm) == (LoraSettings(), "the method's defaults")
    assert settings_for("PROMPT", lm) == (PromptSettings(), "the method's defaults")
    edit = make_edit(lm, "prompt", [REQUEST])  # without settings
    assert edit.prefix == "The president of France is Berlin. " and not edit.deltas


@pytest.mark.parametrize("family", ["gpt2", "llama", "opt"])
@pytest.mark.parametrize("method", ["FT", "FT+L", "ROME", "MEMIT", "AlphaEdit", "EMMET", "LoRA", "PROMPT"])
def test_every_preset_can_be_used(method: str, family: str):
    lm = make_edit_lm(family)
    sites = find_sites(lm.model)
    settings, _ = preset(METHODS[method], lm, sites)
    assert all(0 <= layer < sites.layers for layer in getattr(settings, "layers", None) or ())
    assert 0 <= getattr(settings, "layer", 0) < sites.layers
    assert asdict(changed(settings, method, asdict(settings))) == asdict(settings)
    back = {name: to_lists(value) for name, value in asdict(settings).items()}  # as a file of settings has them
    assert changed(settings, method, back) == settings


def to_lists(value: Any) -> Any:
    return [to_lists(v) for v in value] if isinstance(value, tuple) else value


def test_changes_are_checked_one_by_one():
    settings = MemitSettings()
    new = changed(
        settings, "MEMIT", {"layers": [1, 2], "weight": 3, "contexts": ["a ", "b "], "context_lengths": [[3, 4]]}
    )
    assert (new.layers, new.weight, new.contexts, new.context_lengths) == ((1, 2), 3, ("a ", "b "), ((3, 4),))
    assert changed(settings, "MEMIT", {}) == settings
    assert changed(new, "MEMIT", {"contexts": None}).contexts is None
    assert changed(FtSettings(), "FT", {"eps": 1e-4}).eps == 1e-4
    assert changed(LoraSettings(), "LoRA", {"layers": (0,)}).layers == (0,)


@pytest.mark.parametrize(
    ("settings", "change", "says"),
    [
        (RomeSettings(), {"layers": (1,)}, "ROME has no setting 'layers'; it has steps, rate"),
        (RomeSettings(), {"layer": 1.0}, "ROME.layer 1.0 must be a whole number, such as 5"),
        (RomeSettings(), {"layer": "5"}, "ROME.layer"),
        (RomeSettings(), {"layer": True}, "ROME.layer"),
        (RomeSettings(), {"steps": None}, "ROME.steps null must be a whole number"),
        (RomeSettings(), {"averaged_key": 1}, "ROME.averaged_key"),
        (RomeSettings(), {"rate": False}, "ROME.rate"),
        (RomeSettings(), {"contexts": "Then. "}, "ROME.contexts"),
        (RomeSettings(), {"contexts": [1]}, "ROME.contexts"),
        (RomeSettings(), {"context_lengths": [[5]]}, "ROME.context_lengths"),
        (RomeSettings(), {"context_lengths": [5, 10]}, "ROME.context_lengths"),
        (AlphaEditSettings(), {"layers": 3}, r"AlphaEdit.layers 3 must be a list, such as \[3, 4"),
        (AlphaEditSettings(), {"layers": ["a"]}, "AlphaEdit.layers"),
        (FtSettings(), {"eps": "small"}, 'FT.eps "small" must be a number or null'),
        (LoraSettings(), {"layers": 1}, "LoRA.layers"),
        (PromptSettings(), {"end": 1}, "PROMPT.end 1 must be a text"),
    ],
)
def test_wrong_changes_are_refused(settings: Any, change: dict[str, Any], says: str):
    method = type(settings).__name__.removesuffix("Settings")
    method = {"Rome": "ROME", "Ft": "FT", "Lora": "LoRA", "Prompt": "PROMPT"}.get(method, method)
    with pytest.raises(ConfigError, match=says):
        changed(settings, method, change)


def test_reports_call_a_method_as_the_literature_does():
    assert printed_name("ROME", asdict(RomeSettings())) == "r-ROME"
    assert printed_name("ROME", asdict(RomeSettings(averaged_key=False))) == "ROME"
    assert printed_name("MEMIT", asdict(METHODS["MEMIT"].settings())) == "MEMIT"
    lm, steps = make_edit_lm("llama"), {"contexts": [], "layer": 1}
    for averaged, name in ((True, "r-ROME"), (False, "ROME")):
        changes = {"ROME": steps | {"averaged_key": averaged}}
        planned = plan(lm, ["ROME", "ROME dated"], changes=changes, identity_covariance=True)
        assert [one.printed_name for one in planned] == [name, f"{name} dated"]
        assert [one.label for one in planned] == ["ROME", "ROME dated"]


def test_every_setting_has_a_kind_that_its_default_is_of():
    for name, method in METHODS.items():
        if dataclasses.is_dataclass(method.settings):
            default = method.settings()
            for field in fields(default):
                assert getattr(changed(default, name, {field.name: getattr(default, field.name)}), field.name) == \
                    getattr(default, field.name)  # fmt: skip


def test_what_make_edit_is_not_given_is_said_before_any_work(monkeypatch: pytest.MonkeyPatch):
    lm = make_edit_lm("llama")

    def works(*_: Any, **__: Any) -> None:
        raise AssertionError("the values were optimised before the check")

    monkeypatch.setattr("anachron.edit.methods.rome.optimise_values", works)
    monkeypatch.setattr("anachron.edit.passes.spread.optimise_values", works)
    for method in ("ROME", "MEMIT", "EMMET", "AlphaEdit"):
        with pytest.raises(ConfigError, match=rf"{method}: no covariance of model\.layers\..*anachron covariance"):
            make_edit(lm, method, [REQUEST])
    with pytest.raises(ConfigError, match="AlphaEdit needs the covariance"):
        make_edit(lm, "AlphaEdit", [REQUEST], resources=Resources(None))
    with pytest.raises(ConfigError, match="takes RomeSettings, not FtSettings"):
        make_edit(lm, "ROME", [REQUEST], FtSettings())
    with pytest.raises(ConfigError, match=r"FT\+L needs its setting eps"):
        make_edit(lm, "FT+L", [REQUEST], FtSettings(layer=1))
    with pytest.raises(ConfigError, match="choose one of FT, FT"):
        make_edit(lm, "ROM", [REQUEST])
    with pytest.raises(DataError, match="ROME: no update was given"):
        make_edit(lm, "rome", [])
    assert [method_named(name).name for name in ("rome", "Ft+l", "ALPHAEDIT")] == ["ROME", "FT+L", "AlphaEdit"]


def test_what_an_edit_was_made_with_is_in_it():
    lm = make_edit_lm("llama")
    chosen = replace(settings_for("FT", lm)[0], steps=2)
    edit = make_edit(lm, "ft", [REQUEST, REQUEST], chosen)
    assert edit.about["method"] == "FT" and edit.about["settings"] == asdict(chosen)
    assert edit.about["settings_from"] == "given" and edit.about["edits"] == edit.count == 2
    assert edit.about["seconds"] > 0 and edit.model == lm.fingerprint()
    assert make_edit(lm, "LoRA", [REQUEST]).about["settings_from"] == "the method's defaults"
    fixed = with_contexts(lm, RomeSettings(context_lengths=((3, 2),)))
    assert fixed.contexts is not None and len(fixed.contexts) == 2 and with_contexts(lm, fixed) == fixed
    assert with_contexts(lm, chosen) is chosen
