"""Anachron measures and repairs what language models believe about when facts hold.

The public names below are loaded when first used, so importing this package loads neither torch nor
transformers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anachron.checks.gate import Gate
    from anachron.core.contexts import Context, Sampling, sample_contexts
    from anachron.core.dates import Date
    from anachron.core.facts import Fact
    from anachron.core.periods import Period
    from anachron.data.build_statements import build_dataset as build_statements
    from anachron.data.cases import load_cases
    from anachron.data.loaders import load_dataset, write_dataset
    from anachron.edit.base import Edit, edited
    from anachron.edit.covariance.collect import collect as collect_covariance
    from anachron.edit.make import make_edit, make_edits
    from anachron.edit.mend_settings import MendSettings
    from anachron.edit.plan import plan as plan_edits
    from anachron.edit.requests import EditRequest
    from anachron.edit.storage import load_edit, save_edit, save_edited_model
    from anachron.errors import AnachronError, BackendError, ConfigError, DataError, ModelError
    from anachron.evaluate.lifelong import LifelongSettings, run_lifelong
    from anachron.evaluate.measure import Measures
    from anachron.evaluate.run import EvaluateSettings, run_evaluation
    from anachron.export.counterfact import export_counterfact
    from anachron.export.hub import export_hub
    from anachron.export.lm_eval import export_lm_eval
    from anachron.jobs import Callbacks
    from anachron.lm.formats import Format
    from anachron.lm.loading import load_model, load_tokenizer
    from anachron.lm.model import LanguageModel
    from anachron.lm.saving import save_model
    from anachron.metrics import fact_metrics, summarise
    from anachron.pipelines.asking import export_questions as export_inspect
    from anachron.pipelines.changes import read_changes
    from anachron.pipelines.check import check_facts as check
    from anachron.pipelines.check import write_junit
    from anachron.pipelines.covariance import prepare_covariance
    from anachron.pipelines.demo import run_demo
    from anachron.pipelines.editing import choose_methods, edit_from_updates, prepare_methods, update_requests
    from anachron.pipelines.evaluation import evaluate_updates
    from anachron.pipelines.horizon import find_horizon, read_horizon_changes
    from anachron.pipelines.lacking import lacking_updates, write_lacking
    from anachron.pipelines.mend import mend_lessons, train_mend
    from anachron.pipelines.scorers import Backend, open_scorer
    from anachron.pipelines.studies import open_study, write_metrics, write_report
    from anachron.pipelines.timestress import TimestressSettings, build_timestress
    from anachron.pipelines.tracking import log_to
    from anachron.probe.audit import audit
    from anachron.probe.pairs import read_pairs, score_pairs
    from anachron.probe.run import ProbeSettings, run_probe
    from anachron.probe.runs import rename_run
    from anachron.report.evaluation import write_evaluation
    from anachron.text.llm_settings import LlmSettings
    from anachron.text.question_files import judged_questions, sample_questions, verbalise
    from anachron.updates.build import Settings as UpdateSettings
    from anachron.updates.build import build_updates
    from anachron.updates.cloze import cloze_templates
    from anachron.updates.explain import explain_changes
    from anachron.updates.given import label_file
    from anachron.wikidata.fetching.dumps import download
    from anachron.wikidata.reading.ingest import ingest
    from anachron.wikidata.reading.settings import IngestSettings
    from anachron.wikidata.selection.explain import explain_entity
    from anachron.wikidata.selection.facts import build_facts, selection_named
    from anachron.wikidata.views.popularity import compute_popularity

_NAMES = {  # module -> what is public of it, some under another name
    "checks.gate": "Gate",
    "core.contexts": "Context, Sampling, sample_contexts",
    "core.dates": "Date",
    "core.facts": "Fact",
    "core.periods": "Period",
    "data.build_statements": "build_dataset as build_statements",
    "data.cases": "load_cases",
    "data.loaders": "load_dataset, write_dataset",
    "edit.base": "Edit, edited",
    "edit.covariance.collect": "collect as collect_covariance",
    "edit.make": "make_edit, make_edits",
    "edit.mend_settings": "MendSettings",
    "edit.plan": "plan as plan_edits",
    "edit.requests": "EditRequest",
    "edit.storage": "load_edit, save_edit, save_edited_model",
    "errors": "AnachronError, BackendError, ConfigError, DataError, ModelError",
    "evaluate.lifelong": "LifelongSettings, run_lifelong",
    "evaluate.measure": "Measures",
    "evaluate.run": "EvaluateSettings, run_evaluation",
    "export.counterfact": "export_counterfact",
    "export.hub": "export_hub",
    "export.lm_eval": "export_lm_eval",
    "jobs": "Callbacks",
    "lm.formats": "Format",
    "lm.loading": "load_model, load_tokenizer",
    "lm.model": "LanguageModel",
    "lm.saving": "save_model",
    "metrics": "fact_metrics, summarise",
    "pipelines.asking": "export_questions as export_inspect",
    "pipelines.check": "check_facts as check, write_junit",
    "pipelines.covariance": "prepare_covariance",
    "pipelines.demo": "run_demo",
    "pipelines.editing": "choose_methods, edit_from_updates, prepare_methods, update_requests",
    "pipelines.evaluation": "evaluate_updates",
    "pipelines.changes": "read_changes",
    "pipelines.horizon": "find_horizon, read_horizon_changes",
    "pipelines.lacking": "lacking_updates, write_lacking",
    "pipelines.mend": "mend_lessons, train_mend",
    "pipelines.scorers": "Backend, open_scorer",
    "pipelines.studies": "open_study, write_metrics, write_report",
    "pipelines.timestress": "TimestressSettings, build_timestress",
    "pipelines.tracking": "log_to",
    "probe.audit": "audit",
    "probe.pairs": "read_pairs, score_pairs",
    "probe.run": "ProbeSettings, run_probe",
    "probe.runs": "rename_run",
    "report.evaluation": "write_evaluation",
    "text.llm_settings": "LlmSettings",
    "text.question_files": "judged_questions, sample_questions, verbalise",
    "updates.build": "Settings as UpdateSettings, build_updates",
    "updates.cloze": "cloze_templates",
    "updates.explain": "explain_changes",
    "updates.given": "label_file",
    "wikidata.fetching.dumps": "download",
    "wikidata.reading.ingest": "ingest",
    "wikidata.reading.settings": "IngestSettings",
    "wikidata.selection.explain": "explain_entity",
    "wikidata.selection.facts": "build_facts, selection_named",
    "wikidata.views.popularity": "compute_popularity",
}
_HOMES = {  # public name -> its module, and what it is called there
    entry.split(" as ")[-1]: (module, entry.split(" as ")[0])
    for module, entries in _NAMES.items()
    for entry in entries.split(", ")
}

__all__ = [
    "AnachronError", "Backend", "BackendError", "Callbacks", "ConfigError", "Context", "DataError", "Date", "Edit",
    "EditRequest", "EvaluateSettings", "Fact", "Format", "Gate", "IngestSettings", "LanguageModel", "LifelongSettings",
    "LlmSettings", "Measures", "MendSettings", "ModelError", "Period", "ProbeSettings", "Sampling",
    "TimestressSettings", "UpdateSettings", "audit", "build_facts", "build_statements", "build_timestress",
    "build_updates", "check", "choose_methods", "cloze_templates", "collect_covariance", "compute_popularity",
    "download", "edit_from_updates", "edited", "evaluate_updates", "explain_changes", "explain_entity",
    "export_counterfact", "export_hub", "export_inspect", "export_lm_eval", "fact_metrics", "find_horizon", "ingest",
    "judged_questions",
    "label_file", "lacking_updates", "load_cases", "load_dataset", "load_edit", "load_model", "load_tokenizer",
    "log_to", "make_edit", "make_edits", "mend_lessons", "open_scorer", "open_study", "plan_edits",
    "prepare_covariance", "prepare_methods", "read_changes", "read_horizon_changes", "read_pairs", "rename_run",
    "run_demo", "run_evaluation", "run_lifelong", "run_probe", "sample_contexts", "sample_questions", "save_edit",
    "save_edited_model", "save_model", "score_pairs", "selection_named", "summarise", "train_mend", "update_requests",
    "verbalise", "write_dataset", "write_evaluation", "write_junit", "write_lacking", "write_metrics", "write_report",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("anachron")
    if name not in _HOMES:
        raise AttributeError(f"module 'anachron' has no attribute {name!r}")
    module, name_there = _HOMES[name]
    return getattr(import_module(f"anachron.{module}"), name_there)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
