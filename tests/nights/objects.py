"""The objects of some periods: files that come, change and go."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from tests.nights.engines import Engine
from tests.nights.spans import KEYS, Span

if TYPE_CHECKING:
    from tests.support.lake import Lake

Row = tuple[datetime, int, int, int, int, str]
#: Rows by period, or arrival, and file.
Files = dict[str, dict[str, list[Row]]]
_HEAD = "ts,k,ver,sign,v,s\n"
_MOST_ROWS = 60


@dataclass
class Objects:
    """Files of CSV, and the rows that they hold."""

    lake: Lake
    prefix: str
    span: Span
    engine: Engine
    choose: random.Random
    files: Files = field(init=False)

    def __post_init__(self) -> None:
        self.files = {period: {} for period in self.span.to_load}

    def add(self, period: str, *, night: str) -> str:
        """Add one to three files to a period."""
        names = [f"{night}_{number}.csv" for number in range(self.choose.randrange(1, 4))]
        for name in names:
            self._put(period, name)
        return f"{len(names)} files added to {period}"

    def add_to_all(self, *, night: str) -> str:
        """Add a file of an arrival that has rows of all periods."""
        self._put(self.choose.choice(self.span.arrivals), f"{night}_all.csv", self.span.periods)
        return "a file of all periods added"

    def overwrite(self) -> Iterator[str]:
        """Write other rows into a file."""
        if chosen := self._one():
            self._put(*chosen)
            yield "a file overwritten"

    def delete(self) -> Iterator[str]:
        """Delete a file."""
        if chosen := self._one():
            period, name = chosen
            del self.files[period][name]
            self.lake.s3.delete_object(Bucket=self.lake.bucket, Key=f"{self.prefix}/{period}/{name}")
            yield "a file deleted"

    def _one(self) -> tuple[str, str] | None:
        there = [(period, name) for period, files in self.files.items() for name in files]
        return self.choose.choice(there) if there else None

    def _put(self, period: str, name: str, of_rows: Sequence[str] = ()) -> None:
        rows = [self._row(of_row) for of_row in of_rows or self._periods_of_rows(period)]
        self.files[period][name] = rows
        lines = (f"{at.timestamp():.0f},{','.join(map(str, others))}\n" for at, *others in rows)
        self.lake.put(f"{self.prefix}/{period}/{name}", (_HEAD + "".join(lines)).encode())

    def _periods_of_rows(self, period: str) -> list[str]:
        """Choose the periods of a file's rows: those of an arrival are of any, and there may be none."""
        number = self.choose.randrange(1, _MOST_ROWS)
        if not self.span.arrivals:
            return [period] * number
        touched = self.choose.sample(self.span.periods, self.choose.choice((0, 1, 1, 2, 2, 3, 3, 3)))
        return self.choose.choices(touched, k=number) if touched else []

    def _row(self, period: str) -> Row:
        key, version = self.choose.randrange(KEYS), self.choose.randrange(4)
        sign = self.engine.sign(key, version, self.choose)
        # Never 0: merges of sums remove such rows.
        return self.span.moment(period, key), key, version, sign, 1 + key * 7 + version, f"s{key}_{version}"
