"""Runs that survive: resume, refusal, identical bytes, kill -9."""

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from anachron.analysis.analyses.dataset import contexts_of, dataset_statistics
from anachron.analysis.study import make_study
from anachron.core.errors import BackendError, ConfigError, DataError, ModelError
from anachron.data.columns import to_published
from anachron.data.dataset import Dataset
from anachron.data.loaders import load_dataset
from anachron.io.jobs import Callbacks, locked
from anachron.io.run_folder import RunFolder
from anachron.io.tables import write_table
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.probe.noise import missed
from anachron.probe.run import ProbeSettings, run_probe
from anachron.probe.runs import part_name, read_runs, rename_run
from support.small_runs import in_small_parts

PART = 50  # statements


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("demo")


@pytest.fixture(scope="module")
def data(brief: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A few facts of mini, in a file that other processes read quickly."""
    path = tmp_path_factory.mktemp("data") / "sample.parquet"
    write_table(path, to_published(brief.table, brief.boundaries))
    return load_dataset(str(path))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_parts(monkeypatch, PART)


@pytest.fixture(scope="module")
def finished(lm: LanguageModel, data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("run") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        in_small_parts(patch, PART)
        run_probe(lm, data, folder)
    return folder


def all_bytes(folder: Path) -> dict[str, bytes]:
    files = [folder / "scores.parquet", folder / "plan.parquet", *sorted((folder / "scores").glob("*.parquet"))]
    return {str(f.relative_to(folder)): f.read_bytes() for f in files}


def test_scores_are_those_of_the_model_in_the_order_of_the_data_set(finished: Path, lm: LanguageModel, data: Dataset):
    scores = pl.read_parquet(finished / "scores.parquet")
    assert scores["fact_id"].to_list() == data.table["fact_id"].to_list()
    assert scores["time"].to_list() == data.table["time"].to_list()
    expected = lm.log_probs(list(data.table.select("prompt", "answer").iter_rows()))
    np.testing.assert_allclose(scores["logp"].to_numpy(), expected, atol=1e-5, rtol=1e-6)


@pytest.mark.full
def test_two_entities_of_one_label_are_two(lm: LanguageModel, brief: Dataset, tmp_path: Path):
    """Georgia the state and Georgia the country: a score table has their ids, where a data set knows them."""
    facts = brief.table["fact_id"].unique(maintain_order=True).to_list()
    number = pl.col("fact_id").replace_strict(facts, range(len(facts)), return_dtype=pl.Int64)
    known = {"subject_id": pl.format("Q{}", number + 1), "object_id": pl.format("Q{}", number % 2 + 101)}
    table = brief.table.with_columns(subject_label=pl.lit("Georgia"), object_label=pl.lit("Tom"), **known)
    run = run_probe(lm, replace(brief, table=table), tmp_path / "known")
    assert run.scores.select("fact_id", "subject_id", "object_id").equals(table.select("fact_id", *known))
    study = make_study([run.scores])
    numbers = dict(dataset_statistics(study.once(contexts_of), study.about).iter_rows())
    assert (numbers["subjects"], numbers["objects"], numbers["entities"]) == (len(facts), 2, len(facts) + 2)
    assert study.facts["subject"].n_unique() == len(facts)  # which intervals are clustered by

    unknown = table.with_columns(subject_id=pl.lit(None, pl.String), object_id=pl.lit(None, pl.String))
    run = run_probe(lm, replace(brief, table=unknown), tmp_path / "unknown")
    assert "subject_id" not in run.scores.columns
    study = make_study([run.scores])
    numbers = dict(dataset_statistics(study.once(contexts_of), study.about).iter_rows())
    assert (numbers["subjects"], numbers["objects"], numbers["entities"]) == (1, 1, 2)


def test_scores_that_are_no_numbers_end_a_run_and_are_not_kept(data: Dataset, tmp_path: Path):
    broken = load_model("demo")
    with torch.no_grad():
        broken.model.get_input_embeddings().weight[:] *= torch.inf
    with pytest.raises(ModelError, match=r"demo gives text .* the score nan; .* damaged"):
        run_probe(broken, data, tmp_path)
    assert not list((tmp_path / "scores").glob("*.parquet")) and not (tmp_path / "scores.parquet").exists()
    assert json.loads((tmp_path / "run.json").read_text())["status"] != "done"


def test_parts_hold_every_row_once(finished: Path, data: Dataset):
    parts = pl.concat([pl.read_parquet(p) for p in sorted((finished / "scores").glob("part-*.parquet"))])
    assert len(list((finished / "scores").glob("part-*.parquet"))) > 3
    assert parts.height == data.table.height
    assert parts.sort("fact_id", "granularity", "time").equals(
        pl.read_parquet(finished / "scores.parquet").sort("fact_id", "granularity", "time")
    )


def test_record_says_what_a_reader_needs(finished: Path, data: Dataset):
    record = json.loads((finished / "run.json").read_text())
    assert record["status"] == "done"
    assert record["settings"]["dataset_fingerprint"] == data.fingerprint()
    assert record["statements"] == data.table.height
    assert record["tokens_ideal"] <= record["tokens_planned"] < 1.05 * record["tokens_ideal"]
    assert record["sessions"][0]["tokens_computed"] == record["tokens_planned"]
    noise = record["noise"]
    assert 1 < noise["sample"] <= 100 and noise["tokens"] <= 0.2 * record["tokens_planned"]
    assert noise["missed"] == pytest.approx(missed(record["texts"], noise["sample"]))
    assert record["trial"]["attention"] == "blockwise" and record["trial"]["errors"] is None
    assert 0 <= record["noise"]["largest"] < 1e-4
    assert {"torch", "transformers", "anachron"} <= set(record["sessions"][0]["versions"])


def test_a_second_run_gives_the_same_bytes(finished: Path, lm: LanguageModel, data: Dataset, tmp_path: Path):
    run_probe(lm, data, tmp_path / "again")
    assert all_bytes(tmp_path / "again") == all_bytes(finished)


def test_a_finished_run_is_not_scored_again(finished: Path, lm: LanguageModel, data: Dataset, monkeypatch):
    monkeypatch.setattr(lm, "score_parts", lambda *a, **k: pytest.fail("scored again"))
    assert run_probe(lm, data, finished).scores.height == data.table.height


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (ProbeSettings(prefix="hierarchy"), "prefix"),
        (ProbeSettings(format="chat"), "format"),
        (ProbeSettings(batch_tokens=64), "batch_tokens"),
        (ProbeSettings(native_softmax=True), "native_softmax"),
    ],
)
def test_other_settings_are_refused_with_the_difference(finished: Path, lm, data, change: ProbeSettings, word: str):
    before = all_bytes(finished)
    with pytest.raises(ConfigError, match=rf"other settings.*\b{word}\)?: "):
        run_probe(lm, data, finished, change)
    assert all_bytes(finished) == before


def test_another_label_renames_a_run(finished: Path, lm: LanguageModel, data: Dataset, tmp_path: Path, monkeypatch):
    """Tables, record and later readers have the new name; nothing is scored, and the way back gives the same scores."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    before = read_runs([folder])
    monkeypatch.setattr(lm, "score_parts", lambda *a, **k: pytest.fail("scored again"))
    assert run_probe(lm, data, folder, ProbeSettings(label="other")).scores["model"].unique().to_list() == ["other"]
    for table in (read_runs([folder]), pl.read_parquet(folder / "scores.parquet")):
        assert table["model"].unique().to_list() == ["other"] and table["logp"].equals(before["logp"])
    assert run_probe(lm, data, folder).scores["model"].unique().to_list() == ["other"]  # no label given: as it is
    assert rename_run(folder, "third") == "other"
    assert read_runs([folder])["model"].unique().to_list() == ["third"]
    assert rename_run(folder, before["model"][0]) == "third"
    assert read_runs([folder]).equals(before)


def test_a_run_that_was_renamed_half_way_goes_on(lm: LanguageModel, data: Dataset, finished: Path, tmp_path: Path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    run = RunFolder.read(folder)
    run.record["status"] = "running"
    run.forget(["scores.parquet", part_name(1)])
    rename_run(folder, "other")
    scores = run_probe(lm, data, folder).scores
    assert scores["model"].unique().to_list() == ["other"]
    assert scores.drop("model").equals(read_runs([finished]).drop("model", "noise", "question"))


@pytest.mark.parametrize("label", ["", "  ", "pooled"])
def test_a_label_that_cannot_be_is_refused(finished: Path, label: str):
    before = all_bytes(finished)
    with pytest.raises(ConfigError, match=f"label {label!r}"):
        rename_run(finished, label)
    assert all_bytes(finished) == before
    with pytest.raises(DataError, match="no run here"):
        rename_run(finished / "scores", "x")


def test_another_data_set_or_model_is_refused(finished: Path, lm: LanguageModel, data: Dataset):
    with pytest.raises(ConfigError, match="dataset_fingerprint"):
        run_probe(lm, Dataset(data.name, data.table.head(50), data.boundaries), finished)
    with pytest.raises(ConfigError, match="weights"):
        run_probe("demo-untrained", data, finished, ProbeSettings(label="demo"))


def test_a_renamed_data_set_is_the_same_data_set(finished: Path, lm: LanguageModel, data: Dataset):
    before = all_bytes(finished)
    run_probe(lm, Dataset("another/name.csv", data.table, data.boundaries), finished)
    assert all_bytes(finished) == before


def test_a_folder_with_other_files_is_refused(lm: LanguageModel, data: Dataset, tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("do not touch")
    with pytest.raises(ConfigError, match="not empty"):
        run_probe(lm, data, tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "do not touch"


def test_a_run_in_use_is_refused(finished: Path, lm: LanguageModel, data: Dataset):
    with locked(finished / ".lock", finished), pytest.raises(ConfigError, match="in use"):
        run_probe(lm, data, finished)


def test_unwritable_place_is_one_clear_line(lm: LanguageModel, data: Dataset, tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(BackendError, match="choose another --out") as caught:
        run_probe(lm, data, tmp_path / "file" / "run")
    assert "\n" not in str(caught.value)


def _probe_in_child(name: str, folder: str, limit: int | None) -> None:
    """In a process of its own: the run of these tests, with files limited to some bytes if wanted."""
    in_small_parts(pytest.MonkeyPatch(), PART)
    if limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        run_probe(load_model("demo"), load_dataset(name), folder)
    except BackendError as error:
        print(error, flush=True)
        os._exit(7)


@pytest.fixture(scope="module")
def processes():
    """Fresh processes that have torch loaded already, so that a kill falls into the run and not into imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "transformers", "anachron.probe.run", "anachron.lm.model"])
    first = context.Process(target=time.time)  # starts the server, so that what is timed later is a run alone
    first.start()
    first.join()
    return context


@pytest.mark.full
@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_kill_nine_at_any_time_then_resume(processes, data: Dataset, finished: Path, tmp_path: Path, kills: int):
    folder = tmp_path / "run"
    started = time.perf_counter()
    whole = processes.Process(target=_probe_in_child, args=(data.name, str(tmp_path / "timing"), None))
    whole.start()
    whole.join()
    assert whole.exitcode == 0
    seconds = time.perf_counter() - started
    killed = 0
    while killed < kills:
        child = processes.Process(target=_probe_in_child, args=(data.name, str(folder), None))
        child.start()
        child.join(random.uniform(0.05, 0.9) * seconds)
        if child.is_alive():
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            killed += 1
        for part in (folder / "scores").glob("part-*.parquet"):
            pl.read_parquet(part)  # whatever has its final name is complete
        if child.exitcode == 0:  # it came to its end before the next kill: right as it is, and another run is begun
            assert all_bytes(folder) == all_bytes(finished)
            folder = tmp_path / f"run-{killed}-{random.random()}"
    last = processes.Process(target=_probe_in_child, args=(data.name, str(folder), None))
    last.start()
    last.join()
    assert last.exitcode == 0
    assert all_bytes(folder) == all_bytes(finished)


@pytest.mark.full
def test_full_disk_keeps_finished_parts_and_resumes(processes, data: Dataset, finished: Path, tmp_path: Path):
    folder = tmp_path / "run"
    sizes = sorted(p.stat().st_size for p in (finished / "scores").glob("*.parquet"))
    others = [(finished / name).stat().st_size for name in ("texts.parquet", "plan.parquet", "run.json")]
    largest_but_scores = max(*sizes, *others)
    assert largest_but_scores < (finished / "scores.parquet").stat().st_size
    child = processes.Process(target=_probe_in_child, args=(data.name, str(folder), largest_but_scores))
    child.start()
    child.join()
    assert child.exitcode == 7
    parts = sorted((folder / "scores").glob("part-*.parquet"))
    assert len(parts) == len(sizes)
    assert not (folder / "scores.parquet").exists()
    assert json.loads((folder / "run.json").read_text())["status"] == "running"
    again = processes.Process(target=_probe_in_child, args=(data.name, str(folder), None))
    again.start()
    again.join()
    assert all_bytes(folder) == all_bytes(finished)


@pytest.mark.full
def test_chat_date_is_frozen_and_said(lm: LanguageModel, data: Dataset, tmp_path: Path):
    template = lm.tokenizer.chat_template
    dated = LanguageModel(lm.model, load_model("demo").tokenizer, "demo")
    dated.tokenizer.chat_template = "{{ bos_token }}{{ strftime_now('%d %b %Y') }}" + template.removeprefix(
        "{{ bos_token }}"
    )
    said: list[str] = []
    settings = ProbeSettings(format="chat")
    result = run_probe(dated, data, tmp_path / "run", settings, callbacks=Callbacks(warn=said.append))
    assert any("frozen" in line for line in said)
    assert result.record["template_date"]
    run = RunFolder.read(tmp_path / "run")
    run.record |= {"template_date": "2001-02-03", "status": "running"}
    run.forget(list(run.record["files"]))
    resumed = run_probe(dated, data, tmp_path / "run", settings)
    assert resumed.record["template_date"] == "2001-02-03"
    assert not np.allclose(resumed.scores["logp"].to_numpy(), result.scores["logp"].to_numpy())


@pytest.mark.full
def test_prefixes_change_scores_and_a_file_is_used_as_it_is(lm: LanguageModel, data: Dataset, tmp_path: Path):
    (tmp_path / "mine.txt").write_text("Answer well.\n")
    result = run_probe(lm, data, tmp_path / "run", ProbeSettings(prefix=str(tmp_path / "mine.txt")))
    assert result.record["settings"]["prefix_text"] == "Answer well.\n"
    assert set(result.scores["prefix"]) == {"mine.txt"}
    prompt, answer = data.table.row(3, named=True)["prompt"], data.table.row(3, named=True)["answer"]
    assert result.scores["logp"][3] == pytest.approx(lm.log_probs([("Answer well.\n" + prompt, answer)])[0], abs=1e-5)


@pytest.mark.full
def test_halved_batches_are_said_and_scores_agree(data: Dataset, tmp_path, monkeypatch):
    import torch

    lm = load_model("demo")
    lm.model.double()  # in float32 other batches round otherwise, by more than what is checked on some processors
    whole = run_probe(lm, data, tmp_path / "whole").scores["logp"].to_numpy()
    real, said = lm.model.forward, []

    def small_memory(*args, **kwargs):
        if kwargs["input_ids"].numel() > 100:
            raise torch.OutOfMemoryError("CUDA out of memory (pretended)")
        return real(*args, **kwargs)

    monkeypatch.setattr(lm.model, "forward", small_memory)
    result = run_probe(lm, data, tmp_path / "run", callbacks=Callbacks(warn=said.append))
    assert result.record["sessions"][-1]["halvings"] > 0
    assert any("halved" in line for line in said)
    np.testing.assert_allclose(result.scores["logp"].to_numpy(), whole, atol=1e-5, rtol=1e-6)


def test_deterministic_holds_while_the_model_runs(
    lm: LanguageModel, data: Dataset, finished: Path, tmp_path, monkeypatch
):
    import torch

    real, seen = lm.model.forward, []

    def look(*args, **kwargs):
        seen.append(torch.are_deterministic_algorithms_enabled())
        return real(*args, **kwargs)

    monkeypatch.setattr(lm.model, "forward", look)
    result = run_probe(lm, data, tmp_path / "run", ProbeSettings(deterministic=True))
    assert seen and all(seen) and not torch.are_deterministic_algorithms_enabled()
    assert result.record["settings"]["deterministic"]
    assert result.scores.equals(pl.read_parquet(finished / "scores.parquet"))


@pytest.mark.full
def test_statements_are_tokenised_once(lm: LanguageModel, data: Dataset, tmp_path: Path, monkeypatch):
    from anachron.lm import spans
    from anachron.probe import audit

    real, texts = spans.tokenise, []

    def count(tokenizer, given, **how):
        texts.extend(given)
        return real(tokenizer, given, **how)

    for module in (spans, audit):
        monkeypatch.setattr(module, "tokenise", count)
    run_probe(lm, data, tmp_path / "run")
    assert len(texts) == data.table.height
