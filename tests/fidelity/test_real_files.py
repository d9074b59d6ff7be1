"""Files that nobody here wrote: those of apache/parquet-testing, and of pyarrow's own tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.fidelity.cases import Case, Column
from tests.fidelity.column_types import backticked
from tests.fidelity.conftest import REAL_PERIOD
from tests.fidelity.real_files import column_type, parquet_testing, pyarrow_files, rows_counted, verdicts_of
from tests.fidelity.running import read_back
from tests.fidelity.sources import Reading, Verdict
from tests.fidelity.typed_files import read_typed
from tests.support.lake import IS_OLDEST, Lake

_FORMATS = {".orc": "ORC", ".parquet": "Parquet", ".arrow": "Arrow"}
#: Files of apache/parquet-testing, without those that pyarrow cannot read itself.
_NAMES = (
    "alltypes_dictionary",
    "alltypes_plain",
    "alltypes_plain.snappy",
    "binary",
    "byte_array_decimal",
    "dict-page-offset-zero",
    "fixed_length_decimal",
    "fixed_length_decimal_legacy",
    "hadoop_lz4_compressed",
    "hadoop_lz4_compressed_larger",
    "int32_decimal",
    "int64_decimal",
    "nation.dict-malformed",
    "non_hadoop_lz4_compressed",
    "nonnullable.impala",
    "nulls.snappy",
    "single_nan",
)
#: ORC ends the process of the 25.8 server that tests have.
_PYARROW_FILES = [path for path in pyarrow_files() if not (IS_OLDEST and path.suffix == ".orc")]
#: Some of their lists, maps and structs are NULL, which a column of ClickHouse cannot hold.
_WITH_NULL_CONTAINERS = (
    "datapage_v2.snappy",
    "list_columns",
    "nested_lists.snappy",
    "nested_maps.snappy",
    "nullable.impala",
)


@pytest.fixture(scope="module")
def testing_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = parquet_testing(tmp_path_factory.mktemp("crate"))
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("name", _NAMES)
def test_a_file_of_parquet_testing_is_loaded_as_pyarrow_reads_it(
    fidelity_lake: Lake, testing_files: Path, name: str
) -> None:
    is_loaded(fidelity_lake, testing_files / f"{name}.parquet")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", _WITH_NULL_CONTAINERS)
def test_lists_and_structs_that_are_null_are_empty_ones(fidelity_lake: Lake, testing_files: Path, name: str) -> None:
    is_loaded(fidelity_lake, testing_files / f"{name}.parquet")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("repeated_no_annotation", "hold 0 rows, but 6 were staged"),
        # Nanoseconds that are declared as microseconds.
        ("nested_structs.rust", "'ul_observation_date' is .* has a time that ClickHouse cannot show"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(
    fidelity_lake: Lake, testing_files: Path, name: str, why: str
) -> None:
    with pytest.raises(AirflowFailException, match=why):
        _load(fidelity_lake, testing_files / f"{name}.parquet")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("path", _PYARROW_FILES, ids=lambda path: path.name)
def test_a_file_of_pyarrow_is_loaded_as_pyarrow_reads_it(fidelity_lake: Lake, path: Path) -> None:
    is_loaded(fidelity_lake, path)


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
