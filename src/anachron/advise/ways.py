"""The ways that are tried where a user names none."""

from importlib.util import find_spec

from anachron.data.updates.cases import CaseSet

PLAIN_WAYS = ("PROMPT", "RETRIEVAL")  # without weights
DATED_WAYS = ("PROMPT dated", "RETRIEVAL dated")  # the same with dated sentences
WEIGHTS_WAYS = ("MEMIT",)
ADAPTERS = ("LoRA", "LoRA-Merge")


def default_ways(cases: CaseSet) -> tuple[str, ...]:
    """Sentences before the question, retrieved sentences, an editor, one adapter and merged ones; with dates too where
    every update says since when it holds. Adapters only where `peft` is installed."""
    dated = DATED_WAYS if cases.cases and all(case.start for case in cases.cases) else ()
    adapters = ADAPTERS if find_spec("peft") is not None else ()
    return (*PLAIN_WAYS, *dated, *WEIGHTS_WAYS, *adapters)
