"""Loading a causal language model and its tokenizer.

`load_model` takes a Hugging Face hub name, a local folder, a GGUF file, or ``demo`` (the small model bundled with
this package; ``demo-untrained`` is its twin with random weights).
"""

import json
import logging
import traceback
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
import transformers
from transformers.utils import find_adapter_config_file

from anachron.core.errors import AnachronError, ConfigError, ModelError, first_line
from anachron.lm.checkpoints import Filling, fault, harmless, some
from anachron.lm.choices import check_dtype
from anachron.lm.gguf import files as gguf_files
from anachron.lm.hub import no_bars_in_logs, out_of_reach, why_not_found
from anachron.lm.model import LanguageModel
from anachron.lm.numerics import dtype_name
from anachron.lm.soundness import check_causal, check_finite, check_tokenizer
from anachron.lm.tokenizers import DEMO, DEMO_UNTRAINED, demo_folder, load_tokenizer

if TYPE_CHECKING:
    from anachron.lm.gguf.llamacpp import LlamaModel

log = logging.getLogger("anachron")


def taught_facts() -> frozenset[str]:
    """Ids of the facts of ``mini`` that the demo model was trained on; the others it never saw."""
    return frozenset(json.loads((demo_folder() / "taught.json").read_text("utf-8"))["taught"])


@no_bars_in_logs()
def check_model(name: str, *, revision: str | None = None, trust_remote_code: bool = False) -> None:
    """Raise `ModelError` for a model that is not there, or whose settings cannot be read; no weights are loaded.

    name: as of `load_model`. A file of a hub model is brought, as loading it will need it.
    """
    if name in (DEMO, DEMO_UNTRAINED):
        return
    gguf_files.refuse_folder_of_files(name)
    if gguf_files.is_gguf(name):
        gguf_files.open_gguf(name, revision)
        return
    alone = out_of_reach(name)
    try:
        if find_adapter_config_file(name, revision=revision, local_files_only=alone) is None:
            transformers.AutoConfig.from_pretrained(
                name, revision=revision, trust_remote_code=trust_remote_code, local_files_only=alone
            )
    except Exception as error:  # transformers raises many classes here; all mean the same to a user
        reason = why_not_found(name) if alone else first_line(error)
        raise ModelError(f"cannot load a causal language model from {name!r}: {reason}") from error


@overload
def load_model(
    name: str, *, backend: Literal["transformers"] = ..., dtype: str = ..., device: str | None = ...,
    device_map: str | None = ..., revision: str | None = ..., tokenizer: str | None = ...,
    chat_template: str | None = ..., trust_remote_code: bool = ...,
) -> LanguageModel: ...  # fmt: skip


@overload
def load_model(
    name: str, *, backend: Literal["llama.cpp"], dtype: str = ..., device: str | None = ...,
    device_map: str | None = ..., revision: str | None = ..., tokenizer: str | None = ...,
    chat_template: str | None = ..., trust_remote_code: bool = ...,
) -> "LlamaModel": ...  # fmt: skip


@no_bars_in_logs()
def load_model(
    name: str,
    *,
    backend: str = "transformers",
    dtype: str = "auto",
    device: str | None = None,
    device_map: str | None = None,
    revision: str | None = None,
    tokenizer: str | None = None,
    chat_template: str | None = None,
    trust_remote_code: bool = False,
) -> "LanguageModel | LlamaModel":
    """Load any causal language model of transformers, or a GGUF file for llama.cpp, ready to score.

    name: hub name, local folder, GGUF file (``model.gguf``, or ``owner/name:model.gguf`` on the hub), ``demo`` or
        ``demo-untrained``; a folder may hold a PEFT adapter. The weights of a GGUF file are unpacked.
    backend: ``transformers``, or ``llama.cpp`` for a GGUF file here: it is scored with the arithmetic of its quantised
        weights, which are not unpacked, and takes no other option but tokenizer and chat_template.
    dtype: ``float32``, ``bfloat16``, ``float16``, or ``auto`` for the checkpoint's own (of a GGUF file: float32).
    device: ``cpu``, ``cuda``, ``cuda:1`` ...; by default the GPU where there is one. ``device_map`` (for
        instance ``auto``) spreads a large model instead, by accelerate.
    tokenizer: hub name or folder of the tokenizer, where it is not the model's own.
    chat_template: a Jinja template (the text itself) used instead of the tokenizer's.
    trust_remote_code: run code that comes with the model; only on request.

    Raises `ModelError` when the model cannot be loaded, its checkpoint does not fill it (weights are missing, left over
    or of another shape), weights or logits are not finite, it is not causal, or the tokenizer has tokens that it lacks.
    """
    if backend == "llama.cpp":
        from anachron.lm.gguf.llamacpp import load_gguf

        return load_gguf(
            name, tokenizer=tokenizer, chat_template=chat_template, dtype=dtype, device=device, device_map=device_map,
            revision=revision, trust_remote_code=trust_remote_code,
        )  # fmt: skip
    if backend != "transformers":
        raise ConfigError(f"backend {backend!r}: choose transformers or llama.cpp")
    check_dtype(dtype)
    if device and device_map:
        raise ConfigError("give either a device or a device map, not both")
    file = gguf_files.open_gguf(name, revision) if gguf_files.is_gguf(name) else None
    loaded_tokenizer = load_tokenizer(
        tokenizer or name, revision=revision, trust_remote_code=trust_remote_code, chat_template=chat_template
    )
    model = _load_weights(name, file, dtype, device_map, revision, trust_remote_code)
    placed = device_map is not None or (device is None and getattr(model, "is_quantized", False))
    if not placed:
        try:
            model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        except (RuntimeError, AssertionError, ValueError) as error:
            raise ModelError(f"cannot put {name} on device {device!r}: {first_line(error)}") from error
    model.eval()
    check_finite(model, name)
    check_causal(model, name)
    commit = file.commit if file else getattr(model.config, "_commit_hash", None)
    lm = LanguageModel(
        model, loaded_tokenizer, name, commit, dtype_name(model.dtype), file=file.sha256() if file else None
    )
    check_tokenizer(loaded_tokenizer, lm.embeddings, name)
    return lm


def _load_weights(
    name: str, file: gguf_files.GgufFile | None, dtype: str, device_map: str | None, revision: str | None, trust: bool
) -> Any:
    wanted: Any = dtype if dtype == "auto" else getattr(torch, dtype)
    source = str(demo_folder()) if name in (DEMO, DEMO_UNTRAINED) else name
    how = {"dtype": wanted, "device_map": device_map, "trust_remote_code": trust}
    try:
        if name == DEMO_UNTRAINED:
            return untrained_twin(source, seed=0).to(torch.float32 if dtype == "auto" else wanted)
        if file is not None:
            given = torch.float32 if dtype == "auto" else wanted
            model, info = gguf_files.load_weights(file, dtype=given, device_map=device_map)
            _check_filled(model, name, info)
            return model
        adapter = find_adapter_config_file(source, revision=revision, local_files_only=out_of_reach(source))
        if adapter is None:
            return _whole(source, name, revision, how)
        return _with_adapter(source, name, revision, how, json.loads(Path(adapter).read_text("utf-8")))
    except AnachronError:
        raise
    except Exception as error:  # transformers raises many classes here; all mean the same to a user
        raise ModelError(f"cannot load a causal language model from {name!r}: {_reason(error)}") from error


def _whole(source: str, name: str, revision: str | None, how: Mapping[str, Any]) -> Any:
    alone = out_of_reach(source)
    if alone:  # where it looks for adapters, transformers forgets that it is to stay here
        how = {**how, "adapter_kwargs": {"local_files_only": True}}
    try:
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            source, revision=revision, output_loading_info=True, ignore_mismatched_sizes=True, local_files_only=alone,
            **how,
        )  # fmt: skip
    except OSError as error:
        if alone:
            raise ModelError(f"cannot load a causal language model from {name!r}: {why_not_found(source)}") from error
        raise
    _check_filled(model, name, info)
    return model


def _with_adapter(
    source: str, name: str, revision: str | None, how: Mapping[str, Any], settings: Mapping[str, Any]
) -> Any:
    """The model that an adapter changes, then the adapter: loaded at once, only the adapter's gaps are reported."""
    if find_spec("peft") is None:
        raise ModelError(f"{name} is an adapter; to load it: pip install peft")
    if (Path(source) / "config.json").is_file():
        raise ModelError(
            f"{name} holds a model (config.json) and an adapter (adapter_config.json); give each a folder of its own"
        )
    base = settings["base_model_name_or_path"]
    alone = out_of_reach(base)
    if find_adapter_config_file(base, revision=settings.get("revision"), local_files_only=alone) is not None:
        raise ModelError(f"{name} is an adapter of {base}, which is one itself; merge that into its model first")
    model = _whole(base, f"{base}, the model under the adapter {name}", settings.get("revision"), how)
    pinned: dict[str, Any] = {} if revision is None else {"revision": revision}
    if out_of_reach(source):
        pinned["local_files_only"] = True
    info = model.load_adapter(source, adapter_kwargs=pinned, ignore_mismatched_sizes=True).to_dict()
    _check_filled(model, name, info)
    return model


def _check_filled(model: Any, name: str, info: Mapping[str, Any]) -> None:
    """Refuse a model whose weights are not all those of its checkpoint; warn of what the checkpoint has besides."""
    head = model.get_output_embeddings()
    config = model.config.get_text_config()
    filling = Filling(
        kind=type(model).__name__,
        expected=list(model.state_dict()),
        missing=info["missing_keys"],
        unexpected=info["unexpected_keys"],
        shapes={key: (tuple(given), tuple(wanted)) for key, given, wanted in info["mismatched_keys"]},
        saved_as=model.config.architectures or (),
        head=next((key for key, module in model.named_modules() if module is head), None),
        extra_layers=getattr(config, "num_nextn_predict_layers", None) or 0,
    )
    if wrong := fault(filling):
        raise ModelError(f"{name}: the checkpoint does not fit {filling.kind}: {wrong}")
    if info.get("error_msgs"):
        raise ModelError(
            f"{name}: the checkpoint does not fit {filling.kind}: {' '.join(str(info['error_msgs'][0]).split())}"
        )
    if besides := harmless(filling):
        log.warning(
            "%s: %d tensors that scores of text do not need are left out (%s)", name, len(besides), some(besides)
        )


def untrained_twin(source: str, seed: int) -> Any:
    """A model of the same shape with random weights, leaving the global random state as it was."""
    config = transformers.AutoConfig.from_pretrained(source)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.AutoModelForCausalLM.from_config(config)


def _reason(error: BaseException) -> str:
    """Why transformers gave up; which weights it could not convert it tells only its log."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        failed = getattr(frame.f_locals.get("loading_info"), "conversion_errors", None)
        if failed:
            return (
                f"{len(failed)} of its tensors cannot be made from those of the checkpoint ({min(failed)}): parts are "
                "missing or differ in shape; give the configuration that these weights were saved with"
            )
    return first_line(error)
