"""What ``whole.py`` measured at a few sizes, put together: where it grows faster than the dump, and all of Wikidata.

Pure arithmetic. `MACHINES` and `TARGETS` say what is asked for; what no size here can show is `NOT_IN_THESE_NUMBERS`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from anachron.wikidata.reading.dump import MOST_RANGES, TEXT_PER_BYTE
from anachron.wikidata.reading.settings import BUCKET_BYTES, SMALL_BUCKETS

ALL = 110_000_000  # entities
BYTES_EACH = 1.7e12 / 119e6  # of text, of all of Wikidata in March 2026
GZ_BYTES = 150e9  # of its dump
TOLERANCE = 0.15  # of a slope of logarithms, and of a cost: 1 is linear
UNNAMED = 1e9  # bytes a worker that an ingest of all of Wikidata merges in unnamed files, which are not seen here
PAIRS_A_SECOND = 19e6  # of a processor in the search for neighbours: the slowest case of benchmarks/nearest.py
FEATURES = 0.2e9  # bytes of the features that subjects share, which each worker of build updates holds: 135,000 of 1 %
OF = ("cpu", "main_memory", "other_memory", "disk", "opened")


@dataclass
class Taken:
    """What a command took: seconds of the clock and of processors, bytes, files."""

    seconds: float = 0
    main_cpu: float = 0
    other_cpu: float = 0
    main_memory: int = 0
    other_memory: int = 0  # of the largest of the other processes
    processes: int = 0
    disk: int = 0  # the most there was below the work folder, less what was there before
    descriptors: int = 0  # the most that one process had open at once
    opened: int | None = None
    # Of the main process in steps that do not grow with the dump; main_cpu and main_memory are of the others.
    bounded_cpu: float = 0
    bounded_memory: int = 0

    @property
    def cpu(self) -> float:
        return self.main_cpu + self.other_cpu


@dataclass(frozen=True)
class Machine:
    """Where all of Wikidata is to be worked on. memory: bytes of each node."""

    nodes: int = 1
    cores: int = 16
    memory: float = 64e9

    @property
    def workers(self) -> int:
        return self.nodes * self.cores


MACHINES = {"one machine of 16 cores and 64 GB": Machine(), "8 such nodes on Ray that share a store": Machine(nodes=8)}
# Of each data set, the commands that it takes from the dumps to the end.
INGESTS = ("wikidata ingest", "wikidata ingest, later")
HOURS = {
    "build timestress": (3, (INGESTS[0], "build timestress")),
    "build updates": (6, (*INGESTS, "wikidata pageviews", "build updates")),
}
TARGETS = {"worker_gb": 4, "work_disk_gb": 300, "opened_files": 12_000_000}
NOT_IN_THESE_NUMBERS = [
    "page views of real size: the synthetic file has one month, of the subjects alone, not twelve of all wikis",
    "`wikidata download` and `wikidata redirects`",
    "what disks, the store and the network of the cluster take beyond what the disk here took",
    "that sixteen processes on one memory are slower than two",
    "questions by a language model: the rehearsal takes templates",
]


def slope(sizes: list[int], amounts: list[float]) -> float | None:
    """Of the least-squares line through the logarithms: 1 where twice the size takes twice as much."""
    if min(amounts) <= 0:
        return None
    return float(np.polyfit(np.log(sizes), np.log(amounts), 1)[0])


def cost(sizes: list[int], amounts: list[float]) -> float | None:
    """What one more entity costs between the two largest sizes, over that between the two smallest: 1 is linear.

    Unlike the slope, it does not count what a stage takes at any size. None for two sizes.
    """
    steps = np.diff(amounts) / np.diff(sizes)
    return round(float(steps[-1] / steps[0]), 2) if len(steps) > 1 and steps[0] > 0 else None


def line(sizes: list[int], amounts: list[float], at: float) -> float:
    """What a least-squares line of these amounts, relative errors counted, says of a size; never less than seen.

    Nor less than the line through the two largest sizes: what grows faster than linearly is not averaged away.
    """
    rise, start = np.polyfit(sizes, amounts, 1, w=1 / np.maximum(amounts, 1e-9))
    last = (amounts[-1] - amounts[-2]) / (sizes[-1] - sizes[-2])
    return float(max(start + rise * at, amounts[-1] + last * (at - sizes[-1]), *amounts))


def growth(sizes: list[int], taken: list[Taken]) -> dict[str, Any]:
    """Of one stage: slopes of logarithms, costs of the last step over the first, and what is above linear by either."""
    amounts = {of: [float(getattr(t, of) or 0) for t in taken] for of in OF}
    slopes, costs = ({of: f(sizes, amounts[of]) for of in OF} for f in (slope, cost))
    above = [of for of in OF if max(slopes[of] or 0, costs[of] or 0) > 1 + TOLERANCE]
    return {
        "slope_of_logarithms": {of: None if s is None else round(s, 2) for of, s in slopes.items()},
        "cost_of_the_last_step_over_the_first": costs,
        "above_linear": above,
    }


def stage(name: str, found: list[dict[str, Any]], machine: Machine) -> dict[str, Any]:
    """What a stage takes for all of Wikidata: hours, GB of the processes and on disk, opened files (null: not seen)."""
    sizes, taken = [one["entities"] for one in found], [one["stages"][name] for one in found]
    last = found[-1]
    # From so many entities on there are more buckets, and not larger ones.
    fullest = SMALL_BUCKETS * BUCKET_BYTES["gz"] / (last["dump_bytes"] / last["entities"])
    ends = dict.fromkeys(("main_cpu", "other_cpu", "main_memory", "disk", "opened"), ALL) | {"other_memory": fullest}
    all_: dict[str, float] = {of: line(sizes, [float(getattr(t, of) or 0) for t in taken], ends[of]) for of in ends}
    all_["main_cpu"] += max(t.bounded_cpu for t in taken)
    all_["main_memory"] = max(all_["main_memory"], *(t.bounded_memory for t in taken))
    seconds = all_["main_cpu"] + all_["other_cpu"] / machine.workers
    handed = unnamed = 0.0
    all_["other_memory"] += FEATURES if name == "build updates" else 0
    if name in INGESTS:
        unnamed = machine.cores * UNNAMED
        heavier = BYTES_EACH / (last["text_bytes"] / last["entities"])
        inflating, parsing = heavier * all_["main_cpu"], heavier * all_["other_cpu"]
        if machine.nodes > 1:  # each worker inflates all of the file
            seconds, all_["opened"] = inflating + parsing / machine.workers, 2 * all_["opened"]
        else:  # the main process inflates while the others parse
            seconds = max(inflating, (inflating + parsing) / machine.workers)
            handed = 2 * machine.workers * GZ_BYTES * TEXT_PER_BYTE["gz"] / MOST_RANGES
    pairs = last.get("pairs", 0) * (ALL / last["entities"]) ** 2 if name == "build updates" else 0
    searching = pairs / PAIRS_A_SECOND / machine.workers
    return {
        "hours": round((seconds + searching) / 3600, 2),
        "hours_of_main_process": round((heavier if name in INGESTS else 1) * all_["main_cpu"] / 3600, 2),
        "hours_of_searching_neighbours": round(searching / 3600, 2),
        "main_gb": round(all_["main_memory"] / 1e9, 1),
        "handed_out_gb": round(handed / 1e9, 1),
        "worker_gb": round(all_["other_memory"] / 1e9, 1),
        "disk_gb": round(all_["disk"] / 1e9),
        "unnamed_gb": round(unnamed / 1e9),
        "opened_files": round(all_["opened"]) if all(t.opened is not None for t in taken) else None,
    }


def whole(found: list[dict[str, Any]], machine: Machine) -> dict[str, Any]:
    """All of Wikidata on a machine, stage by stage and beside the targets; null where a stage was left out."""
    stages = {name: stage(name, found, machine) for name in found[0]["stages"]}
    asked: dict[str, tuple[float | None, float]] = {
        f"hours of {name}, with {', '.join(parts[:-1])}": (
            sum(stages[part]["hours"] for part in parts) if stages.keys() >= set(parts) else None, most,
        )
        for name, (most, parts) in HOURS.items()
    }  # fmt: skip
    held = {
        name: took["main_gb"] + took["handed_out_gb"] + machine.cores * took["worker_gb"]
        for name, took in stages.items()
    }
    fullest = max(held, key=lambda name: held[name])
    asked["GB of a worker"] = max(took["worker_gb"] for took in stages.values()), TARGETS["worker_gb"]
    disk = sum(took["disk_gb"] for took in stages.values()) + max(took["unnamed_gb"] for took in stages.values())
    asked["GB of disk, of all commands together"] = disk, TARGETS["work_disk_gb"]
    opened = [took["opened_files"] for took in stages.values()]
    asked["files opened"] = None if None in opened else sum(opened), TARGETS["opened_files"]
    asked[f"GB of a node, main process and {machine.cores} workers ({fullest})"] = held[fullest], machine.memory / 1e9
    return {
        "stages": stages,
        "targets": {
            what: {
                "value": None if value is None else round(value, 2),
                "at_most": most,
                "met": None if value is None else value <= most,
            }
            for what, (value, most) in asked.items()
        },
    }


def report(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Growth and the whole. found: what was seen at each size, the smallest first (``whole.py``)."""
    sizes = [one["entities"] for one in found]
    last = found[-1]
    grown = {name: growth(sizes, [one["stages"][name] for one in found]) for name in found[0]["stages"]}
    heavier = BYTES_EACH / (last["text_bytes"] / last["entities"])
    return {
        "sizes": found,
        "growth": grown,
        "above_linear": {name: one["above_linear"] for name, one in grown.items() if one["above_linear"]},
        "all_of_wikidata": {name: whole(found, machine) for name, machine in MACHINES.items()},
        "assumed": [
            "what grows, grows as the least-squares line through the sizes or as the line through the last two, "
            "whichever is more; from so small a share this is a guess",
            "what `build timestress` takes behind the selection of facts is the most seen at any size: a threshold "
            "bounds the facts",
            "a worker holds a bucket at most; buckets grow until a dump is 2 GiB of gz, then in number",
            "work of the main process is not divided, that of the others is, by all cores; in an ingest on one machine "
            "both go on at once, so it takes as long as the main process inflates, if that is longer; on the cluster "
            "each worker inflates all of the file",
            f"an ingest takes {heavier:.2f} times as long as here, by the bytes of an entity",
            "an ingest on the cluster opens twice the files: it merges in 128 runs, not 64",
            "the search for neighbours grows with updates times subjects; a processor compares "
            f"{PAIRS_A_SECOND / 1e6:g} million pairs a second (19 to 92 in benchmarks/nearest.py on 25 November 2026)",
            f"a worker of `build updates` holds {FEATURES / 1e9:g} GB of features besides its bucket",
            f"an ingest merges {UNNAMED / 1e9:g} GB a worker in unnamed files, and on one machine hands out two ranges "
            f"a worker of a gz file of {GZ_BYTES / 1e9:g} GB",
        ],
        "not_in_these_numbers": NOT_IN_THESE_NUMBERS,
    }  # fmt: skip
