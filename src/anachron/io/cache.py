"""The folder of what took long to compute or fetch, on this machine."""

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """Where covariances, answers, trials and fetched entities are kept by default: ``$ANACHRON_CACHE``, or ``anachron``
    in the user's cache folder."""
    if given := os.environ.get("ANACHRON_CACHE"):
        return Path(given).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "anachron" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "anachron"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anachron"
