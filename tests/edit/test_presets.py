"""Settings for a model: the papers' for theirs, scaled ones for others, and changes that are checked."""

import dataclasses
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
import torch
import transformers

from anachron.core.errors import ConfigError, DataError
from anachron.edit.make import make_edit, settings_for, with_contexts
from anachron.edit.method import Resources
from anachron.edit.methods import method_named, methods, printed_name
from anachron.edit.methods.alphaedit import AlphaEditSettings
from anachron.edit.methods.ft import FtSettings
from anachron.edit.methods.lora import LoraSettings
from anachron.edit.methods.memit import MemitSettings
from anachron.edit.methods.prompt import PromptSettings
from anachron.edit.methods.rome import RomeSettings
from anachron.edit.passes.spread import ridge
from anachron.edit.plan import plan_edits
from anachron.edit.presets import changed, preset, scaling
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from support.edit_models import make_edit_lm
from support.tiny_models import make_tokenizer

REQUEST = EditRequest("The president of {} is", "France", "Berlin")


def of_shape(config: Any) -> LanguageModel:
    """A model of full shape that takes no memory."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    return LanguageModel(model, make_tokenizer("gpt2"), "a/model")


GPT_J = transformers.GPTJConfig()
XL = transformers.GPT2Config(n_layer=48, n_embd=1600, n_head=25)
LLAMA = transformers.LlamaConfig()
LLAMA_3 = transformers.LlamaConfig(intermediate_size=14336)
QWEN = transformers.Qwen2Config(num_hidden_layers=28, hidden_size=3584, intermediate_size=18944)
MISTRAL = transformers.MistralConfig()
LLAMA_3_2 = transformers.LlamaConfig(num_hidden_layers=28, hidden_size=3072, intermediate_size=8192)
GEMMA_3 = transformers.Gemma3TextConfig(num_hidden_layers=62, hidden_size=5376, intermediate_size=21504)
QWEN_3_5 = transformers.Qwen3_5TextConfig(num_hidden_layers=32, hidden_size=4096, intermediate_size=12288)
MODELS = {
    "GPT-J": GPT_J, "GPT-2-XL": XL, "Llama-7B": LLAMA, "Llama-3-8B": LLAMA_3, "Qwen2.5-7B": QWEN, "Mistral-7B": MISTRAL,
    "Llama-3.2-3B": LLAMA_3_2, "Gemma-3-27B": GEMMA_3, "Qwen3.5-9B": QWEN_3_5,
}  # fmt: skip
STARTS = ("The", "Therefore", "Because", "I", "You")
# As the authors' code counts the lengths of contexts, a start-of-text token is one of the tokens. GPT-2, GPT-J and
# Qwen put none before a word; ROME's own code begins with one.
AFTER_ONE, AFTER_NONE = ((4, 10), (9, 10)), ((5, 10), (10, 10))
VALUE = {"rate": 0.5, "kl": 0.0625, "stop_below": 0.05}
ROME_2022 = VALUE | {"steps": 20, "decay": 0.5, "clamp": 4.0, "context_lengths": AFTER_ONE, "context_starts": ()}
ROME_LATER = VALUE | {"layer": 5, "steps": 25, "decay": 1e-3, "clamp": 4.0, "context_starts": STARTS}
SPREAD = VALUE | {"steps": 25, "decay": 0.5, "clamp": 0.75, "context_lengths": ((10, 5),), "context_starts": STARTS}
LATER = {"decay": 1e-3, "clamp": 4.0}
LLAMA_CONTEXTS = {"context_lengths": ((9, 5),)}
FREE = {
    "steps": 25,
    "rate": 5e-4,
    "stop_below": 1e-2,
    "eps": None,
    "batch": 64,
}  # batch_size of baselines/ft/ft_hparams.py
J_3_TO_8, XL_13_TO_17, L_4_TO_8 = (
    {"layers": (3, 4, 5, 6, 7, 8)},
    {"layers": (13, 14, 15, 16, 17)},
    {"layers": (4, 5, 6, 7, 8)},
)
EMPTY = {"threshold": 2e-2, "ridge": 10.0}
MEND_2022 = {"rank": 1920, "start": 1e-4, "normalise": True, "edit_weight": 0.1, "kl_weight": 1.0, "rate": 1e-6,
             "lr_rate": 1e-4, "clip": 100.0, "batch": 10}  # fmt: skip
# config/editor/ultraedit.yaml, dataset.batch_size of config/dataset/*.yaml; the ridge is the identity of its code
ULTRA = {"rate": 1e-6, "tokens": "answer", "batch": 10, "ridge": 1.0, "gate_layers": (), "up_layers": ()}
GRACE_2023 = {"radius": 1.0, "rate": 1.0, "warm": False, "into_mlp": False, "stop_below": 0.0}
ULTRA_FILES = "XiaojieGu/UltraEdit config/model/"
EASY, ALPHA = "zjunlp/EasyEdit hparams/", "jianghoucheng/AlphaEdit hparams/"
# method, model, what the file says in the names of ours, the file
PUBLISHED: list[tuple[str, str, dict[str, Any], str]] = [
    ("FT", "GPT-J", FREE | {"layer": 21}, "kmeng01/memit hparams/FT/EleutherAI_gpt-j-6B_unconstr.json"),
    ("FT", "GPT-2-XL", FREE | {"layer": 1}, "kmeng01/memit hparams/FT/gpt2-xl_unconstr.json"),
    ("FT", "Llama-7B", FREE | {"layer": 21}, EASY + "FT/llama-7b.yaml"),
    ("FT", "Llama-3-8B", FREE | {"layer": 21}, ALPHA + "FT/Llama3-8B.json"),
    ("FT", "Qwen2.5-7B", FREE | {"layer": 27}, EASY + "FT/qwen2.5-7b.yaml"),
    ("FT+L", "GPT-J", FREE | {"layer": 0, "eps": 5e-5}, "kmeng01/memit hparams/FT/EleutherAI_gpt-j-6B_constr.json"),
    ("FT+L", "GPT-2-XL", FREE | {"layer": 0, "eps": 5e-4}, "kmeng01/memit hparams/FT/gpt2-xl_constr.json"),
    ("ROME", "GPT-J", ROME_2022 | {"layer": 5}, "kmeng01/rome hparams/ROME/EleutherAI_gpt-j-6B.json"),
    ("ROME", "GPT-2-XL", ROME_2022 | {"layer": 17}, "kmeng01/rome hparams/ROME/gpt2-xl.json"),
    ("ROME", "Llama-7B", ROME_LATER | {"context_lengths": AFTER_ONE}, EASY + "R-ROME/llama-7b.yaml"),
    ("ROME", "Llama-3-8B", ROME_LATER | {"context_lengths": AFTER_ONE}, ALPHA + "ROME/Llama3-8B.json"),
    ("ROME", "Qwen2.5-7B", ROME_LATER | {"context_lengths": AFTER_NONE}, EASY + "R-ROME/qwen2.5-7b.yaml"),
    ("MEMIT", "GPT-J", SPREAD | J_3_TO_8 | {"weight": 15000}, "kmeng01/memit hparams/MEMIT/EleutherAI_gpt-j-6B.json"),
    ("MEMIT", "GPT-2-XL", SPREAD | XL_13_TO_17 | {"steps": 20, "weight": 20000},
     "kmeng01/memit hparams/MEMIT/gpt2-xl.json"),
    ("MEMIT", "Llama-7B", SPREAD | L_4_TO_8 | LATER | LLAMA_CONTEXTS | {"weight": 15000}, EASY + "MEMIT/llama-7b.yaml"),
    ("MEMIT", "Llama-3-8B", SPREAD | L_4_TO_8 | LLAMA_CONTEXTS | {"rate": 0.1, "weight": 15000},
     ALPHA + "MEMIT/Llama3-8B.json"),
    ("MEMIT", "Qwen2.5-7B", SPREAD | L_4_TO_8 | LATER | {"weight": 15000}, EASY + "MEMIT/qwen2.5-7b.yaml"),
    ("AlphaEdit", "GPT-J", SPREAD | J_3_TO_8 | EMPTY, ALPHA + "AlphaEdit/EleutherAI_gpt-j-6B.json"),
    ("AlphaEdit", "GPT-2-XL", SPREAD | XL_13_TO_17 | EMPTY | {"steps": 20}, ALPHA + "AlphaEdit/gpt2-xl.json"),
    ("AlphaEdit", "Llama-3-8B", SPREAD | L_4_TO_8 | EMPTY | LLAMA_CONTEXTS | {"rate": 0.1},
     ALPHA + "AlphaEdit/Llama3-8B.json"),
    ("AlphaEdit", "Qwen2.5-7B", SPREAD | L_4_TO_8 | EMPTY | LATER | {"ridge": 1.0}, EASY + "AlphaEdit/qwen2.5-7b.yaml"),
    # mom2_update_weight times emmet_lambda
    ("EMMET", "GPT-J", SPREAD | {"layer": 5, "ridge": 1 * 0.1}, "EMMET/EleutherAI_gpt-j-6B.json"),
    ("EMMET", "GPT-2-XL", SPREAD | {"layer": 17, "steps": 20, "ridge": 1000 * 0.1}, "EMMET/gpt2-xl.json"),
    ("EMMET", "Llama-7B", SPREAD | LATER | LLAMA_CONTEXTS | {"layer": 5, "ridge": 1 * 0.1}, "EMMET/llama2-7b.json"),
    ("EMMET", "Llama-3.2-3B", SPREAD | LATER | LLAMA_CONTEXTS | {"layer": 5, "ridge": 100000 * 0.1},
     EASY + "EMMET/llama3.2-3b.yaml"),
    ("MEND", "GPT-J", MEND_2022 | {"layers": (25, 26, 27)}, "eric-mitchell/mend config/alg/mend.yaml"),
    ("MEND", "GPT-2-XL", MEND_2022 | {"layers": (45, 46, 47)}, "eric-mitchell/mend config/alg/mend.yaml"),
    ("UltraEdit", "GPT-J", ULTRA | {"layers": tuple(range(18, 27))}, ULTRA_FILES + "gpt-j.yaml"),
    ("UltraEdit", "Llama-3-8B",
     ULTRA | {"layers": (), "gate_layers": tuple(range(11, 16)), "up_layers": tuple(range(18, 25))},
     ULTRA_FILES + "llama-3-instruct.yaml"),
    ("UltraEdit", "Mistral-7B", ULTRA | {"layers": (29, 30)}, ULTRA_FILES + "mistral-7b.yaml"),
    ("UltraEdit", "Qwen2.5-7B",
     ULTRA | {"layers": (), "gate_layers": tuple(range(18, 27)), "up_layers": tuple(range(18, 27))},
     ULTRA_FILES + "qwen2.5-7b.yaml"),
    ("UltraEdit", "Gemma-3-27B",
     ULTRA | {"layers": (), "gate_layers": tuple(range(52, 61)), "up_layers": tuple(range(52, 61))},
     ULTRA_FILES + "gemma-3-27b.yaml"),
    ("GRACE", "GPT-J", GRACE_2023 | {"layer": 25, "steps": 200}, EASY + "GRACE/gpt-j-6b.yaml"),
    ("GRACE", "GPT-2-XL", GRACE_2023 | {"layer": 35, "steps": 200, "into_mlp": True}, EASY + "GRACE/gpt2-xl.yaml"),
    ("GRACE", "Llama-7B", GRACE_2023 | {"layer": 27, "steps": 50}, EASY + "GRACE/llama-7b.yaml"),
    ("FT", "Llama-3.2-3B", FREE | {"layer": 21}, EASY + "FT/llama3.2-3b.yaml"),
    ("FT", "Qwen3.5-9B", FREE | {"layer": 27}, EASY + "FT/qwen3.5-9b.yaml"),
    ("FT+L", "Mistral-7B", FREE | {"layer": 21, "eps": 5e-5}, EASY + "FT/mistral-7b.yaml"),
    ("ROME", "Llama-3.2-3B", ROME_LATER | {"context_lengths": AFTER_ONE}, EASY + "R-ROME/llama3.2-3b.yaml"),
    ("ROME", "Mistral-7B", ROME_LATER | {"context_lengths": AFTER_ONE}, EASY + "ROME/mistral-7b.yaml"),
    ("ROME", "Qwen3.5-9B", ROME_LATER | {"context_lengths": AFTER_NONE}, EASY + "R-ROME/qwen3.5-9b.yaml"),
    ("MEMIT", "Llama-3.2-3B", SPREAD | L_4_TO_8 | LATER | LLAMA_CONTEXTS | {"weight": 15000},
     EASY + "MEMIT/llama3.2-3b.yaml"),
    ("MEMIT", "Mistral-7B", SPREAD | L_4_TO_8 | LATER | LLAMA_CONTEXTS | {"weight": 15000},
     EASY + "MEMIT/mistral-7b.yaml"),
    ("AlphaEdit", "Qwen3.5-9B", SPREAD | L_4_TO_8 | EMPTY | LATER | {"ridge": 1.0}, EASY + "AlphaEdit/qwen3.5-9b.yaml"),
    ("MEND", "Llama-3-8B", MEND_2022 | {"layers": (29, 30, 31)}, EASY + "TRAINING/MEND/llama3-8B.yaml"),
    ("MEND", "Qwen2.5-7B", MEND_2022 | {"layers": (25, 26, 27)}, EASY + "TRAINING/MEND/qwen2.5-7b.yaml"),
    ("MEND", "Mistral-7B", MEND_2022 | {"layers": (29, 30, 31)}, EASY + "TRAINING/MEND/mistral-7b.yaml"),
    ("GRACE", "Llama-3.2-3B", GRACE_2023 | {"layer": 27, "steps": 50}, EASY + "GRACE/llama3.2-3b.yaml"),
    ("GRACE", "Qwen3.5-9B", GRACE_2023 | {"layer": 18, "steps": 50, "radius": 5.0}, EASY + "GRACE/qwen3.5-9b.yaml"),
    ("GRACE", "Qwen2.5-7B", GRACE_2023 | {"layer": 18, "steps": 50}, EASY + "GRACE/qwen2.5-7b.yaml"),
]  # fmt: skip


@pytest.mark.few(10)
@pytest.mark.parametrize(("method", "model", "wanted", "file"), PUBLISHED)
def test_published_presets_are_equal_to_the_file_that_they_name(
    method: str, model: str, wanted: dict[str, Any], file: str
):
    settings, source = settings_for(method, of_shape(MODELS[model]))
    assert {name: asdict(settings)[name] for name in wanted} == wanted
    assert source.startswith(f"published for {model}: ") and file in source


def test_every_preset_has_a_source_of_the_table_or_says_that_it_is_ours():
    known = {(method, model) for method, model, _, _ in PUBLISHED}
    for name, method in methods().items():
        for model, chosen in method.presets.items():
            assert bool(chosen.source) == ((name, model) in known), (name, model)
            assert str(chosen).startswith("ours") == (not chosen.source)
    assert settings_for("AlphaEdit", of_shape(LLAMA))[1].startswith("chosen for Llama-7B: ours, ")


def test_a_ridge_of_emmet_is_the_published_weight_of_c_times_what_is_added():
    """The published code inverts w C and adds l to K' (w C)^-1 K; ours keeps C and adds w l."""
    torch.manual_seed(0)
    root, keys, residual = (torch.randn(6, n, dtype=torch.float64) for n in (9, 3, 3))
    c, w, small = root @ root.T, 1000.0, 0.1
    inverse = torch.linalg.inv(w * c)
    published = residual @ torch.linalg.inv(keys.T @ inverse @ keys + small * torch.eye(3)) @ keys.T @ inverse
    change = ridge(keys, residual, torch.linalg.solve(c, keys), w * small)
    torch.testing.assert_close(change.left @ change.right, published)


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
        (
            transformers.MistralConfig(num_hidden_layers=16),
            "ROME",
            {"layer": round(5 * 15 / 31)},
            "Mistral-7B by relative depth: 32 layers to 16",
        ),
        (
            transformers.Gemma3TextConfig(num_hidden_layers=18, intermediate_size=2048),
            "UltraEdit",
            {"gate_layers": (14, 15, 16, 17), "up_layers": (14, 15, 16, 17), "layers": (), "rate": None},
            "Gemma-3-27B",
        ),
        (QWEN_3_5, "MEMIT", {"layers": (5, 6, 7, 8, 9)}, "Qwen2.5-7B by relative depth: 28 layers to 32"),
        (transformers.MistralConfig(), "AlphaEdit", {"layers": (4, 5, 6, 7, 8)}, "Llama-7B"),
        (transformers.GPTNeoXConfig(num_hidden_layers=44), "FT", {"layer": round(21 * 43 / 27)}, "GPT-J"),
        (transformers.OPTConfig(num_hidden_layers=1), "MEMIT", {"layers": (0,)}, "GPT-J"),
        (transformers.Gemma2Config(num_hidden_layers=42), "FT+L", {"layer": 0, "eps": 5e-5}, "Llama-7B"),
        (
            transformers.Qwen2Config(num_hidden_layers=24, hidden_size=896, intermediate_size=4864),
            "MEMIT",
            {"layers": (3, 4, 5, 6, 7), "clamp": 4.0, "weight": 15000 * 4864 / 18944},
            "Qwen2.5-7B by relative depth: 28 layers to 24",
        ),
        (QWEN, "EMMET", {"layer": 4, "ridge": 0.1}, "Llama-7B by relative depth: 32 layers to 28"),
        (QWEN, "FT+L", {"layer": 0}, "those of Llama-7B: ours, as GPT-J"),
        (
            transformers.GPT2Config(),
            "UltraEdit",
            {"layers": (7, 8, 9, 10, 11), "gate_layers": (), "rate": None},
            "GPT-J",
        ),
        (
            transformers.Qwen2Config(num_hidden_layers=24, hidden_size=896, intermediate_size=4864),
            "UltraEdit",
            {"layers": (), "gate_layers": tuple(range(15, 23)), "up_layers": tuple(range(15, 23))},
            "Qwen2.5-7B by relative depth: 28 layers to 24",
        ),
        (MISTRAL, "GRACE", {"layer": 27, "steps": 50}, "Llama-7B by relative depth: 32 layers to 32"),
    ],
)
def test_other_models_have_them_scaled_by_relative_depth(config: Any, method: str, wanted: dict[str, Any], says: str):
    settings, source = settings_for(method, of_shape(config))
    assert asdict(settings).items() >= wanted.items()
    assert source.startswith("scaled from ") and says in source


def test_settings_that_nobody_tuned_say_so_in_one_line():
    small = of_shape(transformers.LlamaConfig(num_hidden_layers=30, hidden_size=576, intermediate_size=1536))

    def said(method: str, lm: LanguageModel = small, **given: Any) -> tuple[str, ...]:
        return scaling(method_named(method), lm, find_sites(lm.model), given)

    before = "nobody tuned its settings for this model; of those of Llama-7B"
    after = "if updates are not made or other facts change, let --tune search others, or set them, first --set"
    depends = "stayed, though what fits depends on the scale of a model"
    assert said("UltraEdit") == (
        f"UltraEdit: {before} layers [29, 30] became [27, 28]; rate 1e-06 became one found for each edit; {after} "
        "UltraEdit.rate=VALUE",
    )
    assert said("FT+L") == (f"FT+L: {before} eps 5e-05 {depends}; {after} FT+L.eps=VALUE",)
    assert said("GRACE") == (f"GRACE: {before} layer 27 became 25; radius 1.0 {depends}; {after} GRACE.radius=VALUE",)
    assert said("FT") == (f"FT: {before} layer 21 became 20; {after} FT.layer=VALUE",)
    assert said("AlphaEdit") == (
        f"AlphaEdit: {before} layers [4, 5, 6, 7, 8] became [4, 5, 6, 7]; threshold 0.02 {depends}; {after} "
        "AlphaEdit.threshold=VALUE",
    )
    assert said("AlphaEdit", relative_threshold=0.01) == ()
    assert said("FT+L", eps=1e-3) == said("UltraEdit", rate=1e-3) == said("FT", layer=3) == ()
    assert said("FT+L", steps=3) and said("FT", steps=3)  # what was set is not what depends on the scale
    for lm in (of_shape(MISTRAL), of_shape(LLAMA)):
        assert said("FT+L", lm) == said("UltraEdit", lm) == said("LoRA", lm) == ()
    tiny = make_edit_lm("llama")
    asked = [plan_edits(tiny, ["UltraEdit"], changes=changes)[0] for changes in ({}, {"UltraEdit": {"rate": 0.1}})]
    assert [len(one.warnings) for one in asked] == [1, 0] and asked[1].settings.rate == 0.1


def test_a_setting_that_counts_in_the_place_of_another_takes_it():
    tiny = make_edit_lm("llama")
    found = plan_edits(tiny, ["UltraEdit"], changes={"UltraEdit": {"gain": 3.0, "layers": [1]}})[0].settings
    assert found.gain == 3.0 and found.rate is None
    demo = replace(tiny, name="demo")  # whose preset has a rate of its own
    assert plan_edits(demo, ["UltraEdit"], changes={"UltraEdit": {"layers": [1]}})[0].settings.rate == 5e-3
    assert plan_edits(demo, ["UltraEdit"], changes={"UltraEdit": {"gain": 3.0, "layers": [1]}})[0].settings.rate is None
    with pytest.raises(ConfigError, match=r"gain counts only while .* is null; set one of the two"):
        plan_edits(demo, ["UltraEdit"], changes={"UltraEdit": {"gain": 3.0, "rate": 0.1, "layers": [1]}})


def test_methods_without_published_settings_have_their_defaults_on_any_model():
    lm = make_edit_lm("llama")
    assert settings_for("LoRA", lm) == (LoraSettings(), "ours, the method's defaults")
    assert settings_for("PROMPT", lm) == (PromptSettings(), "ours, the method's defaults")
    edit = make_edit(lm, "prompt", [REQUEST])  # without settings
    assert edit.prefix == "The president of France is Berlin. " and not edit.deltas


@pytest.mark.parametrize("family", ["gpt2", "llama", "opt"])
@pytest.mark.parametrize(
    "method",
    [
        "FT", "FT+L", "ROME", "MEMIT", "AlphaEdit", "EMMET", "UltraEdit", "LoRA", "LoRA-Merge", "GRACE", "PROMPT",
        "RETRIEVAL",
    ],
)  # fmt: skip
@pytest.mark.few(6)
def test_every_preset_can_be_used(method: str, family: str):
    lm = make_edit_lm(family)
    sites = find_sites(lm.model)
    settings, _ = preset(methods()[method], lm, sites)
    for name in ("layers", "gate_layers", "up_layers"):
        assert all(0 <= layer < sites.layers for layer in getattr(settings, name, None) or ())
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
    assert printed_name("MEMIT", asdict(methods()["MEMIT"].settings())) == "MEMIT"
    lm, steps = make_edit_lm("llama"), {"contexts": [], "layer": 1}
    for averaged, name in ((True, "r-ROME"), (False, "ROME")):
        changes = {"ROME": steps | {"averaged_key": averaged}}
        planned = plan_edits(lm, ["ROME", "ROME dated"], changes=changes, identity_covariance=True)
        assert [one.printed_name for one in planned] == [name, f"{name} dated"]
        assert [one.label for one in planned] == ["ROME", "ROME dated"]


def test_every_setting_has_a_kind_that_its_default_is_of():
    for name, method in methods().items():
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
    assert make_edit(lm, "LoRA", [REQUEST]).about["settings_from"] == "ours, the method's defaults"
    fixed = with_contexts(lm, RomeSettings(context_lengths=((3, 2),)))
    assert fixed.contexts is not None and len(fixed.contexts) == 2 and with_contexts(lm, fixed) == fixed
    assert with_contexts(lm, chosen) is chosen
