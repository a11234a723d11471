"""Files that are not UTF-8: read as what their letters say, with a notice; refused where two encodings fit alike."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import DataError
from anachron.data.loaders import load_dataset
from anachron.data.own.encodings import decoded
from anachron.data.own.files import is_fact_file, read_given_facts

GERMAN = "Land;Amt;Person;von;bis\nÖsterreich;Staatsoberhaupt;Wolfgang Schüssel;04.02.2000;11.01.2007\n"
KNOWN = {  # name -> (encoding, text)
    "German": ("cp1252", GERMAN),
    "one umlaut": ("cp1252", "Land;Amt;Person;von;bis\nSchweiz;Hauptstadt;Zürich;2000;\n"),
    "sharp s": ("cp1252", "Land;Amt;Person;von;bis\nSchweiz;Hauptstadt;Große Straße;2000;\n"),
    "French": ("cp1252", "pays;fonction;titulaire;début;fin\nFrance;président;François Mitterrand;1981;1995\n"),
    "French, few": ("cp1252", "pays;fonction;titulaire;début;fin\nSuisse;capitale;Genève;1981;1995\n"),
    "Spanish": ("cp1252", "país;cargo;persona;desde;hasta\nEspaña;presidente;José María Aznar;1996;2004\n"),
    "Portuguese": ("cp1252", "país;cargo;titular;início;fim\nSão Tomé;presidente;João Gonçalves;2000;2001\n"),
    "Swedish": ("cp1252", "subject;relation;object;start;end\nSverige;huvudstad;Göran på ön;1996;2006\n"),
    "signs": ("cp1252", "subject;relation;object;start;end\nFirm – “big”;capital;5 €;1996;2006\n"),
    "questions": (
        "cp1252",
        "subject;relation;object;start;end;question\nA;b;C;1996;2006;¿quién gobernaba A en el año?\n",
    ),
    "Polish": ("cp1250", "Kraj;Urząd;Osoba;od;do\nPolska;premier;Włodzimierz Cimoszewicz;1996;1997\n"),
    "Polish name": ("cp1250", "subject,relation,object,start,end\nPoland,prezydent,Lech Wałęsa,1990,1995\n"),
    "Czech": ("cp1250", "subject,relation,object,start,end\nČesko,předseda vlády,Miloš Zeman,1998,2002\n"),
    "Hungarian": ("cp1250", "subject,relation,object,start,end\nMagyarország,főváros,Győr és Göncz Árpád,1990,2000\n"),
    "Russian": ("cp1251", "subject,relation,object,start,end\nРоссия,президент,Борис Ельцин,1991,1999\n"),
    "one Cyrillic word": ("cp1251", "subject,relation,object,start,end\nRussia,capital,Москва,1991,\n"),
    "Ukrainian": ("cp1251", "subject,relation,object,start,end\nУкраїна,столиця,Київ,1991,\n"),
    "KOI8": ("koi8_r", "subject,relation,object,start,end\nRussia,capital,Москва,1991,\n"),
    "Greek": ("cp1253", "subject,relation,object,start,end\nΕλλάδα,πρωθυπουργός,Κώστας Καραμανλής,2004,2009\n"),
    "Turkish": ("cp1254", "subject,relation,object,start,end\nTürkiye,cumhurbaşkanı,Abdullah Gül Erdoğan,2007,2014\n"),
    "Lithuanian": ("cp1257", "subject,relation,object,start,end\nLietuva,sostinė,Šiauliai ir Nausėda,1990,\n"),
    "old Mac": ("mac_roman", GERMAN + "Deutschland;Hauptstadt;Köln und Käßdorf;1990;\n"),
    "DOS": ("cp850", GERMAN),
}
SHOWN = {"cp1250": "Windows-1250", "cp1251": "Windows-1251", "cp1252": "Windows-1252", "cp1253": "Windows-1253",
         "cp1254": "Windows-1254", "cp1257": "Windows-1257"}  # fmt: skip


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", KNOWN)
def test_letters_come_out_right(name: str, end: str) -> None:
    encoding, text = KNOWN[name]
    text = text.replace("\n", end)
    read, (note,) = decoded(text.encode(encoding))
    assert read == text
    assert f"the file is not UTF-8 and is read as {SHOWN.get(encoding, encoding)} ('" in note
    assert "save the file as UTF-8" in note


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_utf_8_stays_so(name: str) -> None:
    text = KNOWN[name][1]
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert decoded(text.encode(encoding)) == (text, ())


@pytest.mark.parametrize(
    ("text", "encoding", "said"),
    [
        ("Poland,city,Gdańsk", "cp1250", "it may be Windows-1252 ('Gdañsk'; in Windows-1250 it would be 'Gdańsk')"),
        ("Denmark,capital,København", "cp1252", "('København'; in Windows-1250 it would be 'Křbenhavn')"),
        ("日本,首相,小泉純一郎", "shift_jis", "no other encoding fits"),
        ("中华人民共和国,首都,北京", "gb18030", "no other encoding fits"),
        ("대한민국,수도,서울", "euc_kr", "no other encoding fits"),
    ],
)
def test_what_cannot_be_told_is_refused(tmp_path: Path, text: str, encoding: str, said: str) -> None:
    (path := tmp_path / "f.csv").write_bytes(f"subject,relation,object,start,end\n{text},1990,\n".encode(encoding))
    for read in (read_given_facts, lambda path: load_dataset(str(path))):
        with pytest.raises(DataError) as refused:
            read(path)
        assert "line 2: the byte 0x" in str(refused.value) and said in str(refused.value)
        assert "save the file as UTF-8" in str(refused.value)


def test_utf_8_with_a_broken_byte_is_not_taken_for_another(tmp_path: Path) -> None:
    content = GERMAN.encode() + b"Fran\xe7ois;Amt;Stra\xc3\x9fe;2000;\n"
    with pytest.raises(DataError, match=r"line 3: the byte 0xe7 is not UTF-8, though the rest of the file is"):
        decoded(content)


def test_a_file_is_known_and_read_whatever_its_encoding(tmp_path: Path) -> None:
    lines = "pays;fonction;titulaire;début;fin\r\nFrance;capital;Pâris;1944;\nSuisse;capital;Genève;1848;\r\n"
    (path := tmp_path / "f.csv").write_bytes(lines.encode("cp1252"))
    (plain := tmp_path / "p.csv").write_text("subject,relation,object,start,end\nFrance,capital,Pâris,1944,\n"
                                             "Suisse,capital,Genève,1848,\n", "utf-8")  # fmt: skip
    assert is_fact_file(path)
    data, expected = (load_dataset(str(one), as_of="2025") for one in (path, plain))
    assert data.table.equals(expected.table) and "Windows-1252" in data.notes[0]
    long = lines.replace("Genève", "Évian " * 200_000)  # more than its head
    path.write_bytes(long.encode("cp1252"))
    assert is_fact_file(path) and len(read_given_facts(path).facts) == 2


HOLDERS = [
    "Österreich;Bundeskanzler;Sebastian Kurz", "Tschechien;Präsident;Miloš Zeman",
    "Spanien;Regierungschef;Pedro Sánchez",
    "Frankreich;Staatsoberhaupt;François Hollande", "Portugal;Premierminister;António Guterres",
    "Norwegen;Ministerpräsident;Jonas Gahr Støre", "Island;Ministerpräsident;Bjarni Benediktsson Þór",
    "Estland;Präsident;Alar Karis Žukov", "Irland;Präsident;Mícheál Ó Móráin", "Schweden;König;Carl Gustaf Åkesson",
]  # fmt: skip


@given(st.lists(st.sampled_from(HOLDERS), min_size=1, max_size=6, unique=True))
def test_names_of_many_languages_under_german_headers_are_windows_1252(rows: list[str]) -> None:
    text = "\n".join(["Land;Amt;Name;von;bis", *rows, ""])
    assert decoded(text.encode("cp1252"))[0] == text
