"""The data set folder is read back by `datasets` and by this package, and its card says what is in it."""

import json
import re
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.core.errors import ConfigError
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.data.columns import MORE, PUBLISHED, to_published
from anachron.data.dataset import Dataset
from anachron.data.loaders import load_dataset
from anachron.data.statements import FactWithQuestion, make_statements
from anachron.io.files import file_fingerprint, read_json, write_manifest
from anachron.io.tables import write_table
from anachron.report.export.hub import (
    COLUMNS,
    HUB_LICENCES,
    MORE_COLUMNS,
    card,
    counts,
    export_hub,
    how_made,
    size_category,
)

pytestmark = pytest.mark.skipif(
    find_spec("datasets") is None or find_spec("yaml") is None, reason="pip install 'anachron[hub]'"
)


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No hub, and a cache that goes with the test."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True, raising=False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path


def front_matter(folder: Path) -> dict:
    import yaml

    return yaml.safe_load((folder / "README.md").read_text("utf-8").split("---\n")[1])


def paper_dataset() -> Dataset:
    """Coarse boundaries, a year before our era, text that needs quoting."""
    asked = [
        FactWithQuestion(
            Fact("A|B", 'the "r"', "Ö, Ø", Period("-0044", "0014"), "Q1", "P1", "Q2", 7.5), "who led A|B?", 3
        ),
        FactWithQuestion(Fact("C", "r2", "D", Period("2001", "2009-05")), "who led C?"),
    ]
    return Dataset("coarse", make_statements(asked, boundaries="paper"), "paper")


@pytest.mark.parametrize("which", ["five", "paper"])
def test_both_readers_read_it_back(which: str, five: Dataset, offline: Path):
    import datasets

    data = five if which == "five" else paper_dataset()
    export_hub(data, offline / "set")
    loaded = datasets.load_dataset(str(offline / "set"))
    assert list(loaded) == ["test"]
    assert tuple(loaded["test"].column_names) == PUBLISHED
    expected = to_published(data.table, data.boundaries)
    assert loaded["test"].to_list() == expected.to_dicts()
    ours = load_dataset(str(offline / "set"))
    assert ours.fingerprint() == data.fingerprint()
    assert ours.boundaries == data.boundaries
    assert ours.table.equals(data.table)


def test_the_folder_and_its_manifest(five: Dataset, tmp_path: Path):
    manifest = export_hub(five, tmp_path, licence="mit")
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()} == {
        "README.md", "croissant.json", "manifest.json", "data/test-00000-of-00001.parquet",
    }  # fmt: skip
    assert read_json(tmp_path / "manifest.json") == manifest
    assert manifest["files"] == {name: file_fingerprint(tmp_path / name) for name in manifest["files"]}
    assert export_hub(five, tmp_path, licence="mit") == manifest  # over itself, to the same bytes


def test_counts_against_plain_ones(five: Dataset):
    rows = five.table.to_dicts()
    found = counts(five.table)
    assert found["statements"] == len(rows)
    assert found["facts"] == len({r["fact_id"] for r in rows})
    assert found["relations"] == len({r["relation_id"] for r in rows})
    assert found["subjects"] == len({r["subject_label"] for r in rows})
    assert found["objects"] == len({r["object_label"] for r in rows})
    plain = Counter((r["granularity"], r["status"]) for r in rows)
    assert {(g, s): n for g, part in found["contexts"].items() for s, n in part.items() if n} == dict(plain)


def test_the_card_shows_the_counts_and_every_column(five: Dataset, tmp_path: Path):
    export_hub(five, tmp_path)
    text = (tmp_path / "README.md").read_text("utf-8")
    sizes = counts(five.table)
    assert set(COLUMNS) == set(PUBLISHED)
    for column in PUBLISHED:
        assert f"\n| `{column}` |" in text
    for what in ("facts", "statements", "relations", "subjects", "objects"):
        assert f"\n| {what} | {sizes[what]:,} |" in text
    (year,) = re.findall(r"^\| year \| (.+) \|$", text, re.MULTILINE)
    assert [int(cell.split()[0].replace(",", "")) for cell in year.split(" | ")] == list(
        sizes["contexts"]["year"].values()
    )
    for relation, facts in five.table.unique("fact_id")["relation_label"].value_counts().iter_rows():
        assert re.search(rf"^\| {re.escape(relation)} \| P\d+ \| {facts} \|", text, re.MULTILINE)
    assert five.fingerprint() in text
    assert "(unknown here, so empty)" in next(line for line in text.splitlines() if line.startswith("| `FactPop`"))
    empty = {line.split("`")[1] for line in text.splitlines() if "unknown here" in line}
    published = to_published(five.table, five.boundaries)
    assert empty == {name for name in PUBLISHED if published[name].null_count() == published.height}


def test_columns_that_only_some_data_sets_have_are_described_there(tmp_path: Path):
    fact = Fact("A", "r", "B", Period("2001", "2009"))
    data = Dataset("more", make_statements([FactWithQuestion(fact, "who?", subject_from="1990")]), "released")
    export_hub(data, tmp_path)
    text = (tmp_path / "README.md").read_text("utf-8")
    assert set(MORE_COLUMNS) == set(MORE)
    assert "\n| `SubjectFrom` |" in text and "ObjectFrom" not in text
    assert load_dataset(str(tmp_path / "data" / "test-00000-of-00001.parquet")).table.equals(data.table)


def test_the_front_matter_is_what_the_hub_reads(five: Dataset, tmp_path: Path):
    from huggingface_hub import DatasetCard

    export_hub(five.sample(2), tmp_path / "a")
    found = front_matter(tmp_path / "a")
    assert found["configs"] == [
        {"config_name": "default", "data_files": [{"split": "test", "path": "data/test-*.parquet"}]}
    ]
    assert found["language"] == ["en"]
    assert "license" not in found
    parsed = DatasetCard.load(tmp_path / "a" / "README.md").data
    assert parsed.task_categories == ["question-answering"]
    assert parsed.size_categories == [size_category(five.sample(2).table.height)]


@pytest.mark.parametrize(
    ("rows", "size"),
    [(1, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (232_212, "100K<n<1M"), (10_000_000, "n>10M")],
)
def test_size_categories(rows: int, size: str):
    assert size_category(rows) == size


def test_licences(five: Dataset, tmp_path: Path):
    two = five.sample(2)
    export_hub(Dataset("mini", two.table, "released"), tmp_path / "bundled")
    assert front_matter(tmp_path / "bundled")["license"] == "mit"
    with pytest.raises(ConfigError, match="mini is under mit"):
        export_hub(Dataset("mini", two.table, "released"), tmp_path / "x", licence="cc0-1.0")
    export_hub(two, tmp_path / "known", licence="CC-BY-4.0")
    assert front_matter(tmp_path / "known")["license"] == "cc-by-4.0"
    assert "license_name" not in front_matter(tmp_path / "known")
    export_hub(two, tmp_path / "own", licence='House "rules": v1')
    assert front_matter(tmp_path / "own")["license"] == "other"
    assert front_matter(tmp_path / "own")["license_name"] == 'House "rules": v1'
    assert 'House "rules": v1.' in (tmp_path / "own" / "README.md").read_text()
    export_hub(two, tmp_path / "none")
    assert "Not stated" in (tmp_path / "none" / "README.md").read_text()
    with pytest.raises(ConfigError, match="licence is empty"):
        export_hub(two, tmp_path / "y", licence=" ")
    assert all(name == name.lower() for name in HUB_LICENCES)
    assert not (tmp_path / "x").exists() and not (tmp_path / "y").exists()


def test_what_is_known_of_the_making_is_said_and_nothing_else(five: Dataset, tmp_path: Path):
    two = five.sample(2)
    bundled = Dataset("mini", two.table, "released")
    assert how_made(bundled)["seed"] == 0
    assert "common knowledge" in card(bundled, counts(two.table), how_made(bundled), "mit", "en")
    path = tmp_path / "two.parquet"
    write_table(path, to_published(two.table, "released"))
    data = load_dataset(str(path))
    assert how_made(data) == {}
    export_hub(data, tmp_path / "unknown")
    text = (tmp_path / "unknown" / "README.md").read_text()
    assert "Exported from `two.parquet`. There is no record of how that was made." in text
    assert str(tmp_path) not in text
    write_manifest(path, command="build statements", parameters={"seed": 42}, inputs={}, counts={})
    assert how_made(data) == {"command": "build statements", "seed": 42}
    export_hub(data, tmp_path / "known")
    assert "seed `42`" in (tmp_path / "known" / "README.md").read_text()
    write_table(path, to_published(two.table, "released").head(100))
    assert how_made(load_dataset(str(path))) == {}  # the manifest speaks of another content


def test_bad_use_writes_nothing(five: Dataset, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(ConfigError, match="language 'English'"):
        export_hub(five, tmp_path / "a", language="English")
    assert not (tmp_path / "a").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert run_command(["export", "hub", str(file), "--out", str(tmp_path / "full")], debug=False) == 2
    assert "not empty" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["x"]


def test_a_fresh_clone_is_an_empty_folder(five: Dataset, tmp_path: Path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitattributes").touch()
    assert (export_hub(five, tmp_path)["files"]).keys() == {
        "README.md", "croissant.json", "data/test-00000-of-00001.parquet",
    }  # fmt: skip


def test_the_command(five: Dataset, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    argv = ["export", "hub", str(file), "--out", str(tmp_path / "out")]
    assert run_command([*argv, "--json", "--licence", "mit"], debug=False) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"out": str(tmp_path / "out"), "licence": "mit", **counts(five.table)}
    assert run_command([*argv, "--language", "fr"], debug=False) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "states no licence" in err
    assert front_matter(tmp_path / "out")["language"] == ["fr"]


def test_a_table_cell_cannot_break_the_card():
    data = paper_dataset()
    text = card(data, counts(data.table), {}, None, "en")
    assert '| the "r" | P1 | 1 |' in text
    assert "Boundaries `paper`" in text


def test_an_interrupted_export_has_no_manifest(five: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    export_hub(five, tmp_path)
    monkeypatch.setattr(pl.DataFrame, "write_parquet", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        export_hub(five, tmp_path)
    assert not (tmp_path / "manifest.json").exists()
