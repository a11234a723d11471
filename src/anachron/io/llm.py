"""Asks a language model behind any server that speaks the OpenAI protocol: patiently, many at a time, once each.

Needs the extra ``llm``. `anachron.io.llm_requests` says what ends a run, what is tried
again and what is left out.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from anachron.core.errors import ConfigError, DataError
from anachron.io.answers import Answer, AnswerCache, damaged_answers, default_cache, prompt_key
from anachron.io.clients import Client
from anachron.io.jobs import Callbacks
from anachron.io.llm_requests import Asker
from anachron.io.llm_settings import UNPAID, Learned, LlmSettings, Meter, NoAnswer, Usage
from anachron.io.servers import UNKNOWN
from anachron.io.untrusted import believed


def readable(reply: Answer | NoAnswer) -> Answer | NoAnswer:
    """An answer that can be read; for one that was refused or cut off, why it cannot."""
    if isinstance(reply, NoAnswer):
        return reply
    if reply.refusal or reply.finish == "content_filter":
        return NoAnswer("refused by the model", reply.refusal or "content filter")
    if reply.cut_off:
        return NoAnswer("answer cut off", "raise --max-tokens or the server's limit")
    return reply


def ask_all(
    prompts: Sequence[str],
    settings: LlmSettings,
    cache: AnswerCache | Path | None = None,
    *,
    schema: dict[str, Any] | None = None,
    keep_cut_off: bool = False,
    client: Client | None = None,
    meter: Meter | None = None,
    learned: Learned | None = None,
    callbacks: Callbacks | None = None,
) -> tuple[list[Answer | NoAnswer], Usage]:
    """Answers to texts, in their order. The same text is asked once; one whose whole answer is on disk is not asked.

    cache: where answers are kept, by default one folder for all runs, in the user's cache folder.
    schema: a JSON schema that the answer must follow, where the server can hold the model to one.
    keep_cut_off: an answer that ended at the server's limit is an answer, and not asked for again.
    client: one that is open, for those who ask several times.
    meter: counts what requests cost, and ends them: what is not asked then is a `NoAnswer` for the reason `UNPAID`.
    learned: what the server does not take, for those who ask several times.
    callbacks: told (answers, of how many), and what the run does without.

    Raises `DataError` where kept answers are not as they were written, `ConfigError` for those of an earlier version
    (see ``same_as``), and `ConfigError` or `BackendError` when no request can succeed; what was answered until then is
    kept, and the same call goes on from there.
    """
    callbacks = callbacks or Callbacks()
    kept_answers = cache if isinstance(cache, AnswerCache) else AnswerCache(cache or default_cache())
    parameters = {"temperature": settings.temperature, "max_tokens": settings.max_tokens, "schema": schema}
    keys = [prompt_key(settings.model, prompt, parameters, settings.identity) for prompt in prompts]
    texts = dict(zip(keys, prompts, strict=True))
    usage, meter = Usage(), meter or Meter()
    answers: dict[str, Answer | NoAnswer] = {}
    for key, kept in _kept(texts, settings, kept_answers, parameters, keep_cut_off, callbacks).items():
        if kept is not None:
            answers[key] = kept = believed(kept, texts[key])[0]  # an earlier version kept what the server said
            meter.kept(texts[key], kept)
            usage.kept += 1
            usage.kept_prompt_tokens += kept.prompt_tokens or 0
            usage.kept_completion_tokens += kept.completion_tokens or 0
    missing = {key: text for key, text in texts.items() if key not in answers}
    with callbacks.bar("asking") as bar:
        bar.progress(len(answers), len(texts))
        if missing:
            asker = Asker(
                settings, kept_answers, schema, usage, bar.notice, keep_cut_off, client, meter, learned or Learned(),
                bar.warn,
            )  # fmt: skip
            _ask_missing(asker, missing, answers, bar)
    return [answers[key] for key in keys], usage


def _kept(
    texts: dict[str, str], settings: LlmSettings, cache: AnswerCache, parameters: dict[str, Any], keep_cut_off: bool,
    callbacks: Callbacks,
) -> dict[str, Answer | None]:  # fmt: skip
    """The kept answer to each text, by key: of the server, or of one that is said to be the same.

    Raises `DataError` where some are damaged, for nothing is paid for twice unasked, and `ConfigError` where answers of
    an earlier version would do, of which nobody said who gave them.
    """
    found: dict[str, Answer | None] = {}
    damaged: list[Path] = []
    same_as, unnamed = settings.same_as or (), 0

    def usable(kept: Answer) -> bool:
        # an answer that was cut off is asked for again: the server's limit may have been raised since
        return keep_cut_off or not kept.cut_off

    for key, text in texts.items():
        places = [key, *(prompt_key(settings.model, text, parameters, url) for url in same_as if url != UNKNOWN)]
        found[key] = cache.find(places, damaged, usable)
        if found[key] is None and (old := cache.unnamed(settings.model, text, parameters)) and usable(old):
            found[key] = old
            unnamed += 1
    if unnamed and UNKNOWN not in same_as:
        raise ConfigError(
            f"{unnamed:,} answers in {cache.folder} are of an earlier version, which recorded neither their server nor "
            f"a checksum; if {settings.identity} gave them, add --same-as {UNKNOWN} to use them as they are, or choose "
            "another folder of answers to ask anew"
        )
    if unnamed:
        callbacks.notice(f"{unnamed:,} answers of an earlier version are used unchecked, as --same-as {UNKNOWN} says")
    if damaged:
        raise DataError(
            f"{damaged_answers(damaged, cache.folder)}; delete them and they will be asked for again, which costs again"
        )
    return found


def _ask_missing(asker: Asker, texts: dict[str, str], answers: dict[str, Answer | NoAnswer], bar: Callbacks) -> None:
    """Ask each of the texts, by key, in threads, and put its answer to those that are there.

    They are begun in their order, as many at a time as there are threads, and as the meter allows.
    """
    total, settings, meter = len(answers) + len(texts), asker.settings, asker.meter
    waiting, running = deque(texts.items()), dict[Future[Answer | NoAnswer], str]()
    with ThreadPoolExecutor(min(settings.concurrency, len(texts)), "ask") as pool:
        done: SimpleQueue[Future[Answer | NoAnswer]] = SimpleQueue()
        try:
            while len(answers) < total:
                while waiting and len(running) < settings.concurrency:
                    if not meter.take(waiting[0][1], settings.max_tokens):
                        break
                    key, text = waiting.popleft()
                    future = pool.submit(asker.ask, key, text)
                    running[future] = key
                    future.add_done_callback(done.put)
                if not running:  # nothing more can be paid
                    for key, text in waiting:
                        answers[key] = meter.failure(text) or NoAnswer(UNPAID, "a larger --budget goes on from here")
                    return
                try:  # a short wait, for an endless one may never hear of Ctrl-C
                    future = done.get(timeout=0.2)
                except Empty:
                    continue
                key = running.pop(future)
                answers[key] = reply = future.result()
                if isinstance(reply, NoAnswer):
                    meter.failed(texts[key], reply)
                bar.progress(len(answers), total)
        except BaseException:
            asker.stop.set()  # requests under way end by themselves, and their answers are kept
            pool.shutdown(wait=False, cancel_futures=True)
            raise
