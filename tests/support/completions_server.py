"""A server of completions for tests, in a process of its own: python completions_server.py MODEL.

Speaks enough of the OpenAI protocol to be scored by: ``echo`` and ``logprobs`` on /v1/completions, for texts and for
token ids, several at a time. Prints its address, which ends in /plain/v1; another mode in place of plain makes another
server of it. Scores come from the plain model, one text at a time. Modes: ``by-text`` names tokens by their text,
``strict`` refuses fields that are not OpenAI's, ``text-only`` refuses token ids; ``flaky`` answers every third request
with 503; ``lost`` drops every fourth connection; and those of `broken_completions.BROKEN`.
"""

import json
import sys
import threading
from collections import defaultdict
from typing import Any
from urllib.parse import unquote

import torch

from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from support import http_server
from support.broken_completions import BROKEN, AfterItself, Raw


def completion(lm: LanguageModel, asked: dict[str, Any], prompt: Any, mode: str) -> dict[str, Any]:
    """A choice: the prompt where echo is wanted, and one token more; each with its number and the best of its place."""
    ids = list(prompt) if isinstance(prompt, list) else lm.tokenizer(prompt)["input_ids"]
    with torch.no_grad():
        logits = lm.model(input_ids=torch.tensor([ids])).logits[0].double()
    logp = torch.log_softmax(logits, -1)
    by_id = asked.get("return_tokens_as_token_ids") and mode not in ("by-text", "text-only")
    ids = [*ids, int(logits[-1].argmax())]
    names = [f"token_id:{id}" if by_id else lm.tokenizer.decode([id]) for id in ids]
    values: list[Any] = [None]
    tops: list[Any] = [None]
    for place in range(1, len(ids)):
        row = logp[place if isinstance(BROKEN.get(mode), AfterItself) and place < len(logp) else place - 1]
        best = row.topk(asked["logprobs"])
        at = [f"token_id:{int(id)}" if by_id else lm.tokenizer.decode([int(id)]) for id in best.indices]
        values.append(float(row[ids[place]]))
        tops.append({**dict(zip(at, best.values.tolist(), strict=True)), names[place]: values[-1]})
    first = 0 if asked["echo"] else len(ids) - 1
    found = {"tokens": names[first:], "token_logprobs": values[first:], "top_logprobs": tops[first:], "text_offset": []}
    return {"text": "".join(names[first:]), "logprobs": found, "finish_reason": "length"}


def main() -> None:
    lm = load_model(sys.argv[1], device="cpu")
    lock = threading.Lock()
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])  # mode -> requests, now at work, most at work

    class Handler(http_server.Handler):
        def do_GET(self) -> None:
            requests, _, most = counts[unquote(self.path).split("/")[1]]
            self.reply(200, {"requests": requests, "most": most})

        def do_POST(self) -> None:
            asked = json.loads(self.content())
            mode, _, path = unquote(self.path).removeprefix("/").partition("/")
            count = counts[mode]
            with lock:
                count[0] += 1
                count[1] += 1
                count[2] = max(count[2], count[1])
                number = count[0]
            try:
                self.answer(asked, number, mode, path)
            finally:
                with lock:
                    count[1] -= 1

        def answer(self, asked: dict[str, Any], number: int, mode: str, path: str) -> None:
            if path != "v1/completions" or asked["model"] != "served":
                return self.reply(404, {"error": {"message": f"no model {asked.get('model')}"}})
            if mode == "flaky" and number % 3 == 0:
                return self.reply(503, {"error": {"message": "busy"}}, {"retry-after": "0.01"})
            if mode == "lost" and number % 4 == 0:
                return self.drop()
            assert isinstance(asked["echo"], bool) and asked["logprobs"] >= 1 and asked["temperature"] == 0
            prompts = asked["prompt"] if isinstance(asked["prompt"], list) else [asked["prompt"]]
            if mode == "text-only" and not all(isinstance(prompt, str) for prompt in prompts):
                return self.reply(422, {"error": {"message": "prompt: Input should be a valid string"}})
            if mode == "strict" and "return_tokens_as_token_ids" in asked:
                return self.reply(400, {"error": {"message": "Unrecognized request argument supplied"}})
            choices = [{"index": n, **completion(lm, asked, prompt, mode)} for n, prompt in enumerate(prompts)]
            body = {"id": "c", "object": "text_completion", "created": 1, "model": "served", "choices": choices[::-1]}
            wrong = BROKEN.get(mode, lambda body: body)
            if isinstance(wrong, Raw):
                return wrong.send(self, json.dumps(body).encode())
            self.reply(200, wrong(body))

    torch.set_num_threads(1)
    http_server.serve_for_ever(Handler, "/plain/v1")


if __name__ == "__main__":
    main()
