"""A Python package with an Inspect task that asks about a data set's facts and reads the answers as a run does."""

import json
from importlib.metadata import version
from importlib.resources import files
from keyword import iskeyword
from pathlib import Path

from anachron.core.dates import Date
from anachron.core.errors import ConfigError
from anachron.data.dataset import Dataset
from anachron.io.files import Json, write_bytes
from anachron.probe.ask.questions import Questions
from anachron.probe.ask.sheets import write_sheet
from anachron.probe.questions import questions_of
from anachron.report.export.folder import close_folder, open_folder, short_name
from anachron.report.export.lm_eval import task_name

COMMAND = "export inspect"
TASK, MODULE, SAMPLES = "dated_facts", "task.py", "samples.jsonl"
LEAST_INSPECT = "0.3.285"  # the one that this was tried with


def samples(questions: Questions) -> list[Json]:
    """Inspect's samples, one a fact: its undated question, its object, and its sheet (`anachron.probe.ask.sheets`) as
    metadata."""
    return [
        {
            "id": fact.fact_id,
            "input": fact.question,
            "target": fact.object,
            "metadata": write_sheet(questions, fact),
        }
        for fact in questions.facts
    ]


def export_inspect(data: Dataset, out: Path, *, name: str | None = None, language: str | Path | None = None) -> Json:
    """Write the questions that a probe by answers asks as a package for Inspect, which may be installed or run as it
    is: ``NAME/task.py`` with the task ``dated_facts``, ``NAME/samples.jsonl``, ``pyproject.toml``, README and manifest.

    name: of the package, by default ``anachron_`` and the data set's.

    Returns the manifest. Raises `ConfigError` for a name that Python cannot import, and for a folder that holds
    something else, and `DataError` where no fact can be asked.
    """
    questions, as_of = questions_of(data, None, language)
    package = task_name(data).replace(".", "_").replace("-", "_") if name is None else name
    if not (package.isidentifier() and package.isascii() and package == package.lower()) or iskeyword(package):
        raise ConfigError(
            f"name {package!r}: a package name has lower-case letters, digits and _ only and is no word of Python's; "
            "write, for instance, anachron_mini"
        )
    open_folder(out, COMMAND)
    for stale in out.glob(f"*/{SAMPLES}"):  # of an earlier export under another name
        for file in (SAMPLES, MODULE, "__init__.py"):
            (stale.parent / file).unlink(missing_ok=True)
    rows = samples(questions)
    content = {
        f"{package}/{SAMPLES}": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode(),
        f"{package}/{MODULE}": files("anachron.report.export").joinpath("inspect_task.py").read_bytes(),
        f"{package}/__init__.py": f"from {package}.task import {TASK} as {TASK}\n".encode(),
        "pyproject.toml": project_file(package).encode(),
        "README.md": _readme(package, data, questions, as_of).encode(),
    }
    for path, text in content.items():
        write_bytes(out / path, text)
    return close_folder(
        out, COMMAND, data, files=list(content),
        parameters={"package": package, "task": TASK, "as_of": str(as_of), "least_inspect": LEAST_INSPECT},
        counts={
            "facts": len(rows), "left_out": len(questions.left_out),
            "matches": sum(len(drawn) for fact in questions.facts for drawn in fact.matches.drawn),
            "open_questions": sum(len(fact.open) for fact in questions.facts),
        },
    )  # fmt: skip


def project_file(package: str) -> str:
    """The ``pyproject.toml`` of a package of this name."""
    ours = version("anachron")
    return f"""\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = {json.dumps(package)}
version = {json.dumps(ours)}
description = "When do facts hold? An Inspect task made by Anachron"
requires-python = ">=3.11"
dependencies = ["inspect_ai>={LEAST_INSPECT}"]  # and Anachron {ours}, which no registry has

[project.entry-points.inspect_ai]
{package} = {json.dumps(package)}

[tool.setuptools]
packages = [{json.dumps(package)}]

[tool.setuptools.package-data]
{package} = [{json.dumps(SAMPLES)}]
"""


def _readme(package: str, dataset: Dataset, questions: Questions, as_of: Date) -> str:
    return f"""\
# {package}

Questions about when {len(questions.facts):,} facts held, for [Inspect](https://inspect.aisi.org.uk) {LEAST_INSPECT} or
later, made by Anachron from the data set {short_name(dataset)} (facts as of {as_of}). Any model that Inspect can reach
will do, because no log-probabilities are needed:

```bash
inspect eval {package}/task.py --model MODEL
inspect eval {package}/task.py --model MODEL -T rounds=2 -T open_questions=false   # fewer questions
pip install . && inspect eval {package}/{TASK} --model MODEL                       # from anywhere
```

Anachron {version("anachron")} must be installed where Inspect runs, from its repository: it reads the answers and
computes the numbers. It loads no model there.

Each sample is a fact. The model is asked open questions with a year, and in which of two years the answer was right: a
correct year against an incorrect one, in both orders, each question in its own conversation. Matches are drawn in up to
three strata by how far the incorrect year lies from the fact's period, and `rounds` of them (5 by default) are read in
each stratum; one that cannot be read is replaced by a spare one.

| metric | what |
| --- | --- |
| `win_rate` | W by choice: the share of a fact's matches that are won, mean over facts, with its 95 % interval |
| `won_all` | share of the facts that win every match that was read, in both orders |
| `position_bias` | how much more often than half of the time the year named first is chosen |
| `open_right` | of the open answers with a name, the share that names who held in that year |
| `facts_with_choices` | facts with at least one match that could be read |

A number that is not known is left out. The same answers give the same numbers in
`anachron probe MODEL --backend chat --width 0 --ways choice,open`. `anachron probe` can stop early, once the interval
of W is narrow enough; a task cannot, because its samples do not know about each other.
"""
