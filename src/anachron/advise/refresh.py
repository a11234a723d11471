"""From a file of facts to an updated model: check, updates, advice, the update, and the check once more.

    check/                 a run of ``check``; its ``stale.csv`` are the updates
    advice/                a run of ``advise`` on them
    update.safetensors     all of them, made by the way that was recommended
    after/                 ``check`` on the same facts with the update in force
    bundled/, bundled-after/   probes of bundled facts without it and with it
    refresh.json           what came of it, written last

Each step is a run of its own that goes on where it was; a finished one is read.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anachron.advise.run import AdviceSettings, Advised, run_advice
from anachron.core.errors import ConfigError, DataError
from anachron.data.loaders import load_dataset
from anachron.data.updates.case_table import is_unchanged
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.edit.base import Edit, edited, model_fingerprint
from anachron.edit.plan import Planned
from anachron.edit.storage import load_edit, save_edit
from anachron.evaluate.editing import edit_from_updates, readable, update_requests
from anachron.evaluate.results import UNEDITED
from anachron.io.files import json_fingerprint, manifest_of
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import RUN_FILE
from anachron.lm.model import LanguageModel
from anachron.probe.check.check import STALE_RECORDS, Check, check
from anachron.probe.run import ProbeSettings, run_probe

if TYPE_CHECKING:
    from anachron.probe.check.questions import CheckedFacts

CHECK, ADVICE, AFTER, BUNDLED, BUNDLED_AFTER = "check", "advice", "after", "bundled", "bundled-after"
UPDATE_FILE = "update.safetensors"
BUNDLED_FACTS = 30  # that are asked about before and after

Prepare = Callable[[CaseSet], tuple[Sequence[Planned], CaseSet, AdviceSettings]]


@dataclass(frozen=True)
class Refreshed:
    """before, after: the checks; after is None where nothing was updated. cases: the stale facts as updates, None
    where there is nothing to change. made: the edit of the way ``way``."""

    folder: Path
    before: Check
    cases: CaseSet | None = None
    advised: Advised | None = None
    way: str = UNEDITED
    made: Edit | None = None
    after: Check | None = None


def refresh(
    lm: LanguageModel, facts: "CheckedFacts", out: Path | str, prepare: Prepare, *, way: str | None = None,
    callbacks: Callbacks | None = None,
) -> Refreshed:  # fmt: skip
    """Check a model, make what is stale in it up to date by the way that advice recommends, and check it again.

    prepare: for some updates the ways to try (`anachron.prepare_methods`), the updates to try them on, and the settings
    of the advice; called where something is stale. way: make the updates by this one of them, whatever the advice.
    Nothing is made where nothing is stale, where each new object is the old one by another name, or where leaving the
    model as it is is recommended. Raises as its steps.
    """
    callbacks, folder = callbacks or Callbacks(), Path(out)
    _refuse_others(folder)
    asked = ProbeSettings(format=lm.style.kind)
    before = check(lm, facts, folder / CHECK, settings=asked, callbacks=callbacks)
    if all(map(is_unchanged, before.records)):  # none is stale, or the file itself names the old object as a new one
        return Refreshed(folder, before)
    cases = load_cases(str(folder / CHECK / STALE_RECORDS))  # with facts of the file that must stay
    ways, tried, settings = prepare(cases)
    advised = run_advice(lm, tried, ways, folder / ADVICE, settings, callbacks=callbacks)
    chosen = way or advised.advice.recommended
    if chosen == UNEDITED:
        if (folder / UPDATE_FILE).is_file():
            callbacks.notice(f"{folder / UPDATE_FILE} is of an earlier call, by another way; this one changes nothing")
        return Refreshed(folder, before, cases, advised)
    planned = next((one for one in ways if one.label == chosen), None)
    if planned is None:
        raise DataError(f"way {chosen!r} is not among those that were prepared: {', '.join(o.label for o in ways)}")
    made = _update(lm, planned, cases, folder)
    bundled = load_dataset("mini", limit=BUNDLED_FACTS)
    run_probe(lm, bundled, folder / BUNDLED, asked, callbacks=callbacks)
    with edited(lm, made):
        after = check(lm, facts, folder / AFTER, settings=asked, callbacks=callbacks)
        run_probe(lm, bundled, folder / BUNDLED_AFTER, asked, callbacks=callbacks)
    return Refreshed(folder, before, cases, advised, chosen, made, after)


def _refuse_others(folder: Path) -> None:
    """Raise `ConfigError` for a folder that holds something else: a refreshed model's has a check within, even where it
    was killed at once, and is no run itself."""
    taken = folder.is_dir() and any(folder.iterdir()) and not (folder / CHECK).is_dir()
    if taken or (folder / RUN_FILE).is_file():
        raise ConfigError(f"{folder} is not empty and holds no refreshed model; choose another --out")


def _update(lm: LanguageModel, planned: Planned, cases: CaseSet, folder: Path) -> Edit:
    """The edit in the file where it is the one that is wanted, so that what follows goes on; else it is made, and what
    was measured under another one is removed."""
    path = folder / UPDATE_FILE
    requests = readable(lm, update_requests(cases, planned.label, skip=True), planned.label, skip=True)
    wanted = json_fingerprint(
        planned.identity()
        | {"updates": requests.cases.fingerprint(), "model": model_fingerprint(lm), "format": lm.style.kind}
    )
    if path.is_file() and (known := load_edit(path)).about.get("made_of") == wanted:
        if not Path(manifest_of(path)).exists():  # killed between the two
            save_edit(known, path)
        return known
    for measured in (AFTER, BUNDLED_AFTER):
        shutil.rmtree(folder / measured, ignore_errors=True)
    made = edit_from_updates(lm, planned, requests)
    about = made.about | {"made_of": wanted, "not_made": requests.left_out, "unchanged": requests.unchanged}
    save_edit(replace(made, about=about), path)
    return load_edit(path)
