"""The command ``judge``: a language model judges what models answered, beside the rule."""

from pathlib import Path
from typing import Annotated

import typer

from anachron.analysis.plots.words import counted
from anachron.cli.options import AnswerFolder, JsonFlag, LlmBaseUrl, LlmOptions
from anachron.cli.output import on_screen, print_json, say, stdout, warn
from anachron.cli.outputs import FOLDER


def judge(
    *,
    run: Annotated[
        Path, typer.Argument(help="Run folder of evaluate --audit, or of a run with --backend chat or generate.")
    ],
    llm: Annotated[str, typer.Option("--llm", help="Model that judges, under the name its server uses.")],
    base_url: LlmBaseUrl = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the verdicts. Default: judge in the run folder."), FOLDER
    ] = None,
    asking: LlmOptions,
    cache: AnswerFolder = None,
    json_: JsonFlag = False,
) -> None:
    """Have a language model judge answers too, and report how often it disagrees with the rule.

    The answers are those of an audit of edits, or the open answers of a model that was asked questions.

    If interrupted, repeat the same command to resume: verdicts are cached, and none is paid for twice.

    Example: anachron judge runs/audit --llm my-model --base-url http://localhost:8000/v1
    """
    from anachron.report.judging import judge_run
    from anachron.report.terminal.answers import judged_table

    table, counts = judge_run(run, asking.settings(llm, base_url), out, cache=cache, callbacks=on_screen())
    if json_:
        print_json({"agreement": table.to_dicts(), **counts, "out": str(out or run / "judge")})
    else:
        stdout().print(judged_table(table, llm))
        usage = counts["usage"]
        say(f"{usage['answers']:,} verdicts requested, {usage['kept']:,} reused from before")
        disagreements = counted(counts["disagreements"], "disagreement")
        say(f"{disagreements}; all of them: {(out or run / 'judge') / 'disagreements.jsonl'}")
    for reason, count in counts["unreadable"].items():
        warn(f"{count:,} answers without a verdict: {reason}")
    if not counts["judged"]:
        raise typer.Exit(1)
