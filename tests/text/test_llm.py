"""Asking a model: a real server on this machine that answers, fails, hangs and lies as scripted."""

import json
import socket
import threading
import time
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest

from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.io.answers import Answer, AnswerCache, default_cache, prompt_key
from anachron.io.jobs import Callbacks
from anachron.io.llm import ask_all
from anachron.io.llm_settings import LlmSettings, NoAnswer, Usage
from anachron.io.servers import key_for, open_to_all, public_url, retry_after, secrets_of, server_identity, shown
from support.llm_server import Reply, Server, chat, error, prompt_of, serving

pytestmark = pytest.mark.skipif(find_spec("openai") is None, reason="needs the extra llm")
KEY = "sk-very-secret-0123456789"
SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def ask(server: Server | str, cache: Path, prompts=("a",), *, schema=None, notice=lambda m: None, **options):
    options = {"pause": 0.001, "timeout": 5.0, "concurrency": 1, "tries": 3, "api_key_env": "OPENAI_API_KEY"} | options
    settings = LlmSettings("m", server if isinstance(server, str) else server.url, **options)
    return ask_all(list(prompts), settings, AnswerCache(cache), schema=schema, callbacks=Callbacks(notice=notice))


def echo(request: dict, number: int) -> Reply:
    return chat("re: " + prompt_of(request))


def texts(answers) -> list[str]:
    return [a.text if isinstance(a, Answer) else a.reason for a in answers]


def test_answers_come_in_the_order_of_the_prompts_whatever_the_concurrency(tmp_path: Path):
    def slow(request: dict, number: int) -> Reply:
        time.sleep(0.002 * (number % 3))
        return echo(request, number)

    prompts = [f"p{i}" for i in range(40)]
    with serving(slow) as server:
        answers, usage = ask(server, tmp_path, prompts, concurrency=6)
        assert 1 < server.most <= 6
    assert texts(answers) == [f"re: {p}" for p in prompts]
    assert usage == Usage(requests=40, answers=40, prompt_tokens=4000, completion_tokens=800)


def test_what_is_sent(tmp_path: Path):
    with serving(echo) as server:
        ask(server, tmp_path, schema=SCHEMA, temperature=0.5, max_tokens=7)
        (request,), (headers,) = server.requests, server.headers
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert request["model"] == "m" and request["temperature"] == 0.5 and request["max_tokens"] == 7
    assert request["messages"] == [{"role": "user", "content": "a"}]
    assert request["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
    }


def test_nothing_is_asked_for_twice(tmp_path: Path):
    with serving(echo) as server:
        first, _ = ask(server, tmp_path, ["a", "b", "a", "a"], concurrency=4)
        second, usage = ask(server, tmp_path, ["b", "a", "c"])
        assert server.times_asked() == {"a": 1, "b": 1, "c": 1}
    assert texts(first) == ["re: a", "re: b", "re: a", "re: a"]
    assert texts(second) == ["re: b", "re: a", "re: c"]
    assert usage == Usage(1, 0, 1, 2, 100, 20, 200, 40)
    assert usage.cost(10, 100) == pytest.approx((0.003, 0.009))


def test_an_answer_that_was_cut_off_is_asked_for_again(tmp_path: Path):
    with serving(lambda r, n: chat("re", finish="length")) as server:
        (first,), usage = ask(server, tmp_path)
        assert first.finish == "length" and (usage.answers, usage.completion_tokens) == (1, 20)
        key = prompt_key("m", "a", {"temperature": 0.0, "max_tokens": None, "schema": None}, server.url)
        AnswerCache(tmp_path).put(key, "m", "a", first)  # as runs before this rule kept it
        (second,), usage = ask(server, tmp_path)
        assert second == first and (usage.kept, usage.kept_prompt_tokens, usage.answers) == (0, 0, 1)
    with serving(echo) as server:
        assert texts(ask(server, tmp_path)[0]) == texts(ask(server, tmp_path)[0]) == ["re: a"]
        assert len(server.requests) == 1


def test_another_address_is_asked_itself_unless_it_is_said_to_serve_the_same_model(tmp_path: Path):
    """Two servers may call different models by one name."""
    with serving(lambda r, n: chat("one")) as one, serving(lambda r, n: chat("other")) as other:
        assert texts(ask(one, tmp_path)[0]) == ["one"]
        assert texts(ask(other, tmp_path)[0]) == ["other"] and len(other.requests) == 1
        ask(one, tmp_path / "earlier")
        answers, usage = ask(other, tmp_path / "earlier", same_as=("http://nobody:1/v1", one.url + "/"))
        assert texts(answers) == ["one"] and usage.kept == 1 and len(other.requests) == 1
        with pytest.raises(ConfigError, match="server address 'nobody'"):
            ask(other, tmp_path, same_as=("nobody",))


@pytest.mark.parametrize(
    ("address", "identity"),
    [
        ("HTTP://Host:80/v1/", "http://host/v1"),
        ("https://host:443", "https://host"),
        ("http://host:443/v1", "http://host:443/v1"),
        ("https://me:pw@host/a/B?api-version=1&key=k", "https://host/a/B"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_an_address_has_one_spelling_and_nothing_secret(address: str, identity: str):
    assert server_identity(address) == server_identity(identity) == identity
    recorded = LlmSettings("m", address, same_as=(address,)).recorded()
    assert recorded["base_url"] == identity and recorded["same_as"] == [identity]


def test_the_public_service_has_an_address_like_others(monkeypatch: pytest.MonkeyPatch):
    assert LlmSettings("m").identity == LlmSettings("m", "https://api.openai.com:443/v1/").identity
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gpu-box:8000/v1")
    assert LlmSettings("m").recorded()["base_url"] == "http://gpu-box:8000/v1"


@pytest.mark.parametrize("altered", ["bit", "text", "another", "short", "no sum"])
def test_kept_answers_that_were_altered_are_refused_and_nothing_is_asked(tmp_path: Path, altered: str):
    with serving(echo) as server:
        ask(server, tmp_path, ["in 1994", "in 1995", "b"])
        one, two = (next(f for f in tmp_path.rglob("*.json") if f"in {year}" in f.read_text()) for year in (1994, 1995))
        held = one.read_bytes()
        content = {name: value for name, value in json.loads(held).items() if name != "sha256"}
        one.write_bytes({
            "bit": held.replace(b"re: in 1994", b"re: in 1995"), "text": held.replace(b"re: in", b"re: the"),
            "another": two.read_bytes(), "short": held[:-20], "no sum": json.dumps(content).encode(),
        }[altered])  # fmt: skip
        with pytest.raises(
            DataError, match=r"^1 kept answers in .* are not as they were written .*; delete them"
        ) as no:
            ask(server, tmp_path, ["b", "in 1994", "new"])
        assert one.name in str(no.value) and "\n" not in str(no.value) and len(server.requests) == 3
        one.unlink()
        answers, usage = ask(server, tmp_path, ["b", "in 1994"])
    assert texts(answers) == ["re: b", "re: in 1994"] and (usage.kept, usage.requests) == (1, 1)


def test_answers_of_an_earlier_version_are_refused_until_somebody_says_whose_they_are(tmp_path: Path):
    """They hold no address and no checksum; the key of that version is written out here."""
    parameters = {"temperature": 0.0, "max_tokens": None, "schema": None}
    asked = json.dumps({"format": 1, "model": "m", "prompt": "a", "parameters": parameters}, sort_keys=True)
    key = sha256(asked.encode()).hexdigest()
    answer = {"text": "paid", "finish": "stop", "refusal": None, "prompt_tokens": 1, "completion_tokens": 1}
    kept = {"format": 1, "model": "m", "prompt": "a", "answer": answer | {"served_by": "m", "reasoning": None}}
    file = tmp_path / key[:2] / f"{key}.json"
    file.parent.mkdir()
    file.write_text(json.dumps(kept))
    said: list[str] = []
    with serving(echo) as server:
        with pytest.raises(ConfigError, match=r"1 answers in .* add --same-as unknown") as caught:
            ask(server, tmp_path, ["a", "b"])
        assert "\n" not in str(caught.value) and not server.requests
        answers, usage = ask(server, tmp_path, ["a", "b"], same_as=("unknown",), notice=said.append)
        assert texts(answers) == ["paid", "re: b"] and usage.kept == 1 and "used unchecked" in said[0]
        file.write_text(json.dumps(kept | {"prompt": "c"}))
        with pytest.raises(DataError, match="is not a kept answer; delete it"):
            ask(server, tmp_path, ["a"], same_as=("unknown",))


def test_another_model_parameter_or_shape_is_another_question():
    keys = {
        prompt_key(model, prompt, {"temperature": t, "schema": s})
        for model in "mn" for prompt in "ab" for t in (0.0, 1.0) for s in (None, SCHEMA)
    }  # fmt: skip
    keys |= {prompt_key("m", "a", {"temperature": 0.0, "schema": None}, server) for server in ("http://a", "http://b")}
    assert len(keys) == 18


@pytest.mark.parametrize("failures", [["429"], ["500", "503"], ["cut", "cut"], ["proxy"], ["no choices"]])
def test_what_passes_is_tried_again(tmp_path: Path, failures: list[str]):
    def script(request: dict, number: int) -> Reply:
        if number >= len(failures):
            return echo(request, number)
        kind = failures[number]
        if kind == "cut":
            return Reply(body={"id": "half of a completion"}, cut=True)
        if kind == "proxy":
            return Reply(raw=b"<html>Bad gateway</html>")
        return Reply(body={"choices": []}) if kind == "no choices" else error(int(kind))

    with serving(script) as server:
        answers, usage = ask(server, tmp_path)
    assert texts(answers) == ["re: a"]
    assert (usage.requests, usage.retries, usage.answers) == (len(failures) + 1, len(failures), 1)


def test_retry_after_is_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    waited: list[float] = []
    from anachron.io.llm_requests import Asker

    times = iter([error(429, headers={"retry-after": "7"}), error(500), chat("done")])
    with serving(lambda request, number: next(times)) as server:
        asker = Asker(
            LlmSettings("m", server.url, pause=0.5, tries=3), AnswerCache(tmp_path), None, Usage(), lambda m: None
        )
        monkeypatch.setattr(asker.stop, "wait", waited.append)
        answer = asker.ask("00", "a")
        assert KEY not in repr(asker)
    assert isinstance(answer, Answer)
    assert 7 <= waited[0] <= 7.5  # as asked, and a little apart
    assert 0.5 <= waited[1] <= 1.0  # the second pause of ours: half to all of 0.5 doubled


def test_a_server_that_wants_too_long_a_pause_is_not_waited_for(tmp_path: Path):
    with serving(lambda r, n: error(429, headers={"retry-after": "86400"})) as server:
        (answer,), usage = ask(server, tmp_path)
    assert isinstance(answer, NoAnswer) and "asks to wait 86400 s" in answer.detail and usage.requests == 1


def test_retry_after_as_a_date():
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 80 < (retry_after({"retry-after": soon}) or 0) <= 90
    past = format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)
    assert retry_after({"retry-after": past}) == 0
    assert retry_after({"retry-after": "1.5"}) == 1.5
    assert retry_after({"retry-after": "when I like"}) is None and retry_after({}) is None


@pytest.mark.full
def test_a_hanging_connection_times_out_and_is_counted(tmp_path: Path):
    def script(request: dict, number: int) -> Reply:
        return Reply(hang=True) if prompt_of(request) == "b" else echo(request, number)

    with serving(script) as server:
        answers, usage = ask(server, tmp_path, "abc", timeout=0.5, tries=2)
        again, later = ask(server, tmp_path, "abc", timeout=0.5, tries=1)
    assert texts(answers) == texts(again) == ["re: a", "no answer from the server", "re: c"]
    assert isinstance(answers[1], NoAnswer) and "2 tries; the last: Request timed out" in answers[1].detail
    assert (usage.requests, usage.retries, usage.answers) == (4, 1, 2)
    assert (later.requests, later.kept) == (1, 2)  # only what had no answer is asked for again


def test_a_server_that_answers_nobody_ends_the_run(tmp_path: Path):
    with serving(lambda r, n: error(500, "out of memory")) as server:
        with pytest.raises(BackendError, match="3 requests in a row") as caught:
            ask(server, tmp_path, [f"p{i}" for i in range(50)], tries=2)
        assert len(server.requests) == 6
    assert "out of memory" in str(caught.value) and "\n" not in str(caught.value)


def test_no_server_ends_the_run_at_once(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(BackendError, match=rf"no server at http://127.0.0.1:{port}/v1 .*refused"):
        ask(f"http://127.0.0.1:{port}/v1", tmp_path, "abc", pause=100)  # a second try would take far too long


def test_a_server_that_goes_away_ends_the_run_and_its_answers_are_kept(tmp_path: Path):
    def script(request: dict, number: int) -> Reply:
        if number == 2:
            threading.Thread(target=server.http.server_close).start()
            time.sleep(0.05)
        return Reply(status=200, body=None, cut=True) if number == 2 else echo(request, number)

    with serving(script) as server, pytest.raises(BackendError, match="stopped answering after 2 answers"):
        ask(server, tmp_path, [f"p{i}" for i in range(9)])
    with serving(echo) as other:
        answers, usage = ask(other, tmp_path, [f"p{i}" for i in range(9)], same_as=(server.url,))
        assert sorted(other.times_asked()) == [f"p{i}" for i in range(2, 9)]
    assert len(texts(answers)) == 9 and usage.kept == 2


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (error(401, f"Incorrect API key provided: {KEY}"), ConfigError, "refuses the key"),
        (error(403, "not for you"), ConfigError, "refuses the key"),
        (error(404, "the model m does not exist"), ConfigError, "no model 'm'"),
        (error(429, "pay first", code="insufficient_quota"), BackendError, "no credit"),
    ],
)
def test_what_concerns_every_request_ends_the_run_at_once(tmp_path: Path, reply: Reply, kind: type, words: str):
    with serving(lambda r, n: reply) as server:
        with pytest.raises(kind, match=words) as caught:
            ask(server, tmp_path, [f"p{i}" for i in range(20)], pause=100)
        assert len(server.requests) == 1
    seen = caught.value
    while seen is not None:
        assert KEY not in str(seen)
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)


def test_a_key_that_a_server_repeats_is_not_shown(tmp_path: Path):
    with serving(lambda r, n: error(400, f"your key {KEY} is too nice")) as server:
        (answer,), _ = ask(server, tmp_path)
    assert isinstance(answer, NoAnswer) and answer.detail == "HTTP 400: your key *** is too nice"


def test_one_refused_request_is_counted_and_not_repeated(tmp_path: Path):
    def script(request: dict, number: int) -> Reply:
        return error(400, "content policy") if prompt_of(request) == "b" else echo(request, number)

    with serving(script) as server:
        answers, usage = ask(server, tmp_path, "abc")
        assert server.times_asked()["b"] == 1
    assert texts(answers) == ["re: a", "request refused", "re: c"] and usage.answers == 2


def test_requests_that_are_all_refused_end_the_run(tmp_path: Path):
    with serving(lambda r, n: error(400, "max_tokens is not known here")) as server:
        with pytest.raises(BackendError, match=r"refuses every request .*max_tokens is not known"):
            ask(server, tmp_path, [f"p{i}" for i in range(20)])
        assert len(server.requests) == 4  # three of ours, and one that nobody could refuse for its content


def refuses_some(request: dict, number: int) -> Reply:
    return error(400, "content policy") if prompt_of(request) in ("a", "b", "c", "d") else echo(request, number)


def test_the_first_refusals_of_content_do_not_end_the_run(tmp_path: Path):
    with serving(refuses_some) as server:
        answers, usage = ask(server, tmp_path, "abcdefg")
        assert set(server.times_asked().values()) == {1}  # the innocent one too
    assert texts(answers) == ["request refused"] * 4 + ["re: e", "re: f", "re: g"]
    assert (usage.requests, usage.answers) == (8, 3)
    assert usage.prompt_tokens == 400  # the innocent one is paid for


def test_answers_that_are_kept_show_that_refusals_are_of_content(tmp_path: Path):
    with serving(refuses_some) as server:
        first, _ = ask(server, tmp_path, "efghabcd")
        again, usage = ask(server, tmp_path, "efghabcd", concurrency=4)
        assert server.times_asked() == dict.fromkeys("efgh", 1) | dict.fromkeys("abcd", 2)
    assert texts(first) == texts(again) and (usage.kept, usage.answers, usage.requests) == (4, 0, 4)


@pytest.mark.parametrize("name", ["response_format", "temperature"])
@pytest.mark.parametrize("form", ["param", "message", "unparsed"])
def test_what_a_server_does_not_take_is_left_out_once_and_said_once(tmp_path: Path, name: str, form: str):
    def script(request: dict, number: int) -> Reply:
        if name not in request:
            return echo(request, number)
        if form == "unparsed":
            return Reply(422, {"detail": [{"loc": ["body", name], "msg": "extra fields"}]})
        said = "no" if form == "param" else f"Unknown field {name}"
        return error(400, said, param=name if form == "param" else None)

    said: list[str] = []
    with serving(script) as server:
        answers, usage = ask(server, tmp_path, "abcd", schema=SCHEMA, notice=said.append)
        with_it = [name in request for request in server.requests]
    assert texts(answers) == ["re: a", "re: b", "re: c", "re: d"]
    assert with_it == [True, False, False, False, False]
    assert said == [f"the server takes no {name}; it is left out from now on"]
    assert (usage.requests, usage.retries) == (5, 0)


def test_one_thread_learns_for_all(tmp_path: Path):
    def script(request: dict, number: int) -> Reply:
        return error(400, "json_schema is not supported") if "response_format" in request else echo(request, number)

    said: list[str] = []
    with serving(script) as server:
        answers, _ = ask(
            server, tmp_path, [f"p{i}" for i in range(30)], schema=SCHEMA, notice=said.append, concurrency=5
        )
    assert all(isinstance(a, Answer) for a in answers) and len(said) == 1


def test_a_server_without_counts_is_said_to_have_none(tmp_path: Path):
    with serving(lambda r, n: chat("x", usage=None)) as server:
        _, usage = ask(server, tmp_path, "ab")
    assert (usage.answers, usage.uncounted, usage.prompt_tokens) == (2, 2, 0)


def test_the_key_is_in_no_file(tmp_path: Path):
    with serving(echo) as server:
        ask(server, tmp_path, "ab")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2 and not any(KEY.encode() in path.read_bytes() for path in files)


def test_a_server_of_ones_own_needs_no_key_but_a_named_one_must_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with serving(echo) as server:
        assert texts(ask(server, tmp_path, api_key_env=None)[0]) == ["re: a"]
        with pytest.raises(ConfigError, match="OTHER_KEY holds no key"):
            ask(server, tmp_path, "b", api_key_env="OTHER_KEY")
        monkeypatch.setenv("OTHER_KEY", "k2")
        ask(server, tmp_path, "b", api_key_env="OTHER_KEY")
        assert server.headers[-1]["Authorization"] == "Bearer k2"
    with pytest.raises(ConfigError, match="OPENAI_API_KEY holds no key"):
        ask_all(["c"], LlmSettings("gpt-x"), AnswerCache(tmp_path))


@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_key_that_was_not_named_goes_to_no_other_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str):
    monkeypatch.setenv("OPENAI_ORG_ID", "our-organisation")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", KEY)
    said: list[str] = []
    with serving(echo) as server:
        if by == "option":
            ask(server, tmp_path, api_key_env=None, notice=said.append)
        else:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            settings, callbacks = LlmSettings("m", timeout=5, tries=1), Callbacks(notice=said.append)
            ask_all(["a"], settings, AnswerCache(tmp_path), callbacks=callbacks)
        (headers,) = server.headers
    assert KEY not in str(headers) and "our-organisation" not in str(headers) and not said
    with (
        serving(lambda r, n: error(401, "who are you")) as server,
        pytest.raises(ConfigError, match=r"wants a key \(HTTP 401\); name the variable that holds it"),
    ):
        ask(server, tmp_path, "b", api_key_env=None)


def test_where_a_key_goes_and_what_is_warned_of(monkeypatch: pytest.MonkeyPatch):
    for address in ("https://api.openai.com/v1", "https://eu.api.openai.com/v1"):
        assert key_for(address, None) == KEY
    for address in ("http://api.openai.com/v1", "https://api.openai.com.evil.org", "https://api.openai.com@evil.org"):
        assert key_for(address, None) == "" and key_for(address, "OPENAI_API_KEY") == KEY
    for address in ("http://192.168.0.7:8000/v1", "http://gpu-box:8000", "http://127.0.0.1.evil.org", "http://u:pw@h"):
        assert "unencrypted" in str(open_to_all(address, KEY)) and "pw" not in str(open_to_all(address, KEY))
    for address in ("https://gpu-box/v1", "http://127.0.0.1:8000/v1", "http://[::1]:8000", "http://localhost/v1"):
        assert open_to_all(address, KEY) is None
    assert open_to_all("http://gpu-box:8000", "") is None
    for bad in ("two words", "line\nbreak", "kéy"):
        monkeypatch.setenv("BAD_KEY", bad)
        with pytest.raises(ConfigError, match="BAD_KEY holds no key") as caught:
            key_for("http://localhost", "BAD_KEY")
        assert bad not in str(caught.value)


@pytest.mark.parametrize(
    "text, expected",
    [
        (f"Bearer {KEY}!", "Bearer ***!"),
        (KEY.upper(), "***"),
        (f"it begins {KEY[:8]} and ends {KEY[-9:]}", "it begins *** and ends ***"),
        (f"it begins {KEY[:7]}", f"it begins {KEY[:7]}"),
        ("İstanbul " + KEY, "İstanbul ***"),
        ("two\nlines \x1b[31m\u202e", "two lines [31m"),
        ("x" * 500, "x" * 300),
    ],
)
def test_words_of_a_server_are_one_line_without_the_key(text: str, expected: str):
    assert shown(text, (KEY,)) == expected


def test_a_password_is_hidden_as_a_header_holds_it():
    header = b64encode(b"me:pass word").decode()
    secrets = secrets_of("http://me:pass%20word@host/v1", "")
    assert shown(f"Basic {header}, pass word, pass%20word", secrets) == "Basic ***, ***, ***"


def test_a_short_key_is_hidden_whole():
    assert shown("key none, or nobody", ("none",)) == "key ***, or nobody"


def test_requests_are_not_sent_on(tmp_path: Path):
    with serving(echo) as other, serving(lambda r, n: Reply(307, {}, {"location": other.url})) as server:
        with pytest.raises(ConfigError, match=f"redirects requests to {other.url}"):
            ask(server, tmp_path)
        assert other.requests == [] and len(server.requests) == 1


def test_an_answer_with_the_key_is_not_kept(tmp_path: Path):
    with (
        serving(lambda r, n: chat(f"my header was Bearer {KEY}")) as server,
        pytest.raises(BackendError, match="repeats the key") as caught,
    ):
        ask(server, tmp_path)
    assert KEY not in str(caught.value) and not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("reply", [chat({"a": 1}), chat("x", finish=["stop"]), Reply(raw=b'{"choices":' * 100_000)])
def test_a_reply_of_another_form_is_no_answer(tmp_path: Path, reply: Reply):
    with serving(lambda r, n: reply) as server:
        (answer,), _ = ask(server, tmp_path, tries=1)
    assert isinstance(answer, NoAnswer) and "not a chat completion" in answer.detail


def test_answers_on_disk_need_neither_server_nor_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with serving(echo) as server:
        ask(server, tmp_path)
        url = server.url
    monkeypatch.delenv("OPENAI_API_KEY")
    assert texts(ask(url, tmp_path, api_key_env="NO_SUCH")[0]) == ["re: a"]


def test_a_damaged_kept_answer_is_named(tmp_path: Path):
    with serving(echo) as server:
        ask(server, tmp_path)
        (path,) = (p for p in tmp_path.rglob("*.json"))
        for text in ("{", json.dumps({"format": 1}), json.dumps({"answer": {"text": "x"}}), "[]"):
            path.write_text(text)
            with pytest.raises(DataError, match=path.name):
                ask(server, tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": " "}, "model's name is empty"),
        ({"base_url": "localhost:8000"}, "http://host:port/v1"),
        ({"base_url": "http://[::1/v1"}, "http://host:port/v1"),
        ({"base_url": "http://host:eighty/v1"}, "http://host:port/v1"),
        ({"base_url": "http:///v1"}, "http://host:port/v1"),
        ({"concurrency": 0}, "at least 1"),
        ({"tries": 0}, "at least 1"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"pause": -1}, "pause"),
    ],
)
def test_settings_that_cannot_be(options: dict, words: str):
    with pytest.raises(ConfigError, match=words):
        LlmSettings(**({"model": "m"} | options))


def test_addresses_are_shown_without_secrets():
    assert public_url("https://me:pw@host:1/v1?key=k") == "https://host:1/v1"
    assert public_url("http://host/v1") == "http://host/v1"
    assert public_url("nonsense?key=k") == "nonsense"


def test_the_cache_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert default_cache() == Path("/x/anachron/answers")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/h")
    assert default_cache() == Path("/h/.cache/anachron/answers")
