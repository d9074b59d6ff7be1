"""A server, as it describes itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_chs3.client.connection import Address


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server at the other end of a connection, as it says itself."""

    name: str
    uuid: str
    nodes: frozenset[Address]
    clusters: Sequence[frozenset[Address]]

    def nodes_beside(self, address: Address | None) -> int:
        """Return the number of nodes in the largest cluster with a node, 0 if none has it."""
        return max((len(cluster) for cluster in self.clusters if address in cluster), default=0)
