"""A source that is slow."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.testbed.trips import COLUMNS
from tests.support.slow import SLOW_SETTINGS

#: About 2 s on each of three nodes.
SLOW: dict[str, Any] = {
    "select": {name: name for name in COLUMNS} | {"trip_id": "trip_id + sleepEachRow(0.002)"},
    "settings": SLOW_SETTINGS,
}
