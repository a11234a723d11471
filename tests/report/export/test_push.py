"""What is sent to the hub: its client is replaced by one that writes down what it is told."""

import json
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalTokenNotFoundError

from anachron.cli.main import run_command
from anachron.core.errors import BackendError, ConfigError
from anachron.data.dataset import Dataset
from anachron.report.export.hub import export_hub
from anachron.report.export.push import files_to_push, push


class Hub:
    """The calls of a client that is never reached, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fault: Exception | None = None) -> None:
        self.calls: list[tuple[str, dict]] = []

        def create_repo(_, repo_id: str, **options) -> None:
            self.calls.append(("create_repo", {"repo_id": repo_id, **options}))
            if fault is not None:
                raise fault

        def upload_folder(_, **options) -> SimpleNamespace:
            self.calls.append(("upload_folder", options))
            return SimpleNamespace(commit_url="https://example.org/commit")

        monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", create_repo)
        monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", upload_folder)


def test_a_dry_run_lists_the_files_and_sends_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    hub = Hub(monkeypatch)
    argv = ["export", "hub", str(file), "--out", str(tmp_path / "out"), "--licence", "mit", "--push", "me/five"]
    assert run_command([*argv, "--dry-run"], debug=False) == 0
    said = capsys.readouterr().err
    sizes = {p.relative_to(tmp_path / "out").as_posix(): p.stat().st_size for p in (tmp_path / "out").rglob("*.*")}
    assert len(sizes) == 4
    assert all(f"{size:>12,} bytes  {name}" in said for name, size in sizes.items())
    assert "nothing was sent to me/five" in said
    assert hub.calls == []
    assert run_command([*argv, "--json"], debug=False) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["files"] == sizes and shown["commit"] == "https://example.org/commit"
    made, sent = hub.calls
    assert made == ("create_repo", {"repo_id": "me/five", "repo_type": "dataset", "private": True, "exist_ok": True})
    assert sent[1]["folder_path"] == tmp_path / "out" and sent[1]["repo_type"] == "dataset"
    assert sorted(sent[1]["allow_patterns"]) == sorted(sizes)


def test_what_cannot_be_sent_is_refused(
    five: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    hub = Hub(monkeypatch)
    manifest = export_hub(five, tmp_path / "out")
    with pytest.raises(ConfigError, match="states no licence"):
        push(tmp_path / "out", manifest, "me/five")
    manifest = export_hub(five, tmp_path / "out", licence="mit")
    for name in ("five", "a/b/c", "me/fi ve", ""):
        with pytest.raises(ConfigError, match="OWNER/NAME"):
            files_to_push(tmp_path / "out", manifest, name)
    assert run_command(["export", "hub", str(file), "--out", str(tmp_path / "new"), "--dry-run"], debug=False) == 2
    assert "--push OWNER/NAME" in capsys.readouterr().err and not (tmp_path / "new").exists()
    for name, told in (("five", "write OWNER/NAME"), ("me/five", "states no licence")):  # before anything is written
        assert run_command(["export", "hub", str(file), "-o", str(tmp_path / "new"), "--push", name], debug=False) == 2
        assert told in capsys.readouterr().err and not (tmp_path / "new").exists()
    assert hub.calls == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (LocalTokenNotFoundError("no token"), "hf auth login"),
        (ConnectionError("no route"), "did not take the data set .no route"),
    ],
)
def test_what_the_hub_says_is_told(
    five: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception, words: str
):
    hub = Hub(monkeypatch, fault)
    manifest = export_hub(five, tmp_path / "out", licence="mit")
    with pytest.raises(BackendError, match=words):
        push(tmp_path / "out", manifest, "me/five")
    assert [name for name, _ in hub.calls] == ["create_repo"]


def test_a_sample_of_a_bundled_data_set_keeps_its_licence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    argv = ["export", "hub", "mini", "--limit", "3", "--push", "me/three", "--dry-run", "--out", str(tmp_path / "out")]
    assert run_command(argv, debug=False) == 0
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "license: mit\n" in card and "a fixed sample of 3 of its facts" in card
    assert "common knowledge" in card  # how the facts were made, as of the whole
    assert run_command([*argv, "--licence", "cc0-1.0"], debug=False) == 2
    assert "mini is under mit, not 'cc0-1.0'" in capsys.readouterr().err
