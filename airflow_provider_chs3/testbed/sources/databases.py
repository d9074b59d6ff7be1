"""Address and login of a database."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_chs3.testbed.sources.local import LocalServer


@dataclass(frozen=True, kw_only=True)
class DatabaseServer(LocalServer):
    """A running database server, which refuses a wrong password.

    Attributes:
        host: Its address.
        port: Its port.
        database: An empty database.
        user: A user who may do everything in it.
        password: The user's password.
    """

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
