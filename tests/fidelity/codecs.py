"""Compressions of whole files."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pyarrow as pa


def compress(body: bytes, codec: str) -> bytes:
    """A file's bytes, compressed."""
    if codec == "gz2":
        half = len(body) // 2
        return gzip.compress(body[:half]) + gzip.compress(body[half:])
    if codec in ("zst", "lz4"):
        return bytes(pa.Codec({"zst": "zstd", "lz4": "lz4"}[codec]).compress(body, asbytes=True))
    functions = {"": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
    return functions[codec](body)


def ending(codec: str) -> str:
    """Return the ending that a codec adds to a file's name."""
    return f".{codec.removesuffix('2') if codec == 'gz2' else codec}" if codec else ""
