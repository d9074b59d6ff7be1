"""What came of a rehearsal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scenario:
    """What came of one scene.

    Args:
        name: What was done.
        seconds: How long it took.
        is_exact: Whether the table holds exactly the rows of the objects then.
        found: What it holds, or the error.
    """

    name: str
    seconds: float
    is_exact: bool
    found: str

    def __str__(self) -> str:
        return f"{'ok' if self.is_exact else 'WRONG':<6} {self.seconds:6.1f} s  {self.name}: {self.found}"


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """A rehearsal that has ended.

    Args:
        versions: Of the servers.
        nodes: How many there are.
        shards: In how many shards.
        engine: The table's, with its clauses.
        scenes: What came of each.
    """

    versions: tuple[str, ...]
    nodes: int
    shards: int
    engine: str
    scenes: list[Scenario]

    @property
    def is_exact(self) -> bool:
        """Whether all went right."""
        return all(each.is_exact for each in self.scenes)

    @property
    def header(self) -> str:
        """Where it takes place."""
        return f"ClickHouse {', '.join(self.versions)}, {self.nodes} nodes, {self.shards} shards, {self.engine}"
