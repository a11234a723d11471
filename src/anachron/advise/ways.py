"""The ways that are tried where a user names none."""

from anachron.core.labels import split_label
from anachron.data.updates.cases import CaseSet
from anachron.edit.methods import method_named

PLAIN_WAYS = ("PROMPT", "RETRIEVAL")  # without weights
DATED_WAYS = ("PROMPT dated", "RETRIEVAL dated")  # the same with dated sentences
WEIGHTS_WAYS = ("MEMIT",)
ADAPTERS = ("LoRA", "LoRA-Merge")


def default_ways(cases: CaseSet) -> tuple[str, ...]:
    """Sentences before the question, retrieved sentences, an editor, one adapter and merged ones; with dates too where
    every update says since when it holds. None that can make no update
    of these scenarios."""
    dated = DATED_WAYS if cases.cases and all(case.start for case in cases.cases) else ()
    scenarios = {case.scenario for case in cases.cases}
    named = (*PLAIN_WAYS, *dated, *WEIGHTS_WAYS, *ADAPTERS)
    return tuple(name for name in named if scenarios & {*method_named(split_label(name)[0]).scenarios})
