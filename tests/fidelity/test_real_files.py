"""Files that nobody here wrote: those of apache/parquet-testing, and of pyarrow's own tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import Chs3Error
from tests.fidelity.cases import Case, Column
from tests.fidelity.conftest import REAL_MONTH
from tests.fidelity.real_files import column_type, parquet_testing, pyarrow_files, rows_counted, verdicts_of
from tests.fidelity.running import read_back
from tests.fidelity.sources import Reading
from tests.fidelity.typed_files import read_typed
from tests.fidelity.types import backticked
from tests.integration.lake import Lake

#: Of apache/parquet-testing; what pyarrow cannot read itself is left out.
_NAMES = (
    "alltypes_dictionary alltypes_plain alltypes_plain.snappy binary byte_array_decimal datapage_v2.snappy "
    "dict-page-offset-zero fixed_length_decimal fixed_length_decimal_legacy hadoop_lz4_compressed "
    "hadoop_lz4_compressed_larger int32_decimal int64_decimal list_columns nation.dict-malformed "
    "nested_lists.snappy nested_maps.snappy nested_structs.rust non_hadoop_lz4_compressed nonnullable.impala "
    "nullable.impala nulls.snappy repeated_no_annotation single_nan"
).split()


@pytest.fixture(scope="module")
def testing_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = parquet_testing(tmp_path_factory.mktemp("crate"))
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.mark.parametrize("name", _NAMES)
def test_a_file_of_parquet_testing_is_loaded_as_pyarrow_reads_it(
    fidelity_lake: Lake, testing_files: Path, name: str
) -> None:
    _loads_or_is_refused(fidelity_lake, testing_files / f"{name}.parquet")


@pytest.mark.parametrize("path", list(pyarrow_files()), ids=lambda path: path.name)
def test_a_file_of_pyarrow_is_loaded_as_pyarrow_reads_it(fidelity_lake: Lake, path: Path) -> None:
    _loads_or_is_refused(fidelity_lake, path)


def _loads_or_is_refused(lake: Lake, path: Path) -> None:
    body, file_format = path.read_bytes(), "ORC" if path.suffix == ".orc" else "Parquet"
    try:
        sources = read_typed(body, file_format)
    except (pa.ArrowException, OSError) as error:
        pytest.skip(f"pyarrow does not read it: {error}")
    columns = [Column(name, column_type(kind)) for name, kind in _schema(path).items()]
    verdicts = verdicts_of(sources, columns, Reading("arrow"))
    table = f"real_{''.join(char if char.isalnum() else '_' for char in path.name)}"
    _create(lake, table, columns)
    lake.put(f"{table}/{REAL_MONTH}/{path.name}", body)
    try:
        lake.load(key=f"{table}/{{YYYY-MM}}/", month=REAL_MONTH, columns=[column.name for column in columns])
    except (AirflowFailException, Chs3Error) as error:
        assert not all(each.must_load for row in verdicts for each in row), f"refused without need: {error}"
        return
    case = Case(month=REAL_MONTH, format=file_format, columns=columns, files=[])
    rows = [list(row.values()) for row in read_back(case, lake)]
    assert all(each.values for row in verdicts for each in row), "published what does not fit"
    assert rows_counted(rows) == rows_counted([[each.values[0] for each in row] for row in verdicts])


def _schema(path: Path) -> dict[str, Any]:
    schema = pa.orc.ORCFile(path).schema if path.suffix == ".orc" else pq.read_schema(path)
    return {field.name: field.type for field in schema}


def _create(lake: Lake, table: str, columns: list[Column]) -> None:
    lake.table = table
    listed = ", ".join(f"{backticked(column.name)} {column.type.sql}" for column in columns)
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.{table} ({listed}, chs3_ts DateTime('UTC') DEFAULT '{REAL_MONTH}-15 00:00:00') "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(chs3_ts) ORDER BY tuple()"
    )
