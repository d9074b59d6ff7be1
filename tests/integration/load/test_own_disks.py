"""Tables that define their disk themselves: servers hide the definition, and staging lies on the same disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER

TRIPS = Trips(rows_per_period=900, files_per_period=6)
OTHER = Trips(seed=2, rows_per_period=900, files_per_period=6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all disks lie but the default one."""
    return tmp_path_factory.mktemp("disks")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[ClickHouseCluster]:
    """Two nodes that let tables define disks, and know one disk, and a policy, beside the default."""
    storage = {
        "disks": {"named": {"type": "local", "path": f"{folder}/named/"}},
        "policies": {"policy": {"volumes": {"main": {"disk": "named"}}}},
    }
    settings = {"custom_local_disks_base_directory": f"{folder}/", "storage_configuration": storage}
    with ClickHouseCluster.start(2, server_settings=settings, **WITH_NARROW_USER) as started:
        yield started


@pytest.fixture
def own_lake(
    cluster: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    with lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        yield lake


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "disk",
    [
        "disk = disk(type = local, path = '{path}')",
        "disk = disk(name = 'it''s, (mine', type = local, path = '{path}')",
        "disk = 'named'",
        "storage_policy = 'policy'",
    ],
)
def test_a_period_is_published_from_staging_on_the_same_disk(own_lake: Lake, folder: Path, disk: str) -> None:
    for node in (0, 1):
        own = disk.format(path=f"{folder}/{own_lake.database}_{node}/")
        own_lake.on_node(
            node, f"{create_table_sql(f'{own_lake.database}.trips')} SETTINGS {own}, index_granularity = 4096"
        )
    for trips in (TRIPS, OTHER):
        own_lake.upload(trips)
        own_lake.load()
        assert own_lake.facts() == trips.facts(PERIOD)
    disks = "SELECT DISTINCT disk_name = 'default' FROM system.parts WHERE active AND table = 'trips' AND database = "
    found = own_lake.on_every_node(f"{disks}'{own_lake.database}'")
    assert {row for of_node in found for row in of_node} == {(0,)}
