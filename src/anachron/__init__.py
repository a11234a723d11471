"""Anachron measures and repairs what language models believe about when facts hold.

The public names below are loaded when first used, so importing this package loads neither torch nor
transformers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anachron.analysis.metrics import fact_metrics, summarise
    from anachron.core.contexts import Context, Sampling, sample_contexts
    from anachron.core.dates import Date
    from anachron.core.errors import AnachronError, BackendError, ConfigError, DataError, ModelError
    from anachron.core.facts import Fact
    from anachron.core.periods import Period
    from anachron.data.build_statements import build_dataset as build_statements
    from anachron.data.loaders import load_dataset, write_dataset
    from anachron.data.question_files import judged_questions, sample_questions, verbalise
    from anachron.data.updates.cases import load_cases
    from anachron.edit.base import Edit, edited
    from anachron.edit.covariance.collect import collect as collect_covariance
    from anachron.edit.covariance.prepare import prepare_covariance
    from anachron.edit.make import make_edit, make_edits
    from anachron.edit.mend_settings import MendSettings
    from anachron.edit.plan import plan as plan_edits
    from anachron.edit.requests import EditRequest
    from anachron.edit.storage import load_edit, save_edit, save_edited_model
    from anachron.edit.training.train import mend_lessons, train_mend
    from anachron.evaluate.editing import choose_methods, edit_from_updates, prepare_methods, update_requests
    from anachron.evaluate.lifelong import LifelongSettings, run_lifelong
    from anachron.evaluate.measure import Measures
    from anachron.evaluate.run import EvaluateSettings, run_evaluation
    from anachron.io.jobs import Callbacks
    from anachron.io.llm_settings import LlmSettings
    from anachron.lm.formats import Format
    from anachron.lm.loading import load_model
    from anachron.lm.model import LanguageModel
    from anachron.lm.saving import save_model
    from anachron.lm.tokenizers import load_tokenizer
    from anachron.probe.audit import audit
    from anachron.probe.backends import Backend, open_scorer
    from anachron.probe.check.check import check_facts as check
    from anachron.probe.check.check import write_junit
    from anachron.probe.check.gate import Gate
    from anachron.probe.horizon.find import find_horizon, read_horizon_changes
    from anachron.probe.horizon.read import read_changes
    from anachron.probe.pairs import read_pairs, score_pairs
    from anachron.probe.run import ProbeSettings, run_probe
    from anachron.probe.runs import rename_run
    from anachron.report.demo import run_demo
    from anachron.report.edits.evaluated import evaluate_updates
    from anachron.report.edits.evaluation import write_evaluation
    from anachron.report.export.counterfact import export_counterfact
    from anachron.report.export.hub import export_hub
    from anachron.report.export.inspect_package import export_questions as export_inspect
    from anachron.report.export.lm_eval import export_lm_eval
    from anachron.report.lacking import lacking_updates, write_lacking
    from anachron.report.studies import open_study, write_metrics, write_report
    from anachron.report.tracking import log_to
    from anachron.wikidata.fetching.dumps import download
    from anachron.wikidata.reading.ingest import ingest
    from anachron.wikidata.reading.settings import IngestSettings
    from anachron.wikidata.selection.explain import explain_entity
    from anachron.wikidata.selection.facts import build_facts, selection_named
    from anachron.wikidata.timestress import TimestressSettings, build_timestress
    from anachron.wikidata.updates.build import Settings as UpdateSettings
    from anachron.wikidata.updates.build import build_updates
    from anachron.wikidata.updates.cloze import cloze_templates
    from anachron.wikidata.updates.explain import explain_changes
    from anachron.wikidata.updates.given import label_file
    from anachron.wikidata.views.popularity import compute_popularity

_NAMES = {  # module -> what is public of it, some under another name
    "analysis.metrics": "fact_metrics, summarise",
    "core.contexts": "Context, Sampling, sample_contexts",
    "core.dates": "Date",
    "core.errors": "AnachronError, BackendError, ConfigError, DataError, ModelError",
    "core.facts": "Fact",
    "core.periods": "Period",
    "data.build_statements": "build_dataset as build_statements",
    "data.loaders": "load_dataset, write_dataset",
    "data.question_files": "judged_questions, sample_questions, verbalise",
    "data.updates.cases": "load_cases",
    "edit.base": "Edit, edited",
    "edit.covariance.collect": "collect as collect_covariance",
    "edit.covariance.prepare": "prepare_covariance",
    "edit.make": "make_edit, make_edits",
    "edit.mend_settings": "MendSettings",
    "edit.plan": "plan as plan_edits",
    "edit.requests": "EditRequest",
    "edit.storage": "load_edit, save_edit, save_edited_model",
    "edit.training.train": "mend_lessons, train_mend",
    "evaluate.editing": "choose_methods, edit_from_updates, prepare_methods, update_requests",
    "evaluate.lifelong": "LifelongSettings, run_lifelong",
    "evaluate.measure": "Measures",
    "evaluate.run": "EvaluateSettings, run_evaluation",
    "io.jobs": "Callbacks",
    "io.llm_settings": "LlmSettings",
    "lm.formats": "Format",
    "lm.loading": "load_model",
    "lm.model": "LanguageModel",
    "lm.saving": "save_model",
    "lm.tokenizers": "load_tokenizer",
    "probe.audit": "audit",
    "probe.backends": "Backend, open_scorer",
    "probe.check.check": "check_facts as check, write_junit",
    "probe.check.gate": "Gate",
    "probe.horizon.find": "find_horizon, read_horizon_changes",
    "probe.horizon.read": "read_changes",
    "probe.pairs": "read_pairs, score_pairs",
    "probe.run": "ProbeSettings, run_probe",
    "probe.runs": "rename_run",
    "report.demo": "run_demo",
    "report.edits.evaluated": "evaluate_updates",
    "report.edits.evaluation": "write_evaluation",
    "report.export.counterfact": "export_counterfact",
    "report.export.hub": "export_hub",
    "report.export.inspect_package": "export_questions as export_inspect",
    "report.export.lm_eval": "export_lm_eval",
    "report.lacking": "lacking_updates, write_lacking",
    "report.studies": "open_study, write_metrics, write_report",
    "report.tracking": "log_to",
    "wikidata.fetching.dumps": "download",
    "wikidata.reading.ingest": "ingest",
    "wikidata.reading.settings": "IngestSettings",
    "wikidata.selection.explain": "explain_entity",
    "wikidata.selection.facts": "build_facts, selection_named",
    "wikidata.timestress": "TimestressSettings, build_timestress",
    "wikidata.updates.build": "Settings as UpdateSettings, build_updates",
    "wikidata.updates.cloze": "cloze_templates",
    "wikidata.updates.explain": "explain_changes",
    "wikidata.updates.given": "label_file",
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
