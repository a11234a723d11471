"""Scores taken over from an earlier run: bit for bit, of the same texts by the same model, and nothing is lost."""

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.core.errors import ConfigError, DataError
from anachron.data.bundled.mini import mini_facts
from anachron.data.dataset import Dataset
from anachron.data.decoys import without_decoys
from anachron.data.loaders import load_dataset
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import RunFolder
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.spans import Encoded
from anachron.probe.by_scores import ByScores
from anachron.probe.check.check import check
from anachron.probe.check.questions import read_facts
from anachron.probe.reuse import text_digests
from anachron.probe.run import ProbeSettings, run_probe
from anachron.probe.runs import part_name
from support.resumable_runs import Killed, killed_at
from support.small_runs import in_small_parts

pytestmark = pytest.mark.full  # each makes runs of its own
BOUND = 1e-4  # nats; far above what rounding does to the bundled model in float32
KEY = ["fact_id", "granularity", "time", "object_label"]


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("demo")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_parts(monkeypatch, 50)


@pytest.fixture
def edited(brief: Dataset) -> Dataset:
    """The data set with another object of its first fact."""
    first = pl.col("fact_id") == brief.table["fact_id"][0]
    other = pl.when(first).then(pl.lit("Zanzibar"))
    answers = {name: other.otherwise(name).alias(name) for name in ("answer", "object_label")}
    return replace(brief, table=brief.table.with_columns(**answers))


def scored_texts(lm: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> list[Encoded]:
    """Every text that a model scores from now on for a run, without those that are scored once more for the noise."""
    seen: list[Encoded] = []
    score = lm.score_parts

    def watched(encoded: Any, parts: Any, **options: Any) -> Any:
        if any(plan.batch_tokens for plan in parts.values()):  # the noise is measured in batches without a limit
            seen.extend(encoded[i] for plan in parts.values() for i in plan.texts)
        return score(encoded, parts, **options)

    monkeypatch.setattr(lm, "score_parts", watched)
    return seen


def texts_of(lm: LanguageModel, data: Dataset) -> set[Encoded]:
    pairs = [(prompt, answer, None) for prompt, answer in data.statements().select("prompt", "answer").iter_rows()]
    return set(lm.encode(pairs))


def assert_taken_over(new: Any, old: Any, fresh: Any, changed: set[str]) -> None:
    """Rows of the same texts have the bits of the earlier run, the others are those of a fresh run but for rounding."""
    assert new.scores.drop("logp", "model").equals(fresh.scores.drop("logp", "model"))
    np.testing.assert_allclose(new.scores["logp"], fresh.scores["logp"], atol=BOUND, rtol=0)
    both = new.scores.filter(~pl.col("fact_id").is_in(changed)).join(old.scores, on=KEY, suffix="_before")
    assert both.height and both["logp"].equals(both["logp_before"].rename("logp"))


def test_only_what_is_new_is_scored(brief: Dataset, edited: Dataset, lm: LanguageModel, tmp_path: Path, monkeypatch):
    old, fresh = run_probe(lm, brief, tmp_path / "old"), run_probe(lm, edited, tmp_path / "fresh")
    seen = scored_texts(lm, monkeypatch)
    told: list[str] = []
    new = run_probe(lm, edited, tmp_path / "new", reuse=tmp_path / "old", callbacks=Callbacks(notice=told.append))
    wanted = texts_of(lm, edited) - texts_of(lm, brief)
    assert set(seen) == wanted and len(seen) == len(wanted)
    assert_taken_over(new, old, fresh, {brief.table["fact_id"][0]})
    reused = new.record["reused"]
    assert reused["from"] == [str(tmp_path / "old")] and new.record["texts"] - reused["texts"] == len(wanted)
    assert new.record["sessions"][0]["tokens_computed"] == new.record["tokens_planned"]
    assert new.noise >= old.noise == reused["noise"]
    assert told == [
        f"{reused['texts']:,} of {new.record['texts']:,} texts have the scores that they had in {tmp_path / 'old'}; "
        f"{len(wanted):,} are new"
    ]
    # the earlier run may go: neither a repeated command nor one that goes on needs it
    shutil.rmtree(tmp_path / "old")
    run = RunFolder.read(tmp_path / "new")
    run.record["status"] = "running"
    run.forget(["scores.parquet", *(name for name in run.record["files"] if name.startswith("scores/"))])
    again = run_probe(lm, edited, tmp_path / "new")
    assert again.scores.equals(new.scores)


def test_what_was_taken_over_is_taken_over_again(brief: Dataset, edited: Dataset, lm: LanguageModel, tmp_path: Path):
    """Along a chain of runs, and of a run that was killed half-way what it has."""
    run_probe(lm, brief, tmp_path / "a")
    half = RunFolder.read(tmp_path / "a")
    half.record["status"] = "running"
    del half.record["noise"]
    half.forget(["scores.parquet", part_name(1)])
    b = run_probe(lm, edited, tmp_path / "b", reuse=tmp_path / "a")
    c = run_probe(lm, edited, tmp_path / "c", reuse=tmp_path / "b")
    assert 0 < b.record["reused"]["texts"] < b.record["texts"] and b.record["reused"]["noise"] is None
    assert c.record["reused"]["texts"] == c.record["texts"] and c.record["tokens_planned"] == 0
    assert c.scores.equals(b.scores) and c.noise >= b.noise


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (ProbeSettings(prefix="hierarchy"), "text before each prompt (prefix): 'none' -> 'hierarchy'"),
        (ProbeSettings(prefix_tree=False), "shared beginnings computed once (prefix_tree): True -> False"),
        (ProbeSettings(seed=1), "seed: 0 -> 1"),
        ("bfloat16", "precision of the weights (dtype): 'float32' -> 'bfloat16'"),
        ("demo-untrained", "model: 'demo' -> 'demo-untrained'"),
    ],
)
def test_another_model_or_another_way_reuses_nothing_and_says_why(
    brief: Dataset, lm: LanguageModel, tmp_path: Path, other: Any, why: str
):
    small = replace(brief, table=brief.table.head(40))
    run_probe(lm, small, tmp_path / "old")
    settings, model = (other, lm) if isinstance(other, ProbeSettings) else (None, None)
    model = model or (load_model(other) if other.startswith("demo") else load_model("demo", dtype=other))
    told: list[str] = []
    new = run_probe(
        model, small, tmp_path / "new", settings, reuse=tmp_path / "old", callbacks=Callbacks(warn=told.append)
    )
    assert "reused" not in new.record and why in " ".join(told) and "nothing is reused of" in " ".join(told)
    assert new.record["sessions"][0]["statements"] == small.table.height


def test_a_folder_that_holds_no_scores_is_refused(brief: Dataset, lm: LanguageModel, tmp_path: Path):
    with pytest.raises(DataError, match="no run here"):
        run_probe(lm, brief, tmp_path / "new", reuse=tmp_path)
    assert not (tmp_path / "new").exists()
    RunFolder.new(tmp_path / "asked", {"what": "asked"}).save()
    with pytest.raises(ConfigError, match="--answers"):
        run_probe(lm, brief, tmp_path / "new", reuse=tmp_path / "asked")


def test_a_run_of_an_earlier_version_says_that_it_cannot_be_reused(brief: Dataset, lm: LanguageModel, tmp_path: Path):
    small = replace(brief, table=brief.table.head(20))
    run_probe(lm, small, tmp_path / "old")
    RunFolder.read(tmp_path / "old").forget(["texts.parquet"])
    told: list[str] = []
    new = run_probe(lm, small, tmp_path / "new", reuse=tmp_path / "old", callbacks=Callbacks(warn=told.append))
    assert "reused" not in new.record and "earlier version" in told[0]


def test_a_text_is_its_tokens_and_which_of_them_are_scored():
    texts = [
        Encoded((1, 2, 3), (2,)), Encoded((1, 2, 3), (1, 2)), Encoded((1, 2), (3, 2)), Encoded((1, 2, 3, 2), ()),
        Encoded((2, 1, 3), (2,)),
    ]  # fmt: skip
    assert len(set(text_digests(texts))) == len(texts) and text_digests(texts[:1]) == text_digests([texts[0]])
    assert {len(one) for one in text_digests(texts)} == {16}


# In the same folder


def test_an_edited_file_goes_on_in_its_folder_and_the_way_back_asks_nothing(
    brief: Dataset, edited: Dataset, lm: LanguageModel, tmp_path: Path, monkeypatch
):
    old = run_probe(lm, brief, tmp_path / "run")
    fresh = run_probe(lm, edited, tmp_path / "fresh")
    with pytest.raises(ConfigError, match=r"\(dataset_fingerprint\).*--reuse"):
        run_probe(lm, edited, tmp_path / "run")  # unless it is said that the folder may go on
    seen = scored_texts(lm, monkeypatch)
    new = run_probe(lm, edited, tmp_path / "run", renew=True)
    assert set(seen) == texts_of(lm, edited) - texts_of(lm, brief)
    assert_taken_over(new, old, fresh, {brief.table["fact_id"][0]})
    assert len(list((tmp_path / "run").glob("reused-*.parquet"))) == 1
    seen.clear()
    back = run_probe(lm, brief, tmp_path / "run", renew=True)
    assert not seen and back.scores.equals(old.scores)


@pytest.mark.parametrize("differs", ["name", "seed", "model"])
def test_a_run_of_something_else_is_never_replaced(
    brief: Dataset, edited: Dataset, lm: LanguageModel, tmp_path: Path, differs: str
):
    old = run_probe(lm, brief, tmp_path / "run")
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    data = replace(edited, name="elsewhere.csv") if differs == "name" else edited
    settings = ProbeSettings(seed=1) if differs == "seed" else None
    model = load_model("demo-untrained") if differs == "model" else lm
    with pytest.raises(ConfigError, match="other settings"):
        run_probe(model, data, tmp_path / "run", settings, renew=True)
    assert {p.name: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == before
    assert run_probe(lm, brief, tmp_path / "run").scores.equals(old.scores)


def _kills(work: Callable[[Path], object], start: Path, tmp_path: Path) -> list[Path]:
    """A copy of a folder for each moment at which the work on it can be killed: at its writes and its removals."""
    folders = []
    for renamed in (False, True):
        for number in count(1):
            folder = shutil.copytree(start, tmp_path / f"write-{number}-{renamed}")
            try:
                with killed_at(number, renamed=renamed):
                    work(folder)
            except Killed:
                folders.append(folder)
            else:
                break
    unlink = Path.unlink
    for number in count(1):
        folder, left = shutil.copytree(start, tmp_path / f"unlink-{number}"), [number]

        def removed(path: Path, missing_ok: bool = False, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            unlink(path, missing_ok=missing_ok)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "unlink", removed)
            try:
                work(folder)
            except Killed:
                folders.append(folder)
                continue
        return folders


@pytest.mark.slow
@pytest.mark.full
def test_killed_at_any_moment_nothing_is_scored_twice(
    brief: Dataset, edited: Dataset, lm: LanguageModel, tmp_path: Path, monkeypatch
):
    """Whichever state a kill leaves, either command goes on from there, and what was scored before is as it was."""
    of_two = pl.col("fact_id").is_in(brief.table["fact_id"].unique(maintain_order=True).head(2).to_list())
    brief, edited = (replace(data, table=data.table.filter(of_two)) for data in (brief, edited))
    old = run_probe(lm, brief, tmp_path / "old")
    whole = run_probe(lm, edited, shutil.copytree(tmp_path / "old", tmp_path / "whole"), renew=True)
    before = texts_of(lm, brief)
    seen = scored_texts(lm, monkeypatch)
    folders = _kills(lambda folder: run_probe(lm, edited, folder, renew=True), tmp_path / "old", tmp_path)
    assert len(folders) > 20
    for folder in folders:
        seen.clear()
        other = shutil.copytree(folder, folder.with_name(f"{folder.name}-back"))
        new = run_probe(lm, edited, folder, renew=True)
        assert new.scores.equals(whole.scores), folder.name
        back = run_probe(lm, brief, other, renew=True)
        assert back.scores.equals(old.scores), folder.name
        assert before.isdisjoint(seen), folder.name


def test_lost_scores_are_scored_again(brief: Dataset, edited: Dataset, lm: LanguageModel, tmp_path: Path, monkeypatch):
    """Where both the part and the file that it was copied from are damaged."""
    run_probe(lm, brief, tmp_path / "run")
    new = run_probe(lm, edited, tmp_path / "run", renew=True)
    run = RunFolder.read(tmp_path / "run")
    part = part_name(run.record["plan"]["parts_scored"])
    (tmp_path / "run" / run.record["reused"]["file"]).write_bytes(b"")
    assert run_probe(lm, edited, tmp_path / "run").scores.equals(new.scores)  # the parts are whole
    (tmp_path / "run" / part).write_bytes(b"")
    seen = scored_texts(lm, monkeypatch)
    again = run_probe(lm, edited, tmp_path / "run")
    assert set(seen) == texts_of(lm, edited) and again.record["reused"]["texts"] == 0
    np.testing.assert_allclose(again.scores["logp"], new.scores["logp"], atol=BOUND, rtol=0)


# By the commands


def _write(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["subject", "relation", "object", "start", "end"], *rows])


@pytest.mark.full
def test_a_corrected_row_among_thirty_facts(lm: LanguageModel, tmp_path: Path, monkeypatch):
    rows = [
        [m.fact.subject, m.fact.relation, m.fact.object, str(m.fact.period.start), str(m.fact.period.end or "")]
        for m in sorted(mini_facts(), key=lambda m: m.fact.period.start.first_day, reverse=True)
        if m.fact.subject != "Kazakhstan"
    ][:28]
    rows.append(["Kazakhstan", "capital", "Almaty", "1991-12-16", "1997-12-10"])
    rows.append(["Kazakhstan", "capital", "Astana", "1997-12-10", ""])  # and is asked about in the present tense too
    path = tmp_path / "facts.csv"
    _write(path, rows)
    facts = read_facts(path, as_of="2025-01-01")
    old = check(lm, replace(facts, data=without_decoys(facts.data)), tmp_path / "old")
    first = next(row for row in rows if row[4])
    first[4] = f"{int(first[4][:4]) + 1}{first[4][4:]}"
    _write(path, rows)
    facts = read_facts(path, as_of="2025-01-01")
    facts = replace(facts, data=without_decoys(facts.data))
    fresh = check(lm, facts, tmp_path / "fresh")
    seen = scored_texts(lm, monkeypatch)
    new = check(ByScores(lm, reuse=tmp_path / "old"), facts, tmp_path / "new")
    here = check(lm, facts, tmp_path / "old")  # the same folder
    for found in (new, here):
        record = json.loads((found.folder / "run.json").read_text())
        statements = facts.data.statements().filter(pl.col("object_label") == first[2])
        assert 0 < record["texts"] - record["reused"]["texts"] <= statements.height
        assert json.loads((found.folder / "present" / "run.json").read_text())["status"] == "done"
        assert found.verdicts["verdict"].equals(fresh.verdicts["verdict"])
        assert found.present.equals(fresh.present)
    assert set(seen) <= texts_of(lm, replace(facts.data, table=statements))
    assert old.verdicts.height == new.verdicts.height


def test_probe_and_check_take_the_option(tmp_path: Path, capsys):
    rows = [["France", "president", "Jacques Chirac", "1995", "2007"], ["Chile", "president", "Bob B", "2007", "2012"]]
    _write(tmp_path / "facts.csv", rows)
    words = ["--as-of", "2020-01-01", "--out"]
    probe = ["probe", "demo", "--dataset", str(tmp_path / "facts.csv"), *words]
    one = ["check", "demo", "--facts", str(tmp_path / "facts.csv"), "--decoys", "0", "--no-page", *words]
    assert run_command([*one, str(tmp_path / "old")], False) == 0
    assert run_command([*probe, str(tmp_path / "probe")], False) == 0
    rows[1][3] = "2006"
    _write(tmp_path / "facts.csv", rows)
    capsys.readouterr()
    for command, out, reuse in (
        (one, "new", ["--reuse", str(tmp_path / "old")]),
        (one, "old", []),
        (probe, "probe", []),
    ):
        assert run_command([*command, str(tmp_path / out), *reuse], False) == 0
        assert " texts have the scores that they had in " in " ".join(capsys.readouterr().err.split())
    chat = [*one, str(tmp_path / "chat"), "--reuse", str(tmp_path / "old"), "--backend", "generate"]
    assert run_command(chat, False) == 2 and "--answers FOLDER" in " ".join(capsys.readouterr().err.split())


def test_a_file_with_other_headers_and_a_corrected_row_goes_on(lm: LanguageModel, tmp_path: Path, monkeypatch):
    """What columns mean, and the order of their dates, is of the file, not of the run."""
    rows = ["Kasachstan;Hauptstadt;Almaty;16/12/1991;10/12/1997", "Kasachstan;Hauptstadt;Astana;10/12/1997;"]
    (tmp_path / "facts.csv").write_text("\n".join(["Land;Amt;Person;von;bis", *rows]))
    before = load_dataset(str(tmp_path / "facts.csv"), as_of="2003", language="de")
    assert before.choices().keys() >= {"columns", "dates"}
    run_probe(lm, before, tmp_path / "run", renew=True)
    corrected = ["subject;relation;object;start;end", "Kasachstan;Hauptstadt;Almaty;1991-12-16;1997-12-10",
                 "Kasachstan;Hauptstadt;Akmola;1997-12-10;"]  # fmt: skip
    (tmp_path / "facts.csv").write_text("\n".join(corrected))
    data = load_dataset(str(tmp_path / "facts.csv"), as_of="2003", language="de")
    seen = scored_texts(lm, monkeypatch)
    run_probe(lm, data, tmp_path / "run", renew=True)
    assert seen and len(seen) == data.table.filter(pl.col("object_label") == "Akmola")["prompt"].n_unique()
