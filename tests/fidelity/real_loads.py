"""Real files, loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from tests.fidelity.cases import Case, Column
from tests.fidelity.column_types import backticked
from tests.fidelity.conftest import REAL_PERIOD
from tests.fidelity.real_files import column_type, rows_counted, verdicts_of
from tests.fidelity.running import read_back
from tests.fidelity.sources import Reading, Verdict
from tests.fidelity.typed_files import read_typed
from tests.support.lake import Lake

_FORMATS = {".orc": "ORC", ".parquet": "Parquet", ".arrow": "Arrow"}


def is_loaded(lake: Lake, path: Path) -> None:
    """The file's rows are in a table that takes all of it, as pyarrow reads them."""
    columns, verdicts = _load(lake, path)
    case = Case(period=REAL_PERIOD, format="", columns=columns, files=[])
    rows = [list(row.values()) for row in read_back(case, lake)]
    assert all(each.values for row in verdicts for each in row)
    assert rows_counted(rows) == rows_counted([[each.values[0] for each in row] for row in verdicts])


def _load(lake: Lake, path: Path) -> tuple[list[Column], list[list[Verdict]]]:
    """Load a file into a table that takes all of it; its columns, and what may become of each row."""
    body, file_format = path.read_bytes(), _FORMATS[path.suffix]
    try:
        sources = read_typed(body, file_format)
    except (pa.ArrowException, OSError) as error:
        pytest.skip(f"pyarrow does not read it: {error}")
    columns = [Column(name, column_type(kind)) for name, kind in _schema(path).items()]
    table = f"real_{''.join(char if char.isalnum() else '_' for char in path.name)}"
    _create(lake, table, columns)
    lake.put(f"{table}/{REAL_PERIOD}/{path.name}", body)
    lake.load(key=f"{table}/{{YYYY-MM}}/", period=REAL_PERIOD, columns=[column.name for column in columns])
    return columns, verdicts_of(sources, columns, Reading("arrow"))


def _schema(path: Path) -> dict[str, Any]:
    if path.suffix == ".arrow":
        schema = pa.ipc.open_file(path).schema
    else:
        schema = pa.orc.ORCFile(path).schema if path.suffix == ".orc" else pq.read_schema(path)
    return {field.name: field.type for field in schema}


def _create(lake: Lake, table: str, columns: list[Column]) -> None:
    lake.table = table
    listed = ", ".join(f"{backticked(column.name)} {column.type.sql}" for column in columns)
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.{table} ({listed}, chs3_ts DateTime('UTC') DEFAULT '{REAL_PERIOD}-15 00:00:00') "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(chs3_ts) ORDER BY tuple()"
    )
