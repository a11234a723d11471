"""Facts that the demo model knows as they were: its old objects were taught, the new ones not."""

import csv
from collections.abc import Collection
from pathlib import Path

from anachron.data.bundled.mini_updates import mini_replacements


def taught_facts(path: Path, subjects: Collection[str]) -> Path:
    """A table of the old and the new fact of each bundled replacement of these subjects, one after the other."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["subject", "relation", "object", "start", "end"])
        for one in mini_replacements():
            if one.old.subject in subjects:
                for fact in (one.old, one.new):
                    rows.writerow([fact.subject, fact.relation, fact.object, fact.period.start, fact.period.end])
    return path
