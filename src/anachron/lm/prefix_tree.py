"""Prefix-tree attention: which texts are computed together so that each distinct prefix is computed once.

Sorted by their tokens, texts are a depth-first walk through the tree of their prefixes, whose nodes are tokens. The
walk is cut into tree batches. Each is one sequence without padding, in which a token attends to its ancestors in the
tree and to nothing else. Keys and values of what the last text of a batch shares with the next batch are kept. Texts
may have owners that see the model under different edits: each owner has a tree of its own. A plan depends only on the
texts, owners and limits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from anachron.lm.batches import Limits, fed_length
from anachron.lm.spans import Encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeBatch:
    """One forward pass. Its nodes are numbered in the order of the walk; those that are kept come first.

    kept: the nodes of the batch before whose keys and values are kept, by their numbers there. ids, positions: token
    and depth of each new node. ends: for every node, kept or new, the number after its last descendant. rows: the new
    nodes, counted from the first of them, that predict an answer token. answers: for each text, its answer tokens as
    (index into ``rows``, token). owners: of each new node. texts: for every node, kept or new, the first text
    that passes through it and the one after the last.
    """

    kept: tuple[int, ...]
    ids: tuple[int, ...]
    positions: tuple[int, ...]
    ends: tuple[int, ...]
    rows: tuple[int, ...]
    answers: tuple[tuple[tuple[int, int], ...], ...]
    owners: tuple[int, ...]
    texts: tuple[tuple[int, int], ...]


def plan_tree_batches(
    encoded: Sequence[Encoded], vocabulary: int, limits: Limits, owners: Sequence[int] | None = None
) -> list[list[int]]:
    """Indices of texts, batch by batch, sorted by owner and tokens; at most ``limits.tokens`` new nodes a batch.

    A text longer than that has a batch of its own.
    """
    owner = owners or [0] * len(encoded)
    order = sorted(range(len(encoded)), key=lambda i: (owner[i], encoded[i].ids, encoded[i].targets))
    batches: list[list[int]] = []
    nodes = rows = 0
    before: tuple[int, ...] = ()
    for place, i in enumerate(order):
        text = encoded[i]
        # what the text before has computed need not be computed again, also where that ends another batch: it is kept
        before = before if place and owner[i] == owner[order[place - 1]] else ()
        new = fed_length(text) - common(before, text.ids[:-1])
        targets = len(text.targets)
        if not batches or nodes + new > limits.tokens or (rows + targets) * vocabulary > limits.logits:
            batches.append([])
            nodes = rows = 0
        batches[-1].append(i)
        nodes, rows, before = nodes + new, rows + targets, text.ids[:-1]
    return batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How far indices in a tree batch are from positions in its texts: what a model that uses indices gets wrong.

    nodes: kept ones too. reach: nodes of its largest tree, the most that a node and its first ancestor can be apart.
    shift: the most that a node's index exceeds its depth. kept: nodes that may be kept of the batch before. longest:
    tokens fed of its longest text. farthest, most_shifted: the texts that make reach and shift.
    """

    nodes: int
    reach: int
    shift: int
    kept: int
    longest: int
    farthest: int
    most_shifted: int


def extents(
    encoded: Sequence[Encoded], batches: Sequence[Sequence[int]], owners: Sequence[int] | None = None
) -> list[Extent]:
    """How large each tree batch of a plan is."""
    owner = owners or [0] * len(encoded)
    sizes = []
    before: tuple[int, ...] = ()
    last = 0
    for batch in batches:
        nodes = tree = reach = kept = 0
        farthest, shifts = batch[0], []
        for place, i in enumerate(batch):
            fed = encoded[i].ids[:-1]
            shared = common(before, fed) if owner[i] == last else 0
            if place == 0:
                kept = nodes = tree = shared
            # texts that share no token begin another tree, and no node attends from one tree into another
            tree = (tree if shared else 0) + len(fed) - shared
            nodes += len(fed) - shared
            shifts.append(nodes - len(fed))
            if tree > reach:
                reach, farthest = tree, i
            before, last = fed, owner[i]
        sizes.append(
            Extent(
                nodes=nodes, reach=reach, shift=max(shifts), kept=kept, farthest=farthest,
                longest=max(fed_length(encoded[i]) for i in batch), most_shifted=batch[shifts.index(max(shifts))],
            )
        )  # fmt: skip
    return sizes


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    most = min(len(a), len(b))
    if a[:most] == b[:most]:
        return most
    return next(n for n in range(most) if a[n] != b[n])


class Walk:
    """Makes a `TreeBatch` of the next texts of a plan, reusing what the last batch computed."""

    def __init__(self) -> None:
        self._path: tuple[int, ...] = ()  # what was fed of the last text
        self._nodes: list[int] = []  # and which nodes of its batch that is
        self._owner = 0

    def next(self, texts: Sequence[Encoded], owners: Sequence[int] | None = None) -> TreeBatch:
        owners = owners or [0] * len(texts)
        shared = common(self._path, texts[0].ids[:-1]) if owners[0] == self._owner else 0
        count, owner = _without_output(self._path[:shared], texts, owners), owners[0]
        kept, path = tuple(self._nodes[:count]), self._path[:count]
        # ``nodes`` is the path from the root to where the walk stands: the number of the node at each depth
        nodes, ends = list(range(count)), [0] * count
        first, behind = [0] * count, [0] * count  # texts through each node
        ids: list[int] = []
        positions: list[int] = []
        node_owners: list[int] = []
        rows: dict[int, int] = {}
        answers = []
        for number, (text, text_owner) in enumerate(zip(texts, owners, strict=True)):
            fed = text.ids[:-1]
            shared = common(path, fed) if text_owner == owner else 0
            # the walk climbs up to the last node that this text shares: what it leaves gets no more descendants
            for node in nodes[shared:]:
                ends[node], behind[node] = len(ends), number
            del nodes[shared:]
            # and goes down along the tokens that are new
            nodes += range(len(ends), len(ends) + len(fed) - shared)
            positions += range(shared, len(fed))
            ids += fed[shared:]
            ends += [0] * (len(fed) - shared)
            behind += [0] * (len(fed) - shared)
            first += [number] * (len(fed) - shared)
            node_owners += [text_owner] * (len(fed) - shared)
            path, owner = fed, text_owner
            # the node of the token before predicts a target; texts with a common beginning share its row of logits
            predicted = [(nodes[t - 1] - count, text.ids[t]) for t in text.targets]
            answers.append(tuple((rows.setdefault(node, len(rows)), token) for node, token in predicted))
        # the nodes of the last path have no end yet: they reach to that of the batch
        for node in nodes:
            ends[node], behind[node] = len(ends), len(texts)
        self._path, self._nodes, self._owner = path, nodes, owner
        return TreeBatch(
            kept=kept, ids=tuple(ids), positions=tuple(positions), ends=tuple(ends), rows=tuple(rows),
            answers=tuple(answers), owners=tuple(node_owners), texts=tuple(zip(first, behind, strict=True)),
        )  # fmt: skip

    def forget(self) -> None:
        """Keep nothing of the last batch."""
        self._path, self._nodes = (), []


def _without_output(path: Sequence[int], texts: Sequence[Encoded], owners: Sequence[int]) -> int:
    """How many nodes of a path no text of a batch has to read the output of, from the first on: these may be kept.

    Texts come in the order of the walk: what one shares with the path, none behind it shares more of.
    """
    count = len(path)
    for text, owner in zip(texts, owners, strict=True):
        if owner != owners[0]:
            break
        path = path[: common(path, text.ids[:-1])]
        if not path:
            break
        count = min((count, *(t - 1 for t in text.targets if t <= len(path))))
    return count


def walk(encoded: Sequence[Encoded], batches: Sequence[Sequence[int]]) -> Iterator[TreeBatch]:
    """The tree batches of a plan, one after the other."""
    steps = Walk()
    return (steps.next([encoded[i] for i in batch]) for batch in batches)


def distinct_prefixes(encoded: Sequence[Encoded], owners: Sequence[int] | None = None) -> int:
    """Nodes of the trees: the least number of tokens that have to be computed for these texts."""
    fed = sorted(set(zip(owners or [0] * len(encoded), (text.ids[:-1] for text in encoded), strict=True)))
    first = sum(len(ids) for _, ids in fed[:1])
    return first + sum(
        len(ids) - (common(before, ids) if owner_before == owner else 0)
        for (owner_before, before), (owner, ids) in pairwise(fed)
    )
