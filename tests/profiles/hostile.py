"""Profiles that are hostile on purpose: every setting of a server, with values that nobody should need."""

from __future__ import annotations

import random
import re
from dataclasses import asdict, dataclass, replace
from typing import Any

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import User

#: Settings that are not tried, and why.
SKIPPED = {
    "sleep_after_receiving_query_ms": "only slow: it makes a server wait",
    "sleep_in_send_data_ms": "only slow: it makes a server wait",
    "sleep_in_send_tables_status_ms": "only slow: it makes a server wait",
    "merge_tree_storage_snapshot_sleep_ms": "only slow: it makes a server wait",
    "profile": "names another profile",
    "query_profiler_real_time_period_ns": "only slow: a signal for each nanosecond",
    "query_profiler_cpu_time_period_ns": "only slow: a signal for each nanosecond",
    "opentelemetry_start_trace_probability": "only slow: it writes a log of its own",
    "max_execution_speed": "only slow: it makes a server wait",
    "max_execution_speed_bytes": "only slow: it makes a server wait",
    "max_network_bandwidth": "only slow: it makes a server wait",
    "max_network_bandwidth_for_user": "only slow: it makes a server wait",
    "max_network_bandwidth_for_all_users": "only slow: it makes a server wait",
    "max_remote_read_network_bandwidth": "only slow: it makes a server wait",
    "max_local_write_bandwidth": "only slow: it makes a server wait",
    "max_local_read_bandwidth": "only slow: it makes a server wait",
}

FORMATS = ("Parquet", "CSV", "JSONEachRow")
PLACES = ("user", "nodes", "connection")
_CHOICES = re.compile(r"Must be one of \[([^\]]*)\]")
_PRINTABLE = re.compile(r"[ -~]*")


@dataclass(frozen=True)
class Case:
    """Loads of three nights."""

    settings: dict[str, str]
    where: str
    file_format: str
    through: str

    @property
    def name(self) -> str:
        """Tells it from all others."""
        given = ", ".join(f"{name}={value!r}" for name, value in sorted(self.settings.items()))
        return f"{given} ({self.where}, {self.file_format}, {self.through})"

    def user(self, number: int) -> User:
        """Who has the profile."""
        return User(f"hostile{number}", "of tests")

    def as_json(self) -> dict[str, Any]:
        """The same as JSON-safe values."""
        return asdict(self)


class Hostile:
    """Each setting that is not obsolete, with hostile values that servers take."""

    def __init__(self, cluster: ClickHouseCluster) -> None:
        self._cluster = cluster
        sql = "SELECT name, type, default FROM system.settings WHERE NOT is_obsolete AND alias_for = '' ORDER BY name"
        with cluster.nodes[0].client() as client:
            self._settings = {name: (kind, default) for name, kind, default in client.execute(sql)}

    @property
    def names(self) -> list[str]:
        """All settings that are tried."""
        return [name for name in self._settings if name not in SKIPPED]

    def values(self, name: str) -> list[str]:
        """Hostile values of one of them; none where no other value is known."""
        kind, default = self._settings[name]
        return [
            value
            for value in _candidates(self._cluster, name, kind, default)
            if value != default and _PRINTABLE.fullmatch(value) and _error_of(self._cluster, name, value) is None
        ]


def _candidates(cluster: ClickHouseCluster, name: str, kind: str, default: str) -> list[str]:
    if kind == "Bool":
        return ["0" if default == "1" else "1"]
    if kind.startswith("Map"):
        return ["{'x': 'y'}", "{'trips': 'n = 1'}"]
    if name == "session_timezone":
        return ["America/New_York"]
    if name == "compatibility":
        return ["20.3", "23.8"]
    if matched := _CHOICES.search(_error_of(cluster, name, "no such word") or ""):
        return re.findall(r"'([^']*)'", matched[1])
    if re.match(r"(U?Int|Float|Double|Seconds|Milliseconds|MaxThreads|NonZeroUInt)", kind):
        return ["1", "0"]
    return ["1", "x"]


def _error_of(cluster: ClickHouseCluster, name: str, value: str) -> str | None:
    from clickhouse_driver.errors import ServerException

    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    with cluster.nodes[0].client() as client:
        try:
            client.execute(f"SET {name} = '{quoted}'")
        except ServerException as error:
            return str(error.message)
    return None


def in_turn(hostile: Hostile, *, together: int = 1) -> list[Case]:
    """Every setting with each value, at each place; formats and listings take turns."""
    singles = [(name, value) for name in hostile.names for value in hostile.values(name)]
    # So that a part of them is a sample of all.
    random.Random(0).shuffle(singles)
    groups: list[dict[str, str]] = []
    for name, value in singles:
        room = (group for group in groups[-2:] if len(group) < together and name not in group)
        group = next(room, None)
        if group is None:
            groups.append(group := {})
        group[name] = value
    return [
        _case(settings, where, number)
        for start, where in enumerate(PLACES)
        for number, settings in enumerate(groups, start=start)
    ]


def alone(case: Case) -> list[Case]:
    """Each setting of a case in a profile of its own."""
    return [replace(case, settings={name: value}) for name, value in case.settings.items()]


def at_random(hostile: Hostile, *, cases: int, seed: int) -> list[Case]:
    """Single settings, and groups of two to five."""
    choice = random.Random(seed)
    found = []
    for number in range(cases):
        group = choice.sample(hostile.names, choice.choice((1, 1, 2, 3, 5)))
        settings = {name: choice.choice(values) for name in group if (values := hostile.values(name))}
        found.append(_case(settings, choice.choice(PLACES), number))
    return found


def _case(settings: dict[str, str], where: str, number: int) -> Case:
    return Case(settings, where, FORMATS[number % 3], ("worker", "collection")[number // 3 % 2])
