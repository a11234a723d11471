"""Tiny models of more families than scoring needs, in any dtype, and runs of edits that are killed."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
import transformers

from anachron.edit.base import Edit
from anachron.edit.method import Resources
from anachron.edit.methods.mend import MendNetwork, MendSettings, mend
from anachron.edit.passes.forward import batch
from anachron.edit.passes.prefix_cache import RepeatedPass
from anachron.edit.plan import Planned, plan_edits
from anachron.edit.requests import EditRequest, Marked
from anachron.io.jobs import Callbacks
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites
from support.tiny_models import FAMILIES, VOCABULARY, make_model, make_tokenizer

MORE = ("gptj", "gptneo", "opt", "opt-postnorm", "qwen2", "qwen3", "gemma3", "phi", "phi3", "olmo2", "bloom")
ALL = (*FAMILIES, *MORE)


def make_edit_lm(
    family: str, tokenizer: str = "gpt2", seed: int = 0, dtype: torch.dtype = torch.float32
) -> LanguageModel:
    model = make_model(family, seed, **DEEPER.get(family, DEEP)) if family in FAMILIES else _more(family, seed)
    return LanguageModel(model.to(dtype), make_tokenizer(tokenizer), f"tiny-{family}", dtype=str(dtype).split(".")[1])


class Quantised(torch.nn.Linear):
    """Behaves as the quantised layers of libraries do: whole numbers and a scale, a class of its own."""

    def __init__(self, of: torch.nn.Linear) -> None:
        super().__init__(of.in_features, of.out_features, of.bias is not None, device="meta")
        self.scale = of.weight.detach().abs().amax(1, keepdim=True) / 127
        self.weight = torch.nn.Parameter((of.weight.detach() / self.scale).round().to(torch.int8), requires_grad=False)
        self.bias = of.bias

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(given, self.weight.to(given.dtype) * self.scale.to(given.dtype), self.bias)


class Packed(torch.nn.Module):
    """As the layers of libraries that keep their whole numbers under a name of their own, and no parameter."""

    def __init__(self, of: torch.nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features, self.bias = of.in_features, of.out_features, of.bias
        self.scale = of.weight.detach().abs().amax(1, keepdim=True) / 127
        self.register_buffer("packed", (of.weight.detach() / self.scale).round().to(torch.int8))

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(given, self.packed.to(given.dtype) * self.scale.to(given.dtype), self.bias)


def make_quantised_lm(
    family: str, kind: type[Quantised | Packed] = Quantised, dtype: torch.dtype = torch.float32
) -> LanguageModel:
    """A model whose linear layers but the head are quantised."""
    lm = make_edit_lm(family, dtype=dtype)
    for name, module in list(lm.model.named_modules()):
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            lm.model.set_submodule(name, kind(module))
    return lm


DEEP = {"num_hidden_layers": 4}
DEEPER: dict[str, dict[str, Any]] = {"gpt2": {"n_layer": 4}}


def plan_fast(lm: LanguageModel, fast: dict[str, Any], *methods: str) -> list[Planned]:
    """Methods ready for a run without a covariance, with few steps where ``fast`` has settings for them."""
    wanted = {name: fast[name] for name in methods if name in fast}
    return plan_edits(lm, methods, changes=wanted, identity_covariance=True)


def killed_after(steps: int) -> Callbacks:
    """Callbacks under which a run is interrupted when it reports progress for the time of this number."""
    reported = itertools.count(1)

    def stop(*_: Any) -> None:
        if next(reported) == steps:
            raise KeyboardInterrupt

    return Callbacks(progress=stop)


def _more(family: str, seed: int) -> Any:
    shared: dict[str, Any] = {
        "vocab_size": VOCABULARY, "initializer_range": 0.3, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    }  # fmt: skip
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4}
    grouped = {**shape, "num_key_value_heads": 2}
    small = {"n_embd": 32, "n_layer": 4, "n_head": 4}
    opt = {"hidden_size": 32, "word_embed_proj_dim": 32, "ffn_dim": 64, "num_hidden_layers": 4, "init_std": 0.3,
           "num_attention_heads": 4}  # fmt: skip
    neo = {"hidden_size": 32, "num_layers": 4, "num_heads": 4, "attention_types": [[["global", "local"], 2]]}
    t = transformers
    config = {
        "gptj": lambda: t.GPTJConfig(**shared, **small, rotary_dim=4),
        "gptneo": lambda: t.GPTNeoConfig(**shared, **neo),
        "opt": lambda: t.OPTConfig(**shared, **opt),
        "opt-postnorm": lambda: t.OPTConfig(**shared, **opt, do_layer_norm_before=False),
        "qwen2": lambda: t.Qwen2Config(**shared, **grouped),
        "qwen3": lambda: t.Qwen3Config(**shared, **grouped, head_dim=8),
        "gemma3": lambda: t.Gemma3TextConfig(**shared, **grouped, head_dim=8, query_pre_attn_scalar=8),
        "phi": lambda: t.PhiConfig(**shared, **shape),
        "phi3": lambda: t.Phi3Config(**shared, **grouped),
        "olmo2": lambda: t.Olmo2Config(**shared, **grouped),
        "bloom": lambda: t.BloomConfig(**shared, hidden_size=32, n_layer=4, n_head=4),
    }[family]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return t.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def mended(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: MendSettings, sites: Sites, network: MendNetwork
) -> Edit:
    """One edit of all requests by MEND."""
    (edit,) = mend(lm, requests, settings, sites, Resources(network=network))
    return edit


def passes_of(lm: LanguageModel, marked: list[Marked]) -> tuple[RepeatedPass, list[int]]:
    """All target tokens of some texts as wanted positions, and how many tokens of each are fed."""
    wanted = torch.tensor([(row, target - 1) for row, m in enumerate(marked) for target in m.targets])
    return RepeatedPass(batch(lm.model, marked), wanted[:, 0], wanted[:, 1]), [len(m.ids) - 1 for m in marked]
