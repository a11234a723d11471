"""Run folders: what is refused, what is read back, and what is made again."""

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.io.files import read_json, write_json
from anachron.io.jobs import differences, locked
from anachron.io.run_folder import (
    FORMAT,
    Kind,
    RunFolder,
    in_words,
    kind_of,
    open_run,
)

SETTINGS = {"label": "gpt2", "format": "raw", "prefix": "none", "dtype": "float32", "revision": None, "seed": 0}
TABLE = pl.DataFrame({"name": ["a", "b", "c"], "logp": [-1.0, -2.5, -0.25]})


def made(folder: Path, **settings) -> RunFolder:
    run = RunFolder.open(folder, SETTINGS | settings)
    run.save()
    return run


def flip(file: Path, place: int = -20) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 4
    file.write_bytes(data)


def test_differences_name_old_and_new_values():
    old = {"dtype": "float32", "seed": 0, "prefix": "none", "gone": 1}
    new = {"dtype": "bfloat16", "seed": 0, "prefix": "none", "added": True}
    assert differences(old, new) == ["dtype: 'float32' -> 'bfloat16'", "gone: 1 -> nothing", "added: nothing -> True"]
    assert differences(old, dict(reversed(old.items()))) == []
    assert differences({"gone": None}, {}) == ["gone: None -> nothing"]


def test_differences_inside_a_setting_are_named_by_its_path():
    old = {"config": {"rope": {"theta": 10000.0, "type": "default"}, "layers": ["full", "sliding"], "eps": 1e-6}}
    new = {"config": {"layers": ["full", "full"], "rope": {"theta": 500000.0, "type": "default"}, "eps": 1e-6}}
    assert differences(old, new) == [
        "config.rope.theta: 10000.0 -> 500000.0", "config.layers[1]: 'sliding' -> 'full'"
    ]  # fmt: skip
    assert differences(old, {"config": {**old["config"], "rope": None}}) == [
        "config.rope: {'theta': 10000.0, 'type': 'default'} -> None"
    ]
    assert differences({"layers": [1]}, {"layers": [1, 2]}) == ["layers: [1] -> [1, 2]"]
    assert differences(old, json.loads(json.dumps(old))) == []


def test_differences_shorten_long_values():
    (line,) = differences({"prefix_text": ""}, {"prefix_text": "word " * 100})
    assert line.startswith("prefix_text: '' -> 'word word")
    assert line.endswith("...")
    assert len(line) < 100


def test_a_folder_that_cannot_be_locked_says_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("I am no folder")
    lock = tmp_path / "file" / "cache" / ".lock"
    with (
        pytest.raises(BackendError, match=r"cannot write to .*; choose another cache$"),
        locked(lock, lock.parent, elsewhere="choose another cache"),
    ):
        pass


def test_new_run_in_a_missing_an_empty_or_a_locked_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked" / ".lock").touch()
    for name in ("missing", "empty", "locked"):
        run = RunFolder.open(tmp_path / name, SETTINGS)
        assert run.record["settings"] == SETTINGS
        assert (run.is_done, run.record["sessions"], run.record["files"]) == (False, [], {})
    assert not (tmp_path / "missing").exists()


def test_same_settings_give_the_stored_record_back(tmp_path):
    run = made(tmp_path, dataset="here")
    run.record |= {"started": "2020-01-01T00:00:00+00:00", "sessions": [{"statements": 3, "by number": {7: 1, 10: 2}}]}
    run.save()
    again = RunFolder.open(tmp_path, SETTINGS | {"dataset": "elsewhere"})
    assert again.record == json.loads(json.dumps(run.record))


def test_other_settings_are_refused_with_the_difference(tmp_path):
    stored = made(tmp_path).record
    with pytest.raises(ConfigError) as caught:
        RunFolder.open(tmp_path, SETTINGS | {"dtype": "bfloat16", "seed": 4})
    message = str(caught.value)
    assert str(tmp_path) in message
    assert "(precision of the weights (dtype): 'float32' -> 'bfloat16'; seed: 0 -> 4)" in message
    assert "label" not in message
    assert "choose another --out" in message
    assert RunFolder.read(tmp_path).record == stored


def test_what_changes_numbers_most_is_told_first_and_the_rest_by_name():
    old = {"seed": 0, "config": {"eps": 1e-6, "rope": 1}, "prefix": "none", "dtype": "float32", "zeta": 1}
    new = {"seed": 1, "config": {"eps": 1e-5, "rope": 2}, "prefix": "few-shot", "dtype": "bfloat16", "zeta": 2}
    prints = {"dataset_fingerprint": "0123456789abcdef" * 4}, {"dataset_fingerprint": "f" * 64}
    assert in_words(differences(old | prints[0], new | prints[1])) == (
        "precision of the weights (dtype): 'float32' -> 'bfloat16'; "
        "facts or statements asked about (dataset_fingerprint): 01234567... -> ffffffff...; "
        "text before each prompt (prefix): 'none' -> 'few-shot'; "
        "and 4 more: config.eps, config.rope, seed, zeta"
    )
    assert in_words(differences(old, json.loads(json.dumps(old)))) == ""
    assert in_words(differences({"zeta": [1, 2]}, {"zeta": [1, 3]})) == "zeta[1]: 2 -> 3"


def test_where_only_the_data_differs_the_way_to_reuse_it_is_named(tmp_path):
    made(tmp_path, dataset_fingerprint="a").save()
    with pytest.raises(ConfigError, match=rf"with --reuse {tmp_path} to score only what is new\) or the same"):
        RunFolder.open(tmp_path, SETTINGS | {"dataset_fingerprint": "b"})
    with pytest.raises(ConfigError, match=r"choose another --out or the same"):
        RunFolder.open(tmp_path, SETTINGS | {"dataset_fingerprint": "b", "seed": 4})


def test_foreign_files_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for place in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(ConfigError, match=r"is not empty and holds no run\.json"):
            RunFolder.open(place, SETTINGS)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "content", ['"run"', "[]", "{}", '{"settings": 3}', "{", "", "[" * 100_000, '{"a": "\\ud800"}']
)
def test_a_record_that_is_none_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(DataError, match=r"run\.json.*repeat the command .* with a new --out") as caught:
        RunFolder.open(tmp_path, SETTINGS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": None}, "its status is None"), ({"status": "finished"}, "status is 'finished', not running or done"),
        ({"files": []}, r"its files is \[\]"), ({"sessions": {}}, r"its sessions is \{\}"),
        ({"settings": 1}, "its settings is 1"),
        ({"format": 3}, "its format is 3, not 2"), ({"format": None}, "its format is None, not 2"),
    ],
)  # fmt: skip
def test_a_record_of_another_shape_is_refused_in_one_line(tmp_path, change, said):
    """As it was written, so its own checksum is right."""
    run = made(tmp_path)
    run.record |= change
    run.record = {name: value for name, value in run.record.items() if value is not None}
    run.save()
    with pytest.raises(DataError, match=said):
        RunFolder.read(tmp_path)


def test_a_run_of_an_earlier_version_is_refused(tmp_path):
    write_json(tmp_path / "run.json", {"status": "done", "settings": SETTINGS, "started": "2025", "sessions": []})
    for read in (RunFolder.read, lambda folder: RunFolder.open(folder, SETTINGS)):
        with pytest.raises(DataError, match=r"earlier version.*not trusted.*new --out"):
            read(tmp_path)


def test_every_bit_of_a_record_counts(tmp_path):
    """Each is flipped in turn: the record is refused, or its content is the same (white space between words)."""
    stored = made(tmp_path).record
    file = tmp_path / "run.json"
    good, same = file.read_bytes(), 0
    for place in range(len(good)):
        file.write_bytes(good[:place] + bytes([good[place] ^ (1 << place % 8)]) + good[place + 1 :])
        try:
            assert RunFolder.read(tmp_path).record == stored
        except DataError as error:
            assert "\n" not in str(error)
        else:
            same += 1
    assert same < len(good) / 20


def test_the_checksum_of_a_record_is_that_of_its_content(tmp_path):
    stored = read_json(made(tmp_path).path / "run.json")
    said = stored.pop("sha256")
    assert said == hashlib.sha256(json.dumps(stored).encode()).hexdigest()
    assert stored["format"] == FORMAT


@pytest.mark.parametrize("left", [".plan.parquet.7.abcd0123.tmp", ".run.json.7.abcd0123.tmp"])
def test_a_run_killed_at_its_start_is_no_foreign_folder(tmp_path, left):
    (tmp_path / ".lock").touch()
    (tmp_path / left).touch()
    assert not RunFolder.open(tmp_path, SETTINGS).is_done


def test_files_are_recorded_and_read_back(tmp_path):
    run = made(tmp_path)
    run.write_table("parts/a.parquet", TABLE)
    run.write_json("b.json", {"n": [1, None]})
    (tmp_path / "c.bin").write_bytes(b"made elsewhere")
    run.keep("c.bin")
    again = RunFolder.read(tmp_path)
    written = {name: (tmp_path / name).read_bytes() for name in ("parts/a.parquet", "b.json", "c.bin")}
    assert again.record["files"] == {name: hashlib.sha256(data).hexdigest() for name, data in written.items()}
    assert again.read_table("parts/a.parquet").equals(TABLE)
    assert again.read_json("b.json") == {"n": [1, None]}
    assert all(map(again.has, again.record["files"]))
    again.forget(["b.json", "parts/a.parquet", "never.made"])
    assert list(RunFolder.read(tmp_path).record["files"]) == ["c.bin"] and not (tmp_path / "b.json").exists()


@pytest.mark.parametrize(
    ("damage", "told", "refused"),
    [
        (flip, "is damaged", "is damaged"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "is damaged", "is damaged"),
        (lambda file: file.write_bytes(b""), "is damaged", "is damaged"),
        (Path.unlink, "is missing, though run.json names it", "cannot read"),
    ],
)
def test_a_file_that_is_not_as_it_was_written_is_told_and_refused(tmp_path, damage, told, refused):
    run = made(tmp_path)
    run.write_table("a.parquet", TABLE)
    damage(tmp_path / "a.parquet")
    said: list[str] = []
    assert not run.has("a.parquet", said.append)
    assert len(said) == 1 and told in said[0] and "a.parquet" in said[0] and "made again" in said[0]
    with pytest.raises(DataError, match=refused):
        run.read_table("a.parquet")


def test_a_file_without_a_checksum_is_told_and_refused(tmp_path):
    run, said = made(tmp_path), []
    TABLE.write_parquet(tmp_path / "a.parquet")
    assert not run.has("a.parquet", said.append) and "is not in run.json" in said[0]
    with pytest.raises(DataError, match=r"not among the files of .*run\.json; repeat the command"):
        run.read_table("a.parquet")
    assert not run.has("nothing.parquet", said.append) and len(said) == 1  # was never made: nothing to tell


def test_leftovers_of_killed_writers_are_removed_where_the_run_writes(tmp_path):
    run, name = made(tmp_path), ".part.parquet.1.0123abcd.tmp"  # of a process that certainly runs: the lock says enough
    for place in ("", "scores", "FT/after-00001", "metrics"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / name).touch()
    (tmp_path / "scores" / ".mine.tmp").touch()
    run.remove_leftovers("scores", "FT", "missing")
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob(".*.tmp"))
    assert left == [f"metrics/{name}", "scores/.mine.tmp"]


def test_a_run_says_its_kind_and_older_records_are_told_by_their_settings(tmp_path: Path) -> None:
    for kind in Kind:
        with open_run(tmp_path / kind, {"label": "m"}, kind) as run:
            run.finish()
        assert kind_of(tmp_path / kind) == kind == RunFolder.read(tmp_path / kind).record["kind"]
    older = {
        Kind.SCORES: {"label": "m"}, Kind.ANSWERS: {"what": "asked"}, Kind.CHANGES: {"what": "horizon"},
        Kind.EDITS: {"mode": "batch", "number_of_updates": 3},
    }  # fmt: skip
    for kind, settings in older.items():
        folder = tmp_path / f"older {kind}"
        with open_run(folder, settings, kind) as run:
            del run.record["kind"]
            run.finish()
        assert kind_of(folder) == kind
        with open_run(folder, settings, kind) as run:
            assert run.record["kind"] == kind
    assert kind_of(tmp_path) is None and kind_of(tmp_path / "nothing") is None
    (tmp_path / "run.json").write_text("[]")
    assert kind_of(tmp_path) is None
