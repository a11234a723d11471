"""The package for Inspect, and the real Inspect running it with a model that answers by a script."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from anachron.cli.main import run_command
from anachron.core.draws import draw
from anachron.core.errors import ConfigError
from anachron.data.dataset import Dataset
from anachron.io.answers import Answer
from anachron.io.files import file_fingerprint, read_json, read_jsonl
from anachron.io.jobs import Callbacks
from anachron.probe.ask.asking import AskSettings
from anachron.probe.by_answers import ByAnswers
from anachron.report.export.inspect_package import export_inspect

SCRIPT = """
import json, sys
from pathlib import Path
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
folder, package, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
answers = json.loads((folder / "answers.json").read_text("utf-8"))

def answer(messages, tools, choice, config):
    (message,) = messages  # a conversation of its own
    output = ModelOutput.from_content("scripted", answers[message.text])
    output.usage = ModelUsage(input_tokens=1, output_tokens=1)  # else it counts them with a file from the network
    return output

(log,) = eval(
    f"task/{package}/task.py", model=get_model("mockllm/model", custom_outputs=answer),
    task_args={"rounds": rounds}, log_dir=str(folder / "logs"), display="none",
)
assert log.status == "success", log.error
(score,) = log.results.scores
found = {
    "loaded": [name for name in ("torch", "transformers") if name in sys.modules],
    "metrics": {name: metric.value for name, metric in score.metrics.items()},
    "facts": {sample.id: sample.scores["dated_answers"].value["win_rate"] for sample in log.samples},
}
(folder / "found.json").write_text(json.dumps(found))
"""


def test_the_package_and_its_manifest(five: Dataset, tmp_path: Path):
    manifest = export_inspect(five, tmp_path, name="when")
    assert {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()} == {
        *("when/task.py", "when/samples.jsonl", "when/__init__.py", "pyproject.toml", "README.md", "manifest.json")
    }
    assert read_json(tmp_path / "manifest.json") == manifest
    assert manifest["files"] == {file: file_fingerprint(tmp_path / file) for file in manifest["files"]}
    assert manifest["counts"]["facts"] == 5
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["entry-points"]["inspect_ai"] == {"when": "when"}
    rows = read_jsonl(tmp_path / "when" / "samples.jsonl")
    assert {row["id"] for row in rows} == set(five.table["fact_id"])
    labels = dict(five.table.select("fact_id", "object_label").rows())
    assert all(row["target"] == row["metadata"]["object"] == labels[row["id"]] for row in rows)


def test_an_earlier_package_gives_way_to_one_of_another_name(five: Dataset, tmp_path: Path):
    export_inspect(five, tmp_path / "task", name="first")
    (tmp_path / "task" / "first" / "mine.txt").touch()
    export_inspect(five, tmp_path / "task", name="second")
    assert [p.name for p in (tmp_path / "task" / "first").iterdir()] == ["mine.txt"]
    for wrong in ("a-b", "Upper", "1st", "a/b", "größe", "", "class"):
        with pytest.raises(ConfigError, match="lower-case letters, digits and _"):
            export_inspect(five, tmp_path / "wrong", name=wrong)
    assert not (tmp_path / "wrong").exists()


def test_the_command(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    argv = ["export", "inspect", str(file), "--out", str(tmp_path / "task")]
    assert run_command([*argv, "--json"], debug=False) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["package"], shown["task"], shown["facts"]) == ("anachron_five", "dated_facts", 5)
    assert run_command([*argv, "--name", "when"], debug=False) == 0
    assert "inspect eval when/task.py --model MODEL" in capsys.readouterr().err
    assert run_command([*argv, "--name", "not so"], debug=False) == 2
    assert "lower-case letters" in capsys.readouterr().err


class Noisy:
    """Answers by hashes of the question, some of which cannot be read."""

    name = "noisy"

    def __init__(self) -> None:
        self.said: dict[str, str] = {}

    def identity(self) -> dict[str, str]:
        return {"backend": "generate", "model": self.name}

    def answers(self, prompts: list[str], callbacks: Callbacks) -> list[Answer]:
        for prompt in prompts:
            years = prompt.rpartition(", ")[2].partition("?")[0].split(" or ")
            luck = draw(prompt)
            taken = ["I do not know", "<think>hm</think>", " and ".join(years), years[0], min(years), max(years)]
            self.said[prompt] = (
                taken[luck % 6] if len(years) == 2 else ["unknown", "Nobody", "Jacques Chirac"][luck % 3]
            )
        return [Answer(self.said[prompt], "stop", None, None, None, None) for prompt in prompts]


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 5])
def test_the_real_inspect_comes_to_the_same_w(five: Dataset, tmp_path: Path, rounds: int):
    pytest.importorskip("inspect_ai", reason="pip install 'anachron[export-test]'")
    noisy = Noisy()
    settings = AskSettings(ways=("open", "choice"), width=0, rounds=rounds)
    run = ByAnswers(noisy, settings).probe(five, tmp_path / "run")
    package = export_inspect(five, tmp_path / "task")["parameters"]["package"]
    (tmp_path / "answers.json").write_text(json.dumps(noisy.said))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, ".", package, str(rounds)], cwd=tmp_path, env=os.environ,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    found = read_json(tmp_path / "found.json")
    assert found["loaded"] == []
    for name, value in found["metrics"].items():
        assert value == pytest.approx(run.summary[name], abs=1e-9), name
    assert {"win_rate", "win_rate_low", "won_all", "position_bias", "open_right"} <= set(found["metrics"])
    for fact, value in run.facts.select("fact_id", "win_rate").rows():
        assert found["facts"][fact] == pytest.approx(value, abs=1e-9)
    assert 0 < found["metrics"]["win_rate"] < 1
