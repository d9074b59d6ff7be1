"""Loads against the real cluster and S3 of the test bed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.credentials import NARROW
from tests.integration.lake import Lake

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster


@pytest.fixture
def as_narrow_user(
    request: pytest.FixtureRequest, chs3_airflow_connections: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loads run as a user with just the privileges that docs/privileges.md names; tests look as one with all."""
    if request.config.getoption("--clickhouse") == "engine":
        connection = json.loads(os.environ["AIRFLOW_CONN_CHS3_DEFAULT"])
        connection |= {"login": NARROW.login, "password": NARROW.password}
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))


@pytest.fixture
def lake(
    chs3_cluster: Cluster, chs3_s3: Any, chs3_bucket: str, chs3_database: str, as_narrow_user: None
) -> Iterator[Lake]:
    """An empty lake; nothing of a load may outlive the test."""
    lake = Lake(chs3_cluster, chs3_s3.client(), chs3_bucket, chs3_database)
    yield lake
    assert lake.left_behind() == []


@pytest.fixture
def trips_lake(lake: Lake) -> Lake:
    """A lake whose table is there and empty."""
    lake.create_table()
    return lake
