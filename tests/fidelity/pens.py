"""Who writes cells: for each family of formats, a lane's type, a cell, and the source value that the cell is."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tests.fidelity.arrow_values import arrow_array, as_arrow, draw, from_arrow, random_arrow_type
from tests.fidelity.column_types import Type
from tests.fidelity.formats import FileFormat, reading_of
from tests.fidelity.json_files import draw_json, is_json
from tests.fidelity.json_files import written as json_written
from tests.fidelity.oracle_json import parse_line
from tests.fidelity.sources import MISSING, Reading, Same, Text
from tests.fidelity.text_files import quote_like
from tests.fidelity.texts import another_notation, hostile_text, text_of
from tests.fidelity.typed_files import is_writable
from tests.fidelity.values import sample


class NoSuchValueError(Exception):
    """No value of the kind that is wanted was found."""


_UNREAD = Reading("")


@dataclass(frozen=True)
class Pen:
    """Writes cells of one format."""

    file_format: FileFormat
    lane_type: Callable[[random.Random, Type], Any]
    cell: Callable[[random.Random, Type, Any, dict[str, Any]], Any]
    exactly: Callable[[random.Random, Any, Type, Any, dict[str, Any]], Any]
    source: Callable[[Any, Any], Any]
    reading: Reading = _UNREAD


def pen_of(file_format: FileFormat) -> Pen:
    """Who writes cells of a format."""
    pens = {"arrow": _arrow_pen, "json": _json_pen, "csv": _text_pen, "tsv": _text_pen}
    return replace(pens.get(file_format.family, _same_pen)(file_format), reading=reading_of(file_format))


def _arrow_pen(file_format: FileFormat) -> Pen:
    def lane_type(choose: random.Random, of: Type) -> Any:
        for _ in range(100):
            if is_writable(found := random_arrow_type(choose, of), file_format.clickhouse):
                return found
        raise NoSuchValueError(of.sql)

    return Pen(
        file_format,
        lane_type,
        lambda choose, of, written_as, layout: draw(choose, of, written_as),
        lambda choose, value, of, written_as, layout: as_arrow(value, of, written_as),
        lambda found, written_as: _read_from_arrow(found, written_as, file_format),
    )


def _read_from_arrow(cell: Any, written_as: pa.DataType, file_format: FileFormat) -> Any:
    array = arrow_array([cell], written_as)
    if file_format.clickhouse == "ORC" and pa.types.is_timestamp(written_as):
        # pyarrow reads no others from ORC.
        array.cast(pa.timestamp("ns", written_as.tz))
    return from_arrow(array[0])


def _json_pen(file_format: FileFormat) -> Pen:
    def cell(choose: random.Random, of: Type, written_as: Any, layout: dict[str, Any]) -> Any:
        found = draw_json(choose, of)
        if found is not MISSING and not is_json(found):
            raise ValueError(found)
        return found

    return Pen(
        file_format,
        lambda choose, of: of,
        cell,
        lambda choose, value, of, written_as, layout: json_written(random.Random(0), value, of),
        lambda found, written_as: found if found is MISSING else parse_line(found),
    )


def _text_pen(file_format: FileFormat) -> Pen:
    is_csv = file_format.family == "csv"

    def cell(choose: random.Random, of: Type, written_as: Any, layout: dict[str, Any]) -> Any:
        if of.holds_null and choose.random() < 0.2:
            return (layout["null"], False) if is_csv else None
        chance, value = choose.random(), sample(choose, of.bare)
        raw = text_of(value, of.bare) if chance < 0.8 else another_notation(choose, value, of.bare)
        if chance > 0.9:
            raw = hostile_text(choose, of.bare)
        if not is_csv:
            # The notation of containers has escapes of its own, which are those of TSV.
            return raw, of.bare.kind in ("Array", "Map", "Tuple") and b"\t" not in raw and b"\n" not in raw
        return quote_like(choose, raw, layout, is_number=of.bare.kind in ("Int", "UInt", "Float", "Decimal"))

    return Pen(
        file_format,
        lambda choose, of: of,
        cell,
        lambda choose, value, of, written_as, layout: quote_like(
            choose, text_of(value, of), layout, is_number=of.kind in ("Int", "UInt")
        ),
        lambda found, written_as: _read_from_text(found, is_csv=is_csv),
    )


def _read_from_text(cell: Any, *, is_csv: bool) -> Any:
    if cell is None or is_csv:
        return cell and Text(*cell)
    raw, has_escapes = cell
    return Text(raw, written=raw if has_escapes else b"")


def _same_pen(file_format: FileFormat) -> Pen:
    return Pen(
        file_format,
        lambda choose, of: of,
        lambda choose, of, written_as, layout: sample(choose, of),
        lambda choose, value, of, written_as, layout: value,
        lambda cell, written_as: Same(cell),
    )
