"""Commands that update facts in a model: ``edit``, and ``evaluate``, which also measures what they did."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from anachron.cli.edit_options import (
    Cache,
    Changes,
    CorpusOption,
    CorpusTokens,
    Limit,
    Mend,
    Model,
    NoCovariance,
    Regularise,
    Scenario,
    SiteNames,
    Updates,
    planned_of,
    wanted_of,
)
from anachron.cli.models import load
from anachron.cli.options import (
    DatasetRevision,
    Device,
    DeviceMap,
    Dtype,
    JsonFlag,
    Revision,
    Split,
    Tokenizer,
    Trust,
    split_commas,
)
from anachron.cli.output import print_json, progress_bar, say, stdout, warn


def register(app: typer.Typer) -> None:
    app.command()(edit)
    app.command()(evaluate)


def edit(
    model: Model,
    updates: Updates,
    method: Annotated[
        str,
        typer.Option(
            help="FT, FT+L, MEND, ROME, MEMIT, AlphaEdit, EMMET, LoRA, PROMPT or an installed one; 'ROME dated' says a "
            "date."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File for the edit: .safetensors.")],
    save_model: Annotated[
        Path | None, typer.Option(help="Also write the edited model, as a new Hugging Face folder.")
    ] = None,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out updates that cannot be asked for.")] = False,
    scenario: Scenario = "ReplaceObject",
    limit: Limit = None,
    split: Split = None,
    dataset_revision: DatasetRevision = None,
    corpus: CorpusOption = None,
    no_covariance: NoCovariance = False,
    corpus_tokens: CorpusTokens = None,
    regularise: Regularise = None,
    cache: Cache = None,
    mend: Mend = None,
    set_: Changes = None,
    site: SiteNames = None,
    dtype: Dtype = "auto",
    device: Device = None,
    device_map: DeviceMap = None,
    revision: Revision = None,
    tokenizer: Tokenizer = None,
    trust_remote_code: Trust = False,
    json_: JsonFlag = False,
) -> None:
    """Make updates true in a model, all in one edit, and save the edit as a small file.

    Example: anachron edit demo --updates mini-updates --method MEMIT --out memit.safetensors
    """
    from anachron.data.cases import load_cases
    from anachron.edit.make import make_edit
    from anachron.edit.methods import check_scenarios, method_named
    from anachron.edit.plan import parse_method
    from anachron.edit.storage import describe, save_edit, save_edited_model
    from anachron.errors import ConfigError, DataError
    from anachron.evaluate.asking import askable

    wanted = wanted_of((method,), set_, site, corpus, no_covariance, corpus_tokens, regularise, cache, mend)
    if out.suffix != ".safetensors":
        raise ConfigError(f"--out {out}: an edit is a .safetensors file")
    name, dated_requests = parse_method(method)
    own = method_named(name)
    if save_model is not None and not own.changes_weights:
        raise ConfigError(f"--save-model: {own.name} changes no weights, so there is no edited model to save")
    if save_model is not None and save_model.exists():
        raise ConfigError(f"--save-model {save_model} is there already; choose another folder")
    scenarios = split_commas(scenario)
    cases = load_cases(updates, split=split, revision=dataset_revision, scenario=scenarios, limit=limit)
    check_scenarios([name], {case.scenario for case in cases.cases})
    asked, failures = askable(cases.cases, name, dated_requests=dated_requests)
    if failures and not skip:
        raise DataError(
            f"{len(failures)} of {len(cases.cases)} updates cannot be made, for instance: {failures[0].reason}; mend "
            "them, or leave them out with --skip"
        )
    if failures:
        warn(f"{len(failures)} of {len(cases.cases)} updates are left out, for instance: {failures[0].reason}")
    if not asked:
        raise DataError(f"{updates}: none of its {len(cases.cases)} updates can be made")
    lm = load(
        model, dtype=dtype, device=device, device_map=device_map, revision=revision, tokenizer=tokenizer,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    (planned,) = planned_of(lm, wanted)
    if not json_:
        say(f"{planned.method}: making {_updates(len(asked))}; settings: {planned.source}")
    requests = [request for _, own in asked for request in own]
    made = make_edit(lm, planned.method, requests, planned.settings, planned.resources, planned.sites)
    made = replace(made, about=made.about | {
        "settings_from": planned.source, "updates": updates, "updates_fingerprint": cases.fingerprint(),
        "left_out": len(failures), **{name: planned.identity()[name] for name in ("covariance", "network")},
    })  # fmt: skip
    save_edit(made, out)
    if save_model is not None:
        save_edited_model(lm, made, save_model)
    about = describe(made) | {"seconds": made.about["seconds"], "settings_from": planned.source, "edit": str(out)}
    if json_:
        print_json(about | {"skipped": len(failures), "settings": made.about["settings"]})
        return
    say(f"made in {made.about['seconds']:.1f} s; it changes {_changed_modules(about)}")
    say(f"written to {out}" + (f"; edited model in {save_model}" if save_model else ""))


def evaluate(
    model: Model,
    updates: Updates,
    methods: Annotated[
        str,
        typer.Option(
            help="FT, FT+L, MEND, ROME, MEMIT, AlphaEdit, EMMET, LoRA, PROMPT, with commas; 'ROME dated' says a date "
            "in its requests."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Run folder; a finished one can be given further methods.")],
    mode: Annotated[str, typer.Option(help="independent, batch or sequential.")] = "independent",
    size: Annotated[int | None, typer.Option(min=1, help="Updates in a batch or sequence; by default all.")] = None,
    after: Annotated[
        str | None,
        typer.Option(help="Batch or sequential: measure after so many updates, such as 1,10,100; undo one; collapse."),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="With --after: text for the perplexity; a file, a hub name, or mini.")
    ] = None,
    text_tokens: Annotated[int | None, typer.Option(min=2, help="Tokens of it to read; by default 10,000.")] = None,
    fluency_tokens: Annotated[
        int, typer.Option(min=0, help="Tokens of prompt and free text together; 0 leaves fluency out.")
    ] = 100,
    generate: Annotated[
        bool, typer.Option("--generate", help="Also let the model go on from each prompt: does it give the object?")
    ] = False,
    batch_tokens: Annotated[
        int | None, typer.Option(min=1, help="Most tokens scored at a time; by default what suits the device.")
    ] = None,
    dated: Annotated[
        bool, typer.Option("--dated", help="Also ask with dates before and after each change: is the past kept?")
    ] = False,
    until: Annotated[
        str | None,
        typer.Option(help="Last date to ask about (--dated); by default the latest change among the updates."),
    ] = None,
    scenario: Scenario = "ReplaceObject",
    limit: Limit = None,
    split: Split = None,
    dataset_revision: DatasetRevision = None,
    corpus: CorpusOption = None,
    no_covariance: NoCovariance = False,
    corpus_tokens: CorpusTokens = None,
    regularise: Regularise = None,
    cache: Cache = None,
    mend: Mend = None,
    set_: Changes = None,
    site: SiteNames = None,
    dtype: Dtype = "auto",
    device: Device = None,
    device_map: DeviceMap = None,
    revision: Revision = None,
    tokenizer: Tokenizer = None,
    trust_remote_code: Trust = False,
    json_: JsonFlag = False,
) -> None:
    """Make updates in a model by several methods, and measure efficacy, generalization, bleedover, fluency and seconds.

    The run folder survives being killed: the same command goes on where it stopped.

    Example: anachron evaluate demo --updates mini-updates --methods FT,ROME,MEMIT,PROMPT --out runs/edits
    """
    from anachron.data.cases import BEYOND_LIMIT, load_cases
    from anachron.edit.methods import check_scenarios
    from anachron.edit.plan import parse_method
    from anachron.errors import ConfigError
    from anachron.evaluate.dated import Dating
    from anachron.evaluate.measure import Measures
    from anachron.report.edits import edits_tables

    if until is not None and not dated:
        raise ConfigError(f"--until {until}: it is the last date of dated questions; add --dated, or leave it out")
    measures = Measures(fluency_tokens, batch_tokens, generate, Dating(until) if dated else None)
    settings = _settings(mode, size, after, text, text_tokens, measures)
    wanted = wanted_of(split_commas(methods), set_, site, corpus, no_covariance, corpus_tokens, regularise, cache, mend)
    scenarios = split_commas(scenario)
    cases = load_cases(updates, split=split, revision=dataset_revision, scenario=scenarios, limit=limit)
    check_scenarios([parse_method(name)[0] for name in wanted.methods], {case.scenario for case in cases.cases})
    lm = load(
        model, dtype=dtype, device=device, device_map=device_map, revision=revision, tokenizer=tokenizer,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    planned = planned_of(lm, wanted)
    if not json_:
        for one in planned:
            say(f"{one.label}: settings: {one.source}")
    with progress_bar(model) as progress:
        record, summaries, notes = _run(lm, cases, planned, out, settings, progress)
    not_asked = record["not_asked"]
    if json_:
        print_json({
            "dated": None, **{name: summary.to_dicts() for name, (summary, _) in summaries.items()}, "notes": notes,
            "run": str(out), "left_out": dict(cases.left_out), "not_asked": not_asked,
        })  # fmt: skip
        return
    console = stdout()
    for summary, layout in summaries.values():
        for table in edits_tables(summary, console.width, layout):
            console.print(table)
    for reason, count in not_asked.items():
        say(f"{reason}: {_updates(count)}")
    others = {reason: count for reason, count in cases.left_out.items() if reason != BEYOND_LIMIT}
    for reason, count in others.items():
        say(f"left out: {_updates(count)}, {reason}")
    for note in notes:
        say(note)
    say(f"run folder: {out}; tables{' and figure' if not notes else ''}: {out / 'report'}")


def _settings(
    mode: str, size: int | None, after: str | None, text: str | None, text_tokens: int | None, measures: Any
) -> Any:
    """Those of a run of each update, or, with ``after``, of lifelong editing."""
    from anachron.edit.corpus import open_corpus
    from anachron.errors import ConfigError
    from anachron.evaluate.lifelong import LifelongSettings
    from anachron.evaluate.perplexity import TOKENS
    from anachron.evaluate.run import EvaluateSettings

    if after is None:
        if text is not None or text_tokens is not None:
            raise ConfigError("--text and --text-tokens go with --after; add it, or leave them out")
        return EvaluateSettings(mode, size, measures)
    if size is not None:
        raise ConfigError(f"--size {size} and --after {after}: give one of them")
    numbers = [number for number in split_commas(after) if not number.isascii() or not number.isdigit()]
    if numbers:
        raise ConfigError(f"--after {after}: {numbers[0]!r} is no number of updates; write for instance 1,10,100")
    counts = tuple(map(int, split_commas(after)))
    corpus = None if text is None else open_corpus(text)
    return LifelongSettings(counts, mode, measures, corpus, text_tokens or TOKENS)


def _run(lm: Any, cases: Any, planned: Any, out: Path, settings: Any, progress: Any) -> tuple[Any, Any, list[str]]:
    """The run, done: its record, its summaries with their layouts by name, and notes."""
    from anachron.evaluate.lifelong import LifelongSettings, run_lifelong
    from anachron.evaluate.run import run_evaluation
    from anachron.jobs import Callbacks
    from anachron.report.edits import DATED, EDITS
    from anachron.report.evaluation import write_dated, write_evaluation
    from anachron.report.lifelong import LIFELONG, write_lifelong

    callbacks, report = Callbacks(warn, progress), out / "report"
    if isinstance(settings, LifelongSettings):
        lifelong = run_lifelong(lm, cases, planned, out, settings, callbacks=callbacks)
        summary, notes = write_lifelong(lifelong.tables, report)
        return lifelong.record, {"summary": (summary, LIFELONG)}, notes
    result = run_evaluation(lm, cases, planned, out, settings, callbacks=callbacks)
    scores = (result.targets, result.neighbours, result.updates)
    summary, notes = write_evaluation(*scores, report, result.objects, result.generations)
    summaries = {"summary": (summary, EDITS)}
    if result.dated is not None and result.dated_neighbours is not None:
        dated, more = write_dated(result.dated, result.dated_neighbours, result.updates, report)
        summaries, notes = summaries | {"dated": (dated, DATED)}, notes + more
    return result.record, summaries, notes


def _updates(count: int) -> str:
    return "1 update" if count == 1 else f"{count:,} updates"


def _changed_modules(about: dict[str, Any]) -> str:
    """What an edit changes, in words: the module's name where it is one, otherwise how many and the first."""
    modules = about["modules"]
    if not modules:
        return "no weights: it is a text put before every prompt"
    kinds = ", ".join(dict.fromkeys(modules.values()))
    first = next(iter(modules))
    return f"{first} ({kinds})" if len(modules) == 1 else f"{len(modules)} modules ({kinds}), the first {first}"
