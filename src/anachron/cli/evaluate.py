"""Commands that update facts in a model: ``edit``, and ``evaluate``, which also measures what they did."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.analysis.plots.words import counted
from anachron.cli.commands import as_published, setting
from anachron.cli.edit_options import MethodOptions, StyleOptions, Updates
from anachron.cli.groups import grouped
from anachron.cli.options import JsonFlag, ModelArgument, ModelOptions, PrintStyle, UpdatesOptions, split_commas
from anachron.cli.output import on_screen, print_json, say, stdout, warn
from anachron.cli.outputs import DEFAULT_RUN, FILE, FOLDER, NAMED_FOLDER
from anachron.edit.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from anachron.report.edits.evaluated import EvaluatedUpdates


def register(app: typer.Typer) -> None:
    app.command()(grouped(edit))
    app.command()(grouped(evaluate))


def edit(
    *,
    model: ModelArgument,
    updates: Updates,
    method: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(METHODS)}; 'ROME dated' states the date, 'ROME METO' edits the old fact too, "
            "both with their dates."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File for the edit: .safetensors."), FILE],
    save_model: Annotated[
        Path | None, typer.Option(help="Also write the edited model to a new or empty Hugging Face folder."), FOLDER
    ] = None,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out updates that cannot be made.")] = False,
    shown: Annotated[
        int, typer.Option(min=0, help="Show object probabilities, before and after, for the first N updates.")
    ] = 20,
    selected: UpdatesOptions,
    needs: MethodOptions,
    asked: StyleOptions,
    loading: ModelOptions,
    json_: JsonFlag = False,
) -> None:
    """Make updates in a model, all in one edit, and save the edit as a small file.

    Says how many updates now have the new object preferred to the old one, and names the others; for each, shows how
    likely the model finds the old and the new object before and after the edit.

    Example: anachron edit demo --updates mini-updates --method MEMIT --out memit.safetensors
    """
    from anachron.edit.storage import describe, save_edit, save_edited_model
    from anachron.evaluate import editing
    from anachron.report.terminal.old_and_new import preferred

    choice = needs.choose((method,))
    _check_outputs(choice.methods[0], out, save_model)
    cases = selected.load(updates)
    choice.check_scenarios(cases)
    requests = editing.update_requests(cases, choice.methods[0], skip=skip)
    if left_out := len(requests.left_out):
        warn(f"{left_out} of {len(cases.cases)} updates are left out, for instance: {requests.left_out[0]}")
    lm = asked.load(model, loading)
    (planned,) = editing.prepare_methods(lm, choice, callbacks=on_screen())
    if not json_:
        say(f"{planned.printed_name}: making {_updates(len(requests.asked))}; settings: {planned.source}")
    made = editing.edit_from_updates(lm, planned, requests)
    save_edit(made, out)
    if save_model is not None:
        save_edited_model(lm, made, save_model)
    counts = None if (found := editing.preferred_objects(lm, made, requests, warn=warn)) is None else preferred(found)
    objects = editing.told_objects(lm, made, requests, shown, warn=warn)
    about = describe(made) | {"seconds": made.about["seconds"], "settings_from": planned.source, "edit": str(out)}
    if json_:
        more = {"settings": made.about["settings"], "objects": objects.to_dicts(), "preferred": counts}
        print_json(about | {"skipped": left_out} | more)
        return
    _print_edit(objects, counts, about, out, save_model)


def _print_edit(
    objects: "pl.DataFrame", counts: dict[str, Any] | None, about: dict[str, Any], out: Path, save_model: Path | None
) -> None:
    from anachron.report.terminal.old_and_new import before_and_after_table, preferred_lines

    if objects.height:
        stdout().print(before_and_after_table(objects))
    for line in () if counts is None else preferred_lines(counts):
        say(line)
    say(f"made in {about['seconds']:.1f} s; it changes {_changed_modules(about)}")
    say(f"written to {out}" + (f"; edited model in {save_model}" if save_model else ""))


def _check_outputs(method: str, out: Path, save_model: Path | None) -> None:
    """Raise `ConfigError` for what could not be written, before anything is made."""
    from anachron.core.errors import ConfigError
    from anachron.edit.methods import method_named
    from anachron.edit.plan import parse_method
    from anachron.lm.saving import require_new

    if out.suffix != ".safetensors":
        raise ConfigError(f"--out {out}: an edit is a .safetensors file")
    of_edit = method_named(parse_method(method)[0])
    if save_model is not None and not of_edit.changes_weights:
        raise ConfigError(f"--save-model: {of_edit.name} changes no weights, so there is no edited model to save")
    if save_model is not None:
        require_new(save_model, "the edited model")


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """How updates are made and what is measured."""

    mode: Annotated[str, typer.Option(help="How updates are made: independent, batch, entity or sequential.")] = (
        "independent"
    )
    size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of updates made together. Default: all of them in batch mode, one in sequential mode."
        ),
    ] = None
    after: Annotated[
        str | None,
        typer.Option(
            help="In batch or sequential mode: measure after these numbers of updates, such as 1,10,100, and "
            "after undoing one."
        ),
    ] = None
    text: Annotated[
        str | None, typer.Option(help="With --after: text to measure perplexity on: a file, a hub name, or mini.")
    ] = None
    text_tokens: Annotated[
        int | None, setting(min=2, help="Number of tokens to read from --text. Default: 10,000.")
    ] = None
    fluency_tokens: Annotated[
        int, setting(min=0, help="Number of tokens, prompt included, to measure fluency on; 0 skips fluency.")
    ] = 100
    fluency_counts_prefix: Annotated[
        bool,
        as_published(
            "--fluency-counts-prefix", help="Count PROMPT's prefix among --fluency-tokens, as the published code does."
        ),
    ] = False
    generate: Annotated[
        bool,
        typer.Option(
            "--generate", help="Also let the model continue each prompt, and test whether it gives the object."
        ),
    ] = False
    audit: Annotated[
        bool,
        typer.Option(
            "--audit",
            help="Also let the model answer each prompt in full, and test whether the whole answer is the object.",
        ),
    ] = False
    audit_tokens: Annotated[
        int | None, setting(min=1, help="Maximum number of tokens per audited answer. Default: 50.")
    ] = None
    token_accuracy: Annotated[
        bool,
        as_published(
            "--token-accuracy",
            help="Also report the share of target tokens that are the model's first choice, as papers on zsRE do.",
        ),
    ] = False
    batch_tokens: Annotated[
        int | None, setting(min=1, help="Maximum number of tokens scored at once. Default: chosen for the device.")
    ] = None
    dated: Annotated[
        bool,
        typer.Option(
            "--dated", help="Also ask with dates before and after each change, to see whether the past is kept."
        ),
    ] = False
    until: Annotated[
        str | None,
        typer.Option(help="With --dated: last date to ask about. Default: the latest change in the data set."),
    ] = None
    ways: Annotated[
        str | None,
        typer.Option(
            help="With --dated: how to ask, any of prompt, paraphrase, question, separated by commas. Default: all."
        ),
    ] = None

    def settings(self) -> Any:
        """Those of a run of each update, or, with ``after``, of lifelong editing."""
        from anachron.core.errors import ConfigError
        from anachron.edit.corpus import open_corpus
        from anachron.evaluate.lifelong import LifelongSettings
        from anachron.evaluate.measure import Measures
        from anachron.evaluate.measures.audit import AnswerAudit
        from anachron.evaluate.measures.dated import WAYS, Dating
        from anachron.evaluate.measures.perplexity import TOKENS
        from anachron.evaluate.run import EvaluateSettings

        for option, value in (("--until", self.until), ("--ways", self.ways)):
            if value is not None and not self.dated:
                raise ConfigError(f"{option} {value}: it is for dated questions; add --dated, or leave it out")
        if self.audit_tokens is not None and not self.audit:
            raise ConfigError(f"--audit-tokens {self.audit_tokens} is for --audit; add it, or leave this out")
        ways = WAYS if self.ways is None else tuple(split_commas(self.ways))
        dating = Dating(self.until, ways=ways) if self.dated else None
        audit = AnswerAudit(self.audit_tokens or AnswerAudit().most_tokens) if self.audit else None
        measures = Measures(
            self.fluency_tokens, self.batch_tokens, self.generate, dating, self.token_accuracy, audit=audit,
            fluency_counts_prefix=self.fluency_counts_prefix,
        )  # fmt: skip
        if self.after is None:
            if self.text is not None or self.text_tokens is not None:
                raise ConfigError("--text and --text-tokens go with --after; add it, or leave them out")
            return EvaluateSettings(self.mode, self.size, measures)
        corpus = None if self.text is None else open_corpus(self.text)
        return LifelongSettings(
            _counts(self.after), self.mode, measures, corpus, self.text_tokens or TOKENS, self.size or 1
        )


def _counts(after: str) -> tuple[int, ...]:
    """Numbers of updates with commas between. Raises `ConfigError` for what is no number."""
    from anachron.core.errors import ConfigError

    for number in split_commas(after):
        if not number.isascii() or not number.isdigit():
            raise ConfigError(f"--after {after}: {number!r} is not a number of updates; write for instance 1,10,100")
    return tuple(map(int, split_commas(after)))


def evaluate(
    *,
    model: ModelArgument,
    updates: Updates,
    methods: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(METHODS)}, separated by commas; 'ROME dated' states the date in its requests, "
            "'ROME METO' edits the old fact too, both with their dates."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Run folder; further methods can be added to a finished one."), NAMED_FOLDER
    ] = DEFAULT_RUN,
    style: PrintStyle = "plain",
    measured: EvaluationOptions,
    selected: UpdatesOptions,
    needs: MethodOptions,
    asked: StyleOptions,
    loading: ModelOptions,
    json_: JsonFlag = False,
) -> None:
    """Make updates in a model with several methods, and measure efficacy, generalization, bleedover, fluency and time.

    If interrupted or killed, repeat the same command to resume.

    Example: anachron evaluate demo --updates mini-updates --methods FT,ROME,MEMIT,PROMPT --out runs/edits
    """
    from anachron.evaluate.editing import prepare_methods
    from anachron.report.edits.evaluated import evaluate_updates
    from anachron.report.paper_tables import check_style

    settings = measured.settings()
    check_style(style)
    choice = needs.choose(split_commas(methods))
    cases = selected.load(updates)
    choice.check_scenarios(cases)
    lm = asked.load(model, loading)
    planned = prepare_methods(lm, choice, callbacks=on_screen())
    if not json_:
        for one in planned:
            say(f"{one.printed_name}: settings: {one.source}")
    with on_screen().bar(model) as bar:
        evaluated = evaluate_updates(lm, cases, planned, out, settings, style=style, callbacks=bar)
    if json_:
        print_json({
            "dated": None, "atoke": None,
            **{name: summary.to_dicts() for name, (summary, _) in evaluated.summaries.items()},
            "tests": {name: tests.to_dicts() for name, tests in evaluated.tests.items()},
            **({} if evaluated.portability is None else {"portability": evaluated.portability.to_dicts()}),
            "tests_not_asked": evaluated.record["tests_not_asked"],
            "notes": evaluated.notes, "run": str(out), "left_out": dict(cases.left_out),
            "not_asked": evaluated.record["not_asked"], "old_ends_unknown": evaluated.record["old_ends_unknown"],
            "past_wordings_unknown": evaluated.record["past_wordings_unknown"],
        })  # fmt: skip
    else:
        _print_evaluation(evaluated, cases.left_out, out)


def _print_evaluation(evaluated: "EvaluatedUpdates", left_out: "Mapping[str, int]", out: Path) -> None:
    from anachron.data.updates.cases import BEYOND_LIMIT
    from anachron.report.edits.dated import portability_table
    from anachron.report.edits.evaluated import REPORT
    from anachron.report.edits.paired_tests import paired_tests_table
    from anachron.report.edits.tables import edits_tables

    console = stdout()
    for name, (summary, layout) in evaluated.summaries.items():
        for table in edits_tables(summary, console.width, layout):
            console.print(table)
        if name in evaluated.tests and evaluated.tests[name].height:
            console.print(paired_tests_table(evaluated.tests[name]))
    if evaluated.portability is not None:
        console.print(portability_table(evaluated.portability))
    for reason, count in evaluated.record["tests_not_asked"].items():
        say(f"tests not asked: {count:,} of {reason}")
    for reason, count in evaluated.record["not_asked"].items():
        say(f"{reason}: {_updates(count)}")
    if count := evaluated.record["old_ends_unknown"]:
        say(f"asked about the past up to the change, since nothing says when the old object ended: {_updates(count)}")
    if count := evaluated.record["past_wordings_unknown"]:
        say(f"paraphrases asked in the present tense about the past, as no past wording is known: {_updates(count)}")
    for reason, count in left_out.items():
        if reason != BEYOND_LIMIT:
            say(f"left out: {_updates(count)}, {reason}")
    for note in evaluated.notes:
        say(note)
    say(f"run folder: {out}; tables{' and figures' if any((out / REPORT).glob('*.svg')) else ''}: {out / REPORT}")


def _updates(count: int) -> str:
    return counted(count, "update")


def _changed_modules(about: dict[str, Any]) -> str:
    """What an edit changes, in words: the module's name where it is one, otherwise how many and the first."""
    modules = about["modules"]
    if not modules:
        return "no weights: it is a text put before every prompt"
    kinds = ", ".join(dict.fromkeys(modules.values()))
    first = next(iter(modules))
    return f"{first} ({kinds})" if len(modules) == 1 else f"{len(modules)} modules ({kinds}), the first {first}"
