"""The sections of a view: one for each cluster, though several connections may lead to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def one_for_each_cluster(connections: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the answer of one connection for each cluster, with the ids of all connections that lead to it.

    Connections lead to the same cluster if they see the same nodes. Users of fewer privileges may see fewer loads, so
    the answer with most loads stands for all; one with an error stands for itself.

    Args:
        connections: The answer of each connection: `conn_id`, `error`, `cluster`, `nodes` and `loads`.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for seen in connections:
        names = tuple(sorted(filter(None, (node["name"] for node in seen["nodes"]))))
        is_known = names and not seen["error"]
        key = (seen["cluster"], *names) if is_known else ("connection", seen["conn_id"], seen["error"])
        known = found.get(key, {"conn_ids": [], "loads": ()})
        fullest = seen if not known["conn_ids"] or len(seen["loads"]) > len(known["loads"]) else known
        found[key] = {**fullest, "conn_ids": [*known["conn_ids"], seen["conn_id"]]}
    return list(found.values())
