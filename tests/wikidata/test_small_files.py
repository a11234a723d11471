"""Small data: single entities as Wikibase gives them, several files, folders of files, and what they lack."""

import json
import random

import pytest

from anachron.cli.main import execute as run
from anachron.core.errors import ConfigError, DataError
from anachron.wikidata.reading import dump as module
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.settings import IngestSettings
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.selection.lookups import missing_objects
from wikidata.dumps import compress, entity, item, line, property_, statement, time, write_dump

SETTINGS = IngestSettings("2024-05-01", "all")
P6 = property_("P6", "head of government")


def country(number: int):
    dates = {"P580": time("2001-02-03"), "P582": time(f"{2005 + number}")}
    claims = [statement("P6", entity(f"Q{1000 + number}"), qualifiers=dates, references=1)]
    return item(f"Q{number}", f"country {number}", title=f"Country {number}", claims=claims)


COUNTRIES = [country(number) for number in range(1, 8)]


def tables(folder):
    snapshot = open_snapshot(folder)
    return [file.read_bytes() for file in snapshot.files()], (folder / "bad.jsonl").read_bytes()


def _written(path, text):
    path.write_text(text)
    return path


def ingested(path, out, settings=SETTINGS):
    ingest(path, out, settings)
    return tables(out)


@pytest.mark.parametrize("ending", [".json", ".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("indent", [None, 0, 1, "\t"])
def test_a_single_entity_in_every_form_is_the_dump_of_it(tmp_path, indent, ending):
    one = COUNTRIES[0]
    expected = ingested(write_dump(tmp_path / "dump.json", [one]), tmp_path / "dump")
    forms = [
        one,
        {"entities": {"Q1": one}},
        {"success": 1, "entities": {"Q1": one}},
        {"entities": {"Q1": one}, "success": 1},
        [one],
    ]
    for number, form in enumerate(forms):
        text = json.dumps(form, indent=indent, ensure_ascii=number % 2 == 0)
        for end in ("", "\r\n") if number else ("", "\n"):
            path = tmp_path / f"form{ending}"
            path.write_bytes(compress((text + end).encode(), ending))
            assert ingested(path, tmp_path / f"{number}{len(end)}") == expected


def test_several_files_are_the_dump_of_all_their_entities(tmp_path):
    everything = [*COUNTRIES, P6]
    expected = ingested(write_dump(tmp_path / "dump.json", everything), tmp_path / "dump")
    rng = random.Random(0)
    for turn in range(8):
        folder = tmp_path / f"files{turn}"
        folder.mkdir()
        cuts = sorted(rng.sample(range(1, len(everything)), 3))
        parts = [everything[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
        files = []
        for number, part in enumerate(parts):
            layout, ending = rng.choice(["array", "lines", "document"]), rng.choice([".json", ".gz", ".bz2", ".zst"])
            files.append(write_dump(folder / f"{number}{ending}", part, layout))
        for name in ("notes.txt", "manifest.json", "0.json.manifest.json", ".hidden.json"):
            (folder / name).write_text("{}")
        assert ingested(files, tmp_path / f"s{turn}") == expected
        assert ingested(folder, tmp_path / f"f{turn}") == expected
        assert ingested([files[0], *files[1:]], tmp_path / f"s{turn}") == expected  # left as it is
        with pytest.raises(ConfigError, match=r"dump\.(name|sample)"):
            ingest(files[::-1], tmp_path / f"s{turn}", SETTINGS)
    names = json.loads((tmp_path / "f0" / "manifest.json").read_text())["dump"]
    assert names["name"].startswith("0.") and names["name"].endswith(" and 3 more files")


def test_an_entity_that_comes_again_is_set_aside_so_that_the_first_file_counts(tmp_path):
    own = item("Q1", "my own label", title="One")
    paths = [write_dump(tmp_path / "own.json", [own]), write_dump(tmp_path / "topic.json.gz", [*COUNTRIES, P6])]
    manifest = ingest(paths, tmp_path / "s", SETTINGS)
    rows = open_snapshot(tmp_path / "s").read("entities", 0)
    assert dict(rows.select("id", "label").iter_rows())["Q1"] == "my own label" and rows.height == 7
    assert manifest["counts"]["bad"] == 1


def test_what_is_cut_off_among_several_files_is_named(tmp_path):
    sound = write_dump(tmp_path / "sound.json", COUNTRIES[:2])
    whole = [line(one) for one in COUNTRIES[2:]]
    broken = {
        "entity": json.dumps(COUNTRIES[2], indent=1)[:-200],
        "answer": json.dumps({"entities": {"Q3": COUNTRIES[2]}})[:-30],
        "lines": "\n".join(whole)[:-100],
    }
    for name, text in broken.items():
        path = tmp_path / f"{name}.json"
        path.write_text(text)
        with pytest.raises(DataError, match=rf"{name}\.json.*cut off"):
            ingest([sound, path], tmp_path / "s", SETTINGS)
    (tmp_path / "array.json").write_text("[\n" + ",\n".join(whole) + ",\n")
    with pytest.raises(DataError, match=r"2 lines '\[' and 1 lines '\]': a part of the array is missing"):
        ingest([sound, tmp_path / "array.json"], tmp_path / "s", SETTINGS)
    path.write_text("\n".join(whole))
    assert ingest([sound, path], tmp_path / "s", SETTINGS)["counts"]["items"] == 7  # what was read before is forgotten


def test_what_is_bad_in_one_of_several_files_is_told_with_its_name(tmp_path):
    whole = write_dump(tmp_path / "whole.json", COUNTRIES[:3])
    answer = json.dumps({"entities": {"Q4": COUNTRIES[3], "Q5": {"type": "item", "id": "X5"}}}, indent=1)
    files = [whole, _written(tmp_path / "answer.json", answer)]
    with pytest.raises(DataError, match=r"the first in the text: byte [0-9,]+ \(X5: answer\.json: 'X5' is not the id"):
        ingest(files, tmp_path / "s", SETTINGS)
    ingest(files, tmp_path / "s", IngestSettings("2024-05-01", "all", most_bad=50))
    [row] = [json.loads(text) for text in (tmp_path / "s" / "bad.jsonl").read_text().splitlines()]
    assert row["reason"].startswith("answer.json: 'X5'") and row["position"] == whole.stat().st_size


def test_what_an_answer_calls_missing_is_skipped_and_counted(tmp_path, capsys):
    sound, version_2 = {"Q1": COUNTRIES[0]}, {"id": "Q8", "missing": True}
    expected = ingested(_written(tmp_path / "sound.json", json.dumps({"entities": sound})), tmp_path / "sound")
    entities = {"Q9": {"id": "Q9", "missing": ""}, **sound, "Q8": version_2}
    path = _written(tmp_path / "answer.json", json.dumps({"entities": entities, "success": 1}))
    arguments = ["wikidata", "ingest", str(path), "--date", "2024-05-01", "--wiki", "all", "--out", str(tmp_path / "s")]
    assert run(arguments) == 0
    assert "2 ids without an entity were skipped" in capsys.readouterr().err
    assert tables(tmp_path / "s") == expected
    counts = [json.loads((tmp_path / name / "manifest.json").read_text())["counts"] for name in ("s", "sound")]
    assert counts[0] == counts[1] | {"missing": 2}


def test_every_file_is_looked_for_on_the_machines_of_a_cluster(tmp_path, monkeypatch):
    paths = [write_dump(tmp_path / f"{number}.json", [one]) for number, one in enumerate(COUNTRIES[:2])]
    seen = []
    monkeypatch.setattr("anachron.wikidata.reading.ingest.check_shared", lambda read, *_: seen.extend(read))
    ingest(paths, tmp_path / "s", SETTINGS)
    assert seen == paths


def test_a_dump_may_lie_in_its_snapshot_only_where_the_caller_put_it_there(tmp_path):
    path = write_dump(tmp_path / "d.json", COUNTRIES[:2])
    with pytest.raises(ConfigError, match=r"is not empty \(d\.json\)"):
        ingest(path, tmp_path, SETTINGS)
    with pytest.raises(ConfigError, match=r"is not empty \(d\.json\)"):
        ingest(path, tmp_path, SETTINGS, beside=frozenset({"other"}))
    assert ingest(path, tmp_path, SETTINGS, beside=frozenset({"d.json"}))["counts"]["items"] == 2


def test_files_that_cannot_go_together_are_refused(tmp_path, monkeypatch):
    paths = [write_dump(tmp_path / f"{number}.json", [one]) for number, one in enumerate(COUNTRIES[:2])]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty holds no file that ends in \.json, \.gz, \.bz2, \.zst"):
        ingest(tmp_path / "empty", tmp_path / "s", SETTINGS)
    with pytest.raises(DataError, match=r"none\.json: no such file"):
        ingest([paths[0], tmp_path / "none.json"], tmp_path / "s", SETTINGS)
    size = sum(path.stat().st_size for path in paths)
    monkeypatch.setattr(module, "LARGEST", size - 1)
    with pytest.raises(DataError, match=rf"2 files of {size:,} bytes together: several are read as one piece"):
        ingest(paths, tmp_path / "s", SETTINGS)
    monkeypatch.setattr(module, "LARGEST", size)
    monkeypatch.setattr(module, "LONGEST_LINE", 100)
    for given in (paths, _written(tmp_path / "pretty.json", json.dumps(COUNTRIES[0], indent=1))):
        with pytest.raises(
            DataError, match=r"\.json: more than 100 bytes of JSON in one document, or in one of several"
        ):
            ingest(given, tmp_path / "s", SETTINGS)
    monkeypatch.undo()
    ingest(paths, tmp_path / "s", SETTINGS)
    stream = tmp_path / "stream.json"
    stream.write_text("\n".join(json.dumps(one, indent=1) for one in COUNTRIES))
    with pytest.raises(DataError, match=r"stream\.json: .*jq -c \. FILE"):
        ingest(stream, tmp_path / "t", SETTINGS)


def test_what_an_entity_names_and_its_file_lacks_is_told_in_one_line_with_the_command(tmp_path, capsys):
    path = tmp_path / "Q1.json"
    path.write_text(json.dumps({"entities": {"Q1": COUNTRIES[0]}}, indent=1))
    arguments = ["wikidata", "ingest", str(path), "--date", "2024-05-01", "--wiki", "all", "--out"]
    assert run([*arguments, str(tmp_path / "s")]) == 0
    told = [text for text in capsys.readouterr().err.splitlines() if "wikidata fetch" in text]
    assert told == [
        f"warning: 1 of the 1 items that dated statements of {tmp_path / 's'} name are not in it (Q1001), nor 1 of its "
        "relations (P6): facts need their labels; make a snapshot with them by `anachron wikidata fetch --items Q1 "
        "--out needed`"
    ]
    assert run(["build", "facts", str(tmp_path / "s"), "--no-popularity", "--out", str(tmp_path / "f.parquet")]) == 2
    assert "anachron wikidata fetch --items Q1 --out needed" in capsys.readouterr().err
    early = ["--ended-before", "1900"]  # labels are not what empties it
    assert (
        run(["build", "facts", str(tmp_path / "s"), "--no-popularity", *early, "--out", str(tmp_path / "f.csv")]) == 2
    )
    assert "wikidata fetch" not in capsys.readouterr().err
    # What a fetch gave is not fetched again, though its objects may lack others; nor what no fact can come of
    undated = item("Q1", "country", claims=[statement("P6", entity("Q1001"))])
    made = [("topic.json.gz", COUNTRIES[0], {}), ("d.json", COUNTRIES[0], {"topic": {}}), ("u.json", undated, {})]
    for name, one, more in made:
        ingest(write_dump(tmp_path / name, [one]), tmp_path / f"of-{name}", SETTINGS, more=more)
        assert missing_objects(open_snapshot(tmp_path / f"of-{name}")) is None


def test_of_many_subjects_the_command_takes_a_file_and_large_snapshots_are_not_read(tmp_path):
    many = [country(number) for number in range(1, 30)]
    ingest(write_dump(tmp_path / "d.json", many), tmp_path / "s", SETTINGS)
    said = missing_objects(open_snapshot(tmp_path / "s"))
    assert said is not None and "29 of the 29 items" in said and "(Q1001, Q1002, Q1003, Q1004, Q1005, ...)" in said
    assert said.endswith("--items FILE --out needed`, where FILE has the ids of its 29 subjects, one a line")
    ingest(tmp_path / "d.json", tmp_path / "two", IngestSettings("2024-05-01", "all", buckets=2))
    assert missing_objects(open_snapshot(tmp_path / "two")) is None
    people = [item(f"Q{1000 + number}", f"person {number}") for number in range(1, 16)]
    ingest(write_dump(tmp_path / "more.json", [*many, *people]), tmp_path / "more", SETTINGS)
    assert missing_objects(open_snapshot(tmp_path / "more")) is None  # more than half are there
