"""Keys by their prefixes: those of a period, and a prefix cut into longer ones that can be listed side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: A prefix is cut where it falls into so many: as many as are listed at the same time.
_FEW_PREFIXES = 8


@dataclass(frozen=True)
class PeriodKeys:
    """The keys of one period, or of all periods."""

    prefix: str
    pattern: re.Pattern[str]
    is_one_key: bool
    levels_below: int | None

    def select(self, key: str, size_bytes: int) -> bool:
        """Check whether an object with this key and size contains data of the period."""
        if size_bytes == 0 or key.endswith("/") or not self.pattern.fullmatch(key):
            return False
        below = key[len(self.prefix) :]
        if not self.prefix or self.prefix.endswith("/"):
            below = f"/{below}"
        # Else the template itself says how this level begins.
        return "/_" not in below and "/." not in below


def without_longer(prefixes: Iterable[str]) -> list[str]:
    """Return prefixes, sorted, without those that begin with another one."""
    shortest: list[str] = []
    for prefix in sorted(set(prefixes)):
        if not shortest or not prefix.startswith(shortest[-1]):
            shortest.append(prefix)
    return shortest


def shared_prefix(texts: Sequence[str]) -> str:
    """Return the longest beginning that all texts have."""
    first, last = texts[0], texts[-1]
    differ_at = (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(differ_at, min(len(first), len(last)))]


def cut(prefix: str, prefixes: Sequence[str]) -> tuple[str, ...]:
    """Cut a prefix into longer ones: each key that begins with it and with one of others begins with exactly one.

    Returns:
        The longer prefixes, sorted; none if fewer than two of the others begin with it.
    """
    below = [longer for longer in prefixes if longer.startswith(prefix)]
    for length in range(len(prefix) + 1, max(map(len, below), default=0) + 1):
        pieces = dict.fromkeys(longer[:length] for longer in below)
        if len(pieces) >= _FEW_PREFIXES:
            return tuple(pieces)
    return tuple(below) if len(below) > 1 else ()
