"""A model behind a server of chat completions, as one who answers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anachron.io.answers import Answer, AnswerCache
from anachron.io.clients import Client
from anachron.io.files import Json
from anachron.io.jobs import Callbacks
from anachron.io.llm import ask_all
from anachron.io.llm_settings import Learned, LlmSettings, Meter, NoAnswer
from anachron.io.run_folder import SAME_AS


@dataclass
class ChatAnswerer:
    """Asks a server (`anachron.io.llm`); answers are kept in a folder.

    A server that names another model than the one that was asked for is told of once: names with a date behind them
    are usual, others are not.
    """

    settings: LlmSettings
    folder: Path | str
    label: str | None = None
    names: Counter[str] = field(default_factory=Counter)
    client: Client | None = field(default=None, repr=False)
    learned: Learned = field(default_factory=Learned, repr=False)

    @property
    def name(self) -> str:
        return self.label or self.settings.model

    def identity(self) -> Json:
        recorded = self.settings.recorded()
        known = {name: recorded[name] for name in ("model", "base_url", "temperature", "max_tokens")}
        return {"backend": "chat"} | known | ({SAME_AS: recorded["same_as"]} if self.settings.same_as else {})

    def answers(self, prompts: Sequence[str], callbacks: Callbacks) -> list[Answer | NoAnswer]:
        return self.metered_answers(prompts, callbacks, Meter())

    def metered_answers(self, prompts: Sequence[str], callbacks: Callbacks, meter: Meter) -> list[Answer | NoAnswer]:
        self.client = self.client or Client(self.settings)
        replies, _ = ask_all(
            prompts, self.settings, AnswerCache(Path(self.folder)), keep_cut_off=True, client=self.client, meter=meter,
            learned=self.learned, callbacks=callbacks,
        )  # fmt: skip
        for reply in replies:
            if isinstance(reply, Answer) and reply.served_by is not None:
                asked, served = self.settings.model, reply.served_by
                if served not in self.names and served != asked and not served.startswith(f"{asked}-"):
                    callbacks.warn(f"the server answers as {served[:100]!r} where {asked!r} was asked")
                self.names[served] += 1
        return replies
