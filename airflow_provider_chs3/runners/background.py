"""Start statements that servers continue after their client is gone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from airflow_provider_chs3.core.cluster.topology import ONLY_NODE
from airflow_provider_chs3.core.optimize.request import ENDED, GOES_ON, StartOnNodes
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.workflow.operations import AnyStep
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseConnectionError, ClickHouseServerError
from airflow_provider_chs3.runners.blocking import Runner

#: Servers reject a wrong statement at once; one that takes longer than this continues in the background.
_PATIENCE_SECONDS = 2.0


def with_starts(runner: Runner) -> Callable[[AnyStep], Any]:
    """Return a function that performs steps as the runner does, and also `StartOnNodes`."""

    def perform(step: AnyStep) -> Any:
        return _start(step, runner) if isinstance(step, StartOnNodes) else runner.perform(step)

    return perform


def _start(step: StartOnNodes, runner: Runner) -> dict[Node, str | Chs3Error]:
    with ThreadPoolExecutor(max_workers=max(1, len(step.sql))) as pool:
        return dict(zip(step.sql, pool.map(lambda node: _start_on(node, step, runner), step.sql), strict=True))


def _start_on(node: Node, step: StartOnNodes, runner: Runner) -> str | Chs3Error:
    hook = runner.hook
    try:
        hook.query(
            step.sql[node].text,
            query_id=step.query_id[node],
            settings={**step.settings, **runner.log_comment},
            address=None if node == ONLY_NODE else hook.options.worker_address(node.host, node.port),
            send_receive_timeout_seconds=_PATIENCE_SECONDS,
        )
    except ClickHouseConnectionError:
        # No answer yet, a lost connection, or never sent: the next query of the node shows which.
        return GOES_ON
    except ClickHouseServerError as error:
        return error
    return ENDED
