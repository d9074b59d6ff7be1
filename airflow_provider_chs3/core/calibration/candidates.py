"""What a calibration tries: one knob of tuning after another, each in a few ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.tuning.calibrated_profile import BY_RULE, Knobs
from airflow_provider_chs3.core.tuning.resource_share import ResourceShare

#: What is not worth a try: two threads for a core are plenty, eight to read.
_INSERT_THREADS = (0.5, 1.0, 2.0)
_READ_THREADS = (1.0, 2.0, 4.0, 8.0)
_BLOCKS = (2.0, 0.5)
_MIB = 1024**2
_BUFFERS = (10 * _MIB, 50 * _MIB)
_DOWNLOADS = (1, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """What to load the sample with.

    Args:
        label: What it is, in words.
        knobs: Where tuning departs from its rules.
        months: Into how many parts the sample is cut, each as if it were a month.
        side_by_side: How many of them load at the same time.
    """

    label: str
    knobs: Knobs = BY_RULE
    months: int = 1
    side_by_side: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialResult:
    """What came of it.

    Args:
        seconds: What the sample took; None where it ran out of its share of the memory.
        parts: Parts that were written, on all shards.
        peak_memory_bytes: The highest memory seen on one node; None where it was too short to be seen.
        at_seconds: Since the calibration began.
    """

    seconds: float | None
    parts: int = 0
    peak_memory_bytes: int | None = None
    at_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Theme:
    """Variants that are tried in turns.

    Args:
        name: What they are about.
        changes: Label → the knobs that it turns.
    """

    name: str
    changes: Mapping[str, Mapping[str, Any]]


def themes(one: ResourceShare, *, is_text: bool) -> list[Theme]:
    """What is worth a try.

    Args:
        one: What a load may use on every node.
        is_text: Whether the files are text, which may be parsed in chunks.
    """
    parsing = {f"parallel parsing {value}": {"parallel_parsing": value} for value in (0, 1)}
    return [
        *([Theme(name="parsing", changes=parsing)] if is_text else []),
        Theme(
            name="insert threads",
            changes={
                f"{max(1, round(one.cores * each))} insert threads": {"insert_threads": each}
                for each in _INSERT_THREADS
            },
        ),
        Theme(
            name="reading threads",
            changes={
                f"{max(1, round(one.cores * each))} reading threads": {"read_threads": each} for each in _READ_THREADS
            },
        ),
        Theme(name="blocks", changes={f"blocks × {each:g}": {"block": each} for each in _BLOCKS}),
        Theme(
            name="downloads",
            changes={
                **{f"download buffer {each // _MIB} MiB": {"download_buffer_bytes": each} for each in _BUFFERS},
                **{f"{each} download threads": {"download_threads": each} for each in _DOWNLOADS},
            },
        ),
    ]
