"""What a way costs: seconds and memory to make it, milliseconds a question, and whether an update can be taken back."""

import ctypes
import gc
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import inf, isfinite
from types import TracebackType

import torch

from anachron.core.errors import TooLongError
from anachron.data.updates.case_records import EditCase
from anachron.edit.base import Edit, edited, identified, owner_of
from anachron.edit.corpus import Corpus
from anachron.edit.failures import or_failure
from anachron.edit.methods import method_named
from anachron.edit.plan import Planned
from anachron.evaluate.joint_edits import JointEdit, make_batch
from anachron.evaluate.measures.perplexity import HeldText, perplexity, read_text
from anachron.evaluate.results import UNEDITED
from anachron.evaluate.retrieved import retrieved
from anachron.io.files import Json, json_fingerprint
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import RunFolder
from anachron.lm.generation import greedy_continuations, opened
from anachron.lm.model import LanguageModel
from anachron.lm.sites import is_plain

COSTS_FILE = "costs.json"
ASKED, WRITTEN = 20, 8  # questions that are timed, and tokens that the model writes behind each
EVERY = 0.005  # seconds between two readings of the memory of this process


@dataclass(frozen=True)
class Cost:
    """seconds: to make the edit. memory: bytes that the process, or the GPU, took meanwhile beyond what it held before.
    milliseconds: a question, from its text to `WRITTEN` tokens, one question at a time. takes_back: whether one update
    can be taken out of what was made; of weights changed together none can. perplexity: of the held text under the
    edit, None without one or where it is too long. found: of a way that searches passages, the share of the prompts, of
    an update and in other words, for which the update's own passage was found. reason: why nothing could be measured,
    else None."""

    seconds: float | None = None
    memory: int | None = None
    milliseconds: float | None = None
    takes_back: bool | None = None
    perplexity: float | None = None
    found: float | None = None
    reason: str | None = None

    def total(self, questions: int, unedited: "Cost") -> float:
        """Seconds to make it and to ask so many questions, beyond those of asking the unedited model; infinite where
        they are not known."""
        if self.seconds is None or self.milliseconds is None or unedited.milliseconds is None:
            return inf
        return self.seconds + questions * max(0.0, self.milliseconds - unedited.milliseconds) / 1000


def cost_of_unedited(lm: LanguageModel, prompts: Sequence[str], text: HeldText | None) -> Cost:
    """prompts: the questions that are timed, the same for all ways (`timed_prompts`)."""
    return _or_reason(lambda: Cost(0.0, 0, _milliseconds(lm, prompts), True, _perplexity(lm, text)))


def made_at_cost(
    lm: LanguageModel, planned: Planned, cases: Sequence[EditCase], prompts: Sequence[str], text: HeldText | None,
    unedited: Cost,
) -> tuple[JointEdit, Cost]:  # fmt: skip
    """These updates, made together by a way, and what that costs.

    unedited: its milliseconds are those of a way that changes weights alone: it computes the same for a question. A way
    that cannot make the updates has the reason in place of numbers.
    """
    with identified(lm), PeakMemory(lm) as memory:  # reading all weights is no part of making an edit
        started = time.perf_counter()
        joint = make_batch(lm, planned, cases)
        seconds = time.perf_counter() - started
    if not joint.seconds:
        return joint, Cost(reason=next(iter(joint.failed.values()), "no update could be made"))
    method = method_named(planned.method)
    takes_back = not any(part.changes_weights for part in method.parts or (method,))
    known = None if takes_longer(lm, joint.edit) else unedited.milliseconds

    def measured() -> Cost:
        with edited(lm, joint.edit, check=False):
            took = _milliseconds(lm, prompts) if known is None else known
            reads = None if joint.edit.passages else _perplexity(lm, text)  # running text is shown no passages
        return Cost(seconds, memory.bytes, took, takes_back, reads, _found(joint, planned, cases))

    return joint, _or_reason(measured)


def _or_reason(measured: Callable[[], Cost]) -> Cost:
    """What is measured, or why it could not be."""
    cost = or_failure(measured)
    return cost if isinstance(cost, Cost) else Cost(reason=str(cost))


def takes_longer(lm: LanguageModel, edit: Edit) -> bool:
    """Whether an edit is more than changes of weights, so that a question takes longer: quantised ones stay, and what
    changes is computed beside them."""
    hooked = any(not is_plain(owner_of(lm, name)) for name in edit.deltas)
    return bool(hooked or edit.prefix or edit.passages or edit.memories)


def _found(joint: JointEdit, planned: Planned, cases: Sequence[EditCase]) -> float | None:
    """Errors of retrieval apart from those of reading: an oracle, to which the passage is always shown, has these."""
    if joint.edit.passages is None:
        return None
    made = [case for case in cases if case.case_id in joint.seconds]
    places = retrieved(joint.edit.passages, made, planned.variant)["place"]
    return (places.len() - places.null_count()) / places.len()


def _perplexity(lm: LanguageModel, text: HeldText | None) -> float | None:
    """None too where the text does not fit behind the sentences that are put before it, and where it is infinite."""
    try:
        found = None if text is None else perplexity(lm, text)
    except TooLongError:
        return None
    return found if found is not None and isfinite(found) else None


def timed_prompts(cases: Sequence[EditCase]) -> list[str]:
    """The prompts of some updates, evenly spread."""
    return [case.text for case in cases[:: -(-len(cases) // ASKED)]]


def _milliseconds(lm: LanguageModel, prompts: Sequence[str]) -> float | None:
    """The middle one of the times of some prompts; the first is asked once more before. None where one, with what is
    put before it, leaves no room for the tokens that are written."""
    if lm.context_length is not None and any(
        len(tokens) + WRITTEN > lm.context_length for tokens in opened(lm, prompts)
    ):
        return None
    times = []
    for prompt in [prompts[0], *prompts]:
        started = time.perf_counter()
        greedy_continuations(lm, [prompt], WRITTEN)
        times.append(time.perf_counter() - started)
    times = sorted(times[1:])
    return 1000 * times[len(times) // 2]


@dataclass
class Costs:
    """Of ways, by how many updates are made together, each kept in a file of the run as soon as it is measured.

    cases: of which the first so many are made. text: of which perplexity is taken, and how many of its tokens.
    """

    lm: LanguageModel
    cases: Sequence[EditCase]
    text: Corpus | None
    text_tokens: int
    run: RunFolder
    callbacks: Callbacks

    def __post_init__(self) -> None:
        self._known: Json = self.run.read_json(COSTS_FILE) if self.run.has(COSTS_FILE, self.callbacks.warn) else {}

    @cached_property
    def _prompts(self) -> list[str]:
        return timed_prompts(self.cases)

    @cached_property
    def _text(self) -> HeldText | None:
        return None if self.text is None else read_text(self.lm, self.text, self.text_tokens)

    @property
    def unedited(self) -> Cost:
        """Measured where it is not known."""
        if UNEDITED not in self._known:
            self._keep(UNEDITED, cost_of_unedited(self.lm, self._prompts, self._text))
        return Cost(**self._known[UNEDITED])

    def make(self, lm: LanguageModel, planned: Planned, cases: Sequence[EditCase]) -> JointEdit:
        """Updates made together, as `make_batch`; of the first so many it is noted what they cost."""
        key = _key(len(cases), planned)
        if key in self._known or cases != self.cases[: len(cases)]:
            return make_batch(lm, planned, cases)
        joint, cost = made_at_cost(lm, planned, cases, self._prompts, self._text, self.unedited)
        self._keep(key, cost)
        return joint

    def of(self, size: int, planned: Planned) -> Cost:
        """Of the first so many updates; they are made where that was not noted."""
        if _key(size, planned) not in self._known:
            self.make(self.lm, planned, self.cases[:size])
        return Cost(**self._known[_key(size, planned)])

    def _keep(self, key: str, cost: Cost) -> None:
        self._known[key] = asdict(cost)
        self.run.write_json(COSTS_FILE, self._known)


def _key(size: int, planned: Planned) -> str:
    """What a cost is of: other settings of a way have other costs."""
    return f"{size} {planned.label} {json_fingerprint(planned.identity())}"


class PeakMemory:
    """The most memory beyond what was held at the start of the block, in ``bytes``: of the GPU that the model is on,
    else of this process, read every few milliseconds."""

    def __init__(self, lm: LanguageModel) -> None:
        self._device = lm.device if lm.device.type == "cuda" else None
        self.bytes = 0

    def __enter__(self) -> "PeakMemory":
        gc.collect()
        if self._device is not None:
            torch.cuda.reset_peak_memory_stats(self._device)
            self._before = torch.cuda.memory_allocated(self._device)
            return self
        import psutil

        # Memory that was freed would be taken anew without the process growing, so it is given back first; the C
        # libraries of other systems do that by themselves.
        if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
            library.malloc_trim(0)
        self._process, self._over = psutil.Process(), threading.Event()
        self._before = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def _read(self) -> None:
        while True:
            self.bytes = max(self.bytes, self._process.memory_info().rss - self._before)
            if self._over.wait(EVERY):
                return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._device is not None:
            self.bytes = torch.cuda.max_memory_allocated(self._device) - self._before
            return
        self._over.set()
        self._thread.join()
