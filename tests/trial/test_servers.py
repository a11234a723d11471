"""A server of many broken behaviours: a run is refused in one clear line, or its numbers are right."""

import os
import subprocess
import threading
import traceback
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from anachron.core.errors import BackendError
from anachron.data.dataset import Dataset
from anachron.data.loaders import load_dataset
from anachron.io.servers import Server
from anachron.lm.loading import load_model
from anachron.lm.server.served import ServedModel
from anachron.lm.tokenizers import load_tokenizer
from anachron.probe.run import ProbeSettings, run_probe
from support.broken_completions import BROKEN
from support.processes import program, surroundings

pytestmark = pytest.mark.trial
PROGRAM = program("completions_server")
KEY = "sk-proj-Very/Secret+0123456789-abcdefghijklmnop"
FORMS = (KEY, KEY.lower(), quote(KEY, safe=""))
RIGHT = ("right under another name", "packed")  # odd, and nothing is wrong with their numbers
WITHOUT_END = ("silent", "dripping", "dripping headers")
HUNG = 300  # seconds, after which a run is not waited for


def shows_key(text: str) -> bool:
    return any(form[i : i + 8] in text for form in FORMS for i in range(len(form) - 7))


def outcome(url: str, data: Dataset, folder: Path, timeout: float) -> "np.ndarray | Exception | None":
    """The scores of a run through a server, or what was raised; ``None`` where it hangs."""
    found: list[np.ndarray | Exception] = []
    os.environ["SERVED_KEY"] = KEY

    def run() -> None:
        server = Server("served", url, api_key_env="SERVED_KEY", tries=1, timeout=timeout)
        model = ServedModel(server, load_tokenizer("demo"))
        try:
            found.append(run_probe(model, data, folder, ProbeSettings(batch_tokens=200)).scores["logp"].to_numpy())
        except Exception as error:  # noqa: BLE001 - a raw error is a finding
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HUNG)
    return found[0] if found else None


def fault(mode: str, result: "np.ndarray | Exception | None", right: np.ndarray, folder: Path) -> str | None:
    """What is wrong with how a run took a broken server; ``None`` where nothing is."""
    if result is None:
        return f"hung for {HUNG} s"
    if any(shows_key(path.read_bytes().decode("latin-1")) for path in folder.rglob("*") if path.is_file()):
        return "the key is in a file"
    if isinstance(result, np.ndarray):
        same = result.shape == right.shape and np.allclose(result, right, atol=1e-4, rtol=0)
        return None if same and mode in RIGHT else f"gave numbers, {'right' if same else 'WRONG'} ones"
    shown = "".join(traceback.format_exception(result))
    if shows_key(shown):
        return f"shows the key: {result}"
    if not isinstance(result, BackendError):
        return f"raw error {result!r}"
    if "\n" in str(result) or len(str(result)) > 700 or "http://127.0.0.1" not in str(result):
        return f"no clear line: {result}"
    if (folder / "scores.parquet").exists():
        return "left a finished run"
    return f"refused though right: {result}" if mode in RIGHT else None


def test_every_broken_server_is_refused_or_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data = load_dataset("mini").sample(2)
    right = run_probe(load_model("demo", device="cpu"), data, tmp_path / "here").scores["logp"].to_numpy()
    faults: dict[str, str] = {}
    process = subprocess.Popen(
        [*PROGRAM, "demo"], env=surroundings(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        well = outcome(address, data, tmp_path / "plain", 120)
        assert isinstance(well, np.ndarray), well
        np.testing.assert_allclose(well, right, atol=1e-4, rtol=0)
        for number, mode in enumerate(BROKEN):
            folder = tmp_path / str(number)
            result = outcome(address.replace("plain", quote(mode)), data, folder, 1 if mode in WITHOUT_END else 120)
            if (found := fault(mode, result, right, folder)) is not None:
                faults[mode] = found
    finally:
        process.kill()
        process.wait()
    assert not shows_key("".join(capsys.readouterr()))
    print(f"trial: {len(BROKEN)} broken servers, {len(BROKEN) - len(faults)} refused or right")
    assert len(BROKEN) >= 40 and not faults, faults
