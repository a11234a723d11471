"""Make a GGUF file of another kind of weights from a GGUF file: dequantised, then quantised by the package gguf.

    python tools/requantise.py model.gguf model-q8_0.gguf Q8_0

Kinds: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1. Tensors of one dimension (norms, biases) stay F32, as llama.cpp has
them, and so do matrices whose rows do not divide into blocks of the kind. What the file has lost is not brought back.
"""

import argparse
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType

KINDS = {
    "F32": LlamaFileType.ALL_F32, "F16": LlamaFileType.MOSTLY_F16, "BF16": LlamaFileType.MOSTLY_BF16,
    "Q8_0": LlamaFileType.MOSTLY_Q8_0, "Q4_0": LlamaFileType.MOSTLY_Q4_0, "Q4_1": LlamaFileType.MOSTLY_Q4_1,
    "Q5_0": LlamaFileType.MOSTLY_Q5_0, "Q5_1": LlamaFileType.MOSTLY_Q5_1,
}  # fmt: skip
OF_WRITER = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")


def requantise(source: Path, target: Path, kind: str) -> None:
    """Write the source's weights as a kind of `KINDS`; the target appears whole or not at all."""
    if kind not in KINDS:
        raise SystemExit(f"kind {kind!r}: choose one of {', '.join(KINDS)}")
    reader = GGUFReader(source)
    part = target.with_name(f"{target.name}.part")
    writer = GGUFWriter(part, str(reader.fields["general.architecture"].contents()))
    writer.add_file_type(KINDS[kind])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for name, field in reader.fields.items():
        if not name.startswith(OF_WRITER):
            item = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=item)
    for tensor in reader.tensors:
        weights = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)  # (rows, columns) as numpy has it
        used = kind_of(weights.shape, kind)
        data = weights if used == GGMLQuantizationType.F32 else gguf.quantize(weights, used)
        writer.add_tensor(tensor.name, data, raw_dtype=used)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.replace(target)


def kind_of(shape: tuple[int, ...], kind: str) -> GGMLQuantizationType:
    """The kind that a tensor of a shape is written as."""
    wanted = GGMLQuantizationType[kind]
    block, _ = gguf.GGML_QUANT_SIZES[wanted]
    return wanted if len(shape) > 1 and shape[-1] % block == 0 else GGMLQuantizationType.F32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("kind", choices=KINDS)
    given = parser.parse_args()
    requantise(given.source, given.target, given.kind)


if __name__ == "__main__":
    main()
