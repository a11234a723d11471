"""What people type without thinking: short options, other spellings, words with spaces for commas."""

import re
import subprocess
import sys

import pytest

import anachron
from anachron.analysis.plots.words import counted
from anachron.cli.main import command_tree, run_command, with_commas
from anachron.data import loaders
from anachron.data.bundled import listings
from anachron.data.bundled.mini import mini_changes, mini_facts, mini_statements
from anachron.data.bundled.mini_updates import mini_updates


def run(*words: object) -> int:
    return run_command([str(word) for word in words], debug=False)


def commands(tree, before=()):
    for name, command in getattr(tree, "commands", {}).items():
        yield (*before, name), command
        yield from commands(command, (*before, name))


def test_every_out_is_o_and_help_is_h(capsys):
    with_out = 0
    for words, command in commands(command_tree()):
        for parameter in command.params:
            if "--out" in parameter.opts:
                with_out += 1
                assert "-o" in parameter.opts, words
    assert with_out > 20
    assert run("evaluate", "-h") == 0
    printed = capsys.readouterr().out
    assert "Make updates in a model with several methods" in printed and "bool" not in printed


@pytest.mark.parametrize(
    "given, read",
    [
        ("evaluate demo --methods FT ROME -o x", "evaluate demo --methods FT,ROME -o x"),
        ("evaluate --methods FT+L, LoRA PROMPT --out x demo", "evaluate --methods FT+L,LoRA,PROMPT --out x demo"),
        ("evaluate --methods FT demo", "evaluate --methods FT demo"),
        ("evaluate --methods FT,ROME Qwen/Qwen3-8B", "evaluate --methods FT,ROME Qwen/Qwen3-8B"),
        ("probe A B", "probe A B"),
    ],
)
def test_methods_with_spaces_are_methods_with_commas(given, read):
    assert with_commas(given.split()) == read.split()
    assert with_commas(["evaluate", "--methods", "ROME dated", "ROME METO"])[2] == "ROME dated,ROME METO"


@pytest.mark.full
def test_models_with_commas_are_several_models(tmp_path, capsys):
    assert run("probe", "demo,demo-untrained", "--dataset", "mini", "--limit", "1", "-o", tmp_path / "runs") == 0
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"demo", "demo-untrained", "metrics"}


@pytest.mark.parametrize("command", ["probe demo --dataset mini", "score demo --input pairs.jsonl", "audit mini"])
def test_an_unknown_format_is_refused_at_once(command, tmp_path, capsys):
    more = ["--tokenizer", "demo"] if command.startswith("audit") else ["--out", tmp_path / "out"]
    assert run(*command.split(), "--format", "Chat", *more) == 2
    assert "format 'Chat': choose 'raw' or 'chat'" in capsys.readouterr().err


def test_a_network_is_named_as_what_it_is_before_it_is_trained(tmp_path, capsys):
    assert run("train-mend", "no/such-model", "--updates", "nowhere.jsonl", "--out", tmp_path / "m.pt") == 2
    assert f"name it {tmp_path / 'm.safetensors'}" in capsys.readouterr().err


def test_both_spellings_of_a_licence(tmp_path, capsys):
    (tmp_path / "facts.csv").write_text("subject,relation,object,start,end\nPeru,capital,Lima,1990-01-01,2000-01-01\n")
    for spelling in ("--licence", "--license"):
        folder = tmp_path / spelling.strip("-")
        assert run("export", "hub", tmp_path / "facts.csv", spelling, "cc0-1.0", "-o", folder) == 0
        assert "license: cc0-1.0" in (folder / "README.md").read_text("utf-8")


@pytest.mark.full
def test_listed_sizes_are_those_of_the_data():
    (listing,), table, listed = listings.DATASETS, mini_statements(None), mini_facts()
    found = (len(listed), table["fact_id"].n_unique(), table["relation_id"].n_unique(), table.height)
    assert (listing.listed, listing.facts, listing.relations, listing.statements) == found
    (updates,), rows = listings.UPDATES, mini_updates().to_dicts()
    relations, subjects = ({row[name]["label"] for row in rows} for name in ("relation", "subject"))
    assert (updates.updates, updates.relations, updates.subjects) == (len(rows), len(relations), len(subjects))
    (changes,), rows = listings.CHANGES, mini_changes().to_dicts()
    real = [row for row in rows if row["control"] is None]
    assert (changes.changes, changes.controls) == (len(real), len(rows) - len(real))
    assert (changes.subjects, changes.kinds) == tuple(len({row[name] for row in real}) for name in ("subject", "kind"))
    assert [one.name for one in (*listings.DATASETS, *listings.UPDATES, *listings.CHANGES)] == [
        *loaders.BUNDLED, *loaders.UPDATES, *loaders.CHANGES,
    ]  # fmt: skip


def test_listing_data_sets_reads_no_table():
    code = (
        "import sys; from anachron.cli.main import run_command; run_command(['datasets'], False);"
        "sys.exit(int(bool({'torch', 'transformers', 'polars', 'numpy'} & set(sys.modules))))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["demo", "--out", "s3://bucket/run"],
        ["datasets", "mini", "--out=s3://bucket/mini.csv"],
        ["datasets", "mini", "-oGS://bucket/mini.csv"],
    ],
)
def test_a_store_is_refused_and_no_folder_of_its_name_appears(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(*words) == 2
    assert "this command only takes local files" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_the_version_is_printed(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.strip() == anachron.__version__


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("probe --foo", r"error: no such option: --foo .*; see anachron probe --help"),
        ("prob", r"error: no such command 'prob'\. Did you mean 'probe'\? See anachron --help"),
        ("probe demo", r"error: missing option '--dataset'; see anachron probe --help"),
        ("datasets a b", r"error: got unexpected extra argument.*; see anachron datasets --help"),
        (
            "export hub mini -o x --limit many",
            r"error: invalid value for '--limit': .*; see anachron export hub --help",
        ),
    ],
)
def test_wrong_use_is_one_line_like_other_errors(words: str, told: str, capsys):
    assert run(*words.split()) == 2
    said = capsys.readouterr()
    assert said.out == "" and re.fullmatch(told, said.err.rstrip("\n"))


def test_a_command_without_words_shows_its_help(capsys):
    assert run("export") == 2
    said = capsys.readouterr()
    assert "lm-eval" in said.out + said.err and "error:" not in said.err


@pytest.mark.full
@pytest.mark.parametrize("count", [1, 2])
def test_what_is_counted_agrees_with_its_number(count: int, tmp_path, capsys):
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"prompt": "Who?", "answer": "Me"}\n' * count)
    assert run("score", "demo-untrained", "--input", pairs, "--out", tmp_path / "s.jsonl") == 0
    assert f"{counted(count, 'pair')} scored by" in capsys.readouterr().err
    assert (counted(1, "pair"), counted(2000, "pair")) == ("1 pair", "2,000 pairs")
