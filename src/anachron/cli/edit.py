"""The command ``edit``: updates made in a model, all in one edit, and what became of them and of other facts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.analysis.plots.words import counted
from anachron.cli.edit_options import MethodOptions, StyleOptions, Updates
from anachron.cli.options import JsonFlag, ModelArgument, ModelOptions, UpdatesOptions
from anachron.cli.output import print_json, say, stdout, warn
from anachron.cli.outputs import FILE, FOLDER
from anachron.core.errors import ConfigError
from anachron.edit.methods import METHODS, method_named

if TYPE_CHECKING:
    import polars as pl

    from anachron.data.updates.cases import CaseSet
    from anachron.evaluate.editing import MethodChoice, UpdateRequests
    from anachron.lm.model import LanguageModel


def edit(
    *,
    model: ModelArgument,
    updates: Updates,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(METHODS)}; 'ROME dated' states the date, 'ROME METO' edits the old fact too, "
            "both with their dates. Default: recommended, with the reason."
        ),
    ] = None,
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
    likely the model finds the old and the new object before and after the edit. Also says what else changed: of facts
    beside the updates, and of other facts about their subjects.

    Example: anachron edit demo --updates mini-updates --method MEMIT --out memit.safetensors
    """
    from anachron.edit.storage import save_edit, save_edited_model
    from anachron.evaluate import editing

    _check_outputs(out, save_model)
    lm: LanguageModel | None = None
    if method is not None:  # what is wrong is said before anything is loaded
        choice = _chosen(needs, method, model, save_model)
        cases = selected.load(updates)
    else:
        cases = selected.load(updates)
        lm = asked.load(model, loading)
        choice = _recommended(lm, cases, needs, model, save_model)
    choice.check_scenarios(cases)
    requests = editing.update_requests(cases, choice.methods[0], skip=skip)
    lm = lm or asked.load(model, loading)
    requests = editing.readable(lm, requests, choice.methods[0], skip=skip)
    _tell_left_out(requests)
    (planned,), tuned = needs.prepare(lm, choice, cases, quiet=json_)
    if not json_:
        say(f"{planned.printed_name}: making {counted(len(requests.asked), 'update')}; settings: {planned.source}")
    made = editing.edit_from_updates(lm, planned, requests)
    save_edit(made, out)
    if save_model is not None:
        save_edited_model(lm, made, save_model)
    more = {"tuned": [one.record() for one in tuned]}
    _tell(lm, made, requests, shown, more, out=out, save_model=save_model, as_json=json_)


def _chosen(needs: MethodOptions, method: str, model: str, save_model: Path | None) -> "MethodChoice":
    """The method of this name; refused where no model can be saved that it has edited."""
    from anachron.edit.plan import parse_method

    choice = needs.choose((method,), model)
    of_edit = method_named(parse_method(choice.methods[0])[0])
    if save_model is not None and not of_edit.changes_weights:
        raise ConfigError(
            f"--save-model: an edit by {of_edit.name} is not in weights alone, so there is no edited model to save"
        )
    return choice


def _recommended(
    lm: "LanguageModel", cases: "CaseSet", needs: MethodOptions, model: str, save_model: Path | None
) -> "MethodChoice":
    """The method for this model and these updates, which is said with the reason."""
    from anachron.edit.recommend import recommend
    from anachron.evaluate.editing import situation_of

    covariance = needs.choose(("PROMPT",), model).covariance_of(model)  # by the options, whatever the method
    known = situation_of(lm, cases, covariance=covariance, kept_as_model=save_model is not None)
    found = recommend(known)
    say(f"{found.method}, {found.reason}; --method chooses another")
    return _chosen(needs, found.method, model, save_model)


def _tell_left_out(requests: "UpdateRequests") -> None:
    from anachron.data.updates.case_table import UNCHANGED

    if requests.unchanged:
        say(f"left out: {counted(requests.unchanged, 'update')}, {UNCHANGED}")
    if left_out := len(requests.left_out):
        of = len(requests.asked) + left_out
        warn(f"{left_out} of {of} updates are left out, for instance: {requests.left_out[0]}")


def _tell(
    lm: "LanguageModel", made: Any, requests: "UpdateRequests", shown: int, more: dict[str, Any], *, out: Path,
    save_model: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Measure and print what an edit did, to its updates and to other facts."""
    from anachron.edit.storage import describe
    from anachron.evaluate import editing
    from anachron.report.terminal.old_and_new import preferred

    found = editing.preferred_objects(lm, made, requests, warn=warn)
    counts = None if found is None else preferred(found)
    objects = editing.told_objects(lm, made, requests, shown, warn=warn)
    others = editing.untouched(lm, made, requests, warn=warn)
    about = describe(made) | {"seconds": made.about["seconds"], "settings_from": made.about["settings_from"]}
    about |= {"edit": str(out), "skipped": len(requests.left_out), "unchanged": requests.unchanged}
    if as_json:
        more |= {"settings": made.about["settings"], "objects": objects.to_dicts(), "preferred": counts}
        print_json(about | more | {"others": others})
    else:
        _print(objects, counts, others, about, save_model)


def _print(
    objects: "pl.DataFrame", counts: dict[str, Any] | None, others: dict[str, Any] | None, about: dict[str, Any],
    save_model: Path | None,
) -> None:  # fmt: skip
    from anachron.report.terminal.old_and_new import before_and_after_table, preferred_lines, untouched_lines

    if objects.height:
        stdout().print(before_and_after_table(objects))
    for line in (*(() if counts is None else preferred_lines(counts)), *untouched_lines(others)):
        say(line)
    say(f"made in {about['seconds']:.1f} s; it changes {_changed_modules(about)}")
    say(f"written to {about['edit']}" + (f"; edited model in {save_model}" if save_model else ""))


def _check_outputs(out: Path, save_model: Path | None) -> None:
    """Raise `ConfigError` for what could not be written, before anything is made."""
    from anachron.lm.saving import require_new

    if out.suffix != ".safetensors":
        raise ConfigError(f"--out {out}: an edit is a .safetensors file")
    if save_model is not None:
        require_new(save_model, "the edited model")


def _changed_modules(about: dict[str, Any]) -> str:
    """What an edit changes, in words: the module's name where it is one, otherwise how many and the first."""
    modules = about["modules"]
    if not modules and (passages := about.get("passages")):
        return f"no weights: of {passages:,} passages, those nearest to a prompt are put before it"
    if not modules:
        return "no weights: it is a text put before every prompt"
    kinds = ", ".join(dict.fromkeys(modules.values()))
    first = next(iter(modules))
    return f"{first} ({kinds})" if len(modules) == 1 else f"{len(modules)} modules ({kinds}), the first {first}"
