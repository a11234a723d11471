"""Models in GGUF files: which file a name means, whether it is whole, and what transformers makes of it.

transformers unpacks every tensor (dequantises it) into a plain model. What it would pass over in silence is looked at
here: tensors that it has no place for, and how the file's tokenizer cuts text into words.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import hashlib
import json
import logging
import mmap
import re
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import transformers
from tokenizers import Regex, pre_tokenizers

from anachron.errors import ModelError, first_line, how_to_install

log = logging.getLogger("anachron")

ENDING = ".gguf"
VERSIONS = (2, 3)
_FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_ALIGNMENT = 32  # where the file says none
_COMMIT = re.compile(r"/snapshots/([0-9a-f]{40})/")
# How llama.cpp cuts text for byte-level vocabularies (tokenizer.ggml.pre): as GPT-2 does, or every digit alone first
AS_GPT2 = {"gpt-2", "phi-2", "roberta-bpe", "mpt", "olmo", "jais", "trillion", "gigachat"}
EACH_DIGIT = {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"}
# What a file may say and transformers not read: name in the file -> in the configuration
SETTINGS = {
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}


@dataclass(frozen=True)
class Tensor:
    """An entry of a file's table: its name, its shape (as torch has it) and the number of its bytes."""

    name: str
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Header:
    """What stands before the tensors of a GGUF file: ``about`` is its metadata, lists as their lengths."""

    about: Mapping[str, Any]
    tensors: tuple[Tensor, ...]

    @property
    def architecture(self) -> str:
        return str(self.about["general.architecture"])


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


# The file itself


def read_header(path: Path) -> Header:
    """Metadata and table of tensors of a GGUF file.

    Raises `ValueError` for what is not one, or is shorter than its own table says.
    """
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ValueError("this is not a GGUF file (it does not begin with GGUF); was it downloaded whole?")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            reader = _Reader(data)
            try:
                version, tensors, fields = reader.numbers("IQQ")
                if version not in VERSIONS:
                    raise ValueError(f"GGUF version {version} is not read, only {' and '.join(map(str, VERSIONS))}")
                about = {reader.text(): reader.value() for _ in range(fields)}
                table = [reader.tensor() for _ in range(tensors)]
            except (struct.error, IndexError, OverflowError):
                raise ValueError(_SHORT.format(length=len(data), wanted="more")) from None
            length, step = len(data), about.get("general.alignment", _ALIGNMENT)
    if "general.architecture" not in about:
        raise ValueError("the file does not say its architecture (general.architecture); convert the model again")
    start = -(-reader.place // step) * step  # the end of the table, rounded up
    known, end = [], start
    for name, shape, kind, offset in table:
        try:
            block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
        except ValueError:
            raise ValueError(
                f"tensor {name} is of type {kind}, which the package gguf does not know; update it"
            ) from None
        known.append(Tensor(name, shape, prod(shape) // block * size))
        end = max(end, start + offset + known[-1].size)
    if length < end:
        raise ValueError(_SHORT.format(length=length, wanted=end))
    return Header(about, tuple(known))


_SHORT = "the file is cut short: it has {length} bytes and needs {wanted}; download it again"


class _Reader:
    """Values one after the other, behind the first four bytes; little-endian."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.place = data, 4

    def numbers(self, kinds: str) -> tuple[Any, ...]:
        form = struct.Struct("<" + kinds)
        values = form.unpack_from(self.data, self.place)
        self.place += form.size
        return values

    def text(self) -> str:
        (length,) = self.numbers("Q")
        return self._bytes(length).decode("utf-8", "replace")

    def _bytes(self, length: int) -> bytes:
        if self.place + length > len(self.data):
            raise IndexError
        self.place += length
        return self.data[self.place - length : self.place]

    def value(self) -> Any:
        """A value of the metadata; of a list only its length."""
        (kind,) = self.numbers("I")
        if kind in _FIXED:
            return self.numbers(_FIXED[kind])[0]
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise ValueError(f"metadata of type {kind} is not read; the file is damaged or of a newer format")
        item, count = self.numbers("IQ")
        if item in _FIXED:
            self._bytes(struct.calcsize(_FIXED[item]) * count)
        elif item == _STRING:
            for _ in range(count):
                self._bytes(self.numbers("Q")[0])
        else:
            raise ValueError(f"a list of type {item} is not read; the file is damaged or of a newer format")
        return count

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """Name, shape, type and offset of a tensor."""
        name, (dimensions,) = self.text(), self.numbers("I")
        shape = self.numbers(f"{dimensions}Q")
        return name, shape[::-1], *self.numbers("IQ")


# What transformers makes of it


def load_tokenizer(file: GgufFile) -> Any:
    """The file's own tokenizer, with its chat template.

    Digits are cut as the file says where transformers does not; a rule that is not known here is told in a warning.
    """
    with _reading(file) as nothing:
        tokenizer = transformers.AutoTokenizer.from_pretrained(nothing, gguf_file=str(file.path))
    about = file.header.about
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
            "in numbers; give the model's own tokenizer (--tokenizer) to be sure", file.name, cut,
        )  # fmt: skip
    return tokenizer


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
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            nothing, gguf_file=str(file.path), output_loading_info=True, ignore_mismatched_sizes=True, **how
        )
    if wrong := tensors_left_out(file.header, model) or settings_left_out(file.header, model.config):
        raise ModelError(
            f"{file.name}: transformers {transformers.__version__} leaves out {', '.join(wrong[:3])}"
            f"{', ...' if len(wrong) > 3 else ''}, so its scores would not be the model's; give the model's Hugging "
            "Face folder, or serve the file and use --backend openai"
        )
    model.config.name_or_path = model.name_or_path = file.name
    return model, info


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


def settings_left_out(header: Header, config: Any) -> list[str]:
    """What the file says of the model's arithmetic and its configuration does not."""
    prefix, known = header.architecture, config.get_text_config()
    wrong = [
        f"{name} {header.about[f'{prefix}.{name}']:g} (it takes {getattr(known, field, None)})"
        for name, field in SETTINGS.items()
        if f"{prefix}.{name}" in header.about and header.about[f"{prefix}.{name}"] != getattr(known, field, None)
    ]
    scaling = header.about.get(f"{prefix}.rope.scaling.type", "none")
    rope = getattr(known, "rope_parameters", None) or getattr(known, "rope_scaling", None)
    if scaling != "none" and not _is_scaled(rope):
        wrong.append(f"rope.scaling.type {scaling}")
    return wrong


def _is_scaled(rope: Any) -> bool:
    """Whether rotary positions, or those of one kind of layers, are stretched."""
    if not isinstance(rope, Mapping):
        return False
    return rope.get("rope_type", "default") != "default" or any(map(_is_scaled, rope.values()))


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
