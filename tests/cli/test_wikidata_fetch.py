"""``wikidata download`` and ``wikidata pageviews`` as scripts use them, against a server on this machine."""

import hashlib
import json

import polars as pl
import pytest

from anachron.cli.main import run_command
from support.flaky_server import Answer, Cut, Flaky
from wikidata.views import write, write_snapshot

DATA = bytes(range(256)) * 2000
NAME = "wikidata-20210104-all.json.bz2"
FOLDER = "/wikidatawiki/entities/20210104/"


@pytest.fixture
def server():
    with Flaky() as running:
        running.put("/wikidatawiki/entities/", '<a href="20210104/">20210104/</a> <a href="20201228/">20201228/</a>')
        running.put(FOLDER, f'<a href="{NAME}">{NAME}</a> <a href="wikidata-20210104-md5sums.txt">sums</a>')
        running.put(FOLDER + "wikidata-20210104-md5sums.txt", f"{hashlib.md5(DATA).hexdigest()}  {NAME}\n")
        running.put(FOLDER + NAME, DATA)
        running.put("/wikidatawiki/entities/20201228/", "nothing here")
        for month in ("2020-11", "2020-12"):
            name = f"pageviews-{month.replace('-', '')}-user.bz2"
            running.put(f"/other/pageview_complete/monthly/2020/{month}/{name}", b"views of " + month.encode())
        yield running


def arguments(server, out, *more, date="2021-01-06"):
    urls = ["--dumps-url", server.url, "--archive-url", server.url]
    return ["wikidata", "download", "--date", date, "--out", str(out), *urls, *more]


def run(words):
    return run_command([str(word) for word in words], debug=False)


def test_a_dry_run_shows_what_would_come_and_fetches_nothing(server, tmp_path, capsys):
    out = tmp_path / "new" / "dumps"
    assert run(arguments(server, out, "--pageviews", "--months", 2, "--dry-run")) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == f"{NAME}  500.0 KiB  {server.url}{FOLDER}{NAME}"
    assert "pageviews-202011-user.bz2  16 bytes  " in shown.out and "pageviews-202012-user.bz2" in shown.out
    assert "500.0 KiB in 3 files; 500.0 KiB to fetch" in shown.out and f"free in {tmp_path}" in shown.out
    assert "nearest dump: 2021-01-04, 2 days before 2021-01-06" in shown.err
    assert not out.exists() and sum(file.sent for path, file in server.files.items() if path.endswith("bz2")) == 0


def test_files_come_once_and_json_tells_of_them(server, tmp_path, capsys):
    server.files[FOLDER + NAME].faults = [Cut(100_000)]
    words = arguments(server, tmp_path, "--pageviews", "--months", 2, "--json")
    assert run(words) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (tmp_path / NAME).read_bytes() == DATA
    assert [file["state"] for file in summary["files"]] == ["fetched"] * 3
    assert summary["files"][0]["checksum"] == f"md5:{hashlib.md5(DATA).hexdigest()}"
    assert summary["received"] == summary["bytes"] == len(DATA) + 32
    assert run(words) == 0
    again = json.loads(capsys.readouterr().out)
    assert [file["state"] for file in again["files"]] == ["already there"] * 3
    assert again["received"] == again["to_fetch"] == 0
    assert run(arguments(server, tmp_path)) == 0
    assert capsys.readouterr().out == f"{tmp_path / NAME}  500.0 KiB  already there\n"


@pytest.mark.parametrize("said", [("--contact", "me@example.org"), ()])
def test_page_views_alone_and_a_contact(server, tmp_path, said, monkeypatch):
    monkeypatch.setenv("ANACHRON_CONTACT", "you@example.org" if said else "me@example.org")
    words = arguments(server, tmp_path, "--no-dump", "--pageviews", "--months", 1, *said)
    assert run(words) == 0
    name = "pageviews-202012-user.bz2"
    assert sorted(path.name for path in tmp_path.iterdir())[1:] == [name, f"{name}.manifest.json"]
    assert all("me@example.org" in agent and agent.startswith("Anachron/") for agent in server.agents)
    assert not any("wikidatawiki" in path for _, path, _, _ in server.requests)


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--format", "zst"], 2, "--format zst: choose bz2 or gz"),
        (["--no-dump"], 2, "nothing is left to fetch"),
        (["--pageviews", "--months", "0"], 2, "--months 0"),
        (["--pageviews"], 1, "no page views of 2020-01: "),
        (["--timeout", "0"], 2, "give a timeout above 0"),
        (["--format", "gz", "--retries", "0"], 1, "no such page on the server (404); check --archive-url"),
        (["--date", "2021"], 2, "give a day"),
        (["--date", "2999-01-01"], 2, "future days"),
        (["--date", "soon"], 2, "is not a date"),
        (["--contact", "Zoë"], 2, "ASCII letters only"),
        (["--dumps-url", "nowhere"], 2, "is not an address"),
    ],
)
def test_what_cannot_be_done_is_one_line(server, tmp_path, capsys, more, code, message):
    assert run(arguments(server, tmp_path / "out", *more)) == code
    shown = capsys.readouterr()
    assert message in shown.err and shown.err.count("error:") == 1 and shown.out == ""
    assert not (tmp_path / "out").exists()


def test_a_dump_far_from_the_day_and_without_a_checksum_is_warned_of(server, tmp_path, capsys):
    server.put(FOLDER, f'<a href="{NAME}">{NAME}</a>')
    assert run(arguments(server, tmp_path, "--dry-run", date="2021-06-01")) == 0
    shown = capsys.readouterr().err
    assert "warning: nearest dump: 2021-01-04, 148 days before 2021-06-01" in shown
    assert f"warning: the server publishes no checksum for {NAME}" in shown


def test_a_refusal_says_to_name_oneself(server, tmp_path, capsys):
    server.files["/wikidatawiki/entities/"].faults = [Answer(403)]
    assert run(arguments(server, tmp_path)) == 1
    assert "name yourself with --contact" in capsys.readouterr().err


def test_popularity_of_a_snapshot(tmp_path, capsys):
    snapshot = write_snapshot(tmp_path / "snapshot", {"Q1": "A b", "Q2": "C", "Q3": None})
    text = "de.wikipedia C 1 desktop 1 A1\nen.wikipedia A_b 1 desktop {n} A{n}\n"
    text += "en.wikipedia a_b null mobile-web 1 A1\nen.wikipedia X\n"
    files = [write(tmp_path, f"pageviews-20200{n}-user.bz2", text.format(n=n)) for n in (1, 2, 4)]
    (tmp_path / "redirects.tsv").write_text("X\tC\n")
    words = ["wikidata", "pageviews", snapshot, *files, "--redirects", tmp_path / "redirects.tsv"]
    assert run(words) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "warning: no file of 2020-03" in shown.err
    assert "12 lines in 3 files: 9 of the project, 3 bad" in shown.err
    assert "1 redirects, of which 1 lead to titles" in shown.err
    assert "2 entities with a title: 1 with views, 1 without" in shown.err
    assert "10 of 10 views belong to these" in shown.err
    assert pl.read_parquet(snapshot / "popularity.parquet").rows() == [("Q1", "A b", 3.0, 3, 10)]
    assert run([*words, "--wiki-project", "de.wikipedia", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["counts"]["with_views"] == 1 and len(summary["warnings"]) == 2
    assert run([*words, "--wiki-project", "fr.wikipedia", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"][-1].startswith("none of the 0 views of fr.wikipedia")


def test_page_views_that_cannot_be_added(tmp_path, capsys):
    assert run(["wikidata", "pageviews", tmp_path, tmp_path / "x.bz2"]) == 2
    assert "is it a snapshot folder?" in capsys.readouterr().err
    snapshot = write_snapshot(tmp_path / "snapshot", {"Q1": "A"})
    assert run(["wikidata", "pageviews", snapshot, tmp_path / "x.bz2"]) == 2
    assert "the name must end in" in capsys.readouterr().err
    assert run(["wikidata", "pageviews", snapshot]) == 2
