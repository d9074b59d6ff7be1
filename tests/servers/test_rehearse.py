"""`python -m airflow_provider_chs3 rehearse` on replicas: which table it asks for, and a node that dies meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from airflow_provider_chs3.cli.rehearse import Rehearsal
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.support.lake import Lake
from tests.support.rehearsing import Rehearse, rehearse
from tests.support.waiting import wait_until

__all__ = ["rehearse"]

MORTAL = 3


@pytest.fixture(autouse=True)
def any_user(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rehearsals may create tables, which the user of loads may not everywhere."""
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(lake.cluster.airflow_connection()))


@pytest.fixture
def dying(
    lake: Lake, replicated_cluster: ClickHouseCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClickHouseCluster]:
    """A cluster of which a node dies in the middle of a rehearsal."""
    play = Rehearsal._load_without_a_file

    def play_without_a_node(self: Rehearsal) -> str:
        replicated_cluster.kill(MORTAL)
        return play(self)

    monkeypatch.setattr(Rehearsal, "_load_without_a_file", play_without_a_node)
    yield replicated_cluster
    replicated_cluster.restart(MORTAL)
    lake.on_every_node(f"SYSTEM SYNC REPLICA {lake.database}.{lake.table}")


def tables(lake: Lake, node: int) -> list[str]:
    sql = f"SELECT name FROM system.tables WHERE database = '{lake.database}' AND name != '{lake.table}'"
    return [name for (name,) in lake.on_node(node, sql)]


def test_a_plain_table_is_refused_with_the_way_out(lake: Lake, rehearse: Rehearse) -> None:
    code, out, err = rehearse()
    assert (code, out) == (2, "")
    assert "pass --like DATABASE.TABLE" in err
    assert err.count("\n") == 1


@pytest.mark.thorough
def test_a_node_that_dies_keeps_what_is_told_until_it_is_cleaned(
    lake: Lake, rehearse: Rehearse, dying: ClickHouseCluster
) -> None:
    address = f"{dying.nodes[MORTAL].host}:{dying.nodes[MORTAL].tcp_port}"
    code, out, err = rehearse("--like", lake.table)
    assert (code, "WRONG" in out) == (2, False)
    assert f"left on {address} (" in err
    assert "run `rehearse --clean`" in err
    assert "a file that is deleted could not be rehearsed: No answer from ClickHouse" in err
    survivors = [node for node in range(len(dying.nodes)) if node != MORTAL]
    assert [tables(lake, node) for node in survivors] == [[], [], []]

    lake.on_node(0, f"CREATE TABLE {lake.database}.rehearsal_chs3_0a1b (ts Date) ENGINE = MergeTree ORDER BY ts")
    code, out, err = rehearse("--clean")
    assert (code, out) == (2, "")
    assert f"left on {address} (" in err
    assert tables(lake, 0) == []

    dying.restart(MORTAL)
    if dying.database_engine:
        # A server of such a database repeats what the others did meanwhile.
        wait_until(lambda: tables(lake, MORTAL) == [])
        return
    assert tables(lake, MORTAL) != []
    assert rehearse("--clean") == (0, "Removed the remains of 1 rehearsal.\n", "")
    assert tables(lake, MORTAL) == []
