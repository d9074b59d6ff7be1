"""Secrets in texts."""

from __future__ import annotations

import json
from urllib.parse import quote


def spellings(secret: str) -> set[str]:
    """A secret as it is, and as SQL, URLs, JSON and Python write it."""
    quoted = secret.replace("\\", "\\\\").replace("'", "\\'")
    return {secret, quoted, quote(secret, safe=""), json.dumps(secret)[1:-1], repr(secret)[1:-1]}


def found_in(text: str, secrets: dict[str, str]) -> list[str]:
    return [name for name, secret in secrets.items() if any(spelling in text for spelling in spellings(secret))]
