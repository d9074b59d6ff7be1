"""One node and a lake on it, kept for all cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.integration.lake import Lake, lake_on
from tests.narrow_user import WITH_NARROW_USER

#: The month of real files, whose table fills its column of time by itself.
REAL_MONTH = "2024-05"


@pytest.fixture(scope="module")
def fidelity_lake(chs3_s3: Any) -> Iterator[Lake]:
    """A lake on a cluster of one node: many small loads take half of the time there."""
    bucket = "fidelity"
    client = chs3_s3.client()
    if bucket not in [each["Name"] for each in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=bucket)
    with (
        ClickHouseCluster.start(1, **WITH_NARROW_USER) as cluster,
        pytest.MonkeyPatch.context() as patch,
        lake_on(cluster, chs3_s3, bucket, patch) as lake,
    ):
        yield lake
