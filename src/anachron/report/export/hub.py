"""A Hugging Face data set folder: Parquet in the published TimeStress columns, and a data set card."""

import json
import re
from pathlib import Path

import polars as pl

from anachron.core.errors import ConfigError
from anachron.core.periods import STATUSES
from anachron.data.bundled.mini import LAST_DAY, LEAST_DAYS, MINI_SEED
from anachron.data.card import BOUNDARIES, counts, manifest_of, relations_table
from anachron.data.columns import MORE, to_published
from anachron.data.dataset import Dataset
from anachron.data.loaders import BUNDLED
from anachron.io.files import Json, file_fingerprint, write_bytes, write_json
from anachron.io.tables import markdown_table, write_table
from anachron.probe.ask.questions import Questions
from anachron.report.export.benchmark import CHOICES, CONFIG, EVAL, choices_table, eval_yaml
from anachron.report.export.croissant import croissant
from anachron.report.export.folder import close_folder, open_folder, short_name

COMMAND = "export hub"
DATA, CROISSANT = "data/test-00000-of-00001.parquet", "croissant.json"
BUNDLED_LICENCE = "mit"  # the project's own, for facts that it wrote itself
# What the hub knows by these names; any other licence is announced as "other" with its name.
HUB_LICENCES = frozenset(
    {"apache-2.0", "bsd-3-clause", "cc", "cc-by-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0"}
    | {"cc0-1.0", "gpl-3.0", "mit", "odbl", "odc-by", "unknown"}
)
SIZES = (
    (1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)  # fmt: skip
TAGS = ("temporal-knowledge", "factual-knowledge", "language-model-evaluation", "anachron")

COLUMNS = {
    "SubjectID": "identifier of the subject (Wikidata's where known)",
    "SubjectLabel": "subject in words",
    "RelationID": "identifier of the relation (Wikidata property where known)",
    "RelationLabel": "relation in words",
    "ObjectID": "identifier of the object (Wikidata's where known)",
    "ObjectLabel": "object in words; the statement ends with it",
    "StartDate": "first date on which the fact holds: `YYYY`, `YYYY-MM` or `YYYY-MM-DD`; `-0044` is 44 BCE",
    "EndDate": "last date on which it holds, inclusive; empty where it still does",
    "Time": "the date that the statement names, at its granularity; empty in a statement without a date",
    "Statement": "date, question and answer in one text",
    "Status": "`Correct`: the date lies in the period; `Incorrect`: they do not meet; `Transitional`: neither; "
    "`Discarded`: a month or day of a transitional year, kept out of metrics; `No context`: no date",
    "Alpha": "(midpoint of the date - midpoint of the period) / length of the period, in days",
    "FactPop": "popularity: geometric mean of the monthly page views of subject and object",
    "Granularity": "`year`, `month` or `day`",
    "Boundaries": "how coarse boundaries of a period are read: `released` or `paper`",
    "OtherObjects": "number of other objects that the subject has in this relation",
}
# Columns that only some data sets have.
MORE_COLUMNS = {
    "SubjectPop": "popularity of the subject: median of its monthly page views",
    "ObjectPop": "likewise of the object",
    "SubjectFrom": "first date on which the subject exists, where known",
    "ObjectFrom": "likewise of the object",
    "SubjectUntil": "last date on which the subject exists, where known",
    "ObjectUntil": "likewise of the object",
    "AlsoHeld": "later periods in which the fact holds too, as `start/end` with `;` between them",
    "Questions": "JSON list of the questions written for the fact, of which one is asked; in rows without a date",
}


def size_category(rows: int) -> str:
    """The hub's name for a number of rows."""
    return next((name for limit, name in SIZES if rows < limit), "n>10M")


def front_matter(name: str, rows: int, licence: str | None, language: str, *, choices: bool = False) -> str:
    """The YAML that the hub reads. Texts are quoted as JSON, which is YAML too. choices: whether there are some."""
    lines = ["---", f"pretty_name: {json.dumps(name, ensure_ascii=False)}"]
    if licence is not None:
        known = licence.lower() in HUB_LICENCES
        lines.append(f"license: {licence.lower() if known else 'other'}")
        if not known:
            lines.append(f"license_name: {json.dumps(licence, ensure_ascii=False)}")
    lines += [
        "language:",
        f"- {language}",
        "task_categories:",
        "- question-answering",
        "size_categories:",
        f"- {size_category(rows)}",
        "tags:",
        *(f"- {tag}" for tag in TAGS),
        "configs:",
        "- config_name: default",
        "  data_files:",
        "  - split: test",
        "    path: data/test-*.parquet",
    ]
    if choices:
        lines += [f"- config_name: {CONFIG}", "  data_files:", "  - split: test", f"    path: {CHOICES}"]
    lines.append("---")
    return "\n".join(lines) + "\n"


def how_made(dataset: Dataset) -> Json:
    """What is known about the making of a data set: of a bundled one everything, of a file what its manifest says."""
    if dataset.whole in BUNDLED:
        made = {"seed": MINI_SEED, "sampling": "timestress", "last_day": str(LAST_DAY), "least_days": LEAST_DAYS}
        return made if dataset.limit is None else made | {"limit": dataset.limit}
    if (manifest := manifest_of(Path(dataset.name))) is None:
        return dict(dataset.choices())
    return {"command": manifest.get("command"), **manifest.get("parameters", {})}


def licence_of(dataset: Dataset, given: str | None) -> str | None:
    """The licence that the card of a data set, or of a sample of one, states: MIT of a bundled one, of others what is
    given. Raises `ConfigError` for an empty one, and for another one of a bundled data set."""
    if given is not None and not given.strip():
        raise ConfigError("the licence is empty; name one, for instance cc-by-4.0, or leave --licence out")
    if dataset.whole not in BUNDLED:
        return given
    if given is not None and given.lower() != BUNDLED_LICENCE:
        raise ConfigError(f"{dataset.whole} is under {BUNDLED_LICENCE}, not {given!r}; leave --licence out")
    return BUNDLED_LICENCE


def export_hub(
    dataset: Dataset, out: Path, *, licence: str | None = None, language: str = "en", questions: Questions | None = None
) -> Json:
    """Write a folder that ``datasets.load_dataset`` and `anachron.load_dataset` read, ready to be uploaded.

    It holds ``data/test-00000-of-00001.parquet`` (split ``test``) in the published columns, ``README.md`` (the card),
    ``croissant.json`` (the same for machines) and ``manifest.json``.

    licence: the hub's identifier (``cc-by-4.0``) or a name; of a bundled data set MIT, of others none is stated
        unless given.
    language: of the statements, as the hub writes it (``en``).
    questions: about the data set's facts, to make a benchmark of it (`anachron.report.export.benchmark`): the
    configuration
        ``choices`` and ``eval.yaml``.

    Returns the manifest. Raises `ConfigError` for a language that is no code, another licence for a bundled data set,
    and a folder that holds something else.
    """
    if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]+)*", language):
        raise ConfigError(f"language {language!r} is not a language code; write one such as en, fr or pt-BR")
    licence = licence_of(dataset, licence)
    open_folder(out, COMMAND)
    made, sizes = how_made(dataset), counts(dataset.table)
    published = to_published(dataset.table, dataset.boundaries)
    write_table(out / DATA, published)
    text = card(dataset, sizes, made, licence, language, benchmark=questions is not None)
    write_bytes(out / "README.md", text.encode())
    about = croissant(
        _title(dataset), published, COLUMNS | MORE_COLUMNS, about=_what(sizes), file=DATA,
        sha256=file_fingerprint(out / DATA), licence=licence, language=language,
    )  # fmt: skip
    write_json(out / CROISSANT, about)
    more = [CHOICES, EVAL]
    if questions is None:
        for stale in more:  # of an earlier export with them
            (out / stale).unlink(missing_ok=True)
        if (folder := (out / CHOICES).parent).is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        more = []
    else:
        table = choices_table(questions)
        sizes = sizes | {"choices": table.height}
        write_table(out / CHOICES, table)
        asked = f"In which of two years was an answer right? {table.height:,} questions."
        write_bytes(out / EVAL, eval_yaml(_title(dataset), asked).encode())
    return close_folder(
        out, COMMAND, dataset, files=[DATA, "README.md", CROISSANT, *more],
        parameters={"licence": licence, "language": language, "made": made}, counts=sizes,
    )  # fmt: skip


def card(
    dataset: Dataset, sizes: Json, made: Json, licence: str | None, language: str, *, benchmark: bool = False
) -> str:
    """The data set card: front matter and text."""
    name = short_name(dataset)
    sections = [
        front_matter(_title(dataset), sizes["statements"], licence, language, choices=benchmark),
        f"# {_title(dataset)}\n",
        _what(sizes),
        _columns(dataset.table),
        _counts(dataset.table, sizes),
        _making(dataset, name, made),
        _licence(licence),
        _use(),
    ]
    if benchmark:
        sections.append(_benchmark())
    return "\n".join(sections)


def _title(dataset: Dataset) -> str:
    return f"Dated statements: {short_name(dataset)}"


def _what(sizes: Json) -> str:
    return f"""\
{sizes["statements"]:,} statements about {sizes["facts"]:,} facts that held from one date to another. Each puts a date
before a question and its answer, as in *In 2011, who was the president of the USA? Barack Obama*: some dates lie in the
fact's period, most do not. A language model that knows *when* a fact held finds its answer likelier under every correct
date than under any incorrect one. The method is that of *Factual Knowledge in Language Models: Robustness and Anomalies
under Simple Temporal Context Variations*. The data is for evaluation only, so its one split is `test`.
"""


def _columns(table: pl.DataFrame) -> str:
    empty = {"FactPop": "popularity", "SubjectID": "subject_id", "RelationID": "relation_id", "ObjectID": "object_id"}
    empty["OtherObjects"] = "other_objects"
    rows = []
    for column, meaning in COLUMNS.items():
        unknown = column in empty and table[empty[column]].null_count() == table.height
        rows.append((f"`{column}`", meaning + (" (unknown here, so empty)" if unknown else "")))
    rows += [(f"`{column}`", meaning) for column, meaning in MORE_COLUMNS.items() if MORE[column] in table.columns]
    return "## Columns\n\n" + markdown_table(("column", "meaning"), rows)


def _counts(table: pl.DataFrame, sizes: Json) -> str:
    overall = [(what, f"{sizes[what]:,}") for what in ("facts", "statements", "relations", "subjects", "objects")]
    header = ("dates", *(status.capitalize() if status != "none" else "No context" for status in STATUSES))
    facts = sizes["facts"]
    contexts = [
        (g, *(f"{n:,} ({n / facts:.1f} a fact)" if n else "0" for n in by_status.values()))
        for g, by_status in sizes["contexts"].items()
    ]
    dates = "Statements by granularity and status of the date:\n"
    tables = [markdown_table(("what", "number"), overall), dates, markdown_table(header, contexts)]
    return "\n".join(["## Counts\n", *tables, relations_table(table)])


def _making(dataset: Dataset, name: str, made: Json) -> str:
    lines = ["## How it was made\n"]
    if dataset.whole in BUNDLED:
        lines.append(
            "The facts were written by the Anachron project from common knowledge, each with a note where anyone can "
            f"check it. Those that lasted at least {made['least_days']:,} days, were over by {made['last_day']} and "
            "held in one period only are asked about. Each is asked with one of four questions of its relation, drawn "
            "by the fact's id. Dates are sampled as in TimeStress: the years at 201 positions from five periods before "
            "to five periods after the middle of the fact's own, none after 2020, each with one random month and one "
            f"random day of that month (seed {made['seed']}).\n"
        )
        if dataset.limit is not None:
            lines.append(f"This is a fixed sample of {dataset.facts:,} of its facts: those with the smallest ids.\n")
    elif made:
        lines.append(
            f"Exported from `{name}`, whose manifest says: "
            + ", ".join(f"{key} `{json.dumps(value, ensure_ascii=False)}`" for key, value in made.items())
            + ".\n"
        )
    else:
        lines.append(f"Exported from `{name}`. There is no record of how that was made.\n")
    lines.append(f"Boundaries `{dataset.boundaries}`: {BOUNDARIES[dataset.boundaries]}\n")
    lines.append(f"Fingerprint of the statements (SHA-256, as Anachron computes it): `{dataset.fingerprint()}`.\n")
    return "\n".join(lines)


def _licence(licence: str | None) -> str:
    said = f"{licence}." if licence else "Not stated by whoever exported this; ask the source before passing it on."
    return f"## Licence\n\n{said}\n"


def _use() -> str:
    return """## Use

```bash
anachron probe MODEL --dataset THIS_FOLDER_OR_HUB_NAME --out runs/model
```

```python
import datasets

statements = datasets.load_dataset("THIS_FOLDER_OR_HUB_NAME", split="test")
```
"""


def _benchmark() -> str:
    return f"""## Benchmark

The configuration `{CONFIG}` asks in which of two years an answer was right, each pair in both orders: `prompt`, the
correct `year`, the `other_year`, and `fact_id`. `{EVAL}` tells the hub and Inspect to score it by exact answers, each
counted once: `inspect eval hf/OWNER/NAME --model MODEL`. That share is not W, which weights near and far years.
"""
