"""Judge which loads were slow, and in which steps, against the other loads of the table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from airflow_provider_chs3.core.steps.driving import STEP_NAMES

#: The fewest loads of a table that show what is usual, including the judged one.
MIN_LOADS = 3
#: A load or step is slow if it took more than this many times the usual time …
_SLOW_FACTOR = 2.0
#: … and at least this many seconds more: small loads vary that much for no reason.
_SLOW_SECONDS = 2.0

#: Seconds of all threads added up; they are part of the insert.
STORAGE = "storage"
MERGES = "merges"
#: The whole load, from listing to publishing, consists of all other steps.
_BESIDE = frozenset({STORAGE, MERGES})
_WHOLE = "whole"

_WORDS = {
    "list": "listing",
    "inspect": "inspecting the cluster",
    "plan": "planning",
    "stage": "creating the staging table",
    "insert": "the insert",
    "verify": "verifying",
    "publish": "publishing",
    "start_over": "failed work before it started over",
    STORAGE: "reading from the storage, summed over all threads of the insert,",
    MERGES: "merges after it",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadTiming:
    """The timing of one load."""

    rows: int
    seconds: Mapping[str, float]

    @property
    def whole(self) -> float:
        """Seconds from listing to publishing."""
        return sum(seconds for step, seconds in self.seconds.items() if step not in _BESIDE)


def judge(loads: Sequence[LoadTiming]) -> list[str]:
    """Say for each load of one table why it was slow, against all of them.

    A load is slow if it took, from listing to publishing, more than twice the usual time, and at least two seconds more
    than usual; or if the merges after it did. Usual is the larger of two: the median of the seconds, and the median of
    the seconds for each row times the rows of this load, so that a period of twice the rows may take twice as long.
    With fewer than three loads, nothing is usual. The same rule finds the slow steps that explain it.

    Returns:
        The reason for each, in the same order: "" for a load that was not slow.
    """
    known: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for load in loads:
        for step, seconds in _all_seconds(load).items():
            known[step].append((load.rows, seconds))
    usual = {step: _usual(timings) for step, timings in known.items() if len(timings) >= MIN_LOADS}
    return [_judge(load, usual) for load in loads]


def _all_seconds(load: LoadTiming) -> dict[str, float]:
    # A step that did not happen took no time, as is usual for failed attempts.
    return {**dict.fromkeys(STEP_NAMES, 0.0), **load.seconds, _WHOLE: load.whole}


def _usual(known: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return the usual seconds of a step, whatever the rows, and its usual seconds for each row."""
    for_a_row = [seconds / rows for rows, seconds in known if rows]
    return median(seconds for _, seconds in known), median(for_a_row) if for_a_row else 0.0


def _judge(load: LoadTiming, usual: Mapping[str, tuple[float, float]]) -> str:
    seconds = _all_seconds(load)
    beyond = {
        step: seconds[step] - max(for_all, for_a_row * load.rows)
        for step, (for_all, for_a_row) in usual.items()
        if step in seconds
    }
    slow = {step for step, more in beyond.items() if _is_slow(seconds[step], more)}
    if not slow & {_WHOLE, MERGES}:
        return ""
    # If no single step is slow, the one with the largest excess explains it.
    explained = slow - {_WHOLE} or {max(beyond.keys() - {_WHOLE}, key=lambda step: beyond[step])}
    steps = sorted(explained, key=lambda step: -beyond[step])
    texts = [f"{_WORDS[step]} took {_took(seconds[step], beyond[step])}" for step in steps]
    if _WHOLE in slow:
        texts[0] = f"it took {_took(seconds[_WHOLE], beyond[_WHOLE])}: {texts[0]}"
    text = "; ".join(texts)
    return f"{text[0].upper()}{text[1:]}."


def _is_slow(seconds: float, beyond: float) -> bool:
    return seconds > _SLOW_FACTOR * (seconds - beyond) and beyond >= _SLOW_SECONDS


def _took(seconds: float, beyond: float) -> str:
    return f"{seconds:,.1f} s instead of the usual {seconds - beyond:,.1f} s"
