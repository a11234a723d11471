"""GGUF files with another value in their metadata: refused in one line, or scored as llama.cpp scores them."""

import random
from pathlib import Path

import numpy as np
import pytest

from anachron.core.errors import AnachronError
from anachron.lm.gguf.llamacpp import LlamaModel
from anachron.lm.loading import load_model
from support.gguf_headers import KINDS, broken_headers, with_values
from support.gguf_models import make_gguf_lm, write_gguf

pytestmark = pytest.mark.trial
PAIRS = [("In 1998, who was the president of France?", "Jacques Chirac"), ("In 1990, who led it?", "Helmut Kohl")]
CLOSE = 1e-3
OF_EACH_KIND, BROKEN = 10, 120


def fate(path: Path) -> str:
    """What becomes of a file: refused, scored as by llama.cpp, scored though llama.cpp refuses it, or else why not."""
    try:
        lm = load_model(str(path))
        ours = lm.log_probs(PAIRS)
    except AnachronError as error:
        return "refused" if "\n" not in str(error) else f"many lines: {error}"
    except Exception as error:  # noqa: BLE001 (what is raw is what is looked for)
        return f"raw: {type(error).__name__}: {error}"
    try:
        theirs = LlamaModel(path, lm.tokenizer, own_tokens=False).log_probs(PAIRS)
    except AnachronError:  # it takes only the types that its own converters write
        return "not read by llama.cpp"
    gap = np.abs(ours - theirs).max()
    return "same" if gap < CLOSE else f"another score, by {gap:.3g} nats"


def survived(fates: list[str]) -> list[str]:
    return [one for one in fates if one in ("refused", "same", "not read by llama.cpp")]


def report(what: str, fates: list[str]) -> None:
    counts = {one: fates.count(one) for one in ("refused", "same", "not read by llama.cpp")}
    print(
        f"trial: {len(fates)} GGUF files {what}, {len(survived(fates))} survived ({counts['refused']} refused, "
        f"{counts['same']} with the scores of llama.cpp, {counts['not read by llama.cpp']} that llama.cpp refuses)"
    )
    assert survived(fates) == fates, sorted(set(fates))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return Path(write_gguf(make_gguf_lm(), tmp_path_factory.mktemp("gguf") / "tiny.gguf")).read_bytes()


@pytest.mark.slow
def test_keys_of_another_type_or_value(whole: bytes, tmp_path: Path):
    path, draws, fates = tmp_path / "bad.gguf", random.Random(0), []
    for kind in KINDS:
        for content in draws.sample([*with_values(whole, kind)], OF_EACH_KIND):
            path.write_bytes(content)
            fates.append(fate(path))
    report("with a key of another type", fates)


def test_counts_lengths_and_bytes_that_lie(whole: bytes, tmp_path: Path):
    path, draws, fates = tmp_path / "bad.gguf", random.Random(1), []
    for content in draws.sample([*broken_headers(whole, seed=2, number=200)], BROKEN):
        path.write_bytes(content)
        fates.append(fate(path))
    report("with other bytes before the tensors", fates)
