"""The commands ``export lm-eval``, ``export inspect``, ``export hub`` and ``export counterfact``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from anachron.analysis.plots.words import counted
from anachron.cli.options import DatasetArgument, DatasetOptions, JsonFlag, Language
from anachron.cli.output import print_json, say
from anachron.cli.outputs import FILE, FOLDER


def lm_eval(
    *,
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Option(help="Folder for the task."), FOLDER],
    task: Annotated[
        str | None, typer.Option(help="Name of the task. Default: anachron_ and the data set's name.")
    ] = None,
    selected: DatasetOptions,
    json_: JsonFlag = False,
) -> None:
    """Write a task folder with which lm-evaluation-harness measures W and R, without Anachron.

    Example: anachron export lm-eval mini --out task
    """
    from anachron.report.export.lm_eval import export_lm_eval

    data = selected.load(dataset)
    manifest = export_lm_eval(data, out, task=task)
    name, counts = manifest["parameters"]["task"], manifest["counts"]
    if json_:
        print_json({"out": str(out), "task": name, **counts})
    else:
        say(f"{_amount(counts)} written to {out}; run them with")
        say(f"lm_eval --model hf --model_args pretrained=MODEL --include_path {out} --tasks {name}")


def inspect(
    *,
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Option(help="Folder for the package."), FOLDER],
    name: Annotated[
        str | None, typer.Option(help="Name of the package. Default: anachron_ and the data set's name.")
    ] = None,
    language: Language = None,
    selected: DatasetOptions,
    json_: JsonFlag = False,
) -> None:
    """Write a Python package with an Inspect task: choices of two years in both orders, and open questions with a year.

    Example: anachron export inspect mini --limit 100 --out mini-task
    """
    data = selected.load(dataset, language=language)

    from anachron.report.export.inspect_package import (
        export_inspect,  # it loads torch, which takes longer than reading facts
    )

    manifest = export_inspect(data, out, name=name, language=language)
    package, task, counts = manifest["parameters"]["package"], manifest["parameters"]["task"], manifest["counts"]
    if json_:
        print_json({"out": str(out), "package": package, "task": task, **counts})
    else:
        say(f"questions about {counted(counts['facts'], 'fact')} written to {out}; run them with")
        say(f"cd {out} && inspect eval {package}/task.py --model MODEL")  # Inspect takes no absolute path


def hub(
    *,
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Option(help="Folder for the data set and its card."), FOLDER],
    licence: Annotated[
        str | None,
        typer.Option(
            "--licence", "--license", help="Licence of the data, such as cc-by-4.0; known for bundled data sets."
        ),
    ] = None,
    language: Annotated[str, typer.Option(help="Language of the statements, as a code.")] = "en",
    benchmark: Annotated[
        bool,
        typer.Option("--benchmark", help="Add choices of two years, and the eval.yaml by which the hub scores them."),
    ] = False,
    push: Annotated[
        str | None, typer.Option(help="Upload it to this data set on the hub, OWNER/NAME; a new one is private.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what --push would upload, without uploading it.")
    ] = False,
    selected: DatasetOptions,
    json_: JsonFlag = False,
) -> None:
    """Write a Hugging Face data set folder: Parquet in the published TimeStress columns, and a data set card.

    Example: anachron export hub mini --out mini-hub --push OWNER/mini --dry-run
    """
    from anachron.core.errors import ConfigError
    from anachron.report.export.hub import export_hub, licence_of
    from anachron.report.export.push import check_push, files_to_push
    from anachron.report.export.push import push as send

    if dry_run and push is None:
        raise ConfigError("--dry-run says what --push would send; give --push OWNER/NAME too")
    data = selected.load(dataset)
    if push is not None:
        check_push(push, licence_of(data, licence))
    questions = None
    if benchmark:
        from anachron.probe.questions import questions_of_data

        questions = questions_of_data(data, language)
    manifest = export_hub(data, out, licence=licence, language=language, questions=questions)
    counts = manifest["counts"]
    sent: dict[str, Any] = {}
    if push is not None:
        sent = {"push": push, "files": files_to_push(out, manifest, push)}
        sent["commit"] = None if dry_run else send(out, manifest, push)
    if json_:
        print_json({"out": str(out), "licence": manifest["parameters"]["licence"], **counts, **sent})
        return
    say(f"{_amount(counts)} written to {out}, with a card in README.md")
    if manifest["parameters"]["licence"] is None:
        say("the card states no licence; give that of the data with --licence before sharing it")
    for file, size in sent.get("files", {}).items():
        say(f"{size:>12,} bytes  {file}")
    if sent:
        say(f"nothing was sent to {push}" if dry_run else f"sent to {push}: {sent['commit']}")


def counterfact(
    *,
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Option(help="File for the cases: .json."), FILE],
    selected: DatasetOptions,
    json_: JsonFlag = False,
) -> None:
    """Write the successions of a data set (one object replaces another) as edit requests in the CounterFact schema.

    Example: anachron export counterfact mini --out mini-counterfact.json
    """
    from anachron.report.export.counterfact import export_counterfact

    data = selected.load(dataset)
    counts = export_counterfact(data, out)
    if json_:
        print_json({"out": str(out), **counts})
        return
    say(f"{counted(counts['cases'], 'case')} from {counted(counts['facts'], 'fact')} written to {out}")
    for item in counts["left_out"].values():
        if item["pairs"]:
            say(f"left out {item['pairs']:,}: {item['why']}")


def _amount(counts: Mapping[str, int]) -> str:
    return f"{counted(counts['statements'], 'statement')} of {counted(counts['facts'], 'fact')}"
