"""Page views and popularity, against counting line by line."""

import bz2
import json
import random
import statistics
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import ConfigError, DataError
from anachron.wikidata.reading import streams
from anachron.wikidata.views import pageviews, popularity
from anachron.wikidata.views.pageviews import (
    Lines,
    PageviewFile,
    lines_of,
    months_of,
    normalise,
    parse_name,
    read_views,
)
from anachron.wikidata.views.popularity import compute_popularity, gaps, project_of
from wikidata.views import write, write_snapshot

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "wikidata" / "pageviews"


# ---------------------------------------------------------------- the naive way


def naive_title(raw):
    """A title of a page-view file as a sitelink writes it, for letters whose capital is one letter."""
    if len(raw) >= 2 and raw[0] == raw[-1] == '"':
        raw = raw[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    title = " ".join(part for part in raw.replace("_", " ").split(" ") if part)
    return title[:1].upper() + title[1:]


def naive_line(line, project):
    """Title and views of a line; None for a line of another project; "bad" for one that makes no sense."""
    parts = line.split(b" ")
    if parts[0] != project.encode() or len(parts) == 1:
        return None
    parts = [part.decode(errors="replace") for part in parts[:7]]
    while parts and not parts[-1]:  # an empty column at the end is none, and nothing behind it is looked at
        parts.pop()
    if len(parts) < 2 or "\ufffd" in parts[1] or not all(parts[1:]) or len(parts) not in (5, 6):
        return "bad"

    def number(text):
        return text.isascii() and text.isdigit() and len(text) <= 12

    if number(parts[4]):
        return naive_title(parts[1]), int(parts[4])
    if len(parts) == 5 and number(parts[3]):
        return naive_title(parts[1]), int(parts[3])
    return "bad"


def naive_sums(text, project="en.wikipedia"):
    views, lines = Counter(), Lines()
    for line in text.removesuffix(b"\n").split(b"\n") if text else []:
        lines.read += 1
        found = naive_line(line, project)
        lines.project += found is not None
        if found == "bad":
            lines.bad += 1
        elif found is not None:
            views[found[0]] += found[1]
    return views, lines


def naive_popularity(months, entities, redirects=()):
    """``months``: sums by title, oldest first; ``entities``: {id: title}. Rows like those of the table."""
    owners = set(entities.values())
    moved = {source: target for source, target in redirects if source not in owners}
    rows = []
    for id, title in entities.items():
        series = [sum(n for t, n in month.items() if t == title or moved.get(t) == title) for month in months]
        if any(series):
            first = next(i for i, n in enumerate(series) if n)
            rows.append((id, title, float(statistics.median(series[first:])), len(series) - first, sum(series)))
    return sorted(rows, key=lambda row: (-row[2], row[0]))


# ---------------------------------------------------------------- what tests read


def sums_of(path, project="en.wikipedia", **options):
    lines, views = Lines(), Counter()
    for table in read_views(path, project, lines, **options):
        for title, n in table.iter_rows():
            views[title] += n
    return views, lines


def rows(path):
    table = pl.read_parquet(path)
    assert dict(table.schema) == {
        "id": pl.String,
        "title": pl.String,
        "popularity": pl.Float64,
        "months": pl.Int32,
        "views": pl.Int64,
    }
    return table.rows()


def month_text(seed, titles, project="en.wikipedia", share=0.7):
    """Lines like those of real files: sorted, several a title, some odd ones."""
    draw = random.Random(seed)
    lines = []
    for title in titles:
        if draw.random() > share:
            continue
        raw = title.replace(" ", "_")
        if '"' in raw:
            raw = '"' + raw.replace("\\", "\\\\").replace('"', '\\"') + '"'
        elif draw.random() < 0.2:
            raw = raw[0].lower() + raw[1:]
        for access in draw.sample(["desktop", "mobile-app", "mobile-web"], draw.randint(1, 3)):
            n, page = draw.randint(1, 5000), draw.choice(["null", str(draw.randrange(10**7))])
            daily = draw.choice([f"A{n}", f"A1\\{n}", f"[1^{n}_2]3"])
            shape = draw.randrange(10)
            columns = [page, access, str(n), daily]
            columns = columns[1:] if shape == 0 else columns[:-1] if shape == 1 else columns
            lines.append(" ".join([project, raw, *columns]))
    bad = [
        "X",
        "X 12",
        "X 12 desktop",
        "X 12 desktop many A1",
        "X 12 desktop -4 A4",
        " 12 desktop 4 A4",
        "X 1 d 2 A1 ?",
    ]
    lines += [f"{project} {rest}" for rest in bad]
    projects = ("de.wikipedia", "en.wikipediax", "en.wikipedi", "zh.wikipedia")
    others = [f"{other} {title} null desktop 7 A7" for other in projects for title in "AB"]
    return "\n".join(sorted(lines + others)) + "\n"


TITLES = [
    *(f"Title {n} ({n % 7})" for n in range(60)),
    '"Heroes" (album)',
    'Say "no"',
    '"Quoted"',
    "AC\\DC",
    "Émile Zola",
    "Ödön",
    "İzmir",
    "日本",
    "50% off",
    "Q&A",
    "'N Sync",
    "!",
]
ENTITIES = {f"Q{n}": title for n, title in enumerate(TITLES, 1)} | {"Q900": "Never seen", "Q901": None}
WITH_TITLE = {id: title for id, title in ENTITIES.items() if title}


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("ending", [".bz2", ".gz", ""])
def test_sums_of_a_file_are_those_of_counting_line_by_line(tmp_path, ending):
    text = month_text(1, TITLES).encode()
    views, lines = sums_of(write(tmp_path, f"pageviews-202012-user{ending}", text))
    assert (views, lines) == naive_sums(text)
    assert lines.bad == 7 and '"Heroes" (album)' in views


_WORDS = b'en.wikipedia de.wikipedia Main_Page main_page "\\"A\\"_b" null 12 desktop A1B2 -3 1.5 % [3\\4 " '
_WORDS += b"\xc3\xa9t \xd9\xa3 \xff\xfe"  # two letters, a digit that is not ASCII, and no UTF-8
_part = st.sampled_from([*_WORDS.split(b" "), b"", b"9" * 12, b"9" * 13])
_line = st.lists(_part, max_size=7).map(b" ".join)
_project_line = st.tuples(st.just(b"en.wikipedia"), _line).map(b" ".join)


@given(st.lists(_line | _project_line | st.binary(max_size=12).map(lambda b: b.translate(None, b"\r\n")), max_size=30))
def test_any_lines_are_counted_as_one_by_one(tmp_path_factory, lines):
    first = b"aa.wikibooks Main_Page null desktop 8 F8"  # so that no file begins like a compressed one
    text = b"".join(line + b"\n" for line in [first, *lines])
    path = write(tmp_path_factory.mktemp("any"), "pageviews-202012-user", text)
    assert sums_of(path) == naive_sums(text)


@given(
    st.lists(st.sampled_from([b"en.x a", b"en.x b", b"en.xy c", b"de.x d", b"en.x", b"", b"z en.x e"]), max_size=12),
    st.sampled_from([b"en.x ", b"de.x "]),
)
def test_lines_of_a_project_in_a_block(lines, prefix):
    block = b"".join(line + b"\n" for line in lines)
    assert lines_of(block, prefix) == b"".join(line + b"\n" for line in lines if line.startswith(prefix))


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_blocks_and_batches_make_no_difference(tmp_path, monkeypatch, size):
    text = month_text(2, TITLES).encode()
    path = write(tmp_path, "pageviews-202012-user.gz", text.removesuffix(b"\n"))  # without the end of its last line
    monkeypatch.setattr(streams, "CHUNK", size)
    monkeypatch.setattr(pageviews, "BATCH", size * 3)
    assert sums_of(path) == naive_sums(text)


def test_several_streams_and_threads(tmp_path):
    text = month_text(3, TITLES).encode()
    path = tmp_path / "pageviews-202012-user.bz2"
    half = len(text) // 2
    path.write_bytes(bz2.compress(text[:half]) + bz2.compress(text[half:]))
    assert sums_of(path, threads=2) == naive_sums(text)


@pytest.mark.parametrize("ending", [".bz2", ".gz"])
def test_a_file_that_is_cut_off_or_damaged_is_refused(tmp_path, ending):
    path = write(tmp_path, f"pageviews-202012-user{ending}", month_text(4, TITLES * 3))
    whole = path.read_bytes()
    for cut in (len(whole) - 1, len(whole) - 9, len(whole) // 2, 20):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError, match=r"cut off|damaged"):
            sums_of(path)
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 0x55
    path.write_bytes(broken)
    with pytest.raises(DataError, match=r"damaged|cut off|checksum"):
        sums_of(path)


@pytest.mark.parametrize("ending", [".bz2", ".gz", ""])
def test_an_empty_file_has_no_lines(tmp_path, ending):
    assert sums_of(write(tmp_path, f"pageviews-202012-user{ending}", b"")) == (Counter(), Lines())


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        ("Main_Page", "Main Page"),
        ("eBay", "EBay"),
        ("émile_Zola", "Émile Zola"),
        ("ßeta", "ßeta"),
        ("ǆ", "Ǆ"),
        ("ǅ", "ǅ"),
        ("ᾳ", "ᾼ"),
        ("ᾲ", "ᾲ"),
        ("ⅻ", "ⅻ"),
        ("ⓐ", "ⓐ"),
        ("i_x", "I x"),
        ("ıx", "Ix"),
        ("ÿ", "Ÿ"),
        ("İx", "İx"),
        ("საქართველო", "საქართველო"),
        ("_a__b_", "A b"),
        ('"\\"Heroes\\"_(album)"', '"Heroes" (album)'),
        ('"\\""', '"'),
        ('"a\\\\b\\""', 'A\\b"'),
        ('"', '"'),
        ('Say_"no"', 'Say "no"'),
        ("Caf%C3%A9", "Café"),
        ("50%_off", "50% off"),
        ("%FF", "%FF"),
        ("日本", "日本"),
    ],
)
def test_titles_as_sitelinks_write_them(raw, title):
    assert normalise(pl.DataFrame({"title": [raw]}), "en.wikipedia").rows() == [(title,)]


def test_wiktionaries_tell_small_letters_from_capitals():
    table = pl.DataFrame({"title": ["be", "___", "Be_x"], "views": [1, 2, 3]})
    assert normalise(table, "en.wiktionary").rows() == [("be", 1), ("Be x", 3)]


@pytest.mark.parametrize(
    ("project", "raw", "title"),
    [
        ("tr.wikipedia", "istanbul", "İstanbul"), ("az.wikipedia", "i_x", "İ x"), ("tr.wikibooks", "ığdır", "Iğdır"),
        ("tr.wikipedia", "Istanbul", "Istanbul"), ("tr.wikipedia", "ankara", "Ankara"),
        ("tr.wiktionary", "istanbul", "istanbul"), ("kaa.wikipedia", "ırma", "Írma"), ("kaa.wikipedia", "is", "Is"),
        ("kk.wikipedia", "i", "I"), ("jbo.wikipedia", "mi_tavla", "mi tavla"), ("nl.wikipedia", "ij", "Ij"),
    ],
)  # fmt: skip
def test_each_wiki_capitalises_as_its_language_does(project, raw, title):
    """What MediaWiki's Language::ucfirst makes of these, with Wikimedia's settings."""
    assert normalise(pl.DataFrame({"title": [raw], "views": [1]}), project).rows() == [(title, 1)]


def test_views_of_small_and_capital_letters_meet_in_turkish(tmp_path):
    lines = ("istanbul 1 desktop 3 A3", "İstanbul 1 desktop 5 A5", "Istanbul 2 desktop 1 A1")
    path = tmp_path / "pageviews-202012-user"
    path.write_text("".join(f"tr.wikipedia {line}\n" for line in lines))
    (table,) = read_views(path, "tr.wikipedia", Lines())
    sums = table.group_by("title").agg(pl.col("views").sum()).sort("title").rows()
    assert sums == [("Istanbul", 1), ("İstanbul", 8)]


@pytest.mark.parametrize(
    ("name", "month", "day"),
    [
        ("pageviews-202012-user.bz2", "2020-12", None),
        ("qrank_pageviews-20230320-user.bz2", "2023-03", 20),
        ("pageviews-20240229-user.gz", "2024-02", 29),
        ("pageviews-202012-user", "2020-12", None),
    ],
)
def test_names_tell_months_and_days(tmp_path, name, month, day):
    (tmp_path / name).touch()
    found = parse_name(tmp_path / name)
    assert (found.month, found.day) == (month, day)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("views.bz2", "must end in pageviews-YYYYMM-user"),
        ("pageviews-202012-spider.bz2", "views by spider"),
        ("pageviews-202013-user.bz2", "holds no date"),
        ("pageviews-20230229-user.bz2", "holds no date"),
        ("pageviews-2023-user.bz2", "must end in"),
        ("pageviews-202012-user.bz2", "no such file"),
        ("pageviews-202012-user.bz2.part", "must end in"),
    ],
)
def test_other_names_are_refused(tmp_path, name, message):
    with pytest.raises(ConfigError, match=message):
        parse_name(tmp_path / name)


def test_two_files_of_one_month_are_refused(tmp_path):
    for names in (
        ["pageviews-202012-user.bz2", "pageviews-202012-user.gz"],
        ["pageviews-20201203-user.bz2", "pageviews-202012-user.bz2"],
        ["pageviews-202012-user.bz2", "pageviews-20201203-user.bz2"],
        ["pageviews-20201203-user.bz2", "pageviews-20201203-user.gz"],
    ):
        files = [parse_name(write(tmp_path, name, "")) for name in names]
        with pytest.raises(ConfigError, match=r"2020-12: both .* hold its views"):
            months_of(files)
    with pytest.raises(ConfigError, match="no page-view files"):
        months_of([])


# ---------------------------------------------------------------- popularity


def test_popularity_is_the_median_from_the_first_month_with_views(tmp_path):
    snapshot = write_snapshot(tmp_path / "snapshot", ENTITIES)
    names = [f"pageviews-2020{month:02d}-user.bz2" for month in range(8, 13)] + ["pageviews-202101-user.gz"]
    texts = [month_text(n, TITLES, share=0.5) for n in range(len(names))]
    files = [write(tmp_path / "views", name, text) for name, text in zip(names, texts, strict=True)]
    found = compute_popularity(snapshot, reversed(files))
    sums = [naive_sums(text.encode()) for text in texts]
    expected = naive_popularity([views for views, _ in sums], WITH_TITLE)
    assert rows(found.path) == expected
    assert {row[3] for row in expected} >= {6, 5, 4}  # months differ, so the beginning matters
    assert found.counts == {
        "files": 6,
        "lines": sum(lines.read for _, lines in sums),
        "lines_of_project": sum(lines.project for _, lines in sums),
        "bad_lines": sum(lines.bad for _, lines in sums),
        "entities": len(ENTITIES),
        "titles": len(WITH_TITLE),
        "with_views": len(expected),
        "without_views": len(WITH_TITLE) - len(expected),
        "views_matched": sum(row[4] for row in expected),
        "views_of_project": sum(sum(views.values()) for views, _ in sums),
    }
    assert found.warnings == []
    manifest = json.loads((snapshot / "popularity.parquet.manifest.json").read_text())
    assert manifest["counts"] == found.counts and set(manifest["inputs"]) == set(names)
    assert manifest["parameters"]["months"] == [f"2020-{m:02d}" for m in range(8, 13)] + ["2021-01"]
    assert not list((snapshot / "pageviews").glob("*work"))


def test_redirects_add_their_views_to_their_targets(tmp_path):
    entities = {"Q1": "USA", "Q2": "Cat", "Q3": "Felis"}
    snapshot = write_snapshot(tmp_path / "snapshot", entities)
    first = {"USA": 5, "america": 7, "Felis": 100, "Kitty": 3}
    second = {"U.S.A.": 11, "America": 2, "Cat": 1, "B": 9}
    texts = [
        "".join(f"en.wikipedia {title} null desktop {n} A{n}\n" for title, n in month.items())
        for month in (first, second)
    ]
    files = [write(tmp_path, f"pageviews-20200{n}-user", text) for n, text in enumerate(texts, 1)]
    redirects = tmp_path / "redirects.tsv"
    pairs = [("America", "USA"), ("U.S.A.", "USA"), ("Felis", "Cat"), ("Kitty", "Cat"), ("B", "C"), ("C", "USA")]
    redirects.write_text("".join(f"{source.lower().replace(' ', '_')}\t{target}\n" for source, target in pairs[:1]))
    with redirects.open("a") as more:
        more.writelines(f"{source}\t{target}\n" for source, target in [*pairs[1:], ("Kitty", "Cat"), ("Cat", "Cat")])
    found = compute_popularity(snapshot, files, redirects=redirects)
    sums = [naive_sums(text.encode())[0] for text in texts]
    expected = naive_popularity(sums, entities, pairs)
    assert rows(found.path) == expected
    assert {row[0]: row[4] for row in expected} == {
        "Q1": 25,
        "Q2": 4,
        "Q3": 100,
    }  # Felis keeps its own; B leads nowhere
    assert (found.counts["redirects"], found.counts["redirects_used"]) == (7, 4)
    assert rows(compute_popularity(snapshot, files).path) == naive_popularity(sums, entities)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A\tB\nC\n", "line 2: .* a column is empty"),
        ("A\n", "its first has 1 columns"),
        ("A\tB\tC\n", "its first has 3 columns"),
        ("A\tB\nC\tD\tE\n", "lines must be from-title, tab, to-title"),
        ("A\tB\na\tC\n", "'A' leads to both 'B' and 'C'"),
    ],
)
def test_lists_of_redirects_that_make_no_sense(tmp_path, text, message):
    snapshot = write_snapshot(tmp_path / "snapshot", {"Q1": "B"})
    (tmp_path / "redirects.tsv").write_text(text)
    file = write(tmp_path, "pageviews-202001-user", "en.wikipedia A null desktop 1 A1\n")
    with pytest.raises(DataError, match=message):
        compute_popularity(snapshot, [file], redirects=tmp_path / "redirects.tsv")
    with pytest.raises(ConfigError, match="no such file"):
        compute_popularity(snapshot, [file], redirects=tmp_path / "none.tsv")
    (tmp_path / "redirects.tsv").write_text("")
    assert compute_popularity(snapshot, [file], redirects=tmp_path / "redirects.tsv").counts["redirects"] == 0


def test_days_are_summed_to_months(tmp_path):
    snapshot = write_snapshot(tmp_path / "snapshot", {"Q1": "A", "Q2": "B"})
    days = {"20230101": 5, "20230131": 6, "20230305": 1, "20230201": 406}
    text = "en.wikipedia A 1 desktop {n} A{n}\n"
    files = [write(tmp_path, f"pageviews-{day}-user", text.format(n=n)) for day, n in days.items()]
    files.append(write(tmp_path, "pageviews-202306-user", "en.wikipedia B 1 desktop 40 A40\n"))
    found = compute_popularity(snapshot, files)
    assert rows(found.path) == [("Q2", "B", 40.0, 1, 40), ("Q1", "A", 6.0, 4, 5 + 6 + 1 + 406)]
    assert len(found.warnings) == 4 and found.counts["files"] == 5


def test_missing_months_and_days_are_named():
    def files(month, days):
        return [PageviewFile(Path("x"), month, day) for day in days]

    months = {
        "2022-12": files("2022-12", [None]),
        "2023-01": files("2023-01", [1, *range(4, 32)]),
        "2023-02": files("2023-02", range(1, 29)),
        "2023-03": files("2023-03", [31]),
        "2023-06": files("2023-06", [None]),
    }
    assert gaps(months) == [
        "no file of 2023-04, 2023-05: medians are over the other months",
        "2023-01: 29 of its 31 days are given, without 2, 3; its views are those of these days",
        f"2023-03: 1 of its 31 days are given, without {', '.join(str(day) for day in range(1, 31))}; "
        "its views are those of these days",
    ]
    assert gaps({"2020-02": files("2020-02", range(1, 30))}) == []


def test_another_month_reads_only_the_new_file(tmp_path, monkeypatch):
    snapshot = write_snapshot(tmp_path / "snapshot", ENTITIES)
    files = [write(tmp_path, f"pageviews-20200{n}-user.bz2", month_text(n, TITLES)) for n in (1, 2, 3)]
    opened = []
    real = popularity.read_views
    monkeypatch.setattr(popularity, "read_views", lambda path, *rest: opened.append(path.name) or real(path, *rest))
    compute_popularity(snapshot, files[:2])
    whole = compute_popularity(snapshot, files)
    assert opened == [file.name for file in files]
    again = compute_popularity(snapshot, files)
    assert len(opened) == 3 and again.counts == whole.counts
    files[0].touch()  # another time, the same bytes
    compute_popularity(snapshot, files)
    assert len(opened) == 3
    write(tmp_path, files[0].name, month_text(9, TITLES))  # other bytes
    changed = compute_popularity(snapshot, files)
    assert opened[3:] == [files[0].name] and changed.counts != whole.counts
    compute_popularity(snapshot, files, project="de.wikipedia")
    assert len(opened) == 7
    (snapshot / "pageviews" / f"{files[1].name}.parquet.manifest.json").unlink()  # killed before it was written
    compute_popularity(snapshot, files, project="de.wikipedia")
    assert opened[7:] == [files[1].name]


def test_workers_make_no_difference(tmp_path):
    files = [write(tmp_path, f"pageviews-20200{n}-user.bz2", month_text(n, TITLES)) for n in (1, 2)]
    one = write_snapshot(tmp_path / "one", ENTITIES)
    two = write_snapshot(tmp_path / "two", ENTITIES)
    a, b = compute_popularity(one, files), compute_popularity(two, files, workers=2)
    assert a.path.read_bytes() == b.path.read_bytes() and a.counts == b.counts


def test_paths_with_quotation_marks(tmp_path):
    snapshot = write_snapshot(tmp_path / "it's a snapshot", {"Q1": "A"})
    file = write(tmp_path / "o'views", "pageviews-202001-user", "en.wikipedia A null desktop 1 A1\n")
    assert rows(compute_popularity(snapshot, [file]).path) == [("Q1", "A", 1.0, 1, 1)]


def test_a_file_without_the_project_gives_an_empty_table(tmp_path):
    snapshot = write_snapshot(tmp_path / "snapshot", {"Q1": "A"})
    file = write(tmp_path, "pageviews-202001-user", "de.wikipedia A null desktop 1 A1\n")
    found = compute_popularity(snapshot, [file])
    assert rows(found.path) == [] and found.counts["lines"] == 1 and found.counts["lines_of_project"] == 0


def test_the_project_is_that_of_the_snapshot(tmp_path):
    snapshot = write_snapshot(tmp_path / "snapshot", {"Q1": "A"}, wiki="zh_yuewiki")
    file = write(tmp_path, "pageviews-202001-user", "en.wikipedia A 1 d 2 A2\nzh-yue.wikipedia A 1 d 3 A3\n")
    assert rows(compute_popularity(snapshot, [file]).path) == [("Q1", "A", 3.0, 1, 3)]
    found = compute_popularity(snapshot, [file], project="en.wikipedia")
    assert rows(found.path) == [("Q1", "A", 2.0, 1, 2)]
    assert found.warnings == [
        "the snapshot has titles of zh_yuewiki (zh-yue.wikipedia), the views are those of en.wikipedia"
    ]
    with pytest.raises(ConfigError, match="write it as page-view files do"):
        compute_popularity(snapshot, [file], project="enwiki")
    assert [project_of(wiki) for wiki in ("enwiki", "frwikisource", "all", "wiki")] == [
        "en.wikipedia",
        "fr.wikisource",
        None,
        None,
    ]


@pytest.mark.parametrize(("language", "project"), [("en", "en.wikipedia"), ("fr", "fr.wikipedia")])
def test_with_every_item_the_project_is_the_wikipedia_of_the_language(tmp_path, language, project):
    snapshot = write_snapshot(tmp_path / "snapshot", {"Q1": "Rome"}, wiki="all", language=language)
    text = "en.wikipedia Rome 1 d 2 A2\nfr.wikipedia Rome 1 d 3 A3\n"
    found = compute_popularity(snapshot, [write(tmp_path, "pageviews-202001-user", text)])
    views = {"en": 2, "fr": 3}[language]
    assert rows(found.path) == [("Q1", "Rome", float(views), 1, views)] and not found.warnings
    assert json.loads((snapshot / "popularity.parquet.manifest.json").read_text())["parameters"]["project"] == project
    other = compute_popularity(snapshot, [tmp_path / "pageviews-202001-user"], project="de.wikipedia")
    assert f"titles of {language}wiki ({project}), the views are those of de.wikipedia" in other.warnings[0]


def test_a_wiki_without_a_project_must_be_told_one(tmp_path):
    snapshot = write_snapshot(tmp_path / "snapshot", {"Q1": "A"}, wiki="something")
    file = write(tmp_path, "pageviews-202001-user", "some.thing A 1 d 2 A2\n")
    with pytest.raises(ConfigError, match="known of something; name their project with --wiki-project"):
        compute_popularity(snapshot, [file])
    assert rows(compute_popularity(snapshot, [file], project="some.thing").path) == [("Q1", "A", 2.0, 1, 2)]


def test_what_cannot_be_done_is_refused(tmp_path):
    file = write(tmp_path, "pageviews-202001-user", "en.wikipedia A null desktop 1 A1\n")
    with pytest.raises(DataError, match="no such snapshot"):
        compute_popularity(tmp_path / "none", [file])
    with pytest.raises(DataError, match="none of its entities has a title"):
        compute_popularity(write_snapshot(tmp_path / "snapshot", {"Q1": None}), [file])
    with pytest.raises(ConfigError, match="no page-view files"):
        compute_popularity(tmp_path / "snapshot", [])


def test_a_damaged_file_leaves_nothing_behind(tmp_path):
    snapshot = write_snapshot(tmp_path / "snapshot", ENTITIES)
    file = write(tmp_path, "pageviews-202001-user.bz2", month_text(1, TITLES))
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    with pytest.raises(DataError):
        compute_popularity(snapshot, [file])
    assert [path.name for path in (snapshot / "pageviews").iterdir()] == [".lock"]
    file.write_bytes(whole)
    assert compute_popularity(snapshot, [file]).counts["with_views"]


def test_damaged_tables_are_not_taken_for_a_lack_of_memory(tmp_path):
    snapshot = write_snapshot(tmp_path / "snapshot", {f"Q{n}": f"T{n}" for n in range(9)}, buckets=1)
    file = write(tmp_path, "pageviews-202001-user", "en.wikipedia T1 null desktop 1 A1\n")
    compute_popularity(snapshot, [file])
    for table, words in (
        (snapshot / "pageviews" / "pageviews-202001-user.parquet", "pageviews cannot be read .*remove that folder"),
        (snapshot / "entities" / "part-000.parquet", "entities.* cannot be read .*ingest the dump again"),
    ):
        whole = table.read_bytes()
        for damaged in (whole[:50], whole[:4] + b"\xff" * 60 + whole[64:]):
            table.write_bytes(damaged)
            with pytest.raises(DataError, match=words):
                compute_popularity(snapshot, [file])
        table.unlink()
        if "pageviews" in words:  # as the message says
            assert rows(compute_popularity(snapshot, [file]).path) == [("Q1", "T1", 1.0, 1, 1)]


def test_a_second_process_is_kept_out(tmp_path):
    import filelock

    snapshot = write_snapshot(tmp_path / "snapshot", {"Q1": "A"})
    file = write(tmp_path, "pageviews-202001-user", "en.wikipedia A null desktop 1 A1\n")
    (snapshot / "pageviews").mkdir()
    with filelock.FileLock(snapshot / "pageviews" / ".lock"), pytest.raises(ConfigError, match="another process"):
        compute_popularity(snapshot, [file])


@pytest.mark.skipif(not SHARED.is_dir(), reason="the excerpts of real page views are not here")
def test_excerpts_of_real_files(tmp_path):
    files = sorted(SHARED.glob("*.bz2"))
    for project in ("en.wikipedia", "de.wikipedia", "rm.wikipedia"):
        total, lines = Counter(), Lines()
        for file in files:
            views, counted = naive_sums(bz2.decompress(file.read_bytes()), project)
            assert sums_of(file, project) == (views, counted)
            total.update(views)
            lines = Lines(lines.read + counted.read, lines.project + counted.project, lines.bad + counted.bad)
        if project == "de.wikipedia":
            continue
        entities = {f"Q{n}": title for n, title in enumerate(sorted(total))}
        snapshot = write_snapshot(tmp_path / project, entities)
        found = compute_popularity(snapshot, files, project=project)
        assert rows(found.path) == naive_popularity([total], entities)
        assert found.counts["lines"] == lines.read and found.counts["bad_lines"] == lines.bad == 0
        assert found.warnings[-1].startswith("2023-03: 6 of its 31 days are given")
    assert total["Obergesteln"] == 1 + 1 + 1
