"""The editing methods, a module each; this is the one list of them.

A package of one's own adds methods by an entry point of the group ``anachron.methods``: its name is the method's, and
it is a `anachron.edit.method.Method`.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from anachron.core.errors import ConfigError

if TYPE_CHECKING:
    from anachron.edit.method import Method

METHODS: Mapping[str, str] = {  # name -> module of this package and record; loaded when used, for that loads torch
    "FT": "ft.FT", "FT+L": "ft.FT_L", "MEND": "mend.MEND", "ROME": "rome.ROME", "MEMIT": "memit.MEMIT",
    "AlphaEdit": "alphaedit.ALPHAEDIT", "EMMET": "emmet.EMMET", "UltraEdit": "ultraedit.ULTRAEDIT",
    "LoRA": "lora.LORA", "LoRA-Merge": "lora.LORA_MERGE", "GRACE": "grace.GRACE", "PROMPT": "prompt.PROMPT",
    "RETRIEVAL": "retrieval.RETRIEVAL",
}  # fmt: skip
GROUP = "anachron.methods"
WITH = " with retrieval"  # behind the name of any other method


def method_names() -> list[str]:
    """Names of all methods, of which none is loaded: for the help of commands."""
    from importlib.metadata import entry_points

    return [*METHODS, *sorted(entry.name for entry in entry_points(group=GROUP))]


@cache
def methods() -> "dict[str, Method]":
    """All methods by name: those of this package and those that installed packages add.

    Raises `ConfigError` for an entry point that is no method, is called otherwise or takes the name of another.
    """
    from importlib.metadata import entry_points

    from anachron.edit.method import Method

    own = {name: place.split(".") for name, place in METHODS.items()}
    known = {name: getattr(import_module(f"{__name__}.{module}"), record) for name, (module, record) in own.items()}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            method = entry.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"the method {entry.name!r} ({entry.value}) cannot be loaded ({type(error).__name__}: {error}); fix "
                "or uninstall the package that adds it"
            ) from error
        if not isinstance(method, Method) or method.name != entry.name:
            raise ConfigError(
                f"the entry point {entry.name!r} of {GROUP} is {method!r:.80}; it must be a Method of that name "
                f"({entry.value})"
            )
        if entry.name.casefold() in map(str.casefold, known):
            raise ConfigError(f"two methods are called {entry.name!r}, one of them by {entry.value}; rename it")
        known[entry.name] = method
    return known


def method_named(name: str) -> "Method":
    """The method of that name, whatever the case, or it ``with RETRIEVAL``. Raises `ConfigError` for an unknown one."""
    if name.casefold().endswith(WITH):
        return _with_retrieval(method_named(name[: -len(WITH)]).name)
    method = {known.casefold(): method for known, method in methods().items()}.get(name.casefold())
    if method is None:
        raise ConfigError(f"method {name!r}: choose one of {', '.join(methods())}")
    return method


@cache
def _with_retrieval(name: str) -> "Method":
    from anachron.edit.methods.combined import with_retrieval

    return with_retrieval(method_named(name))


def printed_name(method: str, settings: Mapping[str, Any]) -> str:
    """What reports call a method, by the fields of its settings: r-ROME for ROME with averaged keys."""
    known = method_named(method)
    return known.name if known.printed_name is None else known.printed_name(settings)


def why_unsupported(method: str, scenario: str) -> str | None:
    """Why a method cannot make the updates of a scenario, and which methods can; None where it can."""
    asked = method_named(method)
    if scenario in asked.scenarios:
        return None
    able = [other.name for other in methods().values() if scenario in other.scenarios]
    return f"{asked.name} cannot make updates of the scenario {scenario}; {', '.join(able) or 'no method'} can"


def check_scenarios(names: Iterable[str], scenarios: Collection[str]) -> None:
    """Raise `ConfigError` for a method that supports none of the scenarios: each of its updates would fail."""
    for method in names:
        reasons = [why_unsupported(method, scenario) for scenario in sorted(scenarios)]
        if reasons and all(reasons):
            raise ConfigError(f"{reasons[0]}; choose another method or scenario")
