"""A local model's own generation, as one who answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anachron.io import Json
from anachron.jobs import Callbacks
from anachron.lm.answers import natural_answers
from anachron.lm.chat import update_style
from anachron.lm.model import LanguageModel
from anachron.text.answers import Answer, AnswerCache, prompt_key
from anachron.text.llm_settings import NoAnswer
from anachron.text.reasoning import TOKENS as REASONING_TOKENS

MOST_TOKENS = 64
TOGETHER = 16  # prompts


@dataclass(frozen=True)
class LocalAnswerer:
    """Writes greedily in the model's chat template; answers are kept in a folder."""

    lm: LanguageModel
    folder: Path
    name: str
    most_tokens: int = MOST_TOKENS

    def identity(self) -> Json:
        return {"backend": "generate", **self.lm.identity(), "max_tokens": self.most_tokens}

    def answers(self, prompts: Sequence[str], callbacks: Callbacks) -> list[Answer | NoAnswer]:
        """Raises `ModelError` for a model without a chat template that can be used."""
        cache, lm = AnswerCache(self.folder), replace(self.lm, style=update_style(self.lm.tokenizer, "chat"))
        asked = {"backend": "generate", "max_tokens": self.most_tokens, "template_date": lm.style.template_date}
        keys = {prompt: prompt_key(f"{self.lm.name} {self.lm.fingerprint()}", prompt, asked) for prompt in prompts}
        missing = [prompt for prompt, key in keys.items() if cache.get(key) is None]
        with callbacks.bar("answering") as told:
            for start in range(0, len(missing), TOGETHER):
                batch = missing[start : start + TOGETHER]
                answers = natural_answers(lm, batch, self.most_tokens, kept=REASONING_TOKENS)
                for prompt, written in zip(batch, answers, strict=True):
                    finish = "stop" if written.stopped else "length"
                    found = Answer(written.text, finish, None, written.read, written.wrote, None)
                    cache.put(keys[prompt], self.name, prompt, found)
                told.progress(start + len(batch), len(missing))
        return [answer for prompt in prompts if (answer := cache.get(keys[prompt])) is not None]
