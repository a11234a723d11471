"""How the models of a command are asked: for scores, or for answers (``--backend chat`` and ``generate``)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from anachron.cli.commands import SERVER
from anachron.cli.options import ModelOptions, PriceIn, PriceOut
from anachron.cli.output import on_screen, say, stdout
from anachron.core.errors import ConfigError
from anachron.io.servers import Server

if TYPE_CHECKING:
    from anachron.cli.scorer_options import ReplicaOptions, ScorerOptions, TextOptions
    from anachron.io.jobs import Callbacks
    from anachron.probe.ask.asking import AskSettings
    from anachron.probe.by_answers import Costs
    from anachron.probe.respondent import Respondent


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

    def settings(self) -> "AskSettings":
        """How much is asked. Raises `ConfigError` for what cannot be."""
        from anachron.probe.ask.asking import AskSettings
        from anachron.probe.ask.budget import Prices, parse_budget

        if (self.price_in is None) != (self.price_out is None):
            raise ConfigError("give both --price-in and --price-out, or neither")
        prices = None if self.price_in is None or self.price_out is None else Prices(self.price_in, self.price_out)
        budget = None if self.budget is None else parse_budget(self.budget, prices)
        return AskSettings(budget=budget, prices=prices, **self._chosen())

    def requests(self) -> dict[str, Any]:
        """What is given of how requests are sent, for `anachron.open_answerer`."""
        from anachron.probe.backends import given
        from anachron.probe.opening import REQUESTS

        return {name: value for name, value in given(self).items() if name in REQUESTS | {"max_tokens"}}

    def _chosen(self) -> dict[str, Any]:
        """What else is set of `AskSettings`."""
        return {}


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


class Models:
    """How the models of a command are asked, as its options say: by scores, or for answers.

    ``answers``: how much is asked; None of models that are scored. Raises `ConfigError` for options that do not go
    together, before anything is read or loaded.
    """

    def __init__(
        self, asking: AnswerOptions, texts: "TextOptions", scorer: "ScorerOptions", replicas: "ReplicaOptions",
        loading: "ModelOptions", *, language: str | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        from anachron.probe.backends import backend_named, given, refuse_unfit

        refuse_unfit(scorer.backend, given(asking, texts, scorer, replicas, loading))
        self.asking, self.texts, self.scorer, self.replicas, self.loading = asking, texts, scorer, replicas, loading
        self.language, self.seed = language, seed
        self.answers = asking.settings() if backend_named(scorer.backend).answers else None
        # what asking costs is told without the address of a server
        self.place = None if asking.dry_run else scorer.place(**asdict(replicas))
        texts.check(loading)

    @contextmanager
    def opened(
        self, name: str, out: Path, label: str | None, reuse: Path | None = None
    ) -> "Iterator[tuple[Respondent, Callbacks]]":
        """One of them, and what shows how far it is. out: the run folder, where answers are kept. reuse: that of an
        earlier run, whose scores are taken over; `ConfigError` where a model only answers."""
        assert self.place is not None  # but where only the cost is told
        if self.answers is not None:
            from anachron.probe.ask.run import ANSWERS
            from anachron.probe.backends import open_answerer
            from anachron.probe.by_answers import ByAnswers

            if reuse is not None:
                raise ConfigError(
                    f"--reuse {reuse} is for scores; answers are reused by giving both runs the same --answers FOLDER"
                )
            with (
                open_answerer(
                    name, self.place, answers=self.asking.answers or out / ANSWERS, label=label,
                    chat_template=self.scorer.chat_template, asking=self.asking.requests(), **asdict(self.loading),
                ) as answerer,
                on_screen().bar(name) as bar,
            ):  # fmt: skip
                yield ByAnswers(answerer, self.answers, self.language), bar
            return
        from anachron.probe.by_scores import ByScores  # it loads torch, which takes longer than reading facts
        from anachron.probe.run import ProbeSettings

        settings = ProbeSettings(
            label=label, deterministic=self.replicas.deterministic, seed=self.seed, **asdict(self.texts)
        )
        with self.scorer.open(name, self.place, self.loading) as lm, on_screen().bar(name) as bar:
            yield ByScores(lm, settings, reuse), bar

    def only_cost(self, cost: "Callable[[AskSettings], Costs]", noun: str = "fact") -> bool:
        """Say about how many facts (or what the noun names) questions will be asked, and what they will cost at least
        and at most; whether that was all that was wanted (``--dry-run``). Of models that are scored nothing is said."""
        if self.answers is None:
            return False
        from anachron.probe.ask.budget import cost_lines
        from anachron.probe.backends import backend_named

        budget = self.answers.budget
        here = backend_named(self.scorer.backend).loads
        concurrency = 1 if here else self.scorer.concurrency or Server.concurrency
        alone = budget is not None and budget.unit != "calls" and self.asking.max_tokens is None
        together = 1 if alone else concurrency
        number, least, most = cost(self.answers)
        lines = cost_lines(number, noun, least, most, together, budget, self.answers.prices)
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
