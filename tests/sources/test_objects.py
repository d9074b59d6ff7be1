"""The nodes of a cluster read the objects of S3, Azure, GCS and HDFS, each file once."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.testbed.trips import Trips, read_facts
from tests.sources.loading import Staging
from tests.sources.objects import Objects

pytestmark = pytest.mark.three_nodes

PERIOD = "2026-01"
TRIPS = Trips(rows_per_period=10_000, files_per_period=5)


@pytest.mark.thorough(but=1, first=1)
def test_a_cluster_reads_a_periods_files_and_each_of_them_once(objects: Objects, staging: Staging) -> None:
    objects.upload(TRIPS, PERIOD)
    objects.upload(TRIPS, "2026-02")
    staging.insert(objects.function(f"trips/{PERIOD}/*.parquet", cluster=staging.cluster.name))
    assert staging.facts(PERIOD) == TRIPS.facts(PERIOD)
    assert sum(staging.rows_per_node()) == TRIPS.rows_per_period


@pytest.mark.thorough(but=1)
def test_one_node_reads_what_is_there_now(objects: Objects, chs3_cluster: object) -> None:
    first, second = (list(Trips(seed=seed).files(PERIOD, file_format="csv.gz")) for seed in (1, 2))
    for (name, _), (_, body) in zip(first, second, strict=True):
        objects.put(f"trips/{name}", b"")
        objects.put(f"trips/{name}", body)
    objects.put("trips/more.csv.gz", first[0][1])
    objects.delete("trips/more.csv.gz")
    with chs3_cluster.nodes[0].client() as client:
        function = objects.function("trips/*.csv.gz", file_format="CSVWithNames")
        assert read_facts(client, function, PERIOD) == Trips(seed=2).facts(PERIOD)
