"""The update data set as a table in the published columns."""

import random
import zlib
from collections.abc import Callable, Mapping

import polars as pl

from anachron.core.facts import REPLACEMENT
from anachron.data.updates.columns import OBJECT, UPDATES_SCHEMA
from anachron.io.files import Json
from anachron.text.cloze import Cloze, cloze_prompt_text
from anachron.text.kinds import subject_kind
from anachron.text.questions import relation_templates
from anachron.wikidata.updates.neighbours import FACT

DRAWN = 10  # random facts of each group
REPLACED, EVERY = "replacements", "all"  # whose nearest facts the random ones of a replacement are drawn from
POPULATION, ONE_IN = "P1082", 14  # the replacement subset keeps one in so many of these, for the sake of the others


def updates_table(
    triples: pl.DataFrame, neighbours: pl.DataFrame, popularity: Callable[[str], float | None],
    templates: Mapping[str, Cloze], language: str, seed: int, random_facts: str,
) -> pl.DataFrame:  # fmt: skip
    """One row a group (`UPDATES_SCHEMA`), by falling popularity of the subject, then by its number and the relation.

    triples: of groups that are kept, with words and ``scenario``. neighbours: of
    `anachron.wikidata.updates.neighbours.find_neighbours`. popularity: of an entity, None where it is not known.
    random_facts: what the random facts of a replacement are drawn from, `REPLACED` or `EVERY`.
    """
    replaced = triples.filter(pl.col("scenario") == REPLACEMENT).unique("group").select("group", "subject", "property")
    pool = [group for group, subject, relation in replaced.iter_rows() if in_subset(subject, relation, seed)]
    facts = _Facts(neighbours, popularity, templates, language, seed, pool if random_facts == REPLACED else None)
    objects = pl.struct(
        id="object_id", label="object_label", description="object_description", decision="label", rule="rule",
        start=_date("start"), end=_date("end"), point_in_time=_date("point"),
    ).cast(OBJECT)  # fmt: skip
    groups = triples.group_by("group", maintain_order=True).agg(
        *(pl.col(name).first() for name in ("subject", "subject_label", "subject_description", "subject_kind",
          "property", "relation_label", "relation_description", "subject_is_new", "functional", "scenario")),
        objects.alias("objects"),
    )  # fmt: skip
    rows = [_row(group, facts) for group in groups.iter_rows(named=True)]
    rows.sort(key=_order)
    return pl.DataFrame([row | {"case_id": n} for n, row in enumerate(rows)], schema=UPDATES_SCHEMA)


def _date(column: str) -> pl.Expr:
    return pl.coalesce(pl.col(column).struct.field("date"), pl.col(f"old_{column}").struct.field("date"))


def _order(row: Json) -> tuple[float, int, int]:
    views = row["subject_popularity"]
    return (-views if views is not None else 0.0, int(row["subject"]["id"][1:]), int(row["relation"]["id"][1:]))


def _row(group: Json, facts: "_Facts") -> Json:
    """Questions are this package's own, in English; a relation that has none, or another language, has none."""
    words, cloze = group["subject_label"], facts.templates[group["property"]]
    kind = subject_kind(group["property"], group["subject_kind"])
    prompts, past = (
        [cloze_prompt_text(template, words, facts.language, kind) for template in tense]
        for tense in (cloze.templates, cloze.past)
    )
    questions = relation_templates().get(group["property"]) if facts.language == "English" else None
    return {
        "subject": {"id": group["subject"], "label": words, "description": group["subject_description"]},
        "relation": {
            "id": group["property"],
            "label": group["relation_label"],
            "description": group["relation_description"],
        },
        "update_prompt": prompts[0],
        "generalization_prompts": prompts[1:],
        "subject_is_ph_new": group["subject_is_new"],
        "relation_is_temp_func": group["functional"],
        "is_replace": group["scenario"] == REPLACEMENT,
        "subject_popularity": facts.popularity(group["subject"]),
        "objects": group["objects"],
        "neighborhood": facts.nearest(group["group"]),
        "random_neighborhood": facts.drawn(group["subject"], group["property"], group["scenario"] == REPLACEMENT),
        "scenario": group["scenario"],
        "past_generalization_prompts": past[1:],
        "question_templates": list(questions[1]) if questions else [],
    }


class _Facts:
    """The facts nearest to any group: those of each group, and all of them to draw from.

    replaced: the groups whose nearest facts those of a replacement are drawn from; None draws them from all, too.
    """

    def __init__(
        self, neighbours: pl.DataFrame, popularity: Callable[[str], float | None], templates: Mapping[str, Cloze],
        language: str, seed: int, replaced: list[int] | None,
    ) -> None:  # fmt: skip
        self.seed, self.popularity, self.templates, self.language = seed, popularity, templates, language
        self.of_group: dict[int, list[Json]] = {}
        for row in neighbours.iter_rows(named=True):
            self.of_group.setdefault(row["group"], []).append(self._as_json(row, 1 - row["similarity"]))
        self.all = _distinct(neighbours)
        of_replaced = None if replaced is None else neighbours.filter(pl.col("group").is_in(replaced))
        self.of_replaced = self.all if of_replaced is None else _distinct(of_replaced)

    def nearest(self, group: int) -> list[Json]:
        return self.of_group.get(group, [])

    def drawn(self, subject: str, relation: str, is_replacement: bool) -> list[Json]:
        """Facts drawn uniformly, none of this subject; they have no distance (WikiFactDiff, footnote 5)."""
        chance = random.Random(f"{self.seed}\n{subject}\n{relation}")
        pool = self.of_replaced if is_replacement else self.all
        places = chance.sample(range(len(pool)), min(len(pool), 2 * DRAWN))
        others = [pool[place] for place in places if pool[place]["subject"] != subject]
        return [self._as_json(row, None) for row in others[:DRAWN]]

    def _as_json(self, row: Json, dist: float | None) -> Json:
        chance = random.Random(f"{self.seed}\n{row['subject']}\n{row['property']}")
        template = chance.choice(self.templates[row["property"]].templates)
        kind = subject_kind(row["property"], row["subject_kind"])
        prompt = cloze_prompt_text(template, row["subject_label"], self.language, kind)
        object_ = {"id": row["object_id"], "label": row["object_label"], "description": row["object_description"]}
        return {
            "subject": {"id": row["subject"], "label": row["subject_label"], "description": row["subject_description"]},
            "dist": dist,
            "popularity": self.popularity(row["subject"]),
            "objects": [{"object": object_, "prompt": prompt}],
        }


def _distinct(neighbours: pl.DataFrame) -> list[Json]:
    return list(neighbours.select(FACT).unique().sort("subject", "property").iter_rows(named=True))


def in_subset(subject: str, relation: str, seed: int) -> bool:
    """Whether a replacement is of the subset: of those of the population one in `ONE_IN` is, chosen by subject."""
    return relation != POPULATION or zlib.crc32(f"{seed}\n{subject}".encode()) % ONE_IN == 0


def replacements(updates: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The updates that replace one object by another and are `in_subset`."""
    replacing = updates.filter("is_replace")
    chosen = [
        in_subset(subject["id"], relation["id"], seed)
        for subject, relation in replacing.select("subject", "relation").iter_rows()
    ]
    return replacing.filter(pl.Series(chosen, dtype=pl.Boolean))
