"""One node and a lake on it, kept for all cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.lake import Lake, lake_on

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

#: The period of real files, whose table fills its column of time by itself.
REAL_PERIOD = "2024-05"


@pytest.fixture(scope="module")
def fidelity_lake(cluster_of_one: Cluster, chs3_s3: Any) -> Iterator[Lake]:
    """A lake on a cluster of one node: many small loads take half of the time there."""
    bucket = "fidelity"
    client = chs3_s3.client()
    if bucket not in [each["Name"] for each in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=bucket)
    with pytest.MonkeyPatch.context() as patch, lake_on(cluster_of_one, chs3_s3, bucket, patch) as lake:
        yield lake
