"""Merged items: the list made of the SQL dumps of two tables, and read back."""

import gzip

import pytest

from anachron.cli.entry import run
from anachron.errors import DataError
from anachron.updates.redirect_tables import write_merged
from anachron.updates.redirects import read_redirects

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
