"""Labels of editing methods: ``ROME``, and ``ROME dated`` or ``ROME METO`` where it is asked in another way.

Records and tables hold the name and the variant apart. A label is read where a user types it, and made where one is
shown.
"""

from typing import Literal, get_args

Variant = Literal["plain", "dated", "METO"]  # the update's own prompt; behind its date; old and new fact with theirs
PLAIN: Variant = "plain"
VARIANTS: tuple[Variant, ...] = get_args(Variant)


def label_of(method: str, variant: Variant) -> str:
    return method if variant == PLAIN else f"{method} {variant}"


def split_label(label: str) -> tuple[str, Variant]:
    """The method's name, and its variant, from what a user typed."""
    for variant in VARIANTS:
        ending = f" {variant}"
        if variant != PLAIN and label.casefold().endswith(ending.casefold()):
            return label[: -len(ending)], variant
    return label, PLAIN
