"""Random bytes of each text format: cells full of what may move a reader's borders of rows, and damage."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: A row, as far as any reader got: a text for each column.
Row = tuple[str, ...]
NAMES = ("a", "b", "c")
_PIECES = (
    '"',
    '""',
    "'",
    "\\",
    "\\n",
    "\\\\",
    "\n",
    "\r\n",
    "\r",
    "\n\r",
    ",",
    ";",
    "\t",
    "{",
    "}",
    "[",
    "]",
    ":",
    " ",
    "",
)
_MEANT = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "e": "\x1b"}


@dataclass(frozen=True)
class TextKind:
    """A text format."""

    name: str
    write: Callable[[random.Random, Sequence[Row]], str]
    read: Callable[[str], list[Row]]
    csv: dict[str, str] | None = None


def _csv(delimiter: str, quote: str, *, has_header: bool) -> TextKind:
    def write(chance: random.Random, rows: Sequence[Row]) -> str:
        end = chance.choice(("\n", "\n", "\r\n"))
        lines = [delimiter.join(NAMES)] if has_header else []
        lines += [delimiter.join(_cell(chance, cell, delimiter, quote) for cell in row) for row in rows]
        return "".join(line + end for line in lines)

    def read(text: str) -> list[Row]:
        # Not strict, as ClickHouse is not: the end of a file closes a quote. docs/reference/values.md says so.
        options = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
        found = [tuple(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, **options)]
        if has_header and found[:1] != [NAMES]:
            raise ValueError("another header")
        return _checked(found[has_header:])

    given = {
        name: value for name, value, usual in (("delimiter", delimiter, ","), ("quote", quote, '"')) if value != usual
    }
    return TextKind("CSVWithNames" if has_header else "CSV", write, read, given)


def _cell(chance: random.Random, cell: str, delimiter: str, quote: str) -> str:
    """Write a cell as CSV has it, or at times as it must not be: with a lone quote, or without those that it needs."""
    needs = any(each in cell for each in (delimiter, "\n", "\r")) or cell[:1] in (quote, " ", "\t") or not cell
    if quote and (needs or chance.random() < 0.2) and chance.random() < 0.97:
        return quote + cell.replace(quote, 2 * quote) + quote
    return cell


def _checked(rows: list[Row]) -> list[Row]:
    if any(len(row) != len(NAMES) for row in rows):
        raise ValueError("another number of fields")
    return rows


def _tsv(*, has_header: bool) -> TextKind:
    header = "\t".join(NAMES) + "\n" if has_header else ""

    def write(chance: random.Random, rows: Sequence[Row]) -> str:
        return header + _write_tsv(chance, rows)

    def read(text: str) -> list[Row]:
        if not text.startswith(header):
            raise ValueError("another header")
        return _read_tsv(text.removeprefix(header))

    return TextKind("TabSeparatedWithNames" if has_header else "TabSeparated", write, read)


def _write_tsv(chance: random.Random, rows: Sequence[Row]) -> str:
    def shown(cell: str) -> str:
        if chance.random() < 0.03:
            return cell
        for char, written in {"\\": "\\\\", "\t": "\\t", "\n": chance.choice(("\\n", "\\\n")), "\r": "\\r"}.items():
            cell = cell.replace(char, written)
        return cell

    return "".join("\t".join(map(shown, row)) + "\n" for row in rows)


def _read_tsv(text: str) -> list[Row]:
    rows, row, cell, chars = list[Row](), list[str](), "", iter(text)
    for char in chars:
        if char == "\\":
            meant = next(chars)
            if meant in "xN":
                raise ValueError("an escape of another kind")
            # Others stay as they are, but those that ClickHouse knows.
            cell += _MEANT.get(meant, meant if meant in "\\'\"`/=\n\t\r" else "\\" + meant)
        elif char in "\t\n":
            row, cell = [*row, cell], ""
            if char == "\n":
                rows, row = [*rows, tuple(row)], []
        else:
            cell += char
    if row or cell:
        rows.append((*row, cell))
    return _checked(rows)


def _write_json(chance: random.Random, rows: Sequence[Row]) -> str:
    end = chance.choice(("\n", "\n", "\r\n", " ", ""))
    indent = chance.choice((None, None, 1))
    return "".join(
        json.dumps(dict(zip(NAMES, row, strict=True)), indent=indent, ensure_ascii=chance.random() < 0.5) + end
        for row in rows
    )


def _read_json(text: str) -> list[Row]:
    rows, decoder, at = list[Row](), json.JSONDecoder(strict=False), 0
    while at < len(text):
        if text[at] in " \t\r\n":
            at += 1
            continue
        found, at = decoder.raw_decode(text, at)
        if not isinstance(found, dict):
            raise ValueError("no object")
        rows.append(tuple(found.get(name, "") for name in NAMES))
    if not all(isinstance(cell, str) for row in rows for cell in row):
        raise ValueError("other types")
    return rows


KINDS = [
    *(_csv(",", '"', has_header=has_header) for has_header in (True, False)),
    _csv(";", '"', has_header=True),
    _csv(",", "'", has_header=True),
    _csv("\t", "", has_header=True),
    *(_tsv(has_header=has_header) for has_header in (True, False)),
    TextKind("JSONEachRow", _write_json, _read_json),
]


def rows_of(chance: random.Random) -> list[Row]:
    """Rows of cells made of what has a meaning to some format, and of words."""
    pieces = [*_PIECES, "word", "7", "é"]
    weights = chance.choice([[1] * len(_PIECES) + [9, 9, 3], [0.2] * len(_PIECES) + [20, 9, 3]])
    cells = iter(lambda: "".join(chance.choices(pieces, weights, k=chance.choice((1, 2, 3, 6)))), None)
    return [tuple(next(cells) for _ in NAMES) for _ in range(chance.choice((1, 3, 12, 40)))]


def damaged(chance: random.Random, text: str, *, first: int) -> str:
    """A file in which a few pieces were put, or of which some were lost, behind its header."""
    for _ in range(chance.choice((0, 0, 0, 1, 1, 3))):
        at = chance.randrange(first, len(text) + 1)
        text = text[:at] + chance.choice(_PIECES) + text[at + chance.choice((0, 0, 1)) :]
    return text
