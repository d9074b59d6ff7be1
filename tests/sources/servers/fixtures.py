"""A server of each further source, which starts with the first test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_chs3.testbed.programs.packages import started_or_skip
from tests.sources.servers.azure import AzureServer
from tests.sources.servers.gcs import GcsServer
from tests.sources.servers.mysql import MySqlServer
from tests.sources.servers.postgres import PostgresServer


@pytest.fixture(scope="session")
def chs3_azure() -> Iterator[AzureServer]:
    """A server of Azure Blob Storage (Azurite) that refuses a wrong key: `.connection_string`, `.account_url`.

    npm fetches it once on a machine. A test that asks for it skips, with what to install, where Node is missing.
    """
    with started_or_skip(AzureServer.start) as server:
        yield server


@pytest.fixture(scope="session")
def chs3_gcs() -> Iterator[GcsServer]:
    """A server of Google Cloud Storage (fake-gcs-server) that takes every key: `.client()`, `.endpoint_url`.

    Go compiles it once on a machine, in about a minute. A test that asks for it skips where Go is missing.
    """
    with started_or_skip(GcsServer.start) as server:
        yield server


@pytest.fixture(scope="session")
def chs3_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that refuses a wrong password: `.host`, `.port`, `.database`, `.user`, `.password`.

    A test that asks for it skips where PostgreSQL is not installed.
    """
    with started_or_skip(PostgresServer.start) as server:
        yield server


@pytest.fixture(scope="session")
def chs3_mysql() -> Iterator[MySqlServer]:
    """A MariaDB server that refuses a wrong password: `.host`, `.port`, `.database`, `.user`, `.password`.

    A test that asks for it skips where MariaDB is not installed.
    """
    with started_or_skip(MySqlServer.start) as server:
        yield server
