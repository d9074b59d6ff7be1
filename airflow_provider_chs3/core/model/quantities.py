"""Write quantities for people."""

from __future__ import annotations

#: More hours are written as days.
_MOST_HOURS = 48


def quantity(count: int, noun: str) -> str:
    """Return a count with its noun: `1 object`, `12,345 objects`."""
    return f"{count:,} {noun if count == 1 else f'{noun}s'}"


def duration_text(seconds: float) -> str:
    """Return a duration with its units: `42 s`, `12 min`, `3 h 5 min`, `4 days 7 h`."""
    if seconds < 120:
        return f"{seconds:,.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours >= _MOST_HOURS:
        return f"{hours // 24:,} days {hours % 24} h"
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min"


def size_text(size_bytes: float) -> str:
    """Return a size with its unit: `999 bytes`, `48.8 KiB`, `1.2 TiB`."""
    if size_bytes < 1024:
        return quantity(round(size_bytes), "byte")
    for unit in ("KiB", "MiB", "GiB"):
        size_bytes /= 1024
        if size_bytes < 1024:
            return f"{size_bytes:,.1f} {unit}"
    size_bytes /= 1024
    return f"{size_bytes:,.1f} TiB"


def objects_text(count: int, size_bytes: float) -> str:
    """Return number and total size of objects for people, such as `6 objects, 13.4 MiB`."""
    return f"{quantity(count, 'object')}, {size_text(size_bytes)}"
