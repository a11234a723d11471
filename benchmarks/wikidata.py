"""How fast a Wikidata dump becomes a snapshot, against decompression alone and against a plain json.loads loop.

Run: python benchmarks/wikidata.py [--mb 600] [--repeat 3] [--entities FILE ...]. Makes its own dump (synthetic,
deterministic, with the sizes of real entities; or of the real ones in these files, an entity a line, .json or .bz2),
measures each case in a process of its own, and prints JSON: MB/s of uncompressed JSON (the best of the repeats), peak
memory, ratios, and the time of a whole dump on 32 cores by extrapolation, with its assumptions.
"""

import argparse
import bz2
import gzip
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from watched import watched_memory

DISTINCT = 3000  # entities that are made; then they come again under other ids (compressors do not look back so far)
LOOP_MB = 130
WHOLE_TB, WHOLE_CORES = 1.7, 32  # all of Wikidata in March 2026
TEXT = "en fr de es it nl pl pt ru ja zh ar sv uk ca fi cs hu ko fa tr ro vi id he da no eo eu bg sr ast en-gb pt-br nb"
LANGUAGES = TEXT.split()
# kind of entity: share; least and most statements, labels, descriptions, sitelinks; share of statements with references
KINDS: dict[str, tuple[float, tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int], float]] = {
    "article": (0.38, (12, 34), (1, 4), (1, 30), (0, 0), 0.8),
    "taxon or star": (0.30, (5, 16), (1, 30), (2, 30), (0, 0), 0.7),
    "item without pages": (0.19, (3, 14), (1, 6), (1, 8), (0, 0), 0.6),
    "item of other wikis": (0.045, (6, 20), (2, 15), (2, 20), (1, 4), 0.5),
    "item of enwiki": (0.08, (10, 40), (5, 35), (3, 25), (1, 40), 0.5),
    "large item of enwiki": (0.005, (60, 300), (30, 35), (20, 35), (40, 200), 0.5),
}
LETTERS = "eeeetttaaaoooiiinnnsssrrhhldcum"


class Maker:
    """Makes entities in the form of the dumps from a seeded stream of random numbers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.words = [self._word() for _ in range(4000)]

    def _word(self) -> str:
        letters = "".join(self.random.choices(LETTERS, k=self.random.randint(2, 9)))
        return letters.capitalize() if self.random.random() < 0.3 else letters

    def text(self, low: int, high: int) -> str:
        return " ".join(self.random.choices(self.words, k=self.random.randint(low, high)))

    def foreign(self, language: str, text: str) -> str:
        """A text in the script of the language: beyond ASCII, dumps escape each character with six bytes."""
        shift = {"ru": 0x3D0, "uk": 0x3D0, "bg": 0x3D0, "sr": 0x3D0, "ar": 0x5C0, "fa": 0x5C0, "he": 0x570}.get(
            language
        )
        if language in ("ja", "zh", "ko"):
            return "".join(chr(0x4E00 + ord(c) * 7) for c in text[: len(text) // 3 + 1])
        return text if shift is None else "".join(chr(ord(c) + shift) if c.isalpha() else c for c in text)

    def texts(self, number: int, low: int, high: int) -> dict[str, Any]:
        text = self.text(low, high)
        chosen = LANGUAGES[:1] + self.random.sample(LANGUAGES[1:], max(0, min(number, len(LANGUAGES)) - 1))
        return {code: {"language": code, "value": self.foreign(code, text)} for code in chosen}

    def item_id(self) -> int:
        return int(10 ** self.random.uniform(1, 8))

    def value(self, datatype: str) -> dict[str, Any]:
        r = self.random
        if datatype == "wikibase-item":
            number = self.item_id()
            value = {"entity-type": "item", "numeric-id": number, "id": f"Q{number}"}
            return {"value": value, "type": "wikibase-entityid"}
        if datatype == "time":
            precision = r.choice((9, 10, 11, 11, 11))
            month, day = (
                (f"{r.randint(1, 12):02d}" if precision > 9 else "00"),
                (f"{r.randint(1, 28):02d}" if precision > 10 else "00"),
            )
            value = {
                "time": f"+{r.randint(1500, 2024)}-{month}-{day}T00:00:00Z", "timezone": 0, "before": 0, "after": 0,
                "precision": precision, "calendarmodel": "http://www.wikidata.org/entity/Q1985727",
            }  # fmt: skip
            return {"value": value, "type": "time"}
        if datatype == "quantity":
            return {"value": {"amount": f"+{r.random() * 1000:.3f}", "unit": "1"}, "type": "quantity"}
        if datatype == "monolingualtext":
            return {"value": {"text": self.text(2, 12), "language": "en"}, "type": "monolingualtext"}
        if datatype == "globe-coordinate":
            value = {
                "latitude": round(r.uniform(-90, 90), 6), "longitude": round(r.uniform(-180, 180), 6),
                "altitude": None, "precision": 0.0001, "globe": "http://www.wikidata.org/entity/Q2",
            }  # fmt: skip
            return {"value": value, "type": "globecoordinate"}
        text = f"{r.getrandbits(40):x}" if datatype == "external-id" else self.text(2, 3)
        return {"value": text, "type": "string"}

    def snak(self, name: str, datatype: str) -> dict[str, Any]:
        return {
            "snaktype": "value", "property": name, "hash": f"{self.random.getrandbits(160):040x}",
            "datavalue": self.value(datatype), "datatype": datatype,
        }  # fmt: skip

    def reference(self) -> dict[str, Any]:
        snaks = {"P248": [self.snak("P248", "wikibase-item")], "P813": [self.snak("P813", "time")]}
        if self.random.random() < 0.5:
            snaks["P854"] = [self.snak("P854", "url")]
        return {"hash": f"{self.random.getrandbits(160):040x}", "snaks": snaks, "snaks-order": list(snaks)}

    def statement(self, id: str, name: str, datatype: str, references: list[Any], referenced: float) -> dict[str, Any]:
        r = self.random
        main = self.snak(name, datatype)
        del main["hash"]
        made: dict[str, Any] = {"mainsnak": main, "type": "statement"}
        qualifiers = {}
        if r.random() < 0.25:
            chosen = r.choice((("P1545",), ("P580", "P582"), ("P585",), ("P407",), ("P580",)))
            kinds = {"P1545": "string", "P407": "wikibase-item"}
            qualifiers = {p: [self.snak(p, kinds.get(p, "time"))] for p in chosen}
            made |= {"qualifiers": qualifiers, "qualifiers-order": list(qualifiers)}
        made |= {"id": f"{id}${r.getrandbits(128):032X}", "rank": r.choices(("normal", "preferred"), (0.97, 0.03))[0]}
        if r.random() < referenced:
            made["references"] = [r.choice(references)]
        return made

    def entity(self, id: str, kind: str) -> dict[str, Any]:
        r = self.random
        _, statements, labels, descriptions, sitelinks, referenced = KINDS[kind]
        references = [self.reference() for _ in range(3)]  # an entity repeats the few sources that it has
        claims: dict[str, list[Any]] = {"P31": [self.statement(id, "P31", "wikibase-item", references, referenced)]}
        datatypes = (
            ["wikibase-item"] * 9 + ["external-id"] * 6 + ["string"] * 4
            + ["time", "time", "quantity", "monolingualtext", "globe-coordinate", "url", "commonsMedia"]
        )  # fmt: skip
        for _ in range(r.randint(*statements)):
            datatype = r.choice(datatypes)
            name = f"P{569 + r.randint(0, 9)}" if datatype == "time" else f"P{r.randint(1, 60) * 37 + len(datatype)}"
            claims.setdefault(name, []).append(self.statement(id, name, datatype, references, referenced))
        wikis = [f"{code.replace('-', '_')}wiki" for code in LANGUAGES[1:]] + [f"x{n}wiki" for n in range(170)]
        links = r.sample(wikis, min(r.randint(*sitelinks), len(wikis)))
        if "enwiki" in kind:
            links.append("enwiki")
        return {
            "type": "item",
            "id": id,
            "labels": self.texts(r.randint(*labels), 1, 12 if kind == "article" else 3),
            "descriptions": self.texts(r.randint(*descriptions), 2, 6),
            "aliases": {"en": [{"language": "en", "value": self.text(1, 3)} for _ in range(r.randint(0, 2))]},
            "claims": claims,
            "sitelinks": {w: {"site": w, "title": self.text(1, 3), "badges": []} for w in links},
            "lastrevid": r.randint(10**8, 2 * 10**9),
            "modified": "2021-02-01T10:00:00Z",
        }


def synthetic() -> list[tuple[str, bool, str]]:
    """Id, whether it is of enwiki, and line of each entity that is made."""
    maker = Maker(0)
    kinds = maker.random.choices(list(KINDS), [share for share, *_ in KINDS.values()], k=DISTINCT)
    made = []
    for number, kind in enumerate(kinds):
        id = f"Q{10**8 + number}"
        made.append((id, "enwiki" in kind, in_line(maker.entity(id, kind))))
    return made


def real(files: list[Path]) -> list[tuple[str, bool, str]]:
    """The same of the items in files."""
    made = []
    for file in files:
        with bz2.open(file) if file.suffix == ".bz2" else file.open("rb") as lines:
            for line in lines:
                if len(line) > 3 and (entity := json.loads(line.rstrip(b",\n")))["type"] == "item":
                    made.append((entity["id"], "enwiki" in entity["sitelinks"], in_line(entity)))
    return made


def in_line(entity: dict[str, Any]) -> str:
    """As dumps write it."""
    return json.dumps(entity, separators=(",", ":")).replace("/", "\\/")


def make_dump(path: Path, size: int, made: list[tuple[str, bool, str]]) -> dict[str, Any]:
    """Write the plain dump of these entities, over and over under new ids, and say what is in it."""
    written = entities = of_enwiki = 0
    with path.open("w", encoding="ascii") as file:
        written += file.write("[\n")
        while written < size:
            id, has_title, line = made[entities % len(made)]
            comma = ",\n" if entities else ""
            written += file.write(comma + line.replace(id, f"Q{2 * 10**8 + entities}"))
            of_enwiki += len(line) if has_title else 0
            entities += 1
        written += file.write("\n]\n")
    return {
        "bytes": written,
        "entities": entities,
        "bytes_an_entity": round(written / entities),
        "share_of_enwiki_bytes": round(of_enwiki / written, 3),
    }


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(size):
            yield piece


def compress(path: Path) -> dict[str, float]:
    """Write the .gz and .bz2 beside it, of several streams each as parallel compressors do; returns the ratios."""
    ratios = {}
    with ProcessPoolExecutor() as pool:
        for ending, function in ((".gz", gzip.compress), (".bz2", bz2.compress)):
            with path.with_name(path.name + ending).open("wb") as file:
                for data in pool.map(function, _pieces(path, 45_000_000), [6 if ending == ".gz" else 9] * 10**4):
                    file.write(data)
            ratios[ending[1:]] = round(path.stat().st_size / path.with_name(path.name + ending).stat().st_size, 1)
    return ratios


def decompressors() -> dict[str, Callable[[Path], int]]:
    """Every decompressor that is installed, as a function from a file to the bytes that came out."""

    def drain(opened: Any) -> int:
        with opened as file:
            return sum(map(len, iter(lambda: file.read(1 << 20), b"")))

    found: dict[str, Callable[[Path], int]] = {
        "bz2 module": lambda p: drain(bz2.open(f"{p}.bz2")),  # noqa: SIM115
        "gzip module": lambda p: drain(gzip.open(f"{p}.gz")),  # noqa: SIM115
    }
    from isal import igzip

    found["isal gz"] = lambda p: drain(igzip.open(f"{p}.gz"))
    try:
        import indexed_bzip2
    except ImportError:
        return found
    cores = os.cpu_count() or 1
    found["indexed_bzip2, one thread"] = lambda p: drain(indexed_bzip2.open(f"{p}.bz2", parallelization=1))
    found[f"indexed_bzip2, {cores} threads"] = lambda p: drain(indexed_bzip2.open(f"{p}.bz2", parallelization=cores))
    return found


def json_alone(path: Path) -> int:
    """json.loads of each line, and nothing else."""
    return sum(len(line) for line in _lines(path) if json.loads(line.rstrip(b",\n")))


def json_loop(path: Path) -> int:
    """What the published pipeline does (WikiFactDiff, before its database): pieces of 20 MiB, json.loads of each line
    of one, dicts edited to what is needed, relations, classes and datatypes counted.
    """
    done, piece, size = 0, [], 0
    counts: dict[str, Counter[str]] = {"relation": Counter(), "class": Counter(), "datatype": Counter()}
    for line in _lines(path):
        piece.append(line)
        size += len(line)
        if size >= 20 << 20:
            kept = [entity for line in piece if _edited(entity := json.loads(line.rstrip(b",\n")), counts)]
            done += size if kept else 0
            piece, size = [], 0
    return done


def _lines(path: Path) -> Iterator[bytes]:
    """The entities in the first `LOOP_MB` of the dump."""
    done = 0
    with path.open("rb") as file:
        for line in file:
            if len(line) > 3:
                yield line
                done += len(line)
            if done >= LOOP_MB * 10**6:
                return


def _edited(entity: dict[str, Any], counts: dict[str, Counter[str]]) -> bool:
    entity["_id"] = entity.pop("id")
    for key in ("labels", "descriptions"):
        terms = entity.pop(key) or {}  # an empty map may be written []
        chosen = terms.get("en") or next(iter(terms.values()), None)
        if chosen is not None:
            entity[key[:-1]] = chosen["value"]
    if "label" in entity:
        entity["label_upper"] = entity["label"].upper()
    entity["aliases"] = tuple(alias["value"] for alias in (entity["aliases"] or {}).get("en", ()))
    entity["title"] = (entity.pop("sitelinks") or {}).get("enwiki", {}).get("title")
    claims = {}
    for relation, statements in (entity["claims"] or {}).items():
        counts["relation"][relation] += 1
        kept = []
        for statement in statements:
            snak = statement["mainsnak"]
            counts["datatype"][snak["datatype"]] += 1
            if relation == "P31" and "datavalue" in snak:
                counts["class"][snak["datavalue"]["value"]["id"]] += 1
            if snak["datatype"] in ("url", "external-id", "commonsMedia", "globe-coordinate"):
                continue
            if statement["rank"] == "deprecated":
                continue
            for key in ("references", "id"):
                statement.pop(key, None)
            if "qualifiers" in statement:
                statement["qualifiers"] = {p: list(snaks) for p, snaks in statement["qualifiers"].items() if snaks}
            kept.append(statement)
        claims[relation] = kept
    entity["claims"] = claims
    return True


def measure(case: str, path: Path) -> dict[str, Any]:
    """One case, in this process."""
    if case in (loops := {"json.loads loop": json_loop, "json.loads alone": json_alone}):
        work = lambda: loops[case](path)  # noqa: E731
    elif case in (found := decompressors()):
        work = lambda: found[case](path)  # noqa: E731
    else:
        from anachron.wikidata.reading.ingest import ingest
        from anachron.wikidata.reading.settings import IngestSettings

        _, ending, workers = case.split()
        source = path if ending == "plain" else Path(f"{path}.{ending}")
        folder = tempfile.TemporaryDirectory(dir=path.parent)
        small = Path(folder.name) / "small.json"  # loads the modules and starts the server of the worker processes
        small.write_text("[\n]\n")
        ingest(small, Path(folder.name) / "small", IngestSettings("2021-02-01"), workers=int(workers))

        def work() -> int:
            ingest(source, Path(folder.name) / "snapshot", IngestSettings("2021-02-01"), workers=int(workers))
            return path.stat().st_size

    with watched_memory() as peak:
        before, started = cpu_seconds(), time.perf_counter()
        done = work()
        seconds = time.perf_counter() - started
        used = cpu_seconds() - before
    return {"mb_per_s": done / 1e6 / seconds, "mb_per_cpu_s": done / 1e6 / used, "peak_mb": peak.largest / 1e6}


def cpu_seconds() -> float:
    """Of this process, its threads, and its children that have ended."""
    return sum(os.times()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=600)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--entities", type=Path, nargs="+", help="Files of real entities to make the dump of.")
    parser.add_argument("--dump", type=Path, help="Keep the dump here, or use the one that is here.")
    parser.add_argument("--cases", help="Only these, separated by commas.")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.dump)))
        return
    with tempfile.TemporaryDirectory() as name:
        path = options.dump or Path(name) / "dump.json"
        about = path.with_name("about.json")
        if not about.is_file():
            content: dict[str, Any] = make_dump(
                path, options.mb * 10**6, real(options.entities) if options.entities else synthetic()
            )
            content["compressed_to_1_in"] = compress(path)
            about.write_text(json.dumps(content))
        cases = ["json.loads loop", "json.loads alone", *decompressors(), "ingest plain 1"]
        cases += [f"ingest {ending} {workers}" for ending in ("gz", "bz2") for workers in (1, 2)]
        if options.cases:
            cases = options.cases.split(",")
        found: dict[str, list[dict[str, float]]] = {case: [] for case in cases}
        for _ in range(options.repeat):  # in turns, so that what else runs on the machine hits all of them
            for case in cases:
                command = [sys.executable, __file__, "--measure", case, "--dump", str(path)]
                output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                found[case].append(json.loads(output))
        print(json.dumps(report(json.loads(about.read_text()), found), indent=2))


def report(about: dict[str, Any], found: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    best = {case: max(run["mb_per_s"] for run in runs) for case, runs in found.items()}
    result: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "dump": about,
        "mb_per_s": {case: round(value, 1) for case, value in best.items()},
        "mb_per_cpu_s": {
            c: round(max(r["mb_per_cpu_s"] for r in runs), 1) for c, runs in found.items() if not c.endswith(" 2")
        },  # of one process with its threads: what it would be on a core that nobody else uses
        "mb_per_s_of_each_run": {case: [round(r["mb_per_s"], 1) for r in runs] for case, runs in found.items()},
        "peak_mb": {c: round(max(r["peak_mb"] for r in runs)) for c, runs in found.items() if c.startswith("ingest")},
    }
    singles = [c for c in ("bz2 module", "indexed_bzip2, one thread") if c in best]
    if not singles or "ingest bz2 2" not in best or "ingest gz 2" not in best or "json.loads alone" not in best:
        return result
    alone = max(best[c] for c in singles)
    all_cores = max([best[c] for c in best if c.startswith("indexed_bzip2")] or [alone])
    result["ratios"] = {
        "bz2, one process, to the best decompressor on one thread": round(best["ingest bz2 1"] / alone, 2),
        "bz2, one process, to the best decompressor on all cores": round(best["ingest bz2 1"] / all_cores, 2),
        "gz, two workers to one": round(best["ingest gz 2"] / best["ingest gz 1"], 2),
        "bz2, two workers to one": round(best["ingest bz2 2"] / best["ingest bz2 1"], 2),
        "plain, one process, to the json.loads loop": round(best["ingest plain 1"] / best["json.loads loop"], 1),
        "gz, one process, to the json.loads loop": round(best["ingest gz 1"] / best["json.loads loop"], 1),
        "gz, one process, to json.loads alone": round(best["ingest gz 1"] / best["json.loads alone"], 1),
    }
    inflate, both = best["isal gz"], best["ingest gz 1"]
    parse = 1 / max(1 / both - 1 / inflate, 1e-9)  # what one core does without the decompression
    gz = min(inflate, parse * (WHOLE_CORES - 1))
    bz = best["ingest bz2 2"] / min(2, os.cpu_count() or 1) * WHOLE_CORES
    result["whole_dump"] = {
        "terabytes_of_json": WHOLE_TB,
        "cores": WHOLE_CORES,
        "gz_mb_per_s": round(gz),
        "gz_minutes": round(WHOLE_TB * 1e6 / gz / 60, 1),
        "bz2_mb_per_s": round(bz),
        "bz2_minutes": round(WHOLE_TB * 1e6 / bz / 60, 1),
        "assumptions": [
            "cores as fast as those of this machine, and memory and disk that feed all of them",
            "gz: one core decompresses for the others, which parse: the lesser of its rate and (cores - 1) x parsing",
            "bz2: ranges are entered directly, so the rate of two workers a core times the cores",
            "Python, its modules and the server of worker processes are started: about a second that is in no rate",
            "the same mixture of entities; the joining of the buckets is in the measured rates",
        ],
    }
    return result


if __name__ == "__main__":
    main()
