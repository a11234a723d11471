"""The command ``verbalize``: questions for facts by a language model or templates, and samples judged by a person."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.options import (
    AnswerFolder,
    Instructions,
    JsonFlag,
    Language,
    LlmBaseUrl,
    LlmName,
    LlmOptions,
    PriceIn,
    PriceOut,
    ReadingOptions,
    Templates,
    given,
    instructions_in,
)
from anachron.cli.output import on_screen, print_json, say, stdout, warn
from anachron.cli.outputs import FILE, QUESTIONS
from anachron.core.errors import ConfigError
from anachron.io.stores import Place, place

if TYPE_CHECKING:
    from anachron.io.llm_settings import LlmSettings


def verbalize(
    *,
    facts: Annotated[
        Path, typer.Argument(help="Table of facts; with --judged, or to draw another sample, a table of questions.")
    ],
    out: Annotated[Path | None, typer.Option(help="File for the questions: .parquet or .jsonl."), QUESTIONS] = None,
    llm: LlmName = None,
    base_url: LlmBaseUrl = None,
    templates: Templates = False,
    seed: Annotated[
        int, typer.Option(help="Seed for choosing one of each fact's four questions, and for the sample.")
    ] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only the first N facts, to try out a model.")] = None,
    reading: ReadingOptions,
    language: Language = None,
    style: Annotated[str | None, typer.Option(help="Wording of dates. Default: that of the language.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Draw this many questions for a person to judge.")] = None,
    sample_out: Annotated[
        Path | None, typer.Option(help="File for the sample: .csv, with an empty column good to fill in."), FILE
    ] = None,
    judged: Annotated[
        Path | None, typer.Option(help="A sample filled in with yes and no: print the share of good questions.")
    ] = None,
    asking: LlmOptions,
    instructions: Instructions = None,
    cache: AnswerFolder = None,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
    json_: JsonFlag = False,
) -> None:
    """Write and check four questions for each fact and draw one of them; facts without a good set are listed.

    If interrupted, repeat the same command to resume: a model's answers are cached, and none is paid for twice.

    Example: anachron verbalize facts.parquet --out questions.parquet --templates
    """
    from anachron.data.question_files import verbalise

    _check_sample(sample, sample_out)
    if out is None:
        if llm is not None or templates or (judged is None) == (sample is None):
            raise ConfigError("give --out FILE to write questions; or, of questions, one of --judged and --sample")
        if judged is not None:
            _judge(facts, judged, json_)
    else:
        if judged is not None:
            raise ConfigError("--judged reads questions that exist; leave out --out")
        if (price_in is None) != (price_out is None):
            raise ConfigError("give both --price-in and --price-out, or neither")
        more = {"cache": cache, "price_in": price_in, "instructions": instructions}
        writer = chosen_writer(llm, templates, asking, base_url, **more)
        prices = None if price_in is None or price_out is None else (price_in, price_out)
        summary = verbalise(
            facts, out, writer, style=style, language=language, seed=seed, limit=limit, cache=cache, prices=prices,
            instructions=instructions_in(instructions), callbacks=on_screen(), reading=reading.reading(),
        )  # fmt: skip
        _tell(summary, place(out), json_)
    if sample is not None and sample_out is not None:
        _sample(facts if out is None else out, sample, place(sample_out), seed)


def chosen_writer(
    llm: str | None, templates: bool, asking: LlmOptions, base_url: str | None, **for_models: Any
) -> "LlmSettings | None":
    """How the model is asked that writes the questions; None where templates write them.

    for_models: further options that templates have no use for. Raises `ConfigError` for neither or both, and for an
    address or number that cannot be.
    """
    if (llm is None) == (not templates):
        raise ConfigError("say who writes the questions: --llm MODEL, or --templates")
    if llm is not None:
        return asking.settings(llm, base_url)
    for_models |= {"same_as": asking.same_as, "max_tokens": asking.max_tokens}
    unused = given(base_url=base_url, api_key_env=asking.api_key_env, **for_models)
    if unused is not None:
        raise ConfigError(f"{unused} is for --llm; templates ask no server")
    return None


def _check_sample(sample: int | None, sample_out: Path | None) -> None:
    if (sample is None) != (sample_out is None):
        raise ConfigError("give both --sample N and --sample-out FILE.csv, or neither")
    if sample_out is not None and sample_out.suffix != ".csv":
        raise ConfigError(f"--sample-out {sample_out}: the sample is a .csv file, to be filled in by hand")


def _sample(questions: Path, size: int, sample_out: Place, seed: int) -> None:
    from anachron.data.question_files import sample_questions

    drawn = sample_questions(questions, sample_out, size, seed=seed)
    if drawn:
        fewer = "" if drawn == size else f" (there are no more than {drawn})"
        say(f"{drawn:,} questions to judge written to {sample_out}{fewer}: fill in yes or no in the column good")


def _judge(questions: Path, judged: Path, json_: bool) -> None:
    from anachron.analysis.statistics import CONFIDENCE, wilson_finite
    from anachron.data.question_files import judged_questions

    counted = judged_questions(questions, judged)
    low, high = wilson_finite(counted.good, counted.judged, counted.population)
    share = counted.good / counted.judged
    if json_:
        numbers = {"good": counted.good, "judged": counted.judged, "questions": counted.population, "share": share}
        print_json(numbers | {"low": low, "high": high, "confidence": CONFIDENCE})
        return
    stdout().print(
        f"{counted.good} of {counted.judged} questions are good: {share:.3f}, 95 % interval [{low:.3f}, {high:.3f}] "
        f"(Wilson, corrected for a population of {counted.population:,} questions)",
        markup=False,
    )


def _tell(summary: dict[str, Any], out: Place, json_: bool) -> None:
    """Print the summary; a table without any question ends the command with code 1."""
    if json_:
        print_json(summary)
        _say_written(summary, out)
    else:
        print_questions(summary, out)
    if not summary["verbalised"]:
        warn(f"no fact got its questions; {out}.failed.jsonl says why, fact by fact")
        raise typer.Exit(1)


def print_questions(summary: dict[str, Any], out: Place) -> None:
    """The summary of `anachron.verbalise` for people."""
    lines = [f"{summary['facts']:,} facts, {summary['verbalised']:,} with questions by {summary['source']}"]
    lines += [f"  {count:,} dropped: {reason}" for reason, count in summary["failed"].items()]
    if usage := summary.get("usage"):
        lines.append(
            f"{usage['answers']:,} answers requested in {usage['requests']:,} requests ({usage['retries']:,} of them "
            f"retries), {usage['kept']:,} reused from before"
        )
        lines.append(f"tokens: {usage['prompt_tokens']:,} read, {usage['completion_tokens']:,} written")
        if usage["uncounted"]:
            lines.append(f"  {usage['uncounted']:,} answers came without a token count")
        if "cost" in usage:
            lines.append(f"cost: {usage['cost']:.4f} now, {usage['cost_of_all_runs']:.4f} over all runs")
    stdout().print("\n".join(lines), markup=False)
    _say_written(summary, out)


def _say_written(summary: dict[str, Any], out: Place) -> None:
    if summary["verbalised"]:
        say(f"{summary['verbalised']:,} of {summary['facts']:,} facts written to {out}")
