"""A local ClickHouse cluster: real nodes, one process each, on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from airflow_provider_chs3.testbed import node_config
from airflow_provider_chs3.testbed.nodes import LOADER, PROGRAM_VARIABLE, Cluster, RunningNode, User
from airflow_provider_chs3.testbed.processes import Stoppable, free_ports, is_listening, kill, terminate, wait_until
from airflow_provider_chs3.testbed.programs import engine, server
from airflow_provider_chs3.testbed.programs.keeper import Keeper

_START_TIMEOUT_SECONDS = 180.0
_PROGRAMS = {"engine": engine.start, "server": server.start}


class ClickHouseCluster(Stoppable, Cluster):
    """A running cluster on this machine: `start` it, and `stop` it or use it in a `with` block.

    However this process ends, the nodes end with it.
    """

    def __init__(
        self,
        nodes: Sequence[RunningNode],
        *,
        program: str,
        keeper: Keeper | None,
        folder: Path,
        keep_folder: bool,
        time_zones: Sequence[str] = (),
    ) -> None:
        """Start nodes whose configuration is in their folders, and wait for them. Use `start` instead."""
        super().__init__(nodes)
        self.program = program
        self.keeper = keeper
        self._folder = folder
        self._keep_folder = keep_folder
        self._time_zones = dict(enumerate(time_zones))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        try:
            for index in range(len(nodes)):
                self._spawn(index)
            for index in range(len(nodes)):
                self._wait(index)
        except BaseException:
            self.stop()
            raise

    @classmethod
    def start(
        cls,
        nodes: int = 3,
        *,
        replicas: int = 1,
        program: str = "",
        folder: Path | None = None,
        named_collections: Mapping[str, Mapping[str, str]] | None = None,
        server_settings: Mapping[str, Any] | None = None,
        user_settings: Mapping[str, Any] | None = None,
        macros: Mapping[str, Any] | None = None,
        users: Mapping[User, Sequence[str]] | None = None,
        profiles: Mapping[User, Mapping[str, Any]] | None = None,
        clusters: Mapping[str, User] | None = None,
        secret: str = "",
        loader: User = LOADER,
        time_zones: Sequence[str] = (),
        replicated_databases: bool = False,
    ) -> Self:
        """Start a cluster and wait until every node answers.

        Args:
            nodes: Number of nodes, 3 by default; each takes about 400 MB of memory.
            replicas: Nodes per shard, with a ZooKeeper if more than 1; 1 by default.
            program: `engine`, the newest ClickHouse, embedded; or `server`, a real server of the oldest supported
                version. Only servers can replicate. By default `$CHS3_CLICKHOUSE_PROGRAM`, or else the engine.
            folder: Folder of the nodes, which `stop` keeps; by default a temporary folder, which it removes.
            named_collections: Name of the collection → its keys and values; none by default.
            server_settings: Elements of `config.xml`, such as `{"max_server_memory_usage": 2 * 1024**3}` (bytes) or
                `{"merge_tree": {"parts_to_throw_insert": 20}}`; they override the test bed's own.
            user_settings: Settings of every user's profile, such as `{"max_memory_usage": 10**9}` (bytes).
            macros: Further macros besides `shard` and `replica`.
            users: Further users → their grants, such as `["SELECT ON system.parts"]`; none by default.
            profiles: Further users with all rights → the settings and `constraints` of each user's own profile; none by
                default.
            clusters: Name of a further cluster of all nodes → the user with which they connect; none by default.
            secret: The cluster's secret, with which a query runs as its user on the other nodes, too; by default it
                runs as the loader there.
            loader: The user with all rights, as whom `client()` and other nodes connect; by default one whose password
                has to be quoted wherever it goes.
            time_zones: Time zone of each node, such as `["Europe/Berlin", "America/New_York"]`; those without one, by
                default all, have UTC.
            replicated_databases: Whether databases will have the engine Replicated: a ZooKeeper runs, and tables
                without a path get one by their UUID, as servers do by default. False by default.

        Returns:
            The running cluster.

        Raises:
            RuntimeError: If the program is not installed, or a node does not start; with the end of the node's log.
            ValueError: If the engine is asked to replicate.
        """
        program = program or os.environ.get(PROGRAM_VARIABLE, "engine")
        has_keeper = replicas > 1 or replicated_databases
        if has_keeper and program == "engine":
            raise ValueError("The engine has no port for replicas: set program='server'")
        home = folder or Path(tempfile.mkdtemp(prefix="chs3-cluster-"))
        described = node_config.describe(nodes, home, loader)
        options = node_config.Options(
            named_collections=named_collections or {},
            server_settings=server_settings or {},
            user_settings=user_settings or {},
            macros=macros or {},
            users=users or {},
            profiles=profiles or {},
            clusters=clusters or {},
            secret=secret,
            loader=loader,
            replicas=replicas,
            keeper_port=free_ports(1)[0] if has_keeper else None,
            replicated_databases=replicated_databases,
        )
        node_config.write(described, options=options)
        keeper = Keeper(home / "zookeeper", options.keeper_port) if options.keeper_port else None
        cluster = cls(
            described,
            program=program,
            keeper=keeper,
            folder=home,
            keep_folder=folder is not None,
            time_zones=time_zones,
        )
        if replicated_databases:
            # One for each shard: a database of several shards runs REPLACE PARTITION on all of them.
            cluster.database_engine = "Replicated('/databases/{database}/{shard}', '{shard}', '{replica}')"
        return cluster

    def kill(self, index: int) -> None:
        """End a node as a power cut would (SIGKILL), and wait until it is gone.

        Args:
            index: The node's place in `nodes`, from 0.
        """
        kill(self._processes.pop(index))

    def terminate(self, index: int) -> None:
        """Shut down a node in an orderly way (SIGTERM), and wait until it is gone."""
        terminate(self._processes.pop(index))

    def freeze(self, index: int) -> None:
        """Freeze a node (SIGSTOP): it accepts connections, but does not answer."""
        self._processes[index].send_signal(signal.SIGSTOP)

    def thaw(self, index: int) -> None:
        """Let a frozen node continue (SIGCONT)."""
        self._processes[index].send_signal(signal.SIGCONT)

    @contextmanager
    def lagging(self, index: int, table: str) -> Iterator[None]:
        """Keep a replica from fetching what the others write, for a `with` block; after it, the replica catches up.

        Args:
            index: The node's place in `nodes`, from 0.
            table: The replicated table, such as `taxi.trips`.
        """
        with self.nodes[index].client() as client:
            client.execute(f"SYSTEM STOP FETCHES {table}")
            try:
                yield
            finally:
                client.execute(f"SYSTEM START FETCHES {table}")
                client.execute(f"SYSTEM SYNC REPLICA {table}")

    def restart(self, index: int, *, time_zone: str = "") -> None:
        """Start a node again with the same data and ports; kill it first if it runs.

        Args:
            index: The node's place in `nodes`, from 0.
            time_zone: Its time zone from now on; by default the one that it had.

        Raises:
            RuntimeError: If it does not start.
        """
        if index in self._processes:
            self.kill(index)
        if time_zone:
            self._time_zones[index] = time_zone
        self._spawn(index)
        self._wait(index)

    def stop(self) -> None:
        """End all nodes, and remove their folder unless it was given."""
        for index in list(self._processes):
            self.kill(index)
        if self.keeper:
            self.keeper.stop()
        if not self._keep_folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _spawn(self, index: int) -> None:
        process = _PROGRAMS[self.program](self._folder_of(index), self._time_zones.get(index, "UTC"))
        self._processes[index] = process
        self.nodes[index] = replace(self.nodes[index], pid=process.pid)

    def _wait(self, index: int) -> None:
        node, folder = self.nodes[index], self._folder_of(index)
        wait_until(
            # The embedded engine opens HTTP last, a server first.
            lambda: is_listening(node.http_port) and is_listening(node.tcp_port),
            process=self._processes[index],
            name=f"{node.name} of the local ClickHouse cluster (ports {node.tcp_port}, {node.http_port}; needs 400 MB)",
            logs=[folder / "clickhouse.log", folder / "engine.log"],
            timeout_seconds=_START_TIMEOUT_SECONDS,
        )

    def _folder_of(self, index: int) -> Path:
        folder = self.nodes[index].folder
        assert folder is not None
        return folder
