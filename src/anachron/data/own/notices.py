"""What the reader of a file should know, by kind: how often it was seen, and the first few."""

from collections import Counter

SHOWN = 5  # of one kind, and faults that are said at once


class Notices:
    """Counts by kind (words behind a number: ``ends stand for no end``), each with its first few examples."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}

    def add(self, kind: str, example: str) -> None:
        self.counts[kind] += 1
        if self.room(kind):
            self.examples.setdefault(kind, []).append(example)

    def counted(self, kind: str, more: int) -> None:
        """So many more of a kind, without examples."""
        self.counts[kind] += more

    def room(self, kind: str) -> int:
        """How many examples of a kind are still taken."""
        return SHOWN - len(self.examples.get(kind, ()))

    def told(self) -> tuple[str, ...]:
        """The examples, and behind those of each kind of which there are more its count."""
        lines: list[str] = []
        for kind, examples in self.examples.items():
            lines += examples
            if self.counts[kind] > len(examples):
                lines.append(f"and more: in all {self.counts[kind]:,} {kind}")
        return tuple(lines)
