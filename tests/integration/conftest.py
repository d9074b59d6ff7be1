"""Loads against the real cluster and S3 of the test bed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.lake import Lake
from tests.narrow_user import narrow_connection

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster


@pytest.fixture
def as_narrow_user(chs3_cluster: Cluster, chs3_airflow_connections: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested runs as a user with just the documented privileges; tests prepare and look as one with all."""
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(narrow_connection(chs3_cluster)))


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
