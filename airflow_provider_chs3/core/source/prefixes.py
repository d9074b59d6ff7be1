"""Cut a prefix of keys into longer ones that can be listed side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: A prefix is cut where it falls into so many: as many as are listed at the same time.
_FEW_PREFIXES = 8


def without_longer(prefixes: Iterable[str]) -> list[str]:
    """Return prefixes, sorted, without those that begin with another one.

    Args:
        prefixes: The prefixes.
    """
    found: list[str] = []
    for prefix in sorted(set(prefixes)):
        if not found or not prefix.startswith(found[-1]):
            found.append(prefix)
    return found


def shared_prefix(texts: Sequence[str]) -> str:
    """Return the longest beginning that all texts have.

    Args:
        texts: The texts, sorted; at least one. The first and the last share the least.
    """
    first, last = texts[0], texts[-1]
    differ_at = (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(differ_at, min(len(first), len(last)))]


def cut(prefix: str, prefixes: Sequence[str]) -> tuple[str, ...]:
    """Cut a prefix into longer ones: each key that begins with it and with one of others begins with exactly one.

    Args:
        prefix: The prefix.
        prefixes: The others, as `without_longer` returns them.

    Returns:
        The longer prefixes, sorted; none if fewer than two of the others begin with it.
    """
    below = [each for each in prefixes if each.startswith(prefix)]
    for length in range(len(prefix) + 1, max(map(len, below), default=0) + 1):
        pieces = dict.fromkeys(each[:length] for each in below)
        if len(pieces) >= _FEW_PREFIXES:
            return tuple(pieces)
    return tuple(below) if len(below) > 1 else ()
