"""A server with vLLM's or SGLang's own way to score, for tests, in a process of its own: python native_server.py MODEL.

Written after the sources of vLLM 0.33 and SGLang 0.5: the same requests, refusals and replies, and a prefix cache that
forgets what was used longest ago, of blocks of 16 tokens as in vLLM, token by token as in SGLang. It counts the tokens
that it computes. Prints its address, which ends in /vllm/v1; another mode in place of vllm makes another server of it,
with its own cache and counts: ``vllm`` or ``sglang``, and behind a hyphen what is wrong or old about it (`WRONG`, and
the cases in `Handler`), such as ``vllm-shifted``. GET /MODE/counts tells what it was asked and computed.
"""

import io
import json
import sys
import threading
from base64 import b64encode
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from support import http_server
from support.completions_server import completion

BLOCKS = 8  # that a cache holds, of 16 tokens


class Cache:
    """Beginnings of texts, block by block; the one that was used longest ago goes first, a longer before a shorter."""

    def __init__(self, block: int, tokens: int) -> None:
        self.block, self.most = block, tokens // block
        self.held: OrderedDict[tuple[int, ...], None] = OrderedDict()

    def found(self, ids: list[int], most: int) -> int:
        """How many tokens of a text are there, of whole blocks, at most so many."""
        size = 0
        while size + self.block <= most and tuple(ids[: size + self.block]) in self.held:
            size += self.block
        return size

    def keep(self, ids: list[int]) -> None:
        for size in range(len(ids) // self.block * self.block, 0, -self.block):
            self.held[tuple(ids[:size])] = None
            self.held.move_to_end(tuple(ids[:size]))
        while len(self.held) > self.most:
            self.held.popitem(last=False)


def packed(array: Any) -> str:
    with io.BytesIO() as buffer:
        np.save(buffer, array)
        return b64encode(buffer.getvalue()).decode()


VALUES: dict[str, Callable[[list[float]], list[Any]]] = {  # what a wrong server makes of an answer's numbers
    "shifted": lambda v: [*v[1:], v[-1]],
    "filled": lambda v: [0.0] * len(v),
    "constant": lambda v: [-1e-9] * len(v),
    "one-more": lambda v: [*v, v[-1]],
    "one-less": lambda v: v[:-1],
    "nan": lambda v: [*v[:-1], float("nan")],
    "infinite": lambda v: [*v[:-1], float("-inf")],
    "probabilities": lambda v: [float(np.exp(x)) for x in v],
}
WRONG: dict[str, Callable[[dict[str, Any]], Any]] = {  # what it makes of a reply
    "nameless": lambda body: {"error": {"message": "out of memory"}},
    "another-model": lambda body: {**body, "model": "another"},
    "wrong-size": lambda body: {**body, "usage": {"prompt_tokens": 3}},
    "too-cached": lambda body: {
        **body, "usage": {"prompt_tokens": None, "prompt_tokens_details": {"cached_tokens": 9999}}
    },
    "no-array": lambda body: {**body, "prompt_token_id_logprobs": "AAAA"},
    "pickled": lambda body: {**body, "prompt_token_id_logprobs": packed(np.array([[{}]], dtype=object))},
    "whole-numbers": lambda body: {**body, "prompt_token_id_logprobs": packed(np.array([[-1]]))},
    "aborted": lambda body: {"meta_info": {"finish_reason": {"type": "abort", "message": "too long"}}},
    "not-null": lambda body: about(body, lambda given: [[-1.0, *given[0][1:]], *given[1:]]),
    "other-tokens": lambda body: about(body, lambda given: [[v, id + 1, None] for v, id, _ in given]),
    "no-lists": lambda body: about(body, lambda given: [v for v, _, _ in given]),
}  # fmt: skip


def about(body: dict[str, Any], change: Callable[[list[Any]], list[Any]]) -> dict[str, Any]:
    known = body["meta_info"]
    if known["input_token_logprobs"]:
        known["input_token_logprobs"] = change(known["input_token_logprobs"])
    return body


class Served:
    """One mode's cache and counts, and what it answers: (HTTP status, body)."""

    def __init__(self, lm: LanguageModel, mode: str) -> None:
        self.lm, self.kind, self.fault = lm, *mode.partition("-")[::2]
        self.cache = Cache(16 if self.kind == "vllm" else 1, BLOCKS * 16)
        self.counts: Counter[str] = Counter()

    def compute(self, ids: list[int], most: int | None) -> tuple[torch.Tensor, int]:
        """log-probabilities behind each token, and how many tokens were in the cache; most: that may be, if any."""
        cached = 0 if most is None else self.cache.found(ids, most)
        self.counts.update(sent=len(ids), cached=cached, computed=len(ids) - cached)
        self.cache.keep(ids)
        with torch.no_grad():
            logits = self.lm.model(input_ids=torch.tensor([ids])).logits[0].double()
        return torch.log_softmax(logits, -1), cached

    def values(self, logp: torch.Tensor, ids: list[int], first: int) -> list[Any]:
        numbers = [float(logp[place - 1, ids[place]]) for place in range(first, len(ids))]
        return self.wrong(VALUES)(numbers)

    def wrong(self, faults: dict[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
        """What is wrong with this mode; the reply by which the way is found is right."""
        first = self.counts["inference/v1/generate" if self.kind == "vllm" else "generate"] == 1
        return (lambda right: right) if first else faults.get(self.fault, lambda right: right)

    def answer(self, path: str, asked: dict[str, Any]) -> tuple[int, Any]:
        self.counts[path] += 1
        if path == "v1/completions" and asked["model"] == "served":
            choices = [
                {"index": n, **completion(self.lm, asked, prompt, "plain")} for n, prompt in enumerate(asked["prompt"])
            ]
            usage = {"prompt_tokens_details": {"cached_tokens": 2}} if self.fault == "echo-usage" else None
            return 200, {"model": asked["model"], "choices": choices, "usage": usage}
        if self.fault == "half-way" and self.counts[path] > 15:
            return 400, {"error": {"message": "no room in the cache"}}
        if path == "inference/v1/generate" and self.kind == "vllm":
            return self.vllm(asked)
        if path == "generate" and self.kind == "sglang" and self.fault != "none":
            return self.sglang(asked)
        return 404, {"detail": "Not Found"}

    def vllm(self, asked: dict[str, Any]) -> tuple[int, Any]:
        if self.fault == "closed":
            return 403, {"error": {"message": "Restart vllm serve with --enable-scale-out to enable them."}}
        if self.fault == "v1":
            return 400, {"error": {"message": "prompt_logprob_token_ids requires the V2 model runner"}}
        if asked["model"] != "served":
            return 404, {"error": {"message": f"The model {asked['model']} does not exist."}}
        ids, wanted = asked["token_ids"], asked["sampling_params"]
        assert wanted["max_tokens"] == 1 and wanted["temperature"] == 0
        rows = None if self.fault == "old" else wanted.get("prompt_logprob_token_ids")
        skips = wanted.get("skip_reading_prefix_cache", rows is not None)
        logp, cached = self.compute(ids, None if skips else len(ids) - 1)
        best = int(logp[-1].argmax())
        content = [{"token_id": best, "logprob": float(logp[-1, best]), "rank": 1, "top_logprobs": []}]
        numbers = None
        if rows is not None:
            start = wanted["prompt_logprob_start"]
            if len(rows) != len(ids) - 1 - start:
                return 400, {"error": {"message": f"has {len(rows)} rows"}}
            assert rows == [[id] for id in ids[start + 1 :]]
            if cached <= start and self.fault != "never":
                values = self.values(logp, ids, start + 1)
                numbers = packed(np.array(values, dtype=np.float32)[:, None])
        usage: dict[str, Any] = {"prompt_tokens": len(ids)}
        if self.fault != "uncounted":
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        choice = {"index": 0, "token_ids": [best], "logprobs": {"content": content} if "logprobs" in wanted else None}
        body = {"model": "served", "choices": [choice], "usage": usage, "prompt_token_id_logprobs": numbers}
        return 200, self.wrong(WRONG)(body)

    def sglang(self, asked: dict[str, Any]) -> tuple[int, Any]:
        ids, start = asked["input_ids"], asked["logprob_start_len"]
        assert asked["return_logprob"] and asked["sampling_params"] == {"max_new_tokens": 1, "temperature": 0.0}
        start = len(ids) if start == -1 else start
        logp, cached = self.compute(ids, min(len(ids) - 1, start))
        best = int(logp[-1].argmax())
        values = [None, *self.values(logp, ids, start + 1)] if start < len(ids) else []
        known = {
            "prompt_tokens": len(ids), "cached_tokens": cached, "finish_reason": {"type": "length"},
            "input_token_logprobs": [[value, id, None] for value, id in zip(values, ids[start:], strict=False)],
            "output_token_logprobs": [[float(logp[-1, best]), best, None]],
        }  # fmt: skip
        if self.fault == "old":
            del known["input_token_logprobs"]
        body = {"text": "", "output_ids": [best], "meta_info": known}
        return 200, self.wrong(WRONG)(body)

    def told(self, path: str) -> tuple[int, bytes]:
        if path == "counts":
            return 200, json.dumps(self.counts).encode()
        if path == "metrics" and self.kind == "vllm":
            count = self.fault.removeprefix("counter:") if "counter:" in self.fault else float(self.counts["cached"])
            hits = f'vllm:prefix_cache_hits_total{{engine="0",model_name="served"}} {count}\n'
            return 200, f"# HELP vllm:prefix_cache_hits_total x\n{hits}".encode()
        if path == "v1/models":
            parent = "base" if self.fault == "adapter" else None
            return 200, json.dumps({"data": [{"id": "served", "parent": parent}]}).encode()
        return 404, b"{}"


def main() -> None:
    lm = load_model(sys.argv[1], device="cpu")
    lock = threading.Lock()
    served: dict[str, Served] = {}

    class Handler(http_server.Handler):
        def do_GET(self) -> None:
            mode, _, path = self.path.removeprefix("/").partition("/")
            with lock:
                self.reply(*served.setdefault(mode, Served(lm, mode)).told(path))

        def do_POST(self) -> None:
            asked = json.loads(self.content())
            mode, _, path = self.path.removeprefix("/").partition("/")
            with lock:
                status, body = served.setdefault(mode, Served(lm, mode)).answer(path, asked)
            self.reply(status, body)

    torch.set_num_threads(1)
    http_server.serve_for_ever(Handler, "/vllm/v1")


if __name__ == "__main__":
    main()
