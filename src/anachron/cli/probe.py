"""Commands that run a model: ``score``, ``probe``."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from anachron.cli.measure import open_study
from anachron.cli.models import Place, opened
from anachron.cli.options import (
    Boundaries,
    DatasetRevision,
    Device,
    DeviceMap,
    Dtype,
    FormatOption,
    JsonFlag,
    PrefixOption,
    Ray,
    Resamples,
    Revision,
    Split,
    Tokenizer,
    Trust,
)
from anachron.cli.output import print_json, progress_bar, say, stdout, warn

Template = Annotated[Path | None, typer.Option(help="Jinja file used as chat template.")]
Backend = Annotated[str, typer.Option(help="What computes: transformers, or openai for a server (--base-url).")]
BaseUrl = Annotated[
    str | None, typer.Option(help="Server with /completions, echo and logprobs, such as http://localhost:8000/v1.")
]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(help="Variable that holds the server's key; default: OPENAI_API_KEY for OpenAI, else none."),
]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Requests to the server under way at once; default: 8.")]
Replicas = Annotated[
    int | None,
    typer.Option(min=1, help="Replicas of the model, on Ray; default with --ray: as many as it has GPUs."),
]
GpusEach = Annotated[
    int, typer.Option("--gpus-per-replica", min=0, help="GPUs of each replica; with several, layers are spread.")
]
BatchTokens = Annotated[
    int | None, typer.Option(min=1, help="Most tokens in a batch; by default what suits the device.")
]
PrefixTree = Annotated[
    bool,
    typer.Option("--prefix-tree/--no-prefix-tree", help="Compute prefixes that texts share once; off: padded batches."),
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Only algorithms that give the same bits every time on one machine.")
]
AllOccurrences = Annotated[bool, typer.Option("--all-occurrences", help="As published: score every occurrence.")]
EditFile = Annotated[Path | None, typer.Option(help="An edit of this model (anachron edit --out), in force meanwhile.")]
InUserTurn = Annotated[bool, typer.Option("--answer-in-user-turn", help="As published: answer in the user's turn too.")]
NativeSoftmax = Annotated[bool, typer.Option("--native-softmax", help="As published: softmax in the model's dtype.")]


def register(app: typer.Typer) -> None:
    app.command()(score)
    app.command()(probe)


def score(
    model: Annotated[str, typer.Argument(help="A hub name, a folder, or demo.")],
    input: Annotated[Path, typer.Option(help="JSON lines with prompt, answer and, if wanted, separator.")],
    out: Annotated[Path, typer.Option(help="Table of row, logp, n_tokens: .parquet, .csv or .jsonl.")],
    format: FormatOption = "raw",
    prefix: PrefixOption = "none",
    backend: Backend = "transformers",
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = None,
    concurrency: Concurrency = None,
    dtype: Dtype = "auto",
    device: Device = None,
    device_map: DeviceMap = None,
    revision: Revision = None,
    tokenizer: Tokenizer = None,
    chat_template: Template = None,
    trust_remote_code: Trust = False,
    edit: EditFile = None,
    batch_tokens: BatchTokens = None,
    prefix_tree: PrefixTree = True,
    all_occurrences: AllOccurrences = False,
    answer_in_user_turn: InUserTurn = False,
    native_softmax: NativeSoftmax = False,
    json_: JsonFlag = False,
) -> None:
    """log Pr(answer | prompt) for any pairs, in input order.

    Example: anachron score gpt2 --input pairs.jsonl --out scores.parquet
    """
    from anachron.errors import ConfigError
    from anachron.io import check_ending
    from anachron.lm.formats import Format
    from anachron.probe.pairs import read_pairs, score_pairs
    from anachron.probe.run import prefix_text

    place = Place(backend, base_url, api_key_env, concurrency)
    check_ending(out)
    if out.resolve() == input.resolve():
        raise ConfigError(f"--out {out} is the input itself; choose another file for the scores")
    pairs = read_pairs(input)
    style = Format(
        format,  # type: ignore[arg-type]
        prefix_text(prefix)[1],
        all_occurrences=all_occurrences,
        answer_in_user_turn=answer_in_user_turn,
    )
    with opened(
        model, place, chat_template, edit, dtype=dtype, device=device, device_map=device_map, revision=revision,
        tokenizer=tokenizer, trust_remote_code=trust_remote_code,
    ) as lm:  # fmt: skip
        table = score_pairs(
            lm, pairs, source=input, out=out, style=style, batch_tokens=batch_tokens, prefix_tree=prefix_tree,
            native_softmax=native_softmax,
        )  # fmt: skip
        used = lm.dtype
    say(f"{table.height:,} pairs scored by {model} ({used}), written to {out}")
    if json_:
        print_json({"pairs": table.height, "model": model, "dtype": used, "scores": str(out)})


def probe(
    model: Annotated[list[str], typer.Argument(help="Hub names, folders, or demo.")],
    dataset: Annotated[str, typer.Option(help="A file, a hub name or a bundled name.")],
    out: Annotated[Path, typer.Option(help="Run folder; with several models, a folder of run folders.")],
    format: FormatOption = "raw",
    prefix: PrefixOption = "none",
    backend: Backend = "transformers",
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = None,
    concurrency: Concurrency = None,
    workers: Replicas = None,
    ray: Ray = None,
    gpus_per_replica: GpusEach = 0,
    label: Annotated[str | None, typer.Option(help="What the model is called in tables (one model only).")] = None,
    dtype: Dtype = "auto",
    device: Device = None,
    device_map: DeviceMap = None,
    revision: Revision = None,
    tokenizer: Tokenizer = None,
    chat_template: Template = None,
    trust_remote_code: Trust = False,
    edit: EditFile = None,
    batch_tokens: BatchTokens = None,
    prefix_tree: PrefixTree = True,
    deterministic: Deterministic = False,
    boundaries: Boundaries = None,
    split: Split = None,
    dataset_revision: DatasetRevision = None,
    all_occurrences: AllOccurrences = False,
    answer_in_user_turn: InUserTurn = False,
    native_softmax: NativeSoftmax = False,
    seed: Annotated[int, typer.Option(help="Of the noise measurement and the bootstrap.")] = 0,
    resamples: Resamples = 1000,
    json_: JsonFlag = False,
) -> None:
    """Score a data set of dated statements with one or more models, then print win rate and robustness.

    The run folder survives being killed: the same command goes on where it stopped.

    Example: anachron probe gpt2 --dataset Orange/TimeStress --out runs/gpt2
    """
    from anachron.data.loaders import load_dataset
    from anachron.errors import ConfigError
    from anachron.jobs import Callbacks
    from anachron.lm.formats import Format
    from anachron.lm.loading import check_dtype
    from anachron.probe.run import ProbeSettings, prefix_text, run_probe
    from anachron.probe.runs import distinct_names, fingerprints
    from anachron.report.outputs import write_tables
    from anachron.report.tables import summary_table

    place = Place(backend, base_url, api_key_env, concurrency, workers, ray, gpus_per_replica, deterministic)
    if label is not None and len(model) > 1:
        raise ConfigError("--label names one model; leave it out when probing several")
    if edit is not None and len(model) > 1:
        raise ConfigError(f"--edit {edit}: an edit belongs to one model; probe the others without it")
    check_dtype(dtype)  # what is wrong in the command is said before anything is loaded
    Format(format, prefix_text(prefix)[1], answer_in_user_turn=answer_in_user_turn)  # type: ignore[arg-type]
    folders = _folders(out, model)
    data = load_dataset(dataset, boundaries=boundaries, split=split, revision=dataset_revision)  # type: ignore[arg-type]
    if edit is not None and label is None:
        label = f"{Path(model[0]).resolve().name} + {edit.stem}"
    labels = [label] if len(model) == 1 else distinct_names(model)
    for name, own_label, folder in zip(model, labels, folders, strict=True):
        settings = ProbeSettings(
            format=format, prefix=prefix, label=own_label, batch_tokens=batch_tokens, prefix_tree=prefix_tree,
            all_occurrences=all_occurrences, answer_in_user_turn=answer_in_user_turn, native_softmax=native_softmax,
            deterministic=deterministic, seed=seed,
        )  # fmt: skip
        with opened(
            name, place, chat_template, edit, dtype=dtype, device=device, device_map=device_map, revision=revision,
            tokenizer=tokenizer, trust_remote_code=trust_remote_code,
        ) as lm, progress_bar(name) as progress:  # fmt: skip
            result = run_probe(lm, data, folder, settings, callbacks=Callbacks(warn, progress))
        say(_done(name, result.record, folder))
        del lm
    study, parameters, sources = open_study(folders, models=None, common_facts=False, resamples=resamples, seed=seed)
    tables = write_tables(study, out / "metrics", parameters=parameters, inputs=fingerprints(sources))
    if json_:
        print_json({"summary": tables.summary.to_dicts(), "notes": tables.notes, "runs": [str(f) for f in folders]})
    else:
        stdout().print(summary_table(tables.summary))
        for note in tables.notes:
            say(note)
        say(f"run folder: {out}; tables: {out / 'metrics'}")


def _folders(out: Path, models: list[str]) -> list[Path]:
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
