"""The text of a synthetic dump: values and snaks as JSON, and the names and references that entities share."""

from functools import cache

import numpy as np
from synthetic_draws import Plan, whole

DATES = {"P580": "time", "P582": "time", "P585": "time"}
OTHERS = {"P1545": "string", "P248": "wikibase-item", "P813": "time", "P854": "url", "P31": "wikibase-item"}
OTHERS |= {"P279": "wikibase-item", "P2302": "wikibase-item", "P4155": "wikibase-property"}
NOT_LATIN = {"ru", "zh", "ja", "ar", "ko", "uk", "fa", "bn", "he", "sr", "arz", "bg", "el", "mk", "hi", "ta", "th"}


def _drawn(rng: np.random.Generator, plan: Plan) -> tuple[int, int]:
    return plan.id(int(rng.integers(plan.entities))), int(rng.integers(1 << 30))


def time(year: int, precision: int, n: int) -> str:
    month = 1 + n % 12 if precision > 9 else 0
    day = 1 + n % 28 if precision > 10 else 0
    return (
        f'{{"value":{{"time":"+{year:04d}-{month:02d}-{day:02d}T00:00:00Z","timezone":0,"before":0,"after":0,'
        f'"precision":{precision},"calendarmodel":"http:\\/\\/www.wikidata.org\\/entity\\/Q1985727"}},"type":"time"}}'
    )


def value(datatype: str, target: int, n: int) -> str:
    """A datavalue of a datatype, from the number of an item and another number."""
    if datatype == "wikibase-item":
        return f'{{"value":{{"entity-type":"item","numeric-id":{target},"id":"Q{target}"}},"type":"wikibase-entityid"}}'
    if datatype == "time":
        return time(1600 + n % 420, 9 + n % 3, n)
    if datatype == "quantity":
        return f'{{"value":{{"amount":"+{n % 100_000}","unit":"1"}},"type":"quantity"}}'
    if datatype == "monolingualtext":
        return f'{{"value":{{"text":"A text of the number {n}","language":"en"}},"type":"monolingualtext"}}'
    if datatype == "globe-coordinate":
        return (
            f'{{"value":{{"latitude":{n % 90}.{n % 9973},"longitude":{n % 180}.{n % 9967},"altitude":null,'
            '"precision":0.0001,"globe":"http:\\/\\/www.wikidata.org\\/entity\\/Q2"},"type":"globecoordinate"}'
        )
    text = {"url": f"https:\\/\\/example.org\\/{n}", "commonsMedia": f"Picture {n}.jpg"}.get(datatype, f"{n:x}")
    return f'{{"value":"{text}","type":"string"}}'


def snak(name: str, datatype: str, data: str, kind: str = "value") -> str:
    held = f'"datavalue":{data},' if kind == "value" else ""
    return f'{{"snaktype":"{kind}","property":"{name}",{held}"datatype":"{datatype}"}}'


class Texts:
    """Names, descriptions, references and hashes that many entities share, drawn from a seed."""

    def __init__(self, plan: Plan) -> None:
        rng = np.random.default_rng([plan.seed, 1 << 40])
        self.shape = plan.shape
        letters = np.array(list("eeeetttaaaoooiiinnnsssrrhhldcum"))
        words = ["".join(rng.choice(letters, size)).capitalize() for size in rng.integers(3, 10, 4000)]
        size = self.shape["label_characters"] / (np.mean([len(word) for word in words]) + 1)
        self.names = [" ".join(rng.choice(words, n)) for n in whole(np.full(4096, size), rng)]
        self.foreign = ["".join(f"\\u{0x430 + ord(c) % 32:04x}" for c in name[:14]) for name in self.names]
        self.hashes = [rng.bytes(20).hex() for _ in range(4096)]
        self.references = [self._reference(rng, plan) for _ in range(2048)]
        self.rng, self.words = rng, words

    def _reference(self, rng: np.random.Generator, plan: Plan) -> str:
        snaks = {}
        for name in ("P248", "P813", "P854", "P1545", "P577")[
            : max(1, int(rng.poisson(plan.shape["snaks_a_reference"])))
        ]:
            datatype = {**OTHERS, "P577": "time"}[name]
            snaks[name] = f'"{name}":[{snak(name, datatype, value(datatype, *_drawn(rng, plan)))}]'
        order = ",".join(f'"{name}"' for name in snaks)
        return f'{{"hash":"{rng.bytes(20).hex()}","snaks":{{{",".join(snaks.values())}}},"snaks-order":[{order}]}}'

    def terms(self, count: int, name: int, english: bool) -> str:
        """Labels: the same name in as many languages, written in their script."""
        codes = self.shape["languages"][: count + 1]
        chosen = codes[:count] if english else codes[1:]
        return ",".join(
            f'"{c}":{{"language":"{c}","value":"{(self.foreign if c in NOT_LATIN else self.names)[name]}"}}'
            for c in chosen
        )

    @cache  # noqa: B019
    def descriptions(self, count: int, which: int) -> str:
        size = round(self.shape["description_characters"])
        latin, other = f"{self.names[which]} {self.names[-which]}"[:size], self.foreign[which * 7][: 6 * size]
        codes = self.shape["languages"][:count]
        return ",".join(f'"{c}":{{"language":"{c}","value":"{other if c in NOT_LATIN else latin}"}}' for c in codes)

    def sitelinks(self, count: int, title: str, article: bool) -> str:
        wikis = [w for w in self.shape["wikis"] if w != "enwiki"]
        chosen = ["enwiki", *wikis][:count] if article else wikis[:count]
        return ",".join(f'"{w}":{{"site":"{w}","title":"{title}","badges":[]}}' for w in chosen)
