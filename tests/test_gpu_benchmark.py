"""benchmarks/scoring_gpu.py on a CPU with a tiny shape: all that it does on a card, and what it asks of engines."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def script():
    """The benchmark as a module; what lies beside it is found only while it is imported."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import scoring_gpu
    finally:
        sys.path.remove(str(BENCHMARKS))
    return scoring_gpu


@pytest.mark.slow
def test_it_runs_at_a_tiny_size():
    command = [sys.executable, str(BENCHMARKS / "scoring_gpu.py"), "--shape", "tiny", "--device", "cpu"]
    said = subprocess.run([*command, "--statements", "300"], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(said)
    assert found["about"]["matrix_tflops"] > 0
    (result,) = found["results"]
    tree, padded, edits = result["anachron"], result["padded"], result["edits"]
    assert (tree["prefix_tree"], padded["prefix_tree"]) == (True, False)
    assert (tree["statements"], padded["statements"]) == (300, 30)
    assert tree["distinct_prefixes"] <= tree["tokens_computed"] <= 1.02 * tree["distinct_prefixes"]
    against = result["against padded"]
    assert 0 < against["mean_difference"] < 0.05  # two roundings of bfloat16, of some -30 nats
    rates = result["statements_per_second"]
    assert against["speedup"] == rates["anachron"] / rates["padded"] > 0
    assert tree["share_of_matrix_rate"] > 0 and tree["peak_gib"] > 0.1
    assert result["hours_for_timestress"] > 521_000 / 300 * tree["seconds"] / 3600
    assert all(edit["seconds"] > 0 for edit in edits.values()), edits
    assert {"FT", "FT+L", "ROME", "MEMIT", "MEND", "AlphaEdit", "LoRA", "PROMPT"} <= set(edits)


@pytest.mark.full
def test_engines_are_asked_for_the_answers_tokens(script, tmp_path, monkeypatch):
    """Engines in the form that their documentation gives, which say the log-probabilities of a model token by token."""
    lm = script.random_model("tiny", "cpu", "demo")
    lm.model.float()
    encoded = lm.encode([(*pair, None) for pair in script.statements(70)])

    def values(ids: list[int]) -> list[float | None]:
        """Of every token, given those before it."""
        with torch.inference_mode():
            logp = torch.log_softmax(lm.model(input_ids=torch.tensor([ids])).logits[0], -1)
        return [None, *(float(logp[t - 1, id]) for t, id in enumerate(ids) if t)]

    class LLM:
        def __init__(self, model, dtype, max_model_len):
            assert (model, dtype) == (str(tmp_path), "bfloat16")

        def generate(self, texts, asked):
            assert asked.prompt_logprobs == 0  # none but the token's own
            made = []
            for text in texts:
                ids = text["prompt_token_ids"]
                told = [v and {id: SimpleNamespace(logprob=v)} for id, v in zip(ids, values(ids), strict=True)]
                made.append(SimpleNamespace(prompt_logprobs=told))
            return made

    class Engine:
        def __init__(self, model_path, dtype, context_length):
            assert (model_path, dtype) == (str(tmp_path), "bfloat16")

        def generate(self, input_ids, sampling_params, return_logprob, logprob_start_len):
            assert return_logprob
            told = [
                [(value, id, None) for value, id in zip(values(ids)[start:], ids[start:], strict=True)]
                for ids, start in zip(input_ids, logprob_start_len, strict=True)
            ]
            return [{"meta_info": {"input_token_logprobs": one}} for one in told]

        def shutdown(self):
            pass

    vllm, sglang = ModuleType("vllm"), ModuleType("sglang")
    vllm.LLM, vllm.SamplingParams, sglang.Engine = LLM, SimpleNamespace, Engine
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "sglang", sglang)
    expected = [sum(values(list(text.ids))[t] for t in text.targets) for text in encoded]
    for engine in script.ENGINES.values():
        found = engine(str(tmp_path), encoded)
        assert found["scores"] == pytest.approx(expected, abs=1e-5) and found["seconds"] > 0
