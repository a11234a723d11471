"""Spreadsheets written by hand, cell by cell, so that no library stands between a test and what a file holds."""

import datetime
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

Cells = Sequence[Sequence[Any]]
_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_STYLES = f"""<styleSheet {_MAIN}><fonts count="1"><font/></fonts><fills count="1"><fill/></fills>
<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>
<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/></cellXfs></styleSheet>"""
_ODS = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
)


@dataclass(frozen=True)
class Formula:
    """A cell with a formula. value: what it was when the file was saved: a number, a text or an error such as #REF!."""

    formula: str
    value: Any


def xlsx(path: Path, sheets: Mapping[str, Cells], *, merged: Sequence[str] = (), since_1904: bool = False) -> Path:
    """A workbook of these sheets. merged: ranges of the first one, such as A2:A3. Dates are cells with the format of a
    date; since_1904: days are counted as old Excel for Mac does."""
    numbers = range(1, len(sheets) + 1)
    kinds = "".join(
        f'<Override PartName="/xl/worksheets/sheet{n}.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
        for n in numbers
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '
        'ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType='
        f'"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>{kinds}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {_MAIN} xmlns:r="{_OFFICE}"><workbookPr date1904="{int(since_1904)}"/><sheets>'
        + "".join(f'<sheet name={quoteattr(name)} sheetId="{n}" r:id="rId{n}"/>' for n, name in enumerate(sheets, 1))
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        + "".join(
            f'<Relationship Id="rId{n}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{n}.xml"/>' for n in numbers
        )
        + f'<Relationship Id="rId0" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": _STYLES,
    }
    first_day = datetime.date(1904, 1, 1) if since_1904 else datetime.date(1899, 12, 30)
    for n, cells in enumerate(sheets.values(), 1):
        rows = "".join(
            f'<row r="{r}">' + "".join(_xlsx_cell(f"{chr(65 + c)}{r}", cell, first_day) for c, cell in enumerate(row))
            + "</row>"
            for r, row in enumerate(cells, 1)
        )  # fmt: skip
        spans = "".join(f'<mergeCell ref="{span}"/>' for span in merged) if n == 1 else ""
        more = f"<mergeCells>{spans}</mergeCells>" if spans else ""
        parts[f"xl/worksheets/sheet{n}.xml"] = f"<worksheet {_MAIN}><sheetData>{rows}</sheetData>{more}</worksheet>"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in parts.items():
            file.writestr(name, '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n' + text)
    return path


def _xlsx_cell(place: str, cell: Any, first_day: datetime.date) -> str:
    formula = f"<f>{escape(cell.formula)}</f>" if isinstance(cell, Formula) else ""
    value = cell.value if isinstance(cell, Formula) else cell
    if value is None:
        return f'<c r="{place}">{formula}</c>' if formula else ""
    if isinstance(value, datetime.date):
        return f'<c r="{place}" s="1">{formula}<v>{(value - first_day).days}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{place}">{formula}<v>{value}</v></c>'
    if formula:
        return f'<c r="{place}" t="{"e" if value.startswith("#") else "str"}">{formula}<v>{escape(value)}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'


def ods(path: Path, sheets: Mapping[str, Cells]) -> Path:
    """An OpenDocument spreadsheet of these sheets."""
    tables = "".join(
        f"<table:table table:name={quoteattr(name)}>"
        + "".join(f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in cells)
        + "</table:table>"
        for name, cells in sheets.items()
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    manifest = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
    entries = "".join(
        f'<manifest:file-entry manifest:full-path="{name}" manifest:media-type="{of}"/>'
        for name, of in (("/", kind), ("content.xml", "text/xml"))
    )
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("mimetype", kind)
        file.writestr(
            "META-INF/manifest.xml", f'<manifest:manifest xmlns:manifest="{manifest}">{entries}</manifest:manifest>'
        )
        file.writestr(
            "content.xml",
            f'<office:document-content {_ODS} office:version="1.2"><office:body><office:spreadsheet>{tables}'
            "</office:spreadsheet></office:body></office:document-content>",
        )
    return path


def _ods_cell(cell: Any) -> str:
    if cell is None:
        return "<table:table-cell/>"
    if isinstance(cell, datetime.date):
        value = f'office:value-type="date" office:date-value="{cell.isoformat()}"'
    elif isinstance(cell, int | float):
        value = f'office:value-type="float" office:value="{cell}"'
    else:
        value = 'office:value-type="string"'
    return f"<table:table-cell {value}><text:p>{escape(str(cell))}</text:p></table:table-cell>"
