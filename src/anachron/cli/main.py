"""The commands of ``anachron``, and how errors become one line and an exit code.

0 done, 1 the work failed (a server, memory, a disk), 2 wrong use: options, files and models that cannot be used;
130 interrupted. Where something is demanded of a model 1 says that it is not met, 2 that there is no verdict; of
``check`` 1 says nothing else. Results go to stdout or ``--out``, words for people to stderr. ``--debug``, anywhere on
the line, shows the traceback of an error.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from io import StringIO
from typing import Annotated, Any

import typer

from anachron.cli import (
    advise,
    build,
    check,
    covariance,
    data,
    demo,
    edit,
    evaluate,
    export,
    horizon,
    judge,
    lacking,
    measure,
    probe,
    refresh,
    runs,
    save,
    timestress,
    train_mend,
    updates,
    verbalize,
    wikidata,
    wikidata_example,
    wikidata_explain,
    wikidata_fetch,
    wikidata_topic,
)
from anachron.cli.commands import HELP_ALL, SELDOM, App
from anachron.cli.groups import grouped
from anachron.cli.output import RESULTS, visible
from anachron.core.errors import AnachronError, BackendError, ConfigError, of_machine
from anachron.edit.methods import METHODS, method_names
from anachron.io.store_requests import of_polars

INTERRUPTED = 130
USAGE_ERROR: Any = typer.BadParameter.__base__  # click's UsageError, wherever this version of typer keeps it

app = App(
    help="Measure and repair what language models believe about when facts hold.",
    epilog="An error is shown as one line; add --debug anywhere for its traceback. To get started: anachron demo",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
# Commands that work on stores; what others are given is of this machine.
ON_STORES = {
    ("wikidata", "ingest"), ("wikidata", "rebucket"), ("wikidata", "pageviews"), ("wikidata", "explain"),
    ("build", "facts"), ("build", "updates"), ("build", "timestress"), ("build", "statements"), ("verbalize",),
    ("runs", "list"), ("runs", "show"),
}  # fmt: skip
STORE = re.compile(r"(?:--[a-z-]+=|-[a-z])?((?:s3|gs|s3a|s3n|gcs|az|abfss?|hdfs)://.*)", re.IGNORECASE)
METHOD = re.compile(r"[A-Z][A-Za-z]*(\+L)?( dated| METO)?,?")  # as a method of editing is written


def _print_version(wanted: bool) -> None:
    if wanted:
        import anachron

        print(anachron.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    return


# In the order of the help.
COMMANDS = (
    demo.demo, check.check, horizon.horizon, data.contexts, data.datasets, data.audit, verbalize.verbalize,
    updates.label, probe.score, probe.probe, measure.metrics, measure.report, covariance.covariance,
    train_mend.train_mend, lacking.updates, edit.edit, evaluate.evaluate, advise.advise, refresh.refresh, judge.judge,
    save.save,
)  # fmt: skip
GROUPS = {
    "build": (
        "Build data sets from Wikidata snapshots: dated facts, statements about them, updates between two.\n\n"
        "Example: anachron build facts SNAPSHOT --out facts.parquet",
        (build.facts, build.statements, timestress.timestress, updates.updates, updates.cloze),
    ),
    "export": (
        "Write a data set for other tools: lm-evaluation-harness, Inspect, the Hugging Face hub, CounterFact.\n\n"
        "Example: anachron export lm-eval mini --out task",
        (export.lm_eval, export.inspect, export.hub, export.counterfact),
    ),
    "wikidata": (
        "Fetch Wikidata dumps, read them into snapshots, and see what happens to an entity.\n\n"
        "Example: anachron wikidata ingest latest-all.json.bz2 --date 2021-01-04 --out snapshot",
        (
            wikidata_topic.fetch, wikidata_fetch.download, wikidata_fetch.pageviews, wikidata.ingest,
            wikidata.rebucket, wikidata.redirects, wikidata_explain.explain, wikidata_example.example,
        ),
    ),
    "runs": (
        "See which runs there are, compare them, and export or rename them.\n\nExample: anachron runs list",
        (runs.list_, runs.show, runs.compare, runs.export, runs.rename),
    ),
}  # fmt: skip
RARELY_USED = {
    data.contexts, verbalize.verbalize, updates.label, updates.cloze, covariance.covariance, train_mend.train_mend,
    judge.judge, wikidata.rebucket,
}  # fmt: skip


def _add(group: App, commands: Iterable[Callable[..., None]]) -> None:
    for command in commands:
        name = command.__name__.rstrip("_").replace("_", "-")
        group.command(name, rich_help_panel=SELDOM if command in RARELY_USED else None)(grouped(command))


_add(app, COMMANDS)
for name, (about, commands) in GROUPS.items():
    _add(group := App(help=about, add_completion=False), commands)
    app.add_typer(group, name=name)


@cache  # typer takes a tenth of a second to build it
def command_tree(installed: bool = True) -> Any:
    """The commands as click has them: ``-o`` is ``--out`` everywhere, and a flag shows no type in the help.

    installed: whether the help names editing methods of other packages too, for which these are looked up.
    """
    tree: Any = typer.main.get_command(app)
    commands = [tree]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        context = command.context_class(command, help_option_names=["-h", "--help"])
        for parameter in command.get_params(context):  # with --help, which is kept between calls
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            if "--out" in parameter.opts:
                parameter.opts = ["--out", "-o"]
            if installed and parameter.name in ("method", "methods"):
                parameter.help = parameter.help.replace(", ".join(METHODS), ", ".join(method_names()))
    return tree


def with_commas(argv: list[str]) -> list[str]:
    """The words of a command line, with ``--methods FT ROME`` written as ``--methods FT,ROME``."""
    words: list[str] = []
    for word in argv:
        if len(words) > 1 and words[-2] == "--methods" and METHOD.fullmatch(word) and METHOD.search(words[-1]):
            words[-1] = f"{words[-1].rstrip(',')},{word}"
        else:
            words.append(word)
    return words


def execute(argv: list[str]) -> int:
    """Run a command line and return its code. Raises `KeyboardInterrupt` for Ctrl-C."""
    code = run_command([word for word in argv if word != "--debug"], "--debug" in argv)
    try:
        sys.stdout.flush()
    except OSError as error:  # a reader that has gone, as head does, is no news; a full disk is
        _drop_stdout()
        if code == 0 and not isinstance(error, BrokenPipeError):
            _say(_lost(error))
        return code or 1
    return code


def run_command(argv: list[str], debug: bool) -> int:
    try:
        return _called(argv, debug)
    except USAGE_ERROR as error:
        _say(_of_usage(error))
        return int(error.exit_code)
    except AnachronError as error:
        if debug:
            raise
        _say(f"error: {' '.join(str(error).split())}")
        return 1 if isinstance(error, BackendError) and argv[:1] != ["check"] else 2
    except BrokenPipeError:
        _drop_stdout()
        return 1
    except Exception as error:  # a bug, or an input nobody thought of: say so in one line, and how to see more
        if debug:
            raise
        store_error = of_polars(error)  # what a store answered may hold keys
        reason = " ".join(str(store_error or error).split())
        if isinstance(error, OSError) and error.filename == RESULTS:
            _drop_stdout()
            _say(_lost(error))
        elif store_error is None and (known := of_machine(error)) is not None:
            _say(f"error: {' '.join(known.split())}")
        else:
            _say(f"error: {type(store_error or error).__name__}: {reason} (unexpected; --debug shows where)")
        return 2 if argv[:1] == ["check"] else 1


def _lost(error: OSError) -> str:
    return f"error: the output is lost: {error.strerror or error}; send stdout somewhere else"


def _of_usage(error: Any) -> str:
    """What click found wrong with a command line, as our own errors are told; the help of a command without words."""
    if type(error).__name__ == "NoArgsIsHelpError":
        words = StringIO()
        error.show(words)
        return words.getvalue().rstrip("\n")
    said = " ".join(error.format_message().split()).rstrip(".")
    see = " See" if said.endswith("?") else "; see"
    hint = "" if error.ctx is None else f"{see} {error.ctx.command_path} --help"
    return f"error: {said[:1].lower()}{said[1:]}{hint}"


def _refuse_stores(argv: list[str]) -> None:
    """Raise `ConfigError` for a path on a store given to a command that would take it for a folder ``s3:``."""
    for word in argv:
        if (found := STORE.fullmatch(word)) and ON_STORES.isdisjoint((tuple(argv[:1]), tuple(argv[:2]))):
            raise ConfigError(
                f"{found[1]}: this command only takes local files; copy it to this machine and give that path"
            )


def _called(argv: list[str], debug: bool) -> int:
    _refuse_stores(argv)
    try:
        asked_for_help = not {"--help", "-h", HELP_ALL}.isdisjoint(argv)
        code = int(
            command_tree(asked_for_help)(args=with_commas(argv), prog_name="anachron", standalone_mode=False) or 0
        )
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not debug:  # a library that Ctrl-C met in its import may raise an error of its own
            if isinstance(cause, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            cause = cause.__cause__ or cause.__context__
        raise
    if code == INTERRUPTED:
        raise KeyboardInterrupt  # which typer answers by this code and no word
    return code


def _say(words: str) -> None:
    print(visible(words), file=sys.stderr)


def _drop_stdout() -> None:
    """Send what is still to be written nowhere: Python would complain of it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
