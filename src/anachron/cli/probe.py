"""Commands that run a model: ``score``, ``probe``."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.asking import AskOptions, probe_asked
from anachron.cli.groups import grouped
from anachron.cli.options import (
    ApiKeyEnv,
    DatasetOptions,
    FormatOption,
    JsonFlag,
    Language,
    ModelArgument,
    ModelLabel,
    ModelOptions,
    PrefixOption,
    RayAddress,
    Resamples,
    SameAs,
    TemplateOption,
)
from anachron.cli.output import on_screen, print_json, say, stdout, warn
from anachron.cli.outputs import FILE, RUN
from anachron.plots.words import counted

if TYPE_CHECKING:
    from anachron.data.loaders import Dataset
    from anachron.lm.formats import Format
    from anachron.pipelines.scorers import Backend
    from anachron.report.outputs import Written

LOADED = ("transformers", "llama.cpp", "generate")  # backends that load the model here, so that it can be looked for


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How texts are put to a model and scored."""

    format: FormatOption = "raw"
    prefix: PrefixOption = "none"
    batch_tokens: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of tokens in a batch. Default: chosen for the device.")
    ] = None
    prefix_tree: Annotated[
        bool,
        typer.Option(
            help="Compute shared beginnings of texts only once, if the model supports it; otherwise use padded batches."
        ),
    ] = True
    all_occurrences: Annotated[
        bool, typer.Option("--all-occurrences", help="As published: score every occurrence of the answer.")
    ] = False
    answer_in_user_turn: Annotated[
        bool, typer.Option("--answer-in-user-turn", help="As published: put the answer in the user's turn too.")
    ] = False
    native_softmax: Annotated[
        bool, typer.Option("--native-softmax", help="As published: compute the softmax in the model's dtype.")
    ] = False

    def style(self) -> "Format":
        """The format of the texts. Raises `ConfigError` for options that do not go together."""
        from anachron.lm.formats import Format
        from anachron.probe.prefixes import prefix_text

        return Format(
            self.format,  # type: ignore[arg-type]
            prefix_text(self.prefix)[1],
            all_occurrences=self.all_occurrences,
            answer_in_user_turn=self.answer_in_user_turn,
        )

    def check(self, loading: ModelOptions) -> None:
        """Raise `ConfigError` for what is wrong in the options of texts and models, before anything is loaded."""
        from anachron.lm.choices import check_dtype

        check_dtype(loading.dtype)
        self.style()


@dataclass(frozen=True, kw_only=True)
class ScorerOptions:
    """Where a model computes, by which chat template and under which edit."""

    backend: Annotated[
        str,
        typer.Option(
            help="transformers, llama.cpp (GGUF), or openai for a server (--base-url); check, probe and horizon "
            "also accept chat and generate."
        ),
    ] = "transformers"
    base_url: Annotated[
        str | None,
        typer.Option(
            help="Base URL of the server, such as http://localhost:8000/v1; openai needs /completions with echo "
            "and logprobs."
        ),
    ] = None
    api_key_env: ApiKeyEnv = None
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Number of concurrent requests to the server. Default: 8.")
    ] = None
    same_as: SameAs = None
    chat_template: TemplateOption = None
    edit: Annotated[Path | None, typer.Option(help="Apply an edit of this model, written by anachron edit --out.")] = (
        None
    )

    def place(self, **replicated: Any) -> "Backend":
        from anachron.pipelines.scorers import Backend

        return Backend(
            backend=self.backend, base_url=self.base_url, api_key_env=self.api_key_env, concurrency=self.concurrency,
            same_as=self.same_as, **replicated,
        )  # fmt: skip

    def open(self, name: str, backend: "Backend", loading: ModelOptions, *, unopened: bool = True) -> Any:
        """The model as a scorer, in a block. unopened: open it when something must be computed."""
        from anachron.pipelines.scorers import open_scorer

        return open_scorer(
            name,
            backend,
            chat_template=self.chat_template,
            edit=self.edit,
            warn=warn,
            notice=say,
            unopened=unopened,
            **asdict(loading),
        )


@dataclass(frozen=True, kw_only=True)
class ReplicaOptions:
    """On how many replicas a model computes, and how repeatably."""

    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of replicas of the model, on Ray. Default with --ray: as many as the cluster has GPUs."
        ),
    ] = None
    ray: RayAddress = None
    gpus_per_replica: Annotated[
        int,
        typer.Option(
            "--gpus-per-replica",
            min=0,
            help="Number of GPUs per replica; with several, the layers are spread over them.",
        ),
    ] = 0
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="Use only algorithms that give bit-identical results every time on the same machine.",
        ),
    ] = False


def register(app: typer.Typer) -> None:
    app.command()(grouped(score))
    app.command()(grouped(probe))


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
    from anachron.io import check_ending
    from anachron.probe.pairs import read_pairs, score_pairs

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
    out: Annotated[Path, typer.Option(help="Run folder; with several models, a folder of run folders."), RUN],
    texts: TextOptions,
    scorer: ScorerOptions,
    replicas: ReplicaOptions,
    label: ModelLabel = None,
    loading: ModelOptions,
    selected: DatasetOptions,
    language: Language = None,
    seed: Annotated[int, typer.Option(help="Seed for the noise measurement and the bootstrap.")] = 0,
    resamples: Resamples = 1000,
    asking: AskOptions,
    json_: JsonFlag = False,
) -> None:
    """Score a data set of dated statements with one or more models, then print win rate and robustness.

    If interrupted or killed, repeat the same command to resume.

    Example: anachron probe gpt2 --dataset Orange/TimeStress --out runs/gpt2
    """
    from anachron.errors import ConfigError
    from anachron.facts.own import is_fact_file
    from anachron.probe.runs import recorded_as_of

    answers = asking.needed(scorer.backend, texts, replicas)
    backend = scorer.place(**asdict(replicas)) if answers is None else None
    model = [one for names in model for one in ([names] if Path(names).exists() else names.split(",")) if one]
    if label is not None and len(model) > 1:
        raise ConfigError("--label names one model; leave it out when probing several")
    if scorer.edit is not None and len(model) > 1:
        raise ConfigError(f"--edit {scorer.edit}: an edit belongs to one model; probe the others without it")
    texts.check(loading)
    folders = run_folders(out, model)
    as_of = recorded_as_of(folders[0]) if is_fact_file(dataset) else None
    data = selected.load(dataset, as_of=as_of, language=language)
    if len(model) > 1 and scorer.backend in LOADED and replicas.ray is None:
        _look_for(model, loading)
    named = zip(model, _labels(model, label, scorer.edit), folders, strict=True)
    if answers is not None:
        for name, model_label, folder in named:
            probe_asked(name, data, folder, answers, asking, scorer, loading, model_label, language, json_)
        return
    from anachron.pipelines.studies import write_metrics  # these load torch, which takes longer than reading facts
    from anachron.probe.run import ProbeSettings, run_probe

    assert backend is not None
    for name, model_label, folder in named:
        settings = ProbeSettings(label=model_label, deterministic=replicas.deterministic, seed=seed, **asdict(texts))
        with scorer.open(name, backend, loading) as lm, on_screen().bar(name) as told:
            result = run_probe(lm, data, folder, settings, callbacks=told)
        say(_done(name, result.record, folder))
        del lm
    _tell(write_metrics(folders, out / "metrics", warn=warn, resamples=resamples, seed=seed), data, folders, out, json_)


def _look_for(models: list[str], loading: ModelOptions) -> None:
    """Raise `ModelError` where one of several is not there, before the first is scored, which may take hours."""
    from anachron.lm.loading import check_model

    for name in models:
        check_model(name, revision=loading.revision, trust_remote_code=loading.trust_remote_code)


def _tell(tables: "Written", data: "Dataset", folders: list[Path], out: Path, as_json: bool) -> None:
    """Print the summary of scored runs."""
    from anachron.report.tables import summary_table

    if as_json:
        left_out = {} if data.left_out is None else {"left_out": data.left_out.to_dicts()}
        runs = [str(folder) for folder in folders]
        print_json({"summary": tables.summary.to_dicts(), "notes": tables.notes, "runs": runs, **left_out})
        return
    stdout().print(summary_table(tables.summary))
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


def run_folders(out: Path, models: list[str]) -> list[Path]:
    """The run folder of each model: the one given, or for several one below it for each."""
    from anachron.errors import ConfigError

    if len(models) == 1:
        return [out]
    if (out / "run.json").exists():
        raise ConfigError(f"{out} is itself a run folder; choose another --out for several models")
    names = [re.sub(r"[^\w.-]+", "_", name.strip("/")) for name in models]
    if any(name.strip(".") == "" for name in names):
        raise ConfigError(f"the models {', '.join(models)} cannot all name a folder; give paths instead of . or ..")
    if len(set(names)) != len(names):
        raise ConfigError(f"the models {', '.join(models)} are not all different")
    return [out / name for name in names]


def _done(name: str, record: dict[str, Any], folder: Path) -> str:
    rate = record["sessions"][-1].get("statements_per_second")
    speed = f" at {rate:,.0f} statements/s" if rate else ""
    return (
        f"{name}: {record['statements']:,} statements scored{speed}; {record['tokens_planned']:,} tokens computed, "
        f"{record['tokens_ideal']:,} are distinct; in {folder}"
    )
