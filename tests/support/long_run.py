"""The base of all long runs: an Airflow and servers of their own, and results as lines of JSON."""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.balancer import LoadBalancer
    from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
    from airflow_provider_chs3.testbed.s3 import S3Server
    from tests.support.lake import Lake

#: Which servers, and their program.
SERVERS = {"engine": "engine", "plain": "server", "replicated": "server", "replicated-database": "server"}


def parser_of_cases(prog: str, description: str | None) -> argparse.ArgumentParser:
    """Make a parser with the options of runs of random cases: how many, of which seed, from which on."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--cases", type=int, default=100, help="how many cases (100)")
    parser.add_argument("--seed", type=int, default=1, help="of all choices (1)")
    parser.add_argument("--first", type=int, default=0, help="the first case to run (0)")
    return parser


def told(given: argparse.Namespace, run: Callable[[int], str]) -> Counter[str]:
    """Run the cases, of which each returns how it ended, and print how many ended in which way."""
    outcomes = Counter[str]()
    try:
        outcomes.update(map(run, range(given.first, given.cases)))
    finally:
        print(f"{outcomes.total()} cases of seed {given.seed}, from {given.first} on", flush=True)
        print(*(f"  {count:6} {kind}" for kind, count in outcomes.most_common()), sep="\n", flush=True)
    return outcomes


@contextmanager
def own_airflow(name: str, **variables: str) -> Iterator[Path]:
    """Give the process a folder, and an Airflow in it, with no other Airflow's settings: before anything imports it."""
    # Ends `with` blocks as Ctrl-C does, so that servers and folders are gone.
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory(prefix=f"chs3-{name}-") as home:
        for each in [each for each in os.environ if each.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))]:
            del os.environ[each]
        # No line for each step of each load.
        os.environ.update(AIRFLOW_HOME=home, AIRFLOW__LOGGING__LOGGING_LEVEL="ERROR", **variables)
        yield Path(home)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def narrow_cluster(on: str, nodes: int, folder: Path, *, replicas: int = 2) -> ClickHouseCluster:
    """Start nodes that know the user of loads; see `SERVERS`. Replicated ones have as many in each shard."""
    from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
    from tests.support.narrow_user import WITH_NARROW_USER, WITH_NARROW_USER_OF_REPLICAS, WITH_NARROW_USER_OF_SHARDS

    is_shared = on == "replicated-database"
    if on == "replicated" or is_shared:
        # After a power cut ClickHouse keeps a replica read-only (231) where Keeper does not know half of its rows: of
        # tables as small as these, one lost part is as much.
        lenient = {"merge_tree": {"replicated_max_ratio_of_wrong_parts": 1}}
        return ClickHouseCluster.start(
            nodes,
            replicas=replicas,
            folder=folder,
            server_settings=lenient,
            replicated_databases=is_shared,
            # Else DDL of others waits for a replica that is down.
            user_settings={"distributed_ddl_output_mode": "throw_only_active"},
            **WITH_NARROW_USER_OF_SHARDS if is_shared else WITH_NARROW_USER_OF_REPLICAS,
        )
    return ClickHouseCluster.start(nodes, folder=folder, **WITH_NARROW_USER)


def narrow_lake(
    name: str, cluster: ClickHouseCluster, s3: S3Server, *, through: LoadBalancer | None = None, **extra: str
) -> Lake:
    """Make a bucket, a database, and Airflow's connections to both, as the user of loads."""
    from tests.support.lake import Lake
    from tests.support.narrow_user import narrow_connection

    connection = narrow_connection(cluster, through=through)
    connection["extra"] |= extra
    os.environ["AIRFLOW_CONN_CHS3_DEFAULT"] = json.dumps(connection)
    os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = json.dumps(s3.airflow_connection())
    s3.client().create_bucket(Bucket=name)
    lake = Lake(cluster, s3.client(), name, f"test_{name}")
    lake.create_database()
    return lake


class Results:
    """A folder of results: a file for each seed and its servers, so that runs side by side do not mix lines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def current(self) -> list[dict[str, Any]]:
        """Results of the code as it is now, as far as it writes and publishes."""
        from tests.support.protocol_sources import steps_hash

        now, files = steps_hash(), sorted(self._folder.glob("*.jsonl"))
        lines = (json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines())
        return [line for line in lines if line["steps"] == now]

    def of(self, **values: Any) -> list[dict[str, Any]]:
        """The lines that have these values."""
        return [line for line in self.current() if all(line[name] == value for name, value in values.items())]

    def write(self, name: str, *, server: str, **line: Any) -> None:
        """One more result; it is in its file when this returns."""
        from tests.support.protocol_sources import steps_hash
        from tests.tested import commit

        line = {"commit": commit(), "steps": steps_hash(), "clickhouse": server, **line}
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{name.replace(' ', '-')}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def listed(values: Iterable[Any]) -> str:
    """The different values, in order."""
    return ", ".join(map(str, sorted(set(values))))
