"""Files of every format and codec, as common writers make them, and what happens to files on their way."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import random
import shutil
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import brotli
import lz4.frame
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import zstandard

#: A field that zeros fill to the end of a file is as long as they are.
csv.field_size_limit(2**30)

Rows = list[tuple[int, str]]
#: The ending of what nothing proves to be whole.
SNAPPY = "snappy"


def _by_program(*command: str) -> Callable[[bytes], bytes]:
    return lambda body: subprocess.run(command, input=body, capture_output=True, check=True).stdout


def _by_arrow(codec: str) -> Callable[[bytes], bytes]:
    def compress(body: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(body)
        return sink.getvalue().to_pybytes()

    return compress


def _zstd_in_pieces(body: bytes, *, has_checksum: bool = False) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=has_checksum).compressobj()
    pieces = [body[at : at + 3000] for at in range(0, len(body), 3000)]
    flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
    return b"".join(compressor.compress(piece) + compressor.flush(flush) for piece in pieces) + compressor.flush()


def _lz4_of_small_blocks(body: bytes) -> bytes:
    size = lz4.frame.BLOCKSIZE_MAX64KB
    return lz4.frame.compress(body, block_size=size, content_checksum=True, block_checksum=True, store_size=False)


def _snappy_of_hadoop(body: bytes) -> bytes:
    """Blocks: how long what they hold is, how long they are, as four bytes each, and raw Snappy."""
    pieces = [body[at : at + 50_000] for at in range(0, len(body), 50_000)]
    blocks = [(len(piece), pa.Codec("snappy").compress(piece, asbytes=True)) for piece in pieces]
    return b"".join(size.to_bytes(4) + len(block).to_bytes(4) + block for size, block in blocks)


#: Ending → who writes it.
WRITERS: dict[str, dict[str, Callable[[bytes], bytes]]] = {
    "": {"none": bytes},
    "gz": {"gzip": gzip.compress, "fast": lambda body: gzip.compress(body, 1)},
    "deflate": {"zlib": zlib.compress},
    "xz": {"lzma": lzma.compress},
    "br": {"brotli": lambda body: brotli.compress(body, quality=5)},
    SNAPPY: {"as Hadoop": _snappy_of_hadoop},
    "zst": {
        "at once": lambda body: zstandard.ZstdCompressor().compress(body),
        "in pieces": _zstd_in_pieces,
        "with checksums": lambda body: _zstd_in_pieces(body, has_checksum=True),
        "pyarrow": _by_arrow("zstd"),
    },
    "lz4": {"at once": lz4.frame.compress, "small blocks": _lz4_of_small_blocks, "pyarrow": _by_arrow("lz4")},
}
for _ending, _name, *_command in (("zst", "zstd", "zstd", "-c", "-q"), ("lz4", "lz4", "lz4", "-c", "-q")):
    if shutil.which(_command[0]):
        WRITERS[_ending][f"{_name} program"] = _by_program(*_command)


def _members(reader: Callable[[], Any]) -> Callable[[bytes], tuple[bytes, bool]]:
    """Read members one after the other: what they hold, and whether the last one ends where the file ends."""

    def read(data: bytes) -> tuple[bytes, bool]:
        whole, rest = b"", data
        while rest:
            member = reader()
            try:
                whole += member.decompress(rest)
            except (zlib.error, zstandard.ZstdError, RuntimeError):
                return whole, False
            if not member.eof:
                return whole, False
            rest = member.unused_data or b""
        return whole, True

    return read


def _unxz(data: bytes) -> bytes:
    # Zeros may follow a stream, by fours, and Python's reader does not know it.
    zeros = len(data) - len(data.rstrip(b"\0"))
    return lzma.decompress(data[: len(data) - zeros // 4 * 4])


def _of_snappy(data: bytes) -> tuple[bytes, bool]:
    whole, rest = b"", data
    while rest:
        size, length, block = int.from_bytes(rest[:4]), int.from_bytes(rest[4:8]), rest[8:]
        if len(block) < length:
            return whole, False
        try:
            whole += pa.Codec("snappy").decompress(block[:length], decompressed_size=size, asbytes=True)
        except OSError:
            return whole, False
        rest = block[length:]
    return whole, True


def _at_once(read: Callable[[bytes], bytes]) -> Callable[[bytes], tuple[bytes, bool]]:
    return lambda data: (read(data), True)


#: Ending → what a file holds, and whether it is whole.
READERS: dict[str, Callable[[bytes], tuple[bytes, bool]]] = {
    "": _at_once(bytes),
    "gz": _at_once(gzip.decompress),
    "deflate": _members(zlib.decompressobj),
    "xz": _at_once(_unxz),
    "br": _at_once(brotli.decompress),
    SNAPPY: _of_snappy,
    "zst": _members(lambda: zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()),
    "lz4": _members(lz4.frame.LZ4FrameDecompressor),
}


def _table(rows: Rows) -> pa.Table:
    return pa.table({"id": pa.array([row[0] for row in rows], pa.int64()), "text": [row[1] for row in rows]})


def _arrow_bytes(rows: Rows, write: Callable[[pa.Table, io.BytesIO], object]) -> bytes:
    sink = io.BytesIO()
    write(_table(rows), sink)
    return sink.getvalue()


def _csv(rows: Rows, delimiter: str = ",") -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([("id", "text"), *rows])
    return text.getvalue().encode()


def _json(rows: Rows) -> bytes:
    return "".join(json.dumps({"id": row[0], "text": row[1]}) + "\n" for row in rows).encode()


def _write_arrow(table: pa.Table, sink: io.BytesIO) -> None:
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=500)


def _of_table(table: pa.Table) -> Rows:
    texts = [text.decode("utf-8", "surrogateescape") for text in table["text"].cast(pa.binary()).to_pylist()]
    return list(zip(table["id"].to_pylist(), texts, strict=True))


def _text(body: bytes) -> str:
    # Texts may hold any bytes.
    return body.decode("utf-8", "surrogateescape")


def _of_csv(body: bytes, delimiter: str = ",") -> Rows:
    # Not strict, as ClickHouse is not: the end of a file closes a quote. docs/reference/values.md says so.
    header, *rows = csv.reader(io.StringIO(_text(body), newline=""), delimiter=delimiter)
    if header != ["id", "text"]:
        raise ValueError("another header")
    return [(int(number), text) for number, text in rows]


def _of_json(body: bytes) -> Rows:
    # A control character in a text, such as a flip may make, is read as it stands, as most readers do.
    found = [json.loads(line, strict=False) for line in _text(body).split("\n") if line.strip()]
    return [(int(each["id"]), each["text"]) for each in found]


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _native(rows: Rows) -> bytes:
    blocks = [rows[at : at + 700] for at in range(0, len(rows), 700)]
    return b"".join(map(_native_block, blocks))


def _native_block(rows: Rows) -> bytes:
    ids = b"".join(row[0].to_bytes(8, "little") for row in rows)
    texts = b"".join(_varint(len(row[1])) + row[1].encode() for row in rows)
    return _varint(2) + _varint(len(rows)) + b"\x02id\x06UInt64" + ids + b"\x04text\x06String" + texts


class _Bytes:
    """Reads Native, and notices whatever is not as it must be."""

    def __init__(self, body: bytes) -> None:
        self.body, self.at = body, 0

    def take(self, length: int) -> bytes:
        if self.at + length > len(self.body):
            raise ValueError("cut off")
        self.at += length
        return self.body[self.at - length : self.at]

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


def _of_native(body: bytes) -> Rows:
    reader, rows = _Bytes(body), Rows()
    while reader.at < len(body):
        if reader.number() != 2:
            raise ValueError("an empty block, or other columns")
        count = reader.number()
        if not count or reader.take(10) != b"\x02id\x06UInt64":
            raise ValueError("another column")
        ids = [int.from_bytes(reader.take(8), "little") for _ in range(count)]
        if reader.take(12) != b"\x04text\x06String":
            raise ValueError("another column")
        rows += [(number, reader.take(reader.number()).decode("utf-8", "surrogateescape")) for number in ids]
    return rows


@dataclass(frozen=True)
class Kind:
    """A format."""

    name: str
    write: Callable[[Rows], bytes]
    read: Callable[[bytes], Rows]
    has_footer: bool = False


KINDS: dict[str, Kind] = {
    "csv": Kind("CSVWithNames", _csv, _of_csv),
    "tsv": Kind("TabSeparatedWithNames", lambda rows: _csv(rows, "\t"), lambda body: _of_csv(body, "\t")),
    "jsonl": Kind("JSONEachRow", _json, _of_json),
    "native": Kind("Native", _native, _of_native),
    "parquet": Kind(
        "Parquet",
        lambda rows: _arrow_bytes(rows, lambda table, sink: pa.parquet.write_table(table, sink, row_group_size=500)),
        lambda body: _of_table(pa.parquet.read_table(io.BytesIO(body))),
        has_footer=True,
    ),
    "orc": Kind(
        "ORC",
        lambda rows: _arrow_bytes(rows, pa.orc.write_table),
        lambda body: _of_table(pa.orc.read_table(io.BytesIO(body))),
        has_footer=True,
    ),
    "arrow": Kind(
        "Arrow",
        lambda rows: _arrow_bytes(rows, _write_arrow),
        lambda body: _of_table(pa.ipc.open_file(body).read_all()),
        has_footer=True,
    ),
}


def rows_of(chance: random.Random) -> Rows:
    """Random rows, some of which compress well."""
    word = chance.choice(["row", "x" * 300, "%032x"])
    count = chance.choice([1, 40, 1500, 4000])
    texts = (word % chance.getrandbits(128) if "%" in word else f"{word} {number}" for number in range(count))
    return list(enumerate(texts))


def _cut(data: bytes, other: bytes, chance: random.Random) -> bytes:
    return data[: max(1, chance.choice([len(data) - chance.randint(1, 30), chance.randrange(1, len(data) + 1)]))]


def _flip(data: bytes, other: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def _extend(data: bytes, other: bytes, chance: random.Random) -> bytes:
    return data + chance.choice([b"\0", bytes(2), bytes(700), b"\n", chance.randbytes(9), data[:9]])


def _zero(data: bytes, other: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes(len(data) - at)


#: Kinds of damage; `whole` and `glued` files must load where another reader takes them.
DAMAGES: dict[str, Callable[[bytes, bytes, random.Random], bytes]] = {
    "whole": lambda data, other, chance: data,
    "cut": _cut,
    "flipped": _flip,
    "extended": _extend,
    "glued": lambda data, other, chance: data + other,
    "glued and cut": lambda data, other, chance: data + _cut(other, b"", chance),
    "zeros": _zero,
}
