"""Dated questions of whole runs: a model that is a table of probabilities, whose answers are known beforehand."""

import datetime
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from anachron.analysis.metrics import fact_metrics
from anachron.analysis.study import make_study
from anachron.core.errors import ConfigError, DataError
from anachron.data.updates.case_records import EditCase, NeighbourFact
from anachron.data.updates.cases import CaseSet
from anachron.edit.base import edited
from anachron.edit.make import make_edit
from anachron.edit.plan import parse_method, plan_edits
from anachron.edit.requests import EditRequest
from anachron.evaluate import stages as stages_module
from anachron.evaluate.measure import Measures
from anachron.evaluate.measures.dated import Dating, dated_questions
from anachron.evaluate.measures.dated_metrics import DATED_METRICS, DATED_SHARES, bleedover_by_date, dated_metrics
from anachron.evaluate.metrics import summarise, update_metrics
from anachron.evaluate.paired_tests import OF_DATED, paired_tests
from anachron.evaluate.requests import requests_of
from anachron.evaluate.results import method_label
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.evaluate.stages import Evaluation
from anachron.lm.formats import TARGETS, Format
from anachron.lm.model import LanguageModel
from anachron.lm.plans import Plan
from anachron.lm.scoring import Counters
from anachron.lm.spans import Encoded
from anachron.report.edits.evaluated import report_evaluation
from anachron.report.tracking import log_to
from support.edit_models import killed_after, make_edit_lm
from support.tiny_models import make_tokenizer

NO_EDIT = ""
ERASES = "The king of {} is Cato. "  # what PROMPT puts before every prompt
KEEPS = "On {}, the king of {} is Cato. "


@dataclass
class TableModel:
    """A language model that looks up (text before the answer, answer) in a table, and knows nothing else."""

    table: dict[tuple[str, str], float]
    name: str = "table"
    prefix: str = ""
    passages: Any = None
    edit_of: str | None = None
    edit_beside: tuple[str, ...] = ()
    edits: tuple[Any, ...] = ()
    memories: dict[str, Any] = field(default_factory=dict)
    style: Format = TARGETS
    asked: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.device = torch.device("cpu")
        self.tokenizer = make_tokenizer("gpt2")
        config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(model_type="table"))
        embeddings = SimpleNamespace(weight=torch.zeros(len(self.tokenizer), 1))
        self.model = SimpleNamespace(config=config, get_input_embeddings=lambda: embeddings)

    def fingerprint(self, weights: str | None = None) -> str:
        return "table"

    def weights_fingerprint(self) -> str:
        return "table"

    def described(self) -> dict[str, Any]:
        return {}

    def identity(self, weights: str | None = None) -> dict[str, Any]:
        return {"model": self.name, "weights": weights}

    def about(self) -> dict[str, Any]:
        return {"family": "table"}

    def hardware(self) -> dict[str, Any]:
        return {}

    def encode(self, triples: Any, style: Any = None) -> list[Encoded]:
        first = len(self.asked)
        self.asked += [(self.prefix + prompt, answer) for prompt, answer, _ in triples]
        return [Encoded((number, 0), (1,)) for number in range(first, len(self.asked))]

    def plan(self, encoded: Any, batch_tokens: int | None = None, *, prefix_tree: bool = True) -> Plan:
        return Plan([list(range(len(encoded)))], False, 1)

    def score_parts(self, encoded: Any, parts: Any, **_: Any) -> Iterator[tuple[int, np.ndarray, Counters]]:
        for number, part in parts.items():
            asked = [self.asked[encoded[i].ids[0]] for i in part.texts]
            yield number, np.array([math.log(self.p(pair)) for pair in asked]), Counters()

    def p(self, pair: tuple[str, str]) -> float:
        """Of AToKe's questions, which are about whole periods and in the past tense, it knows nothing at all."""
        return 0.5 if re.search(r"From .* (to|on)|Previously|from$", pair[0]) else self.table[pair]

    def argmax_counts(self, encoded: Any, batch_tokens: int | None = None) -> np.ndarray:
        return np.zeros(len(encoded))


def king(subject: str, **changes: Any) -> EditCase:
    near = (NeighbourFact("The queen of Lemuria is", ("Dido",), 0.5, None, "Lemuria"),)
    return replace(
        EditCase(subject, subject, f"The king of {subject} is", "Cato", "Bran", nearest=near, **changes), relation="P35"
    )


ATLANTIS = king("Atlantis", start="2010-06-15", old_start="2006-03-01", relation_label="head of state")
THULE = king("Thule", start="2010", old_start="2000")
NOWHERE = king("Nowhere")  # nobody knows when
CASES = CaseSet("kings", "wikifactdiff", (ATLANTIS, THULE, NOWHERE), {})


def every_date() -> Iterator[tuple[str, datetime.date, datetime.date]]:
    """The opening of each year, month and day that is asked about, and of more, with its first and last day."""
    for year in range(2000, 2014):
        yield f"In {year}, ", datetime.date(year, 1, 1), datetime.date(year, 12, 31)
        for month in range(1, 13):
            first = datetime.date(year, month, 1)
            last = (first + datetime.timedelta(days=31)).replace(day=1) - datetime.timedelta(days=1)
            yield f"In {first:%B} {year}, ", first, last
            for day in range(1, last.day + 1):
                date = first.replace(day=day)
                yield f"On {first:%B} {day}, {year}, ", date, date


def table() -> dict[tuple[str, str], float]:
    """What each edited model says.

    Unedited, the old object wins on all dates, less clearly after its time. PROMPT without a date makes the new one
    true for all time; with a date it does so from the change on, but forgets who was king of Thule before 2005.
    """
    found: dict[tuple[str, str], float] = {}
    for subject, change, said in (
        ("Atlantis", datetime.date(2010, 6, 15), "June 16, 2010"),
        ("Thule", datetime.date(2010, 12, 31), "January 1, 2011"),
        ("Nowhere", datetime.date(2015, 1, 1), "never"),
    ):
        erases, keeps = ERASES.format(subject), KEEPS.format(said, subject)
        for prefix, new, old, queen in ((NO_EDIT, 0.1, 0.8, 0.1), (erases, 0.9, 0.05, 0.6), (keeps, 0.6, 0.3, 0.2)):
            found |= {
                (f"{prefix}The king of {subject} is", "Cato"): new,
                (f"{prefix}The king of {subject} is", "Bran"): old,
            }
            found[f"{prefix}The queen of Lemuria is", "Dido"] = 0.5
            found[f"{prefix}The queen of Lemuria is", "Cato"] = queen
        for opening, first, _ in every_date():
            before = first < change
            forgotten = subject == "Thule" and first.year < 2005
            said_by = {
                NO_EDIT: (0.1, 0.8 if before else 0.6, 0.5),
                erases: (0.9, 0.05, 0.25 if before else 0.5),
                keeps: ((0.2, 0.1) if forgotten else (0.2, 0.7) if before else (0.6, 0.3)) + (0.5,),
            }
            for prefix, (new, old, neighbour) in said_by.items():
                found[f"{prefix}{opening}the king of {subject} is", "Cato"] = new
                found[f"{prefix}{opening}the king of {subject} is", "Bran"] = old
                found[f"{prefix}{opening}the queen of Lemuria is", "Dido"] = neighbour
    return found


SETTINGS = EvaluateSettings(measures=Measures(fluency_tokens=0, dated=Dating("2013", ways=("prompt",))))
ONE_BY_ONE = replace(SETTINGS, mode="batch", size=1)  # a table has no weights on which edits could lie side by side


@pytest.fixture(scope="module")
def kings(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    lm: Any = TableModel(table())
    return run_evaluation(
        lm, CASES, plan_edits(lm, ["PROMPT", "prompt Dated"]), tmp_path_factory.mktemp("kings"), ONE_BY_ONE
    )


@pytest.mark.full
def test_a_tracker_gets_the_same_from_the_folder_as_from_what_is_reported(kings: Evaluation, tmp_path: Path):
    numbers = log_to(kings.folder, SimpleNamespace(log=lambda numbers: None))
    reported = report_evaluation(kings.record, kings.tables, tmp_path)
    assert numbers == log_to(reported, SimpleNamespace(log=lambda numbers: None))
    assert {name.split("/")[0] for name in numbers} >= {"dated", "atoke"}


def test_a_table_of_probabilities_gives_exactly_the_expected_table(kings: Evaluation):
    """One method erases the past and one keeps it, all of Atlantis's and five of nine years of Thule's."""
    summary = summarise(dated_metrics(kings.tables["dated"], kings.tables["updates"]), DATED_METRICS, DATED_SHARES)
    rows = {row["method"]: row for row in summary.with_columns(method_label()).iter_rows(named=True)}
    assert list(rows) == ["unedited", "PROMPT", "PROMPT dated"]
    kept = {"year": 5 / 9, "month": 5 / 9, "day": 5 / 9, "global": 5 / 9}
    for granularity, share in kept.items():
        names = [f"{m}_{granularity}" for m in ("present_updated", "past_kept", "win_rate", "robustness")]
        found = {method: [row[name] for name in names] for method, row in rows.items()}
        assert found["unedited"] == [0, 1, 1, 1]
        assert found["PROMPT"] == [1, 0, 0, 0]
        assert found["PROMPT dated"] == pytest.approx([1, (1 + share) / 2, (1 + share) / 2, 0.5])
        joint = {method: [row[f"{m}_{granularity}"] for m in ("both_right", "kept_given_right")]
                 for method, row in rows.items()}  # fmt: skip
        assert joint["unedited"] == [0, 1] and joint["PROMPT"] == [0, 0]
        assert joint["PROMPT dated"] == pytest.approx([(1 + share) / 2] * 2)
        assert all(row[f"{name}_n"] == 2 for row in rows.values() for name in names)
    assert [rows[m]["done"] for m in rows] == [3, 3, 2] and rows["PROMPT dated"]["failed"] == 1


def test_a_neighbour_that_loses_nothing_may_still_prefer_the_new_object(kings: Evaluation):
    metrics = update_metrics(*(kings.tables[name] for name in ("targets", "neighbours", "updates")))
    rows = {row["method"]: row for row in summarise(metrics).with_columns(method_label()).iter_rows(named=True)}
    assert [row["bleedover_nearest"] for row in rows.values()] == [0, 0, 0]
    assert [row["neighbourhood_success"] for row in rows.values()] == [1, 0, 1]
    assert [row["neighbourhood_difference"] for row in rows.values()] == pytest.approx([0.4, -0.1, 0.3])
    assert [row["score"] for row in rows.values()] == [None, None, None]  # no other prompts, so no paraphrase success


def test_a_paired_test_of_a_run(kings: Evaluation):
    """Updated: from none to all of both updates. Kept: from all to none, and to 1 and 5/9."""
    tests = paired_tests(dated_metrics(kings.tables["dated"], kings.tables["updates"]), OF_DATED)
    rows = tests.with_columns(method_label()).select("method", "metric", "updates", "difference").rows()
    loss = pytest.approx(-2 / 9)
    assert rows == [
        ("PROMPT", "present_updated_global", 2, 1), ("PROMPT", "past_kept_global", 2, -1),
        ("PROMPT", "both_right_global", 2, 0), ("PROMPT dated", "present_updated_global", 2, 1),
        ("PROMPT dated", "past_kept_global", 2, loss), ("PROMPT dated", "both_right_global", 2, pytest.approx(7 / 9)),
    ]  # fmt: skip


def test_the_dates_of_the_run_are_those_of_the_updates(kings: Evaluation):
    for case in (ATLANTIS, THULE, NOWHERE):
        wanted = [(q.granularity, q.time, q.side, q.distance) for q in dated_questions(case, Dating("2013"))]
        mine = kings.tables["dated"].filter(case_id=case.case_id, method="PROMPT", variant="plain")
        assert mine.select("granularity", "time", "side", "distance").rows() == wanted
    years = (
        kings.tables["dated"]
        .filter(case_id="Thule", granularity="year", method="PROMPT", variant="plain")["time"]
        .to_list()
    )
    assert years == [str(year) for year in (*range(2001, 2010), 2011, 2012, 2013)]


def test_the_past_facts_are_a_score_table_with_the_same_win_rates(kings: Evaluation):
    """Read back as any score table is; Thule's dates under the method that keeps most of them by hand."""
    table = pl.read_parquet(kings.folder / "past_scores.parquet")
    measured = dated_metrics(kings.tables["dated"], kings.tables["updates"]).with_columns(method_label())
    found = fact_metrics(table).filter(pl.col("granularity") == "global")
    assert found.height == 3 * 2
    for row in found.iter_rows(named=True):
        method = row["model"].removeprefix("edited with ")
        (own,) = measured.filter(method=method, case_id=row["fact_id"]).to_dicts()
        assert (row["win_rate"], row["robustness"]) == (own["win_rate_global"], own["robustness_global"])
    thule = table.filter(model="edited with PROMPT dated", fact_id="Thule", granularity="year").drop_nulls("time")
    assert thule.select("time", "status", "object_label", "start", "end").rows() == [
        (str(year), "correct" if year < 2010 else "incorrect", "Bran", "2000", "2010")
        for year in (*range(2001, 2010), 2011, 2012, 2013)
    ]
    assert thule["logp"].to_list() == pytest.approx([math.log(p) for p in [0.1] * 4 + [0.7] * 5 + [0.3] * 3])
    assert thule["alpha"][0] == pytest.approx((1.5 - 5.5) / 11, abs=0.01)  # middles in years from 2000; 11 years long
    priors = table.filter(pl.col("time").is_null(), pl.col("fact_id") == "Thule", pl.col("granularity") == "day")
    assert dict(priors.select("model", "logp").rows()) == pytest.approx(
        {"unedited": math.log(0.8), "edited with PROMPT": math.log(0.05), "edited with PROMPT dated": math.log(0.3)}
    )
    study = make_study([table])
    assert study.about["subject_label"].to_list() == ["Atlantis", "Thule"]
    assert study.about.select("relation_id", "relation_label").rows() == [("P35", "head of state"), ("P35", "P35")]


def test_bleedover_by_date_of_the_table(kings: Evaluation):
    """PROMPT takes half of the neighbour's probability on every date before the change, and none after it."""
    assert kings.tables["dated_neighbours"].height == 2 * 2 * 2
    for row in bleedover_by_date(kings.tables["dated_neighbours"]).iter_rows(named=True):
        before = row["years_high"] is not None and row["years_high"] <= 0
        assert row["bleedover"] == pytest.approx(
            0.25 if before and row["method"] == "PROMPT" and row["variant"] == "plain" else 0
        )


def test_what_is_not_asked_is_in_the_record_and_fails_only_with_a_date(kings: Evaluation):
    assert kings.record["not_asked"] == {"no dated questions: the date of change is not known": 1}
    failed = kings.tables["updates"].filter(pl.col("status") == "failed")
    assert failed.select("method", "variant", "case_id").rows() == [("PROMPT", "dated", "Nowhere")]
    assert failed["reason"][0].startswith("update Nowhere does not say when its new object became true")


def test_the_clean_model_is_asked_once_for_all_methods(kings: Evaluation, tmp_path: Path):
    lm: Any = TableModel(table())
    run_evaluation(lm, CASES, plan_edits(lm, ["PROMPT", "PROMPT dated"]), tmp_path, ONE_BY_ONE)
    clean = [pair for pair in lm.asked if re.match(r"(In|On) .* the king of ", pair[0]) and "Cato. " not in pair[0]]
    assert len(clean) == len(set(clean)) > 50


def test_a_method_and_its_variant_with_a_date_share_settings_and_differ_in_their_requests():
    assert [parse_method(name) for name in ("rome", "FT+l DATED", "Prompt dated", "memit meto")] == [
        ("ROME", "plain"),
        ("FT+L", "dated"),
        ("PROMPT", "dated"),
        ("MEMIT", "METO"),
    ]
    lm: Any = TableModel({})
    with pytest.raises(ConfigError, match="the methods PROMPT dated, PROMPT dated are not all different"):
        plan_edits(lm, ["PROMPT dated", "prompt DATED"])
    with pytest.raises(ConfigError, match="method 'ROAM': choose one of"):
        plan_edits(lm, ["ROAM dated"])
    plain, dated = plan_edits(lm, ["PROMPT", "PROMPT dated"], changes={"PROMPT": {"end": "; "}})
    assert plain.settings == dated.settings and plain.settings.end == "; "
    for one, prompt, old in (
        (plain, "The king of {} is", "The king of Atlantis is Bran"),
        (dated, "On June 16, 2010, the king of {} is", "On March 2, 2006, the king of Atlantis is Bran"),
    ):
        asked = [EditRequest(prompt, "Atlantis", "Cato", old_sentence=old)]
        assert requests_of(ATLANTIS, one.method, variant=one.variant) == asked
        templated = replace(ATLANTIS, prompt="The king of {} is")
        assert requests_of(templated, one.method, variant=one.variant) == asked


def test_a_scenario_that_a_method_cannot_make_is_the_reason_whether_or_not_a_date_is_known():
    archive = replace(NOWHERE, scenario="Archive", new=None, objects=(("Bran", "obsolete"),))
    for case in (archive, replace(archive, start="2010")):
        with pytest.raises(DataError, match="update Nowhere: ROME cannot make updates of the scenario Archive; FT,"):
            requests_of(case, "ROME", "dated")
    with pytest.raises(DataError, match="update Nowhere does not say when"):
        requests_of(archive, "FT", "dated")
    with pytest.raises(DataError, match="update Nowhere has no new object"):
        requests_of(replace(NOWHERE, new=None), "FT", "dated")


def test_runs_with_and_without_dates_do_not_mix(tmp_path: Path):
    lm: Any = TableModel(table())
    run_evaluation(lm, CASES, plan_edits(lm, ["PROMPT"]), tmp_path, ONE_BY_ONE)
    without = replace(ONE_BY_ONE, measures=replace(ONE_BY_ONE.measures, dated=None))
    with pytest.raises(ConfigError, match="dated"):
        run_evaluation(lm, CASES, plan_edits(lm, ["PROMPT"]), tmp_path, without)
    result = run_evaluation(lm, CASES, plan_edits(lm, ["PROMPT"]), tmp_path / "without", without)
    for path in (tmp_path / "without").glob("*/part-*.parquet"):  # as versions without dated questions wrote them
        pl.read_parquet(path).drop("dated", "dated_neighbours").write_parquet(path)
    again = run_evaluation(lm, CASES, plan_edits(lm, ["PROMPT", "PROMPT dated"]), tmp_path / "without", without)
    assert again.tables["targets"].filter(variant="plain").equals(result.tables["targets"])
    assert "dated" not in result.tables and not (tmp_path / "without" / "dated.parquet").exists()
    with pytest.raises(DataError, match="none of 1 updates says when"):
        run_evaluation(
            lm, CaseSet("one", "zsre", (NOWHERE,), {}), plan_edits(lm, ["PROMPT"]), tmp_path / "one", ONE_BY_ONE
        )


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("llama")


FRANCE = EditCase(
    "1", "France", "The president of France is", "Angela Merkel", "Jacques Chirac", (),
    (NeighbourFact("The capital of Germany is", ("Berlin", "Paris"), 0.5, None, "Germany"),), start="2017-05",
    old_start="2015",
)  # fmt: skip
COUNTRIES = CaseSet("countries", "wikifactdiff", (FRANCE, replace(FRANCE, case_id="2", start="2018-02-03")), {})


def fast(lm: LanguageModel, *methods: str) -> Any:
    return plan_edits(lm, methods, changes={"FT": {"steps": 3, "layer": 2, "rate": 1e-2}})


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["independent", "batch", "sequential"])
def test_dated_scores_of_a_real_model_against_asking_it(lm: LanguageModel, tmp_path: Path, mode: str):
    """Requests with a date name the day after the change; each number is the model's own under that edit."""
    settings = replace(SETTINGS, mode=mode)
    result = run_evaluation(lm, COUNTRIES, fast(lm, "FT", "FT dated"), tmp_path, settings)
    planned = fast(lm, "FT")[0]
    for variant, openings in (
        ("plain", ("The", "The")),
        ("dated", ("On June 1, 2017, the", "On February 4, 2018, the")),
    ):
        requests = [EditRequest(f"{opening} president of {{}} is", "France", "Angela Merkel") for opening in openings]
        for number, case in enumerate(COUNTRIES.cases):
            mine = result.tables["dated"].filter(method="FT", variant=variant, case_id=case.case_id)
            first = mine.row(0, named=True)
            last = mine.row(-1, named=True)
            texts = [f"{word(row['time'])}the president of France is" for row in (first, last)]
            asked = [(text, who) for text in texts for who in (case.new, case.old)]
            if mode == "sequential":
                one = make_edit(lm, "FT", requests[:1], planned.settings)
                with edited(lm, one):
                    two = make_edit(lm, "FT", requests[1:], planned.settings)
                edit = one + two
            else:
                edit = make_edit(lm, "FT", requests if mode == "batch" else [requests[number]], planned.settings)
            before = asking(lm, asked)
            with edited(lm, edit):
                after = asking(lm, asked)
            rows = [[row[f"{o}_{w}"] for row in (first, last) for o in ("new", "old")] for w in ("before", "after")]
            assert rows[0] == pytest.approx(before, rel=1e-4)
            assert rows[1] == pytest.approx(after, rel=1e-3)


def word(time: str) -> str:
    date = datetime.date(*[int(part) for part in f"{time}-01-01".split("-")[:3]])
    return {4: f"In {date:%Y}, ", 7: f"In {date:%B} {date:%Y}, ", 10: f"On {date:%B} {date.day}, {date:%Y}, "}[
        len(time)
    ]


def asking(lm: LanguageModel, pairs: Any) -> list[float]:
    tokens = [len(text.targets) for text in lm.encode([(prompt, answer, None) for prompt, answer in pairs])]
    return [math.exp(logp / n) for logp, n in zip(lm.log_probs(pairs), tokens, strict=True)]


@pytest.mark.few(1)
@pytest.mark.parametrize("stop_after", [1, 3])
def test_an_interrupted_run_ends_with_the_same_dated_scores(
    lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
):
    monkeypatch.setattr(stages_module, "PART", 1)
    whole = run_evaluation(lm, COUNTRIES, fast(lm, "FT", "FT dated"), tmp_path / "whole", SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        run_evaluation(lm, COUNTRIES, fast(lm, "FT", "FT dated"), tmp_path / "cut", SETTINGS,
                       callbacks=killed_after(stop_after))  # fmt: skip
    cut = run_evaluation(lm, COUNTRIES, fast(lm, "FT", "FT dated"), tmp_path / "cut", SETTINGS)
    assert whole.tables["dated"].equals(cut.tables["dated"]) and whole.tables["dated_neighbours"].equals(
        cut.tables["dated_neighbours"]
    )
    assert pl.read_parquet(tmp_path / "cut" / "dated.parquet").equals(cut.tables["dated"])


def test_a_dated_method_fails_on_groups_that_it_cannot_make_for_their_scenario(lm: LanguageModel, tmp_path: Path):
    """A mixed run: the group has no date of change, and would not be made if it had one."""
    gone = replace(
        FRANCE, case_id="3", scenario="Archive", start=None, new=None, objects=(("Jacques Chirac", "obsolete"),)
    )
    cases = CaseSet("mixed", "wikifactdiff", (*COUNTRIES.cases, gone), {})
    settings = {"ROME": {"steps": 2, "contexts": [], "layer": 1}}
    methods = plan_edits(lm, ["ROME", "ROME dated"], changes=settings, identity_covariance=True)
    result = run_evaluation(lm, cases, methods, tmp_path, SETTINGS)
    failed = result.tables["updates"].filter(status="failed")
    assert failed.select("method", "variant", "case_id").rows() == [("ROME", "plain", "3"), ("ROME", "dated", "3")]
    assert failed["reason"].n_unique() == 1 and "of the scenario Archive" in failed["reason"][0]


def test_dates_groups_and_generation_in_one_run(lm: LanguageModel, tmp_path: Path):
    """Only the replacements are asked with dates, whatever else is asked; PROMPT's text stands before the date."""
    added = replace(
        FRANCE, case_id="3", scenario="AddObject", old=None, objects=(("Angela Merkel", "new"), ("Berlin", "static"))
    )
    cases = CaseSet("mixed", "wikifactdiff", (*COUNTRIES.cases, added), {})
    settings = EvaluateSettings(measures=Measures(0, generate=True, dated=Dating("2020", ways=("prompt",))))
    methods = plan_edits(lm, ["PROMPT", "PROMPT dated"])
    result = run_evaluation(lm, cases, methods, tmp_path, settings)
    assert set(result.tables["dated"]["case_id"]) == {"1", "2"}
    assert set(result.tables["objects"]["case_id"]) == {"3"} and result.tables["generations"].height == 2 * 3
    assert result.record["not_asked"] == {"no dated questions: not a replacement": 1}
    assert result.tables["updates"]["status"].to_list() == ["done"] * 6
    row = result.tables["dated"].filter(method="PROMPT", variant="dated", case_id="2").row(0, named=True)
    requests = requests_of(COUNTRIES.cases[1], "PROMPT", "dated")
    edit = make_edit(lm, "PROMPT", requests, methods[0].settings)
    assert edit.prefix.startswith("On February 4, 2018, the president of France is Angela Merkel")
    text = f"{edit.prefix}{word(row['time'])}the president of France is"
    after = asking(lm, [(text, who) for who in ("Angela Merkel", "Jacques Chirac")])
    assert [row["new_after"], row["old_after"]] == pytest.approx(after, rel=1e-3)
    summary = summarise(dated_metrics(result.tables["dated"], result.tables["updates"]), DATED_METRICS, DATED_SHARES)
    assert summary.select("scenario", method_label(), "done").rows() == [
        ("ReplaceObject", name, 2) for name in ("unedited", "PROMPT", "PROMPT dated")
    ]
