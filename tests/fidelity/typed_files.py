"""Parquet, ORC and Arrow files by pyarrow. A cell is what `pyarrow.array` takes."""

from __future__ import annotations

import io
import random
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.orc
import pyarrow.parquet as pq

from tests.fidelity.arrow_values import NOT_HELD, arrow_array, from_arrow
from tests.fidelity.cases import SourceFile
from tests.fidelity.sources import Many, Moment, Pairs, Struct

#: Whether a type can be written, by format and type: nobody lists it.
_WRITABLE: dict[tuple[str, str], bool] = {}


def parquet_layout(choose: random.Random) -> dict[str, Any]:
    """How a Parquet file is laid out."""
    return {
        "compression": choose.choice(("snappy", "none", "zstd", "gzip", "lz4", "brotli")),
        "use_dictionary": choose.random() < 0.5,
        "row_group_size": choose.choice((1000, 1, 2, 3)),
        "data_page_version": choose.choice(("1.0", "2.0")),
        "data_page_size": choose.choice((1 << 20, 1)),
        "version": choose.choice(("2.6", "1.0", "2.4")),
        "use_deprecated_int96_timestamps": choose.random() < 0.15,
        "store_decimal_as_integer": choose.random() < 0.3,
        "store_schema": choose.random() < 0.5,
        "write_statistics": choose.random() < 0.7,
        "write_page_index": choose.random() < 0.2,
        "use_byte_stream_split": False,
    }


def arrow_layout(choose: random.Random) -> dict[str, Any]:
    """How an Arrow file is laid out."""
    return {"compression": choose.choice((None, "lz4", "zstd")), "rows_of_batch": choose.choice((1000, 1, 2))}


def orc_layout(choose: random.Random) -> dict[str, Any]:
    """How an ORC file is laid out."""
    return {
        "compression": choose.choice(("uncompressed", "zlib", "snappy", "zstd", "lz4")),
        "dictionary_key_size_threshold": choose.choice((0.0, 1.0)),
        "file_version": choose.choice(("0.12", "0.11")),
    }


def table_of(file: SourceFile) -> pa.Table:
    """A file's columns as a table of Arrow."""
    arrays = [arrow_array(lane.cells, lane.written_as) for lane in file.lanes]
    return pa.Table.from_arrays(arrays, names=[lane.name for lane in file.lanes])


def write_typed(table: pa.Table, file_format: str, layout: dict[str, Any]) -> bytes:
    """A table as a file."""
    buffer = io.BytesIO()
    if file_format == "Parquet":
        pq.write_table(table, buffer, **layout)
    elif file_format == "ORC":
        pa.orc.write_table(table, buffer, **layout)
    else:
        options = pa.ipc.IpcWriteOptions(compression=layout["compression"])
        # Dictionaries that differ from batch to batch cannot be written into a file.
        with pa.ipc.new_file(buffer, table.schema, options=options) as writer:
            writer.write_table(table.unify_dictionaries(), max_chunksize=layout["rows_of_batch"])
    return buffer.getvalue()


def read_typed(body: bytes, file_format: str) -> dict[str, list[Any]]:
    """A file's columns as source values, by pyarrow."""
    source = pa.BufferReader(body)
    if file_format == "Parquet":
        file = pq.ParquetFile(source)
        table = file.read()
        physical = {file.schema.column(number).physical_type for number in range(len(file.schema))}
        if "INT96" in physical:
            return {name: [_int96(from_arrow(each)) for each in table.column(name)] for name in table.column_names}
    elif file_format == "ORC":
        table = pa.orc.ORCFile(source).read()
    else:
        table = pa.ipc.open_file(source).read_all()
    return {name: [from_arrow(each) for each in table.column(name)] for name in table.column_names}


def _int96(source: Any) -> Any:
    """A value of a file with INT96: its time stamps say nothing of zones, though pyarrow's schema may."""
    if isinstance(source, Moment):
        return Moment(source.seconds, None)
    if isinstance(source, Many):
        return Many(tuple(map(_int96, source.elements)))
    if isinstance(source, Struct):
        return Struct(tuple((name, _int96(each)) for name, each in source.fields))
    if isinstance(source, Pairs):
        return Pairs(tuple((_int96(key), _int96(each)) for key, each in source.pairs))
    return source


def is_writable(arrow_type: pa.DataType, file_format: str) -> bool:
    """Whether pyarrow writes and reads a type in a format."""
    key = file_format, str(arrow_type)
    if key not in _WRITABLE:
        layout = {"compression": None, "rows_of_batch": 1} if file_format == "Arrow" else {}
        try:
            table = pa.Table.from_arrays([arrow_array([None], arrow_type)], names=["x"])
            read_typed(write_typed(table, file_format, layout), file_format)
            _WRITABLE[key] = True
        except (*NOT_HELD, NotImplementedError):
            _WRITABLE[key] = False
    return _WRITABLE[key]
