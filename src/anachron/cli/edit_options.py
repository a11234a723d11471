"""What `edit` and `evaluate` ask for in common: options, and the methods that they name."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from anachron.cli.commands import MODEL, setting
from anachron.cli.options import FormatOption, ModelOptions, TemplateOption
from anachron.cli.output import on_screen, say
from anachron.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anachron.advise.tune import Tuned
    from anachron.data.updates.cases import CaseSet
    from anachron.edit.plan import Planned
    from anachron.evaluate.editing import MethodChoice
    from anachron.evaluate.measure import Measures
    from anachron.lm.model import LanguageModel

Updates = Annotated[
    str,
    typer.Option(
        help="mini-updates, a hub name, or a file: a table of subject, old, new and prompt or relation (CSV, "
        "spreadsheet, JSON, Parquet), or WikiFactDiff, CounterFact, zsRE, RippleEdits, MQuAKE, AToKe, WikiBigEdit, "
        "UltraEditBench."
    ),
]


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """What methods of editing need, and their settings."""

    corpus: Annotated[
        str | None,
        typer.Option(
            help="Text for the covariance of ROME, MEMIT, EMMET, AlphaEdit: a file, a hub name, mini, auto (text that "
            "the model writes itself), or imported."
        ),
    ] = None
    no_covariance: Annotated[
        bool, setting("--no-covariance", help="Use the identity matrix instead of the covariance.")
    ] = False
    corpus_tokens: Annotated[
        int | None,
        setting(
            min=1,
            help="Number of tokens to read from the corpus. Default: 100,000, or all of mini; of auto ten for each "
            "input of the layer, at most 100,000.",
        ),
    ] = None
    regularise: Annotated[float | None, setting(help="Share of the mean diagonal to add to the covariance.")] = None
    cache: Annotated[
        Path | None,
        setting(help="Folder of the covariances. Default: $ANACHRON_CACHE or the user's cache folder."),
    ] = None
    mend: Annotated[Path | None, typer.Option(help="Network written by train-mend.")] = None
    passages: Annotated[
        Path | None,
        setting(help="Your own passages for RETRIEVAL: a text, one a line, or a table with a column text."),
    ] = None
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Override a preset setting: METHOD.NAME=VALUE, with VALUE as JSON; or a setting below."
        ),
    ] = None
    tune: Annotated[
        bool,
        typer.Option("--tune", help="First search each method's settings, on bundled updates of other subjects."),
    ] = False
    tune_minutes: Annotated[float | None, setting(help="Minutes to search settings of a method for. Default: 5.")] = (
        None
    )
    tune_trials: Annotated[int | None, setting(min=1, help="Most settings of a method to try. Default: 30.")] = None
    site: Annotated[
        list[str] | None,
        setting("--site", help="Name the modules yourself: blocks=, mlp_in= (several joined by +), mlp_out=."),
    ] = None

    def or_own_text(self, model: str) -> "MethodOptions":
        """With the model's own text for covariances, where no other is given."""
        from anachron.edit.corpus import AUTO
        from anachron.lm.tokenizers import DEMO

        given = self.corpus is not None or self.no_covariance or model == DEMO
        return self if given else replace(self, corpus=AUTO)

    def choose(self, methods: "Sequence[str]", model: str) -> "MethodChoice":
        """The methods with what they need, checked without the model of this name, as far as that goes."""
        from anachron.evaluate.editing import choose_methods

        for option, value in (("--tune-minutes", self.tune_minutes), ("--set tune_trials", self.tune_trials)):
            if value is not None and not self.tune:
                raise ConfigError(f"{option} {value:g} is for --tune; add it, or leave this out")
            if value is not None and not value > 0:
                raise ConfigError(f"{option} {value:g}: give a number above 0")
        choice = choose_methods(
            methods, changes=_changes(self.set_), sites=_site_names(self.site), corpus=self.corpus,
            identity_covariance=self.no_covariance, tokens=self.corpus_tokens, regularise=self.regularise,
            cache=self.cache, mend=self.mend, passages=self.passages,
        )  # fmt: skip
        choice.check_covariance(model)
        return choice

    def prepare(
        self, lm: "LanguageModel", choice: "MethodChoice", cases: "CaseSet", measures: "Measures | None" = None, *,
        quiet: bool, tell: bool = False,
    ) -> "tuple[list[Planned], list[Tuned]]":  # fmt: skip
        """The methods, ready, and what was found by tuning them, where that is asked for.

        measures: of the evaluation to come; what takes written text is left out of those of tuning. quiet: do not say
        what was found. tell: say where the settings of each method are from.
        """
        from anachron.advise.tune import MINUTES, SCORES, TRIALS, tune_method
        from anachron.evaluate.editing import prepare_methods

        tuned = []
        for name in choice.methods if self.tune else ():
            found = tune_method(
                lm, choice.only(name, {}), cases, minutes=self.tune_minutes or MINUTES,
                trials=self.tune_trials or TRIALS,
                measures=replace(SCORES, dated=measures.dated if measures else None), callbacks=on_screen(),
            )  # fmt: skip
            tuned.append(found)
            if not quiet:
                say(str(found))
        planned = [one.planned for one in tuned] if self.tune else prepare_methods(lm, choice, callbacks=on_screen())
        for one in planned if tell else ():
            say(f"{one.printed_name}: settings: {one.source}")
        return planned, tuned


@dataclass(frozen=True, kw_only=True)
class StyleOptions:
    """How requests and prompts are put to the model."""

    PANEL: ClassVar[str] = MODEL
    format: FormatOption = "raw"
    chat_template: TemplateOption = None

    def load(self, name: str, loading: ModelOptions) -> Any:
        """The model, asked in this format. Raises `ConfigError` for options that do not go together."""
        from anachron.lm.formats import Format
        from anachron.lm.generation import update_style
        from anachron.probe.backends import read_template

        Format(self.format)  # type: ignore[arg-type]  # refused before the model is loaded
        if self.chat_template is not None and self.format != "chat":
            raise ConfigError(f"--chat-template {self.chat_template} is for --format chat; add it, or leave this out")
        lm = loading.load(name, chat_template=read_template(self.chat_template))
        lm.style = update_style(lm.tokenizer, self.format)
        return lm

    def tell_raw(self, lm: "LanguageModel") -> None:
        """Say that a model which has a chat template is asked without it: what is advised holds for texts as asked."""
        if self.format == "raw" and getattr(lm.tokenizer, "chat_template", None):
            say(f"{lm.name} has a chat template and is asked in raw text; --format chat asks in the template")


def _changes(given: list[str] | None) -> dict[str, dict[str, Any]]:
    """``METHOD.NAME=VALUE`` as method -> name -> value; a value that is no JSON is a text."""
    changes: dict[str, dict[str, Any]] = {}
    for text in given or []:
        left, equals, value = text.partition("=")
        method, point, name = left.rpartition(".")
        if not (equals and point and method and name):
            raise ConfigError(f"--set {text!r}: write METHOD.NAME=VALUE, for instance ROME.layer=5")
        try:
            changes.setdefault(method, {})[name] = json.loads(value)
        except ValueError:
            changes.setdefault(method, {})[name] = value
    return changes


def _site_names(given: list[str] | None) -> dict[str, str]:
    sites: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if name not in ("blocks", "mlp_in", "mlp_out") or not equals or not value:
            raise ConfigError(f"--site {text!r}: write blocks=NAME, mlp_in=NAME or mlp_out=NAME")
        sites[name] = value.replace("+", ",")
    return sites
