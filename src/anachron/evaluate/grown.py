"""Many updates as one edit of a model: made together, or one after the other, each on top of the ones before.

A sequence lies in one file of a run's folder, with the seconds of its updates and the reasons of those that could not
be made, and is saved as it grows; a killed one goes on from there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from anachron.data.case_records import EditCase
from anachron.edit.base import Edit, edited, fingerprint
from anachron.edit.failures import each_or_failure, failure_of
from anachron.edit.make import make_edit
from anachron.edit.plan import Planned
from anachron.edit.requests import EditRequest
from anachron.edit.storage import load_edit, save_edit
from anachron.edit.tensors import DELETE
from anachron.errors import DataError
from anachron.evaluate.asking import askable, requests_for
from anachron.jobs import RunFolder, Warn
from anachron.lm.model import LanguageModel

KEPT = 20  # updates after which a sequence is saved


@dataclass(frozen=True)
class Grown:
    """What updates have come to together: one edit, the seconds of each update that is in it, and by the case_id of the
    others the reason why they are not."""

    edit: Edit
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """A file of a run's folder with updates that are in one edit. warn: told where it is not as it was written."""

    run: RunFolder
    name: str
    warn: Warn

    def is_known(self) -> bool:
        """Whether it was written, whatever became of it."""
        return self.name in self.run.record["files"]

    def is_there(self) -> bool:
        """Whether it is there as it was written."""
        return self.run.has(self.name, self.warn)

    def save(self, edit: Edit) -> None:
        save_edit(edit, self.run.path / self.name)
        self.run.keep(self.name)

    def load(self) -> Edit:
        return load_edit(self.run.path / self.name, DELETE)

    def forget(self) -> None:
        """Remove the file and the manifest beside it."""
        self.run.forget([self.name, f"{self.name}.manifest.json"])


def grow(
    lm: LanguageModel, planned: Planned, cases: Sequence[EditCase], held: Held, *,
    progress: Callable[[int], None] = lambda done: None,
    each: Callable[[int, Edit], None] = lambda place, edit: None,
) -> Grown:  # fmt: skip
    """All these updates in their order, on top of what is held of them; all of them are held afterwards.

    progress: told how many are done. each: told the place, from 1, of an update that was made and the edit that it is,
    before the sequence with it is saved. Raises `DataError` for a file of another model.
    """
    found = load(lm, held)
    total, seconds, failed = found.edit, dict(found.seconds), dict(found.failed)
    for place, case in enumerate(cases, 1):
        if case.case_id in seconds or case.case_id in failed:
            continue
        try:
            with edited(lm, total, check=False):
                after = replace(planned, resources=replace(planned.resources, earlier=total))
                edit = joint_edit(lm, after, requests_for(case, planned.label))
        except Exception as error:
            if (failure := failure_of(error)) is None:
                raise
            failed[case.case_id] = _line(failure)
        else:
            seconds[case.case_id] = edit.about["seconds"]
            total = replace(total + edit, about={})
            each(place, edit)
        progress(place)
        if place % KEPT == 0 or place == len(cases):
            save(Grown(total, seconds, failed), held)
    return Grown(total, seconds, failed)


def make_batch(lm: LanguageModel, planned: Planned, cases: Sequence[EditCase]) -> Grown:
    """All updates that can be asked for made together, each with its share of the seconds."""
    asked, unaskable = askable(cases, planned.label)
    reasons = {verdict.case_id: verdict.reason or "" for verdict in unaskable}
    if not asked:
        return Grown(Edit(model=fingerprint(lm)), {}, reasons)
    together = [request for _, requests in asked for request in requests]
    (edit,) = each_or_failure(lambda one: [joint_edit(lm, planned, one[0])], [together])
    if isinstance(edit, Edit):
        return Grown(edit, {case.case_id: edit.about["seconds"] / len(asked) for case, _ in asked}, reasons)
    return Grown(Edit(model=fingerprint(lm)), {}, reasons | {case.case_id: _line(edit) for case, _ in asked})


def joint_edit(lm: LanguageModel, planned: Planned, requests: Sequence[EditRequest]) -> Edit:
    """One edit of all requests."""
    return make_edit(lm, planned.method, requests, planned.settings, planned.resources, planned.sites)


def _line(failure: Exception) -> str:
    return " ".join(str(failure).split())


def save(grown: Grown, held: Held) -> None:
    about = {"edits": len(grown.seconds), "seconds": grown.seconds, "failed": grown.failed}
    held.save(replace(grown.edit, about=about))


def load(lm: LanguageModel, held: Held) -> Grown:
    """What is held; nothing where there is no file. Raises `DataError` where it is another model's."""
    if not held.is_there():
        return Grown(Edit(model=fingerprint(lm)))
    found = held.load()
    if found.model != fingerprint(lm):
        raise DataError(f"{held.run.path / held.name} belongs to another model; delete it and repeat the command")
    return Grown(replace(found, about={}), found.about["seconds"], found.about["failed"])
