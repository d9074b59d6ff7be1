"""Ask nodes of which some may not answer, and go on with the others."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.workflow.operations import Row, Steps, TryNodes
from airflow_provider_chs3.exceptions import Chs3Error


def try_nodes(name: str, statements: Mapping[Node, Sql], errors: dict[Node, Chs3Error]) -> Steps[dict[Node, list[Row]]]:
    """Ask each node.

    Args:
        name: What for, in words.
        statements: What to ask each.
        errors: Gets the error of each node that did not answer.

    Returns:
        The rows of the others.
    """
    answers: dict[Node, list[Row] | Chs3Error] = yield TryNodes(name=name, sql=statements)
    errors |= {node: answer for node, answer in answers.items() if isinstance(answer, Chs3Error)}
    return {node: answer for node, answer in answers.items() if not isinstance(answer, Chs3Error)}


def texts_of(errors: Mapping[Node, Chs3Error]) -> dict[Node, str]:
    """What the errors say.

    Args:
        errors: Those of nodes that did not answer.
    """
    return {node: str(error) for node, error in errors.items()}
