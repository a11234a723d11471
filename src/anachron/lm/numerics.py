"""What rounding may do to a score, and arithmetic that gives the same bits every time on one machine."""

import os
from collections.abc import Callable

import torch

from anachron.lm.temporary import Temporary

FINE_BOUND = 1e-3  # nats a text in float32 or finer; measured: 2e-5. More between two scores of it is no rounding
COARSE_BOUND = 0.5  # nats a token in half precision; measured: 0.25 in bfloat16, where logits near -100 are 0.5 apart

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # read by cuBLAS when it starts; this value makes its sums repeatable


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """float32, or the dtype itself where that is finer."""
    return torch.promote_types(dtype, torch.float32)


def at_least_float32(values: torch.Tensor) -> torch.Tensor:
    return values.to(wide_dtype(values.dtype))


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` of `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def deterministic(wanted: bool = True) -> Temporary[None]:
    """Only algorithms of torch whose results do not vary from run to run, for as long as the block lasts.

    An operation that has none raises `RuntimeError`. Slower on a GPU; on a CPU nothing that scoring uses varies.
    """

    def change() -> Callable[[], None]:
        enabled = torch.are_deterministic_algorithms_enabled()
        warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        benchmark, workspace = torch.backends.cudnn.benchmark, os.environ.get(WORKSPACE)
        if wanted:
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.benchmark = False
            os.environ.setdefault(WORKSPACE, ":4096:8")

        def back() -> None:
            torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
            torch.backends.cudnn.benchmark = benchmark
            if workspace is None:
                os.environ.pop(WORKSPACE, None)

        return back

    return Temporary(change)
