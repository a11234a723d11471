"""What is kept of answers: all of one or nothing, runs apart, entities shared."""

import os
import sqlite3
from contextlib import closing

import pytest

from anachron.core.errors import BackendError, DataError
from anachron.wikidata.topic.kept import DRY, Kept, default_cache, file_of


def test_an_answer_is_there_as_a_whole_or_not_at_all(tmp_path):
    with Kept(tmp_path / "kept.sqlite", "one") as kept:
        with kept.answer():
            kept.put("outcome", "Q1", {"state": "found"})
            kept.put_entity("Q1", 5, b"{}")
        with pytest.raises(KeyError), kept.answer():
            kept.put("outcome", "Q2", {})
            kept.put_entity("Q2", 6, b"{}")
            raise KeyError
        assert kept.all("outcome") == {"Q1": {"state": "found"}}
    with Kept(tmp_path / "kept.sqlite", "two") as other:
        assert other.all("outcome") == {} and other.get("outcome", "Q1") is None
        assert other.entity("Q1", 5) == b"{}" and other.has("Q1") and not other.has("Q2")
        assert other.has("Q1", 5) and not other.has("Q1", 6)
        other.forget()
    with Kept(tmp_path / "kept.sqlite", "one") as kept:
        assert kept.get("outcome", "Q1") == {"state": "found"}
        kept.forget()
        assert kept.all("outcome") == {} and kept.has("Q1", 5)


def test_another_file_is_refused(tmp_path):
    (tmp_path / "text.sqlite").write_text("no database, " * 100)
    with pytest.raises(DataError, match=r"text\.sqlite"), Kept(tmp_path / "text.sqlite", "one"):
        pass
    with sqlite3.connect(tmp_path / "later.sqlite") as file:
        file.execute("pragma user_version = 9")
    with pytest.raises(DataError, match="format 9"), Kept(tmp_path / "later.sqlite", "one"):
        pass


def test_a_new_job_leaves_nothing_of_those_before(tmp_path):
    def rows():
        with sqlite3.connect(tmp_path / "kept.sqlite") as file:
            return sorted(file.execute("select distinct run from answers").fetchall())

    for run, job in (("/a", 1), ("/a b", 1), (f"{DRY}7", 1)):
        with Kept(tmp_path / "kept.sqlite", run) as kept, kept.answer():
            kept.put("ids", "", [run, job])
            kept.put_entity("Q1", job, b"{}")
    with Kept(tmp_path / "kept.sqlite", "/a") as kept:
        kept.begin({"started": 2, "identity": {"b": 1, "a": (2,)}})
        assert kept.get("ids") is None and kept.has("Q1") and rows() == [("/a",), ("/a b",)]
        with kept.answer():
            kept.put("ids", "", ["Q1"])
        kept.begin({"identity": {"a": [2], "b": 1}, "started": 2})  # the same, as it is read from the record
        assert kept.get("ids") == ["Q1"]
        kept.begin({"started": 3})
        assert kept.get("ids") is None


def test_what_hinders_writing_is_told_with_what_helps(tmp_path):
    path = tmp_path / "kept.sqlite"
    with Kept(path, "one") as kept:
        kept._file.execute("pragma busy_timeout = 0")
        with closing(sqlite3.connect(path)) as other:
            other.execute("begin immediate")
            with pytest.raises(BackendError, match=r"kept\.sqlite \(database is locked\): another command is writing"):
                kept.forget()
        kept._file.execute("pragma max_page_count = 1")
        with pytest.raises(BackendError, match=r"is full\): the disk is full: make room"), kept.answer():
            kept.put("ids", "", "x" * 100_000)
        assert kept.get("ids") is None
        with pytest.raises(OSError, match="mine"), kept.answer():  # what another file says is not about this one
            raise OSError("mine")
    with pytest.raises(BackendError, match=r"cannot write .* on a disk of this machine; choose one with --cache"):
        Kept(path / "below.sqlite", "one").__enter__()


def test_the_cache_is_the_users_with_a_file_a_site(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "anachron" / "wikidata"
    names = {file_of(tmp_path, url).name for url in ("https://www.wikidata.org", "http://a.b:80/w", "http://a.b:81/w")}
    assert names == {"www.wikidata.org.sqlite", "a.b_80_w.sqlite", "a.b_81_w.sqlite"}
    assert os.sep not in file_of(tmp_path, "https://x/../../y").name
