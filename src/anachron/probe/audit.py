"""A look at a data set through a tokenizer, before any model is run."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import Any

import polars as pl

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.periods import Boundaries, Period
from anachron.core.sameness import name_key
from anachron.core.several_periods import alpha_in, parse_periods, status_in
from anachron.io.files import Json
from anachron.lm.formats import Format, check_pair, locate
from anachron.lm.scorer import Scorer
from anachron.lm.spans import Encoded, Located, cut, tokenise

EXAMPLES = 3
ALPHA_TOLERANCE = 0.01


@dataclass
class Audit:
    """Counts and a few examples of what deserves a look; `statements` is what they are out of.

    straddling: the first answer token also holds the end of the prompt (more than the white space between them).
    bos: how many start-of-text tokens a text opens with -> how many texts; more than one is a mistake. Later ones are
        none: templates in the style of ChatML open every turn with it.
    answer_in_prompt: questions (distinct ones) that hold their answer.
    too_long: texts that do not fit into the context length.
    repeated: texts (distinct ones) that serve more than one fact or date.
    alpha_differs: a dated statement's alpha is off by more than 0.01 from what its dates give.
    status_differs: the status does not follow from the dates, under the data set's boundary convention.
    unscorable: texts that cannot be scored, with the reason in the examples.
    """

    statements: int = 0
    facts: int = 0
    longest: int = 0
    answer_tokens: float = 0.0
    straddling: int = 0
    bos: dict[int, int] = field(default_factory=dict)
    answer_in_prompt: int = 0
    too_long: int = 0
    repeated: int = 0
    status_differs: int = 0
    alpha_differs: int = 0
    unscorable: int = 0
    examples: dict[str, list[str]] = field(default_factory=dict)

    def note(self, what: str, example: str) -> None:
        """Count one case and keep the first few as examples."""
        setattr(self, what, getattr(self, what) + 1)
        kept = self.examples.setdefault(what, [])
        if len(kept) < EXAMPLES:
            kept.append(example)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def audit(
    table: pl.DataFrame, tokenizer: Any, *, style: Format | None = None, boundaries: Boundaries = "released",
    context_length: int | None = None,
) -> Audit:  # fmt: skip
    """Look at every statement as it would be scored. Raises `ModelError` when the chat template cannot be used.

    context_length: most tokens that fit; by default what the tokenizer says, where that is a real limit.
    """
    return audited(table, tokenizer, style, boundaries, context_length)[0]


def audited(
    table: pl.DataFrame, tokenizer: Any, style: Format | None, boundaries: Boundaries,
    context_length: int | None = None,
) -> tuple[Audit, list[Encoded]]:  # fmt: skip
    """`audit`, and the statements that can be scored, encoded."""
    report = Audit(statements=table.height, facts=table["fact_id"].n_unique())
    limit = context_length or getattr(tokenizer, "model_max_length", None)
    if limit is not None and limit > 10**9:  # transformers' way to say "unknown"
        limit = None
    bos = getattr(tokenizer, "bos_token_id", None)
    located, special, status = _locate(table, tokenizer, style, report)
    starts: Counter[int] = Counter()
    texts: Counter[str] = Counter()
    scorable: list[Encoded] = []
    tokens = 0
    tokenised = tokenise(tokenizer, [item.text for item in located], add_special_tokens=special)
    for item, kind, (ids, offsets) in zip(located, status, tokenised, strict=True):
        try:
            encoded = cut(item, ids, offsets)
        except DataError as error:
            report.note("unscorable", str(error))
            continue
        scorable.append(encoded)
        texts[item.text] += kind != "none"  # undated statements repeat by design; so do those of decoys and wordings
        report.longest = max(report.longest, len(encoded.ids))
        tokens += len(encoded.targets)
        starts[sum(1 for _ in takewhile(lambda token: token == bos, encoded.ids)) if bos is not None else 0] += 1
        if limit is not None and len(encoded.ids) > limit:
            report.note("too_long", f"{len(encoded.ids)} tokens: {item.text}")
        if _straddles(item, offsets):
            report.note("straddling", item.text)
    of_facts = table.filter(pl.col("decoy").is_null()) if "decoy" in table.columns else table
    for prompt, answer in of_facts.select("prompt", "answer").unique(maintain_order=True).iter_rows():
        if name_key(answer) in name_key(prompt):
            report.note("answer_in_prompt", f"{prompt} {answer}")
    for text, times in texts.items():
        if times > 1:
            report.note("repeated", text)
    report.bos = dict(sorted(starts.items()))
    report.answer_tokens = tokens / len(scorable) if scorable else 0.0
    _check_positions(report, of_facts, boundaries)
    return report, scorable


def try_prefix_tree(lm: Scorer, encoded: Sequence[Encoded]) -> Json:
    """What a run of these texts would find of prefix-tree attention before it begins, as in its record.

    ``used``, ``refusal`` (why not, where a trial refused it), ``dtype``, and ``trial``
    (`anachron.lm.selfcheck.Trial`; ``None`` where nothing had to be tried).
    """
    lm.check(encoded)
    plan = lm.plan(list(dict.fromkeys(encoded)))
    return {
        "used": plan.prefix_tree, "refusal": plan.refusal, "dtype": lm.dtype,
        "trial": plan.trial and plan.trial.as_dict(),
    }  # fmt: skip


def _locate(
    table: pl.DataFrame, tokenizer: Any, style: Format | None, report: Audit
) -> tuple[list[Located], bool, list[str]]:
    """The texts that can be built, whether they take special tokens, and their statuses; the others are noted."""
    triples: list[tuple[str, str, None]] = []
    statuses: list[str] = []
    counted = pl.col("status")
    for beside in {"decoy", "wording"} & set(table.columns):
        counted = pl.when(pl.col(beside).is_null()).then(counted).otherwise(pl.lit("none"))
    for prompt, answer, status in table.select("prompt", "answer", counted.alias("status")).iter_rows():
        try:
            check_pair(prompt, answer)
        except DataError as error:
            report.note("unscorable", str(error))
        else:
            triples.append((prompt, answer, None))
            statuses.append(status)
    located, special = locate(tokenizer, triples, style)
    return located, special, statuses


def _straddles(item: Located, offsets: Sequence[tuple[int, int]]) -> bool:
    """Whether the token with the answer's first character also holds a character of the prompt that is no space."""
    start = item.spans[0][0]
    return any(first < start < last and bool(item.text[first:start].strip()) for first, last in offsets)


def _check_positions(report: Audit, table: pl.DataFrame, boundaries: Boundaries) -> None:
    """Status and alpha against what the dates give. A period that is open or a single day defines no alpha."""
    dated = table.filter(pl.col("status").is_in(["correct", "incorrect", "transitional"]))
    columns = ["start", "end", "time", "status", "alpha", "subject_label", "object_label"]
    also = pl.col("also_held") if "also_held" in dated.columns else pl.lit(None, pl.String)
    for start, end, time, status, alpha, subject, object_, more in dated.select(*columns, also).iter_rows():
        periods = (Period(start, end), *parse_periods(more))
        named = f"{subject}, {object_} [{start}, {end}]: {time}"
        if all(period.has_length(boundaries) for period in periods):
            by_dates = alpha_in(periods, Date.parse(time), boundaries)
            if abs(alpha - by_dates) > ALPHA_TOLERANCE:
                report.note("alpha_differs", f"{named} has {alpha}, by its dates {by_dates:.3f}")
        expected = status_in(periods, Date.parse(time), boundaries)
        if expected != status:
            report.note("status_differs", f"{named} is {status}, by its dates {expected}")


def tell(report: Audit, warn: Callable[[str], None]) -> None:
    """Warn of what makes scores doubtful. Raises `DataError` for statements that cannot be scored."""
    if report.unscorable:
        raise DataError(
            f"{report.unscorable} of {report.statements} statements cannot be scored, for instance: "
            f"{report.examples['unscorable'][0]}"
        )
    for name, what in (
        ("straddling", "answers start inside a token that also holds the end of the question"),
        ("answer_in_prompt", "statements already hold their answer in the question"),
        ("status_differs", "statements have a status that does not follow from their dates"),
        ("alpha_differs", "statements have an Alpha that does not follow from their dates"),
        ("repeated", "texts occur for more than one fact or date"),
    ):
        count = getattr(report, name)
        if count:
            warn(f"{count} {what}, for instance: {report.examples[name][0]}")
    if any(count > 1 for count in report.bos):
        warn("some texts start with more than one start-of-text token; check the tokenizer or template")
