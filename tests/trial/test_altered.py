"""Files of every kind of run altered: bits flipped, rows removed, cells changed, files of another run.

Whoever reads them refuses in one line or finds the very same numbers; so does the command that made them, which may
make a file again but asks no server for an answer that was paid for.
"""

import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from anachron.core.errors import AnachronError
from anachron.data.decoys import with_decoys
from anachron.data.question_files import verbalise
from anachron.data.updates.cases import load_cases
from anachron.edit.corpus import open_corpus
from anachron.edit.covariance.collect import collect_covariance
from anachron.edit.methods.mend import MendSettings
from anachron.edit.plan import plan_edits
from anachron.edit.requests import EditRequest
from anachron.edit.training.mend import train_mend
from anachron.edit.training.mend_examples import MendExample
from anachron.evaluate.measure import Measures
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.io.llm_settings import LlmSettings
from anachron.lm.loading import load_model
from anachron.probe.ask.asking import AskSettings
from anachron.probe.ask.chat import ChatAnswerer
from anachron.probe.ask.run import read_answers, read_source
from anachron.probe.by_answers import ByAnswers
from anachron.probe.check.check import check
from anachron.probe.check.questions import CheckedFacts, read_facts
from anachron.probe.horizon.find import find_horizon, read_horizon, read_horizon_changes
from anachron.probe.runs import find_sources, read_runs
from anachron.report.edits.page import read_evaluation
from anachron.report.judging import judge_run
from anachron.report.studies import verdicts_of
from anachron.report.tracking import log_to
from support.asked_runs import AS_OF, FACTS, known
from support.llm_server import Reply, Server, chat, good_answer, prompt_of, serving
from support.tiny_models import make_lm

pytestmark = [
    pytest.mark.trial, pytest.mark.skipif(find_spec("openai") is None, reason="needs the extra llm")
]  # fmt: skip
EACH = 24  # alterations of a kind of run in each of four ways
CLAIM = 12 * 2012
CHANGES = "subject,relation,old,new,date\n" + "".join(
    f"Subject{i},head of government,Old{i},New{i},20{10 + i % 14}-0{1 + i % 9}\n" for i in range(24)
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A folder that is there whole; the command that made it, and who reads it, each with the numbers they give."""

    folder: Path
    repeat: Callable[[Path], Any]
    read: Callable[[Path], Any] = lambda folder: None
    foreign: Path | None = None

    @property
    def files(self) -> list[Path]:
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*"))
        return sorted(path for path in found if (self.folder / path).is_file() and path.name != ".lock")


def half_right(request: dict, number: int) -> Reply:
    """Answers of every kind of question; of some the wrong one."""
    text = prompt_of(request)
    if "The date phrase" in text:
        return good_answer(request)
    if "Given:" in text:
        return chat('{"correct": true}' if "Merkel" in text else '{"correct": false}')
    if subject := re.search(r"Subject(\d+)", text):
        return chat(f"{'New' if int(subject[1]) % 14 <= 5 else 'Old'}{subject[1]}")
    if years := re.search(r"In which year .*, (\d+) or (\d+)\?", text):
        return chat(years[1 + (int(years[1]) + int(years[2])) % 2])
    return chat(known(text))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(half_right) as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield found


def llm(server: Server, model: str = "m") -> LlmSettings:
    return LlmSettings(model, server.url, pause=0.001, tries=1, timeout=5)


def beside_one_decoy(file: Path) -> CheckedFacts:
    facts = read_facts(file, as_of=AS_OF)
    return replace(facts, data=with_decoys(facts.data, 1))


def by_scores(place: Path, server: Server) -> Kind:
    lm, other = load_model("demo"), load_model("demo-untrained")
    file = place / "facts.csv"
    file.write_text(FACTS)
    facts = beside_one_decoy(file)

    def read(folder: Path) -> Any:
        checks = [(check.table.rows(), check.summary) for check in verdicts_of(find_sources([folder])).values()]
        tables = [read_runs([folder]).rows(), read_runs([folder / "present"]).rows()]
        return checks, tables, log_to(folder, SimpleNamespace(log=lambda numbers: None))

    def repeat(folder: Path) -> Any:
        found = check(lm, facts, folder)
        return found.verdicts.rows(), found.summary, found.present.rows()

    check(other, facts, place / "foreign")
    return Kind(place / "run", repeat, read, place / "foreign")


def by_answers(place: Path, server: Server) -> Kind:
    file = place / "facts.csv"
    file.write_text(FACTS)
    facts, settings = beside_one_decoy(file), AskSettings(rounds=1)

    def read(folder: Path) -> Any:
        source = read_source(folder)
        checks = [(check.table.rows(), check.summary) for check in verdicts_of([], [source]).values()]
        return source.summary, checks, source.facts.rows(), read_answers(folder).rows()

    def repeat(folder: Path, model: str = "m") -> Any:
        found = check(ByAnswers(ChatAnswerer(llm(server, model), folder / "answers"), settings), facts, folder)
        return found.summary, found.verdicts.rows(), read_answers(folder).rows()

    repeat(place / "foreign", "another")
    return Kind(place / "run", repeat, read, place / "foreign")


def read_of_horizon(folder: Path) -> Any:
    found = read_horizon(folder, claim=CLAIM)
    return found.summary, found.preferences.rows(), None if found.kinds is None else found.kinds.rows()


def horizon_by_scores(place: Path, server: Server) -> Kind:
    (place / "changes.csv").write_text(CHANGES)
    changes = read_horizon_changes(place / "changes.csv")
    lm, other = load_model("demo"), load_model("demo-untrained")

    def repeat(folder: Path, of: Any = lm) -> Any:
        found = find_horizon(of, changes, folder, claim=CLAIM)
        return found.summary, found.preferences.rows()

    repeat(place / "foreign", other)
    return Kind(place / "run", repeat, read_of_horizon, place / "foreign")


def horizon_by_answers(place: Path, server: Server) -> Kind:
    (place / "changes.csv").write_text(CHANGES)
    changes = read_horizon_changes(place / "changes.csv")

    def repeat(folder: Path, model: str = "m") -> Any:
        answerer = ChatAnswerer(llm(server, model), folder / "asked" / "answers")
        found = find_horizon(ByAnswers(answerer), changes, folder, claim=CLAIM)
        return found.summary, found.preferences.rows()

    repeat(place / "foreign", "another")
    return Kind(place / "run", repeat, read_of_horizon, place / "foreign")


def judged(place: Path, server: Server) -> Kind:
    asked = by_answers(place, server)
    asked.repeat(place / "asked")

    def repeat(folder: Path) -> Any:
        return judge_run(place / "asked", llm(server, "judge"), place / "judged", cache=folder)[0].rows()

    judge_run(place / "asked", llm(server, "another judge"), place / "judged", cache=place / "foreign")
    return Kind(place / "run", repeat, foreign=place / "foreign")


def worded(place: Path, server: Server) -> Kind:
    rows = [
        {
            "fact_id": f"f{i}", "subject_id": f"Q{i}", "subject_label": subject, "subject_description": f"state {i}",
            "relation_id": "P36", "relation_label": "capital", "relation_description": "seat of government",
            "object_id": f"Q9{i}", "object_label": f"Town {subject}", "object_description": "town",
            "start": f"{1900 + i}", "end": f"{1950 + i}", "popularity": 100.0 - i, "other_objects": i,
        }
        for i, subject in enumerate(("Spain", "Italy", "Peru", "Chile"))
    ]  # fmt: skip
    pl.DataFrame(rows).write_parquet(place / "facts.parquet")

    def repeat(folder: Path, model: str = "m") -> Any:
        verbalise(place / "facts.parquet", place / "questions.parquet", llm(server, model), cache=folder)
        return pl.read_parquet(place / "questions.parquet").rows()

    repeat(place / "foreign", "another")
    return Kind(place / "run", repeat, foreign=place / "foreign")


def evaluated(place: Path, server: Server) -> Kind:
    lm, settings = load_model("demo"), EvaluateSettings(measures=Measures(fluency_tokens=0))
    methods = plan_edits(lm, ["FT", "PROMPT"], changes={"FT": {"steps": 2}})

    def numbers(tables: Mapping[str, pl.DataFrame]) -> Any:
        kept = {name: table.drop("seconds", strict=False) for name, table in tables.items() if table.height}
        return [(name, kept[name].to_dicts()) for name in sorted(kept)]

    def repeat(folder: Path, limit: int = 3) -> Any:
        return numbers(run_evaluation(lm, load_cases("mini-updates", limit=limit), methods, folder, settings).tables)

    repeat(place / "foreign", 2)
    return Kind(place / "run", repeat, lambda folder: numbers(read_evaluation(folder)[1]), place / "foreign")


def covariance(place: Path, server: Server) -> Kind:
    (place / "text.txt").write_text("".join(f"{n} and {n * n} make {n + n * n}\n" for n in range(300)))
    lm, text = make_lm("llama", "mistral"), open_corpus(place / "text.txt")

    def repeat(folder: Path, layer: int = 1) -> Any:
        (found,) = collect_covariance(
            lm, [f"model.layers.{layer}.mlp.down_proj"], text, tokens=500, cache=folder
        ).values()
        return found.matrix.tolist(), found.tokens

    repeat(place / "foreign", 0)
    return Kind(place / "run", repeat, foreign=place / "foreign")


def mend_network(place: Path, server: Server) -> Kind:
    names = ("Emmanuel Macron", "Angela Merkel", "Jacques Chirac")
    examples = [
        MendExample(
            EditRequest("The president of {} is", land, name), (f"{land} is led by",), (f"He led the team of {land}",)
        )
        for land, name in zip(("France", "Berlin", "Paris"), names, strict=True)
    ]
    settings = MendSettings(layers=(0, 1), rank=4, rate=1e-3, lr_rate=1e-2, start=1e-2, steps=2, batch=2)
    lm, other = make_lm("gpt2"), make_lm("gpt2", tie_word_embeddings=False)

    def repeat(folder: Path, of: Any = lm) -> Any:
        network = train_mend(of, examples, folder / "network", settings)
        return {name: tensor.tolist() for name, tensor in network.state_dict().items()}

    repeat(place / "foreign", other)
    return Kind(place / "run", repeat, foreign=place / "foreign")


def flip(file: Path, draw: random.Random, kind: Kind) -> bytes:
    held = bytearray(file.read_bytes())
    held[draw.randrange(len(held))] ^= 1 << draw.randrange(8)
    return bytes(held)


def drop_row(file: Path, draw: random.Random, kind: Kind) -> bytes | None:
    if file.suffix == ".parquet":
        table = pl.read_parquet(file).with_row_index("row_")
        if not table.height:
            return None
        gone = draw.randrange(table.height)
        table.filter(pl.col("row_") != gone).drop("row_").write_parquet(file)
        return file.read_bytes()
    lines = file.read_bytes().splitlines(keepends=True)
    if not lines:
        return None
    del lines[draw.randrange(len(lines))]
    return b"".join(lines)


def change_cell(file: Path, draw: random.Random, kind: Kind) -> bytes | None:
    """Another number in the place of one that is there."""
    if file.suffix == ".parquet":
        table = pl.read_parquet(file)
        names = [name for name, of in table.schema.items() if of.is_numeric() and table[name].null_count() == 0]
        if not names or not table.height:
            return None
        name, row = draw.choice(names), draw.randrange(table.height)
        changed = table[name].to_list()
        changed[row] += 1
        table.with_columns(pl.Series(name, changed, table.schema[name])).write_parquet(file)
        return file.read_bytes()
    held = file.read_bytes()
    places = [found.start() for found in re.finditer(rb"[0-9]", held)]
    place = draw.choice(places) if places else 0
    return held[:place] + str((int(held[place : place + 1]) + 1) % 10).encode() + held[place + 1 :] if places else None


def of_another(file: Path, draw: random.Random, kind: Kind) -> bytes | None:
    """The file of that name in a run of another model, or one of its kind."""
    assert kind.foreign is not None
    others = [p for p in kind.foreign.rglob(f"*{file.suffix}") if p.is_file() and p.name != ".lock"]
    same = [p for p in others if p.name == file.name and p.parent.name == file.parent.name]
    return draw.choice(same or others).read_bytes() if others else None


def said(call: Callable[[Path], Any], folder: Path) -> str | None:
    """What a call gives, written out; None where it refuses in one line."""
    try:
        return repr(call(folder))
    except AnachronError as error:
        return "many lines" if "\n" in str(error) else None


@pytest.mark.share(2)
@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize(
    "make",
    [
        by_scores, by_answers, horizon_by_scores, horizon_by_answers, judged, worded, evaluated, covariance,
        mend_network,
    ],
)  # fmt: skip
def test_no_altered_file_gives_another_number(
    make: Callable[..., Kind], part: int, server: Server, tmp_path: Path
):  # fmt: skip
    """Every other alteration; the rest in the other part."""
    kind = make(tmp_path, server)
    kind.repeat(kind.folder)
    asked = len(server.requests)
    whole = [repr(call(kind.folder)) for call in (kind.read, kind.repeat, kind.read)]
    draw, files, lost, tried, refused = random.Random(7 + part), kind.files, [], 0, 0
    for alter in (flip, drop_row, change_cell, of_another):
        for number in range(part, EACH, 2):
            name = files[number % len(files)] if len(files) <= EACH else draw.choice(files)
            damaged = Path(shutil.copytree(kind.folder, tmp_path / "damaged"))
            content = alter(damaged / name, draw, kind)
            if content is not None and content != (kind.folder / name).read_bytes():
                (damaged / name).write_bytes(content)
                found = [said(call, damaged) for call in (kind.read, kind.repeat, kind.read)]
                tried, refused = tried + 1, refused + (None in found)
                if any(one not in (None, all_) for one, all_ in zip(found, whole, strict=True)):
                    lost.append((alter.__name__, str(name), number))
            shutil.rmtree(damaged)
    paid = len(server.requests) - asked
    print(f"trial: {tried} files of {make.__name__} altered, {tried - len(lost)} survived ({refused} refused)")
    assert not lost and not paid and tried > EACH // 2
