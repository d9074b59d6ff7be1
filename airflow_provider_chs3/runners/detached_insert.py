"""Inserts of loads that outlive the process that started them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_chs3.core.sql.complete_answers import COMPLETE
from airflow_provider_chs3.core.workflow.operations import Insert, InsertStats
from airflow_provider_chs3.exceptions import ClickHouseConnectionError, InsertLostError
from airflow_provider_chs3.runners.blocking import Runner
from airflow_provider_chs3.runners.detached import DetachedQuery, Sent
from airflow_provider_chs3.runners.insert import announce


class DetachingRunner(Runner):
    """A `Runner` that starts inserts so that they outlive the process.

    Args:
        wait: Called while an insert runs, until it has ended; in Airflow it defers the task, and does not return.
        **kwargs: As for `Runner`.
    """

    def __init__(self, *, wait: Callable[[Insert], None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait = wait

    def insert(self, step: Insert) -> InsertStats:
        """Start an insert, or watch one that was started, and return its result.

        Raises:
            ClickHouseServerError: If the insert failed.
            ClickHouseConnectionError: If ClickHouse cannot be reached.
            InsertLostError: If no server knows how it ended.
        """
        query = DetachedQuery(
            hook=self.hook, query_id=step.query_id, cluster=step.cluster, secrets=tuple(step.sql.secrets)
        )
        sent = None if step.is_started else self._start(query, step)
        if sent and sent.stats:
            return sent.stats
        if sent and sent.was_hung_up and not query.is_running():
            return self._outcome_of_hung_up(query, sent)
        while query.is_running():
            self.wait(step)
        if stats := query.outcome():
            return stats
        raise InsertLostError(
            f"Insert {step.query_id} no longer runs, and no node's system.query_log shows how it ended: a server "
            "was restarted, or the connection's 'http_port' is not ClickHouse's HTTP port. The period was not "
            "published."
        )

    def _outcome_of_hung_up(self, query: DetachedQuery, sent: Sent) -> InsertStats:
        if stats := query.outcome(is_patient=False):
            return stats
        port = self.hook.options.http_port
        raise ClickHouseConnectionError(
            f"the HTTP port accepts connections and ends each without an answer, and no node runs the insert: give the "
            f"servers' HTTP port in the connection's extra 'http_port', which is {port}",
            f"{sent.address[0]}:{port}",
            query.query_id,
        )

    def _start(self, query: DetachedQuery, step: Insert) -> Sent:
        """Send the insert."""
        announce(step, self.log)
        sent = query.send(step.sql.text, settings={**COMPLETE, **step.settings, **self.log_comment})
        if sent.stats is None and not sent.was_hung_up:
            self.log.info("The insert continues without this process.")
        return sent
