"""Whether llama.cpp computes a GGUF file at all: tried in a process of its own, which llama.cpp may end.

llama.cpp stops the whole process over values that it did not expect. What it reads of the file on trial stays in the
system's cache, so that the file is read from the disk once.
"""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

from anachron.core.errors import ModelError
from anachron.lm.gguf.library import LlamaBatch, library

_TOKENS = 8


def try_in_child(path: Path) -> None:
    """Raise `ModelError` where llama.cpp cannot load the file or compute a token, or ends the process over it."""
    command = [sys.executable, "-m", "anachron.lm.gguf.trial", str(path)]
    places = os.pathsep.join(place for place in sys.path if place)
    environment = {**os.environ, "PYTHONPATH": places, "GGML_NO_BACKTRACE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    said = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    if done.returncode == 0:
        return
    if done.returncode == 1 and said:
        raise ModelError(f"llama.cpp cannot load {path}: {said[-1]}")
    why = next((line for line in said if "GGML_ASSERT" in line), said[-1] if said else "without a word")
    raise ModelError(
        f"llama.cpp ended its process ({_ending(done.returncode)}) over {path}: {why.strip()}; download or convert the "
        "file again, or use --backend transformers"
    )


def _ending(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"exit code {code}"


def main() -> None:
    """Load the file that the command line names and compute one token; the reason on stderr and 1 where it fails."""
    if os.name == "posix":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no image of the memory on the disk
    llama = library()
    params = llama.model_default_params()
    params.n_gpu_layers = 0
    model = llama.model_load_from_file(sys.argv[1].encode(), params)
    if not model:
        sys.exit(llama.complaint())
    if llama.model_has_encoder(model) or llama.model_is_recurrent(model) or llama.model_is_diffusion(model):
        return  # refused by its kind, without being computed
    sizes = llama.context_default_params()
    sizes.n_ctx = sizes.n_batch = sizes.n_ubatch = _TOKENS
    sizes.n_threads = sizes.n_threads_batch = 1
    context = llama.init_from_model(model, sizes)
    if not context:
        sys.exit(llama.complaint())
    zero, one, wanted = ctypes.c_int32(0), ctypes.c_int32(1), ctypes.c_int8(1)
    sequences = (ctypes.c_void_p * 1)(ctypes.addressof(zero))
    of = [ctypes.addressof(value) for value in (zero, one, sequences, wanted)]
    if llama.decode(context, LlamaBatch(1, of[0], None, of[0], *of[1:])):
        sys.exit(llama.complaint())


if __name__ == "__main__":
    main()
