"""A local model's own generation, as one who answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anachron.io.answers import Answer, AnswerCache, damaged_answers, prompt_key
from anachron.io.files import Json
from anachron.io.jobs import Callbacks
from anachron.io.llm_settings import NoAnswer
from anachron.io.reasoning import TOKENS as REASONING_TOKENS
from anachron.lm.generation import natural_answers, update_style
from anachron.lm.model import LanguageModel

MOST_TOKENS = 64
TOGETHER = 16  # prompts


@dataclass(frozen=True)
class LocalAnswerer:
    """Writes greedily in the model's chat template; answers are kept in a folder."""

    lm: LanguageModel
    folder: Path | str
    name: str
    most_tokens: int = MOST_TOKENS

    def identity(self) -> Json:
        return {"backend": "generate", **self.lm.identity(), "max_tokens": self.most_tokens}

    def answers(self, prompts: Sequence[str], callbacks: Callbacks) -> list[Answer | NoAnswer]:
        """Raises `ModelError` for a model without a chat template that can be used."""
        cache, lm = AnswerCache(Path(self.folder)), replace(self.lm, style=update_style(self.lm.tokenizer, "chat"))
        asked = {"backend": "generate", "max_tokens": self.most_tokens, "template_date": lm.style.template_date}
        if lm.edits:  # what is not in the weights, such as sentences before a prompt, shows in no fingerprint of them
            asked["edits"] = [part for edit in lm.edits for part in edit.summed()]
        who = f"{self.lm.name} {self.lm.fingerprint()}"  # it reads all weights, so once for all prompts
        keys = {prompt: prompt_key(who, prompt, asked) for prompt in prompts}
        damaged: list[Path] = []
        known = {prompt: cache.find([key], damaged, lambda kept: True) for prompt, key in keys.items()}
        missing = [prompt for prompt, kept in known.items() if kept is None]
        if damaged:
            callbacks.warn(f"{damaged_answers(damaged, Path(self.folder))}; they are written again")
        with callbacks.bar("answering") as bar:
            for start in range(0, len(missing), TOGETHER):
                batch = missing[start : start + TOGETHER]
                answers = natural_answers(lm, batch, self.most_tokens, kept=REASONING_TOKENS)
                for prompt, written in zip(batch, answers, strict=True):
                    finish = "stop" if written.stopped else "length"
                    found = Answer(written.text, finish, None, written.read, written.wrote, None)
                    cache.put(keys[prompt], self.name, prompt, found)
                    known[prompt] = found
                bar.progress(start + len(batch), len(missing))
        return [answer for prompt in prompts if (answer := known[prompt]) is not None]
