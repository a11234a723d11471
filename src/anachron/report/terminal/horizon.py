"""A horizon for the terminal: what was asked, the dates, kinds, the test of a claim, and models against each other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from anachron.analysis.findings import p_words
from anachron.core.dates import Date
from anachron.io.files import Json
from anachron.report.numbers import percent
from anachron.text.dates import bare_date

SHOWN = 10
SAID = 0.5  # least chance of a curve that does not fall once, for it to be said
SHAPES = {"two falls": "two falls, at the first of which a share is left", "gap": "a gap before their end"}


def horizon_lines(summary: Json, kinds: pl.DataFrame | None = None) -> Iterator[str]:
    """summary: ``horizon.json`` of a run. kinds: its table, where it has one."""
    counts, model = summary["counts"], summary["model"]
    if summary["told"]:
        half = summary["halving"]
        date, low, high = (bare_date(Date.parse(half[name])) for name in ("date", "low", "high"))
        yield f"{model} learned until {date} ({low} to {high})"
    else:
        yield f"{model}: cannot tell until when it learned: {summary['reason']}"
    yield f"{counts['changes']:,} changes asked about; it knows the subjects of {counts['known_subjects']:,}"
    yield from _shares(counts)
    if summary["told"]:
        half, end = summary["halving"], summary.get("end")
        yield f"halving date: {half['date']} (95 %: {half['low']} to {half['high']})"
        if end is not None:
            yield (
                f"next to nothing is known from {end['date']} on, at the latest from {end['no_later_than']} on (97.5 %)"
            )
        else:
            yield "something is known of later changes too: new values win more often than the likeliest decoys"
        broken = {name: share for name, share in summary["curves"].items() if name != "one fall" and share >= SAID}
        for name, share in broken.items():
            yield f"the answers may have {SHAPES[name]} (chance {percent(share, 0)} %)"
        if (placebo := summary["chance_of_horizon_of_decoys"]) is not None:
            yield f"decoys, of which nothing can be known: chance of a horizon {percent(placebo, 0)} %"
        plateau, floor = (percent(summary[name], 0) for name in ("plateau", "floor"))
        yield f"well before that, it knows {plateau} % of changes; without knowing, it prefers {floor} % of new values"
    if kinds is not None and summary["told"] and kinds.height > 1:
        yield "by kind (95 %), partially pooled:"
        width = max(map(len, kinds["kind"]))
        for row in kinds.iter_rows(named=True):
            yield f"  {row['kind']:{width}}  {row['halving']} ({row['low']} to {row['high']}), {row['changes']} changes"
    if "leak" in summary:
        yield from leak_lines(summary["leak"])


def _shares(counts: Json) -> Iterator[str]:
    if "named" in counts:
        yield f"its answers: {', '.join(f'{name} {number:,}' for name, number in counts['named'].items())}"
    of = {
        "new values": counts["new_preferred"],
        "decoys": counts["decoys_preferred"],
        "values that have not come true": counts["still"]["new_preferred"],
        "values of invented subjects": counts["invented"]["new_preferred"],
    }
    said = [f"{name} {percent(share, 0)} %" for name, share in of.items() if share is not None]
    if said:
        yield f"{'named' if 'named' in counts else 'preferred to the old value'}: {', '.join(said)}"


def leak_lines(leak: Mapping[str, Any]) -> Iterator[str]:
    smallest = leak["smallest_seen"]
    least = f"; a leak of less than about {percent(smallest, 0)} % of them would not surely be seen" if smallest else ""
    if not leak["told"]:
        yield f"claimed cut-off {leak['claim']}: NO VERDICT; {leak['error']}"
        return
    ahead = f", where {100 * leak['ahead_without_knowing']:.0f} points are expected without knowing" * bool(
        leak["ahead_without_knowing"]
    )
    new, decoys = (percent(leak[name], 0) for name in ("new_preferred", "decoys_preferred"))
    likeliest = ""
    if leak["p_likeliest"] is not None:
        share = percent(leak["likeliest_decoys_preferred"], 0)
        likeliest = f", the likeliest decoy of each in {share} % ({p_words(leak['p_likeliest'])})"
    yield (
        f"claimed cut-off {leak['claim']}: {'LEAK' if leak['leaked'] else 'no leak beyond chance'}; of "
        f"{leak['changes']} changes after it that could be tested (of {leak['asked']}; {leak['judged']} judged), new "
        f"values are preferred in {new} %, decoys in {decoys} %{ahead} ({p_words(leak['p'])}){likeliest}{least}"
    )
    for row in leak["gave_away"][:SHOWN]:
        yield f"  {row['date']}  {row['subject']}, {row['relation']}: {row['old']} -> {row['new']}"
    if len(leak["gave_away"]) > SHOWN:
        yield "  more in horizon.json"


def comparison_lines(apart: Sequence[Json]) -> Iterator[str]:
    """apart: `anachron.probe.horizon.summary.HorizonComparison` as JSON."""
    for one in apart:
        later = "at least one has no halving date on these"
        if one["later"] is not None:
            months = "{later:+.0f} months (95 %: {low:+.0f} to {high:+.0f})".format_map(one)
            later = f"halving date of {one['second']} {months}"
        yield (
            f"{one['second']} against {one['first']}, {one['changes']} changes of both: {later}; new values preferred "
            f"only by {one['first']} {one['only_first']}, only by {one['second']} {one['only_second']} "
            f"({p_words(one['p'])})"
        )
