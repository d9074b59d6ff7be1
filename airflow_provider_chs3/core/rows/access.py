"""The access of the ClickHouse servers to a database."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class SqlAccess:
    """The access of the ClickHouse servers to the database.

    Args:
        host: Its host and port, as reachable from the servers; empty with a named collection.
        database: The database.
        user: The user.
        password: The user's password.
        tls: Arguments of ClickHouse's function that protect the connection, with their values.
        named_collection: A named collection on the servers, with all of this.
    """

    host: str = ""
    database: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    tls: tuple[tuple[str, str], ...] = ()
    named_collection: str | None = None
