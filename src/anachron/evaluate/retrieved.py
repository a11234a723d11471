"""Errors of retrieval apart from errors of reading: was the passage of the very update put before its prompts?"""

from collections.abc import Sequence

import polars as pl

from anachron.core.labels import PLAIN, Variant
from anachron.data.updates.case_records import EditCase, numbered_prompts
from anachron.edit.carried.passages import Passages
from anachron.edit.methods.retrieval import new_sentence
from anachron.evaluate.requests import requests_of

METHOD = "RETRIEVAL"
RETRIEVED = {
    "case_id": pl.String, "kind": pl.String, "prompt_number": pl.Int64, "prompt": pl.String, "place": pl.Int64,
    "old_place": pl.Int64, "shown": pl.Int64,
}  # fmt: skip


def retrieved(passages: Passages, cases: Sequence[EditCase], variant: Variant = PLAIN) -> pl.DataFrame:
    """One row (`RETRIEVED`) an update and prompt, its own and the paraphrases, in their order.

    place: of the update's own passage among those shown for the prompt, 1 for the nearest; null where it was not shown,
    so that nothing a model answers is an error of reading. Of several passages of one update, the best. old_place: the
    same of what the store says of its old object. shown: how many passages were. variant: as the edit was made. Raises
    `DataError` for an update that cannot be asked of RETRIEVAL.
    """
    rows = []
    for case in cases:
        requests = requests_of(case, METHOD, variant)
        past = 2 if variant == "METO" else 0  # it asks for the old fact first, in two ways
        own = {new_sentence(request) for request in requests[past:]}
        old = {request.old_sentence for request in requests} | {new_sentence(request) for request in requests[:past]}
        asked = [*numbered_prompts(case)]
        for (kind, number, prompt), found in zip(asked, passages.shown([prompt for *_, prompt in asked]), strict=True):
            places = [next((n for n, text in enumerate(found, 1) if text in wanted), None) for wanted in (own, old)]
            rows.append((case.case_id, kind, number, prompt, *places, len(found)))
    return pl.DataFrame(rows, schema=RETRIEVED, orient="row")
