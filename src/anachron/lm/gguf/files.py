"""Models in GGUF files: which file a name means, whether it is whole, and what transformers makes of it.

transformers unpacks every tensor (dequantises it) into a plain model. What it would pass over in silence is looked at
here: tensors that it has no place for, and how the file's tokenizer cuts text into words.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import hashlib
import json
import logging
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Regex, normalizers, pre_tokenizers

from anachron.core.errors import ModelError, first_line, how_to_install
from anachron.lm.gguf.header import NO_TOKEN, Header, read_header
from anachron.lm.gguf.keys import keys_left_out, put_into, tokenizer_keys_left_out

log = logging.getLogger("anachron")

ENDING = ".gguf"
_COMMIT = re.compile(r"/snapshots/([0-9a-f]{40})/")
# Byte-level vocabularies (tokenizer.ggml.pre) whose words that are tokens are not cut, and whose texts begin with BOS
# where the file does not say whether they do
WHOLE_WORDS = {
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "tekken",
}  # fmt: skip
# How llama.cpp cuts text for byte-level vocabularies (tokenizer.ggml.pre): as GPT-2 does, or every digit alone first
AS_GPT2 = {"gpt-2", "phi-2", "roberta-bpe", "mpt", "olmo", "jais", "trillion", "gigachat"}
EACH_DIGIT = {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"}


@dataclass(frozen=True)
class GgufFile:
    """A whole GGUF file. ``name`` is what was asked for, ``commit`` that of a file of the hub."""

    name: str
    path: Path
    header: Header
    commit: str | None = None

    def sha256(self) -> str:
        """SHA-256 of its bytes."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def is_gguf(name: str) -> bool:
    """Whether a model's name means a GGUF file: ``model.gguf``, ``folder/model.gguf`` or ``owner/name:model.gguf``."""
    return name.lower().endswith(ENDING)


def refuse_folder_of_files(name: str) -> None:
    """Raise `ModelError` for a folder that holds GGUF files and no model beside: the name of one is asked for."""
    folder = Path(name)
    if folder.is_dir() and not any(folder.glob("*config.json")):
        files = sorted(path.name for path in folder.iterdir() if is_gguf(path.name))
        if files:
            raise ModelError(f"{name} is a folder of GGUF files; give one of them, such as {folder / files[0]}")


def open_gguf(name: str, revision: str | None = None) -> GgufFile:
    """The file that a name means, brought from the hub where it lies there.

    Raises `ModelError` where the package ``gguf`` is missing, and for a file that is missing, is not GGUF, is cut
    short or is one part of several.
    """
    if find_spec("gguf") is None:
        raise ModelError(f"to read {name}, install the package gguf: {how_to_install('gguf')}")
    path = _path_of(name, revision)
    try:
        header = read_header(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"{name}: {first_line(error)}") from error
    parts = header.about.get("split.count", 0)
    if parts > 1:
        raise ModelError(
            f"{name} is one of {parts} parts of a model, and transformers reads whole files; join them with "
            "llama-gguf-split --merge"
        )
    found = _COMMIT.search(path.as_posix())
    return GgufFile(name, path.absolute(), header, found and found.group(1))


def _path_of(name: str, revision: str | None) -> Path:
    if Path(name).is_file():
        return Path(name)
    place, colon, file = name.rpartition(":")
    if not colon:
        raise ModelError(
            f"{name}: there is no such file; a file of a hub model is written owner/name:{Path(name).name}"
        )
    if Path(place).is_dir():
        if not (Path(place) / file).is_file():
            raise ModelError(f"{name}: there is no file {file} in the folder {place}")
        return Path(place) / file
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(place, file, revision=revision))
    except Exception as error:  # of many classes: no such model, no such file, no way to the hub
        raise ModelError(f"cannot get {file} of {place!r} from the hub: {first_line(error)}") from error


# What transformers makes of it


def load_tokenizer(file: GgufFile) -> Any:
    """The file's own tokenizer, with its chat template.

    Digits are cut as the file says where transformers does not; a rule that is not known here is told in a warning.
    """
    _refuse(file, tokenizer_keys_left_out(file.header))
    for key in ("tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"):
        if file.header.about.get(key) == NO_TOKEN:
            raise ModelError(
                f"{file.name}: {key} is {NO_TOKEN}, which says that there is none, and transformers does not read such "
                "a tokenizer; give the model's own (--tokenizer)"
            )
    with _reading(file) as nothing:
        tokenizer = transformers.AutoTokenizer.from_pretrained(nothing, gguf_file=str(file.path))
    about = file.header.about
    if about.get("tokenizer.ggml.pre") in WHOLE_WORDS:
        tokenizer.backend_tokenizer.model.ignore_merges = True
        tokenizer.add_bos_token = about.get("tokenizer.ggml.add_bos_token", True)
    if about.get("tokenizer.ggml.model") == "llama":
        _begin_as_llama_cpp(tokenizer.backend_tokenizer, prefix=about.get("tokenizer.ggml.add_space_prefix", True))
    cut = about.get("tokenizer.ggml.pre")
    if about.get("tokenizer.ggml.model") != "gpt2" or cut in AS_GPT2 or not _cuts_as_gpt2(tokenizer):
        return tokenizer
    if cut in EACH_DIGIT:
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(r"\p{N}"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    else:
        log.warning(
            "%s: transformers does not know how its tokenizer cuts text (%s) and cuts as GPT-2 does, which may differ "
            "in numbers; give the model's own tokenizer (--tokenizer) to be sure",
            file.name,
            cut,
        )
    return tokenizer


def _begin_as_llama_cpp(backend: Any, *, prefix: bool) -> None:
    """Put a space before every text of a SentencePiece vocabulary, also one that begins with a space, or before none.

    transformers does as the tokenizers of a family mostly do, whatever the file says. A text behind a special token
    counts as one of its own.
    """
    spaces = normalizers.Replace(" ", "\u2581")
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), spaces]) if prefix else spaces
    if isinstance(backend.pre_tokenizer, pre_tokenizers.Metaspace):
        backend.pre_tokenizer = None


def _cuts_as_gpt2(tokenizer: Any) -> bool:
    rule = json.loads(tokenizer.backend_tokenizer.to_str())["pre_tokenizer"] or {}
    return rule.get("type") == "ByteLevel" and rule.get("use_regex", True)


def load_weights(file: GgufFile, **how: Any) -> tuple[Any, Mapping[str, Any]]:
    """A plain model with the file's tensors, and what `from_pretrained` says of tensors that did not fit.

    how: dtype, device_map. Raises `ModelError` for an architecture that transformers does not read, and for a file of
    which it leaves out tensors or settings that its scores depend on.
    """
    if "GgufConfig" in dir(transformers):  # versions that may keep tensors as they are
        how["quantization_config"] = transformers.GgufConfig(dequantize=True)
    with _reading(file) as nothing:
        config = transformers.AutoConfig.from_pretrained(nothing, gguf_file=str(file.path))
        put_into(file.header, config)
        _refuse(file, keys_left_out(file.header, config.get_text_config()))
        _check_size(file, config)
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            nothing, gguf_file=str(file.path), config=config, output_loading_info=True, ignore_mismatched_sizes=True,
            **how,
        )  # fmt: skip
    _refuse(file, tensors_left_out(file.header, model))
    model.config.name_or_path = model.name_or_path = file.name
    return model, info


def _refuse(file: GgufFile, wrong: Sequence[str]) -> None:
    if wrong:
        raise ModelError(
            f"{file.name}: transformers {transformers.__version__} leaves out {', '.join(wrong[:3])}"
            f"{', ...' if len(wrong) > 3 else ''}, so its scores would not be the model's; give the model's Hugging "
            "Face folder, or serve the file and use --backend openai"
        )


def _check_size(file: GgufFile, config: Any) -> None:
    """Refuse sizes that the tensors do not have, before memory is reserved for them."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    wanted = sum(weight.numel() for weight in model.parameters())
    held = sum(prod(tensor.shape) for tensor in file.header.tensors)
    if wanted > 2 * held:
        raise ModelError(
            f"{file.name}: its metadata describe a model of {wanted:,} numbers, and its tensors have {held:,}; "
            "download or convert it again"
        )


@contextmanager
def _reading(file: GgufFile) -> Iterator[str]:
    """An empty folder: transformers takes the tokenizer and settings beside a GGUF file for the file's own.

    Raises `ModelError` where transformers fails in the block at an architecture that it does not know.
    """
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    known, architecture = {*GGUF_SUPPORTED_ARCHITECTURES} - {"general", "tokenizer"}, file.header.architecture
    try:
        with tempfile.TemporaryDirectory(prefix="anachron-gguf-") as nothing:
            yield nothing
    except Exception as error:
        if architecture in known or "support" not in str(error).lower():
            raise
        raise ModelError(
            f"{file.name}: transformers {transformers.__version__} does not read GGUF files of architecture "
            f"{architecture!r}, only {', '.join(sorted(known))}; give the model's Hugging Face folder, or serve the "
            "file and use --backend openai"
        ) from error


def tensors_left_out(header: Header, model: Any) -> list[str]:
    """Names of the file's tensors that the model has no place for.

    They are counted first, number by number, since names of merged tensors (experts) are not in the list of names. A
    copy of tied embeddings is none.
    """
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    tied = model.config.get_text_config().tie_word_embeddings
    held = {tensor.name: prod(tensor.shape) for tensor in header.tensors}
    if tied:
        held.pop("output.weight", None)
    places = {id(weight): weight.numel() for weight in model.state_dict(keep_vars=True).values()}  # tied ones once
    if sum(held.values()) <= sum(places.values()):
        return []
    kinds = [kind for kind, name in MODEL_ARCH_NAMES.items() if name == header.architecture]
    if not kinds:
        return sorted(held)
    names = get_tensor_name_map(kinds[0], model.config.get_text_config().num_hidden_layers)
    split = [key.rpartition(".") for key in model.state_dict()]
    placed = {f"{names.get_name(module)}.{part}" for module, _, part in split}
    return [name for name in held if name not in placed]
