"""Anachron measures and repairs what language models believe about when facts hold.

The public names below are loaded when first used, so importing this package loads neither torch nor
transformers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anachron.core.contexts import Context, Sampling, sample_contexts
    from anachron.core.dates import Date
    from anachron.core.facts import Fact
    from anachron.core.periods import Period
    from anachron.data.cases import load_cases
    from anachron.data.loaders import load_dataset
    from anachron.edit.base import Edit, edited
    from anachron.edit.covariance.collect import collect as collect_covariance
    from anachron.edit.make import make_edit, make_edits
    from anachron.edit.plan import plan as plan_edits
    from anachron.edit.requests import EditRequest
    from anachron.edit.storage import load_edit, save_edit, save_edited_model
    from anachron.errors import AnachronError, BackendError, ConfigError, DataError, ModelError
    from anachron.evaluate.lifelong import LifelongSettings, run_lifelong
    from anachron.evaluate.measure import Measures
    from anachron.evaluate.run import EvaluateSettings, run_evaluation
    from anachron.lm.formats import Format
    from anachron.lm.loading import load_model
    from anachron.lm.model import LanguageModel
    from anachron.metrics import fact_metrics, summarise
    from anachron.probe.run import ProbeSettings, run_probe

_HOMES = {  # name -> its module, and after a colon what it is called there
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
    "load_cases": "data.cases",
    "load_dataset": "data.loaders",
    "Edit": "edit.base",
    "edited": "edit.base",
    "collect_covariance": "edit.covariance.collect:collect",
    "make_edit": "edit.make",
    "make_edits": "edit.make",
    "EditRequest": "edit.requests",
    "load_edit": "edit.storage",
    "save_edit": "edit.storage",
    "save_edited_model": "edit.storage",
    "LifelongSettings": "evaluate.lifelong",
    "run_lifelong": "evaluate.lifelong",
    "Measures": "evaluate.measure",
    "plan_edits": "edit.plan:plan",
    "EvaluateSettings": "evaluate.run",
    "run_evaluation": "evaluate.run",
    "Format": "lm.formats",
    "LanguageModel": "lm.model",
    "load_model": "lm.loading",
    "fact_metrics": "metrics",
    "summarise": "metrics",
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
    "Edit",
    "EditRequest",
    "EvaluateSettings",
    "Fact",
    "Format",
    "LanguageModel",
    "LifelongSettings",
    "Measures",
    "ModelError",
    "Period",
    "ProbeSettings",
    "Sampling",
    "collect_covariance",
    "edited",
    "fact_metrics",
    "load_cases",
    "load_dataset",
    "load_edit",
    "load_model",
    "make_edit",
    "make_edits",
    "plan_edits",
    "run_evaluation",
    "run_lifelong",
    "run_probe",
    "sample_contexts",
    "save_edit",
    "save_edited_model",
    "summarise",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("anachron")
    if name not in _HOMES:
        raise AttributeError(f"module 'anachron' has no attribute {name!r}")
    home, _, own = _HOMES[name].partition(":")
    return getattr(import_module(f"anachron.{home}"), own or name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
