"""Every format that is loaded: what its files are called, how one is written and read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.fidelity.by_clickhouse import write_by_clickhouse
from tests.fidelity.cases import Case, Lane, SourceFile
from tests.fidelity.codecs import compress
from tests.fidelity.column_types import Type
from tests.fidelity.json_files import read_json, write_json
from tests.fidelity.sources import Reading, Same
from tests.fidelity.text_files import read_csv, read_tsv, write_csv, write_tsv
from tests.fidelity.typed_files import read_typed, table_of, write_typed

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import RunningNode


@dataclass(frozen=True)
class FileFormat:
    """A format, and who writes it."""

    name: str
    family: str
    ending: str
    clickhouse: str
    has_names: bool = True

    @property
    def read_as(self) -> str:
        """The family by which files are read: text of ClickHouse's is text."""
        if self.family != "clickhouse":
            return self.family
        names = {"CSVWithNames": "csv", "TabSeparatedWithNames": "tsv", "JSONEachRow": "json"}
        return names.get(self.clickhouse, self.family)


def reading_of(file_format: FileFormat, naive_timestamps: str = "") -> Reading:
    """How files of a format are read."""
    return Reading(file_format.read_as, naive_timestamps, hides_nulls=file_format.clickhouse == "Parquet")


_EVERY = (
    FileFormat("Parquet", "arrow", "parquet", "Parquet"),
    FileFormat("ORC", "arrow", "orc", "ORC"),
    FileFormat("Arrow", "arrow", "arrow", "Arrow"),
    FileFormat("CSVWithNames", "csv", "csv", "CSVWithNames"),
    FileFormat("CSV", "csv", "csv", "CSV", has_names=False),
    FileFormat("TabSeparatedWithNames", "tsv", "tsv", "TabSeparatedWithNames"),
    FileFormat("TabSeparated", "tsv", "tsv", "TabSeparated", has_names=False),
    FileFormat("JSONEachRow", "json", "jsonl", "JSONEachRow"),
    FileFormat("Native by ClickHouse", "clickhouse", "native", "Native"),
    FileFormat("Parquet by ClickHouse", "clickhouse", "parquet", "Parquet"),
    FileFormat("ORC by ClickHouse", "clickhouse", "orc", "ORC"),
    FileFormat("Arrow by ClickHouse", "clickhouse", "arrow", "Arrow"),
    FileFormat("CSVWithNames by ClickHouse", "clickhouse", "csv", "CSVWithNames"),
    FileFormat("TabSeparatedWithNames by ClickHouse", "clickhouse", "tsv", "TabSeparatedWithNames"),
    FileFormat("JSONEachRow by ClickHouse", "clickhouse", "jsonl", "JSONEachRow"),
)
FORMATS = {each.name: each for each in _EVERY}


def formats_read_by(*, is_oldest: bool) -> tuple[str, ...]:
    """Formats that the servers of tests read: ORC may end the process of 25.8, see `programs/server.py`."""
    return tuple(name for name in FORMATS if not (is_oldest and name.startswith("ORC")))


def body_of(file: SourceFile, file_format: FileFormat, node: RunningNode) -> bytes:
    """A file's bytes before they are compressed."""
    if file_format.family == "clickhouse":
        return write_by_clickhouse(file, file_format.clickhouse, node)
    if file_format.family == "arrow":
        layout = {name: value for name, value in file.layout.items() if name != "codec"}
        return write_typed(table_of(file), file_format.clickhouse, layout)
    if file_format.family == "json":
        return write_json(file)
    write = write_csv if file_format.family == "csv" else write_tsv
    return write(file, has_names=file_format.has_names)


def read_body(body: bytes, file: SourceFile, case: Case) -> dict[str, list[Any]]:
    """A file's columns as source values, by a reader that is neither ClickHouse's nor the package's."""
    file_format = FORMATS[case.format]
    if file_format.read_as == "clickhouse":
        return {lane.name: [_same(value, lane, file_format) for value in lane.cells] for lane in file.lanes}
    if file_format.read_as == "arrow":
        return read_typed(body, file_format.clickhouse)
    if file_format.read_as == "json":
        return read_json(body, [column.name for column in case.columns])
    read = read_csv if file_format.read_as == "csv" else read_tsv
    return read(body, None if file_format.has_names else [lane.name for lane in file.lanes])


def _same(value: Any, lane: Lane, file_format: FileFormat) -> Same:
    """A value that came out of a column of its type; as it was, unless the format lacks the type."""
    foreign = ("IPv4", "IPv6", "UUID", "BFloat16", "Time", "Time64", "Enum", "FixedString", "DateTime")
    foreign += ("UInt",) if file_format.clickhouse == "ORC" else ()
    of = lane.of or Type("String")
    is_foreign = of.mentions(*foreign) or any(each.bits > 64 for each in of.all())
    is_hidden = file_format.clickhouse == "Parquet" and any(
        each.kind == "Nullable" and each.bare.kind == "Tuple" for each in of.all()
    )
    return Same(value, is_foreign=is_hidden or (is_foreign and file_format.clickhouse != "Native"))


def packed(body: bytes, file: SourceFile) -> bytes:
    """A file's bytes as they lie in the bucket."""
    return compress(body, file.layout.get("codec", ""))
