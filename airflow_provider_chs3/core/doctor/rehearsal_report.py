"""The report of a rehearsal."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.core.model.quantities import quantity


@dataclass(frozen=True, slots=True)
class Scenario:
    """The result of one scenario."""

    name: str
    seconds: float
    is_exact: bool
    found: str

    def __str__(self) -> str:
        return f"{'ok' if self.is_exact else 'WRONG':<6} {self.seconds:6.1f} s  {self.name}: {self.found}"


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The result of a rehearsal."""

    versions: tuple[str, ...]
    nodes: int
    shards: int
    engine: str
    scenes: list[Scenario]

    @property
    def is_exact(self) -> bool:
        """Return whether every scenario was exact."""
        return all(scene.is_exact for scene in self.scenes)

    @property
    def header(self) -> str:
        """The servers and the table, in one line."""
        size = f"{quantity(self.nodes, 'node')}, {quantity(self.shards, 'shard')}"
        return f"ClickHouse {', '.join(self.versions)}, {size}, {self.engine}"
