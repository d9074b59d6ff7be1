"""Where the time of a load goes: the clock is read between its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_chs3.core.workflow.operations import ReadClock, Steps

#: What a load spends its time on, in this order; see docs/protocol.md.
STEP_NAMES = ("list", "look_around", "plan", "stage", "insert", "verify", "publish", "start_over")


@dataclass(frozen=True, slots=True)
class StepTimer:
    """The seconds that each step took so far.

    Args:
        at_seconds: When the last of them ended, by the clock that `ReadClock` reads.
        seconds: Those of `STEP_NAMES` that took place → seconds; what took place twice counts twice.
    """

    at_seconds: float = 0.0
    seconds: Mapping[str, float] = field(default_factory=dict)

    def end(self, name: str, *, at_least_seconds: float = 0.0) -> Steps[StepTimer]:
        """Count the time since the last one ended as this one's.

        Args:
            name: One of `STEP_NAMES`.
            at_least_seconds: What is known to have gone into it, also in processes that are gone.
        """
        now = yield from ReadClock(name="Look at the clock")
        seconds = max(self.seconds.get(name, 0.0) + now - self.at_seconds, at_least_seconds)
        return StepTimer(now, in_order({**self.seconds, name: seconds}))

    def after(self, earlier: Mapping[str, float]) -> StepTimer:
        """The same, and what an earlier process of the load has taken."""
        both = {name: earlier.get(name, 0.0) + self.seconds.get(name, 0.0) for name in {*earlier, *self.seconds}}
        return StepTimer(self.at_seconds, in_order(both))


def in_order(seconds: Mapping[str, float]) -> Mapping[str, float]:
    """The same steps in the order of `STEP_NAMES`.

    Args:
        seconds: Step → seconds.
    """
    return {name: seconds[name] for name in STEP_NAMES if name in seconds}


#: Of what is no load, or has not begun.
NO_STEPS = StepTimer()


def start_timer() -> Steps[StepTimer]:
    """Nothing has taken any time yet."""
    now = yield from ReadClock(name="Look at the clock")
    return StepTimer(now)
