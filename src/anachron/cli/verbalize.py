"""The command ``verbalize``: questions for facts by a language model or templates, and samples judged by a person."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.options import JsonFlag
from anachron.cli.output import print_json, progress_bar, say, stdout, warn

if TYPE_CHECKING:
    import polars as pl

    from anachron.text.llm import LlmSettings, Usage
    from anachron.text.verbalize import FactToWord, Outcome

Facts = Annotated[Path, typer.Argument(help="Table of facts; with --judged, or to sample again, of questions.")]
Out = Annotated[Path | None, typer.Option(help="File for the questions: .parquet or .jsonl.")]
Llm = Annotated[str | None, typer.Option("--llm", help="Model that writes the questions, as its server calls it.")]
BaseUrl = Annotated[
    str | None, typer.Option(help="Server of that model, such as http://localhost:8000/v1; default: OpenAI's.")
]
Templates = Annotated[bool, typer.Option("--templates", help="Questions from the templates of each relation instead.")]
Style = Annotated[
    str, typer.Option(help="How dates are worded, and so the language of a model's questions: see build statements.")
]
Seed = Annotated[int, typer.Option(help="Which of four questions each fact is asked with, and what is sampled.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first so many facts, to try a model.")]
Sample = Annotated[int | None, typer.Option(min=1, help="Draw so many questions for a person to judge.")]
SampleOut = Annotated[Path | None, typer.Option(help="File for them: .csv, with an empty column good.")]
JudgedFile = Annotated[Path | None, typer.Option(help="Such a file, filled in with yes and no: print the share.")]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(help="Variable that holds the server's key; default: OPENAI_API_KEY for OpenAI, else none."),
]
Concurrency = Annotated[int, typer.Option(min=1, help="Requests under way at once.")]
Tries = Annotated[int, typer.Option(min=1, help="Tries of a request before it counts as failed.")]
Timeout = Annotated[float, typer.Option(help="Seconds until a request without a reply is tried again.")]
Pause = Annotated[float, typer.Option(min=0, help="Seconds before the second try; doubled from try to try.")]
Temperature = Annotated[float, typer.Option(min=0, help="Of the model.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Most tokens of an answer; default: the server's.")]
Cache = Annotated[Path | None, typer.Option(help="Folder of kept answers; default: one for all runs, in your cache.")]
PriceIn = Annotated[float | None, typer.Option(min=0, help="Price of a million tokens read, to count the cost.")]
PriceOut = Annotated[float | None, typer.Option(min=0, help="Price of a million tokens written.")]


def register(app: typer.Typer) -> None:
    app.command()(verbalize)


def verbalize(
    facts: Facts,
    out: Out = None,
    llm: Llm = None,
    base_url: BaseUrl = None,
    templates: Templates = False,
    seed: Seed = 0,
    limit: Limit = None,
    style: Style = "american",
    sample: Sample = None,
    sample_out: SampleOut = None,
    judged: JudgedFile = None,
    api_key_env: ApiKeyEnv = None,
    concurrency: Concurrency = 8,
    tries: Tries = 6,
    timeout: Timeout = 120.0,
    pause: Pause = 1.0,
    temperature: Temperature = 0.0,
    max_tokens: MaxTokens = None,
    cache: Cache = None,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
    json_: JsonFlag = False,
) -> None:
    """Four questions for each fact, checked; one of them is drawn, and the facts without a good set are listed.

    Interrupted, it goes on where it was: every answer of a model is kept, and none is paid for twice.

    Example: anachron verbalize facts.parquet --out questions.parquet --templates
    """
    from anachron.errors import ConfigError

    if (sample is None) != (sample_out is None):
        raise ConfigError("give both --sample N and --sample-out FILE.csv, or neither")
    if sample_out is not None and sample_out.suffix != ".csv":
        raise ConfigError(f"--sample-out {sample_out}: the sample is a .csv file, to be filled in by hand")
    if out is None:
        if llm is not None or templates or (judged is None) == (sample is None):
            raise ConfigError("give --out FILE to write questions; or, of questions, one of --judged and --sample")
        _judge(facts, judged, json_) if judged is not None else _sample(facts, sample, sample_out, seed)
        return
    if judged is not None:
        raise ConfigError("--judged looks at questions that exist; leave --out away")
    if out.suffix not in (".parquet", ".jsonl"):
        raise ConfigError(f"{out}: unknown ending {out.suffix!r}; questions are lists, so use .parquet or .jsonl")
    if (price_in is None) != (price_out is None):
        raise ConfigError("give both --price-in and --price-out, or neither")
    settings = writer(
        llm, templates, style, base_url=base_url, api_key_env=api_key_env, temperature=temperature,
        max_tokens=max_tokens, concurrency=concurrency, tries=tries, timeout=timeout, pause=pause,
    )  # fmt: skip
    if settings is None and (unused := _given(cache=cache, price_in=price_in)) is not None:
        raise ConfigError(f"--{unused} is for --llm; templates ask no server")
    summary = _write(facts, out, settings, cache, prices=(price_in, price_out), seed=seed, limit=limit, style=style)
    if sample is not None:
        _sample(out, sample, sample_out, seed)
    if json_:
        print_json(summary)
    else:
        stdout().print(_lines(summary), markup=False)
    if not summary["verbalised"]:
        warn(f"no fact got its questions; {out}.failed.jsonl says why, fact by fact")
        raise typer.Exit(1)
    say(f"{summary['verbalised']:,} of {summary['facts']:,} facts written to {out}")


def writer(llm: str | None, templates: bool, style: str, **options: Any) -> "LlmSettings | None":
    """How the model is asked that writes the questions; None where templates write them.

    Raises `ConfigError` for neither or both, and for a style, address or number that cannot be.
    """
    from anachron.errors import ConfigError
    from anachron.text.dates import wording_of
    from anachron.text.llm import LlmSettings

    if (llm is None) == (not templates):
        raise ConfigError("say who writes the questions: --llm MODEL, or --templates")
    language = wording_of(style).language
    if templates and language != "English":
        raise ConfigError(f"--style {style}: templates are English; questions in {language} need --llm MODEL")
    if llm is not None:
        return LlmSettings(model=llm, **options)
    server = {name: options.get(name) for name in ("base_url", "api_key_env", "max_tokens")}
    if (unused := _given(**server)) is not None:
        raise ConfigError(f"--{unused} is for --llm; templates ask no server")
    return None


def _given(**options: Any) -> str | None:
    return next((name.replace("_", "-") for name, value in options.items() if value is not None), None)


def _write(
    facts: Path, out: Path, settings: "LlmSettings | None", cache: Path | None, *,
    prices: tuple[float | None, float | None], seed: int, limit: int | None, style: str,
) -> dict[str, Any]:  # fmt: skip
    """Verbalise a table into the three files, and return what the manifest counts."""
    import os
    from dataclasses import asdict

    from anachron.io import file_fingerprint, read_table, write_manifest, write_table
    from anachron.servers import public_url
    from anachron.text.question_tables import count_reasons, facts_table, facts_to_word, failures_table, questions_table
    from anachron.text.verbalize import TEMPLATES, Verbalised, by_templates, relation_examples

    table = facts_table(read_table(facts), str(facts))
    every = facts_to_word(table, str(facts), by_model=settings is not None)
    table, asked = table[:limit], every[:limit]
    parameters: dict[str, Any] = {"seed": seed, "limit": limit, "style": style}
    counts: dict[str, Any] = {"facts": len(asked)}
    usage: dict[str, Any] = {}
    if settings is None:
        source = TEMPLATES
        outcomes: list[Outcome] = [by_templates(fact, seed) for fact in asked]
    else:
        source = settings.model
        outcomes, used = _ask(asked, relation_examples(every), settings, cache, seed, style)
        usage = asdict(used)
        if prices[0] is not None and prices[1] is not None:
            usage["cost"], usage["cost_of_all_runs"] = used.cost(prices[0], prices[1])
        address = settings.base_url or os.environ.get("OPENAI_BASE_URL")
        shown = None if address is None else public_url(address)
        parameters |= {**asdict(settings), "base_url": shown, "prices": prices}
    counts["verbalised"] = sum(isinstance(outcome, Verbalised) for outcome in outcomes)
    counts["failed"] = count_reasons(outcomes)
    write_table(f"{out}.failed.jsonl", failures_table(outcomes))
    write_table(out, questions_table(table, outcomes, source))
    write_manifest(
        out,
        command="verbalize",
        parameters={"source": source, **parameters},
        inputs={str(facts): file_fingerprint(facts)},
        counts={**counts, **({"usage": usage} if usage else {})},
    )
    return {**counts, "source": source, **({"usage": usage} if usage else {})}


def _ask(
    asked: "list[FactToWord]",
    examples: "dict[str, list[FactToWord]]",
    settings: "LlmSettings",
    cache: Path | None,
    seed: int,
    style: str,
) -> "tuple[list[Outcome], Usage]":
    """What a model makes of each fact, and what that took.

    examples: of the whole table, so that the first facts are asked in the same words when the rest follows.
    """
    from anachron.text.llm import unusable
    from anachron.text.verbalize import QUESTIONS_SCHEMA, Failed, by_answer, prompt_of

    prompts = [prompt_of(fact, examples, style) for fact in asked]
    good = [prompt for prompt in prompts if not isinstance(prompt, Failed)]
    answers, usage = ask_model(good, settings, cache, QUESTIONS_SCHEMA)
    outcomes: list[Outcome] = []
    replies = iter(answers)
    for fact, prompt in zip(asked, prompts, strict=True):
        if isinstance(prompt, Failed):
            outcomes.append(prompt)
            continue
        reply = next(replies)
        if (no_use := unusable(reply)) is not None:
            outcomes.append(Failed(fact.fact_id, no_use.reason, no_use.detail))
        else:
            outcomes.append(by_answer(fact, reply.text, seed, style))
    return outcomes, usage


def ask_model(
    prompts: list[str], settings: "LlmSettings", cache: Path | None, schema: dict[str, Any]
) -> "tuple[list[Any], Usage]":
    """Replies of a model to prompts, kept in the cache that was chosen, with a bar; and what that took."""
    from anachron.text.answers import AnswerCache, default_cache
    from anachron.text.llm import ask_all

    kept = AnswerCache(cache if cache is not None else default_cache())
    with progress_bar("asking") as progress:
        return ask_all(prompts, settings, kept, schema=schema, progress=progress, notice=say)


def _sample(questions: Path, size: int | None, sample_out: Path | None, seed: int) -> None:
    from anachron.io import write_table
    from anachron.text.question_tables import draw_sample
    from anachron.text.spreadsheets import harmless

    assert size is not None and sample_out is not None
    table = _questions(questions)
    if not table.height:
        return
    drawn = draw_sample(table, size, seed)
    write_table(sample_out, harmless(drawn))  # it is filled in in a spreadsheet
    fewer = "" if drawn.height == size else f" (there are no more than {drawn.height})"
    say(f"{drawn.height:,} questions to judge written to {sample_out}{fewer}: fill in yes or no in the column good")


def _judge(questions: Path, judged: Path, json_: bool) -> None:
    from anachron.io import read_table
    from anachron.statistics import wilson_finite
    from anachron.text.question_tables import read_judged

    found = read_judged(read_table(judged), _questions(questions), str(judged))
    low, high = wilson_finite(found.good, found.judged, found.population)
    share = found.good / found.judged
    if json_:
        print_json(
            {
                "good": found.good,
                "judged": found.judged,
                "questions": found.population,
                "share": share,
                "low": low,
                "high": high,
                "confidence": 0.95,
            }
        )
        return
    stdout().print(
        f"{found.good} of {found.judged} questions are good: {share:.3f}, 95 % interval [{low:.3f}, {high:.3f}] "
        f"(Wilson, corrected for the {found.population:,} questions there are)",
        markup=False,
    )


def _questions(path: Path) -> "pl.DataFrame":
    from anachron.errors import DataError
    from anachron.io import read_table

    table = read_table(path)
    if missing := [c for c in ("fact_id", "object_label", "question") if c not in table.columns]:
        raise DataError(f"{path}: no column {', '.join(missing)}; give a table that verbalize wrote")
    return table


def _lines(summary: dict[str, Any]) -> str:
    """The summary for people."""
    lines = [f"{summary['facts']:,} facts, {summary['verbalised']:,} with questions by {summary['source']}"]
    lines += [f"  {count:,} dropped: {reason}" for reason, count in summary["failed"].items()]
    if usage := summary.get("usage"):
        lines.append(
            f"{usage['answers']:,} answers asked for in {usage['requests']:,} requests ({usage['retries']:,} of them "
            f"tried again), {usage['kept']:,} kept from before"
        )
        lines.append(f"tokens: {usage['prompt_tokens']:,} read, {usage['completion_tokens']:,} written")
        if usage["uncounted"]:
            lines.append(f"  {usage['uncounted']:,} answers came without a count of their tokens")
        if "cost" in usage:
            lines.append(f"cost: {usage['cost']:.4f} now, {usage['cost_of_all_runs']:.4f} over all runs")
    return "\n".join(lines)
