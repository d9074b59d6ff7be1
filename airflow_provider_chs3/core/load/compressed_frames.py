"""Find the end of compressed data by the sizes in its frame and block headers, without decompressing.

ClickHouse takes the end of an object for the end of its data, and loads a truncated object up to the cut.
Formats: https://github.com/facebook/zstd/blob/dev/doc/zstd_compression_format.md and
https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import TypeAlias

#: Requests bytes of an object by offset and length, takes them in pieces, and returns the damage; empty if none.
Walk: TypeAlias = Generator[tuple[int, int], Iterator[bytes], str]

#: The longest frame header (LZ4), and the length of its magic number.
_HEADER_BYTES, _MAGIC_BYTES = 19, 4
#: Bytes of a request if blocks follow each other closely, because every request waits for its answer.
_CLOSE_BYTES = 64 * 1024**2
#: Bytes of a request if the next header is further away than the second number.
_FAR_BYTES, _APART_BYTES = 4096, 1024**2
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_UINT32 = Struct("<I").unpack_from


@dataclass(frozen=True)
class _Frame:
    """Bytes of the checksums after the last block of a frame and after every block, from its header."""

    after_blocks: int
    after_block: int = 0


@dataclass(frozen=True)
class Codec:
    """A codec with data in frames."""

    title: str
    magic: int
    frame: Callable[[bytes], tuple[int, _Frame]]
    blocks: Callable[[bytes, int, _Frame], tuple[int, bool | None]]


def _frame_of_zstd(header: bytes) -> tuple[int, _Frame]:
    descriptor = header[4]
    is_single = descriptor >> 5 & 1
    dictionary, content = (0, 1, 2, 4)[descriptor & 3], (is_single, 2, 4, 8)[descriptor >> 6]
    return 6 - is_single + dictionary + content, _Frame(descriptor & 4)


def _blocks_of_zstd(data: bytes, at: int, frame: _Frame) -> tuple[int, bool | None]:
    while at + 3 <= len(data):
        word = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        kind = word & 6
        if kind == 6:
            return at, None
        # The second kind is a single repeated byte.
        at += 4 if kind == 2 else 3 + (word >> 3)
        if word & 1:
            return at + frame.after_blocks, True
    return at, False


def _frame_of_lz4(header: bytes) -> tuple[int, _Frame]:
    flags = header[4]
    return 7 + (flags & 8) + 4 * (flags & 1), _Frame(flags & 4, flags >> 2 & 4)


def _blocks_of_lz4(data: bytes, at: int, frame: _Frame) -> tuple[int, bool | None]:
    while at + 4 <= len(data):
        size: int = _UINT32(data, at)[0] & 0x7FFFFFFF
        if not size:
            return at + 4 + frame.after_blocks, True
        at += 4 + size + frame.after_block
    return at, False


#: ClickHouse's name of the compression → the codec.
FRAMED: Mapping[str, Codec] = {
    "zstd": Codec("zstd", 0xFD2FB528, _frame_of_zstd, _blocks_of_zstd),
    "lz4": Codec("LZ4", 0x184D2204, _frame_of_lz4, _blocks_of_lz4),
}


class _Window:
    """The bytes of an object from an offset, `begin`, at the current position of a walk."""

    def __init__(self, size_bytes: int) -> None:
        self.begin, self.data = 0, b""
        self._size_bytes = size_bytes
        self._pieces: Iterator[bytes] = iter(())
        self._asked_to = 0

    def move(self, at: int) -> Generator[tuple[int, int], Iterator[bytes], None]:
        """Read the bytes at an offset: the longest header, or up to the end of the object."""
        end = self.begin + len(self.data)
        while end < min(at + _HEADER_BYTES, self._size_bytes):
            if end == self._asked_to or at - end > _APART_BYTES:
                is_far = at - end > _APART_BYTES
                self.begin, self.data, end = (at, b"", at) if at > end else (self.begin, self.data, end)
                self._asked_to = min(end + (_FAR_BYTES if is_far else _CLOSE_BYTES), self._size_bytes)
                self._pieces = yield end, self._asked_to - end
            if not (piece := next(self._pieces, b"")):
                # The object is shorter than when it was listed.
                return
            kept = self.data[at - self.begin :] if at < end else b""
            self.begin, self.data = end - len(kept), kept + piece
            end += len(piece)


def find_damage(codec: Codec, size_bytes: int) -> Walk:
    """Walk from header to header, and return the damage; empty if the last frame ends where the object ends."""
    at, window = 0, _Window(size_bytes)
    frame: _Frame | None = None
    while at < size_bytes:
        yield from window.move(at)
        begin = at - window.begin
        if frame is not None:
            end, is_last = codec.blocks(window.data, begin, frame)
            if is_last is None:
                return _describe_damage(codec, window.begin + end)
            frame = None if is_last else frame
        else:
            head = window.data[begin : begin + _HEADER_BYTES]
            length, frame = _parse_header(codec, head)
            if not length and len(head) >= _MAGIC_BYTES:
                return _describe_damage(codec, at)
            end = begin + length
        if end == begin:
            # The rest is too short for a frame or a block.
            break
        at += end - begin
    return "" if at == size_bytes and frame is None else f"its {codec.title} data has no end"


def _parse_header(codec: Codec, head: bytes) -> tuple[int, _Frame | None]:
    """Parse a frame header: its length, 0 if it is none, and the frame, None if it has no blocks."""
    # A truncated header leads beyond the end.
    whole = head.ljust(_HEADER_BYTES, b"\xff")
    number = int.from_bytes(whole[:_MAGIC_BYTES], "little")
    if number == codec.magic:
        return codec.frame(whole)
    return 8 + int.from_bytes(whole[4:8], "little") if number in _SKIPPABLE else 0, None


def _describe_damage(codec: Codec, at: int) -> str:
    if at:
        return f"byte {at + 1:,} is not where {codec.title} data begins or continues"
    return f"it does not begin as {codec.title} data does; if its key is wrong, set files={{'compression': …}}"
