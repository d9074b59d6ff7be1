"""A case: a file of text, read with the settings of loads in the smallest chunks, and by a reader of Python."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from clickhouse_driver import Client
from clickhouse_driver.errors import ServerException

from airflow_provider_chs3.core.files.file_set import LOOK_SETTINGS
from airflow_provider_chs3.core.files.text_fields import Dialect, reading_settings
from airflow_provider_chs3.core.tuning.insert_settings import exact_settings
from airflow_provider_chs3.sources.s3.reading import S3
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from tests.parsing.files import KINDS, NAMES, Row, TextKind, damaged, rows_of

READ, LENIENT, REFUSED = "read as Python reads it", "read, where Python refuses it", "refused"
WRONG, WITHOUT_NEED = "other rows", "refused without need"
FAULTS = (WRONG, WITHOUT_NEED)
#: A server that parses in chunks takes each row for one.
_SMALLEST_CHUNKS = {"min_chunk_bytes_for_parallel_parsing": 1, "max_threads": 4}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case."""

    kind: str
    file_format: str
    is_torn: bool
    details: str


@dataclass(frozen=True)
class Bed:
    """Where files are put and read."""

    client: Client
    s3: Any
    bucket: str

    def read(self, kind: TextKind, key: str, **settings: Any) -> list[Row] | str:
        """The rows of a file, or the server's error."""
        structure = ", ".join(f"{name} Nullable(String)" for name in NAMES)
        columns = ", ".join(f"hex(ifNull({name}, ''))" for name in NAMES)
        function = (
            f"s3({S3_NAMED_COLLECTION}, filename = '{self.bucket}/{key}', format = '{kind.name}', "
            f"structure = '{structure}', compression_method = 'none')"
        )
        try:
            rows = self.client.execute(f"SELECT {columns} FROM {function}", settings=self._of_load(kind) | settings)
        except ServerException as error:
            return str(error.message)
        except UnicodeDecodeError as error:
            # It quotes the file, and cuts a character in two.
            self.client.disconnect()
            return str(error)
        return [tuple(bytes.fromhex(cell).decode("utf-8", "surrogateescape") for cell in row) for row in rows]

    def _of_load(self, kind: TextKind) -> dict[str, Any]:
        exact = exact_settings(null_as_default=False, by_sharding_key=False, store=S3)
        reading = reading_settings(Dialect(**(kind.csv or {})), has_nested_containers=False)
        settings = LOOK_SETTINGS | reading | {each.name: each.value for each in exact.values()} | _SMALLEST_CHUNKS
        return {name: value for name, value in settings.items() if name in self._known}

    @cached_property
    def _known(self) -> set[str]:
        return {name for (name,) in self.client.execute("SELECT name FROM system.settings")}


def run(bed: Bed, seed: int, number: int) -> Outcome:
    """Make the file of a case, read it, and compare."""
    chance = random.Random(f"{seed}:{number}")
    kind = chance.choice(KINDS)
    rows = rows_of(chance)
    written = kind.write(chance, rows)
    header = written.find("\n") + 1 if kind.name.endswith("WithNames") else 0
    text = damaged(chance, written, first=header)
    key = f"parsing/{seed}/{number}"
    bed.s3.put_object(Bucket=bed.bucket, Key=key, Body=text.encode())
    found, in_chunks = bed.read(kind, key), bed.read(kind, key, input_format_parallel_parsing=1)
    try:
        wanted = _comparable(kind, kind.read(text))
    except (ValueError, KeyError, StopIteration):
        wanted = None
    is_as_it_should = text == written and wanted == _comparable(kind, rows)
    outcome = WITHOUT_NEED if is_as_it_should else REFUSED
    if not isinstance(found, str):
        found = _comparable(kind, found)
        outcome = LENIENT if wanted is None else READ if found == wanted else WRONG
    return Outcome(
        outcome,
        f"{kind.name} {kind.csv or ''}".strip(),
        is_torn=not isinstance(found, str) and (isinstance(in_chunks, str) or _comparable(kind, in_chunks) != found),
        details=f"{text!r}: {found}, and not {wanted}",
    )


def _comparable(kind: TextKind, rows: list[Row]) -> list[Row]:
    """Rows in any order; spaces after a closing quote of CSV are nothing to ClickHouse (docs/reference/values.md)."""
    return sorted(tuple(cell.rstrip(" \t") if kind.csv is not None else cell for cell in row) for row in rows)
