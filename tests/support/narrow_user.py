"""The users of the tests' loads and of the page: what docs/privileges.md grants, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_chs3.testbed.balancer import LoadBalancer
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import Cluster, User
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION

_DOCUMENT = (Path(__file__).parents[2] / "docs" / "privileges.md").read_text(encoding="utf-8")

NARROW = User("narrow", "n'a%40@r/\"r\\o:?#&w")
#: Whom the page in Airflow's UI may ask as.
WATCHER = User("watcher", "only looks")
#: The test bed's engine, which is a clickhouse-local, asks for it where anything is read; servers do not.
TRAIT = "READ ON FILE"


def documented(section: str) -> list[str]:
    """The privileges that a section's statements grant, one by one: `SELECT ON system.parts`."""
    text = _DOCUMENT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found: list[str] = []
    for block in re.findall(r"```sql\n(.*?)```", text, re.DOTALL):
        for grants in re.findall(r"GRANT (.*?) TO \w+;", " ".join(block.split())):
            found += _one_by_one(grants)
    return found


def documented_also(where: str) -> list[str]:
    """The privileges of the line of the table that says where they are needed."""
    (line,) = (line for line in _DOCUMENT.splitlines() if line.startswith("| `") and where in line)
    return re.findall("`([^`]+)`", line.split("|")[1])


def _one_by_one(grants: str) -> list[str]:
    """`SELECT, INSERT ON a, READ ON b` as SELECT ON a, INSERT ON a, READ ON b."""
    word = r"[A-Z0-9]+(?: [A-Z]+)*?"
    groups = re.findall(rf"((?:{word}, )*{word}) ON (\S+?)(?=,|$)", grants)
    return [f"{each} ON {where}" for privileges, where in groups for each in privileges.split(", ")]


def _privileges() -> list[str]:
    """Those of a loader, a planner and a doctor in one; in all databases of tests, as a prefix is all that can be."""
    loader = [*documented("Loading"), *documented("The ledger")]
    for where in (
        "through the named collection",
        "names the Distributed table",
        "the load is `deferrable`, which",
        "reads them twice",
        "reads Azure Blob Storage",
        "reads HDFS",
        "a table of PostgreSQL",
        "a table of MySQL",
        "runs a SELECT over",
        "looks values up in the dictionary",
        "create_table='if_missing'",
        "policies={'on_new_columns': 'add'}",
        "`restore` of a version",
    ):
        loader += documented_also(where)
    found = dict.fromkeys(
        [*loader, *documented("Planning"), *documented("Merge health"), *documented("Merging closed periods")]
    )
    return [*dict.fromkeys(in_tests(each) for each in found), TRAIT]


def _privileges_of_page() -> list[str]:
    return [*dict.fromkeys(in_tests(each) for each in documented("The periods page")), TRAIT]


def in_tests(privilege: str) -> str:
    """A documented privilege with the names of tests."""
    return re.sub(r"ON taxi\.\S+", "ON test_*.*", privilege).replace("ON lake", f"ON {S3_NAMED_COLLECTION}")


#: Arguments of `ClickHouseCluster.start`. With a secret, a query runs as its user on the other nodes too.
WITH_NARROW_USER: dict[str, Any] = {
    "users": {NARROW: _privileges(), WATCHER: _privileges_of_page()},
    "secret": "chs3",
}


#: And where the tables are replicated, and a shard has one record.
WITH_NARROW_USER_OF_SHARDS: dict[str, Any] = {
    "users": {NARROW: [*_privileges(), *map(in_tests, documented_also("the table is replicated"))]},
    "secret": "chs3",
}
#: And where each replica has its own.
WITH_NARROW_USER_OF_REPLICAS: dict[str, Any] = {
    "users": {NARROW: [*WITH_NARROW_USER_OF_SHARDS["users"][NARROW], *documented_also("numbers the records")]},
    "secret": "chs3",
}


#: Nearly every statement of the tests is a new one, which takes longer to compile than to interpret. Servers that tests
#: start for themselves, and those of `tests/servers/test_oldest.py`, compile as they do by default.
WITHOUT_COMPILATION = {
    "compile_expressions": 0,
    "compile_aggregate_expressions": 0,
    "compile_sort_description": 0,
}

#: As on ClickHouse Cloud: databases that replicate, ALTERs and mutations that wait for nobody, and no right to what is
#: not there.
AS_ON_CLOUD: dict[str, Any] = {
    "replicated_databases": True,
    "user_settings": {**WITHOUT_COMPILATION, "alter_sync": 0, "mutations_sync": 0},
    "users": {
        NARROW: [
            each
            for each in WITH_NARROW_USER_OF_SHARDS["users"][NARROW]
            if each not in ("SELECT ON system.replication_queue", f"NAMED COLLECTION ON {S3_NAMED_COLLECTION}")
        ],
        WATCHER: [each for each in _privileges_of_page() if each != "SELECT ON system.replication_queue"],
    },
    "secret": "chs3",
}


def narrow_connection(cluster: Cluster, *, through: LoadBalancer | None = None) -> dict[str, Any]:
    """An Airflow connection as the user of loads."""
    user = user_of_loads(cluster)
    return (through or cluster).airflow_connection() | {"login": user.login, "password": user.password}


def user_of_loads(cluster: Cluster) -> User:
    """The narrow user; where servers are none of this machine's, whom they have."""
    return NARROW if isinstance(cluster, ClickHouseCluster) else cluster.nodes[0].credentials


#: A server that lives as long as the tests would spend a third of its time on writing and merging parts of its logs.
_LOGS_IN_MEMORY = {
    name: {
        "database": "system",
        "table": name,
        "engine": "ENGINE = Memory SETTINGS compress = 1, min_rows_to_keep = 10000, max_rows_to_keep = 20000",
        "flush_interval_milliseconds": 1000,
    }
    for name in ("query_log", "part_log")
}


@pytest.fixture(scope="session")
def chs3_cluster_options() -> dict[str, Any]:
    """The cluster of the tests knows users of many profiles, and keeps its logs in memory, as no test restarts it."""
    # Which profiles servers know is decided when pytest knows the servers.
    from tests.support.users import WITH_PROFILES

    return (
        WITH_NARROW_USER
        | WITH_PROFILES
        | {
            "server_settings": _LOGS_IN_MEMORY,
            "user_settings": WITHOUT_COMPILATION,
        }
    )
