"""DAGs load into one node: what they show does not depend on several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.few_nodes import cluster_for

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster


@pytest.fixture(scope="module")
def chs3_cluster(request: pytest.FixtureRequest) -> Cluster:
    """One node, unless the module is marked `three_nodes`."""
    return cluster_for(request)
