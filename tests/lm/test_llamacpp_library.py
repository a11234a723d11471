"""What is written down of llama.cpp's build, against the library itself and the package's own names of constants.

A field that a build adds or takes out moves those behind it, whose defaults then read as other numbers. With another
version of the package these tests name what changed.
"""

import ctypes

import pytest

from anachron.lm.gguf import library as written

pytest.importorskip("xllamacpp")

UNSET = -1  # llama.cpp decides
MODEL_DEFAULTS = {
    "n_gpu_layers": UNSET, "split_mode": 1, "load_mode": UNSET, "lazy_mode": 1, "main_gpu": 0, "vocab_only": False,
    "check_tensors": False, "use_extra_bufts": True, "no_host": False, "no_alloc": False, "load_mtp": False,
}  # fmt: skip
CONTEXT_DEFAULTS = {
    "n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "n_rs_seq": 0, "n_outputs_max": 0,
    "n_outputs_max_per_seq": 1, "n_threads": 4, "n_threads_batch": 4, "ctx_type": 0, "rope_scaling_type": UNSET,
    "pooling_type": UNSET, "attention_type": UNSET, "flash_attn_type": UNSET, "rope_freq_base": 0.0,
    "rope_freq_scale": 0.0, "yarn_ext_factor": -1.0, "yarn_attn_factor": -1.0, "yarn_beta_fast": -1.0,
    "yarn_beta_slow": -1.0, "yarn_orig_ctx": 0, "defrag_thold": -1.0, "type_k": 1, "type_v": 1, "embeddings": False,
    "offload_kqv": True, "no_perf": True, "op_offload": True, "swa_full": True, "kv_unified": False, "n_samplers": 0,
}  # fmt: skip


def changed(structure: ctypes.Structure, defaults: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Fields that are not as written down: name -> (written down, found). Fields without a default are null."""
    found = {name: getattr(structure, name) for name, *_ in structure._fields_}
    wanted = {name: defaults.get(name) for name in found}
    return {name: (wanted[name], value) for name, value in found.items() if value != wanted[name]}


def test_the_defaults_of_every_field_are_those_of_the_build():
    llama = written.library()
    assert changed(llama.model_default_params(), MODEL_DEFAULTS) == {}
    assert changed(llama.context_default_params(), CONTEXT_DEFAULTS) == {}
    assert len(CONTEXT_DEFAULTS) > len(MODEL_DEFAULTS) > 10


def test_a_field_that_moved_is_named():
    class Moved(ctypes.Structure):  # as if a build had a number more in front
        _fields_ = [("added", ctypes.c_int32), *written.ContextParams._fields_]

    def as_read(structure: ctypes.Structure) -> ctypes.Structure:
        return written.ContextParams.from_buffer_copy(bytes(structure)[: ctypes.sizeof(written.ContextParams)])

    defaults = written.library().context_default_params()
    fields = {name: getattr(defaults, name) for name, *_ in written.ContextParams._fields_}
    names = changed(as_read(Moved(added=7, **fields)), CONTEXT_DEFAULTS)
    assert names["n_ctx"] == (512, 7) and names["n_batch"] == (2048, 512)


def test_every_function_is_in_the_library():
    from xllamacpp import xllamacpp

    library = ctypes.CDLL(xllamacpp.__file__)
    assert [name for name in (*written.PROTOTYPES, "llama_log_set") if not hasattr(library, name)] == []


def test_constants_are_those_that_the_package_names():
    import xllamacpp

    assert xllamacpp.ggml_type.GGML_TYPE_F32 == written.FLOAT32
    assert xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED == written.NO_FLASH_ATTENTION
