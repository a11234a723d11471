"""Entry point of ``anachron``: its commands, and how errors become one line and an exit code.

0 done, 1 the work failed, 2 wrong use, 130 interrupted. Results go to stdout or ``--out``, words for people
to stderr. ``--debug``, anywhere on the line, shows the traceback of an error.
"""

import os
import sys
from typing import Any

import typer

from anachron.cli import (
    build,
    covariance,
    data,
    demo,
    evaluate,
    export,
    measure,
    probe,
    report,
    timestress,
    train_mend,
    updates,
    verbalize,
    wikidata,
    wikidata_explain,
    wikidata_fetch,
)
from anachron.errors import AnachronError, ConfigError

USAGE_ERROR: Any = typer.BadParameter.__base__  # click's UsageError, wherever this version of typer keeps it

app = typer.Typer(
    help="Measures and repairs what language models believe about when facts hold.",
    epilog="An error is one line; add --debug anywhere for its traceback. First steps: anachron demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version and stop.", is_eager=True),
) -> None:
    if version:
        import anachron

        print(anachron.__version__)
        raise typer.Exit


for module in (demo, data, build, verbalize, updates, probe, measure, report, covariance, train_mend, evaluate, export):
    module.register(app)
timestress.register(build.builds)
updates.register_builds(build.builds)

wikidata_app = typer.Typer(
    help="Fetch Wikidata dumps, read them into snapshots, and see what becomes of an entity.\n\n"
    "Example: anachron wikidata ingest latest-all.json.bz2 --date 2021-01-04 --out snapshot",
    no_args_is_help=True,
    add_completion=False,
)
app.add_typer(wikidata_app, name="wikidata")
for module in (wikidata_fetch, wikidata, wikidata_explain):
    module.register(wikidata_app)


def run(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in argv
    argv = [word for word in argv if word != "--debug"]
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    sys.exit(_code(argv, debug))


def _code(argv: list[str], debug: bool) -> int:
    try:
        return int(app(args=argv, prog_name="anachron", standalone_mode=False) or 0)
    except USAGE_ERROR as error:
        error.show()
        return int(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted; what is finished is kept, and the same command goes on from there", file=sys.stderr)
        return 130
    except AnachronError as error:
        if debug:
            raise
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # a bug, or an input nobody thought of: say so in one line, and how to see more
        if debug:
            raise
        reason = " ".join(str(error).split())
        print(f"error: {type(error).__name__}: {reason} (unexpected; --debug shows where)", file=sys.stderr)
        return 1


if __name__ == "__main__":
    run()
