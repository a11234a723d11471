"""The commands ``build updates``, ``build cloze`` and ``label``: what changed between two snapshots, in words."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.build import SnapshotArgument
from anachron.cli.options import JsonFlag, Ray, Workers, split_commas
from anachron.cli.output import print_json, progress_bar, say, stdout, warn
from anachron.cli.verbalize import (
    ApiKeyEnv,
    BaseUrl,
    Cache,
    Concurrency,
    MaxTokens,
    Pause,
    Style,
    Temperature,
    Timeout,
    Tries,
    ask_model,
)

if TYPE_CHECKING:
    from anachron.text.cloze import Cloze
    from anachron.text.cloze_llm import SentenceTriple, Unfit
    from anachron.updates.build import Settings

OldSnapshot = Annotated[Path, typer.Option("--old", help="The earlier snapshot, made by wikidata ingest.")]
NewSnapshot = Annotated[Path, typer.Option("--new", help="The later one, of the same wiki, language and filters.")]
UnchangedGroups = Annotated[
    str,
    typer.Option(
        help="Groups whose triples are in both snapshots: skip, as published, or label, so that an end date that was "
        "added to an old statement counts."
    ),
]
Redirects = Annotated[
    Path | None, typer.Option(help="Merged items, a .csv or .tsv of two columns: the item and what it was merged into.")
]
ClozeFile = Annotated[
    Path | None, typer.Option("--cloze", help="Templates of build cloze in place of this project's own.")
]


def register(app: typer.Typer) -> None:
    app.command()(label)


def register_builds(builds: typer.Typer) -> None:
    builds.command()(updates)
    builds.command()(cloze)


def updates(
    old: OldSnapshot,
    new: NewSnapshot,
    out: Annotated[Path, typer.Option(help="File for the updates: .parquet or .jsonl.")],
    unchanged_groups: UnchangedGroups = "skip",
    redirects: Redirects = None,
    cloze: ClozeFile = None,
    neighbours: Annotated[int, typer.Option(min=0, help="Nearest facts of each update.")] = 10,
    popularity: Annotated[
        bool, typer.Option("--popularity/--no-popularity", help="Order by page views; without, by id.")
    ] = True,
    style: Annotated[str, typer.Option(help="How dates in objects are worded; see build statements.")] = "american",
    seed: Annotated[int, typer.Option(help="Of random neighbours, neighbours' prompts and the subset.")] = 0,
    workers: Workers = None,
    ray: Ray = None,
    json_: JsonFlag = False,
) -> None:
    """What became true, became false or stayed between two snapshots, with prompts and the facts nearest to each.

    Beside the file come the replacement subset, the new entities, and a card with every number beside the published
    ones. Interrupted, the same command goes on where it was.

    Example: anachron build updates --old SNAPSHOT-2021 --new SNAPSHOT-2023 --out updates.parquet
    """
    from anachron.cluster import Spread
    from anachron.report.tables import updates_table
    from anachron.updates.build import build_updates, companions
    from anachron.updates.card import statistics
    from anachron.wikidata.reading.snapshot import open_snapshot

    settings = update_settings(unchanged_groups, neighbours=neighbours, popularity=popularity, style=style, seed=seed)
    templates = _templates(cloze, style)
    merged = read_merged(redirects)
    opened = open_snapshot(old), open_snapshot(new)
    with progress_bar("buckets") as progress:
        built = build_updates(
            *opened, out, settings, templates=templates, redirects=merged,
            sources=[path for path in (redirects, cloze) if path is not None], spread=Spread(workers, ray, progress),
        )  # fmt: skip
    found, files = statistics(built.updates), companions(out)
    if json_:
        named = {name: str(path) for name, path in files.items()}
        print_json({"out": str(out), **named, "statistics": found, "steps": built.steps, **built.counts})
        return
    if merged:
        later = len(merged) - built.counts["merged"]["followed"]
        say(
            f"merged items: {built.counts['redirected']['triples']:,} old triples follow them"
            + (f"; {later:,} of the {len(merged):,} are still in {new}, so they were merged later" if later else "")
        )
    stdout().print(updates_table(found, statistics(built.replacements), built.counts["judged"]))
    say(
        f"{built.updates.height:,} updates written to {out}, {built.replacements.height:,} of them also to "
        f"{files['replacements']}, {built.created.height:,} new entities to {files['entities']}, the card to "
        f"{files['card']}"
    )


def update_settings(unchanged_groups: str, **more: Any) -> "Settings":
    """Settings with ``--unchanged-groups``. Raises `ConfigError` for anything but skip and label."""
    from anachron.errors import ConfigError
    from anachron.updates.build import Settings

    if unchanged_groups not in ("skip", "label"):
        raise ConfigError(f"--unchanged-groups {unchanged_groups!r}: choose skip or label")
    return Settings(label_unchanged=unchanged_groups == "label", **more)


def _templates(cloze: Path | None, style: str) -> "dict[str, Cloze] | None":
    from anachron.errors import ConfigError
    from anachron.text.cloze import read_cloze
    from anachron.text.dates import wording_of

    language = wording_of(style).language
    if cloze is None and language != "English":
        raise ConfigError(f"--style {style}: this project's templates are English; for {language} give --cloze FILE")
    return None if cloze is None else read_cloze(cloze)


def read_merged(path: Path | None) -> dict[str, str] | None:
    """The file of ``--redirects``, where there is one."""
    from anachron.updates.redirects import read_redirects

    return None if path is None else read_redirects(path)


def cloze(
    snapshot: SnapshotArgument,
    out: Annotated[Path, typer.Option(help="File for the templates: .json, to be given to build updates --cloze.")],
    llm: Annotated[str, typer.Option("--llm", help="Model that writes the sentences, as its server calls it.")],
    base_url: BaseUrl = None,
    relations: Annotated[str | None, typer.Option(help="Only these: ids with commas between; default: all.")] = None,
    triples: Annotated[int, typer.Option(min=1, help="Triples of each relation that are put into sentences.")] = 20,
    most_popular: Annotated[int, typer.Option(min=1, help="Their subjects are among so many of most views.")] = 100_000,
    style: Style = "american",
    seed: Annotated[int, typer.Option(help="Of the triples drawn.")] = 0,
    api_key_env: ApiKeyEnv = None,
    concurrency: Concurrency = 8,
    tries: Tries = 6,
    timeout: Timeout = 120.0,
    pause: Pause = 1.0,
    temperature: Temperature = 0.0,
    max_tokens: MaxTokens = None,
    cache: Cache = None,
    workers: Workers = None,
    ray: Ray = None,
    json_: JsonFlag = False,
) -> None:
    """Cloze templates of each relation by a language model: sentences for drawn triples, the five most frequent kept.

    Interrupted, it goes on where it was: every answer of the model is kept, and none is paid for twice.

    Example: anachron build cloze SNAPSHOT --out cloze.json --llm llama3.1 --base-url http://localhost:11434/v1
    """
    from dataclasses import asdict

    from anachron.cluster import Spread
    from anachron.errors import ConfigError, DataError
    from anachron.io import file_fingerprint, write_json, write_manifest
    from anachron.servers import public_url
    from anachron.text.cloze_llm import SENTENCES_SCHEMA, Unfit, best_templates, count_unfit, sentences_prompt
    from anachron.text.dates import wording_of
    from anachron.text.llm import LlmSettings
    from anachron.text.verbalize import example_for
    from anachron.updates.sample import sample_triples
    from anachron.wikidata.reading.snapshot import open_snapshot

    if out.suffix != ".json":
        raise ConfigError(f"{out}: templates are written as .json")
    language = wording_of(style).language
    settings = LlmSettings(
        llm, base_url=base_url, api_key_env=api_key_env, temperature=temperature, max_tokens=max_tokens,
        concurrency=concurrency, tries=tries, timeout=timeout, pause=pause,
    )  # fmt: skip
    chosen = split_commas(relations or "")
    opened = open_snapshot(snapshot)
    with progress_bar("buckets") as progress:
        drawn = sample_triples(
            opened, chosen, triples, most_popular, style=style, seed=seed, spread=Spread(workers, ray, progress)
        )
    asked = [triple for own in drawn.values() for triple in own]
    prompts = [sentences_prompt(triple, example_for(triple, drawn), language) for triple in asked]
    replies, usage = ask_model(prompts, settings, cache, SENTENCES_SCHEMA)
    sentences = [(t.relation_id, o) for t, reply in zip(asked, replies, strict=True) for o in _templates_in(t, reply)]
    best = best_templates((relation, o) for relation, o in sentences if not isinstance(o, Unfit))
    if not best:
        dropped = "; ".join(f"{n:,}: {why}" for why, n in count_unfit(o for _, o in sentences).items())
        raise DataError(f"no sentence of {llm} gave a template ({dropped}); ask another model")
    labels = {own[0].relation_id: own[0].relation for own in drawn.values()}
    content = [
        {"id": relation, "label": labels[relation], "templates": [template for template, _ in own]}
        for relation, own in best.items()
    ]
    write_json(out, content)
    counts: dict[str, Any] = {
        "triples": len(asked),
        "sentences": len(sentences),
        "dropped": count_unfit(o for _, o in sentences),
        "relations": len(best),
        "relations without a template": sorted(set(drawn) - set(best)),
        "found": {relation: dict(own) for relation, own in best.items()},
        "usage": asdict(usage),
    }
    parameters = asdict(settings) | {
        "base_url": None if base_url is None else public_url(base_url), "relations": chosen, "triples": triples,
        "most_popular": most_popular, "style": style, "seed": seed,
    }  # fmt: skip
    inputs = {f"{snapshot}/manifest.json": file_fingerprint(snapshot / "manifest.json")}
    write_manifest(out, command="build cloze", parameters=parameters, inputs=inputs, counts=counts)
    if json_:
        print_json({"out": str(out), **counts})
        return
    for reason, number in counts["dropped"].items():
        say(f"{number:,} sentences dropped: {reason}")
    if counts["relations without a template"]:
        warn(f"no template for {', '.join(counts['relations without a template'])}")
    say(f"templates of {len(best):,} relations written to {out}")


def _templates_in(triple: "SentenceTriple", reply: Any) -> "list[str | Unfit]":
    """What the sentences of a model's reply about a triple give."""
    from anachron.text.cloze_llm import Unfit, templates_from
    from anachron.text.llm import unusable

    no_use = unusable(reply)
    return templates_from(triple, reply.text) if no_use is None else [Unfit(no_use.reason, no_use.detail)]


def label(
    input: Annotated[Path, typer.Option("--input", help="Groups of triples, one JSON object a line.")],
    old_date: Annotated[str, typer.Option(help="Date of the old snapshot.")],
    new_date: Annotated[str, typer.Option(help="Date of the new one.")],
    out: Annotated[Path | None, typer.Option(help="File for the labels: .jsonl; default: standard output.")] = None,
) -> None:
    """Label and rule number of each triple in given (subject, relation)-groups, before any group is dropped.

    Example: anachron label --input groups.jsonl --old-date 2021-01-04 --new-date 2023-02-27
    """
    import json

    from anachron.errors import ConfigError
    from anachron.io import file_fingerprint, read_jsonl, write_bytes, write_manifest
    from anachron.updates.given import label_groups

    if out is not None and out.suffix != ".jsonl":
        raise ConfigError(f"{out}: labels are written as .jsonl")
    found = label_groups(read_jsonl(input), old_date, new_date)
    text = "".join(json.dumps(row) + "\n" for row in found)
    if out is None:
        typer.echo(text, nl=False)
        return
    write_bytes(out, text.encode())
    write_manifest(
        out,
        command="label",
        parameters={"old_date": old_date, "new_date": new_date},
        inputs={str(input): file_fingerprint(input)},
        counts={"groups": len(found), "triples": sum(len(row["labels"]) for row in found)},
    )
    say(f"{len(found):,} groups labelled in {out}")
