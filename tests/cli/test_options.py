"""The commands are thin: options stand once, in groups, with the defaults of the functions that they are for."""

import ast
import inspect
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

import anachron
from anachron.analysis.study import make_study
from anachron.cli.groups import grouped
from anachron.edit.corpus import open_corpus
from anachron.probe.check.check import read_facts
from anachron.wikidata.fetching.web import FetchSettings
from support.doc_stage import command_of

COMMANDS = Path(anachron.__file__).parent / "cli"
FOR = {  # what a command calls: the defaults of its options are those of these
    "contexts": ["sample_contexts"],
    "audit": ["load_dataset", "load_tokenizer"],
    "verbalize": ["LlmSettings", "verbalise"],
    "score": ["load_model", "Backend", "score_pairs", "Format"],
    "probe": ["load_model", "load_dataset", "Backend", "ProbeSettings", make_study],
    "metrics": ["open_study", make_study],
    "report": ["open_study", make_study],
    "demo": ["run_demo"],
    "check": ["Gate", read_facts],
    "covariance": ["load_model", "collect_covariance", open_corpus],
    "train-mend": ["load_model", "MendSettings", "mend_lessons", "train_mend"],
    "edit": ["load_model", "load_cases", "choose_methods", "update_requests"],
    "evaluate": ["load_model", "load_cases", "choose_methods", "EvaluateSettings"],
    "build statements": ["build_statements"],
    "build timestress": ["TimestressSettings", "IngestSettings", "LlmSettings"],
    "build updates": ["UpdateSettings"],
    "build cloze": ["LlmSettings", "cloze_templates"],
    "export lm-eval": ["load_dataset", "export_lm_eval"],
    "export hub": ["load_dataset", "export_hub"],
    "export counterfact": ["load_dataset", "export_counterfact"],
    "wikidata download": ["download", FetchSettings],
    "wikidata ingest": ["IngestSettings"],
    "wikidata pageviews": ["compute_popularity"],
}
DIFFER = {
    ("probe", "decoys"),  # a number here, tables of scores there
    ("probe", "wordings"),
    ("export hub", "language"),  # of the statements, on their card; of the questions of a file of facts there
    ("build cloze", "relations"),  # a text with commas here, a sequence there
    ("build updates", "relations"),
    ("contexts", "sampling"),  # a name here, what it names there
    ("contexts", "until"),  # by default that of the sampling
    ("score", "prefix"),
    ("train-mend", "layers"),  # by default the last three of the model at hand
}


@pytest.mark.parametrize("name", FOR)
def test_an_option_has_the_default_of_what_it_is_for(name):
    command, _ = command_of(name.split())
    options = {p.name: p.default for p in command.params if p.param_type_name == "option" and not p.required}
    compared = 0
    for function in FOR[name]:
        target = getattr(anachron, function) if isinstance(function, str) else function
        for parameter in inspect.signature(target).parameters.values():
            if parameter.name in options and parameter.default is not inspect.Parameter.empty:
                if (name, parameter.name) not in DIFFER:
                    assert options[parameter.name] == parameter.default, f"--{parameter.name} of {target}"
                compared += 1
    assert compared


def functions_and_texts():
    """(file, function) and every help text of the commands."""
    functions, texts = [], []
    for path in sorted(COMMANDS.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                functions.append((path.name, node))
            if isinstance(node, ast.keyword) and node.arg == "help" and isinstance(node.value, ast.Constant):
                texts.append(node.value.value)
    return functions, texts


def test_no_option_is_described_twice_and_no_command_is_long():
    functions, texts = functions_and_texts()
    assert len(texts) > 100
    assert [text for text, times in Counter(texts).items() if times > 1] == []
    assert [(file, node.name) for file, node in functions if node.end_lineno - node.lineno >= 60] == []


def test_a_group_stands_for_its_options():
    @dataclass(frozen=True, kw_only=True)
    class Size:
        width: Annotated[int, typer.Option(help="Across.")]
        height: Annotated[int, typer.Option(help="Upwards.")] = 2

    seen = []
    app = typer.Typer()

    def draw(*, name: str, size: Size, bold: Annotated[bool, typer.Option("--bold")] = False) -> None:
        seen.append((name, size, bold))

    app.command()(grouped(draw))
    assert CliRunner().invoke(app, ["x", "--width", "3", "--bold"]).exit_code == 0
    assert CliRunner().invoke(app, ["y", "--width", "3", "--height", "4"]).exit_code == 0
    assert seen == [("x", Size(width=3), True), ("y", Size(width=3, height=4), False)]
    assert CliRunner().invoke(app, ["z"]).exit_code == 2  # an option without a default is required
