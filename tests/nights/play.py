"""Nights of one month: files come, change and go, others meddle with the table, and a load runs.

Each night the month is loaded into one table as it comes, and into another one whole. Both must hold the same values.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clickhouse_driver.errors import ServerException

from airflow_provider_chs3.exceptions import Chs3Error
from tests.integration.lake import MONTH
from tests.nights.engines import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.lake import Lake

_HEAD = "ts,k,ver,sign,v,s\n"
_OTHER_MONTH = "2026-11"
#: As a task with retries would; one that is disturbed at each try is tried again.
_TRIES = 4
_LOAD: dict[str, Any] = {
    "file_format": "CSVWithNames",
    "on_target_changed": "reload",
    "replace_unknown": True,
    "max_shrink_fraction": 1,
    "on_no_objects": "empty",
}


@dataclass
class Night:
    """What one night brought.

    Args:
        number: Its number.
        did: What came before the load, and during it.
        result: How the load ended.
        wrong: How the tables differ; empty where they do not.
    """

    number: int
    did: list[str] = field(default_factory=list)
    result: str = ""
    wrong: str = ""

    def __str__(self) -> str:
        return f"night {self.number}: {', '.join(self.did) or 'nothing new'}; {self.result}: {self.wrong or 'the same'}"


class Nights:
    """The nights of one table.

    Args:
        lake: Where to.
        engine: The table's.
        seed: Of all choices; moments depend on the machine, too.
        restart: Restarts a node; None where nodes stay.
    """

    def __init__(self, lake: Lake, engine: Engine, *, seed: int, restart: Callable[[], None] | None = None) -> None:
        self.lake, self.engine, self.choose = lake, engine, random.Random(seed)
        self.restart = restart
        self.files: list[str] = []
        self.number = 0
        self.columns = 0
        self.seen = Counter[str]()
        self.names = {each: f"{each}_{seed}" for each in ("night", "whole")}
        self.prefix = f"nights{seed}"
        for name in self.names.values():
            lake.on_every_node(engine.create(f"{lake.database}.{name}"))
            lake.on_node(
                0, f"INSERT INTO {lake.database}.{name} (ts, k, sign) VALUES ('{_OTHER_MONTH}-01 00:00:00', 2000, 1)"
            )

    def play(self) -> Night:
        """Play one more night."""
        self.number += 1
        night = Night(self.number)
        night.did = list(self._before())
        meddler = self._meddle_later(night)
        night.result = self._load("night")
        if meddler:
            meddler.join()
            # What came right after the load is a change of others, which the next run finds.
            night.result += f", then {self._load('night')}"
        self._load("whole", incremental=False)
        night.wrong = self._difference()
        return night

    def _before(self) -> Iterator[str]:
        if self.number == 1 or self.choose.random() < 0.9:
            yield self._add()
        for chance, action in (
            (0.06, self._overwrite),
            (0.05, self._delete_file),
            (0.05, self._delete_rows),
            (0.05, self._delete_lightly),
            (0.03, self._insert_rows),
            (0.03, self._delete_elsewhere),
            (0.10, self._merge),
            (0.04, self._drop_part),
            (0.03, self._add_column),
            (0.03, self._change_default),
            (0.02, self._truncate_records),
            (0.02, self._restart),
        ):
            if self.choose.random() < chance:
                yield action()

    def _rows(self) -> str:
        rows = []
        for _ in range(self.choose.randrange(1, 60)):
            key, version = self.choose.randrange(80), self.choose.randrange(4)
            sign = self.choose.choice((0, 1)) if self.engine.name == "deleted" else self.choose.choice((1, 1, -1))
            rows.append(
                f"{MONTH}-{1 + key % 28:02} 10:00:00,{key},{version},{sign},{key * 7 + version},s{key}_{version}"
            )
        return "\n".join(rows) + "\n"

    def _sign_of(self, key: int, version: int) -> int:
        return (key + version) % 2

    def _put(self, name: str) -> None:
        text = self._rows()
        if self.engine.name in ("replacing", "deleted"):
            # Rows of one key and version are the same row: which of two others stays is any load's chance.
            text = "".join(self._same(line) for line in text.splitlines())
        self.lake.put(f"{self.prefix}/{MONTH}/{name}", (_HEAD + text).encode())

    def _same(self, line: str) -> str:
        ts, key, version, _, *others = line.split(",")
        return ",".join((ts, key, version, str(self._sign_of(int(key), int(version))), *others)) + "\n"

    def _add(self) -> str:
        names = [f"{self.number:04}_{each}.csv" for each in range(self.choose.randrange(1, 4))]
        for name in names:
            self._put(name)
        self.files += names
        return f"{len(names)} files added"

    def _overwrite(self) -> str:
        name = self.choose.choice(self.files) if self.files else ""
        if name:
            self._put(name)
        return f"{name or 'no file'} overwritten"

    def _delete_file(self) -> str:
        if not self.files:
            return "no file deleted"
        name = self.files.pop(self.choose.randrange(len(self.files)))
        self.lake.s3.delete_object(Bucket=self.lake.bucket, Key=f"{self.prefix}/{MONTH}/{name}")
        return f"{name} deleted"

    def _table(self, which: str = "night") -> str:
        return f"{self.lake.database}.{self.names[which]}"

    def _node(self) -> int:
        return self.choose.randrange(len(self.lake.cluster.nodes))

    def _alter(self, what: str) -> None:
        self.lake.on_node(self._node(), f"ALTER TABLE {self._table()} {what}")

    def _delete_rows(self) -> str:
        is_sync = self.choose.choice((0, 1))
        self._alter(f"DELETE WHERE k < 1000 AND k % 5 = {self.choose.randrange(5)} SETTINGS mutations_sync = {is_sync}")
        return "rows deleted" if is_sync else "rows being deleted"

    def _delete_lightly(self) -> str:
        self.lake.on_node(
            self._node(), f"DELETE FROM {self._table()} WHERE k < 1000 AND k % 5 = {self.choose.randrange(5)}"
        )
        return "rows deleted lightly"

    def _insert_rows(self) -> str:
        self.lake.on_node(
            self._node(), f"INSERT INTO {self._table()} (ts, k, ver, sign) VALUES ('{MONTH}-01 10:00:00', 1000, 9, 1)"
        )
        return "a row inserted"

    def _delete_elsewhere(self) -> str:
        self._alter(f"DELETE IN PARTITION ID '{_OTHER_MONTH.replace('-', '')}' WHERE k < 5 SETTINGS mutations_sync = 1")
        return "another month's rows deleted"

    def _merge(self) -> str:
        self.lake.on_every_node(f"OPTIMIZE TABLE {self._table()} FINAL")
        return "merged"

    def _drop_part(self) -> str:
        node, what = self._node(), self.choose.choice(("DROP", "DETACH"))
        of_table = f"database = '{self.lake.database}' AND table = '{self.names['night']}'"
        sql = (
            f"SELECT name FROM system.parts WHERE {of_table} "
            f"AND active AND rows > 0 AND partition_id = '{MONTH.replace('-', '')}' ORDER BY name"
        )
        parts = [name for (name,) in self.lake.on_node(node, sql)]
        if not parts or self.engine.may_lose_parts:
            return "no part to drop"
        # A merge may take it first.
        with suppress(ServerException):
            self.lake.on_node(node, f"ALTER TABLE {self._table()} {what} PART '{self.choose.choice(parts)}'")
        return f"{what} PART"

    def _add_column(self) -> str:
        self.columns += 1
        for which in self.names:
            column = f"c{self.columns} Int64 DEFAULT {self.columns}"
            self.lake.on_every_node(f"ALTER TABLE {self._table(which)} ADD COLUMN {column}")
        return "a column added"

    def _change_default(self) -> str:
        if not self.columns:
            return "no default changed"
        for which in self.names:
            column = f"c{self.columns} Int64 DEFAULT {self.number * 100}"
            self.lake.on_every_node(f"ALTER TABLE {self._table(which)} MODIFY COLUMN {column}")
        return "a default changed"

    def _truncate_records(self) -> str:
        self.lake.on_node(self._node(), f"TRUNCATE TABLE IF EXISTS {self.lake.database}.chs3_objects")
        return "records of objects lost"

    def _restart(self) -> str:
        if self.restart is None:
            return "no restart"
        self.restart()
        return "a node restarted"

    def _meddle_later(self, night: Night) -> threading.Thread | None:
        if self.choose.random() >= 0.15:
            return None
        action = self.choose.choice((self._delete_rows, self._delete_lightly, self._insert_rows, self._merge))
        wait_seconds = self.choose.random() * 1.5
        night.did.append(f"{action.__name__[1:]} {wait_seconds:.2f} s into the load")

        def meddle() -> None:
            time.sleep(wait_seconds)
            action()

        thread = threading.Thread(target=meddle)
        thread.start()
        return thread

    def _load(self, which: str, **options: Any) -> str:
        self.lake.table = self.names[which]
        error: Exception | None = None
        for _ in range(_TRIES):
            try:
                result = self.lake.load(key=f"{self.prefix}/{{YYYY-MM}}/", **_LOAD, **options)
            except Exception as raised:
                if not isinstance(raised, Chs3Error) and type(raised).__name__ != "AirflowFailException":
                    raise
                error = raised
                continue
            is_part = 0 < result["loaded_objects"] < result["objects"]
            outcome = "increment" if is_part else "whole" if result["status"] == "published" else result["status"]
            self.seen[outcome if which == "night" else f"{which}: {outcome}"] += 1
            return outcome
        assert error is not None
        raise error

    def _difference(self) -> str:
        found = {which: self._read(which) for which in self.names}
        if found["night"] == found["whole"]:
            return ""
        missing, extra = found["whole"] - found["night"], found["night"] - found["whole"]
        return (
            f"{missing.total()} rows missing, such as {next(iter(missing), '')}; {extra.total()} too many, such as "
            + str(next(iter(extra), ""))
        )

    def _read(self, which: str) -> Counter[tuple[Any, ...]]:
        source = f"cluster('{self.lake.cluster.name}', {self.lake.database}, {self.names[which]})"
        return Counter(
            self.lake.on_node(0, self.engine.select(source, month=MONTH, nodes=len(self.lake.cluster.nodes)))
        )
