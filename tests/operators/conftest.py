"""A connection to the cluster, and a hook on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
    from airflow_provider_chs3.testbed.nodes import Cluster


@pytest.fixture
def hook(chs3_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> ClickHouseHook:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(chs3_cluster.airflow_connection()))
    return ClickHouseHook()
