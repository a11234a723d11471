"""A made-up Wikidata JSON dump of any size, with Wikidata's shape: for rehearsals of what reads all of it.

Run: python tools/synthetic_dump.py OUT --entities 100000 [--seed 0] [--pageviews FILE]
     python tools/synthetic_dump.py OUT --entities 100000 --edition 1 [--redirects FILE]

OUT: .json, .json.gz, .json.bz2, .json.zst, or ``-`` for standard output. It is written as it is made, in memory that
does not depend on the size, and the same arguments give the same bytes. The shape is that of
``tools/wikidata_shape.json`` (see ``tools/wikidata_shape.py``): how many labels, statements, qualifiers, references
there are, of which kinds, for items with and without an article in English. Words, names and values mean nothing.
``--edition 1`` is the same Wikidata some years later: a share of the statements is changed, some items are merged into
others, others are new, and a share of those came into being in between. The kinds of changes (``EDITS`` of
``synthetic_draws.py``) are weighted so that ``build updates`` finds as many updates an item, and as many of each
scenario, as paper 003 has.
"""

import argparse
import bz2
import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from synthetic_draws import Draws, Plan
from synthetic_texts import DATES, OTHERS, Texts, snak, time, value

LAST_YEAR = 2020  # of dates in the first edition
CHANGED = 2022  # the year in which something ends or begins that another edition adds
BEGUN = (
    "P54",
    "P166",
    "P39",
    "P551",
)  # relations that another edition adds to an item: without a single-value constraint


def _qualifiers(draws: Draws, at: int, end_added: bool) -> str:
    """Qualifiers of a statement, with their order; empty where it has none."""
    n, precision, held = draws.numbers[at], draws.precisions[at], {}
    kinds = draws.kinds[at].split() if draws.dated[at] else []
    if end_added and "P582" not in kinds:
        kinds = [*kinds, "P582"]
        held["P582"] = time(CHANGED, 11, n)
    start = 1950 + n % 60
    for name in kinds:
        year = start if name != "P582" else min(LAST_YEAR, start + 1 + (n >> 8) % 12)
        held.setdefault(name, time(year, precision, n >> 4))
    for place in range(draws.qualifiers[at]):
        held[f"P1545 {place}"] = f'{{"value":"{n % 97 + place}","type":"string"}}'
    if not held:
        return ""
    snaks: dict[str, list[str]] = {}
    for name, data in held.items():
        bare = name.split()[0]
        snaks.setdefault(bare, []).append(snak(bare, DATES.get(bare, "string"), data))
    order = ",".join(f'"{name}"' for name in snaks)
    written = ",".join(f'"{name}":[{",".join(each)}]' for name, each in snaks.items())
    return f'"qualifiers":{{{written}}},"qualifiers-order":[{order}],'


def item(plan: Plan, texts: Texts, draws: Draws, first: int, place: int) -> str:
    """The line of an item, without its line break."""
    number = plan.id(first + place)
    types, claims, begun = plan.shape["datatypes"], dict[str, list[str]](), list[tuple[int, int, str]]()
    begin, end = draws.starts[place], draws.starts[place + 1]
    for at in range(begin, end):
        name = draws.properties[at]
        target = draws.targets[at]
        if at == begin:
            name, target = "P31", draws.classes[place]
        edit, n, more = draws.edits[at], draws.numbers[at], draws.more[at]
        datatype, kind = types[name], draws.snaks[at] if at > begin else "value"
        if edit == 1 and at > begin:
            n, target = n ^ 1, target // 2
        identity = f"Q{number}${n >> 8:08X}-4B1D-4E2F-9A3C-{more:012X}"
        held = value(datatype, plan.id(target), n)
        qualifiers = _qualifiers(draws, at, edit in (2, 3)) if at > begin else ""
        chosen = texts.references
        references = ",".join(chosen[(more + r) % 2048] for r in range(draws.references[at]))
        claims.setdefault(name, []).append(
            f'{{"mainsnak":{snak(name, datatype, held, kind)},"type":"statement",{qualifiers}"id":"{identity}",'
            f'"rank":"{draws.ranks[at]}","references":[{references}]}}'
        )
        if edit == 3 and at > begin:
            held = value(datatype, plan.id(target // 3), n ^ 3)
            claims[name].append(_since(name, datatype, held, f"{identity[:-12]}{more ^ 1:012X}", n))
        if edit == 4:
            begun.append((n, target, f"{identity[:-12]}{more ^ 1:012X}"))
    for n, target, identity in begun:
        name = BEGUN[(n >> 1) % len(BEGUN)]
        if n % 2 and "P570" not in claims:
            claims["P570"] = [_plain("P570", "time", time(CHANGED, 11, n), identity)]
        elif n % 2 == 0 and name not in claims:
            claims[name] = [_since(name, types[name], value(types[name], plan.id(target), n), identity, n)]
    if draws.born[place]:
        claims["P571"] = [_plain("P571", "time", time(CHANGED, 11, draws.numbers[begin]), f"Q{number}$P571")]
    if first + place < plan.classes and place:
        parent = plan.id((first + place) // 2)
        claims["P279"] = [_plain("P279", "wikibase-item", value("wikibase-item", parent, 0), f"Q{number}$P279")]
    return _entity("item", f"Q{number}", "", claims, _terms(texts, draws, place, number), draws.more[begin])


def _plain(name: str, datatype: str, held: str, identity: str, qualifiers: str = "") -> str:
    """A statement without references."""
    return (
        f'{{"mainsnak":{snak(name, datatype, held)},"type":"statement",{qualifiers}"id":"{identity}",'
        '"rank":"normal","references":[]}'
    )


def _since(name: str, datatype: str, held: str, identity: str, n: int) -> str:
    """A statement that holds since a day between the editions."""
    since = snak("P580", "time", time(CHANGED, 11, n))
    return _plain(name, datatype, held, identity, f'"qualifiers":{{"P580":[{since}]}},"qualifiers-order":["P580"],')


def _terms(texts: Texts, draws: Draws, place: int, number: int) -> tuple[str, str, str, str]:
    """Labels, descriptions, aliases and sitelinks."""
    counts, name = draws.counts, draws.names[place]
    aliases = counts["aliases"][place]
    also = ",".join(
        f'"{c}":[{{"language":"{c}","value":"{texts.names[name - 1]}"}}]' for c in texts.shape["languages"][:aliases]
    )
    links = max(counts["sitelinks"][place], draws.article[place])
    return (
        texts.terms(counts["labels"][place], name, draws.english[place]),
        texts.descriptions(counts["descriptions"][place], name % 64),
        also,
        texts.sitelinks(links, title(texts, name, number), draws.article[place]),
    )


def title(texts: Texts, name: int, number: int) -> str:
    return f"{texts.names[name]} ({number})"


def _entity(
    kind: str, id: str, datatype: str, claims: dict[str, list[str]], terms: tuple[str, str, str, str], revision: int
) -> str:
    labels, descriptions, aliases, sitelinks = (f"{{{text}}}" if text else "[]" for text in terms)
    held = ",".join(f'"{name}":[{",".join(each)}]' for name, each in claims.items())
    links = f',"sitelinks":{sitelinks}' if kind == "item" else ""
    return (
        f'{{"type":"{kind}","id":"{id}",{datatype}"labels":{labels},"descriptions":{descriptions},"aliases":{aliases},'
        f'"claims":{{{held}}}{links},"lastrevid":{revision % 2_000_000_000},"modified":"2021-02-01T10:00:00Z"}}'
    )


def properties(plan: Plan, texts: Texts) -> Iterator[str]:
    """The lines of the property entities: all that occur, some with a constraint of a single value by date."""
    known = {**OTHERS, **DATES, **plan.shape["datatypes"]}
    single, by_date = plan.shape["single_value"], plan.shape["single_value_by_date"]
    for n, (name, datatype) in enumerate(sorted(known.items())):
        claims, place = {}, n % 97 / 97  # neighbours in this order lie apart in what they have
        if place < single:
            main = snak("P2302", "wikibase-item", value("wikibase-item", 19474404, 0))
            by = '{"value":{"entity-type":"property","numeric-id":580,"id":"P580"},"type":"wikibase-entityid"}'
            separator = snak("P4155", "wikibase-property", by)
            with_date = f'"qualifiers":{{"P4155":[{separator}]}},"qualifiers-order":["P4155"],'
            claims["P2302"] = [
                f'{{"mainsnak":{main},"type":"statement",{with_date if place < by_date else ""}'
                f'"id":"{name}$1","rank":"normal","references":[]}}'
            ]
        label = f'"en":{{"language":"en","value":"relation {name[1:]}"}}'
        yield _entity("property", name, f'"datatype":"{datatype}",', claims, (label, "", "", ""), n)


@dataclass
class Made:
    """What was written: counts, and lines for the files beside the dump."""

    items: int = 0
    properties: int = 0
    bytes: int = 0
    merged: int = 0
    views: int = 0


def lines(plan: Plan, made: Made, redirects: Any = None, views: Any = None) -> Iterator[bytes]:
    """The text of the dump, some megabytes at a time."""
    texts = Texts(plan)
    head = list(properties(plan, texts))
    made.properties = len(head)
    yield ("[\n" + ",\n".join(head)).encode()
    for first, last in plan.chunks:
        draws = Draws(plan, first, last)
        written = []
        for place in range(last - first):
            number = plan.id(first + place)
            if draws.gone[place]:
                made.merged += 1
                if redirects is not None:
                    redirects.write(f"Q{number},Q{plan.id(draws.into[place])}\n")
                continue
            written.append(item(plan, texts, draws, first, place))
            if views is not None and draws.article[place]:
                made.views += 1
                shown = title(texts, draws.names[place], number).replace(" ", "_")
                views.write(f"en.wikipedia {shown} {number} desktop {draws.views[place]} A{draws.views[place]}\n")
        made.items += len(written)
        yield ("".join(",\n" + line for line in written)).encode("ascii")
    yield b"\n]\n"


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """A file to be written, compressed by its ending; ``-`` is standard output."""
    if name == "-":
        yield sys.stdout.buffer
    elif name.endswith(".gz"):
        from isal import igzip

        with igzip.open(name, "wb", compresslevel=1) as file:
            yield file
    elif name.endswith(".bz2"):
        with bz2.open(name, "wb") as file:
            yield file
    elif name.endswith(".zst"):
        import zstandard

        compressor = zstandard.ZstdCompressor(level=1, write_checksum=True)
        with Path(name).open("wb") as raw, compressor.stream_writer(raw) as file:
            yield file
    else:
        with Path(name).open("wb") as file:
            yield file


def write(plan: Plan, out: str, redirects: str | None = None, views: str | None = None) -> Made:
    """Write a dump and, where named, the list of merged items and page views of the articles."""
    made = Made()
    with opened(out) as file, _beside(redirects) as merged, _beside(views) as viewed:
        for text in lines(plan, made, merged, viewed):
            file.write(text)
            made.bytes += len(text)
    return made


@contextmanager
def _beside(name: str | None) -> Iterator[io.TextIOBase | None]:
    if name is None:
        yield None
    else:
        with opened(name) as raw, io.TextIOWrapper(raw, encoding="ascii", write_through=True) as file:
            yield file


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--entities", type=int, required=True, help="Items of the first edition.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--edition", type=int, default=0, help="0, or another number: the same Wikidata later.")
    parser.add_argument("--dated", type=float, default=0.04, help="Share of statements with a date.")
    parser.add_argument("--changed", type=float, default=0.02, help="Share of statements that an edition touches.")
    parser.add_argument("--merged", type=float, default=0.005, help="Share of items that an edition merges away.")
    parser.add_argument("--added", type=float, default=0.02, help="New items of an edition, as a share.")
    parser.add_argument(
        "--born", type=float, default=0.15, help="Share of the new items that are new in the world too."
    )
    parser.add_argument("--redirects", help="File for the merged items of an edition: lines Q1,Q2.")
    parser.add_argument("--pageviews", help="File for page views: pageviews-YYYYMM-user, or with .gz, .bz2.")
    options = vars(parser.parse_args(list(arguments) if arguments is not None else None))
    beside = options.pop("redirects"), options.pop("pageviews")
    out = options.pop("out")
    if options["entities"] < 100:
        parser.error(f"--entities {options['entities']}: give at least 100, for the classes that items have")
    made = write(Plan(**options), out, *beside)
    print(json.dumps(vars(made)), file=sys.stderr if out == "-" else sys.stdout)


if __name__ == "__main__":
    main()
