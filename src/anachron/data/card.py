"""A data set in numbers, beside the published ones, and the card that tells how it came about."""

import json
from math import comb, isnan
from typing import Any

import polars as pl

from anachron.core.dates import GRANULARITIES, Date
from anachron.core.draws import draw
from anachron.core.errors import DataError
from anachron.core.periods import STATUSES, Boundaries
from anachron.io.files import Json, file_fingerprint, read_json
from anachron.io.servers import WIKIDATA_URL
from anachron.io.stores import Place, place
from anachron.io.tables import markdown_table

BOUNDARIES = {
    "released": "a start known as a year or month only is completed to its first day, an end to its last day; then "
    "days are compared.",
    "paper": "a boundary known as a year or month only leaves that year or month undecided: dates in it are "
    "transitional.",
}
CORRECT, INCORRECT, TRANSITIONAL = (f"{s} contexts a fact and granularity" for s in STATUSES[:3])
MATCHES, WORDS = "matches (tests) a fact and granularity", "words a dated question"
POPULAR_AND_LONG = "correlation of ln popularity and ln length of the period"
SAMPLED = 8  # relations
CC0 = "CC0 1.0 (https://creativecommons.org/publicdomain/zero/1.0/)"
LEAST = "largest chance of a random scorer to be robust on a fact"
# TimeStress, section 3.2 (least chance: of its released data); TimeStress v1, table 2.
PUBLISHED_STATISTICS: dict[str, dict[str, float]] = {
    "TimeStress": {
        "facts": 2003, "statements": 521_000, "relations": 86, "entities": 1883, "subjects": 1385, "objects": 1113,
        CORRECT: 11, INCORRECT: 74, LEAST: 0.00433,
    },
    "robustness-2025": {
        "facts": 600, "relations": 6, "entities": 722, "subjects": 381, "objects": 377, CORRECT: 8.83,
        INCORRECT: 55.59, TRANSITIONAL: 1.74, MATCHES: 638.27, WORDS: 15.16,
    },
}  # fmt: skip


def counts(table: pl.DataFrame) -> Json:
    """Sizes of a statement table; ``contexts`` is granularity -> status -> statements."""
    grouped = table.group_by("granularity", "status").len().iter_rows()
    rows_of = {(granularity, status): rows for granularity, status, rows in grouped}
    entity = {side: pl.coalesce(f"{side}_id", f"{side}_label") for side in ("subject", "relation", "object")}
    sizes = table.select(
        pl.col("fact_id").n_unique().alias("facts"),
        pl.len().alias("statements"),
        *(what.n_unique().alias(f"{side}s") for side, what in entity.items()),
    ).row(0, named=True)
    contexts = {g: {s: rows_of.get((g, s), 0) for s in STATUSES} for g in GRANULARITIES}
    return {**sizes, "contexts": contexts}


def statistics(table: pl.DataFrame) -> dict[str, float]:
    """A statement table in numbers, by what they count; the names are those of `PUBLISHED_STATISTICS` and more.

    Means are over facts and granularities. A random scorer wins half of the matches of a fact; with c correct and i
    incorrect contexts it is robust with a chance of c! i! / (c + i)! (facts without a match aside). Precision shares
    say how many facts know their start and their end to the day, the month or the year only.
    """
    sizes = counts(table)
    facts = sizes["facts"]
    names = [pl.coalesce(f"{side}_id", f"{side}_label").alias("entity") for side in ("subject", "object")]
    numbers: dict[str, float] = {name: sizes[name] for name in ("facts", "statements", "relations")}
    numbers["entities"] = pl.concat([table.select(name) for name in names])["entity"].n_unique()
    numbers |= {name: sizes[name] for name in ("subjects", "objects")}
    for status in STATUSES[:4]:
        number = sum(sizes["contexts"][g][status] for g in GRANULARITIES)
        numbers[f"{status} contexts a fact and granularity"] = number / (facts * len(GRANULARITIES))
    kinds = [(pl.col("status") == status).sum().alias(status) for status in ("correct", "incorrect")]
    sides = table.group_by("fact_id", "granularity").agg(kinds)
    numbers[MATCHES] = (sides["correct"] * sides["incorrect"]).sum() / (facts * len(GRANULARITIES))
    dated = table.filter(pl.col("time").is_not_null())["prompt"]
    if len(dated):
        numbers[WORDS] = float(dated.str.split(" ").list.len().mean())  # type: ignore[arg-type]
    chances = _random_robustness(sides)
    numbers["facts without a match at some granularity"] = facts - len(chances)
    numbers["win rate of a random scorer"] = 0.5
    if chances:
        of_year = [chance["year"] for chance in chances]
        numbers["robustness of a random scorer, year"] = sum(of_year) / len(of_year)
        numbers[LEAST] = max(max(chance.values()) for chance in chances)
    known = table.unique("fact_id", maintain_order=True)
    correlation = _popularity_and_length(known)
    if correlation is not None:
        numbers[POPULAR_AND_LONG] = correlation
    for side in ("start", "end"):
        precisions = [Date.parse(text).granularity for text in known[side].drop_nulls()]  # it still holds: no end
        for granularity in reversed(GRANULARITIES):
            share = precisions.count(granularity) / facts
            numbers[f"share of facts whose {side} is known to the {granularity}"] = share
    return numbers


def _popularity_and_length(facts: pl.DataFrame) -> float | None:
    """Pearson's r over facts of the logarithms of popularity and of the days in the period; None without either.

    TimeStress (in French, 4.2) notes that longer facts are less popular.
    """
    ended = facts.filter(pl.col("popularity") > 0).drop_nulls(["start", "end"])
    days = [
        Date.parse(end).last_day - Date.parse(start).first_day + 1
        for start, end in ended.select("start", "end").iter_rows()
    ]
    both = ended.select(pl.col("popularity").log()).with_columns(pl.Series("days", days, pl.Float64).log())
    found = both.select(pl.corr("popularity", "days")).item() if both.height > 2 else None
    return None if found is None or isnan(found) else float(found)


def _random_robustness(sides: pl.DataFrame) -> list[dict[str, float]]:
    """For each fact with matches at every granularity: granularity -> chance of a random scorer to win them all.

    sides: ``fact_id, granularity, correct, incorrect``, numbers of contexts.
    """
    chances: dict[str, dict[str, float]] = {}
    for fact, granularity, correct, incorrect in sides.iter_rows():
        if correct and incorrect:
            chances.setdefault(fact, {})[granularity] = 1 / comb(correct + incorrect, correct)
    return [chance for chance in chances.values() if len(chance) == len(GRANULARITIES)]


def card_of(out: Place) -> Place:
    """Where the card of a data set file is: named by the whole file, for another may differ in its ending only."""
    return out.with_name(f"{out.name}.card.md")


def manifest_of(path: Place) -> Json | None:
    """The manifest beside a file (``FILE.manifest.json``); None where none describes this very content."""
    file = place(f"{path}.manifest.json")
    if not path.is_file() or not file.is_file():
        return None
    manifest = read_json(file)
    known = isinstance(manifest, dict) and manifest.get("sha256") == file_fingerprint(path)
    return manifest if known else None


def history(path: Place) -> list[Json]:
    """Manifests of a file and of what it was made from, the earliest first.

    Manifests are those of `manifest_of`. An input is followed by its path
    or, where the files were moved together, beside the file, if its content is still what went in. An input that is
    itself the manifest of a folder (``SNAPSHOT/manifest.json``) counts as what it describes.
    """
    if (manifest := manifest_of(path)) is None:
        return []
    before: list[Json] = []
    for name, fingerprint in manifest.get("inputs", {}).items():
        for candidate in dict.fromkeys((place(name), path.parent / place(name).name)):
            if candidate.is_file() and candidate != path and fingerprint == file_fingerprint(candidate):
                before += _folder_history(candidate) if candidate.name == "manifest.json" else history(candidate)
                break
    return [*before, manifest]


def _folder_history(path: Place) -> list[Json]:
    """The manifest of a folder in the form of those of files: a snapshot's dump, date and options as parameters."""
    manifest = read_json(path)
    if not isinstance(manifest, dict) or "command" not in manifest:
        return []
    dump = {f"dump {name}" if name != "name" else "dump": value for name, value in manifest.get("dump", {}).items()}
    parameters = {**dump, "date": manifest.get("date"), **manifest.get("options", {})}
    about = {name: manifest[name] for name in ("dump", "date", "topic", "source") if name in manifest}
    return [about | {"command": manifest["command"], "parameters": parameters, "counts": manifest.get("counts", {})}]


def licence(snapshots: list[Json]) -> str:
    """Where facts come from, under which licence, and how their topic was chosen, as Markdown.

    snapshots: their manifests (``dump, date``; of a topic ``topic``; of what is not as its name and day say ``source``,
    in words); without any it is empty.
    """
    lines = []
    for snapshot in snapshots:
        topic: Json = snapshot.get("topic") or {}
        terms = f"dumps of Wikidata are {CC0}; those of another Wikibase stand under its own terms"
        if "source" in snapshot:
            terms = f"{snapshot['source']}, {CC0}"
        elif (site := topic.get("site")) is not None:
            terms = f"{site}, {CC0 if site == WIKIDATA_URL else 'under the terms of that site'}"
        lines.append(f"- {snapshot['dump']['name']}, dated {snapshot['date']}: {terms}")
        chosen = topic.get("chosen", {})
        lines += [f"  - {key}: `{json.dumps(value, ensure_ascii=False)}`" for key, value in chosen.items()]
    return "\n".join(["## Source and licence\n", *lines, ""]) if lines else ""


def card(name: str, table: pl.DataFrame, boundaries: Boundaries, made: list[Json]) -> str:
    """The card of a data set, as Markdown.

    made: manifests of the files on the way to it, the earliest first, with this data set's own ``command``,
        ``parameters`` and ``counts`` as the last.
    """
    if not table.height:
        raise DataError(f"{name} has no statements; there is nothing to put on a card")
    source = licence([one for one in made if "dump" in one])
    sections = [f"# Dated statements: {name}\n", *([source] if source else []), _numbers(table), _contexts(table)]
    sections += ["## Relations\n", relations_table(table), _sample(table)]
    sections.append(f"Boundaries `{boundaries}`: {BOUNDARIES[boundaries]}\n")
    return "\n".join([*sections, "## How it was made\n", *map(_making, made)])


def _numbers(table: pl.DataFrame) -> str:
    rows = [
        (what, number(value), *(number(published.get(what)) for published in PUBLISHED_STATISTICS.values()))
        for what, value in statistics(table).items()
    ]
    header = ("what", "here", "published TimeStress (TimeStress)", "published first version (TimeStress v1)")
    return "## Numbers\n\n" + markdown_table(header, rows)


def number(value: float | None) -> str:
    """A statistic in words: whole numbers whole, small shares with three digits, ``-`` where there is none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}" if abs(value) >= 0.1 else f"{value:.3g}"


def _contexts(table: pl.DataFrame) -> str:
    contexts = counts(table)["contexts"]
    rows = [(g, *(f"{n:,}" for n in by_status.values())) for g, by_status in contexts.items()]
    return "## Statements by granularity and status\n\n" + markdown_table(("granularity", *STATUSES), rows)


def relations_table(table: pl.DataFrame) -> str:
    """The relations of a statement table as Markdown, those of the most facts first."""
    relations = (
        table.group_by("relation_label", pl.col("relation_id").fill_null("-"))
        .agg(pl.col("fact_id").n_unique().alias("facts"), pl.len().alias("statements"))
        .sort("facts", "relation_label", "relation_id", descending=[True, False, False])
    )
    rows = [(label, id, f"{facts:,}", f"{statements:,}") for label, id, facts, statements in relations.iter_rows()]
    return markdown_table(("relation", "id", "facts", "statements"), rows)


def _sample(table: pl.DataFrame) -> str:
    """A dated statement of each of the relations of the most facts, drawn by a hash (TimeStress v1, table 1)."""
    dated = table.filter(pl.col("time").is_not_null(), pl.col("status") != "discarded")
    relations = dated.group_by("relation_label").agg(pl.col("fact_id").n_unique().alias("facts"))
    ranked = relations.sort("facts", "relation_label", descending=[True, False])["relation_label"].head(SAMPLED)
    rows = []
    for relation in ranked:
        of_relation = dated.filter(pl.col("relation_label").eq_missing(relation))
        drawn = min(of_relation.iter_rows(named=True), key=lambda row: draw(0, row["fact_id"], row["time"]))
        fact = ", ".join(str(drawn[name] or "-") for name in ("subject_label", "relation_label", "object_label"))
        period = f"{drawn['start']} on" if drawn["end"] is None else f"{drawn['start']} to {drawn['end']}"
        rows.append((f"{fact} ({period})", drawn["time"], drawn["status"], f"{drawn['prompt']} {drawn['answer']}"))
    return "## A sample\n\n" + markdown_table(("fact", "date", "status", "statement"), rows)


def _making(manifest: Json) -> str:
    given = [(key, value) for key, value in manifest.get("parameters", {}).items() if value is not None]
    lines = [f"### {manifest.get('command', 'made')}\n"]
    lines += [f"- {key}: `{json.dumps(value, ensure_ascii=False)}`" for key, value in given]
    rest = dict(manifest.get("counts", {}))
    steps = rest.pop("steps", None)
    lines += [f"- {key}: {_count(value)}" for key, value in rest.items() if value not in (None, {}, [])]
    if steps:
        lines += ["", steps_table(steps)]
    return "\n".join(lines) + "\n"


def _count(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value)
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def steps_table(steps: list[Json]) -> str:
    """The steps of a selection as Markdown: statements in, dropped by each reason, and kept."""
    rows = [
        (
            step["step"],
            f"{step['statements_in']:,}",
            "; ".join(f"{count:,}: {reason}" for reason, count in step["dropped"].items() if count) or "-",
            f"{step['statements_kept']:,}",
            f"{step['subjects_kept']:,}",
        )
        for step in steps
    ]
    return markdown_table(("step", "statements in", "dropped", "statements kept", "subjects kept"), rows)
