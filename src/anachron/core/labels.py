"""Labels of editing methods: ``ROME``, and ``ROME dated`` where its requests say a date.

Records and tables hold the name and the flag apart. A label is read where a user types it, and made where one is shown.
"""

DATED_ENDING = " dated"


def label_of(method: str, dated_requests: bool) -> str:
    return f"{method}{DATED_ENDING}" if dated_requests else method


def split_label(label: str) -> tuple[str, bool]:
    """The method's name, and whether its requests are to say a date, from what a user typed."""
    dated_requests = label.casefold().endswith(DATED_ENDING)
    return (label[: -len(DATED_ENDING)] if dated_requests else label), dated_requests
