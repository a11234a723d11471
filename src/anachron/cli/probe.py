"""Commands that run a model: ``score``, ``probe``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.analysis.plots.words import counted
from anachron.cli.asking import AskOptions, Models
from anachron.cli.options import (
    DatasetOptions,
    JsonFlag,
    Language,
    ModelArgument,
    ModelLabel,
    ModelOptions,
    Resamples,
    Reuse,
)
from anachron.cli.output import print_json, run_folders, say, stdout, warn
from anachron.cli.outputs import DEFAULT_RUN, FILE, NAMED_RUN
from anachron.cli.scorer_options import ReplicaOptions, ScorerOptions, TextOptions
from anachron.core.errors import ConfigError

if TYPE_CHECKING:
    from anachron.data.dataset import Dataset
    from anachron.probe.ask.asking import AskSettings
    from anachron.probe.ask.run import AnswerRun
    from anachron.probe.by_answers import Costs
    from anachron.report.outputs import Written


ProbeDecoys = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Ask about this many other objects of the same kind too, under the dates of each fact; a model that only "
        "answers about a sample of them.",
    ),
]
Wordings = Annotated[
    bool,
    typer.Option("--wordings", help="Ask about each fact in all four of its questions too: table wordings."),
]


def score(
    *,
    model: ModelArgument,
    input: Annotated[
        Path, typer.Option(help="Pairs with prompt, answer and optionally separator: .jsonl, .json, .csv, .parquet.")
    ],
    out: Annotated[
        Path, typer.Option(help="Table of row, prompt, answer, logp, n_tokens: .parquet, .csv or .jsonl."), FILE
    ],
    texts: TextOptions,
    scorer: ScorerOptions,
    loading: ModelOptions,
    json_: JsonFlag = False,
) -> None:
    """Compute log Pr(answer | prompt) for any pairs, in input order.

    Example: anachron score gpt2 --input pairs.jsonl --out scores.parquet
    """
    from anachron.io.tables import check_ending
    from anachron.probe.backends import refuse_answering
    from anachron.probe.pairs import read_pairs, score_pairs

    refuse_answering(scorer.backend)
    backend = scorer.place()
    check_ending(out)
    pairs, style = read_pairs(input), texts.style()
    with scorer.open(model, backend, loading, unopened=False) as lm:
        table = score_pairs(
            lm, pairs, input, out, style, batch_tokens=texts.batch_tokens, prefix_tree=texts.prefix_tree,
            native_softmax=texts.native_softmax,
        )  # fmt: skip
        used = lm.dtype
    say(f"{counted(table.height, 'pair')} scored by {model} ({used}), written to {out}")
    if json_:
        print_json({"pairs": table.height, "model": model, "dtype": used, "scores": str(out)})


def probe(
    *,
    model: Annotated[
        list[str], typer.Argument(help="Hub names, folders, or demo; separate several with spaces or commas.")
    ],
    dataset: Annotated[str, typer.Option(help="Dated statements: a file, a hub name or a bundled name.")],
    out: Annotated[
        Path, typer.Option(help="Run folder; with several models, a folder of run folders."), NAMED_RUN
    ] = DEFAULT_RUN,
    texts: TextOptions,
    scorer: ScorerOptions,
    replicas: ReplicaOptions,
    label: ModelLabel = None,
    loading: ModelOptions,
    selected: DatasetOptions,
    decoys: ProbeDecoys = None,
    wordings: Wordings = False,
    language: Language = None,
    reuse: Reuse = None,
    seed: Annotated[int, typer.Option(help="Seed for the noise measurement and the bootstrap.")] = 0,
    resamples: Resamples = 1000,
    asking: AskOptions,
    json_: JsonFlag = False,
) -> None:
    """Score a data set of dated statements with one or more models, then print win rate and robustness.

    If interrupted or killed, repeat the same command to resume.

    Example: anachron probe gpt2 --dataset Orange/TimeStress --out runs/gpt2
    """
    from anachron.data.own.files import is_fact_file
    from anachron.probe.backends import backend_named
    from anachron.probe.runs import recorded_as_of

    models = Models(asking, texts, scorer, replicas, loading, language=language, seed=seed)
    model = [one for names in model for one in ([names] if Path(names).exists() else names.split(",")) if one]
    if label is not None and len(model) > 1:
        raise ConfigError("--label names one model; leave it out when probing several")
    if scorer.edit is not None and len(model) > 1:
        raise ConfigError(f"--edit {scorer.edit}: an edit belongs to one model; probe the others without it")
    folders = run_folders(out, model)
    as_of = recorded_as_of(folders[0]) if is_fact_file(dataset, selected.reading()) else None
    data = selected.load(dataset, as_of=as_of, language=language)
    data = _with_more(models, data, decoys, wordings, seed)
    if len(model) > 1 and backend_named(scorer.backend).loads and replicas.ray is None:
        _look_for(model, loading)

    earlier = [None] * len(model) if reuse is None else run_folders(reuse, model)
    for name, model_label, folder, one in zip(model, _labels(model, label, scorer.edit), folders, earlier, strict=True):
        _probe_one(models, name, data, folder, model_label, one, json_)
    if models.answers is not None:
        return
    from anachron.report.studies import write_metrics  # it draws, which asking does without

    _tell(write_metrics(folders, out / "metrics", warn=warn, resamples=resamples, seed=seed), data, folders, out, json_)


def _with_more(models: Models, data: "Dataset", decoys: int | None, wordings: bool, seed: int) -> "Dataset":
    """The data set with what else is asked about its facts."""
    from anachron.data.decoys import with_decoys
    from anachron.data.wordings import with_wordings

    if wordings and models.answers is not None:
        raise ConfigError("--wordings is for models that are scored; one that only answers is asked in one wording")
    if decoys is not None:
        data = with_decoys(data, decoys, seed=seed)
    return with_wordings(data) if wordings else data


def _probe_one(
    models: Models, name: str, data: "Dataset", folder: Path, label: str | None, reuse: Path | None, as_json: bool
) -> None:
    """Ask one model, and say what came of it. On return the model is gone, before the next one is loaded."""
    from anachron.probe.ask.run import AnswerRun

    def cost(settings: "AskSettings") -> "Costs":
        from anachron.probe.by_answers import cost_of_data  # scores do without

        return cost_of_data(data, settings, models.language)

    if models.only_cost(cost):
        return
    with models.opened(name, folder, label, reuse) as (who, bar):
        result = who.probe(data, folder, bar)
    if isinstance(result, AnswerRun):
        _tell_answers(result, as_json)
    else:
        say(_done(name, result.record, folder))


def _tell_answers(run: "AnswerRun", as_json: bool) -> None:
    """Print what came of one model's answers."""
    from anachron.report.terminal.answers import answer_run_lines

    if as_json:
        print_json(run.summary | {"run": str(run.folder)})
        return
    stdout().print(f"{run.label}, {run.facts.height:,} facts", markup=False)
    for line in answer_run_lines(run.summary):
        stdout().print(line, markup=False)
    say(f"run folder: {run.folder}")


def _look_for(models: list[str], loading: ModelOptions) -> None:
    """Raise `ModelError` where one of several is not there, before the first is scored, which may take hours."""
    from anachron.lm.loading import check_model

    for name in models:
        check_model(name, revision=loading.revision, trust_remote_code=loading.trust_remote_code)


def _tell(tables: "Written", data: "Dataset", folders: list[Path], out: Path, as_json: bool) -> None:
    """Print the summary of scored runs."""
    from anachron.report.terminal.tables import decoy_and_crossed_lines, summary_table

    if as_json:
        left_out = {} if data.left_out is None else {"left_out": data.left_out.to_dicts()}
        runs = [str(folder) for folder in folders]
        found = {"summary": tables.summary.to_dicts(), "notes": tables.notes, "runs": runs}
        found |= {n: tables.tables[n].to_dicts() if n in tables.tables else [] for n in ("crossed", "decoys")}
        print_json({**found, **left_out})
        return
    stdout().print(summary_table(tables.summary))
    for line in decoy_and_crossed_lines(tables.tables):
        stdout().print(line, markup=False, soft_wrap=True)
    for note in tables.notes:
        say(note)
    say(f"run folder: {out}; tables: {out / 'metrics'}")


def _labels(models: list[str], label: str | None, edit: Path | None) -> list[str | None]:
    """What each model is called in tables; None for the last part of its name."""
    from anachron.probe.runs import distinct_names

    if len(models) > 1:
        return list(distinct_names(models))
    if edit is not None and label is None:
        label = f"{Path(models[0]).resolve().name} + {edit.stem}"
    return [label]


def _done(name: str, record: dict[str, Any], folder: Path) -> str:
    rate = record["sessions"][-1].get("statements_per_second")
    speed = f" at {rate:,.0f} statements/s" if rate else ""
    return (
        f"{name}: {record['statements']:,} statements scored{speed}; {record['tokens_planned']:,} tokens computed, "
        f"{record['tokens_ideal']:,} are distinct{_share_of_decoys(record)}; in {folder}"
    )


def _share_of_decoys(record: dict[str, Any]) -> str:
    alone = record.get("tokens_ideal_without_decoys")
    return f", {record['tokens_ideal'] / alone:.2f} times those without decoys" if alone else ""
