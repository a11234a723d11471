"""Commands that update facts in a model: ``edit``, and ``evaluate``, which also judges the updates."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

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

Model = Annotated[str, typer.Argument(help="A hub name, a folder, or demo.")]
Updates = Annotated[
    str,
    typer.Option(
        help="mini-updates, a hub name, or a file (WikiFactDiff, CounterFact, zsRE; .json, .jsonl, .parquet)."
    ),
]
Scenario = Annotated[
    str,
    typer.Option(help="Which updates: ReplaceObject, Archive, AddObject, AddRelation, AddEntity; several with commas."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only so many updates, from the start.")]
CorpusOption = Annotated[
    str | None,
    typer.Option(help="Text for the covariance of ROME, MEMIT, EMMET, AlphaEdit: a file, a hub name, or mini."),
]
NoCovariance = Annotated[bool, typer.Option("--no-covariance", help="Take the identity in the covariance's place.")]
CorpusTokens = Annotated[
    int | None, typer.Option(min=1, help="Tokens of the corpus to read; by default 100,000, and all of mini.")
]
Regularise = Annotated[float | None, typer.Option(help="Share of the mean diagonal to add to the covariance.")]
Cache = Annotated[
    Path | None, typer.Option(help="Folder of the covariances; by default $ANACHRON_CACHE or the user's cache folder.")
]
Mend = Annotated[Path | None, typer.Option(help="The network that train-mend wrote.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="A setting other than the preset: METHOD.NAME=VALUE, as JSON.")
]
SiteNames = Annotated[
    list[str] | None,
    typer.Option("--site", help="Modules by hand: blocks=, mlp_in= (+ between several), mlp_out=."),
]


def register(app: typer.Typer) -> None:
    app.command()(edit)
    app.command()(evaluate)


def edit(
    model: Model,
    updates: Updates,
    method: Annotated[
        str,
        typer.Option(help="FT, FT+L, MEND, ROME, MEMIT, AlphaEdit, EMMET, LoRA or PROMPT; 'ROME dated' says a date."),
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
    from anachron.edit.methods import check_scenarios, make_edit
    from anachron.edit.storage import describe, save_edit, save_edited_model
    from anachron.errors import ConfigError, DataError
    from anachron.evaluate.plan import method_of
    from anachron.evaluate.run import askable

    wanted = _wanted((method,), set_, site, corpus, no_covariance, corpus_tokens, regularise, cache, mend)
    if out.suffix != ".safetensors":
        raise ConfigError(f"--out {out}: an edit is a .safetensors file")
    if save_model is not None and wanted.methods[0].startswith("PROMPT"):
        raise ConfigError("--save-model: PROMPT changes no weights, so there is no edited model to save")
    if save_model is not None and save_model.exists():
        raise ConfigError(f"--save-model {save_model} is there already; choose another folder")
    scenarios = split_commas(scenario)
    cases = load_cases(updates, split=split, revision=dataset_revision, scenario=scenarios, limit=limit)
    check_scenarios(map(method_of, wanted.methods), {case.scenario for case in cases.cases})
    asked, failures = askable(cases.cases, wanted.methods[0])
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
    (planned,) = _plan(lm, wanted)
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
    fluency_tokens: Annotated[
        int, typer.Option(min=0, help="Tokens of prompt and free text together; 0 leaves fluency out.")
    ] = 100,
    generate: Annotated[
        bool, typer.Option("--generate", help="Also let the model go on from each prompt: does it say the object?")
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
    """Make updates in a model by several methods and judge each: efficacy, generalization, bleedover, fluency, seconds.

    The run folder survives being killed: the same command goes on where it stopped.

    Example: anachron evaluate demo --updates mini-updates --methods FT,ROME,MEMIT,PROMPT --out runs/edits
    """
    from anachron.data.cases import BEYOND_LIMIT, load_cases
    from anachron.edit.methods import check_scenarios
    from anachron.errors import ConfigError
    from anachron.evaluate.dated import Dating
    from anachron.evaluate.judge import Judging
    from anachron.evaluate.plan import method_of
    from anachron.evaluate.run import EvaluateSettings, run_evaluation
    from anachron.probe.run import Callbacks
    from anachron.report.edits import DATED, edits_tables
    from anachron.report.evaluation import write_dated, write_evaluation

    if until is not None and not dated:
        raise ConfigError(f"--until {until}: it is the last date of dated questions; add --dated, or leave it out")
    dating = Dating(until) if dated else None
    settings = EvaluateSettings(mode, size, Judging(fluency_tokens, batch_tokens, generate, dating))
    wanted = _wanted(split_commas(methods), set_, site, corpus, no_covariance, corpus_tokens, regularise, cache, mend)
    scenarios = split_commas(scenario)
    cases = load_cases(updates, split=split, revision=dataset_revision, scenario=scenarios, limit=limit)
    check_scenarios(map(method_of, wanted.methods), {case.scenario for case in cases.cases})
    lm = load(
        model, dtype=dtype, device=device, device_map=device_map, revision=revision, tokenizer=tokenizer,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    planned = _plan(lm, wanted)
    if not json_:
        for one in planned:
            say(f"{one.label}: settings: {one.source}")
    with progress_bar(model) as progress:
        result = run_evaluation(lm, cases, planned, out, settings, callbacks=Callbacks(warn, progress))
    summary, notes = write_evaluation(
        result.targets, result.neighbours, result.updates, out / "report", result.objects, result.said
    )
    judged = None
    if result.dated is not None and result.dated_neighbours is not None:
        judged, more = write_dated(result.dated, result.dated_neighbours, result.updates, out / "report")
        notes += more
    not_asked = result.record["not_asked"]
    if json_:
        print_json({
            "summary": summary.to_dicts(), "dated": None if judged is None else judged.to_dicts(), "notes": notes,
            "run": str(out), "left_out": dict(cases.left_out), "not_asked": not_asked,
        })  # fmt: skip
        return
    console = stdout()
    tables = edits_tables(summary, console.width)
    if judged is not None:
        tables += edits_tables(judged, console.width, DATED)
    for table in tables:
        console.print(table)
    for reason, count in not_asked.items():
        say(f"{reason}: {_updates(count)}")
    others = {reason: count for reason, count in cases.left_out.items() if reason != BEYOND_LIMIT}
    for reason, count in others.items():
        say(f"left out: {_updates(count)}, {reason}")
    for note in notes:
        say(note)
    say(f"run folder: {out}; tables{' and figure' if not notes else ''}: {out / 'report'}")


TOKENS = 100_000


@dataclass(frozen=True)
class _Wanted:
    """What the options of a command ask for, each checked as far as it can be without the model."""

    methods: tuple[str, ...]
    changes: dict[str, dict[str, Any]]
    sites: dict[str, str]
    corpus: Any  # an open corpus, or None
    no_covariance: bool
    tokens: int | None
    regularise: float | None
    cache: Path | None
    mend: Path | None


def _wanted(
    methods: tuple[str, ...], set_: list[str] | None, site: list[str] | None, corpus: str | None, no_covariance: bool,
    tokens: int | None, regularise: float | None, cache: Path | None, mend: Path | None,
) -> _Wanted:  # fmt: skip
    from anachron.edit.corpus import open_corpus
    from anachron.edit.covariance import check_settings
    from anachron.errors import ConfigError
    from anachron.evaluate.plan import variant_named

    if not methods:
        raise ConfigError("no method is named; give one at least, such as ROME")
    if corpus is not None and no_covariance:
        raise ConfigError("give either --corpus or --no-covariance, not both")
    if mend is not None and not mend.is_file():
        raise ConfigError(f"--mend {mend}: no such file; train a network with anachron train-mend")
    check_settings(precision="float64", regularise=regularise)
    names = tuple(variant_named(name) for name in methods)
    changes, sites = _changes(set_), _site_names(site)
    text = None if corpus is None else open_corpus(corpus)
    return _Wanted(names, changes, sites, text, no_covariance, tokens, regularise, cache, mend)


def _plan(lm: Any, wanted: _Wanted) -> Any:
    from anachron.edit.corpus import BUNDLED, open_corpus
    from anachron.edit.covariance import cache_folder, collect
    from anachron.edit.mend import MendNetwork
    from anachron.edit.sites import find_sites
    from anachron.evaluate.plan import plan
    from anachron.lm.model import DEMO

    corpus = wanted.corpus
    if corpus is None and not wanted.no_covariance and lm.name == DEMO:
        corpus = open_corpus(BUNDLED)
    short = corpus is not None and corpus.name == BUNDLED and wanted.tokens is None  # it is known to be short

    def collected(modules: Any) -> Any:
        with progress_bar("covariance") as progress:
            return collect(
                lm, modules, corpus, tokens=wanted.tokens or TOKENS, cache=wanted.cache or cache_folder(),
                regularise=wanted.regularise, progress=progress, warn=(lambda message: None) if short else warn,
            )  # fmt: skip

    return plan(
        lm,
        wanted.methods,
        changes=wanted.changes,
        collect=None if corpus is None else collected,
        identity_covariance=wanted.no_covariance,
        network=None if wanted.mend is None else MendNetwork.load(wanted.mend, lm),
        sites=find_sites(lm.model, **wanted.sites) if wanted.sites else None,
    )


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


def _changes(given: list[str] | None) -> dict[str, dict[str, Any]]:
    """``METHOD.NAME=VALUE`` as method -> name -> value; a value that is no JSON is a text."""
    from anachron.errors import ConfigError

    found: dict[str, dict[str, Any]] = {}
    for text in given or []:
        left, equals, value = text.partition("=")
        method, point, name = left.rpartition(".")
        if not (equals and point and method and name):
            raise ConfigError(f"--set {text!r}: write METHOD.NAME=VALUE, for instance ROME.layer=5")
        try:
            found.setdefault(method, {})[name] = json.loads(value)
        except ValueError:
            found.setdefault(method, {})[name] = value
    return found


def _site_names(given: list[str] | None) -> dict[str, str]:
    from anachron.errors import ConfigError

    found: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if name not in ("blocks", "mlp_in", "mlp_out") or not equals or not value:
            raise ConfigError(f"--site {text!r}: write blocks=NAME, mlp_in=NAME or mlp_out=NAME")
        found[name] = value.replace("+", ",")
    return found
