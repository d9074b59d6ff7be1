"""Real files: tables that take them, and what such a table must hold afterwards."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.fidelity.cases import Column
from tests.fidelity.column_types import Type
from tests.fidelity.oracle import judge
from tests.fidelity.sources import Reading, Verdict

#: A crate whose source package has the files of apache/parquet-testing.
_CRATE = "parquet2"
_CRATE_VERSION = "0.17.2"


def parquet_testing(folder: Path) -> Path | str:
    """The folder `data` of apache/parquet-testing, out of a package of crates.io."""
    cargo = shutil.which("cargo")
    if not cargo:
        return "cargo, which gets packages of crates.io, is not installed"
    (folder / "src").mkdir()
    (folder / "src" / "lib.rs").touch()
    (folder / "Cargo.toml").write_text(
        '[package]\nname = "files"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[dependencies]\n{_CRATE} = {{ version = "={_CRATE_VERSION}", default-features = false }}\n'
    )
    done = subprocess.run(
        [cargo, "vendor", "--quiet", "vendor"], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    data = folder / "vendor" / _CRATE / "testing" / "parquet-testing" / "data"
    return data if data.is_dir() else f"crates.io is out of reach: {done.stderr[-300:]}"


def pyarrow_files() -> Iterator[Path]:
    """Files that come with pyarrow's own tests, where its wheel has them."""
    data = Path(pa.__file__).parent / "tests" / "data"
    return iter(sorted([*data.rglob("*.parquet"), *data.rglob("*.orc")]))


def column_type(arrow_type: pa.DataType) -> Type:
    """A type of ClickHouse's that holds all values of a type of Arrow's."""
    types = pa.types
    if types.is_struct(arrow_type):
        fields = list(arrow_type)
        inner = tuple(column_type(field.type) for field in fields)
        return Type("Tuple", inner=inner, names=tuple(field.name for field in fields))
    if types.is_map(arrow_type):
        key = column_type(arrow_type.key_type)
        return Type("Map", inner=(key.bare, column_type(arrow_type.item_type)))
    if types.is_list(arrow_type) or types.is_large_list(arrow_type):
        return Type("Array", inner=(column_type(arrow_type.value_type),))
    if types.is_dictionary(arrow_type):
        return column_type(arrow_type.value_type)
    return Type("Nullable", inner=(_scalar_type(arrow_type),))


def _scalar_type(arrow_type: pa.DataType) -> Type:
    types = pa.types
    if types.is_boolean(arrow_type):
        return Type("Bool")
    if types.is_integer(arrow_type):
        return Type("Int" if types.is_signed_integer(arrow_type) else "UInt", bits=arrow_type.bit_width)
    if types.is_floating(arrow_type):
        return Type("Float", bits=64)
    if types.is_decimal(arrow_type):
        return Type("Decimal", precision=arrow_type.precision, scale=arrow_type.scale)
    if types.is_timestamp(arrow_type):
        return Type("DateTime64", precision=9 if arrow_type.unit == "ns" else 6, zone="UTC")
    if types.is_date(arrow_type):
        return Type("Date32")
    if types.is_null(arrow_type):
        return Type("String")
    # Texts and bytes of any length, their large and their view types.
    if re.fullmatch(r"(?:large_)?(?:string|binary)(?:_view)?", str(arrow_type)):
        return Type("String")
    if types.is_fixed_size_binary(arrow_type):
        return Type("FixedString", length=arrow_type.byte_width)
    raise NotImplementedError(str(arrow_type))


def verdicts_of(sources: dict[str, list[Any]], columns: list[Column], reading: Reading) -> list[list[Verdict]]:
    """Return the allowed outcomes of each row."""
    lanes = [[judge(source, column.type, reading) for source in sources[column.name]] for column in columns]
    return [list(row) for row in zip(*lanes, strict=True)]


def rows_counted(rows: list[list[Any]]) -> Counter[str]:
    """Rows as a set that knows how often each is there; `repr` keeps each bit of a value."""
    return Counter(map(repr, rows))
