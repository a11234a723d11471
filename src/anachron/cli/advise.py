"""``advise``: which way to bring a model up to date."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.commands import setting
from anachron.cli.edit_options import MethodOptions, StyleOptions, Updates
from anachron.cli.options import (
    FluencyTokens,
    JsonFlag,
    ModelArgument,
    ModelOptions,
    UpdatesOptions,
    split_commas,
    update_counts,
)
from anachron.cli.output import on_screen, print_json, say, stdout
from anachron.cli.outputs import DEFAULT_RUN, NAMED_FOLDER

if TYPE_CHECKING:
    from anachron.advise.evidence import Evidence
    from anachron.advise.run import AdviceSettings
    from anachron.data.updates.cases import CaseSet
    from anachron.lm.model import LanguageModel


@dataclass(frozen=True, kw_only=True)
class AdviceOptions:
    """What is tried, and how it is weighed."""

    ways: Annotated[
        str | None,
        typer.Option(
            help="Methods to try, separated by commas, as in evaluate. Default: PROMPT, RETRIEVAL, MEMIT, LoRA, "
            "LoRA-Merge, and the first two with dates where all are known."
        ),
    ] = None
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Numbers of updates made together, such as 1,10. Default: 1, 10, 100, 1000 as far as there are, and "
            "all."
        ),
    ] = None
    weigh: Annotated[
        list[str] | None,
        typer.Option(
            help="Weight of a part: present, past, others (1 each) or fluency (0.5), such as past=2. May be repeated."
        ),
    ] = None
    evidence: Annotated[
        int,
        setting(
            min=0,
            help="Try so many updates at least: bundled ones that the model lacks too stand in for those missing.",
        ),
    ] = 50
    budget_minutes: Annotated[
        float | None, typer.Option(help="About how long it may take; fewer updates are tried where that is too short.")
    ] = None
    questions: Annotated[int, setting(min=0, help="Number of questions for which the costs of ways are compared.")] = (
        1000
    )
    text: Annotated[
        str, setting(help="Text to measure perplexity on: a file, a hub name, or mini; none for no perplexity.")
    ] = "mini"
    fluency_tokens: FluencyTokens = 50

    def fixed(self) -> "AdviceSettings":
        """What does not depend on the updates. Raises `ConfigError` for what cannot be meant."""
        from anachron.advise.run import AdviceSettings
        from anachron.edit.corpus import open_corpus

        return AdviceSettings(
            sizes=None if self.sizes is None else update_counts("--sizes", self.sizes), weights=_weights(self.weigh),
            questions=self.questions, text=None if self.text == "none" else open_corpus(self.text),
            budget_minutes=self.budget_minutes,
        )  # fmt: skip

    def with_evidence(self, lm: "LanguageModel", cases: "CaseSet") -> "Evidence":
        """The updates to be tried, the user's own first; said where others stand beside them."""
        from anachron.advise.evidence import with_evidence

        found = with_evidence(lm, cases, self.evidence)
        if len(found.cases.cases) > found.own:
            say(str(found))
        return found

    def settings(self, cases: "CaseSet", own: int) -> "AdviceSettings":
        """own: how many of the updates are the user's. Raises as `fixed`."""
        from anachron.advise.run import measures_for

        return replace(self.fixed(), own=own, measures=measures_for(cases, self.fluency_tokens))


def _weights(given: list[str] | None) -> dict[str, float]:
    from anachron.core.errors import ConfigError

    weights = {}
    for text in given or []:
        part, equals, number = text.partition("=")
        try:
            weights[part] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise ConfigError(f"--weigh {text}: write PART=NUMBER, for instance past=2")
    return weights


def advise(
    *,
    model: ModelArgument,
    updates: Updates,
    out: Annotated[
        Path, typer.Option(help="Folder for advice.json, ways.csv, the runs and, in report/, the page."), NAMED_FOLDER
    ] = DEFAULT_RUN,
    tried: AdviceOptions,
    selected: UpdatesOptions,
    needs: MethodOptions,
    asked: StyleOptions,
    loading: ModelOptions,
    json_: JsonFlag = False,
) -> None:
    """Try ways to make updates true, and say which to take: prompts, retrieval, editing, adapters, or nothing at all.

    A way is recommended only where it was shown to be better than every other; otherwise the cheapest of those that no
    difference was shown between. If interrupted or killed, repeat the same command to resume.

    Example: anachron advise demo --updates mini-updates --limit 10 --ways PROMPT,RETRIEVAL,MEMIT --out runs/advice
    """
    from anachron.advise.run import run_advice
    from anachron.advise.ways import default_ways

    tried.fixed()  # what is wrong is said before anything is read
    cases = selected.load(updates, tell=True)
    names = split_commas(tried.ways) if tried.ways is not None else default_ways(cases)
    choice = needs.or_own_text(model).choose(names, model)
    choice.check_scenarios(cases)
    lm = asked.load(model, loading)
    asked.tell_raw(lm)
    evidence = tried.with_evidence(lm, cases)
    cases, settings = evidence.cases, tried.settings(evidence.cases, evidence.own)
    ways, _ = needs.prepare(lm, choice, cases, settings.measures, quiet=json_, tell=not json_)
    with on_screen().bar(model) as bar:
        found = run_advice(lm, cases, ways, out, settings, callbacks=bar)
    _tell(found, cases, as_json=json_)


def _tell(found: Any, cases: "CaseSet", *, as_json: bool) -> None:
    from anachron.io.run_folder import RunFolder
    from anachron.report.advice import advice_lines, costs_table, gains_table, write_advice_page

    page = write_advice_page(found, cases.cases, RunFolder.read(found.folder).record)
    if as_json:
        print_json(found.summary | {"run": str(found.folder), "page": str(page)})
        return
    screen = stdout()
    for table in (gains_table(found.ways), costs_table(found.ways)):
        screen.print(table)
    for line in advice_lines(found):
        screen.print(line, markup=False, soft_wrap=True)
    say(f"run folder: {found.folder}; page: {page}")
