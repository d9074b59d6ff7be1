"""List the versions of a table's periods, restore one, and let loads replace it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.arguments.load_arguments import OF_RESTORING, templated
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.operators._support.declared import takes
from airflow_provider_chs3.operators.ledger import LedgerOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.periods.restore import ListedVersion, RestoredPeriod


@takes()
class ListVersionsOperator(LedgerOperator):
    """List the versions that loads with `policies={'keep_versions': …}` have kept of a table's periods.

    Returns:
        For each version its period, rows, the attempt that had published it, the time at which it was replaced, and the
        bytes on disk that it alone holds, as JSON-safe values.
    """

    def listed(self) -> list[ListedVersion]:
        """Return the versions, as objects."""
        from airflow_provider_chs3.core.periods.restore import list_versions

        with airflow_errors():
            return self.runner().run(list_versions(self.request()))

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """List the versions."""
        return [version.as_json() for version in self.listed()]


class _OfNamedPeriods(LedgerOperator):
    def report(self, periods: Sequence[RestoredPeriod]) -> list[dict[str, Any]]:
        """Log what became of periods, and return it as JSON-safe values."""
        for period in periods:
            self.log.info("%s %s: %s (%s rows)", period.period, period.status, period.reason, f"{period.rows:,}")
        return [period.as_json() for period in periods]


@takes(*OF_RESTORING)
class RestorePeriodsOperator(_OfNamedPeriods):
    """Publish an earlier version of periods, and pin them: loads leave them until `UnpinPeriodsOperator` has run.

    The version is published as a load is: a restore that was killed is repeated by a retry. The replaced rows are kept
    as a version, too. `periods` is required.

    Returns:
        For each period its status, the version and its rows, as JSON-safe values.
    """

    template_fields: Sequence[str] = (*LedgerOperator.template_fields, *templated(OF_RESTORING))

    def __init__(self, *, version: str | None = None, replace_changed: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.version = version
        self.replace_changed = replace_changed

    def restored(self, by: str) -> list[RestoredPeriod]:
        """Restore the periods, and return them as objects.

        Args:
            by: Who asks.
        """
        from airflow_provider_chs3.core.load.staging_tables import make_nonce
        from airflow_provider_chs3.core.periods.restore import RestoreRequest, restore_periods

        with airflow_errors():
            request = self._request_of_named()
            given = {field.name: getattr(request, field.name) for field in fields(request)}
            asked = RestoreRequest(
                **given,
                version=self.version or None,
                by=by,
                nonce=make_nonce(datetime.now(UTC)),
                now=datetime.now(UTC),
                replaces_changed=self.replace_changed,
            )
            return self.runner().run(restore_periods(asked))

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Restore the periods."""
        ti = context.get("ti")
        return self.report(self.restored(f"{ti.dag_id} {ti.task_id} {ti.run_id}" if ti else self.task_id))


@takes()
class UnpinPeriodsOperator(_OfNamedPeriods):
    """Let loads replace restored periods again: the next one does, whatever its objects are. `periods` is required.

    Returns:
        For each period its status and its rows, as JSON-safe values.
    """

    def unpinned(self) -> list[RestoredPeriod]:
        """Unpin the periods, and return them as objects."""
        from airflow_provider_chs3.core.periods.restore import unpin_periods

        with airflow_errors():
            return self.runner().run(unpin_periods(self._request_of_named()))

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Unpin the periods."""
        return self.report(self.unpinned())
