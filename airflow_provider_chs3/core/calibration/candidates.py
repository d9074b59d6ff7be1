"""The candidates of a calibration: a few values for one tuning knob after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.tuning.calibrated_profile import BY_RULE, Knobs
from airflow_provider_chs3.core.tuning.resource_share import ResourceShare

#: Per core. Two insert threads per core, or eight reading threads, are plenty: more are not worth a trial.
_INSERT_THREADS = (0.5, 1.0, 2.0)
_READ_THREADS = (1.0, 2.0, 4.0, 8.0)
_BLOCKS = (2.0, 0.5)
_MIB = 1024**2
_BUFFERS = (10 * _MIB, 50 * _MIB)
_DOWNLOADS = (1, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """The settings to load the sample with.

    Args:
        label: Description of the candidate.
        knobs: Deviations from the rules. Default: none.
        periods: Number of parts into which the sample is divided, each loaded like a period. Default: 1.
        side_by_side: Number of parts that load at the same time. Default: 1.
    """

    label: str
    knobs: Knobs = BY_RULE
    periods: int = 1
    side_by_side: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialResult:
    """The result of a trial.

    Args:
        seconds: Duration of the sample's insert; None if it exceeded its share of the memory.
        parts: Number of parts that were written, on all shards.
        peak_memory_bytes: Highest memory observed on one node; None if the insert was too short to observe.
        at_seconds: Time since the calibration began.
    """

    seconds: float | None
    parts: int = 0
    peak_memory_bytes: int | None = None
    at_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Theme:
    """Variants that are compared in alternating trials.

    Args:
        name: The subject of the variants.
        changes: Label → the knobs that it changes.
    """

    name: str
    changes: Mapping[str, Mapping[str, Any]]


def themes(one: ResourceShare, *, is_text: bool) -> list[Theme]:
    """Return the themes to try.

    Args:
        one: A load's resource share.
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
