"""Files that nobody here wrote: those of apache/parquet-testing, and of pyarrow's own tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.fidelity.real_files import parquet_testing, pyarrow_files
from tests.fidelity.real_loads import _load, is_loaded
from tests.support.lake import IS_OLDEST, Lake

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
