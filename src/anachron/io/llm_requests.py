"""The requests of one run to a language model, from many threads: what is tried again, and what ends the run.

What stops everything at once: no server, a refused key, an unknown model, an exhausted account, a server that answers
nobody. What is tried again, with growing pauses: too many requests (its Retry-After is honoured), errors of the server,
time-outs, cut connections. What is counted and left out: a single request that is refused, or that gets no answer after
all tries. Where the first few are all refused, an innocent one tells whether the server refuses the form of our
requests, which ends the run, or their content.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tenacity import stop_after_attempt, stop_when_event_set

from anachron.core.errors import BackendError, ConfigError
from anachron.io.answers import Answer, AnswerCache
from anachron.io.clients import Client, Refused, Unanswered
from anachron.io.llm_settings import Learned, LlmSettings, Lost, Meter, NoAnswer, Usage
from anachron.io.retries import LONGEST_RETRY_AFTER, Failure, repeating
from anachron.io.servers import open_to_all, redirected
from anachron.io.untrusted import believed, reasoning_of, text_of

LONGEST_PAUSE = 60.0  # seconds between tries that we choose ourselves
REFUSALS = 3  # requests refused before any was answered: then it may be the request's form, not its content
PLAIN = "Answer with the word yes."  # nothing that a rule on content could refuse
KEY_LENGTH = 16  # of what is surely a key, and not a word that an answer may hold
DROPPABLE = ("response_format", "temperature")  # what a server may not know, and can do without
LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"  # two names of one limit, of which some servers take one
OF_VALUE = re.compile(
    r"too (large|small|high|low)|at (least|most)|must be|greater|less than|exceed|_value", re.IGNORECASE
)
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)  # of a reply of another form
UNREACHED = ("ConnectError", "UnsupportedProtocol", "InvalidURL")  # no server is there
SLOW = (408, 504, 524)  # an error that tells of a time-out: what was written until then may be paid for


@dataclass(slots=True)
class Asker:
    """One run's requests: what all its threads share."""

    settings: LlmSettings
    cache: AnswerCache
    schema: dict[str, Any] | None
    usage: Usage
    notice: Callable[[str], None]
    keep_cut_off: bool = False
    client: Client | None = None  # one that is there
    meter: Meter = field(default_factory=Meter)
    learned: Learned = field(default_factory=Learned)
    warn: Callable[[str], None] = lambda message: None
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    heard: bool = False  # any reply of the server, errors too
    refused: int = 0
    form_taken: bool | None = None  # whether `PLAIN` was answered; None where that is not known
    asking_plain: threading.Lock = field(default_factory=threading.Lock)
    unanswered: int = 0  # in a row
    web: Client = field(init=False)

    def __post_init__(self) -> None:
        self.web = self.client or Client(self.settings)
        if (warning := open_to_all(self.web.address, self.web.key)) is not None:
            self.notice(warning)

    def ask(self, key: str, prompt: str) -> Answer | NoAnswer:
        """One prompt's answer, kept on disk; or why there is none. Raises what concerns all, and ends the run.

        Its first request was taken of the meter by who calls; those that follow, for whatever reason, are taken here.
        """
        try:
            return self._ask(key, prompt)
        except BaseException:
            self.stop.set()  # here, for a free thread would begin the next prompt before the error is seen elsewhere
            raise

    def _ask(self, key: str, prompt: str) -> Answer | NoAnswer:
        if self.stop.is_set():
            self.meter.settle(prompt, "nothing")
        seen = ""  # what the last request met

        def attempt() -> Answer | NoAnswer:
            nonlocal seen
            while not self.stop.is_set():  # again at once for each parameter that is left out from now on
                if seen and not self._take(prompt):
                    if self.stop.is_set():
                        break
                    return NoAnswer("no answer from the server", f"{seen}; the budget allows no other try")
                try:
                    reply = self._once(prompt, last=again.statistics["attempt_number"] == self.settings.tries)
                except Failure as failure:
                    seen = str(failure)
                    raise
                if not isinstance(reply, str):
                    return reply
                seen = reply
            raise Failure(seen)  # never tried again: the run has ended

        over = stop_after_attempt(self.settings.tries) | stop_when_event_set(self.stop)
        again = repeating(
            self.settings.pause, LONGEST_PAUSE, over, self.stop.wait, longest_wait=LONGEST_RETRY_AFTER,
            apart=self.settings.pause, before_sleep=self._count_retry,
        )  # fmt: skip
        try:
            reply = again(attempt)
        except Failure as last:
            asked = "" if (last.wait or 0) <= LONGEST_RETRY_AFTER else f"; the server asks to wait {last.wait:.0f} s"
            return self._give_up(again.statistics["attempt_number"], f"{last}{asked}")
        if isinstance(reply, Answer):
            self._keep(key, prompt, reply)
        return reply

    def _count_retry(self, state: object) -> None:
        with self.lock:
            self.usage.retries += 1

    def _once(self, prompt: str, *, last: bool) -> Answer | NoAnswer | str:
        """One request: its answer, why there will be none, or a refusal of what is left out from now on.

        last: whether no other try follows. Raises a `Failure` that passes, and what concerns all.
        """
        sent = self._sent()
        with self.lock:
            self.usage.requests += 1
        try:
            return self._metered(prompt, sent)
        except Refused as error:
            self.heard = True
            self._raise_for_all(error)
            if self._drop(error, sent):
                return str(error)
            if not error.passing:
                return self._refuse(str(error))
            raise
        except Unanswered as error:
            if error.kind in UNREACHED and (last or not self.heard):
                after = f"stopped answering after {self.usage.answers} answers, which are kept"
                raise BackendError(
                    f"no server at {self.web.where} ({after if self.heard else error.cause}); start it or correct "
                    "--base-url"
                ) from None
            raise
        except UNREADABLE as error:
            self.heard = True  # a reply in no form that the protocol knows, such as a page of a proxy
            raise Failure(
                f"a reply that is not a chat completion ({type(error).__name__}); does --base-url end in /v1?"
            ) from None

    def _take(self, prompt: str) -> bool:
        """Whether the meter allows another request; it is waited for what others may leave of a budget."""
        while not self.stop.is_set():
            if self.meter.take(prompt, self.settings.max_tokens):
                return True
            if self.meter.idle:
                return False
            self.stop.wait(0.05)
        return False

    def _sent(self) -> set[str]:
        """The parameters that a request is sent with, of those that a server may not take."""
        return {name for name in (*DROPPABLE, LIMIT) if name not in self.learned.dropped}

    def _metered(self, prompt: str, sent: set[str]) -> Answer:
        """A request, of which the meter learns what became of it. Raises as `_request`."""
        came: Answer | Lost = "unknown"
        try:
            came = self._request(prompt, sent)
            return came
        except Refused as error:
            came = "nothing" if error.status == 429 else "unknown" if error.status in SLOW else "refused"
            raise
        except Unanswered as error:
            came = "unknown" if error.sent else "nothing"
            raise
        finally:
            self.meter.settle(prompt, came)

    def _request(self, prompt: str, sent: set[str]) -> Answer:
        options: dict[str, Any] = {}
        if "temperature" in sent:
            options["temperature"] = self.settings.temperature
        if "response_format" in sent and self.schema is not None:
            shape = {"name": "answer", "strict": True, "schema": self.schema}
            options["response_format"] = {"type": "json_schema", "json_schema": shape}
        if self.settings.max_tokens is not None:
            options[LIMIT if LIMIT in sent else NEW_LIMIT] = self.settings.max_tokens
        # one message: not every chat template knows the role system
        asked: Any = {"model": self.settings.model, "messages": [{"role": "user", "content": prompt}], **options}
        reply = self.web.ask(lambda api: api.chat.completions.create(**asked))
        if len(self.web.key) >= KEY_LENGTH and self.web.key in str(reply):
            raise BackendError(
                f"{self.web.where} repeats the key in its answer, which is therefore not kept; do not trust it"
            )
        choice, usage = reply.choices[0], reply.usage
        message = choice.message
        text, thought = text_of(message.content), reasoning_of(message)
        if not all(isinstance(words or "", str) for words in (text, thought, message.refusal, choice.finish_reason)):
            raise TypeError("words that are no text")
        answer = Answer(
            text=text or "", finish=choice.finish_reason, refusal=message.refusal,
            prompt_tokens=getattr(usage, "prompt_tokens", None),
            completion_tokens=getattr(usage, "completion_tokens", None),
            served_by=None if reply.model is None else str(reply.model), reasoning=thought or None,
        )  # fmt: skip
        return self.believed(answer, prompt)

    def believed(self, answer: Answer, prompt: str) -> Answer:
        """An answer without what cannot be; each kind of fault is warned of once in a run."""
        clean, faults = believed(answer, prompt)
        with self.lock:
            self.usage.doubted += bool(faults)
            fresh = [words for kind, words in faults.items() if kind not in self.learned.warned]
            self.learned.warned |= faults.keys()
        for words in fresh:
            self.warn(words)
        return clean

    def _keep(self, key: str, prompt: str, answer: Answer) -> None:
        if self.keep_cut_off or not answer.cut_off:
            self.cache.put(key, self.settings.model, prompt, answer, self.settings.identity)
        with self.lock:
            self.heard, self.unanswered = True, 0
            self.usage.answers += 1
        self._count(answer)

    def _count(self, answer: Answer) -> None:
        """Count the tokens of an answer, which are paid for whatever becomes of it."""
        with self.lock:
            self.usage.prompt_tokens += answer.prompt_tokens or 0
            self.usage.completion_tokens += answer.completion_tokens or 0
            self.usage.uncounted += answer.prompt_tokens is None

    def _raise_for_all(self, error: Refused) -> None:
        """What no other prompt would fare better with. Without its cause: a server may echo a part of the key."""
        status, where, name = error.status, self.web.where, self.settings.api_key_env or "OPENAI_API_KEY"
        if 300 <= status < 400:
            raise ConfigError(self.web.hide(redirected(where, status, error.headers))) from None
        if status in (401, 403) and not self.web.key:
            raise ConfigError(
                f"{where} wants a key (HTTP {status}); name the variable that holds it with --api-key-env"
            ) from None
        if status in (401, 403):
            words = f": {error.words}" if status == 403 else ""
            raise ConfigError(
                f"{where} refuses the key (HTTP {status}{words}); set {name} in the environment to a good one"
            ) from None
        if status == 404:
            raise ConfigError(
                f"{where} has no model {self.settings.model!r} (HTTP 404: {error.words}); check its name and that "
                "--base-url ends as the server wants it, mostly in /v1"
            ) from None
        if status == 429 and error.code == "insufficient_quota":
            raise BackendError(f"{where}: the account has no credit left; what was answered is kept") from None

    def _drop(self, error: Refused, sent: set[str]) -> bool:
        """Whether the server refused something that can be left out or named otherwise, as it is from now on."""
        if error.status not in (400, 422, 501):
            return False
        words = (error.param or error.words).replace("json_schema", "response_format")
        named = next((name for name in (*DROPPABLE, LIMIT) if name in sent and name in words), None)
        absent = {"response_format": self.schema, LIMIT: self.settings.max_tokens}
        if named is None or absent.get(named, named) is None:
            return False
        if named == LIMIT and OF_VALUE.search(f"{error.code} {error.words}"):
            return False  # under its other name it might be passed over, and then nothing would hold answers to it
        with self.lock:
            news = named not in self.learned.dropped
            self.learned.dropped.add(named)
        if news:
            instead = f"{NEW_LIMIT} is sent instead" if named == LIMIT else "it is left out"
            self.notice(f"the server takes no {named}; {instead} from now on")
        return True

    def _refuse(self, seen: str) -> NoAnswer:
        """Count a refusal. Raises `BackendError` where the server refuses the form of our requests, not their content.

        Answers show that it takes the form, those kept from runs before as well. Where there is none yet, a request of
        the same form with an innocent content decides.
        """
        with self.lock:
            self.refused += 1
        if self.refused < REFUSALS or self.usage.answers or self.usage.kept:
            return NoAnswer("request refused", seen)
        with self.asking_plain:
            if self.form_taken is None and not self.stop.is_set():
                self.form_taken = self._ask_plain()
        if self.form_taken is False and not self.usage.answers:
            raise BackendError(f"{self.web.where} refuses every request ({seen})")
        return NoAnswer("request refused", seen)

    def _ask_plain(self) -> bool | None:
        """Whether the server answers `PLAIN` in the form of all requests; None where it neither answers nor refuses."""
        if not self.meter.take(PLAIN, self.settings.max_tokens):
            return None
        with self.lock:
            self.usage.requests += 1
        try:
            answer = self._metered(PLAIN, self._sent())
        except Refused as error:
            return None if error.passing else False
        except (Unanswered, *UNREADABLE):
            return None  # the requests that follow will show what is wrong
        self._count(answer)
        return True

    def _give_up(self, tries: int, seen: str) -> NoAnswer:
        if self.stop.is_set():
            return NoAnswer("stopped", "the run ended before this request")
        with self.lock:
            self.unanswered += 1
            dead = self.unanswered >= max(3, self.settings.concurrency)
        if dead:
            raise BackendError(
                f"{self.web.where} left {self.unanswered} requests in a row unanswered ({tries} tries each; the last: "
                f"{seen}); {self.usage.answers} answers are kept, and the same command goes on from there"
            )
        return NoAnswer("no answer from the server", f"{tries} tries; the last: {seen}")
