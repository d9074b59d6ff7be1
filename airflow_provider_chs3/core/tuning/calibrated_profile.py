"""What a calibration found for a table: where its loads depart from the rules of tuning, and while what holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

#: Memory that differs by no more than this is the same: servers measure it anew at each start.
_SAME_MEMORY = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Knobs:
    """Where tuning departs from its rules; None goes by the rule.

    None of them is a number for one size of month: threads go by cores, blocks by what the rule makes of the month and
    of the memory, so that the memory of a load stays bounded whatever it loads.

    Args:
        insert_threads: Insert threads for each core of the load's slice.
        block: Blocks so many times as large as the rule has them; never larger than the memory allows.
        read_threads: Reading threads for each core of the load's slice.
        download_buffer_bytes: `max_download_buffer_size`.
        download_threads: `max_download_threads`.
        parallel_parsing: `input_format_parallel_parsing`, of text.
    """

    insert_threads: float | None = None
    block: float | None = None
    read_threads: float | None = None
    download_buffer_bytes: int | None = None
    download_threads: int | None = None
    parallel_parsing: int | None = None

    def turned(self) -> dict[str, float | int]:
        """Those that depart from the rule."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def plain_settings(self) -> dict[str, int]:
        """Those that are settings by themselves: name → value."""
        settings = {
            "max_download_buffer_size": self.download_buffer_bytes,
            "max_download_threads": self.download_threads,
            "input_format_parallel_parsing": self.parallel_parsing,
        }
        return {name: value for name, value in settings.items() if value is not None}


#: The rules alone.
BY_RULE = Knobs()


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """What a profile was measured on.

    Args:
        files: Format and compression of the objects, such as `CSVWithNames, gzip`.
        nodes: How many nodes load.
        cores: Cores of the smallest one.
        memory_bytes: Its memory; 0 is not known.
        version: ClickHouse's, of the cluster's first node, without patches: `26.9`.
    """

    files: str
    nodes: int
    cores: int
    memory_bytes: int
    version: str

    def difference(self, now: Circumstances) -> str:
        """What is otherwise now, in words; empty where nothing is."""
        pairs = (
            ("files of", self.files, now.files),
            ("nodes:", self.nodes, now.nodes),
            ("cores:", self.cores, now.cores),
            ("ClickHouse", self.version, now.version),
        )
        told = [f"{name} {then}, now {here}" for name, then, here in pairs if then != here]
        if abs(self.memory_bytes - now.memory_bytes) > _SAME_MEMORY * max(self.memory_bytes, now.memory_bytes):
            told.append(f"memory: {self.memory_bytes} bytes, now {now.memory_bytes}")
        return "; ".join(told)


def short_version(version: str) -> str:
    """ClickHouse's version without patches.

    Args:
        version: Such as `26.9.2.1`.
    """
    return ".".join(version.split(".")[:2])


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """The best that a calibration found for a table.

    Args:
        knobs: Where loads depart from the rules; nowhere, if nothing was better by more than noise.
        parallel_months: How many months side by side were the fastest; None where that was not tried.
        measured_on: While what it holds.
        at: The day, `YYYY-MM-DD`, in UTC.
        seconds: What the sample took by this profile: the median of its last tries.
        rule_seconds: What it took by the rule, in turns with those.
    """

    knobs: Knobs
    parallel_months: int | None
    measured_on: Circumstances
    at: str
    seconds: float
    rule_seconds: float

    @property
    def reason(self) -> str:
        """Why a setting has the value that the profile gives it."""
        return f"calibrated {self.at}: {self.seconds:.1f} s against {self.rule_seconds:.1f} s by the rule"

    def as_json(self) -> dict[str, Any]:
        """The same as JSON-safe values."""
        return {
            "knobs": self.knobs.turned(),
            "parallel_months": self.parallel_months,
            "measured_on": asdict(self.measured_on),
            "at": self.at,
            "seconds": round(self.seconds, 3),
            "rule_seconds": round(self.rule_seconds, 3),
        }

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Profile:
        """What `as_json` gave; knobs that a newer version of this package may have are left out."""
        known = {each.name for each in fields(Knobs)}
        knobs = Knobs(**{name: value for name, value in values["knobs"].items() if name in known})
        measured_on = Circumstances(**values["measured_on"])
        return cls(**{**values, "knobs": knobs, "measured_on": measured_on})
