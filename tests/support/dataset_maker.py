"""Made-up data set files, in the formats of the originals, for tests of the loaders."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import msgspec

from hatevolution.adapters.datasets import LocatedDataset, locate
from hatevolution.configs.dataset_schema import Columns, DatasetConfig, Labels, load_dataset
from hatevolution.domain import Sentence

LABELS = Labels(toxic=(1,), respectful=(0,))
COLUMNS = Columns(id="id", text="text", label="label")


class Formula(NamedTuple):
    """A cell with an array formula and the value that the program which wrote the file computed for it."""

    formula: str
    cached: str | None


def config_for(path: Path, **said: object) -> DatasetConfig:
    """A user's set that is one file."""
    known: dict[str, object] = {"name": "mine", "path": str(path), "columns": COLUMNS, "labels": LABELS}
    columns = said.get("columns")
    if isinstance(columns, Columns) and columns.label is None and not columns.annotators:
        known["labels"] = None
    return msgspec.convert({**known, **said}, DatasetConfig, from_attributes=True)


def located(path: Path, **said: object) -> LocatedDataset:
    """A user's set, found."""
    return locate(config_for(path, **said), path.parent / "mine.toml", None)


def read(path: Path, **said: object) -> list[Sentence]:
    """All sentences of a user's set."""
    return list(located(path, **said).sentences())


def shipped(name: str, *paths: Path) -> LocatedDataset:
    """A set of the study whose released file is replaced by a made-up one of the same format."""
    config, config_path = load_dataset(name)
    found = locate(config, config_path, paths[0].parent)
    assert [file.path for file in found.files] == list(paths)
    return found


def write_csv(path: Path, header: list[str], rows: list[list[str]], terminator: str = "\n") -> Path:
    """A CSV file as the csv module writes it."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        # Python 3.11's writer leaves a bare carriage return without the quotes that its reader needs.
        bare = any("\r" in cell for row in rows for cell in row)
        writer = csv.writer(stream, lineterminator=terminator, quoting=csv.QUOTE_ALL if bare else csv.QUOTE_MINIMAL)
        writer.writerows([header, *rows])
    return path


def write_text(path: Path, text: str) -> Path:
    """A file with exactly this text."""
    path.write_bytes(text.encode("utf-8"))
    return path


Cell = str | float | int | Formula | None


def write_xlsx(path: Path, sheet: str, rows: list[list[Cell]]) -> Path:
    """A workbook written cell by cell, since openpyxl can't write a formula together with its value."""
    body = "".join(
        f'<row r="{number}">{"".join(_cell(number, at, cell) for at, cell in enumerate(row))}</row>'
        for number, row in enumerate(rows, 1)
    )
    ns = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    rel = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        '<Override PartName="/xl/workbook.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
        '<Override PartName="/xl/worksheets/sheet1.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="r1" Type="{rel}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{ns}" xmlns:r="{rel}"><sheets>'
        f'<sheet name="{escape(sheet)}" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="r1" Type="{rel}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{ns}"><sheetData>{body}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>' + text)
    return path


def _cell(row: int, at: int, cell: Cell) -> str:
    place = f"{'ABCDEFGHIJKLMNOP'[at]}{row}"
    if cell is None:
        return ""
    if isinstance(cell, Formula):
        value = "" if cell.cached is None else f"<v>{escape(cell.cached)}</v>"
        return f'<c r="{place}" t="str"><f t="array" ref="{place}">{escape(cell.formula)}</f>{value}</c>'
    if isinstance(cell, str):
        return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(cell)}</t></is></c>'
    return f'<c r="{place}"><v>{cell}</v></c>'
