"""Keeping secrets out of messages."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

MASK = "***"

# Servers quote the statement from some position on, or up to some length: a message may hold a part of a secret.
_SHORTEST_PART = 8


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Replace secrets, and any eight or more characters in a row of one, by `***`."""
    hidden = [False] * len(text)
    for secret in filter(None, secrets):
        as_literal = secret.replace("\\", "\\\\").replace("'", "\\'")
        for spelling in {secret, as_literal, quote(secret, safe="")}:
            for start, end in _occurrences(text, spelling):
                hidden[start:end] = [True] * (end - start)
    shown = (
        MASK if hidden[at] and not (at and hidden[at - 1]) else "" if hidden[at] else character
        for at, character in enumerate(text)
    )
    return "".join(shown)


def _occurrences(text: str, secret: str) -> Iterable[tuple[int, int]]:
    width = min(len(secret), _SHORTEST_PART)
    for part in {secret[at : at + width] for at in range(len(secret) - width + 1)}:
        start = text.find(part)
        while start >= 0:
            yield start, start + width
            start = text.find(part, start + 1)
