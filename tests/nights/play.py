"""Nights of some periods: files come, change and go, others meddle with the table, and loads run, or die.

Each night the periods are loaded, together or one by one, as they come, with the troubles of the night. In the end the
table must hold what one has into which all rows of all files are inserted. Of files by arrival it must do so also
amid a night: if a load was killed, the next one of any arrival publishes all rows of the dead one's arrival, or none.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from tests.nights.engines import Engine
from tests.nights.loads import Loads, RefusedError, Task
from tests.nights.objects import Files, Objects
from tests.nights.others import Others
from tests.nights.servers import Servers
from tests.nights.spans import Span
from tests.nights.troubles import Troubles

_AWAY = ("a node", "a replica", "connections")
#: In errors of loads that need what only a replica may know.
_START_IT = "but is down: start it"


@dataclass
class Night:
    """The events of one night."""

    number: int
    did: list[str] = field(default_factory=list)
    result: list[str] = field(default_factory=list)
    wrong: str = ""

    def __str__(self) -> str:
        did, result = ", ".join(self.did) or "nothing new", ", ".join(self.result)
        return f"night {self.number}: {did}; {result}: {self.wrong or 'the same'}"


class Nights:
    """The nights of one table."""

    def __init__(self, servers: Servers, engine: Engine, span: Span, *, seed: int, log: Path) -> None:
        self.servers, self.engine, self.span, self.choose = servers, engine, span, random.Random(seed)
        self.number = 0
        self.seen = Counter[str]()
        self._files_before: Files = {}
        lake, table = servers.lake, f"night_{seed}"
        self.database, self.table, self.beside = lake.database, table, f"default.whole_{seed}"
        prefix = f"nights{seed}"
        self.objects = Objects(lake, prefix, span, engine, self.choose)
        self.loads = Loads(lake, table, prefix, span, log, engine.object_column)
        self.others = Others(servers, engine, span, table, self.choose)
        self.troubles = Troubles(self.loads, self.others, self.objects, servers, self.choose)
        place = "" if lake.cluster.database_engine else f"'/tables/{lake.database}/{{shard}}/{table}', '{{replica}}'"
        # After a wrong night, they are as they were in it.
        servers.have_all_up()
        servers.on_each(engine.create(self._name, span, replicas_at=place if servers.replicas > 1 else None))
        self.others.fill_other_period()

    def play(self) -> Night:
        """Play one more night."""
        self.number += 1
        night = Night(self.number)
        self._files_before = {period: {**files} for period, files in self.objects.files.items()}
        night.did += self._before()
        periods = self.span.to_load
        if self.span.arrivals:
            periods = tuple(self.choose.sample(periods, len(periods)))
        tasks = [Task(periods, True)] if self.choose.random() < 0.6 else [Task((period,), False) for period in periods]
        night.did += self.troubles.amid(tasks, night=f"{self.number:04}")
        try:
            night.wrong = self._difference_amid(night)
            if not night.wrong:
                self._load(tasks, night)
                night.wrong = self._difference(self.objects.files) or self._left_behind(night)
        except RefusedError as error:
            night.wrong = f"refused at each try: {error}"
        self.seen.update(night.did)
        self.seen.update(night.result)
        return night

    def end(self) -> None:
        """Drop the tables, on all servers."""
        self.servers.have_all_up()
        for name in (self._name, self.beside):
            self.servers.on_each(f"DROP TABLE IF EXISTS {name} SYNC")

    def _load(self, tasks: list[Task], night: Night) -> None:
        meddler = self.troubles.meddle_later()
        for task in tasks:
            self._load_task(task, night)
        if meddler:
            what, thread = meddler
            thread.join()
            night.did.append(what)
            if self.span.arrivals:
                night.did.append(self.objects.add_to_all(night=f"{self.number:04}_later"))
            # A change right after the load is one of others, which the next run finds.
            for task in tasks:
                self._load_task(task, night)

    def _load_task(self, task: Task, night: Night) -> None:
        try:
            night.result += self.loads.load(task)
        except RefusedError as error:
            if not (self.servers.down and _START_IT in str(error)):
                raise
            # As it says, the load may need what only that replica knows.
            self.servers.have_all_up()
            night.did.append("a replica back, as a load asked")
            night.result += self.loads.load(task)

    def _before(self) -> Iterator[str]:
        yield from self.troubles.before_loads(is_first=self.number == 1)
        for period in self.span.to_load:
            if self.number == 1 or self.choose.random() < 0.6:
                yield self.objects.add(period, night=f"{self.number:04}")
        # With other engines, such a night loads its period whole.
        often = 5 if self.engine.object_column else 1
        if self.choose.random() < 0.08 * often:
            yield from self.objects.overwrite()
        if self.choose.random() < 0.06 * often:
            yield from self.objects.delete()
        if others := [*self.others.act(self.number)]:
            yield from others
            if self.span.arrivals:
                # Loads of arrivals look at no other periods.
                yield self.objects.add_to_all(night=f"{self.number:04}")
        if self.servers.cluster and not self.servers.down and self.choose.random() < 0.02:
            self.servers.kill(self.choose.choice(self.servers.up))
            yield "a node restarted"

    @property
    def _name(self) -> str:
        return f"{self.database}.{self.table}"

    def _difference_amid(self, night: Night) -> str:
        """Load an arrival after a load was killed: of others the table must hold all files, or all that were before."""
        if not (self.span.arrivals and any(what.startswith("a load killed") for what in night.did)):
            return ""
        first, *others = self.choose.sample(self.span.arrivals, len(self.span.arrivals))
        self._load_task(Task((first,), False), night)
        if any(what.endswith(("of all periods added", "after that")) for what in night.did):
            # Rows of the others may have changed since.
            return ""
        if self.servers.down and any(what.startswith("a file ") for what in night.did):
            # Periods are read again whole then, without what was overwritten or deleted of the others.
            return ""
        files = self.objects.files
        dead = ({other: self._files_before[other] for other in old} for old in _subsets(others))
        return self._difference(*({**files, **of_dead} for of_dead in dead))

    def _left_behind(self, night: Night) -> str:
        # What is left on servers that were away, the next load that stages rows finds.
        if not self.span.arrivals or self.servers.down or any(what in str(night.did) for what in _AWAY):
            return ""
        return ", ".join(f"{name} is left" for name in sorted(self.servers.staging()))

    def _difference(self, *files: Files) -> str:
        self.servers.catch_up(self._name)
        wholes = [self._whole(of_files) for of_files in files]
        # Each server reads its own rows of its shard, and any replica's of others.
        source = f"cluster('{self.servers.lake.cluster.name}', {self.database}, {self.table})"
        places = self.servers.up if self.servers.replicas > 1 else [0]
        found = {place: self._read(source, place) for place in places}
        for place, rows in found.items():
            if rows not in wholes:
                missing, extra = wholes[0] - rows, rows - wholes[0]
                return (
                    f"on node {place}, {missing.total()} rows are missing, such as {next(iter(missing), '')}; "
                    f"{extra.total()} are too many, such as {next(iter(extra), '')}"
                )
        return ""

    def _whole(self, files: Files) -> Counter[tuple[Any, ...]]:
        """Return the table that all rows of files make."""
        place = self.servers.up[0]
        lake = self.servers.lake
        lake.on_node(place, f"DROP TABLE IF EXISTS {self.beside} SYNC")
        lake.on_node(place, self.engine.create(self.beside, self.span))
        for column, default in self.others.defaults.items():
            lake.on_node(place, f"ALTER TABLE {self.beside} ADD COLUMN {column} Int64 DEFAULT {default}")
        rows = [row for of_period in files.values() for of_file in of_period.values() for row in of_file]
        with lake.cluster.nodes[place].client() as client:
            client.execute(f"INSERT INTO {self.beside} (ts, k, ver, sign, v, s) VALUES", rows)
        return self._read(self.beside, place)

    def _read(self, source: str, place: int) -> Counter[tuple[Any, ...]]:
        sql = self.engine.select(source, self.span, shards=self.servers.shards)
        return Counter(self.servers.lake.on_node(place, sql))


def _subsets(values: Sequence[str]) -> list[tuple[str, ...]]:
    return [chosen for number in range(len(values) + 1) for chosen in combinations(values, number)]
