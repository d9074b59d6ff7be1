"""How servers list their clusters: by macros, and one server more than once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import CLUSTER
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER, narrow_connection
from tests.support.refusal import refused

FILES = Trips(rows_per_period=300, files_per_period=3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClickHouseCluster]:
    """A server whose cluster has a macro for its name, and that is listed twice in two others."""
    macros = {"cluster": CLUSTER, "alias": "{cluster}", "part": CLUSTER[:2]}
    with ClickHouseCluster.start(1, macros=macros, **WITH_NARROW_USER) as cluster:
        cluster.terminate(0)
        file = cluster.nodes[0].folder / ".clickhouse-local" / "config.xml"
        config = file.read_text(encoding="utf-8")
        listed = re.search(rf"<{CLUSTER}>(.*?)</{CLUSTER}>", config, re.DOTALL)[1]
        shard = re.search(r"<shard>.*</shard>", listed, re.DOTALL)[0]
        other = shard.replace(cluster.nodes[0].host, "localhost")
        twice = f"<twice>{listed}{shard}</twice><two_names>{listed}{other}</two_names>"
        file.write_text(config.replace("<remote_servers>", f"<remote_servers>{twice}"), encoding="utf-8")
        cluster.restart(0)
        yield cluster


@pytest.fixture
def lake(cluster: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    with lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        lake.create_table()
        lake.upload(FILES)
        yield lake


def distribute(lake: Lake, cluster: str) -> None:
    engine = f"Distributed('{cluster}', {lake.database}, trips, rand())"
    lake.on_node(0, f"CREATE TABLE {lake.database}.every AS {lake.database}.trips ENGINE = {engine}")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("named", ["{cluster}", "{alias}", "{part}s3"])
@pytest.mark.parametrize("given", [None, CLUSTER, "{cluster}"])
def test_a_distributed_table_may_name_its_cluster_by_a_macro(lake: Lake, named: str, given: str | None) -> None:
    distribute(lake, named)
    assert lake.load(table="every", cluster=given)["status"] == "published"
    assert lake.facts() == FILES.facts(PERIOD)
    for argument in (CLUSTER, "{cluster}"):
        assert lake.load(cluster=argument)["status"] == "unchanged"


@pytest.mark.thorough
def test_so_may_the_connection(lake: Lake, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    connection = narrow_connection(lake.cluster)
    connection["extra"] = {**connection["extra"], "cluster": "{alias}"}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    works, told = ClickHouseHook().test_connection()
    assert (works, "knows no cluster" in told) == (True, False)
    assert lake.load(cluster=None)["status"] == "published"
    assert main(["ledger", "--table", f"{lake.database}.trips"]) == 0
    assert PERIOD in capfd.readouterr().out


def test_a_macro_that_is_not_there_is_named(lake: Lake) -> None:
    refused(lake, r"'\{nope\}' has a macro \{nope\} that the server .* Known macros: alias, cluster,", cluster="{nope}")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["twice", "two_names"])
def test_a_server_that_a_cluster_lists_twice_is_named(lake: Lake, name: str) -> None:
    refused(lake, rf"Cluster '{name}' lists one server more than once: .* \(shards 1, 2\)", cluster=name)
