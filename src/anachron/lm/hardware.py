"""What a model computes on, for the record of a run."""

import os
import platform
from typing import Any

import torch


def hardware(device: str) -> dict[str, Any]:
    """The machine of this process, and the GPU where ``device`` is one."""
    about: dict[str, Any] = {
        "device": device,
        "machine": platform.machine(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
    }
    if device.startswith("cuda"):
        about["gpu"] = torch.cuda.get_device_name(device)
    return about
