"""A history of checks on their page."""

from collections.abc import Sequence

from anachron.io.files import Json


def history_on_page(rows: Sequence[Json]) -> list[Json] | None:
    """What the page draws of a history (`anachron.probe.check.history`): of each label by date, ``dates``,
    ``win_rate``, ``stale`` and ``gate``. None where there are not two lines."""
    if len(rows) < 2:
        return None
    found: dict[str, Json] = {}
    for row in sorted(rows, key=lambda row: str(row["date"])):
        of_label = found.setdefault(str(row["label"]), {"name": str(row["label"]), "dates": []})
        of_label["dates"].append(str(row["date"])[:19].replace("T", " "))
        for name in ("win_rate", "stale", "gate"):
            of_label.setdefault(name, []).append(row[name])
    return list(found.values())
