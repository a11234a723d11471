"""Ctrl-C, closed and full streams, terminals of other encodings, and labels that hold commands for a terminal."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import polars as pl
import pytest
from rich.table import Table
from rich.text import Text

from anachron.cli.entry import run
from anachron.cli.main import run_command
from anachron.cli.output import SafeConsole, print_json, say, visible
from anachron.data.columns import to_published
from anachron.data.dataset import Dataset

INTERRUPTED = b"interrupted; finished work is kept, and the same command resumes from there\n"
HOSTILE = "a\x1b[31mb\x1b]8;;http://x\x07c\x9b2Jd\re\x08f\u202eg\x00"
CODES = (130, -signal.SIGINT)  # a shell shows 130 for both: Python may end itself by the signal, after all is said

# Sends itself a real SIGINT at the moment that a module is first looked for.
AT_IMPORT = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from anachron.cli.entry import run
run(sys.argv[2:])
"""


@pytest.mark.share(2)
@pytest.mark.full
@pytest.mark.parametrize(
    "module", ["typer", "rich.progress", "anachron.cli.updates", "polars", "transformers", "anachron.probe.run"]
)
def test_ctrl_c_is_answered_by_one_line_also_while_modules_are_imported(module: str, tmp_path: Path):
    words = ["probe", "demo", "--dataset", "mini", "--out", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-c", AT_IMPORT, module, *words], capture_output=True, timeout=120)
    assert (done.returncode in CODES, done.stdout, done.stderr) == (True, b"", INTERRUPTED)


def test_an_error_that_ctrl_c_caused_is_not_shown_for_it(monkeypatch: pytest.MonkeyPatch, capfd):
    def interrupted(**_: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            raise RuntimeError("a library that was half imported")

    monkeypatch.setattr("anachron.cli.main.command_tree", lambda installed: interrupted)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit, match="130"):
            run(["contexts"])
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, handler)
    assert capfd.readouterr() == ("", INTERRUPTED.decode())


@pytest.mark.full
def test_ctrl_c_while_a_bar_is_drawn_leaves_the_line_and_the_cursor(brief: Dataset, tmp_path: Path):
    data = tmp_path / "brief.csv"
    to_published(brief.table, brief.boundaries).write_csv(data)
    words = ["-m", "anachron.cli.entry", "probe", "demo", "--dataset", str(data), "--out", str(tmp_path / "run")]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(
        [sys.executable, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    shown = b""
    with os.fdopen(ours, "rb", buffering=0) as screen:
        while b"\x1b[?25l" not in shown:  # the bar hides the cursor
            shown += screen.read(4096)
        child.send_signal(signal.SIGINT)
        try:
            while more := screen.read(4096):
                shown += more
        except OSError:  # what Linux answers where nobody holds the other end
            pass
    assert child.wait(60) in CODES, shown
    assert shown.replace(b"\r", b"").endswith(INTERRUPTED)
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")  # the cursor is back


def run_in_shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    program = f'"{sys.executable}" -m anachron.cli.entry'
    return subprocess.run(
        ["bash", "-c", line.replace("anachron", program, 1)], capture_output=True, timeout=120,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.full
def test_a_closed_stdout_loses_what_is_printed_and_nothing_else(tmp_path: Path):
    out = tmp_path / "mini.csv"
    done = run_in_shell(f"anachron datasets mini --out {out} >&-")
    assert (done.returncode, done.stdout) == (0, b"") and pl.read_csv(out).height > 1000
    for closed in ("<&- >&-", "<&- >&- 2>&-"):
        done = run_in_shell(f"anachron contexts --start 2009 --end 2017 {closed}")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), closed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_stdout_is_an_error_in_one_line():
    done = run_in_shell("anachron contexts --start 2009 --end 2017 >/dev/full")
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"No space left" in done.stderr


@pytest.mark.full
def test_a_terminal_without_unicode_gets_every_result(tmp_path: Path):
    data = tmp_path / "data.csv"
    pl.DataFrame({
        "SubjectLabel": ["北京"], "RelationLabel": ["head"], "ObjectLabel": ["北京"], "StartDate": ["2001"],
        "EndDate": ["2010"], "Time": ["2005"], "Statement": ["In 2005, who led 北京? 北京"], "Status": ["Correct"],
    }).write_csv(data)  # fmt: skip
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    found = run_in_shell(f"anachron audit {data} --tokenizer demo", **plain)
    assert found.returncode == 0 and found.stdout.isascii() and b"\\u5317" in found.stdout, found.stderr
    missing = run_in_shell("anachron metrics tüpfel --out x", **plain)
    assert missing.returncode == 2 and missing.stderr.isascii() and b"no run here" in missing.stderr


def test_json_for_an_encoding_without_unicode_is_json(monkeypatch: pytest.MonkeyPatch):
    for encoding in ("ascii", "latin-1", "utf-8"):
        stream = io.TextIOWrapper(io.BytesIO(), encoding, errors="backslashreplace")
        monkeypatch.setattr("sys.stdout", stream)
        print_json({"label": "Zürich 北京 😀"})
        stream.flush()
        assert json.loads(stream.buffer.getvalue().decode(encoding)) == {"label": "Zürich 北京 😀"}  # type: ignore[attr-defined]


def test_no_label_reaches_a_terminal_as_a_command(capsys: pytest.CaptureFixture[str]):
    screen = io.StringIO()
    console = SafeConsole(file=screen, force_terminal=True, width=200, color_system="truecolor")
    table = Table(HOSTILE, title=HOSTILE, caption=HOSTILE)
    table.add_row(HOSTILE)
    table.add_row(Text(HOSTILE, style="red"))
    console.print(table, Text(HOSTILE), HOSTILE, "12:100:30")
    shown = screen.getvalue()
    for sign in "\x07\x9b\r\x08\u202e\x00":
        assert sign not in shown
    assert "\x1b]" not in shown and "\x1b[31mb" not in shown  # the colour red is ours, of the second row
    assert shown.count(visible(HOSTILE)) == 5 and "12:100:30" in shown  # of a Text rich itself drops \\r and the like
    assert shown.count("a\\x1b[31mb\\x1b]8;;http://x") == 7
    say(HOSTILE)
    assert run_command(["metrics", f"no{HOSTILE[:-1]}", "--out", "x"], debug=False) == 2  # the error names the folder
    assert run_command(["metrics", "--no-such\x1b[31m"], debug=False) == 2
    print_json({"label": HOSTILE})
    out, err = capsys.readouterr()
    assert err.count("\\x1b[31m") == 3
    assert not set(out + err) & set("\x1b\x07\x9b\r\x08\x00") and "\u202e" not in err
    assert json.loads(out) == {"label": HOSTILE}


@pytest.mark.full
def test_the_package_is_a_program() -> None:
    """``python -m anachron`` answers as ``anachron`` does, with its exit codes."""
    asked = [sys.executable, "-m", "anachron"]
    done = subprocess.run([*asked, "--version"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout == f"{metadata.version('anachron')}\n"
    wrong = subprocess.run([*asked, "metrics", "nowhere", "--out", "x"], capture_output=True, text=True, timeout=120)
    assert wrong.returncode == 2 and "nowhere" in wrong.stderr and not wrong.stdout


def test_the_version_is_printed_without_a_command(capsys: pytest.CaptureFixture[str]):
    assert run_command(["--version"], debug=False) == 0
    assert capsys.readouterr() == (f"{metadata.version('anachron')}\n", "")


def test_visible_changes_nothing_else():
    text = "Zürich\t北京\n\u200fعربي 😀"
    assert visible(text) == text
    assert visible("\x1b\x7f\x85\u2066") == "\\x1b\\x7f\\x85\\u2066"
