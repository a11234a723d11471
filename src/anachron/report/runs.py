"""What runs there are: found in folders of this machine or of a store, each with what it is and its main number
(``runs list`` and ``runs show``)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from anachron.advise.rule import ADVICE_FILE
from anachron.analysis.metrics import check_scores, fact_metrics
from anachron.analysis.plots.words import counted
from anachron.core.errors import DataError
from anachron.evaluate.results import method_label
from anachron.evaluate.summaries import of_edits
from anachron.io.files import Json, parse_json, read_json
from anachron.io.run_folder import RUN_FILE, Kind, kind_in, read_record, read_recorded
from anachron.io.stores import Place
from anachron.io.tables import parse_table
from anachron.probe.ask.run import SUMMARY_FILE as ANSWERS_SUMMARY
from anachron.probe.check.check import SUMMARY_FILE as CHECK_SUMMARY
from anachron.probe.check.present import STALE
from anachron.probe.check.verdicts import mean_win_rates
from anachron.probe.horizon.find import ASKED
from anachron.probe.horizon.find import SUMMARY_FILE as HORIZON_SUMMARY
from anachron.probe.runs import SCORES_FILE
from anachron.report.numbers import percent

DEPTH = 3  # folders within folders that are looked into
EDIT, MANIFEST = ".safetensors", ".manifest.json"
DAMAGED = "damaged"
CHANGES_NAME = "changes"  # what the questions of a horizon are called as a data set


@dataclass(frozen=True)
class ListedRun:
    """One run. run: its folder, or the file of an edit. what: the command that made it. when: of its end, or of its
    beginning where it is not done, ISO 8601 in UTC. headline: its main number in words; numbers: the same as they are.
    """

    run: str
    what: str
    model: str
    data: str
    when: str | None
    done: bool
    headline: str
    numbers: Json


@dataclass(frozen=True)
class Kept:
    """The record of a run that is read where it lies. folder: of the record, within that of a horizon."""

    folder: Place
    record: Json

    def table(self, name: str) -> pl.DataFrame:
        return parse_table(read_recorded(self.folder, self.record, name), self.folder / name)

    def json(self, name: str) -> Json:
        return dict(parse_json(read_recorded(self.folder, self.record, name), self.folder / name))

    @property
    def files(self) -> Json:
        return dict(self.record["files"])

    @property
    def settings(self) -> Json:
        return dict(self.record["settings"])

    @cached_property
    def what(self) -> str:
        """The command that made it. A check that was killed is told by how it chooses its dates."""
        settings, named = self.settings, self.record.get("kind")
        if named is not None and named not in tuple(Kind):
            return str(named)  # of a later version
        if _of_changes(self.record):
            return "horizon"
        if kind_in(self.record) is Kind.EDITS:
            return "evaluate"
        if kind_in(self.record) is Kind.ADVICE:
            return "advise"
        killed = self.record["status"] != "done" and "sampling" in settings
        return "check" if CHECK_SUMMARY in self.files or killed else "probe"


def record_folder(run: Place) -> Place | None:
    """Where the record of a run lies: in its folder, or of a horizon in the folder within; None where there is none."""
    if (run / RUN_FILE).is_file():
        return run
    within = run / ASKED
    if not (within / RUN_FILE).is_file():
        return None
    record = read_json(within / RUN_FILE)  # a folder of runs may hold one of that name
    return within if isinstance(record, dict) and _of_changes(record) else None


def _of_changes(record: Json) -> bool:
    settings = record.get("settings")
    return isinstance(settings, dict) and (kind_in(record) is Kind.CHANGES or settings.get("dataset") == CHANGES_NAME)


def open_run_folder(run: Path) -> Path:
    """The folder of a run's record on this machine. Raises `DataError` where there is none."""
    return Path(str(open_kept(run).folder))


def open_kept(run: Place) -> Kept:
    """The run in a folder. Raises `DataError` where there is none or its record is damaged."""
    folder = record_folder(run)
    if folder is None:
        raise DataError(f"{run}: no run here (no {RUN_FILE}); anachron runs list shows which there are")
    return Kept(folder, read_record(folder))


def list_runs(places: Iterable[Place]) -> list[ListedRun]:
    """The runs and edits at and below some folders, to a depth of `DEPTH`; a damaged one says so in its headline.

    Raises `DataError` for a folder that is not there.
    """
    found: list[ListedRun] = []
    for top in places:
        if not top.exists():
            raise DataError(f"{top}: no such folder; name one that holds runs")
        found += [_listed(run) for run in _below(top, DEPTH)]
    return found


def _below(place: Place, depth: int) -> Iterator[Place]:
    if record_folder(place) is not None:
        yield place
        return
    children: list[Any] = sorted(path for path in place.iterdir() if not path.name.startswith("."))
    for path in children if depth else ():
        if path.suffix == EDIT:
            yield path
        elif path.is_dir():
            yield from _below(path, depth - 1)


def _listed(run: Place) -> ListedRun:
    try:
        return _edit(run) if run.suffix == EDIT else describe_run(run, open_kept(run))
    except DataError as error:
        return ListedRun(str(run), DAMAGED, "", "", None, False, str(error), {})


def describe_run(run: Place, kept: Kept) -> ListedRun:
    """What a run is. Raises `DataError` where what it found is damaged."""
    settings, done = kept.settings, kept.record["status"] == "done"
    data = settings.get("updates" if kept.what in ("evaluate", "advise") else "dataset", "")
    numbers, words = _found(kept) if done else ({}, "not done: repeat its command to go on")
    model = settings.get("label") or Path(str(settings.get("model"))).name
    when = kept.record.get("finished" if done else "started")
    return ListedRun(str(run), kept.what, model, str(data), when, done, words, numbers)


def _edit(file: Place) -> ListedRun:
    """An edit that was saved, by its manifest."""
    made = read_json(f"{file}{MANIFEST}")
    if not isinstance(made, dict) or not isinstance(made.get("parameters"), dict):
        raise DataError(f"{file}{MANIFEST} is not the manifest of an edit; make the edit again")
    of, by = made["parameters"], made.get("made_by", {})
    words = f"{of.get('edits')} updates by {of.get('method')}"
    model, data = (", ".join(by.get(name, [])) for name in ("model", "updates"))
    return ListedRun(str(file), "edit", model, data, None, True, words, {"edits": of.get("edits")})


def _found(kept: Kept) -> tuple[Json, str]:
    """The main numbers of a run that is done, and in words."""
    files = kept.files
    if f"../{HORIZON_SUMMARY}" in files:
        return _of_horizon(kept.json(f"../{HORIZON_SUMMARY}"))
    if CHECK_SUMMARY in files:
        return _of_check(kept.json(CHECK_SUMMARY))
    if ANSWERS_SUMMARY in files:
        return _of_answers(kept.json(ANSWERS_SUMMARY))
    if kept.what == "evaluate":
        return _of_edits(kept)
    if kept.what == "advise":
        return _of_advice(kept.json(ADVICE_FILE))
    return _of_scores(kept.table(SCORES_FILE)) if SCORES_FILE in files and kept.what == "probe" else ({}, "")


def _of_scores(scores: pl.DataFrame) -> tuple[Json, str]:
    facts = mean_win_rates(fact_metrics(check_scores(scores)))
    if not facts.height:
        return {"statements": scores.height}, f"{scores.height:,} statements without dates"
    means = {name: facts[name].mean() for name in ("win_rate", "robustness")}
    words = f"W {percent(means['win_rate'])} %, R {percent(means['robustness'])} %; {facts.height:,} facts"  # type: ignore[arg-type]
    return {"facts": facts.height, **means}, words


def _of_check(summary: Json) -> tuple[Json, str]:
    stale = summary["present"].get(STALE, 0)
    numbers = {name: summary[name] for name in ("facts", "win_rate", "robustness", "verdicts", "passed")}
    judged = f"; {'passed' if summary['passed'] else 'FAILED'}" if summary["demands"] else ""
    share = "" if summary["win_rate"] is None else f", W {percent(summary['win_rate'])} %"  # no choice could be read
    words = f"{stale} stale{share}; {summary['facts']:,} facts{judged}"
    return {"stale": stale, **numbers}, words


def _of_answers(summary: Json) -> tuple[Json, str]:
    numbers = {name: summary[name] for name in ("facts", "win_rate", "open_right")}
    said = {"W": summary["win_rate"], "right by year": summary["open_right"]}
    shares = [f"{name} {percent(share)} %" for name, share in said.items() if share is not None]
    return numbers, "; ".join([", ".join(shares) or "nothing could be read", f"{summary['facts']:,} facts"])


def _of_horizon(summary: Json) -> tuple[Json, str]:
    half = summary.get("halving")
    if not summary["told"] or half is None:
        return {"told": False}, f"cannot tell: {summary.get('reason')}"
    return {"told": True, **half}, f"learned until {half['date']} ({half['low']} to {half['high']})"


def _of_advice(summary: Json) -> tuple[Json, str]:
    numbers = {name: summary[name] for name in ("recommended", "separated", "size")}
    return numbers, f"{summary['words']}; {counted(summary['tried'], 'update')}"


def _of_edits(kept: Kept) -> tuple[Json, str]:
    """Of each method the share of updates after which the new object is preferred; of lifelong editing the methods."""
    names = [name for name in kept.files if name.endswith(".parquet") and "/" not in name]
    tables = {name.removesuffix(".parquet"): kept.table(name) for name in names}
    count = counted(kept.settings["number_of_updates"], "update")
    if "stages" in tables:
        return {}, f"{', '.join(kept.record['methods'])} as edits accumulate; {count}"
    summary = of_edits(tables)[1]
    label = method_label()
    if summary["scenario"].n_unique() > 1:
        label = pl.format("{} ({})", label, "scenario").alias("method")
    efficacy = dict(summary.select(label, "efficacy_success").iter_rows())
    words = ", ".join(f"{method} {percent(share, 0)} %" for method, share in efficacy.items())
    return {"efficacy_success": efficacy}, f"efficacy {words}; {count}"


def settings_in_words(kept: Kept) -> dict[str, str]:
    """A run's settings, counts and files by what they are called, as far as a reader can use them: no checksums, no
    configuration of the network."""
    record, settings = kept.record, kept.settings
    whole = record.get("model", {}).get("parameters")
    size = f"{whole / 1e6:,.1f} million parameters" if whole else None
    told = [settings.get("architecture"), size, settings.get("dtype"), settings.get("device"), settings.get("backend")]
    counts = {"statements": record.get("statements"), "of decoys": record.get("decoy_statements")}
    told_above = {"what", "model", "updates", "dataset", "label"}
    hidden = told_above | {"config", "weights", "tokenizer", "prefix_text", "wordings"}
    rest = {
        name.replace("_", " "): value
        for name, value in settings.items()
        if name not in hidden and not name.endswith("fingerprint") and value not in (None, False, [], {})
        and str(value) not in told
    }  # fmt: skip
    parts = sum("/part-" in name for name in kept.files)
    files = [name for name in kept.files if "/part-" not in name] + ([f"{parts} parts"] if parts else [])
    versions: Json = next((one["versions"] for one in reversed(record["sessions"]) if "versions" in one), {})
    lines = {
        "model": ", ".join([str(settings.get("model")), *(str(one) for one in told if one)]),
        "data": str(settings.get("updates", settings.get("dataset"))),
        "counts": ", ".join(f"{count:,} {name}" for name, count in counts.items() if count is not None),
        "settings": ", ".join(f"{name} {'' if value is True else value}".strip() for name, value in rest.items()),
        "files": ", ".join(files),
        "made with": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    return {name: line for name, line in lines.items() if line}
