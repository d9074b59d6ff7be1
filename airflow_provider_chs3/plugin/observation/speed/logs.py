"""Ask nodes for their logs, which they may not have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.operations import Row, Steps, TryQueryNodes
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError

#: Why a table of `system` is not read.
NO_RIGHT = "the connection's user may not read it; docs/privileges.md has the GRANT"
_ACCESS_DENIED = 497
_UNKNOWN_TABLE = 60

#: A log of each node: its rows, or the reason why it has none.
Log = Mapping[Node, list[Row] | str]


def ask_log(name: str, statements: Mapping[Node, Sql]) -> Steps[Log]:
    """Read a log of each node, which it may not have."""
    answers = yield from TryQueryNodes(name=name, sql=statements)
    return {
        node: _explain_silence(answer) if isinstance(answer, Chs3Error) else answer for node, answer in answers.items()
    }


def _explain_silence(error: Chs3Error) -> str:
    if isinstance(error, ClickHouseServerError) and error.code == _UNKNOWN_TABLE:
        return "the server does not keep it, or has written nothing to it yet"
    if isinstance(error, ClickHouseServerError) and error.code == _ACCESS_DENIED:
        return NO_RIGHT
    return str(error)


def silent_logs(logs: Mapping[str, Log]) -> dict[Node, tuple[str, ...]]:
    """Return the reasons why logs have no data.

    A log that was switched on later, or cleared, has no loads. That counts only if it is so on all nodes: the log of a
    node without rows has none, either.

    Returns:
        Node → the reasons.
    """
    reasons: dict[Node, list[str]] = defaultdict(list)
    for name, log in logs.items():
        knows_none = not any(rows for rows in log.values() if not isinstance(rows, str))
        for node, rows in log.items():
            if isinstance(rows, str) or knows_none:
                reasons[node].append(f"{name}: {rows or 'it knows none of these loads'}")
    return {node: tuple(of_node) for node, of_node in reasons.items()}
