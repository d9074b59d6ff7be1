"""Nodes of a size: what their servers see, and what they are held to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.lake import Lake
from tests.benchmarks.servers import BenchS3, held_to


@dataclass(frozen=True, kw_only=True)
class NodeSize:
    """One node."""

    cores: int
    memory_gib: int
    held_to_cores: float

    def __str__(self) -> str:
        return f"{self.held_to_cores:g} core{'s' if self.held_to_cores > 1 else ''}, {self.memory_gib} GiB"

    @contextmanager
    def lake(self, s3: BenchS3) -> Iterator[Lake]:
        """Start a node of that size."""
        cluster = ClickHouseCluster.start(
            1,
            server_settings={"max_server_memory_usage": self.memory_gib * 1024**3},
            user_settings={"max_threads": self.cores, "max_insert_threads": self.cores},
        )
        specs = {"default": {"cores": self.cores, "memory": f"{self.memory_gib}GiB"}}
        with cluster, held_to(self.held_to_cores, cluster):
            yield Lake(cluster, s3.endpoint, f"bench_{self.cores}_{self.memory_gib}", specs)
