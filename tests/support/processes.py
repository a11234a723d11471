"""Programs of this folder in processes of their own."""

import os
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def program(module: str) -> list[str]:
    """The command that runs a module of this folder; it needs `surroundings`."""
    return [sys.executable, "-m", f"support.{module}"]


def surroundings() -> dict[str, str]:
    """This process's environment, in which the modules of this folder are found."""
    places = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
