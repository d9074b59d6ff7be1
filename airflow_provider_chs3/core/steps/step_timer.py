"""Time the steps of a load: the clock is read between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_chs3.core.steps.operations import ReadClock, Steps

#: The timed steps of a load, in this order; see docs/protocol.md.
STEP_NAMES = ("list", "inspect", "plan", "stage", "insert", "verify", "publish", "start_over")


@dataclass(frozen=True, slots=True)
class StepTimer:
    """The duration of each step so far.

    Args:
        at_seconds: End of the last step, by the clock of `ReadClock`.
        seconds: Step → seconds, for the steps of `STEP_NAMES` that ran; a step that ran twice is added up.
        began_seconds: Start of this try, by the same clock.
    """

    at_seconds: float = 0.0
    seconds: Mapping[str, float] = field(default_factory=dict)
    began_seconds: float = 0.0

    @property
    def of_this_try_seconds(self) -> float:
        """The time from the start of this try to the end of the last step."""
        return self.at_seconds - self.began_seconds

    def end(self, name: str, *, at_least_seconds: float = 0.0) -> Steps[StepTimer]:
        """Add the time since the last step ended to this one."""
        seconds_now = yield from ReadClock(name="Read the clock")
        seconds = max(self.seconds.get(name, 0.0) + seconds_now - self.at_seconds, at_least_seconds)
        began_seconds = seconds_now if name == "start_over" else self.began_seconds
        return StepTimer(seconds_now, in_order({**self.seconds, name: seconds}), began_seconds)

    def scaled(self, share: float) -> StepTimer:
        """Return the timer of one of several that share its steps."""
        return replace(self, seconds={name: seconds * share for name, seconds in self.seconds.items()})

    def after(self, earlier: Mapping[str, float]) -> StepTimer:
        """Return the timer with the durations of an earlier process added."""
        both = {name: earlier.get(name, 0.0) + self.seconds.get(name, 0.0) for name in {*earlier, *self.seconds}}
        return StepTimer(self.at_seconds, in_order(both), self.began_seconds)


def in_order(seconds: Mapping[str, float]) -> Mapping[str, float]:
    """Sort steps in the order of `STEP_NAMES`."""
    return {name: seconds[name] for name in STEP_NAMES if name in seconds}


#: For anything that is not a load, or has not begun.
NO_STEPS = StepTimer()


def start_timer() -> Steps[StepTimer]:
    """Start a timer."""
    seconds_now = yield from ReadClock(name="Read the clock")
    return StepTimer(seconds_now, began_seconds=seconds_now)
