"""Aligned tables of text."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_chs3.core.model.quantities import size_text


def rendered(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table with a line under its header. Numbers are right-aligned, with separated thousands."""
    texts = [[_text(value) for value in row] for row in rows]
    right = [all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(header))]
    widths = [max(len(row[at]) for row in [header, *texts]) for at in range(len(header))]
    lines = [header, ["─" * width for width in widths], *texts]
    return "\n".join(
        "   ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


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
