"""Bars of progress on a terminal, out of what workflows log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from airflow_provider_chs3.cli.progress import Lines
from airflow_provider_chs3.cli.tables import size
from airflow_provider_chs3.core.steps.operations import Log

if TYPE_CHECKING:
    from airflow_provider_chs3.cli.loads import ChosenLoad


class Bars(Lines):
    """A bar of all loads, if there are several, and one of the load that is under way: it is that one's log."""

    def __init__(self, out: TextIO, progress: Progress) -> None:
        super().__init__(out)
        self.log = self
        self._progress = progress
        self._bar = _Bar(progress)

    @classmethod
    @contextmanager
    def shown(cls, out: TextIO) -> Iterator[Self]:
        """Show bars, which are gone afterwards."""
        with Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
            BarColumn(bar_width=15),
            TextColumn("{task.fields[amount]}", markup=False),
            _Time(),
            console=Console(stderr=True),
            # Standard output is the result's.
            redirect_stdout=False,
            transient=True,
            expand=True,
            # From the beginning, as a period may take minutes.
            speed_estimate_period=math.inf,
        ) as progress:
            yield cls(out, progress)

    def tell(self, line: str) -> None:
        """Write a line that stays: above the bars, if it goes to a terminal as they do."""
        if self.out and self.out.isatty():
            self._progress.console.out(line, highlight=False)
        else:
            super().tell(line)

    def through(self, loads: Sequence[ChosenLoad]) -> Iterator[ChosenLoad]:
        """Yield the loads, each once the one before is done."""
        of_all = _Bar(self._progress)
        for number, load in enumerate(loads):
            if len(loads) > 1:
                of_all.show(Log(name=load.name, done=number, total=len(loads), unit="loads"))
            self._bar.remove()
            self._bar = _Bar(self._progress)
            yield load

    def info(self, message: str, /, *args: Any) -> None:
        """Show what is being done."""
        self._bar.show(args[0] if args else message)

    def debug(self, message: str, /, *args: Any) -> None:
        """Show what is being done."""
        self.info(message, *args)

    def warning(self, message: str, /, *args: Any) -> None:
        """Show nothing: it would be gone before it is read."""


class _Bar:
    """A line of the terminal, which shows nothing at first."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, visible=False, amount="")
        self._has_total = False
        self._listed: dict[str, int] = {}

    def show(self, step: object) -> None:
        """Show a step, and how far it says that the work is."""
        self._progress.update(self._task, description=str(step), visible=True)
        if not isinstance(step, Log) or not step.unit:
            return
        if step.total is not None:
            self._has_total, is_size = True, step.unit == "bytes"
            done, total = map(size if is_size else "{:,}".format, (step.done, step.total))
            amount = f"{done} of {total}" if is_size else f"{done} of {total} {step.unit}"
            self._progress.update(self._task, total=step.total, completed=step.done, amount=amount)
            if not step.done:
                # Speed counts from here.
                self._progress.advance(self._task, 0)
        elif not self._has_total:
            # Prefixes may be listed side by side.
            self._listed[step.name] = step.done
            self._progress.update(self._task, amount=f"{sum(self._listed.values()):,} {step.unit}")

    def remove(self) -> None:
        """Remove the line."""
        self._progress.remove_task(self._task)


class _Time(TimeRemainingColumn):
    """The time left, or the time that passed as long as this is not known."""

    def render(self, task: Task) -> Text:
        """Return the text."""
        if task.time_remaining:
            return super().render(task).append(" left")
        return TimeElapsedColumn().render(task)
