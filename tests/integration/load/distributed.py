"""Distributed tables."""

from __future__ import annotations

from tests.support.lake import Lake

BY_KEY = {"table": "all_trips", "cluster": None, "distribution": "sharding_key"}
#: As a Distributed table may have it: with commas, quotes and brackets.
KEY = "cityHash64(zone, concat(vendor, '),(')) + trip_id"


def create_distributed(lake: Lake, key: str = KEY, name: str = "all_trips", local: str = "trips") -> None:
    arguments = ", ".join(filter(None, (lake.cluster.name, lake.database, local, key)))
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.{name} AS {lake.database}.trips ENGINE = Distributed({arguments})"
    )
