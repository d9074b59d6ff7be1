"""Nobody changes by accident which steps a load takes, which statements it sends and what it records."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.deferring import gate, hurry
from tests.support.lake import lake_on
from tests.trace.kept import keep
from tests.trace.loads import LOADS

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

#: A fixture of one of the loads.
__all__ = ["gate"]


@pytest.fixture(autouse=True)
def _without_waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.config.getoption("--chs3-clickhouse") != "engine" or os.environ.get("CHS3_DOOR"):
        pytest.skip("other servers are asked other things: the traces are those of the embedded one")
    hurry(monkeypatch)


@pytest.mark.parametrize("name", LOADS)
def test_loads_take_the_steps_that_are_kept(
    name: str,
    request: pytest.FixtureRequest,
    cluster_of_one: Cluster,
    chs3_s3: Any,
    chs3_bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The names of staging follow from that of the database, and some lists are in their order.
    with lake_on(cluster_of_one, chs3_s3, chs3_bucket, monkeypatch, database=f"test_trace_of_{name}") as lake:
        keep(name, LOADS[name], lake, request)
