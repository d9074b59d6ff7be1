"""List the versions of a table's periods, restore one, and let loads replace it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.arguments.load_arguments import OF_RESTORING
from airflow_provider_chs3.hooks.running_task import airflow_errors
from airflow_provider_chs3.operators.ledger import LedgerOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.periods.restore import RestoredPeriod


class ListVersionsOperator(LedgerOperator, takes=()):
    """List the versions that loads with `policies={'keep_versions': …}` have kept of a table's periods.

    Returns:
        For each version its period, rows, the attempt that had published it, the time at which it was replaced, and the
        bytes on disk that it alone holds, as JSON-safe values.
    """

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """List the versions."""
        with airflow_errors():
            return [version.as_json() for version in self.on_connection().list_versions(self.periods or ())]


class _OfNamedPeriods(LedgerOperator):
    def report(self, periods: Sequence[RestoredPeriod]) -> list[dict[str, Any]]:
        """Log what became of periods, and return it as JSON-safe values."""
        for period in periods:
            self.log.info("%s %s: %s (%s rows)", period.period, period.status, period.reason, f"{period.rows:,}")
        return [period.as_json() for period in periods]


class RestorePeriodsOperator(_OfNamedPeriods, takes=OF_RESTORING):
    """Publish an earlier version of periods, and pin them: loads leave them until `UnpinPeriodsOperator` has run.

    The version is published as a load is: a restore that was killed is repeated by a retry. The replaced rows are kept
    as a version, too. `periods` is required.

    Returns:
        For each period its status, the version and its rows, as JSON-safe values.
    """

    version: str | None
    replace_changed: bool

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Restore the periods."""
        ti = context.get("ti")
        by = f"{ti.dag_id} {ti.task_id} {ti.run_id}" if ti else self.task_id
        with airflow_errors():
            restored = self.on_connection().restore(
                self.periods or (), by=by, version=self.version or None, replaces_changed=self.replace_changed
            )
        return self.report(restored)


class UnpinPeriodsOperator(_OfNamedPeriods, takes=()):
    """Let loads replace restored periods again: the next one does, whatever its objects are. `periods` is required.

    Returns:
        For each period its status and its rows, as JSON-safe values.
    """

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Unpin the periods."""
        with airflow_errors():
            unpinned = self.on_connection().unpin(self.periods or ())
        return self.report(unpinned)
