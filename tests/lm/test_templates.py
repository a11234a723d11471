"""Chat templates run in a process of their own: none goes on without end, and each writes what transformers writes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from anachron.core.errors import ModelError
from anachron.lm import templates
from anachron.lm.formats import ChatTemplate, Format, encode_pairs
from support.tiny_models import make_lm, make_tokenizer, save

TURNS = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}\n{% endfor %}"
ENDLESS = {
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "numbers": "{% set n = namespace(n=3) %}{% for i in range(60) %}{% set n.n = n.n * n.n %}{% endfor %}",
    "output": "{% for i in range(99999) %}{% for j in range(99999) %}{{ i }}{% endfor %}{% endfor %}",
}
TOO_MUCH = {
    "a text": "{{ 'x' * 100000000000 }}",
    "characters": "{{ 'x' * 20000000 }}",
    "itself": "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
    "a refusal": "{{ raise_exception('not\nthese' * 1000) }}",
    "no template": "{% for",
}


@pytest.fixture
def within(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """Sets how long a template may take."""

    def limit(seconds: float) -> None:
        templates._worker.end()
        monkeypatch.setattr(templates, "SECONDS", seconds)

    yield limit
    templates._worker.end()


def template_of(text: str, kind: str = "mistral") -> Any:
    tokenizer = make_tokenizer(kind)
    tokenizer.chat_template = text
    return tokenizer


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ENDLESS)
def test_a_template_without_end_is_one_line(name: str, within: Callable[[float], None]):
    within(0.5)
    with pytest.raises(ModelError, match=r"the chat template does not end within 0.5 s; pass another"):
        ChatTemplate(template_of(ENDLESS[name] + TURNS))


@pytest.mark.full
def test_a_template_that_never_ends_for_one_answer_only(within: Callable[[float], None]):
    within(2)
    tokenizer = template_of(
        "{% for m in messages if m.content == 'Bonn' %}" + ENDLESS["loops"] + "{% endfor %}" + TURNS
    )
    assert encode_pairs(tokenizer, [("Capital?", "Berlin", None)], Format(kind="chat"))
    with pytest.raises(ModelError, match="does not end within 2 s"):
        encode_pairs(tokenizer, [("Capital?", "Berlin", None), ("Capital?", "Bonn", None)], Format(kind="chat"))
    assert encode_pairs(tokenizer, [("Capital?", "Berlin", None)], Format(kind="chat"))  # by a new process


@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_template_that_takes_too_much_or_fails_is_refused(name: str):
    if name == "a text" and sys.platform != "linux":
        pytest.skip("only Linux bounds the memory of a process")
    with pytest.raises(ModelError, match=r"the chat template rejects a user turn and an answer: .+") as caught:
        ChatTemplate(template_of(TOO_MUCH[name] + TURNS))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_what_is_written_is_what_transformers_writes():
    tokenizer = template_of(
        "{{ bos_token }}{% for m in messages %}<{{ m.role | upper }}>{{ m.content }}{{ eos_token }}\n{% endfor %}"
        "{% if add_generation_prompt %}<ASSISTANT>{% endif %}{{ {'é': 1} | tojson }}"
    )
    users = ["Où?", "北京\n😀", '"quoted" \\ {% raw %}', "x" * 5000] * 200
    conversations = [[{"role": "user", "content": user}, {"role": "assistant", "content": "a"}] for user in users]
    for prompt in (False, True):
        wanted = [
            tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=prompt)
            for turns in conversations
        ]
        assert templates.render(tokenizer, conversations, tokenizer.chat_template, prompt=prompt) == wanted


def test_many_threads_get_their_own_texts():
    tokenizer, found = template_of(TURNS), dict[int, list[str]]()

    def ask(number: int) -> None:
        conversations = [[{"role": "user", "content": f"{number}-{n}"}] for n in range(20)]
        found[number] = [templates.render(tokenizer, [one], TURNS, prompt=False)[0] for one in conversations]

    threads = [Thread(target=ask, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {k: [f"[user] {k}-{n}</s>\n" for n in range(20)] for k in range(6)}


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_the_process_does_not_outlive_who_started_it():
    """Killed in the middle of a template without end, a program leaves nothing that runs on."""
    code = (
        "from anachron.lm import templates\n"
        "import transformers, tokenizers\n"
        "t = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE()))\n"
        "turns = [[{'role': 'user', 'content': 'x'}]]\n"
        "templates.render(t, turns, 'x', prompt=False)\n"
        "print(templates._worker._process.pid, flush=True)\n"
        f"templates.render(t, turns, {ENDLESS['loops']!r}, prompt=False)\n"
    )
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    worker = Path("/proc") / program.stdout.readline().strip()
    assert worker.is_dir()
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    for _ in range(600):
        if not worker.is_dir() or " Z " in (worker / "stat").read_text():
            break
        time.sleep(0.1)
    else:
        pytest.fail("the process goes on")


@pytest.mark.slow
@pytest.mark.full
def test_the_command_ends_in_one_line(tmp_path: Path):
    name = save(make_lm("llama", "mistral"), tmp_path / "model")
    (tmp_path / "t.jinja").write_text(ENDLESS["loops"] + TURNS)
    (tmp_path / "pairs.jsonl").write_text('{"prompt": "In 2011, who?", "answer": "Nobody"}\n')
    done = subprocess.run(
        [sys.executable, "-m", "anachron", "score", name, "--input", str(tmp_path / "pairs.jsonl"), "--out",
         str(tmp_path / "s.csv"), "--format", "chat", "--chat-template", str(tmp_path / "t.jinja")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "the chat template does not end within 10 s; pass another with --chat-template FILE" in " ".join(
        done.stderr.split()
    )
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr
