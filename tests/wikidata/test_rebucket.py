"""More buckets for a snapshot: the bytes of an ingest with so many, and as many as a dump's size asks for."""

import json
from dataclasses import replace

import pytest

from anachron.cli.entry import run
from anachron.core.errors import ConfigError, DataError
from anachron.wikidata.reading import merge
from anachron.wikidata.reading import settings as chosen
from anachron.wikidata.reading.dump import Dump
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.rebucket import rebucket
from anachron.wikidata.reading.settings import IngestSettings, buckets_for
from anachron.wikidata.reading.snapshot import open_snapshot
from wikidata.dumps import write_dump
from wikidata.test_ingest import content, some_entities


@pytest.fixture
def dump(tmp_path):
    return write_dump(tmp_path / "d.json", some_entities(150))


@pytest.mark.parametrize(("few", "many"), [(1, 4), (4, 4), (2, 6)])
def test_a_snapshot_that_was_split_has_the_bytes_of_an_ingest(dump, tmp_path, monkeypatch, few, many):
    monkeypatch.setattr(merge, "ROW_GROUP", 16)
    settings = IngestSettings("2021-01-04", buckets=few)
    ingest(dump, tmp_path / "few", settings)
    ingest(dump, tmp_path / "many", replace(settings, buckets=many))
    (tmp_path / "few" / "popularity.parquet").write_bytes(b"views")
    (tmp_path / "many" / "popularity.parquet").write_bytes(b"views")
    made = rebucket(tmp_path / "few", many, tmp_path / "split")
    assert made.buckets == many and content(tmp_path / "split") == content(tmp_path / "many")
    assert rebucket(tmp_path / "few", many, tmp_path / "split").manifest == made.manifest


def test_an_interrupted_split_goes_on(dump, tmp_path, monkeypatch):
    ingest(dump, tmp_path / "s", IngestSettings("2021-01-04", buckets=2))
    rebucket(tmp_path / "s", 4, tmp_path / "whole")
    from anachron.wikidata.reading import rebucket as splitting

    real, parts = splitting._split, []

    def stop(part, *more):
        if len(parts) == 3:
            raise KeyboardInterrupt
        parts.append(part)
        real(part, *more)

    with monkeypatch.context() as patch:
        patch.setattr(splitting, "_split", stop)
        with pytest.raises(KeyboardInterrupt):
            rebucket(tmp_path / "s", 4, tmp_path / "again")
    with pytest.raises(DataError, match=r"has no manifest.json"):
        open_snapshot(tmp_path / "again")
    monkeypatch.setattr(splitting, "_split", lambda part, *more: parts.append(part) or real(part, *more))
    rebucket(tmp_path / "s", 4, tmp_path / "again")
    assert len(parts) == 4 and content(tmp_path / "again") == content(tmp_path / "whole")


def test_buckets_of_another_snapshot_are_not_taken(dump, tmp_path, monkeypatch):
    settings = IngestSettings("2021-01-04", buckets=2)
    other = write_dump(tmp_path / "other.json", some_entities(150, first=500))
    for source, folder in ((dump, "s"), (other, "other")):
        ingest(source, tmp_path / folder, settings)
    rebucket(tmp_path / "s", 4, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr("anachron.wikidata.reading.rebucket.read_bytes", lambda path: 1 / 0)  # all buckets are there
        with pytest.raises(ZeroDivisionError):
            rebucket(tmp_path / "other", 4, tmp_path / "t")
    for number, name in ((4, "snapshot"), (6, "buckets")):
        with pytest.raises(ConfigError, match=rf"unfinished work with other settings \(.*{name}: "):
            rebucket(tmp_path / "s", number, tmp_path / "t")
    with pytest.raises(ConfigError, match=r"unfinished work with other settings \(command: 'wikidata rebucket' -> "):
        ingest(dump, tmp_path / "t", replace(settings, buckets=4))
    (tmp_path / "t" / "work" / "job.json").unlink()
    rebucket(tmp_path / "s", 4, tmp_path / "t")
    assert content(tmp_path / "t") == content(tmp_path / "whole")


def test_page_views_of_another_snapshot_are_not_taken(dump, tmp_path):
    ingest(dump, tmp_path / "s", IngestSettings("2021-01-04", buckets=2))
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "popularity.parquet").write_bytes(b"views")
    with pytest.raises(ConfigError, match=r"holds popularity.parquet, which .* has not; remove it"):
        rebucket(tmp_path / "s", 4, tmp_path / "t")


def test_only_a_multiple_is_possible_and_another_snapshot_stays(dump, tmp_path):
    ingest(dump, tmp_path / "s", IngestSettings("2021-01-04", buckets=4))
    for number in (0, 2, 6, 1 << 20):
        with pytest.raises(ConfigError, match=f"{number} buckets: .* has 4"):
            rebucket(tmp_path / "s", number, tmp_path / "t")
    rebucket(tmp_path / "s", 8, tmp_path / "t")
    with pytest.raises(ConfigError, match="holds another snapshot"):
        rebucket(tmp_path / "s", 16, tmp_path / "t")


@pytest.mark.full
def test_the_size_of_a_dump_says_how_many_buckets(dump, tmp_path, monkeypatch):
    def of(gigabytes, compression):
        return buckets_for(Dump(dump, compression, "lines", int(gigabytes * 1e9), 1, ""))

    assert [of(size, "gz") for size in (0, 0.001, 0.03, 0.1, 2, 2.2, 110, 130)] == [1, 1, 2, 8, 32, 64, 2048, 2048]
    assert (of(75, "bz2"), of(1_500, "none"), of(90, "zst")) == (2048, 2048, 2048)
    assert (of(0.015, "gz"), of(0.012, "bz2"), of(0.2, "none")) == (1, 1, 1)  # some thousand items: a topic
    monkeypatch.setattr(chosen, "SMALL_BUCKETS", 2)
    monkeypatch.setattr(chosen, "BUCKET_BYTES", dict.fromkeys(("none", "gz", "bz2", "zst"), 4_096))
    settings = IngestSettings("2021-01-04")
    expected = 1 << (-(-dump.stat().st_size // 4_096) - 1).bit_length()
    assert ingest(dump, tmp_path / "s", settings)["options"]["buckets"] == expected > 4
    ingest(dump, tmp_path / "t", replace(settings, buckets=expected))
    assert content(tmp_path / "s") == content(tmp_path / "t")
    few = ingest(dump, tmp_path / "few", replace(settings, buckets=3))
    assert ingest(dump, tmp_path / "few", settings) == few  # what is there counts, where nothing is said


def test_the_command(dump, tmp_path, capsys):
    ingest(dump, tmp_path / "s", IngestSettings("2021-01-04", buckets=2))
    for words in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            run(["wikidata", "rebucket", str(tmp_path / "s"), "--buckets", "4", "--out", str(tmp_path / "t"), *words])
        assert ended.value.code == 0
    printed = capsys.readouterr()
    assert "4 buckets" in printed.err and json.loads(printed.out)["options"]["buckets"] == 4
