"""A task folder for EleutherAI's lm-evaluation-harness that measures W and R there, without this package.

The harness asks a model for the log-probability of a continuation after a context, and tokenises the two together.
The context here is the prompt and the continuation one space and the answer, so that the text is the one that
``probe`` scores in raw format. The harness adds its ``target_delimiter`` to a continuation in some kinds of task and
not in others; it is empty here, and the space stands in the data.
"""

import json
import re
from importlib.resources import files
from pathlib import Path

import polars as pl

from anachron.core.errors import ConfigError
from anachron.data.columns import BESIDE_SCORES
from anachron.data.dataset import Dataset
from anachron.io.files import Json, write_bytes
from anachron.io.tables import READERS, write_table
from anachron.report.export.folder import close_folder, open_folder, short_name
from anachron.report.export.harness import METRICS, STATEMENTS

COMMAND = "export lm-eval"
LEAST_HARNESS = "0.4.9"  # the first with ``custom_dataset``, which finds the data beside the task wherever it lies
TASK_NAME = re.compile(r"[A-Za-z0-9_.-]+")
KEPT = (
    "fact_id", "granularity", "time", "status", "alpha", "start", "end", "subject_label", "relation_id",
    "relation_label", "object_label", "popularity", "other_objects", "prompt",
)  # fmt: skip


def task_name(dataset: Dataset) -> str:
    """What the task of a data set is called unless told otherwise: ``anachron_`` and the data set's name."""
    name = short_name(dataset).lower()
    stem = name.removesuffix(Path(name).suffix) if Path(name).suffix in READERS else name
    return "anachron_" + re.sub(r"[^a-z0-9]+", "_", stem).strip("_")


def documents(table: pl.DataFrame) -> pl.DataFrame:
    """The harness's documents, one a statement and in the same order.

    ``target`` is the continuation, and ``statements`` counts the fact's statements of that granularity, so that a
    fact which was scored in part is noticed.
    """
    return table.select(
        *KEPT,
        *(name for name in BESIDE_SCORES if name in table.columns),
        (" " + pl.col("answer")).alias("target"),
        pl.len().over("fact_id", "granularity").cast(pl.Int64).alias("statements"),
    )


def task_config(name: str, dataset: Dataset) -> str:
    """The task as YAML. Texts are quoted as JSON, which is YAML too."""
    lines = [
        f"task: {json.dumps(name)}",
        "custom_dataset: !function metrics.load",
        "test_split: test",
        "output_type: loglikelihood",
        "doc_to_text: prompt",
        "doc_to_target: target",
        'target_delimiter: ""',
        "num_fewshot: 0",
        "fewshot_config:",
        "  samples: []",
        "process_results: !function metrics.process_results",
        "metric_list:",
    ]
    for metric in METRICS:
        lines += [f"  - metric: {metric}", f"    aggregation: !function metrics.{metric}", "    higher_is_better: true"]
    lines += [
        "metadata:",
        "  version: 1.0",
        f"  dataset: {json.dumps(short_name(dataset))}",
        f"  fingerprint: {dataset.fingerprint()}",
        f"  boundaries: {dataset.boundaries}",
    ]
    return "\n".join(lines) + "\n"


def export_lm_eval(dataset: Dataset, out: Path, *, task: str | None = None) -> Json:
    """Write a self-contained task folder: ``TASK.yaml``, ``metrics.py``, ``statements.parquet``, README and manifest.

    task: the task's name in the harness; by default `task_name`.

    Returns the manifest. Raises `ConfigError` for a name that the harness would split or misread, and for a folder
    that holds something else.
    """
    name = task_name(dataset) if task is None else task
    if not TASK_NAME.fullmatch(name):
        raise ConfigError(f"task {name!r}: use letters, digits and _ . - only, for instance {task_name(dataset)}")
    open_folder(out, COMMAND)
    for stale in out.glob("*.yaml"):  # of an earlier export under another name: it would be a second task
        stale.unlink()
    table = documents(dataset.table)
    write_table(out / STATEMENTS, table)
    write_bytes(out / "metrics.py", files("anachron.report.export").joinpath("harness.py").read_bytes())
    write_bytes(out / f"{name}.yaml", task_config(name, dataset).encode())
    write_bytes(out / "README.md", _readme(name, dataset).encode())
    statuses = dict(table.group_by("status").len().sort("status").iter_rows())
    return close_folder(
        out, COMMAND, dataset, files=[STATEMENTS, "metrics.py", f"{name}.yaml", "README.md"],
        parameters={"task": name, "least_harness": LEAST_HARNESS},
        counts={"facts": dataset.facts, "statements": table.height, "statuses": statuses},
    )  # fmt: skip


def _readme(name: str, dataset: Dataset) -> str:
    return f"""\
# {name}

{dataset.table.height:,} dated statements about {dataset.facts:,} facts for
[lm-evaluation-harness](https://github.com/EleutherAI/lm-evaluation-harness) {LEAST_HARNESS} or later, made by Anachron
from the data set {short_name(dataset)} (boundaries `{dataset.boundaries}`). It needs neither Anachron nor a network:

```bash
lm_eval --model hf --model_args pretrained=MODEL --include_path . --tasks {name} --log_samples --output_path results
```

A match pits a correct date of a fact against an incorrect one of the same granularity; it is won when the answer is
likelier under the correct date, strictly.

| metric | what |
| --- | --- |
| `win_rate_year`, `_month`, `_day` | W: share of a fact's matches that are won, mean over facts |
| `robustness_year`, `_month`, `_day` | R: share of the facts that win all their matches |
| `win_rate_global` | mean of a fact's three W, mean over facts |
| `robustness_global` | share of the facts with R = 1 at all three granularities |
| `facts` | facts that have these at one or more granularities |

A metric without any fact is NaN. With `--limit`, a fact that is cut in two is left out. The harness prints no intervals
for metrics of this kind; compute them, far errors and transfer from the logged samples:

```bash
python metrics.py results/*/samples_{name}_*.jsonl --model MODEL --out scores.jsonl
anachron metrics scores.jsonl --out tables
```

## The same numbers as `anachron probe`

For a model in float32 the log-probabilities agree within rounding. They do not agree if

* the model computes in a narrower dtype: add `softmax_dtype=float32` to `--model_args`, because Anachron takes the
  softmax in float32;
* the tokenizer makes the space before the answer a token of its own (some do before digits or in other scripts): the
  harness counts it as part of the answer, Anachron does not;
* a token holds both the end of the question and the start of the answer (`anachron audit` counts these), or the
  tokenizer ends texts with a special token: the harness cuts after as many tokens as the question has alone;
* a statement is longer than the model's context: the harness cuts it from the left, Anachron refuses it.

The task is for raw text. With `--apply_chat_template` the harness puts the space after the opening of the assistant's
turn, which `anachron probe --format chat` does not: do not compare the two.
"""
