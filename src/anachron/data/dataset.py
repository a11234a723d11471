"""A data set of dated statements: its table, its conventions, and the facts that it came from."""

from dataclasses import dataclass, field, replace

import polars as pl

from anachron.core.errors import DataError
from anachron.core.periods import Boundaries
from anachron.data.own.reading import Reading
from anachron.data.own.rows import GivenFact
from anachron.io.files import rows_fingerprint


@dataclass(frozen=True)
class Dataset:
    """A checked table of statements (columns of `anachron.data.columns.STATEMENT_SCHEMA`) and where it is from.

    Of a file of facts also, as `anachron.data.own.statements.OwnFacts` has them: ``as_of``, the date up to which they
    are known; ``about``, what the file says of each fact that is asked; ``left_out``, the facts that cannot be asked,
    and why (none of a sample, which looks at no more facts than it takes); ``notes``; ``to_edit``, the file with its
    questions, where some are worth a look. ``limit``: how many facts were taken of more. ``language``: of the
    questions, where it is not English. ``given``: the facts as they were read, all of the file; ``reading``: how, where
    its names and dates do not say so. ``decoys``: ``fact_id, decoy``, other objects that are asked about under the
    dates of the fact, at most ``decoys_each`` a fact
    (`anachron.data.decoys.with_decoys`). ``wordings``: other questions that are asked about the facts, under the same
    dates (`anachron.data.wordings.with_wordings`).
    """

    name: str
    table: pl.DataFrame
    boundaries: Boundaries
    as_of: str | None = None
    about: pl.DataFrame | None = None
    left_out: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()
    limit: int | None = None
    language: str | None = None
    sampling: str | None = None
    given: tuple[GivenFact, ...] = ()
    reading: Reading = field(default_factory=Reading)
    decoys: pl.DataFrame | None = None
    decoys_each: int | None = None
    wordings: pl.DataFrame | None = None
    to_edit: pl.DataFrame | None = None

    def fingerprint(self) -> str:
        """SHA-256 of the statements themselves: the same for the same content in any file format."""
        return rows_fingerprint(self.statements().iter_rows())

    def statements(self) -> pl.DataFrame:
        """The table, and below it, where there are decoys, the correct and incorrect statements with each decoy for an
        answer (a column ``decoy`` then names it, null for the fact itself), and, where there are wordings, those in
        each wording (a column ``wording``, null in all other rows)."""
        parts = [self.table]
        if self.decoys is not None:
            dated = self.table.filter(pl.col("status").is_in(["correct", "incorrect"]))
            of_decoys = dated.join(self.decoys, on="fact_id", maintain_order="left_right").with_columns(
                pl.col("decoy").alias("object_label"), pl.col("decoy").alias("answer")
            )
            parts.append(of_decoys)
        if self.wordings is not None:
            parts.append(worded_statements(self.table, self.wordings))
        return pl.concat(parts, how="diagonal") if len(parts) > 1 else self.table

    def choices(self) -> dict[str, str | int | bool]:
        """What was chosen when it was loaded, where given, for identities and manifests."""
        chosen = {
            "as_of": self.as_of, "limit": self.limit, "language": self.language, "sampling": self.sampling,
            "decoys": self.decoys_each, "wordings": None if self.wordings is None else True,
        }  # fmt: skip
        return {name: value for name, value in chosen.items() if value is not None} | self.reading.recorded()

    @property
    def whole(self) -> str:
        """The name of the data set that it is a sample of; else its own."""
        return self.name if self.limit is None else self.name.removesuffix(f", {self.facts} facts")

    @property
    def facts(self) -> int:
        return self.table["fact_id"].n_unique()

    def sample(self, facts: int) -> "Dataset":
        """The ``facts`` facts with the smallest ids (hashes, so a fixed random sample), in their own order.

        Facts that cannot be asked are in no sample: some of them would be known, and others not looked at.
        """
        ids = sorted(self.table["fact_id"].unique())[:facts]
        table, about, decoys, wordings = (
            None if one is None else one.filter(pl.col("fact_id").is_in(ids))
            for one in (self.table, self.about, self.decoys, self.wordings)
        )  # fmt: skip
        left_out = None if self.left_out is None else self.left_out.clear()
        named = f"{self.name}, {len(ids)} facts"
        more = {"decoys": decoys, "wordings": wordings}
        return replace(self, name=named, table=table, about=about, left_out=left_out, limit=facts, **more)  # type: ignore[arg-type]


def worded_statements(table: pl.DataFrame, wordings: pl.DataFrame) -> pl.DataFrame:
    """The correct and incorrect statements in each wording, with the column ``wording``."""
    dated = table.filter(pl.col("status").is_in(["correct", "incorrect"]))
    joined = dated.join(wordings, on="fact_id", maintain_order="left_right")
    prompt = pl.col("prompt").str.strip_suffix(pl.col("behind")) + pl.col("worded")
    unlike = joined.filter(~pl.col("prompt").str.ends_with(pl.col("behind")))
    if unlike.height:
        raise DataError(f"statement {unlike['prompt'][0]!r} does not end in its question {unlike['behind'][0]!r}")
    return joined.with_columns(prompt.alias("prompt")).drop("behind", "worded")
