"""Run a workflow: perform each step it yields, send back the answer, and time it; alone, or with others in a batch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

from airflow_provider_chs3.core.steps.operations import AnyStep, ReadClock, Steps
from airflow_provider_chs3.exceptions import Chs3Error

#: The timed steps of a load, in this order; see docs/protocol.md.
STEP_NAMES = ("list", "inspect", "plan", "stage", "insert", "verify", "publish", "start_over")


@dataclass(frozen=True, slots=True)
class StepTimer:
    """The seconds of each step so far, in the order of `STEP_NAMES`; a step that ran twice is added up."""

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


T = TypeVar("T")


def drive(steps: Steps[T], perform: Callable[[AnyStep], Any]) -> T:
    """Run a workflow, and return its result."""
    resume = partial(steps.send, None)
    try:
        while True:
            step = resume()
            try:
                resume = partial(steps.send, perform(step))
            except Exception as error:
                resume = partial(steps.throw, error)
    except StopIteration as done:
        result: T = done.value
        return result


async def drive_async(steps: Steps[T], perform: Callable[[AnyStep], Awaitable[Any]]) -> T:
    """Run a workflow on an event loop, with the arguments of `drive`."""
    resume = partial(steps.send, None)
    try:
        while True:
            step = resume()
            try:
                resume = partial(steps.send, await perform(step))
            except Exception as error:
                resume = partial(steps.throw, error)
    except StopIteration as done:
        result: T = done.value
        return result


def interpose(steps: Steps[T], perform: Callable[[AnyStep], Steps[Any]]) -> Steps[T]:
    """Run a workflow inside another one, which may perform its steps differently."""
    resume = partial(steps.send, None)
    try:
        while True:
            step = resume()
            try:
                resume = partial(steps.send, (yield from perform(step)))
            except Exception as error:
                resume = partial(steps.throw, error)
    except StopIteration as done:
        result: T = done.value
        return result


K = TypeVar("K")
Item = TypeVar("Item")
A = TypeVar("A")

#: Items of one statement: more make the server's analysis slow.
_MOST_TOGETHER = 100


class Batch(Generic[K, Item]):
    """Items that go through the phases of a workflow side by side; those that fail leave, unless all are joint."""

    def __init__(self, items: Mapping[K, Item], *, is_joint: bool = False) -> None:
        self.items = dict(items)
        self.failed: dict[K, Chs3Error] = {}
        self.is_joint = is_joint

    def __iter__(self) -> Iterator[Item]:
        return iter(list(self.items.values()))

    @property
    def first(self) -> Item:
        """The first item: what all have in common is its, too."""
        return next(iter(self.items.values()))

    def unwrap(self) -> Item:
        """Return the one item of a batch of one, or raise its error."""
        for error in self.failed.values():
            raise error
        return self.first

    def select(self, is_part: Callable[[Item], bool]) -> Batch[K, Item]:
        """Return some of the items as a batch of its own, for `merge`."""
        return self._of(key for key, item in self.items.items() if is_part(item))

    def subset(self, keys: Collection[K]) -> Batch[K, Item]:
        """Return the items of some keys as a batch of its own, for `merge`."""
        return self._of(key for key in self.items if key in keys)

    def _of(self, keys: Iterable[K]) -> Batch[K, Item]:
        return Batch({key: self.items[key] for key in keys}, is_joint=self.is_joint)

    def merge(self, part: Batch[K, Item]) -> None:
        """Take over what became of a part: items that had left, and are in it again, have come back."""
        self.items |= part.items
        for key in part.items:
            self.failed.pop(key, None)
        for key, error in part.failed.items():
            self.set_aside(key, error)

    def set_aside(self, key: K, error: Chs3Error) -> None:
        """Set an item aside, or raise the error if none may leave."""
        if self.is_joint:
            raise error
        self.items.pop(key, None)
        self.failed[key] = error

    def apply(self, judge: Callable[[Item], A]) -> dict[K, A]:
        """Call a function for each item. Those for which it raises an error of this package leave."""
        answers = dict[K, A]()
        for key, item in list(self.items.items()):
            try:
                answers[key] = judge(item)
            except Chs3Error as error:
                self.set_aside(key, error)
        return answers

    def update(self, change: Callable[[Item], Item]) -> None:
        """Replace each item by what a function makes of it; see `apply`."""
        self.items |= self.apply(change)

    def run(self, steps: Callable[[Item], Steps[A]]) -> Steps[dict[K, A]]:
        """Run a workflow for each item, one after the other. Those for which it fails leave."""
        answers = dict[K, A]()
        for key, item in list(self.items.items()):
            try:
                answers[key] = yield from steps(item)
            except Chs3Error as error:
                self.set_aside(key, error)
        return answers

    def advance(self, steps: Callable[[Item], Steps[Item]]) -> Steps[None]:
        """Replace each item by the result of a workflow; see `run`."""
        self.items |= yield from self.run(steps)

    def run_together(self, steps: Steps[A]) -> Steps[A | None]:
        """Run a workflow of all items, unless there is none. If it fails, they all leave, and it returns None."""
        if not self.items:
            steps.close()
            return None
        try:
            return (yield from steps)
        except Chs3Error as error:
            for key in list(self.items):
                self.set_aside(key, error)
        return None

    def ask(
        self, ask: Callable[[Sequence[Item]], Steps[Sequence[A]]], *, is_repeatable: bool = True
    ) -> Steps[dict[K, A]]:
        """Ask for all items with one statement. If it fails, ask for each by itself; those that fail then leave."""
        answers, keys = dict[K, A](), list(self.items)
        for first in range(0, len(keys), _MOST_TOGETHER):
            part = self._of(keys[first : first + _MOST_TOGETHER])
            answer = yield from part.run_together(ask(list(part)))
            if answer is not None:
                answers |= zip(part.items, answer, strict=True)
            elif is_repeatable and len(part.failed) > 1:
                for key in part.failed:
                    alone = self._of([key])
                    answers |= zip([key], (yield from alone.run_together(ask(list(alone)))) or (), strict=False)
                    self.merge(alone)
            else:
                self.merge(part)
        return answers
