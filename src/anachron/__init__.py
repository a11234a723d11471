"""Anachron measures and repairs what language models believe about when facts hold.

The public names below are loaded when first used, so importing this package loads neither torch nor
transformers.
"""

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anachron.core.contexts import Context, Sampling, sample_contexts
    from anachron.core.dates import Date
    from anachron.core.facts import Fact
    from anachron.core.periods import Period
    from anachron.data.loaders import load_dataset
    from anachron.errors import AnachronError, BackendError, ConfigError, DataError, ModelError
    from anachron.lm.formats import Format
    from anachron.lm.model import LanguageModel, load_model
    from anachron.probe.metrics import fact_metrics, summarise
    from anachron.probe.run import ProbeSettings, run_probe

__version__ = _version("anachron")

_HOMES = {
    "AnachronError": "errors",
    "BackendError": "errors",
    "ConfigError": "errors",
    "DataError": "errors",
    "ModelError": "errors",
    "Context": "core.contexts",
    "Sampling": "core.contexts",
    "sample_contexts": "core.contexts",
    "Date": "core.dates",
    "Fact": "core.facts",
    "Period": "core.periods",
    "load_dataset": "data.loaders",
    "Format": "lm.formats",
    "LanguageModel": "lm.model",
    "load_model": "lm.model",
    "fact_metrics": "probe.metrics",
    "summarise": "probe.metrics",
    "ProbeSettings": "probe.run",
    "run_probe": "probe.run",
}

__all__ = [
    "AnachronError",
    "BackendError",
    "ConfigError",
    "Context",
    "DataError",
    "Date",
    "Fact",
    "Format",
    "LanguageModel",
    "ModelError",
    "Period",
    "ProbeSettings",
    "Sampling",
    "fact_metrics",
    "load_dataset",
    "load_model",
    "run_probe",
    "sample_contexts",
    "summarise",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'anachron' has no attribute {name!r}")
    return getattr(import_module(f"anachron.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
