"""A case, loaded through the operator and compared value by value."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from airflow.providers.common.compat.sdk import AirflowFailException
from clickhouse_driver.errors import ServerException

from airflow_provider_chs3.exceptions import Chs3Error
from tests.fidelity import binary
from tests.fidelity.by_clickhouse import NotWrittenError, ask
from tests.fidelity.cases import Case, Lane
from tests.fidelity.column_types import Type, backticked, read_in
from tests.fidelity.formats import FORMATS, FileFormat, body_of, packed, read_body, reading_of
from tests.fidelity.oracle import judge
from tests.fidelity.oracle_json import leaves
from tests.fidelity.sources import MISSING, Verdict, refused
from tests.fidelity.values import same
from tests.support.lake import IS_OLDEST

if TYPE_CHECKING:
    from tests.support.lake import Lake

#: Outcomes that are as they must be.
EXACT, REFUSED, REFUSED_AS_MAY_BE = "exact", "refused", "refused, as it may be"
NOT_WRITTEN = "no such file"
#: And those that are not.
WRONG, PUBLISHED, WITHOUT_NEED, CRASHED, CHANGED = (
    "wrong value",
    "published what does not fit",
    "refused without need",
    "no error of this package",
    "refused, but the target changed",
)
#: The test itself is wrong.
BROKEN = "broken test"
FAULTS = (BROKEN, WRONG, PUBLISHED, WITHOUT_NEED, CRASHED, CHANGED)
#: As numbers, so that they are compared as such; and text as it is.
_READ_SETTINGS = {
    "output_format_json_quote_64bit_integers": 0,
    "output_format_json_quote_denormals": 1,
    "allow_experimental_analyzer": 1,
}


@dataclass
class Outcome:
    """The outcome of a case."""

    kind: str
    message: str = ""
    details: dict[str, str] = field(default_factory=dict)

    @property
    def is_fault(self) -> bool:
        """Whether it is not as it must be."""
        return self.kind in FAULTS


@dataclass
class Expected:
    """A value of a row: what the file has, and what may become of it."""

    source: Any
    verdict: Verdict
    file: str


def run(case: Case, lake: Lake, *, number: int | str = "") -> Outcome:
    """Load a case into a table of its own, and compare."""
    with read_in(case.zone):
        return _run(case, lake, number=number)


def _run(case: Case, lake: Lake, *, number: int | str) -> Outcome:
    name = f"case_{number or uuid.uuid4().hex[:12]}"
    try:
        bodies = [body_of(file, FORMATS[case.format], lake.cluster.nodes[0]) for file in case.files]
        expected = expectations(case, bodies)
    except (NotWrittenError, pa.ArrowNotImplementedError) as error:
        return Outcome(NOT_WRITTEN, str(error))
    except pa.ArrowInvalid as error:
        return Outcome(NOT_WRITTEN, f"pyarrow does not read what it wrote: {error}")
    lake.table = name
    try:
        create(lake, case.created_by)
    except ServerException as error:
        if not IS_OLDEST:
            raise
        return Outcome(NOT_WRITTEN, f"25.8 has no such table: {error.message[:200]}")
    try:
        for file, body in zip(case.files, bodies, strict=True):
            lake.put(f"{name}/{case.period}/{file.name}", packed(body, file))
        return _load(case, lake, expected)
    finally:
        lake.on_every_node(f"DROP TABLE {lake.database}.{name} SYNC")


def create(lake: Lake, definition: str) -> None:
    """Create the lake's table on every node; 25.8 has times of day only for those who ask."""
    for node in lake.cluster.nodes:
        with node.client(settings={"enable_time_time64_type": 1}) as client:
            client.execute(f"CREATE TABLE {lake.database}.{lake.table} {definition}")


def expectations(case: Case, bodies: list[bytes]) -> dict[int, dict[str, Expected]]:
    """Return the right outcome of each row: id → column → value."""
    reading = reading_of(FORMATS[case.format], case.arguments.get("naive_timestamps", ""))
    found: dict[int, dict[str, Expected]] = {}
    for file, body in zip(case.files, bodies, strict=True):
        columns = read_body(body, file, case)
        ids = [judge(source, case.columns[0].type, reading).values[0] for source in columns.get("id", [])]
        for place, row_id in enumerate(ids):
            found[row_id] = {}
            for column in case.columns:
                if column.name in columns:
                    source = columns[column.name][place]
                    verdict = judge(source, column.type, reading)
                elif FORMATS[case.format].clickhouse == "JSONEachRow":
                    source, verdict = MISSING, judge(MISSING, column.type, reading)
                else:
                    source, verdict = MISSING, refused("the file lacks the column")
                found[row_id][column.name] = Expected(source, verdict, file.name)
    return found


def _load(case: Case, lake: Lake, expected: dict[int, dict[str, Expected]]) -> Outcome:
    try:
        result = lake.load(key=f"{lake.table}/{{YYYY-MM}}/", period=case.period, **case.arguments)
    except (AirflowFailException, Chs3Error) as error:
        return _of_refusal(case, lake, expected, str(error))
    except Exception as error:
        return Outcome(CRASHED, f"{type(error).__name__}: {error}")
    rows = read_back(case, lake)
    if result["rows"] != len(rows):
        return Outcome(WRONG, f"{result['rows']} rows told, {len(rows)} rows there")
    return compare(case, expected, rows)


def _of_refusal(case: Case, lake: Lake, expected: dict[int, dict[str, Expected]], message: str) -> Outcome:
    if any(rows != [(0,)] for rows in lake.on_every_node(f"SELECT count() FROM {lake.database}.{lake.table}")):
        return Outcome(CHANGED, message)
    cells = [each for row in expected.values() for each in row.values()]
    if any(not cell.verdict.values for cell in cells):
        return Outcome(REFUSED, message)
    whys = [cell.verdict.why for cell in cells if not cell.verdict.must_load]
    whys += [why for file in case.files if (why := _oddity(file.layout, FORMATS[case.format]))]
    whys += [why for file in case.files for lane in file.lanes if (why := _undeclared(lane, message))]
    if not expected:
        whys.append("no rows at all")
    if "is missing in" in message and any(not file.rows for file in case.files):
        whys.append("a file without rows lacks a column")
    if any(not file.rows for file in case.files) and FORMATS[case.format].clickhouse == "Native":
        whys.append("Native without rows tells no columns")
    return Outcome(REFUSED_AS_MAY_BE, message, {"why": whys[0]}) if whys else Outcome(WITHOUT_NEED, message)


def _oddity(layout: dict[str, Any], file_format: FileFormat) -> str:
    """Why a file may be refused for its layout."""
    if file_format.family == "tsv" and layout["end"] == b"\r\n":
        return "a carriage return is a character like others in TSV"
    if layout.get("bom"):
        return "a byte order mark"
    if layout.get("escape_names"):
        return "keys with escapes"
    if layout.get("blank"):
        return "a blank line"
    return "gzip of two members" if layout.get("codec") == "gz2" else ""


def _undeclared(lane: Lane, message: str) -> str:
    """Why a column may be refused for its type in the file, whatever values it has."""
    if "has timestamps without a zone" in message and re.search(r"timestamp\[\w+\]|date64", str(lane.written_as)):
        return "timestamps without a zone"
    if "Cannot parse quoted string" in message:
        return "a text without quotes in a container of TSV"
    if "written with escapes" in message:
        return "keys with escapes in a Tuple"
    if "holds times of day" in message and re.search(r"time(?:32|64)\[", str(lane.written_as)):
        return "times of day"
    if IS_OLDEST and re.search(
        r"has .*(?:1900|2299|2300)-|has -?\d+(?:\.\d+)? seconds after 1970|cannot show", message
    ):
        return "a time at or beyond the end of the calendar of 25.8"
    if re.search(r"do not tell whether these are UUIDs|has a float below 0\.000061", message):
        return "what older servers alter"
    if "exceeds the day range" in message:
        return "a date in a column that holds moments in another file"
    if lane.of is not None and "Variant" in lane.of.sql:
        return "of several types, empty containers of them, too"
    is_bytes = lane.of is not None and "UUID" in lane.of.sql and "fixed_size_binary[16]" in str(lane.written_as)
    return "bytes that are no declared UUIDs" if is_bytes and "not declared as UUIDs" in message else ""


def read_back(case: Case, lake: Lake) -> list[dict[str, Any]]:
    """All rows of the table, on all nodes."""
    columns = ", ".join(_as_read(column.name, column.type) for column in case.columns)
    table = f"cluster('{lake.cluster.name}', {lake.database}, {lake.table})"
    body = ask(lake.cluster.nodes[0], f"SELECT {columns} FROM {table} FORMAT RowBinary", **_READ_SETTINGS)
    reader, rows = binary.Reader(body), []
    while not reader.is_at_end:
        row = {column.name: reader.value(column.type) for column in case.columns}
        rows.append(row | {column.name: _any_value(row[column.name], column.type) for column in case.columns})
    return rows


def _as_read(name: str, of: Type) -> str:
    # toJSONString of a NULL is NULL.
    any_type = f"ifNull(toJSONString({backticked(name)}), 'null')"
    return any_type if of.kind in ("JSON", "Dynamic") else backticked(name)


def _any_value(value: Any, of: Type) -> Any:
    if of.kind == "JSON":
        return leaves(json.loads(value))
    return json.loads(value) if of.kind == "Dynamic" else value


def compare(case: Case, expected: dict[int, dict[str, Expected]], rows: list[dict[str, Any]]) -> Outcome:
    """Compare the table's values with the allowed ones."""
    found = {row["id"]: row for row in rows}
    if len(found) != len(rows) or found.keys() != expected.keys():
        return Outcome(WRONG, f"rows {sorted(found)} of {len(rows)}, and not {sorted(expected)}")
    for row_id, row in expected.items():
        for column in case.columns:
            each, value = row[column.name], found[row_id][column.name]
            if any(same(value, one) for one in each.verdict.values):
                continue
            details = {
                "column": f"{column.name} {column.type.sql}",
                "file": each.file,
                "source": repr(each.source),
                "expected": " or ".join(map(repr, each.verdict.values)) or f"an error: {each.verdict.why}",
                "actual": repr(value),
            }
            return Outcome(WRONG if each.verdict.values else PUBLISHED, "", details)
    return Outcome(EXACT)
