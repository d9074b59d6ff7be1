"""CSV and TSV. A cell is (bytes, whether they stand in quotes; for TSV, whether they have their escapes)."""

from __future__ import annotations

import csv
import io
import random
from typing import Any

from tests.fidelity.cases import SourceFile
from tests.fidelity.sources import Text

Cell = tuple[bytes, bool]

_ESCAPES = {b"\\": b"\\\\", b"\t": b"\\t", b"\n": b"\\n", b"\r": b"\\r", b"\0": b"\\0"}
_MEANT = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"0": b"\0", b"\\": b"\\", b"'": b"'", b"b": b"\b", b"f": b"\f"}
_BOM = b"\xef\xbb\xbf"


def text_layout(choose: random.Random, *, has_quotes: bool) -> dict[str, Any]:
    """How a file of text is laid out."""
    return {
        "quote": choose.choice(("minimal", "minimal", "all", "text")) if has_quotes else "none",
        "end": choose.choice((b"\n", b"\n", b"\n", b"\r\n")),
        "last_end": choose.random() < 0.8,
        "blank": choose.choice(("", "", "", "", "", "", "", "last")),
        "bom": choose.random() < 0.05,
        "null": choose.choice((b"", b"", b"\\N")) if has_quotes else b"\\N",
    }


def quote_like(choose: random.Random, raw: bytes, layout: dict[str, Any], *, is_number: bool) -> Cell:
    """A value as a cell, in quotes where the layout has it so, or where it must be."""
    if layout["quote"] == "none":
        return raw, False
    needs = any(char in raw for char in b',"\n\r')
    wants = {"all": True, "text": not is_number, "minimal": False}[layout["quote"]]
    # An empty line is no row; unquoted, \N would be NULL.
    return raw, needs or wants or raw in (b"", b"\\N")


def write_csv(file: SourceFile, *, has_names: bool) -> bytes:
    """A file of CSV."""
    quote_all = file.layout["quote"] == "all"

    def shown(cell: Cell) -> bytes:
        raw, is_quoted = cell
        return b'"' + raw.replace(b'"', b'""') + b'"' if is_quoted else raw

    def name(text: str) -> Cell:
        raw = text.encode()
        return raw, quote_all or any(char in raw for char in b',"\n\r')

    return _lines(file, b",", shown, [shown(name(lane.name)) for lane in file.lanes] if has_names else None)


def write_tsv(file: SourceFile, *, has_names: bool) -> bytes:
    """A file of TSV. NULL is None; of other cells the flag says whether the bytes have their escapes already."""

    def escaped(raw: bytes) -> bytes:
        for char, written in _ESCAPES.items():
            raw = raw.replace(char, written)
        return raw

    def shown(cell: Cell | None) -> bytes:
        if cell is None:
            return b"\\N"
        raw, has_escapes = cell
        return raw if has_escapes else escaped(raw)

    return _lines(file, b"\t", shown, [escaped(lane.name.encode()) for lane in file.lanes] if has_names else None)


def _lines(file: SourceFile, between: bytes, shown: Any, names: list[bytes] | None) -> bytes:
    rows = zip(*(lane.cells for lane in file.lanes), strict=True)
    lines = [between.join(names)] if names is not None else []
    lines += [between.join(map(shown, row)) for row in rows]
    end = file.layout["end"]
    body = end.join(lines) + (end if file.layout["last_end"] and lines else b"")
    if file.layout["blank"] and body.endswith(end):
        body += end
    return (_BOM if file.layout["bom"] else b"") + body


def read_csv(body: bytes, names: list[str] | None) -> dict[str, list[Any]]:
    """A file's columns as source values: by Python's csv, and which fields are quoted by a tokenizer."""
    text = body.removeprefix(_BOM).decode("latin-1")
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    tokens = [row for row in _tokens(body.removeprefix(_BOM)) if row != [(b"", False)]]
    assert [[cell.encode("latin-1") for cell in row] for row in rows] == [[raw for raw, _ in row] for row in tokens]
    return _columns(tokens, names)


def _columns(rows: list[list[Cell]], names: list[str] | None) -> dict[str, list[Any]]:
    if names is None:
        names, rows = [raw.decode() for raw, _ in rows[0]] if rows else [], rows[1:]
    return {name: [Text(*row[number]) for row in rows] for number, name in enumerate(names)}


def _tokens(body: bytes) -> list[list[Cell]]:
    rows: list[list[Cell]] = [[]]
    at = 0
    while at < len(body):
        is_quoted = body[at : at + 1] == b'"'
        start = at
        if is_quoted:
            at += 1
            while body[at : at + 1] != b'"' or body[at + 1 : at + 2] == b'"':
                at += 2 if body[at : at + 2] == b'""' else 1
            raw, at = body[start + 1 : at].replace(b'""', b'"'), at + 1
        else:
            while at < len(body) and body[at] not in b",\r\n":
                at += 1
            raw = body[start:at]
        rows[-1].append((raw, is_quoted))
        if body[at : at + 1] == b",":
            at += 1
            if at == len(body) or body[at] in b"\r\n":
                rows[-1].append((b"", False))
            else:
                continue
        if at < len(body):
            at += 2 if body[at : at + 2] == b"\r\n" else 1
            rows.append([])
    return rows if rows[-1] else rows[:-1]


def read_tsv(body: bytes, names: list[str] | None) -> dict[str, list[Any]]:
    """A file's columns as source values; as `read_csv`."""
    body = body.removeprefix(_BOM).replace(b"\r\n", b"\n")
    lines = [line for line in body.split(b"\n") if line]
    rows = [line.split(b"\t") for line in lines]
    if names is None:
        names, rows = [_unescaped(raw).decode() for raw in rows[0]] if rows else [], rows[1:]
    return {
        name: [None if row[number] == b"\\N" else Text(_unescaped(row[number]), written=row[number]) for row in rows]
        for number, name in enumerate(names)
    }


def _unescaped(raw: bytes) -> bytes:
    first, *others = raw.split(b"\\")
    found = first
    others_left = iter(others)
    for part in others_left:
        if not part:
            # Two backslashes are one, and what follows is plain.
            found += b"\\" + next(others_left, b"")
            continue
        found += _MEANT[part[:1]] + part[1:]
    return found
