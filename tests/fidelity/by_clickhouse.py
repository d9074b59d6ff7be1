"""Files that ClickHouse itself writes, in any format. A cell is a value of the column's type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from tests.fidelity import binary
from tests.fidelity.cases import SourceFile
from tests.fidelity.column_types import backticked, zone_in_use

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import RunningNode


class NotWrittenError(Exception):
    """ClickHouse does not write such a file."""


def ask(node: RunningNode, sql: str, *, files: dict[str, bytes] | None = None, **parameters: Any) -> bytes:
    """A statement over HTTP."""
    answer = httpx.post(
        f"http://{node.host}:{node.http_port}/",
        params={"query": sql, **parameters},
        files=files,
        auth=(node.credentials.login, node.credentials.password),
        timeout=60,
    )
    if answer.status_code != 200:
        raise NotWrittenError(answer.text[:500])
    return answer.content


def write_by_clickhouse(file: SourceFile, file_format: str, node: RunningNode) -> bytes:
    """A file's columns in a format of ClickHouse's."""
    structure = ", ".join(f"{backticked(lane.name)} {lane.of.sql}" for lane in file.lanes if lane.of)
    rows = zip(*(lane.cells for lane in file.lanes), strict=True)
    body = b"".join(
        binary.write(value, lane.of) for row in rows for value, lane in zip(row, file.lanes, strict=True) if lane.of
    )
    if not body:
        return ask(node, f"SELECT * FROM null({_literal(structure)}) FORMAT {file_format}")
    # Text of a column without a zone is in the zone in which it is read.
    return ask(
        node,
        f"SELECT * FROM source FORMAT {file_format}",
        files={"source": body},
        source_format="RowBinary",
        source_structure=structure,
        session_timezone=zone_in_use(),
    )


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
