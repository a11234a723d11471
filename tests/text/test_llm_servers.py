"""Where requests go and what they hold: names of keys, proxies, addresses with queries, limits by another name."""

import json
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from anachron.cli.main import run_command
from anachron.core.errors import BackendError, ConfigError
from anachron.io.answers import Answer, AnswerCache
from anachron.io.jobs import Callbacks
from anachron.io.json_answers import object_in
from anachron.io.llm import ask_all
from anachron.io.llm_settings import Learned, LlmSettings, NoAnswer
from anachron.io.servers import (
    Server,
    check_address,
    check_variable,
    is_this_machine,
    key_for,
    public_url,
    secrets_of,
    shown,
)
from anachron.lm.server.connection import Connection
from anachron.probe.backends import Backend
from support.llm_server import Reply, chat, error, serving
from support.processes import program, surroundings

pytestmark = pytest.mark.skipif(find_spec("openai") is None, reason="needs the extra llm")
KEY = "sk-proj-0123456789-very-secret"


def ask(url: str, cache: Path, prompts="a", *, learned=None, told=None, **options):
    options = {"pause": 0.001, "timeout": 5.0, "concurrency": 1, "tries": 2} | options
    tell = (lambda message: None) if told is None else told.append
    callbacks = Callbacks(notice=tell, warn=tell)
    return ask_all(
        list(prompts), LlmSettings("m", url, **options), AnswerCache(cache), learned=learned, callbacks=callbacks
    )


# Keys


NO_NAMES = [KEY, "sk-" + "a" * 40, "Bearer abc", "my-key", "1KEY", "", "KEY\n", "SCHLÜSSEL", "$MY_KEY", "MY_KEY=sk-1"]


@pytest.mark.parametrize("given", NO_NAMES)
def test_a_key_in_the_place_of_its_variables_name_is_refused_unseen(given: str):
    for refused in (
        lambda: check_variable(given), lambda: key_for("http://localhost:1/v1", given or "-"),
        lambda: LlmSettings("m", api_key_env=given), lambda: Backend(backend="openai", api_key_env=given, base_url="h"),
        lambda: Backend(api_key_env=given),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match="takes the name of the environment variable") as caught:
            refused()
        assert len(given) < 5 or given not in str(caught.value)


COMMANDS = [
    ["check", "m", "--backend", "chat", "--base-url", "http://127.0.0.1:9/v1", "--facts", "f.csv"],
    ["check", "m", "--backend", "chat", "--base-url", "http://127.0.0.1:9/v1", "--facts", "f.csv", "--dry-run"],
    ["judge", "run", "--llm", "m"],
    ["verbalize", "f.csv", "--llm", "m"],
    ["build", "cloze", "snapshot", "--llm", "m"],
]
SLOW = [
    ["probe", "m", "--backend", "openai", "--base-url", "http://127.0.0.1:9/v1", "--dataset", "mini"],
    ["probe", "demo", "--dataset", "mini"],
    ["horizon", "m", "--backend", "chat", "--base-url", "http://127.0.0.1:9/v1"],
]


@pytest.mark.parametrize(
    "command",
    [*COMMANDS, *(pytest.param(one, marks=pytest.mark.full) for one in SLOW)],
    ids=lambda one: " ".join(one[:4]),
)
@pytest.mark.parametrize("key", [KEY, "hf_" + "aB3" * 12], ids=["no name", "a name by its letters"])
def test_no_command_shows_or_keeps_such_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str], key: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.csv").write_text("subject,relation,object,start,end\nFrance,capital,Paris,1900,\n")
    code = run_command(
        [*command, "--out", "out.json" if "cloze" in command else "out.jsonl", "--api-key-env", key], False
    )
    if key != KEY and "--dry-run" in command:
        assert code == 0  # nothing is sent, and the variable is not looked for
    else:
        assert code in (1, 2) and (code == 2 or key != KEY)
    assert key not in "".join(capsys.readouterr()) and key[4:20] not in "".join(map(str, tmp_path.rglob("*")))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


def test_a_key_that_passes_for_a_name_is_recorded_nowhere():
    key = "hf_" + "aB3" * 12
    assert key not in str(LlmSettings("m", api_key_env=key).recorded())
    assert LlmSettings("m", api_key_env="MY_KEY").recorded()["api_key_env"] == "MY_KEY"


# Proxies


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A proxy in a process of its own that all of the environment's variables name; the file that it logs to."""
    log = tmp_path / "proxy.log"
    process = subprocess.Popen(
        [*program("proxy_server"), str(log)], env=surroundings(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        for spelled in (name, name.lower()):
            monkeypatch.setenv(spelled, address)
            monkeypatch.delenv("NO_PROXY" if spelled.isupper() else "no_proxy", raising=False)
    log.touch()
    yield log
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_request_to_this_machine_passes_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: Path):
    monkeypatch.setenv("MY_KEY", KEY)
    with serving(lambda request, number: chat("here")) as server:
        port = server.http.server_port
        for number, host in enumerate(("127.0.0.1", "LocalHost", "127.1")):
            url = f"http://{host}:{port}/v1"
            answers, _ = ask(url, tmp_path / str(number), api_key_env="MY_KEY")
            assert [answer.text for answer in answers if isinstance(answer, Answer)] == ["here"]
            connection = Connection(Server("m", url, api_key_env="MY_KEY", tries=1, timeout=5))
            assert b"here" in connection.complete(prompt=[1])
        assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert proxy.read_text() == ""
    (answer,), _ = ask("http://models.example/v1", tmp_path / "far")  # what lies elsewhere is reached as it always was
    assert isinstance(answer, Answer) and answer.text == "by the proxy"
    assert "http://models.example/v1/chat/completions" in proxy.read_text() and KEY not in proxy.read_text()


def test_a_proxy_that_cannot_be_used_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for value in ("nonsense://me:secret-word@proxy:1", "http://me:secret-word@[::1"):
        monkeypatch.setenv("ALL_PROXY", value)
        monkeypatch.setenv("HTTP_PROXY", value)
        with pytest.raises(ConfigError, match="proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names") as caught:
            ask("http://models.example/v1", tmp_path)
        assert "secret-word" not in str(caught.value)


def test_certificates_that_are_named_later_count_elsewhere_and_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """They are read once; what the environment names then is another matter."""
    far = "http://models.example/v1"
    with serving(lambda request, number: chat("here")) as server:
        for url in (server.url, far):
            Connection(Server("m", url, tries=1, timeout=5))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
        (answer,), _ = ask(server.url, tmp_path / "here")
        assert isinstance(answer, Answer) and answer.text == "here"
        with pytest.raises(FileNotFoundError):
            ask(far, tmp_path / "far")


def test_which_hosts_are_this_machine():
    here = [
        "localhost",
        "a.localhost",
        "127.0.0.1",
        "127.8.9.1",
        "::1",
        "0.0.0.0",
        "::ffff:127.0.0.1",
        "127.1",
        "0x7f.1",
    ]
    assert all(map(is_this_machine, here))
    assert not any(map(is_this_machine, ["127.0.0.1.evil.org", "10.0.0.1", "localhost.evil.org", "::2", "", "1.127"]))


# Addresses


@pytest.mark.parametrize(
    "url",
    ["http://host\n/v1", "http://ho\rst/v1", "http://host/v1\r\nX-Key: 1", "http://host/v1\t", " http://host/v1",
     "http://ho st/v1", "http://host/v1\x00", "http://host/\x7f", "http://host\u2028/v1", "http://host/v1#part"],
)  # fmt: skip
def test_addresses_that_no_request_can_hold(url: str, tmp_path: Path):
    for refused in (lambda: check_address(url), lambda: LlmSettings("m", url), lambda: Server("m", url)):
        with pytest.raises(ConfigError, match="http://host:port/v1") as caught:
            refused()
        assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("localhost:8000/v1", "'localhost:8000/v1'"),
        ("me:secretword@host/v1", "'host/v1'"),
        ("host/v1?k=secret", "'host/v1'"),
    ],
)
def test_an_address_without_http_is_shown_as_it_was_given_without_its_password(url: str, told: str):
    with pytest.raises(ConfigError, match=f"server address {told}") as caught:
        check_address(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://a..b/v1", "http://" + "a" * 300 + "/v1", "http://-\u00ad/v1", "http://xn--/v1"]
)
def test_hosts_that_cannot_be_are_one_line(url: str, tmp_path: Path):
    with pytest.raises((ConfigError, BackendError)) as caught:
        ask(url, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [{"timeout": value} for value in (float("inf"), float("nan"), 0, -1, 1e9)]
    + [{"pause": float("inf")}, {"temperature": float("nan")}, {"temperature": -1}, {"max_tokens": 0}],
    ids=str,
)
def test_numbers_that_no_request_can_have(options: dict):
    with pytest.raises(ConfigError, match=next(iter(options))):
        LlmSettings("m", **options)
    if "timeout" in options:
        with pytest.raises(ConfigError, match="timeout"):
            Server("m", "http://host/v1", **options)


@pytest.mark.parametrize("option", ["--timeout inf", "--price-in inf", "--price-out nan", "--pause nan"])
@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[3]], ids=lambda command: command[0])
def test_such_options_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list, option: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.csv").write_text("subject,relation,object,start,end\nFrance,capital,Paris,1900,1950\n")
    assert (
        run_command([*command, "--out", "out.jsonl", "--price-in", "1", "--price-out", "1", *option.split()], False)
        == 2
    )
    said = capsys.readouterr().err
    assert "unexpected" not in said and option[2:7] in said


QUERY = "api-version=2024-10-21&code=very%2Fsecret+word"


def test_a_query_stands_behind_the_path_of_each_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    paths: list[str] = []
    with serving(lambda request, number: chat("yes") if number < 4 else error(400, f"bad {QUERY}")) as server:
        handler = server.http.RequestHandlerClass
        post = handler.do_POST
        monkeypatch.setattr(handler, "do_POST", lambda self: (paths.append(self.path), post(self))[1])
        for number, url in enumerate((f"{server.url}?{QUERY}", f"{server.url}/?{QUERY}")):
            ask(url, tmp_path / str(number))
            Connection(Server("m", url, tries=1)).complete(prompt=[1])
        connection = Connection(Server("m", f"{server.url}?{QUERY}", tries=1))
        assert connection.root == server.url.removesuffix("/v1")
        (answer,), _ = ask(f"{server.url}?{QUERY}", tmp_path / "refused", tries=1)
    assert paths[:4] == [f"/v1/chat/completions?{QUERY}", f"/v1/completions?{QUERY}"] * 2
    assert isinstance(answer, NoAnswer) and "secret" not in answer.detail and "2024" not in answer.detail
    settings = LlmSettings("m", f"{server.url}?{QUERY}")
    assert "secret" not in str(settings.recorded()) and public_url(f"http://h/v1?{QUERY}") == "http://h/v1"
    assert shown("it was very/secret word", secrets_of(f"http://h/v1?{QUERY}", "")) == "it was ***"


# max_tokens by its other name


@pytest.mark.parametrize("form", ["param", "message"])
def test_a_limit_is_sent_by_the_name_that_the_server_takes(tmp_path: Path, form: str):
    def script(request: dict, number: int) -> Reply:
        if "max_tokens" not in request:
            return chat("yes")
        said = "Unsupported parameter: 'max_tokens' is not supported with this model."
        return error(400, "no", param="max_tokens") if form == "param" else error(400, said)

    told: list[str] = []
    learned = Learned()
    with serving(script) as server:
        for number in range(2):  # what was learned holds for the whole run
            answers, _ = ask(server.url, tmp_path / str(number), "abc", learned=learned, told=told, max_tokens=7)
            assert all(isinstance(answer, Answer) for answer in answers)
        sent = [(request.get("max_tokens"), request.get("max_completion_tokens")) for request in server.requests]
    assert sent == [(7, None)] + [(None, 7)] * 6
    assert told == ["the server takes no max_tokens; max_completion_tokens is sent instead from now on"]


def test_a_limit_that_is_refused_for_its_size_keeps_its_name(tmp_path: Path):
    said = "max_tokens is too large: 9000. This model supports at most 4096 completion tokens"
    with serving(lambda request, number: error(400, said, param="max_tokens")) as server:
        (answer,), _ = ask(server.url, tmp_path, max_tokens=9000)
        assert len(server.requests) == 1 and "max_completion_tokens" not in server.requests[0]
    assert isinstance(answer, NoAnswer) and "too large" in answer.detail


def test_a_server_that_takes_neither_name_is_asked_twice(tmp_path: Path):
    def script(request: dict, number: int) -> Reply:
        return error(400, f"unknown field {'max_tokens' if 'max_tokens' in request else 'max_completion_tokens'}")

    with serving(script) as server:
        (answer,), _ = ask(server.url, tmp_path, max_tokens=9)
        assert len(server.requests) == 2
    assert isinstance(answer, NoAnswer)


# Halves of characters


def test_lone_surrogates_are_replaced_and_told_of_once(tmp_path: Path):
    def script(request: dict, number: int) -> Reply:
        body = json.loads(chat("Paris \ud83d and \ude00", finish="st\udc00op", model="m\ud800").data)
        body["choices"][0]["message"]["reasoning_content"] = "well\udfff"
        return Reply(raw=json.dumps(body).encode())

    told: list[str] = []
    with serving(script) as server:
        first, usage = ask(server.url, tmp_path, "abc", told=told)
        again, _ = ask(server.url, tmp_path, "abc")
    assert first == again and usage.doubted == 3 and len(told) == 1 and "lone surrogates" in told[0]
    answer = first[0]
    assert isinstance(answer, Answer) and answer.text == "Paris \ufffd and \ufffd" and answer.reasoning == "well\ufffd"
    assert (answer.finish, answer.served_by) == ("st\ufffdop", "m\ufffd")


def test_halves_of_characters_in_what_a_model_writes_as_json():
    assert object_in(r'{"a": ["\ud83d and \ud83d\ude00"], "\udfff": 1}') == {
        "a": ["\ufffd and \U0001f600"],
        "\ufffd": 1,
    }


def test_an_unknown_model_is_told_without_an_option_that_only_some_commands_have(tmp_path: Path):
    missing = pytest.raises(ConfigError, match=r"has no model 'm' .*nothing here.*check its name")
    with serving(lambda request, number: error(404, "nothing here")) as server, missing as caught:
        ask(server.url, tmp_path)
    assert "--llm" not in str(caught.value)
