"""Servers that come and go while a load runs: a Replicated database, behind a load balancer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from clickhouse_driver.errors import ServerException

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.testbed.balancer import LoadBalancer
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs import keeper
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.narrow_user import AS_ON_CLOUD, narrow_connection
from tests.support.replicas import OTHER, TRIPS, replicated
from tests.support.strikes import Strikes, strikes

#: A fixture.
__all__ = ["strikes"]

THIRD = 2


class Service:
    """Three servers, of which the third comes and goes, in the cluster's definition and in the database."""

    def __init__(self, lake: Lake, cluster: ClickHouseCluster) -> None:
        self.lake, self._cluster = lake, cluster
        self._files = [node.folder / ".clickhouse-local" / "config.xml" for node in cluster.nodes if node.folder]
        self._whole = [file.read_text() for file in self._files]

    def leave(self) -> None:
        self._cluster.kill(THIRD)
        for file in self._files:
            root = ElementTree.parse(file)
            (shard,) = root.findall(f"remote_servers/{self._cluster.name}/shard")
            shard.remove(shard.findall("replica")[THIRD])
            root.write(file)
        name = self._cluster.nodes[THIRD].name
        self._until_done(f"SYSTEM DROP DATABASE REPLICA '01|{name}' FROM DATABASE {self.lake.database}")
        self._until_done(f"SYSTEM DROP REPLICA '{name}' FROM DATABASE {self.lake.database}")
        self._reload(0, 1)

    def join(self) -> None:
        for file, text in zip(self._files, self._whole, strict=True):
            file.write_text(text)
        self._cluster.restart(THIRD)
        self.lake.on_node(THIRD, f"DROP DATABASE {self.lake.database} SYNC")
        engine = self._cluster.database_engine
        self.lake.on_node(THIRD, f"CREATE DATABASE {self.lake.database} ENGINE = {engine}")
        self._reload(0, 1)

    def caught_up(self) -> list[int]:
        self._until_done(f"SYSTEM SYNC REPLICA {self.lake.database}.{self.lake.table}", node=THIRD)
        return self.lake.rows_per_node()

    def _until_done(self, sql: str, node: int = 0) -> None:
        """Repeat a statement until Keeper knows that the server is gone, or the server has opened its tables."""
        for _ in range(120):
            with suppress(ServerException):
                self.lake.on_node(node, sql)
                return
            time.sleep(0.5)
        self.lake.on_node(node, sql)

    def _reload(self, *numbers: int) -> None:
        for number in numbers:
            self.lake.on_node(number, "SYSTEM RELOAD CONFIG")


@pytest.fixture
def service(chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    if why := keeper.missing():
        pytest.skip(why)
    with (
        ClickHouseCluster.start(3, replicas=3, program="server", **AS_ON_CLOUD) as cluster,
        lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake,
        LoadBalancer.start(cluster) as door,
    ):
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(narrow_connection(cluster, through=door)))
        lake.create_table(engine=replicated(lake))
        lake.upload(TRIPS)
        yield Service(lake, cluster)


@pytest.mark.thorough
def test_one_that_joins_has_what_is_published(service: Service, strikes: Strikes) -> None:
    lake = service.lake
    service.leave()
    strikes.before("Publish", service.join)
    assert lake.load()["status"] == "published"
    assert lake.facts() == TRIPS.facts(PERIOD)
    assert service.caught_up() == [12_000] * 3
    assert lake.load()["status"] == "unchanged"
    lake.upload(OTHER)
    assert lake.load()["status"] == "published"
    assert lake.facts() == OTHER.facts(PERIOD)


@pytest.mark.thorough
def test_one_that_goes_away_costs_a_retry_at_most(service: Service, strikes: Strikes) -> None:
    lake = service.lake
    lake.load()
    lake.upload(OTHER)
    strikes.before("Publish", service.leave)
    with suppress(Chs3Error, AirflowFailException):
        lake.load()
    assert lake.load()["status"] in ("published", "unchanged")
    assert lake.facts() == OTHER.facts(PERIOD)
    assert lake.load()["status"] == "unchanged"
    service.join()
    assert service.caught_up() == [14_000] * 3
