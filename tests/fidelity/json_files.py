"""JSON lines. A cell is a value's text, or MISSING."""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from typing import Any

from tests.fidelity.cases import SourceFile
from tests.fidelity.column_types import Type
from tests.fidelity.oracle_json import parse_line
from tests.fidelity.sources import MISSING
from tests.fidelity.texts import another_notation, hostile_text, text_of
from tests.fidelity.values import sample

#: Values that any column may meet.
_WILD = (b"null", b"true", b"5", b"5.0", b"5.5", b'"5"', b'""', b"[]", b"{}", b"1e3", b'"x"', b"[1]", b'{"a":1}', b"-1")


def json_layout(choose: random.Random) -> dict[str, Any]:
    """How a file of JSON lines is laid out."""
    return {
        "end": choose.choice((b"\n", b"\n", b"\r\n")),
        "last_end": choose.random() < 0.8,
        "blank": choose.choice(("", "", "", "", "last")),
        "spaces": choose.random() < 0.3,
        "shuffle": choose.randrange(1000) if choose.random() < 0.3 else None,
        "escape_names": choose.random() < 0.1,
    }


def draw_json(choose: random.Random, of: Type) -> Any:
    """A value for a column, as text of JSON, or MISSING. It may not be one that the column holds."""
    chance = choose.random()
    if of.holds_null and chance > 0.8:
        return MISSING if chance > 0.9 else b"null"
    bare = of.bare
    if chance < 0.08:
        return choose.choice(_WILD)
    if chance < 0.12:
        return json.dumps(hostile_text(choose, bare).decode()).encode()
    return written(choose, sample(choose, bare), bare)


def written(choose: random.Random, value: Any, of: Type) -> bytes:
    """A value as JSON."""
    if value is None:
        return b"null"
    bare = of.bare
    if bare.kind == "Array":
        return b"[" + b",".join(written(choose, each, bare.inner[0]) for each in value) + b"]"
    if bare.kind == "Map":
        pairs = (
            _string(choose, text_of(name, bare.inner[0].bare)) + b":" + written(choose, each, bare.inner[1])
            for name, each in value
        )
        return b"{" + b",".join(pairs) + b"}"
    if bare.kind == "Tuple":
        parts = [written(choose, each, kind) for each, kind in zip(value, bare.inner, strict=True)]
        if not bare.names:
            return b"[" + b",".join(parts) + b"]"
        named = [_string(choose, name.encode()) + b":" + part for name, part in zip(bare.names, parts, strict=True)]
        return b"{" + b",".join(named) + b"}"
    return _scalar(choose, value, bare)


def _scalar(choose: random.Random, value: Any, of: Type) -> bytes:
    if of.kind in ("JSON", "Dynamic", "Variant"):
        return json.dumps(value.decode() if isinstance(value, bytes) else value).encode()
    is_plain = choose.random() < 0.9
    text = text_of(value, of) if is_plain else another_notation(choose, value, of)
    is_number = isinstance(value, int | float | Decimal) and of.kind not in ("DateTime", "DateTime64", "Time", "Time64")
    if isinstance(value, float) and not math.isfinite(value):
        is_number = False
    return text if is_number and choose.random() < 0.9 else _string(choose, text)


def _string(choose: random.Random, raw: bytes) -> bytes:
    return json.dumps(raw.decode(), ensure_ascii=choose.random() < 0.5).encode()


def write_json(file: SourceFile) -> bytes:
    """A file of JSON lines."""
    shuffled = random.Random(file.layout["shuffle"])
    lines = []
    for number in range(file.rows):
        fields = [
            _name(lane.name, file.layout) + b":" + lane.cells[number]
            for lane in file.lanes
            if lane.cells[number] is not MISSING
        ]
        if file.layout["shuffle"] is not None:
            shuffled.shuffle(fields)
        lines.append(b"{" + (b" , " if file.layout["spaces"] else b",").join(fields) + b"}")
    end = file.layout["end"]
    body = end.join(lines) + (end if file.layout["last_end"] and lines else b"")
    return body + (end if file.layout["blank"] and body.endswith(end) else b"")


def _name(name: str, layout: dict[str, Any]) -> bytes:
    if layout["escape_names"]:
        return b'"' + "".join(f"\\u{ord(char):04x}" for char in name).encode() + b'"'
    return json.dumps(name).encode()


def read_json(body: bytes, names: list[str]) -> dict[str, list[Any]]:
    """The columns of these names as source values, by Python's json; of a name that is there twice, a list of both."""
    lines = [parse_line(line) for line in body.replace(b"\r\n", b"\n").split(b"\n") if line.strip()]
    return {name: [_field(line.fields, name) for line in lines] for name in names}


def _field(fields: Any, name: str) -> Any:
    found = [value for key, value in fields if key == name]
    return found[0] if found else MISSING


def is_json(text: bytes) -> bool:
    """Whether Python's json takes it; some notations of numbers are none of JSON."""
    try:
        parse_line(text)
    except ValueError:
        return False
    return (b"NaN" not in text and b"Infinity" not in text) or text.startswith(b'"')
