"""Changes by others to the table of the nights, and to its records."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from clickhouse_driver.errors import ServerException

from tests.nights.engines import Engine
from tests.nights.servers import Servers
from tests.nights.spans import Span

#: ClickHouse takes a replica that lost half of its rows for another table's: the period of others holds most of them.
_OTHER_ROWS = 20_000
#: Replicas that are away are not waited for.
_WITHOUT_OTHERS = "SETTINGS lightweight_deletes_sync = 1"


@dataclass
class Others:
    """People and programs that write to the table."""

    servers: Servers
    engine: Engine
    span: Span
    table: str
    choose: random.Random
    defaults: dict[str, int] = field(default_factory=dict)

    def fill_other_period(self) -> None:
        """Insert rows of the period that has no object."""
        if self.span.other:
            self.servers.on_one_of_each(
                f"INSERT INTO {self._name} (ts, k, sign) SELECT {self._moment(self.span.other)}, 2000 + number, 1 "
                f"FROM numbers({_OTHER_ROWS})"
            )

    def act(self, number: int) -> Iterator[str]:
        """Do what comes to their minds, and tell what it was."""
        # Loads of arrivals do not find them.
        is_known = not self.span.arrivals
        actions: tuple[tuple[float, Callable[[], str]], ...] = (
            (0.05, self.delete_rows),
            (0.05, self.delete_lightly),
            (0.03, self.insert_rows),
            (0.03, self._delete_elsewhere),
            (0.10, self.merge),
            (0.04, self._drop_part),
            (0.03, self._add_column),
            (0.03 * is_known, lambda: self._change_default(number)),
            (0.02 * is_known, self._truncate_records),
        )
        for chance, action in actions:
            if self.choose.random() < chance:
                yield action()

    def amid_a_load(self) -> tuple[str, Callable[[], object]]:
        """Choose a change by somebody while a load runs, with its name."""
        name, action = self.choose.choice(
            (
                ("rows deleted", self.delete_rows),
                ("rows deleted lightly", self.delete_lightly),
                ("a row inserted", self.insert_rows),
                ("merged", self.merge),
            )
        )
        return name, action

    def delete_rows(self) -> str:
        is_sync = self.choose.choice((0, 1))
        self._alter(f"DELETE WHERE k < 1000 AND k % 5 = {self.choose.randrange(5)} SETTINGS mutations_sync = {is_sync}")
        return "rows deleted" if is_sync else "rows being deleted"

    def delete_lightly(self) -> str:
        self._on_any(
            f"DELETE FROM {self._name} WHERE k < 1000 AND k % 5 = {self.choose.randrange(5)} {_WITHOUT_OTHERS}"
        )
        return "rows deleted lightly"

    def insert_rows(self) -> str:
        moment = self._moment(self.choose.choice(self.span.periods))
        self._on_any(f"INSERT INTO {self._name} (ts, k, ver, sign) VALUES ({moment}, 1000, 9, 1)")
        return "a row inserted"

    def merge(self) -> str:
        if self.servers.replicas == 1:
            self.servers.on_each(f"OPTIMIZE TABLE {self._name} FINAL")
            return "merged"
        # A replica whose queue sleeps may leave a merge waiting for ten minutes; SYNC wakes it.
        self.servers.on_each(f"OPTIMIZE TABLE {self._name} FINAL SETTINGS alter_sync = 0")
        self.servers.on_each(f"SYSTEM SYNC REPLICA {self._name}")
        return "merged"

    def _delete_elsewhere(self) -> str:
        if not self.span.other:
            return "no other period"
        is_other = f"ts >= toDateTime({self._moment(self.span.other)})"
        self._alter(f"DELETE WHERE {is_other} AND k < 5 SETTINGS mutations_sync = 1")
        return "another period's rows deleted"

    def _drop_part(self) -> str:
        place, what = self.choose.choice(self.servers.up), self.choose.choice(("DROP", "DETACH"))
        sql = (
            f"SELECT name FROM system.parts WHERE database = '{self.servers.lake.database}' AND table = '{self.table}' "
            "AND active AND rows > 0 AND partition_id NOT IN "
            f"(SELECT _partition_id FROM {self._name} WHERE k >= 2000) ORDER BY name"
        )
        parts = [name for (name,) in self.servers.lake.on_node(place, sql)]
        if not parts or self.engine.may_lose_parts:
            return "no part to drop"
        # A merge may take it first.
        with suppress(ServerException):
            self.servers.lake.on_node(place, f"ALTER TABLE {self._name} {what} PART '{self.choose.choice(parts)}'")
        return "a part dropped" if what == "DROP" else "a part detached"

    def _add_column(self) -> str:
        number = len(self.defaults) + 1
        self._set_default("ADD COLUMN", f"c{number}", number)
        return "a column added"

    def _change_default(self, number: int) -> str:
        if not self.defaults:
            return "no default changed"
        self._set_default("MODIFY COLUMN", [*self.defaults][-1], number * 100)
        return "a default changed"

    def _truncate_records(self) -> str:
        self._on_any(f"TRUNCATE TABLE IF EXISTS {self.servers.lake.database}.chs3_objects")
        return "records of objects lost"

    def _set_default(self, what: str, column: str, value: int) -> None:
        self.servers.on_one_of_each(f"ALTER TABLE {self._name} {what} {column} Int64 DEFAULT {value}")
        self.defaults[column] = value
        if self.servers.power:
            # An ALTER that the disk has not written is one that nobody made.
            os.sync()

    def _moment(self, period: str) -> int:
        return int(self.span.moment(period, 0).timestamp())

    def _alter(self, what: str) -> None:
        self._on_any(f"ALTER TABLE {self._name} {what}")

    def _on_any(self, sql: str) -> None:
        self.servers.lake.on_node(self.choose.choice(self.servers.up), sql)

    @property
    def _name(self) -> str:
        return f"{self.servers.lake.database}.{self.table}"
