"""Which servers the tests ran on: `./dev test --tested docs/tested/engine.json`, then `python -m tests.tested`.

The table in docs/compatibility.md is made of the files of such runs, and of nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

_ROOT = Path(__file__).parents[1]
FOLDER = _ROOT / "docs" / "tested"
TABLE = FOLDER / "table.md"
_OUTCOMES = ("passed", "failed", "skipped")
_PROPERTY = "servers"


class Tested:
    """Counts tests by the servers that they ran on; the plugin of a run with `--tested`."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._servers: dict[int, str] = {}
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._folders: dict[str, set[str]] = defaultdict(set)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Ask the servers that the test has, while they are there."""
        yield
        for cluster in _clusters(getattr(item, "funcargs", {}).values()):
            if id(cluster) not in self._servers:
                self._servers[id(cluster)] = _described(cluster)
            item.user_properties.append((_PROPERTY, self._servers[id(cluster)]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the test, whichever process ran it."""
        if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
            for name, servers in report.user_properties:
                if name == _PROPERTY:
                    self._counts[str(servers)][report.outcome] += 1
                    self._folders[str(servers)].add("/".join(report.nodeid.partition("::")[0].split("/")[:2]))

    def pytest_sessionfinish(self) -> None:
        """Write the counts."""
        if self._path:
            rows = [
                {
                    "servers": servers,
                    "tests": sorted(self._folders[servers]),
                    **{outcome: counts[outcome] for outcome in _OUTCOMES},
                }
                for servers, counts in sorted(self._counts.items())
            ]
            told = {
                "date": f"{datetime.now(UTC):%Y-%m-%d}",
                "commit": commit(),
                "airflow": version("apache-airflow-core"),
                "python": ".".join(map(str, sys.version_info[:3])),
                "servers": rows,
            }
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(f"{json.dumps(told, indent=2)}\n", encoding="utf-8")


def _clusters(values: Iterable[Any]) -> list[Cluster]:
    from airflow_provider_chs3.testbed.nodes import Cluster

    found = [value if isinstance(value, Cluster) else getattr(value, "cluster", None) for value in values]
    return list({id(each): each for each in found if isinstance(each, Cluster)}.values())


def _described(cluster: Cluster) -> str:
    with cluster.nodes[0].client() as client:
        sql = "SELECT version(), uniqExact(shard_num), count() FROM system.clusters WHERE cluster = %(name)s"
        ((server, shards, nodes),) = client.execute(sql, {"name": cluster.name})
    shape = f"{shards} shard{'s' if shards > 1 else ''}"
    replicas = f" of {nodes // shards} replicas" if nodes > shards else ""
    databases = ", Replicated databases" if cluster.database_engine else ""
    door = ", behind a load balancer" if os.environ.get("CHS3_DOOR") else ""
    return f"{server}, {shape}{replicas}{databases}{door}"


def commit() -> str:
    """Give the commit of the code that runs; `unknown` outside of a repository."""
    described = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(described, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def table(folder: Path = FOLDER) -> str:
    """Make the table of all runs."""
    lines = ["| ClickHouse | tests | passed | failed | skipped | Airflow | commit | date |", "|" + "---|" * 8]
    for path in sorted(folder.glob("*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        for row in run["servers"]:
            tests = ", ".join(f"`{name}`" for name in row["tests"])
            counts = " | ".join(f"{row[outcome]:,}" for outcome in _OUTCOMES)
            lines.append(
                f"| {row['servers']} | {tests} | {counts} | {run['airflow']} | {run['commit']} | {run['date']} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    TABLE.write_text(table(), encoding="utf-8")
    print(TABLE)
