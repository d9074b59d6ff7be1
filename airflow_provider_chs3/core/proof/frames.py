"""Find where compressed data ends, by the sizes that its frames and blocks begin with; nothing is decompressed.

ClickHouse takes the end of an object for the end of its data: of one that was cut off it loads the rows before the cut.
Formats: https://github.com/facebook/zstd/blob/dev/doc/zstd_compression_format.md and
https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

#: Asks for bytes of an object by offset and length, and says what is wrong with it; empty if nothing is.
Walk: TypeAlias = Generator[tuple[int, int], bytes, str]

#: The longest header of a frame, of LZ4.
_HEADER_BYTES = 19
#: As much is read at once where blocks follow each other closely,
_CLOSE_BYTES = 8 * 1024**2
#: and as little where it is further than this from one header to the next.
_FAR_BYTES, _APART_BYTES = 4096, 1024**2
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)


@dataclass(frozen=True)
class _Frame:
    """What the header of a frame says of its blocks.

    Args:
        after_blocks: Bytes of the checksum that follows the last one.
        after_block: Bytes of the checksum that follows each.
    """

    after_blocks: int
    after_block: int = 0


@dataclass(frozen=True)
class Codec:
    """A codec whose data is made of frames.

    Args:
        title: Its name, for people.
        magic: The number that a frame begins with.
        frame: From the header of a frame to its length, and what it says.
        block: From the first bytes of a block to its length, and whether it is the frame's last; None if it is none.
    """

    title: str
    magic: int
    frame: Callable[[bytes], tuple[int, _Frame]]
    block: Callable[[bytes, _Frame], tuple[int, bool] | None]


def _frame_of_zstd(header: bytes) -> tuple[int, _Frame]:
    descriptor = header[4]
    is_single = descriptor >> 5 & 1
    dictionary, content = (0, 1, 2, 4)[descriptor & 3], (is_single, 2, 4, 8)[descriptor >> 6]
    return 6 - is_single + dictionary + content, _Frame(descriptor & 4)


def _block_of_zstd(beginning: bytes, frame: _Frame) -> tuple[int, bool] | None:
    word = int.from_bytes(beginning[:3], "little")
    kind, size = word >> 1 & 3, word >> 3
    if kind == 3:
        return None
    # One byte, repeated.
    length = 3 + (1 if kind == 1 else size)
    return (length + frame.after_blocks, True) if word & 1 else (length, False)


def _frame_of_lz4(header: bytes) -> tuple[int, _Frame]:
    flags = header[4]
    return 7 + (flags & 8) + 4 * (flags & 1), _Frame(flags & 4, flags >> 2 & 4)


def _block_of_lz4(beginning: bytes, frame: _Frame) -> tuple[int, bool] | None:
    size = int.from_bytes(beginning[:4], "little") & 0x7FFFFFFF
    return (4 + size + frame.after_block, False) if size else (4 + frame.after_blocks, True)


#: ClickHouse's name of the compression → the codec.
FRAMED: Mapping[str, Codec] = {
    "zstd": Codec("zstd", 0xFD2FB528, _frame_of_zstd, _block_of_zstd),
    "lz4": Codec("LZ4", 0x184D2204, _frame_of_lz4, _block_of_lz4),
}


def find_damage(codec: Codec, size_bytes: int) -> Walk:
    """Walk from header to header, and ask for the bytes that have them: offset and length.

    Args:
        codec: The codec.
        size_bytes: The size of the object.

    Returns:
        What is wrong with the object; empty if its last frame ends where it ends.
    """
    at, length, begin, window = 0, 0, 0, b""
    frame: _Frame | None = None
    while at < size_bytes:
        if at + _HEADER_BYTES > begin + len(window) < size_bytes:
            begin, wanted = at, _FAR_BYTES if length > _APART_BYTES else _CLOSE_BYTES
            window = yield at, min(wanted, size_bytes - at)
        head = window[at - begin : at - begin + _HEADER_BYTES]
        # What a cut header says leads beyond the end.
        whole = head.ljust(_HEADER_BYTES, b"\xff")
        number = int.from_bytes(whole[:4], "little")
        if frame is not None:
            block = codec.block(whole, frame)
            length, is_last = block or (0, False)
            frame = None if is_last else frame
        elif number == codec.magic:
            length, frame = codec.frame(whole)
        else:
            length = 8 + int.from_bytes(whole[4:8], "little") if number in _SKIPPABLE else 0
        if not length and not at:
            return f"it does not begin as {codec.title} data does; if its key is wrong, give compression=…"
        if not length and len(head) == _HEADER_BYTES:
            return f"byte {at + 1:,} is not where {codec.title} data begins or continues"
        at += length or _HEADER_BYTES
    return "" if at == size_bytes and frame is None else f"its {codec.title} data has no end"
