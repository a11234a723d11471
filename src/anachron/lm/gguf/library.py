"""llama.cpp's C interface, in the shared library that the package ``xllamacpp`` brings: structures and prototypes.

Their layout is that of one build of llama.cpp, so the package's version is fixed (`VERSION`, the extra ``llamacpp``).
The package's own interface, a server, gives neither logits nor sequences, which a prefix tree needs.

To take over another build: set the version here and in pyproject.toml; compare llama.h of both builds; run
tests/lm/test_llamacpp_library.py, which names every field, function and constant that is another one, and
tests/lm/test_llamacpp.py, which holds scores against those of PyTorch. Source: llama.h of llama.cpp, build 11549.
"""

import ctypes
import logging
from collections import deque
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any

from anachron.core.errors import BackendError, how_to_install

log = logging.getLogger("anachron")
VERSION = "2026.10.11549"
MOST_SEQUENCES = 256  # of a context, LLAMA_MAX_SEQ
FLOAT32 = 0  # GGML_TYPE_F32
NO_FLASH_ATTENTION = 0  # LLAMA_FLASH_ATTN_TYPE_DISABLED
_ERROR = 4  # GGML_LOG_LEVEL_ERROR


class ModelParams(ctypes.Structure):
    """``llama_model_params``."""

    _fields_ = [
        ("devices", c_void_p), ("tensor_buft_overrides", c_void_p), ("n_gpu_layers", c_int32), ("split_mode", c_int32),
        ("load_mode", c_int32), ("lazy_mode", c_int32), ("main_gpu", c_int32), ("tensor_split", c_void_p),
        ("progress_callback", c_void_p), ("progress_callback_user_data", c_void_p), ("kv_overrides", c_void_p),
        ("vocab_only", c_bool), ("check_tensors", c_bool), ("use_extra_bufts", c_bool), ("no_host", c_bool),
        ("no_alloc", c_bool), ("load_mtp", c_bool),
    ]  # fmt: skip


class ContextParams(ctypes.Structure):
    """``llama_context_params``."""

    _fields_ = [
        ("n_ctx", c_uint32), ("n_batch", c_uint32), ("n_ubatch", c_uint32), ("n_seq_max", c_uint32),
        ("n_rs_seq", c_uint32), ("n_outputs_max", c_uint32), ("n_outputs_max_per_seq", c_uint32),
        ("n_threads", c_int32), ("n_threads_batch", c_int32), ("ctx_type", c_int32), ("rope_scaling_type", c_int32),
        ("pooling_type", c_int32), ("attention_type", c_int32), ("flash_attn_type", c_int32),
        ("rope_freq_base", c_float), ("rope_freq_scale", c_float), ("yarn_ext_factor", c_float),
        ("yarn_attn_factor", c_float), ("yarn_beta_fast", c_float), ("yarn_beta_slow", c_float),
        ("yarn_orig_ctx", c_uint32), ("defrag_thold", c_float), ("cb_eval", c_void_p), ("cb_eval_user_data", c_void_p),
        ("type_k", c_int32), ("type_v", c_int32), ("abort_callback", c_void_p), ("abort_callback_data", c_void_p),
        ("reserved", c_void_p), ("embeddings", c_bool), ("offload_kqv", c_bool), ("no_perf", c_bool),
        ("op_offload", c_bool), ("swa_full", c_bool), ("kv_unified", c_bool), ("samplers", c_void_p),
        ("n_samplers", c_size_t), ("ctx_other", c_void_p),
    ]  # fmt: skip


class LlamaBatch(ctypes.Structure):
    """``llama_batch``: arrays of one element a token; ``seq_id`` points to each token's sequences."""

    _fields_ = [
        ("n_tokens", c_int32), ("token", c_void_p), ("embd", c_void_p), ("pos", c_void_p), ("n_seq_id", c_void_p),
        ("seq_id", c_void_p), ("logits", c_void_p),
    ]  # fmt: skip


_Model, _Context, _Memory, _Vocabulary = c_void_p, c_void_p, c_void_p, c_void_p
# name: what it returns, and takes
PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "llama_backend_init": (None, []),
    "llama_model_default_params": (ModelParams, []),
    "llama_context_default_params": (ContextParams, []),
    "llama_model_load_from_file": (_Model, [c_char_p, ModelParams]),
    "llama_model_free": (None, [_Model]),
    "llama_init_from_model": (_Context, [_Model, ContextParams]),
    "llama_free": (None, [_Context]),
    "llama_model_get_vocab": (_Vocabulary, [_Model]),
    "llama_model_n_ctx_train": (c_int32, [_Model]),
    "llama_model_n_swa": (c_int32, [_Model]),
    "llama_model_n_params": (c_uint64, [_Model]),
    "llama_model_ftype": (c_int32, [_Model]),
    "llama_ftype_name": (c_char_p, [c_int32]),
    "llama_model_has_encoder": (c_bool, [_Model]),
    "llama_model_is_recurrent": (c_bool, [_Model]),
    "llama_model_is_hybrid": (c_bool, [_Model]),
    "llama_model_is_diffusion": (c_bool, [_Model]),
    "llama_model_meta_val_str": (c_int32, [_Model, c_char_p, c_char_p, c_size_t]),
    "llama_vocab_n_tokens": (c_int32, [_Vocabulary]),
    "llama_tokenize": (c_int32, [_Vocabulary, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool]),
    "llama_get_memory": (_Memory, [_Context]),
    "llama_memory_clear": (None, [_Memory, c_bool]),
    "llama_memory_seq_rm": (c_bool, [_Memory, c_int32, c_int32, c_int32]),
    "llama_memory_seq_cp": (None, [_Memory, c_int32, c_int32, c_int32, c_int32]),
    "llama_memory_seq_keep": (None, [_Memory, c_int32]),
    "llama_decode": (c_int32, [_Context, LlamaBatch]),
    "llama_get_logits": (POINTER(c_float), [_Context]),
}
_LogCallback = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)


class Library:
    """The functions of `PROTOTYPES` as attributes, named without ``llama_``, and what llama.cpp complained of."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        for name, (returned, taken) in PROTOTYPES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = returned, taken
            setattr(self, name.removeprefix("llama_"), function)
        self._complaints: deque[str] = deque(maxlen=20)
        self._told = _LogCallback(self._hear)  # kept as long as llama.cpp may call it
        library.llama_log_set.argtypes = [_LogCallback, c_void_p]
        library.llama_log_set(self._told, None)
        self.backend_init()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} is not among the functions of llama.cpp that are used here")

    def _hear(self, level: int, text: bytes, _: Any) -> None:
        line = text.decode("utf-8", "replace").strip()
        if level == _ERROR and line:
            self._complaints.append(line)
        log.debug("llama.cpp: %s", line)

    def complaint(self) -> str:
        """The first of what llama.cpp complained of since it was last asked: the cause."""
        first = self._complaints[0] if self._complaints else "llama.cpp gives no reason"
        self._complaints.clear()
        return first


@cache
def library() -> Library:
    """llama.cpp, loaded once in a process.

    Raises `BackendError` where the package is missing or of another version, whose structures may differ.
    """
    try:
        from xllamacpp import __version__, xllamacpp
    except ImportError as error:
        raise BackendError(
            f"--backend llama.cpp needs the package xllamacpp ({error}): {how_to_install('llamacpp')}"
        ) from error
    if __version__ != VERSION:
        raise BackendError(
            f"xllamacpp {__version__} is installed; --backend llama.cpp is written for {VERSION}: pip install "
            f"xllamacpp=={VERSION}"
        )
    return Library(xllamacpp.__file__)
