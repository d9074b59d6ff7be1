"""Where compressed data ends: every file of common writers is whole, and none of its beginnings is."""

from __future__ import annotations

import os
from collections.abc import Iterator

import lz4.frame
import pyarrow as pa
import pytest
import zstandard

from airflow_provider_chs3.core.load.compressed_frames import FRAMED, find_damage

BODY = b"".join(b"%d,row number %d\n" % (number, number) for number in range(30_000))
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"


def damage(codec: str, data: bytes, *, piece_bytes: int = 10_000, taken: list[int] | None = None) -> str:
    def pieces(start: int, length: int) -> Iterator[bytes]:
        for at in range(start, start + length, piece_bytes):
            piece = data[at : min(at + piece_bytes, start + length)]
            if taken is not None:
                taken.append(len(piece))
            yield piece

    walk = find_damage(FRAMED[codec], len(data))
    try:
        start, length = next(walk)
        while True:
            assert 0 <= start < start + length <= len(data)
            start, length = walk.send(pieces(start, length))
    except StopIteration as end:
        return end.value


def in_pieces(compressor, body: bytes = BODY) -> bytes:
    return compressor.compress(body) + compressor.flush()


def flushed(body: bytes = BODY) -> bytes:
    writer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    pieces = [body[at : at + 5000] for at in range(0, len(body), 5000)]
    flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
    return b"".join(writer.compress(piece) + writer.flush(flush) for piece in pieces) + writer.flush()


def by_arrow(codec: str, body: bytes = BODY) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(body)
    return sink.getvalue().to_pybytes()


LARGE_WINDOW = zstandard.ZstdCompressionParameters.from_level(3, window_log=23)
ZSTD = {
    "at once": zstandard.ZstdCompressor().compress(BODY),
    "in pieces": in_pieces(zstandard.ZstdCompressor().compressobj()),
    "with a checksum": in_pieces(zstandard.ZstdCompressor(write_checksum=True).compressobj()),
    "with a size": in_pieces(zstandard.ZstdCompressor().compressobj(size=len(BODY))),
    "flushed often": flushed(),
    "a large window": in_pieces(zstandard.ZstdCompressor(compression_params=LARGE_WINDOW).compressobj()),
    "zeros": zstandard.ZstdCompressor().compress(bytes(1_000_000)),
    "noise": zstandard.ZstdCompressor().compress(os.urandom(300_000)),
    "a byte": zstandard.ZstdCompressor().compress(b"1"),
    "nothing": zstandard.ZstdCompressor().compress(b""),
    "two members": zstandard.ZstdCompressor().compress(BODY) + in_pieces(zstandard.ZstdCompressor().compressobj()),
    "a skippable frame": SKIPPABLE + zstandard.ZstdCompressor().compress(BODY) + SKIPPABLE,
    "pyarrow": by_arrow("zstd"),
}
LZ4 = {
    "at once": lz4.frame.compress(BODY),
    "checksums": lz4.frame.compress(BODY, content_checksum=True, block_checksum=True, store_size=False),
    "small blocks": lz4.frame.compress(BODY, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False),
    "large blocks": lz4.frame.compress(os.urandom(9_000_000), block_size=lz4.frame.BLOCKSIZE_MAX4MB),
    "nothing": lz4.frame.compress(b""),
    "two members": lz4.frame.compress(BODY) + lz4.frame.compress(BODY, content_checksum=True),
    "a skippable frame": SKIPPABLE + lz4.frame.compress(BODY) + SKIPPABLE,
    "pyarrow": by_arrow("lz4"),
}
FILES = [("zstd", name, data) for name, data in ZSTD.items()] + [("lz4", name, data) for name, data in LZ4.items()]
NAMED = pytest.mark.parametrize(("codec", "name", "data"), FILES, ids=[f"{codec}, {name}" for codec, name, _ in FILES])


@NAMED
@pytest.mark.parametrize("piece_bytes", [1, 7, 5_000, 10_000_000])
def test_a_whole_file_is_whole_in_whatever_pieces_it_comes(codec, name, data, piece_bytes):
    if piece_bytes > 7 or len(data) < 500_000:
        assert damage(codec, data, piece_bytes=piece_bytes) == ""


@NAMED
def test_no_beginning_of_it_is_but_a_whole_member(codec, name, data):
    members = {
        "two members": (len((ZSTD if codec == "zstd" else LZ4)["at once"]),),
        "a skippable frame": (len(SKIPPABLE), len(data) - len(SKIPPABLE)),
    }.get(name, ())
    step = max(1, len(data) // 2000)
    for size in {*range(1, len(data), step), *range(max(1, len(data) - 20), len(data))}:
        assert bool(damage(codec, data[:size])) == (size not in members), size


@NAMED
def test_nothing_may_follow_it(codec, name, data):
    for more in (b"\x00", b"\n", bytes(100), b"id,name\n1,a\n", data[:7], data[: len(data) // 2]):
        assert damage(codec, data + more), more


def test_the_message_says_where():
    whole = ZSTD["at once"]
    assert damage("zstd", whole[:-1]) == "its zstd data has no end"
    assert damage("zstd", whole + bytes(50)) == f"byte {len(whole) + 1:,} is not where zstd data begins or continues"
    assert damage("zstd", b"id,name\n1,a\n").startswith("it does not begin as zstd data does")


def test_of_blocks_far_apart_only_their_beginnings_are_read():
    taken: list[int] = []
    data = lz4.frame.compress(os.urandom(40_000_000), block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    assert damage("lz4", data, taken=taken) == ""
    assert sum(taken) < 100_000


def test_an_object_that_is_shorter_than_it_was_listed_has_no_end():
    walk = find_damage(FRAMED["zstd"], 2 * len(ZSTD["at once"]))
    next(walk)
    with pytest.raises(StopIteration) as end:
        walk.send(iter((ZSTD["at once"][:-10],)))
    assert end.value.value == "its zstd data has no end"
