"""Aligned tables of text."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from airflow_provider_chs3.core.model.quantities import size_text

_GAP = "   "
#: A narrower column would have words of one letter.
_LEAST_WIDTH = 24


def rendered(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table with a line under its header. Numbers are right-aligned, with separated thousands.

    On a terminal, the widest column of text is wrapped, so that a line has no more than its width.
    """
    texts = [[_text(value) for value in row] for row in rows]
    right = [all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(header))]
    widths = [max(len(row[at]) for row in [header, *texts]) for at in range(len(header))]
    if (excess := sum(widths) + len(_GAP) * (len(widths) - 1) - _terminal_width()) > 0:
        widest = max((at for at in range(len(header)) if not right[at]), key=widths.__getitem__, default=0)
        widths[widest] = max(widths[widest] - excess, _LEAST_WIDTH, len(header[widest]))
    lines = [header, ["─" * width for width in widths], *(line for row in texts for line in _wrapped(row, widths))]
    return "\n".join(
        _GAP.join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> Iterator[tuple[str, ...]]:
    cells = [
        textwrap.wrap(cell, width) if len(cell) > width else [cell] for cell, width in zip(row, widths, strict=True)
    ]
    return zip_longest(*cells, fillvalue="")


def _terminal_width() -> int:
    """Return the number of characters of a line; files and pipes have no limit."""
    # Standard output is redirected while a command runs.
    is_terminal = sys.__stdout__ is not None and sys.__stdout__.isatty()
    return shutil.get_terminal_size().columns if is_terminal else sys.maxsize


def size(size_bytes: int) -> str:
    """Return bytes in a readable unit."""
    return f"{size_bytes} B" if size_bytes < 1024 else size_text(size_bytes)


def age(seconds: int) -> str:
    """Return seconds as hours and minutes."""
    return f"{seconds // 3600} h {seconds % 3600 // 60} min" if seconds >= 60 else f"{seconds} s"


def _text(value: object) -> str:
    if value is None:
        return ""
    # A name can contain anything, and must not break the line.
    return f"{value:,}" if isinstance(value, int | float) else " ".join(str(value).split())
