"""How the models of a command are asked: for scores, or for answers (``--backend chat`` and ``generate``)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from anachron.cli.commands import SERVER
from anachron.cli.options import PriceIn, PriceOut
from anachron.cli.output import on_screen, say, stdout
from anachron.io.servers import Server

if TYPE_CHECKING:
    from anachron.cli.options import ModelOptions
    from anachron.cli.scorer_options import ReplicaOptions, ScorerOptions, TextOptions
    from anachron.io.jobs import Callbacks
    from anachron.probe.ask.asking import Answerer, AskSettings
    from anachron.probe.ask.budget import Cost, Prices
    from anachron.probe.backends import Backend
    from anachron.probe.respondent import Respondent

ANSWERING = ("chat", "generate")


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """How a model is asked that gives answers and no log-probabilities (``--backend chat`` or ``generate``)."""

    PANEL: ClassVar[str] = SERVER
    budget: Annotated[str | None, typer.Option(help="Spending limit: '2000 calls', '500k tokens' or '2.5 money'.")] = (
        None
    )
    price_in: PriceIn = None
    price_out: PriceOut = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what asking will cost, without asking.")] = False
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of tokens per answer. Default: the server's limit, or 64 with generate."
        ),
    ] = None
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Sampling temperature with --backend chat. Default: 0.")
    ] = None
    tries: Annotated[int | None, typer.Option(min=1, help="Attempts per request with --backend chat. Default: 6.")] = (
        None
    )
    timeout: Annotated[
        float | None, typer.Option(help="Seconds without a reply after which a request is retried. Default: 120.")
    ] = None
    pause: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds before the first retry; doubled for each further one. Default: 1."),
    ] = None
    answers: Annotated[
        Path | None, typer.Option(help="Folder in which answers are cached. Default: one in the run folder.")
    ] = None

    def needed(self, backend: str, *of_scores: Any) -> "AskSettings | None":
        """How much is asked; None for a backend that scores.

        of_scores: groups of options that are for scores alone. Raises `ConfigError` for options of the other kind.
        """
        from anachron.core.errors import ConfigError
        from anachron.probe.ask.asking import AskSettings
        from anachron.probe.ask.budget import parse_budget
        from anachron.probe.backends import BACKENDS

        if backend not in (*BACKENDS, *ANSWERING):
            raise ConfigError(f"backend {backend!r}: choose one of {', '.join((*BACKENDS, *ANSWERING))}")
        if backend not in ANSWERING:
            refuse_unused(f"--backend {backend}", self)
            return None
        refuse_unused(f"--backend {backend}", *of_scores)
        if backend == "generate":
            for_chat = {name: getattr(self, name) for name in ("temperature", "tries", "timeout", "pause")}
            unused = [name for name, value in for_chat.items() if value is not None]
            if unused:
                raise ConfigError(f"--{unused[0]} is for --backend chat; leave it out with generate")
        prices = self._prices()
        budget = None if self.budget is None else parse_budget(self.budget, prices)
        return AskSettings(budget=budget, prices=prices, **self._chosen())

    def _chosen(self) -> dict[str, Any]:
        """What else is set of `AskSettings`."""
        return {}

    def _prices(self) -> "Prices | None":
        from anachron.core.errors import ConfigError
        from anachron.probe.ask.budget import Prices

        if (self.price_in is None) != (self.price_out is None):
            raise ConfigError("give both --price-in and --price-out, or neither")
        return None if self.price_in is None or self.price_out is None else Prices(self.price_in, self.price_out)

    def answerer(
        self, model: str, out: Path, scorer: "ScorerOptions", loading: "ModelOptions", label: str | None
    ) -> "Answerer":
        """Who answers. Raises `ConfigError` for options that do not go with the backend."""
        from anachron.core.errors import ConfigError
        from anachron.probe.ask.run import ANSWERS

        folder = self.answers or out / ANSWERS
        if scorer.backend == "generate":
            from anachron.probe.ask.generate import MOST_TOKENS, LocalAnswerer
            from anachron.probe.backends import read_template

            for name in ("base_url", "api_key_env", "concurrency", "same_as", "edit"):
                if getattr(scorer, name) is not None:
                    raise ConfigError(f"--{name.replace('_', '-')} is not for --backend generate; leave it out")
            lm = loading.load(model, read_template(scorer.chat_template))
            return LocalAnswerer(lm, folder, label or Path(model).resolve().name, self.max_tokens or MOST_TOKENS)
        from anachron.io.llm_settings import LlmSettings
        from anachron.probe.ask.chat import ChatAnswerer

        refuse_unused("--backend chat", loading)
        for name in ("chat_template", "edit"):
            if getattr(scorer, name) is not None:
                raise ConfigError(f"--{name.replace('_', '-')} is for models of transformers; leave it out with chat")
        if scorer.base_url is None:
            raise ConfigError(
                "--backend chat needs the server's address: --base-url http://localhost:8000/v1, or "
                "https://api.openai.com/v1"
            )
        names = ("temperature", "max_tokens", "tries", "timeout", "pause")
        chosen = {name: value for name in names if (value := getattr(self, name)) is not None}
        concurrency = scorer.concurrency or Server.concurrency
        settings = LlmSettings(
            model, scorer.base_url, api_key_env=scorer.api_key_env, concurrency=concurrency,
            same_as=scorer.same_as, **chosen,
        )  # fmt: skip
        return ChatAnswerer(settings, folder, label)


@dataclass(frozen=True, kw_only=True)
class AskOptions(AnswerOptions):
    """`AnswerOptions`, and which questions about dated facts are put, and how many."""

    ways: Annotated[
        str | None,
        typer.Option(
            help="With --backend chat or generate: which questions to ask, any of open, choice, period, "
            "separated by commas."
        ),
    ] = None
    width: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Stop asking once the 95 % interval of W over facts is no wider than this. Default: 0.1."
        ),
    ] = None
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of matches per fact at each distance. Default: 5.")
    ] = None

    def _chosen(self) -> dict[str, Any]:
        found = {name: value for name in ("width", "rounds") if (value := getattr(self, name)) is not None}
        return found if self.ways is None else found | {"ways": tuple(part.strip() for part in self.ways.split(","))}


def refuse_unused(where: str, *groups: Any) -> None:
    """Raise `ConfigError` for an option of a group that is not at its default. where: what it is not for."""
    from anachron.core.errors import ConfigError

    for group in groups:
        for field in fields(group):
            if getattr(group, field.name) != field.default:
                raise ConfigError(f"--{field.name.replace('_', '-')} is not for {where}; leave it out")


@dataclass(frozen=True, kw_only=True)
class Models:
    """How the models of a command are asked, as its options say: by scores, or for answers.

    answers: how much is asked; None of models that are scored. place: where those compute; None of the others.
    """

    answers: "AskSettings | None"
    place: "Backend | None"
    asking: AnswerOptions
    texts: "TextOptions"
    scorer: "ScorerOptions"
    replicas: "ReplicaOptions"
    loading: "ModelOptions"
    language: str | None
    seed: int

    @classmethod
    def of(
        cls, asking: AnswerOptions, texts: "TextOptions", scorer: "ScorerOptions", replicas: "ReplicaOptions",
        loading: "ModelOptions", *, language: str | None = None, seed: int = 0,
    ) -> "Models":  # fmt: skip
        """Raises `ConfigError` for options that do not go together, before anything is read or loaded."""
        answers = asking.needed(scorer.backend, texts, replicas)
        place = scorer.place(**asdict(replicas)) if answers is None else None
        texts.check(loading)
        return cls(
            answers=answers, place=place, asking=asking, texts=texts, scorer=scorer, replicas=replicas, loading=loading,
            language=language, seed=seed,
        )  # fmt: skip

    @contextmanager
    def opened(self, name: str, out: Path, label: str | None) -> "Iterator[tuple[Respondent, Callbacks]]":
        """One of them, and what shows how far it is. out: the run folder, where answers are kept."""
        if self.answers is not None:
            from anachron.probe.by_answers import ByAnswers

            who = ByAnswers(
                self.asking.answerer(name, out, self.scorer, self.loading, label), self.answers, self.language
            )
            with on_screen().bar(name) as bar:
                yield who, bar
            return
        from anachron.probe.by_scores import ByScores  # it loads torch, which takes longer than reading facts
        from anachron.probe.run import ProbeSettings

        assert self.place is not None
        settings = ProbeSettings(
            label=label, deterministic=self.replicas.deterministic, seed=self.seed, **asdict(self.texts)
        )
        with self.scorer.open(name, self.place, self.loading) as lm, on_screen().bar(name) as bar:
            yield ByScores(lm, settings), bar

    def only_cost(self, number: int, cost: "Callable[[AskSettings], tuple[Cost, Cost]]", noun: str = "fact") -> bool:
        """Say what asking about so many facts (or what the noun names) will cost at least and at most; whether that was
        all that was wanted (``--dry-run``). Of models that are scored nothing is said."""
        if self.answers is None:
            return False
        from anachron.probe.ask.budget import cost_lines

        budget = self.answers.budget
        concurrency = (self.scorer.concurrency or Server.concurrency) if self.scorer.backend == "chat" else 1
        alone = budget is not None and budget.unit != "calls" and self.asking.max_tokens is None
        together = 1 if alone else concurrency
        lines = cost_lines(number, noun, *cost(self.answers), together, budget, self.answers.prices)
        if alone and concurrency > 1:
            lines.append(
                "one question at a time, since an answer may have any length; with --max-tokens several are asked"
            )
        for line in lines:
            if self.asking.dry_run:
                stdout().print(line, markup=False, soft_wrap=True)
            else:
                say(line)
        return self.asking.dry_run
