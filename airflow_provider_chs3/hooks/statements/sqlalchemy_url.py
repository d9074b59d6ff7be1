"""The connection as a URL of SQLAlchemy, for the dialect of the package clickhouse-sqlalchemy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_chs3.hooks.connection import ConnectionOptions

if TYPE_CHECKING:
    from sqlalchemy.engine import URL


def sqlalchemy_url(options: ConnectionOptions) -> URL:
    """Return the URL.

    Args:
        options: The connection.
    """
    from sqlalchemy.engine import URL

    (host, port), *further = options.hosts
    query = {name: str(value) for name, value in options.settings.items()}
    if options.secure:
        query |= {"secure": "True", "verify": str(options.verify)}
        files = {name: getattr(options, name) for name in ("ca_certs", "certfile", "keyfile")}
        query |= {name: path for name, path in files.items() if path}
    if further:
        query["alt_hosts"] = ",".join(f"{host}:{port}" for host, port in further)
    return URL.create(
        "clickhouse+native",
        username=options.user,
        password=options.password,
        host=host,
        port=port,
        database=options.database,
        query=query,
    )
