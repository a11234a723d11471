"""The process that renders chat templates for `anachron.lm.templates`: a line of JSON in, a line of JSON out.

It is run as a script, imports nothing of this package, and ends itself where a template takes too long, whatever it
does meanwhile and whether or not anyone waits for it.
"""

import faulthandler
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

START_SECONDS = 300  # to import what it needs
MEMORY = 1 << 30  # bytes that a template may take
LENGTH = 10_000_000  # characters that it may write


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who waits for it ends it
    seconds, answers = float(sys.argv[1]), os.fdopen(os.dup(1), "w", encoding="utf-8")
    sys.stdout = sys.stderr
    faulthandler.dump_traceback_later(START_SECONDS, exit=True)
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()))
    tokenizer.apply_chat_template([{"role": "user", "content": ""}], chat_template="", tokenize=False)  # imports more
    _limit_memory()
    faulthandler.cancel_dump_traceback_later()
    for line in sys.stdin:
        asked = json.loads(line)
        how = {"chat_template": asked["template"], "add_generation_prompt": asked["prompt"], **asked["tokens"]}
        texts: list[str] = []
        try:
            for turns in asked["conversations"]:
                faulthandler.dump_traceback_later(seconds, exit=True)  # begins anew
                texts.append(tokenizer.apply_chat_template(turns, tokenize=False, **how))
                if len(texts[-1]) > LENGTH:
                    raise ValueError(f"it writes {len(texts[-1])} characters")
            answer: dict[str, Any] = {"texts": texts}
        except Exception as error:  # noqa: BLE001 - a template is foreign code: whatever it raises is reported
            answer = {"error": str(error) or type(error).__name__}
        faulthandler.cancel_dump_traceback_later()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _limit_memory() -> None:
    with suppress(ImportError, OSError, ValueError):  # systems other than Linux do not have all of it
        import resource

        used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


if __name__ == "__main__":
    main()
