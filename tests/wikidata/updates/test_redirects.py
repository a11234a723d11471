"""Merged items: the list made of the SQL dumps of two tables, and read back."""

import gzip
import hashlib

import pytest

from anachron.cli.entry import run
from anachron.core.errors import DataError
from anachron.wikidata.updates.redirects import read_redirects, write_merged
from support.flaky_server import Cut, Flaky

REDIRECT = r"""-- MySQL dump
CREATE TABLE `redirect` (
  `rd_from` int(8) unsigned NOT NULL DEFAULT 0,
  `rd_namespace` int(11) NOT NULL DEFAULT 0,
  `rd_title` varbinary(255) NOT NULL DEFAULT '',
  `rd_interwiki` varbinary(32) DEFAULT NULL,
  `rd_fragment` varbinary(255) DEFAULT NULL,
  PRIMARY KEY (`rd_from`),
  KEY `rd_namespace_title` (`rd_namespace`,`rd_title`,`rd_from`)
) ENGINE=InnoDB;
INSERT INTO `redirect` VALUES (11,0,'Q2','',''),(12,4,'Q3','',''),(13,0,'Q40',NULL,'a\'),(99,0,\'Q1\',');
INSERT INTO `redirect` VALUES (14,120,'P5','','');
INSERT INTO `redirect` VALUES (15,0,'Q2',NULL,NULL),(16,0,'Q7','','');
"""
OLDER, NEWER = "  `page_restrictions` tinyblob NOT NULL,\n", ""
PAGE = """CREATE TABLE `page` (
  `page_id` int(8) unsigned NOT NULL AUTO_INCREMENT,
  `page_namespace` int(11) NOT NULL DEFAULT 0,
  `page_title` varbinary(255) NOT NULL DEFAULT '',
{more}  `page_is_redirect` tinyint(1) unsigned NOT NULL DEFAULT 0,
  `page_is_new` tinyint(1) unsigned NOT NULL DEFAULT 0,
  `page_random` double unsigned NOT NULL DEFAULT 0,
  PRIMARY KEY (`page_id`)
);
INSERT INTO `page` VALUES (1,0,'Q1',{x}0,0,0.5),(11,0,'Q100',{x}1,0,0.25),(12,4,'Q300',{x}1,0,0.1);
INSERT INTO `page` VALUES (13,0,'Q20',{x}1,1,0.2);
INSERT INTO `page` VALUES (15,0,'Q3',{x}1,0,0.5),(16,0,'Q9',{x}0,1,0.5),(17,0,'Q10',{x}1,0,0.5),(99,0,'Q99',{x}1,0,0.5);
"""


@pytest.mark.parametrize(("more", "x"), [(OLDER, "'',"), (OLDER, "'edit=\\'a\\',1',"), (NEWER, "")])
@pytest.mark.parametrize("ending", [".sql", ".sql.gz"])
def test_the_two_tables_give_the_list(tmp_path, capsys, more, x, ending):
    redirect, page, out = tmp_path / f"r{ending}", tmp_path / f"p{ending}", tmp_path / "merged.csv"
    for path, text in ((redirect, REDIRECT), (page, PAGE.format(more=more, x=x))):
        path.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    with pytest.raises(SystemExit) as ended:
        run(["wikidata", "redirects", str(redirect), str(page), "--out", str(out)])
    assert ended.value.code == 0 and "3 merged items" in capsys.readouterr().err
    assert out.read_text() == "item,merged_into\nQ3,Q2\nQ20,Q40\nQ100,Q2\n"
    assert read_redirects(out) == {"Q3": "Q2", "Q20": "Q40", "Q100": "Q2"}


def test_other_files_are_refused(tmp_path):
    redirect, page, out = tmp_path / "r.sql", tmp_path / "p.sql", tmp_path / "merged.csv"
    redirect.write_text(REDIRECT)
    page.write_text(PAGE.format(more="", x=""))
    for first, second, says in (
        (page, page, "has no rows of the table redirect"),
        (redirect, redirect, "has no rows of the table page"),
        (tmp_path / "none.sql", page, "cannot read"),
    ):
        with pytest.raises(DataError, match=says):
            write_merged(first, second, out)
    page.write_text(PAGE.format(more="", x="").replace("page_is_redirect", "page_redirects"))
    with pytest.raises(DataError, match="has no column page_is_redirect"):
        write_merged(redirect, page, out)
    cut = tmp_path / "r.sql.gz"
    cut.write_bytes(gzip.compress(REDIRECT.encode())[:-20])
    with pytest.raises(DataError, match="fetch it again"):
        write_merged(cut, page, out)
    assert not out.exists()


SQL = "/wikidatawiki/"


def put_tables(server, folders, sums=("sha1", "md5")):
    """``folders``: {"20230301": (tables)}; their pages, files and checksums, as dumps.wikimedia.org has them."""
    server.put(SQL, "".join(f'<a href="{name}/">{name}/</a>\n' for name in [*folders, "latest", "entities"]))
    for day, tables in folders.items():
        begin = f"{SQL}{day}/wikidatawiki-{day}-"
        files = {}
        for table in tables:
            text = REDIRECT if table == "redirect" else PAGE.format(more="", x="") + f"-- of {day}\n"
            files[f"{begin}{table}.sql.gz"] = gzip.compress(text.encode(), mtime=0)
        for path, content in files.items():
            server.put(path, content)
        for kind in sums:
            lines = [f"{hashlib.new(kind, data).hexdigest()}  {path.split('/')[-1]}\n" for path, data in files.items()]
            server.put(f"{begin}{kind}sums.txt", "".join(lines))
        listed = [*files, *(f"{begin}{kind}sums.txt" for kind in sums)]
        server.put(f"{SQL}{day}/", "".join(f'<li><a href="{path}">{path.split("/")[-1]}</a> 3 MB' for path in listed))


def command(*words):
    with pytest.raises(SystemExit) as ended:
        run([str(word) for word in words])
    return ended.value.code


def fetching(server, out, *more, date="2023-02-27"):
    servers = ["--dumps-url", server.url, "--archive-url", server.url]
    return ["wikidata", "download", "--date", date, "--no-dump", "--redirects", "--out", out, *servers, *more]


def test_the_two_tables_are_fetched_and_give_the_list(tmp_path, capsys):
    """Cut off, they go on where they stopped; a day whose second table is not there yet is passed over."""
    both = ("redirect", "page", "pagelinks")
    with Flaky() as server:
        put_tables(server, {"20230201": both, "20230301": ("page",), "20230320": both, "20230401": both})
        path = f"{SQL}20230320/wikidatawiki-20230320-page.sql.gz"
        server.files[path].faults = [Cut(100)]
        words = fetching(server, tmp_path, "--retries", 0)
        assert command(*words) == 1 and "goes on from what is already here" in capsys.readouterr().err
        assert command(*words) == 0
        shown = capsys.readouterr()
        assert (
            "tables of merged items: 2023-03-20, 21 days after 2023-02-27" in shown.err and "warning" not in shown.err
        )
        assert server.asked(path) == [None, "bytes=100-"]
        assert not any("pagelinks" in asked or "entities" in asked for _, asked, _, _ in server.requests)
        files = [tmp_path / f"wikidatawiki-20230320-{table}.sql.gz" for table in ("redirect", "page")]
        assert shown.out.count("\n") == 2 and all(f"{file}  " in shown.out for file in files)
        for file in files:
            assert file.read_bytes() == server.files[f"{SQL}20230320/{file.name}"].data
    assert command("wikidata", "redirects", *files, "--out", tmp_path / "merged.csv") == 0
    assert read_redirects(tmp_path / "merged.csv") == {"Q3": "Q2", "Q20": "Q40", "Q100": "Q2"}


def test_a_table_with_a_wrong_checksum_is_set_aside(tmp_path, capsys):
    with Flaky() as server:
        put_tables(server, {"20230320": ("redirect", "page")})
        server.files[f"{SQL}20230320/wikidatawiki-20230320-page.sql.gz"].data += b"!"
        assert command(*fetching(server, tmp_path)) == 1
        assert "its sha1 is" in capsys.readouterr().err
        assert (tmp_path / "wikidatawiki-20230320-page.sql.gz.wrong").is_file()
        assert not (tmp_path / "wikidatawiki-20230320-page.sql.gz").exists()


def test_tables_of_before_the_day_or_without_checksums_are_warned_of(tmp_path, capsys):
    with Flaky() as server:
        put_tables(server, {"20230101": ("redirect", "page"), "20230201": ("redirect", "page")}, sums=())
        assert command(*fetching(server, tmp_path, "--dry-run")) == 0
        shown = capsys.readouterr().err
        words = (
            "tables of merged items: 2023-02-01, 26 days before 2023-02-27; what was merged since then is not in them"
        )
        assert f"warning: {words}" in shown and shown.count("publishes no checksum for wikidatawiki-20230201-") == 2
        put_tables(server, {"20230201": ("page",), "20230320": ("redirect",)})
        assert command(*fetching(server, tmp_path)) == 1
        assert "no day there has the tables redirect and page; check --dumps-url" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
