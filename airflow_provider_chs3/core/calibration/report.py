"""Report the result of a calibration, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from airflow_provider_chs3.core.calibration.search import Candidate, Choice, TrialResult
from airflow_provider_chs3.core.tuning.calibrated_profile import Profile
from airflow_provider_chs3.core.tuning.insert_settings import settings_table
from airflow_provider_chs3.core.values.models import Setting, TableName
from airflow_provider_chs3.core.values.period import Period


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One trial and its result."""

    candidate: Candidate
    result: TrialResult


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The result of a calibration.

    Args:
        target: The table.
        period: The period whose files were the sample.
        profile: The profile that loads use from now on.
        choice: The choice, with its reason.
        tries: All trials, in order.
        settings: The chosen settings of the sample that deviate from the rules.
        memory_bytes: Memory that each trial might use on a node; 0 if unknown.
        seconds: Duration of the calibration.
        objects: Number of objects in the sample.
        of_objects: Number of objects in its period.
        source_bytes: Size of the sample's objects.
        specs: Node → description of its cores and memory for loads.
        versions: Node → ClickHouse version.
    """

    target: TableName
    period: Period
    profile: Profile
    choice: Choice
    tries: tuple[TrialRecord, ...]
    settings: tuple[Setting, ...]
    memory_bytes: int
    seconds: float
    objects: int
    of_objects: int
    source_bytes: int
    specs: Mapping[str, str]
    versions: Mapping[str, str]

    @property
    def gain(self) -> float:
        """Speedup over the rules; 1 if loads stay with the rules."""
        both = self.profile.rule_seconds and self.profile.seconds
        return self.profile.rule_seconds / self.profile.seconds if both else 1.0

    def as_json(self) -> dict[str, Any]:
        """Convert to JSON-safe values."""
        return {
            "target": str(self.target),
            "period": str(self.period),
            "profile": self.profile.as_json(),
            "is_better": bool(self.profile.knobs.turned()),
            "gain": round(self.gain, 3),
            "noise": round(self.choice.noise, 3),
            "reason": self.choice.reason,
            "settings": {each.name: each.value for each in self.settings},
            "tries": [dict(zip(_COLUMNS, line, strict=True)) for line in self._lines()],
            "tried": len(self.tries),
            "seconds": round(self.seconds, 3),
            "memory_bytes": self.memory_bytes,
            "objects": self.objects,
            "of_objects": self.of_objects,
            "source_bytes": self.source_bytes,
            "specs": dict(self.specs),
            "versions": dict(self.versions),
        }

    def described(self) -> str:
        """Describe the trials as a table, and the choice, for people."""
        profile, choice = self.profile, self.choice
        blocks = [f"Trials, each with {self.objects} objects of {self.period}:\n{_table([*self._lines()])}"]
        if not self.tries:
            blocks = ["There was nothing to try: the given settings leave no choice, or there was not enough time."]
        if self.settings:
            blocks.append(f"From now on, loads of {self.target} use:\n{settings_table(self.settings)}")
            speed = f", {self.gain:.2f} × as fast: {profile.seconds:.2f} s against {profile.rule_seconds:.2f} s"
        else:
            blocks.append(f"Loads of {self.target} use the rules.")
            speed = ""
        end = f"Chosen: {choice.reason}{speed}. {len(self.tries)} trials in {self.seconds:.0f} s."
        if profile.parallel_loads:
            end += f" Fastest with parallel_loads={profile.parallel_loads}."
        return "\n".join((*blocks, end))

    def _lines(self) -> Iterator[tuple[Any, ...]]:
        """Yield a line for each candidate."""
        by_label: dict[str, list[TrialResult]] = {}
        for each in self.tries:
            by_label.setdefault(each.candidate.label, []).append(each.result)
        for label, every in by_label.items():
            seconds = [each.seconds for each in every if each.seconds is not None]
            peaks = [each.peak_memory_bytes for each in every if each.peak_memory_bytes is not None]
            yield (
                label,
                [round(each, 3) for each in seconds],
                round(median(seconds), 3) if seconds else None,
                max(each.parts for each in every),
                max(peaks, default=None),
                self.choice.verdicts.get(label, ""),
            )


_COLUMNS = ("label", "seconds", "median_seconds", "parts", "peak_memory_bytes", "verdict")


def trial_line(candidate: Candidate, result: TrialResult) -> str:
    """Describe one trial in a line.

    Args:
        candidate: The candidate.
        result: The result of the trial.
    """
    if result.seconds is None:
        return f"{candidate.label}: exceeded its share of memory"
    peak = f", {_mib(result.peak_memory_bytes)} of memory" if result.peak_memory_bytes else ""
    return f"{candidate.label}: {result.seconds:.2f} s, {result.parts} parts{peak}"


def _table(lines: list[tuple[Any, ...]]) -> str:
    shown = [
        (
            label,
            " ".join(f"{each:.2f}" for each in seconds),
            "" if middle is None else f"{middle:.2f}",
            str(parts or ""),
            _mib(peak) if peak else "",
            verdict,
        )
        for label, seconds, middle, parts, peak, verdict in lines
    ]
    rows = [("settings", "seconds", "median", "parts", "memory", ""), *shown]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 1024**2:,.0f} MiB"
