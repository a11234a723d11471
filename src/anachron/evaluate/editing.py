"""From updates of a data set to an edit: methods made ready, requests asked for, the edit made (``edit``)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from anachron.core.errors import ConfigError, DataError, ModelError
from anachron.data.updates.case_records import SLOT, EditCase
from anachron.data.updates.case_table import UNCHANGED
from anachron.data.updates.cases import CaseSet
from anachron.edit.base import Edit
from anachron.edit.corpus import AUTO, BUNDLED, Corpus, open_corpus
from anachron.edit.covariance.collect import check_settings, collect_covariance
from anachron.edit.covariance.imported import IMPORTED, imported_covariance
from anachron.edit.covariance.own_text import OwnText
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.make import make_edit
from anachron.edit.methods import check_scenarios, method_named
from anachron.edit.methods.mend import MendNetwork
from anachron.edit.plan import GIVE_TEXT, Planned, parse_method, plan_edits, wanted_methods
from anachron.edit.recommend import Had, Situation
from anachron.edit.requests import EditRequest
from anachron.evaluate.old_and_new import BESIDE, before_and_after, preferences
from anachron.evaluate.requests import askable, changes_nothing, unreadable, without_conflicts
from anachron.evaluate.untouched import ask_untouched, untouched_counts, untouched_facts
from anachron.io.cache import cache_folder
from anachron.io.files import Json, read_text
from anachron.io.jobs import Callbacks
from anachron.io.sheets import ENDINGS as SHEET_ENDINGS
from anachron.io.tables import READERS, read_table
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites, is_quantised
from anachron.lm.tokenizers import DEMO
from anachron.text.openings import mention

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class MethodChoice:
    """Methods by name and what they need, as `choose_methods` checked it. own_text: whether the covariance is taken
    over what the model writes itself."""

    methods: tuple[str, ...]
    changes: Mapping[str, Mapping[str, Any]]
    sites: Mapping[str, str]
    corpus: Corpus | None
    own_text: bool
    identity_covariance: bool
    tokens: int | None
    regularise: float | None
    cache: Path | None
    mend: Path | None
    passages: tuple[str, ...] = ()
    imported: bool = False  # the covariances that `anachron.import_covariance` has kept, instead of a corpus

    def check_scenarios(self, cases: CaseSet) -> None:
        """Raise `ConfigError` where no method supports the scenario of one of the updates."""
        check_scenarios([parse_method(name)[0] for name in self.methods], {case.scenario for case in cases.cases})

    def covariance_of(self, model: str) -> Had:
        """Whether a covariance can be had for the model of this name."""
        if self.identity_covariance:
            return "not wanted"
        at_hand = self.corpus is not None or self.own_text or self.imported or model == DEMO
        return "there" if at_hand else "missing"

    def check_covariance(self, model: str) -> None:
        """Raise `ConfigError` where a method needs a covariance and it is missing."""
        needing = [name for name in self.methods if method_named(parse_method(name)[0]).needs_covariance]
        if needing and self.covariance_of(model) == "missing":
            raise ConfigError(f"{needing[0]} needs a covariance, and for {model} none is at hand: {GIVE_TEXT}")

    def changes_of(self, name: str) -> dict[str, Any]:
        """The settings that are changed of a method, which may be named with its variant."""
        method, _ = parse_method(name)
        of_it = [values for given, values in self.changes.items() if method_named(given).name == method]
        return {setting: value for values in of_it for setting, value in values.items()}

    def only(self, name: str, changes: Mapping[str, Any]) -> "MethodChoice":
        """This choice of one of its methods alone, with further settings of it changed."""
        method = method_named(parse_method(name)[0])
        own = {part.name: self.changes_of(part.name) for part in method.parts or (method,)}
        if changes:
            own[method.name] = {**own.get(method.name, {}), **changes}
        passages = self.passages if method.reads_passages else ()
        kept = {part: values for part, values in own.items() if values}
        return replace(self, methods=(name,), changes=kept, passages=passages)


def choose_methods(
    methods: Sequence[str],
    *,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    sites: Mapping[str, str] | None = None,
    corpus: str | Path | None = None,
    identity_covariance: bool = False,
    tokens: int | None = None,
    regularise: float | None = None,
    cache: Path | None = None,
    mend: Path | None = None,
    passages: str | Path | None = None,
) -> MethodChoice:
    """Choose editing methods and what they need; everything is checked as far as possible without the model.

    methods: names of `anachron.edit.methods`, as ``ROME``, or its variants ``ROME dated`` and ``ROME METO``.
    changes: method -> settings other than its preset.
    sites: modules by hand, see `anachron.lm.sites.find_sites`.
    corpus: text for the covariance, see `anachron.edit.corpus.open_corpus`, or ``auto`` for what the model writes
        itself; the demo model has its own by default. ``imported`` takes what `anachron.import_covariance` has kept in
        the cache.
    identity_covariance: use the identity matrix instead of the covariance.
    tokens: number of tokens of the corpus to read, by default 100,000; of the model's own text ten for each input of
        the widest module, at most 100,000.
    regularise: share of the mean diagonal to add to the covariance.
    cache: folder of the covariances, by default `anachron.io.cache.cache_folder`.
    mend: the file of MEND's trained network.
    passages: a file of a user's own passages, for RETRIEVAL; see `read_passages`.

    Raises `ConfigError` if no method is given, one is unknown, named twice or lacks its network, or options do not go
    together.
    """
    if not methods:
        raise ConfigError("no method is named; give at least one, such as ROME")
    if corpus is not None and identity_covariance:
        raise ConfigError("give either --corpus or --no-covariance, not both")
    if mend is not None and not mend.is_file():
        raise ConfigError(f"--mend {mend}: no such file; train a network with anachron train-mend")
    if corpus == IMPORTED and tokens is not None:
        raise ConfigError(f"--corpus-tokens {tokens}: what was imported is read as it is; leave it out")
    check_settings(precision="float64", regularise=regularise)
    wanted_methods(methods, network=mend is not None)
    return MethodChoice(
        methods=tuple(methods), changes=changes or {}, sites=sites or {},
        corpus=None if corpus in (None, AUTO, IMPORTED) else open_corpus(corpus), own_text=corpus == AUTO,
        imported=corpus == IMPORTED, identity_covariance=identity_covariance, tokens=tokens, regularise=regularise,
        cache=cache, mend=mend, passages=() if passages is None else read_passages(passages),
    )  # fmt: skip


def read_passages(path: str | Path) -> tuple[str, ...]:
    """Passages of a file: a table with a column ``text`` (CSV, JSON Lines, JSON, Parquet), or a text, one a line.

    The space around a passage is cut off, empty ones are left out. Raises `ConfigError` for a text that cannot be read
    and where there is no passage, `DataError` for a table that cannot be read or has no such column.
    """
    ending = Path(path).suffix.casefold()
    if ending in SHEET_ENDINGS:
        raise ConfigError(
            f"--passages {path}: passages stand in a text, or a table such as .csv; save the sheet as one"
        )
    if ending in READERS:
        table = read_table(path)
        if "text" not in table.columns:
            raise DataError(f"{path} has the columns {', '.join(table.columns)}; passages stand in a column 'text'")
        texts = [text or "" for text in table["text"].cast(pl.String)]
    else:
        texts = read_text(path, "--passages").splitlines()
    passages = tuple(text.strip() for text in texts if text.strip())
    if not passages:
        raise ConfigError(f"--passages {path} holds no passage; give one a line")
    return passages


def prepare_methods(lm: LanguageModel, choice: MethodChoice, *, callbacks: Callbacks | None = None) -> list[Planned]:
    """Prepare methods for `anachron.run_evaluation` or `edit_from_updates`: collect covariances, check settings.

    Raises as `anachron.plan_edits` and `anachron.collect_covariance`.
    """
    callbacks = callbacks or Callbacks()
    corpus = OwnText(lm) if choice.own_text else choice.corpus
    if corpus is None and not choice.imported and not choice.identity_covariance and lm.name == DEMO:
        corpus = open_corpus(BUNDLED)
    short = corpus is not None and corpus.name == BUNDLED and choice.tokens is None  # it is known to be short

    def collected(modules: Sequence[str]) -> Mapping[str, SecondMoment]:
        if choice.imported:
            known = imported_covariance(lm, modules, cache=choice.cache or cache_folder())
            share = choice.regularise
            return known if share is None else {name: one.regularised(share) for name, one in known.items()}
        assert corpus is not None
        with callbacks.bar("covariance") as bar:
            return collect_covariance(
                lm, modules, corpus, tokens=choice.tokens, cache=choice.cache or cache_folder(),
                regularise=choice.regularise, callbacks=replace(bar, warn=Callbacks().warn) if short else bar,
            )  # fmt: skip

    planned = plan_edits(
        lm, choice.methods, changes=choice.changes, identity_covariance=choice.identity_covariance,
        collect=collected if choice.imported or corpus is not None else None,
        network=None if choice.mend is None else MendNetwork.load(choice.mend, lm), passages=choice.passages,
        sites=find_sites(lm.model, **choice.sites) if choice.sites else None,
    )  # fmt: skip
    for warning in dict.fromkeys(warning for one in planned for warning in one.warnings):
        callbacks.warn(warning)
    return planned


@dataclass(frozen=True)
class UpdateRequests:
    """What updates ask of a method. asked: updates with their requests. left_out: the reason for each that cannot be
    asked for. unchanged: how many are not asked for because their new object is the old one."""

    cases: CaseSet
    asked: list[tuple[EditCase, list[EditRequest]]]
    left_out: list[str]
    unchanged: int = 0


def update_requests(cases: CaseSet, method: str, *, skip: bool = False) -> UpdateRequests:
    """Turn the updates of a data set into requests to a method (a name of `MethodChoice`).

    Raises `DataError` if none can be made and, without ``skip``, if any cannot: of those that make different objects
    follow one prompt only one can (`anachron.evaluate.requests.without_conflicts`).
    """
    name, variant = parse_method(method)
    changing = [case for case in cases.cases if not changes_nothing(case)]
    if not changing:
        raise DataError(
            f"{cases.name}: the new object of each of {len(cases.cases)} updates is the old one: {UNCHANGED}"
        )
    possible, failures = askable(changing, name, variant)
    asked, conflicts = without_conflicts(possible)
    left_out = [*(str(failure.reason) for failure in failures), *conflicts]
    unchanged = len(cases.cases) - len(changing) + cases.left_out.get(UNCHANGED, 0)
    return _checked(UpdateRequests(cases, asked, left_out, unchanged), skip)


def readable(lm: LanguageModel, updates: UpdateRequests, method: str, *, skip: bool = False) -> UpdateRequests:
    """Without those that the model cannot be given (`anachron.evaluate.requests.unreadable`). Raises as
    `update_requests`, which needs no model."""
    name, _ = parse_method(method)
    reasons = unreadable(lm, updates.asked, name)
    asked = [one for one in updates.asked if one[0].case_id not in reasons]
    left_out = [f"update {case}: {reason}" for case, reason in reasons.items()]
    return _checked(replace(updates, asked=asked, left_out=[*updates.left_out, *left_out]), skip)


def _checked(updates: UpdateRequests, skip: bool) -> UpdateRequests:
    """As they are. Raises `DataError` where nothing is asked, and without ``skip`` where anything is left out."""
    total = len(updates.cases.cases)
    if updates.left_out and not skip:
        raise DataError(
            f"{len(updates.left_out)} of {total} updates cannot be made, for instance: {updates.left_out[0]}; fix "
            "them, or leave them out with --skip"
        )
    if not updates.asked:
        raise DataError(f"{updates.cases.name}: none of its {total} updates can be made")
    return updates


def edit_from_updates(lm: LanguageModel, planned: Planned, updates: UpdateRequests) -> Edit:
    """Make updates in a model, all in one edit, which records where its updates and settings come from.

    Raises as `anachron.make_edit`.
    """
    requests = [request for _, asked in updates.asked for request in asked]
    edit = make_edit(lm, planned.method, requests, planned.settings, planned.resources, planned.sites)
    identity = planned.identity()
    beside = ("covariance", "network", "passages")
    return replace(edit, about=edit.about | {
        "settings_from": planned.source, "updates": updates.cases.name,
        "updates_fingerprint": updates.cases.fingerprint(), "left_out": len(updates.left_out),
        **{name: identity[name] for name in beside if name in identity},
    })  # fmt: skip


def told_objects(
    lm: LanguageModel, edit: Edit, updates: UpdateRequests, most: int = 20, *, warn: Callable[[str], None]
) -> pl.DataFrame:
    """How likely the objects of the first updates of an edit are without it and with it: a row an object, as of
    `anachron.evaluate.old_and_new.before_and_after`; none where `_or_warned`."""
    cases = [case for case, _ in updates.asked[:most]]
    found = _or_warned(lambda: before_and_after(lm, edit, cases), "its objects cannot be compared", warn)
    return pl.DataFrame(schema=BESIDE) if found is None else found


def preferred_objects(
    lm: LanguageModel, edit: Edit, updates: UpdateRequests, *, warn: Callable[[str], None]
) -> pl.DataFrame | None:
    """Whether a model with an edit prefers the new object of each update, as `anachron.evaluate.old_and_new` says; None
    where `_or_warned`."""
    cases = [case for case, _ in updates.asked]
    return _or_warned(lambda: preferences(lm, edit, cases), "it is not known how many updates it made", warn)


def untouched(
    lm: LanguageModel, edit: Edit, updates: UpdateRequests, *, warn: Callable[[str], None]
) -> dict[str, Json] | None:
    """What else an edit changed, by kind of fact, as of `anachron.evaluate.untouched`; None where `_or_warned`."""
    facts = untouched_facts([case for case, _ in updates.asked])
    asked = _or_warned(lambda: ask_untouched(lm, edit, facts), "it is not known what else it changed", warn)
    if asked is None:
        return None
    return {kind: untouched_counts(asked[kind], len(of_kind)) for kind, of_kind in facts.items()}


def _or_warned(measure: Callable[[], _T], unknown: str, warn: Callable[[str], None]) -> _T | None:
    """What is measured of an edit; None, and a warning with the reason, where a text cannot be scored (too long behind
    the prefix of an edit, weights that the edit has broken)."""
    try:
        return measure()
    except (DataError, ModelError) as error:
        warn(f"the edit was made, but {unknown}: {error}")
        return None


def situation_of(lm: LanguageModel, cases: CaseSet, *, covariance: Had, kept_as_model: bool) -> Situation:
    """What a method is recommended by (`anachron.edit.recommend`), of a model and the updates to be made in it."""
    asked = [case for case in cases.cases if not changes_nothing(case)]
    offloaded = any(parameter.is_meta for parameter in lm.model.parameters())
    return Situation(
        updates=len(asked), weights="fixed" if offloaded or is_quantised(lm.model) else "plain",
        covariance=covariance, scenarios={case.scenario for case in asked},
        subjects_named=all(SLOT in case.prompt or mention(case.prompt, case.subject) for case in asked),
        kept_as_model=kept_as_model,
    )  # fmt: skip
