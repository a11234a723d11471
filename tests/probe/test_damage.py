"""Runs whose files are not as they were written, or were not computed alike: found, refused, made again."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import AnachronError, BackendError, DataError, ModelError
from anachron.data.dataset import Dataset
from anachron.io.files import write_json
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import RunFolder
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.plans import Plan, tokens_computed
from anachron.lm.spans import Encoded
from anachron.probe import run as run_module
from anachron.probe.noise import COARSE_BOUND, FINE_BOUND, batches_of, bounds, check_noise, missed, sampled
from anachron.probe.parts import plan_fault, plan_table
from anachron.probe.run import run_probe
from anachron.probe.runs import find_sources, read_runs

PART = 50
PARTS = ("scores/part-00000.parquet", "scores/part-00001.parquet")
FILES = ("plan.parquet", "scores.parquet", *PARTS)


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("demo")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "PART_TEXTS", PART)


@pytest.fixture(scope="module")
def data(brief: Dataset) -> Dataset:
    """Two facts of mini."""
    facts = brief.table["fact_id"].unique(maintain_order=True).head(2).to_list()
    return Dataset("two facts", brief.table.filter(pl.col("fact_id").is_in(facts)), brief.boundaries)


@pytest.fixture(scope="module")
def runs(lm: LanguageModel, data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run, and one of another model that is called the same."""
    place = tmp_path_factory.mktemp("runs")
    other = load_model("demo-untrained")
    other.name = "demo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "PART_TEXTS", PART)
        run_probe(lm, data, place / "whole")
        run_probe(other, data, place / "other")
    return {"whole": place / "whole", "other": place / "other"}


@pytest.fixture
def folder(runs: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs["whole"], tmp_path / "run"))


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*.parquet"))}


def flip(file: Path) -> None:
    held = bytearray(file.read_bytes())
    held[len(held) // 2] ^= 16
    file.write_bytes(held)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


def unfinished(folder: Path) -> RunFolder:
    """The run as it is before its score table is written."""
    run = RunFolder.read(folder)
    run.record["status"] = "running"
    run.forget(["scores.parquet"])
    return run


@pytest.mark.few(2)
@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("done", [True, False])
def test_what_is_damaged_is_made_again_and_the_rest_is_kept(
    runs: dict[str, Path], folder: Path, lm: LanguageModel, data: Dataset, name: str, damage: Callable, done: bool
):
    if not done:
        unfinished(folder)
    if not (folder / name).exists():
        return
    damage(folder / name)
    said: list[str] = []
    kept = {p: (folder / p).stat().st_mtime_ns for p in PARTS if p != name}
    result = run_probe(lm, data, folder, callbacks=Callbacks(said.append))
    assert any(name in line and "made again" in line for line in said), said
    assert contents(folder) == contents(runs["whole"])
    assert result.record["status"] == "done" and RunFolder.read(folder).is_done
    assert all((folder / p).stat().st_mtime_ns == when for p, when in kept.items())


@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
def test_readers_refuse_a_damaged_score_table(folder: Path, damage: Callable):
    damage(folder / "scores.parquet")
    with pytest.raises(DataError, match=r"scores\.parquet.*(repeat the command|No such file)") as caught:
        read_runs([folder])
    assert "\n" not in str(caught.value)


def test_a_table_of_a_run_that_is_given_by_itself_is_checked_too(folder: Path, tmp_path: Path):
    for name in ("scores.parquet", PARTS[0]):
        assert read_runs([folder / name]).height
        flip(folder / name)
        with pytest.raises(DataError, match="is damaged"):
            read_runs([folder / name])
    shutil.copy(folder / PARTS[1], folder / "mine.parquet")
    with pytest.raises(DataError, match=r"mine\.parquet is not among the files"):
        read_runs([folder / "mine.parquet"])
    shutil.copy(folder / PARTS[1], tmp_path / "mine.parquet")
    assert read_runs([tmp_path / "mine.parquet"]).height  # outside of a run a table is what it is


def test_a_run_that_is_killed_before_its_record_is_done_is_not_read(folder: Path):
    run = RunFolder.read(folder)
    run.record["status"] = "running"
    run.save()
    with pytest.raises(DataError, match="not finished; repeat its probe command"):
        read_runs([folder])


@pytest.mark.parametrize("change", [{"noise": {"largest": "small"}}, {"noise": 1}, {"model": []}])
def test_a_record_of_other_shape_is_no_score_table(folder: Path, change: dict):
    run = RunFolder.read(folder)
    run.record |= change
    run.save()
    with pytest.raises(DataError, match="not the record of a probe"):
        find_sources([folder])


def test_a_run_of_evaluate_has_no_score_table(tmp_path: Path):
    run = RunFolder.open(tmp_path, {"mode": "batch"})
    run.record["status"] = "done"
    run.save()
    with pytest.raises(DataError, match="a run without a score table"):
        find_sources([tmp_path])


def test_a_run_of_an_earlier_version_is_not_read_and_not_gone_on_with(folder: Path, lm: LanguageModel, data: Dataset):
    record = RunFolder.read(folder).record
    write_json(folder / "run.json", {k: v for k, v in record.items() if k not in ("format", "files")})
    for use in (lambda: read_runs([folder]), lambda: read_runs([folder / "scores.parquet"]),
                lambda: run_probe(lm, data, folder)):  # fmt: skip
        with pytest.raises(DataError, match=r"earlier version.*not trusted"):
            use()


# Parts that were computed otherwise, with a right checksum, as after a fault of whoever wrote them


def replaced(folder: Path, name: str, table: pl.DataFrame) -> None:
    unfinished(folder).write_table(name, table)


def test_a_part_of_another_model_ends_the_run_unfinished(
    runs: dict[str, Path], folder: Path, lm: LanguageModel, data: Dataset
):
    """The same label, statements and shape; only its scores are another model's."""
    replaced(folder, PARTS[1], pl.read_parquet(runs["other"] / PARTS[1]))
    with pytest.raises(
        BackendError, match=r"(?s)other scores, by up to .* nats where float32 allows 0\.001 \(scores/part"
    ) as e:
        run_probe(lm, data, folder)
    assert PARTS[1] in str(e.value) and PARTS[0] not in str(e.value) and "\n" not in str(e.value)
    assert "under other settings" in str(e.value) and "new --out" in str(e.value)
    assert not RunFolder.read(folder).is_done and not (folder / "scores.parquet").exists()
    with pytest.raises(DataError, match="not finished"):
        read_runs([folder])


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (pl.col("fact_id").reverse(), "column fact_id"),
        (pl.col("time").reverse(), "column time"),
        ((pl.col("n_tokens") + 1).cast(pl.Int32), "column n_tokens"),
        (pl.lit(0.5).alias("logp"), "score 0.5, which is not a log-probability"),
        (pl.lit(float("nan")).alias("logp"), "score nan"),
        (pl.lit(float("-inf")).alias("logp"), "score -inf"),
        (pl.lit(None, pl.Float64).alias("logp"), "score nan"),
        (pl.lit(1).alias("more"), "its columns are"),
    ],
)
def test_a_part_of_other_content_is_refused(folder: Path, lm: LanguageModel, data: Dataset, change, said: str):
    replaced(folder, PARTS[0], pl.read_parquet(folder / PARTS[0]).with_columns(change))
    with pytest.raises(DataError, match=rf"part-00000\.parquet is not a part of this run: .*{said}.*; delete it"):
        run_probe(lm, data, folder)
    (folder / PARTS[0]).unlink()
    run_probe(lm, data, folder)


def test_a_score_next_to_zero_may_be_rounded_above_it(folder: Path):
    from anachron.probe.parts import scores_fault

    assert scores_fault(np.array([-3.0, 0.0, 1e-7])) is None
    assert scores_fault(np.array([-3.0, 1e-3])) == "it holds the score 0.001, which is not a log-probability"


def test_scores_that_are_no_log_probabilities_are_not_kept(
    lm: LanguageModel, data: Dataset, tmp_path: Path, monkeypatch
):
    real = lm.score_parts

    def broken(*given, **how):
        for number, scores, counters in real(*given, **how):
            yield number, np.where(np.arange(len(scores)) == 7, np.nan, scores), counters

    monkeypatch.setattr(lm, "score_parts", broken)
    with pytest.raises(ModelError, match=r"gives text \d+ the score nan"):
        run_probe(lm, data, tmp_path / "run")
    assert not list((tmp_path / "run" / "scores").glob("*.parquet"))


@pytest.mark.full
def test_a_plan_that_cannot_be_made_again_takes_its_parts_along(
    runs: dict[str, Path], folder: Path, lm: LanguageModel, data: Dataset, monkeypatch
):
    """As after an update of torch, or on a smaller device: the batches are others now."""
    real, said = lm.plan, []

    def smaller(encoded, batch_tokens=None, **how) -> Plan:
        return real(encoded, 64, **how)

    monkeypatch.setattr(lm, "plan", smaller)
    flip(folder / "plan.parquet")
    result = run_probe(lm, data, folder, callbacks=Callbacks(said.append))
    assert any("belong to a plan that is lost; they are scored again" in line for line in said)
    assert contents(folder)["plan.parquet"] != contents(runs["whole"])["plan.parquet"]
    whole = pl.read_parquet(runs["whole"] / "scores.parquet")
    assert result.scores.drop("logp").equals(whole.drop("logp"))
    np.testing.assert_allclose(result.scores["logp"].to_numpy(), whole["logp"].to_numpy(), atol=1e-4)
    used = {f"scores/part-{n:05d}.parquet" for n in pl.read_parquet(folder / "plan.parquet")["part"].unique()}
    assert {name for name in contents(folder) if name.startswith("scores/")} == used


BATCHES = [[2, 0], [1, 4, 3]]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (plan_table(BATCHES, 2), None),
        (plan_table([[2, 0], [1, 4, 4]], 2), "each of the 5 texts once"),
        (plan_table([[2, 0], [1, 4]], 2), "each of the 5 texts once"),
        (plan_table([[2, 0], [1, 4, 5]], 2), "each of the 5 texts once"),
        (plan_table(BATCHES, 2).reverse(), "column part does not count up"),
        (plan_table(BATCHES, 2).with_columns(pl.col("part") + 1), "column part does not count up"),
        (plan_table(BATCHES, 9).with_columns(pl.col("batch") * 2), "column batch does not count up"),
        (plan_table([[2, 0, 1, 4, 3]], 9).with_columns(part=pl.Series([0, 0, 1, 1, 1], dtype=pl.Int32)),
         "a batch in two parts"),
        (plan_table(BATCHES, 2).drop("batch"), "its columns are not"),
        (plan_table(BATCHES, 2).with_columns(pl.col("text").cast(pl.String)), "its columns are not"),
        (plan_table(BATCHES, 2).with_columns(batch=pl.lit(None, pl.Int32)), "its columns are not"),
    ],
)  # fmt: skip
def test_a_plan_holds_each_text_once(plan: pl.DataFrame, said: str | None):
    fault = plan_fault(plan, 5)
    assert fault is None if said is None else said in (fault or "")


def test_a_plan_of_other_texts_is_refused(folder: Path, lm: LanguageModel, data: Dataset):
    plan = pl.read_parquet(folder / "plan.parquet")
    replaced(folder, "plan.parquet", plan.with_columns(pl.col("text").replace(3, 4)))
    with pytest.raises(DataError, match="is not the plan of this run: it does not hold each of the"):
        run_probe(lm, data, folder)


# The noise


def test_the_sample_has_a_text_of_every_part():
    parts = [Plan([[n], [n + 1, n + 2]], False, 0) for n in range(0, 3000, 3)]
    short = [20] * 3000
    chosen = sampled(parts, short, 10**6, seed=4)
    assert sorted({text // 3 for text in chosen}) == list(range(1000)) and len(chosen) == 1000
    assert chosen == sampled(parts, short, 10**6, seed=4) != sampled(parts, short, 10**6, seed=5)
    assert len(set(sampled(parts[:7], short, 10**6, seed=0))) == 100
    assert sorted(sampled(parts[:7], short[:21], 10**6, seed=0)) == list(range(21))
    assert len(set(sampled(parts[:7], [1_000] * 3000, 200_000, seed=0))) == 20  # a tenth of the run's tokens
    assert len(set(sampled(parts[:7], [1_000] * 900, 100_000, seed=0))) == 20  # a fifth where there are few texts
    assert len(set(sampled(parts[:30], [1_000] * 3000, 200_000, seed=0))) == 30
    assert sorted(batches_of(50).texts) == list(range(50))
    assert [len(batch) for batch in batches_of(30).batches] == [1, 3, 7, 13, 1, 3, 2]


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=400), st.integers(1, 30), st.integers(0, 9_000), st.integers(0, 9)
)
def test_what_is_scored_again_is_a_share_of_the_run(lengths: list[int], part: int, computed: int, seed: int):
    """With all their padding; unless one text of every part is more."""
    texts = list(range(len(lengths)))
    parts = [Plan([texts[i : i + part]], prefix_tree=True, batch_tokens=64) for i in range(0, len(texts), part)]
    chosen = sampled(parts, lengths, computed, seed)
    assert len(set(chosen)) == len(chosen) <= max(100, len(parts))
    assert all(set(chosen) & set(one.texts) for one in parts)
    again = [Encoded((1,) * (lengths[i] + 1), (lengths[i],)) for i in chosen]
    if len(chosen) > len(parts):
        assert tokens_computed(again, batches_of(len(again))) <= 0.2 * computed


@pytest.mark.parametrize(("texts", "sample"), [(145, 12), (1000, 30), (7, 7)])
def test_the_chance_to_miss_a_tenth_of_the_texts(texts: int, sample: int):
    """Against 20,000 samples."""
    chance, wrong = np.random.default_rng(0), -(-texts // 10)
    missing = np.mean([chance.permutation(texts)[:sample].min() >= wrong for _ in range(20_000)])
    assert missed(texts, sample) == pytest.approx(missing, abs=0.012)


class Known:
    def __init__(self, dtype: str, **about) -> None:
        self.dtype, self.about = dtype, lambda: about


def test_bounds_by_dtype():
    tokens = np.array([1, 4])
    for dtype in ("float32", "float64"):
        assert bounds(Known(dtype), tokens).tolist() == [FINE_BOUND] * 2 == [1e-3] * 2
    for known in (Known("bfloat16"), Known("float16"), Known("served"), Known("float32", quantised=True)):
        assert bounds(known, tokens).tolist() == [COARSE_BOUND, 4 * COARSE_BOUND] == [0.5, 2]


def test_what_is_no_number_is_no_rounding():
    check_noise(np.array([0.0, 0.9e-3]), np.array([1e-3, 1e-3]), ["a", "b"], "float32")
    with pytest.raises(BackendError, match=r"1 of 2 texts .* nan nats where float32 allows 0\.001 \(b\)"):
        check_noise(np.array([0.0, np.nan]), np.array([1e-3, 1e-3]), ["a", "b"], "float32")
    with pytest.raises(BackendError, match=r"by up to 3 nats where bfloat16 allows 0\.5 \(a, b\)"):
        check_noise(np.array([3.0, 2.5]), np.array([0.5, 2.0]), ["a", "b"], "bfloat16")


@pytest.mark.full
@pytest.mark.parametrize(
    ("dtype", "prefix_tree"),
    [
        ("float32", True), ("bfloat16", True),
        *(pytest.param(*given, marks=pytest.mark.slow) for given in
          [("float32", False), ("bfloat16", False), ("float16", True), ("float16", False), ("float64", True)]),
    ],
)  # fmt: skip
def test_no_false_alarm(data: Dataset, tmp_path: Path, dtype: str, prefix_tree: bool):
    """A sound run of each dtype ends well, its noise far below the bound."""
    import torch

    lm = load_model("demo")
    lm.model.to(getattr(torch, dtype))
    lm.dtype = dtype
    settings = run_module.ProbeSettings(prefix_tree=prefix_tree)
    result = run_probe(lm, data, tmp_path / "run", settings)
    assert result.noise < (FINE_BOUND / 20 if dtype.endswith(("32", "64")) else 0.3)


def test_every_refusal_here_is_ours(folder: Path):
    (folder / "run.json").write_text("{}")
    with pytest.raises(AnachronError):
        read_runs([folder])
