"""The result of a table's calibration: where its loads deviate from the tuning rules, and when that applies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from airflow_provider_chs3.core.values.quantities import size_text

#: Relative difference up to which two memory sizes count as equal: servers measure their memory at each start.
_SAME_MEMORY = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Knobs:
    """Deviations from the tuning rules; None follows the rule.

    They do not depend on the size of one period: threads scale with the cores, and blocks with the rule's block for the
    period and the memory, so that the memory of a load stays bounded for any period.

    Args:
        insert_threads: Insert threads per core of the load's resource share.
        block: Factor for the rule's block size; blocks never exceed what the memory allows.
        read_threads: Reading threads per core of the load's resource share.
        download_buffer_bytes: `max_download_buffer_size`.
        download_threads: `max_download_threads`.
    """

    insert_threads: float | None = None
    block: float | None = None
    read_threads: float | None = None
    download_buffer_bytes: int | None = None
    download_threads: int | None = None

    def turned(self) -> dict[str, float | int]:
        """Return the knobs that deviate from the rule: name → value."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def plain_settings(self) -> dict[str, int]:
        """Return the knobs that are ClickHouse settings: name → value."""
        settings = {
            "max_download_buffer_size": self.download_buffer_bytes,
            "max_download_threads": self.download_threads,
        }
        return {name: value for name, value in settings.items() if value is not None}


#: No deviations: the rules alone.
BY_RULE = Knobs()


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """The files and nodes that a profile was measured on.

    Args:
        files: Format and compression of the objects, such as `CSVWithNames, gzip`.
        nodes: Number of nodes that load.
        cores: Cores of the smallest node.
        memory_bytes: Memory of the smallest node; 0 if unknown.
        version: ClickHouse version of the cluster's first node, without patches: `26.9`.
    """

    files: str
    nodes: int
    cores: int
    memory_bytes: int
    version: str

    def difference(self, now: Circumstances) -> str:
        """Describe what has changed since then; empty if nothing has."""
        pairs = (
            ("files:", self.files, now.files),
            ("nodes:", self.nodes, now.nodes),
            ("cores:", self.cores, now.cores),
            ("ClickHouse", self.version, now.version),
        )
        differences = [f"{name} {then}, now {here}" for name, then, here in pairs if then != here]
        if abs(self.memory_bytes - now.memory_bytes) > _SAME_MEMORY * max(self.memory_bytes, now.memory_bytes):
            differences.append(f"memory: {size_text(self.memory_bytes)}, now {size_text(now.memory_bytes)}")
        return "; ".join(differences)


def short_version(version: str) -> str:
    """Return a ClickHouse version without patches.

    Args:
        version: Full version, such as `26.9.2.1`.
    """
    return ".".join(version.split(".")[:2])


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """The best settings that a calibration found for a table.

    Args:
        knobs: Deviations from the rules; none if nothing was better by more than noise.
        parallel_loads: Number of parallel periods that was the fastest; None if not tried.
        measured_on: The files and nodes for which it applies.
        at: Day of the calibration, `YYYY-MM-DD`, in UTC.
        seconds: Time that the sample took with this profile: the median of its final trials.
        rule_seconds: Time that it took with the rules, in alternating trials.
    """

    knobs: Knobs
    parallel_loads: int | None
    measured_on: Circumstances
    at: str
    seconds: float
    rule_seconds: float

    @property
    def reason(self) -> str:
        """The reason of a setting whose value comes from the profile."""
        return f"calibrated {self.at}: {self.seconds:.1f} s against {self.rule_seconds:.1f} s with the rules"

    def as_json(self) -> dict[str, Any]:
        """Convert to JSON-safe values."""
        return {
            "knobs": self.knobs.turned(),
            "parallel_loads": self.parallel_loads,
            "measured_on": asdict(self.measured_on),
            "at": self.at,
            "seconds": round(self.seconds, 3),
            "rule_seconds": round(self.rule_seconds, 3),
        }

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Profile:
        """Restore the profile from the result of `as_json`, ignoring knobs of newer versions of this package."""
        known = {each.name for each in fields(Knobs)}
        knobs = Knobs(**{name: value for name, value in values["knobs"].items() if name in known})
        measured_on = Circumstances(**values["measured_on"])
        return cls(**{**values, "knobs": knobs, "measured_on": measured_on})
