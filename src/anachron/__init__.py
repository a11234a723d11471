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
    from anachron.metrics import fact_metrics, summarise
    from anachron.pipelines.covariance import prepare_covariance
    from anachron.pipelines.demo import run_demo
    from anachron.pipelines.editing import choose_methods, edit_from_updates, prepare_methods, update_requests
    from anachron.pipelines.evaluation import evaluate_updates
    from anachron.pipelines.mend import mend_lessons, train_mend
    from anachron.pipelines.scorers import Backend, open_scorer
    from anachron.pipelines.studies import open_study, write_metrics, write_report
    from anachron.pipelines.timestress import TimestressSettings, build_timestress
    from anachron.probe.audit import audit
    from anachron.probe.pairs import read_pairs, score_pairs
    from anachron.probe.run import ProbeSettings, run_probe
    from anachron.report.evaluation import write_evaluation
    from anachron.text.llm_settings import LlmSettings
    from anachron.text.question_files import judged_questions, sample_questions, verbalise
    from anachron.updates.build import Settings as UpdateSettings
    from anachron.updates.build import build_updates
    from anachron.updates.cloze import cloze_templates
    from anachron.updates.explain import explain_changes
    from anachron.updates.given import label_file
    from anachron.wikidata.fetching.dumps import download
    from anachron.wikidata.reading.ingest import IngestSettings, ingest
    from anachron.wikidata.selection.explain import explain_entity
    from anachron.wikidata.selection.facts import build_facts, selection_named
    from anachron.wikidata.views.popularity import compute_popularity

_HOMES = {  # name -> its module, and after a colon what it is called there
    "Context": "core.contexts",
    "Sampling": "core.contexts",
    "sample_contexts": "core.contexts",
    "Date": "core.dates",
    "Fact": "core.facts",
    "Period": "core.periods",
    "build_statements": "data.build_statements:build_dataset",
    "load_cases": "data.cases",
    "load_dataset": "data.loaders",
    "write_dataset": "data.loaders",
    "Edit": "edit.base",
    "edited": "edit.base",
    "collect_covariance": "edit.covariance.collect:collect",
    "make_edit": "edit.make",
    "make_edits": "edit.make",
    "MendSettings": "edit.mend_settings",
    "plan_edits": "edit.plan:plan",
    "EditRequest": "edit.requests",
    "load_edit": "edit.storage",
    "save_edit": "edit.storage",
    "save_edited_model": "edit.storage",
    "LifelongSettings": "evaluate.lifelong",
    "run_lifelong": "evaluate.lifelong",
    "Measures": "evaluate.measure",
    "AnachronError": "errors",
    "BackendError": "errors",
    "ConfigError": "errors",
    "DataError": "errors",
    "ModelError": "errors",
    "EvaluateSettings": "evaluate.run",
    "run_evaluation": "evaluate.run",
    "export_counterfact": "export.counterfact",
    "export_hub": "export.hub",
    "export_lm_eval": "export.lm_eval",
    "Callbacks": "jobs",
    "Format": "lm.formats",
    "load_model": "lm.loading",
    "fact_metrics": "metrics",
    "summarise": "metrics",
    "load_tokenizer": "lm.loading",
    "LanguageModel": "lm.model",
    "prepare_covariance": "pipelines.covariance",
    "run_demo": "pipelines.demo",
    "choose_methods": "pipelines.editing",
    "edit_from_updates": "pipelines.editing",
    "prepare_methods": "pipelines.editing",
    "update_requests": "pipelines.editing",
    "evaluate_updates": "pipelines.evaluation",
    "mend_lessons": "pipelines.mend",
    "train_mend": "pipelines.mend",
    "Backend": "pipelines.scorers",
    "open_scorer": "pipelines.scorers",
    "open_study": "pipelines.studies",
    "write_metrics": "pipelines.studies",
    "write_report": "pipelines.studies",
    "TimestressSettings": "pipelines.timestress",
    "build_timestress": "pipelines.timestress",
    "audit": "probe.audit",
    "read_pairs": "probe.pairs",
    "score_pairs": "probe.pairs",
    "ProbeSettings": "probe.run",
    "run_probe": "probe.run",
    "write_evaluation": "report.evaluation",
    "LlmSettings": "text.llm_settings",
    "judged_questions": "text.question_files",
    "sample_questions": "text.question_files",
    "verbalise": "text.question_files",
    "UpdateSettings": "updates.build:Settings",
    "build_updates": "updates.build",
    "cloze_templates": "updates.cloze",
    "explain_changes": "updates.explain",
    "label_file": "updates.given",
    "download": "wikidata.fetching.dumps",
    "IngestSettings": "wikidata.reading.ingest",
    "ingest": "wikidata.reading.ingest",
    "explain_entity": "wikidata.selection.explain",
    "build_facts": "wikidata.selection.facts",
    "selection_named": "wikidata.selection.facts",
    "compute_popularity": "wikidata.views.popularity",
}

__all__ = [
    "AnachronError", "Backend", "BackendError", "Callbacks", "ConfigError", "Context", "DataError", "Date", "Edit",
    "EditRequest", "EvaluateSettings", "Fact", "Format", "IngestSettings", "LanguageModel", "LifelongSettings",
    "LlmSettings", "Measures", "MendSettings", "ModelError", "Period", "ProbeSettings", "Sampling",
    "TimestressSettings", "UpdateSettings", "audit", "build_facts", "build_statements", "build_timestress",
    "build_updates", "choose_methods", "cloze_templates", "collect_covariance", "compute_popularity", "download",
    "edit_from_updates", "edited", "evaluate_updates", "explain_changes", "explain_entity", "export_counterfact",
    "export_hub", "export_lm_eval", "fact_metrics", "ingest", "judged_questions", "label_file", "load_cases",
    "load_dataset", "load_edit", "load_model", "load_tokenizer", "make_edit", "make_edits", "mend_lessons",
    "open_scorer", "open_study", "plan_edits", "prepare_covariance", "prepare_methods", "read_pairs", "run_demo",
    "run_evaluation", "run_lifelong", "run_probe", "sample_contexts", "sample_questions", "save_edit",
    "save_edited_model", "score_pairs", "selection_named", "summarise", "train_mend", "update_requests", "verbalise",
    "write_dataset", "write_evaluation", "write_metrics", "write_report",
]  # fmt: skip


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
