"""A batch of items that share statements: one that fails leaves, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.exceptions import Chs3Error

K = TypeVar("K")
T = TypeVar("T")
A = TypeVar("A")

#: Items of one statement: more make the server's analysis slow.
_MOST_TOGETHER = 100


class Batch(Generic[K, T]):
    """Items that go through the phases of a workflow side by side.

    Attributes:
        items: Those that go on, in their order.
        failed: The error of each that left.
        is_joint: Whether none may leave: the first error is that of all.
    """

    def __init__(self, items: Mapping[K, T], *, is_joint: bool = False) -> None:
        self.items = dict(items)
        self.failed: dict[K, Chs3Error] = {}
        self.is_joint = is_joint

    def __iter__(self) -> Iterator[T]:
        """Yield the items that go on."""
        return iter(list(self.items.values()))

    @property
    def first(self) -> T:
        """The first item: what all have in common is its, too."""
        return next(iter(self.items.values()))

    def unwrap(self) -> T:
        """Return the one item of a batch of one.

        Raises:
            Chs3Error: If it has failed.
        """
        for error in self.failed.values():
            raise error
        return self.first

    def select(self, is_part: Callable[[T], bool]) -> Batch[K, T]:
        """Return some of the items as a batch of its own, for `merge`."""
        return self._of(key for key, item in self.items.items() if is_part(item))

    def subset(self, keys: Collection[K]) -> Batch[K, T]:
        """Return the items of some keys as a batch of its own, for `merge`."""
        return self._of(key for key in self.items if key in keys)

    def _of(self, keys: Iterable[K]) -> Batch[K, T]:
        return Batch({key: self.items[key] for key in keys}, is_joint=self.is_joint)

    def merge(self, part: Batch[K, T]) -> None:
        """Take over what became of a part: items that had left, and are in it again, have come back."""
        self.items |= part.items
        for key in part.items:
            self.failed.pop(key, None)
        for key, error in part.failed.items():
            self.set_aside(key, error)

    def set_aside(self, key: K, error: Chs3Error) -> None:
        """Set an item aside.

        Raises:
            Chs3Error: The error, if no item may leave.
        """
        if self.is_joint:
            raise error
        self.items.pop(key, None)
        self.failed[key] = error

    def apply(self, judge: Callable[[T], A]) -> dict[K, A]:
        """Call a function for each item. Those for which it raises an error of this package leave."""
        answers = dict[K, A]()
        for key, item in list(self.items.items()):
            try:
                answers[key] = judge(item)
            except Chs3Error as error:
                self.set_aside(key, error)
        return answers

    def update(self, change: Callable[[T], T]) -> None:
        """Replace each item by what a function makes of it; see `apply`."""
        self.items |= self.apply(change)

    def run(self, steps: Callable[[T], Steps[A]]) -> Steps[dict[K, A]]:
        """Run a workflow for each item, one after the other. Those for which it fails leave."""
        answers = dict[K, A]()
        for key, item in list(self.items.items()):
            try:
                answers[key] = yield from steps(item)
            except Chs3Error as error:
                self.set_aside(key, error)
        return answers

    def advance(self, steps: Callable[[T], Steps[T]]) -> Steps[None]:
        """Replace each item by the result of a workflow; see `run`."""
        self.items |= yield from self.run(steps)

    def run_together(self, steps: Steps[A]) -> Steps[A | None]:
        """Run a workflow of all items, unless there is none. If it fails, they all leave.

        Returns:
            Its result; None if it failed.
        """
        if not self.items:
            steps.close()
            return None
        try:
            return (yield from steps)
        except Chs3Error as error:
            for key in list(self.items):
                self.set_aside(key, error)
        return None

    def ask(self, ask: Callable[[Sequence[T]], Steps[Sequence[A]]], *, is_repeatable: bool = True) -> Steps[dict[K, A]]:
        """Ask for all items with one statement. If it fails, ask for each by itself, so that its error is its own.

        Returns:
            The answers. Items whose statement failed leave.
        """
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
