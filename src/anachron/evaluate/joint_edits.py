"""Many updates as one edit of a model: made in a batch, or in a sequence of batches, each on top of the ones before.

A sequence lies in one file of a run's folder, with the seconds of its updates and the reasons of those that could not
be made, and is saved while it is made; a killed one goes on from there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from anachron.core.errors import DataError
from anachron.data.updates.case_records import EditCase
from anachron.edit.base import Edit, edited, model_fingerprint
from anachron.edit.failures import Failure, or_failure
from anachron.edit.make import make_edit
from anachron.edit.plan import Planned
from anachron.edit.requests import EditRequest
from anachron.edit.storage import load_edit, save_edit
from anachron.edit.tensors import DELETE
from anachron.evaluate.requests import askable, unreadable
from anachron.io.files import manifest_of
from anachron.io.jobs import Warn
from anachron.io.run_folder import RunFolder
from anachron.lm.model import LanguageModel

SAVE_EVERY = 20  # updates after which a sequence is saved


@dataclass(frozen=True)
class JointEdit:
    """One edit of many updates, the seconds of each update that is in it, and by the case_id of the others the reason
    why they are not."""

    edit: Edit
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


Make = Callable[[LanguageModel, Planned, Sequence[EditCase]], JointEdit]  # makes updates together, as `make_batch`


@dataclass(frozen=True)
class EditFile:
    """An edit in a file of a run's folder. warn: told where it is not as it was written."""

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

    def remove(self) -> None:
        """With the manifest beside it."""
        self.run.forget([self.name, manifest_of(self.name)])


def make_sequence(
    lm: LanguageModel, planned: Planned, cases: Sequence[EditCase], file: EditFile, *, size: int = 1,
    progress: Callable[[int], None] = lambda done: None,
    each: Callable[[int, Edit], None] = lambda place, edit: None,
) -> JointEdit:  # fmt: skip
    """All these updates in their order, on top of those that the file holds; it holds all of them afterwards.

    A file that holds other updates too, as after a later stage of a run, is made anew.

    size: updates made together, on top of all before; one that cannot be asked for is left out of its batch. progress:
    told how many are done. each: told the place, from 1, of an update that was made by itself and the edit that it is,
    before the sequence with it is saved. Raises `DataError` for a file of another model.
    """
    earlier = load(lm, file)
    if {*earlier.seconds, *earlier.failed} - {case.case_id for case in cases}:
        file.remove()
        earlier = load(lm, file)
    total, seconds, failed = earlier.edit, dict(earlier.seconds), dict(earlier.failed)
    for first in range(0, len(cases), size):
        batch = cases[first : first + size]
        if all(case.case_id in seconds or case.case_id in failed for case in batch):
            continue
        with edited(lm, total, check=False):
            made = make_batch(lm, planned, batch)
        done = first + len(batch)
        seconds |= made.seconds
        failed |= made.failed
        if made.seconds:
            total = replace(total + made.edit, about={})
            if len(batch) == 1:
                each(done, made.edit)
        progress(done)
        if done // SAVE_EVERY > first // SAVE_EVERY or done == len(cases):
            save(JointEdit(total, seconds, failed), file)
    return JointEdit(total, seconds, failed)


def make_batch(lm: LanguageModel, planned: Planned, cases: Sequence[EditCase]) -> JointEdit:
    """All updates that can be asked for and that the model can read in one edit, each with its share of the seconds."""
    asked, unaskable = askable(cases, planned.method, planned.variant)
    reasons = {result.case_id: result.reason or "" for result in unaskable}
    reasons |= unreadable(lm, asked, planned.method)
    asked = [one for one in asked if one[0].case_id not in reasons]
    if not asked:
        return JointEdit(Edit(model=model_fingerprint(lm)), {}, reasons)
    edit = joint_edit(lm, planned, [request for _, requests in asked for request in requests])
    if isinstance(edit, Edit):
        return JointEdit(edit, {case.case_id: edit.about["seconds"] / len(asked) for case, _ in asked}, reasons)
    reasons |= {case.case_id: str(edit) for case, _ in asked}
    return JointEdit(Edit(model=model_fingerprint(lm)), {}, reasons)


def joint_edit(lm: LanguageModel, planned: Planned, requests: Sequence[EditRequest]) -> Edit | Failure:
    """One edit of all requests, or why there is none."""
    how = planned.settings, planned.resources, planned.sites
    return or_failure(lambda: make_edit(lm, planned.method, requests, *how))


def save(joint: JointEdit, file: EditFile) -> None:
    about = {"edits": len(joint.seconds), "seconds": joint.seconds, "failed": joint.failed}
    file.save(replace(joint.edit, about=about))


def load(lm: LanguageModel, file: EditFile) -> JointEdit:
    """What a file holds; nothing where there is none. Raises `DataError` where it is another model's."""
    if not file.is_there():
        return JointEdit(Edit(model=model_fingerprint(lm)))
    edit = file.load()
    if edit.model != model_fingerprint(lm):
        raise DataError(f"{file.run.path / file.name} belongs to another model; delete it and repeat the command")
    return JointEdit(replace(edit, about={}), edit.about["seconds"], edit.about["failed"])
