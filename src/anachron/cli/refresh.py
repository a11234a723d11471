"""``refresh``: from a file of facts to an updated model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.advise import AdviceOptions
from anachron.cli.edit_options import MethodOptions, StyleOptions
from anachron.cli.options import (
    AsOf,
    FactLimit,
    FactsFile,
    JsonFlag,
    Language,
    ModelArgument,
    ModelOptions,
    ReadingOptions,
    split_commas,
)
from anachron.cli.output import on_screen, print_json, say, stdout, tell_facts, tell_notes
from anachron.cli.outputs import DEFAULT_RUN, FOLDER, NAMED_FOLDER

if TYPE_CHECKING:
    from anachron.advise.refresh import Prepare
    from anachron.probe.check.questions import CheckedFacts


def refresh(
    *,
    model: ModelArgument,
    facts: FactsFile,
    out: Annotated[
        Path,
        typer.Option(help="Folder for check/, advice/, update.safetensors, after/ and, in report/, the page."),
        NAMED_FOLDER,
    ] = DEFAULT_RUN,
    way: Annotated[str | None, typer.Option(help="Make the updates by this method, whatever the advice says.")] = None,
    save_model: Annotated[
        Path | None, typer.Option(help="Also write the updated model to a new Hugging Face folder."), FOLDER
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and about how long it takes.")
    ] = False,
    reading: ReadingOptions,
    as_of: AsOf = None,
    limit: FactLimit = None,
    language: Language = None,
    tried: AdviceOptions,
    needs: MethodOptions,
    asked: StyleOptions,
    loading: ModelOptions,
    json_: JsonFlag = False,
) -> None:
    """Bring a model up to date with your facts: check, advice, the update, and the check again, before and after.

    What is stale is updated by the way that was shown to be best, or the cheapest of equal ones; nothing is changed
    where none is better than leaving the model as it is. If interrupted or killed, repeat the same command to resume.

    Example: anachron refresh demo --facts facts.csv --ways PROMPT,RETRIEVAL,MEMIT --out runs/refresh
    """
    from anachron.advise.refresh import refresh
    from anachron.lm.saving import require_new
    from anachron.probe.check.questions import read_facts
    from anachron.probe.runs import recorded_as_of
    from anachron.report.refreshed import REFRESH_FILE, write_refreshed

    named, way = _checked(tried, needs.or_own_text(model), way, model)
    if save_model is not None and not (out / REFRESH_FILE).is_file():
        require_new(save_model, "the updated model")
    day = as_of or recorded_as_of(out / "check")
    given = read_facts(facts, as_of=day, limit=limit, language=language, reading=reading.reading())
    tell_facts(given.data)
    lm = asked.load(model, loading)
    asked.tell_raw(lm)
    if dry_run:
        _tell_steps(lm, given, tried, named, way)
        return
    prepare = _preparing(lm, tried, needs.or_own_text(model), named, way, model)
    with on_screen().bar(model) as bar:
        done = refresh(lm, given, out, prepare, way=way, callbacks=bar)
    summary, page = write_refreshed(done)
    saved = save_model is not None and _saved(lm, done.made, save_model)
    _tell(summary, page, as_json=json_, save_model=save_model if saved else None)


def _checked(
    tried: AdviceOptions, needs: MethodOptions, way: str | None, model: str
) -> tuple[tuple[str, ...] | None, str | None]:
    """The names of ``--ways`` and of ``--way`` as labels; what is wrong is said before anything is asked."""
    from anachron.core.labels import label_of
    from anachron.edit.plan import parse_method

    way = None if way is None else label_of(*parse_method(way))
    named = None if tried.ways is None else tuple(label_of(*parse_method(name)) for name in split_commas(tried.ways))
    asked = named or ("PROMPT",)
    needs.choose((*asked, *([way] if way and way not in asked else [])), model)
    tried.fixed()
    return named, way


def _saved(lm: Any, made: Any, folder: Path) -> bool:
    """Whether the updated model lies in the folder: written now, or by an earlier call of this command. Raises
    `ConfigError` for a folder with something else."""
    from anachron.edit.storage import is_edited_model, save_edited_model

    if made is None:
        say(f"no model is saved in {folder}: nothing was changed")
        return False
    if made.prefix or made.passages or made.memories:
        say(f"no model is saved in {folder}: the update is not in weights alone; use it with --edit")
        return False
    if not is_edited_model(folder, made):
        save_edited_model(lm, made, folder)
    return True


def _preparing(
    lm: Any, tried: AdviceOptions, needs: MethodOptions, names: tuple[str, ...] | None, way: str | None, model: str
) -> "Prepare":
    """How ways are prepared once it is known what is stale."""
    from anachron.advise.ways import default_ways

    def prepare(cases: Any) -> Any:
        tell_notes(cases.notes)
        wanted = tuple(dict.fromkeys([*(names or default_ways(cases)), *([way] if way else [])]))
        choice = needs.choose(wanted, model)
        found = tried.with_evidence(lm, cases)
        settings = tried.settings(found.cases, found.own)
        ways, _ = needs.prepare(lm, choice, found.cases, settings.measures, quiet=False, tell=True)
        return ways, found.cases, settings

    return prepare


def _tell_steps(
    lm: Any, facts: "CheckedFacts", tried: AdviceOptions, named: tuple[str, ...] | None, way: str | None
) -> None:
    from anachron.advise.steps import steps_of
    from anachron.advise.ways import default_ways
    from anachron.data.updates.cases import MINI_UPDATES, load_cases

    like = load_cases(MINI_UPDATES, limit=1)
    measures = tried.settings(like, 1).measures
    ways = len({*(named or default_ways(like)), *([way] if way else [])}) + 1  # one is nothing
    for line in steps_of(lm, facts, measures, ways, tried.evidence, way):
        stdout().print(line, markup=False, soft_wrap=True)


def _tell(summary: dict[str, Any], page: Path, *, as_json: bool, save_model: Path | None) -> None:
    from anachron.report.refreshed import refresh_lines, refresh_table

    if as_json:
        print_json(summary | {"page": str(page), "saved_model": None if save_model is None else str(save_model)})
        return
    screen = stdout()
    if summary["updates"]:
        screen.print(refresh_table(summary))
    for line in refresh_lines(summary):
        screen.print(line, markup=False, soft_wrap=True)
    if summary["edit"]:
        say(f"the update: {summary['edit']}" + (f"; updated model in {save_model}" if save_model else ""))
    say(f"page: {page}")
