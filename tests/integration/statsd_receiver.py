"""What Airflow sends to StatsD, received over UDP."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

_LINE = re.compile(r"airflow\.(?P<name>[\w.]+)(?P<tags>(,[^:]+)?):(?P<value>[\d.]+)\|(?P<kind>c|g|ms)")


@dataclass(frozen=True)
class Metric:
    """One metric, as it was sent."""

    name: str
    kind: str
    value: float
    tags: str


@dataclass(frozen=True)
class Receiver:
    """A StatsD server that only listens."""

    socket: socket.socket

    def received(self) -> list[Metric]:
        """The provider's metrics since the last call, in the order of their sending."""
        found = []
        while True:
            try:
                packet = self.socket.recv(65536).decode()
            except TimeoutError:
                return found
            for line in packet.splitlines():
                match = _LINE.fullmatch(line)
                assert match, line
                if match["name"].startswith("chs3."):
                    found.append(Metric(match["name"], match["kind"], float(match["value"]), match["tags"]))


@contextmanager
def receiving(monkeypatch: pytest.MonkeyPatch, *, with_tags: bool = True) -> Iterator[Receiver]:
    """Have Airflow send its metrics here, as in a worker."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving:
        receiving.bind(("127.0.0.1", 0))
        # All come from this machine, before the task ends.
        receiving.settimeout(0.2)
        options = {"ON": True, "HOST": "127.0.0.1", "PORT": receiving.getsockname()[1], "INFLUXDB_ENABLED": with_tags}
        for name, value in options.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__STATSD_{name}", str(value))
        stats.initialize(factory=get_stats_factory(), export_legacy_names=False)
        yield Receiver(receiving)
        for name in options:
            monkeypatch.delenv(f"AIRFLOW__METRICS__STATSD_{name}")
        stats.initialize(factory=get_stats_factory(), export_legacy_names=False)
