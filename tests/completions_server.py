"""A server of completions for tests, in a process of its own: python completions_server.py MODEL.

Speaks enough of the OpenAI protocol to be scored by: ``echo`` and ``logprobs`` on /v1/completions, for texts and for
token ids, several at a time. Prints its address, which ends in /plain/v1; another mode in place of plain makes another
server of it. Scores come from the plain model, one text at a time. Modes: ``mute``
returns no log-probabilities; ``text-only`` refuses token ids; ``begins`` puts a token in front; ``flaky`` answers every
third request with 503; ``lost`` drops every fourth connection; ``other-tokens`` names them wrongly.
"""

import json
import sys
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel


def completion(lm: LanguageModel, prompt: Any, mode: str) -> dict[str, Any]:
    ids = list(prompt) if isinstance(prompt, list) else lm.tokenizer(prompt)["input_ids"]
    if mode == "begins":
        ids = [ids[0], *ids]
    with torch.no_grad():
        logits = lm.model(input_ids=torch.tensor([ids])).logits[0].double()
    logp = torch.log_softmax(logits, -1)
    new = int(logits[-1].argmax())
    values = [None, *logp[range(len(ids)), [*ids[1:], new]].tolist()]
    tokens = [lm.tokenizer.decode([token]) for token in [*ids, new]]
    if mode == "other-tokens":
        tokens = ["x" for _ in tokens]
    found = {"tokens": tokens, "token_logprobs": values, "text_offset": [], "top_logprobs": []}
    return {"text": "".join(tokens), "logprobs": None if mode == "mute" else found, "finish_reason": "length"}


def main() -> None:
    lm = load_model(sys.argv[1], device="cpu")
    lock = threading.Lock()
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])  # mode -> requests, now at work, most at work

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: Any) -> None:
            pass

        def do_GET(self) -> None:
            requests, _, most = counts[self.path.split("/")[1]]
            self.reply(200, {"requests": requests, "most": most})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            mode, _, path = self.path.removeprefix("/").partition("/")
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
                return self.reply(404, {"error": {"message": f"no model {asked['model']}"}})
            if mode == "flaky" and number % 3 == 0:
                return self.reply(503, {"error": {"message": "busy"}}, {"retry-after": "0.01"})
            if mode == "lost" and number % 4 == 0:
                self.close_connection = True
                return self.connection.close()
            assert asked["echo"] is True and asked["logprobs"] >= 0 and asked["temperature"] == 0
            prompts = asked["prompt"] if isinstance(asked["prompt"], list) else [asked["prompt"]]
            if mode == "text-only" and not all(isinstance(prompt, str) for prompt in prompts):
                return self.reply(422, {"error": {"message": "prompt: Input should be a valid string"}})
            choices = [{"index": n, **completion(lm, prompt, mode)} for n, prompt in enumerate(prompts)]
            self.reply(200, {
                "id": "c", "object": "text_completion", "created": 1, "model": "served", "choices": choices[::-1],
            })  # fmt: skip

        def reply(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    torch.set_num_threads(1)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/plain/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
