"""Troubles while periods are loaded: somebody meddles, the worker dies, another load runs, a node dies."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from clickhouse_driver.errors import ServerException

from tests.nights.loads import STEPS, Loads, Task
from tests.nights.objects import Objects
from tests.nights.others import Others
from tests.nights.servers import Servers

_LOAD_TIMEOUT_SECONDS = 120.0
#: A load takes about this long.
_SOME_SECONDS = 1.5
#: How long after a load power is cut: a disk has written some of it then.
_SOON_SECONDS = 8
_MOST_NIGHTS_AWAY = 3


@dataclass
class Troubles:
    """Troubles of loads."""

    loads: Loads
    others: Others
    objects: Objects
    servers: Servers
    choose: random.Random
    nights_away: int = 0

    def before_loads(self, is_first: bool) -> Iterator[str]:
        """Have a replica go, or come back, and give what happened."""
        servers = self.servers
        if servers.down:
            self.nights_away -= 1
            # Others come back amid the loads.
            if self.nights_away < 0 and self.choose.random() < 1 / 2:
                servers.bring_back()
                yield "a replica back"
        elif servers.replicas > 1 and servers.cluster and not is_first and self.choose.random() < 1 / 3:
            self.nights_away = self.choose.randrange(_MOST_NIGHTS_AWAY)
            servers.leave_out(self.choose.choice(servers.up))
            yield "a replica away"

    def amid(self, tasks: list[Task], *, night: str) -> Iterator[str]:
        """Start loads that are struck, and give by what."""
        if self.servers.down and self.nights_away < 0:
            yield from self._come_back(tasks[0])
        elif self.servers.power:
            # If the last replica loses rows, the load waits for the one that is away.
            if not self.servers.down and self.choose.random() < 2 / 3:
                yield from self._strike_node(tasks[0], self.servers.cut, "a power cut")
        else:
            chance = self.choose.random()
            if chance < 0.12:
                yield from self._kill_load(tasks[0])
            elif chance < 0.24:
                yield from self._load_twice(tasks[0], night=night)
            elif chance < 0.30 and self.servers.cluster and not self.servers.down:
                yield from self._strike_node(tasks[0], self.servers.kill, "a node killed")
            elif chance < 0.42 and self.objects.span.arrivals:
                # Their rows are never held.
                yield from self._kill_load(tasks[0])
            elif chance < 0.42 and not self.servers.down:
                yield from self._decide(self.choose.choice(self.objects.span.periods))
            elif chance < 0.60 and (door := self.servers.door):
                yield from self._strike_node(tasks[0], lambda _: door.cut(), "connections cut")

    def meddle_later(self) -> tuple[str, threading.Thread] | None:
        """Have somebody meddle with the table in a moment, and give what is done."""
        if self.servers.power or self.choose.random() >= 0.15:
            return None
        name, action = self.others.amid_a_load()
        wait_seconds = self.choose.random() * _SOME_SECONDS

        def meddle() -> None:
            time.sleep(wait_seconds)
            # A load may replace what it is about to change.
            with suppress(ServerException):
                action()

        thread = threading.Thread(target=meddle)
        thread.start()
        return f"{name} amid a load", thread

    def _kill_load(self, task: Task) -> Iterator[str]:
        if self.choose.random() < 1 / 2:
            ended = self.loads.start(task, dies_at=self.loads.some_step(task, self.choose)).wait()
        else:
            worker = self.loads.start(task)
            time.sleep(self.choose.random() * _SOME_SECONDS)
            worker.signal(signal.SIGKILL)
            ended = worker.wait()
        # It may have ended before that step, or that moment.
        if ended == -signal.SIGKILL:
            yield f"a load killed{' of several periods' if task.is_group else ''}"
            if self.choose.random() < 1 / 4:
                self.servers.drop_staging()
                yield "its staging dropped"
            if self.objects.span.arrivals and self.choose.random() < 1 / 3:
                # The next run completes the dead load's publication by objects that are not there any more.
                for what in (*self.objects.overwrite(), *self.objects.delete()):
                    yield f"{what} after that"

    def _load_twice(self, task: Task, *, night: str) -> Iterator[str]:
        periods = self.objects.span.to_load
        second = self.choose.choice((task, Task((self.choose.choice(periods),), False), Task(periods, True)))
        first = self.loads.start(task)
        time.sleep(self.choose.random() * _SOME_SECONDS)
        yield self.objects.add(self.choose.choice(periods), night=f"{night}_later")
        other = self.loads.start(second)
        for worker in (first, other):
            worker.wait_or_kill(timeout_seconds=_LOAD_TIMEOUT_SECONDS)
        kinds = sorted("several periods" if each.is_group else "one period" for each in (task, second))
        yield f"two loads at once, of {' and '.join(kinds)}"

    def _strike_node(self, task: Task, strike: Callable[[int], None], name: str) -> Iterator[str]:
        worker, place = self.loads.start(task), self.choose.choice(self.servers.up)
        if self.servers.power and self.choose.random() < 1 / 3:
            worker.wait_or_kill(timeout_seconds=_LOAD_TIMEOUT_SECONDS)
            time.sleep(self.choose.random() * _SOON_SECONDS)
            strike(place)
            yield f"{name} after a load"
        else:
            time.sleep(self.choose.random() * _SOME_SECONDS)
            strike(place)
            worker.wait_or_kill(timeout_seconds=_LOAD_TIMEOUT_SECONDS)
            yield f"{name} amid a load"

    def _decide(self, period: str) -> Iterator[str]:
        """Hold rows and approve or discard them, or put back what there was; any of that may die."""
        loads = self.loads
        act = self.choose.choice((loads.approve, loads.discard, loads.restore))
        for each in (loads.hold, act):
            is_struck = self.choose.random() < 1 / 3
            worker = loads.start(partial(each, period), dies_at=self.choose.randrange(STEPS) if is_struck else None)
            worker.wait_or_kill(timeout_seconds=_LOAD_TIMEOUT_SECONDS)
        # Loads would leave it as it is.
        loads.unpin(period)
        loads.discard(period)
        yield f"rows held, then {act.__name__}"

    def _come_back(self, task: Task) -> Iterator[str]:
        worker = self.loads.start(task)
        time.sleep(self.choose.random() * _SOME_SECONDS)
        self.servers.bring_back()
        worker.wait_or_kill(timeout_seconds=_LOAD_TIMEOUT_SECONDS)
        self.servers.settle()
        yield "a replica back amid a load"
