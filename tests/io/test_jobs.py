"""Every job that can be resumed: killed at any write, gone on with, and refused to whoever has other settings."""

import inspect
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.core.errors import ConfigError, DataError
from anachron.io.jobs import Callbacks, begin, begun, discard, locked
from anachron.io.run_folder import Kind, open_run
from support.resumable_runs import JOBS, Killed, Resumable, files, killed_at, result, squares


@dataclass(frozen=True)
class Whole:
    """A job, its inputs, the folder that it was done in without an interruption, and how often it wrote."""

    job: Resumable
    inputs: Path
    folder: Path
    writes: int

    def run(self, out: Path, changed: Sequence[str] = ()) -> None:
        self.job.run(out, self.inputs, **{name: self.job.changes[name][0] for name in changed})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Whole]:
    done: dict[str, Whole] = {}

    def of(name: str) -> Whole:
        if name not in done:
            place = tmp_path_factory.mktemp(name.replace(" ", "-"))
            (place / "inputs").mkdir()
            JOBS[name].prepare(place / "inputs")
            (place / "whole").mkdir()
            with killed_at(0) as writes:
                JOBS[name].run(place / "whole", place / "inputs")
            done[name] = Whole(JOBS[name], place / "inputs", place / "whole", len(writes))
        return done[name]

    return of


@pytest.mark.share(2)
@pytest.mark.few(1)
@pytest.mark.parametrize("name", JOBS)
@settings(max_examples=max(4, settings.default.max_examples // 20))
@given(kills=st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=3))
def test_killed_at_any_writes_and_resumed_it_leaves_the_same(
    whole: Callable[[str], Whole], name: str, kills: list[tuple[float, bool]]
):
    job = whole(name)
    with TemporaryDirectory() as place:
        out = Path(place) / "whole"
        out.mkdir()
        for share, renamed in kills:
            with killed_at(1 + int(share * (job.writes - 1)), renamed=renamed), suppress(Killed):
                job.run(out)
        job.run(out)
        assert result(out) == result(job.folder)


def changed_sets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Each alone, and all of them."""
    return list(dict.fromkeys([*combinations(names, 1), tuple(names)])) if names else []


def refusal(run: Callable[[], Any]) -> str:
    with pytest.raises(ConfigError) as error:
        run()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", JOBS)
def test_other_settings_are_refused_by_exactly_what_differs(whole: Callable[[str], Whole], tmp_path: Path, name: str):
    job = whole(name)
    (tmp_path / "unfinished").mkdir()
    with killed_at(max(2, job.writes // 3)), pytest.raises(Killed):
        job.run(tmp_path / "unfinished")
    for folder, names in ((tmp_path / "unfinished", tuple(job.job.changes)), (job.folder, job.job.kept)):
        before = files(folder)
        for changed in changed_sets(names):
            message = refusal(lambda folder=folder, changed=changed: job.run(folder, changed))
            start, _, rest = message.partition(" with other settings (")
            differences, _, fix = rest.partition("); ")
            assert start.startswith(str(folder)) and " holds " in start
            assert sorted(differences.split("; ")) == sorted(job.job.changes[one][1] for one in changed)
            assert fix == f"{job.job.elsewhere} or the same settings"
        assert files(folder) == before


@pytest.mark.parametrize("name", [name for name in JOBS if name != "covariance"])  # which waits: tests/edit
def test_a_second_process_is_refused(whole: Callable[[str], Whole], tmp_path: Path, name: str):
    job = whole(name)
    with killed_at(2), pytest.raises(Killed):
        job.run(tmp_path)
    lock = job.job.lock
    (held,) = tmp_path.glob(lock) if "*" in lock else [tmp_path / lock]
    before = files(tmp_path)
    with locked(held, tmp_path):
        message = refusal(lambda: job.run(tmp_path))
    assert message.endswith(f" is in use by another process; wait for it or {job.job.elsewhere}")
    assert files(tmp_path) == before


def test_a_seventh_job_takes_fewer_than_twenty_lines(tmp_path: Path):
    assert len(inspect.getsource(squares).splitlines()) < 20
    told: list[Any] = []
    callbacks = Callbacks(told.append, lambda done, total: told.append((done, total)))
    assert squares(3, tmp_path, callbacks) == [0, 1, 4]
    (tmp_path / "parts" / "1.json").write_text("5")
    assert squares(3, tmp_path, callbacks) == [0, 1, 4]
    assert (
        told[:4] == [(1, 3), (2, 3), (3, 3), (1, 3)] and "1.json is damaged" in told[4] and told[5:] == [(2, 3), (3, 3)]
    )


# Work folders


def test_a_work_folder_is_gone_on_with_by_the_same_identity_only(tmp_path: Path):
    work, identity = tmp_path / "work", {"layers": (1, 2), "about": {"seed": 0}}
    assert begun(work) is None
    first = begin(work, identity)
    (work / "part").touch()
    assert begin(work, identity) == begun(work) and begun(work)["started"] == first["started"]
    with pytest.raises(ConfigError, match=r"holds unfinished work with other settings \(about\.seed: 0 -> 1\); choose"):
        begin(work, identity | {"about": {"seed": 1}})
    assert (work / "part").exists()
    discard(work)
    discard(work)
    assert not work.exists()


def test_parts_without_a_record_count_for_nothing(tmp_path: Path):
    """As a process leaves them that is killed while it removes its work."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "part").touch()
    begin(tmp_path / "work", {"seed": 0})
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["job.json"]


@pytest.mark.parametrize("content", ["{}", "[]", '{"identity": {}}', '{"started": "now", "identity": 3}', "{"])
def test_a_record_of_work_that_is_none_is_refused_in_one_line(tmp_path: Path, content: str):
    (tmp_path / "job.json").write_text(content)
    with pytest.raises(DataError, match=r"job\.json") as error:
        begin(tmp_path, {})
    assert "\n" not in str(error.value)


def test_a_run_folder_is_locked_while_it_is_open(tmp_path: Path):
    with open_run(tmp_path, {"seed": 0}, Kind.SCORES) as run:
        run.save()
        with (
            pytest.raises(ConfigError, match="in use by another process"),
            open_run(tmp_path, {"seed": 0}, Kind.SCORES),
        ):
            pass
    with open_run(tmp_path, {"seed": 0}, Kind.SCORES) as run:
        assert not run.is_done


# Callbacks


def test_a_step_has_a_bar_of_its_own_or_tells_the_progress_of_the_job():
    told: list[object] = []

    @contextmanager
    def bar(title: str, unit: str):
        told.append(f"{title} in {unit}")
        yield lambda done, total, note="": told.append((title, done, total))
        told.append(f"end of {title}")

    for callbacks in (Callbacks(open_bar=bar), Callbacks(progress=lambda *words: told.append(words))):
        with callbacks.bar("one") as step:
            step.progress(1, 2)
        with callbacks.bars("bytes") as progress:
            for name, done in (("a", 1), ("a", 2), ("b", 3)):
                progress(name, done, 3)
    assert told == [
        "one in items", ("one", 1, 2), "end of one", "a in bytes", ("a", 1, 3), ("a", 2, 3), "end of a", "b in bytes",
        ("b", 3, 3), "end of b", (1, 2), (1, 3, "a"), (2, 3, "a"), (3, 3, "b"),
    ]  # fmt: skip
