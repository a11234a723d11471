"""Facts in all their wordings: statements, scores against a plain way, the table against loops, and resuming."""

from pathlib import Path
from statistics import mean

import polars as pl
import pytest

from anachron.analysis.analyses.wordings import by_wording
from anachron.cli.main import run_command
from anachron.core.errors import DataError
from anachron.data.build_statements import build_statements
from anachron.data.dataset import Dataset
from anachron.data.decoys import with_decoys
from anachron.data.facts import read_questions
from anachron.data.loaders import load_dataset
from anachron.data.wordings import with_wordings
from anachron.io.tables import write_table
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.probe.run import ProbeResult, run_probe
from anachron.report.studies import write_metrics
from anachron.text.languages import language_of
from anachron.text.questions import relation_templates
from support.small_runs import in_small_parts
from support.tiny_models import naive_log_prob

FACTS = """subject,relation,object,start,end,question
France,head of state,Jacques Chirac,1995-05-17,2007-05-16,
France,head of state,Nicolas Sarkozy,2007-05-16,2012-05-15,in whom did France find its first citizen?
Sirius,spirit animal,the wolf,1995,2007,which animal stood for Sirius?
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    path = tmp_path_factory.mktemp("facts") / "facts.csv"
    path.write_text(FACTS)
    return load_dataset(str(path), as_of="2024", sampling="near")


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("demo")


@pytest.fixture(scope="module")
def both(data) -> Dataset:
    return with_wordings(with_decoys(data, 1))


@pytest.fixture(scope="module")
def run(both, lm: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> ProbeResult:
    with pytest.MonkeyPatch.context() as patch:
        in_small_parts(patch, 500)
        return run_probe(lm, both, tmp_path_factory.mktemp("runs") / "run")


def test_statements_differ_in_the_question_alone(data):
    worded = with_wordings(data)
    rows = worded.statements().filter(pl.col("wording").is_not_null())
    templates = [q.replace("[SUBJ]", "France") for q in relation_templates()["P35"][1]]
    in_2000 = rows.filter(pl.col("time") == "2000", pl.col("object_label") == "Jacques Chirac").sort("wording")
    assert in_2000["prompt"].to_list() == [f"In 2000, {question}" for question in templates]
    own = rows.filter(pl.col("time") == "2009", pl.col("object_label") == "Nicolas Sarkozy").sort("wording")
    asked = "In 2009, in whom did France find its first citizen?"
    assert own["prompt"].to_list() == [asked, *(f"In 2009, {question}" for question in templates)]
    assert own["wording"].to_list() == [0, 1, 2, 3, 4]
    assert not rows.filter(pl.col("subject_label") == "Sirius").height  # of no relation with templates
    dated = data.table.filter(pl.col("status").is_in(["correct", "incorrect"]))
    for wording in (1, 2, 3, 4):
        same = rows.filter(pl.col("wording") == wording).select("fact_id", "time", "status", "answer")
        expected = dated.filter(pl.col("subject_label") == "France").select("fact_id", "time", "status", "answer")
        assert same.sort(same.columns).equals(expected.sort(same.columns))
    assert worded.choices()["wordings"] is True and worded.fingerprint() != data.fingerprint()
    assert worded.sample(1).wordings["fact_id"].n_unique() <= 1


WRITTEN = ("who led France?", "in whom did France find its first citizen?", "the head of France was")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_questions_that_were_written_for_a_fact_are_asked(tmp_path: Path, ending: str):
    fact = {
        "fact_id": "f", "subject_label": "France", "relation_label": "head of state", "object_label": "Jacques Chirac",
        "start": "1995-05-17", "end": "2007-05-16", "question": WRITTEN[1], "questions": WRITTEN,
    }  # fmt: skip
    other = fact | {"fact_id": "g", "object_label": "the eagle", "relation_label": "spirit animal", "questions": None}
    write_table(tmp_path / "questions.parquet", pl.DataFrame([fact, other]))
    build_statements(tmp_path / "questions.parquet", tmp_path / f"set.{ending}")
    data = load_dataset(str(tmp_path / f"set.{ending}"))
    rows = with_wordings(data).statements().filter(pl.col("wording").is_not_null())
    assert set(rows["object_label"]) == {"Jacques Chirac"}  # the other has one question and no templates
    asked = rows.filter(pl.col("time") == "2000").sort("wording")
    assert asked.select("wording", "prompt").rows() == [(n, f"In 2000, {text}") for n, text in enumerate(WRITTEN, 1)]
    dated = data.table.filter(pl.col("status").is_in(["correct", "incorrect"]), pl.col("answer") == "Jacques Chirac")
    assert rows.filter(pl.col("wording") == 2)["prompt"].to_list() == dated["prompt"].to_list()


def test_of_a_file_of_facts_they_are_too(tmp_path: Path):
    row = {"subject": "France", "relation": "spirit animal", "object": "the cock", "start": "1995", "end": "2007"}
    rows = [row | {"question": WRITTEN[1], "questions": WRITTEN}, row | {"start": "2010", "end": "2013"}]
    write_table(tmp_path / "facts.parquet", pl.DataFrame(rows))
    data = with_wordings(load_dataset(str(tmp_path / "facts.parquet"), as_of="2024"))
    asked = data.statements().filter(pl.col("wording").is_not_null(), pl.col("time") == "2011").sort("wording")
    assert asked.select("wording", "prompt").rows() == [(n, f"In 2011, {text}") for n, text in enumerate(WRITTEN, 1)]
    for other, said in ((["who?", "which?"], "no fact has several"), ("3", "no fact has several")):  # not drawn from
        write_table(tmp_path / "facts.parquet", pl.DataFrame([rows[0] | {"questions": other}]))
        with pytest.raises(DataError, match=said):
            with_wordings(load_dataset(str(tmp_path / "facts.parquet"), as_of="2024"))
    write_table(tmp_path / "facts.parquet", pl.DataFrame([rows[0] | {"questions": [*WRITTEN, "it was so."]}]))
    with pytest.raises(DataError, match=r"row 1, questions: question 'it was so\.' must end"):
        load_dataset(str(tmp_path / "facts.parquet"), as_of="2024")


def test_a_question_that_is_a_sentence_is_refused(tmp_path: Path):
    fact = dict(zip(("subject_label", "relation_label", "object_label", "start", "end"), "sro12", strict=True))
    write_table(tmp_path / "q.jsonl", pl.DataFrame([fact | {"question": "who?", "questions": ["who?", "it was he."]}]))
    with pytest.raises(DataError, match=r"row 1: questions .*'it was he.* each must end with"):
        read_questions(tmp_path / "q.jsonl")


def test_statements_in_french_are_worded_in_french(tmp_path: Path):
    facts = FACTS.replace("head of state", "chef de l'État").splitlines()[:2]
    (tmp_path / "facts.csv").write_text("\n".join(facts))
    build_statements(tmp_path / "facts.csv", tmp_path / "set.parquet", language="fr", as_of="2024")
    data = with_wordings(load_dataset(str(tmp_path / "set.parquet")))
    asked = data.statements().filter(pl.col("wording").is_not_null(), pl.col("time") == "2000").sort("wording")
    french = language_of("fr")
    templates = french.relations["P35"].questions
    assert asked["prompt"].to_list() == [f"En 2000, {french.question(q, 'France')}" for q in templates]


def test_without_any_template_there_are_no_wordings(tmp_path: Path):
    (tmp_path / "facts.csv").write_text("\n".join(FACTS.splitlines()[::3]))
    with pytest.raises(DataError, match="no fact has several questions, nor a relation with templates"):
        with_wordings(load_dataset(str(tmp_path / "facts.csv"), as_of="2024"))


@pytest.mark.full
def test_scores_are_those_of_the_texts_and_resume(data, both, run, lm: LanguageModel, tmp_path: Path):
    file = run.folder / "wordings.parquet"
    scores = pl.read_parquet(file)
    alone = run_probe(lm, data, tmp_path / "alone").scores
    shared = [name for name in alone.columns if name != "logp"]
    assert run.scores.select(shared).equals(alone.select(shared)) and run.decoys is not None
    rows = both.statements().filter(pl.col("wording").is_not_null())
    assert scores.select("fact_id", "wording", "time").equals(rows.select("fact_id", "wording", "time"))
    for row, logp in list(zip(rows.iter_rows(named=True), scores["logp"], strict=True))[::97]:
        assert logp == pytest.approx(naive_log_prob(lm, row["prompt"], row["answer"]), abs=1e-4)
    asked = run.scores.filter(pl.col("object_label") == "Nicolas Sarkozy", pl.col("time") == "2009")["logp"].item()
    own = scores.filter(pl.col("wording") == 0, pl.col("time") == "2009")["logp"].item()
    assert own == asked  # one text, scored once
    before = file.read_bytes()
    file.unlink()
    with pytest.MonkeyPatch.context() as patch:
        in_small_parts(patch, 500)
        run_probe(lm, both, run.folder)
    assert file.read_bytes() == before


@pytest.mark.full
def test_the_table_equals_the_loop(data, run, tmp_path: Path):
    scores = pl.read_parquet(run.folder / "wordings.parquet")
    rates: dict[tuple[str, str, int], float] = {}
    for (fact, level, wording), rows in scores.group_by(["fact_id", "granularity", "wording"]):
        right, wrong = (rows.filter(pl.col("status") == s)["logp"].to_list() for s in ("correct", "incorrect"))
        rates[str(fact), str(level), int(str(wording))] = mean(r > w for r in right for w in wrong)
    table = write_metrics([run.folder], tmp_path / "metrics", resamples=50).tables["wordings"]
    for row in table.filter(pl.col("granularity") == "year").to_dicts():
        of_fact: dict[str, list[float]] = {}
        for (fact, level, wording), rate in rates.items():
            if level == "year" and row["wording"] in (str(wording), "all", "any"):
                of_fact.setdefault(fact, []).append(rate)
        pick = {"all": min, "any": max}.get(row["wording"], min)
        values = [pick(found) for found in of_fact.values()]
        assert (row["facts"], row["win_rate"]) == (len(values), pytest.approx(mean(values)))
        assert row["robustness"] == pytest.approx(mean(value == 1 for value in values))
        assert row["win_rate_low"] <= row["win_rate"] <= row["win_rate_high"]
    assert set(table["wording"]) == {"0", "1", "2", "3", "4", "all", "any"}
    named = by_wording(scores.filter(pl.col("wording") > 0), data.table.select("fact_id", "subject_label"))
    assert set(named["wording"]) == {"1", "2", "3", "4", "all", "any"}


@pytest.mark.full
def test_the_command_asks_in_all_wordings(tmp_path: Path, capsys):
    (tmp_path / "facts.csv").write_text(FACTS)
    words = ["probe", "demo", "--dataset", str(tmp_path / "facts.csv"), "--as-of", "2024", "--wordings"]
    assert run_command([*words, "--out", str(tmp_path / "run")], False) == 0
    told = capsys.readouterr()
    assert (tmp_path / "run" / "metrics" / "wordings.csv").is_file() and "more than one fact or date" not in told.err
    asked = [*words, "--out", str(tmp_path / "chat"), "--backend", "chat", "--base-url", "http://127.0.0.1:9/v1"]
    assert run_command(asked, False) == 2
    assert "--wordings is for models that are scored" in capsys.readouterr().err
