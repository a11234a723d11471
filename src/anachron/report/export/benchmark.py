"""A data set of the hub as a benchmark: choices of two years as rows, and the ``eval.yaml`` by which the hub runs them.

The format is that of the hub's documentation (Evaluation Results, "Eval.yaml specification") with what Inspect takes of
it (``inspect_ai/_eval/task/hf.py``): its own solvers and scorers alone. So a benchmark counts right answers, each once,
and computes no W, for which the strata are weighted; that is for ``anachron export inspect``.
"""

import json

import polars as pl

from anachron.probe.ask.questions import Questions
from anachron.probe.ask.sampling import Call
from anachron.probe.ask.sheets import ORDERS

EVAL, CHOICES, CONFIG = "eval.yaml", "choices/test-00000-of-00001.parquet", "choices"
CHOICE_SCHEMA = {"fact_id": pl.String, "prompt": pl.String, "year": pl.String, "other_year": pl.String}


def choices_table(questions: Questions) -> pl.DataFrame:
    """One row a question in which of two years an answer was right (`CHOICE_SCHEMA`): every drawn match in both orders.

    year: the correct one, as the prompt words it.
    """
    rows = []
    for fact in questions.facts:
        for match in (match for drawn in fact.matches.drawn for match in drawn):
            for correct_first in ORDERS:
                call = Call(match, correct_first)
                years = questions.years(call)
                right, wrong = years if correct_first else years[::-1]
                rows.append((fact.fact_id, questions.choice_prompt(fact, call), right, wrong))
    return pl.DataFrame(rows, schema=CHOICE_SCHEMA, orient="row")


def eval_yaml(title: str, about: str) -> str:
    """Content of ``eval.yaml``. Texts are quoted as JSON, which is YAML too."""
    return f"""\
name: {json.dumps(title)}
description: {json.dumps(about)}
evaluation_framework: inspect-ai

tasks:
  - id: {CONFIG}
    config: {CONFIG}
    split: test
    field_spec:
      input: prompt
      target: year
    solvers:
      - name: generate
    scorers:
      - name: exact
"""
