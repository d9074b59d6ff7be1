"""Write statements on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.values.models import Node


class Rendered(Mapping[Node, Sql]):
    """The statement for each of some nodes, written when it is sent.

    Of months in lockstep one statement is sent for all, and none of their own is written.

    Args:
        nodes: The nodes.
        render: Writes the statement for a node.
    """

    def __init__(self, nodes: Iterable[Node], render: Callable[[Node], Sql]) -> None:
        self._nodes = tuple(nodes)
        self._render = render

    def __getitem__(self, node: Node) -> Sql:
        if node not in self._nodes:
            raise KeyError(node)
        return self._render(node)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
