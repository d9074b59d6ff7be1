"""The users of the test bed. Their passwords hold what breaks careless quoting: they are no secret, they are a test."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Credentials:
    """A user's name and password."""

    login: str
    password: str = field(repr=False)


LOADER = Credentials("loader", "l'o%40@d/\"e\\r:?#&")
READER = Credentials("reader", "re@der/%s")
