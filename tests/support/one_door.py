"""With `CHS3_DOOR=1`, every connection of the tests leads through a load balancer, each to another server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_chs3.testbed.balancer import LoadBalancer
from airflow_provider_chs3.testbed.nodes import Cluster


@pytest.fixture(scope="session", autouse=True)
def one_door() -> Iterator[None]:
    """Put a load balancer in front of each cluster that a test makes a connection to."""
    if not os.environ.get("CHS3_DOOR"):
        yield
        return
    directly = Cluster.airflow_connection
    balancers: dict[Cluster, LoadBalancer] = {}

    def through_door(cluster: Cluster) -> dict[str, Any]:
        if cluster not in balancers:
            balancers[cluster] = LoadBalancer.start(cluster)
        balancer, connection = balancers[cluster], directly(cluster)
        extra = connection["extra"] | {"http_port": balancer.http_port, "one_door": True}
        return connection | {"port": balancer.tcp_port, "extra": extra}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cluster, "airflow_connection", through_door)
        yield
    for balancer in balancers.values():
        balancer.stop()
