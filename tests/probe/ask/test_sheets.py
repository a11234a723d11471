"""Sheets: from the same answers the numbers of a run that asks."""

import json
from pathlib import Path

import pytest

from anachron.core.draws import draw
from anachron.core.several_periods import periods_text
from anachron.data.loaders import load_dataset
from anachron.io.answers import Answer
from anachron.probe.ask.asking import AskSettings
from anachron.probe.ask.sheets import read_sheet, sheet_scores, summary, write_sheet
from anachron.probe.by_answers import ByAnswers
from anachron.probe.questions import questions_of
from support.asked_runs import AS_OF, FACTS, Scripted, known


def unsure(share: int):
    """Somebody who answers as `known`, but in every so many questions otherwise: wrongly, not at all, or with both."""

    def script(prompt: str) -> str:
        luck = draw("unsure", prompt)
        years = prompt.split(", ")[-1].split("?")[0]
        return (
            known(prompt) if luck % share else ["I do not know", years, "Angela Merkel", "", "1066"][luck // share % 5]
        )

    return script


@pytest.mark.parametrize("share", [1, 2, 3, 7])
def test_the_same_answers_come_to_the_numbers_of_a_run(tmp_path: Path, share: int):
    (tmp_path / "facts.csv").write_text(FACTS)
    data = load_dataset(str(tmp_path / "facts.csv"), as_of=AS_OF)
    settings = AskSettings(ways=("open", "choice"), width=0, rounds=3)
    run = ByAnswers(Scripted("unsure", unsure(share)), settings).probe(data, tmp_path / "run")
    said = {row["prompt"]: row["text"] for row in run.answers.iter_rows(named=True)}
    questions, _ = questions_of(data)
    scores = []
    for fact in questions.facts:
        sheet = read_sheet(json.loads(json.dumps(write_sheet(questions, fact))))
        assert sheet.matches == fact.matches
        replies = {prompt: Answer(text, "stop", None, None, None, None) for prompt, text in said.items()}
        chosen = {c: sheet.chosen(c, replies[q.prompt]) for c, q in sheet.choices.items() if q.prompt in replies}
        found = sheet_scores(sheet, chosen, [one.outcome(replies[one.prompt]) for one in sheet.open])
        (row,) = run.facts.filter(fact_id=fact.fact_id).iter_rows(named=True)
        for name in set(found) - {"first_chosen", "matches"}:
            assert found[name] == (None if row[name] is None else pytest.approx(float(row[name]), abs=1e-12)), name
        assert found["matches"] == (row["matches"] or 0)
        scores.append(found)
    for name, value in summary(scores, [fact.subject for fact in questions.facts]).items():
        assert value == (None if run.summary[name] is None else pytest.approx(run.summary[name], abs=1e-12)), name


def test_a_sheet_says_all_that_is_asked(tmp_path: Path):
    (tmp_path / "facts.csv").write_text(FACTS)
    questions, _ = questions_of(load_dataset(str(tmp_path / "facts.csv"), as_of=AS_OF))
    fact = next(one for one in questions.facts if one.object == "Angela Merkel")
    sheet = write_sheet(questions, fact)
    assert sheet["periods"] == periods_text(fact.periods) == "2005-11-22/2021-12-08"
    for one in sheet["open"]:
        assert one["prompt"].startswith(f"In {one['year']}, ")
        assert one["names"] == {name: name for name in ("Gerhard Schröder", "Angela Merkel", "Olaf Scholz")}
        assert one["right"] == ["Angela Merkel"]
    for match in (match for stratum in sheet["strata"] for match in stratum["drawn"]):
        assert 2005 < int(match["correct"]) < 2021 or match["correct"] in ("2005", "2021")
        assert match["years"] == [[match["correct"], match["incorrect"]], [match["incorrect"], match["correct"]]]
        for prompt, (first, second) in zip(match["prompts"], match["years"], strict=True):
            assert "Answer: Angela Merkel\n" in prompt and f" {first} or {second}?" in prompt
